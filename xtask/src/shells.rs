//! Runs commands as a reader of the docs would.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A command that is run beside others.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Shell {
    pub(crate) line: usize,
    pub(crate) command: String,
    /// What it must print, if that is shown.
    pub(crate) printed: Option<String>,
}

/// A program of the source tree that a command runs by cargo.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Example<'a> {
    pub(crate) name: &'a str,
    arguments: &'a str,
}

impl<'a> Example<'a> {
    /// Reads `cargo run [--quiet] [--release] --example NAME [--] ARGUMENTS`.
    pub(crate) fn of(command: &'a str) -> Option<Self> {
        let next = |text: &'a str| text.split_once(' ').unwrap_or((text, ""));
        let mut rest = command.strip_prefix(CARGO_RUN)?;
        loop {
            let (word, after) = next(rest);
            match word {
                "--quiet" | "--release" => rest = after,
                "--example" => {
                    let (name, arguments) = next(after);
                    let arguments = arguments.strip_prefix("-- ").unwrap_or(arguments);
                    return Some(Self { name, arguments });
                }
                _ => return None,
            }
        }
    }
}

/// Where commands of one page are run.
#[derive(Debug)]
pub(crate) struct Shells {
    root: PathBuf,
    directory: PathBuf,
    binaries: PathBuf,
    examples: PathBuf,
}

/// What a process printed, and how it ended; no status for one that had to be killed.
struct Ending {
    status: Option<ExitStatus>,
    printed: String,
    errors: String,
}

/// Folders with files that commands of the docs name.
const SHOWN: [&str; 3] = [
    "examples/c",
    "examples/rdma-in-ci",
    "studies/virtual-networks",
];

impl Shells {
    /// In `directory`, with the programs of `binaries` on the path. `root` is the source tree, and
    /// `examples` has its examples.
    pub(crate) fn new(
        root: &Path,
        directory: &Path,
        binaries: &Path,
        examples: &Path,
    ) -> io::Result<Self> {
        for folder in SHOWN {
            let (shown, copy) = (root.join(folder), directory.join(folder));
            if !shown.is_dir() {
                continue;
            }
            std::fs::create_dir_all(&copy)?;
            for entry in std::fs::read_dir(&shown)? {
                let entry = entry?;
                std::fs::copy(entry.path(), copy.join(entry.file_name()))?;
            }
        }
        Ok(Self {
            root: root.to_owned(),
            directory: directory.to_owned(),
            binaries: binaries.to_owned(),
            examples: examples.to_owned(),
        })
    }

    /// Runs a command to its end; answers what was wrong, if anything.
    pub(crate) fn run(&self, shell: &Shell, exit_code: i32) -> io::Result<Result<(), String>> {
        let ending = end(self.start(&shell.command)?, Instant::now() + ALONE_MAX)?;
        Ok(ending.must_be(shell, exit_code))
    }

    /// Runs commands at the same time; answers the lines of those that were wrong, and how.
    pub(crate) fn run_together(&self, shells: &[Shell]) -> io::Result<Vec<(usize, String)>> {
        let deadline = Instant::now() + TOGETHER_MAX;
        let run = |shell: &Shell| loop {
            let ending = end(self.start(&shell.command)?, deadline)?;
            // A reader would start the server first; here nobody knows when it listens.
            if !ending.came_too_early() || Instant::now() >= deadline {
                return Ok(ending.must_be(shell, 0));
            }
        };
        let outcomes: Vec<io::Result<Result<(), String>>> = std::thread::scope(|scope| {
            let run = &run;
            let threads = shells.iter().map(|shell| scope.spawn(move || run(shell)));
            let threads: Vec<_> = threads.collect();
            let ended = threads.into_iter().map(|thread| {
                let panicked = |_| Err(io::Error::other("the thread of a shell panicked"));
                thread.join().unwrap_or_else(panicked)
            });
            ended.collect()
        });
        let mut wrong = Vec::new();
        for (shell, outcome) in shells.iter().zip(outcomes) {
            wrong.extend(outcome?.err().map(|text| (shell.line, text)));
        }
        Ok(wrong)
    }

    fn start(&self, command: &str) -> io::Result<Running> {
        let mut path = OsString::from(&self.binaries);
        path.push(if cfg!(windows) { ";" } else { ":" });
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        let command = match Example::of(command) {
            Some(Example { name, arguments }) => format!("\"$EXAMPLES/{name}\" {arguments}"),
            None if command.starts_with(CARGO_RUN) => {
                let form = "cargo run [--quiet] [--release] --example NAME [--] ARGUMENTS";
                let text = format!("`{command}` is not run: write `{form}`");
                return Err(io::Error::other(text));
            }
            None => format!("env {command}"),
        };
        // The command takes the shell's place, so that killing it kills the command.
        shell.args(["-c", &format!("exec {command}")]);
        shell.env("HOME", self.directory.join("home"));
        shell.current_dir(&self.directory);
        let mut child = shell
            .env("PATH", path)
            .env("SOURCE", &self.root)
            .env("BINARIES", &self.binaries)
            .env("EXAMPLES", &self.examples)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().map(reader);
        let errors = child.stderr.take().map(reader);
        Ok(Running {
            child,
            output,
            errors,
        })
    }
}

struct Running {
    child: Child,
    output: Option<JoinHandle<String>>,
    errors: Option<JoinHandle<String>>,
}

/// Reads all in a thread of its own: a full pipe would stop the writer.
fn reader(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        // What was read before a failure is what there is.
        let _ = from.read_to_end(&mut all);
        String::from_utf8_lossy(&all).into_owned()
    })
}

fn end(mut running: Running, deadline: Instant) -> io::Result<Ending> {
    let status = loop {
        if let Some(status) = running.child.try_wait()? {
            break Some(status);
        }
        if Instant::now() >= deadline {
            running.child.kill()?;
            running.child.wait()?;
            break None;
        }
        std::thread::sleep(PAUSE);
    };
    let text = |reader: Option<JoinHandle<String>>| {
        reader
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default()
    };
    Ok(Ending {
        status,
        printed: text(running.output),
        errors: text(running.errors),
    })
}

impl Ending {
    /// Whether it is a client of `rdma_cm` that nobody listened to.
    fn came_too_early(&self) -> bool {
        let has_failed = self.status.is_some_and(|status| !status.success());
        has_failed && self.errors.contains("RDMA_CM_EVENT_REJECTED")
    }

    fn must_be(&self, shell: &Shell, exit_code: i32) -> Result<(), String> {
        let (command, errors) = (&shell.command, self.errors.trim_end());
        let printed = match exit_code {
            0 => &self.printed,
            _ => &self.errors,
        };
        match self.status {
            Some(status) if status.code() == Some(exit_code) => match &shell.printed {
                Some(shown) if !fits(shown, printed) => {
                    Err(format!("`{command}` printed\n{printed}shown is\n{shown}"))
                }
                _ => Ok(()),
            },
            Some(status) => Err(format!(
                "`{command}` ended with {status}, shown is exit code {exit_code}\n{errors}"
            )),
            None => Err(format!("`{command}` did not end\n{errors}")),
        }
    }
}

/// Whether a page shows what was printed: `...` in a line stands for anything in it, a line that is
/// `...` for any lines.
fn fits(shown: &str, printed: &str) -> bool {
    let [shown, printed] = [shown, printed].map(|text| text.lines().collect::<Vec<_>>());
    lines_fit(&shown, &printed)
}

fn lines_fit(shown: &[&str], printed: &[&str]) -> bool {
    match shown {
        [] => printed.is_empty(),
        ["...", others @ ..] => {
            (0..=printed.len()).any(|skipped| lines_fit(others, &printed[skipped..]))
        }
        [line, others @ ..] => printed
            .split_first()
            .is_some_and(|(first, rest)| line_fits(line, first) && lines_fit(others, rest)),
    }
}

fn line_fits(shown: &str, printed: &str) -> bool {
    let Some((start, rest)) = shown.split_once("...") else {
        return shown == printed;
    };
    let Some(printed) = printed.strip_prefix(start) else {
        return false;
    };
    let mut places = (0..=printed.len()).filter(|place| printed.is_char_boundary(*place));
    places.any(|place| line_fits(rest, &printed[place..]))
}

const CARGO_RUN: &str = "cargo run ";

/// What a command may take before it counts as hanging.
const ALONE_MAX: Duration = Duration::from_secs(900);
const TOGETHER_MAX: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn shells() -> Shells {
        let here = std::env::temp_dir();
        Shells::new(&here.join("no-such-tree"), &here, &here, Path::new("/bin")).unwrap()
    }

    fn shell(line: usize, command: &str, printed: Option<&str>) -> Shell {
        Shell {
            line,
            command: command.to_owned(),
            printed: printed.map(str::to_owned),
        }
    }

    #[test]
    fn an_example_is_run_from_where_it_was_built() {
        for command in [
            "cargo run --quiet --example echo two 'words  here'",
            "cargo run --release --example echo -- two 'words  here'",
        ] {
            let shell = shell(1, command, Some("two words  here\n"));
            assert_eq!(shells().run(&shell, 0).unwrap(), Ok(()), "{command}");
            assert_eq!(Example::of(command).unwrap().name, "echo");
        }
        let other = shell(1, "cargo run --bin echo -- two", None);
        assert!(shells().run(&other, 0).is_err());
    }

    #[test]
    fn a_failure_must_say_what_is_shown() {
        let run = |says| {
            let shell = shell(1, "sh -c 'echo out; echo no >&2; exit 1'", Some(says));
            shells().run(&shell, 1).unwrap()
        };
        assert_eq!(run("no\n"), Ok(()));
        assert!(run("out\n").is_err());
    }

    #[test]
    fn exit_code_must_be_the_shown_one() {
        let run = |command, exit_code| {
            let shell = shell(1, command, None);
            shells().run(&shell, exit_code).unwrap()
        };
        assert_eq!(run("sh -c 'exit 3'", 3), Ok(()));
        let wrong = run("sh -c 'exit 3'", 0).unwrap_err();
        assert!(wrong.contains("shown is exit code 0"), "{wrong}");
        assert!(run("true", 1).is_err());
    }

    #[test]
    fn what_is_shown_must_be_what_is_printed() {
        let together = [
            shell(1, "WORD=one sh -c 'echo $WORD'", Some("one\n")),
            shell(2, "echo two", Some("2\n")),
            shell(3, "echo three", None),
            shell(4, "false", None),
        ];
        let wrong = shells().run_together(&together).unwrap();
        let lines: Vec<usize> = wrong.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 4], "{wrong:?}");
    }

    #[test]
    fn dots_stand_for_what_differs_between_runs() {
        let printed = "head\nevents 6.1 M, 0.69 s    144.7 M\n\ntail\n";
        for shown in [
            printed,
            "head\nevents 6.1 M, ...    144.7 M\n\ntail\n",
            "head\n...\ntail\n",
            "...\nevents ... s ... M\n...\n",
        ] {
            assert!(fits(shown, printed), "{shown}");
        }
        for shown in [
            "head\ntail\n",
            "head\nevents 6.2 M, ...    144.7 M\n\ntail\n",
            "head\n...\nanother tail\n",
            "head\nevents 6.1 M, ... 3 h\n...\n",
            "...\nhead\n",
        ] {
            assert!(!fits(shown, printed), "{shown}");
        }
    }

    #[test]
    fn a_client_that_is_rejected_is_started_again() {
        let name = format!("viaduct-rejected-{}", std::process::id());
        let says = |what: &str, code: i32| {
            format!("sh -c '[ -e {name} ] && exit; touch {name}; echo {what} >&2; exit {code}'")
        };
        let run = |command: &str| shells().run_together(&[shell(1, command, None)]).unwrap();
        let file = std::env::temp_dir().join(&name);
        assert_eq!(run(&says("event RDMA_CM_EVENT_REJECTED", 1)), []);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(run(&says("event RDMA_CM_EVENT_UNREACHABLE", 1)).len(), 1);
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn commands_run_at_the_same_time() {
        // Either ends only when the other has begun.
        let name = format!("viaduct-shells-{}", std::process::id());
        let shell = |line, own, other| Shell {
            line,
            command: format!(
                "sh -c 'touch {name}-{own}; while [ ! -e {name}-{other} ]; do :; done'"
            ),
            printed: None,
        };
        let wrong = shells().run_together(&[shell(1, "a", "b"), shell(2, "b", "a")]);
        assert_eq!(wrong.unwrap(), []);
        for end in ["a", "b"] {
            std::fs::remove_file(std::env::temp_dir().join(format!("{name}-{end}"))).unwrap();
        }
    }
}
