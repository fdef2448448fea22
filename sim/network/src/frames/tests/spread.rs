//! Frames that take ways of their own, once more: each has its whole way before it, taken from all
//! that there are.

use viaduct_engine::StreamKey;
use viaduct_topology::{ClosShape, Detours, DragonflyShape, EqualPaths};

use super::*;

impl Network {
    /// Whether frames take ways of their own.
    pub(super) fn spreads(&self) -> bool {
        self.topology.spreads_frames()
    }

    fn is_by_queue(&self) -> bool {
        self.topology.equal_paths() == EqualPaths::LeastQueued
    }

    /// All ways of a message.
    fn ways(&self, message: &Message) -> Vec<Vec<u32>> {
        self.ways_between(HostId(message.ends.0), HostId(message.ends.1))
    }

    /// The links of a detour by a number, and how many lead to where it ends, if there is one.
    fn around(&self, message: &Message, number: u32) -> Option<Vec<u32>> {
        let (source, target) = (HostId(message.ends.0), HostId(message.ends.1));
        let over = self.topology.detour_host(source, target, number);
        let switches = [source, over, target].map(|host| self.topology.host_switch(host));
        if switches[0] == switches[2] || switches[1] == switches[0] || switches[1] == switches[2] {
            return None;
        }
        // There the number is the same at each switch.
        let ways = self.ways_between(source, over);
        let mut there = vec![ways[0][0]];
        while there.len() + 1 < ways[0].len() {
            let choices = choices(&ways, &there);
            there.push(choices[number as usize % choices.len()]);
        }
        let ways = self.ways_between(over, target);
        let on = &ways[number as usize % ways.len()];
        Some([&there, &on[1..]].concat())
    }

    fn ways_between(&self, source: HostId, target: HostId) -> Vec<Vec<u32>> {
        let ways = self.topology.equal_ways(source, target, 1 << 16);
        ways.into_iter()
            .map(|way| way.iter().map(|link| link.0).collect())
            .collect()
    }
}

/// When a gap would be there is a matter of the engine's own, and so is then when a message that
/// waits for that has come.
pub(super) fn forget_behind_losses(network: &Network, messages: &[Message], times: &mut [Times]) {
    let mut order: Vec<usize> = (0..messages.len()).collect();
    order.sort_by_key(|message| messages[*message].at);
    let mut broken = BTreeSet::new();
    for message in order {
        let Message { ends, flow, .. } = messages[message];
        if times[message].3.is_some() && network.spreads() {
            broken.insert((ends, flow));
        }
        if broken.contains(&(ends, flow)) {
            (times[message].1, times[message].2) = (NEVER, NEVER);
        }
    }
}

/// The links that ways take which begin so.
fn choices(ways: &[Vec<u32>], come: &[u32]) -> Vec<u32> {
    let mut choices = Vec::new();
    for way in ways {
        if way.starts_with(come) && !choices.contains(&way[come.len()]) {
            choices.push(way[come.len()]);
        }
    }
    choices
}

impl Slow<'_> {
    pub(super) fn draw_number(&mut self, message: usize) {
        let host = self.messages[message].ends.0;
        let key = StreamKey {
            seed: 0,
            purpose: 0xfa04,
            entity: host.into(),
        };
        let stream = self.draws.entry(host).or_insert_with(|| Stream::new(key));
        self.numbers[message] = stream.next_u64() as u16;
    }

    pub(super) fn number_frame(&mut self, message: usize, frame: u32) {
        if !self.network.spreads() {
            return;
        }
        let number = self.numbers[message];
        self.numbers[message] = number.wrapping_add(1);
        let first = self.network.way(&self.messages[message])[0];
        let name = (message, frame);
        self.ways.insert(name, (number.into(), vec![first]));
        self.around.remove(&name);
        if self.network.topology.detours() == Detours::Always {
            self.around.insert(name);
        }
    }

    /// The links of a frame, as far as they are known; behind that those of any way: all ways are
    /// alike.
    pub(super) fn way_of(&self, it: Placed) -> Vec<u32> {
        let message = &self.messages[it.message];
        if !self.network.spreads() {
            return self.network.way(message);
        }
        let ways = self.network.ways(message);
        let (number, come) = &self.ways[&(it.message, it.frame)];
        if self.around.contains(&(it.message, it.frame))
            && let Some(way) = self.network.around(message, *number)
        {
            return way;
        }
        let mut way = ways[*number as usize % ways.len()].clone();
        if self.network.is_by_queue() {
            way[..come.len()].copy_from_slice(come);
        }
        way
    }

    /// What is told of the link that a frame is to come to: nothing, where the switch chooses.
    pub(super) fn link_told(&self, link: u32) -> u32 {
        let detours = self.network.topology.detours();
        match self.network.is_by_queue() || detours.are_by_queues() {
            true => 0,
            false => link,
        }
    }

    /// The link of a frame that comes to a switch.
    pub(super) fn chosen_link(&mut self, now: u64, link: u32, it: Placed) -> u32 {
        if self.network.topology.detours() == Detours::ByLocalQueues {
            self.decide(now, it);
            return self.way_of(it)[it.place];
        }
        if !self.network.is_by_queue() {
            return link;
        }
        let (rest, come) = self.ways[&(it.message, it.frame)].clone();
        let mut choices = choices(&self.network.ways(&self.messages[it.message]), &come);
        let count = choices.len();
        choices.rotate_left(rest as usize % count);
        let held = choices.iter().map(|link| self.bytes_in_queue(now, *link));
        let least = held.clone().min().unwrap();
        let place = held.clone().position(|held| held == least).unwrap();
        let link = choices[place];
        let (rest, come) = self.ways.get_mut(&(it.message, it.frame)).unwrap();
        *rest /= count as u32;
        come.push(link);
        link
    }

    /// A frame comes to its first switch, which looks at the queues of its links.
    fn decide(&mut self, now: u64, it: Placed) {
        let number = self.ways[&(it.message, it.frame)].0;
        let message = &self.messages[it.message];
        let Some(around) = self
            .network
            .around(message, number)
            .filter(|_| it.place == 1)
        else {
            return;
        };
        let ways = self.network.ways(message);
        let way = &ways[number as usize % ways.len()];
        let frame = self.network.links.frame;
        let patience = match frame.payload_bytes {
            0 => 0,
            payload => 2 * u64::from(payload + frame.header_bytes),
        };
        let [held, held_around] = [way, &around].map(|way| self.bytes_in_queue(now, way[1]));
        // Links between switches.
        let [links, links_around] = [way, &around].map(|way| way.len() as u64 - 2);
        if held.saturating_sub(patience) * links > held_around * links_around {
            self.around.insert((it.message, it.frame));
        }
    }

    fn bytes_in_queue(&self, now: u64, link: u32) -> u64 {
        if self.is_ordered() {
            let waiting = self.waiting.get(&link).into_iter().flatten();
            let here = waiting.chain(self.leaving.get(&link));
            let frames = here.filter(|it| !it.is_header);
            return frames
                .map(|it| self.bytes(it.message, it.frame).0 as u64)
                .sum();
        }
        let held = self.held.get(&link).into_iter().flatten();
        held.filter(|(leaves, _)| *leaves > now)
            .map(|(_, bytes)| bytes)
            .sum()
    }
}

/// A network with several ways between hosts, the same number at each place.
fn topology() -> impl Strategy<Value = Topology> {
    let clos = |radix, pods| {
        Topology::clos(ClosShape {
            radix,
            tiers: 3,
            oversubscription: 1,
            pods: Some(pods),
        })
    };
    let dragonfly = Topology::dragonfly(DragonflyShape {
        hosts_per_switch: 2,
        switches_per_group: 2,
        global_links: 1,
        groups: 3,
    });
    let dragonfly = dragonfly.unwrap();
    prop_oneof![
        (2_u32..4).prop_map(move |pods| clos(4, pods).unwrap()),
        (2_u32..5).prop_map(|spines| Topology::leaf_spine(6, 2, spines).unwrap()),
        Just(Topology::hyperx(&[2, 3], 1).unwrap()),
        Just(dragonfly),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn frames_take_the_ways_that_their_numbers_say_at_the_times_of_one_heap(
        (network, messages) in cases(),
        topology in topology(),
        (equal_paths, detours) in prop_oneof![
            Just((EqualPaths::LeastQueued, Detours::Never)),
            Just((EqualPaths::Spray, Detours::Never)),
            Just((EqualPaths::Spray, Detours::Always)),
            Just((EqualPaths::Spray, Detours::ByLocalQueues)),
        ],
        control in prop_oneof![
            Just(CongestionControl::None),
            Just(CongestionControl::Dcqcn),
            Just(CongestionControl::Nscc),
        ],
    ) {
        let (mut network, mut messages) = (network, messages);
        let topology = topology.with_equal_paths(equal_paths);
        network.topology = Arc::new(topology.with_detours(detours));
        if detours != Detours::Never && network.links.buffers.may_pause() {
            // Links would wait for each other in circles, and gaps in them.
            network.links.buffers.full = WhenFull::Drop;
        }
        let hosts = network.topology.host_count();
        for message in &mut messages {
            let (source, target) = message.ends;
            message.ends = (source * 5 % hosts, (source * 5 + target) % hosts);
        }
        if let Some(marking) = &mut network.links.buffers.marking {
            marking.control = control;
        }
        if network.links.buffers.has_windows() {
            let frame = &mut network.links.frame;
            frame.payload_bytes = frame.payload_bytes.max(100);
            let buffers = &mut network.links.buffers;
            if !buffers.may_trim() {
                // What windows do with what is lost is not here once more.
                (buffers.bytes_max, buffers.shared) = (None, None);
            }
        }
        let (times, log, links) = engine(&network, &messages);
        let (slow_times, slow_log, slow_links) = slow(&network, &messages);
        prop_assert_eq!(log, slow_log);
        prop_assert_eq!(links, slow_links);
        prop_assert_eq!(times, slow_times);
    }
}
