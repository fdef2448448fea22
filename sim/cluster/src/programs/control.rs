//! Messages about connections: between the kernel agents of two hosts, in order.

use viaduct_core::{BreakReason, ConnectionMessage, ConnectionNumber, HostAddress, Transmit};
use viaduct_engine::Time;
use viaduct_network::outages::parts;

use super::Programs;
use super::guest::Slots;
use crate::cluster::Cluster;
use crate::event::Event;
use crate::failures::Consequence;

/// What the kernel agents spend on a message about a connection: a system call, the tables, and an
/// interrupt at the other end. No publication gives it; of the order of a kernel path of the time.
const KERNEL_AGENTS: Time = Time::from_picoseconds(20_000_000);

/// Messages about connections that are under way, with their ends.
pub(crate) type Controls = Slots<(u32, u32, ConnectionMessage)>;

impl<P: Programs> Cluster<P> {
    /// The address of a host.
    #[must_use]
    pub const fn address_of(host: u32) -> HostAddress {
        HostAddress::new(P::FIRST_ADDRESS + host as u64)
    }

    /// The host that has an address, if one does.
    #[must_use]
    pub fn host_at(&self, address: HostAddress) -> Option<u32> {
        let index = address.get().checked_sub(P::FIRST_ADDRESS)?;
        (index < self.engines.len() as u64).then_some(index as u32)
    }

    /// Sends a message about a connection, behind what the ends of one must not overtake.
    pub fn send_control(&mut self, from: u32, Transmit { to, message }: Transmit) {
        let Some(target) = self.host_at(to) else {
            self.programs.nic_mut(from).handle_host_unreachable(to);
            return;
        };
        if let ConnectionMessage::Broken {
            reason: BreakReason::Transport,
            ..
        } = message
        {
            self.guests.counts.connections_broken += 1;
        }
        let stream = self.guests.hosts[from as usize].stream(target);
        let ends = matches!(
            message,
            ConnectionMessage::Disconnect { .. } | ConnectionMessage::Broken { .. }
        );
        let is_credit = matches!(message, ConnectionMessage::ReceivesPosted { .. });
        if !is_credit && (stream.held.is_some() || ends && stream.messages > 0) {
            stream.held.get_or_insert_default().push(message);
            return;
        }
        self.transmit_control(from, target, message);
    }

    /// Whether a host has disconnected, and its peer is to hear of it behind messages that are
    /// still under way.
    pub(crate) fn has_left_behind(&self, from: u32, to: u32, connection: ConnectionNumber) -> bool {
        let mut streams = self.guests.hosts[from as usize].streams.iter();
        let stream = streams.find(|stream| stream.peer == to);
        let held = stream.and_then(|stream| stream.held.as_deref());
        let is_its_end = |message: &ConnectionMessage| matches!(message, ConnectionMessage::Disconnect { connection: of, .. } if *of == connection);
        held.is_some_and(|held| held.iter().any(is_its_end))
    }

    fn transmit_control(&mut self, from: u32, to: u32, message: ConnectionMessage) {
        let mut leaves = self.queue.now();
        if self.failures.is_some() {
            match self.control_leaves(from, to) {
                Some(time) => leaves = time,
                None => return,
            }
        }
        let mut delay = self.network.control_delay((from, to), 0);
        if !matches!(message, ConnectionMessage::ReceivesPosted { .. }) {
            delay += KERNEL_AGENTS;
        }
        let number = self.guests.controls.insert((from, to, message));
        let stream = self.guests.hosts[from as usize].stream(to);
        // None overtakes another: receives are posted before the other end hears that it is
        // connected, and would be forgotten there.
        let time = (leaves + delay).max(stream.last_control);
        stream.last_control = time;
        self.guests.going += 1;
        self.queue.schedule(time, Event::Control(number));
    }

    /// When a message about connections can leave that is sent now; `None` if it never gets
    /// through, which both ends will notice.
    fn control_leaves(&mut self, from: u32, to: u32) -> Option<Time> {
        let now = self.queue.now();
        let way = self.network.way((from, to), 0);
        let Some(failures) = &self.failures else {
            return Some(now);
        };
        let faults = &failures.faults;
        let limit = now.saturating_add(faults.detection.host_timeout);
        let leaves = faults.outages.up_again(parts(way), now);
        if faults.is_nic_dead(from) || faults.is_nic_dead(to) || leaves >= limit {
            self.follows_at(limit, Consequence::LostTouch(from, to));
            return None;
        }
        Some(leaves)
    }

    pub(crate) fn handle_control(&mut self, number: u32) {
        self.guests.going -= 1;
        let Some((from, to, message)) = self.guests.controls.take(number) else {
            return;
        };
        // One of its ends died.
        if self.is_nic_dead(from) || self.is_nic_dead(to) {
            return;
        }
        if !matches!(message, ConnectionMessage::ReceivesPosted { .. }) {
            P::heard(self, to);
        }
        let now = self.timestamp();
        let from = Self::address_of(from);
        let nic = self.programs.nic_mut(to);
        nic.handle_connection_message(from, message, now);
        P::follow(self, to);
    }

    /// A message to a peer has arrived: what was held behind it may go.
    pub(crate) fn leave_stream(&mut self, from: u32, to: u32) {
        let stream = self.guests.hosts[from as usize].stream(to);
        stream.messages -= 1;
        if stream.messages > 0 {
            return;
        }
        let Some(held) = stream.held.take() else {
            return;
        };
        for message in *held {
            self.transmit_control(from, to, message);
        }
    }
}
