//! Flow-size tables: the text files that congestion-control papers publish.

use super::error::{CdfError, CdfProblem};
use super::piecewise::TABLE_POINTS_MAX;
use super::size::SizeDistribution;

/// Reads a flow-size table: on each line `size_bytes cumulative_percent`, the first `0 0` (or
/// another size at 0 percent), the last at 100 percent, sizes rising, linear in between.
///
/// Fields are separated by spaces or tabs. Empty lines, and what follows a `#`, are skipped.
/// Numbers are decimal, with an optional fraction and exponent and no sign.
///
/// ```
/// let sizes = viaduct_cluster::workload::parse_size_cdf("0 0\n1000 50\n3000 100\n")?;
/// assert_eq!(sizes.mean_bytes(), 1250.0);
/// # Ok::<(), viaduct_cluster::workload::CdfError>(())
/// ```
///
/// # Errors
///
/// The first line that is not of this form, and where in it. Bounded: at most
/// [`TABLE_POINTS_MAX`] points are read.
pub fn parse_size_cdf(text: &str) -> Result<SizeDistribution, CdfError> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut place = Place { line: 1, column: 1 };
    for (index, line) in text.lines().enumerate() {
        let content = line.split_once('#').map_or(line, |(content, _)| content);
        let mut fields = Fields {
            rest: content,
            column: 1,
        };
        let Some(size) = fields.next() else { continue };
        let at = |field: &Field<'_>| Place {
            line: index + 1,
            column: field.column,
        };
        let (Some(percent), None) = (fields.next(), fields.next()) else {
            let fields = content
                .split([' ', '\t'])
                .filter(|field| !field.is_empty())
                .count();
            return Err(at(&size).error(CdfProblem::Fields { fields }));
        };
        if points.len() == TABLE_POINTS_MAX {
            return Err(at(&size).error(CdfProblem::TooLong {
                max: TABLE_POINTS_MAX,
            }));
        }
        let bytes = number(size.text).map_err(|problem| at(&size).error(problem))?;
        let cumulative = number(percent.text).map_err(|problem| at(&percent).error(problem))?;
        if bytes > f64::from(u32::MAX) {
            return Err(at(&size).error(CdfProblem::Size {
                value: bytes,
                max: u32::MAX,
            }));
        }
        if cumulative > 100.0 {
            return Err(at(&percent).error(CdfProblem::Percent { value: cumulative }));
        }
        if let Some(&(previous_bytes, previous)) = points.last() {
            if bytes < previous_bytes {
                let problem = CdfProblem::SizeFalls {
                    value: bytes,
                    previous: previous_bytes,
                };
                return Err(at(&size).error(problem));
            }
            if cumulative < previous {
                let problem = CdfProblem::PercentFalls {
                    value: cumulative,
                    previous,
                };
                return Err(at(&percent).error(problem));
            }
        } else if cumulative != 0.0 {
            return Err(at(&percent).error(CdfProblem::First { value: cumulative }));
        }
        points.push((bytes, cumulative));
        place = at(&percent);
    }
    let last = points.last().map_or(0.0, |&(_, percent)| percent);
    if points.len() < 2 {
        return Err(place.error(CdfProblem::TooShort {
            points: points.len(),
        }));
    }
    if last != 100.0 {
        return Err(place.error(CdfProblem::Last { value: last }));
    }
    for point in &mut points {
        point.1 /= 100.0;
    }
    SizeDistribution::empirical(points).map_err(|error| place.error(CdfProblem::Table(error)))
}

/// Line and column, both from 1.
#[derive(Clone, Copy)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn error(self, problem: CdfProblem) -> CdfError {
        CdfError {
            line: self.line,
            column: self.column,
            problem,
        }
    }
}

struct Field<'text> {
    text: &'text str,
    column: usize,
}

/// The fields of a line with their columns in characters.
struct Fields<'text> {
    rest: &'text str,
    column: usize,
}

impl<'text> Iterator for Fields<'text> {
    type Item = Field<'text>;

    fn next(&mut self) -> Option<Field<'text>> {
        let text = self.rest.trim_start_matches(is_blank);
        // Blanks are one byte each.
        self.column += self.rest.len() - text.len();
        if text.is_empty() {
            return None;
        }
        let end = text.find(is_blank).unwrap_or(text.len());
        let (field, rest) = text.split_at(end);
        let column = self.column;
        self.column += field.chars().count();
        self.rest = rest;
        Some(Field {
            text: field,
            column,
        })
    }
}

fn is_blank(character: char) -> bool {
    character == ' ' || character == '\t'
}

/// A decimal number without sign. `str::parse` alone would take `inf`, `nan` and `+1`.
fn number(text: &str) -> Result<f64, CdfProblem> {
    let begins_well = text.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    match text.parse::<f64>() {
        Ok(value) if begins_well && value.is_finite() => Ok(value),
        _ => Err(CdfProblem::Number {
            text: text.chars().take(TEXT_SHOWN_MAX).collect(),
        }),
    }
}

/// Characters of a wrong field that a message repeats.
const TEXT_SHOWN_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::test_support::{assert_follows, assert_mean, stream};
    use super::*;

    const WEB_SEARCH: &str = "\
0 0
10000 15
20000 20
30000 30
50000 40
80000 53
200000 60
1e6 70
2e6 80
5e6 90
10e6 97
30e6 100
";

    #[test]
    fn web_search_table_is_read_and_followed() {
        let sizes = parse_size_cdf(WEB_SEARCH).unwrap();
        // Sum of share times middle: the published mean is 1.7 MB.
        assert!(
            (sizes.mean_bytes() - 1_711_250.0).abs() < 1e-3,
            "{}",
            sizes.mean_bytes()
        );
        assert_eq!((sizes.min_bytes(), sizes.max_bytes()), (1, 30_000_000));
        let mut stream = stream(1);
        let drawn: Vec<f64> = (0..200_000)
            .map(|_| f64::from(sizes.sample(&mut stream)))
            .collect();
        assert_mean(&drawn, sizes.mean_bytes());
        let points = [
            (0.0, 0.0),
            (1e4, 0.15),
            (2e4, 0.2),
            (3e4, 0.3),
            (5e4, 0.4),
            (8e4, 0.53),
        ];
        let points = [
            &points[..],
            &[(2e5, 0.6), (1e6, 0.7), (2e6, 0.8), (5e6, 0.9), (1e7, 0.97)],
        ]
        .concat();
        assert_follows(drawn, |x| {
            let above = points.partition_point(|point| point.0 <= x);
            let low = points[above - 1];
            let high = points.get(above).copied().unwrap_or((3e7, 1.0));
            low.1 + (high.1 - low.1) * (x - low.0) / (high.0 - low.0)
        });
    }

    #[test]
    fn comments_blank_lines_and_either_line_end_are_taken() {
        let text = "# bytes percent\r\n\r\n 0\t0 # none\r\n1000  100\r\n\n   \n";
        assert_eq!(parse_size_cdf(text).unwrap().mean_bytes(), 500.0);
    }

    #[test]
    fn errors_point_at_line_and_column() {
        let message = |text: &str| parse_size_cdf(text).unwrap_err().to_string();
        assert_eq!(
            message("0 0\n5 100 7\n"),
            "line 2, column 1: expected `size_bytes cumulative_percent`, two numbers, found 3"
        );
        assert_eq!(
            message("0 0\n\n  12,5 50"),
            "line 3, column 3: `12,5` is not a number without sign, such as 1460 or 97.5"
        );
        assert_eq!(
            message("0 0\n5 +1"),
            "line 2, column 3: `+1` is not a number without sign, such as 1460 or 97.5"
        );
        assert_eq!(
            message("\u{e4}\u{e4} \u{e4}"),
            "line 1, column 1: `\u{e4}\u{e4}` is not a number without sign, such as 1460 or 97.5"
        );
        assert_eq!(
            message("0 0\n4294967296 100"),
            "line 2, column 1: size 4294967296 is larger than the largest message, \
             4294967295 bytes"
        );
        assert_eq!(
            message("0 0\n10 20\n9 100"),
            "line 3, column 1: size 9 is below the size before, 10; sizes must rise"
        );
        assert_eq!(
            message("0 0\n10 101"),
            "line 2, column 4: 101 percent is more than 100"
        );
        assert_eq!(
            message("0 0\n10 20\n19 10"),
            "line 3, column 4: 10 percent is below the percentage before, 20; it is cumulative"
        );
        assert_eq!(
            message("5 1\n10 100"),
            "line 1, column 3: the first cumulative percentage is 1; it must be 0, as in `0 0`"
        );
        assert_eq!(
            message("0 0\n10 99.9\n"),
            "line 2, column 4: the last cumulative percentage is 99.9; it must be 100"
        );
        assert_eq!(
            message(""),
            "line 1, column 1: 0 points; a table needs at least two, the last at 100 percent"
        );
    }

    #[test]
    fn numbers_that_rust_reads_but_no_table_holds_are_refused() {
        for text in [
            "inf", "nan", "-0", "+5", "1e999", "0x10", "1_000", "infinity", ".",
        ] {
            let error = parse_size_cdf(&format!("0 0\n{text} 100")).unwrap_err();
            assert!(
                matches!(error.problem, CdfProblem::Number { .. }),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn a_long_wrong_field_is_shortened() {
        let error = parse_size_cdf(&"x".repeat(1 << 20)).unwrap_err();
        assert!(matches!(error.problem, CdfProblem::Fields { fields: 1 }));
        let error = parse_size_cdf(&format!("0 {}", "x".repeat(1 << 20))).unwrap_err();
        assert!(error.to_string().len() < 150, "{error}");
    }

    #[test]
    fn more_points_than_are_taken_is_an_error() {
        let text = "0 0\n".repeat(TABLE_POINTS_MAX + 1);
        let error = parse_size_cdf(&text).unwrap_err();
        assert_eq!(error.line, TABLE_POINTS_MAX + 1);
        assert_eq!(
            error.problem,
            CdfProblem::TooLong {
                max: TABLE_POINTS_MAX
            }
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_panic(text in "[0-9 .e\\-#\\n\tx\u{e4}]{0,60}") {
            if let Ok(sizes) = parse_size_cdf(&text) {
                prop_assert!(sizes.mean_bytes() >= 1.0);
            }
        }

        #[test]
        fn what_is_written_is_read(
            steps in prop::collection::vec((1..1_000_000_u32, 1..50_u32), 1..40),
        ) {
            let total: u32 = steps.iter().map(|step| step.1).sum();
            let (mut bytes, mut weight, mut mean) = (0_u32, 0_u32, 0.0);
            let mut text = String::from("0 0\n");
            for (rise, share) in steps {
                mean += (f64::from(bytes) + f64::from(rise) / 2.0) * f64::from(share) / f64::from(total);
                bytes += rise;
                weight += share;
                let percent = 100.0 * f64::from(weight) / f64::from(total);
                text += &format!("{bytes} {percent}\n");
            }
            let sizes = parse_size_cdf(&text).unwrap();
            prop_assert_eq!(sizes.max_bytes(), bytes);
            prop_assert!((sizes.mean_bytes() - mean.max(1.0)).abs() < 1e-6 * mean + 1e-6);
        }
    }
}
