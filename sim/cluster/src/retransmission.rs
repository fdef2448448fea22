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
//! Drawn traffic, lists and programs share all this. They differ in what a message leaves behind
//! that goes with its connection ([`Cluster::abandon`]), and in an acknowledgement that is lost: a
//! program's message is what goes again, and of drawn traffic a copy of it that nobody counts,
//! while the message itself goes on to its application.
//!
//! Frames are not events. When a message begins to move it is drawn which of its frames is the
//! first to be lost, and which the first behind that to come: there its flow ends, and nothing of
//! its VI moves until the sender has gone back, since the receiver would drop it. What is lost in a
//! full queue nobody knows before: such a message moves on to its end, and its receiver then tells
//! of the gap, if a frame behind it came ([`Cluster::note_frames_lost`]).
//!
//! Nothing here is reached in a simulation without faults.

use std::collections::BTreeMap;

use viaduct_core::{ConnectionNumber, ViId};
use viaduct_engine::Time;
use viaduct_hardware::mechanism::PlanId;
use viaduct_hardware::{Frame, Mechanism};
use viaduct_network::{QueueLoss, Transfer};

use crate::cluster::Cluster;
use crate::connections::connection;
use crate::event::Event;
use crate::failures::{Consequence, cause};
use crate::faults::{Fate, Faults};
use crate::message::MessageId;
use crate::programs::{OF_PROGRAM, Programs};

/// What reliable connections remember in order to send again.
#[derive(Debug, Default)]
pub(crate) struct Retransmission {
    recoveries: BTreeMap<Sender, Recovery>,
    /// By message.
    goes: Vec<Go>,
    /// Messages of drawn traffic that were sent again, each time counted.
    pub(crate) resent: u64,
}

/// Who sends on a connection.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Sender {
    host: u32,
    vi: ViId,
    /// Whether that is a VI of programs.
    pub(crate) is_of_program: bool,
}

/// What a message has of its own of that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Go {
    /// Its number on its connection, where what is lost is sent again; else 0.
    sequence: u32,
    /// In which go of its connection it was sent last; of an answer, frames of it that have come.
    epoch: u32,
    /// Times that its answer was lost.
    lost_answers: u32,
    /// Whether all its bytes have left before.
    has_left: bool,
    /// The first of its frames that went in its last go.
    start: u32,
}

/// One direction of a reliable connection, as both its ends see it.
#[derive(Debug)]
struct Recovery {
    connection: ConnectionNumber,
    /// Who sends, and the place of its connection: whose line waits.
    owner: (u32, u32),
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
    /// What a host's adapter does about losses, if it does anything.
    fn retransmission_rule(&self, host: u32) -> Option<Rule> {
        match &self.config.host.of(host).mechanism {
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

    fn sender(&self, id: MessageId) -> Sender {
        let (host, vi) = self.poster(id);
        Sender {
            host,
            vi,
            is_of_program: self.messages.get(id).is_of::<P>(),
        }
    }

    /// One direction of the connection that a message takes, if what is lost there is sent again.
    fn recovery(&mut self, id: MessageId) -> Option<&mut Recovery> {
        let poster = self.sender(id);
        let failures = self.failures.as_mut()?;
        failures.retransmission.recoveries.get_mut(&poster)
    }

    fn go(&self, id: MessageId) -> Go {
        let failures = self.failures.as_ref();
        let go = failures.and_then(|it| it.retransmission.goes.get(id.0 as usize));
        go.copied().unwrap_or_default()
    }

    fn go_mut(&mut self, id: MessageId) -> Option<&mut Go> {
        let goes = &mut self.failures.as_mut()?.retransmission.goes;
        let place = id.0 as usize;
        if goes.len() <= place {
            goes.resize_with(place + 1, Go::default);
        }
        goes.get_mut(place)
    }

    /// Numbers a message that was started; one of a connection where nothing is sent again has 0.
    pub(crate) fn number(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        let owner = (message.source, message.connection);
        let connection = message.header.map(|header| header.connection);
        let sender = self.sender(id);
        let numbers = self.retransmission_rule(sender.host).is_some()
            && self.faults().is_some_and(Faults::may_lose)
            && self.is_reliable(sender.host, sender.vi, sender.is_of_program);
        if let Some(go) = self.go_mut(id) {
            *go = Go::default();
        }
        let (true, Some(connection), Some(failures)) = (numbers, connection, &mut self.failures)
        else {
            return;
        };
        let recoveries = &mut failures.retransmission.recoveries;
        let recovery = recoveries.entry(sender).or_insert_with(|| Recovery {
            connection,
            owner,
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
        if let Some(go) = self.go_mut(id) {
            (go.sequence, go.epoch) = (sequence, epoch);
        }
        self.forget_lost(gone);
        self.release_line(owner, was_held);
    }

    /// The answer of a remote read begins: none of its frames has come.
    pub(crate) fn begin_answer(&mut self, id: MessageId) {
        if self.failures.is_some()
            && let Some(go) = self.go_mut(id)
        {
            go.epoch = 0;
        }
    }

    /// All bytes of a message have left its adapter: whether they had before.
    pub(crate) fn leaves_again(&mut self, id: MessageId) -> bool {
        let is_repeatable = self.failures.is_some() && self.go(id).sequence > 0;
        let go = if is_repeatable { self.go_mut(id) } else { None };
        go.is_some_and(|go| core::mem::replace(&mut go.has_left, true))
    }

    /// What a message of drawn traffic meets on its way is drawn when it begins to move; one whose
    /// adapter sends it again goes as [`Cluster::begin_repeatable`] says, which is then done.
    #[cold]
    pub(crate) fn may_fail_on_its_way(&mut self, id: MessageId, transfer: &mut Transfer) -> bool {
        let part_bytes = self.draw_fate(id);
        let is_repeatable = self.is_repeatable(id);
        if is_repeatable {
            self.begin_repeatable(id, transfer, part_bytes);
        }
        is_repeatable
    }

    /// A message that its adapter sends again moves, maybe not for the first time, and maybe not
    /// all of it. Its floor is that of the whole message.
    fn begin_repeatable(
        &mut self,
        id: MessageId,
        transfer: &mut Transfer,
        part_bytes: Option<f64>,
    ) {
        let message = self.messages.get_mut(id);
        message.tail_arrives = Time::MAX;
        message.receive_delay = None;
        message.idle_at_head = Time::ZERO;
        let plan = self.plans.get(self.messages.get(id).plan);
        let way = self.network.way(transfer.ends, transfer.flow);
        let alone = self
            .config
            .alone(self.config.pair(transfer.ends), way, plan);
        self.messages.get_mut(id).floor = self.floor_of_remote(id, alone);
        // What comes behind something else is taken for lost.
        transfer.is_ordered = true;
        transfer.demand.wire_bytes = part_bytes.unwrap_or(transfer.demand.wire_bytes);
        let begun = self.network.begin(&mut self.queue, transfer);
        self.note_begun(id, &begun);
    }

    /// Draws how far such a message gets that begins to move. Bytes on the wire, if not all.
    pub(crate) fn draw_part(&mut self, id: MessageId) -> Option<f64> {
        let message = self.messages.get(id);
        let (ends, flow) = self.ends_of(message);
        let (bytes, is_answer) = (u64::from(message.carried_bytes()), message.is_answer);
        let poster = self.sender(id);
        let way = self.network.way(ends, flow);
        let failures = self.failures.as_mut()?;
        let faults = &mut failures.faults;
        let Retransmission {
            recoveries, goes, ..
        } = &mut failures.retransmission;
        let recovery = recoveries.get_mut(&poster)?;
        let go = goes.get_mut(id.0 as usize)?;
        let message = self.messages.get_mut(id);
        message.met_full_queue = false;
        let frame = self.config.links.frame;
        let (frames, sequence) = (frame.count(bytes), go.sequence);
        let start = match (is_answer, recovery.resumes) {
            (true, _) => u64::from(go.epoch),
            (false, (resumed, came)) if resumed == sequence => came,
            (false, _) => 0,
        };
        go.start = start.min(frames - 1) as u32;
        let left = frames - start.min(frames - 1);
        if !is_answer && sequence < recovery.expected {
            // The receiver has it already, and acknowledges the first of its frames that comes.
            let mut moved = 0;
            let mut is_there = false;
            while moved < left && !is_there {
                is_there = faults.lets_pass(way);
                moved += 1;
            }
            message.fate = if is_there { Fate::Whole } else { Fate::Lost };
            return Some(part_bytes(frame, bytes, start, start + moved));
        }
        let is_behind = !is_answer && recovery.gap.is_some_and(|gap| gap < sequence);
        let mut moved = 0;
        if !is_behind {
            let (fate, came) = faults.draw(way, left);
            message.fate = fate;
            if fate == Fate::Whole {
                return (start > 0).then(|| part_bytes(frame, bytes, start, frames));
            }
            if is_answer {
                go.epoch += came as u32;
                go.lost_answers *= u32::from(came == 0);
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

    /// Of such a message, as much as moved of it, frames were lost in queues: its first is to be
    /// there by now, or all of them.
    pub(crate) fn note_frames_lost(&mut self, id: MessageId, is_first: bool, loss: QueueLoss) {
        let message = self.messages.get_mut(id);
        let (fate, is_answer) = (message.fate, message.is_answer);
        // What its first byte met has been told, and the rest of it may have come.
        let was_whole = fate == Fate::Whole || message.met_full_queue;
        if is_first {
            if was_whole {
                message.fate = Fate::Lost;
                message.met_full_queue = true;
            }
            return;
        }
        let go = self.go(id);
        let came = u64::from(go.start) + u64::from(loss.came);
        let is_taken_before = self
            .recovery(id)
            .is_some_and(|it| !is_answer && go.sequence < it.expected);
        let message = self.messages.get_mut(id);
        message.met_full_queue = true;
        message.fate = if is_taken_before {
            // Any of its frames is acknowledged.
            match loss.came > 0 || loss.is_told {
                true => fate_of_copy(fate, was_whole),
                false => Fate::Lost,
            }
        } else {
            match loss.is_told && (was_whole || fate == Fate::Gap) {
                true => Fate::Gap,
                false => Fate::Lost,
            }
        };
        if is_taken_before {
            return;
        }
        if is_answer {
            if let Some(go) = self.go_mut(id) {
                go.epoch = match was_whole {
                    true => came as u32,
                    false => go.epoch.min(came as u32),
                };
                go.lost_answers *= u32::from(loss.came == 0);
            }
            return;
        }
        let Some(recovery) = self.recovery(id) else {
            return;
        };
        if recovery.gap.is_none_or(|gap| gap > go.sequence) {
            recovery.gap = Some(go.sequence);
            recovery.resumes = (go.sequence, came);
        } else if recovery.gap == Some(go.sequence) {
            recovery.resumes.1 = recovery.resumes.1.min(came);
        }
    }

    /// Such a message was moving wholly when a link of its way went down, after a part of its time.
    pub(crate) fn note_cut(&mut self, id: MessageId, part: f64) {
        let message = self.messages.get(id);
        let frames = self
            .config
            .links
            .frame
            .count(message.carried_bytes().into());
        let came = |start: u64| start + ((frames - start) as f64 * part) as u64;
        let go = self.go(id);
        if message.is_answer {
            let came = came(u64::from(go.epoch)).min(frames - 1);
            if let Some(go) = self.go_mut(id) {
                go.epoch = came as u32;
            }
            return;
        }
        let Some(recovery) = self.recovery(id) else {
            return;
        };
        if recovery.gap.is_none() && go.sequence >= recovery.expected {
            let (resumed, start) = recovery.resumes;
            let start = if resumed == go.sequence { start } else { 0 };
            recovery.gap = Some(go.sequence);
            recovery.resumes = (go.sequence, came(start).min(frames - 1));
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
    fn release_line(&mut self, (process, place): (u32, u32), was_held: bool) {
        if was_held {
            self.move_next(process, place);
        }
    }

    fn forget_lost(&mut self, gone: Vec<(u32, MessageId)>) {
        for (_, id) in gone {
            self.abandon(id, cause::NO_CONNECTION);
            self.remove_message(id);
        }
    }

    /// A message is not sent again: its connection broke.
    fn abandon(&mut self, id: MessageId, cause: &'static str) {
        let message = self.messages.get(id);
        if message.is_of::<P>() {
            let (host, target) = (message.source, message.target);
            self.leave_stream(host, target);
        } else if !message.is_copy {
            self.drop_message(id, cause);
        }
    }

    /// Whether a message is of a connection that sends again.
    pub(crate) fn is_repeatable(&mut self, id: MessageId) -> bool {
        // Queue pairs know themselves what they send again.
        if self.is_of_pair(id) {
            return false;
        }
        let header = self.messages.get(id).header;
        let connection = header.map(|header| header.connection);
        self.go(id).sequence > 0
            && self
                .recovery(id)
                .is_some_and(|it| Some(it.connection) == connection)
    }

    /// Whether the receiver of such a message would not take it, if it came now.
    pub(crate) fn is_out_of_order(&mut self, id: MessageId) -> bool {
        let fate = self.messages.get(id).fate;
        let sequence = self.go(id).sequence;
        let recovery = self.recovery(id);
        fate != Fate::Whole || recovery.is_some_and(|it| it.expected != sequence)
    }

    /// Keeps such a message, that would be there now, from its receiver: it was lost, is behind a
    /// gap, or was taken before.
    pub(crate) fn withholds_repeatable(&mut self, id: MessageId) -> bool {
        let now = self.queue.now();
        let message = self.messages.get(id);
        let (fate, target_vi) = (message.fate, message.target_vi);
        let is_of_program = message.is_of::<P>();
        if message.is_answer {
            if fate == Fate::Whole {
                return false;
            }
            self.guests.counts.lost += u64::from(is_of_program);
            self.repeat_answer(id);
            return true;
        }
        let (process, target) = (message.source, message.target);
        let target_host = self.host_of_end(message, target);
        let poster = self.sender(id);
        let Go {
            sequence,
            epoch: sent_in,
            ..
        } = self.go(id);
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
            if is_of_program {
                self.leave_stream(process, target);
            }
            let nic = self.nic(target_host, is_of_program);
            if nic.acknowledges(target_vi) {
                self.acknowledge(id);
            } else {
                self.remove_message(id);
            }
            return true;
        }
        if is_dropped && recovery.is_refused && sent_in != recovery.epoch {
            // The sender had gone back before it came: it is among what is sent again.
            let was_held = fate == Fate::Gap && recovery.go_back();
            let owner = recovery.owner;
            self.repeat(poster, &[(sequence, id)]);
            self.release_line(owner, was_held);
            return true;
        }
        let is_first = is_dropped && !recovery.is_refused;
        recovery.is_refused |= is_first;
        let epoch = recovery.epoch;
        let is_whole = is_dropped && sequence != recovery.expected;
        self.guests.counts.lost += u64::from(is_of_program && !is_whole);
        self.wait_for_another_go(id);
        if is_first {
            let (ends, flow) = self.way_back(self.messages.get(id));
            let there = now + self.network.control_delay(ends, flow);
            let way = self.network.way(ends, flow);
            let faults = self.failures.as_mut().map(|failures| &mut failures.faults);
            if faults.is_some_and(|faults| faults.fate(way, 1, now, there) == Fate::Whole) {
                let again = Consequence::Again(poster, epoch);
                self.follows_at(there, again);
            }
        }
        true
    }

    /// The acknowledgement of such a message is lost: it will be sent again.
    pub(crate) fn lose_acknowledgement(&mut self, id: MessageId) {
        let message = self.messages.get(id);
        if message.is_of::<P>() {
            let (host, target) = (message.source, message.target);
            self.guests.hosts[host as usize].stream(target).messages += 1;
            return self.wait_for_another_go(id);
        }
        if message.is_copy {
            return self.wait_for_another_go(id);
        }
        // The message goes on to its application, and no longer waits for the acknowledgement.
        let mut copy = message.clone();
        (copy.is_copy, copy.references, copy.repost) = (true, 1, None);
        if copy.plan != PlanId::NONE {
            self.plans.hold(copy.plan);
        }
        let message = self.messages.get_mut(id);
        message.is_awaited = false;
        message.references -= 1;
        let go = self.go(id);
        let id = self.messages.insert(copy);
        if let Some(of_copy) = self.go_mut(id) {
            *of_copy = go;
        }
        self.wait_for_another_go(id);
    }

    /// Notes that a message is to be sent again.
    fn wait_for_another_go(&mut self, id: MessageId) {
        let now = self.queue.now();
        let sender = self.sender(id);
        let Some(rule) = self.retransmission_rule(sender.host) else {
            return;
        };
        let sequence = self.go(id).sequence;
        let Some(recovery) = self.recovery(id) else {
            return;
        };
        let place = recovery
            .lost
            .partition_point(|(other, _)| *other < sequence);
        recovery.lost.insert(place, (sequence, id));
        if !core::mem::replace(&mut recovery.is_timed, true) {
            let again = Consequence::Again(sender, recovery.epoch);
            self.follows_at(now + rule.timeout, again);
        }
    }

    /// A sender goes back to the first message that its peer has not, unless it has since.
    pub(crate) fn send_once_more(&mut self, sender: Sender, epoch: u32) {
        let rule = self.retransmission_rule(sender.host);
        let (Some(rule), Some(failures)) = (rule, &mut self.failures) else {
            return;
        };
        let recoveries = &mut failures.retransmission.recoveries;
        let Some(recovery) = recoveries.get_mut(&sender) else {
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
        let (connection, owner) = (recovery.connection, recovery.owner);
        let peer = self.nic(sender.host, sender.is_of_program).peer(sender.vi);
        let is_up = peer.is_some_and(|peer| peer.connection == connection);
        // What had left was complete at reliable delivery, so its program may have disconnected:
        // the end of the connection stays behind it, and it is sent until it is there.
        let goes_on = is_up
            || sender.is_of_program
                && lost.first().is_some_and(|(_, first)| {
                    let target = self.messages.get(*first).target;
                    self.has_left_behind(sender.host, target, connection)
                });
        if !goes_on {
            self.forget_lost(lost);
        } else if has_failed {
            let (_, first) = lost.remove(0);
            self.abandon(first, self.loss_of(first));
            self.give_up(first);
            self.forget_lost(lost);
        } else {
            self.repeat(sender, &lost);
        }
        self.release_line(owner, was_held);
    }

    /// Puts messages of a VI, in the order of their numbers, in front of what has not moved yet.
    fn repeat(&mut self, of: Sender, lost: &[(u32, MessageId)]) {
        let Some(failures) = &mut self.failures else {
            return;
        };
        let Some(recovery) = failures.retransmission.recoveries.get(&of) else {
            return;
        };
        let ((process, place), epoch) = (recovery.owner, recovery.epoch);
        if P::EXIST && place & OF_PROGRAM != 0 {
            self.guests.counts.retransmissions += lost.len() as u64;
        } else {
            failures.retransmission.resent += lost.len() as u64;
        }
        let mut waiting = self.messages.take_line(connection!(self, process, place));
        for (sequence, id) in lost {
            let mut before = waiting.iter();
            let place = before.position(|other| self.go(*other).sequence > *sequence);
            waiting.insert(place.unwrap_or(waiting.len()), *id);
            let message = self.messages.get_mut(*id);
            // That it leaves once more is told to a program's host.
            message.references += u8::from(message.is_of::<P>());
            if let Some(go) = self.go_mut(*id) {
                go.epoch = epoch;
            }
        }
        let connection = connection!(self, process, place);
        for id in waiting {
            self.messages.line_up_to_move(connection, id);
        }
        if connection.moving == 0 {
            connection.moving = 1;
            self.move_next(process, place);
        }
    }

    /// The answer of a remote read was lost: the read is asked for again, and answered.
    fn repeat_answer(&mut self, id: MessageId) {
        let Some(rule) = self.retransmission_rule(self.poster(id).0) else {
            return;
        };
        let message = self.messages.get(id);
        let (ends, flow) = self.ends_of(message);
        let is_told = message.fate == Fate::Gap;
        let Some(go) = self.go_mut(id) else {
            return;
        };
        go.lost_answers += 1;
        let has_failed = go.lost_answers > rule.retries;
        let due = if is_told {
            // Whoever reads sees that a frame is missing, and asks from there on.
            self.queue.now() + self.network.control_delay((ends.1, ends.0), flow)
        } else {
            self.queue.now() + rule.timeout
        };
        let is_of_program = self.messages.get(id).is_of::<P>();
        if has_failed {
            if !is_of_program {
                self.drop_message(id, self.loss_of(id));
            }
            self.queue.schedule(due, Event::GivesUp(id));
            return;
        }
        if is_of_program {
            self.guests.counts.retransmissions += 1;
        } else if let Some(failures) = &mut self.failures {
            failures.retransmission.resent += 1;
        }
        self.follows_at(due, Consequence::AnswerAgain(id));
    }
}

impl Recovery {
    /// The sender goes back to the gap; whether nothing moved until it did.
    fn go_back(&mut self) -> bool {
        self.gap = None;
        core::mem::take(&mut self.is_held)
    }
}

/// What becomes of a message that its receiver had before, and of which some frames have come.
const fn fate_of_copy(fate: Fate, was_whole: bool) -> Fate {
    if was_whole { Fate::Whole } else { fate }
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
