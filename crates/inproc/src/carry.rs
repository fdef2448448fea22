//! Carries messages and events until nothing moves: what a transport and a clock do elsewhere.

use viaduct_fabric::via::{
    self, ConnectFailure, DataSegment, ErrorCode, Event, Operation, Queue, ReceiveOutcome,
    ReceiveVerdict, RemoteVerdict, SendOutcome, StartedSend, Timestamp, Transmit, ViId,
};
use viaduct_fabric::{
    AsynchronousError, CompletionQueueHandle, ConnectionHandle, IncomingRequest, ViHandle,
};

use crate::handlers::Job;
use crate::memory::copy;
use crate::state::{Attempt, Completed, Request, State, WaitAnswer};

impl State {
    /// Everything that can happen by itself, after an operation on `vi` if there was one.
    pub(crate) fn carry(&mut self, now: Timestamp, vi: Option<ViHandle>) {
        let mut touched: Vec<ViHandle> = vi.into_iter().collect();
        if let Some(vi) = vi.and_then(|vi| self.vis.get(&vi)) {
            let (device, id) = (vi.device, vi.id);
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

    /// A message about connections reaches its host.
    fn deliver(&mut self, from: usize, Transmit { to, message }: Transmit, now: Timestamp) {
        let source = self.devices[from].address;
        let target = self.devices.iter_mut().find(|device| device.address == to);
        match target {
            Some(device) => device.nic.handle_connection_message(source, message, now),
            None => self.devices[from].nic.handle_host_unreachable(to),
        }
    }

    /// Starts, carries and finishes every send that a VI has.
    fn send_all(&mut self, device: usize, vi: ViId, touched: &mut Vec<ViHandle>) {
        let mut any = false;
        while let Some(send) = self.devices[device].nic.start_send(vi) {
            any = true;
            self.send_one(device, vi, &send, touched);
        }
        if any {
            touched.extend(self.devices[device].vi_handles.get(&vi));
        }
    }

    fn send_one(&mut self, from: usize, vi: ViId, send: &StartedSend, touched: &mut Vec<ViHandle>) {
        let peer = send.peer;
        let Some(to) = self.devices.iter().position(|d| d.address == peer.host) else {
            self.devices[from].nic.handle_host_unreachable(peer.host);
            return;
        };
        touched.extend(self.devices[to].vi_handles.get(&peer.vi));
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

    /// Something that the semantics tells without being asked.
    fn hear(&mut self, device: usize, event: Event, touched: &mut Vec<ViHandle>) {
        let vi = event
            .vi()
            .and_then(|vi| self.devices[device].vi_handles.get(&vi).copied());
        touched.extend(vi);
        match event {
            Event::ConnectionRequested {
                wait,
                request,
                client,
                attributes,
            } => {
                // The wait's own thread knows the NIC handle; the request belongs to that.
                let connection = self.next_handle(ConnectionHandle::from_bits);
                let incoming = IncomingRequest {
                    connection,
                    remote: client,
                    attributes,
                };
                if let Some(answer) = self.devices[device].waits.get_mut(&wait)
                    && let WaitAnswer::Open { nic } = *answer
                {
                    *answer = WaitAnswer::Requested(incoming);
                    let id = request;
                    self.requests
                        .insert(connection, Request { nic, device, id });
                }
            }
            Event::WaitTimedOut { wait } => {
                if let Some(answer) = self.devices[device].waits.get_mut(&wait) {
                    *answer = WaitAnswer::TimedOut;
                }
            }
            Event::Connected { attributes, .. } => self.answer(vi, Ok(attributes)),
            Event::ConnectFailed { reason, .. } => self.answer(vi, Err(reason)),
            event => {
                if let (Some(vi), Some(code)) = (vi, event.error_code()) {
                    self.tell(vi, code);
                }
            }
        }
    }

    fn answer(
        &mut self,
        vi: Option<ViHandle>,
        answer: Result<via::RemoteViAttributes, ConnectFailure>,
    ) {
        if let Some(vi) = vi.and_then(|vi| self.vis.get_mut(&vi))
            && let Attempt::Client(slot) | Attempt::Peer(slot) = &mut vi.attempt
        {
            *slot = Some(answer);
        }
    }

    /// Has the error handler told of an error about a VI.
    pub(crate) fn tell(&mut self, vi: ViHandle, code: ErrorCode) {
        let Some(owner) = self.vis.get(&vi).map(|vi| vi.nic) else {
            return;
        };
        // What a peer or a program can cause without end is told once until it has been heard. A
        // connection is lost once, and must be made anew before it is lost again.
        if code == ErrorCode::ConnectionLost || self.told.insert((vi, code)) {
            self.jobs.push_back(Job::Error(AsynchronousError {
                nic: owner,
                vi: Some(vi),
                completion_queue: None,
                descriptor: None,
                operation: operation_of(code),
                resource: code.resource(),
                code,
            }));
        }
    }

    /// Writes the completions of a VI to its descriptors, and hands them to notify handlers.
    pub(crate) fn settle(&mut self, handle: ViHandle) {
        let Some(vi) = self.vis.get_mut(&handle) else {
            return;
        };
        let nic = &mut self.devices[vi.device].nic;
        for queue in [Queue::Send, Queue::Receive] {
            while let Some(posted) = vi.queue(queue).pending.front().copied() {
                let done = match queue {
                    Queue::Send => nic.send_done(vi.id),
                    Queue::Receive => nic.receive_done(vi.id),
                };
                let Some(completion) = done.completion() else {
                    break;
                };
                vi.queue(queue).pending.pop_front();
                let regions = self.nics.get(&vi.nic).map(|nic| &nic.regions);
                let is_there = regions.is_some_and(|regions| regions.contains_key(&posted.handle));
                if is_there {
                    let is_receive = queue == Queue::Receive;
                    posted.place.store_completion(&completion, is_receive);
                } else {
                    self.jobs.push_back(Job::Error(AsynchronousError {
                        nic: vi.nic,
                        vi: Some(handle),
                        completion_queue: None,
                        descriptor: posted.place.pointer(),
                        operation: (completion.status.bits() >> 16) & 7,
                        resource: ErrorCode::CompletionProtection.resource(),
                        code: ErrorCode::CompletionProtection,
                    }));
                }
                vi.queue(queue).completed.push_back(Completed {
                    place: posted.place,
                    is_error: !is_there || completion.status.is_error(),
                });
            }
        }
        self.notify_descriptors(handle);
    }

    /// Hands completed descriptors to the handlers that wait for them.
    pub(crate) fn notify_descriptors(&mut self, handle: ViHandle) {
        let Some(vi) = self.vis.get_mut(&handle) else {
            return;
        };
        for work in &mut vi.queues {
            while !work.notifies.is_empty() {
                let Some(completed) = work.completed.pop_front() else {
                    break;
                };
                if let (Some(handler), Some(descriptor)) =
                    (work.notifies.pop_front(), completed.place.pointer())
                {
                    let nic = vi.nic;
                    self.jobs.push_back(Job::Descriptor {
                        nic,
                        vi: handle,
                        descriptor: descriptor.into(),
                        handler,
                    });
                }
            }
        }
    }

    /// Hands entries to the handlers that wait for them.
    pub(crate) fn notify_entries(&mut self) {
        let armed: Vec<CompletionQueueHandle> = self
            .completion_queues
            .iter()
            .filter(|(_, queue)| !queue.notifies.is_empty())
            .map(|(handle, _)| *handle)
            .collect();
        for handle in armed {
            while self
                .completion_queues
                .get(&handle)
                .is_some_and(|queue| !queue.notifies.is_empty())
            {
                let Ok(Some(entry)) = self.take_entry(handle) else {
                    break;
                };
                if let Some(queue) = self.completion_queues.get_mut(&handle)
                    && let Some(handler) = queue.notifies.pop_front()
                {
                    let nic = queue.nic;
                    self.jobs.push_back(Job::Entry {
                        nic,
                        entry,
                        handler,
                    });
                }
            }
        }
    }
}

/// The operation that an error is about, as in bits 16-18 of a status.
fn operation_of(code: ErrorCode) -> u32 {
    let operation = match code {
        ErrorCode::ReceiveQueueEmpty => via::CompletedOperation::Receive,
        ErrorCode::RdmaWriteProtection | ErrorCode::RdmaWriteData | ErrorCode::RdmaWriteAbort => {
            via::CompletedOperation::RemoteRdmaWrite
        }
        ErrorCode::RdmaReadProtection => via::CompletedOperation::RdmaRead,
        _ => via::CompletedOperation::Send,
    };
    operation as u32
}
