//! What each command promises of any study that it is given.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A study of a few milliseconds on a few hosts takes far less, also without optimisation.
const LONGEST: Duration = Duration::from_secs(300);

/// Members of a document that say how fast a run was and what it took.
const OF_THE_MACHINE: [&str; 4] = [
    "wall_s",
    "events_per_s",
    "messages_per_wall_s",
    "peak_rss_bytes",
];

/// Faults that befall nothing, and transfers of others after the end: with them a run goes the
/// general way, without the short cuts of what nothing can disturb.
const IDLE: &str = "\
[[fault]]
kind = \"loss\"
rate = \"0 %\"
[[fault]]
kind = \"link-down\"
from = \"900 s\"
[[fault]]
kind = \"slow-host\"
host = 0
factor = 1
[[background]]
source = 0
interval = \"200 us\"
size = \"8 KiB\"
from = \"800 s\"
";

/// What is the same with and without those.
const UNTOUCHED: [&str; 6] = [
    "messages",
    "latency_us",
    "breakdown_us",
    "drops",
    "delivered_bytes",
    "application",
];

/// How a study ended that kept all promises.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It was refused, in these words.
    Refused(String),
    /// It ran, and broke an assumption: these.
    Broke(String),
    /// It ran to its end.
    Ran,
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(words) => write!(formatter, "refused: {words}"),
            Self::Broke(words) => write!(formatter, "assumption broke: {words}"),
            Self::Ran => formatter.write_str("ran"),
        }
    }
}

/// What a command said.
struct Said {
    code: i32,
    output: String,
    error: String,
}

impl Said {
    fn document(&self) -> Result<Value, String> {
        serde_json::from_str(&self.output)
            .map_err(|error| format!("no document: {error}\n{}", self.error))
    }

    /// The first error, in words.
    fn refusal(&self) -> String {
        let errors = self.error.lines().filter(|line| line.starts_with("error"));
        errors.take(1).collect()
    }
}

/// Runs the command in a folder. It ends by itself, in time, with a code that it documents.
fn viaduct(viaduct: &Path, folder: &Path, arguments: &[&str]) -> Result<Said, String> {
    let said = |name: &str| fs::read_to_string(folder.join(name)).map_err(|it| it.to_string());
    let file = |name: &str| fs::File::create(folder.join(name)).map_err(|it| it.to_string());
    let mut child = Command::new(viaduct)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(file("stdout")?)
        .stderr(file("stderr")?)
        .spawn()
        .map_err(|error| error.to_string())?;
    let words = arguments.join(" ");
    let begin = Instant::now();
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|it| it.to_string())? {
            break status;
        }
        if begin.elapsed() > LONGEST {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("`viaduct {words}` had not ended after {LONGEST:?}"));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let (output, error) = (said("stdout")?, said("stderr")?);
    let code = status.code().unwrap_or(-1);
    let is_fault = error.contains("panicked") || error.contains("report it");
    if !(0..=2).contains(&code) || is_fault || output.contains("report it") {
        return Err(format!("`viaduct {words}` ended with {status}:\n{error}"));
    }
    if code == 1 && !error.contains("error") {
        return Err(format!("`viaduct {words}` refuses without a word: {error}"));
    }
    Ok(Said {
        code,
        output,
        error,
    })
}

fn wanted(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// What two runs of a study must have in common: all but how long they took.
fn results(document: &Value) -> String {
    let mut document = document.clone();
    strip(&mut document);
    document.to_string()
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for name in OF_THE_MACHINE {
                members.remove(name);
            }
            members.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// What is swept is what is run: a cell of one value has the digest of its runs, and a sweep whose
/// journal was cut short ends as if it had not been.
fn cells(folder: &Path, viaduct: &impl Fn(&[&str]) -> Result<Said, String>) -> Result<(), String> {
    const KEY: &str = "links.propagation";
    let study = ["study.toml", "--json", "--quiet", "--seeds", "2"];
    let swept = |values: &str, out: &str| {
        let of_sweep = ["sweep", "--out", out, "--set", &format!("{KEY}={values}")];
        viaduct(&[&of_sweep[..], &study].concat())
    };
    let set = format!("{KEY}=\"1 us\"");
    let run = viaduct(&[&["run", "--no-out", "--set", &set], &study[..]].concat())?;
    let of_sweep = swept("\"1 us\"", "cell")?.document()?["digest"].clone();
    let of_run = match run.code {
        1 => Value::Null,
        _ => run.document()?["digest"].clone(),
    };
    wanted(of_run == of_sweep, || {
        format!("with {set} the digest is {of_run}, and swept {of_sweep}")
    })?;
    let whole = swept("\"50 ns\",\"1 us\"", "whole")?;
    let journal = folder.join("whole/journal.jsonl");
    let lines = fs::read(&journal).map_err(|it| it.to_string())?;
    fs::write(&journal, &lines[..lines.len() / 2]).map_err(|it| it.to_string())?;
    let resumed = viaduct(&["sweep", "--resume", "whole", "--json", "--quiet"])?;
    let (whole, resumed) = (results(&whole.document()?), results(&resumed.document()?));
    wanted(whole == resumed, || {
        format!("the sweep gives\n{whole}\nand gone on with\n{resumed}")
    })
}

/// Has every command look at a study.
pub(crate) fn look(command: &Path, text: &str) -> Result<Ended, String> {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).map_err(|it| it.to_string())?;
    fs::write(folder.path().join("study.toml"), text).map_err(|it| it.to_string())?;
    let viaduct = |arguments: &[&str]| viaduct(command, folder.path(), arguments);

    let checked = viaduct(&["check", "study.toml"])?;
    let run = viaduct(&["run", "study.toml", "--json", "--quiet", "--out", "first"])?;
    wanted((checked.code == 1) == (run.code == 1), || {
        format!(
            "check ends with {} and run with {}:\n{}\n{}",
            checked.code, run.code, checked.error, run.error
        )
    })?;
    if run.code == 1 {
        let (of_check, of_run) = (checked.refusal(), run.refusal());
        wanted(of_check == of_run, || {
            format!("check says {of_check}\nrun says {of_run}")
        })?;
        return Ok(Ended::Refused(of_run));
    }
    let document = run.document()?;
    let messages = &document["messages"];
    let count = |name: &str| messages[name].as_u64();
    let (posted, delivered) = (count("posted"), count("delivered"));
    let (dropped, in_flight) = (count("dropped"), count("in_flight"));
    let ended = delivered
        .zip(dropped)
        .zip(in_flight)
        .map(|((a, b), c)| a + b + c);
    wanted(posted.is_some() && posted == ended, || {
        format!("posted and ended: {messages}")
    })?;

    let again = viaduct(&["rerun", "first", "--json", "--quiet"])?;
    wanted(again.code == run.code, || {
        format!(
            "run ended with {}, rerun with {}:\n{}",
            run.code, again.code, again.error
        )
    })?;

    // What is kept of single messages is nothing to the messages.
    let fewer = ["run", "study.toml", "--json", "--quiet", "--no-out"];
    let rows = viaduct(&[&fewer[..], &["--set", "run.message_rows_max=3"]].concat())?.document()?;
    wanted(rows["digest"] == document["digest"], || {
        format!(
            "the digest is {} and with 3 rows {}",
            document["digest"], rows["digest"]
        )
    })?;

    let end = text.find("[files]").unwrap_or(text.len());
    let idle = [&text[..end], IDLE, &text[end..]].concat();
    fs::write(folder.path().join("idle.toml"), idle).map_err(|it| it.to_string())?;
    let idle = viaduct(&["run", "idle.toml", "--json", "--quiet", "--no-out"])?;
    // Interfaces with endpoints refuse some.
    if idle.code != 1 {
        let idle = idle.document()?;
        for member in UNTOUCHED {
            wanted(document[member] == idle[member], || {
                format!(
                    "{member} is {} and with faults that befall nothing {}",
                    document[member], idle[member]
                )
            })?;
        }
    }

    let seeds = [&fewer[..], &["--seeds", "2"]].concat();
    let one = viaduct(&[&seeds[..], &["--threads", "1"]].concat())?.document()?;
    let two = viaduct(&[&seeds[..], &["--threads", "2"]].concat())?.document()?;
    let (one, two) = (results(&one), results(&two));
    wanted(one == two, || {
        format!("on one thread\n{one}\non two\n{two}")
    })?;

    cells(folder.path(), &viaduct)?;

    let is_application = !document["application"].is_null();
    let ways: &[&[&str]] = match is_application {
        true => &[&["--critical-path"], &["--slowest"]],
        false => &[&["--slowest"], &["--message", "0"], &["--quantile", "0.5"]],
    };
    for way in ways {
        viaduct(&[&["why", "study.toml", "--quiet"], *way].concat())?;
    }
    viaduct(&["trace", "study.toml", "--quiet", "-o", "out.perfetto-trace"])?;
    viaduct(&["show", "study.toml", "-o", "out.svg"])?;
    viaduct(&["report", "first", "-o", "out.html"])?;
    viaduct(&["plot", "first", "--what", "latency", "-o", "out.svg"])?;
    match run.code {
        0 => Ok(Ended::Ran),
        _ => Ok(Ended::Broke(format!(
            "{}: {}",
            document["ended"], document["violations"][0]
        ))),
    }
}
