//! Single requests of interfaces with endpoints, for whoever asks for some of them.
//!
//! What a request met is told when it has been taken, from moments that its interfaces have noted.
//! Who was ahead of it is not known.

use core::ops::ControlFlow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use viaduct_engine::Time;
use viaduct_hardware::{STAGES, Stage};
use viaduct_topology::{HostId, LinkId};

use super::{
    Account, Candidate, Choice, Chooser, Explanation, Facts, Fate, MessageName, Record, StageTime,
    WayUse, WhyError, Work,
};
use crate::cluster::Progress;
use crate::config::ClusterConfig;
use crate::error::RunError;
use crate::interfaces::{self, Interfaces};
use crate::operations::{Moments, Operations};
use crate::record::{Recorder, Recording, Sample, Selection, Used};
use crate::result::Ended;
use crate::trace::Span;
use crate::workload::MessageOperation;

/// A request of one rank to another.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// In order of posting, from 0.
    pub number: u64,
    /// The rank that posts it.
    pub from: u32,
    /// The rank that takes it.
    pub to: u32,
    /// Payload.
    pub bytes: u32,
}

/// The way of a request between its processors.
#[derive(Clone, Debug)]
pub struct Journey {
    /// The sending interface begins with it.
    pub chosen: Time,
    /// The transmission that came leaves the sending interface's memory, and is in that of the
    /// receiving one.
    pub left: Time,
    /// See `left`.
    pub arrived: Time,
    /// The links that it crosses.
    pub way: Vec<LinkId>,
    /// What it takes with nobody else there.
    pub alone: AloneParts,
}

/// What the parts of a request's life take with nobody else there.
#[derive(Clone, Copy, Debug)]
pub struct AloneParts {
    /// Posting it, on a processor.
    pub post: Time,
    /// The sending interface.
    pub sending: Time,
    /// From its leaving that until its last byte is at the receiving one.
    pub network: Time,
    /// That one.
    pub receiving: Time,
    /// Taking it, on a processor.
    pub reap: Time,
}

impl Journey {
    /// Of a request that has not begun.
    pub const NOT_BEGUN: Self = Self {
        chosen: Time::MAX,
        left: Time::MAX,
        arrived: Time::MAX,
        way: Vec::new(),
        alone: AloneParts {
            post: Time::ZERO,
            sending: Time::ZERO,
            network: Time::ZERO,
            receiving: Time::ZERO,
            reap: Time::ZERO,
        },
    };

    /// What each stage takes with nobody else there.
    fn stages_alone(&self) -> [Time; STAGES] {
        let mut alone = [Time::ZERO; STAGES];
        for (stage, time) in [
            (Stage::Post, self.alone.post),
            (Stage::Descriptor, self.alone.sending),
            (Stage::Network, self.alone.network),
            (Stage::Receive, self.alone.receiving),
            (Stage::Reap, self.alone.reap),
        ] {
            alone[stage as usize] = time;
        }
        alone
    }

    /// Picoseconds in each stage.
    fn stages(&self, moments: &Moments) -> [u64; STAGES] {
        Moments::between(
            moments.post,
            [
                (Stage::Post, moments.posted),
                (Stage::SendQueue, self.chosen),
                (Stage::Descriptor, self.left),
                (Stage::Network, self.arrived),
                (Stage::Receive, moments.came),
                (Stage::ReceiverProcessor, moments.take),
                (Stage::Reap, moments.taken),
            ],
        )
    }
}

/// What is kept of single requests.
#[derive(Debug)]
pub(crate) struct Requests {
    chooser: Chooser,
    recorder: Option<Recorder>,
    choice: Choice,
    warmup: Time,
    /// Those of interest that nobody has taken, and when they came back if they did.
    open: BTreeMap<u64, (MessageName, Time, Option<Time>)>,
    /// Of the one that is meant, what it takes alone.
    alone: [Time; STAGES],
}

impl Requests {
    fn choosing(config: &ClusterConfig, choice: Choice) -> Self {
        Self {
            chooser: Chooser::new(choice, config.hosts.processes),
            recorder: None,
            choice,
            warmup: config.run.warmup,
            open: BTreeMap::new(),
            alone: [Time::ZERO; STAGES],
        }
    }

    fn recording(
        config: &ClusterConfig,
        selection: Selection,
        is_complete: &Arc<AtomicBool>,
    ) -> Self {
        let mut requests = Self::choosing(config, Choice::Slowest);
        let processes = config.hosts.processes;
        let sample = Sample::new(selection, processes, Arc::clone(is_complete));
        requests.chooser.sample = Some(sample);
        requests.recorder = Some(Recorder::new(selection));
        requests
    }

    /// Whether the way of a request is to be noted that is posted now.
    fn posted(&mut self, message: MessageName, now: Time) -> bool {
        let is_of_interest = match (&mut self.recorder, &mut self.chooser.sample) {
            (Some(recorder), Some(sample)) => {
                recorder.first = sample.wished(message, now);
                recorder.has(message)
            }
            _ => self.choice == Choice::Message(message.number),
        };
        if is_of_interest {
            self.open.insert(message.number, (message, now, None));
        }
        is_of_interest
    }

    fn taken(
        &mut self,
        message: MessageName,
        hosts: (HostId, HostId),
        moments: &Moments,
        journey: Option<&Journey>,
    ) {
        self.open.remove(&message.number);
        let alone = journey.map_or([Time::ZERO; STAGES], Journey::stages_alone);
        let record = Record {
            message,
            posted: moments.post,
            latency: moments.taken.saturating_sub(moments.post),
            floor: alone.iter().fold(Time::ZERO, |sum, time| sum + *time),
            stages: journey.map_or([0; STAGES], |it| it.stages(moments)),
        };
        self.chooser.delivered(&record, moments.post >= self.warmup);
        let Some(journey) = journey else { return };
        self.alone = alone;
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        let mut keep = |used, work, begin, end| {
            recorder.keep(message, used, work, Span { begin, end });
        };
        let (source, target) = hosts;
        let posted = moments.posted;
        keep(Used::Processor(source, 0), Work::Post, moments.post, posted);
        let (chosen, left) = (journey.chosen, journey.left);
        keep(Used::Adapter(source), Work::Descriptor, chosen, left);
        for link in &journey.way {
            keep(Used::Link(*link), Work::Move, left, journey.arrived);
        }
        let (take, taken) = (moments.take, moments.taken);
        keep(Used::Processor(target, 0), Work::Take, take, taken);
    }

    /// Of the one that has not been taken, and was asked for by its number.
    fn fate(&self, number: u64, until: Time) -> Option<(MessageName, Time, Fate)> {
        let (message, posted, returned) = *self.open.get(&number)?;
        let fate = match returned {
            Some(at) => Fate::Dropped {
                cause: RETURNED,
                at,
            },
            None => Fate::UnderWay {
                until,
                has_no_buffer: false,
            },
        };
        Some((message, posted, fate))
    }
}

/// Why a request was lost.
const RETURNED: &str = "returned_to_its_sender";

/// What interfaces tell of single requests.
impl Operations {
    /// Whether they are asked for.
    #[must_use]
    pub const fn tells_requests(&self) -> bool {
        self.requests.is_some()
    }

    fn name(&self, request: &Request) -> MessageName {
        MessageName {
            number: request.number,
            is_around: false,
            source: self.places.process_of(request.from),
            target: self.places.process_of(request.to),
            bytes: request.bytes,
            operation: MessageOperation::Send,
        }
    }

    /// A processor begins to post a request; whether its way is to be noted.
    pub fn request_posted(&mut self, request: &Request, now: Time) -> bool {
        let name = self.name(request);
        let requests = self.requests.as_mut();
        requests.is_some_and(|requests| requests.posted(name, now))
    }

    /// A request came back to its sender.
    pub fn request_returned(&mut self, number: u64, now: Time) {
        let requests = self.requests.as_mut();
        if let Some(open) = requests.and_then(|requests| requests.open.get_mut(&number)) {
            open.2 = Some(now);
        }
    }

    /// A request was taken; its way, if that was to be noted.
    pub fn request_taken(
        &mut self,
        request: &Request,
        moments: &Moments,
        journey: Option<&Journey>,
    ) {
        let name = self.name(request);
        let hosts = [request.from, request.to].map(|rank| HostId(self.host_of(rank)));
        if let Some(requests) = &mut self.requests {
            requests.taken(name, hosts.into(), moments, journey);
        }
    }
}

/// As [`crate::record::record`], over interfaces; `control` is also told what is set when all
/// requests that were asked for have been taken.
pub(crate) fn record(
    interfaces: &dyn Interfaces,
    config: &ClusterConfig,
    selection: Selection,
    control: &mut dyn FnMut(&AtomicBool, Progress) -> ControlFlow<()>,
) -> Result<Recording, RunError> {
    let is_complete = Arc::new(AtomicBool::new(false));
    let requests = Requests::recording(config, selection, &is_complete);
    let (mut operations, result) = interfaces::run(
        interfaces,
        config,
        |operations| operations.requests = Some(Box::new(requests)),
        &mut |progress| control(&is_complete, progress),
    )?;
    let mut recording = Recording::NOTHING;
    recording.events = result.events;
    let Some(requests) = operations.requests.take() else {
        return Ok(recording);
    };
    let Requests {
        mut chooser,
        recorder,
        open,
        ..
    } = *requests;
    for (message, posted, returned) in open.values() {
        if let Some(at) = returned {
            chooser.dropped((*message, *posted), RETURNED, *at);
        }
    }
    recording.uses = recorder.map(Recorder::into_uses).unwrap_or_default();
    if let Some(sample) = chooser.sample {
        (recording.messages, recording.under_way) = sample.into_messages();
    }
    recording.uses.sort_by_key(|used| used.end);
    Ok(recording)
}

/// As [`super::explain`], over interfaces.
pub(super) fn explain(
    interfaces: &dyn Interfaces,
    config: &ClusterConfig,
    choice: Choice,
    control: &mut dyn FnMut(usize, Progress) -> ControlFlow<()>,
) -> Result<Explanation, WhyError> {
    let mut run = |number, choice| {
        let requests = Requests::choosing(config, choice);
        let (mut operations, result) = interfaces::run(
            interfaces,
            config,
            |operations| operations.requests = Some(Box::new(requests)),
            &mut |progress| control(number, progress),
        )?;
        let (until, ended) = (result.simulated, result.ended);
        match (operations.requests.take(), ended) {
            (_, Ended::Interrupted) => Err(WhyError::Interrupted),
            (None, _) => Err(WhyError::NothingMeasured),
            (Some(requests), _) => Ok((*requests, Facts::of(result), until)),
        }
    };
    let (mut first, facts, until) = run(0, choice)?;
    let measured = first.chooser.measured();
    let Some(Candidate { message, .. }) = first.chooser.choose() else {
        let Choice::Message(number) = choice else {
            return Err(WhyError::NothingMeasured);
        };
        let Some((message, posted, fate)) = first.fate(number, until) else {
            let posted = facts.posted;
            return Err(WhyError::NoSuchMessage { number, posted });
        };
        return Ok(facts.explanation(config, (message, posted), measured, fate));
    };
    let (second, mut again, _) = run(1, Choice::Message(message.number))?;
    again.must_equal(&facts);
    let alone = second.alone;
    let record = second.chooser.into_record();
    let record = record.ok_or(WhyError::NothingMeasured)?;
    let stages = Stage::ALL.into_iter().zip(record.stages.iter().zip(alone));
    let account = Account {
        latency: record.latency,
        floor: record.floor,
        stages: stages
            .map(|(stage, (time, alone))| StageTime {
                stage,
                time: Time::from_picoseconds(*time),
                alone,
            })
            .collect(),
        waits: Vec::new(),
        way: WayUse {
            moving: Time::ZERO,
            queued: Time::ZERO,
            places: Vec::new(),
            beside: None,
            rest_picoseconds: None,
        },
    };
    let message = (record.message, record.posted);
    let fate = Fate::Delivered(Box::new(account));
    Ok(again.explanation(config, message, measured, fate))
}
