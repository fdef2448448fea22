//! The other side of a measurement: a process of this very program, and its life.

use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Child, ChildStdin, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::Args;
use viaduct_measure::{Machine, Meeting, pin_to_core};

use crate::fabrics::Fabric;
use crate::failure::{Exit, Failure};
use crate::measure::LevelName;
use crate::output;

/// What the other side is told; its rows come with each connection.
#[derive(Args, Debug)]
pub(crate) struct PeerArguments {
    #[arg(long = "on")]
    fabric: String,
    #[arg(long)]
    meet: String,
    #[arg(long)]
    core: usize,
    #[arg(long, value_enum)]
    level: LevelName,
}

/// Is the other side, until its work is done or nobody is there to want it.
pub(crate) fn be(arguments: &PeerArguments) -> Result<Exit, Failure> {
    // The pipe ends when the process that started this one does, whatever ends it.
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        process::exit(LEFT_ALONE);
    });
    let fabric = Fabric::named(&arguments.fabric)?;
    pin_to_core(arguments.core).map_err(|error| {
        Failure::plain(format!("cannot run on core {}: {error}", arguments.core))
    })?;
    let meeting = Meeting {
        device: fabric.device().to_owned(),
        host: None,
        discriminator: arguments.meet.clone().into_bytes(),
    };
    let level = arguments.level.level();
    match fabric.respond(&meeting, level, &Machine::new(None)) {
        Ok(()) => Ok(Exit::Fine),
        Err(error) => Err(Failure::Broken {
            title: error.to_string(),
            help: None,
        }),
    }
}

/// The other side's process, watched.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Closed, it tells the process to end.
    life: Option<ChildStdin>,
    is_over: Arc<AtomicBool>,
    watcher: Option<JoinHandle<Option<String>>>,
    words: Option<JoinHandle<String>>,
}

impl Peer {
    /// Starts it on a core. When it ends before it is told to, the machine is told to stop.
    ///
    /// # Errors
    ///
    /// When this program cannot be started once more.
    pub(crate) fn start(
        fabric: Fabric,
        meeting: &Meeting,
        level: LevelName,
        core: usize,
        machine: &Machine,
    ) -> Result<Self, Failure> {
        let unable =
            |error: io::Error| Failure::plain(format!("cannot start the other side: {error}"));
        let mut child = crate::itself::command()
            .map_err(unable)?
            .args(["measure-peer", "--on", fabric.name()])
            .args(["--level", level.word()])
            .arg(format!("--core={core}"))
            .arg(format!("--meet={}", meeting.discriminator.escape_ascii()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C is for this process, which ends the other in order.
            .process_group(0)
            .spawn()
            .map_err(unable)?;
        let life = child.stdin.take();
        let words = child.stderr.take().map(|mut stderr| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                // What was read before an error is what there is.
                let _ = stderr.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        let is_over = Arc::new(AtomicBool::new(false));
        let watcher = thread::spawn({
            let (is_over, machine) = (Arc::clone(&is_over), machine.clone());
            move || watch(child, &is_over, &machine)
        });
        Ok(Self {
            life,
            is_over,
            watcher: Some(watcher),
            words,
        })
    }

    /// Has it end.
    pub(crate) fn finish(mut self) -> PeerEnd {
        let failure = self.end();
        let words = self.words.take().and_then(|words| words.join().ok());
        let words = words.unwrap_or_default();
        let words = words.trim();
        let words = words.strip_prefix("error: ").unwrap_or(words);
        PeerEnd {
            failure,
            words: (!words.is_empty()).then(|| words.to_owned()),
        }
    }

    fn end(&mut self) -> Option<String> {
        // Relaxed: the flag guards no other memory.
        self.is_over.store(true, Ordering::Relaxed);
        self.life = None;
        let watcher = self.watcher.take()?;
        watcher.thread().unpark();
        // It does not panic; if it did, there would be nothing to tell.
        watcher.join().ok().flatten()
    }
}

/// How the other side ended.
#[derive(Clone, Debug)]
pub(crate) struct PeerEnd {
    /// What befell it, if it ended of itself and not well.
    pub(crate) failure: Option<String>,
    /// What it said.
    words: Option<String>,
}

impl PeerEnd {
    /// All that is known, in a line.
    pub(crate) fn summary(&self) -> Option<String> {
        let failure = self.failure.as_ref();
        let failure = failure.map(|failure| format!("the other side's process {failure}"));
        let said = self.words.as_ref().map(|words| format!("it said: {words}"));
        match (failure, said) {
            (Some(failure), Some(said)) => Some(format!("{failure}; {said}")),
            (failure, said) => failure.or(said),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sees to it that this process notices the end of the other, that the other ends with this one's
/// work, and that neither waits for ever. Tells how the other ended by itself, if not well.
fn watch(mut child: Child, is_over: &AtomicBool, machine: &Machine) -> Option<String> {
    const LOOK: Duration = Duration::from_millis(50);
    const LOOK_AT_THE_END: Duration = Duration::from_millis(1);
    const LAST_WORDS: Duration = Duration::from_secs(2);

    let mut gone: Option<Instant> = None;
    let mut over: Option<Instant> = None;
    let mut is_killed = false;
    let mut ending = None;
    loop {
        if gone.is_none()
            && let Ok(Some(status)) = child.try_wait()
        {
            gone = Some(Instant::now());
            if !is_killed {
                ending = describe(status);
            }
            let how = ending.as_deref().unwrap_or("ended too early");
            machine.stop(format!("the other side's process {how}"));
        }
        if is_over.load(Ordering::Relaxed) {
            if gone.is_some() {
                return ending;
            }
            if over.get_or_insert_with(Instant::now).elapsed() > LAST_WORDS {
                // It neither works nor reads: the next look finds it gone.
                is_killed = child.kill().is_ok();
            }
            thread::sleep(LOOK_AT_THE_END);
            continue;
        }
        end_if_stuck(machine, gone.map(|since| since.elapsed()));
        thread::park_timeout(LOOK);
    }
}

/// Ends this process when it hangs in a call that no time limit ends, or when the fabric does not
/// tell that the other side is gone.
fn end_if_stuck(machine: &Machine, gone: Option<Duration>) {
    const HANG: Duration = Duration::from_secs(40);
    const GRACE: Duration = Duration::from_secs(15);

    let title = if machine.idle() > HANG {
        "a call to the fabric has not come back for 40 s"
    } else if gone.is_some_and(|since| since > GRACE) {
        "the other side's process has ended, and the fabric does not say so for 15 s"
    } else {
        return;
    };
    output::message("error", title, None);
    process::exit(2);
}

/// `None` for an end that was wanted.
fn describe(status: ExitStatus) -> Option<String> {
    match (status.signal(), status.code()) {
        (_, Some(0 | LEFT_ALONE)) => None,
        (Some(signal), _) => Some(format!("was killed by signal {signal}")),
        (None, _) => Some(format!("failed ({status})")),
    }
}

/// The exit code of an other side that nobody wants any more.
const LEFT_ALONE: i32 = 4;
