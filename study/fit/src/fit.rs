//! The fit: from measurements and a base to the numbers that make both agree.

use viaduct_scenario::{Preset, PresetNumber, programs_of};

use crate::error::FitError;
use crate::knobs::{self, Guess, Knob};
use crate::measured::{Measured, POINTS_MIN};
use crate::predict::{Care, times};
use crate::search::{least_squares, shows, slopes, squares};
use crate::thresholds;
use crate::told::{Untold, untold};

/// Root of the mean square of the residuals from which on another first guess is tried: two per
/// cent.
const CONTENT: f64 = 0.02;

/// A threshold is moved if that leaves at most this part of the sum of squares: by the criterion of
/// Akaike, of seven points and an unknown more, exp(-2/7).
const WORTH: f64 = 0.75;

/// Change of a residual below which it counts as none.
const HIDDEN: f64 = 1e-3;

/// The result of a fit.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The base's name, as it was asked for.
    pub base: String,
    /// The base with the numbers that were fitted.
    pub preset: Preset,
    /// Each number that the fit changed, in the order of the list of keys.
    pub numbers: Vec<FittedNumber>,
    /// What was measured, as it was used.
    pub measured: Vec<Measured>,
    /// Of each measurement and point, what the fitted preset predicts, in microseconds: to the
    /// digit what `viaduct measure` says of it.
    pub predicted_us: Vec<Vec<f64>>,
    /// The same of the base.
    pub base_us: Vec<Vec<f64>>,
    /// Points that were left out because the base takes no message so long.
    pub left_out: usize,
    /// How far off predictions of other quantities may be, the least certain first.
    pub untold: Vec<Untold>,
}

/// A number that was fitted.
#[derive(Clone, Debug)]
pub struct FittedNumber {
    /// As the base has it.
    pub before: PresetNumber,
    /// As it was fitted.
    pub after: PresetNumber,
    /// What the fit could tell, of which this is all or a part.
    pub what: String,
    /// Whether other numbers moved with it, in the ratio that the base has.
    pub is_shared: bool,
}

/// Fits a base to measurements of one fabric. `base_name` is what messages call it; `stop` is asked
/// now and then whether to end early.
///
/// # Errors
///
/// [`FitError`].
pub fn fit(
    base: &Preset,
    base_name: &str,
    mut measured: Vec<Measured>,
    stop: &(impl Fn() -> bool + Clone + 'static),
) -> Result<Fit, FitError> {
    let config = programs_of(base, base_name, None, 2).map_err(FitError::Base)?;
    let mut left_out = 0;
    for each in &mut measured {
        left_out += each.cut(config.host.common().transfer_max_bytes);
    }
    measured.retain(|each| !each.points.is_empty());
    // A preset is of one machine; others are held against it.
    let machine = measured.first().and_then(|each| each.machine.clone());
    for each in &mut measured {
        if each.machine != machine {
            each.set_aside();
        }
    }
    check(&measured, base_name, left_out)?;

    let wanted: Vec<f64> = measured
        .iter()
        .flat_map(|each| &each.points)
        .filter(|point| !point.is_held_out)
        .map(|point| point.microseconds)
        .collect();
    let logarithms = |preset: &Preset| -> Result<Vec<f64>, FitError> {
        let times = times(preset, &measured, Care::Searching, stop)?;
        let pairs = times.iter().zip(&wanted);
        Ok(pairs
            .map(|(time, wanted)| libm::log(time / wanted))
            .collect())
    };
    let guess_of = |base: &Preset, knobs: &[Knob]| -> Result<Vec<f64>, FitError> {
        let times = times(base, &measured, Care::Searching, stop)?;
        Ok(first_guess(knobs, &measured, &times))
    };
    // As many unknowns as points would meet any points.
    let knobs_of = |base: &Preset| knobs::joined(knobs::of(base, &measured), wanted.len() - 1);
    let knobs = knobs_of(base);
    let moved = knobs::turned(base, &knobs[..1], &[1.0], false);
    if changed(base, &moved, &knobs).is_empty() {
        return Err(FitError::unusable(
            format!("a message costs nothing in `{base_name}`: there is no number to fit"),
            "take another base: `viaduct models` lists the presets",
        ));
    }
    let guess = guess_of(base, &knobs)?;
    let (mut knobs, mut factors) = search(base, knobs, &guess, &logarithms)?;
    let sum_of = |base: &Preset, knobs: &[Knob], factors: &[f64]| -> Result<f64, FitError> {
        Ok(squares(&logarithms(&knobs::turned(
            base, knobs, factors, false,
        ))?))
    };
    let mut sum = sum_of(base, &knobs, &factors)?;
    let mut start = base.clone();
    for threshold in thresholds::of(base) {
        if is_content(sum, wanted.len()) {
            break;
        }
        let mut best: Option<(Preset, Vec<Knob>, Vec<f64>, f64)> = None;
        for place in thresholds::places(&measured) {
            let Some(there) = threshold.put(&start, place) else {
                continue;
            };
            let its = knobs_of(&there);
            let guess = guess_of(&there, &its)?;
            let mut of = |factors: &[f64]| logarithms(&knobs::turned(&there, &its, factors, false));
            let (found, less) = least_squares(&guess, &mut of)?;
            if best.as_ref().is_none_or(|(.., least)| less < *least) {
                best = Some((there, its, found, less));
            }
        }
        let Some((there, its, ..)) = best.filter(|(.., least)| *least < sum * WORTH) else {
            continue;
        };
        let guess = guess_of(&there, &its)?;
        let (its, found) = search(&there, its, &guess, &logarithms)?;
        let less = sum_of(&there, &its, &found)?;
        if less < sum * WORTH {
            (start, knobs, factors, sum) = (there, its, found, less);
        }
    }
    if knobs.is_empty() {
        return Err(FitError::unusable(
            format!("no number of `{base_name}` that could be fitted changes these times"),
            "take another base: `viaduct models` lists the presets",
        ));
    }

    let preset = knobs::turned(&start, &knobs, &factors, true);
    let split = |times: Vec<f64>| {
        let mut times = times.into_iter();
        let each = measured.iter();
        each.map(|each| times.by_ref().take(each.points.len()).collect())
            .collect()
    };
    let noise = (sum / wanted.len() as f64).sqrt();
    let untold = untold(&preset, &knobs, &measured, noise, stop)?;
    Ok(Fit {
        base: base_name.to_owned(),
        untold,
        predicted_us: split(times(&preset, &measured, Care::Final, stop)?),
        base_us: split(times(base, &measured, Care::Final, stop)?),
        numbers: changed(base, &preset, &knobs),
        preset,
        measured,
        left_out,
    })
}

fn check(measured: &[Measured], base_name: &str, left_out: usize) -> Result<(), FitError> {
    let own = || measured.iter().filter(|each| !each.is_other);
    let sizes = own().map(|each| each.points.len()).max();
    let sizes = sizes.unwrap_or_default();
    if sizes < POINTS_MIN {
        let beyond = match left_out {
            0 => String::new(),
            count => format!("; {count} more are longer than `{base_name}` takes"),
        };
        return Err(FitError::unusable(
            format!("a fit takes {POINTS_MIN} sizes of one test; here are {sizes}{beyond}"),
            "measure more of them, as in `viaduct measure latency --on shm \
             --sizes 0,8,64,512,4KiB,32KiB --json`",
        ));
    }
    let mut fabrics: Vec<&str> = measured.iter().map(|each| each.fabric.as_str()).collect();
    fabrics.sort_unstable();
    fabrics.dedup();
    if fabrics.len() > 1 {
        return Err(FitError::unusable(
            format!("these are measurements of {}", fabrics.join(" and ")),
            "a preset is fitted to one fabric: give files that `--on` one fabric made",
        ));
    }
    Ok(())
}

/// Factors that make the shortest message right, and the longest.
fn first_guess(knobs: &[Knob], measured: &[Measured], predicted_us: &[f64]) -> Vec<f64> {
    // Of the measurement with the most sizes.
    let mut first = 0;
    let mut best: Option<(usize, [f64; 2], [f64; 2])> = None;
    for each in measured {
        let used = each.points.iter().filter(|point| !point.is_held_out);
        let used: Vec<f64> = used.map(|point| point.microseconds).collect();
        let predicted = &predicted_us[first..first + used.len()];
        first += used.len();
        let ends = |times: &[f64]| [times[0], times[times.len() - 1]];
        if used.is_empty() {
            continue;
        }
        if best.is_none_or(|(count, ..)| used.len() > count) {
            best = Some((used.len(), ends(&used), ends(predicted)));
        }
    }
    let (fixed, rate) = best.map_or((0.0, 0.0), |(_, wanted, predicted)| {
        let fixed = libm::log(wanted[0] / predicted[0]);
        let (wanted, predicted) = (wanted[1] - wanted[0], predicted[1] - predicted[0]);
        if wanted > 0.0 && predicted > 0.0 {
            (fixed, libm::log(wanted / predicted))
        } else {
            (fixed, fixed)
        }
    });
    let guesses = knobs.iter().map(|knob| match knob.guess {
        Guess::Fixed => fixed,
        Guess::Rate => rate,
        Guess::One => 0.0,
    });
    guesses.collect()
}

/// The knobs that show in the points, and their factors.
fn search(
    base: &Preset,
    knobs: Vec<Knob>,
    guess: &[f64],
    logarithms: &impl Fn(&Preset) -> Result<Vec<f64>, FitError>,
) -> Result<(Vec<Knob>, Vec<f64>), FitError> {
    let mut of = |factors: &[f64]| logarithms(&knobs::turned(base, &knobs, factors, false));
    let zeros = vec![0.0; guess.len()];
    let (mut factors, mut sum) = (zeros.clone(), f64::INFINITY);
    for first in [guess, &zeros] {
        let found = least_squares(first, &mut of)?;
        let found = waken(found, &mut of)?;
        if found.1 < sum {
            (factors, sum) = found;
        }
        if is_content(sum, of(&factors)?.len()) {
            break;
        }
    }
    // What nothing can be told of is left as the base has it, if that is so there as well.
    let columns = slopes(&factors, &of(&factors)?, &mut of)?;
    let pairs = factors.iter().zip(&columns);
    let kept = pairs.map(|(factor, column)| if shows(column) { *factor } else { 0.0 });
    let kept: Vec<f64> = kept.collect();
    if squares(&of(&kept)?) > sum * 1.001 + 1e-9 {
        return Ok((knobs, factors));
    }
    let all = knobs.into_iter().zip(kept).zip(&columns);
    let shown = all.filter(|(_, column)| shows(column));
    Ok(shown.map(|(knob, _)| knob).unzip())
}

fn is_content(sum: f64, count: usize) -> bool {
    sum <= CONTENT * CONTENT * count as f64
}

/// Goes on from where squares seem least if that is not good enough: what is hidden behind another,
/// as the faster of two rates is, is moved until it shows.
fn waken(
    found: (Vec<f64>, f64),
    of: &mut impl FnMut(&[f64]) -> Result<Vec<f64>, FitError>,
) -> Result<(Vec<f64>, f64), FitError> {
    /// Half as slow again, as a logarithm.
    const STEP: f64 = 0.4;
    const STEPS: usize = 12;

    let (mut factors, mut sum) = found;
    for place in 0..factors.len() {
        let residuals = of(&factors)?;
        if is_content(sum, residuals.len()) {
            break;
        }
        let mut moved = factors.clone();
        for _ in 0..STEPS {
            moved[place] += STEP;
            let there = of(&moved)?;
            let mut pairs = there.iter().zip(&residuals);
            if pairs.all(|(a, b)| (a - b).abs() < HIDDEN) {
                continue;
            }
            let (better, less) = least_squares(&moved, of)?;
            if less < sum {
                (factors, sum) = (better, less);
            }
            break;
        }
    }
    Ok((factors, sum))
}

fn changed(base: &Preset, fitted: &Preset, knobs: &[Knob]) -> Vec<FittedNumber> {
    let pairs = base.numbers.iter().zip(&fitted.numbers);
    let changed = pairs.filter(|(before, after)| !before.has_value_of(after));
    let numbers = changed.map(|(before, after)| {
        let its: Vec<&Knob> = knobs
            .iter()
            .filter(|knob| knob.power(before).is_some())
            .collect();
        let what: Vec<&str> = its.iter().map(|knob| knob.what).collect();
        FittedNumber {
            before: before.clone(),
            after: after.clone(),
            what: if what.is_empty() {
                "the size from which messages go another way".to_owned()
            } else {
                what.join(" and ")
            },
            is_shared: its.iter().any(|knob| knob.numbers.len() > 1),
        }
    });
    numbers.collect()
}

impl Fit {
    /// How far predictions are off, as a part of what was measured: of the points of the fit,
    /// or of those held out, on average and at worst. `None` if there is no such point.
    #[must_use]
    pub fn errors(&self, is_held_out: bool) -> Option<(f64, f64)> {
        mean_and_worst(&self.parts(&self.predicted_us, Some(is_held_out), false))
    }

    /// The same of other machines' measurements, of which the fit saw nothing.
    #[must_use]
    pub fn other_errors(&self) -> Option<(f64, f64)> {
        mean_and_worst(&self.parts(&self.predicted_us, None, true))
    }

    /// Points of other machines.
    #[must_use]
    pub fn other_count(&self) -> usize {
        self.parts(&self.predicted_us, None, true).len()
    }

    /// The same of the base, over all points.
    #[must_use]
    pub fn base_errors(&self) -> Option<(f64, f64)> {
        mean_and_worst(&self.parts(&self.base_us, None, false))
    }

    /// Points of the fit, or those that were held out.
    #[must_use]
    pub fn count(&self, is_held_out: bool) -> usize {
        self.parts(&self.predicted_us, Some(is_held_out), false)
            .len()
    }

    fn parts(
        &self,
        predicted_us: &[Vec<f64>],
        is_held_out: Option<bool>,
        is_other: bool,
    ) -> Vec<f64> {
        let pairs = self.measured.iter().zip(predicted_us);
        let pairs = pairs.filter(|(each, _)| each.is_other == is_other);
        let points = pairs.flat_map(|(each, predicted)| each.points.iter().zip(predicted));
        points
            .filter(|(point, _)| is_held_out.is_none_or(|held_out| point.is_held_out == held_out))
            .map(|(point, predicted)| (predicted / point.microseconds - 1.0).abs())
            .collect()
    }
}

fn mean_and_worst(parts: &[f64]) -> Option<(f64, f64)> {
    if parts.is_empty() {
        return None;
    }
    let mean = parts.iter().sum::<f64>() / parts.len() as f64;
    Some((mean, parts.iter().copied().fold(0.0, f64::max)))
}

#[cfg(test)]
mod tests;
