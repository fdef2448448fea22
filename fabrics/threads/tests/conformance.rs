//! The suite over this fabric: both sides on one NIC, on a NIC each, and on a NIC that can do
//! little, over which the cases of what it lacks are skipped.

use std::process::ExitCode;
use std::sync::Arc;

use viaduct_conformance::{Fabric, Mode};
use viaduct_provider::Provider;
use viaduct_provider::via::{NicAttributes, ReliabilityLevels};
use viaduct_threads::{InProcess, with_harm, with_nics};

fn one_nic() -> Arc<dyn Provider> {
    Arc::new(InProcess::new())
}

fn two_nics() -> Arc<dyn Provider> {
    Arc::new(with_nics(2, NicAttributes::default()))
}

fn plain() -> NicAttributes {
    NicAttributes {
        reliability_levels: ReliabilityLevels::UNRELIABLE,
        rdma_read_levels: ReliabilityLevels::NONE,
        max_transfer_bytes: 32_768,
        max_descriptors_per_queue: 1024,
        max_segments_per_descriptor: 8,
        ..NicAttributes::default()
    }
}

fn plain_nic() -> Arc<dyn Provider> {
    Arc::new(with_nics(1, plain()))
}

fn main() -> ExitCode {
    let one = Fabric {
        name: "inproc, one NIC",
        devices: &["inproc0"],
        open: one_nic,
        harm: Some(|harm| Arc::new(with_harm(1, NicAttributes::default(), harm))),
    };
    let two = Fabric {
        name: "inproc, a NIC each",
        devices: &["inproc0", "inproc1"],
        open: two_nics,
        harm: Some(|harm| Arc::new(with_harm(2, NicAttributes::default(), harm))),
    };
    let plain = Fabric {
        name: "inproc, a NIC that can do little",
        devices: &["inproc0"],
        open: plain_nic,
        harm: Some(|harm| Arc::new(with_harm(1, plain(), harm))),
    };
    viaduct_conformance::main(Some("threads"), &[one, two, plain], &[Mode::Threads])
}
