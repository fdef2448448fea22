//! Pages and pictures of run directories, from outside.

use std::fs;

use crate::support::{Folder, text};

#[test]
fn each_subject_is_drawn_in_each_format_with_its_numbers_beside_it() {
    let folder = Folder::new();
    folder.succeed(&["run", "two-hosts", "--out", "run", "--quiet"]);
    for (what, header) in [
        ("latency", "run,quantile_fraction,latency_us\n"),
        ("tail", "run,slower_fraction,latency_us\n"),
        ("links", "place,utilisation_fraction\n"),
        ("stages", "cell,stage,mean_us\n"),
        ("time", "run,end_s,posted_messages,"),
    ] {
        for (ending, start) in [
            ("svg", &b"<svg "[..]),
            ("pdf", b"%PDF-"),
            ("png", b"\x89PNG"),
        ] {
            let name = format!("{what}-{ending}.{ending}");
            folder.succeed(&["plot", "run", "--what", what, "-o", &name]);
            let picture = fs::read(folder.join(&name)).unwrap();
            assert!(picture.starts_with(start), "{name}");
            let numbers = folder.read(&format!("{what}-{ending}.csv"));
            assert!(numbers.starts_with(header), "{numbers}");
            assert!(numbers.lines().count() > 2, "{numbers}");
        }
    }
    let stages = folder.read("stages-svg.csv");
    let sum: f64 = stages
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().unwrap().parse::<f64>().unwrap())
        .sum();
    let summary: serde_json::Value =
        serde_json::from_str(&folder.read("run/summary.json")).unwrap();
    let mean = summary["latency_us"]["mean"].as_f64().unwrap();
    assert!((sum - mean).abs() < 1e-4 * mean, "{sum} {mean}");
}

#[test]
fn a_page_that_is_written_again_is_the_one_of_the_run() {
    let folder = Folder::new();
    folder.succeed(&[
        "run",
        "two-hosts",
        "--out",
        "run",
        "--seeds",
        "2",
        "--quiet",
    ]);
    folder.succeed(&["report", "run", "-o", "again.html"]);
    // The commands and the settings are told from the directory, not from what was typed.
    let pictures = |page: &str| {
        let end = page.find("<section id=\"settings\"").unwrap();
        page[page.find("<section").unwrap()..end].to_owned()
    };
    let (first, again) = (folder.read("run/report.html"), folder.read("again.html"));
    assert_eq!(pictures(&first), pictures(&again));
    assert!(first.contains("viaduct run two-hosts --seeds 2"));
    assert!(again.contains("viaduct rerun run"));
}

#[test]
fn cells_and_seeds_are_chosen() {
    let folder = Folder::new();
    let until = "run.messages_max=20";
    folder.succeed(&[
        "run", "four-hop", "--set", until, "--seeds", "2", "--out", "run", "--quiet",
    ]);
    folder.succeed(&[
        "plot", "run", "--what", "latency", "-o", "a.svg", "--cell", "4", "--seed", "2",
    ]);
    let numbers = folder.read("a.csv");
    assert!(
        numbers
            .lines()
            .skip(1)
            .all(|line| line.starts_with("traffic.size = 64 B,")),
        "{numbers}"
    );
    let output = folder.run(&["plot", "run", "--what", "stages", "-o", "b.svg"]);
    assert!(
        text(&output.stderr).contains("7 more are left out"),
        "{}",
        text(&output.stderr)
    );
    let said = folder.failure(
        1,
        &[
            "plot", "run", "--what", "time", "-o", "a.svg", "--cell", "11",
        ],
    );
    assert_eq!(
        said,
        "error: --cell 11: the run has no such cell\nhelp: it has 11 cells, 0 to 10\n"
    );
    let said = folder.failure(
        1,
        &[
            "plot", "run", "--what", "time", "-o", "a.svg", "--seed", "9",
        ],
    );
    assert_eq!(
        said,
        "error: --seed 9: no run has it\nhelp: there are 1, 2\n"
    );
}

#[test]
fn what_cannot_be_shown_is_told() {
    let folder = Folder::new();
    folder.succeed(&["run", "two-hosts", "--out", "run", "--quiet"]);
    let said = folder.failure(1, &["plot", "run", "--what", "latency", "-o", "a.gif"]);
    assert!(
        said.contains("-o a.gif") && said.contains(".svg, .pdf or .png"),
        "{said}"
    );
    let said = folder.failure(1, &["report", "nowhere"]);
    assert!(said.contains("nowhere/summary.json"), "{said}");
    assert!(!folder.join("report.html").exists());
    let said = folder.failure(1, &["report", "run", "-o", "no/such/place.html"]);
    assert!(
        said.contains("-o no/such/place.html: cannot write"),
        "{said}"
    );
    fs::write(folder.join("run/links.parquet"), b"PAR1").unwrap();
    let said = folder.failure(1, &["plot", "run", "--what", "links", "-o", "a.svg"]);
    assert!(said.contains("run/links.parquet"), "{said}");
    assert!(!folder.join("a.svg").exists() && !folder.join("a.csv").exists());
}

/// Measurements of two machines in files: latency of each, and a rate.
fn measurements() -> Folder {
    let folder = Folder::with("a.json", include_str!("../fixtures/shm-latency.json"));
    let one = folder.read("a.json");
    let named = |machine: &str| {
        let words = format!(
            "\"machine\":\"{machine}\",\"processor\":\"P\",\"date\":\"2026-11-23T08:00:00Z\",\
             \"version\":\"0.1.0\",\"rows\""
        );
        one.replace("\"rows\"", &words)
    };
    fs::write(folder.join("a.json"), named("first")).unwrap();
    // Other sizes: the first is missing.
    let second = named("second");
    let lines = second
        .lines()
        .enumerate()
        .filter(|(number, _)| *number != 1);
    let second: String = lines.map(|(_, line)| format!("{line}\n")).collect();
    fs::write(folder.join("b.json"), second).unwrap();
    let rate = folder.succeed(&["measure", "rate", "--on", "sim:clan-pio", "--json"]);
    fs::write(folder.join("rate.json"), rate).unwrap();
    folder
}

#[test]
fn measurements_of_two_machines_are_shown_side_by_side() {
    let folder = measurements();
    folder.succeed(&["plot", "a.json", "b.json", "-o", "both.svg"]);
    let svg = folder.read("both.svg");
    for words in [
        "shm on first, second: latency",
        ">shm on first<",
        ">shm on second<",
    ] {
        assert!(svg.contains(words), "{words}");
    }
    let numbers = folder.read("both.csv");
    assert!(
        numbers.starts_with("line,bytes,half_rtt_us\n\"shm on first\",0,0.172\n"),
        "{numbers}"
    );
    assert_eq!(numbers.lines().count(), 1 + 10 + 9);

    folder.succeed(&["report", "a.json", "b.json", "rate.json", "-o", "page.html"]);
    let page = folder.read("page.html");
    for words in [
        "first",
        "second",
        "2026-11-23T08:00:00Z",
        "id=\"latency\"",
        "id=\"rate\"",
        "clan-pio",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // A size that only one has.
    assert!(
        page.contains("<td class=\"n\">0.172</td><td class=\"n\">-</td>"),
        "{page}"
    );
}

#[test]
fn measurements_that_do_not_go_together_are_refused() {
    let folder = measurements();
    fs::write(folder.join("other.json"), "{\"name\": 3}").unwrap();
    for (arguments, words) in [
        (
            &["plot", "a.json", "rate.json", "-o", "x.svg"][..],
            "measurements of latency and of rate",
        ),
        (
            &["plot", "a.json", "--what", "latency", "-o", "x.svg"],
            "mean nothing for measurements",
        ),
        (
            &["plot", "nowhere.json", "-o", "x.svg"],
            "there is no such file",
        ),
        (
            &["plot", "other.json", "-o", "x.svg"],
            "holds no measurement",
        ),
        (
            &["report", "a.json", "runs", "-o", "x.html"],
            "is a measurement, and others are runs",
        ),
        (&["plot", "runs", "-o", "x.svg"], "`--what` is missing"),
    ] {
        let told = folder.failure(1, arguments);
        assert!(told.contains(words), "{told}");
    }
    assert!(!folder.join("x.svg").exists());
}

#[test]
fn a_sweep_shows_intervals_and_which_points_are_not_steady() {
    let folder = Folder::small();
    // The last rate is far beyond what the links carry.
    let sweep = [
        "sweep",
        "small.toml",
        "--seeds",
        "3",
        "--out",
        "sweep",
        "--quiet",
    ];
    folder.succeed(&[&sweep[..], &["--set", "traffic.rate=1000,2000,4000,60000"]].concat());
    let mean = folder.read("sweep/latency-mean.svg");
    assert!(mean.contains("bars: 95 % interval"), "{mean}");
    let carried = folder.read("sweep/carried.svg");
    assert!(carried.contains("empty marks: not steady"), "{carried}");
    assert!(
        folder
            .read("sweep/report.html")
            .contains("empty marks: not steady")
    );
}
