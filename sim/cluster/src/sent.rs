//! A process takes what is complete of its sends.
//!
//! ```text
//!  a post -> its process looks at the sends of that VI when it has done what the post asked of its
//!            processor, and takes those that are complete, one after the other
//!        `-> what is complete later it finds behind its next post
//! ```
//!
//! A program that does the same has its processor at the same times
//! (`sim/programs/tests/integration/listed.rs`). Where an adapter interrupts the processor for what
//! it has sent, that comes before a look which is due when the processor has done with the post:
//! each look is an event there. Elsewhere what is complete when the process posts is taken behind
//! the post, with no event.

use std::collections::VecDeque;

use viaduct_engine::Time;

use crate::cluster::Cluster;
use crate::event::Event;
use crate::message::Ends;
use crate::programs::Programs;
use crate::trace::Span;
use crate::why::{MessageName, Work};

/// A process will look at the sends of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) place: u32,
    /// Behind whose post.
    message: MessageName,
}

impl<P: Programs> Cluster<P> {
    /// What is complete of a VI's sends when its process posts there: how long it takes to take it
    /// behind the post. Nothing where each look is an event.
    #[inline]
    pub(crate) fn sends_to_take(&mut self, host: u32, process: u32, ends: Ends) -> Time {
        if self.is_interrupted_for_sends {
            return Time::ZERO;
        }
        let nic = &mut self.nics[host as usize];
        let connections = &mut self.processes[process as usize].connections;
        let mut complete = core::mem::take(&mut connections.at(ends.place).unreaped);
        while nic.send_done(ends.source_vi).completion().is_some() {
            complete += 1;
        }
        let reap = self.hardware.of(host).processor.reap;
        reap.saturating_mul(complete.into())
    }

    /// The process of a message has posted it, and looks for complete sends when the processor has
    /// done what that asks of it.
    #[inline(never)]
    pub(crate) fn expect_look_at_sends(
        &mut self,
        (process, place): (u32, u32),
        message: MessageName,
        time: Time,
    ) {
        let looks = self.looks_at_sends.entry(process).or_default();
        if looks.iter().any(|look| look.place == place) {
            return;
        }
        looks.push_back(Look { place, message });
        if looks.len() == 1 {
            self.queue.schedule(time, Event::LooksAtSends(process));
        }
    }

    /// A process looks at the sends of the VI to which it has posted, if it has the processor.
    pub(crate) fn handle_look_at_sends(&mut self, process: u32) {
        let host = self.host_of(process);
        let now = self.queue.now();
        let processor = self.processor_of(host, process);
        while let Some(look) = self.looks_at_sends.get(&process).and_then(VecDeque::front) {
            let Look { place, message } = *look;
            let free = self.processors[processor].free;
            if free > now {
                self.queue.schedule(free, Event::LooksAtSends(process));
                return;
            }
            let connection = self.processes[process as usize].connections.at(place);
            let nic = &mut self.nics[host as usize];
            if connection.unreaped > 0 {
                connection.unreaped -= 1;
            } else if nic.send_done(connection.vi).completion().is_none() {
                if let Some(looks) = self.looks_at_sends.get_mut(&process) {
                    looks.pop_front();
                }
                continue;
            }
            let reap = self.hardware.of(host).processor.reap;
            let (begin, end) = self.processors[processor].work(now, reap);
            let home = self.home_port(process);
            let state = &mut self.processes[home as usize];
            state.busy_until = state.busy_until.max(end);
            let span = Span { begin, end };
            self.follow_processor_for(host, (message, process), Work::Post, span);
        }
        self.looks_at_sends.remove(&process);
    }

    /// Whether a process will look at the sends of a connection.
    pub(crate) fn will_look_at_sends(&self, process: u32, place: u32) -> bool {
        let looks = self.looks_at_sends.get(&process);
        looks.is_some_and(|looks| looks.iter().any(|look| look.place == place))
    }
}
