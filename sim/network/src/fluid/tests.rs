//! Shares against a slow, obvious reference: at each event, all rates from their definition.

use proptest::prelude::*;
use viaduct_engine::{EventQueue, Time};

use super::{CROWD_MIN, FlowDemand, FlowId, Fluid, ResourceId, whole_above};
use crate::links::Sharing;

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrival(u32),
    FlowEnds(FlowId),
}

impl From<FlowId> for Event {
    fn from(flow: FlowId) -> Self {
        Self::FlowEnds(flow)
    }
}

#[derive(Clone, Debug)]
struct Plan {
    begin: u64,
    path: Vec<u32>,
    bytes: f64,
    rate_max: f64,
    scale: f64,
}

/// Resources 0..LINKS are links, the rest buses.
const LINKS: u32 = 6;
const RESOURCES: u32 = 9;

fn rate_of(resource: u32) -> f64 {
    [1.0, 1.0, 0.5, 2.0, 1.0, 0.25, 1.0, 0.6, 3.0][resource as usize] * 1e-4
}

fn plan() -> impl Strategy<Value = Plan> {
    (
        // Some begin in one instant.
        prop_oneof![
            (0_u64..4).prop_map(|step| step * 9_000_000),
            0_u64..40_000_000
        ],
        prop::sample::subsequence((0..RESOURCES).collect::<Vec<_>>(), 1..6),
        1_u32..4000,
        prop_oneof![3 => Just(f64::INFINITY), 1 => 1e-5..2e-4],
        prop_oneof![2 => Just(1.0), 1 => 1.0..1.3],
    )
        .prop_map(|(begin, path, bytes, rate_max, scale)| Plan {
            begin,
            path,
            bytes: f64::from(bytes),
            rate_max,
            scale,
        })
}

/// A plan that crosses link 1, over a resource of its own or one that others cross.
fn crowding_plan() -> impl Strategy<Value = Plan> {
    (plan(), 0_u32..12).prop_map(|(plan, own)| Plan {
        path: match own {
            9 => plan.path,
            own if own == 1 || own > 9 => vec![1],
            own => vec![1, own],
        },
        rate_max: if own == 3 {
            plan.rate_max
        } else {
            f64::INFINITY
        },
        ..plan
    })
}

/// When each flow ends, by the code under test.
fn ends(sharing: Sharing, plans: &[Plan]) -> Vec<f64> {
    ends_in_crowds(sharing, plans, CROWD_MIN)
}

/// The same, where so many flows on a link are a crowd.
fn ends_in_crowds(sharing: Sharing, plans: &[Plan], crowd_min: u32) -> Vec<f64> {
    let mut queue = EventQueue::new();
    let mut fluid = Fluid::new(sharing, (0..RESOURCES).map(rate_of), LINKS);
    fluid.crowd_min = crowd_min;
    for (index, plan) in plans.iter().enumerate() {
        queue.schedule(
            Time::from_picoseconds(plan.begin),
            Event::Arrival(index as u32),
        );
    }
    let mut ends = vec![0.0; plans.len()];
    while let Some((now, event)) = queue.pop() {
        match event {
            Event::Arrival(index) => {
                let plan = &plans[index as usize];
                let path: Vec<ResourceId> = plan.path.iter().map(|&r| ResourceId(r)).collect();
                let demand = FlowDemand {
                    wire_bytes: plan.bytes,
                    scale: plan.scale,
                    rate_max: plan.rate_max,
                    tag: index,
                };
                fluid.begin(&mut queue, &path, demand);
            }
            Event::FlowEnds(flow) => {
                let index = fluid.end(&mut queue, flow);
                ends[index as usize] = now.picoseconds() as f64;
            }
        }
        fluid.settle(&mut queue);
        for resource in 0..RESOURCES {
            assert!(fluid.active_on(ResourceId(resource)) <= plans.len() as u32);
        }
    }
    fluid.credit_all(queue.now());
    for resource in 0..RESOURCES {
        let expected: f64 = plans
            .iter()
            .filter(|plan| plan.path.contains(&resource))
            .map(|plan| plan.bytes / if resource >= LINKS { plan.scale } else { 1.0 })
            .sum();
        let carried = fluid.carried(ResourceId(resource));
        assert!(
            (carried - expected).abs() < 1e-6 * expected.max(1.0),
            "{carried} {expected}"
        );
    }
    ends
}

fn scale_on(plan: &Plan, resource: u32) -> f64 {
    if resource >= LINKS { plan.scale } else { 1.0 }
}

/// The coupled rule: the smallest of C/n over the path, and no more than the flow's own limit.
fn fluid_rates(plans: &[Plan], active: &[usize]) -> Vec<f64> {
    let members = |resource: &u32| {
        active
            .iter()
            .filter(|&&index| plans[index].path.contains(resource))
            .count() as f64
    };
    active
        .iter()
        .map(|&index| {
            let plan = &plans[index];
            plan.path
                .iter()
                .map(|resource| rate_of(*resource) / members(resource) * scale_on(plan, *resource))
                .fold(plan.rate_max, f64::min)
        })
        .collect()
}

/// Max-min: all rates rise together, in bytes on the link, until something holds.
fn max_min_rates(plans: &[Plan], active: &[usize]) -> Vec<f64> {
    let mut rates = vec![None; active.len()];
    let mut left: Vec<f64> = (0..RESOURCES).map(rate_of).collect();
    while rates.contains(&None) {
        // Bytes on a resource when each open flow moves one on the link.
        let open = |resource: u32| -> f64 {
            active
                .iter()
                .zip(&rates)
                .filter(|&(&index, rate)| rate.is_none() && plans[index].path.contains(&resource))
                .map(|(&index, _)| 1.0 / scale_on(&plans[index], resource))
                .sum()
        };
        let mut level = f64::INFINITY;
        for resource in 0..RESOURCES {
            if open(resource) > 0.0 {
                level = level.min(left[resource as usize] / open(resource));
            }
        }
        for (&index, rate) in active.iter().zip(&rates) {
            if rate.is_none() {
                level = level.min(plans[index].rate_max);
            }
        }
        let held: Vec<usize> = active
            .iter()
            .enumerate()
            .filter(|&(place, &index)| {
                rates[place].is_none()
                    && (plans[index].rate_max <= level * (1.0 + 1e-12)
                        || plans[index].path.iter().any(|&resource| {
                            left[resource as usize] / open(resource) <= level * (1.0 + 1e-12)
                        }))
            })
            .map(|(place, _)| place)
            .collect();
        for place in held {
            rates[place] = Some(level);
            for &resource in &plans[active[place]].path {
                left[resource as usize] -= level / scale_on(&plans[active[place]], resource);
            }
        }
    }
    rates.into_iter().flatten().collect()
}

/// When each flow ends, by working out everything again at each event.
fn reference_ends(plans: &[Plan], rates_of: fn(&[Plan], &[usize]) -> Vec<f64>) -> Vec<f64> {
    let mut waiting: Vec<usize> = (0..plans.len()).collect();
    waiting.sort_by_key(|&index| core::cmp::Reverse((plans[index].begin, index)));
    let mut active: Vec<usize> = Vec::new();
    let mut remaining: Vec<f64> = plans.iter().map(|plan| plan.bytes).collect();
    let mut ends = vec![0.0; plans.len()];
    let mut now = 0.0;
    while !waiting.is_empty() || !active.is_empty() {
        let rates = rates_of(plans, &active);
        let next_end = active
            .iter()
            .zip(&rates)
            .map(|(&index, rate)| (now + remaining[index] / rate, index))
            .min_by(|a, b| a.partial_cmp(b).unwrap());
        let next_begin = waiting
            .last()
            .map(|&index| (plans[index].begin as f64, index));
        let begins = match (next_begin, next_end) {
            (Some((begin, _)), Some((end, _))) => begin < end,
            (Some(_), None) => true,
            _ => false,
        };
        let (next, index) = if begins {
            next_begin.unwrap()
        } else {
            next_end.unwrap()
        };
        for (&flow, rate) in active.iter().zip(&rates) {
            remaining[flow] -= rate * (next - now);
        }
        now = next;
        if begins {
            waiting.pop();
            active.push(index);
        } else {
            active.retain(|&flow| flow != index);
            ends[index] = now;
        }
    }
    ends
}

fn compare(ends: &[f64], reference: &[f64]) -> Result<(), TestCaseError> {
    for (index, (ours, exact)) in ends.iter().zip(reference).enumerate() {
        // Each event rounds to a picosecond; what a rounding shifts can add up over the events.
        let allowed = 2.0 * ends.len() as f64 + exact * 1e-9;
        prop_assert!(
            (ours - exact).abs() <= allowed,
            "flow {} ends at {} ps, should at {} ps",
            index,
            ours,
            exact
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn fluid_shares_equal_the_reference(plans in prop::collection::vec(plan(), 1..30)) {
        compare(&ends(Sharing::Fluid, &plans), &reference_ends(&plans, fluid_rates))?;
    }

    #[test]
    fn max_min_shares_equal_the_reference(plans in prop::collection::vec(plan(), 1..30)) {
        compare(&ends(Sharing::MaxMin, &plans), &reference_ends(&plans, max_min_rates))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn crowds_equal_the_reference(
        plans in prop::collection::vec(crowding_plan(), 1..40),
        crowd_min in 2_u32..6,
    ) {
        let fluid = ends_in_crowds(Sharing::Fluid, &plans, crowd_min);
        compare(&fluid, &reference_ends(&plans, fluid_rates))?;
        let max_min = ends_in_crowds(Sharing::MaxMin, &plans, crowd_min);
        compare(&max_min, &reference_ends(&plans, max_min_rates))?;
    }
}

/// Flows from links of their own over one that all cross, and a new one for each that ends.
#[test]
fn a_crowd_has_one_event() {
    const FLOWS: u32 = 200;

    for sharing in [Sharing::Fluid, Sharing::MaxMin] {
        let mut queue = EventQueue::<Event>::new();
        let mut fluid = Fluid::new(sharing, (0..=FLOWS).map(|_| 1e-4), FLOWS + 1);
        let demand = |tag| FlowDemand {
            wire_bytes: 1000.0 + f64::from(tag % 97),
            scale: 1.0,
            rate_max: f64::INFINITY,
            tag,
        };
        let path = |tag| [ResourceId(1 + tag % FLOWS), ResourceId(0)];
        for tag in 0..FLOWS {
            fluid.begin(&mut queue, &path(tag), demand(tag));
        }
        fluid.settle(&mut queue);
        for _ in 0..9 * FLOWS {
            let Some((_, Event::FlowEnds(flow))) = queue.pop() else {
                panic!("flows end");
            };
            // The next takes the place of the one that ended.
            let tag = fluid.end(&mut queue, flow) + FLOWS;
            fluid.begin(&mut queue, &path(tag), demand(tag));
            fluid.settle(&mut queue);
        }
        assert_eq!(fluid.active_on(ResourceId(0)), FLOWS);
        assert_eq!(queue.pending(), 1, "{sharing:?}");
    }
}

#[test]
fn two_flows_share_a_link_in_half() {
    let flow = |begin| Plan {
        begin,
        path: vec![0],
        bytes: 1000.0,
        rate_max: f64::INFINITY,
        scale: 1.0,
    };
    // 1000 bytes at 1e-4 bytes a picosecond take 10 us alone, 20 us in halves.
    assert_eq!(ends(Sharing::Fluid, &[flow(0), flow(0)]), [20e6, 20e6]);
    // The second begins half-way: the first has 500 bytes left at half the rate.
    assert_eq!(
        ends(Sharing::Fluid, &[flow(0), flow(5_000_000)]),
        [15e6, 20e6]
    );
}

#[test]
fn an_unused_share_is_lost_or_handed_on() {
    // Resource 2 has half the rate of resource 0, which both flows cross.
    let slow = Plan {
        begin: 0,
        path: vec![0, 2],
        bytes: 250.0,
        rate_max: 0.25e-4,
        scale: 1.0,
    };
    let fast = Plan {
        begin: 0,
        path: vec![0],
        bytes: 500.0,
        rate_max: f64::INFINITY,
        scale: 1.0,
    };
    let plans = [slow, fast];
    assert_eq!(ends(Sharing::Fluid, &plans), [10e6, 10e6]);
    let max_min = ends(Sharing::MaxMin, &plans);
    assert_eq!(max_min[0], 10e6);
    assert!((max_min[1] - 500.0 / 0.75e-4).abs() <= 1.0, "{max_min:?}");
}

#[test]
fn a_short_transaction_holds_up_whom_the_bus_limits() {
    let mut queue = EventQueue::<Event>::new();
    let mut fluid = Fluid::new(Sharing::Fluid, (0..RESOURCES).map(rate_of), LINKS);
    let demand = FlowDemand {
        wire_bytes: 1000.0,
        scale: 1.0,
        rate_max: f64::INFINITY,
        tag: 0,
    };
    // Bus 6 is the limit of the first flow, link 5 that of the second.
    fluid.begin(&mut queue, &[ResourceId(0), ResourceId(6)], demand);
    fluid.begin(&mut queue, &[ResourceId(5), ResourceId(8)], demand);
    fluid.hold_up(&mut queue, ResourceId(6), Time::from_microseconds(1));
    fluid.hold_up(&mut queue, ResourceId(8), Time::from_microseconds(1));
    assert_eq!(
        queue.pop().map(|(time, _)| time),
        Some(Time::from_microseconds(11))
    );
    assert_eq!(
        queue.pop().map(|(time, _)| time),
        Some(Time::from_microseconds(40))
    );
}

/// With max-min shares a flow that is held by one crowd's link leaves some of another's.
#[test]
fn no_flow_rides_over_the_link_of_another_crowd() {
    let plan = |begin, path: &[u32], bytes| Plan {
        begin,
        path: path.to_vec(),
        bytes,
        rate_max: f64::INFINITY,
        scale: 1.0,
    };
    let plans = [
        plan(0, &[1, 0], 1000.0),
        plan(0, &[1, 4], 1000.0),
        plan(0, &[1], 1000.0),
        plan(0, &[1], 1000.0),
        plan(0, &[3], 1000.0),
        plan(0, &[3], 1000.0),
        plan(2_000_000, &[1, 3], 100.0),
    ];
    let reference = reference_ends(&plans, max_min_rates);
    compare(&ends_in_crowds(Sharing::MaxMin, &plans, 2), &reference).unwrap();
}

#[test]
fn what_has_nothing_to_move_takes_a_picosecond_in_any_company() {
    let plan = |begin, bytes| Plan {
        begin,
        path: vec![0],
        bytes,
        rate_max: f64::INFINITY,
        scale: 1.0,
    };
    for sharing in [Sharing::Fluid, Sharing::MaxMin] {
        let plans = [plan(0, 0.0), plan(0, 0.0), plan(0, 1000.0), plan(1, 0.0)];
        let ends = ends(sharing, &plans);
        assert_eq!([ends[0], ends[1], ends[3]], [1.0, 1.0, 2.0], "{sharing:?}");
    }
}

/// Near whole numbers, halves and the places where the numbers of this type become sparse.
#[test]
fn the_least_whole_number_that_is_not_below_is_that() {
    for exponent in -60..70 {
        for factor in [1.0, 1.5, 1.75, 3.0, 2.0 + f64::EPSILON, 1.0 - f64::EPSILON] {
            let number = factor * 2.0_f64.powi(exponent);
            for number in [number.next_down(), number, number.next_up(), number + 0.5] {
                assert_eq!(whole_above(number), number.ceil() as u64, "{number}");
                assert_eq!(whole_above(-number), 0, "{number}");
            }
        }
    }
    assert_eq!(whole_above(f64::INFINITY), u64::MAX);
    assert_eq!(whole_above(f64::NAN), 0);
}
