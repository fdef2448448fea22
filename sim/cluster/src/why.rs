//! Where the time of one message went, and for whom it waited.
//!
//! Runs repeat to the bit, so a message is explained by two of them. The first finds which message
//! is meant and when it lived; the second keeps who used the servers of its way meanwhile
//! (`trace.rs`): the links and buses that its bytes crossed, the processors of its two hosts,
//! its adapter and the send buffers. What it waited for is worked out afterwards from overlaps of
//! those times. Memory follows what one message met, not the length of the run.

mod account;
mod choose;
mod sharing;

use core::ops::ControlFlow;

use thiserror::Error;
use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkId};

pub(crate) use self::choose::Chooser;
use crate::cluster::{Cluster, Progress};
use crate::config::ClusterConfig;
use crate::error::RunError;
use crate::result::Ended;
use crate::trace::{Follower, Observer};
use viaduct_hardware::Stage;

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
}

/// A message, and between whom it went.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct MessageName {
    /// In order of posting, from 0.
    pub number: u64,
    /// Sending process, numbered through all hosts.
    pub source: u32,
    /// Receiving process.
    pub target: u32,
    /// Payload.
    pub bytes: u32,
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
    /// Checks of the runs on themselves that failed; empty when all held.
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
    /// What of `queued` no place accounts for, picoseconds: short transactions on the buses, and
    /// rounding; known under fluid sharing alone.
    pub rest_picoseconds: Option<i64>,
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
    /// What its sharing cost the message: while it gave the least of all places, the time by which
    /// the message fell behind. Known under fluid sharing alone: max-min shares depend on the whole
    /// network, and queues serve a message at the same time.
    pub lost: Option<Time>,
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
        }
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
    let mut control_first = |progress| control(0, progress);
    let mut first = run_traced(config, choice, None, &mut control_first)?;
    let (posted, measured) = (first.facts.posted, first.chooser.measured());
    let explanation = |message: MessageName, posted_at: Time, fate, facts: Facts| Explanation {
        message,
        posted: posted_at,
        is_measured: posted_at >= config.run.warmup,
        fate,
        messages_posted: posted,
        messages_measured: measured,
        events: facts.events,
        digest: facts.digest,
        violations: facts.violations,
    };
    let Some(chosen) = first.chooser.choose() else {
        let Choice::Message(number) = choice else {
            return Err(WhyError::NothingMeasured);
        };
        if let Some((message, posted_at, cause, at)) = first.chooser.dropped_message() {
            let fate = Fate::Dropped { cause, at };
            return Ok(explanation(message, posted_at, fate, first.facts));
        }
        let Some((message, posted_at, has_no_buffer)) = first.under_way else {
            return Err(WhyError::NoSuchMessage { number, posted });
        };
        let until = first.end;
        let fate = Fate::UnderWay {
            until,
            has_no_buffer,
        };
        return Ok(explanation(message, posted_at, fate, first.facts));
    };

    let follower = Follower::new(config, chosen.message, chosen.posted, chosen.latency);
    let again = Choice::Message(chosen.message.number);
    let mut control_second = |progress| control(1, progress);
    let second = run_traced(config, again, Some(follower), &mut control_second)?;
    let mut facts = second.facts;
    if facts.digest != first.facts.digest {
        let violation = "two runs of one configuration gave different results";
        facts.violations.push(violation.to_owned());
    }
    let (Some(record), Some(follower)) = (second.chooser.into_record(), second.follower) else {
        return Err(WhyError::NothingMeasured);
    };
    let fate = Fate::Delivered(Box::new(account::account(config, &record, &follower)));
    Ok(explanation(record.message, record.posted, fate, facts))
}

/// What counts of a run's result, which may have a row for each of millions of links.
struct Facts {
    posted: u64,
    events: u64,
    digest: u64,
    violations: Vec<String>,
}

/// A run, and what was kept of it.
struct Traced {
    facts: Facts,
    end: Time,
    chooser: Chooser,
    follower: Option<Follower>,
    /// The message asked for by number, if it was under way at the end; when it was posted, and
    /// whether it still waited for a buffer.
    under_way: Option<(MessageName, Time, bool)>,
}

fn run_traced(
    config: &ClusterConfig,
    choice: Choice,
    follower: Option<Follower>,
    control: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Traced, WhyError> {
    let mut cluster = Cluster::new(config)?;
    cluster.accounting.chooser = Some(Box::new(Chooser::new(choice)));
    cluster.observer = follower.map(|follower| Observer::Follower(Box::new(follower)));
    let ended = cluster.run(control);
    if ended == Ended::Interrupted {
        return Err(WhyError::Interrupted);
    }
    let end = cluster.queue.now();
    cluster.follow_to_the_end();
    let under_way = match choice {
        Choice::Message(number) => cluster.find_under_way(number),
        _ => None,
    };
    let chooser = cluster.accounting.chooser.take();
    let follower = match cluster.observer.take() {
        Some(Observer::Follower(follower)) => Some(*follower),
        _ => None,
    };
    let result = cluster.into_result(ended);
    Ok(Traced {
        facts: Facts {
            posted: result.messages.posted,
            events: result.events,
            digest: result.digest,
            violations: result.violations,
        },
        end,
        chooser: *chooser.unwrap_or_else(|| Box::new(Chooser::new(choice))),
        follower,
        under_way,
    })
}
