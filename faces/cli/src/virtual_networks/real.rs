//! Requests between two processes of this machine: this one makes them, one of this very program
//! answers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{self, Child, ChildStdin, Stdio};
use std::thread;

use clap::Args;
use viaduct_am::Name;
use viaduct_local::Side;
use viaduct_measure::{MeasureError, Requests, pin_to_core};

use super::failure_of;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;

/// What the process that answers is told.
#[derive(Args, Debug)]
pub(crate) struct ServerArguments {
    #[arg(long)]
    core: usize,
}

/// Answers requests until nobody is there to want it; says its name first.
pub(crate) fn serve(arguments: &ServerArguments) -> Result<Exit, Failure> {
    pin(arguments.core)?;
    end_with_starter();
    let side = Side::start(8).map_err(failure_of)?;
    let server = side.server().map_err(failure_of)?;
    crate::output::result(&format!("{}\n", server.name()))?;
    server.serve()
}

pub(super) fn pin(core: usize) -> Result<(), Failure> {
    pin_to_core(core).map_err(|error| Failure::plain(format!("cannot run on core {core}: {error}")))
}

/// Ends this process when the pipe does, which is when the process that started it does.
pub(super) fn end_with_starter() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        process::exit(0);
    });
}

/// Another process of this program; killed when dropped.
#[derive(Debug)]
pub(super) struct Other {
    process: Child,
    /// Closed, it tells the process to end.
    life: Option<ChildStdin>,
    says: Option<BufReader<process::ChildStdout>>,
}

impl Other {
    pub(super) fn start(arguments: &[String]) -> Result<Self, Failure> {
        let unable =
            |error: io::Error| Failure::plain(format!("cannot start the other side: {error}"));
        let mut process = crate::itself::command()
            .map_err(unable)?
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for this process, which ends the other in order.
            .process_group(0)
            .spawn()
            .map_err(unable)?;
        Ok(Self {
            life: process.stdin.take(),
            says: process.stdout.take().map(BufReader::new),
            process,
        })
    }

    /// Tells it something.
    pub(super) fn say(&mut self, words: &str) -> Result<(), Failure> {
        let written = self
            .life
            .as_mut()
            .map(|life| life.write_all(words.as_bytes()));
        match written {
            Some(Ok(())) => Ok(()),
            _ => Err(self.broken("the other side's process ended too early")),
        }
    }

    /// The next line that it prints.
    pub(super) fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        let read = match &mut self.says {
            Some(says) => says.read_line(&mut line),
            None => Ok(0),
        };
        match read {
            Ok(bytes) if bytes > 0 => Ok(line.trim().to_owned()),
            _ => Err(self.broken("the other side's process ended too early")),
        }
    }

    /// A failure, with what is known of this process.
    fn broken(&mut self, title: &str) -> Failure {
        let mut words = String::new();
        // What it did not say is not known.
        if let Ok(Some(_)) = self.process.try_wait()
            && let Some(stderr) = &mut self.process.stderr
        {
            let _ = stderr.read_to_string(&mut words);
        }
        let words = words.trim();
        Failure::Broken {
            title: title.to_owned(),
            help: (!words.is_empty()).then(|| format!("the other side said: {words}")),
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Measures between two processes on these cores. What goes wrong once it runs is the inner error.
///
/// # Errors
///
/// When it cannot begin.
pub(super) fn measure<T>(
    cores: [usize; 2],
    repetitions: Option<u32>,
    interrupt: &Interrupt,
    program: &dyn Fn(&mut dyn Requests) -> Result<T, MeasureError>,
) -> Result<Result<T, Failure>, Failure> {
    let [own, other] = cores;
    pin(own)?;
    let arguments = ["request-server".to_owned(), format!("--core={other}")];
    let mut server = Other::start(&arguments)?;
    let name = server.line()?;
    let name: Name = name
        .parse()
        .map_err(|error| server.broken(&format!("the other side said no name: {error}")))?;
    let side = Side::start(8).map_err(failure_of)?;
    let client = side.client(&name).map_err(failure_of)?;
    let mut found = None;
    client.ask(repetitions, &|| interrupt.stop_reason(), &mut |requests| {
        found = Some(program(requests));
    });
    let Some(found) = found else {
        return Err(Failure::plain("the measurement was not begun"));
    };
    Ok(found.map_err(|error| match error {
        MeasureError::Returned { .. } | MeasureError::Stalled { .. } => {
            server.broken(&error.to_string())
        }
        error => failure_of(error),
    }))
}
