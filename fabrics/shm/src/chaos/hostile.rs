//! A peer that shakes hands and then lies: it writes garbage into all that it can write.
//!
//! The survivor is connected to itself, and the liar is the test: it forges slots, counters,
//! cookies, marks and pool bytes between the calls of the victim, and in a storm from another
//! thread as well. The same process has an honest peer, whose echo must stay right and quick. What
//! the victim did not post or open is filled with one value and looked at.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use viaduct_core::{MemoryAttributes, ReliabilityLevel, Status, ViState};
use viaduct_provider::{Done, Provider, ViHandle, control};

use super::end::{Arena, BUFFER_BYTES, BUFFERS, Station, fill, says};
use super::process::{Other, run_survivor, say, wait_until};
use super::traffic::LEVELS;
use super::{Random, number};
use crate::Shm;
use crate::channel::{Cookie, DIRECTION_BYTES, Direction, Header, OPAQUE};
use crate::host::{DOORBELL_BYTES, Host};
use crate::link::{Link, LinkMessage, POOL_BYTES};
use crate::vi;

/// How long the victims are lied to, in seconds; `SHM_HOSTILE_SECONDS=600` for the long run.
const SECONDS: &str = "SHM_HOSTILE_SECONDS";
const SEED: &str = "SHM_SEED";
const MEET: &str = "VIADUCT_CHAOS_MEET";
const STORM: &str = "VIADUCT_CHAOS_STORM";

const SOON: Duration = Duration::from_secs(10);
/// What memory holds that nobody may write.
const UNTOUCHED: u8 = 0xc5;
/// Where a receive begins in its buffer, and how much behind it is looked at.
const MARGIN: usize = 512;
/// Longer than a sleeper sleeps whose wake-up was spoilt.
const ECHO_MAX: Duration = Duration::from_millis(2500);

#[test]
fn a_peer_that_lies_harms_its_own_connection_alone() {
    lie("0", "0");
}

#[test]
fn a_peer_that_lies_in_protected_mode_harms_its_own_connection_alone() {
    lie("0", "1");
}

#[test]
fn a_peer_that_lies_all_the_time_harms_its_own_connection_alone() {
    lie("1", "0");
}

#[test]
fn a_remote_write_longer_than_the_messages_of_its_vi_breaks_the_connection() {
    let station = Station::open();
    let meet = format!("too long {}", std::process::id());
    for (length, is_taken) in [(BUFFER_BYTES, true), (BUFFER_BYTES + 1, false)] {
        let level = ReliabilityLevel::ReliableReception;
        let (victim, liar) = (station.vi(level, None), station.vi(level, None));
        connect(&station, victim, liar, &meet);
        station.private.post_receive(victim, 0).unwrap();
        let (_, [_, into], _) = vi::shared(victim).unwrap();
        let window = station.private.window().addr() as u64;
        let words = [
            (length as u64) << 32,
            window,
            station.private.handle.bits().into(),
        ];
        into.write_words(0, words);
        let header = Header {
            kind: 6,
            flags: 3,
            length: length as u32,
        };
        into.publish(0, header, 7, 1);
        let done = Shm::global().receive_wait(victim, Some(SOON));
        let is_complete = matches!(done, Ok(Done::Complete(_)));
        let state = Shm::global().query_vi(victim).unwrap().state;
        assert_eq!(
            (is_complete, state),
            if is_taken {
                (true, ViState::Connected)
            } else {
                (false, ViState::Error)
            },
            "{length} bytes"
        );
        for vi in [victim, liar] {
            Shm::global().disconnect(vi).unwrap();
            while Shm::global()
                .receive_done(vi)
                .unwrap()
                .descriptor()
                .is_some()
            {}
            Shm::global().destroy_vi(vi).unwrap();
        }
    }
}

/// Connects two VIs of this process.
pub(super) fn connect(station: &Station, server: ViHandle, client: ViHandle, meet: &str) {
    thread::scope(|scope| {
        scope.spawn(|| station.serve(server, meet, SOON).unwrap());
        assert!(wait_until(SOON, || station.ask(client, meet, SOON).is_ok()));
    });
}

/// Ends a storm, also when its victim's test fails.
struct Calm<'a>(&'a AtomicBool);

impl Drop for Calm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn lie(storm: &str, protected: &str) {
    let seconds = number(SECONDS, 2);
    let seed = number(SEED, 1).to_string();
    let environment = [
        (STORM, storm),
        ("VIADUCT_PROTECTED", protected),
        (SEED, seed.as_str()),
    ];
    println!("again: SHM_SEED={seed} cargo test -p viaduct-shm --lib chaos::hostile");
    run_survivor("besieged", &environment, Duration::from_secs(seconds + 60));
}

/// A connection to the honest peer.
pub(super) struct Honest {
    pub(super) station: Station,
    pub(super) vi: ViHandle,
    worst: Duration,
    echoes: u32,
    pub(super) peer: Other,
}

impl Honest {
    pub(super) fn connect() -> Self {
        Self::connect_to(|_| ())
    }

    /// The same, with something more to be done to the command that starts it.
    pub(super) fn connect_to(prepare: impl FnOnce(&mut Command)) -> Self {
        let meet = format!("honest {}", std::process::id());
        let peer = Other::start_as("honest", &[(MEET, &meet)], prepare);
        let station = Station::open();
        let vi = station.vi(ReliabilityLevel::ReliableReception, None);
        assert!(wait_until(SOON, || station.ask(vi, &meet, SOON).is_ok()));
        Self {
            station,
            vi,
            worst: Duration::ZERO,
            echoes: 0,
            peer,
        }
    }

    pub(super) fn echo(&mut self, length: usize) {
        let arena = self.station.private;
        self.echoes += 1;
        fill(arena.send_buffer(0), length, self.echoes);
        let started = Instant::now();
        arena.post_receive(self.vi, 0).unwrap();
        arena
            .post_send(self.vi, 0, length, control::SEND_RECEIVE, None, (0, 0))
            .unwrap();
        let received = Shm::global().receive_wait(self.vi, Some(SOON)).unwrap();
        assert!(
            matches!(received, Done::Complete(_)),
            "the honest link broke"
        );
        Shm::global().send_wait(self.vi, Some(SOON)).unwrap();
        assert!(says(arena.receive_buffer(0), length, self.echoes));
        self.worst = self.worst.max(started.elapsed());
    }
}

pub(super) fn echo() {
    let station = Station::open();
    let arena = station.private;
    let meet = std::env::var(MEET).unwrap();
    let vi = station.vi(ReliabilityLevel::ReliableReception, None);
    arena.post_receive(vi, 0).unwrap();
    station.serve(vi, &meet, SOON).unwrap();
    while let Ok(Done::Complete(descriptor)) = Shm::global().receive_wait(vi, None) {
        let (_, length, ..) = arena.taken(descriptor);
        // SAFETY: neither is posted, and both are as long.
        unsafe {
            let (source, target) = (arena.receive_buffer(0), arena.send_buffer(0));
            target.copy_from_nonoverlapping(source, length as usize);
        }
        arena.post_receive(vi, 0).unwrap();
        let length = length as usize;
        arena
            .post_send(vi, 0, length, control::SEND_RECEIVE, None, (0, 0))
            .unwrap();
        if Shm::global().send_wait(vi, Some(SOON)).is_err() {
            return;
        }
    }
}

/// What a liar reaches.
struct Liar {
    random: Random,
    /// The link's end of the liar, to send messages on.
    link: Arc<Link>,
    channel: u32,
    /// The directions in which the victim sends, and receives.
    out: Direction,
    into: Direction,
    pools: [*mut u8; 2],
    /// Ranges that a lie is about: address and handle.
    ranges: Vec<(u64, u32)>,
    /// Private memory of the liar.
    own: u64,
    /// Whether it keeps to the form of messages, so that its connection lives longer.
    is_sly: bool,
}

// SAFETY: what the pointers reach is shared memory that nobody forms references to.
unsafe impl Send for Liar {}

impl Liar {
    fn length(&mut self) -> u32 {
        let some = self.random.next() as u32;
        self.random.pick(&[
            0,
            1,
            8,
            48,
            49,
            888,
            889,
            4096,
            4097,
            65_536,
            131_072,
            131_073,
            u32::MAX,
            some,
        ])
    }

    /// Forges a few slots, from about where the victim looks next.
    fn forge(&mut self) {
        let first = self.into.consumed().load(Ordering::Relaxed);
        let count = 1 + self.random.below(12) as u32;
        for step in 0..count {
            let index = first.wrapping_add(step);
            let offset = self
                .random
                .pick(&[0, 64, POOL_BYTES as u64 - 1, POOL_BYTES as u64]);
            let bytes = u64::from(self.length());
            let (address, handle) = self.random.pick(&self.ranges);
            let shift = self.random.pick(&[0, 1, 4095, u64::MAX, 1 << 63]);
            let words = [
                offset | bytes << 32,
                address.wrapping_add(shift),
                handle.into(),
            ];
            self.into.write_words(index, words);
            let header = Header {
                kind: self.random.below(11) as u8,
                flags: match self.random.one_in(2) {
                    true => 0,
                    false => self.random.below(64) as u8,
                },
                // As a part says that is right, or anything.
                length: if self.random.one_in(2) {
                    bytes as u32
                } else {
                    self.length()
                },
            };
            let (immediate, credit) = (self.random.next() as u32, self.random.next() as u32);
            self.into.publish(index, header, immediate, credit);
        }
    }

    /// One message in the right form, at the right place, about ranges that may be wrong.
    fn forge_well(&mut self) {
        let index = self.into.consumed().load(Ordering::Relaxed);
        let kind = self.random.pick(&[1, 1, 3, 4, 6, 7, 8]);
        let bytes = match kind {
            1 => self.random.pick(&[0, 1, 48]),
            _ => self.random.pick(&[0, 1, 888, 4096, 65_536]),
        };
        let (address, handle) = match self.random.one_in(4) {
            true => self.random.pick(&self.ranges),
            false => self.ranges[0],
        };
        let offset = self.random.below(POOL_BYTES as u64 - bytes);
        if kind != 1 {
            let words = [offset | bytes << 32, address, handle.into()];
            self.into.write_words(index, words);
        }
        let header = Header {
            kind,
            // Acknowledged at once, so that the next place is known; sometimes with immediate data.
            flags: 2 | self.random.below(2) as u8,
            length: bytes as u32,
        };
        self.into.publish(index, header, 7, 1 << 20);
    }

    fn cookies(&mut self) {
        let posted = self.out.posted().load(Ordering::Relaxed);
        for _ in 0..8 {
            let segment = self.random.pick(&[0, 1, 2, 3, 4, 1 << 12, OPAQUE]);
            let address = match segment {
                // Private memory of the liar, or none.
                0 => self.random.pick(&[8, u64::MAX - 8, self.own]),
                _ => {
                    let some = self.random.next();
                    self.random
                        .pick(&[0, 4096, u64::MAX, u64::MAX - 4096, 1 << 40, some])
                }
            };
            let cookie = Cookie {
                capacity: self.length(),
                segment,
                address,
            };
            let index = posted
                .wrapping_add(self.random.below(32) as u32)
                .wrapping_sub(16);
            self.out.write_cookie(index, cookie);
        }
        let near = posted.wrapping_add(self.random.below(40) as u32);
        let some = self.random.next() as u32;
        let count = self
            .random
            .pick(&[near, near, posted.wrapping_sub(1), some]);
        self.out.posted().store(count, Ordering::Release);
    }

    fn lie(&mut self) {
        let choice = match self.is_sly {
            true => self
                .random
                .pick(&[4, 9, 10, 11, 12, 12, 12, 12, 12, 12, 12]),
            false => self.random.below(12),
        };
        match choice {
            12 => self.forge_well(),
            0..=3 => self.forge(),
            4 | 5 => self.cookies(),
            6 => {
                let consumed = self.out.consumed().load(Ordering::Relaxed);
                let some = self.random.next();
                let near = consumed.wrapping_add(self.random.below(40) as u32);
                let count = self.random.pick(&[near, near, some as u32]);
                self.out.consumed().store(count, Ordering::Release);
                if self.random.one_in(4) {
                    self.out.outcome().store(some, Ordering::Release);
                }
            }
            7 => {
                let mark = self.random.pick(&[0, 1, 64, 65, 1 << 16, u32::MAX]);
                self.out.sleeper().store(mark, Ordering::Relaxed);
                self.into.sleeper().store(0, Ordering::Relaxed);
                self.out.opened().store(mark, Ordering::Relaxed);
            }
            8 => {
                let at = self.random.below(DIRECTION_BYTES as u64 / 8) as usize;
                let direction = if self.random.one_in(2) {
                    self.out
                } else {
                    self.into
                };
                let value = self.random.next();
                // SAFETY: inside the direction, aligned, reached atomically.
                unsafe {
                    AtomicU64::from_ptr(direction.base().as_ptr().cast::<u64>().add(at))
                        .store(value, Ordering::Relaxed);
                }
            }
            9 => {
                let pool = self.random.pick(&self.pools);
                let at = self.random.below(POOL_BYTES as u64 / 8) as usize;
                let value = self.random.next();
                // SAFETY: inside the pool, aligned, reached atomically.
                unsafe {
                    AtomicU64::from_ptr(pool.cast::<u64>().add(at)).store(value, Ordering::Relaxed);
                }
            }
            10 => self.doorbells(),
            _ => {
                let channel = match self.random.one_in(4) {
                    true => self.random.next() as u32,
                    false => self.channel,
                };
                let operation = self.random.next() as u32;
                let code = operation as u8 % 12;
                let message = match self.random.one_in(2) {
                    true => LinkMessage::Kick { channel },
                    false => LinkMessage::Event {
                        channel,
                        code,
                        operation,
                    },
                };
                self.link.send(&message);
            }
        }
    }

    /// Spoils the words on which threads of the victim sleep.
    fn doorbells(&mut self) {
        let Ok(host) = Host::get() else { return };
        let at = self.random.below(DOORBELL_BYTES as u64 / 8) as usize;
        let value = self.random.pick(&[0, u64::MAX]);
        // SAFETY: inside the page, aligned, reached atomically.
        unsafe {
            AtomicU64::from_ptr(host.doorbells().as_ptr().cast::<u64>().add(at))
                .store(value, Ordering::Relaxed);
        }
    }
}

/// The side that is lied to.
struct Victim<'a> {
    arena: Arena,
    vi: ViHandle,
    level: ReliabilityLevel,
    sends: VecDeque<usize>,
    receives: VecDeque<(usize, usize)>,
    random: Random,
    window: (u64, u32),
    told: &'a mut Told,
}

/// The outcome of it all.
#[derive(Debug, Default)]
struct Told {
    connections: u32,
    broken: u32,
    received: u32,
    failed: u32,
    sent: u32,
}

impl Victim<'_> {
    fn act(&mut self) {
        match self.random.below(6) {
            0 | 1 => self.receive(),
            2 => self.send(),
            3 => {
                let limit = Some(Duration::from_millis(1));
                if let Ok(done) = Shm::global().receive_wait(self.vi, limit) {
                    self.received(done);
                }
            }
            _ => {
                let done = Shm::global().receive_done(self.vi).unwrap();
                self.received(done);
                let done = Shm::global().send_done(self.vi).unwrap();
                self.sent(done);
            }
        }
    }

    fn receive(&mut self) {
        let busy = |number| self.receives.iter().any(|(posted, _)| *posted == number);
        let Some(number) = (0..BUFFERS).find(|number| !busy(*number)) else {
            return;
        };
        let length = self
            .random
            .pick(&[0, 1, 48, 888, 4096, 65_536, BUFFER_BYTES - 2 * MARGIN]);
        // SAFETY: the buffer is not posted.
        unsafe {
            let whole = length + 2 * MARGIN;
            self.arena
                .receive_buffer(number)
                .write_bytes(UNTOUCHED, whole);
        }
        self.arena
            .post_receive_at(self.vi, number, MARGIN, length)
            .unwrap();
        self.receives.push_back((number, length));
    }

    fn send(&mut self) {
        let Some(number) = (0..BUFFERS).find(|number| !self.sends.contains(number)) else {
            return;
        };
        let length = self.random.pick(&[0, 8, 200, 4096, 70_000]);
        let operation = match self.random.below(4) {
            0 => control::RDMA_WRITE,
            1 if self.level != ReliabilityLevel::Unreliable => control::RDMA_READ,
            _ => control::SEND_RECEIVE,
        };
        self.arena
            .post_send(self.vi, number, length, operation, None, self.window)
            .unwrap();
        self.sends.push_back(number);
    }

    fn received(&mut self, done: Done) -> bool {
        let Some(descriptor) = done.descriptor() else {
            return false;
        };
        let (number, length, _, status) = self.arena.taken(descriptor);
        let (posted, capacity) = self.receives.pop_front().unwrap();
        assert_eq!(number, posted, "receives came back in another order");
        assert!(Status::from_bits(status).is_done(), "{status:#x}");
        if status & Status::OPERATION_MASK.bits() == 0x0001_0000 {
            assert!(length as usize <= capacity, "{length} bytes in {capacity}");
        }
        assert!(
            length as usize <= BUFFER_BYTES,
            "longer than the VI's messages"
        );
        let data = self.arena.receive_buffer(number);
        // SAFETY: handed back.
        let is_untouched = |at: usize| unsafe { data.add(at).read_volatile() == UNTOUCHED };
        let behind = MARGIN + capacity;
        let mut margins = (0..MARGIN).chain(behind..behind + MARGIN);
        assert!(
            margins.all(is_untouched),
            "bytes beside a receive were written"
        );
        match done {
            Done::Complete(_) => self.told.received += 1,
            _ => self.told.failed += 1,
        }
        true
    }

    fn sent(&mut self, done: Done) -> bool {
        let Some(descriptor) = done.descriptor() else {
            return false;
        };
        let (number, _, _, status) = self.arena.taken(descriptor);
        assert_eq!(self.sends.pop_front(), Some(number));
        assert!(Status::from_bits(status).is_done(), "{status:#x}");
        self.told.sent += 1;
        true
    }

    /// Everything that was posted comes back, whatever the liar did.
    fn finish(mut self, station: &Station) {
        let state = Shm::global().query_vi(self.vi).unwrap().state;
        Shm::global().disconnect(self.vi).unwrap();
        loop {
            let done = Shm::global().receive_done(self.vi).unwrap();
            if !self.received(done) {
                break;
            }
        }
        loop {
            let done = Shm::global().send_done(self.vi).unwrap();
            if !self.sent(done) {
                break;
            }
        }
        assert!(self.sends.is_empty() && self.receives.is_empty());
        self.told.broken += u32::from(state == ViState::Error);
        if state == ViState::Error {
            assert!(wait_until(SOON, || station.times_lost(self.vi) == 1));
        }
        Shm::global().destroy_vi(self.vi).unwrap();
    }
}

/// The process that is lied to.
pub(super) fn survive() {
    let (seed, is_storm) = (number(SEED, 1), number(STORM, 0) == 1);
    let mut random = Random(seed);
    let mut honest = Honest::connect();
    let station = Station::open();
    let closed = vec![UNTOUCHED; 64 << 10].into_boxed_slice();
    let rights = MemoryAttributes {
        tag: station.tag,
        rdma_write: false,
        rdma_read: false,
    };
    let start = closed.as_ptr().cast_mut();
    // SAFETY: the memory outlives the NIC's use of it.
    let closed_handle =
        unsafe { Shm::global().register_memory(station.nic, start, closed.len(), &rights) };
    let ranges = vec![
        (
            station.private.window().addr() as u64,
            station.private.handle.bits(),
        ),
        (start.addr() as u64, closed_handle.unwrap().bits()),
        (start.addr() as u64, station.private.handle.bits()),
        (8, 0),
        (u64::MAX - 64, 1 << 20),
    ];
    let mut told = Told::default();
    let started = Instant::now();
    let limit = Duration::from_secs(number(SECONDS, 2));
    while started.elapsed() < limit {
        told.connections += 1;
        let is_sly = told.connections % 2 == 0;
        let level = random.pick(&LEVELS);
        let (victim, liar) = (station.vi(level, None), station.vi(level, None));
        let meet = format!("lies {}", std::process::id());
        connect(&station, victim, liar, &meet);
        let (link, [out, into], _) = vi::shared(victim).unwrap();
        let (liars_link, _, channel) = vi::shared(liar).unwrap();
        let (incoming, outgoing) = (link.incoming_pool().0, link.outgoing_pool().0);
        let mut victim = Victim {
            arena: station.private,
            vi: victim,
            level,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            random: Random(random.next()),
            window: (
                station.shared.window().addr() as u64,
                station.shared.handle.bits(),
            ),
            told: &mut told,
        };
        let mut lies = Liar {
            random: Random(random.next()),
            link: liars_link,
            channel,
            out,
            into,
            pools: [incoming.as_ptr(), outgoing.as_ptr()],
            ranges: ranges.clone(),
            own: station.shared.receive_buffer(0).addr() as u64,
            is_sly,
        };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let mut work = |victim: &mut Victim<'_>, mut lie: Box<dyn FnMut() + '_>| {
                for step in 0..400 {
                    let began = Instant::now();
                    lie();
                    victim.act();
                    let took = began.elapsed();
                    assert!(took < Duration::from_secs(2), "a call took {took:?}");
                    if step % 40 == 0 {
                        honest.echo(if step == 0 { 70_000 } else { 100 });
                    }
                    let state = Shm::global().query_vi(victim.vi).unwrap().state;
                    if state == ViState::Error && step % 8 == 7 {
                        break;
                    }
                }
            };
            if is_storm {
                let is_over = &is_over;
                scope.spawn(move || {
                    let lies = &mut { lies };
                    while !is_over.load(Ordering::Relaxed) {
                        lies.lie();
                        // A link that hears nothing but lies starves nobody; that is not the point.
                        if lies.random.one_in(64) {
                            thread::yield_now();
                        }
                    }
                });
                let _calm = Calm(is_over);
                work(&mut victim, Box::new(|| {}));
            } else {
                work(&mut victim, Box::new(move || lies.lie()));
            }
        });
        victim.finish(&station);
        Shm::global().disconnect(liar).unwrap();
        Shm::global().destroy_vi(liar).unwrap();
        assert!(
            closed.iter().all(|byte| *byte == UNTOUCHED),
            "closed memory was written"
        );
    }
    say(&format!(
        "{told:?}; {} echoes of the honest peer, the slowest after {:?}",
        honest.echoes, honest.worst
    ));
    assert!(honest.worst < ECHO_MAX, "{:?}", honest.worst);
    assert!(
        told.broken > 0 && told.received > 0 && told.sent > 0,
        "{told:?}"
    );
    say("survived");
}
