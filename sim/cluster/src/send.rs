//! The sending side: from the post to the last byte on the first link.

use core::ops::Range;

use viaduct_core::{Descriptor, Segments, SendOutcome};
use viaduct_engine::Time;

use crate::cluster::{Cluster, class};
use crate::config::Arrivals;
use crate::connections::connection;
use crate::event::Event;
use crate::host::{BlockedPost, Turn};
use crate::message::{Ends, Message, MessageId};
use crate::path::{Priced, floor_of};
use crate::programs::{OF_PROGRAM, Programs};
use crate::trace::Span;
use crate::why::Work;
use crate::workload::MessageOperation;
use viaduct_hardware::mechanism::{self, Mover, Plan, PlanId, Request};
use viaduct_hardware::{Leg, Stage};
use viaduct_network::fluid::FlowDemand;
use viaduct_network::hops::Alone;
use viaduct_network::{Begun, JourneyId, Landing, Moved, Next, Transfer};

/// Marks the connections of drawn traffic and lists, as adapters know them, apart from those of
/// programs.
const OF_DRAWN: u64 = 1 << 63 | 1 << 31;

/// Marks memory that peers write and read, apart from the buffers of receives: adapters map it by
/// itself.
const OFFERED: u64 = 1 << 62;

impl<P: Programs> Cluster<P> {
    /// The tag of flows that belong to no message.
    pub(crate) const DEVICE_TAG: u32 = u32::MAX;

    /// Posts a message for which there is a buffer.
    pub(crate) fn post(&mut self, wish: BlockedPost) {
        if self.is_direct {
            self.post_directly(&wish);
            return;
        }
        let process = wish.process;
        let now = self.queue.now();
        let host = self.host_of(process);
        let hardware = self.hardware.of(host);
        let (post, doorbell) = (hardware.processor.post, hardware.doorbell);
        if self.failures.is_some() && !self.may_post(&wish) {
            return;
        }
        let Some(ends) = self.ends(&wish) else {
            return;
        };
        self.look_at_process(wish.target);
        self.look_at_vi(process, ends.source_vi);
        let first = self.numbering.first_place(host);
        self.buffers[first as usize].free -= 1;
        let processor = self.processor_of(host, process);
        let (begin, end) = self.processors[processor].work(now, post);
        let reaping = self.sends_to_take(host, process, ends);
        self.post_descriptor(host, ends, &wish);
        let id = self.messages.post(&wish, ends);
        let message = self.messages.get_mut(id);
        message.spend(Stage::Buffer, now);
        message.spend(Stage::SenderProcessor, begin);
        message.spend(Stage::Post, end);
        if let Some(doorbell) = doorbell {
            if self.adapters.is_empty() {
                self.plan(host, id);
                self.work_before(host, id);
            }
            self.reap_sends(processor, reaping);
            self.follow_post(host, id, begin);
            let write = self.short_transaction(host, doorbell.bus, 0);
            let message = self.messages.get_mut(id);
            message.engine_from = message.mark + write + doorbell.own;
            message.spend(Stage::Doorbell, message.engine_from);
            self.ring(host, process, ends.place, id);
        } else if self.start(host, id) {
            self.work_before(host, id);
            self.start_by_processor(host, id);
            self.reap_sends(processor, reaping);
            self.follow_post(host, id, begin);
        } else {
            self.end_unsent(id);
        }
    }

    /// The processor takes completions of sends when it has done what it was given.
    #[inline]
    fn reap_sends(&mut self, processor: usize, span: Time) {
        let processor = &mut self.processors[processor];
        processor.work(processor.free, span);
    }

    /// The processor has done all that a post asks of it.
    #[inline]
    fn follow_post(&mut self, host: u32, id: MessageId, begin: Time) {
        let message = self.messages.get(id);
        let (process, place) = (message.source, message.connection);
        let worked = self.processors[self.processor_of(host, process)].free;
        let name = message.name(self.processes_per_host);
        let home = self.home_port(process);
        let state = &mut self.processes[home as usize];
        state.busy_until = state.busy_until.max(worked);
        if self.is_interrupted_for_sends {
            self.expect_look_at_sends((process, place), name, worked);
        }
        self.follow_processor(host, id, Work::Post, begin, worked);
    }

    /// What the processor does of a message's way before the adapter does anything.
    #[inline]
    pub(crate) fn work_before(&mut self, host: u32, id: MessageId) {
        let message = self.messages.get(id);
        let software = self.plans.get(message.plan).processor;
        if software > Time::ZERO {
            let processor = self.source_processor(host, id);
            let message = self.messages.get_mut(id);
            let (_, end) = self.processors[processor].work(message.mark, software);
            message.spend(Stage::Software, end);
        }
    }

    /// The NIC begins with the oldest send descriptor of a message's VI, which is the message's;
    /// false if its connection broke.
    #[inline]
    fn start(&mut self, host: u32, id: MessageId) -> bool {
        let message = self.messages.get_mut(id);
        match self.nics[host as usize].start_send(message.source_vi) {
            Some(started) => {
                message.send_work = Some(started.work);
                message.header = Some(started.header);
            }
            None if self.failures.is_some() => return false,
            None => self
                .violations
                .push(format!("host {host}: a posted send did not start")),
        }
        if message.plan == PlanId::NONE {
            self.plan(host, id);
        }
        if self.failures.is_some() {
            self.prepare_for_failures(id);
        }
        true
    }

    /// A host's adapter plans how it carries a message. What it remembers of others counts when it
    /// begins with the message; where it remembers nothing, any time before will do.
    #[inline]
    pub(crate) fn plan(&mut self, host: u32, id: MessageId) {
        let message = self.messages.get_mut(id);
        let is_usual = !message.is_of::<P>() || self.guests.sent(id).segments == 1;
        match self.known_plan {
            // The plan that was made last is held by whoever keeps plans.
            Some((bytes, plan)) if bytes == message.carried_bytes() && is_usual => {
                message.plan = plan;
                self.plans.hold(plan);
            }
            _ => self.another_plan(host, id),
        }
    }

    #[inline(never)]
    fn another_plan(&mut self, host: u32, id: MessageId) {
        let message = self.messages.get(id);
        let place_in_batch = self.engines[host as usize].in_batch;
        let request = if message.is_of::<P>() {
            self.request_of_program(id, place_in_batch)
        } else {
            let connections = &self.processes[message.source as usize].connections;
            Request {
                bytes: message.carried_bytes(),
                segments: 1,
                place_in_batch,
                target: self.target_of_drawn(message),
                is_behind: connections.get(message.connection).held > 0,
                is_inline: None,
            }
        };
        self.engines[host as usize].in_batch = place_in_batch.wrapping_add(1);
        let message = self.messages.get(id);
        let target = self.host_of_end(message, message.target);
        let (hosts, link) = (self.config.pair((host, target)), self.config.host_link());
        // Adapters that remember nothing have no state.
        let none = &mut mechanism::AdapterState::Plain;
        let state = self.adapters.get_mut(host as usize).unwrap_or(none);
        state.plan(hosts, link, &request, &mut self.last_plan);
        let plan = self.plans.hold_last(&mut self.last_plan);
        let message = self.messages.get_mut(id);
        message.plan = plan;
        // Another plan than the one kept may be the last now, which nobody else holds.
        let is_usual = self.are_plans_alike && request.segments == 1;
        self.known_plan = is_usual.then_some((request.bytes, plan));
    }

    /// What a message of drawn traffic or of a list goes to, as its adapter knows it: for each pair
    /// of processes one connection, one region of buffers, and one of memory that is offered. A
    /// connection that broke is another one when it is up again; one that was given back meanwhile
    /// is the same.
    fn target_of_drawn(&self, message: &Message) -> (u32, u64) {
        let region = match message.operation {
            MessageOperation::Send => 0,
            _ => OFFERED,
        };
        if self.failures.is_some() {
            let host = self.host_of(message.target);
            return (
                host,
                u64::from(message.target_vi.index()) | OF_DRAWN | region,
            );
        }
        (
            message.target,
            u64::from(message.source) | OF_DRAWN | region,
        )
    }

    /// Without a doorbell the processor starts a message: it writes the bytes, or asks the engine
    /// to move them.
    pub(crate) fn start_by_processor(&mut self, host: u32, id: MessageId) {
        let processor = self.source_processor(host, id);
        let message = self.messages.get_mut(id);
        let plan = self.plans.get(message.plan);
        let begins = message.mark;
        match plan.mover {
            Mover::Processor(writing) => {
                self.processors[processor].work(begins, writing);
                self.at(begins, Event::Begins(id));
            }
            Mover::Engine | Mover::HeldEngine => {
                let is_held = plan.mover == Mover::HeldEngine;
                // The request is there when the processor has written it; more may follow.
                message.engine_from = begins;
                self.processors[processor].work(begins, plan.beside);
                let engines = &mut self.engines[host as usize];
                engines.turns.push_back(Turn::Message(id));
                let (process, place) = (message.source, message.connection);
                let connection = connection!(self, process, place);
                connection.held += u32::from(is_held);
                self.queue_at_adapter(host);
                self.serve(host);
            }
        }
    }

    /// The connection that a message takes, set up if it is new.
    pub(crate) fn ends(&mut self, wish: &BlockedPost) -> Option<Ends> {
        let place = self.connect(wish.process, wish.target)?;
        let connections = &mut self.processes[wish.process as usize].connections;
        let connection = connections.at(place);
        Some(Ends {
            place,
            source_vi: connection.vi,
            target_vi: connection.peer_vi,
            has_late_heads: connection.has_late_heads,
        })
    }

    pub(crate) fn post_descriptor(&mut self, host: u32, ends: Ends, wish: &BlockedPost) {
        if wish.operation != MessageOperation::Send {
            return self.post_remote(host, ends, wish);
        }
        let buffer = self.buffer(wish.process, wish.bytes);
        let nic = &mut self.nics[host as usize];
        let (vi, number) = (ends.source_vi, wish.number);
        let posted = match buffer {
            Some(buffer) => {
                nic.post_send_with(vi, || Descriptor::send(Segments::one(buffer), number))
            }
            None => nic.post_send(vi, Descriptor::send(Segments::none(), number)),
        };
        if let Err(error) = posted {
            self.violations
                .push(format!("host {host} could not post a send: {error}"));
        }
    }

    /// The NIC has learnt of one more send descriptor of a VI.
    pub(crate) fn ring(&mut self, host: u32, process: u32, place: u32, id: MessageId) {
        let connection = connection!(self, process, place);
        self.messages.line_up(connection, id);
        self.queue_at_adapter(host);
        self.take_turn(host, process, place);
        self.serve(host);
    }

    /// One more message waits for a host's sending engine.
    pub(crate) fn queue_at_adapter(&mut self, host: u32) {
        let engines = &mut self.engines[host as usize];
        engines.queued += 1;
        if u64::from(engines.queued) > self.queue_depth_max.0 {
            self.queue_depth_max = (u64::from(engines.queued), host);
        }
    }

    /// A VI joins the turns if it has a descriptor to read, and none that was read and waits where
    /// the adapter does not read ahead.
    pub(crate) fn take_turn(&mut self, host: u32, process: u32, place: u32) {
        let connection = connection!(self, process, place);
        let has_work = connection.first_waiting != MessageId::NONE;
        let may_read = connection.first_fetched == MessageId::NONE || self.reads_ahead;
        if has_work && !connection.has_turn && may_read {
            connection.has_turn = true;
            if P::EXIST {
                self.guests.going += u32::from(place & OF_PROGRAM != 0);
            }
            let turn = Turn::Connection { process, place };
            self.engines[host as usize].turns.push_back(turn);
        }
    }

    /// The sending engine takes the next message: send queues in turn, each in order.
    pub(crate) fn serve(&mut self, host: u32) {
        let engines = &mut self.engines[host as usize];
        if engines.is_fetching {
            return;
        }
        let Some(turn) = engines.turns.pop_front() else {
            engines.in_batch = 0;
            return;
        };
        engines.is_fetching = true;
        let now = self.queue.now();
        let id = match turn {
            Turn::Message(id) => id,
            Turn::Request(request) => {
                self.guests.going -= 1;
                return P::serve(self, host, request);
            }
            Turn::Connection { process, place } if P::EXIST && place & OF_PROGRAM != 0 => {
                self.guests.going -= 1;
                match self.start_of_program(process, place & !OF_PROGRAM) {
                    Some(id) => id,
                    None => return self.pass_over_line(host, process, place),
                }
            }
            Turn::Connection { process, place } => {
                let connection = connection!(self, process, place);
                let id = connection.first_waiting;
                connection.first_waiting = self.messages.get(id).next_on_vi;
                if !self.start(host, id) {
                    return self.pass_over(host, process, place, id);
                }
                id
            }
        };
        self.engines[host as usize].queued -= 1;
        let message = self.messages.get(id);
        let mut begin = message.engine_from.max(now);
        let plan = self.plans.get(message.plan);
        let (service, is_one_engine) = (plan.service, plan.is_one_engine);
        let read = self.short_transaction(host, service.bus, 0);
        let engines = &mut self.engines[host as usize];
        if is_one_engine {
            begin = begin.max(engines.receive_free);
            engines.receive_free = begin + read + service.own;
        }
        let message = self.messages.get_mut(id);
        message.spend(Stage::SendQueue, begin);
        let ready = begin + read + service.own;
        message.spend(Stage::Descriptor, ready);
        message.engine_done = ready;
        self.follow_descriptor(host, id, begin, ready);
        self.after(self.lanes.fetched, ready, Event::Fetched(id));
    }

    /// The sending engine finds that none of a VI's messages can start, and goes on to the next VI.
    #[cold]
    fn pass_over_line(&mut self, host: u32, process: u32, place: u32) {
        connection!(self, process, place).has_turn = false;
        self.engines[host as usize].is_fetching = false;
        self.serve(host);
    }

    /// The sending engine finds that the connection of a message broke, and goes on to the next.
    #[cold]
    fn pass_over(&mut self, host: u32, process: u32, place: u32, id: MessageId) {
        let connection = connection!(self, process, place);
        connection.has_turn = false;
        let engines = &mut self.engines[host as usize];
        engines.is_fetching = false;
        engines.queued -= 1;
        self.take_turn(host, process, place);
        self.end_unsent(id);
        self.serve(host);
    }

    /// The sending engine has done its work on a message: the data moves, or waits for that of the
    /// VI's message before it.
    pub(crate) fn handle_fetched(&mut self, id: MessageId) {
        let now = self.queue.now();
        let message = self.messages.get_mut(id);
        let (process, place) = (message.source, message.connection);
        let plan = self.plans.get(message.plan);
        let is_held = plan.mover == Mover::HeldEngine;
        let is_of_program = message.is_of::<P>();
        let host = self.host_of_sender(process, is_of_program);
        let most = self.moving_at_once(host, is_of_program);
        let connection = connection!(self, process, place);
        connection.has_turn = false;
        // One that needs no fetching stays behind those that do.
        if plan.fetch > Time::ZERO || connection.last_begin > now {
            let begins = connection.last_begin.max(now + plan.fetch);
            connection.last_begin = begins;
            self.messages.get_mut(id).spend(Stage::Descriptor, begins);
            self.at(begins, Event::Begins(id));
        } else if connection.may_move(most) {
            self.begin_transfer(id);
        } else {
            self.move_behind(id);
        }
        if !is_held {
            self.engines[host as usize].is_fetching = false;
            self.take_turn(host, process, place);
            self.serve(host);
        }
    }

    /// Schedules an event that no lane is for, or handles it at once if it is due.
    #[inline]
    fn at(&mut self, time: Time, event: Event<P::Event>) {
        if time > self.queue.now() {
            self.queue.schedule(time, event);
        } else if let Event::Begins(id) = event {
            self.move_in_order(id);
        } else {
            self.handle(event);
        }
    }

    /// A message's data moves when that before it has gone.
    pub(crate) fn move_in_order(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let (process, place) = (message.source, message.connection);
        let is_of_program = message.is_of::<P>();
        let host = self.host_of_sender(process, is_of_program);
        let most = self.moving_at_once(host, is_of_program);
        let connection = connection!(self, process, place);
        if connection.may_move(most) {
            self.begin_transfer(id);
        } else {
            self.move_behind(id);
        }
    }

    /// How many messages of one VI may move at once.
    #[inline(always)]
    fn moving_at_once(&self, host: u32, is_of_program: bool) -> u32 {
        if is_of_program {
            return 1;
        }
        self.hardware.of(host).moving_per_vi
    }

    /// The host of whoever has posted a message: a process, or a program the host itself.
    #[inline(always)]
    fn host_of_sender(&self, sender: u32, is_of_program: bool) -> u32 {
        if is_of_program {
            return sender;
        }
        self.host_of(sender)
    }

    /// A message waits until data of its VI that moves now has gone.
    fn move_behind(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let (process, place) = (message.source, message.connection);
        let connection = connection!(self, process, place);
        self.messages.line_up_to_move(connection, id);
    }

    /// A held engine takes its next message.
    pub(crate) fn handle_engine_free(&mut self, host: u32) {
        self.engines[host as usize].is_fetching = false;
        self.serve(host);
    }

    pub(crate) fn begin_transfer(&mut self, id: MessageId) {
        let now = self.queue.now();
        let message = self.messages.get_mut(id);
        message.spend(Stage::SendQueue, now);
        let (source, target, bytes) = (message.source, message.target, message.bytes);
        let (target_vi, plan) = (message.target_vi, message.plan);
        let is_send = message.operation == MessageOperation::Send;
        let is_of_program = message.is_of::<P>();
        self.follow_plan(id);
        let demand = self.plans.get(plan).demand(id.0);
        if is_of_program {
            return self.begin_of_program(id, demand);
        }
        let mut transfer = self.config.transfer(source, target, demand);
        self.look_at_vi(target, target_vi);
        if self.failures.is_some() && self.may_fail_on_its_way(id, &mut transfer) {
            return;
        }
        let begun = self.network.begin(&mut self.queue, &transfer);
        self.look_at_receive(target, target_vi);
        let floor = match self.known_floor(bytes, begun.alone) {
            _ if !is_send => self.floor_of_remote(id, begun.alone),
            Some(floor) => floor,
            None => self.another_floor(bytes, begun.alone, *self.plans.get(plan), transfer.ends),
        };
        self.messages.get_mut(id).floor = floor;
        self.note_begun(id, &begun);
    }

    /// As [`Cluster::begin_transfer`]: of a program's message the network keeps the order on its
    /// VI, and it may move for the second time.
    #[inline]
    fn begin_of_program(&mut self, id: MessageId, mut demand: FlowDemand) {
        let message = self.messages.get_mut(id);
        message.tail_arrives = Time::MAX;
        message.receive_delay = None;
        message.idle_at_head = Time::ZERO;
        let message = self.messages.get(id);
        let (ends, flow) = self.ends_of(message);
        let landing = match message.operation {
            // Packets of queue pairs are put in order at their ends.
            _ if self.is_of_pair(id) => Landing::Apart,
            MessageOperation::Read => Landing::Apart,
            // Nobody hears of it.
            MessageOperation::Write => Landing::Awaited,
            MessageOperation::Send | MessageOperation::WriteWithImmediate => Landing::InOrder,
        };
        if self.failures.is_some()
            && let Some(part_bytes) = self.draw_fate(id)
        {
            demand.wire_bytes = part_bytes;
        }
        let transfer = Transfer {
            ends,
            flow,
            class: class::OF_PROGRAMS,
            is_ordered: true,
            landing,
            demand,
        };
        let begun = self.network.begin(&mut self.queue, &transfer);
        if self.has_account() {
            self.bound_below(id, begun.alone);
        }
        self.note_begun(id, &begun);
        if self.is_of_pair(id) {
            let delay = self.messages.get(id).head_delay;
            let head = begun.has_head.then(|| self.queue.now() + delay);
            self.expect_at_pair(id, head);
        }
    }

    /// The whole latency of a message like the last one.
    #[inline]
    pub(crate) fn known_floor(&self, bytes: u32, alone: Alone) -> Option<Time> {
        let last = self.last_priced.as_ref()?;
        let is_like = self.are_plans_alike && last.bytes == bytes && last.alone == alone;
        is_like.then_some(last.floor)
    }

    #[inline(never)]
    pub(crate) fn another_floor(
        &mut self,
        bytes: u32,
        alone: Alone,
        plan: Plan,
        hosts: (u32, u32),
    ) -> Time {
        let notice = self.hardware.of(hosts.1).notice.alone();
        let floor = floor_of(self.config.pair(hosts), &plan, alone, Leg::Taken(notice));
        self.last_priced = Some(Priced {
            bytes,
            demand: plan.demand(0),
            alone,
            floor,
        });
        floor
    }

    /// A message has begun to move, over its whole way or the next hop of it.
    pub(crate) fn note_begun(&mut self, id: MessageId, begun: &Begun) {
        let message = self.messages.get_mut(id);
        message.unshared = begun.unshared;
        message.head_delay = begun.delay;
        message.journey = begun.journey;
        if self.failures.is_some() {
            self.note_crossing(id, begun.journey);
        }
        let message = self.messages.get_mut(id);
        // The head meets the receiving NIC while the message moves, unless it is stored there.
        if begun.has_head {
            message.head_delay += self.plans.get(message.plan).adapters;
            let head = self.queue.now() + message.head_delay;
            self.after(self.lanes.head, head, Event::HeadArrives(id));
        }
    }

    /// A message that was stored on its way goes on.
    pub(crate) fn handle_forwarded(&mut self, id: MessageId) {
        let now = self.queue.now();
        let message = self.messages.get_mut(id);
        message.spend(Stage::Network, now);
        if let Some(begun) = self.network.forward(&mut self.queue, message.journey) {
            self.note_begun(id, &begun);
        }
    }

    /// What was stored on its way, and waited for one of its flow or is no message, goes on.
    pub(crate) fn go_on(&mut self, journey: JourneyId) {
        let now = self.queue.now();
        let Some(begun) = self.network.forward(&mut self.queue, journey) else {
            return;
        };
        if begun.tag == Self::BACKGROUND_TAG {
            return;
        }
        if P::EXIST && begun.tag & OF_PROGRAM != 0 {
            return P::went_on(self, begun.tag & !OF_PROGRAM, &begun);
        }
        let id = MessageId(begun.tag);
        self.messages.get_mut(id).spend(Stage::Network, now);
        self.note_begun(id, &begun);
    }

    /// A message has moved all its bytes over its path, or over its present hop.
    pub(crate) fn handle_flow_end(&mut self, id: MessageId, moved: Moved) {
        let now = self.queue.now();
        if let Some(loss) = moved.loss {
            self.note_queue_loss(id, &moved, loss);
        }
        match moved.next {
            Next::Onward => return self.leave_sender(id, &moved),
            Next::Head(begun) => return self.expect_head(id, begun),
            Next::There | Next::AtSwitch(..) | Next::AtAdapter(..) => {}
        }
        let message = self.messages.get_mut(id);
        let begun = message.mark;
        let unshared = begun + message.unshared;
        message.spend(Stage::Transfer, unshared.min(moved.at));
        message.spend(Stage::Queued, moved.at);
        let is_there = moved.next == Next::There;
        if is_there {
            message.tail_arrives = moved.at + message.head_delay;
            message.journey = JourneyId::NONE;
        }
        let span = Span {
            begin: begun,
            end: moved.at,
        };
        self.follow_move(id, moved.places.clone(), span);
        if moved.is_gone {
            self.follow_leaving(id, moved.at);
        }
        let mut is_held = false;
        if self.failures.is_some() {
            let ends_there = if self.messages.get(id).is_of::<P>() || self.is_repeatable(id) {
                is_held = self.decide_fate(id, &moved);
                self.ends_on_its_way(id, &moved)
            } else {
                self.ends_there(id, &moved)
            };
            if ends_there {
                if moved.is_gone {
                    self.finish_sending(id, is_held);
                }
                return;
            }
        }
        if is_there && moved.is_gone {
            self.finish_sending(id, is_held);
            self.schedule_tail(id);
            return;
        }
        match moved.next {
            Next::There | Next::Onward | Next::Head(_) => self.schedule_tail(id),
            // Its descriptor decides what follows.
            Next::AtAdapter(_, after) => {
                self.after(self.lanes.head, now + after, Event::HeadArrives(id));
            }
            Next::AtSwitch(_, after) => {
                self.after(self.lanes.fetched, now + after, Event::Forwarded(id));
            }
        }
        if moved.is_gone {
            self.finish_sending(id, is_held);
        }
    }

    /// A message's last byte has left its sender, and the message moves on.
    fn leave_sender(&mut self, id: MessageId, moved: &Moved) {
        let may_hold = self.failures.is_some() && self.messages.get(id).is_of::<P>();
        let is_held = may_hold && self.decide_fate(id, moved);
        self.finish_sending(id, is_held);
    }

    /// A message's head, which had to wait on its way, meets the receiving NIC as it would if the
    /// message had begun to move at some time and had not waited.
    fn expect_head(&mut self, id: MessageId, begun: Time) {
        let message = self.messages.get_mut(id);
        message.head_delay += self.plans.get(message.plan).adapters;
        let head = begun + message.head_delay;
        self.after(self.lanes.head, head, Event::HeadArrives(id));
    }

    /// Places of the way that the network was given, by their numbers among all buses and links
    /// between two hosts: data that has crossed the buses before takes another way.
    pub(crate) fn places_of(&self, id: MessageId, places: Range<usize>) -> Range<usize> {
        let has_crossed = |plan| !self.plans.get(plan).scale.is_finite();
        let message = self.messages.get(id);
        if !self.network.has_buses() || !has_crossed(message.plan) {
            return places;
        }
        let flow = self.ends_of(message);
        let before = usize::from(!self.config.host.of(flow.0.0).bus.is_free());
        if self.network.is_cut_through() {
            return before..before + self.config.links_of(flow).len();
        }
        places.start + before..places.end + before
    }

    /// The sending NIC and the sender's buffer are free; not the VI, if it is held.
    fn finish_sending(&mut self, id: MessageId, is_held: bool) {
        let now = self.queue.now();
        let message = self.messages.get(id);
        // The answer of a read leaves an adapter that was not asked by its host.
        if message.is_answer {
            return;
        }
        let (process, place) = (message.source, message.connection);
        let plan = self.plans.get(message.plan);
        let (mut sent, mover, interrupt) = (now + plan.sent, plan.mover, plan.sent_interrupt);
        let is_of_program = message.is_of::<P>();
        let host = self.host_of_sender(process, is_of_program);
        if !is_of_program && self.failures.is_some() && self.leaves_again(id) {
            // Its sender was told the first time.
            if !is_held {
                self.move_next(process, place);
            }
            return;
        }
        let message = self.messages.get(id);
        let is_read = message.operation == MessageOperation::Read;
        if !is_of_program
            && !is_read
            && let Some(work) = message.send_work
        {
            let nic = &mut self.nics[host as usize];
            nic.finish_send(message.source_vi, work, SendOutcome::Sent);
        }
        let is_awaited = message.is_awaited || is_of_program;
        if !is_awaited {
            self.follow_buffer(id);
        }
        if mover == Mover::HeldEngine {
            let processor = self.source_processor(host, id);
            let (start, end) = self.processors[processor].work(now, interrupt);
            sent = end;
            self.follow_processor(host, id, Work::Post, start, sent);
            let read = self.messages.get(id).engine_done;
            self.follow_engine(host, id, read, sent);
        }
        if !is_awaited {
            self.send_again(process, id, sent);
        }
        let connection = connection!(self, process, place);
        connection.held -= u32::from(mover == Mover::HeldEngine);
        if !is_held {
            self.move_next(process, place);
        }
        if mover == Mover::HeldEngine {
            self.at(sent, Event::EngineFree(host));
        }
        if is_of_program {
            self.at(sent, Event::Sent(id));
        } else if !is_awaited {
            self.free_buffer(host);
        }
    }

    /// A VI's data has left, and that of its next message moves.
    #[inline]
    pub(crate) fn move_next(&mut self, process: u32, place: u32) {
        let connection = connection!(self, process, place);
        let fetched = connection.first_fetched;
        if fetched == MessageId::NONE {
            connection.moving -= 1;
        } else {
            connection.first_fetched = self.messages.get(fetched).next_on_vi;
            self.begin_transfer(fetched);
            let host = self.host_of_sender(process, P::EXIST && place & OF_PROGRAM != 0);
            self.take_turn(host, process, place);
            self.serve(host);
        }
    }

    /// A process that keeps a window full, or carries out an application, learns that one of its
    /// sends, which the adapter completes at `sent`, is complete.
    pub(crate) fn send_again(&mut self, process: u32, id: MessageId, sent: Time) {
        if matches!(self.config.traffic.arrivals, Arrivals::Window(_)) {
            let process = self.home_port(process);
            self.processes[process as usize].outstanding -= 1;
            let told = sent + self.notice_alone(process);
            self.queue.schedule(told, Event::SendReaped(process));
        } else if self.operations.is_some() {
            let told = sent + self.notice_alone(process);
            self.note_left(self.messages.get(id).number, told);
        }
    }

    /// How long a process that waits takes to hear of what is complete.
    fn notice_alone(&self, process: u32) -> Time {
        self.hardware.of(self.host_of(process)).notice.alone()
    }

    /// A send buffer is free: for the post that waits for one, if any.
    pub(crate) fn free_buffer(&mut self, host: u32) {
        let first = self.numbering.first_place(host);
        let buffers = &mut self.buffers[first as usize];
        buffers.free += 1;
        if let Some(wish) = buffers.unblock() {
            self.post_wish(wish);
        }
    }
}
