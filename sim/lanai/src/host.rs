//! The host's processor, and the programs that it runs: plain state machines.

use viaduct_engine::Time;
use viaduct_frames::Endpoint;
use viaduct_frames::residency::Write;
use viaduct_frames::transport::ReturnReason;

use crate::agenda::Wake;
use crate::cluster::{Cluster, Entry, Event, Message, is_in_frame};
use crate::ledger::ENQUIRY;
use crate::load::Links;
use crate::program::{Program, half};

impl<N: Links> Cluster<N> {
    /// Lets the processor go on if it is free and its program has something to do.
    pub(crate) fn kick_host(&mut self, host: u32, now: Time) {
        let node = &mut self.nodes[host as usize];
        if node.has_host_event {
            return;
        }
        if matches!(node.program, Program::Processes(_)) {
            self.look(host, now);
            return;
        }
        if node.host_busy_until > now {
            // The kernel's thread had the processor meanwhile, or the program is at work.
            self.schedule_host(host, now);
            return;
        }
        while let Some(index) = self.nodes[host as usize].posting.pop_front() {
            let fault = self.post(host, index, now);
            if fault > Time::ZERO {
                let node = &mut self.nodes[host as usize];
                node.host_busy_until = node.host_busy_until.max(now) + fault;
            }
        }
        let node = &self.nodes[host as usize];
        if !matches!(node.program, Program::Outside) {
            self.begin_action(host, now);
        } else if node.host_busy_until > now {
            self.schedule_host(host, now);
        } else {
            self.resume_program(host);
        }
    }

    /// Puts a message into its endpoint; returns what the processor needs for a fault.
    pub(crate) fn post(&mut self, host: u32, index: u32, now: Time) -> Time {
        if self.nodes[host as usize].is_mute {
            self.give_back(host, index, false, now);
            return Time::ZERO;
        }
        let from = self.messages[index].entry.from_endpoint;
        match self.write(host, from, now) {
            Write::Direct(frame) => {
                let node = &mut self.nodes[host as usize];
                node.queue_message(from, index, self.config.queue_entries);
                if node.side.may_send(frame) {
                    node.service.ready(frame);
                }
                self.kick_firmware(host, now);
            }
            Write::OnHost { is_fault } => {
                let node = &mut self.nodes[host as usize];
                node.queue_message(from, index, self.config.queue_entries);
                if is_fault {
                    return self.pace(host, now).stretch(self.config.host.fault);
                }
            }
            Write::Blocked => self.nodes[host as usize].blocked.push(index),
            Write::NoSuchEndpoint => self.messages.free(index),
        }
        Time::ZERO
    }

    /// Lets the processor begin what its program does next, if that is anything.
    fn begin_action(&mut self, host: u32, now: Time) {
        let now = now.max(self.nodes[host as usize].host_busy_until);
        let Some((span, posting)) = self.next_action(host, now) else {
            return;
        };
        let node = &mut self.nodes[host as usize];
        if let Some(index) = posting {
            node.posting.push_back(index);
        }
        node.host_busy_until = node.host_busy_until.max(now) + span;
        self.schedule_host(host, now);
    }

    pub(crate) fn schedule_host(&mut self, host: u32, now: Time) {
        let node = &mut self.nodes[host as usize];
        if !core::mem::replace(&mut node.has_host_event, true) {
            let at = node.host_busy_until.max(now);
            self.queue.wake(Wake::Host(host), at);
        }
    }

    /// A remap is done that threads wait for: they post again.
    pub(crate) fn wake(&mut self, host: u32, endpoint: Endpoint, now: Time) {
        let switch = self.pace(host, now).stretch(self.config.host.switch);
        let node = &mut self.nodes[host as usize];
        let messages = &self.messages;
        let place = node
            .blocked
            .iter()
            .position(|index| messages[*index].entry.from_endpoint == endpoint);
        let Some(place) = place else { return };
        let index = node.blocked.remove(place);
        // The threads that waited run next, ahead of what the program would do.
        node.posting.push_back(index);
        node.host_busy_until = node.host_busy_until.max(now) + switch;
        self.schedule_host(host, now);
    }

    /// A message is in a queue of this host at `at`.
    pub(crate) fn message_came(&mut self, host: u32, endpoint: Endpoint, at: Time) {
        let node = &mut self.nodes[host as usize];
        if matches!(node.program, Program::Processes(_)) {
            self.queue.schedule(at, Event::Noticed(host, endpoint));
            return;
        }
        if matches!(node.program, Program::Outside) {
            if let Some(exchange) = &mut self.exchange {
                exchange.arrived(host, endpoint);
            }
            self.look_again(host, at);
            return;
        }
        node.program.message_came(endpoint);
        // A processor that has nothing to do looks at its queues all the time.
        if !node.has_host_event {
            let pace = self.pace(host, at);
            let node = &mut self.nodes[host as usize];
            let (costs, driver) = (&self.config.host, &node.driver);
            let look = |endpoint| pace.stretch(costs.look_of(is_in_frame(driver, endpoint)));
            let noticed = match &mut node.program {
                Program::Server(server) => server.notice(endpoint, look),
                Program::Client(_) => half(look(endpoint)),
                Program::Nothing | Program::Outside | Program::Processes(_) => Time::ZERO,
            };
            self.begin_action(host, at + noticed);
        }
    }

    /// A message of this host returned to it.
    pub(crate) fn message_returned(
        &mut self,
        host: u32,
        message: Message,
        reason: ReturnReason,
        may_have_arrived: bool,
        at: Time,
    ) {
        if self.ledger.is_some() {
            self.answer_return(host, message, reason, may_have_arrived, at);
            return;
        }
        if self.exchange.is_some() {
            self.returned_to_program(host, &message, reason, may_have_arrived, at);
            return;
        }
        if let Some(ranks) = &mut self.ranks {
            ranks.message_returned(&message.entry, may_have_arrived, at);
            return;
        }
        if message.entry.is_reply {
            return;
        }
        match &mut self.nodes[host as usize].program {
            Program::Client(client) => client.credits += 1,
            Program::Nothing | Program::Outside | Program::Server(_) | Program::Processes(_) => {
                return;
            }
        }
        self.schedule_host(host, at);
    }

    /// What the program does next: processor's time, and the message that it posts at its end.
    #[inline]
    fn next_action(&mut self, host: u32, now: Time) -> Option<(Time, Option<u32>)> {
        let pace = self.pace(host, now);
        let costs = &self.config.host;
        let measured_from = self.measured_from;
        let node = &mut self.nodes[host as usize];
        match &mut node.program {
            // Processes have a scheduler, and programs from outside stacks.
            Program::Nothing | Program::Outside | Program::Processes(_) => None,
            Program::Client(client) => {
                let state = &mut node.endpoints[client.endpoint.index()];
                let send = pace.stretch(costs.send_of(client.bytes));
                let mut span = send;
                if let Some(reply) = state.receive_queue.pop_front() {
                    let is_in_frame = is_in_frame(&node.driver, client.endpoint);
                    let receive = costs.receive_of(reply.bytes, is_in_frame) + pace.per_message();
                    let receive = pace.stretch(receive);
                    client.has_heard = true;
                    if let Some(ledger) = &mut self.ledger {
                        if reply.number == ENQUIRY {
                            client.credits += ledger.hear_of_dropped(host);
                            return Some((receive, None));
                        } else if !ledger.reply(host, reply.number) {
                            return Some((receive, None));
                        }
                    }
                    client.take(reply, now + receive, measured_from);
                    if client.requests_left == 0 || !node.blocked.is_empty() {
                        return Some((receive, None));
                    }
                    span += receive;
                }
                if client.credits == 0 || client.requests_left == 0 || !node.blocked.is_empty() {
                    return None;
                }
                client.credits -= 1;
                client.requests_left -= 1;
                let to_key = client.server_key;
                let ledger = self.ledger.as_mut();
                let number = ledger.map_or(0, |ledger| ledger.post(host, to_key));
                let entry = Entry {
                    from: host,
                    from_endpoint: client.endpoint,
                    bytes: client.bytes,
                    is_reply: false,
                    key: node.boot,
                    number,
                    request: 0,
                    posted_at: now + span - send,
                };
                let message = Message {
                    entry,
                    to: client.server.0,
                    to_endpoint: client.server.1,
                    to_key,
                    name: None,
                    place: 0,
                };
                Some((span, Some(self.messages.add(message))))
            }
            Program::Server(server) => {
                if server.is_single && !node.blocked.is_empty() {
                    return None;
                }
                // A reply needs room in the send queue, and an endpoint that no remap is awaited
                // for.
                let mut blocked = node.blocked.iter().fold(0, |mask, index| {
                    mask | 1 << self.messages[*index].entry.from_endpoint.index()
                });
                blocked |= node.full;
                let driver = &node.driver;
                let look = |endpoint| pace.stretch(costs.look_of(is_in_frame(driver, endpoint)));
                let (endpoint, span) = server.choose(blocked, pace.stretch(costs.switch), look)?;
                let state = &mut node.endpoints[endpoint.index()];
                let request = state.receive_queue.pop_front()?;
                state.requests -= 1;
                if state.receive_queue.is_empty() {
                    server.ready &= !(1 << endpoint.index());
                }
                if let Some(ledger) = &mut self.ledger {
                    ledger.take(request.from, request.number);
                }
                let entry = Entry {
                    from: host,
                    from_endpoint: endpoint,
                    key: node.boot,
                    number: request.number,
                    request: 0,
                    bytes: 16,
                    is_reply: true,
                    posted_at: request.posted_at,
                };
                let message = Message {
                    entry,
                    to: request.from,
                    to_endpoint: request.from_endpoint,
                    to_key: request.key,
                    name: None,
                    place: 0,
                };
                let posting = self.messages.add(message);
                let receive = costs.receive_of(request.bytes, is_in_frame(driver, endpoint));
                let work = pace.stretch(receive + pace.per_message() + costs.send);
                Some((span + work, Some(posting)))
            }
        }
    }
}
