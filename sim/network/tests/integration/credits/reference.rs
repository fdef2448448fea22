//! Channels and credits again, cycle by cycle: slow, and written from the rules alone.
//!
//! All links take one cycle for a flit. In each cycle every switch and every host looks at all that
//! it has.

use std::collections::VecDeque;

use viaduct_network::{Arbitration, FlowControl};
use viaduct_topology::{HostId, LinkId, Node, Topology};

/// What all links and switches are, in cycles and flits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) flow_control: FlowControl,
    pub(crate) channels: u32,
    pub(crate) classes: u32,
    pub(crate) buffer: u32,
    pub(crate) packet: u32,
    pub(crate) propagation: u64,
    pub(crate) switch: u64,
    pub(crate) traversal: u64,
    pub(crate) credit: u64,
    /// Whether a switch waits for all of a packet.
    pub(crate) stores: bool,
    /// Of this it knows nothing.
    pub(crate) speedup: u32,
    /// It knows turns alone.
    pub(crate) arbitration: Arbitration,
}

/// A message of so many flits from one host to another, from a cycle on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) cycle: u64,
    pub(crate) ends: (u32, u32),
    pub(crate) flits: u32,
}

/// What moves as a whole: a packet, or a flit.
#[derive(Clone, Copy, Debug)]
struct Unit {
    message: usize,
    flits: u32,
    ends_packet: bool,
    ends_message: bool,
    place: usize,
    ready: u64,
}

/// A flow by its ends, and what of it has not left.
type Flow = ((u32, u32), VecDeque<Unit>);

struct Channel {
    buffer: VecDeque<Unit>,
    credits: u32,
    holder: Option<usize>,
}

struct State<'a> {
    rules: Rules,
    topology: &'a Topology,
    ways: Vec<Vec<(u32, usize)>>,
    channels: Vec<Channel>,
    /// Of each link: until when its beginning and the buffers at its end are busy, and turns.
    output_free: Vec<u64>,
    input_free: Vec<u64>,
    turn_of_channel: Vec<u32>,
    turn_of_input: Vec<usize>,
    /// Credits on their way: when, of which channel, how many.
    returning: Vec<(u64, usize, u32)>,
    there: Vec<Option<u64>>,
    flit_hops: u64,
}

/// When the last flit of each message is there; none if it never is.
pub(crate) fn arrivals(
    topology: &Topology,
    rules: Rules,
    messages: &[Message],
) -> Vec<Option<u64>> {
    let links = topology.link_count() as usize;
    let ways = messages
        .iter()
        .map(|message| way(topology, rules, message.ends));
    let channels = (0..links * rules.channels as usize).map(|_| Channel {
        buffer: VecDeque::new(),
        credits: rules.buffer,
        holder: None,
    });
    let mut state = State {
        rules,
        topology,
        ways: ways.collect(),
        channels: channels.collect(),
        output_free: vec![0; links],
        input_free: vec![0; links],
        turn_of_channel: vec![0; links],
        turn_of_input: vec![0; links],
        returning: Vec::new(),
        there: vec![None; messages.len()],
        flit_hops: 0,
    };
    let inputs: Vec<Vec<u32>> = (0..topology.switch_count())
        .map(|switch| {
            let ends_here = |link: &u32| match topology.link_ends(LinkId(*link)).1 {
                Node::Switch(it) => it.0 == switch,
                Node::Host(_) => false,
            };
            (0..topology.link_count()).filter(ends_here).collect()
        })
        .collect();
    // Of each host: flows in turn, and the units of each that have not left.
    let mut hosts: Vec<VecDeque<Flow>> = vec![VecDeque::new(); topology.host_count() as usize];
    let (mut cycle, mut quiet) = (0, 0);
    let longest = 200 + 4 * (rules.propagation + rules.switch + rules.traversal + rules.credit);
    while state.there.contains(&None) && quiet < longest + u64::from(8 * rules.packet) {
        for (number, message) in messages.iter().enumerate() {
            if message.cycle == cycle {
                let flows = &mut hosts[message.ends.0 as usize];
                let units = cut(rules, number, message.flits);
                match flows.iter_mut().find(|flow| flow.0 == message.ends) {
                    Some(flow) => flow.1.extend(units),
                    None => flows.push_back((message.ends, units)),
                }
            }
        }
        let before = state.flit_hops;
        state.take_credits(cycle);
        for inputs in &inputs {
            while state.match_once(inputs, cycle) && rules.flow_control != FlowControl::Wormhole {}
        }
        for (host, flows) in hosts.iter_mut().enumerate() {
            state.send(host as u32, flows, cycle);
        }
        let waits_for_message = messages.iter().any(|message| message.cycle > cycle);
        let is_quiet = state.flit_hops == before && !waits_for_message;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        cycle += 1;
    }
    state.there
}

/// The links of a way, and the channel of each.
fn way(topology: &Topology, rules: Rules, ends: (u32, u32)) -> Vec<(u32, usize)> {
    let mut links: Vec<LinkId> = Vec::new();
    topology.route_flow(HostId(ends.0), HostId(ends.1), 0, &mut links);
    let links: Vec<u32> = links.iter().map(|link| link.0).collect();
    let mut classes = Vec::new();
    topology.channels_along(&links, None, rules.classes, &mut classes);
    assert_eq!(
        rules.channels, rules.classes,
        "channels that flows are spread over are not here"
    );
    let channel = |(link, class): (&u32, &u32)| (*link, (link * rules.channels + class) as usize);
    links.iter().zip(&classes).map(channel).collect()
}

fn cut(rules: Rules, message: usize, flits: u32) -> VecDeque<Unit> {
    let mut units = VecDeque::new();
    let mut left = flits;
    while left > 0 {
        let packet = left.min(rules.packet);
        left -= packet;
        let (count, size) = match rules.flow_control {
            FlowControl::Wormhole => (packet, 1),
            FlowControl::VirtualCutThrough => (1, packet),
        };
        for number in 1..=count {
            units.push_back(Unit {
                message,
                flits: size,
                ends_packet: number == count,
                ends_message: number == count && left == 0,
                place: 0,
                ready: 0,
            });
        }
    }
    units
}

impl State<'_> {
    fn take_credits(&mut self, cycle: u64) {
        for (_, channel, credits) in self.returning.extract_if(.., |it| it.0 <= cycle) {
            self.channels[channel].credits += credits;
        }
    }

    fn has_room(&self, channel: usize, unit: &Unit) -> bool {
        let its = &self.channels[channel];
        its.credits >= unit.flits.min(self.rules.buffer)
            && its.holder.is_none_or(|holder| holder == unit.message)
    }

    /// Each input puts a channel forward, each output takes one: whether any did.
    fn match_once(&mut self, inputs: &[u32], cycle: u64) -> bool {
        let channels = self.rules.channels;
        let mut asked: Vec<(u32, usize, u32)> = Vec::new();
        for (port, &input) in inputs.iter().enumerate() {
            if self.input_free[input as usize] > cycle {
                continue;
            }
            for step in 0..channels {
                let number = (self.turn_of_channel[input as usize] + step) % channels;
                let channel = (input * channels + number) as usize;
                let Some(unit) = self.channels[channel].buffer.front() else {
                    continue;
                };
                let (output, next) = self.ways[unit.message][unit.place];
                let is_free = self.output_free[output as usize] <= cycle;
                if unit.ready <= cycle && is_free && self.has_room(next, unit) {
                    asked.push((output, port, number));
                    break;
                }
            }
        }
        let mut outputs: Vec<u32> = asked.iter().map(|it| it.0).collect();
        outputs.sort_unstable();
        outputs.dedup();
        for output in outputs {
            let turn = self.turn_of_input[output as usize];
            let behind = |port: usize| (port + inputs.len() - turn) % inputs.len();
            let those = asked.iter().filter(|it| it.0 == output);
            let Some(&(_, port, number)) = those.min_by_key(|it| behind(it.1)) else {
                continue;
            };
            let input = inputs[port];
            let channel = (input * channels + number) as usize;
            let Some(unit) = self.channels[channel].buffer.pop_front() else {
                continue;
            };
            let span = u64::from(unit.flits);
            self.input_free[input as usize] = cycle + span;
            self.turn_of_channel[input as usize] = (number + 1) % channels;
            self.turn_of_input[output as usize] = (port + 1) % inputs.len();
            self.give_back(channel, unit.flits, cycle + span);
            self.leave(unit, cycle);
        }
        !asked.is_empty()
    }

    fn give_back(&mut self, channel: usize, flits: u32, from: u64) {
        let after = self.rules.propagation + self.rules.credit;
        let credits = flits.min(self.rules.buffer);
        self.returning.push((from + after, channel, credits));
    }

    fn leave(&mut self, unit: Unit, cycle: u64) {
        let rules = self.rules;
        let span = u64::from(unit.flits);
        let (link, channel) = self.ways[unit.message][unit.place];
        let its = &mut self.channels[channel];
        its.credits -= unit.flits.min(rules.buffer);
        its.holder = (!unit.ends_packet).then_some(unit.message);
        self.output_free[link as usize] = cycle + span;
        self.flit_hops += span;
        let is_from_host = matches!(self.topology.link_ends(LinkId(link)).0, Node::Host(_));
        let head = cycle + rules.propagation + if is_from_host { 0 } else { rules.traversal };
        if unit.place + 1 == self.ways[unit.message].len() {
            if unit.ends_message {
                self.there[unit.message] = Some(head + span);
            }
            return self.give_back(channel, unit.flits, head + span);
        }
        let needed = if rules.stores { span } else { 1 };
        self.channels[channel].buffer.push_back(Unit {
            place: unit.place + 1,
            ready: head + rules.switch + needed,
            ..unit
        });
    }

    fn send(&mut self, host: u32, flows: &mut VecDeque<Flow>, cycle: u64) {
        let up = self.topology.host_up(HostId(host));
        if self.output_free[up.0 as usize] > cycle {
            return;
        }
        let may = |flow: &Flow| {
            let first = flow.1.front();
            first.is_some_and(|unit| self.has_room(self.ways[unit.message][0].1, unit))
        };
        let Some(place) = flows.iter().position(may) else {
            return;
        };
        let Some(unit) = flows[place].1.pop_front() else {
            return;
        };
        self.leave(unit, cycle);
        if unit.ends_packet
            && let Some(flow) = flows.remove(place)
            && !flow.1.is_empty()
        {
            flows.push_back(flow);
        }
    }
}
