//! Asking for memory before it is read.
//!
//! A cluster of a hundred thousand hosts does not fit into a cache, and an event reads a few dozen
//! lines that nothing read for long. What is read can be told in advance: the next timers and ends
//! of flows are known, and a message's target is known when it is posted. Nothing here changes a
//! result. Measured: a tenth to a quarter of the time at 65,536 hosts.

use viaduct_core::ViId;
use viaduct_engine::{prefetch, prefetch_all, prefetch_range};

use crate::cluster::Cluster;
use crate::connections::Connection;
use crate::event::Event;
use crate::message::{Message, MessageId};
use crate::programs::Programs;
use viaduct_network::fluid::FlowId;

/// From so many hosts on the events ahead are worth a look. A smaller cluster's state is mostly in
/// the cache, and its lanes are nearly empty: an event there is due soon after it was scheduled.
const HOSTS_MIN: usize = 8_192;

impl<P: Programs> Cluster<P> {
    /// Asks for what the next events will read: first what an event names, then what that names.
    #[inline]
    pub(crate) fn look_ahead(&self) {
        if P::EXIST {
            return self.look_ahead_of_programs();
        }
        if self.engines.len() < HOSTS_MIN {
            return;
        }
        if self.queue.popped_from_lane() {
            self.look_at_lane();
        } else {
            self.look_at_timers();
        }
    }

    /// Arrivals and ends of flows.
    fn look_at_timers(&self) {
        match self.queue.upcoming(7) {
            Some(Event::Arrival(process)) => self.look_at_process(process),
            Some(Event::FlowEnds(flow)) => self.network.prefetch_flow(flow),
            _ => {}
        }
        match self.queue.upcoming(5) {
            Some(Event::Arrival(process)) => {
                let state = &self.processes[process as usize];
                state.connections.prefetch();
                if let Some(drawn) = state.next {
                    self.look_at_nic(self.host_of(drawn.target));
                }
            }
            Some(Event::FlowEnds(flow)) => {
                let tag = self.network.prefetch_path(flow);
                if tag != Self::DEVICE_TAG {
                    self.messages.prefetch(MessageId(tag));
                }
            }
            _ => {}
        }
        match self.queue.upcoming(3) {
            Some(Event::Arrival(process)) => {
                if let Some((target, connection)) = self.next_connection(process) {
                    self.look_at_vi(process, connection.vi);
                    self.look_at_vi(target, connection.peer_vi);
                }
            }
            Some(Event::FlowEnds(flow)) => {
                if let Some(message) = self.message_of_flow(flow) {
                    self.look_at_process(message.source);
                    self.look_at_process(message.target);
                }
            }
            _ => {}
        }
        match self.queue.upcoming(1) {
            Some(Event::Arrival(process)) => {
                if let Some((target, connection)) = self.next_connection(process) {
                    self.look_at_send(process, connection.vi);
                    self.look_at_receive(target, connection.peer_vi);
                }
            }
            Some(Event::FlowEnds(flow)) => {
                if let Some(message) = self.message_of_flow(flow) {
                    self.look_at_vi(message.source, message.source_vi);
                    self.look_at_vi(message.target, message.target_vi);
                }
            }
            _ => {}
        }
    }

    /// The connection that a process's next message takes, if there is one, and its target.
    #[inline]
    fn next_connection(&self, process: u32) -> Option<(u32, &Connection)> {
        let state = &self.processes[process as usize];
        let target = state.next?.target;
        let place = state.connections.place_of(target)?;
        Some((target, state.connections.get(place)))
    }

    #[inline]
    fn message_of_flow(&self, flow: FlowId) -> Option<&Message> {
        let tag = self.network.tag(flow);
        (tag != Self::DEVICE_TAG).then(|| self.messages.get(MessageId(tag)))
    }

    /// Events of constant delay: what happens to a message at either end.
    fn look_at_lane(&self) {
        if let Some((id, _)) = self.queue.upcoming(10).and_then(message_of) {
            self.messages.prefetch(id);
        }
        if let Some((id, is_at_source)) = self.queue.upcoming(6).and_then(message_of) {
            let message = self.messages.get(id);
            self.look_at_process(message.target);
            if is_at_source {
                self.look_at_process(message.source);
            }
        }
        if let Some((id, is_at_source)) = self.queue.upcoming(4).and_then(message_of) {
            let message = self.messages.get(id);
            self.look_at_vi(message.target, message.target_vi);
            if is_at_source {
                self.look_at_vi(message.source, message.source_vi);
                self.processes[message.source as usize]
                    .connections
                    .prefetch();
            }
        }
        if let Some((id, _)) = self.queue.upcoming(2).and_then(message_of) {
            let message = self.messages.get(id);
            self.look_at_receive(message.target, message.target_vi);
        }
    }

    /// Asks for a process, its host and its NIC.
    #[inline]
    pub(crate) fn look_at_process(&self, process: u32) {
        let host = self.host_of(process);
        prefetch_all(self.drawn(host));
        self.look_at_host(host, process);
        prefetch_all(&self.processes[process as usize]);
    }

    /// Asks for what a process needs of its host and one of its adapters: buffers, processor and
    /// engines.
    #[inline]
    pub(crate) fn look_at_host(&self, host: u32, process: u32) {
        let first = self.numbering.first_place(host);
        prefetch(&raw const self.buffers[first as usize]);
        prefetch(&raw const self.processors[self.processor_of(host, process)]);
        prefetch_all(&self.engines[host as usize]);
    }

    /// Asks for the NIC of a host.
    #[inline]
    pub(crate) fn look_at_nic(&self, host: u32) {
        prefetch_all(self.drawn(host));
    }

    /// Asks for the state of a VI. Its NIC should have been asked for.
    #[inline]
    pub(crate) fn look_at_vi(&self, process: u32, vi: ViId) {
        let nic = self.drawn(self.host_of(process));
        for (address, bytes) in nic.state_addresses(vi) {
            prefetch_range(address, bytes);
        }
    }

    /// Asks for the oldest send descriptor of a VI. The VI should have been asked for.
    #[inline]
    pub(crate) fn look_at_send(&self, process: u32, vi: ViId) {
        let nic = self.drawn(self.host_of(process));
        prefetch(nic.oldest_send_address(vi));
    }

    /// Asks for the receive descriptor that a VI takes next. The VI should have been asked for.
    #[inline]
    pub(crate) fn look_at_receive(&self, process: u32, vi: ViId) {
        let nic = self.drawn(self.host_of(process));
        prefetch(nic.next_receive_address(vi));
    }
}

/// The message that an event in a lane is about, and whether it reads the source's state too.
#[inline]
fn message_of<E>(event: Event<E>) -> Option<(MessageId, bool)> {
    match event {
        Event::Fetched(id) => Some((id, true)),
        Event::HeadArrives(id)
        | Event::TailArrives(id)
        | Event::Reaped(id)
        | Event::Reposted(id) => Some((id, false)),
        _ => None,
    }
}
