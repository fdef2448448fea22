//! What some messages of a run used, and when: processors, adapters, buses and links.
//!
//! It is told by the same steps as `why.rs` is. Memory follows the number of messages that were
//! asked for, not the length of the run, which ends soon after the last of them has.

use core::ops::{ControlFlow, Range};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkId};

use crate::cluster::{Cluster, Progress};
use crate::config::ClusterConfig;
use crate::error::RunError;
use crate::programs::Programs;
use crate::trace::{FlowName, Observer, Span, places_within};
use crate::why::{self, Choice, Chooser, MessageName, Work};
use viaduct_hardware::STAGES;
use viaduct_network::QueueWindow;
use viaduct_network::fluid::FlowId;
use viaduct_network::windows::LinkWindows;

/// Which messages are recorded: from the first one that is wanted at `from` or later, each
/// `every`-th in order of posting, so many of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Selection {
    /// When the first is wanted, or later.
    pub from: Time,
    /// 1 takes each message; 0 is taken for 1.
    pub every: u64,
    /// How many.
    pub count: u64,
}

/// What some messages of a run did.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The messages that ended, in the order of their numbers.
    pub messages: Vec<RecordedMessage>,
    /// What they used, in the order in which it was over.
    pub uses: Vec<RecordedUse>,
    /// What other devices moved over the buses of a message's two hosts while it lived, in the
    /// order in which it was over.
    pub device_transfers: Vec<RecordedDeviceTransfer>,
    /// What queues of links held and did meanwhile, window by window, as
    /// [`crate::result::RunResult::queues`].
    pub queues: Vec<QueueWindow>,
    /// When the first of these windows began.
    pub queues_from: Time,
    /// How long each is.
    pub queue_window: Time,
    /// Messages asked for that were under way when the run ended.
    pub under_way: u64,
    /// Events handled.
    pub events: u64,
    /// Whether the caller stopped it.
    pub is_interrupted: bool,
}

impl Recording {
    /// Of no message.
    pub(crate) const NOTHING: Self = Self {
        messages: Vec::new(),
        uses: Vec::new(),
        device_transfers: Vec::new(),
        queues: Vec::new(),
        queues_from: Time::ZERO,
        queue_window: Time::ZERO,
        under_way: 0,
        events: 0,
        is_interrupted: false,
    };
}

/// One message from its post to its end.
#[derive(Clone, Debug)]
pub struct RecordedMessage {
    /// Which.
    pub message: MessageName,
    /// When its application wanted to post it.
    pub posted: Time,
    /// When its receiver had it, or when it was lost.
    pub ended: Time,
    /// Picoseconds in each stage; none if it was lost.
    pub stages: Option<[u64; STAGES]>,
    /// Why it was lost.
    pub dropped: Option<&'static str>,
}

/// A server of the cluster.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Used {
    /// A processor of a host, by the host's first place and its number there.
    Processor(HostId, u32),
    /// The part of a host's adapter that reads send descriptors.
    Adapter(HostId),
    /// The I/O bus of a host.
    Bus(HostId),
    /// A directed link.
    Link(LinkId),
}

/// A message's use of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecordedUse {
    /// Number of the message.
    pub message: u64,
    /// What it used.
    pub used: Used,
    /// What for.
    pub work: Work,
    /// From when.
    pub begin: Time,
    /// Until when.
    pub end: Time,
}

/// A transfer of another device over a host's bus.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecordedDeviceTransfer {
    /// Whose bus.
    pub host: HostId,
    /// How much.
    pub bytes: u64,
    /// From when.
    pub begin: Time,
    /// Until when, or when the run ended.
    pub end: Time,
}

/// Runs a cluster and records some of its messages.
///
/// `control` is called as by [`crate::run()`].
///
/// # Errors
/// [`RunError`] if the configuration cannot be run.
pub fn record(
    config: &ClusterConfig,
    selection: Selection,
    control: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Recording, RunError> {
    let mut is_interrupted = false;
    let mut control = |is_complete: &AtomicBool, progress| {
        // Relaxed: one thread.
        if is_complete.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        let flow = control(progress);
        is_interrupted |= flow.is_break();
        flow
    };
    let recording = match &config.interfaces {
        Some(interfaces) => why::record(&**interfaces, config, selection, &mut control)?,
        None => {
            let mut cluster = Cluster::new(config)?;
            let is_complete = cluster.record(selection);
            cluster.run(&mut |progress| control(&is_complete, progress));
            cluster.recorded()
        }
    };
    Ok(Recording {
        is_interrupted,
        ..recording
    })
}

impl<P: Programs> Cluster<P> {
    /// Records some messages of the run that is about to begin; what is returned is set when all of
    /// them have ended.
    pub fn record(&mut self, selection: Selection) -> Arc<AtomicBool> {
        let is_complete = Arc::new(AtomicBool::new(false));
        let mut chooser = Chooser::new(Choice::Slowest, self.config.hosts.processes);
        let processes = self.config.hosts.processes;
        chooser.sample = Some(Sample::new(selection, processes, Arc::clone(&is_complete)));
        self.accounting.chooser = Some(Box::new(chooser));
        self.observer = Some(Observer::Recorder(Box::new(Recorder::new(selection))));
        is_complete
    }

    /// The first message that is asked for is wanted: what queues do from now on is kept in windows
    /// of its own, unless those of an account serve.
    pub(crate) fn begin_recorded_windows(&mut self) {
        if !self.has_growing_windows() {
            let now = self.queue.now();
            let topology = &self.config.topology;
            self.windows = LinkWindows::growing_from(&mut self.network, topology, now);
            self.records_queues = true;
            self.series.clear();
        }
    }

    /// Whether all messages that were asked for have ended: the run may go on for a while.
    pub(crate) fn is_recorded(&self) -> bool {
        let sample = self.accounting.chooser.as_ref();
        let sample = sample.and_then(|chooser| chooser.sample.as_ref());
        // Relaxed: one thread.
        sample.is_some_and(|sample| sample.is_complete.load(Ordering::Relaxed))
    }

    /// What was recorded of the run that has ended.
    pub fn recorded(&mut self) -> Recording {
        self.follow_to_the_end();
        let sample = self.accounting.chooser.take();
        let sample = sample.and_then(|chooser| chooser.sample);
        let (messages, under_way) = sample.map_or((Vec::new(), 0), Sample::into_messages);
        let ended: BTreeSet<u64> = messages.iter().map(|known| known.message.number).collect();
        let (mut uses, device_transfers) = match self.observer.take() {
            Some(Observer::Recorder(recorder)) => (recorder.uses, recorder.device_transfers),
            _ => (Vec::new(), Vec::new()),
        };
        uses.retain(|used| ended.contains(&used.message));
        let (queues, queues_from, queue_window) = self.windows.queues();
        Recording {
            queues,
            queues_from,
            queue_window,
            under_way,
            messages,
            uses,
            device_transfers,
            events: self.events(),
            is_interrupted: false,
        }
    }
}

impl Selection {
    /// Whether a message is among those from the first on.
    fn has(&self, first: Option<u64>, number: u64) -> bool {
        let Some(place) = first.and_then(|first| number.checked_sub(first)) else {
            return false;
        };
        let every = self.every.max(1);
        place.is_multiple_of(every) && place / every < self.count
    }
}

/// Listens to posts and deliveries for the messages asked for.
#[derive(Debug)]
pub(crate) struct Sample {
    selection: Selection,
    processes: u32,
    first: Option<u64>,
    wished: u64,
    messages: Vec<RecordedMessage>,
    /// Hosts with a message of those asked for, at either end.
    met: BTreeMap<HostId, Met>,
    /// Set when all that were asked for have ended.
    is_complete: Arc<AtomicBool>,
}

/// When a host had messages that were asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    /// How many are under way.
    under_way: u64,
    /// When the last one ended.
    ended: Time,
}

impl Sample {
    pub(crate) fn new(selection: Selection, processes: u32, is_complete: Arc<AtomicBool>) -> Self {
        Self {
            selection,
            processes,
            first: None,
            wished: 0,
            messages: Vec::new(),
            met: BTreeMap::new(),
            is_complete,
        }
    }

    /// A message is wanted; gives the number of the first that is asked for, if it is known.
    pub(crate) fn wished(&mut self, message: MessageName, wanted: Time) -> Option<u64> {
        if message.is_around {
            return self.first;
        }
        if self.first.is_none() && wanted >= self.selection.from {
            self.first = Some(message.number);
        }
        if self.selection.has(self.first, message.number) {
            self.wished += 1;
            let (source, target) = message.hosts(self.processes);
            for host in [source, target] {
                self.met.entry(host).or_default().under_way += 1;
            }
        }
        self.first
    }

    /// Whether a message that was asked for lived at a host during a span that is just over.
    pub(crate) fn has_met(&self, host: HostId, begin: Time) -> bool {
        let met = self.met.get(&host);
        met.is_some_and(|met| met.under_way > 0 || met.ended > begin)
    }

    /// A message that was posted at a time has ended: its stages, or why it was lost.
    pub(crate) fn ended(
        &mut self,
        (message, posted): (MessageName, Time),
        ended: Time,
        stages: Option<[u64; STAGES]>,
        dropped: Option<&'static str>,
    ) {
        if message.is_around || !self.selection.has(self.first, message.number) {
            return;
        }
        let (source, target) = message.hosts(self.processes);
        for host in [source, target] {
            let met = self.met.entry(host).or_default();
            met.under_way = met.under_way.saturating_sub(1);
            met.ended = met.ended.max(ended);
        }
        self.messages.push(RecordedMessage {
            message,
            posted,
            ended,
            stages,
            dropped,
        });
        if self.messages.len() as u64 == self.selection.count {
            self.is_complete.store(true, Ordering::Relaxed);
        }
    }

    /// Those that have ended, in the order of their numbers, and how many have not.
    pub(crate) fn into_messages(mut self) -> (Vec<RecordedMessage>, u64) {
        self.messages.sort_by_key(|message| message.message.number);
        let under_way = self.wished.saturating_sub(self.messages.len() as u64);
        (self.messages, under_way)
    }
}

/// Keeps what the messages asked for use.
#[derive(Debug)]
pub(crate) struct Recorder {
    selection: Selection,
    pub(crate) first: Option<u64>,
    uses: Vec<RecordedUse>,
    /// Transfers of other devices that have begun and not ended.
    devices: BTreeMap<u32, RecordedDeviceTransfer>,
    device_transfers: Vec<RecordedDeviceTransfer>,
}

impl Recorder {
    pub(crate) const fn new(selection: Selection) -> Self {
        Self {
            selection,
            first: None,
            uses: Vec::new(),
            devices: BTreeMap::new(),
            device_transfers: Vec::new(),
        }
    }

    /// What the messages asked for have used.
    pub(crate) fn into_uses(self) -> Vec<RecordedUse> {
        self.uses
    }

    /// Whether a message is asked for: those around programs never are.
    pub(crate) fn has(&self, message: MessageName) -> bool {
        !message.is_around && self.selection.has(self.first, message.number)
    }

    pub(crate) fn keep(&mut self, message: MessageName, used: Used, work: Work, span: Span) {
        if self.has(message) {
            self.uses.push(RecordedUse {
                message: message.number,
                used,
                work,
                begin: span.begin,
                end: span.end,
            });
        }
    }

    /// Another device has begun a transfer.
    pub(crate) fn device_begins(&mut self, flow: FlowId, host: HostId, bytes: u64, now: Time) {
        let transfer = RecordedDeviceTransfer {
            host,
            bytes,
            begin: now,
            end: now,
        };
        self.devices.insert(flow.0, transfer);
    }

    /// It has ended: kept if a message that was asked for lived beside it.
    pub(crate) fn device_ends(&mut self, flow: FlowId, sample: &Sample, now: Time) {
        if let Some(mut transfer) = self.devices.remove(&flow.0)
            && sample.has_met(transfer.host, transfer.begin)
        {
            transfer.end = now;
            self.device_transfers.push(transfer);
        }
    }

    /// The run ends for all that have not.
    pub(crate) fn devices_end(&mut self, sample: &Sample, now: Time) {
        let flows: Vec<u32> = self.devices.keys().copied().collect();
        for flow in flows {
            self.device_ends(FlowId(flow), sample, now);
        }
    }

    /// A message has moved its bytes over some places of its path: bus, links, bus.
    pub(crate) fn moved(
        &mut self,
        config: &ClusterConfig,
        (message, flow): (MessageName, FlowName),
        (places, work): (Range<usize>, Work),
        span: Span,
    ) {
        if !self.has(message) {
            return;
        }
        let ((source, target), _) = flow;
        let links = config.links_of(flow);
        let has_bus = |host| !config.host.of(host).bus.is_free();
        let bus = |place| has_bus(place).then(|| Used::Bus(HostId(config.bus_at(place))));
        let path: Vec<Used> = bus(source)
            .into_iter()
            .chain(links.into_iter().map(Used::Link))
            .chain(bus(target))
            .collect();
        for &used in &path[places_within(places, path.len())] {
            self.keep(message, used, work, span);
        }
    }
}
