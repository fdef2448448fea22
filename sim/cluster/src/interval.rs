//! Whether a run was long enough for an interval around its mean latency.
//!
//! Samples alone cannot tell: a queue that a short run never filled looks like one that never
//! fills, and the delays in a hundred queues look independent of each other though each of them
//! remembers. What was configured tells how long a queue remembers and how rare large messages
//! are, without any luck of the run in it.

use viaduct_engine::Time;
use viaduct_statistics::{NoInterval, SAMPLES_FOR_INTERVAL};

use crate::bounds::load_bounds;
use crate::config::{Arrivals, ClusterConfig};
use crate::result::SteadyState;

/// Why the mean of a run has no confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TooShort {
    /// So many messages were measured, fewer than [`SAMPLES_FOR_INTERVAL`].
    Messages(u64),
    /// Neighbouring messages depend on each other for too large a part of the run.
    Correlated,
    /// The run was not steady.
    NotSteady,
    /// More is offered than can be served, so that there is no mean to be near.
    Overload,
    /// Queues remember for long beside what was measured.
    Span {
        /// From the warm-up to the end of traffic.
        measured: Time,
        /// How long it must be.
        needed: Time,
    },
    /// Large messages, which decide over the mean, are too rare.
    Sizes {
        /// Messages measured.
        measured: u64,
        /// How many there must be.
        needed: u64,
    },
}

impl core::fmt::Display for TooShort {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.write_str("too short for an interval: ")?;
        match *self {
            Self::Messages(measured) => write!(
                out,
                "{measured} messages were measured, {SAMPLES_FOR_INTERVAL} are the fewest"
            ),
            Self::Correlated => {
                out.write_str("messages depend on those of a fiftieth of the run before, and more")
            }
            Self::NotSteady => out.write_str("latency had not settled"),
            Self::Overload => out.write_str("more is offered than can be served"),
            Self::Span { measured, needed } => write!(
                out,
                "{measured} were measured, and queues at this load need {needed} to forget how \
                 they began"
            ),
            Self::Sizes { measured, needed } => write!(
                out,
                "{measured} messages were measured, and the large ones, which decide over the \
                 mean, are so rare that {needed} are needed"
            ),
        }
    }
}

impl TooShort {
    /// Whether nothing else that a run says tells the same.
    pub(crate) fn is_news(&self) -> bool {
        !matches!(self, Self::Messages(_) | Self::NotSteady)
    }

    /// What to do about it.
    pub(crate) fn help(&self, config: &ClusterConfig) -> String {
        match *self {
            Self::Overload => "lower the load".to_owned(),
            Self::Span { needed, .. } => format!(
                "set `run.until` to {} or later",
                config.run.warmup.max(config.traffic.start) + needed
            ),
            _ => "set `run.until` later".to_owned(),
        }
    }
}

/// What is known of a run's latencies when it has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) messages: u64,
    /// From the warm-up to the end of traffic.
    pub(crate) span: Time,
    pub(crate) mean_us: f64,
    /// Of the messages' floors.
    pub(crate) floor_us: f64,
    /// By the samples alone.
    pub(crate) half_width: Result<f64, NoInterval>,
}

/// Half the width of the mean's interval, or why there is none.
pub(crate) fn half_width(
    config: &ClusterConfig,
    steady: SteadyState,
    measured: Measured,
) -> Result<f64, TooShort> {
    match measured.half_width {
        Err(NoInterval::FewSamples) => return Err(TooShort::Messages(measured.messages)),
        Ok(0.0) => return Ok(0.0),
        _ => {}
    }
    if let SteadyState::Transient { .. } | SteadyState::Drifting { .. } = steady {
        return Err(TooShort::NotSteady);
    }
    if !matches!(config.traffic.arrivals, Arrivals::Listed(_)) {
        let needed = (SIZES * config.traffic.size.squares_kurtosis()).ceil() as u64;
        if measured.messages < needed {
            return Err(TooShort::Sizes {
                measured: measured.messages,
                needed,
            });
        }
    }
    let needed_us = RELAXATIONS * relaxation_us(config, measured)?;
    if measured.span.microseconds_f64() < needed_us {
        return Err(TooShort::Span {
            measured: measured.span,
            needed: rounded_up(needed_us),
        });
    }
    measured.half_width.map_err(|_| TooShort::Correlated)
}

/// How long the queues remember, microseconds: the relaxation time s / (1 - sqrt(load))^2 of a
/// queue with Poisson arrivals and exponential service (Cohen 1969), with the unloaded message's
/// latency in the place of the service s, which is not longer. The load is that of the busiest
/// server. Where it is not known (lists), it is the one at which such a queue would make messages
/// as slow as they were; a closed loop cannot build up more than is under way, and forgets with
/// each round.
fn relaxation_us(config: &ClusterConfig, measured: Measured) -> Result<f64, TooShort> {
    let Measured {
        mean_us, floor_us, ..
    } = measured;
    let load = match &config.traffic.arrivals {
        Arrivals::PingPong | Arrivals::Window(_) | Arrivals::Application(_) => return Ok(mean_us),
        Arrivals::Listed(_) => (1.0 - floor_us / mean_us).max(0.0),
        Arrivals::Open(interval) => {
            let bounds = load_bounds(config).ok().flatten();
            let rate_per_s = 1e12 / interval.mean_picoseconds();
            bounds
                .and_then(|bounds| bounds.saturation)
                .map_or(0.0, |full| rate_per_s / full.rate_per_s)
        }
    };
    if load >= 1.0 {
        return Err(TooShort::Overload);
    }
    let left = 1.0 - load.sqrt();
    Ok(floor_us / (left * left))
}

/// To two digits, so that what a message says is enough.
fn rounded_up(microseconds: f64) -> Time {
    let picoseconds = (microseconds * 1e6).ceil() as u64;
    let mut unit = 1;
    while picoseconds / unit >= 100 {
        unit *= 10;
    }
    Time::from_picoseconds(picoseconds.div_ceil(unit) * unit)
}

/// A run must be as long as this many relaxation times of its queues. With 50, 89 % of intervals
/// held the mean of M/M/1 at a load of 0.95; with 100 it is above 92 % at every load that the
/// tests try.
const RELAXATIONS: f64 = 100.0;

/// The squares of the sizes, on which waiting depends, must be known to a third: with so many
/// messages times E[size^4] / E[size^2]^2.
const SIZES: f64 = 10.0;
