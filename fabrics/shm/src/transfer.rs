//! Which way a message takes.
//!
//! | mechanism | copies | reaches | pays |
//! |---|---|---|---|
//! | [`Mechanism::Inline`] | 2 | every peer | for a few cache lines, which travel with the slot |
//! | [`Mechanism::Direct`] | 1 | shared memory of trusted peers | whenever it is possible |
//! | [`Mechanism::Copy`] | 1 | private memory of trusted peers | from [`Limits::copy_from`] |
//! | [`Mechanism::Pool`] | 2 | every peer | for all that is left |
//!
//! A copy into memory that another core has touched can be made by ordinary or by streaming stores
//! ([`crate::copy`]). Which is quicker, and from how many bytes, depends on the processor and on
//! where the two cores are: on one machine streaming was five times as fast between distant cores,
//! on another it never paid. So it is measured when a process opens its first NIC, between two
//! threads ([`calibrate`]), for the distance that these happen to have; for the other distance the
//! figures of a machine that was measured with care stand in.
//!
//! One copy is the quickest into a buffer that nobody reads, and two through the pool into one that
//! is read at once. Whether it is, a sender finds out now and then ([`crate::send`]).
//!
//! `VIADUCT_TRANSFER` forces a mechanism; `VIADUCT_THRESHOLDS` sets single thresholds, for instance
//! `copy-from=16384,direct-stream-from=never`, and with `show` has them written to standard error.

mod calibrate;

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use viaduct_provider::is_near_line;

use self::calibrate::Calibration;
use crate::copy;

/// How a message is moved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mechanism {
    /// In the slots of the transfer queue.
    Inline,
    /// Through the pool of the link.
    Pool,
    /// Straight into the buffer, which lies in shared memory.
    Direct,
    /// Straight into the buffer, by the kernel.
    Copy,
}

/// What a user asks for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum TransferChoice {
    /// The quickest, message by message.
    #[default]
    Auto,
    /// Always in slots, as far as they take it; then through the pool.
    Inline,
    /// Always through the pool.
    Pool,
    /// Always direct where a buffer can be reached so, else through the pool.
    Direct,
    /// Always by the kernel where it may, else through the pool.
    Copy,
}

/// How far apart the two cores of a link are.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Distance {
    /// A cache line travels in less than [`viaduct_provider::NEAR_LINE_BELOW_NS`].
    #[default]
    Near,
    /// It takes longer.
    Far,
}

impl Distance {
    /// From the time that one cache line takes from core to core.
    pub(crate) fn of_line(nanoseconds: u32) -> Self {
        if is_near_line(nanoseconds.into()) {
            Self::Near
        } else {
            Self::Far
        }
    }
}

/// How the receiver's buffer can be reached from here.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Reach {
    /// It lies in a segment that is mapped here.
    pub(crate) direct: bool,
    /// The kernel copies between the two processes.
    pub(crate) cma: bool,
}

/// What was chosen for one message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Plan {
    /// The way.
    pub(crate) mechanism: Mechanism,
    /// Write by streaming stores.
    pub(crate) non_temporal: bool,
    /// Another core has the lines to write: ask for them ahead.
    pub(crate) is_ahead: bool,
    /// Unless 0: begin with ordinary stores, and stream when they take longer than so many ticks.
    pub(crate) watch_ticks: u32,
}

impl Plan {
    /// Copies as planned, into a buffer or a pool.
    ///
    /// # Safety
    ///
    /// As [`copy::copy`].
    #[inline]
    pub(crate) unsafe fn copy(&self, target: *mut u8, source: *const u8, length: usize) {
        // SAFETY: as promised by the caller.
        unsafe {
            if self.non_temporal {
                copy::copy_non_temporal(target, source, length);
            } else if self.watch_ticks != 0 {
                copy::copy_watched(target, source, length, self.watch_ticks);
            } else if self.is_ahead {
                copy::copy_ahead(target, source, length);
            } else {
                copy::copy(target, source, length);
            }
        }
    }
}

/// Whether a receiver's program is known to have read a buffer since it was last written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Read {
    /// No.
    No,
    /// Yes, and its core may have the lines in the innermost cache.
    JustNow,
    /// Yes, longer ago.
    Before,
}

/// Where one way begins to pay, for one distance. Bytes; [`NEVER`] where it does not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Limits {
    /// Into a posted buffer: streaming pays from here, if the receiver has touched it.
    pub(crate) direct_stream_from: usize,
    /// And up to here: longer messages leave the receiver's caches by themselves.
    pub(crate) direct_stream_until: usize,
    /// Into the pool, which the receiver has always touched: streaming pays from here.
    pub(crate) pool_stream_from: usize,
    /// One copy by the kernel is quicker than two through the pool from here.
    pub(crate) copy_from: usize,
}

/// Where each way begins to pay.
#[derive(Clone, Debug)]
pub(crate) struct Thresholds {
    inline_bytes: usize,
    /// By distance.
    limits: [Limits; 2],
    watch_ticks: u32,
    /// A timed copy of more has met lines that another core had read; 0 when nothing tells.
    read_ticks: u32,
    is_direct: bool,
    choice: TransferChoice,
    /// Whether the user wants to see them.
    is_shown: bool,
    calibration: Calibration,
}

impl Thresholds {
    /// Those of this process, measured at the first call and then kept.
    ///
    /// When the machine was too busy, the next call tries again, a few times. What the environment
    /// asks for and cannot be read is told on standard error, once, and left out.
    pub(crate) fn of_process() -> Arc<Self> {
        static THRESHOLDS: Mutex<(u32, Option<Arc<Thresholds>>)> = Mutex::new((0, None));
        let mut kept = THRESHOLDS.lock().unwrap_or_else(PoisonError::into_inner);
        let (attempts, thresholds) = &mut *kept;
        let is_final = |kept: &Self| kept.calibration.distance().is_some();
        if let Some(kept) = thresholds
            && (is_final(kept) || *attempts >= ATTEMPTS_MAX)
        {
            return kept.clone();
        }
        let mut made = Self::measure();
        for complaint in made.obey(|name| std::env::var_os(name)) {
            if *attempts == 0 {
                eprintln!("viaduct: {complaint}");
            }
        }
        if made.is_shown {
            eprint!("viaduct: ways of a message\n{made}");
        }
        *attempts += 1;
        thresholds.insert(Arc::new(made)).clone()
    }

    /// Follows the environment; tells what it could not read.
    fn obey(&mut self, variable: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
        let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
        let mut complaints = Vec::new();
        if let Some(text) = text(THRESHOLDS_VARIABLE)
            && let Err(error) = self.set(&text)
        {
            complaints.push(format!("{THRESHOLDS_VARIABLE}: {error}"));
        }
        if let Some(text) = text(TRANSFER_VARIABLE) {
            match text.parse() {
                Ok(choice) => *self = self.clone().force(choice),
                Err(error) => complaints.push(format!("{TRANSFER_VARIABLE}: {error}")),
            }
        }
        complaints
    }

    /// Measures this machine: a few milliseconds.
    pub(crate) fn measure() -> Self {
        Self::from_calibration(Calibration::run())
    }

    fn from_calibration(calibration: Calibration) -> Self {
        let mut limits = DEFAULT_LIMITS;
        for (distance, limits) in [Distance::Near, Distance::Far].into_iter().zip(&mut limits) {
            calibration.refine(distance, limits);
        }
        Self {
            inline_bytes: INLINE_BYTES,
            limits,
            watch_ticks: calibration.watch_ticks(),
            read_ticks: calibration.read_ticks(),
            is_direct: true,
            choice: TransferChoice::Auto,
            is_shown: false,
            calibration,
        }
    }

    /// The same, but with one way forced where it is possible.
    #[must_use]
    pub(crate) fn force(mut self, choice: TransferChoice) -> Self {
        self.choice = choice;
        self.inline_bytes = match choice {
            TransferChoice::Auto => self.inline_bytes,
            TransferChoice::Inline => INLINE_BYTES_FORCED,
            // A message of no bytes needs no place but the slot.
            TransferChoice::Pool | TransferChoice::Direct | TransferChoice::Copy => 0,
        };
        self.is_direct = matches!(choice, TransferChoice::Auto | TransferChoice::Direct);
        for limits in &mut self.limits {
            limits.copy_from = match choice {
                TransferChoice::Auto => limits.copy_from,
                TransferChoice::Copy => 0,
                _ => NEVER,
            };
        }
        self
    }

    /// Messages up to so many bytes go in the slots.
    #[inline]
    pub(crate) fn inline_bytes(&self) -> usize {
        self.inline_bytes.min(crate::channel::INLINE_BYTES_MAX)
    }

    /// The way for a message of so many bytes.
    #[inline]
    pub(crate) fn choose(&self, bytes: usize, reach: Reach, distance: Distance) -> Plan {
        let limits = &self.limits[distance as usize];
        let mut plan = Plan {
            mechanism: Mechanism::Inline,
            non_temporal: false,
            is_ahead: false,
            watch_ticks: 0,
        };
        if bytes <= self.inline_bytes {
            return plan;
        }
        if reach.direct && self.is_direct {
            plan.mechanism = Mechanism::Direct;
            if bytes >= limits.direct_stream_from && bytes < limits.direct_stream_until {
                plan.watch_ticks = self.watch_ticks;
            }
        } else if reach.cma && bytes >= limits.copy_from {
            plan.mechanism = Mechanism::Copy;
        } else {
            plan.mechanism = Mechanism::Pool;
            plan.non_temporal = bytes >= limits.pool_stream_from;
            // A pool's reader has always read it.
            plan.is_ahead = !plan.non_temporal;
        }
        plan
    }

    /// Whether a message that could be placed as planned goes through the pool all the same.
    ///
    /// Where streaming pays, a direct copy first has to find out whether its buffer was touched, by
    /// ordinary stores that are timed. Of a short message that is too large a part: it would take
    /// longer than one in private memory, which streams into the pool without asking. Elsewhere it
    /// depends on what the program does with the bytes; see [`READ_DIRECT_MIN`].
    #[inline]
    pub(crate) fn prefers_pool(
        &self,
        bytes: usize,
        plan: &Plan,
        distance: Distance,
        read: Read,
    ) -> bool {
        let limits = &self.limits[distance as usize];
        let is_quicker = match plan.mechanism {
            Mechanism::Direct if plan.watch_ticks != 0 => {
                bytes < WATCHED_BYTES_MIN && bytes >= limits.pool_stream_from
            }
            Mechanism::Direct => read == Read::JustNow && bytes >= READ_DIRECT_MIN,
            Mechanism::Copy => read != Read::No && bytes <= READ_COPY_MAX,
            Mechanism::Inline | Mechanism::Pool => false,
        };
        is_quicker && self.choice == TransferChoice::Auto
    }

    /// Whether the time of a copy as planned tells if its buffer was read.
    #[inline]
    pub(crate) fn can_tell(&self, bytes: usize, plan: &Plan) -> bool {
        match plan.mechanism {
            Mechanism::Direct => {
                self.read_ticks != 0 && plan.watch_ticks == 0 && bytes >= copy::WATCH_BYTES
            }
            Mechanism::Copy => {
                self.calibration.kernel_ns_of(bytes as u64).is_some() && bytes <= READ_COPY_MAX
            }
            Mechanism::Inline | Mechanism::Pool => false,
        }
    }

    /// What the ticks of a [`copy::timed_copy`] say.
    pub(crate) const fn was_read(&self, ticks: u32) -> bool {
        ticks > self.read_ticks
    }

    /// What the time of a copy by the kernel says.
    pub(crate) fn kernel_found_read(&self, bytes: u64, time: Duration) -> bool {
        let own = self.calibration.kernel_ns_of(bytes);
        own.is_some_and(|own_ns| time.as_nanos() * 100 > u128::from(own_ns) * KERNEL_READ_PERCENT)
    }

    /// The distance that was measured: the best guess for a link whose own is not known.
    pub(crate) fn distance(&self) -> Distance {
        self.calibration.distance().unwrap_or_default()
    }

    /// What the user asked for.
    #[cfg(test)]
    const fn choice(&self) -> TransferChoice {
        self.choice
    }

    /// Sets thresholds by hand, for both distances: `name=bytes` or `name=never`, with commas
    /// between; `show` has them shown.
    ///
    /// # Errors
    ///
    /// The part that is wrong; those before it are set.
    pub(crate) fn set(&mut self, text: &str) -> Result<(), ThresholdError> {
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            if part == "show" {
                self.is_shown = true;
                continue;
            }
            let wrong = || ThresholdError { part: part.into() };
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let bytes = match value.trim() {
                "never" => NEVER,
                number => number.parse().map_err(|_| wrong())?,
            };
            match name.trim() {
                "inline" => self.inline_bytes = bytes.min(INLINE_BYTES_FORCED),
                "direct-stream-from" => self.each(|limits| limits.direct_stream_from = bytes),
                "direct-stream-until" => self.each(|limits| limits.direct_stream_until = bytes),
                "pool-stream-from" => self.each(|limits| limits.pool_stream_from = bytes),
                "copy-from" => self.each(|limits| limits.copy_from = bytes),
                _ => return Err(wrong()),
            }
        }
        Ok(())
    }

    fn each(&mut self, change: impl FnMut(&mut Limits)) {
        self.limits.iter_mut().for_each(change);
    }
}

impl fmt::Display for Thresholds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [near, far] = &self.limits;
        writeln!(f, "transfer: {}", self.choice)?;
        let mut row =
            |name: &str, near: String, far: String| writeln!(f, "  {name:<22}{near:>22}{far:>22}");
        let origin = |distance| {
            if self.calibration.distance() == Some(distance) {
                "measured"
            } else {
                "assumed"
            }
        };
        row(
            "",
            format!("near ({})", origin(Distance::Near)),
            format!("far ({})", origin(Distance::Far)),
        )?;
        let inline = format!("to {} B", self.inline_bytes);
        row("inline", inline.clone(), inline)?;
        let range = |limits: &Limits| match limits.direct_stream_until {
            _ if limits.direct_stream_from == NEVER => "never".to_owned(),
            NEVER => from(limits.direct_stream_from),
            until => format!("{} to {until} B", limits.direct_stream_from),
        };
        row("direct, may stream", range(near), range(far))?;
        let pool = |limits: &Limits| from(limits.pool_stream_from);
        row("pool, streams", pool(near), pool(far))?;
        let kernel = |limits: &Limits| from(limits.copy_from);
        row("kernel's copy", kernel(near), kernel(far))?;
        write!(f, "{}", self.calibration)
    }
}

fn from(bytes: usize) -> String {
    match bytes {
        NEVER => "never".to_owned(),
        bytes => format!("from {bytes} B"),
    }
}

/// Part of a list of thresholds that says nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ThresholdError {
    part: String,
}

impl fmt::Display for ThresholdError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "\"{}\" sets no threshold: write name=BYTES or name=never, where name is inline, \
             direct-stream-from, direct-stream-until, pool-stream-from or copy-from; show \
             shows them",
            self.part,
        )
    }
}

impl std::error::Error for ThresholdError {}

/// A word that names no way to transfer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct TransferChoiceError {
    word: String,
}

impl fmt::Display for TransferChoiceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "\"{}\" is no way to transfer: write auto, inline, pool, direct or copy",
            self.word,
        )
    }
}

impl std::error::Error for TransferChoiceError {}

impl FromStr for TransferChoice {
    type Err = TransferChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = text.trim();
        let named = |choice: &&Self| choice.word().eq_ignore_ascii_case(word);
        Self::ALL
            .iter()
            .find(named)
            .copied()
            .ok_or_else(|| TransferChoiceError { word: word.into() })
    }
}

impl TransferChoice {
    const ALL: [Self; 5] = [
        Self::Auto,
        Self::Inline,
        Self::Pool,
        Self::Direct,
        Self::Copy,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Inline => "inline",
            Self::Pool => "pool",
            Self::Direct => "direct",
            Self::Copy => "copy",
        }
    }
}

impl fmt::Display for TransferChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.word())
    }
}

/// A threshold that no message reaches.
pub(crate) const NEVER: usize = usize::MAX;
/// Inline and direct take the same time at 256 bytes, measured on an EPYC of 2022 (0.166 and
/// 0.162 us near, data touched); below, inline is ahead by up to a third.
const INLINE_BYTES: usize = 240;
/// More never goes inline: it is the most that 16 slots hold.
const INLINE_BYTES_FORCED: usize = 48 + 15 * 56;

/// What holds for a distance that is not measured. From the same EPYC, medians of latency and
/// bandwidth, data touched on both sides:
///
/// - direct: near, streaming wins from 16 KiB (9.0 us against 12.5 at 64 KiB) and loses again from
///   1 MiB; far, it wins from 4 KiB (1.7 us against 2.5, and 8.7 against 36 at 64 KiB) and never
///   loses again;
/// - pool: near, streaming never wins by much; far, from 256 bytes (3.1 us against 9.7 at 16 KiB);
/// - the kernel's copy costs 1.5 us more than it moves, and breaks even with two copies at 16 to
///   32 KiB near; far, two streamed copies stay ahead for longer.
const DEFAULT_LIMITS: [Limits; 2] = [
    Limits {
        direct_stream_from: 16 << 10,
        direct_stream_until: 512 << 10,
        pool_stream_from: NEVER,
        copy_from: 32 << 10,
    },
    Limits {
        direct_stream_from: 4 << 10,
        direct_stream_until: NEVER,
        pool_stream_from: copy::NON_TEMPORAL_BYTES_MIN,
        copy_from: 64 << 10,
    },
];

/// Shorter messages are not watched where the pool streams: a stretch that is timed is a quarter of
/// 4 KiB.
const WATCHED_BYTES_MIN: usize = 16 << 10;

/// A buffer that was just read is taken away from its reader's innermost cache, line by line, and
/// read again by its program, at a time: from here on the pool is quicker. Half round trips over
/// one buffer that is read, direct and pool, near: 2 KiB 0.77 and 0.80 us, 4 KiB 1.13 and 1.08, 16
/// KiB 3.3 and 2.7, 64 KiB 11.7 and 9.4; messages into 64 buffers in turn: 16 KiB 14.8 and 10.3
/// GB/s.
pub(crate) const READ_DIRECT_MIN: usize = 4 << 10;
/// Two copies through the pool are quicker than the kernel's one into a buffer that is read: 8 KiB
/// 1.75 and 2.69 us, 64 KiB 9.3 and 14.2, 256 KiB 29 and 34, 512 KiB 89 and 104, 1 MiB 170 and 169
/// or 198 and 230, by the program. Where nobody reads it is the other way round: 64 KiB 6.8 and
/// 2.9, 1 MiB 110 and 54. Up to here the kernel's copy tells one from the other: 512 KiB take 16 to
/// 21 and 35 to 42 us; 1 MiB, which with its source fills a core's caches, 49 to 66 and 69 to 86.
const READ_COPY_MAX: usize = 512 << 10;
/// The kernel's copy takes so many hundredths of the time inside one process when its lines have to
/// be taken from a core that read them: 210 to 300 were measured, and up to 130 where nobody did.
const KERNEL_READ_PERCENT: u128 = 160;

/// How often a process measures before it takes what it has.
const ATTEMPTS_MAX: u32 = 4;
const TRANSFER_VARIABLE: &str = "VIADUCT_TRANSFER";
const THRESHOLDS_VARIABLE: &str = "VIADUCT_THRESHOLDS";

#[cfg(test)]
mod tests {
    use super::*;

    fn assumed() -> Thresholds {
        Thresholds::from_calibration(Calibration::default())
    }

    const MAPPED: Reach = Reach {
        direct: true,
        cma: false,
    };
    const PRIVATE: Reach = Reach {
        direct: false,
        cma: true,
    };
    const HIDDEN: Reach = Reach {
        direct: false,
        cma: false,
    };

    #[test]
    fn each_way_is_taken_where_it_pays() {
        use Distance::{Far, Near};
        let thresholds = assumed();
        let way = |bytes, reach, distance| thresholds.choose(bytes, reach, distance).mechanism;
        for reach in [MAPPED, PRIVATE, HIDDEN] {
            assert_eq!(way(0, reach, Near), Mechanism::Inline);
            assert_eq!(way(240, reach, Far), Mechanism::Inline);
        }
        assert_eq!(way(241, MAPPED, Near), Mechanism::Direct);
        assert_eq!(way(usize::MAX, MAPPED, Far), Mechanism::Direct);
        assert_eq!(way(241, PRIVATE, Near), Mechanism::Pool);
        assert_eq!(way(32_767, PRIVATE, Near), Mechanism::Pool);
        assert_eq!(way(32_768, PRIVATE, Near), Mechanism::Copy);
        assert_eq!(way(32_768, PRIVATE, Far), Mechanism::Pool);
        assert_eq!(way(1 << 30, HIDDEN, Near), Mechanism::Pool);
    }

    #[test]
    fn a_mesh_is_near_as_it_is_to_the_bench() {
        let distance = |line_ns| Distance::of_line(line_ns);
        for near in [33, 60, 118, 152] {
            assert_eq!(distance(near), Distance::Near, "{near} ns");
        }
        for far in [180, 270] {
            assert_eq!(distance(far), Distance::Far, "{far} ns");
        }
    }

    #[test]
    fn streaming_begins_and_ends_at_its_limits() {
        use Distance::{Far, Near};
        let mut thresholds = assumed();
        thresholds.watch_ticks = 300;
        let plan = |bytes, reach, distance| {
            let plan = thresholds.choose(bytes, reach, distance);
            (plan.watch_ticks, plan.non_temporal)
        };
        assert_eq!(plan((16 << 10) - 1, MAPPED, Near), (0, false));
        assert_eq!(plan(16 << 10, MAPPED, Near), (300, false));
        assert_eq!(plan((512 << 10) - 1, MAPPED, Near), (300, false));
        assert_eq!(plan(512 << 10, MAPPED, Near), (0, false));
        assert_eq!(plan(4095, MAPPED, Far), (0, false));
        assert_eq!(plan(1 << 30, MAPPED, Far), (300, false));
        assert_eq!(plan(255, HIDDEN, Far), (0, false));
        assert_eq!(plan(256, HIDDEN, Far), (0, true));
        assert_eq!(plan(1 << 30, HIDDEN, Near), (0, false));
    }

    #[test]
    fn library_memory_is_not_slower_than_private_memory_where_streaming_pays() {
        use Distance::{Far, Near};
        let mut thresholds = assumed();
        thresholds.watch_ticks = 300;
        let prefers_pool = |thresholds: &Thresholds, bytes, distance| {
            let plan = thresholds.choose(bytes, MAPPED, distance);
            thresholds.prefers_pool(bytes, &plan, distance, Read::No)
        };
        assert!(!prefers_pool(&thresholds, 4095, Far), "ordinary stores");
        assert!(prefers_pool(&thresholds, 4096, Far));
        assert!(prefers_pool(&thresholds, (16 << 10) - 1, Far));
        assert!(!prefers_pool(&thresholds, 16 << 10, Far), "long enough");
        assert!(!prefers_pool(&thresholds, 16 << 10, Near));
        let forced = thresholds.clone().force(TransferChoice::Direct);
        assert!(!prefers_pool(&forced, 4096, Far));
        thresholds.set("pool-stream-from=never").unwrap();
        assert!(!prefers_pool(&thresholds, 4096, Far));
    }

    #[test]
    fn what_is_read_at_once_goes_through_the_pool() {
        use Distance::Near;
        let thresholds = assumed();
        let prefers_pool = |thresholds: &Thresholds, bytes, reach, read| {
            let plan = thresholds.choose(bytes, reach, Near);
            thresholds.prefers_pool(bytes, &plan, Near, read)
        };
        for (bytes, reach, read, expected) in [
            (4095, MAPPED, Read::JustNow, false),
            (4096, MAPPED, Read::JustNow, true),
            (4096, MAPPED, Read::Before, false),
            (4096, MAPPED, Read::No, false),
            (512 << 10, PRIVATE, Read::JustNow, true),
            (512 << 10, PRIVATE, Read::Before, true),
            (512 << 10, PRIVATE, Read::No, false),
            ((512 << 10) + 1, PRIVATE, Read::Before, false),
        ] {
            let is_preferred = prefers_pool(&thresholds, bytes, reach, read);
            assert_eq!(is_preferred, expected, "{bytes} {reach:?} {read:?}");
            let forced = match reach {
                MAPPED => TransferChoice::Direct,
                _ => TransferChoice::Copy,
            };
            let forced = thresholds.clone().force(forced);
            assert!(!prefers_pool(&forced, bytes, reach, read));
        }
    }

    #[test]
    fn a_copy_tells_whether_its_buffer_was_read() {
        let mut thresholds = assumed();
        let can_tell = |thresholds: &Thresholds, bytes, reach| {
            let plan = thresholds.choose(bytes, reach, Distance::Near);
            thresholds.can_tell(bytes, &plan)
        };
        assert!(!can_tell(&thresholds, 4096, MAPPED), "nothing was measured");
        assert!(!can_tell(&thresholds, 65_536, PRIVATE));
        thresholds.read_ticks = 200;
        thresholds.calibration = Calibration::of_kernel(400, 2400);
        assert!(!can_tell(&thresholds, 1023, MAPPED), "too short");
        assert!(can_tell(&thresholds, 1024, MAPPED));
        assert!(!can_tell(&thresholds, 65_536, HIDDEN), "through the pool");
        assert!(can_tell(&thresholds, 65_536, PRIVATE));
        assert!(can_tell(&thresholds, 512 << 10, PRIVATE));
        assert!(
            !can_tell(&thresholds, 1 << 20, PRIVATE),
            "leaves the caches"
        );
        assert!(thresholds.was_read(201) && !thresholds.was_read(200));
        // 2400 ns for 64 KiB, and 1400 for half of it.
        let found_read = |bytes, ns| thresholds.kernel_found_read(bytes, Duration::from_nanos(ns));
        assert!(found_read(65_536, 3841) && !found_read(65_536, 3840));
        assert!(found_read(32_768, 2241) && !found_read(32_768, 2240));
        thresholds.watch_ticks = 300;
        assert!(!can_tell(&thresholds, 16 << 10, MAPPED), "watched anyway");
    }

    #[test]
    fn a_forced_way_is_taken_where_it_is_possible() {
        use Mechanism::{Copy, Direct, Inline, Pool};
        let ways = |choice| {
            let thresholds = assumed().force(choice);
            assert_eq!(thresholds.choice(), choice);
            [
                (8, MAPPED),
                (8, PRIVATE),
                (1000, HIDDEN),
                (1 << 20, MAPPED),
                (1 << 20, PRIVATE),
            ]
            .map(|(bytes, reach)| thresholds.choose(bytes, reach, Distance::Near).mechanism)
        };
        assert_eq!(
            ways(TransferChoice::Auto),
            [Inline, Inline, Pool, Direct, Copy]
        );
        assert_eq!(
            ways(TransferChoice::Inline),
            [Inline, Inline, Pool, Pool, Pool]
        );
        assert_eq!(ways(TransferChoice::Pool), [Pool, Pool, Pool, Pool, Pool]);
        assert_eq!(
            ways(TransferChoice::Direct),
            [Direct, Pool, Pool, Direct, Pool]
        );
        assert_eq!(ways(TransferChoice::Copy), [Pool, Copy, Pool, Pool, Copy]);
        let inline = assumed().force(TransferChoice::Inline);
        let largest = inline.choose(INLINE_BYTES_FORCED, HIDDEN, Distance::Near);
        assert_eq!(largest.mechanism, Inline);
    }

    #[test]
    fn choices_are_read_as_they_are_written() {
        for choice in TransferChoice::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        assert_eq!(" Pool ".parse(), Ok(TransferChoice::Pool));
        let error = "fast".parse::<TransferChoice>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"fast\" is no way to transfer: write auto, inline, pool, direct or copy"
        );
        assert!("".parse::<TransferChoice>().is_err());
    }

    #[test]
    fn thresholds_are_set_by_hand() {
        let mut thresholds = assumed();
        thresholds
            .set("copy-from=100, direct-stream-from=never,inline = 64,")
            .unwrap();
        let way = |bytes, reach| thresholds.choose(bytes, reach, Distance::Far).mechanism;
        assert_eq!(way(64, PRIVATE), Mechanism::Inline);
        assert_eq!(way(99, PRIVATE), Mechanism::Pool);
        assert_eq!(way(100, PRIVATE), Mechanism::Copy);
        let text = thresholds.to_string();
        assert!(
            text.contains("direct, may stream                     never"),
            "{text}"
        );
        for wrong in [
            "copy-from",
            "copy-from=",
            "copy-from=-1",
            "copy=1",
            "inline=1k",
        ] {
            let error = thresholds.set(wrong).unwrap_err().to_string();
            assert!(error.starts_with(&format!("\"{wrong}\"")), "{error}");
            assert!(error.contains("copy-from"), "{error}");
        }
    }

    #[test]
    fn the_environment_is_obeyed_or_told_what_is_wrong() {
        let with = |transfer: &str, limits: &str| {
            let mut thresholds = assumed();
            let complaints = thresholds.obey(|name| match name {
                "VIADUCT_TRANSFER" => Some(transfer.into()),
                "VIADUCT_THRESHOLDS" => Some(limits.into()),
                _ => None,
            });
            (thresholds, complaints)
        };
        let (thresholds, complaints) = with("pool", "pool-stream-from=512");
        assert_eq!(complaints, Vec::<String>::new());
        let plan = thresholds.choose(512, MAPPED, Distance::Near);
        assert_eq!((plan.mechanism, plan.non_temporal), (Mechanism::Pool, true));
        let (thresholds, complaints) = with("quick", "pool=1");
        assert_eq!(thresholds.choice(), TransferChoice::Auto);
        assert_eq!(complaints.len(), 2);
        assert!(complaints[0].starts_with("VIADUCT_THRESHOLDS: \"pool=1\" sets no"));
        assert!(complaints[1].starts_with("VIADUCT_TRANSFER: \"quick\" is no way"));
        let (shown, complaints) = with("auto", "show, copy-from=512");
        assert!(shown.is_shown && complaints.is_empty(), "{complaints:?}");
        assert!(assumed().obey(|_| None).is_empty() && !assumed().is_shown);
    }

    #[test]
    fn a_process_keeps_what_it_measured() {
        let mut last = Thresholds::of_process();
        for _ in 0..ATTEMPTS_MAX {
            last = Thresholds::of_process();
        }
        assert!(Arc::ptr_eq(&last, &Thresholds::of_process()));
    }

    #[test]
    fn the_table_says_what_holds() {
        let text = assumed().to_string();
        let expected = "\
transfer: auto
                                near (assumed)         far (assumed)
  inline                              to 240 B              to 240 B
  direct, may stream         16384 to 524288 B           from 4096 B
  pool, streams                          never            from 256 B
  kernel's copy                   from 32768 B          from 65536 B
  no second core was free to measure with
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_plan_copies() {
        let source: Vec<u8> = (0..5000_u32).map(|i| i as u8).collect();
        for (non_temporal, is_ahead, watch_ticks) in [
            (false, false, 0),
            (false, true, 0),
            (true, false, 0),
            (false, false, 1),
        ] {
            let plan = Plan {
                mechanism: Mechanism::Direct,
                non_temporal,
                is_ahead,
                watch_ticks,
            };
            let mut target = vec![0_u8; 5000];
            // SAFETY: both vectors have 5000 bytes.
            unsafe { plan.copy(target.as_mut_ptr(), source.as_ptr(), 5000) };
            assert_eq!(target, source);
        }
    }
}
