//! Hosts, their interfaces and what is between them, and the events that drive them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use viaduct_cluster::background::Sources;
use viaduct_engine::{Stream, StreamKey, Time};
use viaduct_frames::agreement::{
    Driver, InterfaceSide, News, Stamped, Task, ToDriver, ToInterface,
};
use viaduct_frames::residency::{Policy, Residency, State, Write};
use viaduct_frames::service::Service;
use viaduct_frames::transport::{MessageId, Transport};
use viaduct_frames::{Endpoint, Frame, Peer};
use viaduct_network::Arrivals;
use viaduct_topology::Topology;

use crate::agenda::{Agenda, Happening, Wake};
use crate::background::{SILENCE, Transfer};
use crate::config::{Config, NetworkError};
use crate::exchange::Exchange;
use crate::faults::{Fault, Pace};
use crate::ledger::Ledger;
use crate::load::{Flight, HeldLinks, Links, Load};
use crate::messages::{BulkWrite, Messages, Reading};
use crate::program::{Program, Setup};
use crate::ranks::Ranks;

/// Payloads up to this stay in the endpoint's frame; longer ones cross the host's bus by DMA.
pub(crate) const SHORT_BYTES: u32 = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A deadline of the transport.
    Deadline(u32),
    /// A bulk message has been read from host memory.
    Read(u32),
    /// A bulk message is in host memory.
    Written(u32, u32),
    /// A short message is in the queue of an endpoint.
    ShortWritten(u32, Endpoint),
    /// An endpoint's image has moved.
    Moved(u32, u16),
    /// The kernel's thread looks for what has to be remapped.
    DriverLooks(u32),
    /// The driver reads a word of the interface.
    DriverHears(u32),
    /// The interface may read a word of the driver.
    InterfaceHears(u32),
    /// A message is in the queue of a process that shares its processor.
    Noticed(u32, Endpoint),
    /// A host stops, by the fault with this number.
    Stops(u32),
    /// It is there again.
    Boots(u32),
    /// A client may want to know whether its server lives.
    Enquires(u32),
    /// The patience of a program that waits has an end.
    Awakes(u32),
    /// A source of background traffic begins a transfer.
    TransferBegins(u32),
    /// The next part of a transfer is read from memory.
    TransferGoesOn(u32),
    /// A part of so many bytes is at a host, of which this is that boot.
    PartCame(u32, u16, u8),
    /// It is in the host's memory.
    PartWritten(u32, u8),
    /// Ranks of an application begin.
    RanksBegin,
    /// Something of an operation is over that took no processor of its host.
    OfRank(u32),
}

/// A message, until its sender knows what became of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) entry: Entry,
    pub(crate) to: u32,
    pub(crate) to_endpoint: Endpoint,
    pub(crate) to_key: u8,
    pub(crate) name: Option<MessageId>,
    /// Where it is among its endpoint's outstanding ones.
    pub(crate) place: u32,
}

/// A message in a queue of its destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) from: u32,
    pub(crate) from_endpoint: Endpoint,
    pub(crate) bytes: u32,
    pub(crate) is_reply: bool,
    /// Of the endpoint it comes from: which boot of its host made that.
    pub(crate) key: u8,
    /// Of the request in its client's book, if there is one.
    pub(crate) number: u32,
    /// Of a rank's request, in order of posting, modulo 2^32; of a reply that of what it answers.
    pub(crate) request: u32,
    /// When the request was posted, in a reply too.
    pub(crate) posted_at: Time,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct EndpointState {
    pub(crate) send_queue: VecDeque<u32>,
    /// Sent, and not ended.
    pub(crate) outstanding: Vec<u32>,
    pub(crate) receive_queue: VecDeque<Entry>,
    /// Short messages that the interface is writing into the queue of a process.
    pub(crate) on_way: VecDeque<Entry>,
    /// Requests in the queue, or on the way into it.
    pub(crate) requests: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrameState {
    pub(crate) is_resting: bool,
    pub(crate) is_unloading: bool,
    /// Bulk messages on the way into the endpoint's queue.
    pub(crate) writes: u32,
}

#[derive(Debug)]
pub(crate) struct Node {
    /// Of its host.
    pub(crate) number: u32,
    pub(crate) transport: Option<Transport>,
    pub(crate) service: Service,
    pub(crate) side: InterfaceSide,
    pub(crate) driver: Driver,
    /// Its thread has been asked to look.
    driver_looks: bool,
    /// When that looks, within its period.
    driver_phase: Time,
    /// Packets on the last link to it and behind, in the order of their tails' arrivals.
    pub(crate) incoming: VecDeque<(Time, Flight)>,
    /// When the first of these arrives.
    pub(crate) arrival_at: Time,
    pub(crate) words_in: VecDeque<Stamped<ToInterface>>,
    pub(crate) words_on_way_in: VecDeque<Stamped<ToInterface>>,
    pub(crate) words_on_way_out: VecDeque<Stamped<ToDriver>>,
    pub(crate) busy_until: Time,
    /// When the earliest event of its processor is.
    pub(crate) wake_at: Time,
    pub(crate) deadline_at: Time,
    pub(crate) bus_free_at: Time,
    /// What leaves once it has been read from host memory; the first is being read.
    pub(crate) reading: VecDeque<Reading>,
    pub(crate) frames: Vec<FrameState>,
    pub(crate) endpoints: Vec<EndpointState>,
    /// Endpoints whose send queues are full, as bits: of the first 64, which built-in servers use.
    pub(crate) full: u64,
    pub(crate) host_busy_until: Time,
    pub(crate) has_host_event: bool,
    /// Messages that are posted when the host's processor has ended.
    pub(crate) posting: VecDeque<u32>,
    /// Endpoints of messages whose posting waits for a remap.
    pub(crate) blocked: Vec<u32>,
    pub(crate) program: Program,
    /// What the looks of a program from outside took that were in vain, since something came.
    pub(crate) looks: Time,
    /// Which boot this is, from 1: the key of its endpoints.
    pub(crate) boot: u8,
    pub(crate) is_down: bool,
    /// Its interface is dead.
    pub(crate) is_mute: bool,
    /// What it runs after a boot.
    pub(crate) setup: Option<Setup>,
    pub(crate) random: Stream,
}

/// An endpoint's place in a set of the first 64; none of those behind.
#[inline]
pub(crate) const fn bit(endpoint: Endpoint) -> u64 {
    match endpoint.index() {
        index @ 0..64 => 1 << index,
        _ => 0,
    }
}

/// Whether a process finds an endpoint in its interface's memory.
#[inline]
pub(crate) fn is_in_frame(driver: &Driver, endpoint: Endpoint) -> bool {
    let state = driver.residency().state(endpoint);
    matches!(state, Some(State::OnNicReadWrite(_)))
}

impl Node {
    /// Puts a message in its endpoint's send queue.
    pub(crate) fn queue_message(&mut self, endpoint: Endpoint, message: u32, entries: u32) {
        let queue = &mut self.endpoints[endpoint.index()].send_queue;
        queue.push_back(message);
        let is_full = queue.len() >= entries as usize;
        if is_full {
            self.full |= bit(endpoint);
        }
    }

    /// Has an endpoint in a frame before anything begins: without a transport a message for one
    /// that is in none would be lost.
    /// `has_rounds` where its driver works in rounds, as one that looks now and then.
    fn settle_endpoint(&mut self, endpoint: Endpoint, has_rounds: bool) {
        let _ = self.driver.write(endpoint);
        if has_rounds {
            self.driver.begin_round();
        }
        while let Some(news) = self.driver.poll(&mut self.random) {
            let News::Say(word) = news else { continue };
            let Ok(Task::Upload(_, frame)) = self.side.hear(word) else {
                panic!("more endpoints than frames");
            };
            let answer = self.side.moved(frame, false);
            let heard = self.driver.hear(answer, &mut self.random);
            debug_assert_eq!(heard, Ok(()));
        }
    }
}

/// How often what happened on all interfaces, since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Events of the simulation.
    pub events: u64,
    /// Packets and answers on links.
    pub packets: u64,
    /// Packets and answers that the network lost.
    pub lost: u64,
    /// Packets that a full interface stopped on their way.
    pub stops: u64,
    /// Endpoints uploaded.
    pub remaps: u64,
    /// Refusals for the time being.
    pub refusals: u64,
    /// Transmissions that were not the first.
    pub retransmissions: u64,
    /// Messages that returned to their senders.
    pub returned: u64,
}

impl Totals {
    /// Adds what one interface and its driver have counted.
    pub(crate) fn count(&mut self, node: &Node) {
        self.remaps += node.driver.residency().counts().uploads;
        if let Some(transport) = &node.transport {
            let counts = transport.counts();
            self.refusals += counts.refusals;
            self.retransmissions += counts.retransmissions;
            self.returned += counts.returned;
        }
    }
}

/// What one direction of a link has carried.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkLoad {
    /// `host0 -> leaf0`.
    pub link: String,
    /// Packets and answers that crossed it.
    pub packets: u64,
    /// Their bytes, with headers.
    pub bytes: u64,
    /// How long packets held it; where they share links, what their bytes take at its rate.
    pub busy: Time,
}

/// A cluster of hosts with programs, on a network of one kind.
///
/// A host has a number in the configuration, and a place here, in the order in which hosts get
/// endpoints: wherever it is not said otherwise, `host` is a place. Of a host without endpoints
/// nothing is kept.
#[derive(Debug)]
pub struct Cluster<N = HeldLinks> {
    pub(crate) config: Config,
    pub(crate) queue: Agenda<Event>,
    pub(crate) links: N,
    pub(crate) topology: Arc<Topology>,
    /// Places of hosts, by number.
    places: BTreeMap<u32, u32>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) messages: Messages,
    pub(crate) writes: Vec<BulkWrite>,
    pub(crate) free_writes: Vec<u32>,
    pub(crate) arrivals: Arrivals<Flight>,
    /// Of the interface's processor, in 1024ths of a picosecond.
    cycle: u64,
    pub(crate) measured_from: Time,
    /// Whether hosts or interfaces may stop.
    may_stop: bool,
    has_slow_hosts: bool,
    /// Traffic of others: who begins it when, and what is under way.
    pub(crate) sources: Sources,
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) free_transfers: Vec<u32>,
    has_sources: bool,
    /// When something happened last that is none of theirs.
    last_own: Time,
    /// Programs whose patience has an end.
    pub(crate) patient: u32,
    /// What became of requests, while messages may be lost.
    pub(crate) ledger: Option<Box<Ledger>>,
    /// What programs from outside say to each other, if there are such.
    pub(crate) exchange: Option<Box<Exchange>>,
    /// Ranks of an application, if hosts have such.
    pub(crate) ranks: Option<Box<Ranks>>,
    /// What interfaces counted whose hosts rebooted.
    pub(crate) past: Totals,
    /// Messages that may still be under way though their senders gave them up: records that stay.
    pub(crate) in_doubt: usize,
}

impl<N: Links> Cluster<N> {
    /// A cluster whose hosts run nothing.
    ///
    /// # Errors
    ///
    /// Its network cannot be, or is not of this kind: [`Config::joined`], [`Links::of`].
    ///
    /// # Panics
    ///
    /// If its faults cannot be: [`Config::check_faults`].
    pub fn new(config: Config) -> Result<Self, NetworkError> {
        let topology = config.joined()?;
        if let Err(error) = config.check_faults() {
            panic!("{error}");
        }
        let mut links = N::of(&config, &topology)?;
        let random = Stream::new(StreamKey {
            seed: config.seed,
            purpose: 3,
            entity: 0,
        });
        links.lose(config.network.lost_per_million, random);
        for fault in &config.faults {
            let found = match *fault {
                Fault::LinksDown {
                    links: which,
                    from,
                    until,
                } => links.take_down(which, from, until),
                Fault::LinksLose { links: which, rate } => links.lose_on(which, rate, config.seed),
                Fault::Reboot { .. } | Fault::InterfaceDies { .. } | Fault::SlowHost { .. } => {
                    Ok(())
                }
            };
            debug_assert!(found.is_ok(), "it was checked");
        }
        let sources = Sources::new(&config.background, topology.host_count(), config.seed);
        let sources = sources.map_err(|error| NetworkError::new(error.to_string()))?;
        let loses = config.faults.iter().any(Fault::loses);
        let is_slow = |fault: &Fault| matches!(fault, Fault::SlowHost { .. });
        let mut cluster = Self {
            queue: Agenda::new(),
            links,
            topology,
            places: BTreeMap::new(),
            may_stop: loses,
            has_slow_hosts: config.faults.iter().any(is_slow),
            has_sources: !sources.is_empty(),
            sources,
            transfers: Vec::new(),
            free_transfers: Vec::new(),
            last_own: Time::ZERO,
            patient: 0,
            ledger: loses.then(Box::default),
            exchange: None,
            ranks: None,
            past: Totals::default(),
            in_doubt: 0,
            nodes: Vec::new(),
            messages: Messages::default(),
            writes: Vec::new(),
            free_writes: Vec::new(),
            arrivals: VecDeque::new(),
            cycle: (1024e12 / config.firmware.clock_hz) as u64,
            measured_from: Time::ZERO,
            config,
        };
        cluster.schedule_faults();
        cluster.schedule_sources();
        Ok(cluster)
    }

    /// The place of a host, by its number.
    pub(crate) fn place_of(&self, number: u32) -> Option<u32> {
        self.places.get(&number).copied()
    }

    /// The place of a host that is to have endpoints, by its number.
    pub(crate) fn join(&mut self, number: u32) -> u32 {
        assert!(
            number < self.config.hosts,
            "no host {number} among {}",
            self.config.hosts
        );
        self.take_part(number)
    }

    /// The place of any host of the network, by the number that it has or would have.
    pub(crate) fn take_part(&mut self, number: u32) -> u32 {
        if let Some(place) = self.place_of(number) {
            return place;
        }
        let host = self.config.host_in(&self.topology, number);
        let place = self.links.join(host);
        self.places.insert(number, place);
        self.nodes.push(node(&self.config, (number, place), 1));
        self.queue.add_host();
        if let Some(ledger) = &mut self.ledger {
            ledger.add_host();
            self.schedule_enquiry(place, self.queue.now());
        }
        if let Some(exchange) = &mut self.exchange {
            exchange.add_host();
        }
        place
    }

    /// Counts from here on what links carry, if that is wanted.
    pub(crate) fn watch_links(&mut self) {
        if self.config.watches_links {
            self.links.watch_links();
        }
    }

    /// What links have carried since then: those that carried anything, in the order of numbers.
    pub(crate) fn link_loads(&self) -> Vec<LinkLoad> {
        let used = self.links.link_use().iter();
        used.map(|(link, its)| LinkLoad {
            link: self.topology.link_name(*link),
            packets: its.packets,
            bytes: its.bytes,
            busy: its.busy,
        })
        .collect()
    }

    /// Lets everything happen until `end`.
    pub fn run_until(&mut self, end: Time) {
        while self.step_until(end) {}
        // What is scheduled by whoever goes on from here is not before.
        self.queue.advance(end);
    }

    /// Lets the next event happen, if there is one.
    pub(crate) fn step(&mut self) -> bool {
        self.step_until(Time::MAX)
    }

    /// Lets the next event happen, if there is one by `end`: of those at one time that of the
    /// network first.
    #[inline(always)]
    fn step_until(&mut self, end: Time) -> bool {
        let network_at = self.links.next();
        if network_at == Time::MAX {
            // Most networks have no events, and those that have have none now.
            return match self.queue.pop_until(end) {
                Some((now, happening)) => {
                    self.handle(now, happening);
                    true
                }
                None => false,
            };
        }
        self.step_beside(network_at, end)
    }

    #[inline(never)]
    fn step_beside(&mut self, network_at: Time, end: Time) -> bool {
        let before = network_at.saturating_sub(Time::from_picoseconds(1));
        if network_at > Time::ZERO
            && let Some((now, happening)) = self.queue.pop_until(end.min(before))
        {
            self.handle(now, happening);
            return true;
        }
        if network_at > end {
            return false;
        }
        self.queue.advance(network_at);
        let mut arrivals = core::mem::take(&mut self.arrivals);
        self.links.proceed(network_at, &mut arrivals);
        self.all_arrive(&mut arrivals);
        self.arrivals = arrivals;
        true
    }

    /// How often what happened.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let counts = self.links.counts();
        let mut totals = Totals {
            events: self.queue.fired(),
            packets: counts.packets,
            stops: counts.stops,
            lost: counts.lost + counts.cut,
            ..self.past
        };
        for node in &self.nodes {
            totals.count(node);
        }
        totals
    }

    #[inline(always)]
    fn handle(&mut self, now: Time, happening: Happening<Event>) {
        if self.has_sources && !matches!(happening, Happening::Other(event) if event.is_foreign()) {
            self.last_own = now;
        }
        if self.may_stop && self.is_void(happening) {
            return;
        }
        match happening {
            Happening::Wake(Wake::Firmware(host)) => {
                self.nodes[host as usize].wake_at = Time::MAX;
                self.kick_firmware(host, now);
            }
            Happening::Wake(Wake::Host(host)) => {
                self.nodes[host as usize].has_host_event = false;
                self.kick_host(host, now);
            }
            Happening::Wake(Wake::Slice(host)) => self.slice_ended(host, now),
            Happening::Other(event) => self.handle_other(now, event),
        }
    }

    #[cold]
    fn handle_other(&mut self, now: Time, event: Event) {
        match event {
            Event::Deadline(host) => self.meet_deadline(host, now),
            Event::Written(host, write) => self.bulk_written(host, write, now),
            Event::Moved(host, frame) => self.image_moved(host, Frame::new(frame), now),
            Event::DriverHears(host) => {
                let node = &mut self.nodes[host as usize];
                if let Some(word) = node.words_on_way_out.pop_front() {
                    self.driver_hears(host, word, now);
                }
            }
            Event::DriverLooks(host) => {
                let node = &mut self.nodes[host as usize];
                node.driver_looks = false;
                node.driver.begin_round();
                self.follow_driver(host, now);
            }
            Event::InterfaceHears(host) => {
                let node = &mut self.nodes[host as usize];
                let word = node.words_on_way_in.pop_front();
                node.words_in.extend(word);
                self.kick_firmware(host, now);
            }
            Event::Read(host) => self.bulk_read(host, now),
            Event::ShortWritten(host, endpoint) => self.short_written(host, endpoint, now),
            Event::Noticed(host, endpoint) => self.notice(host, endpoint, now),
            Event::Stops(fault) => self.stop(fault, now),
            Event::Boots(host) => self.boot_host(host, now),
            Event::Enquires(host) => self.enquire(host, now),
            Event::Awakes(host) => {
                self.patient -= 1;
                self.kick_host(host, now);
            }
            Event::RanksBegin => self.begin_ranks(now),
            Event::OfRank(word) => self.rank_is_due(word, now),
            Event::TransferBegins(_)
            | Event::TransferGoesOn(_)
            | Event::PartCame(..)
            | Event::PartWritten(..) => self.handle_foreign(now, event),
        }
    }

    /// Whether an event is of a host that is down, or of an interface that is dead.
    #[cold]
    fn is_void(&mut self, happening: Happening<Event>) -> bool {
        let host = match happening {
            Happening::Wake(Wake::Firmware(host) | Wake::Host(host) | Wake::Slice(host))
            | Happening::Other(
                Event::Deadline(host)
                | Event::Read(host)
                | Event::Written(host, _)
                | Event::ShortWritten(host, _)
                | Event::Moved(host, _)
                | Event::DriverLooks(host)
                | Event::DriverHears(host)
                | Event::InterfaceHears(host)
                | Event::Noticed(host, _)
                | Event::Awakes(host)
                | Event::PartCame(host, ..)
                | Event::PartWritten(host, _),
            ) => host,
            Happening::Other(
                Event::Stops(..)
                | Event::Boots(_)
                | Event::Enquires(_)
                | Event::RanksBegin
                | Event::OfRank(_)
                | Event::TransferBegins(_)
                | Event::TransferGoesOn(_),
            ) => {
                return false;
            }
        };
        let node = &self.nodes[host as usize];
        let is_of_programs = matches!(
            happening,
            Happening::Wake(Wake::Host(_) | Wake::Slice(_))
                | Happening::Other(Event::ShortWritten(..) | Event::Noticed(..) | Event::Awakes(_))
        );
        let is_void = node.is_down || node.is_mute && !is_of_programs;
        if let Happening::Other(Event::Written(_, slot)) = happening
            && is_void
        {
            self.free_writes.push(slot);
        }
        is_void
    }

    /// How fast a host's processor is.
    #[inline]
    pub(crate) fn pace(&self, host: u32, now: Time) -> Pace {
        match self.has_slow_hosts {
            false => Pace::USUAL,
            true => Pace::of(&self.config.faults, self.nodes[host as usize].number, now),
        }
    }

    /// A new endpoint of a host, known to its interface at once.
    pub(crate) fn create_endpoint(&mut self, host: u32) -> Endpoint {
        let node = &mut self.nodes[host as usize];
        let (endpoint, word) = node.driver.create();
        let heard = node.side.hear(word);
        debug_assert!(heard.is_ok());
        node.endpoints.push(EndpointState::default());
        if node.transport.is_none() {
            self.settle_endpoint(host, endpoint);
        }
        endpoint
    }

    /// Has an endpoint in a frame before anything begins.
    pub(crate) fn settle_endpoint(&mut self, host: u32, endpoint: Endpoint) {
        let has_rounds = self.config.host.remap_period > Time::ZERO;
        self.nodes[host as usize].settle_endpoint(endpoint, has_rounds);
    }

    /// The driver reads a word of the interface.
    fn driver_hears(&mut self, host: u32, word: Stamped<ToDriver>, now: Time) {
        let is_remapping = !matches!(word.message, ToDriver::RemapWanted(_));
        if matches!(word.message, ToDriver::Moved { .. }) {
            // Programs of this host have the processor again after that, so that they see the
            // endpoint in its new place no earlier.
            self.run_driver(host, now, self.config.host.map);
        }
        let node = &mut self.nodes[host as usize];
        let heard = node.driver.hear(word, &mut node.random);
        debug_assert_eq!(heard, Ok(()));
        if is_remapping {
            self.follow_driver(host, now);
        } else {
            self.ask_for_remap(host, now);
        }
    }

    /// Something may have to be remapped: the kernel's thread sees it when it next looks.
    fn ask_for_remap(&mut self, host: u32, now: Time) {
        let period = self.config.host.remap_period.picoseconds();
        let node = &mut self.nodes[host as usize];
        if period == 0 {
            self.follow_driver(host, now);
            return;
        }
        let residency = node.driver.residency();
        if residency.is_idle() || residency.is_serving() || node.driver_looks {
            return;
        }
        node.driver_looks = true;
        let behind = now.picoseconds() + period - node.driver_phase.picoseconds();
        let wait = Time::from_picoseconds(period - behind % period);
        self.queue.schedule(now + wait, Event::DriverLooks(host));
    }

    /// Does what the driver says it wants.
    fn follow_driver(&mut self, host: u32, now: Time) {
        loop {
            let node = &mut self.nodes[host as usize];
            match node.driver.poll(&mut node.random) {
                None => break,
                Some(News::Say(word)) => {
                    node.words_on_way_in.push_back(word);
                    let costs = &self.config.host;
                    let span = match word.message {
                        ToInterface::Unload(..) | ToInterface::Upload(..) => {
                            costs.driver + costs.unmap + costs.store
                        }
                        ToInterface::BringToRest(..)
                        | ToInterface::Create(_)
                        | ToInterface::Free(_) => costs.driver,
                    };
                    let at = self.run_driver(host, now, span);
                    self.queue.schedule(at, Event::InterfaceHears(host));
                }
                Some(News::Wake(endpoint)) => self.wake(host, endpoint, now),
                Some(News::PageIn(_) | News::Gone(_)) => {}
            }
        }
        if self.config.host.remap_period > Time::ZERO {
            // What came since the thread looked waits until it looks again.
            self.ask_for_remap(host, now);
        }
    }

    /// The kernel's thread takes the processor from the programs for `span`; returns until when.
    fn run_driver(&mut self, host: u32, now: Time, span: Time) -> Time {
        let span = self.pace(host, now).stretch(span);
        if let Some(until) = self.interrupt_processes(host, now, span) {
            return until;
        }
        let node = &mut self.nodes[host as usize];
        node.host_busy_until = now.max(node.host_busy_until) + span;
        node.host_busy_until
    }

    /// A message is in its endpoint's image: in the frame, or on the host.
    pub(crate) fn write(&mut self, host: u32, endpoint: Endpoint, now: Time) -> Write {
        let node = &mut self.nodes[host as usize];
        let write = node.driver.write(endpoint);
        if !matches!(write, Write::Direct(_)) {
            self.ask_for_remap(host, now);
        }
        write
    }

    /// What a look at an endpoint takes the host's processor.
    #[inline]
    pub(crate) fn look_span(&self, host: u32, endpoint: Endpoint) -> Time {
        let driver = &self.nodes[host as usize].driver;
        self.config.host.look_of(is_in_frame(driver, endpoint))
    }

    #[inline(always)]
    pub(crate) fn fly(&mut self, flight: Flight, at: Time) {
        if let Some(at) = self.links.send(flight, at) {
            self.arrives(flight, at);
        }
    }

    #[inline]
    pub(crate) fn release_buffer(&mut self, host: u32, now: Time) {
        if self.links.release(host) {
            let mut arrivals = core::mem::take(&mut self.arrivals);
            self.links.take_up(host, now, &mut arrivals);
            self.all_arrive(&mut arrivals);
            self.arrivals = arrivals;
        }
    }

    pub(crate) fn all_arrive(&mut self, arrivals: &mut Arrivals<Flight>) {
        while let Some((at, flight)) = arrivals.pop_front() {
            self.arrives(flight, at);
        }
    }

    /// A packet's tail will be there. A link carries one packet at a time, so this is called in the
    /// order of these times.
    #[inline(always)]
    fn arrives(&mut self, flight: Flight, at: Time) {
        if matches!(flight.load, Load::Foreign) {
            self.part_arrives(&flight, at);
            return;
        }
        let node = &mut self.nodes[flight.to as usize];
        if node.incoming.is_empty() {
            node.arrival_at = at;
        }
        node.incoming.push_back((at, flight));
        let at = at.max(node.busy_until);
        self.wake_firmware(flight.to, at);
    }

    #[cold]
    fn part_arrives(&mut self, flight: &Flight, at: Time) {
        let boot = self.nodes[flight.to as usize].boot;
        let bytes = flight.payload(self.config.network.header_bytes);
        self.queue
            .schedule(at, Event::PartCame(flight.to, bytes, boot));
    }

    /// Whether nothing but traffic of others has happened for long, and nothing else will.
    pub(crate) fn is_silent(&self) -> bool {
        self.has_sources && self.patient == 0 && self.queue.now() > self.last_own + SILENCE
    }

    /// Uses a host's bus for `bytes`; returns when that is over.
    pub(crate) fn use_bus(&mut self, host: u32, from: Time, bytes: u32, bytes_s: f64) -> Time {
        let node = &mut self.nodes[host as usize];
        let span = Time::from_seconds_f64(f64::from(bytes) / bytes_s);
        node.bus_free_at = from.max(node.bus_free_at) + span;
        node.bus_free_at
    }

    /// Has the interface's processor look for work at `at`, unless it will before.
    #[inline]
    pub(crate) fn wake_firmware(&mut self, host: u32, at: Time) {
        let node = &mut self.nodes[host as usize];
        if at < node.wake_at {
            node.wake_at = at;
            self.queue.wake(Wake::Firmware(host), at);
        }
    }

    /// Has it look at `at`, and not before: it is busy until then, or nothing is there for it.
    #[inline]
    pub(crate) fn wake_firmware_then(&mut self, host: u32, at: Time) {
        let node = &mut self.nodes[host as usize];
        if at != node.wake_at {
            node.wake_at = at;
            self.queue.wake(Wake::Firmware(host), at);
        }
    }

    pub(crate) fn cycles(&self, cycles: u32) -> Time {
        Time::from_picoseconds((u64::from(cycles) * self.cycle) >> 10)
    }

    pub(crate) fn tell_driver(&mut self, host: u32, word: Stamped<ToDriver>, at: Time) {
        let node = &mut self.nodes[host as usize];
        node.words_on_way_out.push_back(word);
        let at = at + self.config.host.interrupt;
        self.queue.schedule(at, Event::DriverHears(host));
    }

    pub(crate) fn note_use(&mut self, host: u32, endpoint: Endpoint) {
        if self.config.policy != Policy::Random {
            self.nodes[host as usize].driver.touch(endpoint);
        }
    }
}

/// What a stream of a host is keyed by: its number, and which of 2^16 that is.
pub(crate) const fn entity(number: u32, which: u16) -> u64 {
    let (upper, lower) = ((number >> 16) as u64, (number & 0xffff) as u64);
    upper << 32 | (which as u64) << 16 | lower
}

/// A host after a boot, by its number and its place.
pub(crate) fn node(config: &Config, (number, place): (u32, u32), boot: u8) -> Node {
    let stream = |purpose| {
        Stream::new(StreamKey {
            seed: config.seed,
            purpose,
            entity: entity(number, (boot - 1).into()),
        })
    };
    let mut residency = Residency::new(config.frames, config.policy, config.stall);
    if config.host.remap_period > Time::ZERO {
        residency.begin_round();
    }
    Node {
        number,
        // Who only has traffic of others has nobody to talk to.
        transport: config
            .transport
            .filter(|_| number < config.hosts)
            .map(|transport| {
                Transport::new(Peer::new(place), u32::from(boot), transport, stream(1))
            }),
        service: Service::new(config.frames, config.discipline),
        side: InterfaceSide::new(config.frames),
        driver: Driver::new(residency),
        driver_looks: false,
        driver_phase: Time::from_picoseconds(
            stream(4).below(config.host.remap_period.picoseconds().max(1)),
        ),
        incoming: VecDeque::new(),
        arrival_at: Time::MAX,
        words_in: VecDeque::new(),
        words_on_way_in: VecDeque::new(),
        words_on_way_out: VecDeque::new(),
        busy_until: Time::ZERO,
        wake_at: Time::MAX,
        deadline_at: Time::MAX,
        bus_free_at: Time::ZERO,
        reading: VecDeque::new(),
        frames: vec![FrameState::default(); usize::from(config.frames)],
        endpoints: Vec::new(),
        full: 0,
        host_busy_until: Time::ZERO,
        has_host_event: false,
        posting: VecDeque::new(),
        blocked: Vec::new(),
        program: Program::Nothing,
        looks: Time::ZERO,
        boot,
        is_down: false,
        is_mute: false,
        setup: None,
        random: stream(2),
    }
}

#[cfg(test)]
mod tests;
