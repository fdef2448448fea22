//! Graphs of operations that Python makes, step by step.

use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use viaduct_operations::collective::{Algorithm, Collective, GROUP_RANKS, PIECES};
use viaduct_operations::trace::{self, Group, Options, Steps, Together, Trace, Work};
use viaduct_operations::{Graph as Operations, goal};
use viaduct_scenario::{parse_size, parse_time};

use crate::errors;

/// The file that stands for the graph in scenarios.
pub(crate) const FILE: &str = "graph.goal";

/// Steps of ranks, and groups of them.
#[pyclass(module = "viaduct._native")]
#[derive(Debug)]
pub(crate) struct Graph {
    ranks: Vec<Steps>,
    groups: Vec<Group>,
    options: Options,
    /// The operations, once somebody wanted them.
    made: OnceLock<Arc<Operations>>,
}

fn wrong(title: impl core::fmt::Display, help: &str) -> PyErr {
    errors::scenario_text(title, Some(help))
}

/// Bytes as a number, or as `"32 MiB"`.
fn bytes(given: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(bytes) = given.extract::<u64>() {
        return Ok(bytes);
    }
    let text = given.extract::<String>().unwrap_or_default();
    parse_size(text.trim()).map_err(|error| {
        let shown = given.repr().map_or(String::new(), |it| it.to_string());
        wrong(
            format_args!("bytes are {shown}: {}", error.problem),
            "give a number of bytes, or a size such as \"32 MiB\"",
        )
    })
}

impl Graph {
    fn steps(&mut self, rank: u32) -> PyResult<&mut Steps> {
        self.made = OnceLock::new();
        let ranks = self.ranks.len();
        self.ranks.get_mut(rank as usize).ok_or_else(|| {
            wrong(
                format_args!("there is no rank {rank}"),
                &format!("ranks are 0 to {}", ranks - 1),
            )
        })
    }

    fn add(&mut self, rank: u32, work: Work, name: &str, after: &[u32]) -> PyResult<u32> {
        let steps = self.steps(rank)?;
        let next = steps.len() as u32;
        if let Some(place) = after.iter().find(|place| **place >= next) {
            return Err(wrong(
                format_args!("rank {rank} has no step {place} yet"),
                "a step waits for earlier ones of its own rank",
            ));
        }
        let mut after = after.to_vec();
        after.sort_unstable();
        after.dedup();
        Ok(steps.add(work, next.into(), name, after))
    }

    /// The operations.
    pub(crate) fn operations(&self, py: Python<'_>) -> PyResult<Arc<Operations>> {
        if let Some(made) = self.made.get() {
            return Ok(Arc::clone(made));
        }
        let trace = Trace {
            ranks: self.ranks.iter().cloned().map(Arc::new).collect(),
            groups: self.groups.clone(),
            step_word: "step",
            receives_are_limits: false,
        };
        let made = py.detach(|| trace::graph(&trace, &self.options));
        let made = made.map_err(|error| errors::scenario_text(error, None))?;
        Ok(Arc::clone(self.made.get_or_init(|| Arc::new(made))))
    }
}

#[pymethods]
impl Graph {
    /// Of so many ranks; algorithms by the names of collectives.
    #[new]
    fn new(
        ranks: u32,
        algorithms: Vec<(String, String)>,
        pieces: Option<u32>,
        group_ranks: Option<u32>,
    ) -> PyResult<Self> {
        let mut options = Options {
            pieces: pieces.unwrap_or(PIECES),
            group_ranks: group_ranks.unwrap_or(GROUP_RANKS),
            ..Options::default()
        };
        for (collective, algorithm) in algorithms {
            let (of, place) = match &*collective {
                "all_reduce" => (Collective::AllReduce, &mut options.all_reduce),
                "all_gather" => (Collective::AllGather, &mut options.all_gather),
                "reduce_scatter" => (Collective::ReduceScatter, &mut options.reduce_scatter),
                _ => (Collective::AllToAll, &mut options.all_to_all),
            };
            let mut all = of.algorithms().iter();
            let named = all.find(|it| it.name() == algorithm);
            let names: Vec<&str> = of
                .algorithms()
                .iter()
                .map(|it: &Algorithm| it.name())
                .collect();
            *place = *named.ok_or_else(|| {
                wrong(
                    format_args!("there is no {of} by {algorithm}"),
                    &format!("it is {}", names.join(", ")),
                )
            })?;
        }
        if ranks == 0 {
            return Err(wrong("a graph of no ranks", "give at least 1"));
        }
        Ok(Self {
            ranks: vec![Steps::default(); ranks as usize],
            groups: Vec::new(),
            options,
            made: OnceLock::new(),
        })
    }

    /// A group of ranks; gives its number.
    fn group(&mut self, members: Vec<u32>, name: String) -> PyResult<u32> {
        let mut sorted = members.clone();
        sorted.sort_unstable();
        if let Some(rank) = sorted
            .last()
            .filter(|rank| **rank as usize >= self.ranks.len())
        {
            return Err(wrong(
                format_args!("there is no rank {rank}"),
                &format!("ranks are 0 to {}", self.ranks.len() - 1),
            ));
        }
        if sorted.is_empty() || sorted.windows(2).any(|two| two[0] == two[1]) {
            return Err(wrong(
                "a group has no member, or one twice",
                "give different ranks",
            ));
        }
        self.groups.push(Group { name, members });
        Ok(self.groups.len() as u32 - 1)
    }

    /// A computation; time as a text with its unit.
    fn compute(
        &mut self,
        rank: u32,
        time: &str,
        processor: u8,
        name: &str,
        after: Vec<u32>,
    ) -> PyResult<u32> {
        let time = parse_time(time.trim()).map_err(|error| {
            wrong(
                format_args!("the time is {time:?}: {}", error.problem),
                "give a time such as \"900 us\"",
            )
        })?;
        let work = Work::Compute {
            nanoseconds: (time.picoseconds() + 500) / 1_000,
            processor,
        };
        self.add(rank, work, name, &after)
    }

    /// A message to another rank.
    fn send(
        &mut self,
        rank: u32,
        to: u32,
        bytes: &Bound<'_, PyAny>,
        tag: u32,
        name: &str,
        after: Vec<u32>,
    ) -> PyResult<u32> {
        let bytes = self::bytes(bytes)?;
        self.add(rank, Work::Send { bytes, to, tag }, name, &after)
    }

    /// A message of another rank.
    fn receive(
        &mut self,
        rank: u32,
        source: u32,
        bytes: &Bound<'_, PyAny>,
        tag: u32,
        name: &str,
        after: Vec<u32>,
    ) -> PyResult<u32> {
        let bytes = self::bytes(bytes)?;
        self.add(
            rank,
            Work::Receive {
                bytes,
                from: source,
                tag,
            },
            name,
            &after,
        )
    }

    /// The part of a rank in a collective of a group; `root` is a rank.
    #[expect(
        clippy::too_many_arguments,
        reason = "a call of Python's, by name there"
    )]
    fn together(
        &mut self,
        rank: u32,
        collective: &str,
        bytes: &Bound<'_, PyAny>,
        group: u32,
        root: Option<u32>,
        name: &str,
        after: Vec<u32>,
    ) -> PyResult<u32> {
        let mut all = Collective::ALL.into_iter();
        let collective = all.find(|it| it.name() == collective).ok_or_else(|| {
            let names = Collective::ALL.map(Collective::name).join(", ");
            wrong(
                format_args!("there is no collective `{collective}`"),
                &format!("there are {names}"),
            )
        })?;
        let bytes = self::bytes(bytes)?;
        let members = self.groups.get(group as usize).map(|group| &group.members);
        let members = members.ok_or_else(|| {
            wrong(
                format_args!("there is no group {group}"),
                "`group` makes one",
            )
        })?;
        let root = match root {
            None => 0,
            Some(root) => {
                let place = members.iter().position(|rank| *rank == root);
                place.ok_or_else(|| {
                    wrong(
                        format_args!("the root {root} is not in the group"),
                        "name one of its ranks",
                    )
                })? as u32
            }
        };
        let work = Work::Together(Together {
            collective,
            bytes,
            group,
            root,
        });
        self.add(rank, work, name, &after)
    }

    /// How many ranks and steps there are.
    #[getter]
    fn counts(&self) -> (usize, usize) {
        (self.ranks.len(), self.ranks.iter().map(Steps::len).sum())
    }

    /// How many operations it becomes.
    #[pyo3(name = "operations")]
    fn operation_count(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.operations(py)?.len())
    }

    /// The text of a GOAL file.
    fn goal(&self, py: Python<'_>) -> PyResult<String> {
        let operations = self.operations(py)?;
        let text = py.detach(|| {
            let mut text = Vec::new();
            goal::write_text(&operations, &mut text).map(|()| text)
        });
        let text = text.map_err(|error| errors::scenario_text(error, None))?;
        String::from_utf8(text).map_err(|error| errors::scenario_text(error, None))
    }
}
