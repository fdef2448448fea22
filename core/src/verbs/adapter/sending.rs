//! The sending side: begins sends, hears how each ended, completes them in order.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Adapter, Answer, Datagram, Memory, Packet, Packets, Payload};
use crate::verbs::flags::{access, send};
use crate::verbs::regions;
use crate::verbs::requester::{self, Turn};
use crate::verbs::{CompletionStatus, Pair, Phase, QueuePairState, QueuePairType, check};

impl Adapter {
    /// Sends of a queue pair that have not begun.
    #[must_use]
    pub fn unstarted(&self, place: u32) -> u32 {
        let pair = self.pairs.at(place).and_then(Option::as_deref);
        pair.map_or(0, |pair| (pair.sends.len() - pair.sends.started()) as u32)
    }

    /// Sends of a queue pair that are not complete; none if it is not there, or as new.
    #[must_use]
    pub fn incomplete(&self, place: u32) -> Option<u32> {
        let pair = self.pairs.at(place).and_then(Option::as_deref);
        let pair = pair.filter(|pair| pair.state != QueuePairState::Reset)?;
        Some(pair.sends.len() as u32)
    }

    /// Whether its program is told of anything that a queue pair has begun with, when that is
    /// acknowledged.
    #[must_use]
    pub fn tells_of_acknowledgements(&self, place: u32) -> bool {
        let pair = self.pairs.at(place).and_then(Option::as_deref);
        pair.is_none_or(|pair| {
            let is_every = pair.options.is_every_send_signaled;
            let is_told = |flags| check::is_told(CompletionStatus::Success, flags, is_every);
            pair.sends.begun().any(|send| is_told(send.flags))
        })
    }

    /// Whether a queue pair has sends that nobody acknowledges, and that are complete when they
    /// have left.
    #[must_use]
    pub fn has_unacknowledged(&self, place: u32) -> bool {
        let pair = self.pairs.at(place).and_then(Option::as_deref);
        pair.is_some_and(|pair| pair.options.kind != QueuePairType::Rc && !pair.sends.is_empty())
    }

    /// Begins the next send of a queue pair, if it may: what goes, and its bytes. A send that may
    /// not begin and will never is complete.
    pub fn begin(
        &mut self,
        place: u32,
        memory: &impl Memory,
        into: &mut Vec<u8>,
    ) -> Option<Packet> {
        let mut pair = self.take_pair(place)?;
        let packet = loop {
            let before = pair.sends.len();
            let begun = self.begin_next(&mut pair, memory, into);
            // What failed at its own side was flushed, with all behind it.
            if begun.is_some() || pair.sends.len() == before {
                break begun;
            }
        };
        self.restore_pair(pair);
        packet
    }

    fn begin_next(
        &mut self,
        pair: &mut Pair<Packets>,
        memory: &impl Memory,
        into: &mut Vec<u8>,
    ) -> Option<Packet> {
        match requester::turn(pair.state, false) {
            Turn::Begins => {}
            Turn::Waits => return None,
            Turn::IsFlushed => {
                self.flush(pair);
                return None;
            }
        }
        let opcode = pair.sends.next()?.opcode;
        let answers = if opcode.is_answered() {
            pair.own.asking
        } else {
            pair.sends.asked()
        };
        if !self.may_begin(pair, answers) {
            return None;
        }
        let send = pair.sends.next()?;
        into.clear();
        let mut elements = 1;
        match &send.own.payload {
            Payload::Inline(bytes) => into.extend_from_slice(bytes),
            Payload::Elements(all) => {
                let is_answered = opcode.is_answered();
                let needed = if is_answered { access::LOCAL_WRITE } else { 0 };
                let (all, domain) = (all.as_slice(), pair.domain.index());
                elements = all.len() as u32;
                let are_open =
                    regions::find_all(&self.regions, all, domain, needed, |address, length| {
                        if !is_answered {
                            memory.read(address, length, into);
                        }
                    });
                if !are_open {
                    self.refuse(pair, CompletionStatus::LocalProtectionError);
                    return None;
                }
            }
        }
        let (mut target, mut datagram) = (pair.attributes.destination, None);
        if let Some(to) = send.own.destination.as_deref() {
            target = to.number;
            datagram = Some(Box::new(Datagram {
                queue_key: check::queue_key_sent(pair.attributes.queue_key, to.queue_key),
                address: to.address,
                route: to.address.route.header(&self.notices.carrier.gid),
            }));
        }
        let packet = Packet {
            source: pair.number,
            target,
            sequence: pair.sends.next_sequence(),
            opcode,
            is_solicited: send.flags & send::SOLICITED != 0,
            immediate: send.immediate,
            length: send.length,
            remote_address: send.remote_address,
            remote_key: send.remote_key,
            compare_add: send.compare_add,
            swap: send.swap,
            datagram,
            elements,
            is_inline: matches!(send.own.payload, Payload::Inline(_)),
        };
        pair.own.asking += usize::from(opcode.is_answered());
        pair.sends.hand_over(pair.options.kind);
        Some(packet)
    }

    /// The last byte of a send has left, of the number that its packet has.
    pub fn left(&mut self, place: u32, sequence: u32) {
        let Some(mut pair) = self.take_pair(place) else {
            return;
        };
        let now = self.notices.carrier.now;
        if let Some(at) = pair.sends.place_of(sequence)
            && at < pair.sends.started()
            && let Some(send) = pair.sends.get_mut(at)
        {
            send.own.has_left = true;
            if at == 0 {
                pair.sends.heard_at = now;
            }
        }
        self.retire(&mut pair);
        self.put_pair(pair);
    }

    /// What the target of a send said, of the number that its packet has, with the bytes that were
    /// asked for. Whether such bytes are placed.
    pub fn hear(
        &mut self,
        place: u32,
        sequence: u32,
        answer: Answer,
        bytes: &[u8],
        memory: &mut impl Memory,
    ) -> bool {
        let Some(mut pair) = self.take_pair(place) else {
            return false;
        };
        let mut is_placed = false;
        if pair.options.kind == QueuePairType::Rc && check::hears(pair.state) {
            match answer {
                Answer::Acknowledged { expected } => {
                    if requester::may_expect(expected, pair.sends.furthest_sequence()) {
                        pair.sends.acknowledge(expected);
                    }
                }
                Answer::Missing { expected } => {
                    self.hear_missing(&mut pair, expected);
                }
                Answer::Bytes => {
                    is_placed = self.take_bytes(&mut pair, sequence, bytes, memory);
                }
                Answer::Refused { status } => {
                    self.hear_refusal(&mut pair, sequence, status.number());
                }
                Answer::NotReady { timer } => {
                    self.hear_not_ready(&mut pair, sequence, timer);
                }
            }
            self.retire(&mut pair);
        }
        self.put_pair(pair);
        is_placed
    }

    /// Bytes that were asked for: whether they are placed.
    fn take_bytes(
        &self,
        pair: &mut Pair<Packets>,
        sequence: u32,
        bytes: &[u8],
        memory: &mut impl Memory,
    ) -> bool {
        let Some(send) = pair.sends.find_asked(sequence) else {
            return false;
        };
        let end = bytes.len() as u64;
        let mut status = requester::answered(send.length, end, true);
        if status == CompletionStatus::Success
            && let Payload::Elements(elements) = &send.own.payload
        {
            let (elements, domain) = (elements.as_slice(), pair.domain.index());
            if !place(self, elements, domain, 0, bytes, memory) {
                status = CompletionStatus::LocalProtectionError;
            }
        }
        pair.sends.answer(sequence, end, true, status);
        // An answer acknowledges what was sent before it was asked for.
        pair.sends.acknowledge(sequence);
        status == CompletionStatus::Success
    }

    /// When a queue pair must be looked at again though nothing comes: a pause ends, or a timeout.
    #[must_use]
    pub fn due(&self, place: u32) -> Option<u64> {
        let pair = self.pairs.at(place)?.as_deref()?;
        if pair.wait_until > 0 && pair.sends.has_more() {
            return Some(pair.wait_until);
        }
        if pair.sends.heard_at == 0 || !waits_for_peer(pair) {
            return None;
        }
        let patience = check::timeout_nanoseconds(pair.attributes.timeout)?;
        Some(pair.sends.heard_at + patience)
    }

    /// That time has come, or is over: what was lost goes again, or fails. Whether something goes
    /// again.
    pub fn expire(&mut self, place: u32) -> bool {
        let Some(due) = self
            .due(place)
            .filter(|due| *due <= self.notices.carrier.now)
        else {
            return false;
        };
        let Some(mut pair) = self.take_pair(place) else {
            return false;
        };
        let goes_again = pair.wait_until != due && self.hear_nothing(&mut pair);
        self.put_pair(pair);
        goes_again
    }
}

/// Whether the oldest send has left, and its peer is to say something of it.
fn waits_for_peer(pair: &Pair<Packets>) -> bool {
    let is_reliable = pair.options.kind == QueuePairType::Rc;
    let first = pair.sends.first().filter(|_| pair.sends.is_waiting());
    is_reliable
        && first.is_some_and(|send| {
            send.own.has_left && !matches!(send.phase, Phase::Done(_) | Phase::Queued)
        })
}

/// Places bytes into elements, `from` bytes behind their start; false if a key does not let them
/// through.
pub(super) fn place(
    adapter: &Adapter,
    elements: &[crate::verbs::ScatterGatherElement],
    domain: u32,
    from: usize,
    bytes: &[u8],
    memory: &mut impl Memory,
) -> bool {
    let needed = access::LOCAL_WRITE;
    // A request that names one closed region writes nothing at all, so all are looked at first.
    if !regions::find_all(&adapter.regions, elements, domain, needed, |_, _| {}) {
        return false;
    }
    let (mut skipped, mut rest) = (from, bytes);
    regions::find_all(
        &adapter.regions,
        elements,
        domain,
        needed,
        |address, length| {
            let skip = skipped.min(length);
            skipped -= skip;
            let (part, behind) = rest.split_at(rest.len().min(length - skip));
            if !part.is_empty() {
                memory.write(address + skip as u64, part);
            }
            rest = behind;
        },
    )
}
