//! Nodes of a rank's file, whatever form it has, as steps.

use std::collections::BTreeMap;

use super::{ChakraError, GroupRanks, NodeName, Notes, collective};
use crate::collective::Collective;
use crate::trace::{ACCELERATOR, HOST, Steps, Together, Work};

/// A node as its file says it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) name: String,
    /// The type, by Chakra's number.
    pub(super) kind: u64,
    pub(super) needs: Vec<u64>,
    pub(super) microseconds: u64,
    pub(super) is_cpu_op: bool,
    /// Operations that it takes, where no time is recorded.
    pub(super) num_ops: u64,
    pub(super) comm_type: Option<u64>,
    pub(super) comm_size: Option<u64>,
    pub(super) source: Option<u64>,
    pub(super) target: Option<u64>,
    pub(super) tag: Option<u64>,
    pub(super) group: Option<String>,
    /// Whether it leaves out some dimension of ASTRA-sim's.
    pub(super) is_partial: bool,
    /// Values that go in: of a node that describes process groups, their description.
    pub(super) values: String,
}

const METADATA: u64 = 1;
const LOAD: u64 = 2;
const STORE: u64 = 3;
const COMPUTE: u64 = 4;
const SEND: u64 = 5;
const RECEIVE: u64 = 6;
const COLLECTIVE: u64 = 7;

/// The file of one rank, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankFile {
    /// Groups of [`Together`] are numbers of `group_names`.
    pub(super) steps: Steps,
    /// Process groups that collectives name; the first is all ranks.
    pub(super) group_names: Vec<Option<String>>,
    /// Process groups that the file describes.
    pub(super) groups: GroupRanks,
    /// With how many ranks it was recorded, if it says so.
    pub(super) world: Option<u64>,
    notes: Notes,
}

impl RankFile {
    /// What is worth knowing.
    #[must_use]
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.steps.len()
    }
}

/// Nodes that are read one after the other.
#[derive(Default)]
pub(super) struct Reader {
    file: RankFile,
    places: BTreeMap<u64, u32>,
    /// Ids that each waits for, until all places are known.
    needs: Vec<Vec<u64>>,
    works: Vec<(Work, u64, String)>,
    known_groups: BTreeMap<Option<String>, u32>,
}

impl Reader {
    pub(super) fn add_groups(&mut self, groups: GroupRanks) {
        self.file.groups.extend(groups);
    }

    pub(super) fn add(&mut self, node: Node) -> Result<(), ChakraError> {
        let named = |problem: &str| {
            ChakraError::new(format!("{}: {problem}", NodeName(node.id, &node.name)))
        };
        let place = self.works.len() as u32;
        if place >= u32::MAX / 2 {
            return Err(ChakraError::new("there are more than 2,147,483,646 nodes"));
        }
        if self.places.insert(node.id, place).is_some() {
            return Err(named("its id is that of another node, too"));
        }
        let work = self.work(&node).map_err(|problem| named(&problem))?;
        self.needs.push(node.needs);
        self.works.push((work, node.id, node.name));
        Ok(())
    }

    fn work(&mut self, node: &Node) -> Result<Work, String> {
        let processor = if node.is_cpu_op { HOST } else { ACCELERATOR };
        let computation = Work::Compute {
            nanoseconds: node.microseconds.saturating_mul(1_000),
            processor,
        };
        match node.kind {
            METADATA => {
                if node.name.contains("process_group:init") {
                    let (groups, world) = super::ranks::described(&node.values)?;
                    self.file.groups.extend(groups);
                    self.file.world = world.or(self.file.world);
                }
                Ok(computation)
            }
            LOAD | STORE | COMPUTE => {
                let is_untimed = node.microseconds == 0 && node.num_ops > 0;
                self.file.notes.untimed += u64::from(is_untimed);
                Ok(match is_untimed {
                    true => Work::Count {
                        operations: node.num_ops,
                        processor,
                    },
                    false => computation,
                })
            }
            SEND | RECEIVE => self.message(node, computation),
            COLLECTIVE => self.together(node, computation),
            other => Err(format!(
                "its type is {other}: 1 metadata, 2 and 3 memory, 4 computation, 5 send, \
                 6 receive and 7 collective are known"
            )),
        }
    }

    fn message(&mut self, node: &Node, launch: Work) -> Result<Work, String> {
        let (word, key, peer) = match node.kind {
            SEND => ("sends", "comm_dst", node.target),
            _ => ("receives", "comm_src", node.source),
        };
        if node.is_cpu_op && peer.is_none() && node.comm_size.is_none() {
            self.file.notes.launches += 1;
            return Ok(launch);
        }
        let peer = peer.ok_or_else(|| {
            format!("it {word}, and no `{key}` says which rank is at the other end")
        })?;
        let peer = u32::try_from(peer).map_err(|_| format!("`{key}` is {peer}: no rank"))?;
        let bytes = node
            .comm_size
            .ok_or_else(|| format!("it {word}, and no `comm_size` says how many bytes"))?;
        let tag = node.tag.unwrap_or(0);
        let tag = u32::try_from(tag).map_err(|_| format!("`comm_tag` is {tag}: no tag"))?;
        self.file.notes.empty += u64::from(bytes == 0);
        Ok(match node.kind {
            SEND => Work::Send {
                bytes,
                to: peer,
                tag,
            },
            _ => Work::Receive {
                bytes,
                from: peer,
                tag,
            },
        })
    }

    fn together(&mut self, node: &Node, launch: Work) -> Result<Work, String> {
        let Some(comm_type) = node.comm_type else {
            if node.is_cpu_op {
                self.file.notes.launches += 1;
                return Ok(launch);
            }
            return Err("it is a collective, and no `comm_type` says which".to_owned());
        };
        let collective = collective(comm_type).ok_or_else(|| {
            format!("its `comm_type` is {comm_type}: 0 to 9 are known, 0 is an all-reduce")
        })?;
        let bytes = match (collective, node.comm_size) {
            (Collective::Barrier, _) => 0,
            (_, Some(bytes)) => bytes,
            (_, None) => {
                return Err(format!(
                    "it is {collective}, and no `comm_size` says of how many bytes"
                ));
            }
        };
        if node.is_partial && node.group.is_none() {
            return Err(
                "its `involved_dim` leaves dimensions out, and says nothing of ranks: a process \
                 group (`pg_name`) does"
                    .to_owned(),
            );
        }
        let notes = &mut self.file.notes;
        notes.empty += u64::from(bytes == 0 && collective != Collective::Barrier);
        notes.rooted += u64::from(collective.has_root());
        let names = &mut self.file.group_names;
        let next = names.len() as u32;
        let group = self.known_groups.entry(node.group.clone());
        let group = *group.or_insert_with(|| {
            names.push(node.group.clone());
            next
        });
        Ok(Work::Together(Together {
            collective,
            bytes,
            group,
            root: 0,
        }))
    }

    pub(super) fn finish(self) -> RankFile {
        let mut file = self.file;
        for (place, ((work, id, name), needs)) in (0..).zip(self.works.into_iter().zip(self.needs))
        {
            let mut places = Vec::with_capacity(needs.len());
            for need in needs {
                match self.places.get(&need) {
                    None => file.notes.absent += 1,
                    Some(other) => {
                        file.notes.forward += u64::from(*other > place);
                        places.push(*other);
                    }
                }
            }
            places.sort_unstable();
            places.dedup();
            file.steps.add(work, id, &name, places);
        }
        file
    }
}
