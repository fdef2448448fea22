//! Who uses which channel of a link.
//!
//! ```text
//!            allocate, reserve            attach
//!   (free) ------------------> Reserved ---------> Attached
//!     ^                           | leave             | leave          | peer left
//!     |                           v                   v                v
//!     |   peer left, or its ack   Draining <----------+             Closing
//!     +---------------------------+                                    |
//!     +----------------------- our ack: finish ------------------------+
//! ```
//!
//! Channels are numbered by their owner, who zeroes and hands out the blocks; the lowest bit of a
//! channel's number tells which end that is. The other end knows the channels in use only.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::connect::Connectable;
use crate::wire::CloseReason;

/// The channels of one end.
pub(super) struct Channels {
    /// Our bit in the numbers of our own channels.
    bit: u32,
    own: Vec<Entry>,
    free: Vec<u32>,
    theirs: BTreeMap<u32, Entry>,
}

struct Entry {
    connection: u64,
    state: ChannelState,
}

enum ChannelState {
    Free,
    /// A connection is being made. What the peer does meanwhile is kept.
    Reserved {
        closed: Option<CloseReason>,
        events: Vec<(u8, u32)>,
    },
    Attached(Arc<dyn Connectable>),
    /// The peer left; our VI is being told.
    Closing,
    /// We left; the peer has not yet.
    Draining,
}

/// The result of attaching a VI.
pub(super) enum Attachment {
    /// It is attached; these events came before.
    Done(Vec<(u8, u32)>),
    /// The peer left before: tell the VI, then `finish`.
    PeerLeft(CloseReason),
    /// There is no such reservation: the link is dead.
    Gone,
}

/// What to do when the peer has left a channel.
pub(super) enum Departure {
    /// Tell the VI, then `finish`, then acknowledge.
    Tell(Arc<dyn Connectable>),
    /// Nobody is there: acknowledge.
    Acknowledge,
    /// Nothing, or not yet.
    Nothing,
}

impl Channels {
    pub(super) fn new(bit: u32) -> Self {
        Self {
            bit,
            own: Vec::new(),
            free: Vec::new(),
            theirs: BTreeMap::new(),
        }
    }

    /// Takes a free channel of ours, if there is one, and tells whether it was used before.
    pub(super) fn allocate(&mut self, connection: u64) -> Option<(u32, bool)> {
        let index = self.free.pop()?;
        let entry = &mut self.own[index as usize];
        let was_used = entry.connection != 0;
        *entry = Entry::reserved(connection);
        Some((index << 1 | self.bit, was_used))
    }

    /// Adds free channels of ours.
    pub(super) fn add(&mut self, channels: u32) {
        let first = self.own.len() as u32;
        for _ in 0..channels {
            self.own.push(Entry {
                connection: 0,
                state: ChannelState::Free,
            });
        }
        // The lowest is handed out first.
        self.free.extend((first..first + channels).rev());
    }

    /// Takes a channel of the peer's that it told us of. False when it is ours or in use.
    pub(super) fn reserve(&mut self, channel: u32, connection: u64) -> bool {
        if self.is_own(channel) || self.theirs.contains_key(&channel) {
            return false;
        }
        self.theirs.insert(channel, Entry::reserved(connection));
        true
    }

    /// Gives a reserved channel its VI.
    pub(super) fn attach(
        &mut self,
        channel: u32,
        connection: u64,
        vi: Arc<dyn Connectable>,
    ) -> Attachment {
        let Some(entry) = self.entry(channel, connection) else {
            return Attachment::Gone;
        };
        match &mut entry.state {
            ChannelState::Reserved {
                closed: Some(reason),
                ..
            } => {
                let reason = *reason;
                entry.state = ChannelState::Closing;
                Attachment::PeerLeft(reason)
            }
            ChannelState::Reserved { events, .. } => {
                let events = std::mem::take(events);
                entry.state = ChannelState::Attached(vi);
                Attachment::Done(events)
            }
            _ => Attachment::Gone,
        }
    }

    /// Our end leaves. False when it had left, or is being told that the peer has.
    pub(super) fn leave(&mut self, channel: u32, connection: u64) -> bool {
        let is_own = self.is_own(channel);
        let Some(entry) = self.entry(channel, connection) else {
            return false;
        };
        let peer_has_left = match &entry.state {
            ChannelState::Reserved { closed, .. } => closed.is_some(),
            ChannelState::Attached(_) => false,
            _ => return false,
        };
        if is_own && !peer_has_left {
            entry.state = ChannelState::Draining;
        } else {
            self.finish(channel, connection);
        }
        true
    }

    /// The peer has left.
    pub(super) fn peer_left(
        &mut self,
        channel: u32,
        connection: u64,
        reason: CloseReason,
    ) -> Departure {
        let Some(entry) = self.entry(channel, connection) else {
            return Departure::Acknowledge;
        };
        match &mut entry.state {
            ChannelState::Reserved { closed, .. } => {
                closed.get_or_insert(reason);
                Departure::Nothing
            }
            ChannelState::Attached(vi) => {
                let vi = vi.clone();
                entry.state = ChannelState::Closing;
                Departure::Tell(vi)
            }
            ChannelState::Draining => {
                self.finish(channel, connection);
                Departure::Nothing
            }
            ChannelState::Closing | ChannelState::Free => Departure::Nothing,
        }
    }

    /// The peer has left after we did.
    pub(super) fn acknowledged(&mut self, channel: u32, connection: u64) {
        if let Some(entry) = self.entry(channel, connection)
            && matches!(entry.state, ChannelState::Draining)
        {
            self.finish(channel, connection);
        }
    }

    /// Neither end uses the channel any more.
    pub(super) fn finish(&mut self, channel: u32, connection: u64) {
        if !self.is_own(channel) {
            if self.entry(channel, connection).is_some() {
                self.theirs.remove(&channel);
            }
        } else if let Some(entry) = self.entry(channel, connection) {
            // The number stays: it tells that the block was used.
            entry.state = ChannelState::Free;
            self.free.push(channel >> 1);
        }
    }

    /// The VI of a channel.
    pub(super) fn vi(&mut self, channel: u32) -> Option<Arc<dyn Connectable>> {
        match &self.any_entry(channel)?.state {
            ChannelState::Attached(vi) => Some(vi.clone()),
            _ => None,
        }
    }

    /// An event for a channel: its VI, or none when it is kept for later or for nobody.
    pub(super) fn event(
        &mut self,
        channel: u32,
        code: u8,
        operation: u32,
    ) -> Option<Arc<dyn Connectable>> {
        match &mut self.any_entry(channel)?.state {
            ChannelState::Attached(vi) => Some(vi.clone()),
            ChannelState::Reserved { events, .. } => {
                if events.len() < EARLY_EVENTS_MAX {
                    events.push((code, operation));
                }
                None
            }
            _ => None,
        }
    }

    /// The link is dead: everybody who is to be told. Reservations are gone.
    pub(super) fn clear(&mut self) -> Vec<(u64, Arc<dyn Connectable>)> {
        let own = std::mem::take(&mut self.own);
        let theirs = std::mem::take(&mut self.theirs);
        self.free.clear();
        own.into_iter()
            .chain(theirs.into_values())
            .filter_map(|entry| match entry.state {
                ChannelState::Attached(vi) => Some((entry.connection, vi)),
                _ => None,
            })
            .collect()
    }

    /// Channels that are not free.
    pub(super) fn in_use(&self) -> usize {
        self.own.len() - self.free.len() + self.theirs.len()
    }

    fn is_own(&self, channel: u32) -> bool {
        channel & 1 == self.bit
    }

    fn any_entry(&mut self, channel: u32) -> Option<&mut Entry> {
        if self.is_own(channel) {
            self.own.get_mut(channel as usize >> 1)
        } else {
            self.theirs.get_mut(&channel)
        }
    }

    fn entry(&mut self, channel: u32, connection: u64) -> Option<&mut Entry> {
        self.any_entry(channel).filter(|entry| {
            entry.connection == connection && !matches!(entry.state, ChannelState::Free)
        })
    }
}

impl Entry {
    const fn reserved(connection: u64) -> Self {
        Self {
            connection,
            state: ChannelState::Reserved {
                closed: None,
                events: Vec::new(),
            },
        }
    }
}

/// Events kept for a VI that is about to be attached; more are dropped.
const EARLY_EVENTS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::connect::{ChannelEnd, LocalEnd, RemoteEnd};

    struct Nobody;

    impl Connectable for Nobody {
        fn local_end(&self) -> LocalEnd {
            unreachable!()
        }
        fn begin_pending(&self) -> viaduct_provider::Result<()> {
            unreachable!()
        }
        fn cancel_pending(&self) {}
        fn connect(&self, _: ChannelEnd, _: RemoteEnd) -> viaduct_provider::Result<()> {
            unreachable!()
        }
        fn peer_closed(&self, _: u64, _: CloseReason) {}
        fn kicked(&self) {}
        fn peer_event(&self, _: u8, _: u32) {}
    }

    /// What is on the way between two ends.
    #[derive(Clone, Copy)]
    enum Message {
        Close(u32, u64),
        Acknowledge(u32, u64),
    }

    struct End {
        channels: Channels,
        inbox: VecDeque<Message>,
        /// Reserved or attached here, as the VIs believe.
        open: Vec<(u32, u64)>,
        /// The VI is being told.
        closing: Vec<(u32, u64)>,
    }

    impl End {
        fn new(bit: u32) -> Self {
            let mut channels = Channels::new(bit);
            channels.add(2);
            Self {
                channels,
                inbox: VecDeque::new(),
                open: Vec::new(),
                closing: Vec::new(),
            }
        }
    }

    fn deliver(ends: &mut [End; 2], to: usize) {
        let Some(message) = ends[to].inbox.pop_front() else {
            return;
        };
        match message {
            Message::Close(channel, connection) => {
                let reason = CloseReason::Disconnected;
                match ends[to].channels.peer_left(channel, connection, reason) {
                    Departure::Tell(_) => ends[to].closing.push((channel, connection)),
                    Departure::Acknowledge => {
                        let acknowledge = Message::Acknowledge(channel, connection);
                        ends[1 - to].inbox.push_back(acknowledge);
                    }
                    Departure::Nothing => {}
                }
            }
            Message::Acknowledge(channel, connection) => {
                ends[to].channels.acknowledged(channel, connection);
            }
        }
    }

    fn tell(ends: &mut [End; 2], at: usize) {
        if let Some((channel, connection)) = ends[at].closing.pop() {
            ends[at].open.retain(|open| *open != (channel, connection));
            ends[at].channels.finish(channel, connection);
            let acknowledge = Message::Acknowledge(channel, connection);
            ends[1 - at].inbox.push_back(acknowledge);
        }
    }

    fn leave(ends: &mut [End; 2], at: usize, which: usize) {
        if let Some(&(channel, connection)) = ends[at].open.get(which) {
            // While the VI is being told, its own leaving says nothing.
            if ends[at].channels.leave(channel, connection) {
                ends[at].open.remove(which);
                let close = Message::Close(channel, connection);
                ends[1 - at].inbox.push_back(close);
            } else {
                assert!(ends[at].closing.contains(&(channel, connection)));
            }
        }
    }

    #[test]
    fn a_channel_is_free_when_both_ends_have_left_and_not_before() {
        // Goal: whatever the order of connecting, leaving and hearing, no channel is handed out
        // while the other end still believes that it is in use, and none is lost.
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 32) % below
        };
        let mut ends = [End::new(0), End::new(1)];
        let mut connections = 0_u64;
        for _ in 0..200_000 {
            let at = next(2) as usize;
            let which = next(3) as usize;
            match next(6) {
                0 => {
                    connections += 1;
                    let Some((channel, _)) = ends[at].channels.allocate(connections) else {
                        continue;
                    };
                    let used = ends[1 - at].open.iter().any(|(other, _)| *other == channel);
                    assert!(!used, "channel {channel} is handed out twice");
                    ends[at].open.push((channel, connections));
                    // The client may have given up before it heard of the channel.
                    if next(4) > 0 {
                        assert!(ends[1 - at].channels.reserve(channel, connections));
                        ends[1 - at].open.push((channel, connections));
                    }
                }
                1 => {
                    let vi: Arc<dyn Connectable> = Arc::new(Nobody);
                    if let Some(&(channel, connection)) = ends[at].open.get(which)
                        && let Attachment::PeerLeft(_) =
                            ends[at].channels.attach(channel, connection, vi)
                    {
                        ends[at].closing.push((channel, connection));
                    }
                }
                2 => leave(&mut ends, at, which),
                3 => tell(&mut ends, at),
                _ => deliver(&mut ends, at),
            }
        }
        for _ in 0..100 {
            for at in 0..2 {
                leave(&mut ends, at, 0);
                tell(&mut ends, at);
                deliver(&mut ends, at);
            }
        }
        assert!(connections > 1000);
        for end in &ends {
            assert!(end.open.is_empty() && end.inbox.is_empty());
            assert_eq!(end.channels.in_use(), 0);
            assert_eq!(end.channels.free.len(), 2);
        }
    }
}
