//! What a list of messages asks of links and hosts.

use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkId};

use crate::config::ClusterConfig;
use crate::workload::{
    ListedMessage, MessageList, MessageOperation, PatternError, SizeDistribution, Targets,
};

use super::shares::{ROUTE_STEPS_MAX, sampling_stream, spread};
use super::{
    BUS, Classes, EndCosts, Fullest, HostCosts, ListLoad, LoadBounds, Place, ServerLoad, base_load,
};

/// Picoseconds of work that messages give a server.
#[derive(Clone, Copy, Default)]
struct Work {
    all: f64,
    /// Of those that are posted while the run measures.
    measured: f64,
    /// Of those that are posted before the last moment.
    before_last: f64,
    /// How many those are.
    messages_before_last: f64,
}

/// How much of a message counts for which sum.
#[derive(Clone, Copy)]
struct Weight {
    is_measured: bool,
    is_before_last: bool,
    /// The messages that it stands for.
    messages: f64,
}

impl Work {
    /// Adds what a message takes.
    fn add(&mut self, time: f64, weight: Weight) {
        if time == 0.0 {
            return;
        }
        let time = time * weight.messages;
        self.all += time;
        if weight.is_measured {
            self.measured += time;
        }
        if weight.is_before_last {
            self.before_last += time;
            self.messages_before_last += weight.messages;
        }
    }
}

pub(super) fn load_bounds(
    config: &ClusterConfig,
    list: &MessageList,
) -> Result<LoadBounds, PatternError> {
    let topology = &*config.topology;
    // Whether there are routes at all.
    Targets::new(&config.traffic.pattern, &config.topology, config.run.seed)?;
    let hosts = topology.host_count() as usize;
    let traffic = &config.traffic;
    let end = traffic.stop.min(config.run.until);
    let posted = || {
        list.messages().filter_map(|message| {
            let time = traffic.start.saturating_add(message.time);
            (time < end).then_some((time, message))
        })
    };
    let (mut count, mut first, mut last) = (0_u64, Time::MAX, Time::ZERO);
    for (time, _) in posted() {
        (count, first, last) = (count + 1, first.min(time), last.max(time));
    }
    let span = last.saturating_sub(first).picoseconds() as f64;
    let weight_of = |time: Time| Weight {
        is_measured: time >= config.run.warmup,
        is_before_last: time < last,
        messages: 1.0,
    };

    // Hosts' own servers and links have every message, the links between switches a sample of them
    // if there are too many.
    let each = list.made_for().1.max(1);
    let mut costs = CostsBySize::new(config);
    let mut links = vec![Work::default(); topology.link_count() as usize];
    let mut servers = vec![[Work::default(); SERVERS.len()]; hosts];
    let mut vis = Vis::default();
    let mut longest_vi: Vec<Work> = vec![Work::default(); hosts];
    for (time, message) in posted() {
        let weight = weight_of(time);
        let (source, target) = (message.source / each, message.target / each);
        let host = costs.of(&message);
        for (end, times) in [(source, host.source), (target, host.target)] {
            let works = &mut servers[end as usize];
            for (work, time) in works.iter_mut().zip(in_order(times)) {
                work.add(time, weight);
            }
        }
        for (from, to, wire_bytes) in ways(source, target, &host) {
            let ends = [
                topology.host_up(HostId(from)),
                topology.host_down(HostId(to)),
            ];
            for link in ends {
                links[link.0 as usize].add(link_time(config, link, wire_bytes), weight);
            }
        }
        vis.add(&message, host.vi, weight, |process, longest| {
            let place = &mut longest_vi[(process / each) as usize];
            if longest.all > place.all {
                *place = longest;
            }
        });
    }
    vis.finish(|process, longest| {
        let place = &mut longest_vi[(process / each) as usize];
        if longest.all > place.all {
            *place = longest;
        }
    });
    let is_sampled = add_routes(config, count, posted(), weight_of, &mut links, &mut costs);

    let mut busiest = BusiestOfList::new(span);
    for (link, work) in (0..).map(LinkId).zip(&links) {
        busiest.offer(work, 0.0, Place::Link(link));
    }
    for (host, works) in (0..).map(HostId).zip(&servers) {
        for (name, work) in SERVERS.into_iter().zip(works) {
            busiest.offer(
                work,
                base_load(config, name, host.0),
                Place::Host(name, host),
            );
        }
    }
    for (host, work) in (0..).map(HostId).zip(&longest_vi) {
        busiest.offer(work, 0.0, Place::Host("a VI", host));
    }

    let alone = last_alone(config, posted(), &mut costs);
    let worked = first.saturating_add(busiest.longest());
    let end = alone.max(worked).min(config.run.until);
    let measured = end.saturating_sub(config.run.warmup).picoseconds();
    let measured = measured.max(1) as f64;
    let mut classes = Classes::default();
    for (link, work) in (0..).map(LinkId).zip(&links) {
        if work.all > 0.0 {
            classes.add(topology, link, work.measured / measured, 1);
        }
    }
    let mut loads = [ServerLoad::default(); SERVERS.len()];
    for (host, works) in (0..).zip(&servers) {
        for ((load, name), work) in loads.iter_mut().zip(SERVERS).zip(works) {
            let used = base_load(config, name, host) + work.measured / measured;
            load.mean += used / hosts as f64;
            load.max = load.max.max(used);
        }
    }
    let [processor, bus, nic_send, nic_receive] = loads;
    Ok(LoadBounds {
        classes: classes.into_means(topology),
        processor,
        bus,
        nic_send,
        nic_receive,
        saturation: None,
        is_sampled,
        list: busiest.into_load(config),
    })
}

/// When the last message has arrived if each is alone in the network. Which one that is, is told by
/// its time and size: the ways of two differ by little.
fn last_alone(
    config: &ClusterConfig,
    posted: impl Iterator<Item = (Time, ListedMessage)>,
    costs: &mut CostsBySize<'_>,
) -> Time {
    let mut last: Option<(f64, Time, ListedMessage)> = None;
    for (time, message) in posted {
        let host = costs.of(&message);
        let end = time.picoseconds() as f64 + host.vi;
        if last.is_none_or(|(latest, ..)| end > latest) {
            last = Some((end, time, message));
        }
    }
    let Some((_, time, message)) = last else {
        return Time::ZERO;
    };
    let ends = (message.source, message.target);
    time.saturating_add(config.floor_between(ends, message.bytes, message.operation))
}

/// Servers of a host, in the order of [`LoadBounds`].
const SERVERS: [&str; 4] = ["processor", BUS, "sending NIC", "receiving NIC"];

/// Times of a host's servers, in that order.
const fn in_order(costs: EndCosts) -> [f64; SERVERS.len()] {
    [
        costs.processor,
        costs.bus,
        costs.nic_send,
        costs.nic_receive,
    ]
}

/// Which ways a message takes from one end to the other, with its bytes on the links.
fn ways(source: u32, target: u32, costs: &HostCosts) -> impl Iterator<Item = (u32, u32, f64)> {
    let [there, back] = costs.wire_bytes;
    let ways = [(source, target, there), (target, source, back)];
    ways.into_iter().filter(|(.., bytes)| *bytes > 0.0)
}

fn link_time(config: &ClusterConfig, link: LinkId, wire_bytes: f64) -> f64 {
    wire_bytes / config.link_rate(link).bytes_per_picosecond()
}

/// What a message costs by its size, operation and hosts; lists mostly repeat those of the message
/// before.
struct CostsBySize<'config> {
    config: &'config ClusterConfig,
    last: Option<(CostKey, HostCosts)>,
}

/// Bytes, operation, and the groups of the two hosts.
type CostKey = (u32, MessageOperation, [usize; 2]);

impl<'config> CostsBySize<'config> {
    const fn new(config: &'config ClusterConfig) -> Self {
        Self { config, last: None }
    }

    fn of(&mut self, message: &ListedMessage) -> HostCosts {
        let (bytes, operation) = (message.bytes, message.operation);
        let hosts = self.config.hosts_of((message.source, message.target));
        let group = |host| self.config.host.group(host);
        let key = (bytes, operation, [group(hosts.0), group(hosts.1)]);
        match self.last {
            Some((known, costs)) if known == key => costs,
            _ => {
                let size = SizeDistribution::constant(bytes);
                let costs = HostCosts::new(self.config, self.config.pair(hosts), &size, operation);
                self.last = Some((key, costs));
                costs
            }
        }
    }
}

/// Finds, process by process, the VI with most work: each peer has one.
#[derive(Default)]
struct Vis {
    process: Option<u32>,
    /// Targets, times and weights of the process at hand.
    messages: Vec<(u32, f64, Weight)>,
}

impl Vis {
    /// Adds a message; those of one process come one after the other.
    fn add(
        &mut self,
        message: &ListedMessage,
        time: f64,
        weight: Weight,
        found: impl FnMut(u32, Work),
    ) {
        if self.process != Some(message.source) {
            self.finish(found);
            self.process = Some(message.source);
        }
        self.messages.push((message.target, time, weight));
    }

    /// Says what the VI of the process at hand that has most work has.
    fn finish(&mut self, mut found: impl FnMut(u32, Work)) {
        self.messages.sort_by_key(|&(target, ..)| target);
        let peers = self.messages.chunk_by(|one, next| one.0 == next.0);
        let works = peers.map(|messages| {
            let mut work = Work::default();
            for &(_, time, weight) in messages {
                work.add(time, weight);
            }
            work
        });
        let longest = works.max_by(|one, two| one.all.total_cmp(&two.all));
        if let (Some(process), Some(longest)) = (self.process, longest) {
            found(process, longest);
        }
        self.messages.clear();
    }
}

/// Adds what messages ask of the links between switches; returns whether only some were walked.
fn add_routes(
    config: &ClusterConfig,
    count: u64,
    posted: impl Iterator<Item = (Time, ListedMessage)>,
    weight_of: impl Fn(Time) -> Weight,
    links: &mut [Work],
    costs: &mut CostsBySize<'_>,
) -> bool {
    let topology = &*config.topology;
    let first_between = 2 * topology.host_count();
    let mut path: Vec<LinkId> = Vec::new();
    // One of each so many, which one is drawn: a list may repeat itself.
    let steps = count.saturating_mul(ROUTE_STEPS_EXPECTED);
    let one_of = steps.div_ceil(ROUTE_STEPS_MAX).max(1);
    let mut stream = sampling_stream();
    let mut taken = 0;
    for (index, (time, message)) in (0..).zip(posted) {
        let place = index % one_of;
        if place == 0 {
            taken = stream.below(one_of);
        }
        if place != taken {
            continue;
        }
        let host = costs.of(&message);
        let weight = Weight {
            messages: one_of as f64,
            ..weight_of(time)
        };
        for (from, to, wire_bytes) in ways(message.source, message.target, &host) {
            if topology.spreads_frames() {
                let (source, target) = config.flow_of(from, to).0;
                spread(
                    topology,
                    HostId(source),
                    HostId(target),
                    1.0,
                    &mut |link, part| {
                        let time = link_time(config, link, wire_bytes) * part;
                        links[link.0 as usize].add(time, weight);
                    },
                );
                continue;
            }
            path.clear();
            config.route(from, to, &mut path);
            for &link in &path {
                if link.0 >= first_between {
                    links[link.0 as usize].add(link_time(config, link, wire_bytes), weight);
                }
            }
        }
    }
    one_of > 1
}

/// Links of a route, for an estimate of the work of walking all of them.
const ROUTE_STEPS_EXPECTED: u64 = 8;

/// Looks for the server that is busy longest, and for the one that is fullest while messages are
/// posted.
struct BusiestOfList {
    span: f64,
    longest: Option<(f64, Place)>,
    fullest: Option<(f64, Place, f64)>,
}

impl BusiestOfList {
    const fn new(span: f64) -> Self {
        Self {
            span,
            longest: None,
            fullest: None,
        }
    }

    /// A server that is busy for a share `base` of the time without any message.
    fn offer(&mut self, work: &Work, base: f64, place: Place) {
        let time = work.all / (1.0 - base).max(f64::EPSILON);
        if time > 0.0 && self.longest.is_none_or(|(longest, _)| time > longest) {
            self.longest = Some((time, place));
        }
        if self.span > 0.0 {
            let load = base + work.before_last / self.span;
            if load > 0.0 && self.fullest.is_none_or(|(fullest, ..)| load > fullest) {
                let left_over = work.messages_before_last * (1.0 - 1.0 / load).max(0.0);
                self.fullest = Some((load, place, left_over));
            }
        }
    }

    /// How long the server is busy that has most to do.
    fn longest(&self) -> Time {
        let time = self.longest.map_or(0.0, |(time, _)| time);
        Time::from_picoseconds(time as u64)
    }

    fn into_load(self, config: &ClusterConfig) -> Option<ListLoad> {
        let topology = &*config.topology;
        let (work, place) = self.longest?;
        Some(ListLoad {
            span: Time::from_picoseconds(self.span as u64),
            work: Time::from_picoseconds(work as u64),
            place: place.name(topology),
            fullest: self.fullest.map(|(load, place, left_over)| Fullest {
                load,
                place: place.name(topology),
                left_over,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use viaduct_topology::LinkClass;

    use super::super::tests::{bounds, class, near, nic, study};
    use super::*;
    use crate::config::{Arrivals, BusLoad, TrafficConfig};
    use crate::path::floor_latency;
    use crate::workload::{Interval, Pattern};

    fn message(microseconds: u64, source: u32, target: u32, bytes: u32) -> ListedMessage {
        ListedMessage {
            time: Time::from_microseconds(microseconds),
            source,
            target,
            bytes,
            operation: MessageOperation::Send,
        }
    }

    /// What is due after so many milliseconds is posted, and nothing later.
    fn just_after(milliseconds: u64) -> Time {
        Time::from_milliseconds(milliseconds) + Time::from_picoseconds(1)
    }

    /// The study's network with a list in place of its traffic.
    fn listed(messages: &[ListedMessage]) -> ClusterConfig {
        let mut config = study();
        config.run.until = Time::from_milliseconds(100);
        let hosts = config.topology.host_count();
        let list = MessageList::new(messages, hosts, config.hosts.processes).unwrap();
        config.traffic = TrafficConfig::listed(Arc::new(list), Time::ZERO, Time::MAX);
        config
    }

    fn list_load(config: &ClusterConfig) -> ListLoad {
        bounds(config).list.unwrap()
    }

    #[test]
    fn a_list_of_what_a_rate_posts_loads_as_the_rate_does() {
        // Each host to the one eight hosts on, two switches away, ten times in 100 ms.
        let pairs: Vec<(u32, u32)> = (0..1024).map(|host| (host, (host + 8) % 1024)).collect();
        let of_host = |&(source, target): &(u32, u32)| {
            (0..10).map(move |k| message(10_000 * k, source, target, 32 << 10))
        };
        let messages: Vec<ListedMessage> = pairs.iter().flat_map(of_host).collect();
        let mut by_list = listed(&messages);
        // The run ends as the last round begins: ten of them in 90 ms.
        by_list.run.until = just_after(90);
        by_list.hosts.bus_load = Some(BusLoad {
            interval: Interval::exponential(1e9).unwrap(),
            size: SizeDistribution::constant(4096),
        });
        let mut by_rate = by_list.clone();
        by_rate.traffic.pattern = Pattern::Pairs(pairs);
        by_rate.traffic.arrivals = Arrivals::Open(Interval::constant(9e9).unwrap());
        let (list, rate) = (bounds(&by_list), bounds(&by_rate));
        assert!(list.saturation.is_none() && !list.is_sampled);
        for kind in [LinkClass::Mesh, LinkClass::HostUp, LinkClass::HostDown] {
            let (one, two) = (class(&list, kind), class(&rate, kind));
            assert!(near(one.mean, two.mean), "{kind:?}: {one:?}, not {two:?}");
            assert!(near(one.max, two.max), "{kind:?}: {one:?}, not {two:?}");
        }
        for (one, two) in [
            (list.processor, rate.processor),
            (list.bus, rate.bus),
            (list.nic_send, rate.nic_send),
            (list.nic_receive, rate.nic_receive),
        ] {
            assert!(
                near(one.mean, two.mean) && near(one.max, two.max),
                "{one:?}, {two:?}"
            );
        }
        // Eight messages a round cross the busiest link of those in the first dimension; the last
        // round begins when nothing is left of the nine before.
        let load = list.list.unwrap();
        assert_eq!(load.span, Time::from_milliseconds(90));
        let saturation = rate.saturation.unwrap();
        assert_eq!(load.place, saturation.place);
        let full = 10.0 / saturation.rate_per_s;
        assert!((load.work.seconds_f64() - full).abs() < 1e-11, "{load:?}");
        let fullest = load.fullest.unwrap();
        assert!(
            (fullest.load - full * 0.9 / 0.09).abs() < 1e-9,
            "{fullest:?}"
        );
    }

    #[test]
    fn messages_of_one_time_have_work_and_no_load() {
        // Five to one host: its link has 5 x 32,768 bytes at 107 MB/s.
        let burst: Vec<_> = (1..6)
            .map(|source| message(7, source, 0, 32 << 10))
            .collect();
        let load = list_load(&listed(&burst));
        let expected = 5.0 * 262_144.0 / 856e6;
        assert!(
            (load.work.seconds_f64() - expected).abs() < 1e-11,
            "{load:?}"
        );
        assert_eq!(load.place, "link s0-0 -> n0-0-0");
        assert_eq!((load.span, load.fullest), (Time::ZERO, None));
        // One more, later: the five are posted in 1 ms, and take 1.53.
        let late = [burst, vec![message(1007, 9, 0, 32 << 10)]].concat();
        let load = list_load(&listed(&late));
        assert_eq!(load.span, Time::from_milliseconds(1));
        let fullest = load.fullest.unwrap();
        assert!((fullest.load - expected / 1e-3).abs() < 1e-9, "{fullest:?}");
        assert!((fullest.left_over - 5.0 * (1.0 - 1e-3 / expected)).abs() < 1e-9);
        assert_eq!(fullest.place, "link s0-0 -> n0-0-0");
    }

    #[test]
    fn only_what_is_posted_counts_and_is_measured_from_the_warm_up() {
        let each_ms: Vec<_> = (0..10).map(|k| message(1000 * k, 1, 0, 107_000)).collect();
        let mut config = listed(&each_ms);
        config.traffic.stop = Time::from_milliseconds(8);
        config.run.warmup = Time::from_milliseconds(4);
        // 1 ms on a link each: eight are posted, four of them in the time that is measured.
        let alone = floor_latency(
            &config,
            HostId(1),
            HostId(0),
            107_000,
            MessageOperation::Send,
        );
        let last_arrives = 3e9 + alone.picoseconds() as f64;
        for (until, measured) in [(14, last_arrives), (8, 4e9)] {
            config.run.until = Time::from_milliseconds(until);
            let down = class(&bounds(&config), LinkClass::HostDown);
            let expected = 4e9 / measured;
            assert!(
                near(down.max, expected) && near(down.mean, expected / 1024.0),
                "{down:?}, not {expected}"
            );
        }
        let all = bounds(&config);
        let load = all.list.unwrap();
        let times = (load.span, load.work);
        assert_eq!(
            times,
            (Time::from_milliseconds(7), Time::from_milliseconds(8))
        );
        assert!(load.fullest.unwrap().load >= 1.0);
        config.traffic.stop = Time::from_picoseconds(1);
        config.traffic.start = Time::from_nanoseconds(1);
        assert_eq!(bounds(&config).list, None);
    }

    #[test]
    fn a_part_of_a_host_may_be_the_busiest() {
        // Empty messages: 13 us of the receiver's processor each.
        let empty: Vec<_> = (0..11)
            .map(|k| message(10 * k, 1 + k as u32, 0, 0))
            .collect();
        let mut config = listed(&empty);
        let load = list_load(&config);
        assert_eq!(load.place, "processor of n0-0-0");
        let costs = &config.host.common().processor;
        let (interrupt, wake_up) = (costs.interrupt, costs.wake_up);
        let each = (interrupt + wake_up + costs.reap + costs.post).seconds_f64();
        assert!((load.work.seconds_f64() - 11.0 * each).abs() < 1e-11);
        assert!((load.fullest.unwrap().load - 10.0 * each / 100e-6).abs() < 1e-9);
        // Small messages to one peer wait for each other in its VI.
        let to_one: Vec<_> = (0..5).map(|_| message(0, 1, 0, 64)).collect();
        config = listed(&to_one);
        nic(&mut config).rate = viaduct_hardware::Rate::from_bits_per_second(8e6);
        let load = list_load(&config);
        assert_eq!(load.place, "a VI of n0-0-1");
        assert_eq!(load.work, Time::from_microseconds(5 * 64));
    }

    #[test]
    fn long_lists_are_sampled_between_switches_and_exact_at_hosts() {
        // 1,048,576 messages, a round of all hosts each 10 ms, that repeat themselves.
        let messages: Vec<ListedMessage> = (0..1024)
            .flat_map(|k| {
                (0..1024).map(move |host| message(10_000 * k, host, (host + 8) % 1024, 1000))
            })
            .collect();
        let mut config = listed(&messages);
        config.run.until = just_after(10_230);
        let found = bounds(&config);
        assert!(found.is_sampled);
        let each = 1024.0 * 8_000.0 / 856e6 / 10.23;
        assert!(near(class(&found, LinkClass::HostUp).max, each));
        let mesh = class(&found, LinkClass::Mesh);
        // Two links between switches a message, three from a row's end, and as many links as hosts.
        let expected = 2.125 * each;
        assert!(
            (mesh.mean / expected - 1.0).abs() < 0.01,
            "{mesh:?}, not {expected}"
        );
    }
}
