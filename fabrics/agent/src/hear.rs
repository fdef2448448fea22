//! What the semantics tells without being asked, and completions into descriptors and handlers.

use viaduct_provider::via::{self, Completion, ConnectFailure, ErrorCode, Event, Queue};
use viaduct_provider::{AsynchronousError, CompletionQueueHandle, IncomingRequest, ViHandle};

use crate::agent::{Agent, Attempt, Request, WaitAnswer};
use crate::job::{Job, push};

impl Agent {
    /// Something that the semantics tells without being asked; the VI concerned is added to
    /// `touched`.
    pub fn hear(&mut self, device: usize, event: Event, touched: &mut Vec<ViHandle>) {
        let vi = event.vi().and_then(|vi| self.devices[device].handle_of(vi));
        touched.extend(vi);
        match event {
            Event::ConnectionRequested {
                wait,
                request,
                client,
                attributes,
            } => {
                // The wait's own thread knows the NIC handle; the request belongs to that.
                if let Some(answer) = self.devices[device].waits.get_mut(&wait)
                    && let WaitAnswer::Open { nic } = *answer
                {
                    let id = request;
                    match self.requests.insert(Request { nic, device, id }) {
                        Ok(connection) => {
                            *answer = WaitAnswer::Requested(IncomingRequest {
                                connection,
                                remote: client,
                                attributes,
                            });
                        }
                        // No handle for it: as if nobody had waited.
                        Err(_) => drop(self.devices[device].nic.reject(id)),
                    }
                }
            }
            Event::WaitTimedOut { wait } => {
                if let Some(answer) = self.devices[device].waits.get_mut(&wait) {
                    *answer = WaitAnswer::TimedOut;
                }
            }
            Event::Connected { attributes, .. } => self.answer(vi, Ok(attributes)),
            Event::ConnectFailed { reason, .. } => self.answer(vi, Err(reason)),
            Event::Catastrophic => self.tell_openings(device, ErrorCode::Catastrophic),
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
        if let Some(vi) = vi.and_then(|vi| self.vis.get_mut(vi))
            && let Attempt::Client(slot) | Attempt::Peer(slot) = &mut vi.attempt
        {
            *slot = Some(answer);
        }
    }

    /// Has the error handler told of an error about a VI.
    pub(crate) fn tell(&mut self, vi: ViHandle, code: ErrorCode) {
        let Some(owner) = self.vis.get(vi).map(|vi| vi.nic) else {
            return;
        };
        // What a peer or a program can cause without end is told once until it has been heard. A
        // connection is lost once, and must be made anew before it is lost again.
        if code == ErrorCode::ConnectionLost || self.told.insert((vi, code)) {
            push(
                &mut self.jobs,
                Job::Error(AsynchronousError {
                    nic: owner,
                    vi: Some(vi),
                    completion_queue: None,
                    descriptor: None,
                    operation: operation_of(code),
                    resource: code.resource(),
                    code,
                }),
            );
        }
    }

    /// Has the error handler of each opening of a NIC told of an error about all of it.
    fn tell_openings(&mut self, device: usize, code: ErrorCode) {
        let openings = self.nics.iter().filter(|(_, nic)| nic.device == device);
        self.jobs.extend(openings.map(|(nic, _)| {
            Job::Error(AsynchronousError {
                nic,
                vi: None,
                completion_queue: None,
                descriptor: None,
                operation: operation_of(code),
                resource: code.resource(),
                code,
            })
        }));
    }

    /// Writes the completions of a VI to its descriptors, and hands them to notify handlers.
    pub fn settle(&mut self, handle: ViHandle) {
        let Some(vi) = self.vis.get_mut(handle) else {
            return;
        };
        let nic = &mut self.devices[vi.device].nic;
        let Some(mut completions) = nic.completions(vi.id) else {
            return;
        };
        let [sends, receives] = &mut vi.queues;
        let is_awaited = sends.is_awaited() || receives.is_awaited();
        // The memory of a descriptor that is complete may be registered no more.
        let mut lose = |completion: Completion, descriptor| {
            push(
                &mut self.jobs,
                Job::Error(AsynchronousError {
                    nic: vi.nic,
                    vi: Some(handle),
                    completion_queue: None,
                    descriptor,
                    operation: (completion.status.bits() >> 16) & 7,
                    resource: ErrorCode::CompletionProtection.resource(),
                    code: ErrorCode::CompletionProtection,
                }),
            );
        };
        let memory = &self.elsewhere;
        sends.settle(&mut completions, Queue::Send, memory, &mut lose);
        receives.settle(&mut completions, Queue::Receive, memory, &mut lose);
        if is_awaited {
            self.notify_descriptors(handle);
        }
    }

    /// Hands completed descriptors to the handlers that wait for them.
    pub(crate) fn notify_descriptors(&mut self, handle: ViHandle) {
        let Some(vi) = self.vis.get_mut(handle) else {
            return;
        };
        for work in &mut vi.queues {
            while work.has_notifies() {
                let Some(completed) = work.pop_completed() else {
                    break;
                };
                if let (Some(handler), Some(descriptor)) =
                    (work.next_notify(), completed.place.pointer())
                {
                    let nic = vi.nic;
                    push(
                        &mut self.jobs,
                        Job::Descriptor {
                            nic,
                            vi: handle,
                            descriptor: descriptor.into(),
                            handler,
                        },
                    );
                }
            }
            if work.completed > 0
                && let Some(waker) = work.watcher.take()
            {
                push(&mut self.jobs, Job::Wake { nic: vi.nic, waker });
            }
        }
    }

    /// Hands entries to the handlers that wait for them.
    #[inline]
    pub fn notify_entries(&mut self) {
        if !self.completion_queues.is_empty() {
            self.notify_each_entry();
        }
    }

    fn notify_each_entry(&mut self) {
        let armed: Vec<CompletionQueueHandle> = self
            .completion_queues
            .iter()
            .filter(|(_, queue)| !queue.notifies.is_empty() || queue.watcher.is_some())
            .map(|(handle, _)| handle)
            .collect();
        for handle in armed {
            while self
                .completion_queues
                .get(handle)
                .is_some_and(|queue| !queue.notifies.is_empty())
            {
                let Ok(Some(entry)) = self.take_entry(handle) else {
                    break;
                };
                if let Some(queue) = self.completion_queues.get_mut(handle)
                    && let Some(handler) = queue.notifies.pop_front()
                {
                    let nic = queue.nic;
                    push(
                        &mut self.jobs,
                        Job::Entry {
                            nic,
                            entry,
                            handler,
                        },
                    );
                }
            }
            if let Some(queue) = self.completion_queues.get_mut(handle)
                && queue.watcher.is_some()
                && self.devices[queue.device].nic.has_entries(queue.id)
                && let Some(waker) = queue.watcher.take()
            {
                let nic = queue.nic;
                push(&mut self.jobs, Job::Wake { nic, waker });
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
