//! A trace as a graph: each step in its turn, each collective by its algorithm.

use core::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use super::pairing::Pairing;
use super::{
    LISTED_TAG, MESSAGES, Options, StepName, Steps, TAGS_END, Together, Trace, TraceError, Work,
};
use crate::collective::{self, Algorithm, Request, block_bytes};
use crate::graph::{ANY, After, Builder, Graph, GraphError, Kind, Operation};

pub(super) fn graph(trace: &Trace, options: &Options) -> Result<Graph, TraceError> {
    let orders = orders(trace)?;
    let pairing = Pairing::of(trace, &orders)?;
    let busiest = trace.ranks.iter().flat_map(|steps| steps.all());
    let busiest = busiest.map(|work| match work {
        Work::Compute { processor, .. } | Work::Count { processor, .. } => processor,
        _ => MESSAGES,
    });
    let joining = busiest.max().unwrap_or(MESSAGES).saturating_add(1);
    let mut builder = Builder::new(trace.ranks.len() as u32);
    builder.end_any_tag_at(LISTED_TAG);
    builder.call_lines(trace.step_word);
    if trace.receives_are_limits {
        builder.have_receives_be_limits();
    }
    let mut expansion = Expansion {
        trace,
        options,
        pairing,
        builder,
        has_lines: has_lines(trace),
        joining,
        done: vec![0; trace.groups.len()],
        last: vec![None; trace.groups.len()],
    };
    for (rank, order) in (0..).zip(&orders) {
        expansion.add_rank(rank, order)?;
    }
    Ok(expansion.builder.finish())
}

/// Whether steps have numbers in a file, all of which a graph can keep.
fn has_lines(trace: &Trace) -> bool {
    let largest = trace.ranks.iter().flat_map(|steps| &steps.numbers).max();
    trace.step_word != "step" && largest.is_some_and(|it| u32::try_from(*it).is_ok())
}

pub(super) fn step_name(trace: &Trace, rank: u32, place: u32) -> StepName {
    let (number, name) = trace.ranks[rank as usize].name(place);
    StepName {
        rank,
        word: trace.step_word,
        number,
        name: name.to_owned(),
    }
}

/// The steps of each rank in an order that their dependencies allow.
fn orders(trace: &Trace) -> Result<Vec<Arc<Vec<u32>>>, TraceError> {
    let mut orders: Vec<Arc<Vec<u32>>> = Vec::with_capacity(trace.ranks.len());
    for (rank, steps) in trace.ranks.iter().enumerate() {
        let before = rank.checked_sub(1).map(|before| &trace.ranks[before]);
        if before.is_some_and(|before| Arc::ptr_eq(before, steps)) {
            orders.push(Arc::clone(&orders[rank - 1]));
            continue;
        }
        let order = order(steps).map_err(|ring| {
            let names = ring.into_iter();
            TraceError::Ring(names.map(|it| step_name(trace, rank as u32, it)).collect())
        })?;
        orders.push(Arc::new(order));
    }
    Ok(orders)
}

/// An order of steps, or a ring of them.
fn order(steps: &Steps) -> Result<Vec<u32>, Vec<u32>> {
    let count = steps.len() as u32;
    let mut open = vec![0_u32; count as usize];
    let mut waiters: Vec<Vec<u32>> = vec![Vec::new(); count as usize];
    for place in 0..count {
        for need in steps.needs(place) {
            waiters[*need as usize].push(place);
            open[place as usize] += 1;
        }
    }
    let is_free = |place: &u32| open[*place as usize] == 0;
    let mut free: BinaryHeap<Reverse<u32>> = (0..count).filter(is_free).map(Reverse).collect();
    let mut order = Vec::with_capacity(count as usize);
    while let Some(Reverse(place)) = free.pop() {
        order.push(place);
        for waiter in core::mem::take(&mut waiters[place as usize]) {
            open[waiter as usize] -= 1;
            if open[waiter as usize] == 0 {
                free.push(Reverse(waiter));
            }
        }
    }
    match (0..count).find(|place| open[*place as usize] > 0) {
        None => Ok(order),
        Some(left) => Err(ring(steps, &open, left)),
    }
}

/// Each that is left waits for another that is left: that way lies a ring.
fn ring(steps: &Steps, open: &[u32], first: u32) -> Vec<u32> {
    let (mut way, mut seen) = (vec![first], BTreeSet::from([first]));
    loop {
        let present = way[way.len() - 1];
        let mut needs = steps.needs(present).iter();
        let next = needs.find(|need| open[**need as usize] > 0);
        let Some(next) = next.copied() else {
            return way;
        };
        if !seen.insert(next) {
            let begin = way.iter().position(|it| *it == next).unwrap_or(0);
            return way.split_off(begin);
        }
        way.push(next);
    }
}

struct Expansion<'a> {
    trace: &'a Trace,
    options: &'a Options,
    pairing: Pairing,
    builder: Builder,
    /// Whether operations are told by the number that their step has in its file.
    has_lines: bool,
    /// A processor on which nothing takes any time: what has several ends gets one there.
    joining: u8,
    /// By group, how many collectives the present rank has done, and the end of the last one.
    done: Vec<u32>,
    last: Vec<Option<u32>>,
}

impl Expansion<'_> {
    fn add_rank(&mut self, rank: u32, order: &[u32]) -> Result<(), TraceError> {
        self.done.fill(0);
        self.last.fill(None);
        let steps = &self.trace.ranks[rank as usize];
        // The operation with which each step ends.
        let mut ends = vec![0_u32; steps.len()];
        let mut needs = Vec::new();
        for place in order.iter().copied() {
            needs.clear();
            needs.extend(steps.needs(place).iter().map(|need| ends[*need as usize]));
            let (number, name) = steps.name(place);
            if self.has_lines {
                self.builder.at_line(number as u32);
            }
            self.builder.set_label(name);
            let added = match steps.work(place) {
                Work::Together(together) => {
                    self.add_collective(rank, place, together, &mut needs)?
                }
                work => self.add_one(rank, place, work, &needs)?,
            };
            ends[place as usize] = added;
        }
        self.builder.next_rank();
        Ok(())
    }

    fn name(&self, rank: u32, place: u32) -> StepName {
        step_name(self.trace, rank, place)
    }

    fn add_one(
        &mut self,
        rank: u32,
        place: u32,
        work: Work,
        needs: &[u32],
    ) -> Result<u32, TraceError> {
        let operation = match work {
            Work::Compute {
                nanoseconds,
                processor,
            } => Operation {
                processor,
                ..Operation::compute(scaled(nanoseconds, self.options.compute_scale))
            },
            Work::Count {
                operations,
                processor,
            } => {
                let each_second = self.options.operations_per_second;
                let time = each_second.map_or(0.0, |rate| operations as f64 / rate * 1e9);
                let nanoseconds = scaled(time.round() as u64, self.options.compute_scale);
                Operation {
                    processor,
                    ..Operation::compute(nanoseconds)
                }
            }
            Work::Send { tag, .. } if tag >= TAGS_END => {
                return Err(TraceError::Tag(self.name(rank, place)));
            }
            Work::Receive { tag, .. } if tag >= TAGS_END && tag != ANY => {
                return Err(TraceError::Tag(self.name(rank, place)));
            }
            Work::Send { bytes, to, tag } => Operation::send(bytes, to).tagged(tag),
            Work::Receive { bytes, from, tag } => Operation::receive(bytes, from).tagged(tag),
            Work::Together(_) => self.join(),
        };
        let added = self.add(operation, needs);
        added.map_err(|error| TraceError::Graph(self.name(rank, place), error))
    }

    fn add(&mut self, operation: Operation, needs: &[u32]) -> Result<u32, GraphError> {
        let added = self.builder.add(operation)?;
        for need in needs {
            self.builder.require(added, *need, After::End)?;
        }
        Ok(added)
    }

    /// What takes no time and ends when all that it waits for has ended.
    const fn join(&self) -> Operation {
        Operation {
            processor: self.joining,
            ..Operation::compute(0)
        }
    }

    /// The part of a rank in a collective of a group.
    fn add_collective(
        &mut self,
        rank: u32,
        place: u32,
        together: Together,
        needs: &mut Vec<u32>,
    ) -> Result<u32, TraceError> {
        let Together {
            collective,
            bytes,
            group,
            root,
        } = together;
        let members = &self.trace.groups[group as usize].members;
        let Some(member) = members.iter().position(|it| *it == rank) else {
            return Err(TraceError::NoMember {
                step: self.name(rank, place),
                group: self.trace.groups[group as usize].name.clone(),
                members: members.clone(),
            });
        };
        let request = Request {
            algorithm: self.options.algorithm(collective),
            pieces: self.options.pieces,
            group_ranks: self.options.group_ranks,
            reduce_bytes_per_second: self.options.reduce_bytes_per_second,
            root,
            ..Request::usual(collective, members.len() as u32, bytes)
        };
        let part = collective::of_rank(&request, member as u32)
            .map_err(|error| TraceError::Collective(self.name(rank, place), error))?;
        let number = self.pairing.number(group, self.done[group as usize]);
        if self.pairing.is_unequal(number) && request.algorithm != Algorithm::Pairwise {
            return Err(TraceError::Unequal {
                step: self.name(rank, place),
                algorithm: request.algorithm,
            });
        }
        self.done[group as usize] += 1;
        needs.extend(self.last[group as usize]);
        let added = self.add_part(&part, (members, member as u32), number, needs);
        let end = added.map_err(|error| TraceError::Graph(self.name(rank, place), error))?;
        self.last[group as usize] = Some(end);
        Ok(end)
    }

    fn add_part(
        &mut self,
        part: &Graph,
        (members, member): (&[u32], u32),
        number: u32,
        needs: &[u32],
    ) -> Result<u32, GraphError> {
        let mut waits = vec![0_u32; part.len()];
        let mut last = Vec::new();
        for (id, _) in part.operations() {
            let mut is_last = true;
            for (waiter, _) in part.waiters(id) {
                waits[waiter as usize] += 1;
                is_last = false;
            }
            if is_last {
                last.push(id);
            }
        }
        let begins = waits.iter().filter(|waits| **waits == 0).count();
        let mut needs = needs.to_vec();
        if needs.len() > 1 && begins > 1 {
            needs = vec![self.add(self.join(), &needs)?];
        }
        let begin = self.builder.len();
        for ((_, operation), waits) in part.operations().zip(&waits) {
            let peer = members.get(operation.peer as usize).copied();
            let peer = peer.unwrap_or(operation.peer);
            let operation = match operation.kind {
                Kind::Compute => operation,
                Kind::Send | Kind::Receive => Operation {
                    peer,
                    amount: match self.pairing.bytes_of(number, peer) {
                        // What comes is the sender's share for this member.
                        Some(bytes) if operation.kind == Kind::Receive => {
                            block_bytes(bytes, members.len() as u32, member)
                        }
                        _ => operation.amount,
                    },
                    // A collective has four tags at most.
                    tag: TAGS_END | number << 2 | operation.tag,
                    ..operation
                },
            };
            let needs: &[u32] = if *waits == 0 { &needs } else { &[] };
            self.add(operation, needs)?;
        }
        for (id, _) in part.operations() {
            for (waiter, after) in part.waiters(id) {
                self.builder.require(begin + waiter, begin + id, after)?;
            }
        }
        match last[..] {
            [] => self.add(self.join(), &needs),
            [last] => Ok(begin + last),
            _ => {
                let last: Vec<u32> = last.into_iter().map(|id| begin + id).collect();
                self.add(self.join(), &last)
            }
        }
    }
}

/// A time multiplied, to the nearest nanosecond.
fn scaled(nanoseconds: u64, scale: f64) -> u64 {
    match scale == 1.0 {
        true => nanoseconds,
        // What is negative or too large ends at the ends of the range.
        false => (nanoseconds as f64 * scale).round() as u64,
    }
}
