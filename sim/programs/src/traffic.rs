//! Traffic of others on the same links and buses: generators beside the programs.
//!
//! A generator moves bytes from one host to another, or to any other, at drawn intervals. It uses
//! links and buses as a message does, and no processor or adapter: its hosts' programs notice the
//! sharing alone.

use std::fmt;

use viaduct_cluster::workload::{Interval, SizeDistribution};
use viaduct_engine::{Stream, StreamKey, Time};
use viaduct_network::fluid::FlowDemand;
use viaduct_network::{Moved, Next, Transfer};

use crate::cluster::Cluster;
use crate::config::SimulationConfig;
use crate::event::Event;

/// What generators' flows are tagged with: no message has this number.
pub(crate) const TAG: u32 = u32::MAX;

/// The purpose of generators' random streams.
const TRAFFIC: u64 = 0x7aff;

/// A source of traffic.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// From which host.
    pub source: u32,
    /// To which; to any other host, each time drawn anew, if not said.
    pub target: Option<u32>,
    /// Time between the starts of two transfers, whatever became of the one before.
    pub interval: Interval,
    /// Bytes of a transfer.
    pub size: SizeDistribution,
    /// None starts before.
    pub from: Time,
    /// None starts at or after.
    pub until: Option<Time>,
}

/// A generator that cannot be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TrafficError {
    /// Its place in the list.
    pub place: usize,
    /// Why not.
    pub reason: String,
}

impl fmt::Display for TrafficError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "traffic {}: {}", self.place, self.reason)
    }
}

impl std::error::Error for TrafficError {}

impl SimulationConfig {
    /// Whether its generators can be.
    ///
    /// # Errors
    ///
    /// The first that names a host that is not there, or sends to itself.
    pub fn check_traffic(&self) -> Result<(), TrafficError> {
        let hosts = self.topology.host_count();
        for (place, traffic) in self.traffic.iter().enumerate() {
            let ends = [Some(traffic.source), traffic.target];
            let unknown = ends.into_iter().flatten().find(|host| *host >= hosts);
            let reason = match unknown {
                Some(host) => format!("no host {host}: hosts are 0 to {}", hosts - 1),
                None if traffic.target == Some(traffic.source) || hosts < 2 => {
                    format!("host {} sends to itself", traffic.source)
                }
                None => continue,
            };
            return Err(TrafficError { place, reason });
        }
        Ok(())
    }
}

/// The generators of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Generators {
    streams: Vec<Stream>,
    /// Events of theirs that are to come: the starts and ends of transfers.
    pub(crate) pending: usize,
}

impl Cluster {
    /// Schedules the first transfer of each generator.
    ///
    /// # Panics
    ///
    /// For a generator that cannot be.
    pub(crate) fn expect_traffic(&mut self) {
        if let Err(error) = self.config.check_traffic() {
            panic!("{error}");
        }
        for place in 0..self.config.traffic.len() {
            let mut stream = Stream::new(StreamKey {
                seed: self.config.seed,
                purpose: TRAFFIC,
                entity: place as u64,
            });
            let traffic = &self.config.traffic[place];
            let first = traffic.from + traffic.interval.sample(&mut stream);
            self.generators.streams.push(stream);
            self.expect_transfer(place, first);
        }
    }

    fn expect_transfer(&mut self, place: usize, time: Time) {
        let until = self.config.traffic[place].until;
        if until.is_none_or(|until| time < until) {
            self.generators.pending += 1;
            self.queue
                .schedule(time, Event::Transfers(place as u32).into());
        }
    }

    /// A generator starts a transfer.
    pub(crate) fn handle_transfer(&mut self, place: u32) {
        let place = place as usize;
        let hosts = self.hosts.len() as u64;
        let traffic = &self.config.traffic[place];
        let stream = &mut self.generators.streams[place];
        let target = traffic.target.unwrap_or_else(|| {
            let other = stream.below(hosts - 1) as u32;
            other + u32::from(other >= traffic.source)
        });
        let bytes = traffic.size.sample(stream);
        // A generator without intervals must let time pass all the same.
        let interval = traffic.interval.sample(stream);
        let next = self.queue.now() + interval.max(Time::from_picoseconds(1));
        let wire_bytes = self.config.links.frame.wire_bytes(u64::from(bytes)) as f64;
        let demand = FlowDemand {
            wire_bytes,
            scale: if bytes == 0 {
                f64::INFINITY
            } else {
                wire_bytes / f64::from(bytes)
            },
            rate_max: f64::INFINITY,
            tag: TAG,
        };
        let transfer = Transfer {
            ends: (traffic.source, target),
            flow: 0,
            is_ordered: false,
            demand,
        };
        self.network.begin(&mut self.queue, &transfer);
        // The event that has just happened made room for the transfer's end.
        self.expect_transfer(place, next);
    }

    /// A generator's transfer has moved, over its whole way or a hop of it.
    pub(crate) fn transfer_moved(&mut self, moved: &Moved) {
        match moved.next {
            Next::There => {
                self.generators.pending -= 1;
                self.counts.transfers += 1;
            }
            Next::AtSwitch(journey, after) | Next::AtAdapter(journey, after) => {
                self.forward_after(journey, after);
            }
        }
    }

    /// Whether nothing is to come but the traffic of generators.
    pub(crate) fn is_quiet(&self) -> bool {
        self.queue.pending() <= self.generators.pending
    }
}
