//! The hosts' ends of their links: who waits for whom.

use std::collections::VecDeque;

use viaduct_engine::{Stream, Time};

use crate::packets::{PacketCounts, Parcel};

/// A host's ends of its link.
#[derive(Clone, Debug)]
pub(crate) struct Port<P> {
    /// When the link to it is free.
    pub(crate) free_at: Time,
    /// When its sending engine is free.
    pub(crate) engine_free_at: Time,
    /// Buffers promised or taken.
    pub(crate) taken: u16,
    /// Its engine holds a packet that cannot go on, or that it is not rid of yet.
    pub(crate) is_stopped: bool,
    /// How often it began anew.
    pub(crate) life: u32,
    /// Packets that wait for a buffer, on their ways.
    pub(crate) waiting: VecDeque<P>,
    /// Packets behind the engine, and when each is there to be sent.
    pub(crate) outbox: VecDeque<(P, Time)>,
}

impl<P> Default for Port<P> {
    fn default() -> Self {
        Self {
            free_at: Time::ZERO,
            engine_free_at: Time::ZERO,
            taken: 0,
            is_stopped: false,
            life: 0,
            waiting: VecDeque::new(),
            outbox: VecDeque::new(),
        }
    }
}

/// The ends of all hosts that take part.
#[derive(Clone, Debug)]
pub struct Ports<P> {
    list: Vec<Port<P>>,
    pub(crate) receive_buffers: u16,
    pub(crate) counts: PacketCounts,
    lost_per_million: u32,
    random: Option<Stream>,
}

impl<P: Parcel> Ports<P> {
    /// Of no host yet. `receive_buffers` packets are what each can hold before it stops its link.
    pub(crate) fn new(receive_buffers: u16) -> Self {
        Self {
            list: Vec::new(),
            receive_buffers,
            counts: PacketCounts::default(),
            lost_per_million: 0,
            random: None,
        }
    }

    /// The place of a host more.
    pub(crate) fn add(&mut self) -> u32 {
        self.list.push(Port::default());
        self.list.len() as u32 - 1
    }

    #[inline]
    pub(crate) fn of(&self, host: u32) -> &Port<P> {
        &self.list[host as usize]
    }

    #[inline]
    pub(crate) fn of_mut(&mut self, host: u32) -> &mut Port<P> {
        &mut self.list[host as usize]
    }

    pub(crate) fn lose(&mut self, per_million: u32, random: Stream) {
        self.lost_per_million = per_million;
        self.random = Some(random);
    }

    /// Whether a packet that leaves now is lost.
    #[inline(always)]
    pub(crate) fn loses(&mut self) -> bool {
        self.lost_per_million > 0 && self.draws_loss()
    }

    #[inline(never)]
    fn draws_loss(&mut self) -> bool {
        let most = u64::from(self.lost_per_million);
        let random = self.random.as_mut();
        let is_lost = random.is_some_and(|random| random.below(1_000_000) < most);
        self.counts.lost += u64::from(is_lost);
        is_lost
    }

    /// A packet whose target has no buffer waits, and its engine with it.
    #[cold]
    pub(crate) fn stop(&mut self, packet: P) {
        self.counts.stops += 1;
        self.of_mut(packet.to()).waiting.push_back(packet);
        self.of_mut(packet.from()).is_stopped = true;
    }

    /// The packet that waited longest for a buffer of a host, if there is one for it.
    pub(crate) fn next_waiting(&mut self, host: u32) -> Option<P> {
        let most = self.receive_buffers;
        let port = self.of_mut(host);
        (port.taken < most).then(|| port.waiting.pop_front())?
    }

    /// The packet behind an engine that is free.
    pub(crate) fn next_behind(&mut self, from: u32) -> Option<(P, Time)> {
        let port = self.of_mut(from);
        (!port.is_stopped).then(|| port.outbox.pop_front())?
    }

    /// A host's ends as at the beginning; those whose packets waited for it, and may go on.
    pub(crate) fn reset(&mut self, host: u32) -> Vec<u32> {
        let old = core::mem::take(self.of_mut(host));
        self.of_mut(host).life = old.life + 1;
        if old.is_stopped {
            // The packet that its engine held waits at another host, if it was not on its way.
            for port in &mut self.list {
                let held = port.waiting.iter();
                if let Some(place) = held.into_iter().position(|its| its.from() == host) {
                    port.waiting.remove(place);
                    break;
                }
            }
        }
        self.counts.cut += old.waiting.len() as u64;
        let senders = old.waiting.iter().map(Parcel::from);
        senders.filter(|from| *from != host).collect()
    }
}
