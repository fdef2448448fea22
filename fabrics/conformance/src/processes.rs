//! Runs cases with each side in a process of its own.
//!
//! The test binary runs itself again for each side. The side's standard input is one end of a
//! socket pair, the link to the other side; its standard output is a pipe on which it says how it
//! ended. A process that ends without a word has crashed, and one that hangs is killed.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use crate::case::Case;
use crate::cases::cases;
use crate::check::{Outcome, Stop};
use crate::environment::{CASE_LIMIT, Environment, Parts};
use crate::report::{Ending, Filter, SideEnding, Summary, ending_of};
use crate::runner::{Fabric, run_all, run_side};
use crate::world::{Link, RealWorld, SocketLink};

/// Says to the test binary that it is a side: `case,side,token,fabric`.
const SIDE_VARIABLE: &str = "VIADUCT_CONFORMANCE_SIDE";

/// The words with which a side says how it ended.
const PASSED: &str = "side passed";
const SKIPPED: &str = "side skipped: ";
const FAILED: &str = "side failed: ";
const OTHER_SIDE: &str = "side was left: ";
const DYING: &str = "side dies on purpose";

/// Runs the cases that `filter` takes, each side in a process of its own.
#[must_use]
pub fn run_in_processes(fabric: &Fabric, filter: &Filter) -> Summary {
    run_all(fabric, "processes", filter, |case, token| {
        run_case(fabric, case, token).unwrap_or_else(|error| {
            Ending::Failed(format!("a process could not be started: {error}"))
        })
    })
}

fn run_case(fabric: &Fabric, case: &Case, token: u64) -> std::io::Result<Ending> {
    let (first, second) = UnixStream::pair()?;
    let (report, reports) = channel();
    let mut children = Vec::new();
    for (side, link) in [first, second]
        .into_iter()
        .take(case.sides.len())
        .enumerate()
    {
        let input = match case.sides.len() {
            2 => Stdio::from(OwnedFd::from(link)),
            _ => Stdio::null(),
        };
        let mut child = Command::new(std::env::current_exe()?)
            .env(
                SIDE_VARIABLE,
                format!("{},{side},{token},{}", case.number, fabric.name),
            )
            .stdin(input)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take();
        children.push(child);
        if let Some(output) = output {
            listen(side, output, report.clone())?;
        }
    }
    drop(report);
    let mut sides: Vec<SideEnding> = vec![None; case.sides.len()];
    let deadline = Instant::now() + CASE_LIMIT;
    while let Ok((side, said)) =
        reports.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        sides[side] = Some(parse(&said));
    }
    for (child, side) in children.iter_mut().zip(&mut sides) {
        end_child(child, side);
    }
    Ok(ending_of(&sides))
}

/// Reads what a side says until it ends.
fn listen(
    side: usize,
    mut output: impl Read + Send + 'static,
    report: Sender<(usize, String)>,
) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name(format!("listener-{side}"))
        .spawn(move || {
            let mut said = Vec::new();
            // What was read before an error counts.
            let _ = output.read_to_end(&mut said);
            let _ = report.send((side, String::from_utf8_lossy(&said).into_owned()));
        })
        .map(drop)
}

/// Waits for a side that has ended, kills one that has not.
fn end_child(child: &mut Child, side: &mut SideEnding) {
    if side.is_none() {
        // It may have ended by itself in this moment.
        let _ = child.kill();
    }
    match (child.wait(), &side) {
        (Ok(status), Some(Err(Stop::Failed(reason)))) if reason.is_empty() => {
            *side = Some(Err(Stop::Failed(format!(
                "the process ended without a word: {status}"
            ))));
        }
        _ => {}
    }
}

fn parse(said: &str) -> Outcome {
    for (number, line) in said.lines().enumerate() {
        // A failure may have several lines, all that follow.
        let rest = || said.lines().skip(number).collect::<Vec<_>>().join("\n");
        let after = |prefix: &str| rest()[prefix.len()..].to_owned();
        if line == PASSED || line == DYING {
            return Ok(());
        } else if line.starts_with(SKIPPED) {
            return Err(Stop::Skipped(after(SKIPPED)));
        } else if line.starts_with(FAILED) {
            return Err(Stop::Failed(after(FAILED)));
        } else if line.starts_with(OTHER_SIDE) {
            return Err(Stop::OtherSide(after(OTHER_SIDE)));
        }
    }
    Err(Stop::Failed(String::new()))
}

/// Runs a side, if this process was started for one.
pub(crate) fn run_child(fabrics: &[Fabric]) -> Option<ExitCode> {
    let wanted = std::env::var(SIDE_VARIABLE).ok()?;
    let outcome = run_wanted(fabrics, &wanted);
    let line = match outcome {
        Ok(()) => PASSED.to_owned(),
        Err(Stop::Skipped(reason)) => format!("{SKIPPED}{reason}"),
        Err(Stop::Failed(reason)) => format!("{FAILED}{reason}"),
        Err(Stop::OtherSide(reason)) => format!("{OTHER_SIDE}{reason}"),
    };
    say(&line);
    Some(ExitCode::SUCCESS)
}

fn run_wanted(fabrics: &[Fabric], wanted: &str) -> Outcome {
    let misread = || {
        Stop::failed(format_args!(
            "{SIDE_VARIABLE} is \"{wanted}\": expected case,side,token,fabric; the runner sets it"
        ))
    };
    let mut words = wanted.splitn(4, ',');
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
    let (Some(number), Some(side), Some(token)) = (number(), number(), number()) else {
        return Err(misread());
    };
    let name = words.next();
    let Some(fabric) = fabrics.iter().find(|fabric| Some(fabric.name) == name) else {
        return Err(misread());
    };
    let found = cases()
        .into_iter()
        .find(|case| u64::from(case.number) == number);
    let Some(case) = found else {
        return Err(Stop::failed(format_args!("there is no case {number}")));
    };
    let link: Option<Box<dyn Link>> = if case.sides.len() == 2 {
        let socket = std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map_err(Stop::failed)?;
        Some(Box::new(SocketLink(UnixStream::from(socket))))
    } else {
        None
    };
    let provider = match case.harm {
        Some(harm) => fabric.open_harmed(harm)?,
        None => (fabric.open)(),
    };
    let environment = Environment::new(Parts {
        provider,
        device: fabric.device(side as usize),
        world: Arc::new(RealWorld::new()),
        link,
        side: side as usize,
        token,
        die: Some(die),
        harm: case.harm,
    });
    run_side(&case, &environment)
}

/// Ends this process as `SIGKILL` does: nothing is cleaned up.
fn die() {
    say(DYING);
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A runner that is gone needs no answer.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_side_says_is_understood() {
        assert_eq!(parse("noise\nside passed\n"), Ok(()));
        assert_eq!(
            parse("side skipped: lacks it\n"),
            Err(Stop::Skipped("lacks it".into()))
        );
        assert_eq!(
            parse("side failed: one\ntwo\n"),
            Err(Stop::Failed("one\ntwo".into()))
        );
        assert_eq!(
            parse("side was left: gone"),
            Err(Stop::OtherSide("gone".into()))
        );
        assert_eq!(parse("noise\n"), Err(Stop::Failed(String::new())));
    }
}
