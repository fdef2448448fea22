//! Collective operations by name, as graphs: who sends what to whom, in which order.
//!
//! | collective | algorithms |
//! |---|---|
//! | barrier | dissemination (Hensgen, Finkel, Manber 1988) |
//! | broadcast, reduce | binomial tree |
//! | gather, scatter | direct: the root and each other one |
//! | all-reduce | ring; recursive doubling; Rabenseifner; double tree (Sanders); hierarchical |
//! | all-gather | ring; Bruck |
//! | reduce-scatter | ring; pairwise |
//! | all-to-all | pairwise; Bruck (Bruck and others 1997) |
//!
//! What they cost is in Thakur, Rabenseifner, Gropp, Optimization of Collective Communication
//! Operations in MPICH, IJHPCA 19(1) 2005. What a reduction computes takes the time that
//! [`Request::reduce_bytes_per_second`] says, after each message that is added up.
//!
//! The steps of a rank are blocking, as in `MPI_Sendrecv`: the sends and receives of one begin when
//! those of the one before have ended. The double tree is a pipeline: its receives are posted at
//! once, and a piece is passed on as soon as it is there.

mod exchange;
mod plan;
#[cfg(test)]
mod tests;
mod trees;

use core::fmt;

use thiserror::Error;

use crate::graph::{Graph, GraphError};
use plan::Plan;

/// Most ranks of a collective.
pub const RANKS_MAX: u32 = 1 << 24;

/// What ranks do together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Collective {
    /// Nobody goes on before all have come.
    Barrier,
    /// All get what the root has.
    Broadcast,
    /// The root gets the sum over all.
    Reduce,
    /// The root gets what each has.
    Gather,
    /// Each gets from the root what that has for it.
    Scatter,
    /// All get the sum over all.
    AllReduce,
    /// All get what each has.
    AllGather,
    /// Each gets its part of the sum over all.
    ReduceScatter,
    /// Each gets from each what that has for it.
    AllToAll,
}

impl Collective {
    /// All that there are.
    pub const ALL: [Self; 9] = [
        Self::Barrier,
        Self::Broadcast,
        Self::Reduce,
        Self::Gather,
        Self::Scatter,
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
    ];

    /// Its name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::AllReduce => "all-reduce",
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllToAll => "all-to-all",
        }
    }

    /// How it can be done, the usual way first.
    #[must_use]
    pub const fn algorithms(self) -> &'static [Algorithm] {
        match self {
            Self::Barrier => &[Algorithm::Dissemination],
            Self::Broadcast | Self::Reduce => &[Algorithm::Binomial],
            Self::Gather | Self::Scatter => &[Algorithm::Direct],
            Self::AllReduce => &[
                Algorithm::Ring,
                Algorithm::RecursiveDoubling,
                Algorithm::Rabenseifner,
                Algorithm::DoubleTree,
                Algorithm::Hierarchical,
            ],
            Self::AllGather => &[Algorithm::Ring, Algorithm::Bruck],
            Self::ReduceScatter => &[Algorithm::Ring, Algorithm::Pairwise],
            Self::AllToAll => &[Algorithm::Pairwise, Algorithm::Bruck],
        }
    }

    /// Whether one of its ranks is another than the rest.
    #[must_use]
    pub const fn has_root(self) -> bool {
        matches!(
            self,
            Self::Broadcast | Self::Reduce | Self::Gather | Self::Scatter
        )
    }

    /// What NCCL's tests multiply bytes over time by to get the bus bandwidth: what each rank's
    /// link has to carry at least, over the bytes. Of a barrier 0.
    #[must_use]
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let others = f64::from(ranks.saturating_sub(1)) / f64::from(ranks.max(1));
        match self {
            Self::Barrier => 0.0,
            Self::Broadcast | Self::Reduce => 1.0,
            Self::AllReduce => 2.0 * others,
            Self::Gather
            | Self::Scatter
            | Self::AllGather
            | Self::ReduceScatter
            | Self::AllToAll => others,
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// How ranks do it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Algorithm {
    /// In step k each tells the one 2^k behind it.
    Dissemination,
    /// A tree in which each rank has the one without its highest bit above it.
    Binomial,
    /// Step by step around a ring, a part of the vector at a time.
    Ring,
    /// In step k each exchanges all that it has with the one 2^k away.
    RecursiveDoubling,
    /// A reduce-scatter by recursive halving, then an all-gather by recursive doubling.
    Rabenseifner,
    /// Two binary trees, each for a half: a rank is an inner node of at most one. In pieces.
    DoubleTree,
    /// In step k each passes on what has to go 2^k further.
    Bruck,
    /// In step k each exchanges with one other rank what is for it.
    Pairwise,
    /// One rank with all others at once.
    Direct,
    /// Rings within groups, and between those that have the same place in their groups: a
    /// reduce-scatter within, an all-reduce between, an all-gather within.
    Hierarchical,
}

impl Algorithm {
    /// All that there are.
    pub const ALL: [Self; 10] = [
        Self::Dissemination,
        Self::Binomial,
        Self::Ring,
        Self::RecursiveDoubling,
        Self::Rabenseifner,
        Self::DoubleTree,
        Self::Bruck,
        Self::Pairwise,
        Self::Direct,
        Self::Hierarchical,
    ];

    /// Its name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dissemination => "dissemination",
            Self::Binomial => "binomial",
            Self::Ring => "ring",
            Self::RecursiveDoubling => "recursive-doubling",
            Self::Rabenseifner => "rabenseifner",
            Self::DoubleTree => "double-tree",
            Self::Bruck => "bruck",
            Self::Pairwise => "pairwise",
            Self::Direct => "direct",
            Self::Hierarchical => "hierarchical",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A collective operation that is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// What.
    pub collective: Collective,
    /// How.
    pub algorithm: Algorithm,
    /// Between how many ranks.
    pub ranks: u32,
    /// The vector, as NCCL's tests count it: of an all-gather all that a rank gets, of a
    /// reduce-scatter and an all-to-all all that it has, of a gather and a scatter all that the
    /// root gets or has. A barrier has none.
    pub bytes: u64,
    /// The rank that is another than the rest, if there is one.
    pub root: u32,
    /// Of the double tree: in how many pieces a half goes.
    pub pieces: u32,
    /// Of the hierarchical one: how many ranks, one after the other, are a group.
    pub group_ranks: u32,
    /// How fast a rank adds what comes to what it has; without it that takes no time.
    pub reduce_bytes_per_second: Option<u64>,
}

/// In how many pieces a half goes, if nothing else is said.
pub const PIECES: u32 = 8;
/// How many ranks are a group, if nothing else is said.
pub const GROUP_RANKS: u32 = 8;

impl Request {
    /// In the usual way.
    #[must_use]
    pub const fn usual(collective: Collective, ranks: u32, bytes: u64) -> Self {
        Self {
            collective,
            algorithm: collective.algorithms()[0],
            ranks,
            bytes,
            root: 0,
            pieces: PIECES,
            group_ranks: GROUP_RANKS,
            reduce_bytes_per_second: None,
        }
    }
}

/// Why there is no such graph.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum CollectiveError {
    /// The collective is not done in that way.
    #[error("there is no {collective} by {algorithm}: it is {}", names(*collective))]
    NoSuchAlgorithm {
        /// The collective.
        collective: Collective,
        /// The way that was named.
        algorithm: Algorithm,
    },
    /// None, or too many.
    #[error("a collective has 1 to {RANKS_MAX} ranks, not {0}")]
    Ranks(u32),
    /// The root is none of the ranks.
    #[error("there is no rank {root} to be the root: ranks are 0 to {}", ranks - 1)]
    Root {
        /// The root that was named.
        root: u32,
        /// How many ranks there are.
        ranks: u32,
    },
    /// A double tree in no pieces, or in too many.
    #[error("a half goes in 1 to 65,536 pieces, not {0}")]
    Pieces(u32),
    /// Ranks that are no whole number of groups.
    #[error("{ranks} ranks are no groups of {group_ranks}: a group has a divisor of the ranks")]
    Groups {
        /// How many ranks there are.
        ranks: u32,
        /// How many a group was to have.
        group_ranks: u32,
    },
    /// A graph of too many operations.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

fn names(collective: Collective) -> String {
    let all = collective.algorithms().iter();
    let all: Vec<&str> = all.map(|algorithm| algorithm.name()).collect();
    all.join(", ")
}

/// The graph of a collective operation.
///
/// ```
/// use viaduct_engine::Time;
/// use viaduct_operations::collective::{Collective, Request, graph};
/// use viaduct_operations::loggops::{Parameters, replay};
///
/// let graph = graph(&Request::usual(Collective::AllReduce, 8, 1024))?;
/// let end = replay(&graph, &Parameters::default())?.end();
/// assert_eq!(end, Time::from_nanoseconds(14 * (5_500 + 127 * 6)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`CollectiveError`] if it is not done in that way, or between so many.
pub fn graph(request: &Request) -> Result<Graph, CollectiveError> {
    plan(request, false).map(|plan| plan.finish().0)
}

/// Bytes of a block of a vector cut in so many: what is left over goes to the first ones.
pub(crate) fn block_bytes(bytes: u64, blocks: u32, block: u32) -> u64 {
    let blocks = u64::from(blocks);
    bytes / blocks + u64::from(u64::from(block) < bytes % blocks)
}

/// The operations of one rank in it, as those of rank 0 of a graph.
pub(crate) fn of_rank(request: &Request, rank: u32) -> Result<Graph, CollectiveError> {
    let mut plan = begin(request, false)?;
    add_rank(&mut plan, request, rank)?;
    Ok(plan.finish_one())
}

fn plan(request: &Request, keeps_parts: bool) -> Result<Plan, CollectiveError> {
    let mut plan = begin(request, keeps_parts)?;
    for rank in 0..request.ranks {
        add_rank(&mut plan, request, rank)?;
        plan.next_rank();
    }
    Ok(plan)
}

fn begin(request: &Request, keeps_parts: bool) -> Result<Plan, CollectiveError> {
    let Request {
        collective,
        algorithm,
        ranks,
        bytes,
        root,
        pieces,
        group_ranks,
        reduce_bytes_per_second,
    } = *request;
    if !collective.algorithms().contains(&algorithm) {
        return Err(CollectiveError::NoSuchAlgorithm {
            collective,
            algorithm,
        });
    }
    if ranks == 0 || ranks > RANKS_MAX {
        return Err(CollectiveError::Ranks(ranks));
    }
    if pieces == 0 || pieces > 1 << 16 {
        return Err(CollectiveError::Pieces(pieces));
    }
    let is_hierarchical = algorithm == Algorithm::Hierarchical;
    if is_hierarchical && !(group_ranks > 0 && ranks.is_multiple_of(group_ranks)) {
        return Err(CollectiveError::Groups { ranks, group_ranks });
    }
    let root = if collective.has_root() { root } else { 0 };
    if root >= ranks {
        return Err(CollectiveError::Root { root, ranks });
    }
    let (blocks, bytes) = match (collective, algorithm) {
        (Collective::Barrier, _) => (1, 0),
        (Collective::Broadcast | Collective::Reduce, _) | (_, Algorithm::RecursiveDoubling) => {
            (1, bytes)
        }
        (_, Algorithm::Rabenseifner) => (1 << ranks.ilog2(), bytes),
        (_, Algorithm::DoubleTree) => (2 * pieces, bytes),
        _ => (ranks, bytes),
    };
    let plan = Plan::new((ranks, root), blocks, bytes, keeps_parts);
    Ok(plan.reducing_at(reduce_bytes_per_second))
}

/// Adds the operations of a rank to the present one of the plan.
fn add_rank(plan: &mut Plan, request: &Request, rank: u32) -> Result<(), GraphError> {
    let rank = plan.place_from_root(rank);
    match (request.collective, request.algorithm) {
        (_, Algorithm::Dissemination) => exchange::dissemination(plan, rank),
        (Collective::Broadcast, _) => trees::broadcast(plan, rank),
        (Collective::Reduce, _) => trees::reduce(plan, rank),
        (Collective::Gather, _) => exchange::gather_direct(plan, rank),
        (Collective::Scatter, _) => exchange::scatter_direct(plan, rank),
        (_, Algorithm::RecursiveDoubling) => exchange::recursive_doubling(plan, rank),
        (_, Algorithm::Rabenseifner) => exchange::rabenseifner(plan, rank),
        (_, Algorithm::DoubleTree) => trees::double_tree(plan, rank),
        (_, Algorithm::Hierarchical) => exchange::hierarchical(plan, rank, request.group_ranks),
        (Collective::AllGather, Algorithm::Bruck) => exchange::gather_bruck(plan, rank),
        (Collective::AllGather, _) => exchange::gather_ring(plan, rank),
        (Collective::ReduceScatter, Algorithm::Pairwise) => exchange::scatter_pairwise(plan, rank),
        (Collective::ReduceScatter, _) => exchange::scatter_ring(plan, rank),
        (Collective::AllToAll, Algorithm::Bruck) => exchange::all_to_all_bruck(plan, rank),
        (Collective::AllToAll, _) => exchange::all_to_all_pairwise(plan, rank),
        _ => exchange::scatter_ring(plan, rank).and_then(|()| exchange::gather_ring(plan, rank)),
    }
}
