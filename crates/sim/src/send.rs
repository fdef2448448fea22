//! The sending side: from the application's wish to the last byte on the first link.

use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkId};
use viaduct_via::{Descriptor, Segments, SendOutcome};

use crate::cluster::Cluster;
use crate::config::Arrivals;
use crate::event::Event;
use crate::host::{BlockedPost, Drawn, Turn};
use crate::message::{Ends, MessageId};
use crate::path::Way;
use crate::why::Work;
use viaduct_hardware::Notice;
use viaduct_hardware::Stage;
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
        let cpu = self.config.host.cpu;
        let Some(ends) = self.ends(&wish) else {
            return;
        };
        self.look_at_process(wish.target);
        self.look_at_vi(process, ends.source_vi);
        let state = &mut self.hosts[host as usize];
        state.send_buffers_free -= 1;
        let begin = state.work(now, cpu.post);
        // The application polls its send queue when it has posted.
        let nic = &mut self.nics[host as usize];
        while nic.send_done(ends.source_vi).completion().is_some() {
            state.processor_free += cpu.reap;
        }
        self.post_descriptor(host, ends, &wish);
        let doorbell = self.costs.doorbell();
        let write = self.short_transaction(host, doorbell.bus, 0);

        let id = self.messages.post(&wish, ends);
        let worked = self.hosts[host as usize].processor_free;
        self.follow_processor(host, id, Work::Post, begin, worked);
        let message = self.messages.get_mut(id);
        message.spend(Stage::Buffer, now);
        message.spend(Stage::SenderProcessor, begin);
        message.spend(Stage::Post, begin + cpu.post);
        message.doorbell = message.mark + write + doorbell.adapter;
        message.spend(Stage::Doorbell, message.doorbell);
        self.ring(host, process, ends.place, id);
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
        let state = &mut self.hosts[host as usize];
        state.queued += 1;
        if u64::from(state.queued) > self.queue_depth_max.0 {
            self.queue_depth_max = (u64::from(state.queued), host);
        }
        self.take_turn(host, process, place);
        self.serve(host);
    }

    /// A VI joins the turns if it has a descriptor to read and none that was read and waits.
    fn take_turn(&mut self, host: u32, process: u32, place: u32) {
        let connection = self.processes[process as usize].connections.at(place);
        let has_work = connection.first_waiting != MessageId::NONE;
        if has_work && !connection.has_turn && connection.fetched == MessageId::NONE {
            connection.has_turn = true;
            self.hosts[host as usize].turns.push_back(Turn {
                process,
                connection: place,
            });
        }
    }

    /// The descriptor stage takes the next message: send queues in turn, each in order.
    fn serve(&mut self, host: u32) {
        let state = &mut self.hosts[host as usize];
        if state.is_fetching {
            return;
        }
        let Some(turn) = state.turns.pop_front() else {
            return;
        };
        state.is_fetching = true;
        state.queued -= 1;
        let connection = self.processes[turn.process as usize]
            .connections
            .at(turn.connection);
        let id = connection.first_waiting;
        connection.first_waiting = self.messages.get(id).next_on_vi;
        match self.nics[host as usize].start_send(connection.vi) {
            Some(started) => {
                let message = self.messages.get_mut(id);
                message.send_work = Some(started.work);
                message.header = Some(started.header);
            }
            None => self
                .violations
                .push(format!("host {host}: a posted send did not start")),
        }
        let now = self.queue.now();
        let step = self.costs.send(self.messages.get(id).bytes);
        let read = self.short_transaction(host, step.bus, 0);
        let message = self.messages.get_mut(id);
        let begin = message.doorbell.max(now);
        message.spend(Stage::SendQueue, begin);
        let ready = begin + read + step.adapter;
        message.spend(Stage::Descriptor, ready);
        self.follow_descriptor(host, id, begin, ready);
        self.after(self.lanes.fetched, ready, Event::Fetched(id));
    }

    /// A descriptor is read and checked: its data moves, or waits for the VI's message before it.
    pub(crate) fn handle_fetched(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let (process, place) = (message.source, message.connection);
        let host = self.host_of(process);
        let connection = self.processes[process as usize].connections.at(place);
        connection.has_turn = false;
        if connection.moving < self.config.host.nic.moving_per_vi {
            connection.moving += 1;
            self.begin_transfer(id);
        } else {
            connection.fetched = id;
        }
        self.hosts[host as usize].is_fetching = false;
        self.take_turn(host, process, place);
        self.serve(host);
    }

    fn begin_transfer(&mut self, id: MessageId) {
        let now = self.queue.now();
        let message = self.messages.get_mut(id);
        message.spend(Stage::SendQueue, now);
        let (source, target, bytes) = (message.source, message.target, message.bytes);
        self.lay_path(source, target);
        let way = self.way(bytes);
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

    /// What the message costs on the links of `path_scratch`, nobody else there.
    #[inline]
    pub(crate) fn way(&mut self, bytes: u32) -> Way {
        // Where all links are alike, paths of one length are too, and most messages repeat.
        let links = self.path_scratch.len() - 2 * usize::from(self.has_buses);
        match self.last_way {
            Some(way) if self.are_links_alike && way.links == links && way.bytes == bytes => way,
            _ => self.another_way(bytes),
        }
    }

    fn another_way(&mut self, bytes: u32) -> Way {
        let links = links_of(&self.path_scratch, self.first_bus);
        self.link_scratch.clear();
        self.link_scratch.extend(links);
        let way = self.costs.way(self.config, &self.link_scratch, bytes);
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
        self.fluid
            .begin(&mut self.queue, &self.path_scratch, demand);
        self.look_at_receive(target, target_vi);
        self.after(self.lanes.head, head, Event::HeadArrives(id));
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
        let bytes = message.bytes;
        let hop = self
            .costs
            .hop(self.config, message.hops_done as usize, path.len());
        let places = &path[hop.places.clone()];
        let buses = usize::from(self.has_buses);
        let last_link = path.len() - buses - 1;
        let touches_nic = hop.places.start <= buses || hop.places.end > last_link;
        let mut demand = self.costs.demand(self.config, bytes, id.0);
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
        let unshared = self.unshared(places, demand);
        let message = self.messages.get_mut(id);
        message.unshared = unshared;
        message.head_delay = delay;
        self.fluid.begin(&mut self.queue, places, demand);
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
            self.follow_move(id, 0..usize::MAX, begun);
            self.finish_sending(id);
            self.schedule_tail(id);
            return;
        }
        let from = message.hops_done as usize;
        let len = self.stored_paths.get(&id.0).map_or(0, Vec::len);
        let hop = self.costs.hop(self.config, from, len);
        message.hops_done = hop.places.end as u32;
        self.follow_move(id, hop.places.clone(), begun);
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
        let message = self.messages.get(id);
        let (process, place) = (message.source, message.connection);
        let host = self.host_of(process);
        if let Some(work) = message.send_work {
            self.nics[host as usize].finish_send(message.source_vi, work, SendOutcome::Sent);
        }
        self.follow_buffer(id);
        self.send_again(process);
        let connection = self.processes[process as usize].connections.at(place);
        let fetched = core::mem::replace(&mut connection.fetched, MessageId::NONE);
        if fetched == MessageId::NONE {
            connection.moving -= 1;
        } else {
            self.begin_transfer(fetched);
            self.take_turn(host, process, place);
            self.serve(host);
        }
        self.free_buffer(host);
    }

    /// A process that keeps a window full learns that one of its sends is complete.
    pub(crate) fn send_again(&mut self, process: u32) {
        let now = self.queue.now();
        if matches!(self.config.traffic.arrivals, Arrivals::Window(_)) {
            self.processes[process as usize].outstanding -= 1;
            let model = &self.config.host;
            let seen = match model.cpu.notice {
                Notice::Polling { delay } => delay,
                Notice::Interrupt { interrupt, wake_up } => interrupt + wake_up,
            };
            let write = if self.has_buses {
                model.bus.write
            } else {
                Time::ZERO
            };
            let told = now + model.nic.completion + write + seen;
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
