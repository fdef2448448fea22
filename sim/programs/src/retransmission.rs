//! Sending again what was lost: reliable connections of RDMA adapters.
//!
//! Each frame of a connection has a sequence number, and the receiver takes the one that it
//! expects. What comes behind a gap it drops, with a negative acknowledgement of the first such;
//! then, or when a time-out is over, the sender goes back and sends again from the gap on. After
//! `retries` goes without progress it gives up, and the connection breaks.
//!
//! ```text
//!  Arrives: lost             -> time-out   \
//!  Arrives: behind a gap     -> Refused at the sender -> Again: all that the receiver has not
//!  acknowledgement lost      -> time-out   /
//! ```
//!
//! Frames are not events. When a message begins to move it is drawn which of its frames is the
//! first to be lost, and which the first behind that to come: there its flow ends, and nothing of
//! its VI moves until the sender has gone back, since the receiver would drop it.
//!
//! Nothing here is reached in a simulation without faults.

use viaduct_engine::Time;
use viaduct_hardware::Frame;
use viaduct_provider::via::{ConnectionNumber, ViId};

use crate::cluster::Cluster;
use crate::failures::Consequence;
use crate::host::Host;
use crate::message::{MessageId, Messages};
use viaduct_cluster::faults::Fate;
use viaduct_hardware::Mechanism;

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

impl Host {
    fn recovery(&mut self, vi: ViId) -> Option<&mut Recovery> {
        self.recoveries.as_mut()?.get_mut(&vi)
    }
}

impl Cluster {
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

    /// Numbers a message that was started; one of a connection where nothing is sent again has 0.
    pub(crate) fn number(&mut self, id: MessageId) {
        if self.retransmission_rule().is_none() {
            return;
        }
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let (host, vi, connection) = (message.host, message.vi, message.peer.connection);
        let state = &mut self.hosts[host as usize];
        let information = state.agent.devices[crate::host::DEVICE].nic.query_vi(vi);
        if !information.is_ok_and(|vi| vi.attributes.reliability.is_reliable()) {
            return;
        }
        let recoveries = state.recoveries.get_or_insert_default();
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
        message.sequence = recovery.last;
        message.epoch = recovery.epoch;
        self.forget_lost(gone);
        self.release_line(host, vi, was_held);
    }

    /// Draws how far such a message gets that begins to move. Bytes on the wire, if not all.
    pub(crate) fn draw_part(&mut self, id: MessageId, (from, to): (u32, u32)) -> Option<f64> {
        let flow = self.messages.flow(id);
        let way = self.network.way((from, to), flow);
        let (faults, message) = (self.faults.as_mut()?, self.messages.get(id)?);
        let recovery = self.hosts[message.host as usize].recovery(message.vi)?;
        let frame = self.config.links.frame;
        let (bytes, sequence) = (message.moving_bytes(), message.sequence);
        let frames = frame.count(bytes);
        let start = match (message.is_answer, recovery.resumes) {
            (true, _) => u64::from(message.epoch),
            (false, (resumed, came)) if resumed == sequence => came,
            (false, _) => 0,
        };
        let left = frames - start.min(frames - 1);
        let is_behind = !message.is_answer && recovery.gap.is_some_and(|gap| gap < sequence);
        let mut moved = 0;
        if !is_behind {
            let (fate, came) = faults.draw(way, left);
            message.fate = fate;
            if fate == Fate::Whole {
                return (start > 0).then(|| part_bytes(frame, bytes, start, frames));
            }
            if message.is_answer {
                message.epoch += came as u32;
                message.goes *= u32::from(came == 0);
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
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let frames = self.config.links.frame.count(message.moving_bytes());
        let came = |start: u64| start + ((frames - start) as f64 * part) as u64;
        if message.is_answer {
            message.epoch = came(u64::from(message.epoch)).min(frames - 1) as u32;
            return;
        }
        let Some(recovery) = self.hosts[message.host as usize].recovery(message.vi) else {
            return;
        };
        let sequence = message.sequence;
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
        let Some(message) = self.messages.get(id) else {
            return false;
        };
        let holds = message.fate == Fate::Gap && !message.is_answer;
        if let Some(recovery) = self.hosts[message.host as usize].recovery(message.vi) {
            recovery.is_held |= holds;
        }
        holds
    }

    /// Lets the next message of a VI move, if none could.
    fn release_line(&mut self, host: u32, vi: ViId, was_held: bool) {
        if !was_held {
            return;
        }
        let line = self.host(host).line(vi);
        let next = line.next_waiting();
        line.is_moving = next.is_some();
        if let Some(next) = next {
            self.begin(next);
        }
    }

    fn forget_lost(&mut self, gone: Vec<(u32, MessageId)>) {
        for (_, id) in gone {
            if let Some(message) = self.messages.get(id) {
                let (host, target) = (message.host, message.target);
                self.leave_stream(host, target);
            }
            self.messages.release(id);
        }
    }

    /// Whether a message is of a connection that sends again.
    pub(crate) fn is_repeatable(&mut self, id: MessageId) -> bool {
        let Some(message) = self.messages.get(id) else {
            return false;
        };
        let recovery = self.hosts[message.host as usize].recovery(message.vi);
        message.sequence > 0 && recovery.is_some_and(|it| it.connection == message.peer.connection)
    }

    /// Whether the receiver of such a message would not take it, if it came now.
    pub(crate) fn is_out_of_order(&mut self, id: MessageId) -> bool {
        let Some(message) = self.messages.get(id) else {
            return false;
        };
        let recovery = self.hosts[message.host as usize].recovery(message.vi);
        message.fate != Fate::Whole || recovery.is_some_and(|it| it.expected != message.sequence)
    }

    /// Keeps such a message, that would be there now, from its receiver: it was lost, is behind a
    /// gap, or was taken before.
    pub(crate) fn withholds_repeatable(&mut self, id: MessageId) -> bool {
        let now = self.now();
        let Some(message) = self.messages.get(id) else {
            return false;
        };
        let (host, vi, target) = (message.host, message.vi, message.target);
        let (sequence, fate, peer) = (message.sequence, message.fate, message.peer.vi);
        let sent_in = message.epoch;
        if message.is_answer {
            if fate == Fate::Whole {
                return false;
            }
            self.counts.lost += 1;
            self.repeat_answer(id);
            return true;
        }
        let Some(recovery) = self.host(host).recovery(vi) else {
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
            if self.host(target).nic().acknowledges(peer) {
                self.acknowledge(id);
            } else {
                self.messages.release(id);
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
        self.counts.lost += u64::from(!is_whole);
        self.lose(id);
        if is_first {
            let (ends, flow) = ((target, host), vi.index());
            let there = now + self.control_delay(ends, flow);
            let way = self.network.way(ends, flow);
            let faults = self.faults.as_mut();
            if faults.is_some_and(|faults| faults.fate(way, 1, now, there) == Fate::Whole) {
                let again = Consequence::Again(host, vi, epoch);
                self.follows_at(there, again);
            }
        }
        true
    }

    /// The acknowledgement of such a message is lost: it will be sent again.
    pub(crate) fn lose_acknowledgement(&mut self, id: MessageId) {
        if let Some(message) = self.messages.get(id) {
            let (host, target) = (message.host, message.target);
            self.host(host).stream(target).messages += 1;
            self.lose(id);
        }
    }

    /// Notes that a message is to be sent again.
    fn lose(&mut self, id: MessageId) {
        let Some(rule) = self.retransmission_rule() else {
            return;
        };
        let now = self.now();
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let (host, vi, sequence) = (message.host, message.vi, message.sequence);
        let Some(recovery) = self.host(host).recovery(vi) else {
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
    pub(crate) fn send_again(&mut self, host: u32, vi: ViId, epoch: u32) {
        let Some(rule) = self.retransmission_rule() else {
            return;
        };
        let Some(recovery) = self.host(host).recovery(vi) else {
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
        let nic = self.host(host).nic();
        let is_up = nic
            .peer(vi)
            .is_some_and(|peer| peer.connection == connection);
        if !is_up {
            self.forget_lost(lost);
            self.release_line(host, vi, was_held);
            return;
        }
        if has_failed {
            let (_, first) = lost.remove(0);
            if let Some(message) = self.messages.get(first) {
                let target = message.target;
                self.leave_stream(host, target);
            }
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
        self.counts.retransmissions += lost.len() as u64;
        let epoch = self
            .host(host)
            .recovery(vi)
            .map_or(0, |recovery| recovery.epoch);
        let number = |id: MessageId, messages: &mut Messages| {
            messages.get(id).map_or(0, |message| message.sequence)
        };
        let mut waiting = self.host(host).line(vi).waiting.take().unwrap_or_default();
        for (sequence, id) in lost {
            let mut before = waiting.iter();
            let place = before.position(|other| number(*other, &mut self.messages) > *sequence);
            waiting.insert(place.unwrap_or(waiting.len()), *id);
            if let Some(message) = self.messages.get(*id) {
                // It leaves once more.
                message.references += 1;
                message.epoch = epoch;
            }
        }
        let line = self.host(host).line(vi);
        line.waiting = Some(waiting);
        let next = if line.is_moving {
            None
        } else {
            line.next_waiting()
        };
        line.is_moving |= next.is_some();
        if let Some(next) = next {
            self.begin(next);
        }
    }

    /// The answer of a remote read was lost: the read is asked for again, and answered.
    fn repeat_answer(&mut self, id: MessageId) {
        let Some(rule) = self.retransmission_rule() else {
            return;
        };
        let Some(message) = self.messages.get(id) else {
            return;
        };
        message.goes += 1;
        let has_failed = message.goes > rule.retries;
        let (ends, flow) = ((message.host, message.target), message.vi.index());
        let is_told = message.fate == Fate::Gap;
        let due = if is_told {
            // Whoever reads sees that a frame is missing, and asks from there on.
            self.now() + self.control_delay(ends, flow)
        } else {
            self.now() + rule.timeout
        };
        let next = if has_failed {
            Consequence::GiveUp(id)
        } else {
            self.counts.retransmissions += 1;
            Consequence::AnswerAgain(id)
        };
        self.follows_at(due, next);
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
