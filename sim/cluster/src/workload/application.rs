//! An application as a graph of operations, for one cluster.

use std::sync::Arc;

use thiserror::Error;
use viaduct_engine::{Stream, StreamKey, Time};
use viaduct_hardware::Rate;
use viaduct_operations::collective::Request;
use viaduct_operations::{Graph, Kind, Operation, OperationId, OperationName};
use viaduct_topology::{HostId, Topology};

use crate::adapters::{AdapterChoice, Adapters};

/// Computations of a rank take no longer in all: as far as time is counted, with room to spare.
const COMPUTING_MAX: Time = Time::from_picoseconds(1 << 60);

/// No message of an operation is longer, bytes.
pub const OPERATION_BYTES_MAX: u64 = 1 << 40;

/// How what is said of an application begins.
const SHOWN: &str = "the application";

/// What is said of messages that were lost.
pub(crate) const LOST: &str = "lost on the way";

/// What helps where a violation of a run is the fault of its application, and not of the
/// simulation.
#[must_use]
pub fn help_of_application(violation: &str) -> Option<&'static str> {
    let help = match violation.contains(LOST) {
        true => {
            "a receive took the message behind one that was lost; an adapter that sends again \
             (traffic.reliability, hosts.nic) loses none"
        }
        false => "the file, or what wrote it, is to be mended: do not use these results",
    };
    violation.starts_with(SHOWN).then_some(help)
}

/// Most operations that simulated hosts carry out.
pub const APPLICATION_OPERATIONS_MAX: usize = 1 << 30;

/// What carries messages between ranks of one host: memory, and no adapter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalLink {
    /// How fast a rank sends to others of its host, one message after the other.
    pub rate: Rate,
    /// From the last byte's being sent to its being there.
    pub latency: Time,
}

/// What processors do for messages of ranks, beside handing them to adapters and taking them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Handling {
    /// How fast an eager message that came before its receive is copied to where that wants it;
    /// infinite if that takes no time.
    pub copy_rate: Rate,
    /// Whether both ends of a longer message register its bytes, each time, as the memory of their
    /// hosts costs; else all memory is registered before.
    pub registers: bool,
}

impl Handling {
    /// Nothing that takes time.
    pub const FREE: Self = Self {
        copy_rate: Rate::INFINITE,
        registers: false,
    };
}

/// How ranks talk to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Protocol {
    /// The longest message that is sent before its receiver has asked for it.
    pub eager_bytes: u64,
    /// The most bytes that go with one descriptor: longer messages take several.
    pub piece_bytes: u32,
    /// What carries messages within a host, if anything does.
    pub local: Option<LocalLink>,
    /// The adapters of a host, of which an operation may name one.
    pub adapters: Adapters,
    /// What processors do beside.
    pub handling: Handling,
}

/// Which process each rank is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Placement {
    /// Rank r is process r.
    #[default]
    Linear,
    /// Ranks are processes in an order that is drawn, by the seed of the run.
    Random,
    /// One after the other on another switch: all first hosts of switches, then all second ones.
    Scattered,
}

/// The purpose of the stream that places ranks.
const PLACEMENT_PURPOSE: u64 = 0x7261_6e6b;

impl Placement {
    /// Processes of a network's hosts, so many on each, in the order in which ranks take them; a
    /// host of several adapters is on the switch of its first.
    fn order(self, topology: &Topology, (each, adapters): (u32, u32), seed: u64) -> Vec<u32> {
        let hosts = topology.host_count() / adapters;
        let mut order: Vec<u32> = (0..hosts * each).collect();
        match self {
            Self::Linear => {}
            Self::Random => {
                let mut stream = Stream::new(StreamKey {
                    seed,
                    purpose: PLACEMENT_PURPOSE,
                    entity: 0,
                });
                for place in (1..order.len()).rev() {
                    order.swap(place, stream.below(place as u64 + 1) as usize);
                }
            }
            Self::Scattered => {
                let mut before = vec![0_u32; topology.switch_count() as usize];
                let mut of_host = |host: u32| {
                    let switch = topology.host_switch(HostId(host * adapters)).0;
                    let count = &mut before[switch as usize];
                    *count += 1;
                    (*count, switch)
                };
                let turns: Vec<(u32, u32)> = (0..hosts).map(&mut of_host).collect();
                order.sort_by_key(|process| {
                    let (host, place) = (process / each, process % each);
                    (place, turns[host as usize], host)
                });
            }
        }
        order
    }
}

/// Where ranks are in one run. A process is its port at its host's first adapter.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// By rank, its process.
    processes: Vec<u32>,
    /// By port, its rank; [`NO_RANK`] if it has none.
    ranks: Vec<u32>,
    processes_per_host: u32,
}

/// Stands for the rank of a process that has none.
const NO_RANK: u32 = u32::MAX;

impl Places {
    pub(crate) fn new(application: &Application, topology: &Topology, seed: u64) -> Self {
        let each = application.cluster.1;
        let adapters = application.protocol.adapters.count;
        let order = (application.placement).order(topology, (each, adapters), seed);
        let home_port = |process: u32| process / each * adapters * each + process % each;
        let mut processes: Vec<u32> = order.into_iter().map(home_port).collect();
        let mut ranks = vec![NO_RANK; processes.len() * adapters as usize];
        processes.truncate(application.graph.ranks() as usize);
        for (rank, process) in (0..).zip(&processes) {
            ranks[*process as usize] = rank;
        }
        Self {
            processes,
            ranks,
            processes_per_host: each,
        }
    }

    /// The process of a rank.
    #[inline]
    pub(crate) fn process_of(&self, rank: u32) -> u32 {
        self.processes[rank as usize]
    }

    /// The rank of a process, if it has one.
    #[inline]
    pub(crate) fn rank_of(&self, process: u32) -> Option<u32> {
        let rank = self.ranks.get(process as usize).copied();
        rank.filter(|rank| *rank != NO_RANK)
    }

    /// The host of a rank: the place of its first adapter.
    #[inline]
    pub(crate) fn host_of(&self, rank: u32) -> u32 {
        self.process_of(rank) / self.processes_per_host
    }

    /// Whether messages between two ranks stay on their host.
    #[inline]
    pub(crate) fn is_local(&self, rank: u32, other: u32) -> bool {
        self.host_of(rank) == self.host_of(other)
    }

    /// Ports that there are.
    pub(crate) fn process_count(&self) -> usize {
        self.ranks.len()
    }
}

/// A graph of operations, and who carries it out.
#[derive(Debug, PartialEq)]
pub struct Application {
    graph: Arc<Graph>,
    placement: Placement,
    /// Hosts, and processes on each.
    cluster: (u32, u32),
    protocol: Protocol,
    /// Bytes of the shortest and the longest message that goes to an adapter.
    bytes: (u32, u32),
    messages: u64,
    /// The collective operation that it is, if it is one.
    request: Option<Request>,
    /// The file that it was read from, if it was.
    file: Option<String>,
}

/// Why a cluster cannot carry out a graph.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ApplicationError {
    /// There is nothing to carry out.
    #[error("the graph has no operation")]
    Empty,
    /// More operations than can be told apart.
    #[error("the graph has {0} operations; hosts carry out at most {APPLICATION_OPERATIONS_MAX}")]
    TooMany(usize),
    /// More ranks than processes.
    #[error("the graph has {ranks} ranks, and the cluster {processes} processes")]
    Ranks {
        /// Ranks of the graph.
        ranks: u32,
        /// Processes of the cluster.
        processes: u64,
    },
    /// An operation names an adapter that no host has.
    #[error("{0} names adapter {1}, and each host has {2}, numbered from 0 (hosts.adapters)")]
    Adapter(OperationName, u8, u32),
    /// An operation names an adapter, and another rule chooses it.
    #[error("{0} names adapter {1}, and hosts.adapter_choice is not \"operation\"")]
    AdapterChosen(OperationName, u8),
    /// A message between two ranks of one host, which nothing carries.
    #[error("{0}: both ranks may be on one host, and nothing says what a message costs within it")]
    WithinHost(OperationName),
    /// A message of more bytes than are carried.
    #[error("{0}: no message has more than {1} bytes")]
    Bytes(OperationName, u64),
    /// Computations of a rank that take too long.
    #[error("rank {0} computes for longer than 13 days in all")]
    Computing(u32),
}

/// Messages that an operation gives to adapters: how many, and bytes of the shortest and the
/// longest; none if it is carried out without them.
type OnNetwork = Option<(u64, u32, u32)>;

impl Application {
    /// A graph on a cluster of so many hosts, with so many processes on each.
    ///
    /// # Errors
    ///
    /// The first operation or rank that the cluster cannot carry out.
    pub fn new(
        graph: Arc<Graph>,
        cluster: (u32, u32),
        placement: Placement,
        protocol: Protocol,
    ) -> Result<Self, ApplicationError> {
        let protocol = Protocol {
            piece_bytes: protocol.piece_bytes.max(1),
            ..protocol
        };
        if graph.is_empty() {
            return Err(ApplicationError::Empty);
        }
        if graph.len() > APPLICATION_OPERATIONS_MAX {
            return Err(ApplicationError::TooMany(graph.len()));
        }
        let processes = u64::from(cluster.0) * u64::from(cluster.1);
        if u64::from(graph.ranks()) > processes {
            return Err(ApplicationError::Ranks {
                ranks: graph.ranks(),
                processes,
            });
        }
        let mut application = Self {
            graph,
            placement,
            cluster,
            protocol,
            bytes: (u32::MAX, 0),
            messages: 0,
            request: None,
            file: None,
        };
        application.look_at_operations()?;
        Ok(application)
    }

    /// Checks all operations, and counts their messages.
    fn look_at_operations(&mut self) -> Result<(), ApplicationError> {
        let graph = Arc::clone(&self.graph);
        for rank in 0..graph.ranks() {
            let mut computing = Time::ZERO;
            for id in graph.of_rank(rank) {
                let operation = graph.operation(id);
                if operation.adapter > 0 {
                    self.check_adapter(id, operation.adapter)?;
                }
                if operation.kind == Kind::Compute {
                    let span = Time::from_picoseconds(1000).saturating_mul(operation.amount);
                    computing = computing.saturating_add(span);
                } else if operation.amount > self.bytes_max() {
                    return Err(ApplicationError::Bytes(graph.name(id), self.bytes_max()));
                }
                if operation.kind == Kind::Send {
                    let may_be_local = self.may_be_local(rank, operation.peer);
                    if may_be_local && self.protocol.local.is_none() {
                        return Err(ApplicationError::WithinHost(graph.name(id)));
                    }
                    if let Some((messages, least, most)) = self.on_network(rank, &operation) {
                        self.messages += messages;
                        self.bytes = (self.bytes.0.min(least), self.bytes.1.max(most));
                    }
                }
            }
            if computing > COMPUTING_MAX {
                return Err(ApplicationError::Computing(rank));
            }
        }
        if self.messages == 0 {
            self.bytes = (0, 0);
        }
        Ok(())
    }

    fn check_adapter(&self, id: OperationId, adapter: u8) -> Result<(), ApplicationError> {
        let Adapters { count, choice, .. } = self.protocol.adapters;
        let name = || self.graph.name(id);
        match choice {
            _ if u32::from(adapter) >= count => {
                Err(ApplicationError::Adapter(name(), adapter, count))
            }
            AdapterChoice::Operation => Ok(()),
            _ => Err(ApplicationError::AdapterChosen(name(), adapter)),
        }
    }

    /// No message has more bytes, nor more pieces than are counted.
    fn bytes_max(&self) -> u64 {
        let counted = u64::from(u32::MAX) * u64::from(self.protocol.piece_bytes);
        OPERATION_BYTES_MAX.min(counted)
    }

    fn on_network(&self, rank: u32, send: &Operation) -> OnNetwork {
        if self.placement == Placement::Linear && self.may_be_local(rank, send.peer) {
            return None;
        }
        let (pieces, last) = self.pieces(send.amount);
        let most = match pieces {
            1 => last,
            _ => self.piece_bytes(send.amount),
        };
        Some(match self.is_eager(send.amount) {
            true => (pieces.into(), last, most),
            // With its request and the answer to that.
            false => (u64::from(pieces) + 2, 0, most),
        })
    }

    /// The same, said to be a collective operation.
    #[must_use]
    pub fn of_request(self, request: Request) -> Self {
        Self {
            request: Some(request),
            ..self
        }
    }

    /// The same, said to be read from a file, or from those of a folder.
    #[must_use]
    pub fn of_file(self, file: String) -> Self {
        Self {
            file: Some(file),
            ..self
        }
    }

    /// The file that it is said to be read from.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// As messages name it.
    pub(crate) fn shown(&self) -> String {
        match &self.file {
            Some(file) => format!("{SHOWN} of `{file}`"),
            None => SHOWN.to_owned(),
        }
    }

    /// The collective operation that it is, if it is one.
    #[must_use]
    pub fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    /// What is carried out.
    #[must_use]
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Which process each rank is.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Hosts of the cluster that it is for, and processes on each.
    #[must_use]
    pub fn made_for(&self) -> (u32, u32) {
        self.cluster
    }

    /// How ranks talk to each other.
    #[must_use]
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// Messages that adapters are given in all at most, requests and their answers among them.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Smallest and largest payload of these, bytes.
    #[must_use]
    pub fn bytes_range(&self) -> (u32, u32) {
        self.bytes
    }

    /// Whether two ranks can be on one host.
    fn may_be_local(&self, rank: u32, other: u32) -> bool {
        let each = self.cluster.1;
        match self.placement {
            Placement::Linear => rank / each == other / each,
            Placement::Random | Placement::Scattered => each > 1 || rank == other,
        }
    }

    /// Whether a message of so many bytes is sent before its receiver has asked for it.
    #[inline]
    #[must_use]
    pub fn is_eager(&self, bytes: u64) -> bool {
        bytes <= self.protocol.eager_bytes
    }

    /// The bytes of the descriptors that a message of so many bytes takes, but for the last one:
    /// as many as one takes, or for each adapter alike.
    #[inline]
    #[must_use]
    pub fn piece_bytes(&self, bytes: u64) -> u32 {
        let Protocol {
            piece_bytes,
            adapters,
            ..
        } = self.protocol;
        if adapters.count == 1 || adapters.choice != AdapterChoice::Stripe || self.is_eager(bytes) {
            return piece_bytes;
        }
        let pieces = bytes.div_ceil(piece_bytes.into()).max(1);
        let pieces = pieces.next_multiple_of(adapters.count.into());
        // No more than one takes, which are 32 bits.
        bytes.div_ceil(pieces).max(1) as u32
    }

    /// How many descriptors a message of so many bytes takes, and the bytes of the last one.
    #[inline]
    #[must_use]
    pub fn pieces(&self, bytes: u64) -> (u32, u32) {
        let each = u64::from(self.piece_bytes(bytes));
        let pieces = bytes.div_ceil(each).max(1);
        // That they are fewer than 2^32 was checked.
        (pieces as u32, (bytes - (pieces - 1) * each) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use viaduct_operations::Builder;
    use viaduct_topology::Ports;

    const PROTOCOL: Protocol = Protocol {
        eager_bytes: 1_000,
        piece_bytes: 400,
        local: None,
        adapters: Adapters::ONE,
        handling: Handling::FREE,
    };

    fn graph(operations: &[&[Operation]]) -> Arc<Graph> {
        let mut builder = Builder::new(operations.len() as u32);
        for of_rank in operations {
            for operation in *of_rank {
                builder.add(*operation).unwrap();
            }
            builder.next_rank();
        }
        Arc::new(builder.finish())
    }

    fn made(operations: &[&[Operation]], hosts: u32, each: u32) -> Result<Application, String> {
        let made = Application::new(
            graph(operations),
            (hosts, each),
            Placement::Linear,
            PROTOCOL,
        );
        made.map_err(|error| error.to_string())
    }

    #[test]
    fn messages_are_cut_into_pieces_and_long_ones_are_asked_for() {
        let sends = [
            Operation::send(0, 1),
            Operation::send(1_000, 1),
            Operation::send(1_001, 1),
        ];
        let application = made(&[&sends, &[]], 2, 1).unwrap();
        assert_eq!(
            [0, 1, 400, 401, 1_001].map(|bytes| application.pieces(bytes)),
            [(1, 0), (1, 1), (1, 400), (2, 1), (3, 201)]
        );
        // One; three; three, a request and its answer.
        assert_eq!(application.messages(), 1 + 3 + 5);
        assert_eq!(application.bytes_range(), (0, 400));
    }

    #[test]
    fn what_a_cluster_cannot_carry_out_is_named() {
        let send = Operation::send(8, 1);
        let error = |operations: &[&[Operation]], hosts, each| {
            made(operations, hosts, each).expect_err("refused")
        };
        assert_eq!(error(&[&[], &[]], 2, 1), "the graph has no operation");
        assert_eq!(
            error(&[&[send], &[], &[]], 2, 1),
            "the graph has 3 ranks, and the cluster 2 processes"
        );
        assert!(error(&[&[send], &[]], 2, 2).contains("both ranks may be on one host"));
        let other = Operation { adapter: 1, ..send };
        assert!(error(&[&[other], &[]], 2, 1).contains("names adapter 1"));
        let long = Operation::send(OPERATION_BYTES_MAX + 1, 1);
        assert!(error(&[&[long], &[]], 2, 1).contains("no message has more than"));
        let slow = [Operation::compute(1 << 50), Operation::compute(1 << 50)];
        assert!(error(&[&slow], 2, 1).contains("rank 0 computes for longer"));
    }

    #[test]
    fn ranks_are_placed_in_order_at_random_or_on_one_switch_after_the_other() {
        let torus = Topology::torus(&[2, 2], 2, Ports(8)).unwrap();
        let places = |placement, seed, each| {
            let operations = [Operation::compute(1)];
            let ranks = [&operations[..]; 8];
            let made = Application::new(graph(&ranks), (8, each), placement, PROTOCOL);
            Places::new(&made.unwrap(), &torus, seed).processes
        };
        let in_order: Vec<u32> = (0..8).collect();
        assert_eq!(places(Placement::Linear, 1, 1), in_order);
        assert_eq!(places(Placement::Scattered, 1, 1), [0, 2, 4, 6, 1, 3, 5, 7]);
        // Processes of one host are on one switch: the first ones come first.
        assert_eq!(
            places(Placement::Scattered, 1, 2),
            [0, 4, 8, 12, 2, 6, 10, 14]
        );
        let random = places(Placement::Random, 1, 1);
        assert_eq!(random, places(Placement::Random, 1, 1));
        assert_ne!(random, places(Placement::Random, 2, 1));
        let mut sorted = random.clone();
        sorted.sort_unstable();
        assert!(sorted == in_order && random != in_order);
    }
}
