//! Which files are the traces of ranks: one for all, those of a folder, or those of a prefix.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use viaduct_operations::chakra::{Notes, RankFile, read_rank, write_json};

use crate::document::TEXT_BYTES_MAX;
use crate::files::{names_in, reason};

/// What a study carries of traces: their names, and each in its JSON form.
pub(crate) type TraceTexts = Vec<(String, Arc<str>)>;

/// Traces that were read.
#[derive(Clone, Debug)]
pub enum TraceFiles {
    /// One, for what every rank does.
    One(Box<RankFile>),
    /// Of each rank its own, in order.
    Ranks(Vec<Arc<RankFile>>),
}

impl TraceFiles {
    /// What is worth knowing of them, all together.
    #[must_use]
    pub fn notes(&self) -> Notes {
        let mut notes = Notes::default();
        self.all().for_each(|file| notes.add(file.notes()));
        notes
    }

    /// How many nodes they have.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.all().map(RankFile::nodes).sum()
    }

    fn all(&self) -> impl Iterator<Item = &RankFile> {
        let (one, ranks): (_, &[Arc<RankFile>]) = match self {
            Self::One(file) => (Some(&**file), &[]),
            Self::Ranks(files) => (None, files),
        };
        one.into_iter().chain(ranks.iter().map(|file| &**file))
    }

    /// The text of each, by its name.
    pub(crate) fn texts(&self, names: Vec<String>) -> Result<TraceTexts, String> {
        let mut length = 0;
        let texts = names.into_iter().zip(self.all()).map(|(name, file)| {
            let mut text = Vec::new();
            write_json(file, &mut text).map_err(|error| error.to_string())?;
            length += text.len();
            if length > TEXT_BYTES_MAX {
                return Err(format!("as texts they are longer than {TEXT_BYTES_MAX} B"));
            }
            let text = String::from_utf8(text).map_err(|error| error.to_string())?;
            Ok((name, text.into()))
        });
        texts.collect()
    }
}

/// Endings of a trace's name.
const ENDINGS: [&str; 4] = [".et", ".json", ".et.gz", ".json.gz"];

/// The prefix and the rank in the name of a rank's trace: `step.7.et`.
fn rank_in(name: &str) -> Option<(&str, u32)> {
    let mut endings = ENDINGS.iter();
    let stem = endings.find_map(|ending| name.strip_suffix(ending))?;
    let (prefix, digits) = stem.rsplit_once('.')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok().map(|rank| (prefix, rank)))?
}

/// Names of ranks' traces in order, of all that are of one prefix.
fn in_order<'a>(names: impl Iterator<Item = (u32, &'a str)>) -> Result<Vec<&'a str>, String> {
    let mut found: BTreeMap<u32, &str> = BTreeMap::new();
    for (rank, name) in names {
        if let Some(other) = found.insert(rank, name) {
            return Err(format!("rank {rank} has two files: {other} and {name}"));
        }
    }
    let most = found.last_key_value().map_or(0, |(rank, _)| *rank);
    let missing = (0..most).find(|rank| !found.contains_key(rank));
    match missing {
        Some(rank) => Err(format!(
            "the file of rank {rank} is missing: there are {} of ranks 0 to {most}",
            found.len()
        )),
        None => Ok(found.into_values().collect()),
    }
}

/// Those of a prefix.
fn of_prefix<'a>(
    prefix: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<Vec<&'a str>, String> {
    let all = names.filter_map(|name| Some((rank_in(name)?, name)));
    let all = all.filter(|((found, _), _)| *found == prefix);
    in_order(all.map(|((_, rank), name)| (rank, name)))
}

/// Those of a folder, which has traces of one prefix.
fn of_folder<'a>(names: &[&'a str]) -> Result<Vec<&'a str>, String> {
    let all = names.iter().filter_map(|name| rank_in(name));
    let prefixes: BTreeSet<&str> = all.map(|(prefix, _)| prefix).collect();
    let prefixes: Vec<&str> = prefixes.into_iter().collect();
    match prefixes[..] {
        [] => Err("the folder has no file such as step.0.et".to_owned()),
        [prefix] => of_prefix(prefix, names.iter().copied()),
        [first, second, ..] => Err(format!(
            "the folder has traces of `{first}` and of `{second}`: name one of them"
        )),
    }
}

fn read_file(path: &Path) -> Result<RankFile, String> {
    let mut file = File::open(path).map_err(|error| reason(&error))?;
    read_rank(&mut file).map_err(|error| error.to_string())
}

/// Traces on disk: what was read, and the names by which a study carries them.
pub(crate) fn on_disk(base: &Path, path: &str) -> Result<(TraceFiles, Vec<String>), String> {
    let place = base.join(path);
    let kind = fs::metadata(&place).map(|metadata| (metadata.is_dir(), metadata.is_file()));
    let (is_folder, is_file) = kind.unwrap_or((false, false));
    if is_file {
        return Ok((
            TraceFiles::One(Box::new(read_file(&place)?)),
            vec![path.to_owned()],
        ));
    }
    // What stands before the name of a file: the folder, as the study writes it.
    let (before, prefix) = match is_folder {
        true => (format!("{}/", path.trim_end_matches('/')), ""),
        false => match path.rsplit_once('/') {
            Some((before, prefix)) => (format!("{before}/"), prefix),
            None => (String::new(), path),
        },
    };
    let folder = base.join(&before);
    let there = names_in(&folder)?;
    let there: Vec<&str> = there.iter().map(String::as_str).collect();
    let names = match is_folder {
        true => of_folder(&there)?,
        false => of_prefix(prefix, there.iter().copied())?,
    };
    if names.is_empty() {
        return Err(format!(
            "there is no such file or folder, and no file such as {path}.0.et"
        ));
    }
    let read = |name: &&str| {
        let read = read_file(&folder.join(name));
        read.map(Arc::new)
            .map_err(|problem| format!("{before}{name}: {problem}"))
    };
    let files: Result<_, String> = names.iter().map(read).collect();
    let carried = names.iter().map(|name| format!("{before}{name}"));
    Ok((TraceFiles::Ranks(files?), carried.collect()))
}

/// The same of what a study carries; none if it carries nothing of that path.
pub(crate) fn carried(
    path: &str,
    texts: &BTreeMap<String, Arc<str>>,
) -> Result<Option<(TraceFiles, Vec<String>)>, String> {
    let read = |name: &str| {
        let read = read_rank(&mut texts[name].as_bytes());
        read.map_err(|error| format!("{name}: {error}"))
    };
    if texts.contains_key(path) {
        return Ok(Some((
            TraceFiles::One(Box::new(read(path)?)),
            vec![path.to_owned()],
        )));
    }
    let mut names = of_prefix(path, texts.keys().map(String::as_str))?;
    if names.is_empty() {
        let before = format!("{}/", path.trim_end_matches('/'));
        let within = texts.keys().map(String::as_str);
        let is_in = |name: &&str| {
            let rest = name.strip_prefix(&*before);
            rest.is_some_and(|rest| !rest.contains('/') && rank_in(rest).is_some())
        };
        let within: Vec<&str> = within.filter(is_in).collect();
        if within.is_empty() {
            return Ok(None);
        }
        names = of_folder(&within)?;
    }
    let files: Result<_, String> = names.iter().map(|name| read(name).map(Arc::new)).collect();
    let names = names.into_iter().map(str::to_owned).collect();
    Ok(Some((TraceFiles::Ranks(files?), names)))
}

/// Reads the traces at a path: one file, a folder, or what stands before `.0.et`.
///
/// # Errors
///
/// Which file, and what is wrong with it.
pub fn read_trace(path: &Path) -> Result<TraceFiles, String> {
    let text = path.to_str().ok_or("its name is not UTF-8")?;
    on_disk(Path::new(""), text).map(|(files, _)| files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ranks_end_in_a_number_and_a_known_ending() {
        let all = [
            "s.0.et",
            "a.b.12.json",
            "s.3.et.gz",
            "s.et",
            "s.x.et",
            "9.et",
            ".7.et",
        ];
        assert_eq!(
            all.map(rank_in),
            [
                Some(("s", 0)),
                Some(("a.b", 12)),
                Some(("s", 3)),
                None,
                None,
                None,
                Some(("", 7))
            ]
        );
    }

    #[test]
    fn files_of_ranks_are_found_in_order_and_each_once() {
        let names = ["s.1.et", "s.10.et", "other.0.et", "s.json", "s.0.et"];
        let all: Vec<String> = (2..10).map(|rank| format!("s.{rank}.et")).collect();
        let all = || names.into_iter().chain(all.iter().map(String::as_str));
        let found = of_prefix("s", all()).unwrap();
        assert_eq!(
            (found.len(), found[1], found[10]),
            (11, "s.1.et", "s.10.et")
        );
        assert_eq!(
            of_prefix("s", all().filter(|name| *name != "s.7.et")).unwrap_err(),
            "the file of rank 7 is missing: there are 10 of ranks 0 to 10"
        );
        assert_eq!(
            of_prefix("s", ["s.0.et", "s.0.json"].into_iter()).unwrap_err(),
            "rank 0 has two files: s.0.et and s.0.json"
        );
        assert_eq!(
            of_folder(&names).unwrap_err(),
            "the folder has traces of `other` and of `s`: name one of them"
        );
        assert_eq!(
            of_folder(&["a.txt"]).unwrap_err(),
            "the folder has no file such as step.0.et"
        );
    }
}
