//! The conformance suite of verbs: each case between two sides in one process, between two
//! processes, between two processes of which neither lets the kernel copy, between two of which
//! the system refuses one to copy, between two that share registered memory, or of which one
//! does, and, for root, between two of different users. Then a sample of the rules of verbs is
//! broken, one at a time, and a case must fail; `--mutants` breaks all of them.

mod refusal;
mod station;
mod user;

use std::process::ExitCode;

use viaduct_conformance::mutants;
use viaduct_conformance::verbs::{self, Run, Side, cases};

use viaduct_processes::held;

use station::{Local, Remote};

/// Forbids copies by the kernel, so that all bytes go through shared memory.
const COPIES: &str = "VIADUCT_RDMA_KERNEL_COPIES";

/// Has a process share registered memory.
const SHARES: &str = "VIADUCT_RDMA_SHARE_MEMORY";

fn start(mode: &str, is_near: bool) -> Box<Side> {
    let mut variables = Vec::new();
    if mode.contains("refused") && is_near {
        variables.push((refusal::VARIABLE, "1"));
    }
    if mode.contains("sharing") && !(is_near && mode.contains("one-sharing")) {
        variables.push((SHARES, "1"));
    }
    if mode.contains("two-users") && !is_near {
        variables.push((user::VARIABLE, "1"));
    }
    match mode {
        "one-process" => Box::new(Local::new()),
        _ if variables.is_empty() => Box::new(Remote::start()),
        _ => Box::new(Remote::start_with(&variables)),
    }
}

fn run(run: &mut Run) {
    // Read when links are made, so that one process can do both.
    for mode in [
        "one-process",
        "processes",
        "processes-without-kernel-copies",
        "processes-one-refused-copies",
        "processes-sharing-memory-without-kernel-copies",
        "processes-one-sharing-memory",
        "processes-of-two-users-sharing-memory",
    ] {
        let is_sharing = mode.contains("sharing");
        // What rules say does not depend on who copies: three ways are enough to see one broken.
        if run.is_mutant() && (is_sharing || mode.contains("refused")) || run.is_over() {
            continue;
        }
        if is_sharing && let Err(error) = held::check() {
            println!("{mode} is not tried: {error}");
            continue;
        }
        let is_of_two = mode.contains("two-users");
        if is_of_two && !user::may_be_another() {
            println!("{mode} is not tried: that is for root");
            continue;
        }
        let copies = if mode.contains("without") { "0" } else { "1" };
        // SAFETY: stations of this process are gone, and its service thread reads no variables but
        // where links are made.
        unsafe { std::env::set_var(COPIES, copies) };
        let mut near = start(mode, true);
        let mut far = start(mode, false);
        let mut is_whole = run.is_whole();
        for case in cases() {
            let has_failed = run.case(mode, case, || {
                near.renew();
                far.renew();
                case.2(&mut *near, &mut *far);
            });
            if has_failed {
                is_whole = false;
                near = start(mode, true);
                far = start(mode, false);
            }
        }
        if is_sharing && is_whole {
            // It is near that writes and reads. If not, the cases were run another way.
            let counts = near.call("shared-copies", &[]).expect("counters");
            let [shared, by_kernel] = counts[..] else {
                unreachable!("two counters");
            };
            // Those of two users share nothing.
            assert_eq!(shared > 0, !is_of_two, "{mode}: copies in shared pages");
            assert_eq!(by_kernel, 0, "{mode}: copies by the kernel");
        }
    }
}

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--station") {
        let _ = mutants::break_what_is_asked();
        if std::env::var_os(refusal::VARIABLE).is_some() {
            refusal::refuse_copies();
        }
        if std::env::var_os(user::VARIABLE).is_some() {
            user::become_another();
        }
        station::serve();
        return ExitCode::SUCCESS;
    }
    verbs::main(&verbs::mutants_under("queue pairs"), run)
}
