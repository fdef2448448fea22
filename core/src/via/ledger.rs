//! What the reliable levels and the extensions keep of a connection. A plain unreliable VI has
//! none.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::descriptor::{Descriptor, Operation};
use crate::via::attributes::{Extensions, RemoteViAttributes, ViAttributes};
use crate::via::outcome::{CompletesWhen, completes_when};
use crate::via::work_queue::WorkId;

/// Lives as long as one connection.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The first send of the connection: message number 0 to the peer. At the reliable levels each
    /// started send is one message, and messages arrive in order, so numbers need not travel.
    first_send: WorkId,
    /// Messages of the peer that have arrived; the last has this number less one.
    arrived: u64,
    /// Remote reads of this end that are not complete.
    reads_under_way: u32,
    /// Whether sends complete only when they are acknowledged.
    pub(crate) awaits_acknowledgement: bool,
    pub(crate) local: Extensions,
    pub(crate) peer: Extensions,
    /// With flow control: capacities of the peer's receives that no message of this end has taken.
    #[expect(
        clippy::box_collection,
        reason = "a word in place of four: few connections have flow control"
    )]
    credits: Option<Box<VecDeque<u32>>>,
    /// Whether the VI waits to be named as ready.
    pub(crate) is_ready: bool,
}

impl Ledger {
    /// `None` for a connection that needs none.
    pub(crate) fn new(
        attributes: &ViAttributes,
        remote: &RemoteViAttributes,
        first_send: WorkId,
    ) -> Option<Self> {
        let (local, peer) = (attributes.extensions, remote.extensions);
        let level = attributes.reliability;
        let is_plain = !level.is_reliable()
            && local == Extensions::NONE
            // How the peer splits matters to flow control at this end only.
            && !peer.flow_control;
        (!is_plain).then(|| Self {
            first_send,
            arrived: 0,
            reads_under_way: 0,
            awaits_acknowledgement: completes_when(level) == CompletesWhen::Placed,
            local,
            peer,
            credits: None,
            is_ready: false,
        })
    }

    /// Whether a send must stay in its queue for now.
    ///
    /// VIA, queue fence: not before all earlier remote reads are complete. Extension, flow control:
    /// not before the peer has posted what the message takes.
    pub(crate) fn defers(&self, descriptor: &Descriptor) -> bool {
        (descriptor.queue_fence && self.reads_under_way > 0)
            || (self.local.flow_control && self.credits_taken(descriptor).is_none())
    }

    /// A send that is not deferred starts.
    pub(crate) fn start(&mut self, descriptor: &Descriptor) {
        if descriptor.operation == Operation::RdmaRead {
            self.reads_under_way += 1;
        }
        if self.local.flow_control {
            let taken = self.credits_taken(descriptor).unwrap_or(0);
            if let Some(credits) = &mut self.credits {
                credits.drain(..taken);
            }
        }
    }

    /// A started send ended.
    pub(crate) fn end(&mut self, operation: Operation) {
        if operation == Operation::RdmaRead {
            self.reads_under_way = self.reads_under_way.saturating_sub(1);
        }
    }

    /// The peer has posted receives, in this order.
    pub(crate) fn add_credits(&mut self, capacities: &[u32]) {
        let credits = self.credits.get_or_insert_default();
        let room = CREDITS_MAX.saturating_sub(credits.len());
        credits.extend(capacities.iter().take(room));
    }

    /// A message of the peer has arrived.
    pub(crate) fn arrive(&mut self) {
        self.arrived += 1;
    }

    /// The number of the message that arrived last.
    pub(crate) fn last_arrived(&self) -> u64 {
        self.arrived.saturating_sub(1)
    }

    /// Which send a message number of the peer's means.
    pub(crate) fn send_of(&self, message: u64) -> WorkId {
        self.first_send.following(message)
    }

    /// Receives of the peer that a message takes; `None` if they are not all posted.
    fn credits_taken(&self, descriptor: &Descriptor) -> Option<usize> {
        let is_message = match descriptor.operation {
            Operation::SendReceive => true,
            Operation::RdmaWrite => descriptor.immediate.is_some(),
            Operation::RdmaRead | Operation::Illegal => false,
        };
        if !is_message {
            return Some(0);
        }
        let mut credits = self
            .credits
            .iter()
            .flat_map(|credits| credits.iter().copied());
        let splits = self.peer.request_splitting && descriptor.operation == Operation::SendReceive;
        if !splits {
            return credits.next().map(|_| 1);
        }
        receives_taken(credits.map(u64::from), descriptor.length)
    }
}

/// How many receives of these capacities a split message takes: as few as hold it, at least one.
pub(crate) fn receives_taken(capacities: impl Iterator<Item = u64>, length: u32) -> Option<usize> {
    let mut room = 0_u64;
    for (index, capacity) in capacities.enumerate() {
        room += capacity;
        if room >= u64::from(length) {
            return Some(index + 1);
        }
    }
    None
}

/// Receives of a peer that are kept in mind. A queue is never that long, but a peer may say so.
const CREDITS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_message_takes_as_few_receives_as_hold_it_and_at_least_one() {
        let taken = |length| receives_taken([10, 0, 5].into_iter(), length);
        assert_eq!(taken(0), Some(1));
        assert_eq!(taken(10), Some(1));
        assert_eq!(taken(11), Some(3));
        assert_eq!(taken(15), Some(3));
        assert_eq!(taken(16), None);
        assert_eq!(receives_taken([].into_iter(), 0), None);
    }
}
