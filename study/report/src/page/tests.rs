use std::sync::LazyLock;

use viaduct_cluster::result::RunResult;
use viaduct_scenario::{Override, Study};

use super::*;
use crate::outcome::StudyOutcome;
use crate::sample;
use crate::shown::{ShownCell, ShownRun};

const HOSTILE: &str = "<script>alert(1)</script> & \"<b>\"";

/// Two hosts at a switch: the sample's link is among theirs.
fn two_hosts(settings: &[&str]) -> (Study, String) {
    let overrides: Vec<Override> = settings.iter().map(|text| Override::fixed(*text)).collect();
    let study = Study::load("two-hosts", &overrides).unwrap();
    let text = study.resolved_toml();
    (study, text)
}

fn shown<'a>(name: &str, outcome: &'a StudyOutcome, study: &'a (Study, String)) -> ShownStudy<'a> {
    static RESULT: LazyLock<RunResult> = LazyLock::new(sample::result);
    shown_with(name, outcome, study, &RESULT)
}

/// With the same tables of every run.
fn shown_with<'a>(
    name: &str,
    outcome: &'a StudyOutcome,
    (study, text): &'a (Study, String),
    result: &'a RunResult,
) -> ShownStudy<'a> {
    let cells = outcome.cells.iter().map(|cell| ShownCell {
        set: &cell.set,
        published: &cell.published,
        config: &study.config,
        scenario_toml: text,
        runs: cell
            .runs
            .iter()
            .map(|run| ShownRun::new(run.made.as_ref().unwrap(), result))
            .collect(),
    });
    ShownStudy {
        name: name.to_owned(),
        title: String::new(),
        question: String::new(),
        source: String::new(),
        headline: "two hosts, one switch".to_owned(),
        version: "0.1.0".to_owned(),
        digest: outcome.digest(),
        runs_not_begun: outcome.runs_not_begun,
        cells: cells.collect(),
        differences: study.differences_from_defaults(),
        commands: vec![("viaduct rerun runs/x".to_owned(), "Again:".to_owned())],
    }
}

fn sections(page: &str) -> Vec<&str> {
    let parts = page.split("<section id=\"").skip(1);
    parts.map(|part| part.split('"').next().unwrap()).collect()
}

#[test]
fn a_sweep_has_its_curves_cells_and_what_is_wrong_with_them() {
    let mut outcome = sample::grid();
    outcome.runs_not_begun = 3;
    outcome.cells[0].set[1].1 = HOSTILE.to_owned();
    let page = sweep_page(&outcome, &[("viaduct sweep --resume .", "On:")]);
    check(&page);
    assert_eq!(sections(&page), ["warnings", "curves", "cells", "again"]);
    for text in [
        "1 cell failed",
        "1 cell is unstable",
        "3 runs were not made",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("<script>alert"));
    let empty = StudyOutcome {
        cells: Vec::new(),
        runs_not_begun: 0,
        ..outcome
    };
    check(&sweep_page(&empty, &[]));
}

/// What holds for every page.
fn check(page: &str) {
    assert!(page.starts_with("<!DOCTYPE html>"), "{}", &page[..40]);
    for element in [
        "svg", "section", "table", "figure", "details", "div", "main", "g",
    ] {
        let begun = page.matches(&format!("<{element}>")).count()
            + page.matches(&format!("<{element} ")).count();
        let ended = page.matches(&format!("</{element}>")).count();
        assert_eq!(begun, ended, "{element}");
    }
    for word in [
        "<script",
        "javascript:",
        "http:",
        "https:",
        "url(",
        "@import",
        "src=",
    ] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn one_run_has_its_numbers_pictures_settings_and_the_way_to_repeat_it() {
    let (outcome, study) = (sample::one_run(), two_hosts(&["traffic.size=2 KiB"]));
    let page = run_page(&shown("two-hosts", &outcome, &study));
    check(&page);
    assert_eq!(
        sections(&page),
        [
            "warnings", "results", "ranks", "latency", "stages", "links", "queues", "time",
            "bounds", "settings", "again"
        ]
    );
    for words in [
        "<td>mean latency, us</td><td class=\"n\">381.2\u{a0}\u{b1}\u{a0}0.4</td>",
        "144.7 M, 3 h 55 min",
        "Published: a paper, table 3",
        "raise `hosts.send_buffers`",
        "aria-label=\"Share of messages over latency\"",
        ">this run</text>",
        ">published</text>",
        // The rank that was waited for stands above the one that waited for it.
        "<td class=\"n\">1</td><td class=\"k\">n0-0</td><td class=\"n\">20.00</td><td \
         class=\"n\">50.00</td><td class=\"n\">10.00</td><td class=\"n\">30.00</td><td \
         class=\"n\"></td></tr>\n<tr><td class=\"n\">0</td>",
        "<td class=\"n\">rank 1: 20.00</td>",
        "aria-label=\"Who is waited for\"",
        "<td>traffic.<wbr>size</td><td>2 KiB</td>",
        "<pre>viaduct rerun runs&#x2f;x</pre>",
        "digest 0123456789abcdef",
        "prefers-color-scheme:dark",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn what_comes_from_a_file_is_text() {
    let (mut outcome, study) = (sample::three_seeds(), two_hosts(&[]));
    for run in &mut outcome.cells[0].runs {
        run.summary_mut().warnings[0].text = HOSTILE.to_owned();
        run.summary_mut().warnings[0].help = Some(HOSTILE.to_owned());
        run.summary_mut().violations.push(HOSTILE.to_owned());
        run.summary_mut()
            .breakdown_us
            .insert(HOSTILE.to_owned(), 1.0);
        run.summary_mut().ended = "interrupted".to_owned();
    }
    outcome.cells[0].published.sources.push(HOSTILE.to_owned());
    let mut sweep = sample::sweep();
    for cell in &mut sweep.cells {
        cell.set[0] = (HOSTILE.to_owned(), HOSTILE.to_owned());
    }
    let mut first = shown(HOSTILE, &outcome, &study);
    for text in [
        &mut first.title,
        &mut first.question,
        &mut first.source,
        &mut first.headline,
    ] {
        *text = HOSTILE.to_owned();
    }
    first.commands = vec![(HOSTILE.to_owned(), HOSTILE.to_owned())];
    first.differences[0].value = HOSTILE.to_owned();
    first.differences[0].default = Some(HOSTILE.to_owned());
    let second = shown("plain", &sweep, &study);
    for page in [
        run_page(&first),
        run_page(&second),
        comparison_page(&[first, second]),
    ] {
        check(&page);
        assert!(!page.contains("<b>"), "as text only");
        assert!(page.contains("&lt;script&gt;alert(1)"));
    }
}

#[test]
fn a_sweep_has_curves_and_some_points_in_detail() {
    let (mut outcome, study) = (sample::sweep(), two_hosts(&[]));
    outcome.runs_not_begun = 3;
    let page = run_page(&shown("two-hosts", &outcome, &study));
    check(&page);
    assert_eq!(
        sections(&page),
        [
            "warnings", "results", "curves", "latency", "stages", "cells", "settings", "again"
        ]
    );
    assert_eq!(page.matches("<details>").count(), 2);
    assert!(page.contains("3 runs were not begun"));
    assert!(page.contains("<summary>traffic.size = 1 KiB (too short for an interval)</summary>"));
    assert!(page.contains(">ours</text>") && page.contains(">published</text>"));
}

#[test]
fn a_sweep_of_thousands_makes_a_page_of_bounded_size() {
    let (mut outcome, study) = (sample::sweep(), two_hosts(&[]));
    let cell = outcome.cells[0].clone();
    outcome.cells = (0..3_000)
        .map(|number| {
            let mut cell = cell.clone();
            cell.set[0].1 = format!("{number} B");
            cell
        })
        .collect();
    let page = run_page(&shown("two-hosts", &outcome, &study));
    check(&page);
    assert!(page.contains("500 of 3000 points"));
    assert!(page.len() < 2_000_000, "{}", page.len());
    assert_eq!(page.matches("<details>").count(), 4);
}

#[test]
fn runs_are_compared_with_the_first_and_only_what_differs_is_listed() {
    let (first, second) = (two_hosts(&[]), two_hosts(&["traffic.size=2 KiB"]));
    let (one, mut other) = (sample::one_run(), sample::one_run());
    other.cells[0].runs[0].summary_mut().latency_us.p99 = Some(2.0 * 655.1);
    let page = comparison_page(&[shown("a", &one, &first), shown("b", &other, &second)]);
    check(&page);
    assert_eq!(
        sections(&page),
        [
            "warnings", "results", "settings", "latency", "stages", "links", "time", "again"
        ]
    );
    let row = "<td>p99, us</td><td class=\"n\">655.1</td><td class=\"n\">1,310.2 (+100.0 %)</td>";
    assert!(page.contains(row), "{page}");
    assert!(page.contains("<td>traffic.<wbr>size</td>"));
    assert!(!page.contains("<td>traffic.<wbr>pattern</td>"));
    let same = comparison_page(&[shown("a", &one, &first), shown("b", &one, &first)]);
    assert!(same.contains("None: the same scenario"));
}

#[test]
fn a_run_that_measured_nothing_has_a_page() {
    let (mut outcome, study) = (sample::one_run(), two_hosts(&[]));
    let summary = outcome.cells[0].runs[0].summary_mut();
    summary.latency_us = crate::LatencySummary::default();
    summary.breakdown_us = crate::OrderedMap::default();
    let mut result = sample::result();
    result.latency = None;
    result.series.clear();
    result.link_rows.clear();
    let page = run_page(&shown_with("two-hosts", &outcome, &study, &result));
    check(&page);
    let found = sections(&page);
    assert!(
        !found.contains(&"latency") && !found.contains(&"links"),
        "{found:?}"
    );
}
