//! `viaduct models ranges`: what comes out of an interface with endpoints when a number of its
//! preset is at either end of its range.

use std::fmt::Write as _;
use std::sync::Arc;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use viaduct_engine::Time;
use viaduct_lanai::{Config, Server, contention};
use viaduct_measure::{Bulk, BulkRow, LogP, bulk, logp};
use viaduct_scenario::{Preset, PresetNumber, endpoints_of, key, load_preset};

use super::failure_of;
use super::simulated::{RequestProgram, measure};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// What is worked out for each row.
const OUTCOMES: [&str; 7] = [
    "gap, us",
    "round trip, us",
    "8 KiB, MB/s",
    "8 KiB to and fro, us",
    "one, 24 clients, 1000/s",
    "st, 8 frames, 24 clients, 1000/s",
    "remaps, 1/s",
];

/// A table, as the docs have them: one row per number that has a range, or for those of `keys`
/// alone, behind a row of the preset as it is.
///
/// # Errors
///
/// When the preset is of another kind, a key has no range, or a run ends early.
pub(crate) fn ranges_text(
    name: &str,
    keys: &[String],
    interrupt: &Interrupt,
) -> Result<String, Failure> {
    let preset = load_preset(name)?;
    if !preset.has_endpoints() {
        return Err(Failure::new(
            format!("the preset `{name}` has no endpoints"),
            "ranges are worked out for am-myrinet, gam-myrinet and files that inherit one",
        ));
    }
    let variations = variations(&preset, keys)?;
    // Each preset of the table once: as it is, then low and high of each row.
    let ends = variations.iter().flat_map(|it| it.ends.iter());
    let presets: Vec<&Preset> = [&preset].into_iter().chain(ends).collect();
    let outcomes = outcomes(&presets, &preset, name, interrupt)?;
    let mut text = format!("| number | value | range | {} |\n", OUTCOMES.join(" | "));
    text.push_str("| --- | ---: | ---: |");
    text.push_str(&" ---: |".repeat(OUTCOMES.len()));
    text.push('\n');
    let (shipped, varied) = (&outcomes[0], &outcomes[1..]);
    let cells: Vec<String> = shipped.iter().map(|value| shown(*value)).collect();
    let _ = writeln!(text, "| as it is |  |  | {} |", cells.join(" | "));
    for (variation, ends) in variations.iter().zip(varied.chunks(2)) {
        let cells = (0..OUTCOMES.len()).map(|column| {
            let at = [shipped[column], ends[0][column], ends[1][column]];
            if at[1..].iter().all(|end| is_as(*end, at[0])) {
                return String::new();
            }
            format!("{} to {}", shown(at[1]), shown(at[2]))
        });
        let cells: Vec<String> = cells.collect();
        let Variation {
            name, value, range, ..
        } = variation;
        let _ = writeln!(
            text,
            "| {name} | {value} | {range} | {} |",
            cells.join(" | ")
        );
    }
    Ok(text)
}

/// A row: the presets with a number, or several, at the low and at the high end.
struct Variation {
    name: String,
    value: String,
    range: String,
    ends: [Preset; 2],
}

fn variations(preset: &Preset, keys: &[String]) -> Result<Vec<Variation>, Failure> {
    let path = |number: &PresetNumber| format!("{}.{}", number.table, number.key);
    let ranged: Vec<&PresetNumber> = preset
        .numbers
        .iter()
        .filter(|number| number.ends().is_some())
        .collect();
    for key in keys {
        if !ranged.iter().any(|number| path(number) == *key) {
            let known: Vec<String> = ranged.iter().map(|number| path(number)).collect();
            return Err(Failure::new(
                format!("`{key}` has no range in the preset `{}`", preset.name),
                format!("these have one: {}", known.join(", ")),
            ));
        }
    }
    let wanted = ranged
        .iter()
        .filter(|number| keys.is_empty() || keys.contains(&path(number)));
    let mut variations: Vec<Variation> = wanted
        .filter_map(|number| {
            let ends = number.ends()?;
            let [low, high] = &ends;
            Some(Variation {
                name: format!("`{}`", path(number)),
                value: number.value.clone(),
                range: format!("{} to {}", low.value, high.value),
                ends: ends.clone().map(|end| with(preset, &[end])),
            })
        })
        .collect();
    if let Some(parent) = preset.inherits.first().filter(|_| keys.is_empty()) {
        let parent = load_preset(parent)?;
        // Steps that the preset before does not take.
        let is_new = |number: &&&PresetNumber| {
            let same = |it: &&PresetNumber| (it.table, it.key) == (number.table, number.key);
            let before = parent.numbers.iter().find(same);
            number.is_beside(key::Interface::clock)
                && before.is_some_and(|it| !it.has_value_of(number))
        };
        let ends: Vec<[PresetNumber; 2]> = ranged
            .iter()
            .filter(is_new)
            .filter_map(|number| number.ends())
            .collect();
        if ends.len() > 1 {
            let at = |end: usize| {
                ends.iter()
                    .map(|ends| ends[end].clone())
                    .collect::<Vec<_>>()
            };
            variations.push(Variation {
                name: format!("all steps that `{}` has not", parent.name),
                value: String::new(),
                range: String::new(),
                ends: [with(preset, &at(0)), with(preset, &at(1))],
            });
        }
    }
    Ok(variations)
}

fn with(preset: &Preset, changed: &[PresetNumber]) -> Preset {
    let mut preset = preset.clone();
    for number in changed {
        let same = |it: &&mut PresetNumber| (it.table, it.key) == (number.table, number.key);
        if let Some(place) = preset.numbers.iter_mut().find(same) {
            *place = number.clone();
        }
    }
    preset
}

/// The outcomes of each preset, by as many threads as there are processors: each is a simulation
/// of its own, so that their order does not matter.
fn outcomes(
    presets: &[&Preset],
    shipped: &Preset,
    name: &str,
    interrupt: &Interrupt,
) -> Result<Vec<[f64; OUTCOMES.len()]>, Failure> {
    let outcomes = presets.par_iter();
    outcomes
        .map(|preset| outcome(preset, shipped, name, interrupt))
        .collect()
}

fn outcome(
    preset: &Preset,
    shipped: &Preset,
    name: &str,
    interrupt: &Interrupt,
) -> Result<[f64; OUTCOMES.len()], Failure> {
    const CLIENTS: u16 = 24;
    let plain = |error: viaduct_scenario::ProgramsError| Failure::plain(error.to_string());
    let config = |hosts| -> Result<Config, Failure> {
        let base = endpoints_of(shipped, name, hosts).map_err(plain)?;
        let mut config = endpoints_of(preset, name, hosts).map_err(plain)?;
        config.firmware.steps = config.firmware.steps.fitted_as(&base.firmware.steps);
        Ok(config)
    };
    let program: RequestProgram<LogP> = Arc::new(|requests| logp(requests));
    let logp = measure(config(2)?, interrupt, &program).map_err(failure_of)?;
    let program: RequestProgram<Bulk> = Arc::new(|requests| bulk(requests, &[8192], &mut |_| {}));
    let bulk = measure(config(2)?, interrupt, &program).map_err(failure_of)?;
    let of_bulk = |of: fn(&BulkRow) -> f64| bulk.rows.first().map_or(f64::NAN, of);
    let mut found = [f64::NAN; OUTCOMES.len()];
    found[..4].copy_from_slice(&[
        logp.gap_us,
        logp.round_trip_us,
        of_bulk(|row| row.mbyte_s),
        of_bulk(|row| row.round_trip_us),
    ]);
    let many = config(u32::from(CLIENTS) + 1)?;
    if many.transport.is_none() {
        return Ok(found);
    }
    let contend = |server, frames| {
        let config = Config {
            frames,
            ..many.clone()
        };
        let (warm_up, window) = (Time::from_milliseconds(100), Time::from_milliseconds(300));
        contention(config, server, CLIENTS, 16, warm_up, window)
    };
    found[4] = contend(Server::One, 8).messages_s / 1e3;
    let st = contend(Server::SingleThread, 8);
    found[5] = st.messages_s / 1e3;
    found[6] = st.window.remaps as f64 / 0.3;
    Ok(found)
}

/// Whether an end of a range changes nothing: a hundredth is what draws of random numbers do.
fn is_as(end: f64, shipped: f64) -> bool {
    end.is_nan() || (end - shipped).abs() <= 0.01 * shipped
}

fn shown(value: f64) -> String {
    if value.is_nan() {
        String::new()
    } else if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}
