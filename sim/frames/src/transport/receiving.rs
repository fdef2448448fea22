//! The receiver's ends of channels: what is new, what was seen, and what the answers say.

use viaduct_engine::Time;

use super::{Answer, Fate, Line, Packet, Reason, Transport, Verdict};

/// What to do with a packet that came.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Received {
    /// It is new: look whether its message can be written, write it, and then tell
    /// [`Transport::judge`].
    Judge(Ticket),
    /// Send this answer.
    Answer(Answer),
    /// Nothing: it is of the past, is being judged, or has numbers that do not exist here.
    Drop,
}

/// A packet that is being judged.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Ticket(Packet, Line);

/// What is known of the packet with the highest sequence seen.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
enum State {
    /// No packet was seen.
    #[default]
    Unknown,
    /// It was refused for the time being, if at all: a copy is judged anew.
    Open,
    /// It is being judged and written.
    Judging,
    /// It was answered with this for good.
    Settled(Verdict),
}

/// The receiver's end of a logical channel. 12 bytes.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Incoming {
    /// The highest sequence seen.
    sequence: u32,
    state: State,
    /// How the one before it ended.
    previous: Fate,
}

impl Transport {
    /// A packet came.
    ///
    /// The interfaces are trusted with their protocol, the links with nothing: any number is
    /// checked before it is used.
    #[inline]
    pub fn handle_packet(&mut self, packet: Packet, now: Time) -> Received {
        if packet.target != self.me
            || packet.source.index() >= self.config.peers as usize
            || packet.channel >= self.config.channels
            || packet.source_incarnation == 0
        {
            self.counts.malformed += 1;
            return Received::Drop;
        }
        let line = self.line(packet.source);
        if packet.source_incarnation < self.peers[line.index()].incarnation {
            self.counts.stale += 1;
            return Received::Drop;
        }
        self.meet(line, packet.source_incarnation, now);
        if packet.target_incarnation != self.incarnation {
            let answer = self.answer(&packet, Verdict::Unsynchronised, Fate::Undelivered);
            return Received::Answer(answer);
        }
        let incoming = self.incoming_of(line, packet.channel);
        let ahead = packet.sequence.wrapping_sub(incoming.sequence) as i32;
        // Comparing whole states looks at verdicts that do not matter.
        if matches!(incoming.state, State::Unknown) || ahead > 0 {
            if matches!(incoming.state, State::Judging) {
                // Its fate is not settled, and an answer to this one would have to tell it.
                return Received::Drop;
            }
            let previous = match incoming.state {
                State::Settled(Verdict::Accepted) if ahead == 1 => Fate::Accepted,
                State::Settled(Verdict::Refused(reason)) if ahead == 1 => Fate::Refused(reason),
                _ => Fate::Undelivered,
            };
            *incoming = Incoming {
                sequence: packet.sequence,
                state: State::Open,
                previous,
            };
        } else if ahead < 0 {
            self.counts.stale += 1;
            return Received::Drop;
        }
        let previous = incoming.previous;
        match incoming.state {
            State::Open if packet.is_empty => {
                incoming.state = State::Settled(Verdict::Accepted);
                Received::Answer(self.answer(&packet, Verdict::Accepted, previous))
            }
            State::Open => {
                incoming.state = State::Judging;
                Received::Judge(Ticket(packet, line))
            }
            State::Settled(verdict) => {
                self.counts.repeated += 1;
                Received::Answer(self.answer(&packet, verdict, previous))
            }
            State::Judging | State::Unknown => Received::Drop,
        }
    }

    /// A packet was judged: its message is written in its endpoint's queue, or this is why not.
    ///
    /// Returns the answer to send; none if the sender rebooted meanwhile.
    #[inline]
    pub fn judge(&mut self, ticket: Ticket, verdict: Result<(), Reason>) -> Option<Answer> {
        let Ticket(packet, line) = ticket;
        let known = self.peers[line.index()].incarnation;
        let incoming = self.incoming_of(line, packet.channel);
        if known != packet.source_incarnation
            || incoming.sequence != packet.sequence
            || !matches!(incoming.state, State::Judging)
        {
            return None;
        }
        let verdict = verdict.map_or_else(Verdict::Refused, |()| Verdict::Accepted);
        incoming.state = match verdict {
            Verdict::Refused(reason) if !reason.is_final() => State::Open,
            _ => State::Settled(verdict),
        };
        let previous = incoming.previous;
        Some(self.answer(&packet, verdict, previous))
    }

    #[inline]
    fn incoming_of(&mut self, line: Line, channel: u8) -> &mut Incoming {
        let key = self.key(line, channel);
        &mut self.incoming[key as usize]
    }

    #[inline]
    fn answer(&self, packet: &Packet, verdict: Verdict, previous: Fate) -> Answer {
        Answer {
            source: self.me,
            target: packet.source,
            channel: packet.channel,
            route: packet.route,
            sequence: packet.sequence,
            stamp: packet.stamp,
            source_incarnation: self.incarnation,
            target_incarnation: packet.source_incarnation,
            verdict,
            previous,
        }
    }
}
