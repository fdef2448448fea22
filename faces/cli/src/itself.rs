//! How this program is started again, as the other process of a measurement.

use std::ffi::OsString;
use std::io;
use std::process::Command;
use std::sync::OnceLock;

static ITSELF: OnceLock<Itself> = OnceLock::new();

struct Itself {
    start: Vec<OsString>,
    arguments: Vec<OsString>,
}

/// Takes note of the words that start this program and of its arguments; the first time counts.
pub(crate) fn set(start: Vec<OsString>, arguments: Vec<OsString>) {
    let _ = ITSELF.set(Itself { start, arguments });
}

/// This program, to be started with other arguments.
///
/// # Errors
///
/// When the system did not say where it is.
pub(crate) fn command() -> io::Result<Command> {
    let words = ITSELF.get().map_or(&[][..], |itself| &itself.start);
    let (program, before) = words.split_first().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "the system does not say where this program is",
        )
    })?;
    let mut command = Command::new(program);
    command.args(before);
    Ok(command)
}

/// The arguments that this program was given.
pub(crate) fn arguments() -> &'static [OsString] {
    ITSELF.get().map_or(&[], |itself| &itself.arguments)
}
