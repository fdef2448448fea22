//! Queues that do not hold all that comes: frames that are lost there, and frames that are marked.
//!
//! A frame that finds a queue full leaves a gap in the line of its message. The gap goes on in the
//! frame's place, without a byte and without time on any link, so that the end of the line knows
//! which frames have come before it and whether one came behind it, and so that a message ends
//! whose last frame is lost. It disturbs nothing.
//!
//! Where queues of a switch share its memory, what comes to one hangs on what the others hold: such
//! queues are worked out together, in the order of time ([`super::order`]).

use std::collections::BTreeMap;

use viaduct_engine::{Stream, StreamKey, Time};
use viaduct_topology::{LinkId, Node, Topology};

use super::Frames;
use super::calendar::{Arrival, Kind};
use super::nscc::Heard;
use crate::adapter::{Inbound, NEVER};
use crate::fluid::{FlowId, ResourceId};
use crate::links::{Buffers, Marking, SharedMemory, WhenFull};

/// Purpose of the random streams; each queue has one.
const MARKING: u64 = 0xfa03;

/// What became of frames at the queue of a link, since the beginning.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QueueCounts {
    /// Frames that found it full, and were lost.
    pub lost: u64,
    /// Frames that found it full, and of which their headers went on.
    pub trimmed: u64,
    /// Frames that it has marked.
    pub marked: u64,
    /// How often the link was told to pause.
    pub pauses: u64,
    /// For how long it has paused altogether.
    pub paused: Time,
}

/// What was lost of a message in queues.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueueLoss {
    /// Frames of it that came before the first that was lost; where frames take ways of their own
    /// all that came, since their receiver takes them in any order.
    pub came: u32,
    /// Whether a frame came behind that, so that its receiver knows of the gap; where frames take
    /// ways of their own whether any came, since each says how much there is.
    pub is_told: bool,
    /// Frames of it that were lost.
    pub lost: u32,
    /// Whether its last one was.
    pub lacks_last: bool,
    /// Whether its receiver knows of all of these: a frame came behind the last of them, or any
    /// where frames take ways of their own.
    pub is_all_told: bool,
}

/// What queues hold at most, and what they have done beyond that.
#[derive(Debug)]
pub(super) struct Limits {
    bytes_max: u64,
    shared: Option<Shared>,
    trims: bool,
    marking: Option<Marking>,
    seed: u64,
    counts: Vec<QueueCounts>,
    streams: BTreeMap<u32, Stream>,
}

/// The memory of switches that their queues share.
#[derive(Debug)]
struct Shared {
    memory: SharedMemory,
    /// Which switch each queue is of, and what all queues of each hold.
    switches: Vec<u32>,
    used: Vec<u64>,
}

impl Shared {
    fn of(memory: SharedMemory, topology: &Topology) -> Self {
        let switch_of = |link| match topology.link_ends(LinkId(link)).0 {
            // A host's link is no queue of a switch: nothing is asked of it.
            Node::Host(_) => 0,
            Node::Switch(switch) => switch.0,
        };
        Self {
            memory,
            switches: (0..topology.link_count()).map(switch_of).collect(),
            used: vec![0; topology.switch_count() as usize],
        }
    }

    fn used_mut(&mut self, link: u32) -> &mut u64 {
        &mut self.used[self.switches[link as usize] as usize]
    }

    /// Whether a queue that holds some bytes may hold some more.
    fn has_room(&mut self, link: u32, held: u64, bytes: u64) -> bool {
        let used = *self.used_mut(link);
        used + bytes <= self.memory.bytes && held + bytes <= self.memory.threshold(used)
    }
}

impl Limits {
    /// Of the queues of a network; none if they hold and do nothing of their own.
    pub(super) fn of(buffers: &Buffers, topology: &Topology) -> Option<Box<Self>> {
        let has_any = buffers.is_limited() || buffers.marking.is_some();
        let links = topology.link_count() as usize;
        has_any.then(|| {
            Box::new(Self {
                bytes_max: match buffers.full {
                    WhenFull::Drop | WhenFull::Trim => buffers.bytes_max.unwrap_or(u64::MAX),
                    // That is of what came by one link, and not of a queue.
                    WhenFull::Pause { .. } => u64::MAX,
                },
                // So is that.
                shared: buffers
                    .shared
                    .filter(|_| !buffers.may_pause())
                    .map(|it| Shared::of(it, topology)),
                trims: buffers.may_trim(),
                marking: buffers.marking,
                seed: 0,
                counts: vec![QueueCounts::default(); links],
                streams: BTreeMap::new(),
            })
        })
    }

    pub(super) fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// A frame is lost that goes to a queue: as what it goes on.
    pub(super) fn lose(&mut self, kind: Kind, link: u32) -> Kind {
        self.counts[link as usize].lost += 1;
        kind.lost()
    }

    /// A frame of some bytes comes to a queue that has others: as what it goes on.
    pub(super) fn judge(&mut self, kind: Kind, link: u32, (held, bytes): (u64, u64)) -> Kind {
        let shared = self.shared.as_mut();
        let fits = held + bytes <= self.bytes_max
            && shared.is_none_or(|it| it.has_room(link, held, bytes));
        if !fits {
            if !self.trims {
                return self.lose(kind, link);
            }
            if held > 0 {
                self.counts[link as usize].trimmed += 1;
                return kind.trimmed();
            }
        }
        match self.marks(link, held) {
            true => kind.marked(),
            false => kind,
        }
    }

    /// A queue holds a frame of some bytes more.
    pub(super) fn enter(&mut self, link: u32, held: u32) {
        if let Some(shared) = &mut self.shared {
            *shared.used_mut(link) += u64::from(held);
        }
    }

    /// It has left.
    pub(super) fn exit(&mut self, link: u32, held: u32) {
        if let Some(shared) = &mut self.shared {
            *shared.used_mut(link) -= u64::from(held);
        }
    }

    /// Whether a frame is marked that comes to a queue that has others.
    fn marks(&mut self, link: u32, held: u64) -> bool {
        let Some(marking) = self.marking.filter(|marking| held > marking.low_bytes) else {
            return false;
        };
        let is_marked = held >= marking.high_bytes || {
            let key = StreamKey {
                seed: self.seed,
                purpose: MARKING,
                entity: u64::from(link),
            };
            let stream = self.streams.entry(link).or_insert_with(|| Stream::new(key));
            strikes(stream, marking.part(held))
        };
        self.counts[link as usize].marked += u64::from(is_marked);
        is_marked
    }

    pub(super) fn state_bytes(&self) -> usize {
        let shared = self.shared.as_ref().map_or(0, |it| {
            it.switches.capacity() * size_of::<u32>() + it.used.capacity() * size_of::<u64>()
        });
        shared
            + self.counts.capacity() * size_of::<QueueCounts>()
            + self.streams.len() * (size_of::<Stream>() + size_of::<u32>())
    }
}

impl Marking {
    /// The part of frames that is marked with so many bytes before them, between the two limits.
    fn part(&self, held: u64) -> f64 {
        let span = (self.high_bytes - self.low_bytes) as f64;
        self.probability * (held - self.low_bytes) as f64 / span
    }
}

/// Whether something happens of this probability.
fn strikes(stream: &mut Stream, probability: f64) -> bool {
    /// As many as there are numbers of 64 bits.
    const ALL: f64 = 18_446_744_073_709_551_616.0;

    u128::from(stream.next_u64()) < (probability * ALL) as u128
}

impl Frames {
    /// As what a frame goes on from the queue that it comes to. If it does not, its gap does.
    pub(super) fn admit(&mut self, arrival: &Arrival) -> Option<Kind> {
        let Some(limits) = &mut self.limits else {
            return Some(arrival.kind);
        };
        let link = arrival.link;
        if !arrival.kind.is_lost() {
            let passage = &self.passages[arrival.passage as usize];
            let bytes = passage.parts.sizes.held(arrival.kind.is_last());
            let held = self.outputs[link as usize].held_at(arrival.time);
            let kind = limits.judge(arrival.kind, link, (held, bytes.into()));
            if !kind.is_lost() {
                return Some(kind);
            }
        }
        self.go_on_without(arrival);
        None
    }

    /// A gap is where its frame would begin on the link, and goes on. It is at the next queue
    /// neither before the frame in front of it nor after that behind it: it waits for no bytes.
    pub(super) fn go_on_without(&mut self, arrival: &Arrival) {
        let start = self.outputs[arrival.link as usize].start(arrival.time);
        let cable = &self.cables[arrival.link];
        let kind = arrival.kind.lost();
        let passage = &self.passages[arrival.passage as usize];
        let Some((next, route, kind)) = self.next_of(passage, arrival, kind) else {
            let time = start + cable.propagation;
            return self.arrive_without(arrival.passage, kind, time);
        };
        let lead = cable.propagation + cable.switch;
        let time = start + lead.max(self.calendar.width());
        self.calendar.push(Arrival {
            time,
            link: next,
            from: arrival.link,
            route,
            kind,
            ..*arrival
        });
    }

    /// A gap comes to the target of its message.
    fn arrive_without(&mut self, id: u32, kind: Kind, time: u64) {
        if self.windows.is_some() {
            self.reply(id, kind, time, Heard::Missing);
        }
        if self.overtaking.is_some() {
            return self.gap_comes(id, kind, time);
        }
        let passage = &mut self.passages[id as usize];
        passage.parts.lose(kind);
        if kind.is_first() {
            passage.head = time;
            if passage.owes_head {
                self.notices.push((time, id));
            }
        }
        if !kind.is_last() {
            return;
        }
        // Its sender may still be busy with the bytes of a frame that a switch has lost.
        let over = match passage.gone {
            NEVER => time,
            gone => time.max(gone),
        };
        passage.parts.end_look = over;
        if passage.has_last_bus {
            self.notices.push((over, id));
            let adapter = &mut self.adapters[passage.target];
            adapter.inbox.push_back(Inbound {
                ready: time,
                passage: id,
                what: kind,
            });
        } else {
            passage.end = over.max(passage.next_taken);
            passage.parts.end_look = passage.end;
            self.notices.push((passage.end, id));
        }
    }

    /// What a message has lost in queues so far, if anything; it may have ended just now.
    pub(crate) fn loss(&self, id: FlowId) -> Option<QueueLoss> {
        let parts = &self.passages.get(id.0 as usize)?.parts;
        let has_any = self.overtaking.is_some() && parts.came > 0;
        parts.is_lossy.then_some(QueueLoss {
            came: parts.came,
            is_told: parts.is_told || has_any,
            lost: parts.missing,
            lacks_last: parts.lacks_last,
            is_all_told: has_any || !parts.lacks_last,
        })
    }

    /// What a link's queue has lost, trimmed and marked, and how the link paused until `now`.
    pub(crate) fn queue_counts(&self, link: ResourceId, now: Time) -> QueueCounts {
        let counts = self.limits.as_ref().map(|limits| &limits.counts);
        let counts = counts.and_then(|counts| counts.get(link.0 as usize));
        let counts = counts.copied().unwrap_or_default();
        let pauses = self.pauses.as_ref();
        let (pauses, paused) = pauses.map_or((0, 0), |it| it.count(link.0, now.picoseconds()));
        QueueCounts {
            pauses,
            paused: Time::from_picoseconds(paused),
            ..counts
        }
    }

    /// Most bytes that were in a link's queue at once, with the frame that left.
    pub(crate) fn queue_max_bytes(&self, link: ResourceId) -> u64 {
        let output = self.outputs.get(link.0 as usize);
        output.map_or(0, super::output::Output::held_max)
    }

    /// Of the window of the time series that ends now; 0 where no more than a full frame was there.
    pub(crate) fn take_queue_max_bytes(&mut self, link: ResourceId, now: Time) -> u64 {
        let Some(output) = self.outputs.get_mut(link.0 as usize) else {
            return 0;
        };
        let most = output.take_held_max(now.picoseconds());
        match self.cables[link.0].is_more_than_full(most) {
            true => most,
            false => 0,
        }
    }
}
