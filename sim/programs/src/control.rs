//! Messages about connections: between the kernel agents of two hosts, in order.

use viaduct_engine::Time;
use viaduct_provider::via::{BreakReason, ConnectionMessage, Transmit};

use crate::cluster::Cluster;
use crate::event::Event;
use crate::host::{address_of, host_at};

/// What the kernel agents spend on a message about a connection: a system call, the tables, and an
/// interrupt at the other end. No publication gives it; of the order of a kernel path of the time.
const KERNEL_AGENTS: Time = Time::from_picoseconds(20_000_000);

/// Messages about connections that are under way.
#[derive(Debug, Default)]
pub(crate) struct Controls {
    slots: Vec<Option<(u32, u32, ConnectionMessage)>>,
    free: Vec<u32>,
}

impl Controls {
    fn insert(&mut self, from: u32, to: u32, message: ConnectionMessage) -> u32 {
        let value = Some((from, to, message));
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = value;
                slot
            }
            None => {
                self.slots.push(value);
                self.slots.len() as u32 - 1
            }
        }
    }

    fn take(&mut self, number: u32) -> Option<(u32, u32, ConnectionMessage)> {
        let taken = self.slots.get_mut(number as usize)?.take();
        if taken.is_some() {
            self.free.push(number);
        }
        taken
    }
}

impl Cluster {
    /// Sends a message about a connection, behind what the ends of one must not overtake.
    pub(crate) fn send_control(&mut self, from: u32, Transmit { to, message }: Transmit) {
        let Some(target) = host_at(to, self.hosts.len()) else {
            self.host(from).nic().handle_host_unreachable(to);
            return;
        };
        if let ConnectionMessage::Broken {
            reason: BreakReason::Transport,
            ..
        } = message
        {
            self.counts.connections_broken += 1;
        }
        let stream = self.host(from).stream(target);
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

    fn transmit_control(&mut self, from: u32, to: u32, message: ConnectionMessage) {
        let mut leaves = self.now();
        if self.faults.is_some() {
            match self.control_leaves(from, to) {
                Some(time) => leaves = time,
                None => return,
            }
        }
        let mut delay = self.control_delay((from, to), 0);
        if !matches!(message, ConnectionMessage::ReceivesPosted { .. }) {
            delay += KERNEL_AGENTS;
        }
        let number = self.controls.insert(from, to, message);
        let stream = self.host(from).stream(to);
        // None overtakes another: receives are posted before the other end hears that it is
        // connected, and would be forgotten there.
        let time = (leaves + delay).max(stream.last_control);
        stream.last_control = time;
        self.queue.schedule(time, Event::Control(number).into());
    }

    /// How long a short message of the adapters themselves takes: an acknowledgement, say.
    pub(crate) fn control_delay(&mut self, ends: (u32, u32), flow: u32) -> Time {
        self.network.control_delay(ends, flow)
    }

    pub(crate) fn handle_control(&mut self, number: u32) {
        let Some((from, to, message)) = self.controls.take(number) else {
            return;
        };
        if self.control_is_lost(from, to) {
            return;
        }
        if !matches!(message, ConnectionMessage::ReceivesPosted { .. }) {
            self.hear_out_of_band(to);
        }
        let now = self.timestamp();
        self.host(to)
            .nic()
            .handle_connection_message(address_of(from), message, now);
        self.follow(to, None);
    }

    /// A message to a peer has arrived: what was held behind it may go.
    pub(crate) fn leave_stream(&mut self, from: u32, to: u32) {
        let stream = self.host(from).stream(to);
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
