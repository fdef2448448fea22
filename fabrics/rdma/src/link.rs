//! What two processes share: a socket, a ring each way, and sight of each other's tables.
//!
//! Whoever needs a peer first connects to its name, makes the memory and sends it along
//! (`Hello`), and may write packets at once. The peer's service thread answers with its tables
//! (`Welcome`). Each then finds out whether the kernel copies between the two, and says so
//! (`Copies`). Afterwards the socket carries kicks, and tells by its end that the peer is gone.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use viaduct_processes::deadline::Deadline;
use viaduct_processes::rendezvous::{self, Name, Place, digest};
use viaduct_processes::segment::{Access, Segment, Store};
use viaduct_processes::{cma, socket, user};

use crate::counters::live;
use crate::direct::Windows;
use crate::packet::Remote;
use crate::ring::{Consumer, Direct, Producer, RING_BYTES};
use crate::tables::{PairTable, RegionTable};

/// Peers of different versions do not meet.
pub(crate) const VERSION: u32 = 2;

/// Bytes of the longest message of a socket.
pub(crate) const MESSAGE_BYTES: usize = 32;

/// Where a process waits whose queue pair numbers begin with `block`.
pub(crate) fn name(block: u32) -> Name {
    Name::new(VERSION, 'q', digest(&[b"rdma", &block.to_le_bytes()]))
}

/// Where processes wait for each other.
pub(crate) fn place() -> Place {
    match Place::from_environment() {
        Place::Abstract(_) => Place::Abstract("viaduct-rdma"),
        directory => directory,
    }
}

/// Has whoever has the numbers of a block count what peers did by themselves in its memory, and
/// returns when it has, or is gone, or after so long.
pub(crate) fn have_counted(block: u32, patience: Duration) -> io::Result<()> {
    let deadline = Deadline::after(Some(patience));
    let line = rendezvous::connect(&place(), name(block), deadline, || false)?;
    let Some(line) = line else { return Ok(()) };
    socket::send(line.as_fd(), &Message::Count.encode(), &[])?;
    // Whoever has counted closes its end.
    socket::poll(&mut [PollFd::new(&line, PollFlags::IN)], deadline)?;
    Ok(())
}

/// A word that peers read to find out whether they can.
static BEACON: AtomicU64 = AtomicU64::new(0);

/// What goes over the socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Message {
    /// From who connects; beside it the rings, the table of queue pairs, that of regions, and the
    /// store of those that are shared.
    Hello(Greeting),
    /// The answer; beside it the same without the rings.
    Welcome(Greeting),
    /// Whether the sender copies from and to the receiver's memory.
    Copies(bool),
    /// There is something in the ring.
    Kick,
    /// From who wants to read how much was counted, and connects for that alone: what peers did by
    /// themselves is to be counted. The end of the line is the answer.
    Count,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Greeting {
    block: u32,
    beacon_address: u64,
    beacon: u64,
}

impl Greeting {
    pub(crate) fn own(block: u32) -> Self {
        let beacon = u64::from(std::process::id()) << 32 | 0x5641_4455;
        BEACON.store(beacon, Ordering::Relaxed);
        Self {
            block,
            beacon_address: (&raw const BEACON).addr() as u64,
            beacon,
        }
    }

    pub(crate) const fn block(&self) -> u32 {
        self.block
    }
}

impl Message {
    pub(crate) fn encode(self) -> Vec<u8> {
        let greeting = |kind: u8, greeting: Greeting| {
            let mut bytes = vec![kind];
            bytes.extend(VERSION.to_le_bytes());
            bytes.extend(greeting.block.to_le_bytes());
            bytes.extend(greeting.beacon_address.to_le_bytes());
            bytes.extend(greeting.beacon.to_le_bytes());
            bytes
        };
        match self {
            Self::Hello(who) => greeting(b'H', who),
            Self::Welcome(who) => greeting(b'W', who),
            Self::Copies(can) => vec![b'C', u8::from(can)],
            Self::Kick => vec![b'K'],
            Self::Count => vec![b'N'],
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        match bytes {
            [b'K'] => Some(Self::Kick),
            [b'N'] => Some(Self::Count),
            [b'C', can @ 0..=1] => Some(Self::Copies(*can == 1)),
            [kind @ (b'H' | b'W'), ..] if bytes.len() == 25 && word(1)? == VERSION => {
                let who = Greeting {
                    block: word(5)?,
                    beacon_address: long(9)?,
                    beacon: long(17)?,
                };
                Some(if *kind == b'H' {
                    Self::Hello(who)
                } else {
                    Self::Welcome(who)
                })
            }
            _ => None,
        }
    }
}

/// What is owed to a peer and waits for room in the ring.
#[derive(Debug)]
pub(crate) struct Response {
    /// The queue pair that asked.
    pub(crate) target: u32,
    /// The one that answers.
    pub(crate) source: u32,
    /// The request.
    pub(crate) sequence: u32,
    /// What it is.
    pub(crate) answer: Answer,
}

/// An answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Bytes of this process's memory: where they lie, for which domain they are open, and how
    /// many are left.
    Bytes {
        remote: Remote,
        domain: u32,
        left: u64,
    },
    /// The old value of an atomic.
    Value(u64),
    /// No: a status, and for a receiver that is not ready its timer.
    Refused { code: u16, timer: u8 },
}

/// A peer's tables.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) pairs: Arc<PairTable>,
    /// None of a peer that is another user.
    pub(crate) regions: Option<Arc<RegionTable>>,
}

/// What this process shows.
#[derive(Clone, Debug)]
pub(crate) struct OwnTables {
    pub(crate) pairs: Arc<PairTable>,
    pub(crate) regions: Arc<RegionTable>,
    /// Where shared pages lie, if pages are shared.
    pub(crate) store: Option<Arc<Store>>,
}

impl OwnTables {
    /// What a peer gets, besides the rings.
    fn beside(&self, is_trusted: bool) -> impl Iterator<Item = BorrowedFd<'_>> {
        let regions = is_trusted.then(|| self.regions.fd());
        let store = self.store.as_ref().filter(|_| is_trusted);
        let store = store.map(|store| store.fd());
        [Some(self.pairs.fd()), regions, store]
            .into_iter()
            .flatten()
    }
}

#[derive(Debug)]
pub(crate) struct Link {
    /// None of the link of this process with itself.
    pub(crate) socket: Option<Arc<OwnedFd>>,
    /// The peer's numbers begin with this.
    pub(crate) block: u32,
    /// The peer.
    pub(crate) pid: i32,
    /// Whether the peer is of this user.
    is_trusted: bool,
    pub(crate) outgoing: Producer,
    pub(crate) incoming: Consumer,
    pub(crate) tables: Option<Tables>,
    /// What the peer shares of its memory.
    pub(crate) windows: Option<Windows>,
    /// Whether this process copies from and to the peer's memory.
    pub(crate) copies: bool,
    /// Whether the peer says the same.
    pub(crate) peer_copies: bool,
    pub(crate) is_dead: bool,
    pub(crate) responses: VecDeque<Response>,
    /// Looks at a packet that is not taken.
    pub(crate) vain_looks: u32,
    /// Up to where the peer was kicked.
    pub(crate) kicked_at: u64,
    /// Up to where packets want the peer's service thread.
    pub(crate) assist_at: u64,
    /// What the peer did by itself in this process's memory, as far as it was counted.
    direct: Direct,
    /// Keeps the rings mapped.
    _memory: Arc<Segment>,
}

/// Whether the kernel may copy between processes at all: a program can forbid it.
fn may_copy() -> bool {
    std::env::var_os("VIADUCT_RDMA_KERNEL_COPIES").is_none_or(|value| value != "0")
}

/// Whether this process reaches the memory of another.
fn reaches(pid: i32, greeting: &Greeting) -> bool {
    if !may_copy() || pid <= 0 {
        return false;
    }
    let mut seen = 0_u64;
    let local = [((&raw mut seen).cast::<u8>(), 8)];
    // SAFETY: the local range is `seen`.
    let read = unsafe { cma::read(pid, &local, &[(greeting.beacon_address, 8)]) };
    read.is_ok() && seen == greeting.beacon
}

impl Link {
    /// The link of this process with itself.
    pub(crate) fn to_self(block: u32, own: &OwnTables) -> io::Result<Self> {
        let memory = Arc::new(Segment::create("viaduct-rdma-self", RING_BYTES)?);
        // SAFETY: the segment has the bytes and is kept.
        let (outgoing, incoming) =
            unsafe { (Producer::new(memory.base()), Consumer::new(memory.base())) };
        let copies = may_copy();
        Ok(Self {
            socket: None,
            block,
            pid: std::process::id() as i32,
            is_trusted: true,
            outgoing,
            incoming,
            tables: Some(Tables {
                pairs: own.pairs.clone(),
                regions: Some(own.regions.clone()),
            }),
            windows: None,
            copies,
            peer_copies: copies,
            is_dead: false,
            responses: VecDeque::new(),
            vain_looks: 0,
            kicked_at: 0,
            assist_at: 0,
            direct: Direct::default(),
            _memory: memory,
        })
    }

    /// A link to whoever has the numbers of `block`, if anybody has. It carries packets at once.
    pub(crate) fn connect(
        place: &Place,
        block: u32,
        own_block: u32,
        own: &OwnTables,
    ) -> io::Result<Option<Self>> {
        let patience = Deadline::after(Some(Duration::from_millis(100)));
        let Some(line) = rendezvous::connect(place, name(block), patience, || false)? else {
            return Ok(None);
        };
        let who = socket::credentials(line.as_fd())?;
        let is_trusted = user::is_own(who.uid);
        let memory = Segment::create("viaduct-rdma-link", 2 * RING_BYTES)?;
        let hello = Message::Hello(Greeting::own(own_block)).encode();
        let mut beside = vec![memory.fd()];
        beside.extend(own.beside(is_trusted));
        socket::send(line.as_fd(), &hello, &beside)?;
        let line = Arc::new(line);
        Ok(Some(Self::over(
            line, block, who.pid, is_trusted, memory, true,
        )))
    }

    /// The other end of a link, by its `Hello`.
    pub(crate) fn accept(
        line: Arc<OwnedFd>,
        greeting: &Greeting,
        beside: Vec<OwnedFd>,
        own_block: u32,
        own: &OwnTables,
    ) -> io::Result<Self> {
        let who = socket::credentials(line.as_fd())?;
        let is_trusted = user::is_own(who.uid);
        let mut beside = beside.into_iter();
        let memory = beside.next().ok_or(io::ErrorKind::InvalidData)?;
        let memory = Segment::map(memory, 2 * RING_BYTES, Access::ReadWrite)?;
        let mut link = Self::over(line, greeting.block, who.pid, is_trusted, memory, false);
        link.meet(greeting, beside)?;
        let welcome = Message::Welcome(Greeting::own(own_block)).encode();
        let beside: Vec<_> = own.beside(is_trusted).collect();
        let told = link.tell(&welcome, &beside).and(link.tell_copies());
        match told {
            // A peer that has left by now is heard first, as one that leaves later: its end waits
            // in the socket.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(link),
        }
    }

    fn over(
        line: Arc<OwnedFd>,
        block: u32,
        pid: i32,
        is_trusted: bool,
        memory: Segment,
        is_first: bool,
    ) -> Self {
        let base = memory.base();
        // SAFETY: the segment has two rings.
        let other = unsafe { base.add(RING_BYTES) };
        let (out, into) = if is_first {
            (base, other)
        } else {
            (other, base)
        };
        // SAFETY: each is a ring, and the segment is kept.
        let (outgoing, incoming) = unsafe { (Producer::new(out), Consumer::new(into)) };
        Self {
            socket: Some(line),
            block,
            pid,
            is_trusted,
            outgoing,
            incoming,
            tables: None,
            windows: None,
            copies: false,
            peer_copies: false,
            is_dead: false,
            responses: VecDeque::new(),
            vain_looks: 0,
            kicked_at: 0,
            assist_at: 0,
            direct: Direct::default(),
            _memory: Arc::new(memory),
        }
    }

    /// Takes the peer's tables, and finds out whether its memory can be reached.
    fn meet(
        &mut self,
        greeting: &Greeting,
        mut beside: impl Iterator<Item = OwnedFd>,
    ) -> io::Result<()> {
        let pairs = beside.next().ok_or(io::ErrorKind::InvalidData)?;
        let pairs = Arc::new(PairTable::map(pairs)?);
        let regions = beside.next().filter(|_| self.is_trusted);
        let regions = regions.map(RegionTable::map).transpose()?.map(Arc::new);
        let store = beside.next().filter(|_| self.is_trusted);
        self.windows = store.map(Store::take).transpose()?.map(Windows::new);
        self.copies = regions.is_some() && reaches(self.pid, greeting);
        self.tables = Some(Tables { pairs, regions });
        Ok(())
    }

    /// The peer's `Welcome`.
    pub(crate) fn welcome(&mut self, greeting: &Greeting, beside: Vec<OwnedFd>) -> io::Result<()> {
        if self.tables.is_some() || greeting.block != self.block {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.meet(greeting, beside.into_iter())?;
        self.tell_copies()
    }

    fn tell_copies(&self) -> io::Result<()> {
        self.tell(&Message::Copies(self.copies).encode(), &[])
    }

    fn tell(&self, message: &[u8], beside: &[BorrowedFd<'_>]) -> io::Result<()> {
        match &self.socket {
            Some(line) => socket::send(line.as_fd(), message, beside),
            None => Ok(()),
        }
    }

    /// Whether something came, or is owed to the peer. Before saying no, the sender is told how far
    /// this end is: that is nobody's way then.
    #[inline]
    pub(crate) fn has_news(&mut self) -> bool {
        // Of its link with itself a process knows without looking.
        let is_quiet = match self.socket {
            None => self.outgoing.tail() == self.incoming.position(),
            Some(_) => self.incoming.is_empty(),
        };
        if is_quiet {
            self.incoming.tell();
        }
        !is_quiet || !self.responses.is_empty()
    }

    /// Whether something waits in the ring that the peer's program may never look for.
    pub(crate) fn wants_help(&self) -> bool {
        self.assist_at > 0 && !self.outgoing.was_taken(self.assist_at)
    }

    /// Counts what the peer did by itself in this process's memory since this was last called.
    pub(crate) fn count_direct(&mut self) {
        let now = self.incoming.direct();
        let before = std::mem::replace(&mut self.direct, now);
        let counters = live();
        for (counter, now, before) in [
            (&counters.peer_writes, now.writes, before.writes),
            (
                &counters.peer_write_bytes,
                now.write_bytes,
                before.write_bytes,
            ),
            (&counters.peer_reads, now.reads, before.reads),
            (&counters.peer_read_bytes, now.read_bytes, before.read_bytes),
            (&counters.peer_atomics, now.atomics, before.atomics),
        ] {
            // A peer may write anything there.
            counter.add(now.wrapping_sub(before));
        }
    }

    /// Something came: the peer is awake, or, if it sleeps, is woken to hear that it has come.
    #[inline]
    pub(crate) fn heard(&mut self) {
        self.vain_looks = 0;
        if self.socket.is_some() && self.outgoing.takes_attention() {
            self.kick();
            live().kicks.add(1);
        }
    }

    /// Wakes the peer's service thread.
    #[cold]
    pub(crate) fn kick(&mut self) {
        self.kicked_at = self.outgoing.tail();
        // A full socket has kicks enough in it, and the end of one is heard elsewhere.
        let _ = self.tell(&Message::Kick.encode(), &[]);
    }
}

#[cfg(test)]
mod hostile;

#[cfg(test)]
mod tests {
    use viaduct_core::verbs::SendOpcode;

    use super::*;
    use crate::counters::Counters;

    #[test]
    fn what_a_peer_does_by_itself_is_counted_once() {
        let tables = OwnTables {
            pairs: Arc::new(PairTable::create().unwrap()),
            regions: Arc::new(RegionTable::create().unwrap()),
            store: None,
        };
        let mut link = Link::to_self(5, &tables).unwrap();
        let before = Counters::of_this_process();
        // More than other tests of this process do at the same time.
        let bytes = 1 << 40;
        for opcode in [
            SendOpcode::RdmaWrite,
            SendOpcode::RdmaRead,
            SendOpcode::RdmaRead,
            SendOpcode::AtomicFetchAndAdd,
        ] {
            link.outgoing.count_direct(opcode, bytes);
        }
        link.count_direct();
        link.count_direct();
        let now = Counters::of_this_process();
        assert_eq!((now.peer_write_bytes - before.peer_write_bytes) / bytes, 1);
        assert_eq!((now.peer_read_bytes - before.peer_read_bytes) / bytes, 2);
        assert!(now.peer_writes > before.peer_writes && now.peer_reads > before.peer_reads);
        assert!(now.peer_atomics > before.peer_atomics);
    }

    #[test]
    fn messages_are_read_back_and_garbage_is_not() {
        let who = Greeting {
            block: 5,
            beacon_address: 0x1234_5678_9abc,
            beacon: 77,
        };
        let messages = [
            Message::Hello(who),
            Message::Welcome(who),
            Message::Copies(true),
            Message::Copies(false),
            Message::Kick,
            Message::Count,
        ];
        for message in messages {
            let bytes = message.encode();
            assert!(bytes.len() <= MESSAGE_BYTES);
            assert_eq!(Message::decode(&bytes), Some(message));
            assert_eq!(Message::decode(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(Message::decode(b"C\x02"), None);
        assert_eq!(Message::decode(b"X"), None);
    }
}
