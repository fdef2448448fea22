//! Carries messages and events until nothing moves: what a transport and a clock do elsewhere.

use viaduct_agent::{Agent, copy};
use viaduct_fabric::ViHandle;
use viaduct_fabric::via::{
    DataSegment, Operation, ReceiveOutcome, ReceiveVerdict, RemoteVerdict, SendOutcome,
    StartedSend, Timestamp, Transmit, ViId,
};

/// Moves what is to be moved.
pub(crate) trait Carry {
    /// Everything that can happen by itself, after an operation on `vi` if there was one.
    fn carry(&mut self, now: Timestamp, vi: Option<ViHandle>);
    /// A message about connections reaches its host.
    fn deliver(&mut self, from: usize, transmit: Transmit, now: Timestamp);
    /// Starts, carries and finishes every send that a VI has.
    fn send_all(&mut self, device: usize, vi: ViId, touched: &mut Vec<ViHandle>);
    /// Carries one.
    fn send_one(&mut self, from: usize, vi: ViId, send: &StartedSend, touched: &mut Vec<ViHandle>);
}

impl Carry for Agent {
    fn carry(&mut self, now: Timestamp, vi: Option<ViHandle>) {
        let mut touched: Vec<ViHandle> = vi.into_iter().collect();
        if let Some((device, id)) = vi.and_then(|vi| self.place_of(vi)) {
            self.send_all(device, id, &mut touched);
        }
        loop {
            let mut moved = false;
            for device in 0..self.devices.len() {
                while let Some(transmit) = self.devices[device].nic.poll_transmit() {
                    self.deliver(device, transmit, now);
                    moved = true;
                }
                while let Some(ready) = self.devices[device].nic.poll_ready() {
                    self.send_all(device, ready, &mut touched);
                    moved = true;
                }
                while let Some(event) = self.devices[device].nic.poll_event() {
                    self.hear(device, event, &mut touched);
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
            self.settle(vi);
        }
        self.notify_entries();
    }

    fn deliver(&mut self, from: usize, Transmit { to, message }: Transmit, now: Timestamp) {
        let source = self.devices[from].address;
        let target = self.devices.iter_mut().find(|device| device.address == to);
        match target {
            Some(device) => device.nic.handle_connection_message(source, message, now),
            None => {
                self.devices[from].nic.handle_host_unreachable(to);
            }
        }
    }

    fn send_all(&mut self, device: usize, vi: ViId, touched: &mut Vec<ViHandle>) {
        let mut any = false;
        while let Some(send) = self.devices[device].nic.start_send(vi) {
            any = true;
            self.send_one(device, vi, &send, touched);
        }
        if any {
            touched.extend(self.handle_of(device, vi));
        }
    }

    fn send_one(&mut self, from: usize, vi: ViId, send: &StartedSend, touched: &mut Vec<ViHandle>) {
        let peer = send.peer;
        let Some(to) = self.devices.iter().position(|d| d.address == peer.host) else {
            self.devices[from].nic.handle_host_unreachable(peer.host);
            return;
        };
        touched.extend(self.handle_of(to, peer.vi));
        let length = send.header.length;
        let local = self.devices[from].nic.send_segments(vi, send.work).to_vec();
        let remote = self.devices[from].nic.send_remote(vi, send.work);
        // The peer's memory as one range. Its rights are checked before it is touched.
        let remote_range = remote.map(|remote| {
            [DataSegment {
                address: remote.address,
                handle: remote.handle,
                length,
            }]
        });
        let target = &mut self.devices[to].nic;
        let length = length as usize;
        let placed = match (send.header.operation, remote, remote_range) {
            (Operation::RdmaWrite, Some(remote), Some(range)) => {
                match target.start_remote_write(peer.vi, &send.header, remote) {
                    RemoteVerdict::Access(started) => {
                        // SAFETY: `start_send` has checked the segments, `start_remote_write` the
                        // range, each against registrations that are alive under this lock.
                        unsafe { copy(&local, &range, length) };
                        let outcome = ReceiveOutcome::Placed;
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
                        let nic = &mut self.devices[from].nic;
                        nic.finish_send(vi, send.work, SendOutcome::Sent);
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
                    target.finish_receive(peer.vi, receive.work, ReceiveOutcome::Placed)
                }
                ReceiveVerdict::Drop(_) => false,
            },
        };
        let acknowledges = placed && target.acknowledges(peer.vi);
        let nic = &mut self.devices[from].nic;
        nic.finish_send(vi, send.work, SendOutcome::Sent);
        if acknowledges {
            nic.handle_acknowledgement(vi, send.work);
        }
    }
}
