//! The viaduct command.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Without a path of its own the command works, but for what starts it again, which says so.
    let itself = env::current_exe().into_iter().map(Into::into).collect();
    ExitCode::from(viaduct_cli::main_of(
        itself,
        env::args_os().skip(1).collect(),
    ))
}
