//! `viaduct reproduce` from outside.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

mod support;
use support::text;

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
    // A header, a rule, and a row each.
    assert!(table.lines().count() > 9, "{table}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in ["README.md", "docs/trust.md"] {
        assert!(
            fs::read_to_string(root.join(page))
                .unwrap()
                .contains(&table),
            "{page} has another table than `viaduct reproduce --markdown`:\n{table}"
        );
    }
}

#[test]
fn a_miss_is_exit_code_three() {
    let path = scenario("missed.toml", 35.0, "");
    let output = reproduce(&[&path, "--json"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&object["met"], &object["missed"]), (&0.into(), &1.into()));
    let row = &object["comparisons"][0];
    assert_eq!(row["is_met"], false);
    assert_eq!(row["tolerance"], 0.05);
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
