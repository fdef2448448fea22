//! Results go to stdout, everything else to stderr.

use std::io::{self, ErrorKind, IsTerminal, Write};

use crate::failure::Failure;

/// Prints results on stdout and sends them off at once.
///
/// A reader that has gone away (`viaduct run ... | head`) wants no more: that is no failure.
///
/// # Errors
///
/// When stdout cannot be written for another reason, a full disk for instance.
pub(crate) fn result(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::plain(format_args!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Prints on stderr. If that fails there is nobody to tell.
pub(crate) fn note(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints a message with its help on stderr.
pub(crate) fn message(level: &str, title: &str, help: Option<&str>) {
    let help = help
        .map(|help| format!("help: {help}\n"))
        .unwrap_or_default();
    note(&format!("{level}: {title}\n{help}"));
}

/// Whether messages on stderr should have colours.
pub(crate) fn is_coloured() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
