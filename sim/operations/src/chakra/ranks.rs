//! Files of all ranks together: who is in which process group.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{ChakraError, GroupRanks, JoinError, NodeName, RankFile};
use crate::collective::Collective;
use crate::trace::{Group, Steps, Together, Trace, Work};

/// Process groups by name, as a file beside the traces describes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups(GroupRanks);

/// Reads a file of process groups: an object in JSON from each name to its ranks, as ASTRA-sim
/// has it.
///
/// # Errors
///
/// [`ChakraError`]: which group, and what is wrong.
pub fn read_groups(text: &str) -> Result<Groups, ChakraError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| ChakraError::new(format!("no JSON: {error}")))?;
    groups_of(&value).map(Groups).map_err(ChakraError::new)
}

/// Groups of an object from names to ranks.
pub(super) fn groups_of(value: &Value) -> Result<GroupRanks, String> {
    let form = "process groups are an object of their names, as in {\"0\": [0, 1]}";
    let all = value.as_object().ok_or(form)?.iter();
    all.map(|(name, ranks)| {
        let ranks = ranks_of(ranks).ok_or_else(|| format!("group `{name}`: no list of ranks"))?;
        Ok((name.clone(), ranks))
    })
    .collect()
}

fn ranks_of(value: &Value) -> Option<Vec<u32>> {
    let number = |value: &Value| value.as_u64().and_then(|it| u32::try_from(it).ok());
    match value {
        Value::Array(all) => all.iter().map(number).collect(),
        // Older versions of PyTorch write who has which rank within the group.
        Value::Object(all) => all.keys().map(|rank| rank.parse().ok()).collect(),
        _ => None,
    }
}

/// Groups as the node `process_group:init` describes them: JSON within the value of a list.
///
/// A group without ranks is that of all; the second value says how many it says that these are.
pub(super) fn described(values: &str) -> Result<(GroupRanks, Option<u64>), String> {
    let wrong = || "its value describes no process groups".to_owned();
    let (begin, end) = (values.find("[{"), values.rfind("}]"));
    let (Some(begin), Some(end)) = (begin, end) else {
        return match values.contains("[]") {
            true => Ok((GroupRanks::new(), None)),
            false => Err(wrong()),
        };
    };
    let text = values.get(begin..end + 2).ok_or_else(wrong)?;
    let plain = serde_json::from_str(text);
    let all: Vec<Value> = plain
        .or_else(|_| serde_json::from_str(&text.replace("\\\"", "\"")))
        .map_err(|error| format!("{}: {error}", wrong()))?;
    let mut world = None;
    let groups = all.iter().map(|group| {
        let name = match group.get("pg_name") {
            Some(Value::String(name)) => name.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => return Err(format!("{}: one has no `pg_name`", wrong())),
        };
        let ranks = group.get("ranks").map_or(Some(Vec::new()), ranks_of);
        let ranks = ranks.ok_or_else(|| format!("group `{name}`: no list of ranks"))?;
        if ranks.is_empty() {
            world = group.get("group_size").and_then(Value::as_u64);
        }
        Ok((name, ranks))
    });
    let groups: GroupRanks = groups.collect::<Result<_, String>>()?;
    Ok((groups, world))
}

/// Groups of the trace so far.
#[derive(Default)]
struct Known {
    groups: Vec<Group>,
    places: BTreeMap<(String, Vec<u32>), u32>,
}

impl Known {
    /// The place of a group that a file names, for so many ranks.
    fn place(
        &mut self,
        name: Option<&str>,
        file: &RankFile,
        groups: &Groups,
        ranks: u32,
    ) -> Result<u32, String> {
        let everybody = || (0..ranks).collect();
        let members = match name {
            None => everybody(),
            Some(name) => {
                let known = groups.0.get(name).or_else(|| file.groups.get(name));
                let known = known.ok_or_else(|| unknown(name, file, groups))?;
                match known.is_empty() {
                    true => everybody(),
                    false => known.clone(),
                }
            }
        };
        let shown = name.unwrap_or("all ranks");
        let mut sorted = members.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|two| two[0] == two[1]) {
            return Err(format!(
                "process group `{shown}` has rank {} twice",
                twice[0]
            ));
        }
        if let Some(rank) = sorted.last().filter(|rank| **rank >= ranks) {
            return Err(format!(
                "process group `{shown}` has rank {rank}, and the trace ranks 0 to {}",
                ranks - 1
            ));
        }
        let next = self.groups.len() as u32;
        let place = self.places.entry((shown.to_owned(), members));
        Ok(*place.or_insert_with_key(|(name, members)| {
            self.groups.push(Group {
                name: name.clone(),
                members: members.clone(),
            });
            next
        }))
    }
}

fn unknown(name: &str, file: &RankFile, groups: &Groups) -> String {
    let known: Vec<&str> = groups
        .0
        .keys()
        .chain(file.groups.keys())
        .map(String::as_str)
        .collect();
    match known.is_empty() {
        true => format!(
            "process group `{name}` is not known: neither the trace nor a file of groups \
             describes any"
        ),
        false => format!(
            "process group `{name}` is not known: {} are",
            known.join(", ")
        ),
    }
}

fn at(rank: Option<u32>, problem: impl Into<String>) -> JoinError {
    JoinError {
        rank,
        problem: problem.into(),
    }
}

pub(super) fn join(files: &[Arc<RankFile>], groups: &Groups) -> Result<Trace, JoinError> {
    let ranks = files.len() as u32;
    let mut known = Known::default();
    let mut all = Vec::with_capacity(files.len());
    for (rank, file) in (0..).zip(files) {
        if let Some(world) = file.world.filter(|world| *world != u64::from(ranks)) {
            let problem =
                format!("it was recorded with {world} ranks, and there are {ranks} files");
            return Err(at(Some(rank), problem));
        }
        let steps = steps(file, &mut known, groups, ranks);
        all.push(Arc::new(steps.map_err(|problem| at(Some(rank), problem))?));
    }
    Ok(Trace {
        ranks: all,
        groups: known.groups,
        step_word: "node",
        receives_are_limits: false,
    })
}

pub(super) fn repeat(file: &RankFile, ranks: u32, groups: &Groups) -> Result<Trace, JoinError> {
    let is_message = |work| matches!(work, Work::Send { .. } | Work::Receive { .. });
    let message = (0..file.steps.len() as u32).find(|place| is_message(file.steps.work(*place)));
    if let Some(place) = message {
        let (id, name) = file.steps.name(place);
        return Err(at(
            None,
            format!(
                "{} is a message of one rank: only the files of all ranks say who else has one",
                NodeName(id, name)
            ),
        ));
    }
    let mut known = Known::default();
    let steps = steps(file, &mut known, groups, ranks).map_err(|problem| at(None, problem))?;
    if let Some(group) = known
        .groups
        .iter()
        .find(|it| it.members.len() < ranks as usize)
    {
        return Err(at(
            None,
            format!(
                "process group `{}` has {} of {ranks} ranks: only the files of all ranks say \
                 what the others do",
                group.name,
                group.members.len()
            ),
        ));
    }
    let steps = Arc::new(steps);
    Ok(Trace {
        ranks: vec![steps; ranks as usize],
        groups: known.groups,
        step_word: "node",
        receives_are_limits: false,
    })
}

/// Steps of a file with groups of the trace.
fn steps(file: &RankFile, known: &mut Known, groups: &Groups, ranks: u32) -> Result<Steps, String> {
    let mut steps = Steps::default();
    let mut places: Vec<Option<u32>> = vec![None; file.group_names.len()];
    for place in 0..file.steps.len() as u32 {
        let (id, name) = file.steps.name(place);
        let mut work = file.steps.work(place);
        if let Work::Together(together) = &mut work {
            let of_file = together.group as usize;
            let group = match places[of_file] {
                Some(group) => group,
                None => known
                    .place(file.group_names[of_file].as_deref(), file, groups, ranks)
                    .map_err(|problem| format!("{}: {problem}", NodeName(id, name)))?,
            };
            places[of_file] = Some(group);
            let members = &known.groups[group as usize].members;
            let lowest = (0..).zip(members).min_by_key(|(_, rank)| **rank);
            *together = Together {
                group,
                root: match together.collective.has_root() {
                    true => lowest.map_or(0, |(place, _)| place),
                    false => 0,
                },
                // A rank's own share is what the file says of these.
                bytes: match together.collective {
                    Collective::AllGather | Collective::Gather => {
                        together.bytes.saturating_mul(members.len() as u64)
                    }
                    _ => together.bytes,
                },
                ..*together
            };
        }
        steps.add(work, id, name, file.steps.needs(place).iter().copied());
    }
    Ok(steps)
}
