//! The conformance suite over shared memory between processes that do not trust each other: no
//! process maps memory of the other's program, long messages are copied twice, and remote reads are
//! answered by the other side.

use std::process::{Command, ExitCode};
use std::sync::Arc;

use viaduct_conformance::{Fabric, Mode};
use viaduct_provider::Provider;
use viaduct_shm::Shm;

const PROTECTED: &str = "VIADUCT_PROTECTED";

fn open() -> Arc<dyn Provider> {
    Arc::new(*Shm::global())
}

fn main() -> ExitCode {
    // The variable is read once, and another thread may be there before this one could set it.
    if std::env::var_os(PROTECTED).is_none() {
        let again = std::env::current_exe().and_then(|program| {
            let mut command = Command::new(program);
            command.args(std::env::args_os().skip(1));
            command.env(PROTECTED, "1").status()
        });
        return match again {
            Ok(status) if status.success() => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        };
    }
    let fabric = Fabric {
        name: "shm, protected",
        devices: &["viaduct0", "shm"],
        open,
        harm: None,
    };
    viaduct_conformance::main(None, &[fabric], &[Mode::Threads, Mode::Processes])
}
