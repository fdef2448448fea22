//! What was measured: medians with their range, targets, verdicts; on the screen and as JSON.

use serde::Serialize;

/// One quantity, measured several times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) const EMPTY: Self = Self(Vec::new());

    pub(crate) fn add(&mut self, value: f64) {
        let place = self.0.partition_point(|other| *other < value);
        self.0.insert(place, value);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        match self.0.len() {
            0 => f64::NAN,
            count if count % 2 == 1 => self.0[middle],
            _ => (self.0[middle - 1] + self.0[middle]) / 2.0,
        }
    }

    fn min(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    fn max(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }
}

/// What a quantity should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    /// Nothing is promised; it stands beside another.
    None,
    /// The median is below.
    Below(f64),
    /// The median is this or less.
    AtMost(f64),
    /// The median is this or more.
    AtLeast(f64),
    /// The median is within the tolerance of the value.
    Near { value: f64, tolerance: f64 },
}

impl Target {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::None => true,
            Self::Below(limit) => value < limit,
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
            Self::Near {
                value: expected,
                tolerance,
            } => (value - expected).abs() <= tolerance,
        }
    }

    fn shown(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Below(limit) => format!("< {}", shown(limit)),
            Self::AtMost(limit) => format!("<= {}", shown(limit)),
            Self::AtLeast(limit) => format!(">= {}", shown(limit)),
            Self::Near { value, tolerance } => format!("{value} +- {tolerance}"),
        }
    }
}

/// One line of the table, as it is kept.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    quantity: String,
    unit: &'static str,
    target: String,
    /// None when it could not be measured: `verdict` says why.
    median: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    samples: Vec<f64>,
    verdict: String,
}

impl Row {
    pub(crate) fn new(
        quantity: impl Into<String>,
        unit: &'static str,
        target: Target,
        samples: &Samples,
    ) -> Self {
        let verdict = match target {
            Target::None => "",
            _ if target.is_met_by(samples.median()) => "met",
            _ => "MISSED",
        };
        Self {
            quantity: quantity.into(),
            unit,
            target: target.shown(),
            median: Some(samples.median()),
            min: Some(samples.min()),
            max: Some(samples.max()),
            samples: samples.0.clone(),
            verdict: verdict.to_owned(),
        }
    }

    /// What a peer that is not run here was measured to take, and where that is from.
    pub(crate) fn quoted(
        quantity: impl Into<String>,
        unit: &'static str,
        value: f64,
        source: impl Into<String>,
    ) -> Self {
        Self {
            unit,
            median: Some(value),
            ..Self::missing(quantity, source)
        }
    }

    /// A quantity that could not be measured, and why.
    pub(crate) fn missing(quantity: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            quantity: quantity.into(),
            unit: "",
            target: String::new(),
            median: None,
            min: None,
            max: None,
            samples: Vec::new(),
            verdict: reason.into(),
        }
    }

    /// The line under [`heading`].
    pub(crate) fn shown(&self) -> String {
        let quantity = match self.unit {
            "" => self.quantity.clone(),
            unit => format!("{}, {unit}", self.quantity),
        };
        let median = self.median.map(shown).unwrap_or_default();
        let range = match (self.min, self.max) {
            (Some(min), Some(max)) => format!("{} - {}", shown(min), shown(max)),
            _ => String::new(),
        };
        format!(
            "{quantity:<56} {:>16} {median:>12} {range:>25}  {}",
            self.target, self.verdict
        )
        .trim_end()
        .to_owned()
    }

    pub(crate) fn is_missed(&self) -> bool {
        self.verdict == "MISSED"
    }
}

/// The names of the columns of [`Row::shown`].
pub(crate) fn heading() -> String {
    format!(
        "{:<56} {:>16} {:>12} {:>25}  verdict",
        "quantity", "target", "median", "min - max"
    )
}

/// Four digits that matter, thousands apart.
pub(crate) fn shown(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let magnitude = value.abs();
    if magnitude < 1000.0 {
        let digits = match magnitude {
            0.0..1.0 => 3,
            1.0..100.0 => 2,
            _ => 1,
        };
        let text = format!("{value:.digits$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
    }
    let digits = format!("{magnitude:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if value < 0.0 {
        format!("-{grouped}")
    } else {
        grouped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        let mut samples = Samples::default();
        values.iter().for_each(|value| samples.add(*value));
        samples
    }

    #[test]
    fn median_is_the_middle_in_any_order() {
        assert_eq!(samples(&[3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(samples(&[4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert!(Samples::default().median().is_nan());
    }

    #[test]
    fn target_decides_the_verdict_by_the_median() {
        let row = |target| Row::new("time", "s", target, &samples(&[0.5, 0.9, 1.5]));
        assert!(!row(Target::Below(1.0)).is_missed());
        assert!(row(Target::Below(0.9)).is_missed());
        assert!(!row(Target::AtMost(0.9)).is_missed());
        assert!(row(Target::AtMost(0.8)).is_missed());
        assert!(!row(Target::AtLeast(0.9)).is_missed());
        assert!(row(Target::AtLeast(1.0)).is_missed());
        assert!(
            row(Target::Near {
                value: 2.0,
                tolerance: 1.0
            })
            .is_missed()
        );
        assert!(!row(Target::None).is_missed());
    }

    #[test]
    fn nothing_measured_meets_no_target() {
        assert!(Row::new("time", "s", Target::Below(1.0), &Samples::default()).is_missed());
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(shown(0.123_45), "0.123");
        assert_eq!(shown(31.0), "31");
        assert_eq!(shown(425.77), "425.8");
        assert_eq!(shown(2_000_000.0), "2,000,000");
        assert_eq!(shown(-1234.0), "-1,234");
    }
}
