//! The conformance suite over shared memory, its sides in threads and in two processes.

use std::process::ExitCode;
use std::sync::Arc;

use viaduct_conformance::{Fabric, Mode};
use viaduct_provider::Provider;
use viaduct_shm::Shm;

fn open() -> Arc<dyn Provider> {
    Arc::new(*Shm::global())
}

fn main() -> ExitCode {
    let fabric = Fabric {
        name: "shm",
        devices: &["viaduct0", "shm"],
        open,
        // Memory carries the bytes: what a processor wrote another reads.
        harm: None,
    };
    viaduct_conformance::main(
        Some("shared memory"),
        &[fabric],
        &[Mode::Threads, Mode::Processes],
    )
}
