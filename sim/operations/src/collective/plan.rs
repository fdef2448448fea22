//! What a generator says of each rank, and what becomes of it in the graph.

use crate::graph::{After, Builder, Graph, GraphError, Kind, Label, Operation};

/// Which blocks of the vector a message carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Blocks {
    /// So many from one on; behind the last comes the first.
    From { first: u32, count: u32 },
    /// Those whose numbers have a bit.
    WithBit(u32),
}

impl Blocks {
    pub(super) const fn one(block: u32) -> Self {
        Self::From {
            first: block,
            count: 1,
        }
    }

    /// Their numbers, of so many in all.
    pub(super) fn numbers(self, blocks: u32) -> Vec<u32> {
        match self {
            Self::From { first, count } => (first..first + count).map(|it| it % blocks).collect(),
            Self::WithBit(bit) => (0..blocks).filter(|it| it & bit != 0).collect(),
        }
    }
}

/// What is done with what a receive brings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Use {
    /// It is added to what is there.
    Add,
    /// It takes the place of what is there.
    Place,
}

/// What an operation carries: for the tests, which follow the data.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "read by the tests, which follow data")
)]
pub(super) struct Part {
    pub(super) blocks: Blocks,
    /// Of a receive.
    pub(super) usage: Option<Use>,
}

/// A graph in the making: steps of one rank after those of another.
pub(super) struct Plan {
    builder: Builder,
    pub(super) ranks: u32,
    /// The rank that generators call 0: they count from it on.
    root: u32,
    /// Into how many blocks the vector is cut.
    pub(super) blocks: u32,
    bytes: u64,
    reduce_bytes_per_second: Option<u64>,
    parts: Option<Vec<Part>>,
    /// Operations of the step before, and of the present one.
    before: Vec<u32>,
    present: Vec<u32>,
    /// The round of the present step, from 1; of each that was reached its name.
    round: usize,
    rounds: Vec<Label>,
}

impl Plan {
    pub(super) fn new(
        (ranks, root): (u32, u32),
        blocks: u32,
        bytes: u64,
        keeps_parts: bool,
    ) -> Self {
        Self {
            builder: Builder::new(ranks),
            ranks,
            root,
            blocks,
            bytes,
            reduce_bytes_per_second: None,
            parts: keeps_parts.then(Vec::new),
            before: Vec::new(),
            present: Vec::new(),
            round: 1,
            rounds: Vec::new(),
        }
    }

    /// A rank adds up so many bytes in a second; in no time if nothing is said.
    pub(super) fn reducing_at(self, reduce_bytes_per_second: Option<u64>) -> Self {
        Self {
            reduce_bytes_per_second,
            ..self
        }
    }

    /// What generators call a rank.
    pub(super) const fn place_from_root(&self, rank: u32) -> u32 {
        self.before(rank, self.root)
    }

    /// The rank that is so many behind another in the ring.
    pub(super) const fn behind(&self, rank: u32, distance: u32) -> u32 {
        (rank + distance) % self.ranks
    }

    /// The rank that is so many in front.
    pub(super) const fn before(&self, rank: u32, distance: u32) -> u32 {
        (rank + self.ranks - distance % self.ranks) % self.ranks
    }

    /// Bytes of a block.
    pub(super) fn block_bytes(&self, block: u32) -> u64 {
        super::block_bytes(self.bytes, self.blocks, block)
    }

    /// Whether all blocks are alike.
    pub(super) fn has_equal_blocks(&self) -> bool {
        self.bytes.is_multiple_of(self.blocks.into())
    }

    fn bytes_of(&self, blocks: Blocks) -> u64 {
        let begin = |block: u32| {
            let (block, all) = (u64::from(block), u64::from(self.blocks));
            block * (self.bytes / all) + block.min(self.bytes % all)
        };
        match blocks {
            Blocks::From { first, count } if first + count <= self.blocks => {
                begin(first + count) - begin(first)
            }
            Blocks::From { first, count } => {
                self.bytes - begin(first) + begin(first + count - self.blocks)
            }
            Blocks::WithBit(_) => {
                let all = blocks.numbers(self.blocks).into_iter();
                all.map(|block| self.block_bytes(block)).sum()
            }
        }
    }

    /// Sends blocks in the present step.
    pub(super) fn send(&mut self, to: u32, blocks: Blocks) -> Result<(), GraphError> {
        self.send_bytes(to, blocks, self.bytes_of(blocks))
    }

    /// The same of blocks that are others than their numbers say.
    pub(super) fn send_bytes(
        &mut self,
        to: u32,
        blocks: Blocks,
        bytes: u64,
    ) -> Result<(), GraphError> {
        self.in_step(Operation::send(bytes, to), blocks, None)
    }

    /// Receives blocks in the present step.
    pub(super) fn receive(
        &mut self,
        from: u32,
        blocks: Blocks,
        usage: Use,
    ) -> Result<(), GraphError> {
        self.receive_bytes(from, blocks, usage, self.bytes_of(blocks))
    }

    /// The same of blocks that are others than their numbers say.
    pub(super) fn receive_bytes(
        &mut self,
        from: u32,
        blocks: Blocks,
        usage: Use,
        bytes: u64,
    ) -> Result<(), GraphError> {
        self.in_step(Operation::receive(bytes, from), blocks, Some(usage))
    }

    fn in_step(
        &mut self,
        operation: Operation,
        blocks: Blocks,
        usage: Option<Use>,
    ) -> Result<(), GraphError> {
        while self.rounds.len() < self.round {
            let name = format!("round {}", self.rounds.len() + 1);
            self.rounds.push(self.builder.label(&name));
        }
        self.builder.use_label(self.rounds[self.round - 1]);
        let before = core::mem::take(&mut self.before);
        let place = self.add(operation, blocks, usage, &before)?;
        self.before = before;
        self.present.push(place);
        Ok(())
    }

    /// What follows waits for what is in the present step.
    pub(super) fn end_step(&mut self) {
        core::mem::swap(&mut self.before, &mut self.present);
        self.present.clear();
        self.round += 1;
    }

    /// The rank has no part in so many rounds.
    pub(super) fn skip(&mut self, rounds: u32) {
        self.round += rounds as usize;
    }

    /// The present step is, or is part of, this round.
    pub(super) fn in_round(&mut self, round: u32) {
        self.round = round as usize;
    }

    /// What is passed on and taken from here on is called so.
    pub(super) fn set_label(&mut self, label: &str) {
        self.builder.set_label(label);
    }

    /// Sends a block with a tag once others have ended.
    pub(super) fn pass_on(
        &mut self,
        to: u32,
        block: u32,
        tag: u32,
        after: &[u32],
    ) -> Result<u32, GraphError> {
        let operation = Operation::send(self.block_bytes(block), to).tagged(tag);
        self.add(operation, Blocks::one(block), None, after)
    }

    /// Takes a block with a tag whenever it comes.
    pub(super) fn take(
        &mut self,
        from: u32,
        block: u32,
        tag: u32,
        usage: Use,
    ) -> Result<u32, GraphError> {
        let operation = Operation::receive(self.block_bytes(block), from).tagged(tag);
        self.add(operation, Blocks::one(block), Some(usage), &[])
    }

    fn add(
        &mut self,
        operation: Operation,
        blocks: Blocks,
        usage: Option<Use>,
        after: &[u32],
    ) -> Result<u32, GraphError> {
        let operation = match operation.kind {
            Kind::Compute => operation,
            Kind::Send | Kind::Receive => Operation {
                peer: self.behind(operation.peer, self.root),
                ..operation
            },
        };
        let place = self.builder.add(operation)?;
        for other in after {
            self.builder.require(place, *other, After::End)?;
        }
        self.parts
            .iter_mut()
            .for_each(|parts| parts.push(Part { blocks, usage }));
        match usage {
            Some(Use::Add) => self.reduce(operation.amount, blocks, place),
            _ => Ok(place),
        }
    }

    /// What has come is added up, where that takes time: the place of what ends then.
    fn reduce(&mut self, bytes: u64, blocks: Blocks, received: u32) -> Result<u32, GraphError> {
        let rate = self.reduce_bytes_per_second.filter(|rate| *rate > 0);
        let nanoseconds = rate.map_or(0, |rate| {
            let exact = u128::from(bytes) * 1_000_000_000 + u128::from(rate / 2);
            u64::try_from(exact / u128::from(rate)).unwrap_or(u64::MAX)
        });
        match nanoseconds {
            0 => Ok(received),
            _ => self.add(Operation::compute(nanoseconds), blocks, None, &[received]),
        }
    }

    pub(super) fn next_rank(&mut self) {
        self.before.clear();
        self.present.clear();
        self.round = 1;
        self.builder.next_rank();
    }

    /// The graph of the present rank alone.
    pub(super) fn finish_one(mut self) -> Graph {
        self.builder.next_rank();
        self.builder.finish_here()
    }

    /// The graph, and what each operation carries if that was to be kept.
    pub(super) fn finish(self) -> (Graph, Vec<Part>) {
        (self.builder.finish(), self.parts.unwrap_or_default())
    }
}
