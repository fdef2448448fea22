//! The viaduct command: it joins what the other crates offer and decides nothing of its own.
//!
//! Results go to stdout, progress, warnings and errors to stderr. Exit codes: see [`main_of`].
//! The binary calls it, and so does the Python package, which ships the command.

mod arguments;
mod chakra;
mod check;
mod collective;
mod compare;
mod cost;
mod describe;
mod fabrics;
mod failure;
mod fit;
mod former;
mod goal;
mod inspection;
mod interrupt;
mod itself;
mod jobs;
mod lists;
mod manual;
mod measure;
mod measurements;
mod models;
mod output;
mod pair;
mod peer;
mod picture;
mod planning;
mod plot;
mod programs;
mod progress;
mod queue_pairs;
mod rdma;
mod report;
mod reproduce;
mod rerun;
mod resources;
mod run;
mod show;
mod showing;
mod simgrid;
mod simulated;
mod sweep;
mod trace;
mod traces;
mod virtual_networks;
mod watched;
mod why;

use std::ffi::OsString;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::arguments::{Arguments, Command};
use crate::failure::Exit;
pub use crate::inspection::{Account, Subject};
pub use crate::planning::published;

/// Does what the command line asks and gives the exit code: 0 fine, 1 wrong input, 2 a model
/// assumption broke, 3 a target was missed, 130 stopped by Ctrl-C.
///
/// `itself` is how this program is started, its first word and what stands before the arguments of
/// the command: `viaduct measure` starts it again as the other process.
///
/// It takes over Ctrl-C for the rest of the process.
pub fn main_of(itself: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    itself::set(itself, arguments.clone());
    let words = std::iter::once(OsString::from("viaduct")).chain(arguments);
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) => return usage(error).code(),
    };
    let exit = match &arguments.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Rerun(arguments) => rerun::rerun(arguments),
        Command::Report(arguments) => report::report(arguments),
        Command::Compare(arguments) => compare::compare(arguments),
        Command::Plot(arguments) => plot::plot(arguments),
        Command::Reproduce(arguments) => reproduce::reproduce(arguments),
        Command::Why(arguments) => why::why(arguments),
        Command::Trace(arguments) => trace::trace(arguments),
        Command::Show(arguments) => show::show(arguments),
        Command::Sweep(arguments) => sweep::sweep(arguments),
        Command::Check(arguments) => check::check(arguments),
        Command::Chakra(arguments) => chakra::chakra(arguments),
        Command::Simgrid(arguments) => simgrid::simgrid(arguments),
        Command::Goal(arguments) => goal::goal(arguments),
        Command::Collective(arguments) => collective::collective(arguments),
        Command::Studies => lists::studies(),
        Command::Models(arguments) => models::models(arguments),
        Command::Keys { table } => lists::keys(table.as_deref()),
        Command::Measure(arguments) => measure::measure(arguments),
        Command::Fit(arguments) => fit::fit(arguments),
        Command::Rdma(arguments) => rdma::rdma(arguments),
        Command::Completions { shell } => manual::completions(*shell),
        Command::Manual { directory } => manual::pages(directory),
        Command::MeasurePeer(arguments) => peer::be(arguments),
        Command::RequestClient(arguments) => virtual_networks::be_client(arguments),
        Command::RequestServer(arguments) => virtual_networks::serve(arguments),
    };
    let exit = exit.unwrap_or_else(|failure| {
        failure.print();
        failure.exit()
    });
    exit.code()
}

/// Shows help, the version, or what is wrong with the arguments.
fn usage(mut error: clap::Error) -> Exit {
    let stray = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) => word.clone(),
        _ => String::new(),
    };
    if stray.contains('=') && !stray.starts_with('-') {
        let tip = format!("a key of the study is set by `--set {stray}`");
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
    }
    // If neither stream can be written there is nobody to tell.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Fine,
        _ => Exit::WrongInput,
    }
}
