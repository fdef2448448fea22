//! The sending side: from the application's wish to the last byte on the first link.

use core::ops::Range;

use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkId};
use viaduct_via::{Descriptor, Segments, SendOutcome};

use crate::cluster::Cluster;
use crate::config::Arrivals;
use crate::event::Event;
use crate::host::{BlockedPost, Drawn, Turn};
use crate::message::{Ends, MessageId};
use crate::path::{Way, demand};
use crate::why::Work;
use viaduct_hardware::Stage;
use viaduct_hardware::mechanism::{self, Mover, Plan, PlanId, Request};
use viaduct_network::delay::moving_time;
use viaduct_network::fluid::{FlowDemand, ResourceId};

impl Cluster<'_> {
    /// The tag of flows that belong to no message.
    pub(crate) const DEVICE_TAG: u32 = u32::MAX;

    /// A process's own time to send has come.
    pub(crate) fn handle_arrival(&mut self, process: u32) {
        let now = self.queue.now();
        if now >= self.config.traffic.stop {
            return;
        }
        let arrivals = &self.config.traffic.arrivals;
        if !matches!(arrivals, Arrivals::Open(_) | Arrivals::Listed(_)) {
            self.post_next(process);
            return;
        }
        let state = &self.processes[process as usize];
        state.connections.prefetch();
        if let Some(Drawn { target, bytes }) = state.next {
            self.want_to_post(process, target, bytes);
        }
        self.schedule_arrival(process, now);
    }

    /// Schedules the next message of a process that sends of its own accord.
    ///
    /// It is drawn now, so that what it reads can be asked for before its time has come.
    pub(crate) fn schedule_arrival(&mut self, process: u32, from: Time) {
        let Arrivals::Open(interval) = &self.config.traffic.arrivals else {
            self.schedule_listed(process);
            return;
        };
        let next = from + interval.sample(&mut self.processes[process as usize].stream);
        if next < self.config.traffic.stop {
            self.queue.schedule(next, Event::Arrival(process));
            self.processes[process as usize].next = self.draw(process);
        }
    }

    /// Schedules the next message of a process that sends a list.
    #[cold]
    fn schedule_listed(&mut self, process: u32) {
        let traffic = &self.config.traffic;
        let Arrivals::Listed(list) = &traffic.arrivals else {
            return;
        };
        let state = &mut self.processes[process as usize];
        // The place in the list is the process's turn.
        let Some((time, target, bytes)) = list.of_process(process, state.turn) else {
            return;
        };
        let next = traffic.start.saturating_add(time);
        if next < traffic.stop {
            state.turn += 1;
            state.next = Some(Drawn { target, bytes });
            self.queue.schedule(next, Event::Arrival(process));
        }
    }

    /// Draws a target and a size; none if the process never sends.
    fn draw(&mut self, process: u32) -> Option<Drawn> {
        let per_host = self.config.hosts.processes;
        let source_host = self.host_of(process);
        let state = &mut self.processes[process as usize];
        let HostId(target_host) =
            self.targets
                .next_target(HostId(source_host), &mut state.turn, &mut state.stream)?;
        let bytes = self.config.traffic.size.sample(&mut state.stream);
        let target = match per_host {
            1 => target_host,
            _ => target_host * per_host + process % per_host,
        };
        Some(Drawn { target, bytes })
    }

    /// Draws a message and posts it.
    fn post_next(&mut self, process: u32) -> bool {
        let Some(Drawn { target, bytes }) = self.draw(process) else {
            return false;
        };
        self.want_to_post(process, target, bytes);
        true
    }

    /// Keeps a window full.
    pub(crate) fn post_window(&mut self, process: u32) {
        let Arrivals::Window(window) = self.config.traffic.arrivals else {
            return;
        };
        let now = self.queue.now();
        if now >= self.config.traffic.stop || now > self.config.run.until {
            return;
        }
        while self.processes[process as usize].outstanding < window {
            self.processes[process as usize].outstanding += 1;
            if !self.post_next(process) {
                return;
            }
        }
    }

    /// Posts a message, or queues the wish until a buffer is free.
    pub(crate) fn want_to_post(&mut self, process: u32, target: u32, bytes: u32) {
        let wanted = self.queue.now();
        let host = self.host_of(process);
        let wish = BlockedPost {
            number: self.accounting.counts.posted,
            process,
            target,
            bytes,
            wanted,
        };
        self.accounting.posted();
        self.follow_wish(&wish);
        let state = &mut self.hosts[host as usize];
        if state.send_buffers_free == 0 {
            state.blocked.push_back(wish);
            let depth = state.blocked.len() as u64;
            if depth > self.blocked_depth_max.0 {
                self.blocked_depth_max = (depth, host);
            }
            return;
        }
        self.post(wish);
    }

    fn post(&mut self, wish: BlockedPost) {
        if self.is_direct {
            self.post_directly(&wish);
            return;
        }
        let process = wish.process;
        let now = self.queue.now();
        let host = self.host_of(process);
        let processor = self.config.host.processor;
        let Some(ends) = self.ends(&wish) else {
            return;
        };
        self.look_at_process(wish.target);
        self.look_at_vi(process, ends.source_vi);
        let state = &mut self.hosts[host as usize];
        state.send_buffers_free -= 1;
        let begin = state.work(now, processor.post);
        // The application polls its send queue when it has posted.
        let nic = &mut self.nics[host as usize];
        let mut reaping = Time::ZERO;
        while nic.send_done(ends.source_vi).completion().is_some() {
            reaping += processor.reap;
        }
        self.post_descriptor(host, ends, &wish);
        let id = self.messages.post(&wish, ends);
        let message = self.messages.get_mut(id);
        message.spend(Stage::Buffer, now);
        message.spend(Stage::SenderProcessor, begin);
        message.spend(Stage::Post, begin + processor.post);
        if let Some(doorbell) = self.doorbell {
            if self.adapters.is_empty() {
                self.plan(host, id);
                self.work_before(host, id);
            }
            self.hosts[host as usize].processor_free += reaping;
            self.follow_post(host, id, begin);
            let write = self.short_transaction(host, doorbell.bus, 0);
            let message = self.messages.get_mut(id);
            message.engine_from = message.mark + write + doorbell.own;
            message.spend(Stage::Doorbell, message.engine_from);
            self.ring(host, process, ends.place, id);
        } else {
            self.start(host, id);
            self.work_before(host, id);
            self.start_by_processor(host, id);
            self.hosts[host as usize].processor_free += reaping;
            self.follow_post(host, id, begin);
        }
    }

    /// The processor has done all that a post asks of it.
    #[inline]
    fn follow_post(&mut self, host: u32, id: MessageId, begin: Time) {
        let worked = self.hosts[host as usize].processor_free;
        self.follow_processor(host, id, Work::Post, begin, worked);
    }

    /// What the processor does of a message's way before the adapter does anything.
    #[inline]
    fn work_before(&mut self, host: u32, id: MessageId) {
        let message = self.messages.get_mut(id);
        let software = self.plans.get(message.plan).processor;
        if software > Time::ZERO {
            let start = self.hosts[host as usize].work(message.mark, software);
            message.spend(Stage::Software, start + software);
        }
    }

    /// The NIC begins with the oldest send descriptor of a message's VI, which is the message's.
    #[inline]
    fn start(&mut self, host: u32, id: MessageId) {
        let message = self.messages.get_mut(id);
        match self.nics[host as usize].start_send(message.source_vi) {
            Some(started) => {
                message.send_work = Some(started.work);
                message.header = Some(started.header);
            }
            None => self
                .violations
                .push(format!("host {host}: a posted send did not start")),
        }
        if message.plan == PlanId::NONE {
            self.plan(host, id);
        }
    }

    /// A host's adapter plans how it carries a message. What it remembers of others counts when it
    /// begins with the message; where it remembers nothing, any time before will do.
    #[inline]
    fn plan(&mut self, host: u32, id: MessageId) {
        let message = self.messages.get_mut(id);
        match self.known_plan {
            // The plan that was made last is held by whoever keeps plans.
            Some((bytes, plan)) if bytes == message.bytes => {
                message.plan = plan;
                self.plans.hold(plan);
            }
            _ => self.another_plan(host, id),
        }
    }

    #[inline(never)]
    fn another_plan(&mut self, host: u32, id: MessageId) {
        let message = self.messages.get(id);
        let connections = &self.processes[message.source as usize].connections;
        let place_in_batch = self.hosts[host as usize].in_batch;
        let request = Request {
            bytes: message.bytes,
            segments: 1,
            place_in_batch,
            target: (
                self.host_of(message.target),
                message.target_vi.index().into(),
            ),
            is_behind: connections.get(message.connection).held > 0,
        };
        self.hosts[host as usize].in_batch = place_in_batch.wrapping_add(1);
        let model = &self.config.host;
        let (hardware, link) = ((&model.mechanism, &model.bus), self.config.host_link());
        // Adapters that remember nothing have no state.
        let none = &mut mechanism::State::Plain;
        let state = self.adapters.get_mut(host as usize).unwrap_or(none);
        state.plan(hardware, link, &request, &mut self.last_plan);
        let plan = self.plans.hold_last(&mut self.last_plan);
        let message = self.messages.get_mut(id);
        message.plan = plan;
        if self.adapters.is_empty() {
            self.known_plan = Some((message.bytes, plan));
        }
    }

    /// Without a doorbell the processor starts a message: it writes the bytes, or asks the engine
    /// to move them.
    fn start_by_processor(&mut self, host: u32, id: MessageId) {
        let message = self.messages.get_mut(id);
        let plan = self.plans.get(message.plan);
        let begins = message.mark;
        match plan.mover {
            Mover::Processor(writing) => {
                self.hosts[host as usize].work(begins, writing);
                self.at(begins, Event::Begins(id));
            }
            Mover::Engine | Mover::HeldEngine => {
                let is_held = plan.mover == Mover::HeldEngine;
                // The request is there when the processor has written it; more may follow.
                message.engine_from = begins;
                let state = &mut self.hosts[host as usize];
                state.work(begins, plan.beside);
                state.turns.push_back(Turn::Message(id));
                let (process, place) = (message.source, message.connection);
                let connection = self.processes[process as usize].connections.at(place);
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
    fn ring(&mut self, host: u32, process: u32, place: u32, id: MessageId) {
        let connection = self.processes[process as usize].connections.at(place);
        if connection.first_waiting == MessageId::NONE {
            connection.first_waiting = id;
        } else {
            self.messages.get_mut(connection.last_waiting).next_on_vi = id;
        }
        connection.last_waiting = id;
        self.queue_at_adapter(host);
        self.take_turn(host, process, place);
        self.serve(host);
    }

    /// One more message waits for a host's sending engine.
    fn queue_at_adapter(&mut self, host: u32) {
        let state = &mut self.hosts[host as usize];
        state.queued += 1;
        if u64::from(state.queued) > self.queue_depth_max.0 {
            self.queue_depth_max = (u64::from(state.queued), host);
        }
    }

    /// A VI joins the turns if it has a descriptor to read, and none that was read and waits where
    /// the adapter does not read ahead.
    fn take_turn(&mut self, host: u32, process: u32, place: u32) {
        let connection = self.processes[process as usize].connections.at(place);
        let has_work = connection.first_waiting != MessageId::NONE;
        let may_read = connection.first_fetched == MessageId::NONE || self.reads_ahead;
        if has_work && !connection.has_turn && may_read {
            connection.has_turn = true;
            let turn = Turn::Connection { process, place };
            self.hosts[host as usize].turns.push_back(turn);
        }
    }

    /// The sending engine takes the next message: send queues in turn, each in order.
    fn serve(&mut self, host: u32) {
        let state = &mut self.hosts[host as usize];
        if state.is_fetching {
            return;
        }
        let Some(turn) = state.turns.pop_front() else {
            state.in_batch = 0;
            return;
        };
        state.is_fetching = true;
        state.queued -= 1;
        let now = self.queue.now();
        let id = match turn {
            Turn::Message(id) => id,
            Turn::Connection { process, place } => {
                let connection = self.processes[process as usize].connections.at(place);
                let id = connection.first_waiting;
                connection.first_waiting = self.messages.get(id).next_on_vi;
                self.start(host, id);
                id
            }
        };
        let message = self.messages.get(id);
        let mut begin = message.engine_from.max(now);
        let plan = self.plans.get(message.plan);
        let (service, is_one_engine) = (plan.service, plan.is_one_engine);
        let read = self.short_transaction(host, service.bus, 0);
        let state = &mut self.hosts[host as usize];
        if is_one_engine {
            begin = begin.max(state.receive_free);
            state.receive_free = begin + read + service.own;
        }
        let message = self.messages.get_mut(id);
        message.spend(Stage::SendQueue, begin);
        let ready = begin + read + service.own;
        message.spend(Stage::Descriptor, ready);
        message.engine_done = ready;
        self.follow_descriptor(host, id, begin, ready);
        self.after(self.lanes.fetched, ready, Event::Fetched(id));
    }

    /// The sending engine has done its work on a message: the data moves, or waits for that of the
    /// VI's message before it.
    pub(crate) fn handle_fetched(&mut self, id: MessageId) {
        let now = self.queue.now();
        let message = self.messages.get_mut(id);
        let (process, place) = (message.source, message.connection);
        let plan = self.plans.get(message.plan);
        let is_held = plan.mover == Mover::HeldEngine;
        let host = self.host_of(process);
        let connection = self.processes[process as usize].connections.at(place);
        connection.has_turn = false;
        let mut begins = now;
        if plan.fetch > Time::ZERO {
            begins = connection.last_begin.max(now + plan.fetch);
            connection.last_begin = begins;
            self.messages.get_mut(id).spend(Stage::Descriptor, begins);
        }
        self.at(begins, Event::Begins(id));
        if !is_held {
            self.hosts[host as usize].is_fetching = false;
            self.take_turn(host, process, place);
            self.serve(host);
        }
    }

    /// Schedules an event that no lane is for, or handles it at once if it is due.
    #[inline]
    fn at(&mut self, time: Time, event: Event) {
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
        let connection = self.processes[process as usize].connections.at(place);
        if connection.moving < self.moving_per_vi {
            connection.moving += 1;
            self.begin_transfer(id);
            return;
        }
        let last = core::mem::replace(&mut connection.last_fetched, id);
        if connection.first_fetched == MessageId::NONE {
            connection.first_fetched = id;
        } else {
            self.messages.get_mut(last).next_on_vi = id;
        }
        self.messages.get_mut(id).next_on_vi = MessageId::NONE;
    }

    /// A held engine takes its next message.
    pub(crate) fn handle_engine_free(&mut self, host: u32) {
        self.hosts[host as usize].is_fetching = false;
        self.serve(host);
    }

    fn begin_transfer(&mut self, id: MessageId) {
        let now = self.queue.now();
        let message = self.messages.get_mut(id);
        message.spend(Stage::SendQueue, now);
        let (source, target, bytes) = (message.source, message.target, message.bytes);
        let plan = message.plan;
        self.follow_plan(id);
        self.lay_path(source, target);
        let way = self.way(bytes, plan);
        self.messages.get_mut(id).floor = way.floor;
        if self.is_all_cut_through {
            self.begin_whole(id, &way);
        } else {
            self.stored_paths.insert(id.0, self.path_scratch.clone());
            self.begin_hop(id);
        }
    }

    /// Puts the buses and links between two processes into `path_scratch`.
    pub(crate) fn lay_path(&mut self, source: u32, target: u32) {
        let buses = (self.has_buses)
            .then(|| [source, target].map(|process| self.bus_of(self.host_of(process))));
        let path = &mut self.path_scratch;
        path.clear();
        path.extend(buses.map(|[bus, _]| bus));
        self.config.route(source, target, path);
        path.extend(buses.map(|[_, bus]| bus));
    }

    /// What a message of this plan costs on the links of `path_scratch`, nobody else there.
    #[inline]
    fn way(&mut self, bytes: u32, plan: PlanId) -> Way {
        self.known_way(bytes)
            .unwrap_or_else(|| self.another_way(bytes, *self.plans.get(plan)))
    }

    /// The same of a message of which no plan was made: its adapter costs nothing.
    #[inline]
    pub(crate) fn way_alone(&mut self, bytes: u32) -> Way {
        self.known_way(bytes).unwrap_or_else(|| {
            let plan = self.costs.plan_alone(self.config, bytes);
            self.another_way(bytes, plan)
        })
    }

    /// The last way, if this is one like it: where all links are alike, paths of one length are
    /// too, and most messages repeat.
    #[inline]
    fn known_way(&self, bytes: u32) -> Option<Way> {
        let links = self.path_scratch.len() - 2 * usize::from(self.has_buses);
        let is_like = |way: &Way| self.are_ways_alike && way.links == links && way.bytes == bytes;
        self.last_way.filter(is_like)
    }

    fn another_way(&mut self, bytes: u32, plan: Plan) -> Way {
        let links = links_of(&self.path_scratch, self.first_bus);
        self.link_scratch.clear();
        self.link_scratch.extend(links);
        let way = self
            .costs
            .way(self.config, &self.link_scratch, (bytes, &plan));
        self.last_way = Some(way);
        way
    }

    /// Cut-through: the message crosses everything at once.
    fn begin_whole(&mut self, id: MessageId, way: &Way) {
        let message = self.messages.get_mut(id);
        message.head_delay = way.head_delay;
        message.unshared = way.unshared;
        let (target, target_vi) = (message.target, message.target_vi);
        let head = self.queue.now() + way.head_delay;
        let demand = FlowDemand {
            tag: id.0,
            ..way.demand
        };
        self.look_at_vi(target, target_vi);
        let len = self.path_scratch.len();
        let path = &self.path_scratch[self.crossed(demand.scale, 0..len, len)];
        self.fluid.begin(&mut self.queue, path, demand);
        self.look_at_receive(target, target_vi);
        self.after(self.lanes.head, head, Event::HeadArrives(id));
    }

    /// All places of its path that a message's bytes cross, for those who follow it: see
    /// [`places_within`](crate::trace::places_within).
    pub(crate) fn whole_way(&self, id: MessageId) -> Range<usize> {
        let has_crossed = |plan| self.has_buses && !self.plans.get(plan).scale.is_finite();
        match self.messages.get(id).plan {
            PlanId::NONE => 0..usize::MAX,
            plan => usize::from(has_crossed(plan))..usize::MAX,
        }
    }

    /// The places that the bytes cross of those in question of a path of so many: all of them, but
    /// for the buses where the data was over them before it moved.
    #[inline]
    pub(crate) fn crossed(&self, scale: f64, places: Range<usize>, len: usize) -> Range<usize> {
        let places = places.start..places.end.min(len);
        if !self.has_buses || scale.is_finite() {
            return places;
        }
        let links = places.start.max(1)..places.end.min(len - 1);
        if links.is_empty() { places } else { links }
    }

    fn unshared(&self, path: &[ResourceId], demand: FlowDemand) -> Time {
        let slowest = path
            .iter()
            .map(|&resource| {
                let rate = self.fluid.rate(resource);
                if resource.0 >= self.first_bus {
                    rate * demand.scale
                } else {
                    rate
                }
            })
            .fold(demand.rate_max, f64::min);
        moving_time(demand.wire_bytes, slowest)
    }

    /// Stored and forwarded: the message begins its next hop.
    pub(crate) fn begin_hop(&mut self, id: MessageId) {
        let Some(path) = self.stored_paths.remove(&id.0) else {
            return;
        };
        let now = self.queue.now();
        let message = self.messages.get_mut(id);
        message.spend(Stage::Network, now);
        let plan = message.plan;
        let hop = self
            .costs
            .hop(self.config, message.hops_done as usize, path.len());
        let places = &path[hop.places.clone()];
        let buses = usize::from(self.has_buses);
        let last_link = path.len() - buses - 1;
        let touches_nic = hop.places.start <= buses || hop.places.end > last_link;
        let plan = self.plans.get(plan);
        let adapters = plan.adapters;
        let mut demand = demand(plan, id.0);
        if !touches_nic {
            demand.rate_max = f64::INFINITY;
        }
        self.link_scratch.clear();
        self.link_scratch.extend(links_of(places, self.first_bus));
        let mut delay = self
            .costs
            .head_delay(self.config, &self.link_scratch, demand.wire_bytes);
        let ends_at_switch = hop.places.end <= last_link && hop.places.end > buses;
        if ends_at_switch {
            delay += self.config.switch.delay;
        }
        if hop.is_last {
            delay += adapters;
        }
        let unshared = self.unshared(places, demand);
        let message = self.messages.get_mut(id);
        message.unshared = unshared;
        message.head_delay = delay;
        let crossed = self.crossed(demand.scale, hop.places.clone(), path.len());
        self.fluid.begin(&mut self.queue, &path[crossed], demand);
        // The head meets the receiving NIC while the message moves, unless it is stored there.
        let reaches_memory = hop.is_last && hop.places.start <= last_link;
        self.stored_paths.insert(id.0, path);
        if reaches_memory {
            self.after(self.lanes.head, now + delay, Event::HeadArrives(id));
        }
    }

    /// A message has moved all its bytes over its path, or over its present hop.
    pub(crate) fn handle_flow_end(&mut self, id: MessageId) {
        let now = self.queue.now();
        let message = self.messages.get_mut(id);
        let begun = message.mark;
        let moved = begun + message.unshared;
        message.spend(Stage::Transfer, moved.min(now));
        message.spend(Stage::Queued, now);
        let head_delay = message.head_delay;
        if self.is_all_cut_through {
            message.tail_arrives = now + head_delay;
            self.follow_move(id, self.whole_way(id), begun);
            self.finish_sending(id);
            self.schedule_tail(id);
            return;
        }
        let from = message.hops_done as usize;
        let len = self.stored_paths.get(&id.0).map_or(0, Vec::len);
        let hop = self.costs.hop(self.config, from, len);
        message.hops_done = hop.places.end as u32;
        let scale = self.plans.get(message.plan).scale;
        let crossed = self.crossed(scale, hop.places.clone(), len);
        self.follow_move(id, crossed, begun);
        let message = self.messages.get_mut(id);
        let first_link = usize::from(self.has_buses);
        let last_link = len - first_link - 1;
        if hop.is_last {
            message.tail_arrives = now + head_delay;
            self.stored_paths.remove(&id.0);
            self.schedule_tail(id);
        } else if hop.places.end > last_link {
            // Stored in the receiving NIC: its descriptor decides what follows.
            self.after(self.lanes.head, now + head_delay, Event::HeadArrives(id));
        } else {
            self.after(self.lanes.fetched, now + head_delay, Event::Forwarded(id));
        }
        if hop.places.contains(&first_link) {
            self.finish_sending(id);
        }
    }

    /// The sending NIC and the sender's buffer are free.
    fn finish_sending(&mut self, id: MessageId) {
        let now = self.queue.now();
        let message = self.messages.get(id);
        let (process, place) = (message.source, message.connection);
        let plan = self.plans.get(message.plan);
        let (mut sent, mover, interrupt) = (now + plan.sent, plan.mover, plan.sent_interrupt);
        let host = self.host_of(process);
        if let Some(work) = message.send_work {
            self.nics[host as usize].finish_send(message.source_vi, work, SendOutcome::Sent);
        }
        self.follow_buffer(id);
        if mover == Mover::HeldEngine {
            let start = self.hosts[host as usize].work(now, interrupt);
            sent = start + interrupt;
            self.follow_processor(host, id, Work::Post, start, sent);
            let read = self.messages.get(id).engine_done;
            self.follow_engine(host, id, read, sent);
        }
        self.send_again(process, sent);
        let connection = self.processes[process as usize].connections.at(place);
        connection.held -= u32::from(mover == Mover::HeldEngine);
        let fetched = connection.first_fetched;
        if fetched == MessageId::NONE {
            connection.moving -= 1;
        } else {
            connection.first_fetched = self.messages.get(fetched).next_on_vi;
            self.begin_transfer(fetched);
            self.take_turn(host, process, place);
            self.serve(host);
        }
        if mover == Mover::HeldEngine {
            self.at(sent, Event::EngineFree(host));
        }
        self.free_buffer(host);
    }

    /// A process that keeps a window full learns that one of its sends, which the adapter completes
    /// at `sent`, is complete.
    pub(crate) fn send_again(&mut self, process: u32, sent: Time) {
        if matches!(self.config.traffic.arrivals, Arrivals::Window(_)) {
            self.processes[process as usize].outstanding -= 1;
            let told = sent + self.notice.alone();
            self.queue.schedule(told, Event::SendReaped(process));
        }
    }

    /// A send buffer is free: for the post that waits for one, if any.
    pub(crate) fn free_buffer(&mut self, host: u32) {
        self.hosts[host as usize].send_buffers_free += 1;
        if let Some(wish) = self.hosts[host as usize].blocked.pop_front() {
            self.post(wish);
        }
    }

    /// Another device on a host's bus begins a transfer.
    pub(crate) fn handle_device_transfer(&mut self, host: u32) {
        self.idle_events -= 1;
        let Some(load) = &self.config.hosts.bus_load else {
            return;
        };
        let now = self.queue.now();
        let stream = &mut self.device_streams[host as usize];
        let bytes = f64::from(load.size.sample(stream));
        let next = now + load.interval.sample(stream);
        let demand = FlowDemand {
            wire_bytes: bytes,
            scale: 1.0,
            rate_max: f64::INFINITY,
            tag: Self::DEVICE_TAG,
        };
        let bus = self.bus_of(host);
        let flow = self.fluid.begin(&mut self.queue, &[bus], demand);
        self.follow_device(flow, host, bytes as u64);
        if next <= self.config.run.until {
            self.queue.schedule(next, Event::DeviceTransfer(host));
            self.idle_events += 1;
        }
    }
}

/// The links among the buses and links of a path.
fn links_of(path: &[ResourceId], first_bus: u32) -> impl Iterator<Item = LinkId> {
    let links = path.iter().filter(move |resource| resource.0 < first_bus);
    links.map(|resource| LinkId(resource.0))
}
