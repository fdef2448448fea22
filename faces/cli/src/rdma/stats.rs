//! What crossed: each process below the launcher counts in a file of its own, which others read.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use viaduct_rdma::Counters;

use super::places;
use crate::failure::Failure;

/// What one process counted.
#[derive(Clone, Debug)]
pub(super) struct Process {
    number: u32,
    /// Its program, while it runs.
    name: Option<String>,
    pub(super) counters: Counters,
}

/// The folder of all launchers of this user whose processes can be seen from here.
fn all() -> Result<PathBuf, Failure> {
    let namespace = places::process_namespace();
    let folder = places::session()?.join(format!("counters-{namespace:x}"));
    places::private(&folder)?;
    Ok(folder)
}

fn runs(number: u32) -> bool {
    Path::new("/proc").join(number.to_string()).exists()
}

/// A folder for the processes below `owner`. Those of owners that have ended, with all their
/// processes, are removed.
pub(super) fn new_folder(owner: u32) -> Result<PathBuf, Failure> {
    let all = all()?;
    for old in fs::read_dir(&all).into_iter().flatten().flatten() {
        let former = old.file_name().to_str().and_then(|name| name.parse().ok());
        let lives = former.is_some_and(runs) || in_folder(&old.path()).iter().any(Process::runs);
        if !lives {
            // Another launcher may be at it.
            let _ = fs::remove_dir_all(old.path());
        }
    }
    let own = all.join(owner.to_string());
    // A former process of that number left it, or a shell asks again.
    let is_left = in_folder(&own).iter().all(|process| !process.runs());
    if is_left {
        let _ = fs::remove_dir_all(&own);
    }
    places::private(&own)?;
    Ok(own)
}

impl Process {
    fn runs(&self) -> bool {
        runs(self.number)
    }
}

/// The processes that count in a folder, by number, and what they have counted so far.
pub(super) fn in_folder(folder: &Path) -> Vec<Process> {
    read_in(folder, Counters::read)
}

fn read_in(folder: &Path, read: fn(&Path) -> viaduct_rdma::Result<Counters>) -> Vec<Process> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            let counters = read(&entry.path()).ok()?;
            let name = fs::read_to_string(format!("/proc/{number}/comm")).ok();
            Some(Process {
                number,
                name: name.map(|name| name.trim_end().to_owned()),
                counters,
            })
        })
        .collect();
    found.sort_by_key(|process| process.number);
    found
}

/// How many processes count in a folder in a way that this command cannot read: their libraries are
/// of another version.
pub(super) fn unreadable(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| Counters::read(&entry.path()).is_err())
        .count()
}

/// What the processes of all launchers have counted, of those that run.
pub(super) fn of_all(as_json: bool) -> Result<String, Failure> {
    let folders = fs::read_dir(all()?).into_iter().flatten().flatten();
    let mut found: Vec<_> = folders
        .flat_map(|folder| read_in(&folder.path(), Counters::read_now))
        .filter(Process::runs)
        .collect();
    found.sort_by_key(|process| process.number);
    if as_json {
        let processes: Vec<_> = found.iter().map(Process::as_json).collect();
        return Ok(format!("{:#}\n", json!({ "processes": processes })));
    }
    if found.is_empty() {
        return Ok("no program uses RDMA below `viaduct rdma` at this moment\n".to_owned());
    }
    Ok(table(&found))
}

/// What the processes of one launcher counted, when it ends.
pub(super) fn summary(found: &[Process]) -> String {
    if found.is_empty() {
        return "viaduct rdma: no process opened a device\n".to_owned();
    }
    table(found)
}

impl Process {
    fn as_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("process".into(), self.number.into());
        object.insert("program".into(), self.name.clone().into());
        for (name, value) in self.counters.named() {
            object.insert(name.into(), value.into());
        }
        Value::Object(object)
    }
}

/// A line for each process, with what it did.
fn table(found: &[Process]) -> String {
    let mut text = String::new();
    for process in found {
        let name = process.name.as_deref().unwrap_or("ended");
        let done: Vec<_> = process
            .counters
            .named()
            .into_iter()
            .filter(|(_, value)| *value > 0)
            .map(|(name, value)| format!("{} {value}", name.replace('_', " ")))
            .collect();
        let done = if done.is_empty() {
            "nothing".to_owned()
        } else {
            done.join(", ")
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:>8} {name}: {done}", process.number);
    }
    text
}
