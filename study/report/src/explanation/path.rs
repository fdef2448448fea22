//! What the critical path of an application is made of.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::why::{CriticalPath, Doing, Step};
use viaduct_engine::Time;
use viaduct_hardware::Stage;

/// A critical path with what it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct ExplainedPath<'a> {
    /// Name of the study or of the scenario file.
    pub study: &'a str,
    /// Version of the program.
    pub version: &'a str,
    /// What was run.
    pub config: &'a ClusterConfig,
    /// The path.
    pub path: &'a CriticalPath,
}

/// What the time of a path goes to.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Part {
    /// A rank computes.
    Compute,
    /// A computation waits for its processor.
    Processor,
    /// A processor posts a send, and waits until it can.
    Send,
    /// A stage of a message.
    Message(Stage),
    /// Bytes leave, and their sender learns it.
    Leave,
    /// A message goes to a rank of the same host.
    Local,
    /// A receive copies a message that came before it.
    Copy,
    /// An end of a rendezvous registers its bytes.
    Register,
}

impl Part {
    /// Its name in files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Processor => "processor",
            Self::Send => "send",
            Self::Message(stage) => stage.name(),
            Self::Leave => "leave",
            Self::Local => "local",
            Self::Copy => "copy",
            Self::Register => "register",
        }
    }

    /// The same for people.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Compute => "computing".to_owned(),
            Self::Processor => "waiting for the processor to compute".to_owned(),
            Self::Send => "posting sends".to_owned(),
            Self::Message(stage) => format!("messages: {}", stage.name().replace('_', " ")),
            Self::Leave => "waiting until bytes have left".to_owned(),
            Self::Local => "messages within hosts".to_owned(),
            Self::Copy => "copying messages that came early".to_owned(),
            Self::Register => "registering memory".to_owned(),
        }
    }
}

/// A rank's part in a path: what its processors and its adapter did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RankShare {
    pub(crate) rank: u32,
    pub(crate) host: u32,
    /// It computed, or waited for its processor to do so.
    pub(super) computing: Time,
    /// Of its messages, until their bytes began to move; all of those within its host.
    pub(super) sending: Time,
    /// Of messages to it, since their bytes were there.
    pub(super) receiving: Time,
}

impl RankShare {
    pub(super) fn time(&self) -> Time {
        let messages = self.sending.saturating_add(self.receiving);
        self.computing.saturating_add(messages)
    }
}

/// At which end of a message a stage is; the bytes move between the two.
pub(crate) fn end_of(stage: Stage) -> End {
    match stage {
        Stage::Transfer | Stage::Queued | Stage::Network => End::Between,
        stage if stage < Stage::Transfer => End::Sender,
        _ => End::Receiver,
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    Sender,
    Between,
    Receiver,
}

/// What a step went to; this adds up to its time.
pub(crate) fn parts_of(step: &Step) -> Vec<(Part, Time)> {
    match &step.doing {
        Doing::Compute { waited } => vec![
            (Part::Compute, step.time().saturating_sub(*waited)),
            (Part::Processor, *waited),
        ],
        Doing::Post => vec![(Part::Send, step.time())],
        Doing::Message { stages, .. } => {
            let stages = stages.iter();
            let part = |(stage, time): &(Stage, Time)| (Part::Message(*stage), *time);
            stages.map(part).collect()
        }
        Doing::Leave => vec![(Part::Leave, step.time())],
        Doing::Local => vec![(Part::Local, step.time())],
        Doing::Copy => vec![(Part::Copy, step.time())],
        Doing::Register => vec![(Part::Register, step.time())],
    }
}

/// What all steps of a path went to, without what took no time.
pub(crate) fn parts_of_path(path: &CriticalPath) -> BTreeMap<Part, Time> {
    let mut parts: BTreeMap<Part, Time> = BTreeMap::new();
    for (part, time) in path.steps.iter().flat_map(parts_of) {
        let sum = parts.entry(part).or_default();
        *sum = sum.saturating_add(time);
    }
    parts.retain(|_, time| *time > Time::ZERO);
    parts
}

impl ExplainedPath<'_> {
    /// The same of this one.
    pub(crate) fn parts(&self) -> Vec<(Part, Time)> {
        parts_of_path(self.path).into_iter().collect()
    }

    /// The ranks of the path, those with most time first, and the time in which bytes moved from
    /// one host to another.
    pub(crate) fn ranks(&self) -> (Vec<RankShare>, Time) {
        let mut ranks: BTreeMap<u32, RankShare> = BTreeMap::new();
        let mut between = Time::ZERO;
        for step in &self.path.steps {
            let mut share = |rank, host, of: fn(&mut RankShare) -> &mut Time, time: Time| {
                let share = ranks.entry(rank).or_default();
                (share.rank, share.host) = (rank, host);
                let sum = of(share);
                *sum = sum.saturating_add(time);
            };
            let (rank, host) = (step.rank, step.host);
            match &step.doing {
                Doing::Compute { .. } => share(rank, host, |it| &mut it.computing, step.time()),
                Doing::Register if rank != step.operation.rank => {
                    share(rank, host, |it| &mut it.receiving, step.time());
                }
                Doing::Copy => share(rank, host, |it| &mut it.receiving, step.time()),
                Doing::Post | Doing::Leave | Doing::Local | Doing::Register => {
                    share(rank, host, |it| &mut it.sending, step.time());
                }
                Doing::Message {
                    message, stages, ..
                } => {
                    let (_, target) = message.hosts(self.config.hosts.processes);
                    for (stage, time) in stages {
                        match end_of(*stage) {
                            End::Sender => share(rank, host, |it| &mut it.sending, *time),
                            End::Between => between = between.saturating_add(*time),
                            End::Receiver => {
                                share(step.receiver(), target.0, |it| &mut it.receiving, *time);
                            }
                        }
                    }
                }
            }
        }
        let mut ranks: Vec<RankShare> = ranks.into_values().collect();
        ranks.sort_by_key(|share| (Reverse(share.time()), share.rank));
        (ranks, between)
    }
}
