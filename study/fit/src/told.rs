//! How much of what was not measured a measurement tells.
//!
//! Numbers that only show as a sum, or not at all, keep the ratio that the base has, which may be
//! another than the machine's. What is fitted comes out right whatever that ratio is; what depends
//! on the numbers in other proportions does not. By how much follows from the slopes alone: each
//! number is taken to be within a factor of two of the base's ratio, the measurement narrows that
//! to what fits it, and what is left shows in the quantities that were not measured.

use viaduct_measure::Test;
use viaduct_scenario::{Preset, PresetNumber};

use crate::error::FitError;
use crate::knobs::Knob;
use crate::measured::{Measured, Point};
use crate::predict::{Care, times};

/// How far each number may be off beforehand, as a logarithm: a factor of two.
const BEFORE: f64 = std::f64::consts::LN_2;

/// Of the times that are compared, at least: one per cent.
const NOISE_MIN: f64 = 0.01;

/// Step of a number for a slope, as a logarithm.
const STEP: f64 = 0.02;

/// While searching: a small step must show.
const DIGITS: usize = 12;

/// Sizes of messages of what was not measured: a small one, and a large one if it was fitted.
const SMALL_BYTES: u32 = 8;
const LARGE_BYTES: u32 = 65_536;

/// A quantity that was not measured, and how far off its prediction may be.
#[derive(Clone, Copy, Debug)]
pub struct Untold {
    /// The program that measures it.
    pub test: Test,
    /// Bytes of a message.
    pub bytes: u32,
    /// By which part the prediction may be off: 0.5 is half as much again, or a third less.
    pub part: f64,
}

/// The quantities beside those measured, the least certain first. `noise` is the error of the fit.
pub(crate) fn untold(
    preset: &Preset,
    knobs: &[Knob],
    measured: &[Measured],
    noise: f64,
    stop: &(impl Fn() -> bool + Clone + 'static),
) -> Result<Vec<Untold>, FitError> {
    let fitted: Vec<Measured> = measured
        .iter()
        .filter(|each| !each.is_other)
        .cloned()
        .collect();
    let Some(first) = fitted.first() else {
        return Ok(Vec::new());
    };
    let longest = fitted
        .iter()
        .flat_map(|each| &each.points)
        .map(|point| point.bytes)
        .max();
    let large = LARGE_BYTES.min(longest.unwrap_or(0));
    let wanted = [
        (Test::Latency, SMALL_BYTES),
        (Test::Latency, large),
        (Test::Rate, SMALL_BYTES),
        (Test::Bandwidth, large),
    ];
    let others = wanted.into_iter().filter(|(test, bytes)| {
        let is_measured = |each: &Measured| match each.test {
            // Both are messages one way, as fast as they go.
            Test::Bandwidth | Test::Rate => {
                *test != Test::Latency && each.points.iter().any(|point| point.bytes <= *bytes)
            }
            own => own == *test,
        };
        !fitted.iter().any(is_measured)
    });
    let others: Vec<Measured> = others
        .map(|(test, bytes)| Measured {
            test,
            points: vec![Point {
                bytes,
                microseconds: 1.0,
                is_held_out: false,
            }],
            ..first.clone()
        })
        .collect();
    if others.is_empty() {
        return Ok(Vec::new());
    }

    let all: Vec<Measured> = fitted.into_iter().chain(others.iter().cloned()).collect();
    let logarithms = |preset: &Preset| -> Result<Vec<f64>, FitError> {
        let times = times(preset, &all, Care::Searching, stop)?;
        Ok(times.into_iter().map(libm::log).collect())
    };
    let here = logarithms(preset)?;
    let mut columns = Vec::new();
    for (place, number) in preset.numbers.iter().enumerate() {
        if !knobs.iter().any(|knob| knob.power(number).is_some()) {
            continue;
        }
        let Some(scaled) = moved(number) else {
            continue;
        };
        let mut there = preset.clone();
        there.numbers[place] = scaled;
        let pairs = logarithms(&there)?;
        let slopes = pairs
            .iter()
            .zip(&here)
            .map(|(there, here)| (there - here) / STEP);
        columns.push(slopes.collect::<Vec<f64>>());
    }
    let first_other = here.len() - others.len();
    let row = |place: usize| {
        columns
            .iter()
            .map(|column| column[place])
            .collect::<Vec<f64>>()
    };
    let rows: Vec<Vec<f64>> = (0..first_other).map(row).collect();
    let noise = noise.max(NOISE_MIN) / BEFORE;
    let mut untold: Vec<Untold> = others
        .iter()
        .enumerate()
        .map(|(place, other)| {
            let left = left_over(&rows, &row(first_other + place), noise * noise);
            Untold {
                test: other.test,
                bytes: other.points[0].bytes,
                part: libm::exp(BEFORE * left.sqrt()) - 1.0,
            }
        })
        .collect();
    untold.sort_by(|a, b| b.part.total_cmp(&a.part));
    Ok(untold)
}

fn moved(number: &PresetNumber) -> Option<PresetNumber> {
    number.scaled(libm::exp(STEP), DIGITS)
}

/// The square of what is left of `slopes` when all is taken away that `rows` tell: g g - g J' (J J'
/// + noise)^-1 J g.
fn left_over(rows: &[Vec<f64>], slopes: &[f64], noise: f64) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let count = rows.len();
    let mut lines: Vec<Vec<f64>> = (0..count)
        .map(|row| {
            let cells = (0..count).map(|column| dot(&rows[row], &rows[column]));
            let mut cells: Vec<f64> = cells.collect();
            cells[row] += noise;
            cells.push(dot(&rows[row], slopes));
            cells
        })
        .collect();
    // The matrix is symmetric and, by the noise, positive. What each row takes away stands in its
    // last cell when it is the pivot.
    let mut left = dot(slopes, slopes);
    for pivot in 0..count {
        let (above, below) = lines.split_at_mut(pivot + 1);
        let top = &above[pivot];
        left -= top[count] * top[count] / top[pivot];
        for line in below {
            let factor = line[pivot] / top[pivot];
            for (cell, over) in line.iter_mut().zip(top) {
                *cell -= factor * over;
            }
        }
    }
    left.max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_told_and_the_rest_is_not() {
        let sum = vec![vec![1.0, 1.0, 0.0]];
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-3, "{found}");
        // The sum itself, the difference, one of the two, and what nothing was measured of.
        near(left_over(&sum, &[1.0, 1.0, 0.0], 1e-6), 0.0);
        near(left_over(&sum, &[1.0, -1.0, 0.0], 1e-6), 2.0);
        near(left_over(&sum, &[1.0, 0.0, 0.0], 1e-6), 0.5);
        near(left_over(&sum, &[0.0, 0.0, 1.0], 1e-6), 1.0);
        let both = vec![vec![1.0, 1.0, 0.0], vec![1.0, -1.0, 0.0]];
        near(left_over(&both, &[1.0, 0.0, 0.0], 1e-6), 0.0);
        near(left_over(&[], &[1.0, 2.0, 0.0], 1e-6), 5.0);
    }
}
