//! Transport: messages from interface to interface, exactly once, over links that lose, double and
//! delay them and hosts that reboot.
//!
//! Between each pair of interfaces lie a few *logical channels*, each bound to a route. A channel
//! is stop-and-wait: one packet at a time, sent again until an answer comes. What an answer says
//! was decided where the message was to be written: *accepted* (it is in the destination endpoint's
//! queue), or *refused* with a [`Reason`], for now or for good.
//!
//! ```text
//!   sender                                       receiver
//!     | packet (channel, sequence, stamp) -------> |  new: judge it; seen: the same answer again;
//!     | <------ answer (stamp, verdict, previous)  |  older: drop it
//! ```
//!
//! **Taking off.** After [`Config::transmissions_max`] transmissions a message leaves its channel,
//! so that others can use it, and is put on again later. Whether it arrived may be unknown then: a
//! copy, or a lost answer, may still be under way. The channel's next packet settles it. A receiver
//! that has seen sequence s + 1 drops whatever comes of s, and each answer to s + 1 says what
//! became of s (`previous`). So a message is put on again under a new sequence, on any channel,
//! only when it is certain that no copy of it was or will be accepted; until then it may go on only
//! under its own. A channel has at most one message of unknown fate beside the one it carries. If
//! nobody else has a message for the channel and the fate must be known ([`Transport::recall`]), an
//! empty packet goes.
//!
//! **Incarnations.** Every boot of an interface has a higher number than those before; a packet
//! names the sender's, and the receiver's as the sender knows it. A receiver accepts only what was
//! meant for its present incarnation. Whoever is out of date is told so by the answer, and by any
//! packet of the other: there is no handshake, and nothing that needs both to be alive at once. A
//! receiver that knows nothing of a channel takes the first sequence it sees.
//!
//! **Silence.** When a peer answers nothing for [`Config::unreachable_after`], all messages to it
//! return to their senders.
//!
//! What holds, for each message given to [`Transport::send`], while its sender does not reboot:
//! 1. exactly one [`Output`] ends it: completed, returned, or released;
//! 2. it is accepted at most once by all incarnations of its destination together;
//! 3. if it completed, it was accepted; if it was released, or returned with `may_have_arrived`
//!    false, it was not and never will be;
//! 4. it ends, unless it is refused for the time being for ever, or answers arrive but never for
//!    it.
//!
//! `may_have_arrived` is true only for what was under way when the peer fell silent or rebooted:
//! which of the two happened first, no protocol can tell.
//!
//! Sequences and stamps have 32 bits and are compared around the circle: a copy must not stay under
//! way while 2^31 packets of its channel pass.
//!
//! In steady state nothing is allocated; each call is O(1), but for a peer's reboot or silence,
//! which costs its channels and the messages that return.

mod lines;
mod messages;
mod packet;
mod peer;
mod receiving;
mod sending;
mod timers;

use viaduct_engine::{Stream, Time};

use crate::names::{Line, NONE, Peer};
use lines::Lines;
pub use messages::MessageId;
use messages::{List, Messages};
pub use packet::{Answer, Fate, Packet, Reason, ReturnReason, Verdict};
use peer::{PeerState, stamp};
use receiving::Incoming;
pub use receiving::{Received, Ticket};
use timers::Timers;

/// Most logical channels between two interfaces, one way.
pub const CHANNELS_MAX: u8 = 32;

/// What a transport is set up with. Times are of the interface's own clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// Interfaces of the network: peers are 0 to `peers` - 1.
    pub peers: u32,
    /// Logical channels from one interface to each other, 1 to [`CHANNELS_MAX`].
    pub channels: u8,
    /// Routes between two interfaces, at least 1. Channel c begins on route c modulo this, and goes
    /// to the next when an answer is overdue.
    pub routes: u8,
    /// The shortest time after which an answer is overdue. Above it, the time is the mean round
    /// trip and four times its mean deviation.
    pub timeout_min: Time,
    /// The longest time-out, and the longest wait before a refused message is sent again.
    pub timeout_max: Time,
    /// The mean wait before a message that was refused for the first time is sent again.
    pub refusal_delay: Time,
    /// How often time-out and wait double with the transmissions of a message.
    pub doublings_max: u8,
    /// Transmissions after which a message is taken off its channel, at least 1.
    pub transmissions_max: u8,
    /// The mean time after which it is put on again.
    pub unbound_delay: Time,
    /// Silence after which a peer counts as unreachable.
    pub unreachable_after: Time,
    /// The incarnation that peers are taken to have before anything tells theirs; 0: none, so that
    /// the first packet to each comes back and goes again.
    pub incarnation_at_first: u32,
}

impl Default for Config {
    /// Eight channels on one route among 100 interfaces, with times for round trips of some tens of
    /// microseconds. None of these is a published figure.
    fn default() -> Self {
        Self {
            peers: 100,
            channels: 8,
            routes: 1,
            timeout_min: Time::from_microseconds(500),
            timeout_max: Time::from_milliseconds(64),
            refusal_delay: Time::from_microseconds(100),
            doublings_max: 7,
            transmissions_max: 8,
            unbound_delay: Time::from_milliseconds(2),
            unreachable_after: Time::from_milliseconds(2_000),
            incarnation_at_first: 0,
        }
    }
}

/// What the transport wants done, or tells.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Output {
    /// Send this packet.
    Transmit {
        /// Its header.
        packet: Packet,
        /// Whose message goes in it; none for a packet that only asks.
        token: Option<u32>,
    },
    /// The message is written in its destination's queue.
    Completed {
        /// What the caller named the message.
        token: u32,
    },
    /// The message returns to its sender.
    Returned {
        /// What the caller named the message.
        token: u32,
        /// Why.
        reason: ReturnReason,
        /// Whether it may have been accepted all the same, once.
        may_have_arrived: bool,
    },
    /// The message was recalled in time: it belongs to its sender again, as if it had not been
    /// sent.
    Released {
        /// What the caller named the message.
        token: u32,
    },
    /// A channel of this line is free.
    ChannelFree(Line),
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Packets sent, all in all.
    pub transmissions: u64,
    /// Of those, not the first of their message on its channel.
    pub retransmissions: u64,
    /// Answers that were overdue.
    pub timeouts: u64,
    /// Refusals for the time being that came.
    pub refusals: u64,
    /// Messages taken off their channels.
    pub unbound: u64,
    /// Messages that returned to their senders.
    pub returned: u64,
    /// Packets and answers of the past, dropped.
    pub stale: u64,
    /// Packets that were answered again without being judged again.
    pub repeated: u64,
    /// Packets and answers whose numbers do not exist here, dropped.
    pub malformed: u64,
}

/// Every channel to the peer is taken: wait for [`Output::ChannelFree`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Busy;

/// An empty packet in a message's place.
const PROBE: u32 = NONE - 1;

/// The sender's end of a logical channel. 24 bytes.
#[derive(Clone, Copy, Debug)]
struct Channel {
    /// Of the packet it carries, or of the last it carried.
    sequence: u32,
    /// The message it carries, [`PROBE`] or none.
    bound: u32,
    /// The message of the sequence before, or while it carries nothing of this sequence, whose fate
    /// is unknown.
    limbo: u32,
    /// Of the last transmission.
    stamp: u32,
    /// As wide as what is beside it: narrower fields are read together, and a processor waits with
    /// that for those that were just written.
    transmissions: u32,
    route: u8,
    /// Waits for an answer; else for the time to send again.
    awaits_answer: bool,
}

/// Outputs, drained after each call: there are never many.
#[derive(Clone, Debug, Default)]
struct Outputs {
    queue: Vec<Output>,
    /// Those that were taken.
    taken: usize,
}

impl Outputs {
    #[inline]
    fn take(&mut self) -> Option<Output> {
        if let Some(output) = self.queue.get(self.taken) {
            self.taken += 1;
            return Some(*output);
        }
        self.queue.clear();
        self.taken = 0;
        None
    }
}

/// The transport of one interface: sender and receiver.
///
/// Time never runs backwards. Drain [`Transport::poll`] after each call.
#[derive(Clone, Debug)]
pub struct Transport {
    config: Config,
    /// Of a key, the lower bits that number the channel of a peer.
    channel_bits: u32,
    me: Peer,
    incarnation: u32,
    random: Stream,
    lines: Lines,
    /// The peers that it has met, by line.
    peers: Vec<PeerState>,
    /// Those of each line, in the order of lines: a power of two, of which the first are used.
    channels: Vec<Channel>,
    incoming: Vec<Incoming>,
    messages: Messages,
    timers: Timers,
    outputs: Outputs,
    counts: Counts,
}

impl Transport {
    /// The transport of interface `me` after a boot. `incarnation` is above that of every boot of
    /// this interface before: the number of boots, or the time of day.
    ///
    /// # Panics
    /// If `incarnation` is 0, `me` not one of the peers, or a number of `config` out of its range.
    #[must_use]
    pub fn new(me: Peer, incarnation: u32, config: Config, random: Stream) -> Self {
        assert!(incarnation > 0, "incarnations begin at 1");
        assert!(
            me.index() < config.peers as usize,
            "{me} is none of the peers"
        );
        assert!(
            (1..=CHANNELS_MAX).contains(&config.channels)
                && config.routes > 0
                && config.transmissions_max > 0
                && config.timeout_min > Time::ZERO,
            "out of range: {config:?}"
        );
        Self {
            config,
            channel_bits: config.channels.next_power_of_two().trailing_zeros(),
            me,
            incarnation,
            random,
            lines: Lines::default(),
            peers: Vec::new(),
            incoming: Vec::new(),
            messages: Messages::default(),
            timers: Timers::new(config.timeout_min),
            channels: Vec::new(),
            outputs: Outputs::default(),
            counts: Counts::default(),
        }
    }

    /// The line to a peer: a new one to a peer that was not met before.
    ///
    /// # Panics
    /// If there is no such peer.
    #[inline]
    pub fn line(&mut self, peer: Peer) -> Line {
        match self.lines.find(peer) {
            Some(line) => line,
            None => self.add_line(peer),
        }
    }

    #[cold]
    fn add_line(&mut self, peer: Peer) -> Line {
        assert!(
            peer.index() < self.config.peers as usize,
            "{peer} is none of the peers"
        );
        let line = Line::new(self.peers.len() as u32);
        self.lines.add(peer, line);
        self.peers.push(PeerState::new(peer, &self.config));
        let routes = self.config.routes;
        let channels = 0..1_u8 << self.channel_bits;
        self.channels.extend(channels.map(|channel| Channel {
            sequence: 0,
            bound: NONE,
            limbo: NONE,
            stamp: 0,
            transmissions: 0,
            route: channel % routes,
            awaits_answer: false,
        }));
        let count = self.channels.len();
        self.incoming.resize(count, Incoming::default());
        self.timers.reserve(timer_of_channel(count as u32));
        line
    }

    /// Its number.
    #[must_use]
    pub fn me(&self) -> Peer {
        self.me
    }

    /// How often what happened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Messages that have not ended.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.messages.live()
    }

    /// The smoothed round trip to a peer: packet to answer, with the judging between; none before
    /// the first answer.
    #[must_use]
    pub fn round_trip(&self, peer: Peer) -> Option<Time> {
        let line = self.lines.find(peer)?;
        self.peers[line.index()].round_trip.mean()
    }

    /// What to do next; none until something else happens.
    #[inline]
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.take()
    }

    /// Whether [`Transport::poll`] has something.
    #[inline]
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.outputs.taken < self.outputs.queue.len()
    }

    /// When [`Transport::handle_timeout`] is to be called; earlier is harmless.
    #[inline]
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(key) = self.timers.expired(now) {
            self.expire(key, now);
        }
    }

    /// Whether a message to `peer` would find a channel.
    #[must_use]
    pub fn has_channel(&self, peer: Peer) -> bool {
        let line = self.lines.find(peer);
        line.is_none_or(|line| self.peers[line.index()].free_channels != 0)
    }

    /// A packet does not leave yet, since its message is still to be read. Returns how long it may
    /// go unanswered once it has left, for [`Transport::leaves`].
    pub fn hold(&mut self, packet: &Packet, now: Time) -> Time {
        let Some(line) = self.lines.find(packet.target) else {
            return Time::ZERO;
        };
        let timer = timer_of_channel(self.key(line, packet.channel));
        let deadline = self.timers.deadline(timer).unwrap_or(now);
        self.timers.clear(timer);
        deadline.saturating_sub(now)
    }

    /// A packet that was held leaves at `at`: its round trip begins then. Nothing, if the channel
    /// has gone on meanwhile.
    pub fn leaves(&mut self, packet: &mut Packet, at: Time, timeout: Time, now: Time) {
        let Some(line) = self.lines.find(packet.target) else {
            return;
        };
        let key = self.key(line, packet.channel);
        let channel = &mut self.channels[key as usize];
        let is_latest = (channel.sequence, channel.stamp) == (packet.sequence, packet.stamp);
        if channel.bound == NONE || !channel.awaits_answer || !is_latest {
            return;
        }
        // A stamp that is ahead of the clock stays.
        let clock = stamp(at);
        if (clock.wrapping_sub(channel.stamp) as i32) > 0 {
            channel.stamp = clock;
            packet.stamp = clock;
        }
        self.timers.set(timer_of_channel(key), at + timeout, now);
    }

    /// Sends a message to `peer`; outputs call it `token`.
    ///
    /// # Errors
    /// [`Busy`] if no channel is free: nothing was done.
    ///
    /// # Panics
    /// If there is no such peer.
    #[inline]
    pub fn send(&mut self, peer: Peer, token: u32, now: Time) -> Result<MessageId, Busy> {
        let line = self.line(peer);
        let Some(channel) = self.peers[line.index()].take_channel() else {
            return Err(Busy);
        };
        let slot = self.messages.add(token, line);
        self.bind(self.key(line, channel), slot, now);
        Ok(MessageId::new(slot))
    }

    /// Wants a message back: it ends as soon as its fate is certain. Completed or
    /// returned, if that is so; else released, and not only when the peer would accept it: being
    /// refused for now is enough.
    ///
    /// This is how an endpoint comes to rest. Waiting for all its messages to be accepted would not
    /// do: two endpoints that have to leave their frames may each wait for one that cannot get in
    /// before they left.
    pub fn recall(&mut self, message: MessageId, now: Time) {
        self.recall_slot(message.slot(), now);
    }

    #[inline]
    fn key(&self, line: Line, channel: u8) -> u32 {
        (line.index() as u32) << self.channel_bits | u32::from(channel)
    }

    #[inline]
    fn line_of(&self, key: u32) -> Line {
        Line::new(key >> self.channel_bits)
    }

    #[inline]
    fn channel_of(&self, key: u32) -> u8 {
        (key & ((1 << self.channel_bits) - 1)) as u8
    }

    /// The highest incarnation of a peer that anything told; 0 if nothing has.
    #[must_use]
    pub fn incarnation_of(&self, peer: Peer) -> u32 {
        let line = self.lines.find(peer);
        line.map_or(0, |line| self.peers[line.index()].incarnation)
    }

    #[inline]
    fn push(&mut self, output: Output) {
        if matches!(output, Output::Returned { .. }) {
            self.counts.returned += 1;
        }
        self.outputs.queue.push(output);
    }
}

/// The timer of a channel with this key: there are always more of both kinds.
#[inline]
const fn timer_of_channel(key: u32) -> u32 {
    key << 1
}

/// The timer of a message.
#[inline]
const fn timer_of_message(slot: u32) -> u32 {
    slot << 1 | 1
}

#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod ledger;
#[cfg(test)]
mod tests;
