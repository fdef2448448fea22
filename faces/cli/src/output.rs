//! Results go to stdout, everything else to stderr.

use std::borrow::Cow;
use std::ffi::OsStr;
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
        .write_all(printable(text).as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::plain(format_args!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Titles and sources come from files: what they say to a terminal is not passed on.
fn printable(text: &str) -> Cow<'_, str> {
    let speaks_to_a_terminal = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(speaks_to_a_terminal) {
        Cow::Owned(text.replace(speaks_to_a_terminal, "?"))
    } else {
        Cow::Borrowed(text)
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

/// Whether stderr is a terminal that can move its cursor: there progress is shown.
pub(crate) fn is_live() -> bool {
    io::stderr().is_terminal() && !is_dumb(std::env::var_os("TERM").as_deref())
}

/// Whether messages on stderr should have colours.
pub(crate) fn is_coloured() -> bool {
    is_live() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether `TERM` names a terminal that shows characters and nothing else.
fn is_dumb(term: Option<&OsStr>) -> bool {
    term.is_some_and(|term| term == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dumb_terminal_gets_characters_alone() {
        assert!(is_dumb(Some(OsStr::new("dumb"))));
        assert!(!is_dumb(Some(OsStr::new("xterm-256color"))));
        assert!(!is_dumb(None));
    }

    #[test]
    fn nothing_from_a_file_speaks_to_the_terminal() {
        assert_eq!(printable("a\tb\n"), "a\tb\n");
        assert_eq!(printable("\u{1b}]0;title\u{7}\r\u{9b}"), "?]0;title???");
    }
}
