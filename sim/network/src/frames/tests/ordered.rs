//! The rules of links that pause, and of flows that take turns, once more, with everything in one
//! heap.

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
        let needed = pause::headroom(&self.network.delays(), LinkId(link));
        let room = buffers.bytes_max.unwrap();
        let xoff = room.saturating_sub(headroom_bytes.unwrap_or(needed));
        let frame = self.network.links.frame;
        let full = match frame.payload_bytes {
            0 => 0,
            payload => payload + frame.header_bytes,
        };
        (xoff, xoff.saturating_sub(2 * u64::from(full)))
    }

    pub(super) fn is_ordered(&self) -> bool {
        let buffers = self.network.links.buffers;
        buffers.may_pause() || buffers.queueing == Queueing::Fair
    }

    fn flow(&self, message: usize) -> Flow {
        let Message { ends, flow, .. } = self.messages[message];
        (ends.0, ends.1, flow)
    }

    /// A frame comes to a queue.
    pub(super) fn waits(&mut self, now: u64, link: u32, it: (usize, u32, usize, u32)) {
        let (message, frame, _, from) = it;
        let wire = self.bytes(message, frame).0;
        let buffers = self.network.links.buffers;
        let (held, is_told) = self.behind.get(&from).copied().unwrap_or_default();
        let held = held + wire as u64;
        let waiting = self.waiting.entry(link).or_default();
        let here = waiting.iter().chain(self.leaving.get(&link));
        let here: Vec<_> = here.map(|it| (it.0, it.1)).collect();
        let before: u64 = here.iter().map(|it| self.bytes(it.0, it.1).0 as u64).sum();
        let counted = match buffers.may_pause() {
            true => held,
            false => before + wire as u64,
        };
        if buffers.bytes_max.is_some_and(|most| counted > most) {
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
            let of_flow = |it: &(usize, u32, usize, u32)| self.flow(it.0) == flow;
            let place = waiting.iter().position(of_flow).unwrap();
            let bytes = self.bytes(waiting[place].0, waiting[place].1).0 as u64;
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
        let Some(place) = self.next_place(link) else {
            return;
        };
        let next = self.waiting.get_mut(&link).unwrap().remove(place).unwrap();
        self.leaving.insert(link, next);
        let service = self.service(link, self.bytes(next.0, next.1).0);
        self.heap
            .push(Reverse((now + service, Happening::Leaves(link))));
        self.starts(now, next.0, next.1, next.2);
    }

    pub(super) fn leaves(&mut self, now: u64, link: u32) {
        let (message, frame, _, from) = self.leaving.remove(&link).unwrap();
        let wire = self.bytes(message, frame).0 as u64;
        if self.network.links.buffers.may_pause() {
            let least = self.pause_limits(from).1;
            let (held, is_told) = self.behind.get_mut(&from).unwrap();
            *held -= wire;
            if *held <= least && core::mem::take(is_told) {
                self.is_told(now, from, false);
            }
        }
        self.next_begins(now, link);
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
