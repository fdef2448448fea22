//! The graph: operations of all ranks, in few bytes.

use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use thiserror::Error;
use viaduct_engine::prefetch;

use crate::texts::{Texts, one_line};

/// As the peer of a receive: from any rank. As its tag: with any tag.
pub const ANY: u32 = u32::MAX;

/// Most operations of a graph.
pub const OPERATIONS_MAX: usize = (1 << 31) - 1;

/// Marks a dependency on the start of an operation, not on its end.
const ON_START: u32 = 1 << 31;

/// Stands for the label of an operation that has none.
const NO_LABEL: u32 = u32::MAX;

/// The number of an operation in its graph: those of rank 0 come first, in the order in which they
/// were added.
pub type OperationId = u32;

/// What an operation does.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Kind {
    /// It sends a message to its peer.
    Send = 1,
    /// It takes a message of its peer, or of any rank.
    Receive = 2,
    /// It keeps a processor busy.
    Compute = 3,
}

/// One operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Operation {
    /// Bytes of a message; of a computation its length in nanoseconds.
    pub amount: u64,
    /// The other rank of a message; [`ANY`] for a receive from anybody.
    pub peer: u32,
    /// The tag of a message; [`ANY`] for a receive of any tag.
    pub tag: u32,
    /// What it does.
    pub kind: Kind,
    /// Which processor of its host it uses.
    pub processor: u8,
    /// Which adapter.
    pub adapter: u8,
}

impl Operation {
    /// A send without a tag, by processor and adapter 0.
    #[must_use]
    pub const fn send(bytes: u64, to: u32) -> Self {
        Self {
            amount: bytes,
            peer: to,
            tag: 0,
            kind: Kind::Send,
            processor: 0,
            adapter: 0,
        }
    }

    /// The receive of such a send.
    #[must_use]
    pub const fn receive(bytes: u64, from: u32) -> Self {
        Self {
            kind: Kind::Receive,
            ..Self::send(bytes, from)
        }
    }

    /// A computation on processor 0.
    #[must_use]
    pub const fn compute(nanoseconds: u64) -> Self {
        Self {
            kind: Kind::Compute,
            ..Self::send(nanoseconds, 0)
        }
    }

    /// The same with a tag.
    #[must_use]
    pub const fn tagged(self, tag: u32) -> Self {
        Self { tag, ..self }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            amount, peer, tag, ..
        } = *self;
        let (word, way) = match self.kind {
            Kind::Compute => return write!(formatter, "calc {amount}"),
            Kind::Send => ("send", "to"),
            Kind::Receive => ("recv", "from"),
        };
        write!(formatter, "{word} {amount}b {way} ")?;
        match peer {
            ANY => formatter.write_str("any rank")?,
            peer => write!(formatter, "{peer}")?,
        }
        match tag {
            0 => Ok(()),
            ANY => formatter.write_str(" with any tag"),
            tag => write!(formatter, " with tag {tag}"),
        }
    }
}

/// What of an operation another one waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum After {
    /// That it has ended (GOAL: `requires`).
    End,
    /// That it has started (GOAL: `irequires`).
    Start,
}

/// As it is kept: 24 bytes.
#[derive(Clone, Copy, Debug)]
struct Kept {
    amount: u64,
    peer: u32,
    tag: u32,
    /// Where the list of those that wait for it begins.
    first_waiter: u32,
    kind: Kind,
    processor: u8,
    adapter: u8,
}

/// Operations of all ranks, and what waits for what. See the [crate](crate).
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Operations of rank r are `first[r]..first[r + 1]`.
    first: Vec<u32>,
    kept: Vec<Kept>,
    /// Who waits for an operation: its number, and [`ON_START`].
    waiters: Vec<u32>,
    /// The line of each operation in its text; empty if it had none.
    lines: Vec<u32>,
    /// What each operation is called, by its place in `texts`; empty if none has a label.
    labels: Vec<u32>,
    texts: Texts,
    processors: u32,
    adapters: u32,
    has_wildcards: bool,
    receives_are_limits: bool,
    /// Receives of any tag take messages with a tag below.
    any_tag_end: u32,
    /// What `lines` count: lines, or nodes of a trace.
    line_word: &'static str,
}

impl Graph {
    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        (self.first.len().max(1) - 1) as u32
    }

    /// How many operations there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// How many dependencies there are.
    #[must_use]
    pub fn dependency_count(&self) -> usize {
        self.waiters.len()
    }

    /// One more than the largest number of a processor.
    #[must_use]
    pub const fn processors(&self) -> u32 {
        self.processors
    }

    /// One more than the largest number of an adapter.
    #[must_use]
    pub const fn adapters(&self) -> u32 {
        self.adapters
    }

    /// Whether some receive takes messages of any rank or with any tag.
    #[must_use]
    pub const fn has_wildcards(&self) -> bool {
        self.has_wildcards
    }

    /// Whether a receive takes messages of at most its bytes, as those of MPI do, and not only of
    /// exactly as many.
    #[must_use]
    pub const fn receives_are_limits(&self) -> bool {
        self.receives_are_limits
    }

    /// Receives of any tag take messages with a tag below: beyond are those of collectives.
    #[must_use]
    pub const fn any_tag_end(&self) -> u32 {
        self.any_tag_end
    }

    /// Whether the message of a send has a size that a receive takes.
    #[inline]
    #[must_use]
    pub fn fits(&self, send: OperationId, receive: OperationId) -> bool {
        let [sent, taken] = [send, receive].map(|id| self.kept[id as usize].amount);
        sent == taken || self.receives_are_limits && sent < taken
    }

    /// The operations of a rank.
    #[inline]
    #[must_use]
    pub fn of_rank(&self, rank: u32) -> Range<OperationId> {
        let rank = rank as usize;
        self.first[rank]..self.first[rank + 1]
    }

    /// The rank that an operation belongs to.
    #[must_use]
    pub fn rank_of(&self, id: OperationId) -> u32 {
        self.first.partition_point(|first| *first <= id) as u32 - 1
    }

    /// One operation.
    #[inline]
    #[must_use]
    pub fn operation(&self, id: OperationId) -> Operation {
        let kept = &self.kept[id as usize];
        Operation {
            amount: kept.amount,
            peer: kept.peer,
            tag: kept.tag,
            kind: kept.kind,
            processor: kept.processor,
            adapter: kept.adapter,
        }
    }

    /// Asks for an operation that is soon looked at, and for those behind it, which mostly wait for
    /// it.
    #[inline]
    pub(crate) fn prefetch(&self, id: OperationId) {
        let kept = &self.kept[id as usize..];
        prefetch(&raw const kept[0]);
        if let Some(behind) = kept.get(3) {
            prefetch(&raw const *behind);
        }
    }

    /// Asks for who waits for an operation.
    #[inline]
    pub(crate) fn prefetch_waiters(&self, id: OperationId) {
        let begin = self.kept[id as usize].first_waiter as usize;
        if let Some(waiter) = self.waiters.get(begin) {
            prefetch(&raw const *waiter);
        }
    }

    /// All operations, by number.
    pub fn operations(&self) -> impl Iterator<Item = (OperationId, Operation)> + '_ {
        (0..self.kept.len() as u32).map(|id| (id, self.operation(id)))
    }

    /// Who waits for an operation, and for what of it.
    #[inline]
    pub fn waiters(&self, id: OperationId) -> impl Iterator<Item = (OperationId, After)> + '_ {
        let begin = self.kept[id as usize].first_waiter as usize;
        let next = self.kept.get(id as usize + 1);
        let end = next.map_or(self.waiters.len(), |kept| kept.first_waiter as usize);
        self.waiters[begin..end].iter().map(|waiter| {
            let after = match waiter & ON_START {
                0 => After::End,
                _ => After::Start,
            };
            (waiter & !ON_START, after)
        })
    }

    /// The line of an operation in the text that it comes from, from 1; of a Chakra trace its node.
    #[must_use]
    pub fn line(&self, id: OperationId) -> Option<u32> {
        self.lines.get(id as usize).copied()
    }

    /// What an operation is called where it comes from: its label, the name of a trace's step, the
    /// round of a collective.
    #[must_use]
    pub fn label(&self, id: OperationId) -> Option<&Arc<str>> {
        let number = *self.labels.get(id as usize)?;
        (number != NO_LABEL).then(|| self.texts.text(number))
    }

    /// An operation, as messages name it.
    #[must_use]
    pub fn name(&self, id: OperationId) -> OperationName {
        let rank = self.rank_of(id);
        OperationName {
            rank,
            place: id - self.of_rank(rank).start,
            line: self.line(id),
            line_word: self.line_word,
            label: self.label(id).cloned(),
            operation: self.operation(id),
        }
    }

    /// The smallest and the largest message, and the mean, in bytes; none without messages.
    #[must_use]
    pub fn message_bytes(&self) -> Option<(u64, u64, f64)> {
        let sends = self.kept.iter().filter(|kept| kept.kind == Kind::Send);
        let (mut count, mut sum, mut least, mut most) = (0u64, 0.0, u64::MAX, 0);
        for kept in sends {
            count += 1;
            sum += kept.amount as f64;
            least = least.min(kept.amount);
            most = most.max(kept.amount);
        }
        (count > 0).then(|| (least, most, sum / count as f64))
    }

    /// Memory that it holds, bytes.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        self.kept.capacity() * size_of::<Kept>()
            + self.texts.state_bytes()
            + [&self.first, &self.waiters, &self.lines, &self.labels]
                .map(|numbers| numbers.capacity() * size_of::<u32>())
                .iter()
                .sum::<usize>()
    }
}

impl PartialEq for Graph {
    /// Whether the operations and their dependencies are the same: where they stand in a text and
    /// what they are called there does not count.
    fn eq(&self, other: &Self) -> bool {
        self.first == other.first
            && self.operations().eq(other.operations())
            && (0..self.kept.len() as u32).all(|id| self.waiters(id).eq(other.waiters(id)))
    }
}

/// An operation as messages name it: its rank, its place there, its line and its label.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OperationName {
    /// Its rank.
    pub rank: u32,
    /// Its place among its rank's, from 0.
    pub place: u32,
    /// Its line, from 1, if it comes from a text; of a Chakra trace its node.
    pub line: Option<u32>,
    /// What `line` is: "line" or "node".
    pub line_word: &'static str,
    /// What it is called where it comes from.
    pub label: Option<Arc<str>>,
    /// What it is.
    pub operation: Operation,
}

impl fmt::Display for OperationName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rank {}, ", self.rank)?;
        match self.line {
            Some(line) => write!(formatter, "{} {line}", self.line_word)?,
            None => write!(formatter, "operation {}", self.place)?,
        }
        if let Some(label) = &self.label {
            write!(formatter, " `{label}`")?;
        }
        write!(formatter, ": {}", self.operation)
    }
}

/// Why an operation or a dependency cannot be added.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum GraphError {
    /// There is no such rank.
    #[error("there is no rank {peer}: ranks are 0 to {last}")]
    NoSuchRank {
        /// The rank named.
        peer: u32,
        /// The largest that there is.
        last: u32,
    },
    /// A send to any rank, or with any tag.
    #[error("a send names its rank and its tag: only a receive takes any")]
    SendToAny,
    /// More operations than are counted.
    #[error("more than {OPERATIONS_MAX} operations")]
    TooMany,
    /// An operation that does not exist yet.
    #[error("there is no operation {place} in this rank yet: dependencies name what stands before")]
    NoSuchOperation {
        /// Its place in its rank.
        place: u32,
    },
    /// An operation waits for itself.
    #[error("it waits for itself")]
    WaitsForItself,
}

/// A label of one builder, by its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label(u32);

/// Makes a graph, rank by rank.
///
/// ```
/// use viaduct_operations::{After, Builder, Operation};
///
/// let mut builder = Builder::new(2);
/// let computed = builder.add(Operation::compute(1500))?;
/// let sent = builder.add(Operation::send(8, 1))?;
/// builder.require(sent, computed, After::End)?;
/// builder.next_rank();
/// builder.add(Operation::receive(8, 0))?;
/// let graph = builder.finish();
/// assert_eq!((graph.ranks(), graph.len()), (2, 3));
/// # Ok::<(), viaduct_operations::GraphError>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    ranks: u32,
    graph: Graph,
    /// Dependencies of the present rank, as (for whom it is waited, who waits).
    edges: Vec<(u32, u32)>,
    line: Option<u32>,
    label: u32,
}

impl Builder {
    /// A graph of so many ranks; operations are added to rank 0.
    #[must_use]
    pub fn new(ranks: u32) -> Self {
        let graph = Graph {
            first: vec![0],
            processors: 1,
            adapters: 1,
            any_tag_end: ANY,
            line_word: "line",
            ..Graph::default()
        };
        Self {
            ranks,
            graph,
            edges: Vec::new(),
            line: None,
            label: NO_LABEL,
        }
    }

    /// Has receives take messages of at most their bytes: see [`Graph::receives_are_limits`].
    pub const fn have_receives_be_limits(&mut self) {
        self.graph.receives_are_limits = true;
    }

    /// Has receives of any tag leave messages whose tag is not below an end.
    pub const fn end_any_tag_at(&mut self, end: u32) {
        self.graph.any_tag_end = end;
    }

    /// Has messages say "node", or another word, where they say "line".
    pub const fn call_lines(&mut self, word: &'static str) {
        self.graph.line_word = word;
    }

    /// The line at which the next operation stands. All operations have one, or none has.
    pub fn at_line(&mut self, line: u32) {
        self.line = Some(line);
    }

    /// What the operations from here on are called, as one line of at most 48 characters; an empty
    /// label says that they have none.
    pub fn set_label(&mut self, label: &str) {
        let label = self.label(label);
        self.use_label(label);
    }

    /// A label that may be used often.
    pub(crate) fn label(&mut self, label: &str) -> Label {
        let label = one_line(label);
        Label(match label.is_empty() {
            true => NO_LABEL,
            false => self.graph.texts.number(&label),
        })
    }

    /// What the operations from here on are called.
    pub(crate) const fn use_label(&mut self, label: Label) {
        self.label = label.0;
    }

    /// The rank to which operations are added.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.graph.first.len() as u32 - 1
    }

    /// How many operations the present rank has.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.graph.kept.len() as u32 - self.begin()
    }

    /// Whether the present rank has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an operation to the present rank; gives its place there.
    ///
    /// # Errors
    ///
    /// [`GraphError`] if its peer does not exist, or it sends to any.
    pub fn add(&mut self, operation: Operation) -> Result<u32, GraphError> {
        let Operation {
            peer, tag, kind, ..
        } = operation;
        if self.graph.kept.len() >= OPERATIONS_MAX {
            return Err(GraphError::TooMany);
        }
        let is_any = [peer, tag].contains(&ANY);
        match kind {
            Kind::Compute => {}
            Kind::Send if is_any => return Err(GraphError::SendToAny),
            Kind::Send | Kind::Receive => {
                if peer != ANY && peer >= self.ranks {
                    let last = self.ranks - 1;
                    return Err(GraphError::NoSuchRank { peer, last });
                }
                self.graph.has_wildcards |= is_any;
            }
        }
        let place = self.len();
        self.graph.kept.push(Kept {
            amount: operation.amount,
            peer,
            tag,
            first_waiter: 0,
            kind,
            processor: operation.processor,
            adapter: operation.adapter,
        });
        self.graph.lines.extend(self.line);
        // Labels take memory once there is one.
        if self.label != NO_LABEL || !self.graph.labels.is_empty() {
            self.graph
                .labels
                .resize(self.graph.kept.len() - 1, NO_LABEL);
            self.graph.labels.push(self.label);
        }
        let processors = u32::from(operation.processor) + 1;
        self.graph.processors = self.graph.processors.max(processors);
        let adapters = u32::from(operation.adapter) + 1;
        self.graph.adapters = self.graph.adapters.max(adapters);
        Ok(place)
    }

    /// Has an operation of the present rank wait for another of it, each by its place.
    ///
    /// # Errors
    ///
    /// [`GraphError`] if one of them is not there, or they are the same.
    pub fn require(&mut self, waiter: u32, other: u32, after: After) -> Result<(), GraphError> {
        if let Some(place) = [waiter, other].into_iter().find(|it| *it >= self.len()) {
            return Err(GraphError::NoSuchOperation { place });
        }
        if waiter == other {
            return Err(GraphError::WaitsForItself);
        }
        let begin = self.begin();
        let mark = match after {
            After::End => 0,
            After::Start => ON_START,
        };
        self.edges.push((begin + other, (begin + waiter) | mark));
        Ok(())
    }

    /// Ends the present rank: operations are added to the next one.
    pub fn next_rank(&mut self) {
        // In the order given, of each operation.
        self.edges.sort_by_key(|(other, _)| *other);
        let begin = self.begin();
        let mut edges = self.edges.drain(..).peekable();
        for (id, kept) in (begin..).zip(&mut self.graph.kept[begin as usize..]) {
            kept.first_waiter = self.graph.waiters.len() as u32;
            while let Some((_, waiter)) = edges.next_if(|(other, _)| *other == id) {
                self.graph.waiters.push(waiter);
            }
        }
        drop(edges);
        self.graph.first.push(self.graph.kept.len() as u32);
    }

    /// The graph. Ranks that had no turn are empty.
    #[must_use]
    pub fn finish(mut self) -> Graph {
        while self.rank() < self.ranks {
            self.next_rank();
        }
        self.finish_here()
    }

    /// The graph of those ranks that had a turn.
    pub(crate) fn finish_here(mut self) -> Graph {
        // Lists double when they are full: a large graph would keep room that nobody uses.
        let Graph {
            first,
            kept,
            waiters,
            lines,
            labels,
            ..
        } = &mut self.graph;
        kept.shrink_to_fit();
        for numbers in [first, waiters, lines, labels] {
            numbers.shrink_to_fit();
        }
        self.graph
    }

    fn begin(&self) -> u32 {
        self.graph.first.last().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_takes_at_most_48_bytes_with_two_dependencies_its_line_and_its_label() {
        // Beside it, the count of what it waits for, and its place in a queue.
        let bytes =
            size_of::<Kept>() + 2 * size_of::<u32>() + 2 * size_of::<u32>() + 2 * size_of::<u32>();
        assert!(bytes <= 48, "{bytes}");
    }

    #[test]
    fn who_waits_is_told_in_the_order_given_rank_by_rank() {
        let mut builder = Builder::new(3);
        for _ in 0..3 {
            builder.add(Operation::compute(1)).unwrap();
        }
        builder.require(2, 0, After::Start).unwrap();
        builder.require(1, 0, After::End).unwrap();
        builder.next_rank();
        builder.next_rank();
        builder.add(Operation::send(1, 0)).unwrap();
        builder.add(Operation::receive(1, ANY)).unwrap();
        builder.require(0, 1, After::End).unwrap();
        let graph = builder.finish();
        let waiters = |id| graph.waiters(id).collect::<Vec<_>>();
        assert_eq!(waiters(0), [(2, After::Start), (1, After::End)]);
        assert_eq!(waiters(1), []);
        assert_eq!(waiters(4), [(3, After::End)]);
        assert_eq!((graph.rank_of(2), graph.rank_of(3)), (0, 2));
        assert!(graph.of_rank(1).is_empty());
        assert!(graph.has_wildcards());
    }

    #[test]
    fn an_operation_has_the_label_that_was_set_before_it() {
        let mut builder = Builder::new(1);
        for label in [None, Some("first"), None, Some("")] {
            label.into_iter().for_each(|label| builder.set_label(label));
            builder.add(Operation::compute(1)).unwrap();
        }
        let graph = builder.finish();
        let labels = [0, 1, 2, 3].map(|id| graph.label(id).map(|label| &**label));
        assert_eq!(labels, [None, Some("first"), Some("first"), None]);
        assert_eq!(
            graph.name(1).to_string(),
            "rank 0, operation 1 `first`: calc 1"
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut builder = Builder::new(2);
        let last = 1;
        assert_eq!(
            builder.add(Operation::send(1, 2)),
            Err(GraphError::NoSuchRank { peer: 2, last })
        );
        assert_eq!(
            builder.add(Operation::send(1, 1).tagged(ANY)),
            Err(GraphError::SendToAny)
        );
        builder.add(Operation::compute(1)).unwrap();
        assert_eq!(
            builder.require(0, 0, After::End),
            Err(GraphError::WaitsForItself)
        );
        assert_eq!(
            builder.require(0, 1, After::End),
            Err(GraphError::NoSuchOperation { place: 1 })
        );
    }
}
