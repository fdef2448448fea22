//! Traffic of others, past interfaces and processors.
//!
//! A transfer is cut into parts as long as the longest message of an interface. Each is read from
//! its host's memory over the bus, and the next behind it; it leaves with the host's own packets,
//! takes a place among those that the other host's end of its link holds, as these do, and gives it
//! back when it has crossed that host's bus. What is lost is not sent again.

use viaduct_engine::Time;
use viaduct_network::Frame;
use viaduct_topology::HostId;

use crate::cluster::{Cluster, Event};
use crate::load::{Links, Load};
use crate::program::Program;

/// Bytes of a part, at most.
const PART_BYTES: u32 = 8192;

/// Programs for which nothing but traffic of others has happened for so long wait for ever: longer
/// than a transport is silent before it gives up.
pub(crate) const SILENCE: Time = Time::from_milliseconds(60_000);

/// What others still have to move, between the places of two hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    from: u32,
    to: u32,
    bytes_left: u32,
}

impl Event {
    /// Whether it is one of traffic of others.
    pub(crate) const fn is_foreign(&self) -> bool {
        matches!(
            self,
            Self::TransferBegins(_)
                | Self::TransferGoesOn(_)
                | Self::PartCame(..)
                | Self::PartWritten(..)
        )
    }
}

impl<N: Links> Cluster<N> {
    /// Has all sources begin.
    pub(crate) fn schedule_sources(&mut self) {
        for (source, at) in self.sources.first() {
            self.queue.schedule(at, Event::TransferBegins(source));
        }
    }

    pub(crate) fn handle_foreign(&mut self, now: Time, event: Event) {
        match event {
            Event::TransferBegins(source) => self.begin_transfer(source, now),
            Event::TransferGoesOn(slot) => self.send_part(slot, now),
            // A host that rebooted has forgotten what came before.
            Event::PartCame(host, _, boot) | Event::PartWritten(host, boot)
                if self.nodes[host as usize].boot != boot => {}
            Event::PartCame(host, bytes, boot) => {
                let bytes_s = self.config.host.write_bytes_s;
                let at = self.use_bus(host, now, bytes.into(), bytes_s);
                self.queue.schedule(at, Event::PartWritten(host, boot));
            }
            Event::PartWritten(host, _) => self.release_buffer(host, now),
            _ => {}
        }
    }

    /// A source begins to move bytes.
    fn begin_transfer(&mut self, source: u32, now: Time) {
        // Headers are those of packets.
        let bare = Frame {
            payload_bytes: 0,
            header_bytes: 0,
        };
        let (transfer, next) = self.sources.draw(source, now, bare, 0);
        if let Some(next) = next.filter(|_| !self.is_over()) {
            self.queue.schedule(next, Event::TransferBegins(source));
        }
        let place = |cluster: &mut Self, host| {
            let number = cluster.config.number_of(&cluster.topology, HostId(host));
            cluster.take_part(number)
        };
        let transfer = Transfer {
            from: place(self, transfer.ends.0),
            to: place(self, transfer.ends.1),
            bytes_left: transfer.demand.wire_bytes as u32,
        };
        let slot = match self.free_transfers.pop() {
            Some(slot) => {
                self.transfers[slot as usize] = transfer;
                slot
            }
            None => {
                self.transfers.push(transfer);
                self.transfers.len() as u32 - 1
            }
        };
        self.send_part(slot, now);
    }

    fn send_part(&mut self, slot: u32, now: Time) {
        let Transfer {
            from,
            to,
            bytes_left,
        } = self.transfers[slot as usize];
        let bytes = bytes_left.min(PART_BYTES);
        let at = self.use_bus(from, now, bytes, self.config.host.read_bytes_s);
        let header = self.config.network.header_bytes;
        self.fly(Load::Foreign.packed(from, to, bytes + header), at);
        self.transfers[slot as usize].bytes_left -= bytes;
        if bytes_left > bytes {
            self.queue.schedule(at, Event::TransferGoesOn(slot));
        } else {
            self.free_transfers.push(slot);
        }
    }

    /// Whether all clients have all replies that they will have.
    fn is_over(&self) -> bool {
        let mut clients = self.nodes.iter().filter_map(|node| match &node.program {
            Program::Client(client) => Some((node, client)),
            _ => None,
        });
        let mut has_clients = false;
        let are_over = clients.all(|(node, client)| {
            has_clients = true;
            node.is_down || client.requests_left == 0 && client.has_all(node.setup)
        });
        has_clients && are_over
    }
}
