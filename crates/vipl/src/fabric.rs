//! The fabric that the library stands on: the one place that names it.

use viaduct_shm::Shm;

/// What carries messages. A type, not an interface: every call is known when this is compiled.
pub(crate) type Fabric = Shm;

/// The fabric's name of the NIC of this machine.
pub(crate) const LOCAL_DEVICE: &str = Fabric::devices()[0];

/// The fabric of this process.
#[inline(always)]
pub(crate) fn fabric() -> &'static Fabric {
    Fabric::global()
}
