//! Interfaces with endpoints in the place of a cluster's adapters: its ranks are processes here.

use core::ops::ControlFlow;

use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::faults::Fault as OfCluster;
use viaduct_cluster::interfaces::{Asked, Carried, Interfaces, Refused};
use viaduct_cluster::operations::Operations;
use viaduct_cluster::result::{Ended, InterfaceCounts, MessageCounts};
use viaduct_cluster::{CONTROL_INTERVAL_EVENTS, Progress, RunError};
use viaduct_engine::Time;
use viaduct_frames::residency::Stall;
use viaduct_topology::{HostId, Topology};

use crate::background::SILENCE;
use crate::cluster::{Cluster, Event};
use crate::config::{Config, LinkModel, NetworkError, Wiring};
use crate::faults::Fault;
use crate::load::{FairLinks, HeldLinks, Links};
use crate::process::Process;
use crate::ranks::Ranks;
use crate::timesharing::Scheduler;

/// Bytes of the longest message of an endpoint; ranks cut longer ones into pieces.
pub const MESSAGE_BYTES_MAX: u32 = viaduct_am::MTU_BYTES as u32;

/// Interfaces with endpoints, to be put in the place of a cluster's adapters.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// Interfaces and the hosts behind them; its network, its faults and its seed are the
    /// cluster's.
    pub preset: Config,
    /// Whether packets share links as the cluster's do; else they hold their ways.
    pub shares_links: bool,
    /// How ranks of one host share its processor.
    pub scheduler: Scheduler,
}

impl Config {
    /// The same interfaces in the network of a cluster, with its faults and the traffic around.
    /// Packets share links as the cluster's do, or hold their ways.
    ///
    /// # Errors
    ///
    /// What they cannot do.
    pub fn in_cluster(
        self,
        cluster: &ClusterConfig,
        shares_links: bool,
    ) -> Result<Self, NetworkError> {
        let links = &cluster.links;
        let mut config = Self {
            wiring: Some(Wiring {
                topology: cluster.topology.clone(),
                host_bytes_s: links.host_rate.bits_per_second() / 8.0,
                switch_bytes_s: links.rate.bits_per_second() / 8.0,
                propagation: links.propagation,
                host_propagation: links.host_propagation,
                switch: cluster.switch.delay,
                cut_through_bytes: cluster.switch.cut_through_bytes,
                buffers: links.buffers,
                credits: links.credits,
            }),
            model: match shares_links {
                true => LinkModel::Shared(links.sharing, links.switching),
                false => LinkModel::Wormhole,
            },
            background: cluster.background.clone(),
            ..self
        };
        let topology = config.joined()?;
        // Of all hosts that there are: who takes part may be said later.
        let mut all = Self {
            hosts: topology.host_count(),
            ..config.clone()
        };
        for fault in &cluster.faults {
            let fault = Fault::of_cluster(fault, &all, &topology);
            all.faults.push(fault.map_err(NetworkError::new)?);
        }
        all.check_faults().map_err(|error| {
            NetworkError::new(format!("[[fault]] {}: {}", error.fault + 1, error.reason))
        })?;
        config.faults = all.faults;
        Ok(config)
    }
}

impl Fault {
    /// A fault of a cluster, of hosts whose interfaces have endpoints; `topology` is that which
    /// joins those of the configuration.
    ///
    /// # Errors
    ///
    /// Why they do not have it.
    pub fn of_cluster(
        fault: &OfCluster,
        config: &Config,
        topology: &Topology,
    ) -> Result<Self, String> {
        let place = |host: u32| {
            let place = config.host_at(topology, HostId(host));
            place.ok_or("that host takes no part")
        };
        match *fault {
            OfCluster::LinkDown { links, from, until } => {
                Ok(Self::LinksDown { links, from, until })
            }
            OfCluster::HostDies { host, at } => Ok(Self::Reboot {
                host: place(host)?,
                at,
                down_for: None,
            }),
            // A packet whose checksum is wrong is dropped.
            OfCluster::Loss { links, rate } | OfCluster::Corruption { links, rate } => {
                Ok(Self::LinksLose { links, rate })
            }
            OfCluster::NicDies { host, at } => Ok(Self::InterfaceDies {
                host: place(host)?,
                at,
            }),
            OfCluster::SlowHost { host, from, by } => Ok(Self::SlowHost {
                host: place(host)?,
                from,
                by,
            }),
        }
    }
}

impl Endpoints {
    fn config(&self, cluster: &ClusterConfig) -> Result<Config, NetworkError> {
        let hosts = cluster.topology.host_count();
        let config = Config {
            hosts,
            transport: self
                .preset
                .transport
                .map(|transport| viaduct_frames::transport::Config {
                    peers: hosts,
                    // Each host knows the others before its ranks begin, and none reboots.
                    incarnation_at_first: 1,
                    ..transport
                }),
            watches_links: true,
            seed: cluster.run.seed,
            ..self.preset.clone()
        };
        config.in_cluster(cluster, self.shares_links)
    }
}

impl Interfaces for Endpoints {
    fn level(&self, cluster: &ClusterConfig) -> &'static str {
        match self.shares_links {
            true => cluster.links.sharing.name(),
            false => "held",
        }
    }

    fn check(&self, cluster: &ClusterConfig) -> Result<(), Refused> {
        let processes = cluster.hosts.processes;
        let preset = &self.preset;
        let as_a_whole = |reason: String| Refused {
            asked: Asked::Interfaces,
            reason,
            help: None,
        };
        let numbers = preset.check_numbers();
        numbers.map_err(|(asked, reason)| Refused {
            asked,
            ..as_a_whole(reason.to_owned())
        })?;
        if self.scheduler.quantum <= self.scheduler.switch {
            return Err(Refused::new(
                Asked::Turns,
                "a turn ends before its rank begins",
                "make hosts.scheduler.quantum longer than hosts.scheduler.switch",
            ));
        }
        if cluster.hosts.processors.is_some_and(|count| count != 1) {
            return Err(Refused::new(
                Asked::Processors,
                "a host with endpoints has one processor for its ranks",
                "set hosts.processors to 1, or leave it out",
            ));
        }
        if cluster.hosts.bus_load.is_some() {
            return Err(Refused::new(
                Asked::BusLoad,
                "the bus of an interface with endpoints has no other devices",
                "leave [hosts.bus_load] out",
            ));
        }
        if preset.stall == Stall::Thread {
            return Err(Refused::new(
                Asked::Remap,
                "ranks do not wait for remaps",
                "set hosts.model.endpoints.remap to \"background\"",
            ));
        }
        if preset.transport.is_none() && processes > preset.frames.into() {
            return Err(Refused::new(
                Asked::Processes,
                format!(
                    "an interface without a transport has as many endpoints as frames, {}, and \
                     hosts.processes is {processes}",
                    preset.frames
                ),
                format!(
                    "set hosts.processes to {} or less, or hosts.nic to \"am-myrinet\"",
                    preset.frames
                ),
            ));
        }
        if preset.frames < 2 && processes > 1 {
            return Err(Refused::new(
                Asked::Frames,
                "with one frame the endpoints of two ranks push each other out for ever",
                "set hosts.model.endpoints.frames to 2 or more",
            ));
        }
        if preset.transport.is_none() && preset.network.lost_per_million > 0 {
            return Err(Refused::new(
                Asked::Loss,
                "this interface has no transport, so what its network loses stays lost",
                "leave hosts.model.network.lost out, or set hosts.nic to \"am-myrinet\"",
            ));
        }
        let config = self.config(cluster);
        config.map_err(|error| as_a_whole(error.to_string()))?;
        Ok(())
    }

    fn carry_out(
        &self,
        cluster: &ClusterConfig,
        operations: Box<Operations>,
        control: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(Box<Operations>, Carried), RunError> {
        let config = self.config(cluster);
        let config = config.map_err(|error| RunError::Interfaces(error.to_string()))?;
        let run = Run {
            cluster,
            scheduler: self.scheduler,
        };
        match config.model {
            LinkModel::Wormhole => run.carry_out::<HeldLinks>(config, operations, control),
            LinkModel::Shared(..) => run.carry_out::<FairLinks>(config, operations, control),
        }
    }
}

/// What a run is told beside its hosts.
struct Run<'a> {
    cluster: &'a ClusterConfig,
    scheduler: Scheduler,
}

impl Run<'_> {
    fn carry_out<N: Links>(
        &self,
        config: Config,
        operations: Box<Operations>,
        control: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(Box<Operations>, Carried), RunError> {
        let made = Cluster::<N>::new(config);
        let mut it = made.map_err(|error| RunError::Interfaces(error.to_string()))?;
        // Ranks keep their own.
        it.ledger = None;
        it.watch_links();
        it.place_ranks(self, operations);
        it.queue
            .schedule(self.cluster.traffic.start, Event::RanksBegin);
        let (ended, is_over) = self.run(&mut it, control);
        let Some(mut ranks) = it.ranks.take() else {
            return Err(RunError::NoGraph);
        };
        let totals = it.totals();
        if is_over {
            // Of what ranks have not taken that had nothing more to do.
            ranks.leave(it.nodes.iter().map(|node| &node.endpoints[..]));
        }
        let spent = |of: fn(&crate::processor::Spent) -> u64| -> u64 {
            it.processors().map(|processor| of(&processor.spent)).sum()
        };
        let links = it.links.link_use().iter();
        let (dropped, state_bytes) = (ranks.dropped(), ranks.state_bytes() as u64);
        let carried = Carried {
            end: it.queue.now(),
            ended,
            is_over,
            messages: MessageCounts {
                posted: ranks.posted,
                delivered: ranks.taken,
                dropped,
                in_flight: ranks.posted - ranks.taken - dropped,
            },
            times: ranks.times,
            delivered_bytes: ranks.taken_bytes,
            links: links
                .map(|(link, its)| (*link, its.bytes, its.busy))
                .collect(),
            events: totals.events,
            state_bytes,
            digest: ranks.digest,
            counts: InterfaceCounts {
                remaps: totals.remaps,
                refusals: totals.refusals,
                retransmissions: totals.retransmissions,
                switches: spent(|it| it.switches),
                blocks: spent(|it| it.blocks),
            },
        };
        Ok((ranks.operations, carried))
    }

    /// Why it ended, and whether nothing can happen any more.
    fn run<N: Links>(
        &self,
        it: &mut Cluster<N>,
        control: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> (Ended, bool) {
        let run = &self.cluster.run;
        let mut looked_at = 0;
        loop {
            let Some(ranks) = &it.ranks else {
                return (Ended::Finished, true);
            };
            let now = it.queue.now();
            // Processes that only look for messages go on for ever.
            let is_silent = now > ranks.acted_at.saturating_add(SILENCE);
            if ranks.are_over() || is_silent || it.is_silent() {
                return (Ended::Finished, true);
            }
            if now >= run.until {
                return (Ended::Finished, false);
            }
            let events = it.queue.fired();
            if run.events_max.is_some_and(|most| events >= most) {
                return (Ended::EventCount, false);
            }
            if run.messages_max.is_some_and(|most| ranks.taken >= most) {
                return (Ended::MessageCount, false);
            }
            if events - looked_at >= CONTROL_INTERVAL_EVENTS {
                looked_at = events;
                let progress = Progress {
                    now,
                    until: run.until,
                    events,
                    posted: ranks.posted,
                    delivered: ranks.taken,
                };
                if control(progress).is_break() {
                    return (Ended::Interrupted, false);
                }
            }
            if !it.step() {
                return (Ended::Finished, true);
            }
        }
    }
}

impl<N: Links> Cluster<N> {
    /// Gives each rank an endpoint, and hosts their processes. Each frame has an endpoint at first,
    /// if there are so many.
    fn place_ranks(&mut self, run: &Run<'_>, operations: Box<Operations>) {
        let count = operations.graph().ranks();
        let mut ranks = Box::new(Ranks::new(operations, run.cluster, &self.config));
        let mut processes: Vec<Vec<Process>> = Vec::new();
        for rank in 0..count {
            let host = HostId(ranks.operations.host_of(rank));
            let number = self.config.number_of(&self.topology, host);
            let host = self.join(number);
            let endpoint = self.create_endpoint(host);
            // What is measured begins when they are there.
            let is_first = endpoint.index() < usize::from(self.config.frames);
            if is_first && self.config.transport.is_some() {
                self.settle_endpoint(host, endpoint);
            }
            ranks.add((host, number), endpoint);
            processes.resize_with(self.nodes.len(), Vec::new);
            processes[host as usize].push(Process::Rank(rank, endpoint));
        }
        self.ranks = Some(ranks);
        for (host, processes) in (0..).zip(processes) {
            if !processes.is_empty() {
                self.share_processor(host, run.scheduler, processes);
            }
        }
    }

    pub(crate) fn begin_ranks(&mut self, now: Time) {
        if let Some(ranks) = &mut self.ranks {
            ranks.begin(now);
        }
        for host in 0..self.nodes.len() as u32 {
            self.look(host, now);
        }
        self.schedule_ranks();
    }

    /// Something of an operation is over that took no processor.
    pub(crate) fn rank_is_due(&mut self, word: u32, now: Time) {
        let Some(ranks) = &mut self.ranks else {
            return;
        };
        let host = ranks.host_of(ranks.rank_of(word));
        if self.nodes[host as usize].is_down {
            return;
        }
        ranks.due(word, now);
        self.look(host, now);
        self.schedule_ranks();
    }

    /// Schedules what ranks wait for that takes no processor.
    pub(crate) fn schedule_ranks(&mut self) {
        if let Some(ranks) = &mut self.ranks {
            for (at, word) in ranks.timers.drain(..) {
                self.queue.schedule(at, Event::OfRank(word));
            }
        }
    }
}
