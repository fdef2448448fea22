//! Queues against a slow, obvious reference: at each event, all shares from their definition.

use std::collections::BTreeMap;

use proptest::prelude::*;
use viaduct_engine::{EventQueue, Time};

use super::arrived::Arrived;
use super::{FlowKey, Passing, Queues, Step, Stop};
use crate::fluid::{FlowDemand, FlowId, ResourceId};

#[derive(Clone, Copy, Debug)]
enum Event {
    Begins(u32),
    Steps(FlowId),
}

impl From<FlowId> for Event {
    fn from(flow: FlowId) -> Self {
        Self::Steps(flow)
    }
}

#[derive(Clone, Debug)]
struct Plan {
    begin: u64,
    stops: Vec<Stop>,
    bytes: f64,
    flow: Option<u32>,
}

/// Queues, of which the last is a bus.
const QUEUES: u32 = 6;

fn rate_of(queue: u32) -> f64 {
    [1.0, 1.0, 0.5, 2.0, 1.0, 0.6][queue as usize] * 1e-3
}

/// What a byte on the bus is on a link.
const SCALE: f64 = 1.25;

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let queues = prop::sample::subsequence((0..QUEUES).collect::<Vec<_>>(), 1..5);
    let ways = prop::collection::vec((queues, 0_u64..3), 1..5);
    let message = (
        0_usize..8,
        prop_oneof![(0_u64..4).prop_map(|at| at * 700_000), 0_u64..4_000_000],
        1_u32..1500,
        any::<bool>(),
    );
    (ways, prop::collection::vec(message, 1..24)).prop_map(|(ways, messages)| {
        let plan = |(way, begin, bytes, has_flow): (usize, u64, u32, bool)| {
            let way = way % ways.len();
            let (queues, hop) = &ways[way];
            let stop = |(index, &queue): (usize, &u32)| Stop {
                resource: ResourceId(queue),
                offset: Time::from_picoseconds(index as u64 * hop * 40_000),
                lag: Time::from_picoseconds(index as u64 * hop * 40_000),
            };
            Plan {
                begin,
                stops: queues.iter().enumerate().map(stop).collect(),
                bytes: f64::from(bytes),
                flow: has_flow.then_some(way as u32),
            }
        };
        messages.into_iter().map(plan).collect()
    })
}

fn work(plan: &Plan, place: usize) -> f64 {
    let is_bus = plan.stops[place].resource.0 == QUEUES - 1;
    plan.bytes / if is_bus { SCALE } else { 1.0 }
}

/// The end of each, when its first queue had served it, and the head's coming to the last queue.
type Told = (f64, f64, f64);

/// Both rules, as a message's network uses them.
trait Rule {
    fn begin(&mut self, queue: &mut EventQueue<Event>, passing: &Passing<'_>) -> (FlowId, bool);
    fn step(&mut self, queue: &mut EventQueue<Event>, id: FlowId) -> (u32, Step);
    fn settle(&mut self, _queue: &mut EventQueue<Event>) {}
}

impl Rule for Queues {
    fn begin(&mut self, queue: &mut EventQueue<Event>, passing: &Passing<'_>) -> (FlowId, bool) {
        Self::begin(self, queue, passing)
    }

    fn step(&mut self, queue: &mut EventQueue<Event>, id: FlowId) -> (u32, Step) {
        Self::step(self, queue, id)
    }
}

impl Rule for Arrived {
    fn begin(&mut self, queue: &mut EventQueue<Event>, passing: &Passing<'_>) -> (FlowId, bool) {
        Self::begin(self, queue, passing)
    }

    fn step(&mut self, queue: &mut EventQueue<Event>, id: FlowId) -> (u32, Step) {
        Self::step(self, queue, id)
    }

    fn settle(&mut self, queue: &mut EventQueue<Event>) {
        Self::settle(self, queue);
    }
}

/// By the code under test.
fn told(queues: &mut impl Rule, plans: &[Plan]) -> Vec<Told> {
    let mut queue = EventQueue::new();
    for (index, plan) in plans.iter().enumerate() {
        let begins = Event::Begins(index as u32);
        queue.schedule(Time::from_picoseconds(plan.begin), begins);
    }
    let last = |index: usize| plans[index].stops.last().map_or(Time::ZERO, |it| it.offset);
    let mut told = vec![(0.0, 0.0, 0.0); plans.len()];
    let float = |time: Time| time.picoseconds() as f64;
    loop {
        queues.settle(&mut queue);
        let Some((now, event)) = queue.pop() else {
            return told;
        };
        match event {
            Event::Begins(index) => {
                let plan = &plans[index as usize];
                let passing = Passing {
                    stops: &plan.stops,
                    senders: 1,
                    demand: FlowDemand {
                        wire_bytes: plan.bytes,
                        scale: SCALE,
                        rate_max: f64::INFINITY,
                        tag: index,
                    },
                    flow: plan.flow.map(|flow| FlowKey::new(((0, 0), flow), 0, 0)),
                    unshared: Time::ZERO,
                    sending: Time::ZERO,
                };
                let (_, is_head_known) = queues.begin(&mut queue, &passing);
                if is_head_known {
                    told[index as usize].2 = float(now + last(index as usize));
                }
            }
            Event::Steps(flow) => {
                let (tag, step) = queues.step(&mut queue, flow);
                let told = &mut told[tag as usize];
                match step {
                    Step::None => {}
                    Step::Head(begun) => told.2 = float(begun + last(tag as usize)),
                    Step::Gone => told.1 = float(now),
                    Step::Served { at, leaves_sender } => {
                        told.0 = float(at);
                        if leaves_sender {
                            told.1 = float(now);
                        }
                    }
                }
            }
        }
    }
}

/// A message in a queue of the reference.
#[derive(Clone, Copy)]
struct Held {
    message: usize,
    place: usize,
    left: f64,
}

/// By definition.
fn reference(plans: &[Plan]) -> Vec<Told> {
    let mut now = 0.0;
    // Heads on their way: when, whose, where.
    let mut heads: Vec<(f64, usize, usize)> = (0..plans.len())
        .map(|index| (plans[index].begin as f64, index, 0))
        .collect();
    // By queue and flow, the messages in a subqueue.
    let mut subqueues: BTreeMap<(u32, usize), Vec<Held>> = BTreeMap::new();
    let mut told = vec![(0.0_f64, 0.0, 0.0); plans.len()];
    let key = |message: usize, place: usize| {
        let plan = &plans[message];
        let flow = plan.flow.map_or(message, |flow| 1000 + flow as usize);
        (plan.stops[place].resource.0, flow)
    };
    loop {
        let busy = |queue: u32| subqueues.keys().filter(|it| it.0 == queue).count() as f64;
        let rates: BTreeMap<(u32, usize), f64> = subqueues
            .keys()
            .map(|&key| (key, rate_of(key.0) / busy(key.0)))
            .collect();
        let next_head = heads
            .iter()
            .map(|head| head.0)
            .fold(f64::INFINITY, f64::min);
        let next_end = subqueues
            .iter()
            .map(|(key, held)| now + held[0].left / rates[key])
            .fold(f64::INFINITY, f64::min);
        let next = next_head.min(next_end);
        if next == f64::INFINITY {
            return told;
        }
        for (key, held) in &mut subqueues {
            held[0].left -= (next - now) * rates[key];
        }
        now = next;
        // Those whose service begins now: their heads go on.
        let mut begun = Vec::new();
        let keys: Vec<_> = subqueues.keys().copied().collect();
        for key in keys {
            let held = subqueues.get_mut(&key).map_or(&mut [][..], |held| held);
            if held[0].left > 1e-9 {
                continue;
            }
            let Held { message, place, .. } = held[0];
            let offset = plans[message].stops[place].offset.picoseconds() as f64;
            told[message].0 = told[message].0.max(now - offset);
            if place == 0 {
                told[message].1 = now;
            }
            if let Some(held) = subqueues.get_mut(&key) {
                held.remove(0);
                match held.first() {
                    Some(first) => begun.push((first.message, first.place)),
                    None => drop(subqueues.remove(&key)),
                }
            }
        }
        let (due, later): (Vec<_>, Vec<_>) = heads.iter().partition(|head| head.0 <= now);
        heads = later;
        for (_, message, place) in due {
            let held = subqueues.entry(key(message, place)).or_default();
            held.push(Held {
                message,
                place,
                left: work(&plans[message], place),
            });
            if held.len() == 1 {
                begun.push((message, place));
            }
        }
        for (message, place) in begun {
            let stops = &plans[message].stops;
            match stops.get(place + 1) {
                Some(next) => {
                    let hop = next.offset.saturating_sub(stops[place].offset);
                    heads.push((now + hop.picoseconds() as f64, message, place + 1));
                }
                None => told[message].2 = now,
            }
        }
    }
}

/// Steps of the reference of queues that serve what has come, picoseconds.
const STEP: usize = 1_000;

/// Of a message at a place, what it does in short steps.
struct Slow {
    /// When its service began, and when all was served; in steps.
    begun: Option<usize>,
    served: Option<usize>,
    /// What has been served after each step, as a part of the message.
    history: Vec<f64>,
}

/// By definition, in steps: in each, a queue shares what it can serve among those of which some has
/// come, and none gets more than that.
fn reference_of_arrived(plans: &[Plan]) -> Vec<Told> {
    let steps = |time: u64| time as usize / STEP;
    let hop = |message: usize, place: usize| -> usize {
        let offset = |place: usize| plans[message].stops[place].offset.picoseconds();
        steps(offset(place) - offset(place - 1))
    };
    let slow = || Slow {
        begun: None,
        served: None,
        history: Vec::new(),
    };
    let mut all: Vec<Vec<Slow>> = plans
        .iter()
        .map(|plan| plan.stops.iter().map(|_| slow()).collect())
        .collect();
    let mut step = 0;
    while all.iter().flatten().any(|place| place.served.is_none()) {
        let mut members: BTreeMap<u32, Vec<(usize, usize, f64)>> = BTreeMap::new();
        for (message, plan) in plans.iter().enumerate() {
            for place in 0..plan.stops.len() {
                // Of a flow the messages are served in the order in which they began.
                let is_free = (0..plans.len()).all(|other| {
                    let is_before = (plans[other].begin, other) < (plan.begin, message);
                    let is_same = plan.flow.is_some() && plans[other].flow == plan.flow;
                    !(is_before && is_same) || all[other][place].served.is_some()
                });
                let is_there = match place {
                    0 => steps(plan.begin) <= step,
                    _ => {
                        let begun = all[message][place - 1].begun;
                        begun.is_some_and(|begun| begun + hop(message, place) <= step)
                    }
                };
                let now = &mut all[message][place];
                if is_there && is_free && now.begun.is_none() {
                    now.begun = Some(step);
                }
                if now.begun.is_none() || now.served.is_some() {
                    continue;
                }
                let came = match place {
                    0 => 1.0,
                    _ => {
                        let before = step.checked_sub(hop(message, place));
                        let history = &all[message][place - 1].history;
                        let since = all[message][place - 1].begun.unwrap();
                        let index = before.unwrap().saturating_sub(since);
                        let last = history.last().copied().unwrap_or(0.0);
                        history.get(index).copied().unwrap_or(last)
                    }
                };
                let went = all[message][place].history.last().copied().unwrap_or(0.0);
                let bytes = (came - went) * work(plan, place);
                let queue = plan.stops[place].resource.0;
                members
                    .entry(queue)
                    .or_default()
                    .push((message, place, bytes));
            }
        }
        for (queue, mut members) in members {
            members.sort_by(|one, other| one.2.total_cmp(&other.2));
            let mut left = rate_of(queue) * STEP as f64;
            for index in 0..members.len() {
                let (message, place, waits) = members[index];
                let got = waits.min(left / (members.len() - index) as f64);
                left -= got;
                let place_of = &mut all[message][place];
                let went = place_of.history.last().copied().unwrap_or(0.0);
                let went = went + got / work(&plans[message], place);
                place_of.history.push(went);
                if went > 1.0 - 1e-9 {
                    place_of.served = Some(step + 1);
                }
            }
        }
        step += 1;
    }
    let time = |steps: usize| (steps * STEP) as f64;
    let told = |(plan, places): (&Plan, &Vec<Slow>)| {
        let ends = places.iter().zip(&plan.stops).map(|(place, stop)| {
            time(place.served.unwrap_or(0)) - stop.offset.picoseconds() as f64
        });
        let last = places.last().and_then(|place| place.begun);
        (
            ends.fold(0.0, f64::max),
            time(places[0].served.unwrap_or(0)),
            time(last.unwrap_or(0)),
        )
    };
    plans.iter().zip(&all).map(told).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn queues_do_what_the_rule_says(plans in plans()) {
        let mut queues = Queues::new((0..QUEUES).map(rate_of), QUEUES - 1);
        let (got, expected) = (told(&mut queues, &plans), reference(&plans));
        // Each departure is rounded to a picosecond, and shifts others by as little.
        let near = |got: f64, expected: f64| (got - expected).abs() <= 4.0 * plans.len() as f64;
        for (index, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let is_near = near(got.0, expected.0) && near(got.1, expected.1) && near(got.2, expected.2);
            prop_assert!(is_near, "message {index}: {got:?}, expected {expected:?}");
        }
    }
}

proptest! {
    // The reference is slow.
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn queues_that_serve_what_has_come_do_what_that_rule_says(plans in plans()) {
        let mut queues = Arrived::new((0..QUEUES).map(rate_of), QUEUES - 1);
        let (got, expected) = (told(&mut queues, &plans), reference_of_arrived(&plans));
        // Each event of the reference is late by up to a step, and shifts others by as much.
        let late = (2 * STEP * (plans.len() + 8)) as f64;
        let near = |got: f64, expected: f64| (got - expected).abs() <= late;
        for (index, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let is_near = near(got.0, expected.0) && near(got.1, expected.1) && near(got.2, expected.2);
            prop_assert!(is_near, "message {index}: {got:?}, expected {expected:?}");
        }
    }
}
