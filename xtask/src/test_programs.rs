//! Runs the test programs of the workspace side by side.
//!
//! `cargo test` runs one after another. Half of them wait for other processes or for a timer, so as
//! many at once as there are processors take little more than half the time.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{self, BufReader, Write};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use cargo_metadata::{Message, Metadata, Package};

use crate::{Finding, Findings, cargo, cargo_command};

/// An executable that `cargo test` would run.
#[derive(Clone, Debug)]
struct Program {
    name: String,
    executable: PathBuf,
    package: Package,
}

/// What one program printed, and what is wrong with it.
#[derive(Debug)]
struct Ended {
    printed: Vec<u8>,
    wrong: Option<String>,
}

/// Builds and runs all tests; `flags` are cargo's, such as `--offline`. What a program prints comes
/// whole when the program ends.
pub(crate) fn run_all(metadata: &Metadata, flags: &[String]) -> Findings {
    let programs = build(metadata, flags)?;
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut findings = side_by_side(programs, workers, run)?;
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
    let mut cargo = cargo_command(metadata);
    cargo
        .args(["test", "--workspace", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .args(flags)
        .stdout(Stdio::piped());
    let mut child = cargo.spawn()?;
    let output = child.stdout.take().ok_or("cargo has no output")?;
    let mut programs = Vec::new();
    for message in Message::parse_stream(BufReader::new(output)) {
        let Message::CompilerArtifact(artifact) = message? else {
            continue;
        };
        // Commands that tests call are built too; they are not tests.
        let (true, Some(executable)) = (artifact.profile.test, artifact.executable) else {
            continue;
        };
        let package = &metadata[&artifact.package_id];
        programs.push(Program {
            name: format!("{} of {}", artifact.target.name, package.name),
            executable: executable.into_std_path_buf(),
            package: package.clone(),
        });
    }
    if !child.wait()?.success() {
        return Err("the tests cannot be built".into());
    }
    // Cargo tells of them in the order in which they happen to be built.
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// Runs it where and as cargo would.
fn run(program: &Program) -> io::Result<Ended> {
    let package = &program.package;
    let folder = package
        .manifest_path
        .parent()
        .unwrap_or(&package.manifest_path);
    let output = Command::new(&program.executable)
        .current_dir(folder)
        .env("CARGO_MANIFEST_DIR", folder)
        .env("CARGO_PKG_NAME", package.name.as_str())
        .env("CARGO_PKG_VERSION", package.version.to_string())
        .stdin(Stdio::null())
        .output()?;
    let mut printed = format!("     Running {}\n", program.name).into_bytes();
    printed.extend(output.stdout);
    printed.extend(output.stderr);
    let wrong = (!output.status.success()).then(|| format!("ended with {}", output.status));
    Ok(Ended { printed, wrong })
}

/// Runs `programs` by as many threads as `workers`; answers which failed, in their order.
fn side_by_side(
    programs: Vec<Program>,
    workers: usize,
    run: impl Fn(&Program) -> io::Result<Ended> + Sync,
) -> Findings {
    let count = programs.len();
    let waiting: Mutex<VecDeque<(usize, Program)>> =
        Mutex::new(programs.into_iter().enumerate().collect());
    let wrong: Mutex<Vec<(usize, Finding)>> = Mutex::default();
    let next = || waiting.lock().ok()?.pop_front();
    let work = || -> io::Result<()> {
        while let Some((place, program)) = next() {
            let ended = run(&program)?;
            io::stdout().lock().write_all(&ended.printed)?;
            if let (Some(text), Ok(mut wrong)) = (ended.wrong, wrong.lock()) {
                wrong.push((place, Finding::new(&program.name, text)));
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            let panicked = |_| Err(io::Error::other("a thread that runs tests panicked"));
            thread.join().unwrap_or_else(panicked)
        })
    })?;
    let mut wrong = wrong.into_inner()?;
    wrong.sort_by_key(|(place, _)| *place);
    println!("{} of {count} test programs passed", count - wrong.len());
    Ok(wrong.into_iter().map(|(_, finding)| finding).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn programs(names: &[&str]) -> Vec<Program> {
        let metadata = crate::workspace().unwrap();
        let package = metadata.workspace_packages()[0];
        let program = |name: &&str| Program {
            name: (*name).to_owned(),
            executable: PathBuf::from(name),
            package: package.clone(),
        };
        names.iter().map(program).collect()
    }

    fn ended(wrong: Option<&str>) -> Ended {
        Ended {
            printed: Vec::new(),
            wrong: wrong.map(str::to_owned),
        }
    }

    #[test]
    fn programs_run_at_the_same_time() {
        // Neither ends before the other has begun.
        let both = Barrier::new(2);
        let run = |_: &Program| {
            both.wait();
            Ok(ended(None))
        };
        assert_eq!(side_by_side(programs(&["a", "b"]), 2, run).unwrap(), []);
    }

    #[test]
    fn those_that_fail_are_named_and_the_others_run() {
        let run = |program: &Program| Ok(ended((program.name != "b").then_some("ended")));
        let findings = side_by_side(programs(&["a", "b", "c"]), 2, run).unwrap();
        assert_eq!(findings, ["a", "c"].map(|name| Finding::new(name, "ended")));
    }

    #[test]
    fn a_program_that_exits_with_an_error_has_failed() {
        let fails = |executable| run(&programs(&[executable])[0]).unwrap().wrong;
        assert_eq!(fails("true"), None);
        assert!(fails("false").is_some_and(|text| text.contains("exit status: 1")));
    }
}
