//! Sending again what was lost: reliable connections of RDMA adapters.
//!
//! Each frame of a connection has a sequence number, and the receiver takes the one that it
//! expects. What comes behind a gap it drops, with a negative acknowledgement of the first such;
//! then, or when a time-out is over, the sender goes back and sends again from the gap on. After
//! `retries` goes without progress it gives up, and the connection breaks. That is go-back-N;
//! adapters of selective repeat keep what comes behind a gap ([`selective`]).
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

mod selective;

use std::collections::BTreeMap;

use viaduct_core::{ConnectionNumber, ViId};
use viaduct_engine::Time;
use viaduct_hardware::mechanism::PlanId;
use viaduct_hardware::{Frame, Mechanism};
use viaduct_network::{QueueLoss, Transfer};

use self::selective::Missing;
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
    /// Of each VI those of its connection, and of former ones that end behind what is under way.
    recoveries: Recoveries,
    /// By message.
    goes: Vec<Go>,
    /// Messages of drawn traffic that were sent again, each time counted.
    pub(crate) resent: u64,
}

/// Who sends on a connection.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Sender {
    host: u32,
    vi: ViId,
    /// Whether that is a VI of programs.
    is_of_program: bool,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direction {
    sender: Sender,
    /// Where to, and the connection's number there.
    target: u32,
    connection: ConnectionNumber,
}

impl Direction {
    /// Whether its ends are VIs of programs.
    pub(crate) const fn is_of_program(&self) -> bool {
        self.sender.is_of_program
    }
}

/// Recoveries of VIs.
type Recoveries = BTreeMap<Sender, Vec<Recovery>>;

fn find<'a>(recoveries: &'a mut Recoveries, of: &Direction) -> Option<&'a mut Recovery> {
    let mut recoveries = recoveries.get_mut(&of.sender)?.iter_mut();
    recoveries.find(|it| (it.target, it.connection) == (of.target, of.connection))
}

/// What a message has of its own of that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Go {
    /// Its number on its connection, where what is lost is sent again; else 0.
    sequence: u32,
    /// In which go of its connection it was sent last; of an answer, frames of it that have come.
    epoch: u32,
    /// Goes in a row in which nothing of it came, where these are counted by message.
    goes_in_vain: u32,
    /// Whether all its bytes have left before.
    has_left: bool,
    /// The first of its frames that went in its last go.
    start: u32,
    /// With selective repeat: those that went, those that are still missing, and whether any came.
    sent: Missing,
    missing: Missing,
    has_come: bool,
}

/// One direction of a reliable connection, as both its ends see it.
#[derive(Debug)]
struct Recovery {
    target: u32,
    connection: ConnectionNumber,
    is_selective: bool,
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
    /// With selective repeat: what the receiver has of what it may not take yet, by number, and the
    /// last go of which it has told the sender.
    early: Vec<(u32, MessageId)>,
    told_go: u32,
}

/// What an adapter does about losses.
#[derive(Clone, Copy, Debug)]
struct Rule {
    retries: u32,
    timeout: Time,
    is_selective: bool,
}

impl<P: Programs> Cluster<P> {
    /// What a host's adapter does about losses, if it does anything.
    fn retransmission_rule(&self, host: u32) -> Option<Rule> {
        match &self.config.host.of(host).mechanism {
            Mechanism::Rdma(model) if model.retries > 0 => Some(Rule {
                retries: model.retries,
                timeout: model.timeout,
                is_selective: model.repeats_selectively,
            }),
            Mechanism::Rdma(_)
            | Mechanism::Native(_)
            | Mechanism::RemoteWrites(_)
            | Mechanism::Firmware(_)
            | Mechanism::Kernel(_) => None,
        }
    }

    /// The connection that a message takes, from whoever posted it on; none if it has not started.
    fn direction(&self, id: MessageId) -> Option<Direction> {
        let (host, vi) = self.poster(id);
        let message = self.messages.get(id);
        let is_of_program = message.is_of::<P>();
        Some(Direction {
            sender: Sender {
                host,
                vi,
                is_of_program,
            },
            target: message.ends_as_posted().1,
            connection: message.header?.connection,
        })
    }

    fn recovery_of(&mut self, of: &Direction) -> Option<&mut Recovery> {
        find(&mut self.failures.as_mut()?.retransmission.recoveries, of)
    }

    /// One direction of the connection that a message takes, if what is lost there is sent again.
    fn recovery(&mut self, id: MessageId) -> Option<&mut Recovery> {
        let of = self.direction(id)?;
        self.recovery_of(&of)
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
        if let Some(go) = self.go_mut(id) {
            *go = Go::default();
        }
        let Some(of) = self.direction(id) else {
            return;
        };
        let Sender {
            host,
            vi,
            is_of_program,
        } = of.sender;
        let rule = self.retransmission_rule(host).filter(|_| {
            self.faults().is_some_and(Faults::may_lose) && self.is_reliable(host, vi, is_of_program)
        });
        let Some(rule) = rule else {
            return;
        };
        let message = self.messages.get(id);
        let owner = (message.source, message.connection);
        let bytes = message.carried_bytes();
        let missing = Missing::all(self.config.links.frame.count(bytes.into()));
        let (gone, was_held) = match self.recovery_of(&of) {
            Some(_) => (Vec::new(), false),
            None => self.begin_connection(&of, owner, rule),
        };
        let Some(recovery) = self.recovery_of(&of) else {
            return;
        };
        recovery.last += 1;
        let (sequence, epoch) = (recovery.last, recovery.epoch);
        if let Some(go) = self.go_mut(id) {
            (go.sequence, go.epoch, go.missing) = (sequence, epoch, missing);
        }
        self.forget_lost(gone);
        self.release_line(owner, was_held);
    }

    /// The first message of a connection has started. What was left of former ones of its VI went
    /// with them, unless that was told to be complete: then their ends follow it. What is gone, and
    /// whether it held the VI's line.
    fn begin_connection(
        &mut self,
        of: &Direction,
        owner: (u32, u32),
        rule: Rule,
    ) -> (Vec<(u32, MessageId)>, bool) {
        let Some(failures) = &mut self.failures else {
            return (Vec::new(), false);
        };
        let recoveries = &mut failures.retransmission.recoveries;
        let mut recoveries = recoveries.remove(&of.sender).unwrap_or_default();
        let last = recoveries.iter().map(|it| it.last).max().unwrap_or(0);
        let mut gone = Vec::new();
        let mut was_held = false;
        recoveries.retain_mut(|it| {
            let goes_on = of.is_of_program()
                && self.has_left_behind(of.sender.host, it.target, it.connection);
            if !goes_on {
                was_held |= it.go_back();
                gone.append(&mut it.lost);
                gone.append(&mut it.early);
            }
            goes_on
        });
        recoveries.push(Recovery {
            target: of.target,
            connection: of.connection,
            is_selective: rule.is_selective,
            owner,
            last,
            expected: last + 1,
            lost: Vec::new(),
            goes: 0,
            is_refused: false,
            epoch: 0,
            is_timed: false,
            gap: None,
            resumes: (0, 0),
            told: 0,
            is_held: false,
            early: Vec::new(),
            told_go: 0,
        });
        if let Some(failures) = &mut self.failures {
            let all = &mut failures.retransmission.recoveries;
            all.insert(of.sender, recoveries);
        }
        (gone, was_held)
    }

    /// The answer of a remote read begins: none of its frames has come.
    pub(crate) fn begin_answer(&mut self, id: MessageId) {
        let bytes = self.messages.get(id).bytes;
        let missing = Missing::all(self.config.links.frame.count(bytes.into()));
        if self.failures.is_some()
            && let Some(go) = self.go_mut(id)
        {
            (go.epoch, go.missing) = (0, missing);
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
        let of = self.direction(id)?;
        let way = self.network.way(ends, flow);
        let failures = self.failures.as_mut()?;
        let faults = &mut failures.faults;
        let Retransmission {
            recoveries, goes, ..
        } = &mut failures.retransmission;
        let recovery = find(recoveries, &of)?;
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
        if recovery.is_selective && !is_answer {
            recovery.epoch += 1;
            go.epoch = recovery.epoch;
        }
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
        if recovery.is_selective {
            let mut crosses = || faults.lets_pass(way);
            message.fate = go.cross(&mut crosses);
            let is_all = u64::from(go.sent.count()) == frames;
            return (!is_all).then(|| go.sent.wire_bytes(frame, bytes));
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
                go.goes_in_vain *= u32::from(came == 0);
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
        if self.recovery(id).is_some_and(|it| it.is_selective) {
            return self.note_frames_missing(id, is_first, loss);
        }
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
                go.goes_in_vain *= u32::from(loss.came == 0);
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
        let is_answer = message.is_answer;
        let came = |start: u64| start + ((frames - start) as f64 * part) as u64;
        let is_selective = self.recovery(id).is_some_and(|it| it.is_selective);
        if is_selective && let Some(go) = self.go_mut(id) {
            return go.ends_after(part);
        }
        let go = self.go(id);
        if is_answer {
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
        let has_gap = message.fate == Fate::Gap && !message.is_answer;
        let Some(recovery) = self.recovery(id) else {
            return has_gap;
        };
        let holds = has_gap && !recovery.is_selective;
        recovery.is_held |= holds;
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
        self.go(id).sequence > 0 && self.recovery(id).is_some()
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
        let Go {
            sequence,
            epoch: sent_in,
            ..
        } = self.go(id);
        let Some(of) = self.direction(id) else {
            return false;
        };
        let Some(recovery) = self.recovery_of(&of) else {
            return false;
        };
        let was_taken = fate == Fate::Whole && sequence < recovery.expected;
        if recovery.is_selective && !was_taken {
            return self.withholds_selectively(id, &of);
        }
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
        if was_taken {
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
            self.repeat(&of, &[(sequence, id)]);
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
            self.tell_sender(id, Consequence::Again(of, epoch));
        }
        true
    }

    /// The receiver of a message tells its sender what is to go again; whether that gets through.
    fn tell_sender(&mut self, id: MessageId, again: Consequence) -> bool {
        let now = self.queue.now();
        let (ends, flow) = self.way_back(self.messages.get(id));
        let there = now + self.network.control_delay(ends, flow);
        let way = self.network.way(ends, flow);
        let faults = self.failures.as_mut().map(|failures| &mut failures.faults);
        let is_told = faults.is_some_and(|it| it.fate(way, 1, now, there) == Fate::Whole);
        if is_told {
            self.follows_at(there, again);
        }
        is_told
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
        let Some(of) = self.direction(id) else {
            return;
        };
        let Some(rule) = self.retransmission_rule(of.sender.host) else {
            return;
        };
        let Go {
            sequence, epoch, ..
        } = self.go(id);
        let Some(recovery) = self.recovery_of(&of) else {
            return;
        };
        let place = recovery
            .lost
            .partition_point(|(other, _)| *other < sequence);
        recovery.lost.insert(place, (sequence, id));
        if recovery.is_selective {
            self.follows_at(now + rule.timeout, Consequence::Again(of, epoch));
        } else if !core::mem::replace(&mut recovery.is_timed, true) {
            let again = Consequence::Again(of, recovery.epoch);
            self.follows_at(now + rule.timeout, again);
        }
    }

    /// A sender goes back to the first message that its peer has not, unless it has since.
    pub(crate) fn send_once_more(&mut self, of: &Direction, epoch: u32) {
        let Some(rule) = self.retransmission_rule(of.sender.host) else {
            return;
        };
        let Some(recovery) = self.recovery_of(of) else {
            return;
        };
        if recovery.is_selective {
            return self.send_what_is_missing(of, epoch, rule);
        }
        if recovery.epoch != epoch || recovery.lost.is_empty() {
            return;
        }
        recovery.epoch += 1;
        recovery.is_timed = false;
        recovery.goes += 1;
        let was_held = recovery.go_back();
        let has_failed = recovery.goes > rule.retries;
        let owner = recovery.owner;
        let mut lost = core::mem::take(&mut recovery.lost);
        if !self.is_carried(of) {
            self.forget_lost(lost);
        } else if has_failed {
            let (_, first) = lost.remove(0);
            self.end_with(first, lost);
        } else {
            self.repeat(of, &lost);
        }
        self.release_line(owner, was_held);
    }

    /// Whether a connection is up at its sender, or ends behind what is under way: what had left
    /// was complete at reliable delivery, so its program may have disconnected since.
    fn is_carried(&self, of: &Direction) -> bool {
        let Sender {
            host,
            vi,
            is_of_program,
        } = of.sender;
        let peer = self.nic(host, is_of_program).peer(vi);
        let is_up = peer.is_some_and(|peer| {
            let is_there = !is_of_program || self.host_at(peer.host) == Some(of.target);
            is_there && peer.connection == of.connection
        });
        is_up || is_of_program && self.has_left_behind(host, of.target, of.connection)
    }

    /// A message has not got through in as many goes as its sender tries: its connection breaks.
    fn end_with(&mut self, id: MessageId, others: Vec<(u32, MessageId)>) {
        self.abandon(id, self.loss_of(id));
        self.give_up(id);
        self.forget_lost(others);
    }

    /// Puts messages of a VI, in the order of their numbers, in front of what has not moved yet.
    fn repeat(&mut self, of: &Direction, lost: &[(u32, MessageId)]) {
        let Some(failures) = &mut self.failures else {
            return;
        };
        let Some(recovery) = find(&mut failures.retransmission.recoveries, of) else {
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
        go.goes_in_vain += 1;
        let has_failed = go.goes_in_vain > rule.retries;
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
