//! A fit as tables for a person.

use std::fmt::Write as _;

use viaduct_measure::Test;

use crate::fit::Fit;

impl Fit {
    /// What was measured beside what the fitted preset predicts, the numbers before and after, and
    /// how far off it is.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::new();
        for (each, predicted) in self.measured.iter().zip(&self.predicted_us) {
            let what = match each.test {
                Test::Latency => "half a round trip",
                Test::Bandwidth | Test::Rate | Test::Cq => "a message of a stream",
            };
            let machine = match &each.machine {
                Some(machine) if each.is_other => format!(" on {machine}, which was not fitted"),
                _ if each.is_other => " on another machine, which was not fitted".to_owned(),
                _ => String::new(),
            };
            let simulated = if each.is_simulated {
                " (simulated hosts, no machine)"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "{} over {}{machine}{simulated}: {what}, measured and by the fitted model\n",
                each.test.name(),
                each.fabric
            );
            let rows = each.points.iter().zip(predicted).map(|(point, predicted)| {
                [
                    point.bytes.to_string(),
                    significant(point.microseconds),
                    significant(*predicted),
                    percent(predicted / point.microseconds - 1.0),
                    if each.is_other {
                        "comparison"
                    } else if point.is_held_out {
                        "held out"
                    } else {
                        "fit"
                    }
                    .to_owned(),
                ]
            });
            let heads = ["bytes", "measured us", "model us", "error %", "used for"];
            write_rows(&mut text, heads, &[true, true, true, true, false], rows);
            text.push('\n');
        }
        if self.left_out > 0 {
            let count = self.left_out;
            let base = &self.base;
            let _ = writeln!(text, "left out: {count} sizes, longer than {base} takes\n");
        }
        let rows = self.numbers.iter().map(|number| {
            [
                format!("{}.{}", number.before.table, number.before.key),
                number.before.value.clone(),
                number.after.value.clone(),
                number.what.clone(),
            ]
        });
        let heads = ["number", &self.base, "fitted", "a part of"];
        write_rows(&mut text, heads, &[false; 4], rows);
        text.push('\n');
        let rows = [
            (
                format!("fit, {} points", self.count(false)),
                self.errors(false),
            ),
            (
                format!("held out, {} points", self.count(true)),
                self.errors(true),
            ),
            (format!("{} as it is, all", self.base), self.base_errors()),
        ];
        let others = match self.other_count() {
            0 => None,
            count => Some((
                format!("other machines, {count} points"),
                self.other_errors(),
            )),
        };
        let rows = rows.into_iter().chain(others).map(|(name, errors)| {
            let cell = |part: Option<f64>| match part {
                Some(part) if part >= 10.0 => format!("{part:.0} times"),
                Some(part) => format!("{:.1} %", part * 100.0),
                None => "-".to_owned(),
            };
            [
                name,
                cell(errors.map(|(mean, _)| mean)),
                cell(errors.map(|(_, worst)| worst)),
            ]
        });
        let heads = ["error", "mean", "worst"];
        write_rows(&mut text, heads, &[false, true, true], rows);
        text
    }
}

/// Rows whose columns end, or begin, below each other.
fn write_rows<const N: usize>(
    text: &mut String,
    heads: [&str; N],
    are_right: &[bool; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    let heads = heads.map(str::to_owned);
    let rows: Vec<[String; N]> = [heads].into_iter().chain(rows).collect();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let widths = rows.iter().map(|row| row[column].chars().count());
            let width = widths.max().unwrap_or_default();
            let _ = if are_right[column] {
                write!(line, "  {cell:>width$}")
            } else {
                write!(line, "  {cell:<width$}")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// Three significant digits, more before the point.
fn significant(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// With its sign, and none at zero.
fn percent(part: f64) -> String {
    let text = format!("{:+.1}", part * 100.0);
    if matches!(text.as_str(), "+0.0" | "-0.0") {
        "0.0".to_owned()
    } else {
        text
    }
}
