//! LogP parameters, by bursts of growing length with a computing delay between requests.
//!
//! Culler, Liu, Martin, Yoshikawa, "LogP performance assessment of fast network interfaces", 1996.

use serde::Serialize;

use super::{Burst, Left, Requests, SMALL_BYTES, is_whole, steady_interval, undisturbed};
use crate::error::Result;

/// LogP parameters of small messages, as programs see them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogP {
    /// Processor's time for a request that is sent, microseconds.
    pub o_send_us: f64,
    /// Processor's time for a message that is taken, microseconds.
    pub o_recv_us: f64,
    /// Half the round trip without both overheads, microseconds.
    pub latency_us: f64,
    /// The interval between requests of a long burst, replies coming in, microseconds.
    pub gap_us: f64,
    /// From the beginning of a request until its reply is taken, microseconds.
    pub round_trip_us: f64,
    /// The machine was so busy otherwise that there was no time for long bursts.
    #[serde(rename = "cut_short", skip_serializing_if = "is_whole")]
    pub is_cut_short: bool,
    /// The bursts without delay.
    #[serde(skip)]
    pub bursts: Vec<BurstPoint>,
    /// The bursts with a delay, which their intervals do not contain.
    #[serde(skip)]
    pub delayed_bursts: Vec<BurstPoint>,
    /// That delay, microseconds.
    #[serde(skip)]
    pub delay_us: f64,
}

/// A burst: how long it was, and what a request of it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstPoint {
    /// Requests.
    pub requests: u32,
    /// Mean interval, microseconds.
    pub interval_us: f64,
}

/// Measures LogP parameters.
///
/// * `o_send` is the issue time of a burst of one.
/// * `gap` is the steady interval of long bursts: what doubling adds, for each request added, when
///   as much is answered as is issued.
/// * With a delay `D` between requests, of twice the gap or a round trip, the steady interval is
///   `o_send + D + o_recv`.
/// * `latency = round_trip / 2 - o_send - o_recv`.
///
/// # Errors
///
/// As [`Requests::burst`].
pub fn logp(requests: &mut dyn Requests) -> Result<LogP> {
    let burst = Burst {
        requests: 1,
        bytes: SMALL_BYTES,
        delay_ns: 0,
        is_echoed: false,
    };
    let mut left = Left::of(requests);
    let one = undisturbed(requests, burst, &mut left)?;
    let mut bursts = Vec::new();
    let gap = steady_interval(requests, burst, &mut |length, interval_ns| {
        bursts.push(point(length, interval_ns));
    })?;
    let delayed = Burst {
        delay_ns: (2.0 * gap.ns).max(one.finished_ns).ceil() as u64,
        ..burst
    };
    let mut delayed_bursts = Vec::new();
    let both = steady_interval(requests, delayed, &mut |length, interval_ns| {
        delayed_bursts.push(point(length, interval_ns));
    })?;
    let o_recv_ns = both.ns - one.issued_ns;
    Ok(LogP {
        o_send_us: one.issued_ns / 1e3,
        o_recv_us: o_recv_ns / 1e3,
        latency_us: (one.finished_ns / 2.0 - both.ns) / 1e3,
        gap_us: gap.ns / 1e3,
        round_trip_us: one.finished_ns / 1e3,
        is_cut_short: gap.is_cut_short || both.is_cut_short,
        bursts,
        delayed_bursts,
        delay_us: delayed.delay_ns as f64 / 1e3,
    })
}

fn point(requests: u32, interval_ns: f64) -> BurstPoint {
    BurstPoint {
        requests,
        interval_us: interval_ns / 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Formula;
    use super::*;

    fn assert_near(ours: f64, wanted: f64) {
        assert!((ours / wanted - 1.0).abs() < 0.01, "{ours}, not {wanted}");
    }

    #[test]
    fn the_parameters_of_a_formula_come_back() {
        // Goal: overheads, gap and latency are told apart. The gap is the interface's, the
        // processor's, or that of credits over a long way.
        // Just above the processor's, it shows late: credits last for long.
        for (gap_ns, latency_ns) in [
            (9_000.0, 3_000.0),
            (4_150.0, 3_000.0),
            (100.0, 3_000.0),
            (100.0, 400_000.0),
        ] {
            let mut formula = Formula {
                o_send_ns: 1_700.0,
                o_recv_ns: 2_300.0,
                latency_ns,
                gap_ns,
                ns_per_byte: 0.0,
            };
            let found = logp(&mut formula).unwrap();
            assert_near(found.o_send_us, 1.7);
            assert_near(found.o_recv_us, 2.3);
            assert_near(found.latency_us, latency_ns / 1e3);
            let round_trip_us = 2.0 * (latency_ns / 1e3 + 4.0);
            assert_near(found.round_trip_us, round_trip_us);
            let credits_us = round_trip_us / 32.0;
            if credits_us > 4.0 {
                // The program takes all replies that are there before it sends again.
                assert!(found.gap_us > 0.99 * credits_us, "{found:?}");
                assert!(found.gap_us < 1.01 * (credits_us + 2.3), "{found:?}");
            } else {
                assert_near(found.gap_us, (gap_ns / 1e3).max(4.0));
            }
            assert_eq!(found.bursts[0].requests, 1);
        }
    }

    #[test]
    fn json_has_the_five_parameters_and_no_other() {
        let mut formula = Formula {
            o_send_ns: 1.0,
            o_recv_ns: 1.0,
            latency_ns: 1.0,
            gap_ns: 1.0,
            ns_per_byte: 0.0,
        };
        let json = serde_json::to_value(logp(&mut formula).unwrap()).unwrap();
        let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        let wanted = [
            "gap_us",
            "latency_us",
            "o_recv_us",
            "o_send_us",
            "round_trip_us",
        ];
        assert_eq!(keys, wanted);
    }
}
