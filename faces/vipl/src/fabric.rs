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

/// Breaks the rule that the environment names: the tests of this library show by it that they
/// notice. Builds without debug assertions have nothing of the kind.
#[cfg(debug_assertions)]
pub(crate) fn break_rule() {
    use viaduct_provider::via::mutation;

    if let Ok(mutant) = std::env::var(mutation::VARIABLE) {
        mutation::break_rule(&mutant);
    }
}
