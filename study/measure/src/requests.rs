//! Programs that measure Active Message endpoints: requests and their replies, in bursts.
//!
//! [`logp`] and [`bulk`] know neither fabric nor carrier: whoever makes [`Requests`] may be a
//! [`Prober`] of this machine or a simulated interface.

mod bulk;
mod contention;
mod logp;
mod prober;
mod report;
mod timesharing;

pub use bulk::{Bulk, BulkRow, RoundTripFit, bulk};
pub use contention::{
    ClientCounts, ContentionReport, ContentionRow, LatencyMode, LatencySummary, RequestEnds,
    ServerKind, contend,
};
pub use logp::{BurstPoint, LogP, logp};
pub use prober::{Prober, RequestState, request_handlers, request_options};
pub use report::{RequestReport, RequestTest};
pub use timesharing::{PatternKind, ProcessorShares, TimesharingReport, TimesharingRow, WaitKind};

use std::time::Duration;

use crate::error::Result;

/// Payload of a small message: two words.
pub const SMALL_BYTES: u32 = 16;

/// Requests that a program makes one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// How many, at least 1.
    pub requests: u32,
    /// Payload of each, bytes; at most [`viaduct_am::MTU_BYTES`].
    pub bytes: u32,
    /// What the program computes after each but the last, nanoseconds.
    pub delay_ns: u64,
    /// Whether replies carry as many bytes; if not, [`SMALL_BYTES`].
    pub is_echoed: bool,
}

/// How long a burst took, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elapsed {
    /// From the beginning to the end of the last request's issue, without what was computed.
    pub issued_ns: f64,
    /// From the beginning until the last reply was taken, without what was computed.
    pub finished_ns: f64,
}

/// Makes requests, and knows how long they took.
///
/// Between two requests it takes the replies that are there. It waits for replies while it has no
/// credit, and after the last request.
pub trait Requests {
    /// Makes the requests of a burst.
    ///
    /// # Errors
    ///
    /// When a request came back, or nothing comes any more.
    fn burst(&mut self, burst: Burst) -> Result<Elapsed>;

    /// How often such a burst is to be made, of which the tenth percentile counts.
    fn repetitions(&self, burst: Burst) -> u32;

    /// How long the bursts of one figure may take together; then no more begin that can be done
    /// without. A machine that is busy otherwise may take a thousand times as long for each.
    fn limit(&self) -> Option<Duration> {
        None
    }
}

/// The time that is left for the bursts of a figure.
#[derive(Debug)]
struct Left(Option<f64>);

impl Left {
    fn of(requests: &dyn Requests) -> Self {
        Self(requests.limit().map(|limit| limit.as_nanos() as f64))
    }

    fn spend(&mut self, burst: Burst, elapsed: Elapsed) {
        let computed_ns = burst.delay_ns as f64 * f64::from(burst.requests - 1);
        if let Some(left_ns) = &mut self.0 {
            *left_ns -= elapsed.finished_ns + computed_ns;
        }
    }

    fn is_over(&self) -> bool {
        self.0.is_some_and(|left_ns| left_ns <= 0.0)
    }
}

/// The tenth percentile of each time, since interruptions only add to it. The burst is repeated as
/// often as its kind asks for, or until the time for the figure is over.
fn undisturbed(requests: &mut dyn Requests, burst: Burst, left: &mut Left) -> Result<Elapsed> {
    let count = requests.repetitions(burst).max(1);
    let mut elapsed = Vec::new();
    for _ in 0..count {
        let once = requests.burst(burst)?;
        left.spend(burst, once);
        elapsed.push(once);
        if left.is_over() {
            break;
        }
    }
    let tenth = |of: fn(&Elapsed) -> f64| {
        let mut values: Vec<f64> = elapsed.iter().map(of).collect();
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 10]
    };
    Ok(Elapsed {
        issued_ns: tenth(|it| it.issued_ns),
        finished_ns: tenth(|it| it.finished_ns),
    })
}

/// The interval between requests of long bursts.
#[derive(Clone, Copy, Debug)]
struct Interval {
    ns: f64,
    /// It was not steady yet when there was no time for longer bursts.
    is_cut_short: bool,
}

/// The steady interval between requests: bursts are doubled until it stays the same, or there is no
/// more time. Says the bursts to `note`: requests and mean interval, in nanoseconds.
///
/// Steady is also that requests are issued as fast as they are answered. Where the processor is a
/// little quicker than the interface, credits last for hundreds of requests, and until they are
/// used up the processor takes fewer replies than it sends requests.
fn steady_interval(
    requests: &mut dyn Requests,
    burst: Burst,
    note: &mut dyn FnMut(u32, f64),
) -> Result<Interval> {
    /// The first burst that can count: credits are long used up.
    const SHORTEST: u32 = 128;
    const LONGEST: u32 = 2048;
    const CHANGE: f64 = 0.01;

    let mut left = Left::of(requests);
    let mut before: Option<(Elapsed, f64)> = None;
    let mut length = burst.requests;
    loop {
        let requests_now = Burst {
            requests: length,
            ..burst
        };
        let elapsed = undisturbed(requests, requests_now, &mut left)?;
        note(length, elapsed.issued_ns / f64::from(length));
        let added = f64::from(length / 2);
        let slope = before.map(|(before, _)| (elapsed.issued_ns - before.issued_ns) / added);
        let answered = before.map(|(before, _)| (elapsed.finished_ns - before.finished_ns) / added);
        if let (Some(slope), Some(answered), Some((_, last))) = (slope, answered, before) {
            let is_near = |other: f64| (slope / other - 1.0).abs() < CHANGE;
            let is_steady = slope > 0.0 && is_near(last) && is_near(answered);
            let is_cut_short = left.is_over();
            if length > SHORTEST && is_steady {
                return Ok(Interval {
                    ns: slope,
                    is_cut_short: false,
                });
            }
            if length >= LONGEST || is_cut_short {
                // On a machine that is busy otherwise a longer burst may have been quicker.
                let mean = elapsed.issued_ns / f64::from(length);
                return Ok(Interval {
                    ns: if slope > 0.0 { slope } else { mean },
                    is_cut_short,
                });
            }
        }
        before = Some((elapsed, slope.unwrap_or(f64::INFINITY)));
        length *= 2;
    }
}

/// Whether a figure is of shorter bursts than it should be: in JSON where it is.
const fn is_whole(is_cut_short: &bool) -> bool {
    !*is_cut_short
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interface that takes `gap_ns` a request, behind 32 credits, and a processor.
    pub(super) struct Formula {
        pub(super) o_send_ns: f64,
        pub(super) o_recv_ns: f64,
        pub(super) latency_ns: f64,
        pub(super) gap_ns: f64,
        pub(super) ns_per_byte: f64,
    }

    impl Requests for Formula {
        /// By simulation of the program: each request leaves when processor and interface are free.
        fn burst(&mut self, burst: Burst) -> Result<Elapsed> {
            let bytes_ns = self.ns_per_byte * f64::from(burst.bytes);
            let back_ns = if burst.is_echoed { bytes_ns } else { 0.0 };
            let way_ns = self.latency_ns + bytes_ns;
            let there_ns = way_ns + self.o_recv_ns + self.o_send_ns + self.latency_ns + back_ns;
            let gap_ns = self.gap_ns.max(bytes_ns);
            let (mut now, mut interface, mut issued, mut computed) = (0.0_f64, 0.0_f64, 0.0, 0.0);
            let mut replies = std::collections::VecDeque::new();
            for left in (0..burst.requests).rev() {
                if replies.len() == 32 {
                    now = now.max(replies.pop_front().unwrap()) + self.o_recv_ns;
                }
                now += self.o_send_ns;
                issued = now;
                let leaves = now.max(interface);
                interface = leaves + gap_ns;
                replies.push_back(leaves + there_ns);
                if left > 0 {
                    now += burst.delay_ns as f64;
                    computed += burst.delay_ns as f64;
                }
                while replies.front().is_some_and(|at| *at <= now) {
                    replies.pop_front();
                    now += self.o_recv_ns;
                }
            }
            while let Some(at) = replies.pop_front() {
                now = now.max(at) + self.o_recv_ns;
            }
            Ok(Elapsed {
                issued_ns: issued - computed,
                finished_ns: now - computed,
            })
        }

        fn repetitions(&self, _: Burst) -> u32 {
            1
        }
    }

    /// An interface whose bursts take a second for each request: nothing runs as it should.
    struct Busy(f64);

    impl Requests for Busy {
        fn burst(&mut self, burst: Burst) -> Result<Elapsed> {
            let finished_ns = 1e9 * f64::from(burst.requests);
            self.0 += finished_ns + burst.delay_ns as f64 * f64::from(burst.requests - 1);
            Ok(Elapsed {
                issued_ns: finished_ns,
                finished_ns,
            })
        }

        fn repetitions(&self, _: Burst) -> u32 {
            20
        }

        fn limit(&self) -> Option<Duration> {
            Some(Duration::from_secs(2))
        }
    }

    #[test]
    fn a_busy_machine_is_measured_in_bounded_time() {
        let mut busy = Busy(0.0);
        let found = logp(&mut busy).unwrap();
        // Two bursts of one, then one of one and one of two: 1 s each, with a delay of 2 s between.
        assert_eq!(busy.0, 1e9 * f64::from(2 + (2 + 2) + (2 + 2 + 2)));
        assert!(found.is_cut_short);
        assert!((found.gap_us - 1e6).abs() < 1.0, "{found:?}");
        let mut busy = Busy(0.0);
        let found = bulk(&mut busy, &[128], &mut |_| {}).unwrap();
        assert_eq!(busy.0, 1e9 * f64::from(2 + 64 + 128));
        assert!(found.is_cut_short);

        let mut formula = Formula {
            o_send_ns: 1_700.0,
            o_recv_ns: 2_300.0,
            latency_ns: 3_000.0,
            gap_ns: 9_000.0,
            ns_per_byte: 0.0,
        };
        assert!(!logp(&mut formula).unwrap().is_cut_short);
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json["cut_short"], true, "{json}");
    }
}
