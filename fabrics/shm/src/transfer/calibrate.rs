//! Measuring what thresholds depend on.
//!
//! Two threads hand a buffer over and back: one writes a message and copies it into the buffer, the
//! other reads all of it, as an application would. The quickest of a few rounds counts, so that a
//! busy machine disturbs little. When the second thread does not come to run in time, nothing is
//! measured, and nothing waits for it.
//!
//! Two processes that are started together open their NICs together: an abstract socket address,
//! bound while one measures, has the other sleep meanwhile.

use std::fmt;
use std::hint::spin_loop;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::CpuSet;

use super::{Distance, Limits, NEVER};
use crate::cma;
use crate::copy;

/// What was measured; what was not is absent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calibration {
    /// From core to core, of the two threads.
    line_ns: Option<u32>,
    /// Handing over, in ascending order of bytes.
    handovers: Vec<Handover>,
    /// Of [`copy::timed_copy`]: into lines of our own, and into lines that the other core has read.
    timed_ticks: Option<(u32, u32)>,
    /// Of [`copy::timed_copy`] into lines of our own, for which no second thread is needed.
    own_ticks: Option<u32>,
    /// One copy by the kernel: of a byte, and of [`KERNEL_BYTES`].
    kernel_ns: Option<(u32, u32)>,
}

/// Copying into a buffer that its reader has touched, until all of it is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Handover {
    bytes: usize,
    ordinary_ns: u32,
    streaming_ns: u32,
}

impl Handover {
    /// Streaming needs at most so many hundredths of the time of ordinary stores.
    const fn streaming_needs(&self, percent: u64) -> bool {
        self.streaming_ns as u64 * 100 <= self.ordinary_ns as u64 * percent
    }
}

impl Calibration {
    /// Measures for a few milliseconds at most.
    pub(crate) fn run() -> Self {
        let _turn = turn();
        let mut calibration = Self {
            kernel_ns: kernel_copies(),
            own_ticks: own_copies(),
            ..Self::default()
        };
        if let Some(rig) = Rig::start() {
            calibration.line_ns = rig.line();
            calibration.timed_ticks = rig.timed();
            calibration.handovers = HANDOVER_BYTES
                .iter()
                .map_while(|bytes| rig.handover(*bytes))
                .collect();
        }
        calibration
    }

    /// One that knows the kernel's copies alone: of a byte, and of 64 KiB.
    #[cfg(test)]
    pub(super) fn of_kernel(call_ns: u32, block_ns: u32) -> Self {
        Self {
            kernel_ns: Some((call_ns, block_ns)),
            ..Self::default()
        }
    }

    /// How far apart the two threads were.
    pub(crate) fn distance(&self) -> Option<Distance> {
        self.line_ns
            .filter(|_| !self.handovers.is_empty())
            .map(Distance::of_line)
    }

    /// Between the two times that a timed copy can take; 0 when they cannot be told apart.
    pub(crate) fn watch_ticks(&self) -> u32 {
        match self.timed_ticks {
            Some((own, other)) if other > own + own / 2 => {
                (u64::from(own) * u64::from(other)).isqrt() as u32
            }
            _ => 0,
        }
    }

    /// More than a timed copy takes into lines of our own, and less than into others; 0 when that
    /// is not known or the two cannot be told apart.
    pub(crate) fn read_ticks(&self) -> u32 {
        match self.timed_ticks {
            Some(_) => self.watch_ticks(),
            None => self.own_ticks.map_or(0, |own| own * OWN_TIMES),
        }
    }

    /// What the kernel's copy of so many bytes takes inside one process.
    pub(crate) fn kernel_ns_of(&self, bytes: u64) -> Option<u64> {
        let (call, block) = self.kernel_ns?;
        let moved = u64::from(block.saturating_sub(call)) * bytes / KERNEL_BYTES as u64;
        Some(u64::from(call) + moved)
    }

    /// Replaces assumed limits by measured ones, if this is the distance that was measured.
    pub(crate) fn refine(&self, distance: Distance, limits: &mut Limits) {
        if self.distance() != Some(distance) {
            return;
        }
        let direct = |handover: &Handover| handover.streaming_needs(DIRECT_PERCENT);
        let is_long = |handover: &&Handover| handover.bytes >= DIRECT_STREAM_MIN;
        let mut long = self.handovers.iter().filter(is_long);
        let first = long.find(|handover| direct(handover));
        limits.direct_stream_from = first.map_or(NEVER, |handover| handover.bytes);
        if let Some(lost) = long.find(|handover| !direct(handover)) {
            limits.direct_stream_until = lost.bytes;
        }
        // A pool is written in chunks, so what holds for longer messages says nothing.
        let chunks = self.handovers.iter().filter(|h| h.bytes <= POOL_BYTES);
        let winning = chunks
            .rev()
            .take_while(|handover| handover.streaming_needs(POOL_PERCENT));
        limits.pool_stream_from = winning.last().map_or(NEVER, |handover| handover.bytes);
        self.refine_copies(limits);
    }

    /// Where the kernel's copy and its call cost what a hand-over through the pool does.
    ///
    /// Twice that many bytes, because the pool's reader works while its writer does, and what the
    /// kernel has copied is still in the caches of this core.
    fn refine_copies(&self, limits: &mut Limits) {
        let Some((call_ns, block_ns)) = self.kernel_ns else {
            return;
        };
        let block = self.handovers.iter().find(|h| h.bytes == KERNEL_BYTES);
        let Some(block) = block else {
            return;
        };
        let pool_ns = block.ordinary_ns.min(block.streaming_ns);
        // Both for the same bytes: what each byte costs more in the pool, times those bytes.
        let moved_ns = block_ns.saturating_sub(call_ns);
        let saved_ns = pool_ns.saturating_sub(moved_ns).max(1);
        let even = u64::from(call_ns) * KERNEL_BYTES as u64 / u64::from(saved_ns);
        limits.copy_from = (2 * even as usize).clamp(COPY_FROM_MIN, COPY_FROM_MAX);
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line_ns {
            Some(line) => writeln!(f, "  a cache line travels in {line} ns")?,
            None => writeln!(f, "  no second core was free to measure with")?,
        }
        if let Some((call, block)) = self.kernel_ns {
            writeln!(
                f,
                "  the kernel copies 1 B in {call} ns, {KERNEL_BYTES} B in {block} ns"
            )?;
        }
        for handover in &self.handovers {
            let Handover {
                bytes,
                ordinary_ns,
                streaming_ns,
            } = handover;
            writeln!(
                f,
                "  {bytes:>7} B handed over and read in {ordinary_ns} ns, \
                 streamed {streaming_ns} ns"
            )?;
        }
        if let Some((own, other)) = self.timed_ticks {
            let bytes = copy::WATCH_BYTES;
            writeln!(
                f,
                "  {bytes} B into lines of our own in {own} ticks, of another core {other}"
            )?;
        }
        Ok(())
    }
}

/// A timed copy into lines that nobody else has: the quickest of some.
fn own_copies() -> Option<u32> {
    let source = [1_u8; copy::WATCH_BYTES];
    let mut target = [0_u8; copy::WATCH_BYTES];
    // SAFETY: both arrays are as long as the copy.
    let once = |_| unsafe { copy::timed_copy(target.as_mut_ptr(), source.as_ptr()) };
    let ticks = (0..OWN_ROUNDS).map(once).min();
    ticks.filter(|ticks| *ticks > 0)
}

/// The kernel's copy inside this process: of a byte, and of a block.
fn kernel_copies() -> Option<(u32, u32)> {
    let pid = i32::try_from(std::process::id()).ok()?;
    let source = vec![1_u8; KERNEL_BYTES];
    let mut target = vec![0_u8; KERNEL_BYTES];
    let mut quickest = |bytes: usize| {
        let remote = [(target.as_mut_ptr() as u64, bytes as u64)];
        let mut best = u32::MAX;
        for _ in 0..KERNEL_ROUNDS {
            let start = Instant::now();
            // SAFETY: both vectors are longer than `bytes`, and borrowed by nobody else.
            unsafe { cma::write(pid, &[(source.as_ptr(), bytes)], &remote) }.ok()?;
            best = best.min(nanoseconds(start));
        }
        Some(best)
    };
    Some((quickest(1)?, quickest(KERNEL_BYTES)?))
}

/// A buffer, and a second thread that reads it whenever it is told to.
struct Rig {
    shared: Arc<Shared>,
    deadline: Instant,
}

/// What the two threads share: all of it atomics, or reached by the copies of [`crate::copy`].
struct Shared {
    /// A round's number, with the bytes to read in the lower half; [`GONE`] when the first thread
    /// has finished or given up.
    order: Line,
    /// The last order that is read; [`GONE`] when the second thread has nowhere to run.
    answer: Line,
    buffer: Box<[AtomicU64]>,
}

#[repr(align(128))]
struct Line(AtomicU64);

impl Rig {
    /// Starts the second thread; `None` when it does not run soon.
    fn start() -> Option<Self> {
        // Written once here, so that no page is missing later.
        let words = BUFFER_BYTES / size_of::<u64>();
        let shared = Arc::new(Shared {
            order: Line(AtomicU64::new(0)),
            answer: Line(AtomicU64::new(0)),
            buffer: (0..words).map(|_| AtomicU64::new(1)).collect(),
        });
        let rig = Self {
            shared: shared.clone(),
            deadline: Instant::now() + TIME_MAX,
        };
        let opener = rustix::thread::sched_getcpu();
        let thread = std::thread::Builder::new()
            .name("viaduct-measure".into())
            .stack_size(64 << 10)
            .spawn(move || {
                block_signals();
                let has_left = leave(opener);
                let answer = if has_left { LEFT } else { GONE };
                shared.answer.0.store(answer, Ordering::Release);
                if has_left {
                    shared.serve();
                }
            });
        // The thread ends by itself, see `Drop`; nobody waits for it.
        drop(thread.ok()?);
        // It begins on this processor where the program pinned the opener, and cannot leave as long
        // as the opener spins.
        while rig.shared.answer.0.load(Ordering::Acquire) == 0 {
            if Instant::now() > rig.deadline {
                return None;
            }
            std::thread::sleep(LEAVE_PAUSE);
        }
        rig.round(1, 0)?;
        Some(rig)
    }

    /// Has the other thread read `bytes`, and waits until it has.
    fn round(&self, number: u32, bytes: usize) -> Option<()> {
        let order = u64::from(number) << 32 | bytes as u64;
        self.shared.order.0.store(order, Ordering::Release);
        let mut spins = 0_u32;
        loop {
            match self.shared.answer.0.load(Ordering::Acquire) {
                GONE => return None,
                answer if answer == order => return Some(()),
                _ => {}
            }
            spins += 1;
            if spins.is_multiple_of(256) && Instant::now() > self.deadline {
                return None;
            }
            spin_loop();
        }
    }

    /// Half of a round trip of two lines.
    fn line(&self) -> Option<u32> {
        let mut best = u32::MAX;
        for group in 0..LINE_GROUPS {
            let start = Instant::now();
            for trip in 0..LINE_TRIPS {
                self.round(2 + group * LINE_TRIPS + trip, 0)?;
            }
            best = best.min(nanoseconds(start) / (2 * LINE_TRIPS));
        }
        Some(best)
    }

    /// A timed copy into our own lines, and into lines that the other thread has read, as it is
    /// at the beginning of a message that does not fit into the innermost cache.
    fn timed(&self) -> Option<(u32, u32)> {
        let mut source = vec![0_u8; TIMED_MESSAGE_BYTES];
        let target = self.target();
        let mut own = u32::MAX;
        let mut other = u32::MAX;
        for round in 0..ROUNDS {
            source.fill(round as u8);
            // SAFETY: inside the buffer; the other thread reads it by copies only.
            unsafe {
                copy::copy(target, source.as_ptr(), source.len());
                own = own.min(copy::timed_copy(target, source.as_ptr()));
            }
            self.round(FIRST_TIMED + round, source.len())?;
            // SAFETY: as above.
            unsafe { other = other.min(copy::timed_copy(target, source.as_ptr())) };
        }
        (own > 0).then_some((own, other))
    }

    fn handover(&self, bytes: usize) -> Option<Handover> {
        Some(Handover {
            bytes,
            ordinary_ns: self.quickest(bytes, false)?,
            streaming_ns: self.quickest(bytes, true)?,
        })
    }

    fn quickest(&self, bytes: usize, streaming: bool) -> Option<u32> {
        let mut source = vec![0_u8; bytes];
        let target = self.target();
        let mut best = u32::MAX;
        for round in 0..=ROUNDS {
            // The application writes its message.
            source.fill(round as u8);
            let start = Instant::now();
            // SAFETY: the buffer is as long as the longest message; the other thread reads it by
            // copies only.
            unsafe {
                if streaming {
                    copy::copy_non_temporal(target, source.as_ptr(), bytes);
                } else {
                    copy::copy(target, source.as_ptr(), bytes);
                }
            }
            self.round(FIRST_HANDOVER + round + u32::from(streaming) * 64, bytes)?;
            // The first round finds the lines as the last measurement left them.
            if round > 0 {
                best = best.min(nanoseconds(start));
            }
        }
        Some(best)
    }

    fn target(&self) -> *mut u8 {
        self.shared.buffer.as_ptr().cast_mut().cast()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.shared.order.0.store(GONE, Ordering::Release);
    }
}

impl Shared {
    /// The second thread: reads as it is told, until it is told to go.
    fn serve(&self) {
        let mut scratch = [0_u8; 4096];
        let mut last = 0;
        loop {
            let order = self.order.0.load(Ordering::Acquire);
            if order == GONE {
                return;
            }
            if order == last {
                spin_loop();
                continue;
            }
            last = order;
            let bytes = (order as u32 as usize).min(BUFFER_BYTES);
            let buffer: *const u8 = self.buffer.as_ptr().cast();
            for start in (0..bytes).step_by(scratch.len()) {
                let part = scratch.len().min(bytes - start);
                // SAFETY: inside the buffer and the scratch; the first thread writes by copies.
                unsafe { copy::copy(scratch.as_mut_ptr(), buffer.add(start), part) };
            }
            self.answer.0.store(order, Ordering::Release);
        }
    }
}

/// Signals of the program are none of this thread's business.
fn block_signals() {
    // SAFETY: an empty set is filled before it is used, and no old mask is asked for.
    unsafe {
        let mut all = std::mem::MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut());
    }
}

/// Moves this thread to any processor but one, also from where the program pinned the opener:
/// what is measured is the way to a peer, which has a processor of its own.
fn leave(opener: usize) -> bool {
    let mut others = CpuSet::new();
    (0..CpuSet::MAX_CPU)
        .filter(|processor| *processor != opener)
        .for_each(|processor| others.set(processor));
    rustix::thread::sched_setaffinity(None, &others).is_ok()
}

/// Waits until no other process measures; `None` when one does so for too long.
fn turn() -> Option<UnixDatagram> {
    let address = SocketAddr::from_abstract_name("viaduct-measure").ok()?;
    for _ in 0..TURN_ATTEMPTS {
        match UnixDatagram::bind_addr(&address) {
            Ok(socket) => return Some(socket),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                std::thread::sleep(TURN_PAUSE);
            }
            Err(_) => return None,
        }
    }
    None
}

fn nanoseconds(since: Instant) -> u32 {
    u32::try_from(since.elapsed().as_nanos()).unwrap_or(u32::MAX)
}

/// After this the second thread is not waited for any more.
const TIME_MAX: Duration = Duration::from_micros(4500);
/// As long as some measurements take. Whoever keeps the address for longer is not waited for.
const TURN_ATTEMPTS: u32 = 20;
const TURN_PAUSE: Duration = Duration::from_millis(1);
/// Between two looks whether the second thread has its processor.
const LEAVE_PAUSE: Duration = Duration::from_micros(50);
const HANDOVER_BYTES: [usize; 5] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
const BUFFER_BYTES: usize = 256 << 10;
const TIMED_MESSAGE_BYTES: usize = 64 << 10;
const ROUNDS: u32 = 4;
const LINE_GROUPS: u32 = 8;
const LINE_TRIPS: u32 = 32;
/// Numbers of rounds: each kind has its own, so that an order always differs from the last.
const FIRST_TIMED: u32 = 1000;
const FIRST_HANDOVER: u32 = 2000;
const GONE: u64 = u64::MAX;
/// What the second thread answers before the first order.
const LEFT: u64 = 1;

/// A direct copy that may stream is watched, which costs some 0.1 us even when nobody has touched
/// the buffer: shorter ones are not, nor is it done for a small gain.
const DIRECT_PERCENT: u64 = 85;
const DIRECT_STREAM_MIN: usize = 4 << 10;
/// Streaming into the pool costs nothing but what was measured.
const POOL_PERCENT: u64 = 95;
/// Chunks of a pool are not longer.
const POOL_BYTES: usize = 64 << 10;

const KERNEL_BYTES: usize = 64 << 10;
const KERNEL_ROUNDS: u32 = 8;
const OWN_ROUNDS: u32 = 16;
/// Into lines of our own a copy takes up to so many times the quickest, since they come from outer
/// caches: on a machine whose quickest took 52 ticks 68 to 208 were seen, into lines that a near
/// core had read 266 and more.
const OWN_TIMES: u32 = 4;
/// The kernel's copy moves whole pages best, and beyond the pool's chunks it always pays.
const COPY_FROM_MIN: usize = 4 << 10;
const COPY_FROM_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::super::DEFAULT_LIMITS;
    use super::*;

    /// Latencies with touched data, in nanoseconds: a machine with distant cores, the same with
    /// near ones, one on a mesh, and one on which streaming never pays.
    const FAR: &[(usize, u32, u32)] = &[
        (1024, 778, 729),
        (4096, 2500, 1740),
        (16_384, 9700, 3170),
        (65_536, 36_000, 8650),
        (262_144, 131_000, 30_200),
    ];
    const NEAR: &[(usize, u32, u32)] = &[
        (1024, 258, 608),
        (4096, 776, 1550),
        (16_384, 3040, 3070),
        (65_536, 12_500, 9000),
        (262_144, 27_300, 36_100),
    ];
    const MEDIUM: &[(usize, u32, u32)] = &[
        (1024, 688, 723),
        (4096, 1233, 1221),
        (16_384, 3612, 2929),
        (65_536, 11_224, 10_580),
        (262_144, 29_097, 38_371),
    ];
    const NEVER_PAYS: &[(usize, u32, u32)] = &[
        (1024, 690, 920),
        (4096, 2120, 2520),
        (16_384, 7500, 8940),
        (65_536, 29_060, 35_400),
        (262_144, 104_410, 106_950),
    ];

    fn measured(line_ns: u32, handovers: &[(usize, u32, u32)]) -> Calibration {
        Calibration {
            line_ns: Some(line_ns),
            handovers: handovers
                .iter()
                .map(|&(bytes, ordinary_ns, streaming_ns)| Handover {
                    bytes,
                    ordinary_ns,
                    streaming_ns,
                })
                .collect(),
            timed_ticks: None,
            own_ticks: None,
            kernel_ns: Some((1470, 5740)),
        }
    }

    fn refined(calibration: &Calibration, distance: Distance) -> Limits {
        let mut limits = DEFAULT_LIMITS[distance as usize];
        calibration.refine(distance, &mut limits);
        limits
    }

    #[test]
    fn limits_follow_what_was_measured() {
        let far = refined(&measured(200, FAR), Distance::Far);
        assert_eq!(far.direct_stream_from, 4096, "shorter ones are not watched");
        assert_eq!(far.direct_stream_until, NEVER);
        assert_eq!(far.pool_stream_from, 1024);
        // 1470 ns at (8650 - 4270) ns for 64 KiB are 21,994 bytes.
        assert_eq!(far.copy_from, 2 * 21_994);

        let near = refined(&measured(50, NEAR), Distance::Near);
        assert_eq!(near.direct_stream_from, 65_536);
        assert_eq!(near.direct_stream_until, 262_144);
        assert_eq!(near.pool_stream_from, 65_536);

        let medium = refined(&measured(130, MEDIUM), Distance::Near);
        assert_eq!(medium.direct_stream_from, 16_384);
        assert_eq!(medium.direct_stream_until, 65_536);
        assert_eq!(medium.pool_stream_from, 16_384);

        let never = refined(&measured(170, NEVER_PAYS), Distance::Far);
        assert_eq!(never.direct_stream_from, NEVER);
        assert_eq!(never.pool_stream_from, NEVER);
        assert_eq!(never.copy_from, 7772);
    }

    #[test]
    fn the_other_distance_and_what_was_not_measured_stay_assumed() {
        let far = measured(200, FAR);
        assert_eq!(refined(&far, Distance::Near), DEFAULT_LIMITS[0]);
        let nothing = Calibration::default();
        assert_eq!(nothing.distance(), None);
        assert_eq!(refined(&nothing, Distance::Far), DEFAULT_LIMITS[1]);
        let interrupted = measured(200, &FAR[..2]);
        let limits = refined(&interrupted, Distance::Far);
        assert_eq!(limits.copy_from, DEFAULT_LIMITS[1].copy_from);
        let forbidden = Calibration {
            kernel_ns: None,
            ..far
        };
        let limits = refined(&forbidden, Distance::Far);
        assert_eq!(limits.copy_from, DEFAULT_LIMITS[1].copy_from);
    }

    #[test]
    fn a_timed_copy_is_watched_when_it_tells_something() {
        let with = |timed_ticks| Calibration {
            timed_ticks,
            ..Calibration::default()
        };
        assert_eq!(with(Some((100, 900))).watch_ticks(), 300);
        assert_eq!(with(Some((100, 140))).watch_ticks(), 0);
        assert_eq!(with(Some((900, 100))).watch_ticks(), 0);
        assert_eq!(with(None).watch_ticks(), 0);
    }

    #[test]
    fn what_was_read_is_told_by_one_thread_if_there_is_no_second() {
        let mut calibration = Calibration {
            own_ticks: Some(120),
            ..Calibration::default()
        };
        assert_eq!(calibration.read_ticks(), 480);
        calibration.timed_ticks = Some((100, 900));
        assert_eq!(calibration.read_ticks(), 300);
        calibration.timed_ticks = Some((100, 140));
        assert_eq!(
            calibration.read_ticks(),
            0,
            "one cannot be told from the other"
        );
    }

    #[test]
    fn a_second_thread_that_does_not_come_is_not_waited_for() {
        let shared = Arc::new(Shared {
            order: Line(AtomicU64::new(0)),
            answer: Line(AtomicU64::new(0)),
            buffer: Box::new([]),
        });
        let rig = Rig {
            shared: shared.clone(),
            deadline: Instant::now(),
        };
        assert_eq!(rig.round(1, 0), None);
        assert_eq!(rig.line(), None);
        drop(rig);
        // It would come now, and go at once.
        shared.serve();
    }

    #[test]
    fn a_second_thread_that_has_nowhere_to_run_says_so() {
        let rig = Rig {
            shared: Arc::new(Shared {
                order: Line(AtomicU64::new(0)),
                answer: Line(AtomicU64::new(GONE)),
                buffer: Box::new([]),
            }),
            deadline: Instant::now() + Duration::from_secs(3600),
        };
        assert_eq!(rig.round(1, 0), None);
    }

    #[test]
    fn a_program_that_keeps_to_one_processor_can_be_measured() {
        if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
            return;
        }
        let starts = std::thread::spawn(|| {
            let mut own = CpuSet::new();
            own.set(rustix::thread::sched_getcpu());
            rustix::thread::sched_setaffinity(None, &own).expect("pinned");
            let priority = libc::sched_param { sched_priority: 1 };
            // SAFETY: the parameters live as long as the call. Where it is not allowed the thread
            // is an ordinary one, which gives way to another sooner or later.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
            (0..50).any(|_| Rig::start().is_some())
        });
        assert!(starts.join().expect("no panic"));
    }

    #[test]
    fn a_machine_can_be_measured() {
        let start = Instant::now();
        let calibration = Calibration::run();
        println!("{calibration}  measured in {} ns", nanoseconds(start));
        let bytes = calibration.handovers.iter().map(|h| h.bytes);
        assert!(HANDOVER_BYTES.starts_with(&bytes.collect::<Vec<_>>()));
        if let Some((call, block)) = calibration.kernel_ns {
            assert!(0 < call && call < block);
        }
    }
}
