//! What one process holds: its name among processes, its links, its service thread.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use viaduct_provider::via::HostAddress;
use viaduct_provider::{Error, Result, ReturnCode};

use crate::connect::Connections;
use crate::fork;
use crate::link::{CloseReason, Link};
use crate::names;
use crate::rendezvous::Place;
use crate::segment::Segment;
pub(crate) use crate::service::{Pace, Progress};
use crate::service::{Service, locked, spawn};
use crate::shared::{SegmentId, SharedAllocations};
use crate::wire::Process;

/// Bytes of the segment that peers wake our threads by.
pub(crate) const DOORBELL_BYTES: usize = 4096;

/// One process among those that connect to each other. Made once and never dropped; tests make
/// several, which know nothing of each other.
pub(crate) struct Host {
    nonce: [u8; 16],
    address: HostAddress,
    place: Place,
    /// Whether user memory is kept from peers.
    protected: bool,
    doorbells: Segment,
    shared: Arc<SharedAllocations>,
    service: Service,
    links: Mutex<BTreeMap<[u8; 16], Vec<Arc<Link>>>>,
    last_connection: AtomicU64,
    pub(crate) connections: Connections,
}

impl Host {
    /// The one of this process; made, with its service thread, by the first call.
    ///
    /// # Errors
    ///
    /// `Resource` when the system has no descriptors, memory or threads left, and in a forked child
    /// of a process that has one.
    pub(crate) fn get() -> Result<&'static Self> {
        static HOST: OnceLock<&'static Host> = OnceLock::new();
        static MAKING: Mutex<()> = Mutex::new(());
        if let Some(refusal) = fork::refusal(ReturnCode::Resource) {
            return Err(refusal);
        }
        if let Some(host) = HOST.get() {
            return Ok(host);
        }
        fork::watch();
        let _making = locked(&MAKING);
        if let Some(host) = HOST.get() {
            return Ok(host);
        }
        let host = Self::start(Place::from_environment(), protected_by_environment()).map_err(|error| {
            Error::new(
                ReturnCode::Resource,
                format!(
                    "the shared-memory fabric could not start: {error}; free descriptors, memory or threads"
                ),
            )
        })?;
        Ok(HOST.get_or_init(|| host))
    }

    /// Makes another one, for the life of the process.
    pub(crate) fn start(place: Place, protected: bool) -> io::Result<&'static Self> {
        let host = Self::make(place, protected)?;
        spawn("viaduct-service", || host.service.run())?;
        Ok(host)
    }

    /// One whose service thread never comes to run.
    #[cfg(test)]
    pub(crate) fn start_unserved(place: Place) -> io::Result<&'static Self> {
        Self::make(place, false)
    }

    fn make(place: Place, protected: bool) -> io::Result<&'static Self> {
        let nonce = random()?;
        // Numbers of several processes meet in one VI: they should differ.
        let first_connection = u64::from_le_bytes(random()?) >> 1;
        let host: &'static Self = Box::leak(Box::new(Self {
            nonce,
            address: names::own_address(),
            place,
            protected,
            doorbells: Segment::create("viaduct-doorbells", DOORBELL_BYTES)?,
            shared: Arc::new(SharedAllocations::new()),
            service: Service::new()?,
            links: Mutex::default(),
            last_connection: AtomicU64::new(first_connection),
            connections: Connections::default(),
        }));
        host.shared
            .on_release(|segment| host.retire_segment(segment));
        Ok(host)
    }

    /// The number of this machine: 48 bits, equal in all its processes, never 0.
    pub(crate) const fn address(&self) -> HostAddress {
        self.address
    }

    /// Where waiters are found.
    pub(crate) const fn place(&self) -> &Place {
        &self.place
    }

    /// The page by which peers wake threads of this process.
    pub(crate) const fn doorbells(&self) -> NonNull<u8> {
        self.doorbells.base()
    }

    /// The same, to be sent to peers.
    pub(crate) const fn doorbell_segment(&self) -> &Segment {
        &self.doorbells
    }

    /// The memory that this process allocated to be shared.
    pub(crate) const fn shared(&self) -> &Arc<SharedAllocations> {
        &self.shared
    }

    /// The service thread's side.
    pub(crate) const fn service(&self) -> &Service {
        &self.service
    }

    /// Whether user memory is kept from peers.
    pub(crate) const fn is_protected(&self) -> bool {
        self.protected
    }

    /// What this process tells others of itself.
    pub(crate) fn process(&self) -> Process {
        Process {
            nonce: self.nonce,
            nonce_address: (&raw const self.nonce) as u64,
            protected: self.is_protected(),
        }
    }

    /// Has the service thread call `progress` every 0.2 to 2 ms until it returns false.
    pub(crate) fn watch(&self, progress: Arc<dyn Progress>, pace: Pace) {
        self.service.watch(progress, pace);
    }

    /// Has peers that died noticed by the caller, if nobody looked for a while. Holding no lock.
    pub(crate) fn hear_endings(&self) {
        self.service.hear_endings();
    }

    /// A number that no other connection of this process has, and hardly one of another.
    pub(crate) fn next_connection(&self) -> u64 {
        self.last_connection.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A link to a process that others may use, too: by its number, or any. Of the two ends of a
    /// link within this process, the one that made it or the other.
    pub(crate) fn link(
        &self,
        nonce: [u8; 16],
        pid: i32,
        id: Option<u64>,
        creator_of_loopback: bool,
    ) -> Option<Arc<Link>> {
        let links = locked(&self.links);
        let found = links.get(&nonce)?.iter().find(|link| {
            link.is_alive()
                && link.peer().pid == pid
                && id.is_none_or(|id| link.id() == id)
                && (nonce != self.nonce || link.is_creator() == creator_of_loopback)
        });
        found.cloned()
    }

    /// Makes a link known to those who connect. Until it is heard, its messages wait.
    pub(crate) fn publish(&self, link: &Arc<Link>) {
        let mut links = locked(&self.links);
        links
            .entry(link.peer().nonce)
            .or_default()
            .push(link.clone());
    }

    /// Has the service thread hear a published link, until it dies.
    pub(crate) fn hear(
        &self,
        link: &Arc<Link>,
        pidfd: Option<rustix::fd::OwnedFd>,
    ) -> io::Result<()> {
        // One's own end is noticed by nobody.
        let pidfd = pidfd.filter(|_| link.peer().nonce != self.nonce);
        let heard = self.service.add(link.clone(), pidfd);
        if heard.is_err() {
            self.forget(link);
            link.kill(CloseReason::Died);
        }
        heard
    }

    /// A link is dead.
    pub(crate) fn forget(&self, link: &Arc<Link>) {
        let mut links = locked(&self.links);
        let nonce = link.peer().nonce;
        if let Some(same_peer) = links.get_mut(&nonce) {
            same_peer.retain(|other| !Arc::ptr_eq(other, link));
            if same_peer.is_empty() {
                links.remove(&nonce);
            }
        }
    }

    /// Links that are alive.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.service.links()
    }

    /// A segment of user memory is freed: peers let go of it.
    fn retire_segment(&self, segment: SegmentId) {
        for link in self.links() {
            link.retire_segment(segment.bits());
        }
    }

    /// A NIC is closed, and its VIs are gone: nobody waits on it, its requests are dropped, peers
    /// let go of its region table, and links that nobody uses end.
    pub(crate) fn retire_nic(&self, nic: u64) {
        self.connections.retire_nic(nic);
        for link in self.links() {
            link.retire_regions(nic);
        }
        self.service.end_idle();
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Host")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        let rest = &mut bytes[filled..];
        // SAFETY: the pointer is valid for as many bytes as are asked for.
        match unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) } {
            count if count > 0 => filled += count as usize,
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(bytes)
}

/// Whether `VIADUCT_PROTECTED` is set to anything but nothing or 0.
pub(crate) fn protected_by_environment() -> bool {
    protects(std::env::var_os("VIADUCT_PROTECTED"))
}

/// Whoever writes `yes` wants to be protected.
fn protects(value: Option<OsString>) -> bool {
    value.is_some_and(|value| !value.is_empty() && value != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_but_0_protects() {
        for (value, is_protected) in [("1", true), ("yes", true), ("0", false), ("", false)] {
            assert_eq!(protects(Some(value.into())), is_protected, "{value:?}");
        }
        assert!(!protects(None));
    }
}
