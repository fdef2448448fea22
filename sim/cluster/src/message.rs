//! Messages under way.

use viaduct_core::{MessageHeader, ViId, WorkId};
use viaduct_engine::{Time, prefetch_all};

use crate::connect::Repost;
use crate::connections::Connection;
use crate::faults::Fate;
use crate::host::BlockedPost;
use crate::programs::{OF_PROGRAM, Programs};
use crate::workload::MessageOperation;
use viaduct_hardware::mechanism::PlanId;
use viaduct_hardware::{STAGES, Stage};
use viaduct_network::JourneyId;

/// Number of a message under way; free numbers are used again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MessageId(pub(crate) u32);

impl MessageId {
    /// Names no message.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// One message, from its post to the end of its work at both hosts.
///
/// What every message needs comes first, in two cache lines: where hosts cost nothing
/// ([`crate::direct`]) the rest is not touched.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Message {
    /// Order of posting in the whole run, from 0.
    pub(crate) number: u64,
    /// When the application wanted to post it.
    pub(crate) posted: Time,
    /// Up to when its time is accounted for in `stages`; taken directly: when its flow began.
    pub(crate) mark: Time,
    /// How long its bytes take with nobody else on the way; of the present hop if stored.
    pub(crate) unshared: Time,
    /// From the first byte's start to its arrival at the receiving NIC.
    pub(crate) head_delay: Time,
    /// The least latency that it can have; of a remote read's answer, with that of its request.
    pub(crate) floor: Time,
    /// Sending and receiving process.
    pub(crate) source: u32,
    pub(crate) target: u32,
    /// Place of the connection in the sending process's list.
    pub(crate) connection: u32,
    pub(crate) bytes: u32,

    pub(crate) source_vi: ViId,
    pub(crate) target_vi: ViId,
    pub(crate) send_work: Option<WorkId>,
    pub(crate) receive_work: Option<WorkId>,
    /// When the last byte arrives; [`Time::MAX`] until it is on its way.
    pub(crate) tail_arrives: Time,
    pub(crate) is_dropped: bool,
    pub(crate) operation: MessageOperation,
    /// Whether it is the answer of a remote read, on its way back, or an acknowledgement of a queue
    /// pair's packet: its source and target have changed places.
    pub(crate) is_answer: bool,

    /// What the sending NIC puts in front, once it has started.
    pub(crate) header: Option<MessageHeader>,
    /// Picoseconds spent in each stage.
    pub(crate) stages: [u64; STAGES],
    /// How it is carried, once its adapter has begun with it.
    pub(crate) plan: PlanId,
    /// How long the receiving processor had been idle in all when the first byte came.
    pub(crate) idle_at_head: Time,
    /// The next message of the same VI that waits at the NIC.
    pub(crate) next_on_vi: MessageId,
    /// When the sending engine may begin with it: its doorbell has come, or its request is written.
    pub(crate) engine_from: Time,
    /// When that engine has done its work on it.
    pub(crate) engine_done: Time,
    /// What the receiving NIC adds, once the head is there.
    pub(crate) receive_delay: Option<Time>,
    /// How the network names it, if it is stored on its way.
    pub(crate) journey: JourneyId,
    /// When its process has posted the receive again.
    pub(crate) reposted: Time,
    /// The receive descriptor that it used, until it is posted again.
    pub(crate) repost: Option<Repost>,
    /// Of the answer of a remote read, the least latency of its request.
    pub(crate) floor_before: Time,

    // What follows is for clusters where something may fail ([`crate::failures`]).
    /// When its bytes began to move, over its whole way or its present hop.
    pub(crate) begun: Time,
    /// The links that it crosses now, of those of its way: from one, and up to another.
    pub(crate) links: (u16, u16),
    /// What links do to it.
    pub(crate) fate: Fate,
    /// Whether it is lost since a switch's queue was full.
    pub(crate) met_full_queue: bool,
    /// How much still names it: its way to the receiver, and what its sender waits for.
    pub(crate) references: u8,
    /// Whether its sender keeps its buffer until it hears of the message.
    pub(crate) is_awaited: bool,
    /// Whether it stands for a message that was delivered, whose acknowledgement was lost.
    pub(crate) is_copy: bool,
}

/// The connection that a message takes: its place at the sender, and the VIs at both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) place: u32,
    pub(crate) source_vi: ViId,
    pub(crate) target_vi: ViId,
    /// Whether a message found no descriptor free at the target when it began.
    pub(crate) has_late_heads: bool,
}

impl Ends {
    /// Those of a message that has no connection, and goes nowhere.
    pub(crate) const NONE: Self = Self {
        place: !OF_PROGRAM,
        source_vi: ViId::NONE,
        target_vi: ViId::NONE,
        has_late_heads: false,
    };
}

impl Message {
    #[inline(always)]
    pub(crate) fn new(wish: &BlockedPost, ends: Ends) -> Self {
        Self {
            number: wish.number,
            source: wish.process,
            target: wish.target,
            connection: ends.place,
            bytes: wish.bytes,
            operation: wish.operation,
            is_answer: false,
            source_vi: ends.source_vi,
            target_vi: ends.target_vi,
            header: None,
            send_work: None,
            receive_work: None,
            posted: wish.wanted,
            mark: wish.wanted,
            stages: [0; STAGES],
            plan: PlanId::NONE,
            idle_at_head: Time::ZERO,
            next_on_vi: MessageId::NONE,
            engine_from: Time::ZERO,
            engine_done: Time::ZERO,
            unshared: Time::ZERO,
            head_delay: Time::ZERO,
            floor: Time::ZERO,
            receive_delay: None,
            tail_arrives: Time::MAX,
            journey: JourneyId::NONE,
            is_dropped: false,
            reposted: Time::ZERO,
            repost: None,
            begun: Time::ZERO,
            links: (0, u16::MAX),
            fate: Fate::Whole,
            met_full_queue: false,
            references: 1,
            // Of a remote read the sender hears when its answer is there.
            is_awaited: wish.operation == MessageOperation::Read,
            floor_before: Time::ZERO,
            is_copy: false,
        }
    }

    /// Whether a program has posted it, and not a process of drawn traffic.
    #[inline(always)]
    pub(crate) fn is_of<P: Programs>(&self) -> bool {
        P::EXIST && self.connection & OF_PROGRAM != 0
    }

    /// Bytes that cross the network now: those of a remote read come with its answer.
    #[inline]
    pub(crate) fn carried_bytes(&self) -> u32 {
        if self.operation == MessageOperation::Read && !self.is_answer {
            return 0;
        }
        self.bytes
    }

    /// Whether it says that a queue pair's packet has arrived, or why it was refused.
    pub(crate) fn is_acknowledgement(&self) -> bool {
        self.is_answer && self.operation != MessageOperation::Read
    }

    /// Who posted it, and whom it is for; of an answer, what it answers.
    pub(crate) fn ends_as_posted(&self) -> (u32, u32) {
        if self.is_answer {
            return (self.target, self.source);
        }
        (self.source, self.target)
    }

    /// How long it has shared its way with others.
    pub(crate) fn queued(&self) -> Time {
        Time::from_picoseconds(self.stages[Stage::Queued as usize])
    }

    /// The same of one that goes the direct way and has moved all its bytes.
    pub(crate) fn queued_directly(&self) -> Time {
        (self.moved_directly() - self.mark).saturating_sub(self.unshared)
    }

    /// When one that goes the direct way had moved all its bytes.
    fn moved_directly(&self) -> Time {
        self.tail_arrives - self.head_delay
    }

    /// Where the time of one went that went the direct way, and arrived at a time: it waited until
    /// its flow began, and moved.
    pub(crate) fn spans_directly(&self, arrived: Time) -> [(Stage, Time); 4] {
        let (begun, moved) = (self.mark, self.moved_directly());
        let queued = self.queued_directly();
        [
            (Stage::Buffer, begun - self.posted),
            (Stage::Transfer, moved - begun - queued),
            (Stage::Queued, queued),
            (Stage::Network, arrived - moved),
        ]
    }

    /// Accounts for the time up to `until` in `stage`.
    #[inline]
    pub(crate) fn spend(&mut self, stage: Stage, until: Time) {
        self.stages[stage as usize] += until.saturating_sub(self.mark).picoseconds();
        self.mark = self.mark.max(until);
    }
}

/// Messages under way, by number.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    messages: Vec<Message>,
    free: Vec<MessageId>,
}

impl Messages {
    /// Makes the message of a wish.
    #[inline(always)]
    pub(crate) fn post(&mut self, wish: &BlockedPost, ends: Ends) -> MessageId {
        if let Some(id) = self.free.pop() {
            // Written where it stays: a copy of what was just written stalls the processor.
            self.messages[id.0 as usize] = Message::new(wish, ends);
            return id;
        }
        self.add(Message::new(wish, ends))
    }

    /// Makes the message of a wish that goes the direct way, from what that way reads.
    #[inline(always)]
    pub(crate) fn post_directly(
        &mut self,
        wish: &BlockedPost,
        ends: Ends,
    ) -> (MessageId, &mut Message) {
        let id = match self.free.pop() {
            Some(id) => id,
            None => self.add(Message::new(wish, ends)),
        };
        let message = &mut self.messages[id.0 as usize];
        message.number = wish.number;
        message.source = wish.process;
        message.target = wish.target;
        message.connection = ends.place;
        message.bytes = wish.bytes;
        message.source_vi = ends.source_vi;
        message.target_vi = ends.target_vi;
        message.receive_work = None;
        message.posted = wish.wanted;
        message.tail_arrives = Time::MAX;
        message.is_dropped = false;
        (id, message)
    }

    /// Keeps a message that somebody has made.
    pub(crate) fn insert(&mut self, message: Message) -> MessageId {
        if let Some(id) = self.free.pop() {
            self.messages[id.0 as usize] = message;
            return id;
        }
        self.add(message)
    }

    #[cold]
    fn add(&mut self, message: Message) -> MessageId {
        self.messages.push(message);
        MessageId(self.messages.len() as u32 - 1)
    }

    /// A message waits behind those of its VI that the adapter has not begun with.
    #[inline]
    pub(crate) fn line_up(&mut self, connection: &mut Connection, id: MessageId) {
        let last = core::mem::replace(&mut connection.last_waiting, id);
        if connection.first_waiting == MessageId::NONE {
            connection.first_waiting = id;
        } else {
            self.get_mut(last).next_on_vi = id;
        }
    }

    /// A message waits behind those of its VI whose data has not moved.
    pub(crate) fn line_up_to_move(&mut self, connection: &mut Connection, id: MessageId) {
        let last = core::mem::replace(&mut connection.last_fetched, id);
        if connection.first_fetched == MessageId::NONE {
            connection.first_fetched = id;
        } else {
            self.get_mut(last).next_on_vi = id;
        }
        self.get_mut(id).next_on_vi = MessageId::NONE;
    }

    /// Takes all those of a VI whose data has not moved, in order.
    pub(crate) fn take_line(&self, connection: &mut Connection) -> Vec<MessageId> {
        let mut line = Vec::new();
        let mut next = core::mem::replace(&mut connection.first_fetched, MessageId::NONE);
        while next != MessageId::NONE {
            line.push(next);
            next = self.get(next).next_on_vi;
        }
        line
    }

    pub(crate) fn remove(&mut self, id: MessageId) {
        self.free.push(id);
    }

    #[inline]
    pub(crate) fn get(&self, id: MessageId) -> &Message {
        &self.messages[id.0 as usize]
    }

    /// Asks for a message's memory; see [`crate::look_ahead`].
    #[inline]
    pub(crate) fn prefetch(&self, id: MessageId) {
        prefetch_all(&self.messages[id.0 as usize]);
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: MessageId) -> &mut Message {
        &mut self.messages[id.0 as usize]
    }

    /// All that are under way.
    pub(crate) fn under_way(&self) -> Vec<MessageId> {
        let mut is_free = vec![false; self.messages.len()];
        for id in &self.free {
            is_free[id.0 as usize] = true;
        }
        let all = (0..self.messages.len() as u32).map(MessageId);
        all.filter(|id| !is_free[id.0 as usize]).collect()
    }

    pub(crate) fn state_bytes(&self) -> usize {
        self.messages.capacity() * size_of::<Message>()
            + self.free.capacity() * size_of::<MessageId>()
    }
}
