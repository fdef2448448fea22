//! An axis with its range: where values stand and which are written beside it.

use crate::chart::{Axis, Notation, Scale};

/// How far the place of zero is from the rest of a logarithmic axis, as a part of the rest.
const ZERO_GAP: f64 = 0.12;
/// How far the outermost value is from the end of an axis whose ends are no round values.
const PADDING: f64 = 0.025;
/// For sums of roundings.
const SLACK: f64 = 1e-9;

/// An axis with its range.
#[derive(Clone, Debug)]
pub(crate) struct Ruler {
    scale: Scale,
    /// The ends, as the scale has them: values or logarithms.
    ends: (f64, f64),
    /// Where a logarithmic axis has zero, and where the rest of it begins.
    zero: Option<(f64, f64)>,
    /// What is written, in order.
    pub(crate) ticks: Vec<Tick>,
    /// Where marks without words are, as parts of the axis.
    pub(crate) marks: Vec<f64>,
}

/// A value that is written beside an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    /// Where, as a part of the axis.
    pub(crate) at: f64,
    pub(crate) label: String,
}

impl Ruler {
    /// For the values on an axis along which a label takes some room, as a part of the axis.
    pub(crate) fn new(axis: &Axis, values: &[f64], room: impl Fn(&str) -> f64) -> Self {
        let shown =
            |value: &&f64| value.is_finite() && (axis.scale == Scale::Linear || **value > 0.0);
        let shown: Vec<f64> = values.iter().filter(shown).copied().collect();
        let least = shown.iter().copied().reduce(f64::min);
        let greatest = shown.iter().copied().reduce(f64::max);
        let (candidates, bounds) = match axis.scale {
            Scale::Linear => linear(least.unwrap_or(0.0), greatest.unwrap_or(0.0)),
            Scale::Binary => binary(least.unwrap_or(1.0), greatest.unwrap_or(2.0)),
            Scale::Decimal => decimal(least.unwrap_or(1.0), greatest.unwrap_or(10.0)),
        };
        let (low, high) = bounds;
        let has_zero = axis.scale != Scale::Linear && values.contains(&0.0);
        let zero = has_zero.then_some((low - (high - low) * ZERO_GAP, low));
        let first = zero.map_or(low, |(zero, _)| zero);
        let padding = (high - first) * PADDING;
        let is_round = axis.scale != Scale::Binary;
        let mut ruler = Self {
            scale: axis.scale,
            ends: (
                first - if is_round && !has_zero { 0.0 } else { padding },
                high + if is_round { 0.0 } else { padding },
            ),
            zero,
            ticks: Vec::new(),
            marks: Vec::new(),
        };
        for candidate in &candidates {
            ruler.ticks = ruler.ticks_at(candidate, axis.notation);
            let is_read = ruler.ticks.windows(2).all(|pair| {
                pair[1].at - pair[0].at >= (room(&pair[0].label) + room(&pair[1].label)) / 2.0
            });
            if is_read {
                break;
            }
        }
        // The first candidate is the finest; a linear axis is plain enough without.
        if let (Scale::Binary | Scale::Decimal, Some(finest)) = (axis.scale, candidates.first()) {
            let finest = finest.iter().filter_map(|value| ruler.place(*value));
            ruler.marks = finest.collect();
        }
        ruler
    }

    /// Where a value stands, as a part of the axis; `None` if there is no place for it.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let at = match (self.scale, self.zero) {
            _ if !value.is_finite() => return None,
            (Scale::Linear, _) => value,
            (_, Some((zero, _))) if value == 0.0 => zero,
            (_, _) if value <= 0.0 => return None,
            (Scale::Binary, _) => value.log2(),
            (Scale::Decimal, _) => value.log10(),
        };
        Some(self.part(at))
    }

    /// Between which places the axis leaves out what is between zero and the least value.
    pub(crate) fn gap(&self) -> Option<(f64, f64)> {
        let (zero, rest) = self.zero?;
        Some((self.part(zero), self.part(rest)))
    }

    fn part(&self, at: f64) -> f64 {
        let (low, high) = self.ends;
        (at - low) / (high - low)
    }

    fn ticks_at(&self, values: &[f64], notation: Notation) -> Vec<Tick> {
        let zero = self.zero.map(|_| 0.0);
        let ticks = zero.iter().chain(values).filter_map(|value| {
            let at = self.place(*value)?;
            let is_within = (-SLACK..=1.0 + SLACK).contains(&at);
            is_within.then(|| Tick {
                at,
                label: written(*value, notation),
            })
        });
        ticks.collect()
    }
}

/// Sets of values to write, from the finest to the coarsest, and the ends of the axis.
type Divisions = (Vec<Vec<f64>>, (f64, f64));

fn linear(least: f64, greatest: f64) -> Divisions {
    const PARTS: f64 = 5.0;

    let low = least.min(0.0);
    let high = greatest.max(low);
    let high = if high > low { high } else { low + 1.0 };
    let step = round_step((high - low) / PARTS);
    let ends = (
        (low / step + SLACK).floor() * step,
        (high / step - SLACK).ceil() * step,
    );
    let sets = [1.0, 2.0, 5.0, 10.0].map(|factor| multiples(ends, step * factor));
    (sets.to_vec(), ends)
}

fn binary(least: f64, greatest: f64) -> Divisions {
    let (mut low, mut high) = (least.log2(), greatest.log2());
    if high - low < 1.0 {
        // Else a single value would be all there is.
        (low, high) = (low.floor(), high.ceil());
        if high - low < 1.0 {
            (low, high) = (low - 1.0, high + 1.0);
        }
    }
    let sets = [1.0, 2.0, 4.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0].map(|step| {
        let exponents = multiples((low, high), step);
        exponents.iter().map(|exponent| exponent.exp2()).collect()
    });
    (sets.to_vec(), (low, high))
}

fn decimal(least: f64, greatest: f64) -> Divisions {
    const DIGITS: [f64; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
    const FEW_DIGITS: [f64; 3] = [1.0, 2.0, 5.0];

    let decades = (least.log10().floor() as i32 - 1)..=(greatest.log10().ceil() as i32 + 1);
    let powers: Vec<f64> = decades.map(|decade| 10f64.powi(decade)).collect();
    let values = |digits: &[f64]| -> Vec<f64> {
        let values = powers.iter();
        values
            .flat_map(|power| digits.iter().map(move |digit| digit * power))
            .collect()
    };
    let round = values(&FEW_DIGITS);
    let below = |bound: f64| round.iter().rev().find(move |value| **value <= bound);
    let above = |bound: f64| round.iter().find(move |value| **value >= bound);
    // No line is to run along the frame, or be hidden by it.
    let low = below(least / 1.05).copied().unwrap_or(least / 2.0);
    let high = above(greatest * 1.02).copied().unwrap_or(greatest * 2.0);
    let mut sets = vec![values(&DIGITS), round.clone(), powers.clone()];
    for step in [2, 3, 5, 10, 20, 50, 100] {
        sets.push(powers.iter().copied().step_by(step).collect());
    }
    let is_within = |value: &&f64| (low..=high).contains(*value);
    if sets[0].iter().filter(is_within).count() < 4 {
        sets.insert(0, multiples((low, high), round_step((high - low) / 5.0)));
    }
    (sets, (low.log10(), high.log10()))
}

/// 1, 2 or 5 times a power of ten, no less than asked for.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powi(least.log10().floor() as i32);
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= least * (1.0 - SLACK));
    factor.unwrap_or(10.0) * power
}

/// The multiples of a step between two ends, these included.
fn multiples((low, high): (f64, f64), step: f64) -> Vec<f64> {
    let first = (low / step - SLACK).ceil() as i64;
    let last = (high / step + SLACK).floor() as i64;
    (first..=last).map(|index| index as f64 * step).collect()
}

/// A value as it stands beside an axis.
fn written(value: f64, notation: Notation) -> String {
    const UNITS: [(&str, f64); 4] = [
        ("TiB", (1u64 << 40) as f64),
        ("GiB", (1u64 << 30) as f64),
        ("MiB", (1u64 << 20) as f64),
        ("KiB", (1u64 << 10) as f64),
    ];

    match notation {
        Notation::Plain => plain(value),
        Notation::Bytes => {
            let unit = UNITS.into_iter().find(|(_, bytes)| value >= *bytes);
            let (unit, bytes) = unit.unwrap_or(("B", 1.0));
            format!("{} {unit}", plain(value / bytes))
        }
    }
}

/// Without the dust of sums, in groups of three digits.
fn plain(value: f64) -> String {
    let value: f64 = format!("{value:.9e}").parse().unwrap_or(value);
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e10).contains(&size) {
        return format!("{value:e}");
    }
    let digits = size.to_string();
    let (whole, rest) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut text = if value < 0.0 { "-" } else { "" }.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if !rest.is_empty() {
        text.push('.');
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ruler(scale: Scale, notation: Notation, values: &[f64], room: f64) -> Ruler {
        let axis = Axis {
            title: String::new(),
            scale,
            notation,
        };
        Ruler::new(&axis, values, |_| room)
    }

    fn labels(ruler: &Ruler) -> Vec<&str> {
        let labels = ruler.ticks.iter().map(|tick| tick.label.as_str());
        labels.collect()
    }

    #[test]
    fn bytes_are_marked_at_powers_of_two() {
        let ruler = ruler(Scale::Binary, Notation::Bytes, &[1.0, 4_194_304.0], 0.1);
        assert_eq!(
            labels(&ruler),
            ["1 B", "16 B", "256 B", "4 KiB", "64 KiB", "1 MiB"]
        );
        assert_eq!(ruler.marks.len(), 23);
        let (first, last) = (ruler.place(1.0).unwrap(), ruler.place(4_194_304.0).unwrap());
        assert!(0.0 < first && first < 0.1 && 0.9 < last && last < 1.0);
    }

    #[test]
    fn zero_has_a_place_of_its_own_on_a_logarithmic_axis() {
        for scale in [Scale::Binary, Scale::Decimal] {
            let ruler = ruler(scale, Notation::Plain, &[0.0, 8.0, 1024.0], 0.0);
            assert_eq!(ruler.ticks[0].label, "0");
            let (zero, rest) = ruler.gap().unwrap();
            assert_eq!(ruler.place(0.0), Some(zero));
            assert!(0.0 < zero && zero + 0.05 < rest, "{zero} {rest}");
            assert!(rest <= ruler.place(8.0).unwrap());
            assert_eq!(ruler.place(-1.0), None);
        }
        let without = ruler(Scale::Binary, Notation::Plain, &[8.0, 1024.0], 0.0);
        assert_eq!((without.gap(), without.place(0.0)), (None, None));
    }

    #[test]
    fn a_linear_axis_begins_at_zero_and_ends_at_a_round_value() {
        let positive = ruler(Scale::Linear, Notation::Plain, &[700.0, 9_300.0], 0.1);
        assert_eq!(
            labels(&positive),
            ["0", "2,000", "4,000", "6,000", "8,000", "10,000"]
        );
        assert_eq!(positive.place(0.0), Some(0.0));
        assert_eq!(positive.place(10_000.0), Some(1.0));
        let negative = ruler(Scale::Linear, Notation::Plain, &[-0.25, 0.3], 0.1);
        assert_eq!(labels(&negative), ["-0.4", "-0.2", "0", "0.2", "0.4"]);
    }

    #[test]
    fn a_decimal_axis_is_marked_as_finely_as_it_has_room() {
        let of = |least, greatest| ruler(Scale::Decimal, Notation::Plain, &[least, greatest], 0.08);
        assert_eq!(
            labels(&of(0.13, 40_000.0)),
            ["0.1", "1", "10", "100", "1,000", "10,000"]
        );
        assert_eq!(labels(&of(0.13, 4.0)), ["0.1", "0.2", "0.5", "1", "2", "5"]);
        assert_eq!(labels(&of(0.22, 0.45)), ["0.2", "0.3", "0.4", "0.5"]);
        let narrow = of(1.1, 1.3);
        assert!(narrow.ticks.len() >= 4, "{:?}", labels(&narrow));
        let one = of(8.0, 8.0);
        assert_eq!(labels(&one), ["5", "6", "7", "8", "9", "10"]);
        let round = of(1.0, 10.0);
        assert!(round.place(1.0).unwrap() > 0.0 && round.place(10.0).unwrap() < 1.0);
    }

    #[test]
    fn no_labels_overlap_and_two_are_left() {
        for room in [0.01, 0.05, 0.1, 0.2, 0.3] {
            for scale in [Scale::Linear, Scale::Binary, Scale::Decimal] {
                for greatest in [9.0, 65.0, 1e3, 1e6, 1e9] {
                    let ruler = ruler(scale, Notation::Plain, &[1.0, greatest], room);
                    let at: Vec<f64> = ruler.ticks.iter().map(|tick| tick.at).collect();
                    assert!(at.len() >= 2, "{scale:?} {greatest} {room}: {at:?}");
                    let is_apart = at.windows(2).all(|pair| pair[1] - pair[0] >= room);
                    assert!(is_apart, "{scale:?} {greatest} {room}: {at:?}");
                }
            }
        }
    }

    #[test]
    fn nothing_to_show_is_an_axis_still() {
        for scale in [Scale::Linear, Scale::Binary, Scale::Decimal] {
            for values in [&[][..], &[0.0], &[f64::NAN, f64::INFINITY, -0.0], &[1e300]] {
                let ruler = ruler(scale, Notation::Bytes, values, 0.1);
                assert!(ruler.ticks.len() >= 2, "{scale:?} {values:?} {ruler:?}");
                assert!(ruler.ticks.iter().all(|tick| tick.at.is_finite()));
                assert_eq!(ruler.place(f64::NAN), None);
            }
        }
    }

    #[test]
    fn values_are_written_for_people() {
        for (value, text) in [
            (0.0, "0"),
            (0.1 + 0.2, "0.3"),
            (1_234_567.0, "1,234,567"),
            (-1500.5, "-1,500.5"),
            (1e-6, "1e-6"),
            (2e12, "2e12"),
        ] {
            assert_eq!(plain(value), text);
        }
        assert_eq!(written(0.0, Notation::Bytes), "0 B");
        assert_eq!(written(1536.0, Notation::Bytes), "1.5 KiB");
        assert_eq!(written(1_073_741_824.0, Notation::Bytes), "1 GiB");
    }
}
