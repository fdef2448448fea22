//! Which files are a SimGrid trace: one of all ranks, one that lists those of ranks, or a folder.

use std::path::Path;
use std::sync::Arc;

use viaduct_operations::simgrid::{self, Notes, TraceFile};
use viaduct_operations::trace::Trace;

use crate::files::Files;

/// The rank in the name of a file, the number behind its last other character: `ti_rank-7.txt`.
fn rank_in(name: &str) -> Option<u32> {
    let stem = name.strip_suffix(".gz").unwrap_or(name);
    let stem = stem.strip_suffix(".txt")?;
    let digits = stem.len() - stem.trim_end_matches(|it: char| it.is_ascii_digit()).len();
    stem[stem.len() - digits..].parse().ok()
}

/// Those of ranks among the names of a folder, in order.
fn in_order(names: Vec<String>) -> Result<Vec<String>, String> {
    let mut ranked: Vec<(u32, String)> = names
        .into_iter()
        .filter_map(|name| Some((rank_in(&name)?, name)))
        .collect();
    ranked.sort_unstable();
    for (place, (rank, name)) in (0_u32..).zip(&ranked) {
        if *rank < place {
            return Err(format!("rank {rank} has two files, one of which is {name}"));
        }
        if *rank > place {
            return Err(format!(
                "the file of rank {place} is missing, such as rank-{place}.txt"
            ));
        }
    }
    match ranked.is_empty() {
        true => Err("the folder has no file such as rank-0.txt".to_owned()),
        false => Ok(ranked.into_iter().map(|(_, name)| name).collect()),
    }
}

/// The trace at a path, whose texts are remembered as used.
pub(crate) fn read(files: &mut Files, path: &str) -> Result<(Trace, Notes), String> {
    let folder = format!("{}/", path.trim_end_matches('/'));
    let mut is_listed = false;
    let names = match files.names_within(&folder)? {
        Some(names) => {
            let names = in_order(names)?;
            names
                .into_iter()
                .map(|name| format!("{folder}{name}"))
                .collect()
        }
        None => {
            let text = files.packed_text(path)?;
            match simgrid::listed(&text) {
                // Paths of a list are those of its folder.
                Some(names) => {
                    is_listed = true;
                    let before = path.rfind('/').map_or("", |slash| &path[..=slash]);
                    let whole = |name: &&str| match Path::new(name).is_absolute() {
                        true => (*name).to_owned(),
                        false => format!("{before}{name}"),
                    };
                    names.iter().map(whole).collect()
                }
                None => vec![path.to_owned()],
            }
        }
    };
    let texts: Result<Vec<(String, Arc<str>)>, String> = names
        .into_iter()
        .map(|name| {
            let text = files.packed_text(&name);
            let text = text.map_err(|reason| match is_listed {
                true => format!("{name}, which {path} lists: {reason}"),
                false => format!("{name}: {reason}"),
            })?;
            Ok((name, text))
        })
        .collect();
    let texts = texts?;
    let all: Vec<TraceFile<'_>> = texts
        .iter()
        .map(|(name, text)| TraceFile { name, text })
        .collect();
    simgrid::read(&all).map_err(|error| error.to_string())
}

/// Reads the SimGrid trace at a path: one file, one that lists others, or a folder.
///
/// # Errors
///
/// Which file, where in it, and what is wrong.
pub fn read_simgrid_trace(path: &Path) -> Result<(Trace, Notes), String> {
    let text = path.to_str().ok_or("its name is not UTF-8")?;
    read(&mut Files::on_disk(Path::new("")), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_folder_end_in_their_rank() {
        let all = [
            "1.5_rank-0.txt",
            "rank-12.txt",
            "7.txt.gz",
            "list.txt",
            "rank-1",
        ];
        assert_eq!(all.map(rank_in), [Some(0), Some(12), Some(7), None, None]);
        let order = |names: &[&str]| in_order(names.iter().map(|it| (*it).to_owned()).collect());
        let many: Vec<String> = (0..11).rev().map(|rank| format!("r{rank}.txt")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(order(&many).unwrap()[10], "r10.txt");
        for (names, expected) in [
            (
                &["a0.txt", "a2.txt"][..],
                "the file of rank 1 is missing, such as rank-1.txt",
            ),
            (
                &["a0.txt", "b0.txt"],
                "rank 0 has two files, one of which is b0.txt",
            ),
            (&["a.txt"], "the folder has no file such as rank-0.txt"),
        ] {
            assert_eq!(order(names).unwrap_err(), expected);
        }
    }
}
