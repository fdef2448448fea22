//! Where the time of one message went, and for whom it waited.
//!
//! Runs repeat to the bit, so a message is explained by two of them. The first finds which message
//! is meant and when it lived; the second keeps who used the servers of its way meanwhile
//! (`trace.rs`): the links and buses that its bytes crossed, the processors of its two hosts,
//! its adapter and the send buffers. What it waited for is worked out afterwards from overlaps of
//! those times. Memory follows what one message met, not the length of the run.

mod account;
mod choose;
mod critical_path;
mod requests;
mod sharing;

use core::ops::ControlFlow;

use thiserror::Error;
use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkId};

pub(crate) use self::choose::{Candidate, Chooser, Record};
pub use self::critical_path::{CriticalPath, Doing, Step, critical_path};
pub use self::requests::{AloneParts, Journey, Request};
pub(crate) use self::requests::{Requests, record};
use crate::cluster::{Cluster, Progress};
use crate::config::ClusterConfig;
use crate::error::RunError;
use crate::programs::Programs;
use crate::result::{Ended, RunResult};
use crate::trace::{Follower, Observer};
use crate::workload::MessageOperation;
use viaduct_hardware::Stage;
use viaduct_network::PlaceWait;

/// How many of those that were met longest are named, at each server.
pub const NAMED_MAX: usize = 5;

/// Which message is meant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// The one with this number in order of posting, from 0, warm-up included.
    Message(u64),
    /// The measured one with the largest latency; the first of several.
    Slowest,
    /// The measured one whose latency this share of all, 0 to 1, does not exceed. To find it the
    /// first run keeps 40 bytes of each measured message.
    Quantile(f64),
}

/// Why a message cannot be explained.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum WhyError {
    /// The run cannot begin.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The caller stopped a run.
    #[error("stopped before the end of the run")]
    Interrupted,
    /// A number beyond the last.
    #[error("there is no message {number}: {posted} were posted")]
    NoSuchMessage {
        /// The number asked for.
        number: u64,
        /// How many messages there are.
        posted: u64,
    },
    /// None was delivered of those posted after the warm-up.
    #[error("no message was measured")]
    NothingMeasured,
    /// The traffic is no graph of operations.
    #[error("there is no critical path: the traffic is no graph of operations")]
    NoApplication,
}

/// A message, and between whom it went.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct MessageName {
    /// In order of posting, from 0: among those of the study around programs, or among all others.
    pub number: u64,
    /// Whether it is of the study's traffic around programs, which are what is meant.
    pub is_around: bool,
    /// Sending process, numbered through all hosts; of a program's message the first of its host.
    pub source: u32,
    /// Receiving process, as the sending one.
    pub target: u32,
    /// Payload.
    pub bytes: u32,
    /// What it was.
    pub operation: MessageOperation,
}

impl MessageName {
    /// The hosts of its two processes, of which each host has `processes`.
    #[must_use]
    pub fn hosts(&self, processes: u32) -> (HostId, HostId) {
        (
            HostId(self.source / processes),
            HostId(self.target / processes),
        )
    }
}

/// How one message of a run ended.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Which message.
    pub message: MessageName,
    /// When its application posted it.
    pub posted: Time,
    /// Whether it was posted after the warm-up.
    pub is_measured: bool,
    /// How it ended.
    pub fate: Fate,
    /// Messages of the whole run.
    pub messages_posted: u64,
    /// Messages delivered of those posted after the warm-up.
    pub messages_measured: u64,
    /// Events of one run.
    pub events: u64,
    /// The digest of the run.
    pub digest: u64,
    /// Why the run ended.
    pub ended: Ended,
    /// Checks of the runs on themselves that failed, and how the run came to a standstill; empty
    /// when all held.
    pub violations: Vec<String>,
}

/// How a message ended.
#[derive(Clone, Debug)]
pub enum Fate {
    /// Its receiver has it.
    Delivered(Box<Account>),
    /// It was lost at the receiving host.
    Dropped {
        /// As in [`crate::result::Drops`].
        cause: &'static str,
        /// When.
        at: Time,
    },
    /// It was under way when the run ended.
    UnderWay {
        /// When the run ended.
        until: Time,
        /// Whether it still waited for a send buffer.
        has_no_buffer: bool,
    },
}

/// A delivered message's time.
#[derive(Clone, Debug)]
pub struct Account {
    /// From post to the receiver's having it.
    pub latency: Time,
    /// The same with nobody else there.
    pub floor: Time,
    /// The stages in order; they add up to the latency.
    pub stages: Vec<StageTime>,
    /// Waits for a processor, the adapter or a buffer, in the order of their times.
    pub waits: Vec<Wait>,
    /// What its bytes crossed.
    pub way: WayUse,
}

/// One stage's time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StageTime {
    /// Which stage.
    pub stage: Stage,
    /// How long the message was in it.
    pub time: Time,
    /// How long with nobody else there.
    pub alone: Time,
}

/// A wait in a line, and who was ahead.
#[derive(Clone, Debug)]
pub struct Wait {
    /// The stage that counts it.
    pub stage: Stage,
    /// How long it was.
    pub time: Time,
    /// How much of it somebody is named for.
    pub explained: Time,
    /// Messages that used what was waited for meanwhile.
    pub messages: u64,
    /// Those that used it longest, longest first.
    pub longest: Vec<Overlap>,
}

/// The links and buses that a message's bytes crossed, and who shared them meanwhile.
#[derive(Clone, Debug)]
pub struct WayUse {
    /// How long the bytes moved.
    pub moving: Time,
    /// What sharing added to it: the stage `queued`.
    pub queued: Time,
    /// Buses and links in the order of the route.
    pub places: Vec<PlaceUse>,
    /// What else than places held it up; known where flows do not share links.
    pub beside: Option<Beside>,
    /// What of `queued` nothing accounts for, picoseconds; unknown with max-min shares alone. Under
    /// fluid sharing it is short transactions on the buses, and rounding. At `queues` it is 0. At
    /// `packets` and `credits` it is not above zero, but for rounding: alone, the last byte's
    /// path leads past the message's slowest frames, and with others there it may lead past faster
    /// ones.
    pub rest_picoseconds: Option<i64>,
}

/// What held a message up beside the places that all of it crossed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Beside {
    /// Queues between switches, where frames take ways of their own.
    pub elsewhere: Time,
    /// Congestion control at its sender.
    pub held_back: Time,
    /// Waiting for frames that a full queue had trimmed to be sent again.
    pub sent_again: Time,
    /// At its receiver, for messages of the same flow that were sent before it and came later.
    pub in_order: Time,
}

/// A link or a bus.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// A directed link.
    Link(LinkId),
    /// The I/O bus of a host.
    Bus(HostId),
}

/// A link or bus while a message's bytes crossed it.
#[derive(Clone, Debug)]
pub struct PlaceUse {
    /// Which.
    pub place: Place,
    /// Messages that moved over it meanwhile.
    pub messages: u64,
    /// Transfers of other devices over it meanwhile.
    pub device_transfers: u64,
    /// How long it was shared with anybody.
    pub shared: Time,
    /// What its sharing cost the message. Under fluid sharing: while it gave the least of all
    /// places, the time by which the message fell behind. At `queues`, which serve a message at the
    /// same time: what it took beyond what the places before it, or the message alone, had taken
    /// already. At `packets` and `credits`: how long the message's last byte was held up there.
    /// Unknown with max-min shares, which depend on the whole network.
    pub lost: Option<Time>,
    /// How much of that the link paused, or had no room in the channel at its end, and what its
    /// queue did with the message's frames; at `packets` and `credits` alone.
    pub queue: Option<PlaceWait>,
    /// Those that shared it longest, longest first.
    pub longest: Vec<Overlap>,
}

/// Another user of what the message waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Overlap {
    /// The message that it was for; none of another device on the bus.
    pub message: Option<MessageName>,
    /// What was done.
    pub work: Work,
    /// How long, of the time that the message waited or moved.
    pub time: Time,
}

/// What a server was used for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Work {
    /// Holding a send buffer.
    Buffer,
    /// Posting a message, and taking the host's completed sends.
    Post,
    /// Noticing and taking a received message.
    Take,
    /// Posting a receive descriptor again.
    Repost,
    /// The adapter's reading of a send descriptor.
    Descriptor,
    /// Moving data.
    Move,
    /// Moving the acknowledgement of a queue pair's message.
    Acknowledge,
}

impl Work {
    /// The work's name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buffer => "buffer",
            Self::Post => "post",
            Self::Take => "take",
            Self::Repost => "repost",
            Self::Descriptor => "descriptor",
            Self::Move => "move",
            Self::Acknowledge => "acknowledge",
        }
    }
}

/// Explains one message of something that runs twice, whatever it is: each time a cluster is made
/// and watched, then runs, and then tells what it saw.
#[derive(Debug)]
pub struct Explaining {
    choice: Choice,
    first: Option<FirstRun>,
}

/// What the first run told.
#[derive(Debug)]
struct FirstRun {
    facts: Facts,
    measured: u64,
    chosen: Candidate,
}

impl Explaining {
    /// Of a message, which the first run finds.
    #[must_use]
    pub const fn new(choice: Choice) -> Self {
        Self {
            choice,
            first: None,
        }
    }

    /// Watches a cluster that is about to run.
    pub fn watch<P: Programs>(&self, cluster: &mut Cluster<P>) {
        let mut choice = self.choice;
        if let Some(FirstRun { chosen, .. }) = &self.first {
            choice = Choice::Message(chosen.message.number);
            let (message, posted) = (chosen.message, chosen.posted);
            let follower = Follower::new(&cluster.config, message, posted, chosen.latency);
            cluster.observer = Some(Observer::Follower(Box::new(follower)));
        }
        cluster.accounting.chooser =
            Some(Box::new(Chooser::new(choice, cluster.processes_per_host)));
    }

    /// Takes what a cluster saw that has run: the explanation, or nothing if it is to run again.
    ///
    /// # Errors
    /// [`WhyError`] if there is no such message, or the run was stopped.
    pub fn learn<P: Programs>(
        &mut self,
        cluster: &mut Cluster<P>,
        ended: Ended,
    ) -> Result<Option<Explanation>, WhyError> {
        if ended == Ended::Interrupted {
            return Err(WhyError::Interrupted);
        }
        let end = cluster.queue.now();
        cluster.follow_to_the_end();
        let mut chooser = *cluster
            .accounting
            .chooser
            .take()
            .unwrap_or_else(|| Box::new(Chooser::new(self.choice, cluster.processes_per_host)));
        let follower = match cluster.observer.take() {
            Some(Observer::Follower(follower)) => Some(*follower),
            _ => None,
        };
        let result = cluster.result(ended);
        let facts = Facts::of(result);
        if let Some(first) = self.first.take() {
            return first
                .explain(&cluster.config, facts, chooser, follower)
                .map(Some);
        }
        let measured = chooser.measured();
        if let Some(chosen) = chooser.choose() {
            self.first = Some(FirstRun {
                facts,
                measured,
                chosen,
            });
            return Ok(None);
        }
        let Choice::Message(number) = self.choice else {
            return Err(WhyError::NothingMeasured);
        };
        if let Some((message, posted, cause, at)) = chooser.dropped_message() {
            let fate = Fate::Dropped { cause, at };
            return Ok(Some(facts.explanation(
                &cluster.config,
                (message, posted),
                measured,
                fate,
            )));
        }
        let Some((message, posted, has_no_buffer)) = cluster.find_under_way(number) else {
            let posted = facts.posted;
            return Err(WhyError::NoSuchMessage { number, posted });
        };
        let fate = Fate::UnderWay {
            until: end,
            has_no_buffer,
        };
        let message = (message, posted);
        Ok(Some(facts.explanation(
            &cluster.config,
            message,
            measured,
            fate,
        )))
    }
}

impl FirstRun {
    /// The second run has kept what the message met.
    fn explain(
        self,
        config: &ClusterConfig,
        mut facts: Facts,
        chooser: Chooser,
        follower: Option<Follower>,
    ) -> Result<Explanation, WhyError> {
        facts.must_equal(&self.facts);
        let (Some(record), Some(follower)) = (chooser.into_record(), follower) else {
            return Err(WhyError::NothingMeasured);
        };
        let fate = Fate::Delivered(Box::new(account::account(config, &record, &follower)));
        let message = (record.message, record.posted);
        Ok(facts.explanation(config, message, self.measured, fate))
    }
}

/// Runs a cluster twice and says where the time of one message went.
///
/// `control` is called as by [`crate::run()`], with the number of the run, 0 or 1.
///
/// # Errors
/// [`WhyError`] if the configuration cannot be run, the caller stops it, or there is no such
/// message.
pub fn explain(
    config: &ClusterConfig,
    choice: Choice,
    control: &mut dyn FnMut(usize, Progress) -> ControlFlow<()>,
) -> Result<Explanation, WhyError> {
    if let Some(interfaces) = &config.interfaces {
        return requests::explain(&**interfaces, config, choice, control);
    }
    let mut explaining = Explaining::new(choice);
    let mut number = 0;
    loop {
        let mut cluster = Cluster::new(config)?;
        explaining.watch(&mut cluster);
        let ended = cluster.run(&mut |progress| control(number, progress));
        if let Some(explanation) = explaining.learn(&mut cluster, ended)? {
            return Ok(explanation);
        }
        number += 1;
    }
}

/// What counts of a run's result, which may have a row for each of millions of links.
#[derive(Debug)]
struct Facts {
    posted: u64,
    events: u64,
    digest: u64,
    ended: Ended,
    violations: Vec<String>,
}

impl Facts {
    fn of(result: RunResult) -> Self {
        Self {
            posted: result.messages.posted,
            events: result.events,
            digest: result.digest,
            ended: result.ended,
            violations: result.violations,
        }
    }

    /// Of the second run, which is to be as the first.
    fn must_equal(&mut self, first: &Self) {
        if self.digest != first.digest {
            let violation = "two runs of one configuration gave different results";
            self.violations.push(violation.to_owned());
        }
    }

    /// How a message that was posted at a time ended.
    fn explanation(
        self,
        config: &ClusterConfig,
        (message, posted): (MessageName, Time),
        measured: u64,
        fate: Fate,
    ) -> Explanation {
        Explanation {
            message,
            posted,
            is_measured: posted >= config.run.warmup,
            fate,
            messages_posted: self.posted,
            messages_measured: measured,
            events: self.events,
            digest: self.digest,
            ended: self.ended,
            violations: self.violations,
        }
    }
}
