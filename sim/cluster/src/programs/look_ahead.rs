//! Asking for memory before it is read, of hosts with programs, as `look_ahead.rs` does for others.
//! They have more of it, so that fewer of them fill the near caches.

use viaduct_core::ViId;

use super::{OF_PROGRAM, Programs};
use crate::cluster::Cluster;
use crate::event::Event;
use crate::message::MessageId;

/// From so many hosts on the events ahead are worth a look: fewer are in the near caches.
const HOSTS_MIN: usize = 256;

impl<P: Programs> Cluster<P> {
    /// Asks for what the next events will read: first what an event names, then what that names.
    #[inline]
    pub(crate) fn look_ahead_of_programs(&self) {
        if self.engines.len() >= HOSTS_MIN {
            self.look_at_events();
        }
    }

    fn look_at_events(&self) {
        // A flow's message is known when the flow is there.
        match self.queue.upcoming(8) {
            Some(Event::FlowEnds(flow)) => self.network.prefetch_flow(flow),
            Some(event) => self.look_at_message(event),
            None => {}
        }
        if let Some(event @ Event::FlowEnds(_)) = self.queue.upcoming(6) {
            self.look_at_message(event);
        }
        let place = |distance| {
            self.queue
                .upcoming(distance)
                .and_then(|it| self.place_of(it))
        };
        if let Some((host, _)) = place(4) {
            self.look_at_host(host, host);
            self.programs.prefetch(host, None);
        }
        if let Some((host, Some(vi))) = place(2) {
            self.programs.prefetch(host, Some(vi));
        }
    }

    #[inline]
    fn look_at_message(&self, event: Event<P::Event>) {
        if let Some(message) = self.message_ahead(event) {
            self.messages.prefetch(message);
        }
    }

    /// The message that an event is about.
    #[inline]
    fn message_ahead(&self, event: Event<P::Event>) -> Option<MessageId> {
        match event {
            Event::Begins(id)
            | Event::Fetched(id)
            | Event::HeadArrives(id)
            | Event::Meets(id)
            | Event::Sent(id)
            | Event::TailArrives(id)
            | Event::Acknowledged(id) => Some(id),
            Event::FlowEnds(flow) => {
                let tag = self.network.tag(flow);
                (tag & OF_PROGRAM == 0).then_some(MessageId(tag))
            }
            _ => None,
        }
    }

    /// Whose state an event reads: a host's, and there a VI's if it is about one.
    #[inline]
    fn place_of(&self, event: Event<P::Event>) -> Option<(u32, Option<ViId>)> {
        match event {
            Event::OfPrograms(event) => Some((self.programs.host_of(event)?, None)),
            Event::EngineFree(host) => Some((host, None)),
            _ => {
                let message = self.messages.get(self.message_ahead(event)?);
                let (end, vi) = match event {
                    Event::TailArrives(_) | Event::HeadArrives(_) | Event::Meets(_) => {
                        (message.target, message.target_vi)
                    }
                    _ => (message.source, message.source_vi),
                };
                // What a study's own process has of a VI is not its host's programs'.
                let vi = message.is_of::<P>().then_some(vi);
                Some((self.host_of_end(message, end), vi))
            }
        }
    }
}
