//! The fabric that the library stands on: the one place that names it.
//!
//! It is that between processes of this machine, or the simulated host that this process runs on.
//! Which one is known at the first call. Calls that every message makes ask shared memory first,
//! which has none of a simulated host's handles: they cost there what they cost without another.

use std::ffi::CStr;
use std::sync::OnceLock;

use viaduct_calls::Line;
use viaduct_calls::via::{self, Remote};
use viaduct_provider::{Error, NicHandle, Provider, Result, ReturnCode};
use viaduct_shm::Shm;

/// This process as a client of a simulation, whose coordinator answers its calls.
struct Turn(viaduct_turns::Client);

impl Line for Turn {
    fn call(&self, what: &'static CStr, request: &[u8], answer: &mut Vec<u8>) {
        self.0.call(what, request, answer);
    }
}

/// Where this process runs.
enum Place {
    ThisMachine,
    SimulatedHost(Remote),
    /// On no simulated host, though it is to run on one.
    Nowhere,
}

fn place() -> &'static Place {
    static PLACE: OnceLock<Place> = OnceLock::new();
    PLACE.get_or_init(|| match viaduct_turns::client() {
        Some(client) => {
            let line: &'static Turn = Box::leak(Box::new(Turn(client)));
            Place::SimulatedHost(Remote::at(line))
        }
        None if std::env::var_os(viaduct_turns::SOCKET_VARIABLE).is_some() => Place::Nowhere,
        None => Place::ThisMachine,
    })
}

/// The fabric between processes of this machine: what it does with a message is known when this is
/// compiled.
#[inline(always)]
pub(crate) const fn local() -> &'static Shm {
    Shm::global()
}

/// The simulated host that this process runs on, if it runs on one.
#[inline(always)]
pub(crate) fn remote() -> Option<&'static Remote> {
    match place() {
        Place::SimulatedHost(remote) => Some(remote),
        Place::ThisMachine | Place::Nowhere => None,
    }
}

/// The fabric of this process.
#[inline(always)]
pub(crate) fn fabric() -> &'static dyn Provider {
    match remote() {
        None => local(),
        Some(remote) => remote,
    }
}

/// Has the fabric of this process carry out a call that messages make: by its name on a simulated
/// host, and by that of shared memory.
macro_rules! on_fabric {
    ($remote:ident | $local:ident($($argument:expr),*)) => {
        match $crate::fabric::remote() {
            None => $crate::fabric::local().$local($($argument),*),
            Some(remote) => remote.$remote($($argument),*),
        }
    };
}
pub(crate) use on_fabric;

/// The fabric's name of the NIC of this process.
///
/// # Errors
///
/// When there is none: its figures would be those of this machine.
pub(crate) fn local_device() -> Result<&'static str> {
    match place() {
        Place::ThisMachine => Ok(Shm::devices()[0]),
        Place::SimulatedHost(_) => Ok(via::FIRST_DEVICE),
        Place::Nowhere => {
            let reason = "this process is to run on a simulated host and does not: \
                          libviaduct-time.so is not loaded, or of another version";
            Err(Error::new(ReturnCode::Resource, reason))
        }
    }
}

/// Opens the NIC of a number, on a simulated host that has one. Elsewhere there is one NIC.
pub(crate) fn open_numbered(number: u32) -> Option<NicHandle> {
    remote()?.open_nic(&via::device(number)).ok()
}

/// Whether VIs of a NIC may have tag 0.
pub(crate) fn set_any_tag(nic: NicHandle, enabled: bool) -> Result<()> {
    match remote() {
        None => local().set_any_tag(nic, enabled),
        Some(remote) => remote.set_any_tag(nic, enabled),
    }
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
