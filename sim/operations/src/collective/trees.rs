//! Collectives along trees.

use super::plan::{Blocks, Plan, Use};
use crate::graph::GraphError;

/// Of a rank: the one above it, and those below, whose parts of the tree are the largest first.
fn binomial(ranks: u32, rank: u32) -> (Option<u32>, Vec<u32>) {
    let bits = rank.checked_ilog2().map_or(0, |highest| highest + 1);
    let above = (rank > 0).then(|| rank - (1 << (bits - 1)));
    let below = (bits..u32::BITS).map(|bit| u64::from(rank) + (1 << bit));
    let below = below.take_while(|it| *it < u64::from(ranks));
    (above, below.map(|it| it as u32).collect())
}

/// In which round of a broadcast a rank tells one below it.
fn round_between(above: u32, below: u32) -> u32 {
    (below - above).ilog2() + 1
}

pub(super) fn broadcast(plan: &mut Plan, rank: u32) -> Result<(), GraphError> {
    let (above, below) = binomial(plan.ranks, rank);
    if let Some(above) = above {
        plan.in_round(round_between(above, rank));
        plan.receive(above, Blocks::one(0), Use::Place)?;
        plan.end_step();
    }
    for to in below {
        plan.in_round(round_between(rank, to));
        plan.send(to, Blocks::one(0))?;
    }
    Ok(())
}

pub(super) fn reduce(plan: &mut Plan, rank: u32) -> Result<(), GraphError> {
    let (above, below) = binomial(plan.ranks, rank);
    // A broadcast backwards.
    let rounds = plan.ranks.next_power_of_two().ilog2();
    for from in below.into_iter().rev() {
        plan.in_round(rounds + 1 - round_between(rank, from));
        plan.receive(from, Blocks::one(0), Use::Add)?;
    }
    plan.end_step();
    match above {
        Some(above) => {
            plan.in_round(rounds + 1 - round_between(above, rank));
            plan.send(above, Blocks::one(0))
        }
        None => Ok(()),
    }
}

/// A rank's place in a binary tree.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) above: Option<u32>,
    pub(super) below: Vec<u32>,
}

/// The place of a rank in the first or second tree.
///
/// Ranks stand in order in the tree, counted from 1: odd numbers are its leaves. The second tree is
/// the first one mirrored, or moved on by one where the number of ranks is odd, so that the
/// leaves of one are the inner nodes of the other.
pub(super) fn binary(ranks: u32, rank: u32, is_second: bool) -> Place {
    let is_even = ranks.is_multiple_of(2);
    // Both ways of the second tree are their own kind of inverse, up to the direction.
    let number_of = |rank: u32| match (is_second, is_even) {
        (false, _) => rank + 1,
        (true, true) => ranks - rank,
        (true, false) => (rank + 1) % ranks + 1,
    };
    let rank_of = |number: u32| match (is_second, is_even) {
        (false, _) => number - 1,
        (true, true) => ranks - number,
        (true, false) => (number + ranks - 2) % ranks,
    };
    let number = number_of(rank);
    // The root of the numbers above `low`, that has a part of up to `width - 1` to either side.
    let root = |low: u32, width: u32| {
        let mut width = width;
        while width > 0 && low + width > ranks {
            width /= 2;
        }
        (width > 0).then_some((low + width, width))
    };
    let mut place = Place::default();
    let (mut at, mut width) = (1 << ranks.ilog2(), 1 << ranks.ilog2());
    loop {
        let left = (width > 1).then_some((at - width / 2, width / 2));
        let right = root(at, width / 2);
        if at == number {
            let below = [left, right].into_iter().flatten();
            place.below = below.map(|(number, _)| rank_of(number)).collect();
            return place;
        }
        place.above = Some(rank_of(at));
        let next = if number < at { left } else { right };
        match next {
            Some(next) => (at, width) = next,
            // Every number is in the tree.
            None => return place,
        }
    }
}

/// Tags of messages up and down the two trees.
const TAGS: [[u32; 2]; 2] = [[0, 1], [2, 3]];

pub(super) fn double_tree(plan: &mut Plan, rank: u32) -> Result<(), GraphError> {
    let places = [false, true].map(|is_second| binary(plan.ranks, rank, is_second));
    let pieces = plan.blocks / 2;
    for piece in 0..pieces {
        for (tree, place) in (0..).zip(&places) {
            plan.set_label(&format!("piece {} of tree {}", piece + 1, tree + 1));
            let block = tree * pieces + piece;
            let [up, down] = TAGS[tree as usize];
            let mut there = Vec::new();
            for from in &place.below {
                there.push(plan.take(*from, block, up, Use::Add)?);
            }
            if let Some(above) = place.above {
                plan.pass_on(above, block, up, &there)?;
                there = vec![plan.take(above, block, down, Use::Place)?];
            }
            for to in &place.below {
                plan.pass_on(*to, block, down, &there)?;
            }
        }
    }
    Ok(())
}
