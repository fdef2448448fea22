//! Small scenarios give the same digest in a debug and in a release build.
//!
//! The two builds differ in optimisation, in fused and reordered code, and in checks of overflow: a
//! result that leans on any of these shows here.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use cargo_metadata::Metadata;
use serde_json::Value;

use crate::{Finding, Findings, build_viaduct};

/// A study, what is set in it, and what it exercises.
const SCENARIOS: &[(&str, &[&str])] = &[
    ("four-hop", &["traffic.size=64 B"]),
    ("torus-1024", SHORT),
    (
        "torus-1024",
        &["hosts.nic=ideal", "links.model=max-min", SHORT[0], SHORT[1]],
    ),
    (
        "torus-1024",
        &[
            "links.switching=store-and-forward",
            "traffic.rate=500",
            SHORT[0],
            SHORT[1],
        ],
    ),
    ("prepost-drops", &[]),
    ("bus-contention", &[]),
];

const SHORT: &[&str] = &["run.until=30 ms", "run.warmup=5 ms"];

/// Builds both and compares.
pub(crate) fn compare(metadata: &Metadata) -> Findings {
    let debug = build_viaduct(metadata, false)?;
    let release = build_viaduct(metadata, true)?;
    let mut findings = Vec::new();
    for (study, settings) in SCENARIOS {
        let of_debug = digest(&debug, study, settings)?;
        let of_release = digest(&release, study, settings)?;
        if of_debug != of_release {
            let text = format!("digest {of_debug} in debug, {of_release} in release");
            findings.push(Finding::new(shown(study, settings), text));
        }
    }
    println!(
        "digests: {} scenarios in debug and release",
        SCENARIOS.len()
    );
    Ok(findings)
}

fn shown(study: &str, settings: &[&str]) -> String {
    let mut shown = format!("viaduct run {study} --no-out --json");
    for setting in settings {
        shown.push_str(&format!(" --set '{setting}'"));
    }
    shown
}

fn digest(viaduct: &Path, study: &str, settings: &[&str]) -> Result<String, Box<dyn Error>> {
    let mut command = Command::new(viaduct);
    command.args(["run", study, "--no-out", "--json", "--quiet"]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    let output = command.output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{}: {}\n{message}", shown(study, settings), output.status).into());
    }
    read_digest(&output.stdout).map_err(|text| format!("{}: {text}", shown(study, settings)).into())
}

/// The digest of one summary, or those of each row of a sweep, in order.
fn read_digest(summary: &[u8]) -> Result<String, String> {
    let value: Value =
        serde_json::from_slice(summary).map_err(|error| format!("not JSON: {error}"))?;
    let mut digests = Vec::new();
    collect_digests(&value, &mut digests);
    if digests.is_empty() {
        return Err("the summary has no `digest`".to_owned());
    }
    Ok(digests.join(" "))
}

fn collect_digests(value: &Value, digests: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(digest) if name == "digest" => digests.push(digest.clone()),
                    _ => collect_digests(member, digests),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_digests(item, digests)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digest_counts() {
        assert_eq!(
            read_digest(br#"{"digest": "a1", "events": 3}"#),
            Ok("a1".to_owned())
        );
        let sweep = br#"{"rows": [{"digest": "a1"}, {"digest": "b2"}]}"#;
        assert_eq!(read_digest(sweep), Ok("a1 b2".to_owned()));
    }

    #[test]
    fn summary_without_digest_is_an_error() {
        assert!(read_digest(b"{}").is_err());
        assert!(read_digest(b"no json").unwrap_err().starts_with("not JSON"));
    }
}
