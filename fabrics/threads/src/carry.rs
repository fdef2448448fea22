//! Carries messages and events until nothing moves: what a transport and a clock do elsewhere.

use viaduct_agent::{Agent, copy};
use viaduct_provider::ViHandle;
use viaduct_provider::via::outcome::{Damage, Harm};
use viaduct_provider::via::{
    DataSegment, Operation, ReceiveOutcome, ReceiveVerdict, RemoteVerdict, SendOutcome,
    StartedSend, Timestamp, Transmit, ViId,
};

/// Moves what is to be moved between an agent's devices.
pub(crate) struct Carrier<'a> {
    pub(crate) agent: &'a mut Agent,
    /// What every message comes to.
    pub(crate) harm: Option<Harm>,
}

impl Carrier<'_> {
    /// Everything that can happen by itself, after an operation on `vi` if there was one.
    pub(crate) fn carry(&mut self, now: Timestamp, vi: Option<ViHandle>) {
        let mut touched: Vec<ViHandle> = vi.into_iter().collect();
        if let Some((device, id)) = vi.and_then(|vi| self.agent.place_of(vi)) {
            self.send_all(device, id, &mut touched);
        }
        loop {
            let mut moved = false;
            for device in 0..self.agent.devices.len() {
                while let Some(transmit) = self.agent.devices[device].nic.poll_transmit() {
                    self.deliver(device, transmit, now);
                    moved = true;
                }
                while let Some(ready) = self.agent.devices[device].nic.poll_ready() {
                    self.send_all(device, ready, &mut touched);
                    moved = true;
                }
                while let Some(event) = self.agent.devices[device].nic.poll_event() {
                    self.agent.hear(device, event, &mut touched);
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        touched.sort_unstable();
        touched.dedup();
        for vi in touched {
            self.agent.settle(vi);
        }
        self.agent.notify_entries();
    }

    /// A message about connections reaches its host.
    fn deliver(&mut self, from: usize, Transmit { to, message }: Transmit, now: Timestamp) {
        let source = self.agent.devices[from].address;
        let target = self
            .agent
            .devices
            .iter_mut()
            .find(|device| device.address == to);
        match target {
            Some(device) => device.nic.handle_connection_message(source, message, now),
            None => {
                self.agent.devices[from].nic.handle_host_unreachable(to);
            }
        }
    }

    /// Starts, carries and finishes every send that a VI has.
    fn send_all(&mut self, device: usize, vi: ViId, touched: &mut Vec<ViHandle>) {
        let mut any = false;
        while let Some(send) = self.agent.devices[device].nic.start_send(vi) {
            any = true;
            self.send_one(device, vi, &send, touched);
        }
        if any {
            touched.extend(self.agent.handle_of(device, vi));
        }
    }

    /// Carries one.
    fn send_one(&mut self, from: usize, vi: ViId, send: &StartedSend, touched: &mut Vec<ViHandle>) {
        let peer = send.peer;
        let Some(to) = self
            .agent
            .devices
            .iter()
            .position(|d| d.address == peer.host)
        else {
            self.agent.devices[from]
                .nic
                .handle_host_unreachable(peer.host);
            return;
        };
        touched.extend(self.agent.handle_of(to, peer.vi));
        let length = send.header.length;
        let local = self.agent.devices[from]
            .nic
            .send_segments(vi, send.work)
            .to_vec();
        let remote = self.agent.devices[from].nic.send_remote(vi, send.work);
        if self.harm_on_leaving(from, vi, send) {
            return;
        }
        // The peer's memory as one range. Its rights are checked before it is touched.
        let remote_range = remote.map(|remote| {
            [DataSegment {
                address: remote.address,
                handle: remote.handle,
                length,
            }]
        });
        let target = &mut self.agent.devices[to].nic;
        let damage = match self.harm {
            Some(Harm::Arriving(damage)) => Some(damage),
            _ => None,
        };
        let placed_bytes = length / 2;
        let (arrived_bytes, outcome, answered) = match damage {
            None => (length, ReceiveOutcome::Placed, SendOutcome::Sent),
            Some(Damage::CutShort) => {
                let outcome = ReceiveOutcome::CutShort { placed_bytes };
                (placed_bytes, outcome, SendOutcome::CutShort)
            }
            // The other half is not what was sent.
            Some(Damage::Corrupt) => {
                let outcome = ReceiveOutcome::Corrupt;
                (placed_bytes, outcome, SendOutcome::TransportFailed)
            }
        };
        let length = arrived_bytes as usize;
        let placed = match (send.header.operation, remote, remote_range) {
            (Operation::RdmaWrite, Some(remote), Some(range)) => {
                match target.start_remote_write(peer.vi, &send.header, remote) {
                    RemoteVerdict::Access(started) => {
                        // SAFETY: `start_send` has checked the segments, `start_remote_write` the
                        // range, each against registrations that are alive under this lock.
                        unsafe { copy(&local, &range, length) };
                        target.finish_remote_write(peer.vi, started, outcome)
                    }
                    RemoteVerdict::Drop(_) => false,
                }
            }
            (Operation::RdmaRead, Some(remote), Some(range)) => {
                match target.start_remote_read(peer.vi, &send.header, remote) {
                    RemoteVerdict::Access(_) => {
                        // SAFETY: as for a remote write, the other way round.
                        unsafe { copy(&range, &local, length) };
                        let nic = &mut self.agent.devices[from].nic;
                        nic.finish_send(vi, send.work, answered);
                    }
                    // The target's refusal breaks the connection, with what the read gets.
                    RemoteVerdict::Drop(_) => {}
                }
                return;
            }
            _ => match target.start_receive(peer.vi, &send.header) {
                ReceiveVerdict::Place(receive) => {
                    let into: Vec<DataSegment> = (0..u64::from(receive.receives))
                        .flat_map(|place| {
                            let work = receive.work.following(place);
                            target.receive_segments(peer.vi, work).to_vec()
                        })
                        .collect();
                    // SAFETY: as for a remote write; the receive's segments by `start_receive`.
                    unsafe { copy(&local, &into, length) };
                    target.finish_receive(peer.vi, receive.work, outcome)
                }
                ReceiveVerdict::Drop(_) => false,
            },
        };
        let is_whole = placed && outcome == ReceiveOutcome::Placed;
        let acknowledges = is_whole && target.acknowledges(peer.vi);
        let nic = &mut self.agent.devices[from].nic;
        nic.finish_send(vi, send.work, SendOutcome::Sent);
        if acknowledges {
            nic.handle_acknowledgement(vi, send.work);
        }
    }
    /// Whether a message comes to harm of which nothing arrives, and what that is at its sender.
    fn harm_on_leaving(&mut self, from: usize, vi: ViId, send: &StartedSend) -> bool {
        let nic = &mut self.agent.devices[from].nic;
        match self.harm {
            None | Some(Harm::Arriving(_)) => return false,
            Some(Harm::Leaving(damage)) => {
                let outcome = match damage {
                    Damage::CutShort => SendOutcome::CutShort,
                    Damage::Corrupt => SendOutcome::TransportFailed,
                };
                nic.finish_send(vi, send.work, outcome);
            }
            Some(Harm::Lost) => {
                // A read stays under way: its bytes have not come.
                if send.header.operation != Operation::RdmaRead {
                    nic.finish_send(vi, send.work, SendOutcome::Sent);
                }
                let attributes = nic.query_vi(vi).map(|vi| vi.attributes);
                if attributes.is_ok_and(|vi| vi.reliability.is_reliable()) {
                    nic.handle_transport_failure(vi);
                }
            }
        }
        true
    }
}
