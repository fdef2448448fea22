//! Traffic of others on the same links and buses: sources beside what a cluster runs.
//!
//! A source moves bytes from one host to another, or to any other, at drawn intervals. It uses
//! links and buses as a message does, and no processor or adapter: what runs on its hosts notices
//! the sharing alone.

use core::fmt;

use viaduct_engine::{Stream, StreamKey, Time};
use viaduct_network::fluid::FlowDemand;
use viaduct_network::{Frame, Landing, Next, Transfer};

use crate::cluster::{Cluster, class};
use crate::event::Event;
use crate::programs::Programs;
use crate::workload::{Interval, SizeDistribution};

/// The purpose of the sources' random streams.
const PURPOSE: u64 = 0x7aff;

/// A source of traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// From which host.
    pub source: u32,
    /// To which; to any other host, each time drawn anew, if not said.
    pub target: Option<u32>,
    /// Time between the starts of two transfers, however long the one before takes.
    pub interval: Interval,
    /// Bytes of a transfer.
    pub size: SizeDistribution,
    /// None starts before.
    pub from: Time,
    /// None starts at or after.
    pub until: Option<Time>,
}

/// A source that cannot be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BackgroundError {
    /// Its place in the list.
    pub place: usize,
    /// Why not.
    pub reason: String,
}

impl fmt::Display for BackgroundError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "background {}: {}", self.place, self.reason)
    }
}

impl core::error::Error for BackgroundError {}

/// The sources of a cluster, and what each draws next.
#[derive(Debug, Default)]
pub struct Sources {
    list: Vec<(Background, Stream)>,
    hosts: u32,
    /// So many of these, one after the other, are adapters of one machine.
    adapters: u32,
}

impl Sources {
    /// Sources among so many hosts; `seed` is that of their random streams.
    ///
    /// # Errors
    ///
    /// The first source that names a host that is not there, or sends to itself.
    pub fn new(list: &[Background], hosts: u32, seed: u64) -> Result<Self, BackgroundError> {
        Self::between(list, hosts, 1, seed)
    }

    /// As [`Sources::new`], where so many hosts, one after the other, are adapters of one machine:
    /// nothing goes between two of the same.
    ///
    /// # Errors
    ///
    /// As [`Sources::new`].
    pub fn between(
        list: &[Background],
        hosts: u32,
        adapters: u32,
        seed: u64,
    ) -> Result<Self, BackgroundError> {
        let adapters = adapters.max(1);
        let sources = list.iter().enumerate().map(|(place, source)| {
            let ends = [Some(source.source), source.target];
            let unknown = ends.into_iter().flatten().find(|host| *host >= hosts);
            let reason = match unknown {
                Some(host) => format!("no host {host}: hosts are 0 to {}", hosts - 1),
                None if source.target == Some(source.source) || hosts < 2 * adapters => {
                    format!("host {} sends to itself", source.source)
                }
                None if source.target.map(|it| it / adapters) == Some(source.source / adapters) => {
                    format!(
                        "hosts {} and {} are adapters of one host",
                        source.source,
                        source.target.unwrap_or_default()
                    )
                }
                None => {
                    let stream = Stream::new(StreamKey {
                        seed,
                        purpose: PURPOSE,
                        entity: place as u64,
                    });
                    return Ok((source.clone(), stream));
                }
            };
            Err(BackgroundError { place, reason })
        });
        Ok(Self {
            list: sources.collect::<Result<_, _>>()?,
            hosts,
            adapters,
        })
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// When each source that starts anything starts its first transfer, with its place.
    pub fn first(&mut self) -> Vec<(u32, Time)> {
        let firsts = (0..)
            .zip(&mut self.list)
            .filter_map(|(place, (source, stream))| {
                let first = source.from + source.interval.sample(stream);
                source.starts_at(first).then_some((place, first))
            });
        firsts.collect()
    }

    /// What a source transfers at `now`, tagged with `tag`, and when it starts its next transfer,
    /// if it does.
    pub fn draw(
        &mut self,
        place: u32,
        now: Time,
        frame: Frame,
        tag: u32,
    ) -> (Transfer, Option<Time>) {
        let (source, stream) = &mut self.list[place as usize];
        let target = source.target.unwrap_or_else(|| {
            let other = stream.below(u64::from(self.hosts - self.adapters)) as u32;
            let own = source.source - source.source % self.adapters;
            if other >= own {
                other + self.adapters
            } else {
                other
            }
        });
        let bytes = source.size.sample(stream);
        // Time must pass even where all intervals are zero.
        let next = now
            + source
                .interval
                .sample(stream)
                .max(Time::from_picoseconds(1));
        let wire_bytes = frame.wire_bytes(u64::from(bytes)) as f64;
        let transfer = Transfer {
            ends: (source.source, target),
            flow: 0,
            class: class::BACKGROUND,
            is_ordered: false,
            landing: Landing::Apart,
            demand: FlowDemand {
                wire_bytes,
                scale: match bytes {
                    0 => f64::INFINITY,
                    _ => wire_bytes / f64::from(bytes),
                },
                rate_max: f64::INFINITY,
                tag,
            },
        };
        (transfer, source.starts_at(next).then_some(next))
    }
}

impl Background {
    fn starts_at(&self, time: Time) -> bool {
        self.until.is_none_or(|until| time < until)
    }
}

impl<P: Programs> Cluster<P> {
    /// Another device on a host's bus begins a transfer.
    pub(crate) fn handle_device_transfer(&mut self, host: u32) {
        self.idle_events -= 1;
        let Some(load) = &self.config.hosts.bus_load else {
            return;
        };
        let now = self.queue.now();
        let stream = &mut self.device_streams[host as usize];
        let bytes = f64::from(load.size.sample(stream));
        let next = now + load.interval.sample(stream);
        let demand = FlowDemand {
            wire_bytes: bytes,
            scale: 1.0,
            rate_max: f64::INFINITY,
            tag: Self::DEVICE_TAG,
        };
        let flow = self.network.begin_on_bus(&mut self.queue, host, demand);
        self.follow_device(flow, host, bytes as u64);
        if next <= self.config.run.until {
            self.queue.schedule(next, Event::DeviceTransfer(host));
            self.idle_events += 1;
        }
    }

    /// The tag of flows of background traffic.
    pub(crate) const BACKGROUND_TAG: u32 = u32::MAX - 1;

    /// Schedules a source's next transfer.
    pub(crate) fn expect_transfer(&mut self, place: u32, time: Time) {
        self.expect(time, Event::Background(place));
    }

    /// A source starts a transfer.
    pub(crate) fn handle_background(&mut self, place: u32) {
        self.idle_events -= 1;
        let (now, frame) = (self.queue.now(), self.config.links.frame);
        let (transfer, next) = self.sources.draw(place, now, frame, Self::BACKGROUND_TAG);
        self.network.begin(&mut self.queue, &transfer);
        if let Some(next) = next.filter(|next| *next <= self.config.run.until) {
            self.expect_transfer(place, next);
        }
    }

    /// A transfer has moved, over its whole way or a hop of it.
    pub(crate) fn end_background(&mut self, next: Next) {
        match next {
            Next::Onward | Next::Head(_) => {}
            Next::There => self.transfers += 1,
            Next::AtSwitch(journey, after) | Next::AtAdapter(journey, after) => {
                let time = self.queue.now() + after;
                self.queue.schedule(time, Event::GoesOn(journey));
            }
        }
    }
}
