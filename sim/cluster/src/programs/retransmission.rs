//! Sending again what was lost: reliable connections of RDMA adapters.
//!
//! Each frame of a connection has a sequence number, and the receiver takes the one that it
//! expects. What comes behind a gap it drops, with a negative acknowledgement of the first such;
//! then, or when a time-out is over, the sender goes back and sends again from the gap on. After
//! `retries` goes without progress it gives up, and the connection breaks.
//!
//! ```text
//!  TailArrives: lost             -> time-out   \
//!  TailArrives: behind a gap     -> Refused at the sender -> Again: all that the receiver has not
//!  acknowledgement lost          -> time-out   /
//! ```
//!
//! Frames are not events. When a message begins to move it is drawn which of its frames is the
//! first to be lost, and which the first behind that to come: there its flow ends, and nothing of
//! its VI moves until the sender has gone back, since the receiver would drop it.
//!
//! Nothing here is reached in a simulation without faults.

use viaduct_core::{ConnectionNumber, ViId};
use viaduct_engine::Time;
use viaduct_hardware::{Frame, Mechanism};

use super::guest::Slots;
use super::{OF_PROGRAM, Programs};
use crate::cluster::Cluster;
use crate::event::Event;
use crate::faults::Fate;
use crate::message::MessageId;

/// Something that follows from a fault, and names more than an event can.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Consequence {
    /// What the agent of one host says to another's has not got through for long enough.
    LostTouch(u32, u32),
    /// The sender of a VI goes back to what was lost, if it has not since.
    Again(u32, ViId, u32),
    /// The answer of a remote read goes once more.
    AnswerAgain(MessageId),
}

/// What is expected to follow.
pub(crate) type Expected = Slots<Consequence>;

/// One direction of a reliable connection, as both its ends see it.
#[derive(Debug)]
pub(crate) struct Recovery {
    connection: ConnectionNumber,
    /// The number of the last message that was started.
    last: u32,
    /// The number that the receiver takes next.
    expected: u32,
    /// What is to be sent again, by number.
    lost: Vec<(u32, MessageId)>,
    /// Goes since the receiver last took something.
    goes: u32,
    /// Whether the gap was told to the sender.
    is_refused: bool,
    /// Counts goes, so that a time-out for an earlier one is told apart.
    epoch: u32,
    is_timed: bool,
    /// The first message of which a frame was lost that the sender has not gone back to.
    gap: Option<u32>,
    /// A message, and how many of its frames the receiver has: from there it goes on.
    resumes: (u32, u64),
    /// Frames of the expected message that had come when the receiver last told of a gap.
    told: u64,
    /// Whether nothing moves until the sender goes back.
    is_held: bool,
}

/// What an adapter does about losses.
#[derive(Clone, Copy, Debug)]
struct Rule {
    retries: u32,
    timeout: Time,
}

impl<P: Programs> Cluster<P> {
    /// Lets something follow at a time.
    pub(crate) fn follows_at(&mut self, time: Time, consequence: Consequence) {
        let number = self.guests.expected.insert(consequence);
        self.queue.schedule(time, Event::Follows(number));
    }

    pub(crate) fn handle_consequence(&mut self, number: u32) {
        match self.guests.expected.take(number) {
            None => {}
            Some(Consequence::LostTouch(from, to)) => self.lose_touch(from, to),
            Some(Consequence::Again(host, vi, epoch)) => self.send_once_more(host, vi, epoch),
            Some(Consequence::AnswerAgain(message)) => self.begin_transfer(message),
        }
    }

    fn retransmission_rule(&self) -> Option<Rule> {
        match &self.config.host.mechanism {
            Mechanism::Rdma(model) if model.retries > 0 => Some(Rule {
                retries: model.retries,
                timeout: model.timeout,
            }),
            Mechanism::Rdma(_)
            | Mechanism::Native(_)
            | Mechanism::RemoteWrites(_)
            | Mechanism::Firmware(_)
            | Mechanism::Kernel(_) => None,
        }
    }

    /// One direction of the connection that a message of a program takes, if what is lost there is
    /// sent again.
    fn recovery(&mut self, id: MessageId) -> Option<&mut Recovery> {
        let (host, vi) = self.poster(id);
        self.guests.hosts[host as usize].recovery(vi)
    }

    /// Numbers a message that was started; one of a connection where nothing is sent again has 0.
    pub(crate) fn number(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let (host, vi) = (message.source, message.source_vi);
        if self.retransmission_rule().is_none() || !self.is_reliable(host, vi) {
            return;
        }
        let Some(peer) = self.guests.sent(id).peer else {
            return;
        };
        let connection = peer.connection;
        let guest = &mut self.guests.hosts[host as usize];
        let recoveries = guest.recoveries.get_or_insert_default();
        let recovery = recoveries.entry(vi).or_insert_with(|| Recovery {
            connection,
            last: 0,
            expected: 1,
            lost: Vec::new(),
            goes: 0,
            is_refused: false,
            epoch: 0,
            is_timed: false,
            gap: None,
            resumes: (0, 0),
            told: 0,
            is_held: false,
        });
        let mut gone = Vec::new();
        let mut was_held = false;
        if recovery.connection != connection {
            // What was left of the former connection went with it.
            gone = core::mem::take(&mut recovery.lost);
            recovery.connection = connection;
            recovery.expected = recovery.last + 1;
            recovery.goes = 0;
            recovery.is_refused = false;
            recovery.epoch += 1;
            recovery.is_timed = false;
            recovery.told = 0;
            was_held = recovery.go_back();
        }
        recovery.last += 1;
        let (sequence, epoch) = (recovery.last, recovery.epoch);
        let sent = self.guests.sent(id);
        (sent.sequence, sent.epoch) = (sequence, epoch);
        self.forget_lost(gone);
        self.release_line(host, vi, was_held);
    }

    /// Draws how far such a message gets that begins to move. Bytes on the wire, if not all.
    pub(crate) fn draw_part(&mut self, id: MessageId) -> Option<f64> {
        let message = self.messages.get(id);
        let (ends, flow) = self.ends_of(message);
        let (bytes, is_answer) = (u64::from(message.bytes), message.is_answer);
        let (host, vi) = self.poster(id);
        let way = self.network.way(ends, flow);
        let faults = &mut self.failures.as_mut()?.faults;
        let recovery = self.guests.hosts[host as usize].recovery(vi)?;
        let sent = &mut self.guests.sent[id.0 as usize];
        let message = self.messages.get_mut(id);
        let frame = self.config.links.frame;
        let (frames, sequence) = (frame.count(bytes), sent.sequence);
        let start = match (is_answer, recovery.resumes) {
            (true, _) => u64::from(sent.epoch),
            (false, (resumed, came)) if resumed == sequence => came,
            (false, _) => 0,
        };
        let left = frames - start.min(frames - 1);
        let is_behind = !is_answer && recovery.gap.is_some_and(|gap| gap < sequence);
        let mut moved = 0;
        if !is_behind {
            let (fate, came) = faults.draw(way, left);
            message.fate = fate;
            if fate == Fate::Whole {
                return (start > 0).then(|| part_bytes(frame, bytes, start, frames));
            }
            if is_answer {
                sent.epoch += came as u32;
                sent.goes *= u32::from(came == 0);
            } else if sequence < recovery.expected {
                // The receiver has it already, and expects none of its frames.
                return None;
            } else {
                recovery.gap = Some(sequence);
                recovery.resumes = (sequence, start + came);
            }
            moved = came + 1;
        }
        // The first that comes behind the gap tells of it.
        let mut is_told = false;
        while moved < left && !is_told {
            is_told = faults.lets_pass(way);
            moved += 1;
        }
        message.fate = if is_told { Fate::Gap } else { Fate::Lost };
        Some(part_bytes(frame, bytes, start, start + moved))
    }

    /// Such a message was moving wholly when a link of its way went down, after a part of its time.
    pub(crate) fn note_cut(&mut self, id: MessageId, part: f64) {
        let message = self.messages.get(id);
        let frames = self.config.links.frame.count(message.bytes.into());
        let came = |start: u64| start + ((frames - start) as f64 * part) as u64;
        let is_answer = message.is_answer;
        let sent = self.guests.sent(id);
        if is_answer {
            sent.epoch = came(u64::from(sent.epoch)).min(frames - 1) as u32;
            return;
        }
        let sequence = sent.sequence;
        let Some(recovery) = self.recovery(id) else {
            return;
        };
        if recovery.gap.is_none() && sequence >= recovery.expected {
            let (resumed, start) = recovery.resumes;
            let start = if resumed == sequence { start } else { 0 };
            recovery.gap = Some(sequence);
            recovery.resumes = (sequence, came(start).min(frames - 1));
        }
    }

    /// Whether such a message, the last of whose bytes has left, is the last of its VI to move
    /// until the sender goes back.
    pub(crate) fn holds_line(&mut self, id: MessageId) -> bool {
        let message = self.messages.get(id);
        let holds = message.fate == Fate::Gap && !message.is_answer;
        if let Some(recovery) = self.recovery(id) {
            recovery.is_held |= holds;
        }
        holds
    }

    /// Lets the next message of a VI move, if none could.
    fn release_line(&mut self, host: u32, vi: ViId, was_held: bool) {
        if was_held {
            self.move_next(host, vi.index() | OF_PROGRAM);
        }
    }

    fn forget_lost(&mut self, gone: Vec<(u32, MessageId)>) {
        for (_, id) in gone {
            let message = self.messages.get(id);
            let (host, target) = (message.source, message.target);
            self.leave_stream(host, target);
            self.remove_message(id);
        }
    }

    /// Whether a message is of a connection that sends again.
    pub(crate) fn is_repeatable(&mut self, id: MessageId) -> bool {
        let sent = self.guests.sent(id);
        let (sequence, peer) = (sent.sequence, sent.peer);
        let connection = peer.map(|peer| peer.connection);
        let recovery = self.recovery(id);
        sequence > 0 && recovery.is_some_and(|it| Some(it.connection) == connection)
    }

    /// Whether the receiver of such a message would not take it, if it came now.
    pub(crate) fn is_out_of_order(&mut self, id: MessageId) -> bool {
        let fate = self.messages.get(id).fate;
        let sequence = self.guests.sent(id).sequence;
        let recovery = self.recovery(id);
        fate != Fate::Whole || recovery.is_some_and(|it| it.expected != sequence)
    }

    /// Keeps such a message, that would be there now, from its receiver: it was lost, is behind a
    /// gap, or was taken before.
    pub(crate) fn withholds_repeatable(&mut self, id: MessageId) -> bool {
        let now = self.queue.now();
        let message = self.messages.get(id);
        let (host, vi, target) = (message.source, message.source_vi, message.target);
        let (fate, target_vi) = (message.fate, message.target_vi);
        if message.is_answer {
            if fate == Fate::Whole {
                return false;
            }
            self.guests.counts.lost += 1;
            self.repeat_answer(id);
            return true;
        }
        let sent = self.guests.sent(id);
        let (sequence, sent_in) = (sent.sequence, sent.epoch);
        let Some(recovery) = self.recovery(id) else {
            return false;
        };
        if fate == Fate::Whole && sequence == recovery.expected {
            recovery.expected += 1;
            recovery.goes = 0;
            recovery.is_refused = false;
            recovery.told = 0;
            return false;
        }
        let (resumed, came) = recovery.resumes;
        if sequence == recovery.expected && resumed == sequence && came > recovery.told {
            // Some of its frames have come: what is missing now is another gap.
            recovery.told = came;
            recovery.goes = 0;
            recovery.is_refused = false;
        }
        let is_dropped = matches!(fate, Fate::Whole | Fate::Gap);
        if fate == Fate::Whole && sequence < recovery.expected {
            // It was placed before; that is said again.
            self.leave_stream(host, target);
            if self.programs.nic(target).acknowledges(target_vi) {
                self.acknowledge(id);
            } else {
                self.remove_message(id);
            }
            return true;
        }
        if is_dropped && recovery.is_refused && sent_in != recovery.epoch {
            // The sender had gone back before it came: it is among what is sent again.
            let was_held = fate == Fate::Gap && recovery.go_back();
            self.repeat(host, vi, &[(sequence, id)]);
            self.release_line(host, vi, was_held);
            return true;
        }
        let is_first = is_dropped && !recovery.is_refused;
        recovery.is_refused |= is_first;
        let epoch = recovery.epoch;
        let is_whole = is_dropped && sequence != recovery.expected;
        self.guests.counts.lost += u64::from(!is_whole);
        self.wait_for_another_go(id);
        if is_first {
            let (ends, flow) = ((target, host), vi.index());
            let there = now + self.network.control_delay(ends, flow);
            let way = self.network.way(ends, flow);
            let faults = self.failures.as_mut().map(|failures| &mut failures.faults);
            if faults.is_some_and(|faults| faults.fate(way, 1, now, there) == Fate::Whole) {
                let again = Consequence::Again(host, vi, epoch);
                self.follows_at(there, again);
            }
        }
        true
    }

    /// The acknowledgement of such a message is lost: it will be sent again.
    pub(crate) fn lose_acknowledgement(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let (host, target) = (message.source, message.target);
        self.guests.hosts[host as usize].stream(target).messages += 1;
        self.wait_for_another_go(id);
    }

    /// Notes that a message is to be sent again.
    fn wait_for_another_go(&mut self, id: MessageId) {
        let Some(rule) = self.retransmission_rule() else {
            return;
        };
        let now = self.queue.now();
        let (host, vi) = self.poster(id);
        let sequence = self.guests.sent(id).sequence;
        let Some(recovery) = self.recovery(id) else {
            return;
        };
        let place = recovery
            .lost
            .partition_point(|(other, _)| *other < sequence);
        recovery.lost.insert(place, (sequence, id));
        if !core::mem::replace(&mut recovery.is_timed, true) {
            let again = Consequence::Again(host, vi, recovery.epoch);
            self.follows_at(now + rule.timeout, again);
        }
    }

    /// A sender goes back to the first message that its peer has not, unless it has since.
    fn send_once_more(&mut self, host: u32, vi: ViId, epoch: u32) {
        let Some(rule) = self.retransmission_rule() else {
            return;
        };
        let Some(recovery) = self.guests.hosts[host as usize].recovery(vi) else {
            return;
        };
        if recovery.epoch != epoch || recovery.lost.is_empty() {
            return;
        }
        recovery.epoch += 1;
        recovery.is_timed = false;
        recovery.goes += 1;
        let was_held = recovery.go_back();
        let has_failed = recovery.goes > rule.retries;
        let mut lost = core::mem::take(&mut recovery.lost);
        let connection = recovery.connection;
        let is_up = self
            .programs
            .nic(host)
            .peer(vi)
            .is_some_and(|peer| peer.connection == connection);
        if !is_up {
            self.forget_lost(lost);
            self.release_line(host, vi, was_held);
            return;
        }
        if has_failed {
            let (_, first) = lost.remove(0);
            let target = self.messages.get(first).target;
            self.leave_stream(host, target);
            self.give_up(first);
            self.forget_lost(lost);
            self.release_line(host, vi, was_held);
            return;
        }
        self.repeat(host, vi, &lost);
        self.release_line(host, vi, was_held);
    }

    /// Puts messages of a VI, in the order of their numbers, in front of what has not moved yet.
    fn repeat(&mut self, host: u32, vi: ViId, lost: &[(u32, MessageId)]) {
        self.guests.counts.retransmissions += lost.len() as u64;
        let guest = &mut self.guests.hosts[host as usize];
        let epoch = guest.recovery(vi).map_or(0, |recovery| recovery.epoch);
        let connection = &mut guest.at(vi.index()).connection;
        let mut waiting = self.messages.take_line(connection);
        for (sequence, id) in lost {
            let mut before = waiting.iter();
            let number = |id: &MessageId| self.guests.sent[id.0 as usize].sequence;
            let place = before.position(|other| number(other) > *sequence);
            waiting.insert(place.unwrap_or(waiting.len()), *id);
            // It leaves once more.
            self.messages.get_mut(*id).references += 1;
            self.guests.sent(*id).epoch = epoch;
        }
        let connection = &mut self.guests.hosts[host as usize].at(vi.index()).connection;
        for id in waiting {
            self.messages.line_up_to_move(connection, id);
        }
        if connection.moving == 0 {
            connection.moving = 1;
            self.move_next(host, vi.index() | OF_PROGRAM);
        }
    }

    /// The answer of a remote read was lost: the read is asked for again, and answered.
    fn repeat_answer(&mut self, id: MessageId) {
        let Some(rule) = self.retransmission_rule() else {
            return;
        };
        let message = self.messages.get(id);
        let (ends, flow) = self.ends_of(message);
        let is_told = message.fate == Fate::Gap;
        let sent = self.guests.sent(id);
        sent.goes += 1;
        let has_failed = sent.goes > rule.retries;
        let due = if is_told {
            // Whoever reads sees that a frame is missing, and asks from there on.
            self.queue.now() + self.network.control_delay((ends.1, ends.0), flow)
        } else {
            self.queue.now() + rule.timeout
        };
        if has_failed {
            self.queue.schedule(due, Event::GivesUp(id));
        } else {
            self.guests.counts.retransmissions += 1;
            self.follows_at(due, Consequence::AnswerAgain(id));
        }
    }
}

impl Recovery {
    /// The sender goes back to the gap; whether nothing moved until it did.
    fn go_back(&mut self) -> bool {
        self.gap = None;
        core::mem::take(&mut self.is_held)
    }
}

/// Bytes on the wire of a message's frames from one on to before another.
fn part_bytes(frame: Frame, bytes: u64, from: u64, to: u64) -> f64 {
    let payload = match frame.payload_bytes {
        0 => bytes,
        payload => payload.into(),
    };
    let until = |frames: u64| bytes.min(frames * payload);
    let headers = (to - from) * u64::from(frame.header_bytes);
    (until(to) - until(from) + headers) as f64
}
