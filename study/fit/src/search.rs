//! Least squares: the step of Gauss and Newton, damped as Levenberg and Marquardt do.
//!
//! Unknowns and residuals are logarithms, in which times and rates stay positive and a factor is a
//! factor at every size. The residuals' slopes are differences, so that whatever can be computed
//! can be fitted.

/// Bound of an unknown on either side: a factor of a million and a bit.
const UNKNOWN_MAX: f64 = 14.0;

/// Difference of an unknown for a slope: two per cent.
const DIFFERENCE: f64 = 0.02;

/// The longest step of an unknown.
const STEP_MAX: f64 = 2.0;

/// Steps that are tried, taken or not.
const STEPS_MAX: usize = 40;

/// Slope of all residuals below which an unknown shows in none.
const SLOPE_MIN: f64 = 1e-4;

/// The sum that is made least.
pub(crate) fn squares(residuals: &[f64]) -> f64 {
    residuals.iter().map(|residual| residual * residual).sum()
}

/// Slopes of the residuals, one column per unknown.
pub(crate) fn slopes<E>(
    unknowns: &[f64],
    residuals: &[f64],
    of: &mut impl FnMut(&[f64]) -> Result<Vec<f64>, E>,
) -> Result<Vec<Vec<f64>>, E> {
    let mut columns = Vec::with_capacity(unknowns.len());
    for place in 0..unknowns.len() {
        let mut moved = unknowns.to_vec();
        moved[place] += DIFFERENCE;
        let after = of(&moved)?;
        let pairs = after.iter().zip(residuals);
        columns.push(pairs.map(|(a, b)| (a - b) / DIFFERENCE).collect());
    }
    Ok(columns)
}

/// Whether an unknown of such slopes shows in any residual.
pub(crate) fn shows(column: &[f64]) -> bool {
    column.iter().any(|slope| slope.abs() > SLOPE_MIN)
}

/// Goes from a first guess to where the squares of what `of` gives are least; returns the unknowns
/// and that sum.
///
/// # Errors
///
/// What `of` says.
pub(crate) fn least_squares<E>(
    first: &[f64],
    of: &mut impl FnMut(&[f64]) -> Result<Vec<f64>, E>,
) -> Result<(Vec<f64>, f64), E> {
    let mut unknowns = first.to_vec();
    let mut residuals = of(&unknowns)?;
    let mut sum = squares(&residuals);
    let mut columns = slopes(&unknowns, &residuals, of)?;
    let mut damping = 1e-3;
    for _ in 0..STEPS_MAX {
        let step = damped_step(&columns, &residuals, damping);
        let moved: Vec<f64> = unknowns
            .iter()
            .zip(&step)
            .map(|(value, step)| {
                (value + step.clamp(-STEP_MAX, STEP_MAX)).clamp(-UNKNOWN_MAX, UNKNOWN_MAX)
            })
            .collect();
        let there = of(&moved)?;
        let sum_there = squares(&there);
        if sum_there.is_nan() || sum_there >= sum {
            damping *= 8.0;
            if damping > 1e6 {
                break;
            }
            continue;
        }
        let has_ended = sum_there < 1e-12 || (sum - sum_there) < 1e-5 * sum;
        (unknowns, residuals, sum) = (moved, there, sum_there);
        if has_ended {
            break;
        }
        damping = (damping / 8.0).max(1e-9);
        columns = slopes(&unknowns, &residuals, of)?;
    }
    Ok((unknowns, sum))
}

/// Solves (J^T J + damping diag(J^T J)) step = -J^T residuals.
fn damped_step(columns: &[Vec<f64>], residuals: &[f64], damping: f64) -> Vec<f64> {
    /// Keeps an unknown where it is whose column is nothing, or that of others.
    const FLOOR: f64 = 1e-6;

    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let count = columns.len();
    let mut rows: Vec<Vec<f64>> = (0..count)
        .map(|row| {
            let mut cells: Vec<f64> = (0..count)
                .map(|column| dot(&columns[row], &columns[column]))
                .collect();
            cells[row] += damping * cells[row] + FLOOR;
            cells.push(-dot(&columns[row], residuals));
            cells
        })
        .collect();
    // The matrix is symmetric and, by the floor, positive: no row need change its place.
    for pivot in 0..count {
        let (above, below) = rows.split_at_mut(pivot + 1);
        let top = &above[pivot];
        for row in below {
            let factor = row[pivot] / top[pivot];
            for (cell, over) in row.iter_mut().zip(top) {
                *cell -= factor * over;
            }
        }
    }
    let mut step = vec![0.0; count];
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count)
            .map(|column| rows[row][column] * step[column])
            .sum();
        step[row] = (rows[row][count] - known) / rows[row][row];
    }
    step
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Logarithms of a fixed time and a time by the byte, against those of 3 and 0.02.
    fn line(unknowns: &[f64]) -> Result<Vec<f64>, Infallible> {
        let [fixed, each] = [libm::exp(unknowns[0]), libm::exp(unknowns[1])];
        let sizes = [0.0, 10.0, 100.0, 1000.0, 10_000.0];
        let times = sizes.map(|size| libm::log((fixed + each * size) / (3.0 + 0.02 * size)));
        Ok(times.to_vec())
    }

    #[test]
    fn a_line_is_found_from_far_away() {
        let (unknowns, sum) = least_squares(&[-4.0, 4.0], &mut line).unwrap();
        assert!(sum < 1e-10, "{sum}");
        assert!((libm::exp(unknowns[0]) - 3.0).abs() < 1e-3, "{unknowns:?}");
        assert!((libm::exp(unknowns[1]) - 0.02).abs() < 1e-5, "{unknowns:?}");
    }

    #[test]
    fn an_unknown_that_shows_nowhere_stays() {
        let mut of = |unknowns: &[f64]| line(&unknowns[..2]);
        let (unknowns, sum) = least_squares(&[0.0, 0.0, 1.5], &mut of).unwrap();
        assert!(sum < 1e-10 && (unknowns[2] - 1.5).abs() < 1e-12);
        let columns = slopes(&[0.0, 0.0, 1.5], &line(&[0.0, 0.0]).unwrap(), &mut of).unwrap();
        let shown: Vec<bool> = columns.iter().map(|column| shows(column)).collect();
        assert_eq!(shown, [true, true, false]);
    }

    #[test]
    fn of_two_that_show_alike_neither_runs_away() {
        let mut of = |unknowns: &[f64]| line(&[unknowns[0] + unknowns[2], unknowns[1]]);
        let (unknowns, sum) = least_squares(&[0.0, 0.0, 0.0], &mut of).unwrap();
        assert!(sum < 1e-10, "{sum}");
        assert!((unknowns[0] - unknowns[2]).abs() < 1e-6, "{unknowns:?}");
    }
}
