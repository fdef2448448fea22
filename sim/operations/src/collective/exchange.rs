//! Collectives in which all ranks do alike, step by step.

use super::plan::{Blocks, Plan, Use};
use crate::graph::GraphError;

/// Tells those 1, 2, 4, ... behind.
pub(super) fn dissemination(plan: &mut Plan, rank: u32) -> Result<(), GraphError> {
    let mut distance = 1;
    while distance < plan.ranks {
        plan.send(plan.behind(rank, distance), Blocks::one(0))?;
        plan.receive(plan.before(rank, distance), Blocks::one(0), Use::Add)?;
        plan.end_step();
        distance *= 2;
    }
    Ok(())
}

/// The largest power of two of ranks, of which each further one has a neighbour that stands for it.
struct Folded {
    /// Ranks beyond the power of two.
    more: u32,
    /// The power's exponent.
    steps: u32,
}

impl Folded {
    fn new(plan: &Plan) -> Self {
        let steps = plan.ranks.ilog2();
        let more = plan.ranks - (1 << steps);
        Self { more, steps }
    }

    /// The number of a rank among those of the power of two; none if another stands for it.
    fn number(&self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.more {
            return Some(rank - self.more);
        }
        (rank % 2 == 1).then_some(rank / 2)
    }

    /// The rank with a number.
    fn rank(&self, number: u32) -> u32 {
        match number < self.more {
            true => number * 2 + 1,
            false => number + self.more,
        }
    }

    /// A rank gives its vector to its neighbour, if that stands for it: the number to go on with.
    fn begin(&self, plan: &mut Plan, rank: u32, all: Blocks) -> Result<Option<u32>, GraphError> {
        let number = self.number(rank);
        if self.more == 0 {
            return Ok(number);
        }
        match number {
            None => plan.send(rank + 1, all)?,
            Some(number) if number < self.more => plan.receive(rank - 1, all, Use::Add)?,
            Some(_) => {}
        }
        plan.end_step();
        Ok(number)
    }

    /// It gets the result.
    fn end(&self, plan: &mut Plan, rank: u32, all: Blocks) -> Result<(), GraphError> {
        match self.number(rank) {
            None => plan.receive(rank + 1, all, Use::Place),
            Some(number) if number < self.more => plan.send(rank - 1, all),
            Some(_) => Ok(()),
        }
    }
}

pub(super) fn recursive_doubling(plan: &mut Plan, rank: u32) -> Result<(), GraphError> {
    let (folded, all) = (Folded::new(plan), Blocks::one(0));
    if let Some(number) = folded.begin(plan, rank, all)? {
        for step in 0..folded.steps {
            let peer = folded.rank(number ^ 1 << step);
            plan.send(peer, all)?;
            plan.receive(peer, all, Use::Add)?;
            plan.end_step();
        }
    } else {
        plan.skip(folded.steps);
    }
    folded.end(plan, rank, all)
}

pub(super) fn rabenseifner(plan: &mut Plan, rank: u32) -> Result<(), GraphError> {
    let folded = Folded::new(plan);
    let all = Blocks::From {
        first: 0,
        count: plan.blocks,
    };
    if let Some(number) = folded.begin(plan, rank, all)? {
        // Of `count` blocks from the number's first on, one half goes and the other is kept.
        for step in (0..folded.steps).rev() {
            let count = 1 << step;
            let peer = number ^ count;
            let half = |number: u32| Blocks::From {
                first: number & !(count - 1),
                count,
            };
            plan.send(folded.rank(peer), half(peer))?;
            plan.receive(folded.rank(peer), half(number), Use::Add)?;
            plan.end_step();
        }
        for step in 0..folded.steps {
            let count = 1 << step;
            let peer = number ^ count;
            let have = |number: u32| Blocks::From {
                first: number & !(count - 1),
                count,
            };
            plan.send(folded.rank(peer), have(number))?;
            plan.receive(folded.rank(peer), have(peer), Use::Place)?;
            plan.end_step();
        }
    } else {
        plan.skip(2 * folded.steps);
    }
    folded.end(plan, rank, all)
}

/// Ranks at equal distances that pass parts of the vector around.
struct Ring {
    /// The place of a rank among them, and how many they are.
    place: u32,
    size: u32,
    first_rank: u32,
    distance: u32,
    /// The part of the one at place 0 begins there, and each has so many blocks.
    first_block: u32,
    part_blocks: u32,
}

impl Ring {
    /// All ranks, each with a block.
    const fn of_all(plan: &Plan, rank: u32) -> Self {
        Self {
            place: rank,
            size: plan.ranks,
            first_rank: 0,
            distance: 1,
            first_block: 0,
            part_blocks: 1,
        }
    }

    /// The place so many before that of the rank.
    const fn before(&self, distance: u32) -> u32 {
        (self.place + self.size - distance % self.size) % self.size
    }

    /// The ranks behind and before.
    const fn neighbours(&self) -> (u32, u32) {
        let (behind, before) = ((self.place + 1) % self.size, self.before(1));
        let first = self.first_rank;
        (
            first + behind * self.distance,
            first + before * self.distance,
        )
    }

    const fn part(&self, place: u32) -> Blocks {
        Blocks::From {
            first: self.first_block + place * self.part_blocks,
            count: self.part_blocks,
        }
    }

    /// Sums go around: each rank ends with the part of its place.
    fn scatter(&self, plan: &mut Plan) -> Result<(), GraphError> {
        let (to, from) = self.neighbours();
        for step in 1..self.size {
            plan.send(to, self.part(self.before(step)))?;
            plan.receive(from, self.part(self.before(step + 1)), Use::Add)?;
            plan.end_step();
        }
        Ok(())
    }

    /// The part of each rank's place goes around.
    fn gather(&self, plan: &mut Plan) -> Result<(), GraphError> {
        let (to, from) = self.neighbours();
        for step in 1..self.size {
            plan.send(to, self.part(self.before(step - 1)))?;
            plan.receive(from, self.part(self.before(step)), Use::Place)?;
            plan.end_step();
        }
        Ok(())
    }
}

pub(super) fn scatter_ring(plan: &mut Plan, rank: u32) -> Result<(), GraphError> {
    Ring::of_all(plan, rank).scatter(plan)
}

pub(super) fn gather_ring(plan: &mut Plan, rank: u32) -> Result<(), GraphError> {
    Ring::of_all(plan, rank).gather(plan)
}

/// Groups of so many ranks; those with the same place in their groups are a rail.
pub(super) fn hierarchical(plan: &mut Plan, rank: u32, group_ranks: u32) -> Result<(), GraphError> {
    let groups = plan.ranks / group_ranks;
    let (group, place) = (rank / group_ranks, rank % group_ranks);
    let group_ring = Ring {
        place,
        size: group_ranks,
        first_rank: group * group_ranks,
        distance: 1,
        first_block: 0,
        part_blocks: groups,
    };
    // Of the part that the rank has then, each of its rail gets a block.
    let rail_ring = Ring {
        place: group,
        size: groups,
        first_rank: place,
        distance: group_ranks,
        first_block: place * groups,
        part_blocks: 1,
    };
    group_ring.scatter(plan)?;
    rail_ring.scatter(plan)?;
    rail_ring.gather(plan)?;
    group_ring.gather(plan)
}

/// All send what they have to the root.
pub(super) fn gather_direct(plan: &mut Plan, rank: u32) -> Result<(), GraphError> {
    if rank > 0 {
        return plan.send(0, Blocks::one(rank));
    }
    (1..plan.ranks).try_for_each(|from| plan.receive(from, Blocks::one(from), Use::Place))
}

/// The root sends to each what is for it.
pub(super) fn scatter_direct(plan: &mut Plan, rank: u32) -> Result<(), GraphError> {
    if rank > 0 {
        return plan.receive(0, Blocks::one(rank), Use::Place);
    }
    (1..plan.ranks).try_for_each(|to| plan.send(to, Blocks::one(to)))
}

/// After each step a rank has twice as many blocks, its own and those behind.
pub(super) fn gather_bruck(plan: &mut Plan, rank: u32) -> Result<(), GraphError> {
    let mut distance = 1;
    while distance < plan.ranks {
        let count = distance.min(plan.ranks - distance);
        let from = plan.behind(rank, distance);
        let blocks = |first| Blocks::From { first, count };
        plan.send(plan.before(rank, distance), blocks(rank))?;
        plan.receive(from, blocks(from), Use::Place)?;
        plan.end_step();
        distance *= 2;
    }
    Ok(())
}

pub(super) fn scatter_pairwise(plan: &mut Plan, rank: u32) -> Result<(), GraphError> {
    for distance in 1..plan.ranks {
        let to = plan.behind(rank, distance);
        plan.send(to, Blocks::one(to))?;
        let from = plan.before(rank, distance);
        plan.receive(from, Blocks::one(rank), Use::Add)?;
        plan.end_step();
    }
    Ok(())
}

/// Block b is what is for rank b. What comes from rank b has the same place in a buffer of its own.
pub(super) fn all_to_all_pairwise(plan: &mut Plan, rank: u32) -> Result<(), GraphError> {
    let is_power = plan.ranks.is_power_of_two();
    for step in 1..plan.ranks {
        let (to, from) = match is_power {
            true => (rank ^ step, rank ^ step),
            false => (plan.behind(rank, step), plan.before(rank, step)),
        };
        plan.send(to, Blocks::one(to))?;
        let bytes = plan.block_bytes(rank);
        plan.receive_bytes(from, Blocks::one(from), Use::Place, bytes)?;
        plan.end_step();
    }
    Ok(())
}

/// Block j is what has to go j further; in each step those go whose j has a bit.
pub(super) fn all_to_all_bruck(plan: &mut Plan, rank: u32) -> Result<(), GraphError> {
    let mut distance = 1;
    while distance < plan.ranks {
        let (to, from) = (plan.behind(rank, distance), plan.before(rank, distance));
        let blocks = Blocks::WithBit(distance);
        let bytes = |plan: &Plan, holder| {
            if plan.has_equal_blocks() {
                // Of each 2 d numbers the second d have the bit.
                let (whole, rest) = (plan.ranks / (2 * distance), plan.ranks % (2 * distance));
                let count = whole * distance + rest.saturating_sub(distance);
                return u64::from(count) * plan.block_bytes(0);
            }
            let target = |block| {
                // What has gone of its way before this step is below the bit.
                let source = plan.before(holder, block & (distance - 1));
                plan.behind(source, block)
            };
            let all = blocks.numbers(plan.ranks).into_iter();
            all.map(|block| plan.block_bytes(target(block))).sum()
        };
        let (sent, received) = (bytes(plan, rank), bytes(plan, from));
        plan.send_bytes(to, blocks, sent)?;
        plan.receive_bytes(from, blocks, Use::Place, received)?;
        plan.end_step();
        distance *= 2;
    }
    Ok(())
}
