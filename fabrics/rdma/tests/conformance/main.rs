//! The conformance suite of verbs: each case between two sides in one process, between two
//! processes, between two processes of which neither lets the kernel copy, and between two of which
//! the system refuses one to copy. Then a sample of the
//! rules of verbs is broken, one at a time, and a case must fail; `--mutants` breaks all of them.

mod cases;
mod refusal;
mod station;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use viaduct_conformance::mutants::{self, Mutants};

use station::{Remote, Side, Station};

/// What breaks when a rule of verbs is broken.
const MUTANTS: Mutants = Mutants {
    under: "queue pairs",
    survivors: include_str!("survivors.txt"),
    file: "fabrics/rdma/tests/conformance/survivors.txt",
    is_verbs: true,
};

/// Forbids copies by the kernel, so that all bytes go through shared memory.
const COPIES: &str = "VIADUCT_RDMA_KERNEL_COPIES";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_mutant = mutants::break_what_is_asked();
    if arguments.iter().any(|word| word == "--station") {
        if std::env::var_os(refusal::VARIABLE).is_some() {
            refusal::refuse_copies();
        }
        station::serve();
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|word| word == "--list") {
        for (name, _, _) in cases::all() {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let words = arguments.iter().filter(|word| !word.starts_with('-'));
    let words: Vec<String> = words.cloned().collect();
    if arguments.iter().any(|word| word == "--mutants") {
        return mutants::run(&MUTANTS, Some(&words));
    }
    let filter = words.first();
    let mut failed = Vec::new();
    let mut count = 0;
    // Read when links are made, so that one process can do both.
    for mode in [
        "one-process",
        "processes",
        "processes-without-kernel-copies",
        "processes-one-refused-copies",
    ] {
        let is_refused = mode.contains("refused");
        // What rules say does not depend on who copies: three ways are enough to see one broken.
        if is_mutant && is_refused {
            continue;
        }
        let copies = if mode.contains("without") { "0" } else { "1" };
        // SAFETY: stations of this process are gone, and its service thread reads no variables but
        // where links are made.
        unsafe { std::env::set_var(COPIES, copies) };
        let start = |is_refused: bool| {
            if mode == "one-process" {
                Side::Here(Box::new(Station::new()))
            } else if is_refused {
                Side::There(Remote::start_with(&[(refusal::VARIABLE, "1")]))
            } else {
                Side::There(Remote::start())
            }
        };
        let mut near = start(is_refused);
        let mut far = start(false);
        for (name, source, case) in cases::all() {
            let whole = format!("{mode}::{name}");
            if filter.is_some_and(|filter| !whole.contains(filter.as_str())) {
                continue;
            }
            count += 1;
            near.renew();
            far.renew();
            let outcome = catch_unwind(AssertUnwindSafe(|| case(&mut near, &mut far)));
            println!(
                "test {whole} ... {} ({source})",
                if outcome.is_ok() { "ok" } else { "FAILED" }
            );
            if outcome.is_err() && is_mutant {
                return ExitCode::FAILURE;
            }
            if outcome.is_err() {
                failed.push(whole);
                near = start(is_refused);
                far = start(false);
            }
        }
    }
    println!("{} of {count} cases passed", count - failed.len());
    for name in &failed {
        println!("failed: {name}");
    }
    if !failed.is_empty() {
        return ExitCode::FAILURE;
    }
    if is_mutant {
        mutants::say_whether_asked();
    } else if filter.is_none() {
        return mutants::run(&MUTANTS, None);
    }
    ExitCode::SUCCESS
}
