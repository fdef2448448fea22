//! Asking for memory before it is read, as `viaduct_cluster`'s look ahead does for clusters without
//! programs: many hosts do not fit into the near caches, and the next events are known. Nothing
//! here changes a result.

use viaduct_engine::{prefetch_all, prefetch_range};
use viaduct_provider::via::ViId;

use crate::cluster::Cluster;
use crate::event::Event;
use crate::host::DEVICE;
use crate::message::MessageId;
use crate::raw::raw_of_tag;
use crate::traffic::TAG;

/// From so many hosts on the events ahead are worth a look: fewer are in the near caches.
const HOSTS_MIN: usize = 256;

impl Cluster {
    /// Asks for what the next events will read: first what an event names, then what that names.
    #[inline]
    pub(crate) fn look_ahead(&self) {
        if self.hosts.len() >= HOSTS_MIN {
            self.look_at_events();
        }
    }

    fn look_at_events(&self) {
        // A flow's message is known when the flow is there.
        match self.upcoming(8) {
            Some(Event::FlowEnds(flow)) => self.network.prefetch_flow(flow),
            Some(event) => self.look_at_message(event),
            None => {}
        }
        if let Some(event @ Event::FlowEnds(_)) = self.upcoming(6) {
            self.look_at_message(event);
        }
        if let Some((host, _)) = self.upcoming(4).and_then(|event| self.place_of(event)) {
            prefetch_all(&self.hosts[host as usize]);
        }
        if let Some((host, Some(vi))) = self.upcoming(2).and_then(|event| self.place_of(event)) {
            let agent = &self.hosts[host as usize].agent;
            for (address, bytes) in agent.devices[DEVICE].nic.state_addresses(vi) {
                prefetch_range(address, bytes);
            }
            let (address, bytes) = agent.state_address(DEVICE, vi);
            prefetch_range(address, bytes);
        }
    }

    #[inline]
    fn look_at_message(&self, event: Event) {
        if let Some(message) = self.message_of(event) {
            self.messages.prefetch(message);
        }
    }

    #[inline]
    fn upcoming(&self, distance: usize) -> Option<Event> {
        self.queue.upcoming(distance)?.event()
    }

    /// The message that an event is about.
    #[inline]
    fn message_of(&self, event: Event) -> Option<MessageId> {
        match event {
            Event::Begins(id)
            | Event::Fetched(id)
            | Event::Heads(id)
            | Event::Sent(id)
            | Event::Arrives(id)
            | Event::Acknowledged(id) => Some(id),
            Event::FlowEnds(flow) => {
                let tag = self.network.tag(flow);
                (tag != TAG && raw_of_tag(tag).is_none()).then_some(MessageId(tag))
            }
            _ => None,
        }
    }

    /// Whose state an event reads: a host's, and there a VI's if it is about one.
    #[inline]
    fn place_of(&self, event: Event) -> Option<(u32, Option<ViId>)> {
        match event {
            Event::Wake(task, _) => Some((self.tasks.host(task), None)),
            Event::Call(host) | Event::EngineFree(host) => Some((host, None)),
            Event::Doorbell(host, vi) => Some((host, Some(vi))),
            _ => {
                let message = self.messages.peek(self.message_of(event)?)?;
                Some(match event {
                    Event::Arrives(_) | Event::Heads(_) => (message.target, Some(message.peer.vi)),
                    _ => (message.host, Some(message.vi)),
                })
            }
        }
    }
}
