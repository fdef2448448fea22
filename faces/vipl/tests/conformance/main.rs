//! The conformance suite over the C functions of the shared library: between processes of this
//! machine, and on simulated hosts.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::process::{Command, ExitCode};
use std::sync::Arc;

use viaduct_conformance::{Fabric, Mode};
use viaduct_provider::Provider;

mod c_provider;
#[path = "../integration/simulated.rs"]
mod simulated;
#[path = "../integration/support.rs"]
mod support;

/// Says to the test binary that it runs on a simulated host, and how its sides run.
const SIMULATED_VARIABLE: &str = "VIADUCT_VIPL_CONFORMANCE";

fn open() -> Arc<dyn Provider> {
    Arc::new(c_provider::CProvider::load())
}

const fn fabric(name: &'static str) -> Fabric {
    Fabric {
        name,
        devices: &["VINIC"],
        open,
        // Memory carries the bytes: what a processor wrote another reads.
        harm: None,
    }
}

/// Runs cases with their sides on one simulated host: those with one of the words in their names.
fn on_simulated_hosts(model: &str, mode: &str, words: &[String]) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(words).env(SIMULATED_VARIABLE, mode);
    let ran = simulated::on(model, vec![command]);
    let (printed, is_well) = &ran.commands[0];
    println!("{printed}");
    *is_well
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Ok(mode) = std::env::var(SIMULATED_VARIABLE) {
        let fabric = fabric("libvipl.so, from C, on a simulated host");
        let mode = match &*mode {
            "threads" => Mode::Threads,
            _ => Mode::Processes,
        };
        return viaduct_conformance::main(None, &[fabric], &[mode]);
    }
    let real = fabric("libvipl.so, from C");
    let code = viaduct_conformance::main(Some("C"), &[real], &[Mode::Threads, Mode::Processes]);
    // Neither a list, nor a side of a case, nor a broken rule: here nobody could say it is broken.
    let is_plain = !words.iter().any(|word| word.starts_with("--"));
    let others = ["VIADUCT_CONFORMANCE_SIDE", "VIADUCT_BROKEN_RULE"];
    let is_other = others.iter().any(|name| std::env::var_os(name).is_some());
    if code != ExitCode::SUCCESS || !is_plain || is_other {
        return code;
    }
    let mut is_well = on_simulated_hosts("giganet-clan", "threads", &words);
    if words.is_empty() {
        // In software over remote writes.
        is_well &= on_simulated_hosts("clan", "threads", &words);
        // A process that dies has what it opened closed, as the driver of its host does it.
        for case in [
            "killed_peer_is_noticed",
            "receives_half_filled_by_a_peer",
            "a_request_ends_whose_server_dies",
        ] {
            is_well &= on_simulated_hosts("giganet-clan", "processes", &[case.to_owned()]);
        }
    }
    ExitCode::from(u8::from(!is_well))
}
