//! Pages and pictures of run directories, from outside.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

mod support;
use support::{Folder, text};

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
