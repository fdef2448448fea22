//! Bandwidth and round trip of bulk messages.

use serde::Serialize;

use super::{Burst, Left, Requests, is_whole, steady_interval, undisturbed};
use crate::error::Result;

/// The result of measuring bulk messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bulk {
    /// One row per size, as they were asked for.
    pub rows: Vec<BulkRow>,
    /// The size with half the bandwidth of the fastest row, on straight lines from no bandwidth at
    /// 0 bytes through the rows; `None` for no row.
    pub half_power_bytes: Option<f64>,
    /// The line of the round trip over the size; `None` for fewer than two sizes.
    pub round_trip_fit: Option<RoundTripFit>,
    /// The machine was so busy otherwise that there was no time for long bursts.
    #[serde(rename = "cut_short", skip_serializing_if = "is_whole")]
    pub is_cut_short: bool,
}

/// Bulk messages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BulkRow {
    /// Bytes of a message.
    pub bytes: u32,
    /// 10^6 bytes a second one way, with as many requests outstanding as there are credits and
    /// short replies.
    pub mbyte_s: f64,
    /// A message of so many bytes to and fro, microseconds.
    pub round_trip_us: f64,
}

/// The line `us + us_per_byte * bytes` with the least sum of squares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RoundTripFit {
    /// Microseconds at 0 bytes.
    pub us: f64,
    /// Microseconds that each byte adds.
    pub us_per_byte: f64,
}

/// Measures bulk messages of these sizes; tells how many rows are done after each.
///
/// # Errors
///
/// As [`Requests::burst`].
pub fn bulk(
    requests: &mut dyn Requests,
    sizes: &[u32],
    on_row: &mut dyn FnMut(usize),
) -> Result<Bulk> {
    let mut rows = Vec::new();
    let mut is_cut_short = false;
    for &bytes in sizes {
        let burst = Burst {
            requests: 1,
            bytes,
            delay_ns: 0,
            is_echoed: true,
        };
        let mut left = Left::of(requests);
        let round_trip_us = undisturbed(requests, burst, &mut left)?.finished_ns / 1e3;
        let stream = Burst {
            // Shorter bursts say nothing here.
            requests: 64,
            is_echoed: false,
            ..burst
        };
        let interval = steady_interval(requests, stream, &mut |_, _| {})?;
        is_cut_short |= interval.is_cut_short;
        rows.push(BulkRow {
            bytes,
            mbyte_s: f64::from(bytes) / interval.ns * 1e3,
            round_trip_us,
        });
        on_row(rows.len());
    }
    Ok(Bulk {
        half_power_bytes: half_power_bytes(&rows),
        round_trip_fit: fit(&rows),
        is_cut_short,
        rows,
    })
}

fn half_power_bytes(rows: &[BulkRow]) -> Option<f64> {
    let mut points: Vec<(f64, f64)> = rows
        .iter()
        .map(|row| (f64::from(row.bytes), row.mbyte_s))
        .chain([(0.0, 0.0)])
        .collect();
    points.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let half = rows.iter().map(|row| row.mbyte_s).fold(0.0, f64::max) / 2.0;
    let pair = points.windows(2).find(|pair| pair[1].1 >= half)?;
    let ((low, low_mbyte_s), (high, high_mbyte_s)) = (pair[0], pair[1]);
    let share = (half - low_mbyte_s) / (high_mbyte_s - low_mbyte_s);
    Some(low + share * (high - low))
}

fn fit(rows: &[BulkRow]) -> Option<RoundTripFit> {
    let count = rows.len() as f64;
    let mean = |of: fn(&BulkRow) -> f64| rows.iter().map(of).sum::<f64>() / count;
    let (bytes, us) = (
        mean(|row| f64::from(row.bytes)),
        mean(|row| row.round_trip_us),
    );
    let mut squares = 0.0;
    let mut products = 0.0;
    for row in rows {
        let off = f64::from(row.bytes) - bytes;
        squares += off * off;
        products += off * (row.round_trip_us - us);
    }
    (squares > 0.0).then(|| {
        let us_per_byte = products / squares;
        RoundTripFit {
            us: us - us_per_byte * bytes,
            us_per_byte,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::Formula;
    use super::*;

    fn row(bytes: u32, mbyte_s: f64, round_trip_us: f64) -> BulkRow {
        BulkRow {
            bytes,
            mbyte_s,
            round_trip_us,
        }
    }

    #[test]
    fn the_half_power_point_lies_between_rows() {
        let rows = [
            row(4096, 40.0, 0.0),
            row(128, 5.0, 0.0),
            row(256, 25.0, 0.0),
        ];
        // 20 MB/s are three quarters of the way from 5 to 25.
        assert_eq!(half_power_bytes(&rows), Some(224.0));
        // And half of the way from 0 bytes to a size that has twice as much.
        assert_eq!(half_power_bytes(&rows[..1]), Some(2048.0));
        assert_eq!(
            half_power_bytes(&[row(128, 40.0, 0.0), rows[0]]),
            Some(64.0)
        );
        assert_eq!(half_power_bytes(&[]), None);
    }

    #[test]
    fn a_line_is_found_again() {
        let rows = [100, 300, 1000].map(|bytes| row(bytes, 1.0, 20.0 + 0.25 * f64::from(bytes)));
        let line = fit(&rows).unwrap();
        assert!((line.us - 20.0).abs() < 1e-9 && (line.us_per_byte - 0.25).abs() < 1e-12);
        assert_eq!(fit(&rows[..1]), None);
    }

    #[test]
    fn bandwidth_is_that_of_the_interface() {
        let mut formula = Formula {
            o_send_ns: 1_000.0,
            o_recv_ns: 1_000.0,
            latency_ns: 5_000.0,
            gap_ns: 3_000.0,
            ns_per_byte: 25.0,
        };
        let mut done = 0;
        let found = bulk(&mut formula, &[64, 4096], &mut |rows| done = rows).unwrap();
        assert_eq!(done, 2);
        // 64 bytes take the gap of 3 us, 4096 their 25 ns each.
        assert!(
            (found.rows[0].mbyte_s / (64.0 / 3.0) - 1.0).abs() < 0.02,
            "{found:?}"
        );
        assert!(
            (found.rows[1].mbyte_s / 40.0 - 1.0).abs() < 0.02,
            "{found:?}"
        );
        // To and fro: 50 ns a byte, and two overheads and a latency each way.
        let line = found.round_trip_fit.unwrap();
        assert!((line.us_per_byte / 0.05 - 1.0).abs() < 1e-6, "{found:?}");
        assert!((line.us / 14.0 - 1.0).abs() < 1e-6, "{found:?}");
    }
}
