//! Runs programs that may hang: each in a process group of its own that a watchdog can end.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};

/// The hidden word after which this program becomes another.
pub(crate) const LEASHED: &str = "leashed";
/// Between two looks at a program that runs: short beside a value, rare enough to cost nothing.
const LOOK: Duration = Duration::from_millis(2);
/// For the last words of a program that has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// More output than a peer has to say.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// A program that runs. Dropped, it is killed with all that it started.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    name: String,
    output: Receiver<String>,
    errors: Receiver<String>,
    has_ended: bool,
}

/// A command for `program` that dies with the bench, however the bench ends: in a process group of
/// its own it would not hear of Ctrl-C.
///
/// # Errors
///
/// When this program does not find itself.
pub(crate) fn leashed(program: impl AsRef<OsStr>) -> Result<Command, String> {
    let mut command = Command::new(own_program()?);
    command.arg(LEASHED).arg(program);
    Ok(command)
}

/// Becomes the program that `words` name: the other end of [`leashed`].
///
/// # Errors
///
/// When that does not start. Otherwise it does not return.
pub(crate) fn become_leashed(words: &[String]) -> Result<(), String> {
    let [program, arguments @ ..] = words else {
        return Err(format!("{LEASHED} wants a program"));
    };
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    let error = Command::new(program).args(arguments).exec();
    Err(format!("{program} does not start: {error}"))
}

/// The program that runs: the floor and the leash are parts of it.
pub(crate) fn own_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("this program does not find itself: {error}"))
}

/// Runs `command` to its end and gives what it printed.
///
/// # Errors
///
/// One line: it does not start, failed (with its own words), or ran longer than `limit`.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<String, String> {
    Running::start(command)?.finish(limit)
}

impl Running {
    /// Starts `command`.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        let is_leashed = command.get_args().next() == Some(OsStr::new(LEASHED));
        let program = command.get_args().nth(1).filter(|_| is_leashed);
        let program = program.unwrap_or(command.get_program());
        let name = program.to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{name} does not start: {error}"))?;
        let output = collect(child.stdout.take());
        let errors = collect(child.stderr.take());
        Ok(Self {
            child,
            name,
            output,
            errors,
            has_ended: false,
        })
    }

    /// Waits for the end, `limit` at most.
    ///
    /// # Errors
    ///
    /// One line: it failed, with its own words, or ran too long.
    pub(crate) fn finish(mut self, limit: Duration) -> Result<String, String> {
        let deadline = Instant::now() + limit;
        let status = loop {
            let ended = self.child.try_wait();
            if let Some(status) = ended.map_err(|error| format!("{}: {error}", self.name))? {
                break status;
            }
            if Instant::now() >= deadline {
                let seconds = limit.as_secs_f64();
                return Err(format!("{} was still running after {seconds} s", self.name));
            }
            std::thread::sleep(LOOK);
        };
        self.has_ended = true;
        // A process of the group that outlives the first could keep the pipe open.
        let output = self.output.recv_timeout(LAST_WORDS).unwrap_or_default();
        if status.success() {
            return Ok(output);
        }
        let errors = self.errors.recv_timeout(LAST_WORDS).unwrap_or_default();
        let words = errors
            .lines()
            .find(|line| line.contains("rror"))
            .or(errors.lines().next())
            .unwrap_or("it said nothing");
        Err(format!("{}, {status}: {}", self.name, words.trim()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        // The first process is not waited for yet, so that its number is still its own.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It fails when all have ended meanwhile.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Reads a pipe to its end beside the program, which would stop at a full one.
fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read until an error is worth as much as without.
            let _ = pipe.by_ref().take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        // Nobody listens when the program was killed.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_failure_are_told_apart() {
        let limit = Duration::from_secs(20);
        assert_eq!(run(&mut shell("echo 7"), limit), Ok("7\n".to_owned()));
        let failed = run(
            &mut shell("echo first; echo error: no core >&2; exit 3"),
            limit,
        );
        assert_eq!(failed.unwrap_err(), "sh, exit status: 3: error: no core");
        let missing = run(&mut Command::new("no-such-program"), limit).unwrap_err();
        assert!(missing.starts_with("no-such-program does not start"));
    }

    #[test]
    fn group_of_a_program_that_hangs_is_ended() {
        // Goal: the child of the shell dies too. It holds the write end of a pipe whose other end
        // would never see the end of the file if it lived.
        let directory = std::env::temp_dir().join(format!("viaduct-hang-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let number = directory.join("number");
        let script = format!("sleep 1000 & echo $! > {}; wait", number.display());
        let mut running = Running::start(&mut shell(&script)).expect("started");
        let sleeper = loop {
            let text = std::fs::read_to_string(&number).unwrap_or_default();
            if let Ok(number) = text.trim().parse::<u32>() {
                break number;
            }
            std::thread::sleep(LOOK);
        };
        running.name = "hang".to_owned();
        let error = running.finish(Duration::from_millis(20)).unwrap_err();
        assert_eq!(error, "hang was still running after 0.02 s");
        let state = format!("/proc/{sleeper}/stat");
        while std::fs::read_to_string(&state).is_ok_and(|text| !text.contains(") Z ")) {
            std::thread::sleep(LOOK);
        }
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
