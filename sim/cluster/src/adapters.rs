//! Several adapters of a host, and its processors: who has which, and who is where.
//!
//! A network joins *places*, which it calls its hosts, and each place has one adapter. Host h of
//! hosts with n adapters has places n h to n h + n - 1, as the rails of
//! [`viaduct_topology::RailShape`] are numbered; adapter 0 is at the first. What an adapter does
//! and holds is of its place: engines, connections, VIs, registered memory, and the link to its
//! switch. What a process holds at one of its host's adapters is its *port* there. Ports are
//! numbered as processes are where each host has one adapter: so many for each place. A process is
//! meant by its port at adapter 0, its *home port*.
//!
//! Of the host are its send buffers, its processors, and its I/O bus, unless each adapter has one
//! of its own. All of these are kept at the host's first place.
//!
//! A message leaves by one adapter and comes by one; [`AdapterChoice`] says by which. Its answer
//! takes the same two. Processes of one host reach each other through no adapter.

use core::ops::Range;

use viaduct_core::ViId;

use crate::cluster::Cluster;
use crate::config::ClusterConfig;
use crate::error::RunError;
use crate::host::Drawn;
use crate::message::{Message, MessageId};
use crate::programs::Programs;

/// Adapters that a host may have.
pub const ADAPTERS_MAX: u32 = 64;

/// Processors that a host may have.
pub const PROCESSORS_MAX: u32 = 1024;

/// The adapters of each host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Adapters {
    /// How many there are, each at a place of its own in the network.
    pub count: u32,
    /// Which of them a message takes.
    pub choice: AdapterChoice,
    /// Whether each has an I/O bus of its own; otherwise all adapters of a host share one.
    pub has_own_bus: bool,
}

impl Adapters {
    /// One at each host.
    pub const ONE: Self = Self {
        count: 1,
        choice: AdapterChoice::Flow,
        has_own_bus: false,
    };
}

/// Which adapter of its two hosts a message takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AdapterChoice {
    /// By a hash of the two processes and the seed: all messages between them take the same, of
    /// one number at both ends.
    Flow,
    /// Each process takes its host's adapters in turn, of one number at both ends.
    RoundRobin,
    /// Each process has one: process p of a host adapter p modulo their number. The two ends may
    /// differ.
    Process,
    /// That of the receiving process, as with [`AdapterChoice::Process`], at both ends.
    Peer,
    /// That which its operation names, at both ends; only for graphs of operations.
    Operation,
    /// All of them: a message that is asked for first goes in parts of equal length, one or more
    /// by each adapter; others as with [`AdapterChoice::Flow`]. Only for graphs of operations.
    Stripe,
}

impl AdapterChoice {
    /// Whether only operations of a graph can be asked.
    #[must_use]
    pub const fn is_of_graphs(self) -> bool {
        matches!(self, Self::Operation | Self::Stripe)
    }
}

/// How processes, adapters and processors of hosts are numbered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbering {
    /// Adapters of a host.
    adapters: u32,
    /// Processes of a host.
    processes: u32,
    /// Processors of a host, if they are limited.
    processors: Option<u32>,
    /// Processors that a process computes on.
    processors_each: u32,
}

impl Numbering {
    pub(crate) fn of(config: &ClusterConfig) -> Self {
        let application = config.traffic.application();
        Self {
            adapters: config.hosts.adapters.count,
            processes: config.hosts.processes,
            processors: config.hosts.processors,
            processors_each: application.map_or(1, |it| it.graph().processors()),
        }
    }

    /// The first place of the host of a place.
    #[inline]
    pub(crate) fn first_place(&self, place: u32) -> u32 {
        match self.adapters {
            1 => place,
            adapters => place - place % adapters,
        }
    }

    /// The process of a port.
    #[inline]
    pub(crate) fn home_port(&self, port: u32) -> u32 {
        match self.adapters {
            1 => port,
            _ => self.first_place(port / self.processes) * self.processes + port % self.processes,
        }
    }

    /// The home port of a process, numbered through all hosts.
    #[inline]
    pub(crate) fn port_of(&self, process: u32) -> u32 {
        match self.adapters {
            1 => process,
            adapters => {
                let (host, own) = (process / self.processes, process % self.processes);
                host * adapters * self.processes + own
            }
        }
    }

    /// The number of the process of a port, through all hosts.
    pub(crate) fn process_of(&self, port: u32) -> u32 {
        let host = port / self.processes / self.adapters;
        host * self.processes + port % self.processes
    }

    /// The port of a process at an adapter of its host.
    fn port_at(&self, home: u32, adapter: u32) -> u32 {
        home + adapter * self.processes
    }

    /// The adapter that is a process's own.
    fn own_adapter(&self, home: u32) -> u32 {
        home % self.processes % self.adapters
    }

    /// Where the processor stands in the list of all that works for a process's messages, and does
    /// what the process computes on its processor `own`.
    #[inline]
    pub(crate) fn processor(&self, port: u32, own: u32) -> usize {
        let host = port / self.processes / self.adapters;
        match self.processors {
            None => (host * self.adapters) as usize,
            Some(processors) => {
                let first = port % self.processes * self.processors_each;
                (host * processors + (first + own) % processors) as usize
            }
        }
    }

    /// Where those of the host of a place stand.
    pub(crate) fn processors_of(&self, place: u32) -> Range<usize> {
        let (first, count) = match self.processors {
            None => (self.first_place(place), 1),
            Some(processors) => (place / self.adapters * processors, processors),
        };
        first as usize..(first + count) as usize
    }

    /// Where the processor stands on which a process computes; none if it is one of the process
    /// alone, of which there are as many as are asked for.
    pub(crate) fn computing(&self, port: u32, own: u32) -> Option<usize> {
        let is_of_host = own == 0 && self.processes == 1;
        (is_of_host || self.processors.is_some()).then(|| self.processor(port, own))
    }

    /// Processors of all hosts of a network with so many places.
    pub(crate) fn processor_count(&self, places: u32) -> u32 {
        match self.processors {
            None => places,
            Some(processors) => places / self.adapters * processors,
        }
    }

    /// Whether a host has a number of processors of its own.
    pub(crate) const fn has_processors(&self) -> bool {
        self.processors.is_some()
    }

    /// Whether a host has several adapters, or a number of processors of its own.
    pub(crate) const fn has_several(&self) -> bool {
        self.adapters > 1 || self.processors.is_some()
    }
}

/// How messages are spread over adapters where hosts have several.
#[derive(Debug)]
pub(crate) struct Spreading {
    choice: AdapterChoice,
    seed: u64,
    /// By process, numbered through all hosts: which adapter is next, where they are taken in turn.
    turns: Vec<u32>,
}

impl Spreading {
    /// Of a configuration; none if each host has one adapter.
    pub(crate) fn of(config: &ClusterConfig) -> Option<Box<Self>> {
        let adapters = config.hosts.adapters;
        let turns = match adapters.choice {
            AdapterChoice::RoundRobin => config.host_count() * config.hosts.processes,
            _ => 0,
        };
        (adapters.count > 1).then(|| {
            Box::new(Self {
                choice: adapters.choice,
                seed: config.run.seed,
                turns: vec![0; turns as usize],
            })
        })
    }

    /// The adapters that a message between two processes takes; `named` is what its operation says.
    fn choose(
        &mut self,
        numbering: Numbering,
        (source, target): (u32, u32),
        named: Option<u8>,
    ) -> (u32, u32) {
        let by_flow = || flow_hash(self.seed, source, target) % numbering.adapters;
        let both = match self.choice {
            AdapterChoice::Flow => by_flow(),
            AdapterChoice::Stripe | AdapterChoice::Operation => {
                named.map_or_else(by_flow, u32::from)
            }
            AdapterChoice::RoundRobin => {
                let turn = &mut self.turns[numbering.process_of(source) as usize];
                let taken = *turn;
                *turn = (taken + 1) % numbering.adapters;
                taken
            }
            AdapterChoice::Process => {
                return (numbering.own_adapter(source), numbering.own_adapter(target));
            }
            AdapterChoice::Peer => numbering.own_adapter(target),
        };
        (both, both)
    }

    pub(crate) fn state_bytes(&self) -> usize {
        size_of::<Self>() + self.turns.capacity() * size_of::<u32>()
    }
}

/// A number that hangs on two processes alone, whichever is named first: messages and their answers
/// take one adapter.
fn flow_hash(seed: u64, one: u32, other: u32) -> u32 {
    let pair = u64::from(one.min(other)) << 32 | u64::from(one.max(other));
    let mut mixed = (seed ^ pair).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed >> 32) as u32
}

impl ClusterConfig {
    /// Hosts: the network has a place for each of their adapters.
    #[must_use]
    pub fn host_count(&self) -> u32 {
        self.topology.host_count() / self.hosts.adapters.count.max(1)
    }

    /// The host of a place of the network, and the number of its adapter there.
    #[must_use]
    pub const fn adapter_at(&self, place: u32) -> (u32, u32) {
        let adapters = self.hosts.adapters.count;
        (place / adapters, place % adapters)
    }

    /// The place of an adapter of a host.
    #[must_use]
    pub const fn place_of(&self, host: u32, adapter: u32) -> u32 {
        host * self.hosts.adapters.count + adapter
    }

    /// The place at which the bus is counted that the adapter at a place is on.
    #[must_use]
    pub const fn bus_at(&self, place: u32) -> u32 {
        match self.hosts.adapters.has_own_bus {
            true => place,
            false => place - place % self.hosts.adapters.count,
        }
    }

    /// A host whose adapters share a bus and are not alike, if there is one: nobody could say which
    /// bus that is.
    #[must_use]
    pub fn unlike_adapters(&self) -> Option<u32> {
        let adapters = self.hosts.adapters;
        if self.host.are_alike() || adapters.has_own_bus {
            return None;
        }
        let group = |place| self.host.group(place);
        let mut places = 0..self.topology.host_count();
        let unlike = places.find(|place| group(*place) != group(place - place % adapters.count));
        unlike.map(|place| self.adapter_at(place).0)
    }

    /// Whether the network has places for the adapters of all hosts, and they are known to whom
    /// they are to be known.
    pub(crate) fn check_places(&self) -> Result<(), RunError> {
        let (adapters, places) = (self.hosts.adapters, self.topology.host_count());
        let (count, processors) = (adapters.count, self.hosts.processors);
        if count == 0 || count > ADAPTERS_MAX || !places.is_multiple_of(count) {
            return Err(RunError::Places { count, places });
        }
        if processors.is_some_and(|count| count == 0 || count > PROCESSORS_MAX) {
            return Err(RunError::Processors);
        }
        if let Some(host) = self.unlike_adapters() {
            return Err(RunError::UnlikeAdapters { host });
        }
        let is_graph = self.traffic.application().is_some();
        match adapters.choice.is_of_graphs() && count > 1 && !is_graph {
            true => Err(RunError::NoOperations),
            false => Ok(()),
        }
    }
}

impl<P: Programs> Cluster<P> {
    /// The processor that works for the messages of a process, which has this port at this place.
    #[inline]
    pub(crate) fn processor_of(&self, place: u32, port: u32) -> usize {
        match (self.has_several, self.numbering.processors) {
            (false, _) => place as usize,
            (true, None) => self.numbering.first_place(place) as usize,
            (true, Some(_)) => self.numbering.processor(port, 0),
        }
    }

    /// The processor that works for the program which runs now on the host of a place, or for what
    /// no program of it does.
    #[inline]
    pub(crate) fn worker(&self, place: u32) -> usize {
        match (self.has_several, self.numbering.processors) {
            (false, _) => place as usize,
            (true, None) => self.numbering.first_place(place) as usize,
            (true, Some(_)) => {
                let running = self.programs.running(self.numbering.first_place(place));
                self.numbering.processors_of(place).start + running as usize
            }
        }
    }

    /// The processor that works for a message at its source.
    #[inline]
    pub(crate) fn source_processor(&self, place: u32, id: MessageId) -> usize {
        let message = self.messages.get(id);
        self.end_processor(place, (message.source, message.source_vi), message)
    }

    /// The processor that works for a message at its target.
    #[inline]
    pub(crate) fn target_processor(&self, place: u32, id: MessageId) -> usize {
        let message = self.messages.get(id);
        self.end_processor(place, (message.target, message.target_vi), message)
    }

    /// At one of its ends. Messages of programs name a place alone: there it is the processor of
    /// the program that last posted to the VI.
    #[inline]
    fn end_processor(&self, place: u32, (port, vi): (u32, ViId), message: &Message) -> usize {
        if P::EXIST && self.numbering.has_processors() && message.is_of::<P>() {
            let of_vi = self.guests.hosts[place as usize].processor(vi);
            return self.numbering.processors_of(place).start + of_vi as usize;
        }
        self.processor_of(place, port)
    }

    /// The place at which what programs have of a host is kept that belongs to no adapter of it.
    #[inline]
    #[must_use]
    pub fn first_place(&self, place: u32) -> u32 {
        match self.has_several {
            false => place,
            true => self.numbering.first_place(place),
        }
    }

    /// All places of the host of a place.
    #[must_use]
    pub fn places_with(&self, place: u32) -> Range<u32> {
        let first = self.first_place(place);
        first..first + self.config.hosts.adapters.count
    }

    /// The process of a port: where what belongs to no adapter is kept.
    #[inline]
    pub(crate) fn home_port(&self, port: u32) -> u32 {
        self.numbering.home_port(port)
    }

    /// A process wants to send a message to another one: by which adapters is chosen here. Both are
    /// named by their home ports.
    #[inline]
    pub(crate) fn want_to_send(&mut self, process: u32, drawn: Drawn, named: Option<u8>) {
        match &mut self.spreading {
            None => self.want_to_post(process, drawn),
            Some(spreading) => {
                let numbering = self.numbering;
                let ends = (process, drawn.target);
                let (from, to) = spreading.choose(numbering, ends, named);
                let target = numbering.port_at(drawn.target, to);
                let source = numbering.port_at(process, from);
                self.want_to_post(source, Drawn { target, ..drawn });
            }
        }
    }
}
