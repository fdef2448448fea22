//! What a run will take, predicted from its configuration.
//!
//! Time: each message costs a fixed part and a part for each link of its way, or for each of its
//! frames or flits on each link where a level computes those, and each VI its setting up. Memory:
//! each host, link, process, VI and pre-posted descriptor, the rows kept for the tables, and what a
//! network keeps for each flow. The constants were fitted to torus-1024 with 8, 64 and 256
//! descriptors and 1 and 4 hops, to two-hosts, to 256 hosts that all send to all, and to
//! torus-million, on one core of a shared 2-core machine of 2026; those of frames and flits to
//! messages of 64 KiB over 4 x 4 switches at 17 % load, in frames of 256 bytes to 4 KiB and flits
//! of 16 and 64 bytes. On another machine, or above 60 % load, expect a factor of two.

use viaduct_cluster::config::{Arrivals, ClusterConfig, TrafficConfig};
use viaduct_cluster::workload::{Pattern, PatternError, Targets};
use viaduct_cluster::{RECEIVES_AT_FIRST, connections_kept};
use viaduct_network::{FlowControl, Sharing};
use viaduct_topology::HostId;

/// What runs take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Messages that will be posted; unknown for closed loops.
    pub(crate) messages: Option<f64>,
    /// Wall clock on one core, if the messages are known.
    pub(crate) seconds: Option<f64>,
    /// Memory of one run.
    pub(crate) bytes: f64,
    /// VIs that all processes make, at most.
    pub(crate) vis: u64,
    /// Whether more is offered than the network carries: then it takes longer.
    pub(crate) queues_grow: bool,
}

/// A message through hosts and NICs.
const MESSAGE_NS: f64 = 750.0;
/// Each link on its way.
const LINK_NS: f64 = 30.0;
/// A frame on a link, at level packets.
const FRAME_LINK_NS: f64 = 150.0;
/// The same at level credits.
const CREDIT_FRAME_LINK_NS: f64 = 200.0;
/// A flit on a link, where each waits for room by itself.
const FLIT_LINK_NS: f64 = 160.0;
/// Setting up a VI and its pre-posted descriptors.
const VI_NS: f64 = 3_000.0;
/// The program itself.
const PROGRAM_BYTES: f64 = 8e6;
/// A host with its NIC and bus.
const HOST_BYTES: f64 = 450.0;
/// A link.
const LINK_BYTES: f64 = 90.0;
/// A process that sends, with its queues and the index of its connections.
const PROCESS_BYTES: f64 = 900.0;
/// A VI.
const VI_BYTES: f64 = 300.0;
/// Each of its pre-posted descriptors.
const DESCRIPTOR_BYTES: f64 = 28.0;
/// A row of the message table.
const ROW_BYTES: f64 = 72.0;

impl Cost {
    /// Predicts one run.
    ///
    /// # Errors
    ///
    /// When the pattern does not fit the network.
    pub(crate) fn of(config: &ClusterConfig) -> Result<Self, PatternError> {
        let topology = &config.topology;
        // A graph of operations is taken to send anywhere.
        let pattern = match config.traffic.application() {
            Some(_) => &Pattern::Uniform,
            None => &config.traffic.pattern,
        };
        let adapters = config.hosts.adapters.count;
        let is_alone = config.traffic.application().is_some() && config.host_count() < 2;
        // Ranks of one host send nothing over a network.
        let targets = match is_alone {
            true => None,
            false => Some(Targets::between(
                pattern,
                topology,
                adapters,
                config.run.seed,
            )?),
        };
        let hosts = f64::from(topology.host_count());
        let processes = f64::from(config.hosts.processes);
        let sending = targets.as_ref().map_or(0.0, |targets| {
            f64::from(config.host_count() - targets.silent_hosts()) * processes
        });
        let messages = expected_messages(config, sending);
        let way = targets.map_or(Way::NONE, |targets| Way::sample(config, &targets));
        // A connection is made with the first message either way, and has a VI at each end.
        let connected = |count: f64| count.min(messages.unwrap_or(f64::INFINITY));
        let vis = 2.0 * connected(sending * way.targets * (1.0 - way.answered / 2.0));
        let seconds = messages.map(|messages| {
            (messages * (MESSAGE_NS + way.links * link_ns(config)) + vis * VI_NS) * 1e-9
        });
        // Beyond the first, a VI posts those that it needs.
        let receives = f64::from(config.hosts.prepost.min(RECEIVES_AT_FIRST));
        // Of more connections the idle ones are given back.
        let kept = connections_kept(topology.host_count() * config.hosts.processes);
        let vis_held = vis.min(2.0 * f64::from(kept));
        let flows = connected(sending * way.targets);
        let rows = connected(f64::from(config.run.message_rows_max));
        let bytes = PROGRAM_BYTES
            + hosts * HOST_BYTES
            + connected(sending) * PROCESS_BYTES
            + f64::from(topology.link_count()) * LINK_BYTES
            + flows * config.links.buffers.flow_bytes() as f64
            + vis_held * (VI_BYTES + receives * DESCRIPTOR_BYTES)
            + rows * ROW_BYTES;
        Ok(Self {
            messages,
            seconds,
            bytes,
            vis: vis as u64,
            queues_grow: false,
        })
    }

    /// The same for several seeds, one after the other.
    pub(crate) fn times(self, runs: usize) -> Self {
        let runs = runs as f64;
        Self {
            messages: self.messages.map(|messages| messages * runs),
            seconds: self.seconds.map(|seconds| seconds * runs),
            ..self
        }
    }
}

/// Messages of an open loop, from its rate or list, its times and the limit of the run.
fn expected_messages(config: &ClusterConfig, sending: f64) -> Option<f64> {
    let limit = config.run.messages_max.map(|limit| limit as f64);
    let stop = config.traffic.stop.min(config.run.until);
    let span = stop.saturating_sub(config.traffic.start);
    let posted = match &config.traffic.arrivals {
        Arrivals::Open(interval) => {
            sending * span.picoseconds() as f64 / interval.mean_picoseconds()
        }
        Arrivals::Listed(list) => list.count_before(span) as f64,
        Arrivals::Application(application) => application.messages() as f64,
        Arrivals::PingPong | Arrivals::Window(_) => return limit,
    };
    Some(limit.map_or(posted, |limit| posted.min(limit)))
}

/// What a link on the way of a message costs.
fn link_ns(config: &ClusterConfig) -> f64 {
    let (links, bytes) = (&config.links, mean_bytes(&config.traffic));
    let frames = links.frame.count(bytes) as f64;
    match (links.sharing, links.credits.flow_control) {
        (Sharing::Fluid | Sharing::MaxMin | Sharing::Queues, _) => LINK_NS,
        (Sharing::Packets, _) => frames * FRAME_LINK_NS,
        (Sharing::Credits, FlowControl::VirtualCutThrough) => frames * CREDIT_FRAME_LINK_NS,
        (Sharing::Credits, FlowControl::Wormhole) => {
            let flits = links.frame.wire_bytes(bytes) as f64 / f64::from(links.credits.flit_bytes);
            flits.max(frames) * FLIT_LINK_NS
        }
    }
}

/// Bytes of a message, on average.
fn mean_bytes(traffic: &TrafficConfig) -> u64 {
    let mean = match &traffic.arrivals {
        Arrivals::Listed(list) => {
            let sum: f64 = list.messages().map(|it| f64::from(it.bytes)).sum();
            sum / list.len().max(1) as f64
        }
        Arrivals::Application(application) => application
            .graph()
            .message_bytes()
            .map_or(0.0, |(.., mean)| mean),
        Arrivals::Open(_) | Arrivals::PingPong | Arrivals::Window(_) => traffic.size.mean_bytes(),
    };
    mean as u64
}

/// The way of a message, on average.
struct Way {
    links: f64,
    /// Hosts that a host sends to.
    targets: f64,
    /// The part of them that send to it, too.
    answered: f64,
}

impl Way {
    const NONE: Self = Self {
        links: 0.0,
        targets: 0.0,
        answered: 0.0,
    };

    /// Looks at some hosts and some of their targets, evenly: a prediction needs no more.
    fn sample(config: &ClusterConfig, targets: &Targets) -> Self {
        const SOURCES: u32 = 64;
        const TARGETS: usize = 16;
        let (hosts, adapters) = (config.host_count(), config.hosts.adapters.count);
        // By their first adapters: the others are near.
        let place = |host: HostId| HostId(host.0 * adapters);
        let [
            mut links,
            mut ways,
            mut answered,
            mut target_count,
            mut sources,
        ] = [0_u64; 5];
        for source in (0..hosts)
            .step_by(hosts.div_ceil(SOURCES).max(1) as usize)
            .map(HostId)
        {
            let possible = targets.possible_targets(source);
            if possible == 0 {
                continue;
            }
            sources += 1;
            target_count += u64::from(possible);
            // Where all others are targets they are not listed.
            let sends_to_all = |host: HostId| targets.possible_targets(host) == hosts - 1;
            let are_all = sends_to_all(source);
            let stride = (possible as usize).div_ceil(TARGETS).max(1);
            let others = if are_all { hosts - 1 } else { 0 };
            let all = (0..others)
                .step_by(stride)
                .map(|rank| HostId(rank + u32::from(rank >= source.0)));
            let peers = targets.peers_of(source).filter(|_| !are_all);
            for target in all.chain(peers.step_by(stride)).take(TARGETS) {
                links += u64::from(
                    config
                        .topology
                        .path_length(place(source), place(target))
                        .unwrap_or_default(),
                );
                ways += 1;
                let mut peers = targets.peers_of(target);
                let is_answered = sends_to_all(target) || peers.any(|peer| peer == source);
                answered += u64::from(is_answered);
            }
        }
        let mean = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
        Self {
            links: mean(links, ways),
            targets: mean(target_count, sources),
            answered: mean(answered, ways),
        }
    }
}

/// Bytes for people: `12 MB`.
pub(crate) fn bytes_text(bytes: f64) -> String {
    match bytes {
        large if large >= 1e9 => format!("{:.1} GB", large / 1e9),
        middle if middle >= 1e6 => format!("{:.0} MB", middle / 1e6),
        small => format!("{:.0} kB", small / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use viaduct_scenario::{Override, Study};

    use super::*;

    fn cost(study: &str, settings: &[&str]) -> Cost {
        let overrides: Vec<Override> = settings.iter().map(|text| Override::fixed(*text)).collect();
        Cost::of(&Study::load(study, &overrides).unwrap().config).unwrap()
    }

    #[test]
    fn memory_does_not_grow_with_the_pairs_that_ever_talk() {
        let pairs = |until| {
            let dimensions = "network.dimensions=[32, 32]";
            cost(
                "torus-1024",
                &[r#"traffic.pattern="uniform""#, dimensions, until],
            )
        };
        let (brief, long) = (pairs(r#"run.until="2 s""#), pairs(r#"run.until="10 s""#));
        assert!(long.vis > 10 * brief.vis, "{brief:?} {long:?}");
        assert!(long.bytes < 1.1 * brief.bytes, "{brief:?} {long:?}");
    }

    #[test]
    fn ranks_of_one_host_have_no_network_to_cost_anything() {
        let program = "[network]\ntopology = \"switch\"\nhosts = 2\n[links]\nrate = \"1 Gbit/s\"\n\
             [hosts]\nadapters = 2\nbuses = \"own\"\n[traffic]\narrivals = \"program\"\n\
             program = \"nas-lu\"\nclass = \"S\"\noperations_per_second = 1e9\n";
        let study = viaduct_scenario::parse_study(program).unwrap();
        let cost = Cost::of(&study.config).unwrap();
        assert_eq!((cost.messages, cost.vis), (Some(0.0), 0));
    }

    #[test]
    fn windows_are_kept_for_all_flows_that_ever_sent() {
        let uniform = |control: &str| {
            let level = [
                "links.model=packets",
                "links.frame_payload=4 KiB",
                "links.ecn_low=64 KiB",
            ];
            let traffic = ["traffic.pattern=uniform", "traffic.rate=10000/s", control];
            cost("torus-1024", &[&level[..], &traffic].concat()).bytes
        };
        let [without, with] =
            ["none", "nscc"].map(|control| uniform(&format!("links.congestion_control={control}")));
        // Each host sends to each other.
        let flows = 1024.0 * 1023.0;
        assert!(
            (with - without - flows * 160.0).abs() < 1.0,
            "{with} {without}"
        );
    }

    #[test]
    fn messages_and_vis_of_the_study_are_known() {
        let study = cost("torus-1024", &[]);
        assert!(
            (study.messages.unwrap() - 870_400.0).abs() < 1.0,
            "{study:?}"
        );
        // Each host sends to four, which send to it: over the same VIs.
        assert_eq!(study.vis, 1024 * 4);
        let all = ["traffic.pattern=uniform", "traffic.rate=10000/s"];
        assert_eq!(cost("torus-1024", &all).vis, 1024 * 1023);
        let one_way = ["traffic.pattern=incast", "traffic.target=0"];
        assert_eq!(cost("torus-1024", &one_way).vis, 2 * 1023);
    }

    /// 64 KiB in frames of 1 KiB, over some 4 links: on an idle machine of 2026 such a message took
    /// 4 us of wall clock at level queues, 44 at packets, 59 at credits, and 714 in flits of 64
    /// bytes.
    #[test]
    fn frames_and_flits_cost_where_a_level_has_them() {
        let taken = |level: &[&str]| {
            let study = [
                "network.dimensions=[4, 4]",
                "links.frame_payload=1 KiB",
                "links.frame_header=32 B",
                "traffic.pattern=uniform",
                "traffic.rate=2000/s",
                "traffic.size=64 KiB",
                "hosts.nic=rnic-gen5",
                "network.hosts_per_switch=2",
                "run.warmup=0 s",
                "run.until=20 ms",
            ];
            let cost = cost("torus-1024", &[&study[..], level].concat());
            cost.seconds.unwrap() * 1e6 / cost.messages.unwrap()
        };
        for (level, us) in [
            (&["links.model=queues"][..], 4.0),
            (&["links.model=packets"], 44.0),
            (&["links.model=credits"], 59.0),
            (
                &["links.model=credits", "links.flow_control=wormhole"],
                714.0,
            ),
        ] {
            let taken = taken(level);
            assert!(taken > us / 4.0 && taken < us * 2.0, "{level:?}: {taken}");
        }
    }

    #[test]
    fn no_more_vis_are_made_than_messages_need() {
        let few = cost(
            "torus-1024",
            &["traffic.pattern=uniform", "run.messages_max=100"],
        );
        assert_eq!(few.messages, Some(100.0));
        assert_eq!(few.vis, 200);
    }

    #[test]
    fn more_of_anything_costs_more() {
        let base = cost("torus-1024", &[]);
        let load = cost("torus-1024", &["traffic.rate=200"]);
        assert!(load.seconds > base.seconds);
        let descriptors = cost("torus-1024", &["hosts.prepost=1"]);
        assert!(descriptors.bytes < base.bytes);
        let hosts = cost("torus-1024", &["network.dimensions=[32, 32]"]);
        assert!(hosts.seconds > base.seconds && hosts.bytes > base.bytes);
    }
}
