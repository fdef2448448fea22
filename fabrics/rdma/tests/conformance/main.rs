//! The conformance suite of verbs: each case between two sides in one process, between two
//! processes, between two processes of which neither lets the kernel copy, and between two of which
//! the system refuses one to copy. Then a sample of the
//! rules of verbs is broken, one at a time, and a case must fail; `--mutants` breaks all of them.

mod refusal;
mod station;

use std::process::ExitCode;

use viaduct_conformance::mutants;
use viaduct_conformance::verbs::{self, Run, Side, cases};

use station::{Local, Remote};

/// Forbids copies by the kernel, so that all bytes go through shared memory.
const COPIES: &str = "VIADUCT_RDMA_KERNEL_COPIES";

fn start(mode: &str, is_refused: bool) -> Box<Side> {
    if mode == "one-process" {
        Box::new(Local::new())
    } else if is_refused {
        Box::new(Remote::start_with(&[(refusal::VARIABLE, "1")]))
    } else {
        Box::new(Remote::start())
    }
}

fn run(run: &mut Run) {
    // Read when links are made, so that one process can do both.
    for mode in [
        "one-process",
        "processes",
        "processes-without-kernel-copies",
        "processes-one-refused-copies",
    ] {
        let is_refused = mode.contains("refused");
        // What rules say does not depend on who copies: three ways are enough to see one broken.
        if run.is_mutant() && is_refused || run.is_over() {
            continue;
        }
        let copies = if mode.contains("without") { "0" } else { "1" };
        // SAFETY: stations of this process are gone, and its service thread reads no variables but
        // where links are made.
        unsafe { std::env::set_var(COPIES, copies) };
        let mut near = start(mode, is_refused);
        let mut far = start(mode, false);
        for case in cases() {
            let has_failed = run.case(mode, case, || {
                near.renew();
                far.renew();
                case.2(&mut *near, &mut *far);
            });
            if has_failed {
                near = start(mode, is_refused);
                far = start(mode, false);
            }
        }
    }
}

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--station") {
        let _ = mutants::break_what_is_asked();
        if std::env::var_os(refusal::VARIABLE).is_some() {
            refusal::refuse_copies();
        }
        station::serve();
        return ExitCode::SUCCESS;
    }
    verbs::main(&verbs::mutants_under("queue pairs"), run)
}
