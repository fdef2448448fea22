//! The suite over this fabric: both sides on one NIC, then on a NIC each.

use std::process::ExitCode;
use std::sync::Arc;

use viaduct_conformance::{Fabric, Mode};
use viaduct_fabric::Provider;
use viaduct_fabric::via::NicAttributes;
use viaduct_inproc::InProcess;

fn one_nic() -> Arc<dyn Provider> {
    Arc::new(InProcess::new())
}

fn two_nics() -> Arc<dyn Provider> {
    Arc::new(InProcess::with_nics(2, NicAttributes::default()))
}

fn main() -> ExitCode {
    let one = Fabric {
        name: "inproc, one NIC",
        devices: &["inproc0"],
        open: one_nic,
    };
    let two = Fabric {
        name: "inproc, a NIC each",
        devices: &["inproc0", "inproc1"],
        open: two_nics,
    };
    viaduct_conformance::main(&[one, two], &[Mode::Threads])
}
