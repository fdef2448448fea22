//! The suite tried on itself, with sides in processes: over a fabric whose processes cannot reach
//! each other, cases of one side pass, cases of two fail and say why, and none hangs.

use std::process::ExitCode;
use std::sync::Arc;

use viaduct_conformance::{Ending, Fabric, Filter, Mode, run_in_processes};
use viaduct_threads::InProcess;

const FABRIC: Fabric = Fabric {
    name: "inproc",
    devices: &["inproc0"],
    open: || Arc::new(InProcess::new()),
    harm: None,
};

/// Of one side: these need nobody else.
const ALONE: [&str; 5] = ["5", "29", "31", "58", "125"];
/// Of two sides, each in a fabric of its own: nobody waits for the first.
const APART: &str = "53";

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--list") {
        println!("suite_in_processes: test");
        return ExitCode::SUCCESS;
    }
    if std::env::var_os("VIADUCT_CONFORMANCE_SIDE").is_some() {
        return viaduct_conformance::main(None, &[FABRIC], &[Mode::Processes]);
    }
    let run = |words: &[&str]| {
        let filter = Filter {
            words: words.iter().map(ToString::to_string).collect(),
            ..Filter::default()
        };
        run_in_processes(&FABRIC, &filter)
    };
    let alone = run(&ALONE);
    assert!(alone.is_good(), "cases of one side pass");
    assert_eq!(alone.counts(), [5, 0, 0]);

    let apart = run(&[APART]);
    assert_eq!(apart.counts(), [0, 0, 1], "a case that cannot pass fails");
    let Ending::Failed(reason) = &apart.reports[0].ending else {
        panic!("case {APART} did not fail")
    };
    assert!(
        reason.contains("side 0: somebody who waits for the request"),
        "{reason}"
    );
    assert!(!apart.is_good());
    println!("the suite in processes: as it should be");
    ExitCode::SUCCESS
}
