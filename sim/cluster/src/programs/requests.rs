//! What programs ask of a host that is no message: work of its processor, and bytes that they have
//! moved below VIA.

use viaduct_engine::Time;
use viaduct_network::fluid::FlowDemand;
use viaduct_network::{Begun, JourneyId, Landing, Transfer};

use super::guest::ProgramCounts;
use super::{OF_PROGRAM, Programs};
use crate::cluster::{Cluster, class};
use crate::event::Event;
use crate::faults::Fate;
use crate::host::{Processor, Turn};
use crate::result::MessageCounts;

/// How something crosses its way, or the present hop of it.
#[derive(Clone, Copy, Debug)]
pub struct Crossing {
    /// From one host to another.
    pub ends: (u32, u32),
    /// When its bytes began to move there.
    pub begun: Time,
    /// How long a byte of it is on its way there.
    pub delay: Time,
    /// Which links of the way.
    links: (u16, u16),
}

impl<P: Programs> Cluster<P> {
    /// How many places the network has, one for each adapter of a host.
    #[inline]
    #[must_use]
    pub fn place_count(&self) -> u32 {
        self.engines.len() as u32
    }

    /// What works for the program that runs on the host of a place.
    #[inline]
    fn processor_with(&mut self, place: u32) -> &mut Processor {
        let worker = self.worker(place);
        &mut self.processors[worker]
    }

    /// Gives the processor of a host that works for the program which runs there, or for what none
    /// does, work from some moment on; when it begins, and when it is done.
    #[inline]
    pub fn work(&mut self, host: u32, from: Time, span: Time) -> (Time, Time) {
        self.processor_with(host).work(from, span)
    }

    /// As [`Cluster::work`], from now on; when it is done.
    #[inline]
    pub fn work_now(&mut self, host: u32, span: Time) -> Time {
        let now = self.queue.now();
        self.processor_with(host).work(now, span).1
    }

    /// Whether a fault has a host's processor be slower at some time.
    #[must_use]
    pub fn is_slowed(&self, host: u32) -> bool {
        self.processors[self.worker(host)].slowings.is_some()
    }

    /// When a host's processor has done all the work it was given.
    #[inline]
    #[must_use]
    pub fn processor_free(&self, host: u32) -> Time {
        self.processors[self.worker(host)].free
    }

    /// How long it takes a program of a host that polls, and is told of something now, to see it:
    /// half a turn of its loop. One whose processor does something else sees it when it looks next.
    #[inline]
    #[must_use]
    pub fn polling_delay(&self, host: u32) -> Time {
        let processor = &self.processors[self.worker(host)];
        match processor.is_idle_until(self.queue.now()) {
            true => self.hardware.of(host).processor.polling_delay,
            false => Time::ZERO,
        }
    }

    /// Whether nothing is to come that a program may hear of, but for time: what goes on without
    /// end around programs keeps none of them from being stuck.
    ///
    /// Counted is what has begun for programs and has not ended: their timers, messages that have
    /// started and not arrived, turns at adapters, messages about connections, requests below VIA,
    /// and what is to follow from faults.
    #[inline]
    #[must_use]
    pub const fn is_quiet(&self) -> bool {
        self.guests.going == 0
    }

    /// Events that have happened.
    #[inline]
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.queue.fired()
    }

    /// Counts an event that was spared, since it was known to do nothing.
    pub fn count_spared(&mut self) {
        self.queue.count_spared();
    }

    /// What the messages of programs are counted as.
    #[must_use]
    pub const fn program_counts(&self) -> ProgramCounts {
        self.guests.counts
    }

    /// Whether there is drawn traffic or a list, too.
    #[must_use]
    pub fn has_drawn(&self) -> bool {
        !self.nics.is_empty()
    }

    /// Drawn and listed messages around programs, up to now.
    #[must_use]
    pub fn around(&self) -> MessageCounts {
        let counts = self.accounting.around;
        MessageCounts {
            in_flight: counts.posted - counts.delivered - counts.dropped,
            ..counts
        }
    }

    /// Transfers of background traffic that have ended.
    #[must_use]
    pub const fn transfers(&self) -> u64 {
        self.transfers
    }

    /// A request joins the turns of a host's sending engine, which it will hold.
    pub fn queue_request(&mut self, host: u32, request: u32) {
        let turn = Turn::Request(request);
        self.engines[host as usize].turns.push_back(turn);
        self.guests.going += 1;
        self.serve(host);
    }

    /// The engine of a host is free again.
    pub fn end_request(&mut self, host: u32) {
        self.handle_engine_free(host);
    }

    /// The bytes of a request begin to move; those from one host to another in order.
    pub fn begin_request(
        &mut self,
        request: u32,
        ends: (u32, u32),
        demand: FlowDemand,
    ) -> Crossing {
        let transfer = Transfer {
            ends,
            flow: 0,
            class: class::REQUESTS,
            is_ordered: true,
            landing: Landing::Apart,
            demand: FlowDemand {
                tag: request | OF_PROGRAM,
                ..demand
            },
        };
        self.guests.going += 1;
        let begun = self.network.begin(&mut self.queue, &transfer);
        self.crossing(ends, &begun)
    }

    /// What has begun to cross its way, or the next hop of it.
    pub fn crossing(&self, ends: (u32, u32), begun: &Begun) -> Crossing {
        Crossing {
            ends,
            begun: self.queue.now(),
            delay: begun.delay,
            links: self.links_crossed(begun.journey),
        }
    }

    /// What has become of so many frames that have moved over their way, if the last byte is on
    /// its way to its target, or over a hop of it.
    pub fn fate_of_request(&mut self, crossing: &Crossing, frames: u64, is_there: bool) -> Fate {
        let Crossing {
            ends, begun, links, ..
        } = *crossing;
        if self.failures.is_none() {
            return Fate::Whole;
        }
        let is_silent = self.is_nic_dead(ends.0) || self.is_nic_dead(ends.1);
        if is_silent || self.cut_since(begun, ends, 0, links).is_some() {
            return Fate::Lost;
        }
        let way = self.network.way(ends, 0);
        match &mut self.failures {
            Some(failures) if is_there => failures.faults.draw(way, frames).0,
            _ => Fate::Whole,
        }
    }

    /// A request that is stored on its way goes on after some time.
    pub fn go_on_after(&mut self, journey: JourneyId, after: Time) {
        let time = self.queue.now() + after;
        if after > Time::ZERO {
            self.queue.schedule(time, Event::GoesOn(journey));
        } else {
            self.go_on(journey);
        }
    }

    /// A request that is stored on its way goes no further.
    pub fn give_up_request(&mut self, journey: JourneyId) {
        self.guests.going -= 1;
        self.network.give_up(journey);
    }
}
