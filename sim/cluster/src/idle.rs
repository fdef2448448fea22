//! Connections that nobody uses are given back, and made again when they are.
//!
//! A study in which everyone sends to everyone would keep two VIs for each pair of processes that
//! ever talked. A connection without a message under way differs from a new one in nothing but the
//! completions of sends that its application has not taken, so that these are kept and all else is
//! not: no result depends on whether a connection was given back.

use viaduct_core::{Queue, ViId};
use viaduct_engine::Time;

use crate::cluster::Cluster;
use crate::connections::Connection;
use crate::programs::Programs;

/// Connections that a cluster keeps in any case: some 60 MB of them.
pub const CONNECTIONS_KEPT: u32 = 1 << 16;

/// Connections that it keeps for each process before it looks for idle ones.
const KEPT_PER_PROCESS: u32 = 16;

/// After a search as many connections are kept again as were in use, at least.
const GROWTH: usize = 2;

/// Connections that a cluster with so many processes keeps before it looks for idle ones.
#[must_use]
pub const fn connections_kept(processes: u32) -> u32 {
    let kept = processes.saturating_mul(KEPT_PER_PROCESS);
    if kept > CONNECTIONS_KEPT {
        kept
    } else {
        CONNECTIONS_KEPT
    }
}

/// How many connections there are, and when idle ones are looked for.
#[derive(Debug)]
pub(crate) struct Idle {
    /// Connections that are up.
    up: usize,
    /// From so many on, idle ones are looked for.
    limit: usize,
    kept: usize,
}

impl Idle {
    pub(crate) fn new(kept: u32, processes: u32) -> Self {
        let kept = match kept {
            CONNECTIONS_KEPT => connections_kept(processes),
            chosen => chosen,
        } as usize;
        Self {
            up: 0,
            limit: kept,
            kept,
        }
    }

    /// One more connection is up.
    pub(crate) fn made(&mut self) {
        self.up += 1;
    }

    /// Whether it is time to look for idle ones.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.up > self.limit
    }
}

impl Connection {
    /// Whether nothing of this end is remembered that a message to come could notice; none is under
    /// way.
    fn is_idle(&self, now: Time) -> bool {
        !self.has_late_heads && self.last_begin.max(self.last_arrival) <= now
    }
}

impl<P: Programs> Cluster<P> {
    /// Gives back the connections that are idle.
    #[cold]
    pub(crate) fn release_idle(&mut self) {
        if self.failures.is_none() {
            let busy = self.busy_pairs();
            let mut gone = Vec::new();
            for process in 0..self.processes.len() as u32 {
                self.release_idle_of(process, &busy, &mut gone);
            }
            // Each has two ends.
            self.idle.up -= gone.len() / 2;
            if !gone.is_empty() {
                self.forget(&gone);
            }
        }
        self.idle.limit = self.idle.kept.max(self.idle.up * GROWTH);
    }

    /// The pairs of processes that have a message under way, either way, in order.
    fn busy_pairs(&self) -> Vec<(u32, u32)> {
        let pair = |id| {
            let message = self.messages.get(id);
            let (source, target) = (message.source, message.target);
            (source.min(target), source.max(target))
        };
        let mut all = self.messages.under_way();
        all.retain(|id| !self.messages.get(*id).is_of::<P>());
        let mut pairs: Vec<_> = all.into_iter().map(pair).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Gives back those between a process and others with higher numbers, and adds the process and
    /// place of each end to `gone`.
    fn release_idle_of(&mut self, process: u32, busy: &[(u32, u32)], gone: &mut Vec<(u32, u32)>) {
        let now = self.queue.now();
        let peers: Vec<u32> = self.processes[process as usize]
            .connections
            .peers()
            .collect();
        for (place, peer) in (0..).zip(peers) {
            if peer <= process || busy.binary_search(&(process, peer)).is_ok() {
                continue;
            }
            let own = self.processes[process as usize].connections.get(place);
            let others = &self.processes[peer as usize].connections;
            let Some(back) = others.place_of(process) else {
                continue;
            };
            let other = others.get(back);
            let will_look =
                self.will_look_at_sends(process, place) || self.will_look_at_sends(peer, back);
            let are_idle = own.is_idle(now) && other.is_idle(now) && !will_look;
            let (vi, peer_vi) = (own.vi, other.vi);
            if are_idle && self.is_unused(process, vi) && self.is_unused(peer, peer_vi) {
                self.release((process, place, vi), (peer, back, peer_vi));
                gone.extend([(process, place), (peer, back)]);
            }
        }
    }

    /// Whether a VI has no send under way and the receives of a new one.
    fn is_unused(&self, process: u32, vi: ViId) -> bool {
        let nic = self.drawn(self.host_of(process));
        let depth = nic.queue_depth(vi, Queue::Receive);
        nic.completed(vi, Queue::Send) == nic.queue_depth(vi, Queue::Send)
            && nic.unstarted(vi, Queue::Receive) == depth
            && !self.late_receives.contains_key(&(process, vi))
    }

    fn release(&mut self, one: (u32, u32, ViId), other: (u32, u32, ViId)) {
        for ((process, place, vi), (peer, ..)) in [(one, other), (other, one)] {
            let host = self.host_of(process);
            let nic = &mut self.nics[host as usize];
            let unreaped = nic.completed(vi, Queue::Send)
                + self.processes[process as usize]
                    .connections
                    .get(place)
                    .unreaped;
            if unreaped > 0 && !self.is_direct {
                self.unreaped.insert((process, peer), unreaped);
            }
            let destroyed = nic.disconnect(vi).is_ok() && nic.destroy_vi(vi).is_ok();
            if !destroyed {
                self.violations.push(format!(
                    "process {process} could not give back a connection"
                ));
            }
            // What the ends would tell each other of it, both know.
            while nic.poll_transmit().is_some() {}
        }
    }

    /// Takes connections out of the lists, and corrects who names places in them.
    fn forget(&mut self, gone: &[(u32, u32)]) {
        for &(process, place) in gone {
            self.processes[process as usize]
                .connections
                .mark_gone(place);
        }
        let places: Vec<Vec<u32>> = self
            .processes
            .iter_mut()
            .map(|process| process.connections.compact())
            .collect();
        for id in self.messages.under_way() {
            let message = self.messages.get_mut(id);
            let (poster, _) = message.ends_as_posted();
            if let Some(&place) = places[poster as usize].get(message.connection as usize) {
                message.connection = place;
            }
        }
        for (process, looks) in &mut self.looks_at_sends {
            for look in looks {
                let moved = places[*process as usize].get(look.place as usize);
                look.place = moved.copied().unwrap_or(look.place);
            }
        }
        for engines in &mut self.engines {
            for turn in &mut engines.turns {
                turn.move_place(|process, place| {
                    let moved = places[process as usize].get(place as usize);
                    moved.copied().unwrap_or(place)
                });
            }
        }
    }
}
