//! Requests between two processes of this machine: this one makes them, one of this very program
//! answers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{self, Child, ChildStdin, Stdio};
use std::thread;
use std::time::Duration;

use clap::Args;
use viaduct_am::{Endpoint, EventMask, Key, Name};
use viaduct_measure::{
    Machine, MeasureError, Prober, RequestState, Requests, pin_to_core, request_handlers,
    request_options,
};
use viaduct_provider::Memory;
use viaduct_shm::Shm;
use viaduct_vi_carrier::{Identity, Options, Station};

use super::{Interruptible, failure_of};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;

/// Nobody else has a name of these endpoints.
const KEY: Key = Key(0x6c6f_6770);

/// What the process that answers is told.
#[derive(Args, Debug)]
pub(crate) struct ServerArguments {
    #[arg(long)]
    core: usize,
}

pub(super) type End = Endpoint<Station<Shm>, RequestState>;

/// A station with so many frames.
pub(super) fn station(frames: u32) -> Result<Station<Shm>, Failure> {
    let options = Options {
        frames,
        memory: Memory::Shared,
        ..Options::default()
    };
    let identity = Identity::random()
        .map_err(|error| Failure::plain(format!("no random bytes for a name: {error}")))?;
    Station::start(Shm::global(), "shm", identity, options).map_err(Failure::plain)
}

/// An endpoint that answers, and can make requests.
pub(super) fn endpoint(station: &Station<Shm>) -> Result<End, Failure> {
    let handlers = request_handlers();
    let options = request_options(KEY);
    Endpoint::new(station, &handlers, RequestState::default(), options).map_err(Failure::plain)
}

/// Has index 0 of an endpoint's table lead to a server.
pub(super) fn map(endpoint: &mut End, name: &Name) -> Result<(), Failure> {
    endpoint.map(0, name, KEY).map_err(Failure::plain)
}

/// Answers requests until nobody is there to want it; says its name first.
pub(crate) fn serve(arguments: &ServerArguments) -> Result<Exit, Failure> {
    const LOOKS: u32 = 100_000;
    const NAP: Duration = Duration::from_millis(100);

    pin(arguments.core)?;
    end_with_starter();
    let station = station(8)?;
    let mut endpoint = endpoint(&station)?;
    crate::output::result(&format!("{}\n", endpoint.name()))?;
    let mut looks = 0;
    loop {
        looks = if endpoint.poll() > 0 { 0 } else { looks + 1 };
        if looks > LOOKS {
            // A nap that nothing ends is as good.
            let _ = endpoint.wait(EventMask::MESSAGE, Some(NAP));
            looks = 0;
        }
    }
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
    let station = station(8)?;
    let mut endpoint = endpoint(&station)?;
    map(&mut endpoint, &name)?;
    let host = Interruptible {
        host: Machine::new(None),
        interrupt: interrupt.clone(),
    };
    let mut prober = Prober::new(endpoint, &host, repetitions);
    Ok(program(&mut prober).map_err(|error| match error {
        MeasureError::Returned { .. } | MeasureError::Stalled { .. } => {
            server.broken(&error.to_string())
        }
        error => failure_of(error),
    }))
}
