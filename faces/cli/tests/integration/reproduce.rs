//! `viaduct reproduce` from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use viaduct_scenario::{Confidence, PresetNumber, list_models};

use crate::support::text;

fn reproduce(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_viaduct"))
        .args(["reproduce", "--quiet"])
        .args(arguments)
        .output()
        .unwrap()
}

/// The study `four-hop` at 64 bytes only, with another published figure.
fn scenario(name: &str, value: f64, tolerance: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let study = fs::read_to_string(root.join("studies/four-hop.toml")).unwrap();
    let settings = study.split("[sweep]").next().unwrap();
    let settings = settings.replace("[traffic]", "[traffic]\nsize = \"64 B\"");
    let figure =
        format!("[[published]]\nquantity = \"latency_us.mean\"\nvalue = {value}\n{tolerance}\n");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, format!("{settings}\n{figure}")).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_published_figure_is_met_and_the_docs_say_so() {
    let output = reproduce(&["--markdown"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    // What calibrated a preset is met closely, or it is not what calibrated it.
    let given = table.lines().filter(|row| row.ends_with("met, given |"));
    assert!(given.clone().count() > 20, "{table}");
    for row in given {
        assert!(row.contains("| 2 % |"), "{row}");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    assert!(
        page("docs/trust.md").contains(&table),
        "docs/trust.md has another table than `viaduct reproduce --markdown`:\n{table}"
    );
    // The README has some rows in its own words: study first, the same figures behind it.
    let readme = page("README.md");
    let trust = readme.split("## How far to trust it").nth(1).unwrap();
    let rows = trust.lines().filter(|line| line.starts_with("| `"));
    let mut count = 0;
    for row in rows.take_while(|row| row.ends_with(" |")).take(5) {
        let (name, figures) = row["| `".len()..].split_once("`: ").unwrap();
        let figures: Vec<&str> = figures.split(" | ").skip(1).collect();
        let is_printed = |line: &str| {
            let cells: Vec<&str> = line.split(" | ").collect();
            let [study, _, _, published, _, _, ours, difference, _, verdict] = cells[..] else {
                return false;
            };
            study == format!("| {name}") && figures == [published, ours, difference, verdict]
        };
        assert!(table.lines().any(is_printed), "not printed: {row}\n{table}");
        count += 1;
    }
    assert_eq!(count, 5);
}

#[test]
fn a_miss_is_exit_code_three() {
    let path = scenario("missed.toml", 35.0, "");
    let output = reproduce(&[&path, "--json"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&object["met"], &object["missed"]), (&0.into(), &1.into()));
    assert_eq!(object["version"], env!("CARGO_PKG_VERSION"));
    let row = &object["comparisons"][0];
    let difference = row["ours"].as_f64().unwrap() / 35.0 - 1.0;
    assert!(
        (row["difference"].as_f64().unwrap() - difference).abs() < 1e-8,
        "{row}"
    );
    let is = [
        "study",
        "point",
        "quantity",
        "role",
        "published",
        "tolerance",
        "is_met",
    ];
    let expected =
        serde_json::json!(["missed", "", "latency_us.mean", "result", 35.0, 0.05, false]);
    assert_eq!(
        Value::from(is.map(|name| row[name].clone()).to_vec()),
        expected
    );
    assert!(row["sources"].is_array(), "{row}");
    let output = reproduce(&[&path]);
    assert!(text(&output.stdout).contains("MISSED"));
}

#[test]
fn a_figure_states_its_own_tolerance() {
    let path = scenario("tolerant.toml", 35.0, "tolerance = \"10 %\"");
    let output = reproduce(&[&path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("1 of 1 figures met"));
}

#[test]
fn what_was_predicted_blind_never_changes_the_exit_code() {
    let blind = "role = \"predicted\"\nblind = 30\nblind_by = \"0.1.0\"";
    let path = scenario("blind.toml", 100.0, blind);
    let output = reproduce(&[&path, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts = ["met", "missed", "predicted"].map(|field| &object[field]);
    assert_eq!(counts, [0, 0, 1].map(Value::from).each_ref());
    let row = &object["comparisons"][0];
    assert_eq!(
        (&row["blind"], &row["is_met"]),
        (&30.0.into(), &Value::Null)
    );
    let output = reproduce(&[&path]);
    assert!(text(&output.stdout).contains("1 predicted blind by 0.1.0: off by 70.0 %"));
    // A figure that nobody predicted is no prediction.
    let path = scenario("not_blind.toml", 100.0, "role = \"predicted\"");
    let output = reproduce(&[&path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("`blind`"),
        "{}",
        text(&output.stderr)
    );
}

/// Those of the presets that ship, each once however many inherit it.
fn fitted() -> Vec<PresetNumber> {
    let mut all: Vec<PresetNumber> = Vec::new();
    for preset in list_models() {
        for number in preset.numbers {
            let is_same = |other: &PresetNumber| {
                (other.table, other.key, &other.rows) == (number.table, number.key, &number.rows)
            };
            if number.confidence == Confidence::Fitted && !all.iter().any(is_same) {
                all.push(number);
            }
        }
    }
    all
}

#[test]
fn each_fitted_number_has_a_given_row_of_its_own() {
    let output = reproduce(&["--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let given: Vec<String> = object["comparisons"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["role"] == "given")
        .map(|row| {
            let parts = ["study", "point", "quantity"].map(|part| row[part].as_str().unwrap());
            parts.join(", ")
        })
        .collect();
    let numbers = fitted();
    // Row by row, the number that it is for. A number whose rows are all taken moves another.
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    fn place<'n>(
        at: usize,
        numbers: &'n [PresetNumber],
        taken: &mut BTreeMap<&'n str, usize>,
        seen: &mut Vec<&'n str>,
    ) -> bool {
        for row in &numbers[at].rows {
            if seen.contains(&row.as_str()) {
                continue;
            }
            seen.push(row);
            let other = taken.get(row.as_str()).copied();
            if other.is_none_or(|other| place(other, numbers, taken, seen)) {
                taken.insert(row, at);
                return true;
            }
        }
        false
    }
    for (at, number) in numbers.iter().enumerate() {
        let PresetNumber {
            table, key, rows, ..
        } = number;
        assert!(
            !rows.is_empty(),
            "{table}.{key} does not say what it was fitted to"
        );
        for row in rows {
            assert!(
                given.contains(row),
                "{table}.{key}: no given row is called {row:?}"
            );
        }
        let has_row = place(at, &numbers, &mut taken, &mut Vec::new());
        assert!(
            has_row,
            "{table}.{key}: more numbers than rows were fitted to {rows:?}"
        );
    }
    assert!(numbers.len() > 10 && numbers.len() <= given.len());
}

/// The preset or study of a row, with one number of its hosts changed, as a file that `viaduct
/// reproduce` takes.
fn with_number(row: &str, number: &PresetNumber, value: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("perturbed");
    fs::create_dir_all(&directory).unwrap();
    let write = |name: &str, text: String| {
        fs::write(directory.join(name), text).unwrap();
        directory.join(name).to_str().unwrap().to_owned()
    };
    let name = row.split(", ").next().unwrap();
    let changed = |base: &str, figures: &str| {
        let PresetNumber { table, key, .. } = number;
        format!(
            "name = \"{base}\"\ninherits = \"{base}\"\n[{table}]\n{key} = {{ value = {value}, source = \
             \"changed\", confidence = \"assumed\" }}\n{figures}"
        )
    };
    if let Some(preset) = name.strip_prefix("sim:") {
        let text = fs::read_to_string(root.join(format!("models/{preset}.toml"))).unwrap();
        let figures = &text[text.find("[[published]]").unwrap()..];
        return write(&format!("{preset}.toml"), changed(preset, figures));
    }
    let study = fs::read_to_string(root.join(format!("studies/{name}.toml"))).unwrap();
    let (before, rest) = study.split_once("nic = \"").unwrap();
    let (base, after) = rest.split_once('"').unwrap();
    write("hosts.toml", changed(base, ""));
    write(
        &format!("{name}.toml"),
        format!("{before}nic = \"hosts.toml\"{after}"),
    )
}

#[test]
fn a_quarter_more_or_less_of_a_fitted_number_misses_a_row() {
    for number in fitted() {
        for factor in [0.75, 1.0, 1.25] {
            let value = match number.value.parse::<f64>() {
                Ok(count) => format!("{}", (count * factor).round()),
                Err(_) => format!("\"{}\"", number.scaled(factor, 6).unwrap().value),
            };
            let exits: BTreeSet<Option<i32>> = number
                .rows
                .iter()
                .map(|row| {
                    reproduce(&[&with_number(row, &number, &value)])
                        .status
                        .code()
                })
                .collect();
            let PresetNumber { table, key, .. } = &number;
            if factor == 1.0 {
                assert_eq!(exits, [Some(0)].into(), "{table}.{key} = {value}");
            } else {
                assert!(
                    exits.contains(&Some(3)),
                    "{table}.{key} = {value}: {exits:?}"
                );
            }
        }
    }
}

#[test]
fn a_figure_that_cannot_be_measured_is_told_by_its_place() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("figure.toml");
    for (base, test, size, unit, title) in [
        ("am-myrinet", "gap", "16 B", "us", ""),
        (
            "am-myrinet",
            "gap",
            "16 B",
            "MB/s",
            "figures of `gap` are in us",
        ),
        (
            "am-myrinet",
            "gap",
            "32 B",
            "us",
            "`gap` has no messages of 32 B",
        ),
        (
            "am-myrinet",
            "latency",
            "16 B",
            "us",
            "mechanism `endpoints` cannot be measured by `latency`",
        ),
        (
            "clan-pio",
            "bulk",
            "4 KiB",
            "MB/s",
            "cannot be measured by `bulk`",
        ),
        (
            "clan-pio",
            "latency",
            "4 B",
            "Mbit/s",
            "figures of `latency` are in us",
        ),
    ] {
        let preset = format!(
            "name = \"mine\"\ninherits = \"{base}\"\n[[published]]\ntest = \"{test}\"\nsize = \"{size}\"\n\
             value = 15.2\nunit = \"{unit}\"\nsource = \"a test\"\n"
        );
        fs::write(&path, preset).unwrap();
        let output = reproduce(&[path.to_str().unwrap()]);
        let errors = text(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(i32::from(!title.is_empty())),
            "{errors}"
        );
        assert!(errors.contains(title), "{errors}");
        assert!(
            title.is_empty() || errors.contains("figure.toml:"),
            "{errors}"
        );
    }
}

#[test]
fn without_figures_there_is_nothing_to_compare() {
    let output = reproduce(&["two-hosts"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).contains("has no published figures"));
}

#[test]
fn a_preset_is_named_as_the_table_names_it() {
    let [plain, as_shown] = ["clan", "sim:clan"].map(|name| reproduce(&[name, "--json"]));
    assert_eq!(plain.status.code(), Some(0), "{}", text(&plain.stderr));
    assert_eq!(text(&plain.stdout), text(&as_shown.stdout));
    for (name, wrong) in [
        ("m-via-jumbo", "nothing was published for the preset"),
        ("sim:nope", "no preset is called"),
    ] {
        let output = reproduce(&[name]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        let errors = text(&output.stderr);
        assert!(errors.contains(wrong), "{errors}");
    }
}
