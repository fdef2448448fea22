//! What programs of `viaduct-am` say to each other: the content of messages, of which the rest of
//! the simulation knows the length alone, and what endpoints let in.

use std::collections::VecDeque;

use viaduct_am::{
    Admission, Arrival, Content, ContentBody, Group, Key, Phase, Readiness, Reason, Slot,
};
use viaduct_engine::Time;
use viaduct_frames::Endpoint;
use viaduct_frames::transport::{Reason as Refused, ReturnReason};

use crate::cluster::{Cluster, Entry, Message};
use crate::load::Links;
use crate::station::ReturnPath;

pub(crate) type Bytes = Box<[u8]>;
pub(crate) type Came = Arrival<Bytes, ReturnPath>;

/// How a request is answered.
#[derive(Debug)]
pub(crate) enum Answer {
    Reply(Option<Content<Bytes>>),
    /// It had been taken in, and its endpoint was freed.
    Back(Content<Bytes>),
}

/// A request, from its post until its sender knows how it ended.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) key: Key,
    pub(crate) context: u32,
    /// While its receiver has not taken it.
    pub(crate) content: Option<Content<Bytes>>,
    pub(crate) answer: Option<Answer>,
    /// Why the receiving interface refused its message, or its reply's.
    refusal: Option<Reason>,
}

/// An endpoint of a program.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) admission: Admission,
    pub(crate) is_live: bool,
    /// What ended without a message of its own.
    pub(crate) ended: VecDeque<Came>,
    pub(crate) group: Option<(Group, u32)>,
    /// Whether it stands in its group's line.
    pub(crate) is_queued: bool,
}

/// The programs' part of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// Of each host, by the number of the endpoint.
    pub(crate) doors: Vec<Vec<Door>>,
    pub(crate) requests: Vec<Option<Request>>,
    free: Vec<u32>,
    /// Hosts whose programs may go on.
    pub(crate) due: VecDeque<u32>,
    /// Of each group, the members with something to take, in turn.
    pub(crate) lines: Vec<Option<VecDeque<u32>>>,
}

impl Exchange {
    /// A host more has endpoints of programs.
    pub(crate) fn add_host(&mut self) {
        self.doors.push(Vec::new());
    }

    pub(crate) fn door(&mut self, host: u32, endpoint: Endpoint) -> Option<&mut Door> {
        self.doors.get_mut(host as usize)?.get_mut(endpoint.index())
    }

    /// Its number, until [`Exchange::end`].
    pub(crate) fn begin(&mut self, key: Key, context: u32, content: Content<Bytes>) -> u32 {
        let request = Some(Request {
            key,
            context,
            content: Some(content),
            answer: None,
            refusal: None,
        });
        match self.free.pop() {
            Some(number) => {
                self.requests[number as usize] = request;
                number
            }
            None => {
                self.requests.push(request);
                self.requests.len() as u32 - 1
            }
        }
    }

    pub(crate) fn request(&mut self, number: u32) -> Option<&mut Request> {
        self.requests.get_mut(number as usize)?.as_mut()
    }

    pub(crate) fn end(&mut self, number: u32) -> Option<Request> {
        let request = self.end_in_doubt(number)?;
        self.free.push(number);
        Some(request)
    }

    /// As [`Exchange::end`]; a copy of it may still be under way, so that no other gets its number.
    fn end_in_doubt(&mut self, number: u32) -> Option<Request> {
        self.requests.get_mut(number as usize)?.take()
    }

    /// Something stands in an endpoint that may not have before.
    pub(crate) fn arrived(&mut self, host: u32, endpoint: Endpoint) {
        let Some(door) = self.door(host, endpoint) else {
            return;
        };
        let Some((group, _)) = door.group.filter(|_| !door.is_queued) else {
            return;
        };
        door.is_queued = true;
        if let Some(Some(line)) = self.lines.get_mut(group.0 as usize) {
            line.push_back(endpoint.index() as u32);
        }
    }

    /// The next member of a group that most likely has something to take, and its number there.
    pub(crate) fn next_of(&mut self, host: u32, group: Group) -> Option<(Slot, u32)> {
        loop {
            let slot = self
                .lines
                .get_mut(group.0 as usize)?
                .as_mut()?
                .pop_front()?;
            let Some(door) = self.door(host, Endpoint::new(slot)) else {
                continue;
            };
            if let Some((_, member)) = door.group.filter(|(its, _)| *its == group) {
                door.is_queued = false;
                return Some((Slot(slot), member));
            }
        }
    }

    /// What becomes of a message at its endpoint; of the queue's room others know.
    ///
    /// # Errors
    ///
    /// Why its endpoint does not let it in.
    pub(crate) fn judge(&mut self, message: &Message, to: u32) -> Result<(), Refused> {
        let Some(door) = self
            .doors
            .get(to as usize)
            .and_then(|doors| doors.get(message.to_endpoint.index()))
        else {
            return self.refuse(message.entry.number, Reason::NoSuchEndpoint);
        };
        let Some(request) = self
            .requests
            .get(message.entry.number as usize)
            .and_then(Option::as_ref)
        else {
            return Err(Refused::Malformed);
        };
        let admission = &door.admission;
        let (content, handlers) = if message.entry.is_reply {
            let content = match &request.answer {
                Some(Answer::Reply(content)) => content.as_ref(),
                // What was sent may come back.
                Some(Answer::Back(_)) | None => None,
            };
            (content, admission.reply_handlers)
        } else {
            (request.content.as_ref(), admission.request_handlers)
        };
        let fits = |content: &Content<Bytes>| match &content.body {
            ContentBody::Bulk { offset, bytes } => offset
                .checked_add(bytes.len() as u64)
                .is_some_and(|end| end <= admission.segment_bytes),
            ContentBody::Short | ContentBody::Medium(_) => true,
        };
        let refusal = if !door.is_live {
            Reason::EndpointFreed
        } else if !message.entry.is_reply && request.key != admission.key {
            Reason::WrongKey
        } else if content.is_some_and(|content| !handlers.contains(content.handler)) {
            Reason::NoSuchHandler
        } else if !content.is_none_or(fits) {
            Reason::OutsideSegment
        } else {
            return Ok(());
        };
        self.refuse(message.entry.number, refusal)
    }

    fn refuse(&mut self, number: u32, reason: Reason) -> Result<(), Refused> {
        if let Some(request) = self.request(number) {
            request.refusal = Some(reason);
        }
        Err(match reason {
            Reason::WrongKey => Refused::WrongKey,
            Reason::NoSuchEndpoint | Reason::EndpointFreed => Refused::NoSuchEndpoint,
            _ => Refused::Malformed,
        })
    }

    /// A message came back to `host`; whether its program hears of it.
    fn returned(
        &mut self,
        host: u32,
        message: &Message,
        reason: ReturnReason,
        may_have_arrived: bool,
    ) -> bool {
        if message.entry.is_reply {
            return self.reply_returned(host, message, may_have_arrived);
        }
        let number = message.entry.number;
        let ended = if may_have_arrived {
            self.end_in_doubt(number)
        } else {
            self.end(number)
        };
        let Some(request) = ended else { return false };
        let reason = request.refusal.unwrap_or(match reason {
            _ if request.content.is_none() => Reason::Unanswered,
            _ if may_have_arrived => Reason::ConnectionLost,
            ReturnReason::Refused(Refused::WrongKey) => Reason::WrongKey,
            ReturnReason::Refused(_) => Reason::NoSuchEndpoint,
            ReturnReason::Unreachable => Reason::HostUnreachable,
            ReturnReason::Rebooted => Reason::ProcessDied,
        });
        let ended = Arrival::Returned {
            context: request.context,
            phase: Phase::Request,
            reason,
            content: request.content,
        };
        self.tell(host, message.entry.from_endpoint, ended)
    }

    /// The reply came back: its sender learns why. Who asked gets its credit where the reply was
    /// refused, and its request back where it could not be delivered.
    fn reply_returned(&mut self, host: u32, message: &Message, may_have_arrived: bool) -> bool {
        let number = message.entry.number;
        let ended = if may_have_arrived {
            self.end_in_doubt(number)
        } else {
            self.end(number)
        };
        let Some(request) = ended else { return false };
        let (asker, asked_from) = (message.to, message.to_endpoint);
        let context = request.context;
        let end = match request.refusal {
            Some(_) => Arrival::Reply {
                context,
                content: None,
            },
            None => Arrival::Returned {
                context,
                phase: Phase::Request,
                reason: Reason::Unanswered,
                content: None,
            },
        };
        self.tell(asker, asked_from, end);
        self.due.push_back(asker);
        let reason = request.refusal.unwrap_or(match may_have_arrived {
            true => Reason::ConnectionLost,
            false => Reason::HostUnreachable,
        });
        let (Some(Answer::Reply(Some(content))), true) =
            (request.answer, reason != Reason::EndpointFreed)
        else {
            // Nobody misses it.
            return false;
        };
        let ended = Arrival::Returned {
            context: 0,
            phase: Phase::Reply,
            reason,
            content: Some(content),
        };
        self.tell(host, message.entry.from_endpoint, ended)
    }

    /// Whether the endpoint lives.
    fn tell(&mut self, host: u32, endpoint: Endpoint, ended: Came) -> bool {
        let door = self.door(host, endpoint).filter(|door| door.is_live);
        let Some(door) = door else { return false };
        door.ended.push_back(ended);
        self.arrived(host, endpoint);
        true
    }
}

impl<N: Links> Cluster<N> {
    /// The program of a host may go on.
    pub(crate) fn resume_program(&mut self, host: u32) {
        if let Some(exchange) = &mut self.exchange {
            exchange.due.push_back(host);
        }
    }

    /// Has the program of a host look again at `at`.
    pub(crate) fn look_again(&mut self, host: u32, at: Time) {
        let node = &mut self.nodes[host as usize];
        if !core::mem::replace(&mut node.has_host_event, true) {
            let at = at.max(node.host_busy_until);
            self.queue.wake(crate::agenda::Wake::Host(host), at);
        }
    }

    /// A message of a program came back to it.
    pub(crate) fn returned_to_program(
        &mut self,
        host: u32,
        message: &Message,
        reason: ReturnReason,
        may_have_arrived: bool,
        at: Time,
    ) {
        let entry = message.entry;
        if entry.is_reply && may_have_arrived && self.has_reply(message) {
            return;
        }
        let Some(exchange) = &mut self.exchange else {
            return;
        };
        if exchange.returned(host, message, reason, may_have_arrived) {
            self.look_again(host, at);
        }
    }

    /// Whether a reply is in its endpoint, or on the way from there into host memory.
    fn has_reply(&self, message: &Message) -> bool {
        let is_it = |entry: &Entry| entry.is_reply && entry.number == message.entry.number;
        let (host, endpoint) = (message.to, message.to_endpoint);
        let node = &self.nodes[host as usize];
        let state = node.endpoints.get(endpoint.index());
        state.is_some_and(|state| state.receive_queue.iter().any(is_it))
            || self.writes.iter().zip(0..).any(|(write, slot)| {
                write.endpoint == endpoint
                    && is_it(&write.entry)
                    && !self.free_writes.contains(&slot)
            })
    }

    /// What a program would find in an endpoint.
    pub(crate) fn readiness(&self, host: u32, slot: Slot) -> Readiness {
        let node = &self.nodes[host as usize];
        let state = &node.endpoints[slot.0 as usize];
        let ended = self
            .exchange
            .as_ref()
            .map(|exchange| &exchange.doors[host as usize][slot.0 as usize].ended);
        let has = |is_it: fn(&Came) -> bool| ended.is_some_and(|ended| ended.iter().any(is_it));
        Readiness {
            request: state.requests > 0 && state.receive_queue.iter().any(|entry| !entry.is_reply),
            reply: state.receive_queue.iter().any(|entry| entry.is_reply)
                || has(|ended| matches!(ended, Arrival::Reply { .. })),
            returned: has(|ended| matches!(ended, Arrival::Returned { .. })),
            room: self.has_room(host, slot),
        }
    }

    /// Whether one more message of an endpoint can be posted.
    pub(crate) fn has_room(&self, host: u32, slot: Slot) -> bool {
        let node = &self.nodes[host as usize];
        let state = &node.endpoints[slot.0 as usize];
        state.send_queue.len() < self.config.queue_entries as usize
    }

    /// Takes what is next for an endpoint: replies first.
    pub(crate) fn take_for(&mut self, host: u32, slot: Slot) -> Option<Came> {
        let endpoint = Endpoint::new(slot.0);
        let exchange = self.exchange.as_mut()?;
        if let Some(ended) = exchange.door(host, endpoint)?.ended.pop_front() {
            return Some(ended);
        }
        let state = &mut self.nodes[host as usize].endpoints[endpoint.index()];
        let reply = state.receive_queue.iter().position(|entry| entry.is_reply);
        let entry = state.receive_queue.remove(reply.unwrap_or(0))?;
        let number = entry.number;
        if !entry.is_reply {
            state.requests -= 1;
            let path = ReturnPath {
                host: entry.from,
                endpoint: entry.from_endpoint,
                number,
            };
            let content = exchange.request(number)?.content.take()?;
            return Some(Arrival::Request { path, content });
        }
        let Request {
            context, answer, ..
        } = exchange.end(number)?;
        Some(match answer? {
            Answer::Reply(content) => Arrival::Reply { context, content },
            Answer::Back(content) => Arrival::Returned {
                context,
                phase: Phase::Request,
                reason: Reason::EndpointFreed,
                content: Some(content),
            },
        })
    }

    /// Requests that an endpoint's queue holds.
    pub(crate) fn request_entries(&self, host: u32, endpoint: Endpoint) -> u32 {
        let Some(exchange) = &self.exchange else {
            return self.config.queue_entries;
        };
        let doors = &exchange.doors[host as usize];
        doors
            .get(endpoint.index())
            .map_or(0, |door| door.admission.request_entries)
    }

    /// Whether something waits in an endpoint.
    pub(crate) fn has_arrival(&self, host: u32, slot: Slot) -> bool {
        let found = self.readiness(host, slot);
        found.request || found.reply || found.returned
    }
}
