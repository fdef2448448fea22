//! What was measured: the JSON of `viaduct measure`, as points to fit and points to check by.

use serde::Deserialize;
use viaduct_measure::{Mode, Test};
use viaduct_provider::via::ReliabilityLevel;

use crate::error::FitError;

/// Fewest sizes that a fit takes.
pub const POINTS_MIN: usize = 4;

/// Bounds of what any machine does: a tenth of a nanosecond, a thousand seconds, 100 TB/s.
const TIME_US_MIN: f64 = 1e-4;
const TIME_US_MAX: f64 = 1e9;
const RATE_MBYTE_S_MAX: f64 = 1e8;

/// A report, as `viaduct measure --json` writes it; what does not matter here is left out.
#[derive(Deserialize)]
struct Report {
    fabric: String,
    test: Test,
    mode: Mode,
    level: String,
    #[serde(default)]
    cores: Option<[usize; 2]>,
    #[serde(default)]
    machine: Option<String>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    bytes: Option<u32>,
    half_rtt_us: Option<Spread>,
    messages_s: Option<f64>,
    #[serde(default)]
    placement: Option<String>,
}

#[derive(Deserialize)]
struct Spread {
    median: f64,
}

/// One test's sizes and times on one fabric.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The fabric's name.
    pub fabric: String,
    /// The program.
    pub test: Test,
    /// How both sides waited.
    pub mode: Mode,
    /// The connections' level.
    pub level: ReliabilityLevel,
    /// Whether the hosts were simulated.
    pub is_simulated: bool,
    /// Where the cores were, if that is known and was the same in all rows.
    pub placement: Option<String>,
    /// The machine's name, where the file says it.
    pub machine: Option<String>,
    /// Whether it is of another machine than the one that is fitted: the fit sees none of it.
    pub is_other: bool,
    /// The core that both sides were on, if they had but one.
    pub shared_core: Option<usize>,
    /// In the order of sizes, each size once.
    pub points: Vec<Point>,
}

/// A size and its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Bytes of a message.
    pub bytes: u32,
    /// Half a round trip, or the time a message in a stream of them takes.
    pub microseconds: f64,
    /// Whether the fit does not see it: every third, neither the first nor the last.
    pub is_held_out: bool,
}

impl Measured {
    /// Reads what one run of `viaduct measure --json` wrote: a report, or several in an array.
    ///
    /// # Errors
    ///
    /// [`FitError::Unusable`] when it is something else.
    pub fn read(file: &str, text: &str) -> Result<Vec<Self>, FitError> {
        const HELP: &str =
            "it is what `viaduct measure latency --on shm --json > measured.json` writes";
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| FitError::unusable(format!("{file} is no JSON: {error}"), HELP))?;
        let reports = match value {
            serde_json::Value::Array(reports) => reports,
            report => vec![report],
        };
        if reports.is_empty() {
            return Err(FitError::unusable(format!("{file} has no report"), HELP));
        }
        let reports = reports.into_iter().map(|report| {
            let report = serde_json::from_value(report).map_err(|error| {
                FitError::unusable(format!("{file} holds no measurement: {error}"), HELP)
            })?;
            Self::of(file, report)
        });
        reports.collect()
    }

    fn of(file: &str, report: Report) -> Result<Self, FitError> {
        if report.test == Test::Cq {
            return Err(FitError::unusable(
                format!("{file} has a measurement of `cq`, which says nothing of sizes"),
                "give one of `latency`, `bandwidth` or `rate`",
            ));
        }
        if report.rows.is_empty() {
            return Err(FitError::unusable(
                format!("{file} has a measurement without a row"),
                "measure again, and let it come to its end",
            ));
        }
        let level = match report.level.as_str() {
            "ud" => ReliabilityLevel::Unreliable,
            "rd" => ReliabilityLevel::ReliableDelivery,
            "rr" => ReliabilityLevel::ReliableReception,
            level => {
                return Err(FitError::unusable(
                    format!("{file} has a measurement of the level `{level}`, which there is not"),
                    "the levels are ud, rd and rr",
                ));
            }
        };
        let placement = report.rows[0].placement.clone();
        let is_same = report.rows.iter().all(|row| row.placement == placement);
        let mut points = Vec::new();
        for row in &report.rows {
            points.push(point(file, report.test, row)?);
        }
        points.sort_by_key(|point| point.bytes);
        let mut kept: Vec<Point> = Vec::new();
        for point in points {
            // Of a size that was measured twice what took less: noise only ever adds.
            match kept.last_mut() {
                Some(last) if last.bytes == point.bytes => {
                    last.microseconds = last.microseconds.min(point.microseconds);
                }
                _ => kept.push(point),
            }
        }
        let mut measured = Self {
            fabric: report.fabric,
            test: report.test,
            mode: report.mode,
            level,
            is_simulated: report.cores.is_none(),
            placement: placement.filter(|_| is_same),
            machine: report.machine,
            is_other: false,
            shared_core: report
                .cores
                .and_then(|[first, second]| (first == second).then_some(first)),
            points: kept,
        };
        measured.hold_out();
        Ok(measured)
    }

    /// Marks every third point; the first and the last are of the fit.
    fn hold_out(&mut self) {
        let last = self.points.len().saturating_sub(1);
        for (place, point) in self.points.iter_mut().enumerate() {
            point.is_held_out = self.is_other || place % 3 == 2 && place != last;
        }
    }

    /// Keeps it out of the fit, to be compared with its outcome.
    pub(crate) fn set_aside(&mut self) {
        self.is_other = true;
        self.hold_out();
    }

    /// Leaves out sizes beyond a length; says how many those were.
    pub(crate) fn cut(&mut self, bytes_max: u32) -> usize {
        let before = self.points.len();
        self.points.retain(|point| point.bytes <= bytes_max);
        self.hold_out();
        before - self.points.len()
    }
}

fn point(file: &str, test: Test, row: &Row) -> Result<Point, FitError> {
    let microseconds = match (test, &row.half_rtt_us, row.messages_s) {
        (Test::Latency, Some(spread), _) => Some(spread.median),
        (Test::Bandwidth | Test::Rate, _, Some(rate)) => Some(1e6 / rate),
        _ => None,
    };
    let usable = microseconds.filter(|time| time.is_finite() && *time > 0.0);
    if let (Some(bytes), Some(time)) = (row.bytes, usable) {
        // Bytes a microsecond are megabytes a second.
        let is_absurd = !(TIME_US_MIN..=TIME_US_MAX).contains(&time)
            || f64::from(bytes) / time > RATE_MBYTE_S_MAX;
        if is_absurd {
            return Err(FitError::unusable(
                format!("{file}: {bytes} bytes in {time:e} us is what no machine does"),
                "give the file as `viaduct measure --json` writes it; times are in us, rates are \
                 messages a second",
            ));
        }
    }
    match (row.bytes, usable) {
        (Some(bytes), Some(microseconds)) => Ok(Point {
            bytes,
            microseconds,
            is_held_out: false,
        }),
        _ => Err(FitError::unusable(
            format!(
                "{file} has a row of `{}` without bytes or time",
                test.name()
            ),
            "give the file as `viaduct measure --json` writes it",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sizes: &[u32]) -> String {
        let rows: Vec<String> = sizes
            .iter()
            .map(|bytes| format!(r#"{{"bytes":{bytes},"half_rtt_us":{{"median":{bytes}.5}}}}"#))
            .collect();
        format!(
            r#"{{"fabric":"shm","test":"latency","mode":"poll","level":"rd","rows":[{}]}}"#,
            rows.join(",")
        )
    }

    fn held_out(sizes: &[u32]) -> Vec<u32> {
        let measured = Measured::read("m.json", &text(sizes)).unwrap();
        let points = measured[0].points.iter();
        let held_out = points.filter(|point| point.is_held_out);
        held_out.map(|point| point.bytes).collect()
    }

    #[test]
    fn every_third_size_is_held_out_but_the_first_and_the_last() {
        assert_eq!(held_out(&[0, 1, 2, 3, 4, 5, 6]), [2, 5]);
        assert_eq!(held_out(&[5, 3, 1, 0, 4, 2]), [2]);
        assert_eq!(held_out(&[0, 1, 2]), [0_u32; 0]);
    }

    #[test]
    fn a_size_measured_twice_is_one_point() {
        let measured = Measured::read("m.json", &text(&[8, 8, 64])).unwrap();
        assert_eq!(measured[0].points.len(), 2);
    }

    #[test]
    fn an_array_has_several_measurements() {
        let array = format!("[{},{}]", text(&[8]), text(&[64]));
        assert_eq!(Measured::read("m.json", &array).unwrap().len(), 2);
    }

    #[test]
    fn what_is_no_measurement_is_said() {
        for (text, words) in [
            ("size 8", "no JSON"),
            ("[]", "no report"),
            ("{}", "no measurement"),
            (&text(&[]), "without a row"),
            (&text(&[8]).replace("\"rd\"", "\"xx\""), "level `xx`"),
            (&text(&[8]).replace("half_rtt_us", "other"), "without bytes"),
            (&text(&[8]).replace("8.5", "0.0"), "without bytes or time"),
            (&text(&[8]).replace("latency", "cq"), "nothing of sizes"),
            (&text(&[8]).replace("8.5", "1e-7"), "no machine does"),
            (&text(&[8]).replace("8.5", "1e12"), "no machine does"),
            (
                &text(&[2_000_000_000]).replace("2000000000.5", "1.0"),
                "no machine does",
            ),
        ] {
            let error = Measured::read("m.json", text).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("m.json"), "{error}");
        }
    }
}
