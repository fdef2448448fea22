//! What carries packets here: rings between processes, and what these show each other.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use viaduct_core::verbs::carrier::{Carrier, Signal};
use viaduct_core::verbs::regions::RegionState;
use viaduct_core::verbs::{
    Completion, CompletionOpcode, CompletionStatus, QueuePairType, Receive, Result, SendOpcode,
    check, requester,
};

use crate::counters::live;
use crate::device::Device;
use crate::error::of_system;
use crate::faults;
use crate::link::OwnTables;
use crate::state::{OfPair, OnRing, Pair, Short};

/// Counts what waits behind a descriptor: readable while something does.
#[derive(Debug)]
pub(crate) struct Counter(OwnedFd);

impl Counter {
    pub(crate) fn new() -> Result<Self> {
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::CLOEXEC;
        eventfd(0, flags).map(Self).map_err(of_system)
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Signal for Counter {
    fn raise(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    fn lower(&self) {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if rustix::event::poll(&mut polled, Some(&at_once)) == Ok(1) {
            let _ = rustix::io::read(self.0.as_fd(), &mut [0_u8; 8]);
        }
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Rings between processes.
#[derive(Debug)]
pub(crate) struct Rings {
    /// What this process shows its peers.
    pub(crate) tables: OwnTables,
    /// Places of queue pairs with sends.
    pub(crate) active: Vec<u32>,
}

impl Carrier for Rings {
    type Device = Device;
    type Signal = Counter;
    type Pair = OfPair;
    type Send = OnRing;

    fn now(&self) -> u64 {
        now()
    }

    #[inline]
    fn completes(&mut self, completion: &Completion) {
        if completion.status != CompletionStatus::Success {
            live().errors.add(1);
        }
    }

    #[inline]
    fn succeeds(&mut self, opcode: SendOpcode, bytes: u64) {
        let live = live();
        let (count, sum) = match requester::completed(opcode) {
            CompletionOpcode::RdmaWrite => (&live.writes, &live.write_bytes),
            CompletionOpcode::RdmaRead => (&live.reads, &live.read_bytes),
            CompletionOpcode::Send => (&live.sends, &live.send_bytes),
            _ => (&live.atomics, &live.atomic_bytes),
        };
        count.add(1);
        sum.add(bytes);
    }

    fn shows_region(&self, key: u32, region: Option<&RegionState>) {
        let shown = region.map(|state| (&state.region, state.address));
        self.tables.regions.set(key, shown);
    }

    fn shows_pair(&self, pair: &Pair) {
        let entry = self.tables.pairs.at(pair.key.index());
        let attributes = &pair.attributes;
        entry.domain.store(pair.domain.index(), Ordering::Relaxed);
        entry
            .access
            .store(attributes.access_flags, Ordering::Relaxed);
        entry.peer.store(attributes.destination, Ordering::Relaxed);
        entry.expected.store(pair.expected, Ordering::Relaxed);
        let hears = check::hears(pair.state)
            && pair.options.kind != QueuePairType::Ud
            && !faults::is_port_down();
        entry.hears.store(u32::from(hears), Ordering::Release);
    }

    fn hides_pair(&mut self, pair: &Pair) {
        let place = pair.key.index();
        // What it has acknowledged stays to be read: its peer may look for it later.
        let entry = self.tables.pairs.at(place);
        entry.hears.store(0, Ordering::Release);
        self.active.retain(|each| *each != place);
    }

    fn puts_pair(&mut self, pair: &mut Pair) {
        pair.own.short = Short::of(pair);
    }

    fn resets(own: &mut OfPair) {
        own.incoming = None;
        own.link = None;
    }

    fn rewinds(pair: &mut Pair) {
        pair.own.has_gap = false;
    }

    fn takes_back(own: &mut OfPair) -> Option<Receive> {
        own.incoming.take()?.receive
    }
}
