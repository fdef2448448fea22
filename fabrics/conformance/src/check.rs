//! What ends a side of a case early, and the checks that do so.

use std::fmt::{self, Debug};
use std::panic::Location;

use viaduct_provider::{Error, ReturnCode};

/// What a side of a case returns: nothing to add, or why it stopped.
pub type Outcome<T = ()> = Result<T, Stop>;

/// Why a side of a case stopped before its end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Stop {
    /// The fabric did something else than it must.
    Failed(String),
    /// The fabric says that it does not have what the case is about.
    Skipped(String),
    /// The other side stopped; it says why.
    OtherSide(String),
}

impl Stop {
    /// A failure at the caller's place.
    #[track_caller]
    pub fn failed(what: impl fmt::Display) -> Self {
        let place = Location::caller();
        Self::Failed(format!("{what} ({}:{})", place.file(), place.line()))
    }
}

impl From<Error> for Stop {
    /// An operation was refused that must succeed.
    #[track_caller]
    fn from(error: Error) -> Self {
        Self::failed(format_args!(
            "expected success, was {:?}: {error}",
            error.code()
        ))
    }
}

/// Skips the case, with the reason that is listed.
pub(crate) fn skip<T>(reason: impl Into<String>) -> Outcome<T> {
    Err(Stop::Skipped(reason.into()))
}

/// Fails unless `condition`.
#[track_caller]
pub(crate) fn holds(condition: bool, what: impl fmt::Display) -> Outcome {
    if condition {
        Ok(())
    } else {
        Err(Stop::failed(format_args!("{what}: expected so, was not")))
    }
}

/// Fails unless both are equal.
#[track_caller]
pub(crate) fn equal<T: PartialEq + Debug>(
    actual: T,
    expected: T,
    what: impl fmt::Display,
) -> Outcome {
    if actual == expected {
        Ok(())
    } else {
        Err(Stop::failed(format_args!(
            "{what}: expected {expected:?}, was {actual:?}"
        )))
    }
}

/// Fails unless both byte strings are equal, and says where they differ first.
#[track_caller]
pub(crate) fn equal_bytes(actual: &[u8], expected: &[u8], what: impl fmt::Display) -> Outcome {
    equal(actual.len(), expected.len(), format_args!("{what}, bytes"))?;
    match actual.iter().zip(expected).position(|(a, e)| a != e) {
        None => Ok(()),
        Some(first) => Err(Stop::failed(format_args!(
            "{what}: expected byte {first} of {} to be {:#04x}, was {:#04x}",
            expected.len(),
            expected[first],
            actual[first]
        ))),
    }
}

/// Fails unless a status word is exactly `expected`.
#[track_caller]
pub(crate) fn equal_status(actual: u32, expected: u32, what: impl fmt::Display) -> Outcome {
    if actual == expected {
        Ok(())
    } else {
        Err(Stop::failed(format_args!(
            "{what}: expected status {expected:#010x}, was {actual:#010x}"
        )))
    }
}

/// Fails unless the operation was refused with `code`.
#[track_caller]
pub(crate) fn refused<T: Debug>(
    result: viaduct_provider::Result<T>,
    code: ReturnCode,
    what: impl fmt::Display,
) -> Outcome {
    match result {
        Err(error) if error.code() == code => Ok(()),
        Err(error) => Err(Stop::failed(format_args!(
            "{what}: expected {code:?}, was {:?}: {error}",
            error.code()
        ))),
        Ok(value) => Err(Stop::failed(format_args!(
            "{what}: expected {code:?}, was success: {value:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_place_of_the_check() {
        let line = line!() + 1;
        let Err(Stop::Failed(text)) = equal(1, 2, "one") else {
            panic!("not refused")
        };
        assert_eq!(text, format!("one: expected 2, was 1 ({}:{line})", file!()));
    }

    #[test]
    fn a_refused_operation_names_the_place_of_the_question_mark() {
        fn side() -> Outcome {
            Err(Error::new(ReturnCode::Timeout, "too late"))?;
            Ok(())
        }
        let Err(Stop::Failed(text)) = side() else {
            panic!("not refused")
        };
        assert!(text.starts_with("expected success, was Timeout: too late"));
        assert!(text.contains("check.rs"), "{text}");
    }

    #[test]
    fn bytes_that_differ_are_told_by_place() {
        assert_eq!(equal_bytes(b"abc", b"abc", "data"), Ok(()));
        let Err(Stop::Failed(text)) = equal_bytes(b"abd", b"abc", "data") else {
            panic!("not refused")
        };
        assert!(text.starts_with("data: expected byte 2 of 3 to be 0x63, was 0x64"));
    }
}
