//! The conformance suite over the C functions of the shared library.

use std::process::ExitCode;
use std::sync::Arc;

use viaduct_conformance::{Fabric, Mode};
use viaduct_provider::Provider;

mod c_provider;
#[path = "../integration/support.rs"]
mod support;

fn open() -> Arc<dyn Provider> {
    Arc::new(c_provider::CProvider::load())
}

fn main() -> ExitCode {
    let fabric = Fabric {
        name: "libvipl.so, from C",
        devices: &["VINIC"],
        open,
        // Memory carries the bytes: what a processor wrote another reads.
        harm: None,
    };
    viaduct_conformance::main(Some("C"), &[fabric], &[Mode::Threads, Mode::Processes])
}
