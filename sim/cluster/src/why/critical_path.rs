//! Why an application took as long as it did: what was never waiting for anything else.
//!
//! The path leads back from the operation that ended last: to what freed it last, to what freed
//! that, and so to the start. Whatever is made shorter elsewhere does not make the application
//! shorter. As for one message, the run is done twice: the first says who freed whom, the second
//! keeps the times of the path alone.

use core::ops::ControlFlow;

use viaduct_engine::Time;
use viaduct_hardware::Stage;
use viaduct_operations::OperationName;

use super::{MessageName, WhyError};
use crate::cluster::{Cluster, Progress};
use crate::config::ClusterConfig;
use crate::interfaces;
use crate::operations::{Activity, Causes, Leg, Links, Operations, Role, Timed};
use crate::result::{Ended, RunResult};

/// The critical path of an application.
#[derive(Clone, Debug)]
pub struct CriticalPath {
    /// From the start of the traffic to the end of the last operation.
    pub makespan: Time,
    /// When the traffic starts.
    pub start: Time,
    /// What happened one after the other, from the start on; these add up to the makespan.
    pub steps: Vec<Step>,
    /// Operations that have ended, and that there are.
    pub operations: (u64, u64),
    /// Ranks that there are.
    pub ranks: u32,
    /// Events of one run.
    pub events: u64,
    /// The digest of the run.
    pub digest: u64,
    /// Why the run ended.
    pub ended: Ended,
    /// As of an [`Explanation`](super::Explanation).
    pub violations: Vec<String>,
}

/// One step of it.
#[derive(Clone, Debug)]
pub struct Step {
    /// The operation: of a message the send.
    pub operation: OperationName,
    /// What was done for it.
    pub doing: Doing,
    /// Whose step it is: the operation's rank; of a clearance, and where a receiver registers, the
    /// receiver.
    pub rank: u32,
    /// The host of this rank.
    pub host: u32,
    /// When it began; the step before ended then.
    pub begin: Time,
    /// When it ended.
    pub end: Time,
}

/// What a step is.
#[derive(Clone, Debug)]
pub enum Doing {
    /// A computation, which waited for its processor first.
    Compute {
        /// For so long.
        waited: Time,
    },
    /// The processor handed the bytes of a send to the adapter.
    Post,
    /// A message went from one host to another: a whole send, or a part of a rendezvous.
    Message {
        /// Which of the messages of a send it is: `eager`, `request`, `clearance` or `data`.
        part: &'static str,
        /// It, or the last of its pieces.
        message: MessageName,
        /// Its stages, which add up to the step; none that took no time.
        stages: Vec<(Stage, Time)>,
        /// How long it would have taken with nobody else there; none where nobody works that out.
        floor: Option<Time>,
    },
    /// The bytes of a rendezvous left, and the sender learnt it.
    Leave,
    /// A message to a rank of the same host.
    Local,
    /// A receive copied a message that had come before it.
    Copy,
    /// An end of a rendezvous, the sender or the receiver, registered its bytes.
    Register,
}

impl Step {
    /// How long it took.
    #[must_use]
    pub fn time(&self) -> Time {
        self.end.saturating_sub(self.begin)
    }

    /// Who takes the message that it is: the operation's peer; of a clearance its sender.
    #[must_use]
    pub fn receiver(&self) -> u32 {
        match &self.doing {
            Doing::Message {
                part: "clearance", ..
            } => self.operation.rank,
            _ => self.operation.operation.peer,
        }
    }

    /// How much of that a computation waited for its processor, or a message took beyond what it
    /// takes with nobody else there.
    #[must_use]
    pub fn waited(&self) -> Time {
        match &self.doing {
            Doing::Compute { waited } => *waited,
            Doing::Message { floor, .. } => {
                let floor = floor.unwrap_or_else(|| self.time());
                self.time().saturating_sub(floor)
            }
            Doing::Post | Doing::Leave | Doing::Local | Doing::Copy | Doing::Register => Time::ZERO,
        }
    }
}

/// Runs a cluster twice, and says what its application waited for.
///
/// `control` is called as by [`crate::run()`], with the number of the run, 0 or 1.
///
/// # Errors
/// [`WhyError`] if the configuration cannot be run or has no graph of operations, or the caller
/// stops it.
pub fn critical_path(
    config: &ClusterConfig,
    control: &mut dyn FnMut(usize, Progress) -> ControlFlow<()>,
) -> Result<CriticalPath, WhyError> {
    let application = config.traffic.application();
    let graph = application.ok_or(WhyError::NoApplication)?.graph();
    let mut run = |number, causes| {
        let control = &mut |progress| control(number, progress);
        let (operations, result) = match &config.interfaces {
            Some(interfaces) => {
                let keep = |operations: &mut Operations| operations.causes = Some(causes);
                interfaces::run(&**interfaces, config, keep, control)?
            }
            None => run(config, causes, control)?,
        };
        match result.ended {
            Ended::Interrupted => Err(WhyError::Interrupted),
            _ => Ok((operations, result)),
        }
    };
    let (operations, first) = run(0, Causes::Links(Links::new(graph)))?;
    let path = operations.critical_path().unwrap_or_default();
    let (mut operations, result) = run(1, Causes::times(&path))?;
    let steps = operations.steps_of(&path);
    let ended = result.ended;
    let mut violations = result.violations;
    if result.digest != first.digest {
        violations.push("two runs of one configuration gave different results".to_owned());
    }
    let outcome = result.application.ok_or(WhyError::NoApplication)?;
    let taken: Time = steps
        .iter()
        .fold(Time::ZERO, |sum, step| sum.saturating_add(step.time()));
    if taken != outcome.makespan {
        violations.push(format!(
            "the steps of the critical path add up to {} ps, and the application took {} ps",
            taken.picoseconds(),
            outcome.makespan.picoseconds()
        ));
    }
    Ok(CriticalPath {
        makespan: outcome.makespan,
        start: config.traffic.start,
        steps,
        operations: (outcome.ended, outcome.operations),
        ranks: graph.ranks(),
        events: result.events,
        digest: result.digest,
        ended,
        violations,
    })
}

/// Runs a cluster whose hosts have adapters, and keeps the causes of its operations.
fn run(
    config: &ClusterConfig,
    causes: Causes,
    control: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Box<Operations>, RunResult), WhyError> {
    let mut cluster = Cluster::new(config)?;
    if let Some(operations) = &mut cluster.operations {
        operations.causes = Some(causes);
    }
    let ended = cluster.run(control);
    let result = cluster.result(ended);
    let operations = cluster.operations.take();
    Ok((operations.ok_or(WhyError::NoApplication)?, result))
}

impl Operations {
    /// The steps of a path that a run has timed.
    fn steps_of(&mut self, path: &[Leg]) -> Vec<Step> {
        let Some(Causes::Times(mut times)) = self.causes.take() else {
            return Vec::new();
        };
        let (operations, graph) = (&*self, self.graph());
        let step = |leg: &Leg| {
            let timed = times.remove(leg)?;
            let operation = graph.name(leg.operation);
            let rank = match leg.activity {
                Activity::Message(Role::Clearance) | Activity::RegisterReceived => {
                    operation.operation.peer
                }
                _ => operation.rank,
            };
            Some(Step {
                operation,
                rank,
                host: operations.host_of(rank),
                begin: timed.begin,
                end: timed.end,
                doing: doing(leg.activity, timed)?,
            })
        };
        path.iter().filter_map(step).collect()
    }
}

/// None of a message that never came, and of what did not have to be done.
fn doing(activity: Activity, timed: Timed) -> Option<Doing> {
    let took_time = timed.begin < timed.end;
    let part = match activity {
        Activity::Compute => {
            let waited = timed.waited;
            return Some(Doing::Compute { waited });
        }
        Activity::Post => return Some(Doing::Post),
        Activity::Leave => return Some(Doing::Leave),
        Activity::LocalSend | Activity::LocalMessage => return Some(Doing::Local),
        // What took no time was not timed, or from its end to its end.
        Activity::Copy => return took_time.then_some(Doing::Copy),
        Activity::RegisterSent | Activity::RegisterReceived => {
            return took_time.then_some(Doing::Register);
        }
        Activity::Message(role) => role.name(),
    };
    let record = timed.message?;
    let stages = Stage::ALL.into_iter().zip(record.stages);
    Some(Doing::Message {
        part,
        message: record.message,
        stages: stages
            .map(|(stage, time)| (stage, Time::from_picoseconds(time)))
            .filter(|(_, time)| *time > Time::ZERO)
            .collect(),
        floor: Some(record.floor).filter(|floor| *floor < Time::MAX),
    })
}
