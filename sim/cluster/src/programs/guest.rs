//! What a cluster keeps for the programs of its hosts: nothing where there are none.

use viaduct_core::{ConnectionMessage, Peer, RemoteSegment, StartedReceive, ViId};
use viaduct_engine::Time;
use viaduct_hardware::mechanism::PlanId;

use super::account::Untaken;
use super::coming::{Coming, least_lead};
use super::control::Controls;
use super::pairs::{Carried, OF_PAIR};
use super::posts::Posts;
use crate::config::ClusterConfig;
use crate::connections::Connection;
use crate::message::MessageId;

/// What the messages of programs are counted as.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ProgramCounts {
    /// Messages that arrived: sends, remote writes, and answers of remote reads.
    pub messages: u64,
    /// Messages that did not arrive for a fault, acknowledgements included.
    pub lost: u64,
    /// Messages that were sent again.
    pub retransmissions: u64,
    /// Messages that arrived corrupt.
    pub corrupted: u64,
    /// Connections that a fault broke, however many ends noticed.
    pub connections_broken: u64,
}

/// All that is kept for programs.
#[derive(Debug, Default)]
pub(crate) struct Guests {
    /// By host.
    pub(crate) hosts: Vec<Guest>,
    /// By message: what only those of programs have.
    pub(crate) sent: Vec<Sent>,
    pub(crate) controls: Controls,
    pub(crate) counts: ProgramCounts,
    /// How much is going on that programs may hear of: see [`Cluster::is_quiet`].
    ///
    /// [`Cluster::is_quiet`]: crate::cluster::Cluster::is_quiet
    pub(crate) going: u32,
    /// Bytes of a packet that is about to begin; kept to be used again.
    pub(crate) bytes: Vec<u8>,
    /// By host: what is on its way to its queue pairs.
    pub(crate) coming: Vec<Vec<Coming>>,
    /// How long what begins to move is on its way at least.
    pub(crate) lead: Time,
    /// How queue pairs' adapters carry acknowledgements, once there was one.
    pub(crate) acknowledgement_plans: Vec<([usize; 2], PlanId)>,
    /// What has come and was not taken, if an account of messages is kept.
    pub(crate) untaken: Option<Box<Untaken>>,
    /// What was posted to queue pairs, in the same case.
    pub(crate) posts: Posts,
}

/// A host's VIs and peers, as its programs have them.
#[derive(Debug, Default)]
pub(crate) struct Guest {
    /// By the VI's index.
    lines: Vec<Line>,
    /// By the place of a queue pair.
    pairs: Vec<Line>,
    /// By peer: what is under way to it.
    pub(crate) streams: Vec<Stream>,
}

/// The messages of one VI of a program.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) connection: Connection,
    /// Messages whose sends have not started, those among them that never will.
    pub(crate) waiting: u32,
    /// When the last of its messages arrives: none overtakes another.
    pub(crate) last_tail: Time,
    /// The processor of the program that last posted to it, among those of its host.
    pub(crate) processor: u32,
}

/// What is under way to one peer.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) peer: u32,
    /// Messages that have not arrived.
    pub(crate) messages: u32,
    /// Ends of connections that must not overtake them, and what comes behind those.
    #[expect(
        clippy::box_collection,
        reason = "a word in place of three, for each peer of many hosts"
    )]
    pub(crate) held: Option<Box<Vec<ConnectionMessage>>>,
    /// When the last message about connections arrives, which no data overtakes.
    pub(crate) last_control: Time,
}

/// What only a message of a program has.
#[derive(Debug)]
pub(crate) struct Sent {
    /// The other end of its connection, once it has started.
    pub(crate) peer: Option<Peer>,
    pub(crate) remote: Option<RemoteSegment>,
    /// Of a queue pair's: what it is.
    pub(crate) packet: Option<Box<Carried>>,
    /// Of a queue pair's, where an account is kept: the number of its post.
    pub(crate) post: Option<u64>,
    /// Segments at the sender.
    pub(crate) segments: u32,
    /// What it has met at its target.
    pub(crate) met: Met,
    /// Whether it was counted as posted, and has not ended.
    pub(crate) is_open: bool,
    /// Whether it is among what is going on.
    pub(crate) is_going: bool,
    /// Whether it waits for its program to take it.
    pub(crate) is_untaken: bool,
    /// The bytes, as they were when it started.
    pub(crate) payload: Vec<u8>,
}

/// What a message has met at its target, when its first byte was there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Met {
    /// Nothing yet.
    #[default]
    Nothing,
    /// A receive: its bytes follow.
    Receive(StartedReceive),
    /// Nothing that could take it, for a cause: what follows is dropped.
    Refusal(&'static str),
}

/// Longer payloads are given back, but for those of the first messages.
const KEPT_BYTES: usize = 1 << 10;
const KEPT_MESSAGES: u32 = 64;

impl Guests {
    pub(crate) fn new(hosts: u32, config: &ClusterConfig) -> Self {
        let mechanisms = config.host.values().map(|model| &model.mechanism);
        Self {
            lead: least_lead(mechanisms),
            hosts: (0..hosts).map(|_| Guest::default()).collect(),
            coming: (0..hosts).map(|_| Vec::new()).collect(),
            ..Self::default()
        }
    }

    /// What only a message of a program has.
    #[inline(always)]
    pub(crate) fn sent(&mut self, id: MessageId) -> &mut Sent {
        &mut self.sent[id.0 as usize]
    }

    /// Makes room for a message's.
    #[inline(always)]
    pub(crate) fn make(&mut self, id: MessageId, segments: u32) {
        let place = id.0 as usize;
        if self.sent.len() <= place {
            self.sent.resize_with(place + 1, Sent::default);
        }
        let sent = &mut self.sent[place];
        (sent.peer, sent.remote, sent.segments) = (None, None, segments);
        sent.met = Met::Nothing;
        (sent.is_going, sent.is_untaken) = (false, false);
    }

    /// A message is over: its bytes are given back.
    #[inline]
    pub(crate) fn forget(&mut self, id: MessageId) {
        let sent = &mut self.sent[id.0 as usize];
        sent.packet = None;
        let payload = &mut sent.payload;
        payload.clear();
        if payload.capacity() > KEPT_BYTES && id.0 >= KEPT_MESSAGES {
            *payload = Vec::new();
        }
    }
}

impl Default for Sent {
    fn default() -> Self {
        Self {
            peer: None,
            remote: None,
            packet: None,
            post: None,
            segments: 0,
            met: Met::Nothing,
            is_open: false,
            is_going: false,
            is_untaken: false,
            payload: Vec::new(),
        }
    }
}

impl Default for Line {
    fn default() -> Self {
        Self {
            connection: Connection::new(ViId::NONE, ViId::NONE),
            waiting: 0,
            last_tail: Time::ZERO,
            processor: 0,
        }
    }
}

impl Guest {
    /// The line of a VI or a queue pair that has one.
    #[inline(always)]
    pub(crate) fn at(&mut self, place: u32) -> &mut Line {
        if place & OF_PAIR != 0 {
            return &mut self.pairs[(place & !OF_PAIR) as usize];
        }
        &mut self.lines[place as usize]
    }

    /// The line of a VI or a queue pair.
    #[inline]
    pub(crate) fn line(&mut self, place: u32) -> &mut Line {
        if place & OF_PAIR != 0 {
            let place = (place & !OF_PAIR) as usize;
            if self.pairs.len() <= place {
                self.pairs.resize_with(place + 1, Line::default);
            }
            return &mut self.pairs[place];
        }
        if self.lines.len() <= place as usize {
            self.add_lines(place as usize);
        }
        &mut self.lines[place as usize]
    }

    /// The processor of a VI's program.
    pub(crate) fn processor(&self, vi: ViId) -> u32 {
        let line = self.lines.get(vi.index() as usize);
        line.map_or(0, |line| line.processor)
    }

    #[cold]
    fn add_lines(&mut self, last: usize) {
        // Room for as many, or twice as many: most simulated hosts have a VI or two.
        let more = (last + 1).max(2 * self.lines.len()) - self.lines.len();
        self.lines.reserve_exact(more);
        self.lines.resize_with(last + 1, Line::default);
    }

    #[inline]
    pub(crate) fn stream(&mut self, peer: u32) -> &mut Stream {
        let found = self.streams.iter().position(|stream| stream.peer == peer);
        let place = found.unwrap_or_else(|| {
            if self.streams.len() == self.streams.capacity() {
                self.streams.reserve_exact(self.streams.len().max(1));
            }
            self.streams.push(Stream {
                peer,
                messages: 0,
                held: None,
                last_control: Time::ZERO,
            });
            self.streams.len() - 1
        });
        &mut self.streams[place]
    }

    /// Whether it has said anything to a peer.
    pub(crate) fn knows(&self, peer: u32) -> bool {
        self.streams.iter().any(|stream| stream.peer == peer)
    }
}

/// Things by number; free numbers are used again.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[number as usize] = Some(value);
        number
    }

    pub(crate) fn take(&mut self, number: u32) -> Option<T> {
        let taken = self.slots.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(taken)
    }
}
