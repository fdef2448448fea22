//! Runs the test programs of the workspace side by side.
//!
//! `cargo test` runs one after another. While one waits for a timer or for another process, or has
//! a single test left, the next one has the other processors.

use std::error::Error;
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::metadata::{Artifact, Metadata, Package};
use crate::side_by_side::{Ended, side_by_side, workers};
use crate::{Finding, Findings, cargo};

/// Programs that take half a minute and longer: they come first, so that none of them is left alone
/// at the end.
const LONG: [&str; 8] = [
    "matrix of viaduct-scenario",
    "viaduct_shm of viaduct-shm",
    "integration of viaduct-vipl",
    "conformance of viaduct-vipl",
    "integration of viaduct-simulated-time",
    "integration of viaduct-cli",
    "viaduct_fit of viaduct-fit",
    "record of viaduct-cli",
];

/// Lines that say why a program failed.
const LONGEST_REASON: usize = 60;
/// What a conformance suite says of a case that failed, and how many lines that takes.
const FAILED: &str = " FAILED ";
const LINES_OF_A_CASE: usize = 4;

/// An executable that `cargo test` would run.
#[derive(Clone, Debug)]
struct Program {
    name: String,
    executable: PathBuf,
    package: Package,
}

/// Builds and runs all tests; `flags` are cargo's, such as `--offline`. What a program prints comes
/// whole when the program ends.
pub(crate) fn run_all(metadata: &Metadata, flags: &[String]) -> Findings {
    let programs = build(metadata, flags)?;
    let count = programs.len();
    // Programs wait for timers and other processes: one more than there are processors uses those.
    let mut findings = side_by_side(programs, workers() + 1, run)?;
    println!("{} of {count} test programs passed", count - findings.len());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let examples = [
        &["test", "--workspace", "--doc", "--no-fail-fast"],
        &flags[..],
    ]
    .concat();
    if let Err(error) = cargo(metadata, &examples) {
        findings.push(Finding::new("examples in docs", error.to_string()));
    }
    Ok(findings)
}

fn build(metadata: &Metadata, flags: &[String]) -> Result<Vec<Program>, Box<dyn Error>> {
    let mut cargo = metadata.cargo();
    cargo
        .args(["test", "--workspace", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .args(flags)
        .stdout(Stdio::piped());
    let mut child = cargo.spawn()?;
    let output = child.stdout.take().ok_or("cargo has no output")?;
    let mut programs = Vec::new();
    for artifact in Artifact::read_all(BufReader::new(output)) {
        let artifact = artifact?;
        // Commands that tests call are built too; they are not tests.
        let (true, Some(executable)) = (artifact.is_test(), &artifact.executable) else {
            continue;
        };
        let package = metadata.package_of(&artifact);
        let package = package.ok_or("cargo built a test of an unknown package")?;
        programs.push(Program {
            name: format!("{} of {}", artifact.target.name, package.name),
            executable: executable.clone(),
            package: package.clone(),
        });
    }
    if !child.wait()?.success() {
        return Err("the tests cannot be built".into());
    }
    // Cargo tells of them in the order in which they happen to be built.
    programs.sort_by(|a, b| order(a).cmp(&order(b)));
    Ok(programs)
}

/// What they are sorted by: those that take long come first, the others by name.
fn order(program: &Program) -> (usize, &str) {
    let name = program.name.as_str();
    let long = LONG.iter().position(|long| *long == name);
    (long.unwrap_or(LONG.len()), name)
}

/// Runs it where and as cargo would.
fn run(program: &Program) -> io::Result<Ended> {
    let package = &program.package;
    let folder = package.folder();
    let begin = Instant::now();
    let output = Command::new(&program.executable)
        .current_dir(folder)
        .env("CARGO_MANIFEST_DIR", folder)
        .env("CARGO_PKG_NAME", &package.name)
        .env("CARGO_PKG_VERSION", &package.version)
        .stdin(Stdio::null())
        .output()?;
    let seconds = begin.elapsed().as_secs_f64();
    let mut printed = format!("     Running {} took {seconds:.1} s\n", program.name).into_bytes();
    printed.extend(output.stdout);
    printed.extend(output.stderr);
    let mut findings = Vec::new();
    if !output.status.success() {
        let reason = reason(&String::from_utf8_lossy(&printed)).join("\n    ");
        let wrong = format!("ended with {}\n    {reason}", output.status);
        findings.push(Finding::new(&program.name, wrong));
    }
    Ok(Ended { printed, findings })
}

/// Which tests failed and how, as the test runner lists them behind all tests; else the cases of a
/// conformance suite that failed, and the last that was printed. It is said again behind all
/// programs: a log that keeps its end alone has it.
fn reason(printed: &str) -> Vec<&str> {
    let lines: Vec<&str> = printed.lines().collect();
    if let Some(begin) = lines.iter().position(|line| *line == "failures:") {
        let listed = lines[begin..].iter().copied();
        return listed.take(LONGEST_REASON).collect();
    }
    let failed = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.contains(FAILED));
    let cases: Vec<&str> = failed
        .flat_map(|(at, _)| lines[at..].iter().copied().take(LINES_OF_A_CASE))
        .take(LONGEST_REASON)
        .collect();
    let last = lines.len().saturating_sub(LONGEST_REASON - cases.len());
    [&cases, &lines[last..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_exits_with_an_error_has_failed() {
        let metadata = Metadata::read().unwrap();
        let findings = |executable: &str| {
            let program = Program {
                name: executable.to_owned(),
                executable: PathBuf::from(executable),
                package: metadata.packages[0].clone(),
            };
            run(&program).unwrap().findings
        };
        assert_eq!(findings("true"), []);
        let found = findings("false").remove(0).to_string();
        let wanted = "false: ended with exit status: 1\n         Running false took ";
        assert!(found.starts_with(wanted), "{found}");
    }

    #[test]
    fn failed_tests_are_named_with_what_they_printed() {
        let printed = "running 2 tests\ntest one ... ok\ntest two ... FAILED\n\nfailures:\n\n\
                       ---- two stdout ----\nleft: 1\n\n\nfailures:\n    two\n";
        let wanted = [
            "failures:",
            "",
            "---- two stdout ----",
            "left: 1",
            "",
            "",
            "failures:",
            "    two",
        ];
        assert_eq!(reason(printed), wanted);
        assert_eq!(
            reason("running 1 test\nkilled\n"),
            ["running 1 test", "killed"]
        );
        let cases = "  99 O one FAILED 5 ms\n         expected\n".to_owned() + &"more\n".repeat(80);
        let found = reason(&cases);
        assert_eq!(found.len(), LONGEST_REASON);
        assert_eq!(found[..2], ["  99 O one FAILED 5 ms", "         expected"]);
    }
}
