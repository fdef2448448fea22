//! Arrays of numbers, of NumPy or of anything else with a buffer, and sequences.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;

use crate::errors;

fn read<T: Element + Copy>(argument: &Bound<'_, PyAny>) -> Option<PyResult<Vec<T>>> {
    let buffer: PyBuffer<T> = argument.extract().ok()?;
    Some(buffer.to_vec(argument.py()))
}

/// The numbers of an array of whole numbers of any width, in the order of its rows.
///
/// What they are, and what to give, are for the error of anything else.
pub(crate) fn numbers(argument: &Bound<'_, PyAny>, what: &str, help: &str) -> PyResult<Vec<i64>> {
    fn widened<T: Element + Copy + Into<i64>>(
        argument: &Bound<'_, PyAny>,
    ) -> Option<PyResult<Vec<i64>>> {
        Some(read::<T>(argument)?.map(|numbers| numbers.into_iter().map(Into::into).collect()))
    }
    let unsigned = || {
        let numbers = read::<u64>(argument)?;
        // What does not fit is no node either.
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Some(numbers.map(|numbers| numbers.into_iter().map(signed).collect()))
    };
    read::<i64>(argument)
        .or_else(|| widened::<i32>(argument))
        .or_else(|| widened::<u32>(argument))
        .or_else(unsigned)
        .or_else(|| widened::<i16>(argument))
        .or_else(|| widened::<u16>(argument))
        .or_else(|| widened::<i8>(argument))
        .or_else(|| widened::<u8>(argument))
        .unwrap_or_else(|| {
            argument
                .extract::<Vec<i64>>()
                .map_err(|_| refused(argument, what, help))
        })
}

/// The numbers of an array of numbers of any kind; as [`numbers`].
pub(crate) fn reals(argument: &Bound<'_, PyAny>, what: &str, help: &str) -> PyResult<Vec<f64>> {
    if let Some(read) = read::<f64>(argument) {
        return read;
    }
    if let Some(read) = read::<f32>(argument) {
        return Ok(read?.into_iter().map(f64::from).collect());
    }
    if let Ok(whole) = numbers(argument, what, help) {
        return Ok(whole.into_iter().map(|number| number as f64).collect());
    }
    argument
        .extract::<Vec<f64>>()
        .map_err(|_| refused(argument, what, help))
}

fn refused(argument: &Bound<'_, PyAny>, what: &str, help: &str) -> PyErr {
    let kind = match argument.getattr("dtype") {
        Ok(dtype) => format!("an array of dtype {dtype}"),
        Err(_) => format!("{}", argument.get_type()),
    };
    errors::scenario_text(format_args!("{what}, not {kind}"), Some(help))
}
