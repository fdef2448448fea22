//! The rules of links that pause, of trimming, and of flows that take turns, once more, with
//! everything in one heap.

use viaduct_topology::Node;

use super::*;

impl Slow<'_> {
    /// Whether an adapter has a frame that is ready; it begins if it may.
    pub(super) fn is_ready(&mut self, now: u64, host: u32) -> bool {
        let Some((message, frame, comes, reads_ahead)) = self.ready.get(&host).copied() else {
            return false;
        };
        let link = self.network.way(&self.messages[message])[0];
        let start = comes.max(self.link_free.get(&link).copied().unwrap_or(0));
        if start > now {
            self.look(start, host);
        } else if !self.paused.contains(&link) {
            self.ready.remove(&host);
            let wire = self.bytes(message, frame).0;
            self.holds(now, link, wire, now + self.service(link, wire));
            self.leaves_host(host, now, (message, frame), reads_ahead);
        }
        true
    }

    /// What the switch behind a link holds of what came by it: the limits to pause and to go on.
    fn pause_limits(&self, link: u32) -> (u64, u64) {
        let buffers = self.network.links.buffers;
        let WhenFull::Pause { headroom_bytes } = buffers.full else {
            panic!("links do not pause");
        };
        let kept = |link| {
            let needed = pause::headroom(&self.network.delays(), LinkId(link));
            headroom_bytes.unwrap_or(needed)
        };
        let room = buffers.bytes_max.unwrap_or(u64::MAX);
        let mut xoff = room.saturating_sub(kept(link));
        if let Some(memory) = buffers.shared {
            let all_kept: u64 = self.links_beside(link).map(kept).sum();
            let free = memory
                .bytes
                .saturating_sub(self.held_behind(link) + all_kept);
            xoff = xoff.min((memory.alpha * free as f64) as u64);
        }
        let frame = self.network.links.frame;
        let full = match frame.payload_bytes {
            0 => 0,
            payload => payload + frame.header_bytes,
        };
        (xoff, xoff.saturating_sub(2 * u64::from(full)))
    }

    /// The links into the switch behind one of them.
    fn links_beside(&self, link: u32) -> impl Iterator<Item = u32> {
        let topology = &self.network.topology;
        let switch = topology.link_ends(LinkId(link)).1;
        (0..topology.link_count()).filter(move |it| topology.link_ends(LinkId(*it)).1 == switch)
    }

    /// Bytes of all frames in the switch behind a link.
    fn held_behind(&self, link: u32) -> u64 {
        let held = |it: u32| self.behind.get(&it).map_or(0, |it| it.0);
        self.links_beside(link).map(held).sum()
    }

    pub(super) fn is_ordered(&self) -> bool {
        let buffers = self.network.links.buffers;
        buffers.may_pause()
            || buffers.may_trim()
            || buffers.shared.is_some()
            || buffers.queueing == Queueing::Fair
    }

    /// Bytes of the frames that are in the queue of a link.
    fn held_by(&self, link: u32) -> u64 {
        let waiting = self.waiting.get(&link).into_iter().flatten();
        let here = waiting.chain(self.leaving.get(&link));
        let here = here.filter(|it| !it.is_header);
        here.map(|it| self.bytes(it.message, it.frame).0 as u64)
            .sum()
    }

    fn flow(&self, message: usize) -> Flow {
        let Message { ends, flow, .. } = self.messages[message];
        (ends.0, ends.1, flow)
    }

    /// A frame comes to a queue.
    pub(super) fn waits(&mut self, now: u64, link: u32, it: Placed) {
        let Placed {
            message,
            frame,
            from,
            ..
        } = it;
        if it.is_header {
            return self.header_waits(now, link, it);
        }
        let wire = self.bytes(message, frame).0;
        let buffers = self.network.links.buffers;
        let (held, is_told) = self.behind.get(&from).copied().unwrap_or_default();
        let held = held + wire as u64;
        let before = self.held_by(link);
        let counted = match buffers.may_pause() {
            true => held,
            false => before + wire as u64,
        };
        let is_full = buffers.bytes_max.is_some_and(|most| counted > most)
            || buffers.shared.is_some_and(|memory| {
                if buffers.may_pause() {
                    return self.held_behind(from) + wire as u64 > memory.bytes;
                }
                let topology = &self.network.topology;
                let switch = |link| topology.link_ends(LinkId(link)).0;
                let all = 0..topology.link_count();
                let queues = all.filter(|other| switch(*other) == switch(link));
                let used: u64 = queues.map(|queue| self.held_by(queue)).sum();
                let free = memory.bytes.saturating_sub(used) as f64;
                f64::from(wire as u32) > free || (before + wire as u64) as f64 > memory.alpha * free
            });
        if is_full && buffers.may_trim() && before > 0 {
            self.links[link as usize].0.trimmed += 1;
            let header = Placed {
                is_header: true,
                ..it
            };
            return self.header_waits(now, link, header);
        }
        if is_full && !buffers.may_trim() {
            self.links[link as usize].0.lost += 1;
            self.lost[message].push(frame);
            return;
        }
        if buffers.marking.is_some_and(|it| before > it.low_bytes) {
            self.links[link as usize].0.marked += 1;
            self.marked[message].push(frame);
        }
        let most = &mut self.links[link as usize].1;
        *most = (*most).max(before + wire as u64);
        self.behind.insert(from, (held, is_told));
        let pauses = buffers.may_pause() && held > self.pause_limits(from).0 && !is_told;
        self.behind.insert(from, (held, is_told || pauses));
        if pauses {
            self.links[from as usize].0.pauses += 1;
            self.is_told(now, from, true);
        }
        let flow = self.flow(message);
        let (order, _) = self.order.entry(link).or_default();
        if !order.iter().any(|(it, _)| *it == flow) {
            order.push_back((flow, 0));
        }
        self.waiting.entry(link).or_default().push_back(it);
        self.next_begins(now, link);
    }

    /// The place among what waits for a link of what goes next.
    fn next_place(&mut self, link: u32) -> Option<usize> {
        let waiting = self.waiting.get(&link)?.clone();
        if waiting.is_empty() || self.network.links.buffers.queueing == Queueing::FirstCome {
            return (!waiting.is_empty()).then_some(0);
        }
        let frame = self.network.links.frame;
        let full = match frame.payload_bytes {
            0 => 1,
            payload => u64::from(payload + frame.header_bytes),
        };
        let (mut order, mut is_given) = self.order.remove(&link).unwrap();
        let place = loop {
            let (flow, mut credit) = order.pop_front().unwrap();
            if !is_given {
                credit += full;
            }
            let of_flow = |it: &Placed| self.flow(it.message) == flow;
            let place = waiting.iter().position(of_flow).unwrap();
            let Placed { message, frame, .. } = waiting[place];
            let bytes = self.bytes(message, frame).0 as u64;
            if bytes > credit {
                order.push_back((flow, credit));
                is_given = false;
                continue;
            }
            is_given = waiting.iter().filter(|it| of_flow(it)).count() > 1;
            if is_given {
                order.push_front((flow, credit - bytes));
            }
            break place;
        };
        self.order.insert(link, (order, is_given));
        Some(place)
    }

    fn is_told(&mut self, now: u64, link: u32, pauses: bool) {
        let links = &self.network.links;
        let cable = links.propagation_of(&self.network.topology, LinkId(link));
        let hears = now + cable.picoseconds() + self.service(link, 64.0);
        let hearing = Happening::Hears { link, pauses };
        self.heap.push(Reverse((hears, hearing)));
    }

    fn next_begins(&mut self, now: u64, link: u32) {
        if self.leaving.contains_key(&link) || self.paused.contains(&link) {
            return;
        }
        let frames = self.waiting.get(&link).map_or(0, VecDeque::len);
        let (headers, gone) = self.headers.entry(link).or_default();
        let next = if !headers.is_empty() && (frames == 0 || *gone < 10) {
            *gone += u32::from(frames > 0);
            headers.pop_front().unwrap()
        } else if frames > 0 {
            *gone = 0;
            let place = self.next_place(link).unwrap();
            self.waiting.get_mut(&link).unwrap().remove(place).unwrap()
        } else {
            return;
        };
        self.leaving.insert(link, next);
        let service = self.service(link, self.wire(next));
        self.heap
            .push(Reverse((now + service, Happening::Leaves(link))));
        self.starts(now, next);
    }

    pub(super) fn leaves(&mut self, now: u64, link: u32) {
        let Placed {
            message,
            frame,
            from,
            ..
        } = self.leaving.remove(&link).unwrap();
        let wire = self.bytes(message, frame).0 as u64;
        if self.network.links.buffers.may_pause() {
            self.behind.get_mut(&from).unwrap().0 -= wire;
            let beside: Vec<u32> = self.links_beside(from).collect();
            for link in beside {
                let least = self.pause_limits(link).1;
                let (held, is_told) = self.behind.entry(link).or_default();
                if *held <= least && core::mem::take(is_told) {
                    self.is_told(now, link, false);
                }
            }
        }
        self.next_begins(now, link);
    }

    /// Bytes on the link of a frame, or of what is left of it.
    pub(super) fn wire(&self, it: Placed) -> f64 {
        let wire = self.bytes(it.message, it.frame).0;
        let left = f64::from(self.network.links.frame.header_bytes.max(64));
        match it.is_header {
            true => wire.min(left),
            false => wire,
        }
    }

    fn header_waits(&mut self, now: u64, link: u32, it: Placed) {
        self.headers.entry(link).or_default().0.push_back(it);
        self.next_begins(now, link);
    }

    /// A receiver asks for a frame of which the header has come.
    pub(super) fn asks(&mut self, time: u64, message: usize, frame: u32) {
        self.marked[message].push(frame);
        self.tells(time, message, frame);
        self.sends_back(time, message, frame, None);
    }

    /// A receiver tells of a frame that has come, if senders keep windows.
    pub(super) fn replies(&mut self, time: u64, it: Placed) {
        if self.windows.is_some() {
            let wire = self.bytes(it.message, it.frame).0;
            let waited = time - it.sent - self.unloaded(it.message, wire);
            let is_marked = self.marked[it.message].contains(&it.frame);
            self.sends_back(time, it.message, it.frame, Some((waited, is_marked)));
        }
    }

    fn sends_back(&mut self, time: u64, message: usize, frame: u32, came: Option<(u64, bool)>) {
        let Message { ends, flow, .. } = self.messages[message];
        let heard = Happening::Heard {
            host: ends.0,
            flow: (ends.1, flow),
            message,
            frame,
            came,
        };
        let back = self.back(message);
        self.heap.push(Reverse((time + back, heard)));
    }

    /// How long a frame of so many bytes takes that waits for nobody.
    fn unloaded(&self, message: usize, wire: f64) -> u64 {
        let (network, links) = (self.network, &self.network.links);
        let way = network.way(&self.messages[message]);
        let mut time = 0;
        for (place, link) in way.iter().enumerate() {
            let service = self.service(*link, wire);
            time += links.propagation.picoseconds();
            let Some(next) = way.get(place + 1) else {
                return time + service;
            };
            let rate = links.rate_of(&network.topology, LinkId(*link));
            let needed = wire.min(f64::from(network.switch.cut_through_bytes));
            time += network.switch.delay.picoseconds();
            time += match links.switching {
                Switching::StoreAndForward => service,
                Switching::CutThrough => {
                    let runs_dry = service.saturating_sub(self.service(*next, wire));
                    rate.time_for(needed).picoseconds().max(runs_dry)
                }
            };
        }
        time
    }

    pub(super) fn key(&self, message: usize) -> FlowKey {
        let Message { ends, flow, .. } = self.messages[message];
        FlowKey::new((ends, flow), 0, 0)
    }

    /// The flow of a message has a window.
    pub(super) fn open_window(&mut self, message: usize) {
        let frame = self.network.links.frame;
        let full = f64::from(frame.payload_bytes + frame.header_bytes);
        let trip = self.unloaded(message, full) + self.back(message);
        let (key, rate) = (self.key(message), self.first_rate(message));
        if let Some(windows) = &mut self.windows {
            windows.begin(key, trip, rate);
        }
    }

    /// Whether the window of a flow has room for the next frame of a message.
    pub(super) fn has_room(&self, message: usize) -> bool {
        let next = self.wanted[message].first().copied();
        let wire = self.bytes(message, next.unwrap_or(self.sent[message])).0;
        let windows = self.windows.as_ref();
        windows.is_none_or(|it| it.has_room(self.key(message), wire))
    }

    /// A sender hears of a frame.
    pub(super) fn heard(
        &mut self,
        now: u64,
        message: usize,
        frame: u32,
        came: Option<(u64, bool)>,
    ) {
        let (key, wire) = (self.key(message), self.bytes(message, frame).0);
        let heard = match came {
            Some((waited, is_marked)) => Heard::Came { waited, is_marked },
            None => Heard::Missing,
        };
        if let Some(windows) = &mut self.windows {
            windows.hear(key, now, wire, heard);
        }
        if came.is_none() {
            self.wants(now, message, frame);
        }
        let host = self.messages[message].ends.0;
        if self.windows.is_some() && self.idle.contains_key(&host) {
            self.look(now, host);
        }
    }

    /// A sender is asked for a frame.
    fn wants(&mut self, now: u64, message: usize, frame: u32) {
        self.wanted[message].insert(frame);
        self.marked[message].retain(|it| *it != frame);
        let flow = self.flow(message);
        let line = self.flows.get_mut(&flow).unwrap();
        if line.contains(&message) {
            return;
        }
        line.push_front(message);
        let slowed = self.senders.get(&flow).map_or(0, |slowed| slowed.next);
        self.next_start[message] = self.next_start[message].max(now).max(slowed);
        let is_first = line.len() == 1;
        let (turns, is_awake) = self.turns.get_mut(&flow.0).unwrap();
        if is_first {
            turns.push_back((flow.1, flow.2));
        }
        if !core::mem::replace(is_awake, true) || self.idle.contains_key(&flow.0) {
            self.look(now, flow.0);
        }
    }

    /// The frame of a message that is sent next.
    pub(super) fn next_frame(&mut self, message: usize) -> u32 {
        self.wanted[message].pop_first().unwrap_or_else(|| {
            self.sent[message] += 1;
            self.sent[message] - 1
        })
    }

    /// A host takes the messages of a flow in the order of their sending.
    pub(super) fn keep_order(&mut self) {
        if !self.network.links.buffers.may_trim() && !self.network.spreads() {
            return;
        }
        let mut order: Vec<usize> = (0..self.messages.len()).collect();
        order.sort_by_key(|message| (self.flow(*message), self.messages[*message].at));
        // The flow, when all before have come, and when the one before ended.
        let mut before = (None, 0, 0);
        for message in order {
            let flow = Some(self.flow(message));
            if before.0 != flow {
                before = (flow, 0, 0);
            }
            let times = &mut self.times[message];
            times.1 = times.1.max(before.1);
            times.2 = times.2.max(before.2);
            before = (flow, self.there[message].max(before.1), times.2);
        }
    }

    pub(super) fn hears(&mut self, now: u64, link: u32, pauses: bool) {
        if pauses {
            self.paused.insert(link);
            return;
        }
        self.paused.remove(&link);
        let topology = &self.network.topology;
        match topology.link_ends(LinkId(link)).0 {
            // It looks only at what is ready.
            Node::Host(HostId(host)) if self.ready.contains_key(&host) => self.look(now, host),
            Node::Host(_) => {}
            Node::Switch(_) => self.next_begins(now, link),
        }
    }
}
