//! The interface's processor: one piece of work at a time, each with its cycles.
//!
//! It takes words of the driver first, then packets that came, so that the network drains, and
//! sends a message when there is none.
//! What a piece of work decides is decided when it begins, and its packets leave when it ends.

use viaduct_engine::Time;
use viaduct_frames::agreement::{Lookup, Task};
use viaduct_frames::transport::{Output, Reason, Received, ReturnReason, Ticket, Transport};
use viaduct_frames::{Endpoint, Frame, Line, Peer};

use crate::cluster::{Cluster, Event, SHORT_BYTES, bit};
use crate::load::{Flight, Links, Load};
use crate::messages::{BulkWrite, Reading};
use crate::work::Work;

/// Which of the packets that the transport wants to send the processor has been charged for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Priced {
    None,
    /// The first: it is a message that leaves for the first time.
    First,
}

impl<N: Links> Cluster<N> {
    /// Lets the processor go on if it is free and has something to do.
    pub(crate) fn kick_firmware(&mut self, host: u32, now: Time) {
        if self.nodes[host as usize].is_mute {
            return;
        }
        loop {
            let node = &mut self.nodes[host as usize];
            let free_at = node.busy_until.max(now);
            let arrival_at = node.arrival_at;
            if free_at > now {
                let has_work = !node.words_in.is_empty() || !node.service.is_idle();
                let at = if has_work { free_at } else { arrival_at };
                if at < Time::MAX {
                    self.wake_firmware_then(host, at.max(free_at));
                }
                return;
            }
            if !node.words_in.is_empty() {
                self.hear_driver(host, now);
            } else if arrival_at <= now {
                if let Some((came, flight)) = node.incoming.pop_front() {
                    let next = node.incoming.front();
                    node.arrival_at = next.map_or(Time::MAX, |(at, _)| *at);
                    self.receive_one(host, (came, &flight), now);
                }
            } else if !node.service.is_idle() {
                self.send_one(host, now);
            } else {
                if arrival_at < Time::MAX {
                    self.wake_firmware_then(host, arrival_at);
                }
                return;
            }
        }
    }

    /// Does what the driver wants.
    #[cold]
    fn hear_driver(&mut self, host: u32, now: Time) {
        let done_at = self.occupy(host, now, Work::DriverWord);
        let node = &mut self.nodes[host as usize];
        let Some(word) = node.words_in.pop_front() else {
            return;
        };
        match node.side.hear(word) {
            Ok(task) => self.begin_task(host, task, now, done_at),
            Err(disagreement) => debug_assert!(false, "{disagreement}"),
        }
    }

    /// Has the processor do a piece of work after what it has begun; when that is done.
    #[inline]
    fn occupy(&mut self, host: u32, now: Time, work: Work) -> Time {
        self.occupy_cycles(host, now, self.config.firmware.steps.of(work))
    }

    #[inline]
    fn occupy_cycles(&mut self, host: u32, now: Time, cycles: u32) -> Time {
        let span = self.cycles(cycles);
        let node = &mut self.nodes[host as usize];
        node.busy_until = now.max(node.busy_until) + span;
        node.busy_until
    }

    fn begin_task(&mut self, host: u32, task: Task, now: Time, done_at: Time) {
        let image = self.config.image_bytes;
        let node = &mut self.nodes[host as usize];
        let (frame, bytes_s) = match task {
            Task::None => return,
            Task::BringToRest(endpoint, frame) => {
                let recalled = node.endpoints[endpoint.index()].outstanding.len() as u32;
                node.service.stop(frame);
                node.frames[frame.index()].is_resting = true;
                if let Some(transport) = &mut node.transport {
                    for message in &node.endpoints[endpoint.index()].outstanding {
                        if let Some(name) = self.messages[*message].name {
                            transport.recall(name, now);
                        }
                    }
                }
                let cycles = recalled * self.config.firmware.steps.of(Work::Recall);
                let done_at = self.occupy_cycles(host, done_at, cycles);
                self.follow_transport(host, done_at, Priced::None);
                self.check_rest(host, frame, done_at);
                return;
            }
            Task::Unload(endpoint, frame) => {
                let is_quiet = node.endpoints[endpoint.index()].outstanding.is_empty();
                let state = &mut node.frames[frame.index()];
                assert!(is_quiet && state.writes == 0, "{endpoint} leaves unsettled");
                state.is_unloading = true;
                (frame, self.config.host.write_bytes_s)
            }
            Task::Upload(_, frame) => (frame, self.config.host.read_bytes_s),
        };
        let at = self.use_bus(host, done_at, image, bytes_s);
        let event = Event::Moved(host, frame.index() as u16);
        self.queue.schedule(at, event);
    }

    /// Says that an endpoint is at rest, once it is.
    #[inline]
    fn check_rest(&mut self, host: u32, frame: Frame, at: Time) {
        if self.nodes[host as usize].frames[frame.index()].is_resting {
            self.check_resting(host, frame, at);
        }
    }

    #[cold]
    fn check_resting(&mut self, host: u32, frame: Frame, at: Time) {
        let node = &mut self.nodes[host as usize];
        let state = node.frames[frame.index()];
        let Some(endpoint) = node.side.occupant(frame) else {
            return;
        };
        let is_quiet = node.endpoints[endpoint.index()].outstanding.is_empty();
        if is_quiet && state.writes == 0 {
            node.frames[frame.index()].is_resting = false;
            let word = node.side.at_rest(frame);
            self.tell_driver(host, word, at);
        }
    }

    pub(crate) fn image_moved(&mut self, host: u32, frame: Frame, now: Time) {
        let done_at = self.occupy(host, now, Work::DriverWord);
        let node = &mut self.nodes[host as usize];
        let Some(endpoint) = node.side.occupant(frame) else {
            return;
        };
        let has_work = !node.endpoints[endpoint.index()].send_queue.is_empty();
        let was_unload = core::mem::take(&mut node.frames[frame.index()].is_unloading);
        let word = node.side.moved(frame, has_work);
        if !was_unload && has_work {
            node.service.ready(frame);
        }
        self.tell_driver(host, word, done_at);
        self.kick_firmware(host, now);
    }

    /// A message of the endpoint whose turn it is, if one can be sent.
    fn send_one(&mut self, host: u32, now: Time) {
        let mut looks = 0;
        loop {
            let node = &mut self.nodes[host as usize];
            let Some(frame) = node.service.turn(now) else {
                break;
            };
            let endpoint = node.side.occupant(frame);
            let front = endpoint.and_then(|endpoint| {
                let queue = &node.endpoints[endpoint.index()].send_queue;
                queue.front().copied().map(|message| (endpoint, message))
            });
            let Some((endpoint, index)) = front.filter(|_| node.side.may_send(frame)) else {
                node.service.stop(frame);
                looks += 1;
                continue;
            };
            let message = &mut self.messages[index];
            let peer = Peer::new(message.to);
            let state = &mut node.endpoints[endpoint.index()];
            let mut line = Line::new(0);
            if let Some(transport) = &mut node.transport {
                line = transport.line(peer);
                let Ok(name) = transport.send(peer, index, now) else {
                    node.service.park(frame, line);
                    looks += 1;
                    continue;
                };
                message.name = Some(name);
                message.place = state.outstanding.len() as u32;
                state.outstanding.push(index);
            }
            let was_full = state.send_queue.len() >= self.config.queue_entries as usize;
            state.send_queue.pop_front();
            node.service.sent(frame, line);
            if state.send_queue.is_empty() {
                node.service.stop(frame);
            }
            let (to, bytes) = (message.to, message.entry.bytes);
            self.note_chosen(index, now);
            let node = &mut self.nodes[host as usize];
            let state = &mut node.endpoints[endpoint.index()];
            if was_full && state.send_queue.len() < self.config.queue_entries as usize {
                // The program may have waited for room.
                node.full &= !bit(endpoint);
                self.schedule_host(host, now);
            }
            let sent = self.config.firmware.steps.of(Work::Send { bytes });
            let done_at = self.occupy_cycles(host, now, self.looks(looks) + sent);
            self.note_use(host, endpoint);
            if self.config.transport.is_some() {
                self.follow_transport(host, done_at, Priced::First);
            } else {
                self.depart(host, to, bytes, Load::Plain(index), done_at);
            }
            return;
        }
        self.occupy_cycles(host, now, self.looks(looks));
    }

    fn looks(&self, count: u32) -> u32 {
        count * self.config.firmware.steps.of(Work::Look)
    }

    /// A message leaves: a long one is read from host memory before, and others leave meanwhile.
    #[inline(always)]
    fn depart(&mut self, from: u32, to: u32, bytes: u32, load: Load, at: Time) {
        let all_bytes = bytes + self.config.network.header_bytes;
        if bytes <= SHORT_BYTES {
            let flight = load.packed(from, to, all_bytes);
            self.note_left(&flight, at);
            self.fly(flight, at);
            return;
        }
        let node = &mut self.nodes[from as usize];
        let timeout = match (&load, &mut node.transport) {
            (Load::Message(packet, _), Some(transport)) => transport.hold(packet, at),
            _ => Time::ZERO,
        };
        let flight = load.packed(from, to, all_bytes);
        node.reading.push_back(Reading {
            flight,
            bytes,
            timeout,
        });
        if node.reading.len() == 1 {
            self.read_next(from, at);
        }
    }

    /// Begins to read the message that is to leave next, if there is one. One at a time: what comes
    /// meanwhile uses the bus in between.
    fn read_next(&mut self, host: u32, now: Time) {
        let Some(Reading { bytes, .. }) = self.nodes[host as usize].reading.front() else {
            return;
        };
        let read_at = self.use_bus(host, now, *bytes, self.config.host.read_bytes_s);
        let node = &mut self.nodes[host as usize];
        if let (Some(it), Some(transport)) = (node.reading.front_mut(), &mut node.transport)
            && let Load::Message(packet, _) = &mut it.flight.load
        {
            transport.leaves(packet, read_at, it.timeout, now);
        }
        self.queue.schedule(read_at, Event::Read(host));
    }

    /// A message has been read from host memory.
    pub(crate) fn bulk_read(&mut self, host: u32, now: Time) {
        if let Some(Reading { flight, .. }) = self.nodes[host as usize].reading.pop_front() {
            self.note_left(&flight, now);
            self.fly(flight, now);
            self.read_next(host, now);
            self.follow_transport(host, now, Priced::None);
        }
    }

    fn receive_one(&mut self, host: u32, (came, flight): (Time, &Flight), now: Time) {
        match flight.load {
            // It goes past the interface: `Cluster::arrives`.
            Load::Foreign => {}
            Load::Answer(answer) => {
                let done_at = self.occupy(host, now, Work::HearAnswer);
                if let Some(transport) = &mut self.nodes[host as usize].transport {
                    transport.handle_answer(answer, now);
                }
                self.follow_transport(host, done_at, Priced::None);
                self.release_buffer(host, done_at);
            }
            Load::Plain(index) => {
                self.note_arrived(index, came);
                let done_at = self.occupy(host, now, Work::Take);
                if self.exchange.is_some() && self.turn_back(host, index, done_at) {
                    self.release_buffer(host, done_at);
                    return;
                }
                let Some(frame) = self.find(host, self.messages[index].to_endpoint) else {
                    // Without a transport there is nobody to tell: the message is lost.
                    self.messages.free(index);
                    self.release_buffer(host, done_at);
                    return;
                };
                self.accept(host, index, frame, None, done_at);
                self.messages.free(index);
            }
            Load::Back(index) => {
                self.occupy(host, now, Work::Take);
                let done_at = self.occupy(host, now, Work::Write { bytes: 0 });
                let message = self.messages[index];
                self.messages.free(index);
                let reason = ReturnReason::Refused(Reason::Malformed);
                self.returned_to_program(host, &message, reason, false, done_at);
                self.release_buffer(host, done_at);
            }
            Load::Message(packet, index) => {
                let done_at = self.occupy(host, now, Work::Take);
                let node = &mut self.nodes[host as usize];
                let Some(transport) = &mut node.transport else {
                    return;
                };
                match (transport.handle_packet(packet, now), index) {
                    (Received::Judge(ticket), Some(index)) => {
                        self.note_arrived(index, came);
                        self.judge(host, ticket, index, done_at);
                    }
                    (Received::Answer(answer), _) => {
                        let done_at = self.occupy(host, now, Work::Answer);
                        self.send_answer(host, answer, done_at);
                        self.release_buffer(host, done_at);
                    }
                    (Received::Drop | Received::Judge(_), _) => {
                        self.release_buffer(host, done_at);
                    }
                }
                let transport = &self.nodes[host as usize].transport;
                if transport.as_ref().is_some_and(Transport::has_output) {
                    self.follow_transport(host, done_at, Priced::None);
                }
            }
        }
    }

    /// Without a transport: sends a message of a program back whose endpoint does not let it in.
    /// Whether it did.
    #[cold]
    fn turn_back(&mut self, host: u32, index: u32, done_at: Time) -> bool {
        let message = self.messages[index];
        let exchange = self.exchange.as_mut();
        if exchange.is_none_or(|exchange| exchange.judge(&message, host).is_ok()) {
            return false;
        }
        let done_at = self.occupy(host, done_at, Work::Answer);
        let flight =
            Load::Back(index).packed(host, message.entry.from, self.config.network.header_bytes);
        self.fly(flight, done_at);
        true
    }

    fn find(&self, host: u32, endpoint: Endpoint) -> Option<Frame> {
        match self.nodes[host as usize].side.lookup(endpoint) {
            Lookup::Resident(frame) => Some(frame),
            Lookup::NotResident | Lookup::NoSuchEndpoint => None,
        }
    }

    /// A new message: into its endpoint's queue, or why not.
    fn judge(&mut self, host: u32, ticket: Ticket, index: u32, done_at: Time) {
        let message = self.messages[index];
        let endpoint = message.to_endpoint;
        let entries = self.request_entries(host, endpoint);
        let node = &mut self.nodes[host as usize];
        let refusal = match node.side.lookup(endpoint) {
            _ if message.to_key != node.boot => Reason::WrongKey,
            Lookup::NoSuchEndpoint => Reason::NoSuchEndpoint,
            Lookup::NotResident => {
                if let Some(word) = node.side.refused(endpoint) {
                    self.tell_driver(host, word, done_at);
                }
                Reason::NotResident
            }
            Lookup::Resident(frame) => {
                let requests = node.endpoints[endpoint.index()].requests;
                let exchange = self.exchange.as_mut();
                match exchange.map_or(Ok(()), |exchange| exchange.judge(&message, host)) {
                    Err(refusal) => refusal,
                    Ok(()) if message.entry.is_reply || requests < entries => {
                        self.accept(host, index, frame, Some(ticket), done_at);
                        return;
                    }
                    Ok(()) => Reason::QueueFull,
                }
            }
        };
        self.conclude(host, ticket, Err(refusal), done_at);
        self.release_buffer(host, done_at);
    }

    /// Writes a message into its endpoint's queue, at once or by DMA.
    fn accept(
        &mut self,
        host: u32,
        index: u32,
        frame: Frame,
        ticket: Option<Ticket>,
        done_at: Time,
    ) {
        let message = self.messages[index];
        let (entry, endpoint) = (message.entry, message.to_endpoint);
        let bytes = entry.bytes;
        let done_at = self.occupy(host, done_at, Work::Write { bytes });
        self.note_use(host, endpoint);
        let node = &mut self.nodes[host as usize];
        let state = &mut node.endpoints[endpoint.index()];
        state.requests += u32::from(!entry.is_reply);
        if entry.bytes > SHORT_BYTES {
            node.frames[frame.index()].writes += 1;
            let write = BulkWrite {
                ticket,
                entry,
                endpoint,
                frame,
            };
            let slot = match self.free_writes.pop() {
                Some(slot) => {
                    self.writes[slot as usize] = write;
                    slot
                }
                None => {
                    self.writes.push(write);
                    self.writes.len() as u32 - 1
                }
            };
            let bytes_s = self.config.host.write_bytes_s;
            let at = self.use_bus(host, done_at, entry.bytes, bytes_s);
            self.queue.schedule(at, Event::Written(host, slot));
            return;
        }
        let sees_when_there = node.program.sees_when_there();
        match sees_when_there {
            true => state.on_way.push_back(entry),
            false => state.receive_queue.push_back(entry),
        }
        if let Some(ticket) = ticket {
            self.conclude(host, ticket, Ok(()), done_at);
        }
        self.release_buffer(host, done_at);
        match sees_when_there {
            true => self
                .queue
                .schedule(done_at, Event::ShortWritten(host, endpoint)),
            false => self.message_came(host, endpoint, done_at),
        }
    }

    pub(crate) fn short_written(&mut self, host: u32, endpoint: Endpoint, now: Time) {
        let state = &mut self.nodes[host as usize].endpoints[endpoint.index()];
        state.receive_queue.extend(state.on_way.pop_front());
        self.notice(host, endpoint, now);
    }

    pub(crate) fn bulk_written(&mut self, host: u32, slot: u32, now: Time) {
        let write = self.writes[slot as usize];
        self.free_writes.push(slot);
        let node = &mut self.nodes[host as usize];
        node.frames[write.frame.index()].writes -= 1;
        let state = &mut node.endpoints[write.endpoint.index()];
        state.receive_queue.push_back(write.entry);
        self.release_buffer(host, now);
        if let Some(ticket) = write.ticket {
            self.conclude(host, ticket, Ok(()), now);
        }
        self.check_rest(host, write.frame, now);
        self.message_came(host, write.endpoint, now);
        self.kick_firmware(host, now);
    }

    fn conclude(&mut self, host: u32, ticket: Ticket, verdict: Result<(), Reason>, at: Time) {
        let node = &mut self.nodes[host as usize];
        let transport = node.transport.as_mut();
        let answer = transport.and_then(|transport| transport.judge(ticket, verdict));
        if let Some(answer) = answer {
            let at = self.occupy(host, at, Work::Answer);
            self.send_answer(host, answer, at);
        }
    }

    #[inline(always)]
    fn send_answer(&mut self, host: u32, answer: viaduct_frames::transport::Answer, at: Time) {
        let flight = Load::Answer(answer).packed(
            host,
            answer.target.index() as u32,
            self.config.network.answer_bytes,
        );
        self.fly(flight, at);
    }

    pub(crate) fn meet_deadline(&mut self, host: u32, now: Time) {
        let node = &mut self.nodes[host as usize];
        if now < node.deadline_at {
            return;
        }
        node.deadline_at = Time::MAX;
        if let Some(transport) = &mut node.transport {
            transport.handle_timeout(now);
        }
        self.follow_transport(host, now, Priced::None);
        self.kick_firmware(host, now);
    }

    /// Does what the transport wants, in packets that leave at `at` or later.
    fn follow_transport(&mut self, host: u32, at: Time, mut priced: Priced) {
        loop {
            let node = &mut self.nodes[host as usize];
            let Some(transport) = &mut node.transport else {
                return;
            };
            let Some(output) = transport.poll() else {
                break;
            };
            match output {
                Output::Transmit { packet, token } => {
                    let bytes = token.map_or(0, |token| self.messages[token].entry.bytes);
                    let load = Load::Message(packet, token);
                    let at = match core::mem::replace(&mut priced, Priced::None) {
                        Priced::First => at,
                        Priced::None => self.occupy(host, at, Work::SendAgain { bytes }),
                    };
                    self.depart(host, packet.target.index() as u32, bytes, load, at);
                }
                Output::Completed { token } => {
                    if let Some(ledger) = &mut self.ledger {
                        let entry = self.messages[token].entry;
                        if !entry.is_reply {
                            ledger.deliver(host, entry.number);
                        }
                    }
                    self.end_message(host, token, true, at);
                }
                Output::Returned {
                    token,
                    reason,
                    may_have_arrived,
                } => {
                    // Its credit is the sender's again.
                    let message = self.messages[token];
                    self.message_returned(host, message, reason, may_have_arrived, at);
                    // A copy that is under way has to find what it carries.
                    self.in_doubt += usize::from(may_have_arrived);
                    self.end_message(host, token, !may_have_arrived, at);
                }
                Output::Released { token } => {
                    let endpoint = self.messages[token].entry.from_endpoint;
                    let state = &mut node.endpoints[endpoint.index()];
                    state.send_queue.push_front(token);
                    let is_full = state.send_queue.len() >= self.config.queue_entries as usize;
                    if is_full {
                        node.full |= bit(endpoint);
                    }
                    self.end_message(host, token, false, at);
                }
                Output::ChannelFree(line) => node.service.release(line),
            }
        }
        let node = &mut self.nodes[host as usize];
        let deadline = node
            .transport
            .as_ref()
            .and_then(|transport| transport.poll_timeout());
        if let Some(deadline) = deadline.filter(|deadline| *deadline < node.deadline_at) {
            node.deadline_at = deadline;
            self.queue.schedule(deadline, Event::Deadline(host));
        }
    }

    /// A message is not outstanding any more.
    fn end_message(&mut self, host: u32, index: u32, is_over: bool, at: Time) {
        let message = self.messages[index];
        let endpoint = message.entry.from_endpoint;
        let node = &mut self.nodes[host as usize];
        let state = &mut node.endpoints[endpoint.index()];
        // The last takes its place, also if it is the last: which of the two, nothing foresees.
        if let Some(last) = state.outstanding.last().copied() {
            state.outstanding[message.place as usize] = last;
            self.messages[last].place = message.place;
            state.outstanding.pop();
        }
        if is_over {
            self.messages.free(index);
        }
        if let Lookup::Resident(frame) = node.side.lookup(endpoint) {
            self.check_rest(host, frame, at);
        }
    }
}
