//! Runs cases with their sides in threads, and the `main` of a fabric's test.

use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use viaduct_provider::Provider;
use viaduct_provider::via::outcome::Harm;

use crate::case::Case;
use crate::cases::cases;
use crate::check::{Outcome, Stop, skip};
use crate::environment::{CASE_LIMIT, Environment, Parts};
use crate::mutants::{self, Mutants};
use crate::processes::{run_child, run_in_processes};
use crate::report::{Ending, Filter, Report, SideEnding, Summary, ending_of};
use crate::world::{Link, RealWorld, ThreadLink};

/// A fabric to be tried.
#[derive(Clone, Copy)]
pub struct Fabric {
    /// What it is called in the report.
    pub name: &'static str,
    /// Devices to open: the first by side 0, the second, if there is one, by side 1.
    pub devices: &'static [&'static str],
    /// Opens it: once for all threads, or once in each process.
    pub open: fn() -> Arc<dyn Provider>,
    /// Opens it for a case in which every message comes to harm; `None` if its messages never do.
    pub harm: Option<fn(Harm) -> Arc<dyn Provider>>,
}

impl fmt::Debug for Fabric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Fabric")
            .field("name", &self.name)
            .field("devices", &self.devices)
            .finish_non_exhaustive()
    }
}

impl Fabric {
    /// Opens it for a case with harm.
    pub(crate) fn open_harmed(&self, harm: Harm) -> Outcome<Arc<dyn Provider>> {
        match self.harm {
            Some(open) => Ok(open(harm)),
            None => skip("messages of this fabric come to no harm on their way"),
        }
    }

    pub(crate) fn device(&self, side: usize) -> String {
        let device = self.devices.get(side).or_else(|| self.devices.first());
        device.map_or_else(String::new, ToString::to_string)
    }
}

/// How the sides of a case are run.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Mode {
    /// Threads of this process, over one provider.
    Threads,
    /// A process each.
    Processes,
}

/// Runs one side of a case to its end, panics included, and closes what it left open.
pub fn run_side(case: &Case, environment: &Arc<Environment>) -> Outcome {
    let Some(side) = case.sides.get(environment.side()) else {
        return Err(Stop::failed("the case has no such side"));
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| side(environment))).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no text");
        Err(Stop::Failed(format!("panicked: {text}")))
    });
    let finished = environment.finish();
    outcome.and(finished)
}

/// Runs the cases that `filter` takes with their sides in threads of this process.
///
/// A side that hangs is reported as such; its thread stays behind.
#[must_use]
pub fn run_in_threads(fabric: &Fabric, filter: &Filter) -> Summary {
    let provider = (fabric.open)();
    run_all(fabric, "threads", filter, |case, token| {
        if case.kills {
            return Ending::Skipped("a side dies in it: needs processes".to_owned());
        }
        let harmed = case.harm.map(|harm| fabric.open_harmed(harm)).transpose();
        match harmed {
            Ok(harmed) => {
                let provider = harmed.as_ref().unwrap_or(&provider);
                run_case_in_threads(fabric, provider, case, (token, CASE_LIMIT))
            }
            Err(stop) => ending_of(&[Some(Err(stop))]),
        }
    })
}

/// Runs cases with their sides in threads or processes.
pub(crate) fn run_all(
    fabric: &Fabric,
    mode: &str,
    filter: &Filter,
    run: impl FnMut(&Case, u64) -> Ending,
) -> Summary {
    run_cases(&format!("{}, sides in {mode}", fabric.name), filter, run)
}

/// Whether a case has failed, over whatever fabric.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Runs cases one after another, in whatever way `run` runs one, and prints the table as they end.
///
/// `run` is told a case and a token that no other case of this or any other run has.
#[must_use]
pub fn run_cases(
    name: &str,
    filter: &Filter,
    mut run: impl FnMut(&Case, u64) -> Ending,
) -> Summary {
    let title = format!("conformance of {name}");
    print_line(&format!("\n{title}"));
    let mut reports = Vec::new();
    for case in cases().into_iter().filter(|case| filter.takes(case)) {
        if filter.until_failure && HAS_FAILED.load(Ordering::Relaxed) {
            break;
        }
        let start = Instant::now();
        let ending = run(&case, new_token());
        let report = Report {
            case,
            ending,
            duration: start.elapsed(),
        };
        print_line(&report.to_string());
        if matches!(report.ending, Ending::Failed(_)) {
            HAS_FAILED.store(true, Ordering::Relaxed);
        }
        reports.push(report);
    }
    let summary = Summary { title, reports };
    print_line(&summary.to_string());
    summary
}

fn run_case_in_threads(
    fabric: &Fabric,
    provider: &Arc<dyn Provider>,
    case: &Case,
    (token, limit): (u64, Duration),
) -> Ending {
    let world = Arc::new(RealWorld::new());
    let mut links: Vec<Option<Box<dyn Link>>> = if case.sides.len() == 2 {
        ThreadLink::pair()
            .into_iter()
            .map(|link| Some(Box::new(link) as Box<dyn Link>))
            .collect()
    } else {
        vec![None]
    };
    let (report, reports) = channel();
    for (side, link) in links.drain(..).enumerate() {
        let parts = Parts {
            provider: provider.clone(),
            device: fabric.device(side),
            world: world.clone(),
            link,
            side,
            token,
            die: None,
            harm: case.harm,
        };
        let (case, report) = (*case, report.clone());
        let spawned = std::thread::Builder::new()
            .name(format!("{}-side-{side}", case.identifier()))
            .spawn(move || {
                let environment = Environment::new(parts);
                let outcome = run_side(&case, &environment);
                // Nobody listens once the case counts as hung.
                let _ = report.send((side, outcome));
            });
        if let Err(error) = spawned {
            return Ending::Failed(format!("no thread could be started: {error}"));
        }
    }
    drop(report);
    let mut sides: Vec<SideEnding> = vec![None; case.sides.len()];
    let deadline = Instant::now() + limit;
    let left = || deadline.saturating_duration_since(Instant::now());
    while let Ok((side, outcome)) = reports.recv_timeout(left()) {
        sides[side] = Some(outcome);
    }
    ending_of(&sides)
}

/// A number that no other case of this or any other run has.
fn new_token() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    RandomState::new().hash_one((std::process::id(), since.as_nanos()))
}

/// Runs the suite as the `main` of a test target with `harness = false`, over each fabric in each
/// mode, and after it some of the mutants of VIA's rules under the name `under`; none without it,
/// where another target breaks the same code.
///
/// Words on the command line are a filter; `--exact` makes them whole names, `--list` lists the
/// cases, `--mutants` runs all mutants in place of the suite, or those in whose names the words
/// are. Other options, as the test tools give them, mean nothing here.
#[must_use]
pub fn main(under: Option<&'static str>, fabrics: &[Fabric], modes: &[Mode]) -> ExitCode {
    let _ = mutants::break_what_is_asked();
    if let Some(code) = run_child(fabrics) {
        return code;
    }
    main_with(under, |filter| {
        let mut summaries = Vec::new();
        for fabric in fabrics {
            for mode in modes {
                summaries.push(match mode {
                    Mode::Threads => run_in_threads(fabric, filter),
                    Mode::Processes => run_in_processes(fabric, filter),
                });
            }
        }
        summaries
    })
}

/// As [`main`], for a fabric that runs the cases in its own way, by [`run_cases`].
#[must_use]
pub fn main_with(
    under: Option<&'static str>,
    run: impl FnOnce(&Filter) -> Vec<Summary>,
) -> ExitCode {
    let is_mutant = mutants::break_what_is_asked();
    let mut filter = Filter {
        until_failure: is_mutant,
        ..Filter::default()
    };
    let (mut list, mut all_mutants) = (false, false);
    for word in std::env::args().skip(1) {
        match word.as_str() {
            "--exact" => filter.exact = true,
            "--list" => list = true,
            "--mutants" => all_mutants = true,
            "--ignored" => return ExitCode::SUCCESS,
            word if word.starts_with('-') => {}
            word => filter.words.push(word.to_owned()),
        }
    }
    if list {
        cases()
            .iter()
            .filter(|case| filter.takes(case))
            .for_each(|case| print_line(&format!("{}: test", case.identifier())));
        return ExitCode::SUCCESS;
    }
    if all_mutants {
        return under.map_or(ExitCode::SUCCESS, |under| {
            mutants::run(&Mutants::of_via(under), Some(&filter.words))
        });
    }
    let failed: usize = run(&filter).iter().map(|summary| summary.counts()[2]).sum();
    // A filter that takes no case may be meant for another test target.
    if failed > 0 {
        return ExitCode::FAILURE;
    }
    if is_mutant {
        mutants::say_whether_asked();
    } else if filter.words.is_empty()
        && let Some(under) = under
    {
        return mutants::run(&Mutants::of_via(under), None);
    }
    ExitCode::SUCCESS
}

/// Prints at once, also into a pipe; a reader that is gone is no failure of the fabric.
fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use viaduct_threads::InProcess;

    use super::*;
    use crate::case::Level;

    const FABRIC: Fabric = Fabric {
        name: "inproc",
        devices: &["inproc0"],
        open: || Arc::new(InProcess::new()),
        harm: None,
    };

    fn ending(case: &Case, limit: Duration) -> Ending {
        run_case_in_threads(&FABRIC, &(FABRIC.open)(), case, (1, limit))
    }

    #[test]
    fn a_side_that_hangs_is_named() {
        let case = Case::pair(
            1,
            Level::Decision,
            "hangs",
            &[
                |env| env.meet("somewhere"),
                |env| {
                    env.sleep(60_000);
                    Ok(())
                },
            ],
        );
        let Ending::Failed(reason) = ending(&case, Duration::from_millis(300)) else {
            panic!("not failed")
        };
        assert!(reason.contains("side 1: hangs"), "{reason}");
    }

    #[test]
    fn a_panic_is_a_failure_with_its_text() {
        let case = Case::alone(
            1,
            Level::Decision,
            "panics",
            &[|env| panic!("on side {}", env.side())],
        );
        let failed = Ending::Failed("side 0: panicked: on side 0".into());
        assert_eq!(ending(&case, CASE_LIMIT), failed);
    }

    #[test]
    fn what_a_side_leaves_open_is_closed() {
        static LEFT: std::sync::OnceLock<viaduct_provider::NicHandle> = std::sync::OnceLock::new();
        let case = Case::alone(
            1,
            Level::Decision,
            "leaves",
            &[|env| {
                let nic = env.open_nic()?;
                let _ = LEFT.set(nic);
                Err(Stop::failed("early"))
            }],
        );
        let provider = (FABRIC.open)();
        let ended = run_case_in_threads(&FABRIC, &provider, &case, (1, CASE_LIMIT));
        assert!(matches!(ended, Ending::Failed(_)));
        assert!(provider.query_nic(*LEFT.get().unwrap()).is_err());
    }

    #[test]
    fn sides_that_come_to_other_places_are_told() {
        let case = Case::pair(
            1,
            Level::Decision,
            "astray",
            &[|env| env.meet("here"), |env| env.meet("there")],
        );
        let Ending::Failed(reason) = ending(&case, CASE_LIMIT) else {
            panic!("not failed")
        };
        assert!(
            reason.contains("both sides at \"here\", other at \"there\""),
            "{reason}"
        );
    }

    #[test]
    fn tokens_differ() {
        assert_ne!(new_token(), new_token());
    }
}
