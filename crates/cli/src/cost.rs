//! What a run will take, predicted from its configuration.
//!
//! Time: each message costs a fixed part and a part for each link of its way. Memory: each host,
//! link and VI, and the rows kept for the tables. The constants are measured with the studies that
//! ship; on another machine, or above 60 % load, expect twice as much.

use viaduct_sim::config::{Arrivals, ClusterConfig};
use viaduct_sim::workload::{PatternError, Targets};
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
    /// VIs of all processes, at most.
    pub(crate) vis: u64,
}

/// A message through hosts and NICs.
const MESSAGE_NS: f64 = 420.0;
/// Each link on its way.
const LINK_NS: f64 = 45.0;
/// The program itself.
const PROGRAM_BYTES: f64 = 6e6;
/// A host with its NIC, bus and processes' queues.
const HOST_BYTES: f64 = 1_400.0;
/// A link.
const LINK_BYTES: f64 = 96.0;
/// A process with its queues.
const PROCESS_BYTES: f64 = 200.0;
/// A VI with its descriptors.
const VI_BYTES: f64 = 200.0;
/// A row of the message table.
const ROW_BYTES: f64 = 48.0;

impl Cost {
    /// Predicts one run.
    ///
    /// # Errors
    ///
    /// When the pattern does not fit the network.
    pub(crate) fn of(config: &ClusterConfig) -> Result<Self, PatternError> {
        let topology = &config.topology;
        let targets = Targets::new(&config.traffic.pattern, topology, config.run.seed)?;
        let hosts = f64::from(topology.host_count());
        let processes = f64::from(config.hosts.processes);
        let sending = f64::from(topology.host_count() - targets.silent_hosts()) * processes;
        let messages = expected_messages(config, sending);
        let way = Way::sample(config, &targets);
        let seconds = messages.map(|messages| messages * (MESSAGE_NS + way.links * LINK_NS) * 1e-9);
        // A connection is made with the first message, and has a VI at each end.
        let vis = 2.0 * (sending * way.targets).min(messages.unwrap_or(f64::INFINITY));
        let rows = messages
            .unwrap_or(f64::INFINITY)
            .min(f64::from(config.run.message_rows_max));
        let bytes = PROGRAM_BYTES
            + hosts * (HOST_BYTES + processes * PROCESS_BYTES)
            + f64::from(topology.link_count()) * LINK_BYTES
            + vis * VI_BYTES
            + rows * ROW_BYTES;
        Ok(Self {
            messages,
            seconds,
            bytes,
            vis: vis as u64,
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

/// Messages of an open loop, from its rate and times and the limit of the run.
fn expected_messages(config: &ClusterConfig, sending: f64) -> Option<f64> {
    let limit = config.run.messages_max.map(|limit| limit as f64);
    let Arrivals::Open(interval) = &config.traffic.arrivals else {
        return limit;
    };
    let stop = config.traffic.stop.min(config.run.until);
    let span = stop.saturating_sub(config.traffic.start).picoseconds() as f64;
    let posted = sending * span / interval.mean_picoseconds();
    Some(limit.map_or(posted, |limit| posted.min(limit)))
}

/// The way of a message, in the mean.
struct Way {
    links: f64,
    /// Hosts that a host sends to.
    targets: f64,
}

impl Way {
    /// Looks at some hosts and some of their targets, evenly: a prediction needs no more.
    fn sample(config: &ClusterConfig, targets: &Targets) -> Self {
        const SOURCES: u32 = 64;
        const TARGETS: usize = 16;
        let hosts = config.topology.host_count();
        let (mut links, mut ways, mut target_count, mut sources) = (0_u64, 0_u64, 0_u64, 0_u64);
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
            let are_all = possible == hosts - 1;
            let all = (0..hosts)
                .map(HostId)
                .filter(|target| are_all && *target != source);
            let some = targets.peers_of(source).filter(|_| !are_all);
            let stride = (possible as usize).div_ceil(TARGETS).max(1);
            for target in all.chain(some).step_by(stride).take(TARGETS) {
                links += u64::from(
                    config
                        .topology
                        .path_length(source, target)
                        .unwrap_or_default(),
                );
                ways += 1;
            }
        }
        let mean = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
        Self {
            links: mean(links, ways),
            targets: mean(target_count, sources),
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
