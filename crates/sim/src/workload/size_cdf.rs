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
/// let sizes = viaduct_sim::workload::parse_size_cdf("0 0\n1000 50\n3000 100\n")?;
/// assert_eq!(sizes.mean_bytes(), 1250.0);
/// # Ok::<(), viaduct_sim::workload::CdfError>(())
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
