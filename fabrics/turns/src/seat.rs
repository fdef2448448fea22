//! The memory in which a client's thread and the coordinator meet.
//!
//! A process has one segment, with a seat for each of its threads. Whoever has the turn of a seat
//! writes it: the client while it runs, the coordinator while the client waits. Both read what the
//! other wrote after the word `turn` said so.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::thread::{Timespec, futex};
use viaduct_processes::copy;
use viaduct_processes::segment::Segment;

/// Bytes of a request, of an answer, and of all posts between two turns.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Clocks end here, three months after the start of a run: no sum of two of them overflows.
pub const TIME_MAX: u64 = 1 << 63;

/// Threads of a process at one time.
pub(crate) const SEATS: u32 = 256;
/// In the page at the beginning of a seat.
const HEAD_BYTES: usize = 4096;
const SEAT_BYTES: usize = HEAD_BYTES + 2 * MESSAGE_BYTES_MAX;
/// The segment of a process. Pages come into being when they are touched.
pub(crate) const PROCESS_BYTES: usize = SEATS as usize * SEAT_BYTES;
/// The segment that all share.
pub(crate) const BELL_BYTES: usize = 4096;
/// Before each post: its time and its length.
const POST_HEAD_BYTES: usize = 12;
/// What a thread is doing, in words.
pub(crate) const DOING_BYTES: usize = 32;

/// The states of `turn`.
pub(crate) mod turn {
    /// No thread sits here.
    pub(crate) const FREE: u32 = 0;
    /// A thread has taken the seat and has not yet asked for anything.
    pub(crate) const CLAIMED: u32 = 1;
    /// The coordinator's: the thread waits.
    pub(crate) const GIVEN: u32 = 2;
    /// The thread's: it runs.
    pub(crate) const HELD: u32 = 3;
}

/// Bits of `seen`.
pub(crate) mod seen {
    /// Other clients.
    pub(crate) const BY_CLIENTS: u32 = 1;
    /// Processes outside of the simulation, such as whoever started this one.
    pub(crate) const OUTSIDE: u32 = 2;
}

/// What those outside of the simulation do: `outside` in a seat.
pub(crate) mod outside {
    /// There is nobody.
    pub(crate) const NOBODY: u32 = 0;
    /// They sleep.
    pub(crate) const RESTS: u32 = 1;
    /// A client has told them something since they were last known to sleep.
    pub(crate) const TOLD: u32 = 2;
}

/// What a thread that gives the turn asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(crate) enum Request {
    /// Its first turn.
    Start = 1,
    /// To go on at `until`.
    Sleep = 2,
    /// An answer of the world.
    Call = 3,
    /// To be asked to try again, or to go on at `until`.
    Foreign = 4,
    /// Nothing: it ends.
    End = 5,
    /// To go on when the process whose number `until` is has come, or ended.
    Born = 6,
    /// As [`Request::Foreign`], when a try was in vain.
    Again = 7,
    /// To go on when something is written into memory that it looks at in a loop.
    Memory = 8,
    /// As [`Request::Memory`], when it has done nothing but look again.
    MemoryAgain = 9,
    /// To go on: it has asked the system for `io_uring`, and does not have it.
    Refused = 10,
    /// To go on, before anybody else, when those outside of the simulation sleep.
    Look = 11,
}

/// How the turn comes back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(crate) enum Reply {
    /// What was asked for.
    Granted = 1,
    /// Try again.
    Retry = 2,
    /// The time is up.
    Expired = 3,
}

/// In the segment, as both sides see it. All zero at first.
#[derive(Debug)]
#[repr(C)]
struct Head {
    turn: AtomicU32,
    request: AtomicU32,
    reply: AtomicU32,
    /// Bytes of the request or of the answer.
    length: AtomicU32,
    /// Bytes of posts.
    posted: AtomicU32,
    /// Who may see what the thread has done, beside its posts and its request: [`seen`].
    seen: AtomicU32,
    /// The thread's own clock.
    clock: AtomicU64,
    until: AtomicU64,
    /// Up to here nobody else is to be asked.
    horizon: AtomicU64,
    /// Before when the thread finds nothing in the world that it has not been told of.
    quiet_until: AtomicU64,
    /// The simulation's time when the turn was given.
    now: AtomicU64,
    /// The thread's number for the system.
    task: AtomicU32,
    /// The handler of a signal has run while the thread waited for its turn.
    interrupted: AtomicU32,
    /// In the first seat of a process, its number in the run.
    process: AtomicU32,
    /// What those outside of the simulation did when the turn was given: [`outside`].
    outside: AtomicU32,
    doing: [AtomicU64; DOING_BYTES / 8],
}

const _: () = assert!(size_of::<Head>() <= HEAD_BYTES);

/// For `until` when there is no end.
const NEVER: u64 = u64::MAX;

/// When a thread posted what.
pub(crate) type Post = (u64, Vec<u8>);

/// One seat of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    base: NonNull<u8>,
}

// SAFETY: its head is reached by atomics, its messages by copies that stand races.
unsafe impl Send for Seat {}
// SAFETY: as above.
unsafe impl Sync for Seat {}

/// What a thread is told with its turn: see the fields of the same names of the seat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) clock: u64,
    pub(crate) now: u64,
    pub(crate) horizon: u64,
    pub(crate) quiet_until: u64,
    pub(crate) outside: u32,
}

/// What a thread asked for when it gave the turn: read once, and within bounds.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    pub(crate) clock: u64,
    pub(crate) until: Option<u64>,
    /// It may have done something real that others wait for.
    pub(crate) is_seen: bool,
    /// It may have told somebody outside of the simulation something.
    pub(crate) is_seen_outside: bool,
    /// In order of their times, which are at most `clock`.
    pub(crate) posts: Vec<Post>,
    /// Of a call its bytes, of a wait for something real what it is: `Waited::to_bytes`.
    pub(crate) message: Vec<u8>,
}

impl Seat {
    /// The seat of this number in the segment of a process.
    pub(crate) fn of(segment: &Segment, number: u32) -> Option<Self> {
        if number >= SEATS {
            return None;
        }
        let at = u64::from(number) * SEAT_BYTES as u64;
        let base = segment.range(at, SEAT_BYTES as u64)?;
        Some(Self { base })
    }

    fn head(&self) -> &Head {
        // SAFETY: a seat begins at a page of the segment, which outlives its seats: both sides keep
        // it as long as they use one. The head has atomics alone.
        unsafe { self.base.cast().as_ref() }
    }

    fn posts(&self) -> *mut u8 {
        // SAFETY: behind the head, inside the seat.
        unsafe { self.base.as_ptr().add(HEAD_BYTES) }
    }

    fn message(&self) -> *mut u8 {
        // SAFETY: behind the posts, inside the seat.
        unsafe { self.base.as_ptr().add(HEAD_BYTES + MESSAGE_BYTES_MAX) }
    }

    /// Copies bytes into one of the two places for them.
    fn put(target: *mut u8, bytes: &[u8]) {
        // SAFETY: the callers have checked that the bytes fit there.
        unsafe { copy::copy(target, bytes.as_ptr(), bytes.len()) };
    }

    /// Copies bytes out of one of the two places for them.
    fn take(source: *const u8, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        // SAFETY: the callers have checked that the bytes are inside; the vector has as many.
        unsafe { copy::copy(bytes.as_mut_ptr(), source, length) };
        bytes
    }

    // The client's side.

    /// Takes the seat if nobody has it.
    pub(crate) fn claim(&self) -> bool {
        let turn = &self.head().turn;
        turn.compare_exchange(
            turn::FREE,
            turn::CLAIMED,
            Ordering::Acquire,
            Ordering::Relaxed,
        )
        .is_ok()
    }

    pub(crate) fn clock(&self) -> u64 {
        self.head().clock.load(Ordering::Relaxed)
    }

    pub(crate) fn set_clock(&self, clock: u64) {
        let clock = clock.min(TIME_MAX);
        self.head().clock.store(clock, Ordering::Relaxed);
    }

    pub(crate) fn horizon(&self) -> u64 {
        self.head().horizon.load(Ordering::Relaxed)
    }

    pub(crate) fn quiet_until(&self) -> u64 {
        self.head().quiet_until.load(Ordering::Relaxed)
    }

    pub(crate) fn now(&self) -> u64 {
        self.head().now.load(Ordering::Relaxed)
    }

    /// Says which thread of the system sits here: the one that calls.
    pub(crate) fn set_task(&self) {
        let task = rustix::thread::gettid().as_raw_nonzero().get();
        self.head().task.store(task as u32, Ordering::Relaxed);
    }

    /// Says what the thread does, for people: the first bytes of it.
    pub(crate) fn set_doing(&self, what: &[u8]) {
        let mut words = [0_u8; DOING_BYTES];
        let length = what.len().min(DOING_BYTES);
        words[..length].copy_from_slice(&what[..length]);
        for (to, from) in self.head().doing.iter().zip(words.as_chunks::<8>().0) {
            to.store(u64::from_ne_bytes(*from), Ordering::Relaxed);
        }
    }

    /// Puts a post behind the others; false: it has no room there.
    pub(crate) fn add_post(&self, bytes: &[u8]) -> bool {
        let head = self.head();
        let at = head.posted.load(Ordering::Relaxed) as usize;
        if at + POST_HEAD_BYTES + bytes.len() > MESSAGE_BYTES_MAX {
            return false;
        }
        let clock = self.clock();
        // SAFETY: the sum was checked above, so all of it is inside.
        let target = unsafe { self.posts().add(at) };
        Self::put(target, &clock.to_ne_bytes());
        // SAFETY: as above.
        Self::put(
            unsafe { target.add(8) },
            &(bytes.len() as u32).to_ne_bytes(),
        );
        // SAFETY: as above.
        Self::put(unsafe { target.add(POST_HEAD_BYTES) }, bytes);
        let end = at + POST_HEAD_BYTES + bytes.len();
        head.posted.store(end as u32, Ordering::Relaxed);
        self.lower_horizon();
        true
    }

    /// What the thread has begun may be seen by others: it goes no further unseen.
    pub(crate) fn lower_horizon(&self) {
        let clock = self.clock();
        self.head().horizon.fetch_min(clock, Ordering::Relaxed);
    }

    /// By a signal's handler in the thread, while that waits for its turn.
    pub(crate) fn interrupt(&self) {
        self.head().interrupted.store(1, Ordering::Release);
    }

    /// Whether a handler has run while the thread waited, since this was asked.
    pub(crate) fn take_interrupted(&self) -> bool {
        self.head().interrupted.swap(0, Ordering::Acquire) != 0
    }

    /// Puts a request where the coordinator finds it.
    ///
    /// # Panics
    ///
    /// When it is longer than [`MESSAGE_BYTES_MAX`].
    pub(crate) fn put_message(&self, bytes: &[u8]) {
        assert!(
            bytes.len() <= MESSAGE_BYTES_MAX,
            "a message of {} bytes",
            bytes.len()
        );
        Self::put(self.message(), bytes);
        let length = bytes.len() as u32;
        self.head().length.store(length, Ordering::Relaxed);
    }

    /// The answer.
    pub(crate) fn take_message(&self) -> Vec<u8> {
        let length = self.head().length.load(Ordering::Relaxed) as usize;
        Self::take(self.message(), length.min(MESSAGE_BYTES_MAX))
    }

    /// The number of the process in the run, in its first seat.
    pub(crate) fn process(&self) -> u32 {
        self.head().process.load(Ordering::Relaxed)
    }

    /// Whether what those outside of the simulation have to tell may be still to come: they were
    /// told something before the turn was given, or `has_told` them.
    pub(crate) fn is_outside_busy(&self, has_told: bool) -> bool {
        match self.head().outside.load(Ordering::Relaxed) {
            outside::NOBODY => false,
            outside::RESTS => has_told,
            _ => true,
        }
    }

    /// Says by bits of [`seen`] who may see what the thread has done.
    pub(crate) fn set_seen(&self, by: u32) {
        self.head().seen.store(by, Ordering::Relaxed);
    }

    /// Gives the turn; whoever waits for it has yet to be woken.
    pub(crate) fn give(&self, request: Request, until: Option<u64>) {
        let head = self.head();
        head.request.store(request as u32, Ordering::Relaxed);
        head.until.store(until.unwrap_or(NEVER), Ordering::Relaxed);
        // Pairs with the load of `has_given`.
        head.turn.store(turn::GIVEN, Ordering::Release);
    }

    /// Sleeps until the turn has come, or so long; true: it has.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        let turn = &self.head().turn;
        // Pairs with the store of `hand_over`.
        if turn.load(Ordering::Acquire) == turn::HELD {
            return true;
        }
        let longest = timespec(longest);
        let _ = futex::wait(turn, futex::Flags::empty(), turn::GIVEN, Some(&longest));
        turn.load(Ordering::Acquire) == turn::HELD
    }

    pub(crate) fn reply(&self) -> Reply {
        match self.head().reply.load(Ordering::Relaxed) {
            2 => Reply::Retry,
            3 => Reply::Expired,
            _ => Reply::Granted,
        }
    }

    // The coordinator's side.

    pub(crate) fn has_given(&self) -> bool {
        self.head().turn.load(Ordering::Acquire) == turn::GIVEN
    }

    pub(crate) fn set_free(&self) {
        let head = self.head();
        head.posted.store(0, Ordering::Relaxed);
        head.turn.store(turn::FREE, Ordering::Release);
    }

    /// What the thread asks for, if that can be: the one reading of all that it wrote.
    ///
    /// # Errors
    ///
    /// What cannot be.
    pub(crate) fn asked(&self, not_before: u64) -> Result<Asked, &'static str> {
        let head = self.head();
        let request = match head.request.load(Ordering::Relaxed) {
            1 => Request::Start,
            2 => Request::Sleep,
            3 => Request::Call,
            4 => Request::Foreign,
            5 => Request::End,
            6 => Request::Born,
            7 => Request::Again,
            8 => Request::Memory,
            9 => Request::MemoryAgain,
            10 => Request::Refused,
            11 => Request::Look,
            _ => return Err("it asks for something unknown"),
        };
        let clock = self.clock();
        if clock < not_before {
            return Err("its clock went back");
        }
        if clock > TIME_MAX {
            return Err("its clock is past the end of time");
        }
        let until = head.until.load(Ordering::Relaxed);
        let posted = head.posted.load(Ordering::Relaxed) as usize;
        let length = match request {
            Request::Call | Request::Foreign | Request::Again => {
                head.length.load(Ordering::Relaxed) as usize
            }
            _ => 0,
        };
        if posted.max(length) > MESSAGE_BYTES_MAX {
            return Err("its message is longer than the place for it");
        }
        let posts = parse_posts(&Self::take(self.posts(), posted), not_before, clock)?;
        let seen = head.seen.load(Ordering::Relaxed);
        Ok(Asked {
            request,
            clock,
            until: (until != NEVER).then_some(until),
            is_seen: seen & seen::BY_CLIENTS != 0,
            is_seen_outside: seen & seen::OUTSIDE != 0,
            posts,
            message: Self::take(self.message(), length),
        })
    }

    /// Of a thread that has ended without giving the turn, which it had from `given` on: its clock
    /// and what it posted.
    pub(crate) fn last_turn(&self, given: u64) -> (u64, Vec<Post>) {
        let clock = self.clock().clamp(given, TIME_MAX);
        let posted = self.head().posted.load(Ordering::Relaxed) as usize;
        let posts = Self::take(self.posts(), posted.min(MESSAGE_BYTES_MAX));
        (clock, parse_posts(&posts, given, clock).unwrap_or_default())
    }

    /// Before the first turn of a process, in its first seat.
    pub(crate) fn set_process(&self, number: u32) {
        self.head().process.store(number, Ordering::Relaxed);
    }

    /// The thread's number for the system, as it says.
    pub(crate) fn task(&self) -> u32 {
        self.head().task.load(Ordering::Relaxed)
    }

    pub(crate) fn doing(&self) -> String {
        let mut bytes = [0_u8; DOING_BYTES];
        for (to, from) in bytes
            .as_chunks_mut::<8>()
            .0
            .iter_mut()
            .zip(&self.head().doing)
        {
            *to = from.load(Ordering::Relaxed).to_ne_bytes();
        }
        let end = bytes.iter().position(|byte| *byte == 0);
        let end = end.unwrap_or(DOING_BYTES);
        bytes[..end].iter().map(printable).collect()
    }

    /// Gives the turn to the thread and wakes it.
    pub(crate) fn hand_over(&self, reply: Reply, times: &Times) {
        let head = self.head();
        let Times {
            clock,
            now,
            horizon,
            quiet_until,
            outside,
        } = *times;
        head.posted.store(0, Ordering::Relaxed);
        head.clock.store(clock, Ordering::Relaxed);
        head.now.store(now, Ordering::Relaxed);
        head.horizon.store(horizon, Ordering::Relaxed);
        head.quiet_until.store(quiet_until, Ordering::Relaxed);
        head.outside.store(outside, Ordering::Relaxed);
        head.reply.store(reply as u32, Ordering::Relaxed);
        // Pairs with the load of `wait`.
        head.turn.store(turn::HELD, Ordering::Release);
        let _ = futex::wake(&head.turn, futex::Flags::empty(), 1);
    }
}

/// A byte of what a client calls itself or what it does, as it is shown to people.
pub(crate) fn printable(byte: &u8) -> char {
    match byte {
        b' '..=b'~' => char::from(*byte),
        _ => '?',
    }
}

/// The posts of a thread, if they are well formed and their times are in order and in bounds.
fn parse_posts(
    mut bytes: &[u8],
    not_before: u64,
    not_after: u64,
) -> Result<Vec<Post>, &'static str> {
    let mut posts = Vec::new();
    let mut last = not_before;
    while !bytes.is_empty() {
        let (at, rest) = bytes.split_first_chunk().ok_or("a post is cut off")?;
        let (length, rest) = rest.split_first_chunk().ok_or("a post is cut off")?;
        let at = u64::from_ne_bytes(*at);
        if at < last || at > not_after {
            return Err("a post has a time at which its thread did not run");
        }
        let length = u32::from_ne_bytes(*length) as usize;
        let (post, rest) = rest.split_at_checked(length).ok_or("a post is cut off")?;
        posts.push((at, post.to_vec()));
        (bytes, last) = (rest, at);
    }
    Ok(posts)
}

/// What wakes the coordinator, in a segment that all share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bell {
    base: NonNull<u8>,
}

// SAFETY: it is reached by atomics.
unsafe impl Send for Bell {}
// SAFETY: as above.
unsafe impl Sync for Bell {}

impl Bell {
    /// The bell in a segment, which has [`BELL_BYTES`] and is kept as long as the bell is used.
    pub(crate) fn of(segment: &Segment) -> Option<Self> {
        let base = segment.range(0, BELL_BYTES as u64)?;
        Some(Self { base })
    }

    fn words(&self) -> &[AtomicU32; 3] {
        // SAFETY: at the beginning of a page of the segment; only reached atomically.
        unsafe { self.base.cast().as_ref() }
    }

    /// Wakes the coordinator.
    pub(crate) fn ring(&self) {
        let word = &self.words()[0];
        word.fetch_add(1, Ordering::Release);
        let _ = futex::wake(word, futex::Flags::empty(), 1);
    }

    /// Says that a thread has given the turn for the first time.
    pub(crate) fn count_newcomer(&self) {
        self.words()[1].fetch_add(1, Ordering::Release);
    }

    pub(crate) fn newcomers(&self) -> u32 {
        self.words()[1].load(Ordering::Acquire)
    }

    /// Says that a thread was interrupted while it waited.
    pub(crate) fn count_interruption(&self) {
        self.words()[2].fetch_add(1, Ordering::Release);
    }

    pub(crate) fn interruptions(&self) -> u32 {
        self.words()[2].load(Ordering::Acquire)
    }

    /// To be taken before looking whether there is something to do.
    pub(crate) fn heard(&self) -> u32 {
        self.words()[0].load(Ordering::Acquire)
    }

    /// Sleeps until it rings after `heard` was taken, or so long, which is true.
    pub(crate) fn wait(&self, heard: u32, longest: Duration) -> bool {
        let longest = timespec(longest);
        let word = &self.words()[0];
        let woken = futex::wait(word, futex::Flags::empty(), heard, Some(&longest));
        woken == Err(rustix::io::Errno::TIMEDOUT)
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat() -> (Segment, Seat) {
        let segment = Segment::create("viaduct-test", PROCESS_BYTES).unwrap();
        let seat = Seat::of(&segment, SEATS - 1).unwrap();
        assert!(Seat::of(&segment, SEATS).is_none());
        (segment, seat)
    }

    #[test]
    fn what_a_thread_asks_for_arrives() {
        let (_segment, seat) = seat();
        assert!(seat.claim() && !seat.claim());
        seat.set_clock(10);
        assert!(seat.add_post(b"one"));
        seat.set_clock(12);
        assert!(seat.add_post(b""));
        seat.set_clock(20);
        seat.put_message(b"what");
        seat.set_doing(b"poll");
        assert!(!seat.has_given());
        seat.give(Request::Call, Some(30));
        assert!(seat.has_given());
        let asked = seat.asked(10).unwrap();
        assert_eq!(
            (asked.request, asked.clock, asked.until),
            (Request::Call, 20, Some(30))
        );
        assert_eq!(asked.posts, [(10, b"one".to_vec()), (12, Vec::new())]);
        assert_eq!(
            (asked.message, seat.doing()),
            (b"what".to_vec(), "poll".to_owned())
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let (_segment, seat) = seat();
        let refused = |text: &str| {
            let error = seat.asked(10).unwrap_err();
            assert!(error.contains(text), "{error}");
        };
        seat.set_clock(10);
        refused("unknown");
        seat.give(Request::Call, None);
        seat.head()
            .length
            .store(MESSAGE_BYTES_MAX as u32 + 1, Ordering::Relaxed);
        refused("longer");
        seat.head().length.store(0, Ordering::Relaxed);
        seat.head().posted.store(u32::MAX, Ordering::Relaxed);
        refused("longer");
        seat.head().posted.store(11, Ordering::Relaxed);
        refused("cut off");
        seat.head().posted.store(0, Ordering::Relaxed);
        seat.set_clock(9);
        refused("went back");
        seat.head().clock.store(TIME_MAX + 1, Ordering::Relaxed);
        refused("end of time");
        seat.set_clock(11);
        assert!(seat.add_post(b"early"));
        seat.set_clock(10);
        refused("did not run");
        seat.head().posted.store(14, Ordering::Relaxed);
        seat.set_clock(11);
        refused("cut off");
        seat.head().request.store(12, Ordering::Relaxed);
        refused("unknown");
    }

    #[test]
    fn an_interruption_is_told_once() {
        let (_segment, seat) = seat();
        assert!(!seat.take_interrupted());
        seat.interrupt();
        assert!(seat.take_interrupted() && !seat.take_interrupted());
    }

    #[test]
    fn a_wait_for_the_bell_says_whether_the_time_was_up() {
        let segment = Segment::create("viaduct-test", BELL_BYTES).unwrap();
        let bell = Bell::of(&segment).unwrap();
        let heard = bell.heard();
        assert!(bell.wait(heard, Duration::from_millis(1)));
        bell.ring();
        assert!(!bell.wait(heard, Duration::from_secs(60)));
    }

    #[test]
    fn posts_that_have_no_room_are_told_so() {
        let (_segment, seat) = seat();
        assert!(!seat.add_post(&vec![0; MESSAGE_BYTES_MAX - POST_HEAD_BYTES + 1]));
        assert!(seat.add_post(&vec![7; MESSAGE_BYTES_MAX - POST_HEAD_BYTES]));
        assert!(!seat.add_post(b""));
        seat.give(Request::Sleep, None);
        assert_eq!(seat.asked(0).unwrap().posts.len(), 1);
    }
}
