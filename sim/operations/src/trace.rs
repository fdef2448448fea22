//! What each rank of a program does, step by step, with collectives by name.
//!
//! A trace of a training step says "all-reduce of these bytes between those ranks", not who sends
//! what to whom. Formats of that kind are read into a [`Trace`], and [`graph`] makes it a
//! [`Graph`]: each collective by the algorithm that [`Options`] say.
//!
//! - Steps of a rank wait for others of it, which may stand behind them.
//! - The n-th collective of a group is the same one on all its members; to an all-to-all each
//!   brings as many bytes as it has, as much for each other one. A rank does those of one
//!   group one after the other, in an order that its dependencies allow: of steps that could be
//!   next, the one that stands first.
//! - A computation has a processor of its kind: see [`MESSAGES`]. It has a time, or a number of
//!   operations, of which [`Options::operations_per_second`] are done in a second.

mod expand;
mod pairing;
#[cfg(test)]
mod tests;

use core::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::collective::{Algorithm, Collective, CollectiveError, GROUP_RANKS, PIECES};
use crate::graph::{Graph, GraphError};
use crate::texts::{Texts, shortened};

/// The processor that handles messages; computations may have it, too.
pub const MESSAGES: u8 = 0;
/// The processor of what an accelerator computes.
pub const ACCELERATOR: u8 = 1;
/// The processor of what its host computes for it.
pub const HOST: u8 = 2;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// It keeps a processor busy.
    Compute {
        /// For so long.
        nanoseconds: u64,
        /// Which one.
        processor: u8,
    },
    /// It keeps a processor busy for as long as some operations take.
    Count {
        /// So many.
        operations: u64,
        /// Which one.
        processor: u8,
    },
    /// It sends a message.
    Send {
        /// Its bytes.
        bytes: u64,
        /// The receiving rank.
        to: u32,
        /// Its tag, below 2^31.
        tag: u32,
    },
    /// It takes a message.
    Receive {
        /// Its bytes.
        bytes: u64,
        /// The sending rank, or [`ANY`](crate::ANY).
        from: u32,
        /// Its tag, below 2^31, or [`ANY`](crate::ANY): of messages that are no part of a
        /// collective.
        tag: u32,
    },
    /// It does something together with the ranks of a group.
    Together(Together),
}

/// The part of a rank in a collective.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Together {
    /// What is done.
    pub collective: Collective,
    /// The vector, as [`Request::bytes`](crate::collective::Request) counts it.
    pub bytes: u64,
    /// The group, by its place in the trace.
    pub group: u32,
    /// The member that a broadcast comes from, or a reduction goes to, by its place in the group.
    pub root: u32,
}

/// Steps of one rank, and what each waits for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    work: Vec<Work>,
    /// The number of each in its file.
    numbers: Vec<u64>,
    /// The name of each, by its place in `texts`.
    names: Vec<u32>,
    texts: Texts,
    /// Places of steps that a step waits for: those from `first_need` on.
    needs: Vec<u32>,
    first_need: Vec<u32>,
}

impl Steps {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.work.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.work.is_empty()
    }

    /// Adds a step, by its number and name in its file; gives its place.
    ///
    /// It waits for the ends of the steps at the places `needs`, each of which may be one that is
    /// still to come.
    pub fn add(
        &mut self,
        work: Work,
        number: u64,
        name: &str,
        needs: impl IntoIterator<Item = u32>,
    ) -> u32 {
        let place = self.work.len() as u32;
        self.work.push(work);
        self.numbers.push(number);
        self.names.push(self.texts.number(name));
        self.first_need.push(self.needs.len() as u32);
        self.needs.extend(needs);
        place
    }

    /// What the step at a place does.
    #[must_use]
    pub fn work(&self, place: u32) -> Work {
        self.work[place as usize]
    }

    /// What all do, in order.
    pub fn all(&self) -> impl Iterator<Item = Work> + '_ {
        self.work.iter().copied()
    }

    /// What the step at a place waits for.
    #[must_use]
    pub fn needs(&self, place: u32) -> &[u32] {
        let begin = self.first_need[place as usize] as usize;
        let end = self.first_need.get(place as usize + 1);
        &self.needs[begin..end.map_or(self.needs.len(), |end| *end as usize)]
    }

    /// The number and the name that the step at a place has in its file.
    #[must_use]
    pub fn name(&self, place: u32) -> (u64, &str) {
        let place = place as usize;
        (self.numbers[place], self.texts.text(self.names[place]))
    }
}

/// Ranks that do collectives together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name, as messages show it.
    pub name: String,
    /// Its members, in the order that the algorithms go by.
    pub members: Vec<u32>,
}

/// What each rank of a program does. See the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Of each rank; those that do the same share it.
    pub ranks: Vec<Arc<Steps>>,
    /// Who does collectives together.
    pub groups: Vec<Group>,
    /// What a step is called where it comes from: "node", "line", or "step" if it has no file.
    pub step_word: &'static str,
    /// Whether a receive takes messages of at most its bytes, and not of exactly as many.
    pub receives_are_limits: bool,
}

impl Trace {
    /// How many steps count their operations, and have no time.
    #[must_use]
    pub fn counting(&self) -> u64 {
        let all = self.ranks.iter().flat_map(|steps| steps.all());
        all.filter(|work| matches!(work, Work::Count { .. }))
            .count() as u64
    }
}

impl Trace {
    /// So many of the program side by side, which know nothing of each other: rank r of copy c is
    /// rank `r * copies + c`.
    ///
    /// # Panics
    ///
    /// If there are no copies, or more ranks in all than a number of 32 bits counts.
    #[must_use]
    pub fn side_by_side(&self, copies: u32) -> Self {
        let ranks = self.ranks.len() as u32;
        assert!(copies > 0 && ranks.checked_mul(copies).is_some());
        let groups = self.groups.len() as u32;
        let copied = |steps: &Steps, copy: u32| {
            let at = |rank: u32| rank * copies + copy;
            let work = steps.all().map(|work| match work {
                Work::Send { bytes, to, tag } => Work::Send {
                    bytes,
                    to: at(to),
                    tag,
                },
                Work::Receive { bytes, from, tag } => Work::Receive {
                    bytes,
                    from: at(from),
                    tag,
                },
                Work::Together(together) => Work::Together(Together {
                    group: copy * groups + together.group,
                    ..together
                }),
                work => work,
            });
            Steps {
                work: work.collect(),
                ..steps.clone()
            }
        };
        let of_ranks = self.ranks.iter();
        let of_ranks =
            of_ranks.flat_map(|steps| (0..copies).map(|copy| Arc::new(copied(steps, copy))));
        let groups = (0..copies).flat_map(|copy| {
            self.groups.iter().map(move |group| Group {
                name: format!("{} of copy {copy}", group.name),
                members: group
                    .members
                    .iter()
                    .map(|rank| rank * copies + copy)
                    .collect(),
            })
        });
        Self {
            ranks: of_ranks.collect(),
            groups: groups.collect(),
            step_word: self.step_word,
            receives_are_limits: self.receives_are_limits,
        }
    }
}

/// How a trace becomes a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How all-reduces are done.
    pub all_reduce: Algorithm,
    /// How all-gathers are.
    pub all_gather: Algorithm,
    /// How reduce-scatters are.
    pub reduce_scatter: Algorithm,
    /// How all-to-alls are.
    pub all_to_all: Algorithm,
    /// In how many pieces a half goes through a double tree.
    pub pieces: u32,
    /// How many ranks are a group of a hierarchical all-reduce.
    pub group_ranks: u32,
    /// How fast a rank adds what comes to what it has; without it that takes no time.
    pub reduce_bytes_per_second: Option<u64>,
    /// What times of computations are multiplied by.
    pub compute_scale: f64,
    /// How many operations a processor does in a second, for computations that count them; without
    /// it these take no time.
    pub operations_per_second: Option<f64>,
}

impl Default for Options {
    fn default() -> Self {
        let usual = |collective: Collective| collective.algorithms()[0];
        Self {
            all_reduce: usual(Collective::AllReduce),
            all_gather: usual(Collective::AllGather),
            reduce_scatter: usual(Collective::ReduceScatter),
            all_to_all: usual(Collective::AllToAll),
            pieces: PIECES,
            group_ranks: GROUP_RANKS,
            reduce_bytes_per_second: None,
            compute_scale: 1.0,
            operations_per_second: None,
        }
    }
}

impl Options {
    /// How a collective is done.
    #[must_use]
    pub const fn algorithm(&self, collective: Collective) -> Algorithm {
        match collective {
            Collective::AllReduce => self.all_reduce,
            Collective::AllGather => self.all_gather,
            Collective::ReduceScatter => self.reduce_scatter,
            Collective::AllToAll => self.all_to_all,
            other => other.algorithms()[0],
        }
    }
}

/// A step as messages name it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StepName {
    /// Its rank.
    pub rank: u32,
    /// What a step is called there.
    pub word: &'static str,
    /// Its number in its file.
    pub number: u64,
    /// Its name there; it may be empty.
    pub name: String,
}

impl fmt::Display for StepName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "rank {}, {} {}",
            self.rank, self.word, self.number
        )?;
        if self.name.is_empty() {
            return Ok(());
        }
        write!(formatter, " `{}`", shortened(&self.name).escape_debug())
    }
}

/// Why a trace is no graph.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum TraceError {
    /// Steps of a rank that wait for each other.
    #[error("steps wait for each other in a ring:{}", lines(.0))]
    Ring(Vec<StepName>),
    /// A rank does a collective of a group that it is not in.
    #[error("{step}: rank {} is not in its group `{group}`: {}", step.rank, few(members))]
    NoMember {
        /// The step.
        step: StepName,
        /// The name of the group.
        group: String,
        /// Who is in it.
        members: Vec<u32>,
    },
    /// Members of a group do not do the same.
    #[error(
        "collective {place} of group `{group}` is not the same on all ranks:\n  \
         {}: {}\n  {}: {}", first.0, first.1, second.0, second.1
    )]
    Differs {
        /// The name of the group.
        group: String,
        /// Which of its collectives, from 1.
        place: u32,
        /// On one rank.
        first: Box<(StepName, String)>,
        /// On another.
        second: Box<(StepName, String)>,
    },
    /// Some member does fewer collectives than another.
    #[error(
        "rank {rank} does {count} collectives of group `{group}`, and another does more:\n  \
         {extra}"
    )]
    Missing {
        /// The name of the group.
        group: String,
        /// Who does fewer.
        rank: u32,
        /// How many that does.
        count: u32,
        /// The first without a partner.
        extra: StepName,
    },
    /// To an all-to-all not all bring as much, and its algorithm wants that.
    #[error(
        "{step}: not all ranks bring as many bytes, and by {algorithm} they must: \
         by pairwise they need not"
    )]
    Unequal {
        /// The step.
        step: StepName,
        /// How it was to be done.
        algorithm: Algorithm,
    },
    /// A collective that cannot be made.
    #[error("{0}: {1}")]
    Collective(StepName, CollectiveError),
    /// An operation that cannot be made.
    #[error("{0}: {1}")]
    Graph(StepName, GraphError),
    /// A tag that collectives have.
    #[error("{0}: tags are below {TAGS_END}")]
    Tag(StepName),
    /// More collectives than are told apart.
    #[error("more than {TOGETHER_MAX} collectives")]
    TooMany,
}

/// Tags of messages of steps are below; those of collectives from there on.
pub(crate) const TAGS_END: u32 = 1 << 31;
/// The tag of messages of collectives that a trace lists as steps.
pub(crate) const LISTED_TAG: u32 = TAGS_END - 1;
/// Most collectives, counted once for all members of a group.
const TOGETHER_MAX: u32 = (1 << 29) - 1;

fn lines(steps: &[StepName]) -> String {
    steps.iter().map(|step| format!("\n  {step}")).collect()
}

/// Members of a group, the first few of them.
fn few(members: &[u32]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = members.iter().take(SHOWN).map(u32::to_string).collect();
    let more = if members.len() > SHOWN { ", ..." } else { "" };
    shown.join(", ") + more
}

/// The graph of a trace.
///
/// # Errors
///
/// [`TraceError`]: which step of which rank cannot be carried out.
pub fn graph(trace: &Trace, options: &Options) -> Result<Graph, TraceError> {
    expand::graph(trace, options)
}
