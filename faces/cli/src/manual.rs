//! `viaduct completions` and `manual`: what an installed command has beside it, made from the
//! definition of its arguments.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::{Exit, Failure};
use crate::output;

/// Prints a shell's completions.
pub(crate) fn completions(shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "viaduct", &mut script);
    output::result(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Fine)
}

/// Writes viaduct.1, and viaduct-WORD.1 for each word, into a folder.
pub(crate) fn pages(directory: &Path) -> Result<Exit, Failure> {
    clap_mangen::generate_to(Arguments::command(), directory).map_err(|error| {
        Failure::new(
            format!(
                "cannot write man pages into {}: {error}",
                directory.display()
            ),
            "name a folder that exists and may be written to",
        )
    })?;
    Ok(Exit::Fine)
}
