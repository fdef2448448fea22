//! What a cluster asks of the programs that run on its hosts, and what it tells them.
//!
//! Drawn traffic and lists are a part of every cluster; programs are there or not, which is known
//! when this is compiled: [`NoPrograms`] leaves all that is theirs out. Both sorts of messages are
//! in one table and take one way, with the same plans, engines, links and faults. They differ in
//! whose VI they are posted on, and in what hears of them at the end.
//!
//! Where a host has both, the semantics keeps them apart: what programs use of its NIC is theirs
//! ([`Programs::nic`]), with their VIs, limits and events, and what the study's own processes use
//! is the cluster's (`Cluster::drawn`). What is hardware they share: processors, engines, caches,
//! buses and links. So a study goes on beside idle programs as it does without them.
//!
//! Where hosts have several adapters, a host here is a place of the network with one adapter, as
//! [`adapters`](crate::adapters) has it. The places of one host have its processor together, and
//! die together.

mod account;
mod carry;
mod coming;
mod control;
mod failures;
pub(crate) mod guest;
mod look_ahead;
mod pairs;
mod posts;
mod requests;

use core::fmt;

use viaduct_core::verbs::{Answer, Packet, Taken};
use viaduct_core::{
    MessageHeader, Nic, Queue, ReceiveOutcome, RemoteSegment, StartedReceive, StartedRemote, ViId,
    WorkId,
};
use viaduct_hardware::mechanism::Tally;
use viaduct_network::{Begun, Moved};

pub use crate::cluster::Cluster;
pub use account::Take;
pub use guest::ProgramCounts;
pub use pairs::{Outgoing, operation_of};
pub use posts::PairPost;
pub use requests::Crossing;

/// Programs on the hosts of a cluster, with what they use of the hosts' NICs.
///
/// All but the NICs has a body that does nothing: it is for those who have programs.
pub trait Programs: Sized + fmt::Debug {
    /// Whether there can be programs.
    const EXIST: bool;

    /// What the address of the first host is; the others follow.
    const FIRST_ADDRESS: u64;

    /// What happens to programs, and to nobody else.
    type Event: Copy + fmt::Debug + Eq;

    /// The semantics of a host's NIC, as its programs use it.
    fn nic(&self, host: u32) -> &Nic;

    /// As [`Programs::nic`].
    fn nic_mut(&mut self, host: u32) -> &mut Nic;

    /// Memory of these NICs, and of what else hosts have for programs.
    fn state_bytes(&self) -> usize {
        0
    }

    /// An event of programs is due.
    fn handle(_cluster: &mut Cluster<Self>, _event: Self::Event) {}

    /// Takes the bytes of a send of a host's VI that has just started.
    fn gather(&self, _host: u32, _vi: ViId, _work: WorkId, _into: &mut Vec<u8>) {}

    /// Places a message into the receives that it has taken: when its first byte was there, or
    /// just now. Whether it can be.
    fn place(
        &mut self,
        _host: u32,
        _vi: ViId,
        _receive: &StartedReceive,
        _is_early: bool,
        _bytes: &[u8],
    ) -> bool {
        false
    }

    /// A remote write has come to a VI of a host, and ends so if that may be written: what it took,
    /// if it was placed.
    fn write_remote(
        &mut self,
        _to: (u32, ViId),
        _header: &MessageHeader,
        _remote: RemoteSegment,
        _bytes: &[u8],
        _outcome: ReceiveOutcome,
    ) -> Option<StartedRemote> {
        None
    }

    /// A remote read has come to a VI of a host: takes the bytes, if it may.
    fn read_remote(
        &mut self,
        _of: (u32, ViId),
        _header: &MessageHeader,
        _remote: RemoteSegment,
        _into: &mut Vec<u8>,
    ) -> bool {
        false
    }

    /// The answer of a remote read is placed: whether it can be.
    fn place_read(&mut self, _host: u32, _vi: ViId, _work: WorkId, _bytes: &[u8]) -> bool {
        false
    }

    /// A VI has something that its program may take.
    fn settle(_cluster: &mut Cluster<Self>, _host: u32, _vi: ViId) {}

    /// The semantics of a host has something to say, or to be asked.
    fn follow(_cluster: &mut Cluster<Self>, _host: u32) {}

    /// Something was written over the network into a VI's queue.
    fn written(_cluster: &mut Cluster<Self>, _host: u32, _vi: ViId, _queue: Queue) {}

    /// The receiver of a message has read it out of so many slots; whether its sender hears of it
    /// at once.
    fn read(_cluster: &mut Cluster<Self>, _host: u32, _vi: ViId, _slots: u32, _is_heard: bool) {}

    /// The request of a VI's send to an engine that it held has ended.
    fn request_ended(_cluster: &mut Cluster<Self>, _host: u32, _vi: ViId) {}

    /// A message about connections has come to a host, which its kernel agent hears of.
    fn heard(_cluster: &mut Cluster<Self>, _host: u32) {}

    /// A host carries a message of so many bytes: what its adapter does for that.
    fn counted(&mut self, _host: u32, _tally: &Tally, _bytes: u32) {}

    /// A message of so many bytes was placed at a host.
    fn received(&mut self, _host: u32) {}

    /// A host has died, or its NIC alone.
    fn died(_cluster: &mut Cluster<Self>, _host: u32, _is_host: bool) {}

    /// The turn of a request that is no message has come at a host's sending engine, which is
    /// held for it.
    fn serve(_cluster: &mut Cluster<Self>, _host: u32, _request: u32) {}

    /// The bytes of such a request have moved: its flow has the number of the request, with
    /// [`OF_PROGRAM`].
    fn moved(_cluster: &mut Cluster<Self>, _request: u32, _moved: &Moved) {}

    /// Such a request has begun to move over the next hop of its way.
    fn went_on(_cluster: &mut Cluster<Self>, _request: u32, _begun: &Begun) {}

    /// Sends of a host's queue pair that have not begun.
    fn unstarted_of_pair(&self, _host: u32, _pair: u32) -> u32 {
        0
    }

    /// Sends of a host's queue pair that are not complete; none if it is gone, or as new.
    fn incomplete_of_pair(&self, _host: u32, _pair: u32) -> Option<u32> {
        None
    }

    /// Whether programs of a host are told when what a queue pair has begun with is acknowledged.
    fn tells_of_acknowledgements(&self, _host: u32, _pair: u32) -> bool {
        true
    }

    /// The place of a host's queue pair, of which its peers know the number.
    fn place_of_pair(&self, _host: u32, _number: u32) -> Option<u32> {
        None
    }

    /// Begins the next send of a queue pair, if one may: what goes, and its bytes.
    fn begin_of_pair(
        _cluster: &mut Cluster<Self>,
        _host: u32,
        _pair: u32,
        _into: &mut Vec<u8>,
    ) -> Option<Outgoing> {
        None
    }

    /// The last byte of a queue pair's packet of a number has left.
    fn left_of_pair(_cluster: &mut Cluster<Self>, _host: u32, _pair: u32, _sequence: u32) {}

    /// A packet has come to a host: what becomes of it, and what its sender hears of it. The bytes
    /// are the packet's, and then those that it asked for.
    fn take_at_pair(
        _cluster: &mut Cluster<Self>,
        _host: u32,
        _packet: &Packet,
        _bytes: &mut Vec<u8>,
    ) -> Taken {
        Taken::IGNORED
    }

    /// What was said of a queue pair's packet of a number is back, with the bytes it asked for:
    /// whether those are placed.
    fn hear_at_pair(
        _cluster: &mut Cluster<Self>,
        _host: u32,
        _pair: u32,
        _sequence: u32,
        _answer: Answer,
        _bytes: &[u8],
    ) -> bool {
        false
    }

    /// The number of the processor that the program which runs now is on, if it runs on the host of
    /// this first place; 0 if none does.
    fn running(&self, _home: u32) -> u32 {
        0
    }

    /// The host that an event is about, if one: for hints.
    fn host_of(&self, _event: Self::Event) -> Option<u32> {
        None
    }

    /// Asks for the memory of a host's programs, before an event reads it.
    fn prefetch(&self, _host: u32, _vi: Option<ViId>) {}
}

/// Marks what belongs to programs: places of connections, and tags of flows that are no messages.
pub const OF_PROGRAM: u32 = 1 << 31;

/// Nothing happens to nobody.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Never {}

/// Hosts without programs.
#[derive(Debug)]
pub struct NoPrograms;

impl Programs for NoPrograms {
    const EXIST: bool = false;
    const FIRST_ADDRESS: u64 = 0;

    type Event = Never;

    fn nic(&self, _host: u32) -> &Nic {
        unreachable!("where there are no programs nothing is theirs")
    }

    fn nic_mut(&mut self, _host: u32) -> &mut Nic {
        unreachable!("where there are no programs nothing is theirs")
    }
}
