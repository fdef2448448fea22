//! What is to be measured, and how.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use viaduct_provider::Memory;
use viaduct_provider::via::ReliabilityLevel;

/// Which program runs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Test {
    /// A message to and fro: half the round trip.
    Latency,
    /// Messages in windows one way: bytes a second.
    Bandwidth,
    /// Small messages in windows of 64 one way: messages a second.
    Rate,
    /// Many connections with one request each into one completion queue.
    Cq,
}

impl Test {
    /// Its name, as on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Rate => "rate",
            Self::Cq => "cq",
        }
    }

    /// What it does, in a line.
    #[must_use]
    pub const fn purpose(self) -> &'static str {
        match self {
            Self::Latency => "half a round trip, post of the send to its receive being done",
            Self::Bandwidth => "messages one way, two windows on the way",
            Self::Rate => "small messages one way, two windows of 64 on the way",
            Self::Cq => "requests of 32 bytes, one a connection, into one completion queue",
        }
    }

    /// The one value that says most of a row, with its unit: see [`Row::figure`](crate::Row).
    pub(crate) const fn figure(self) -> &'static str {
        match self {
            Self::Latency => "median us",
            Self::Bandwidth => "MB/s",
            Self::Rate => "messages/s",
            Self::Cq => "requests/s",
        }
    }
}

/// How a side waits.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It looks again and again.
    #[default]
    Poll,
    /// It lets the fabric put it to sleep.
    Block,
}

impl Mode {
    /// Its name, as on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Block => "block",
        }
    }
}

/// How a fabric is to move the bytes of messages; a fabric may know fewer ways.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transfer {
    /// As the fabric sees fit for each message.
    #[default]
    Auto,
    /// In the slot that tells of the message.
    Inline,
    /// Through a pool of memory that both sides map.
    Pool,
    /// Straight into the posted receive buffer.
    Direct,
    /// By one copy between private memories.
    Copy,
}

impl Transfer {
    /// Every way.
    pub const ALL: [Self; 5] = [
        Self::Auto,
        Self::Inline,
        Self::Pool,
        Self::Direct,
        Self::Copy,
    ];

    /// Its name, as on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Inline => "inline",
            Self::Pool => "pool",
            Self::Direct => "direct",
            Self::Copy => "copy",
        }
    }
}

impl fmt::Display for Transfer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Transfer {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|transfer| transfer.name() == name)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                format!("no way of transfer is called `{name}`: {names}")
            })
    }
}

/// What only some fabrics can be told. Whoever knows the fabric implements it.
pub trait Tuning {
    /// Chooses how the bytes of messages move, before a NIC is opened.
    ///
    /// # Errors
    ///
    /// What to say to the user when the fabric does not know this way.
    fn set_transfer(&self, transfer: Transfer) -> Result<(), String>;
}

/// What is to be measured, and how. The other side needs none of it but the level.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub test: Test,
    /// Bytes of a message, one row each; not for [`Test::Cq`], whose requests have 32.
    pub sizes: Vec<u32>,
    /// Connections, one row each; only for [`Test::Cq`].
    pub connections: Vec<u32>,
    /// Requests a second that all connections together offer, one row each for every number of
    /// connections; only for [`Test::Cq`], and if empty, as many as are answered.
    pub loads_requests_s: Vec<u32>,
    /// How both sides wait.
    pub mode: Mode,
    /// The connections' level.
    pub level: ReliabilityLevel,
    /// Whether the sender writes and the receiver reads every byte of a message.
    pub is_touched: bool,
    /// Where messages lie.
    pub memory: Memory,
    /// Round trips or messages in each row; if not said, as many as fill a third of a second.
    pub iterations: Option<u64>,
    /// Whether a row says what the initiator's NIC counted while it was timed.
    pub is_counted: bool,
    /// Which of the hosts that ask this one is; only for [`Test::Cq`] there are several.
    pub asker: Asker,
}

/// One of several hosts that ask the same one, each over its part of the connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Asker {
    /// Its number, from 0.
    pub number: u32,
    /// How many they are, at least one.
    pub of: u32,
}

impl Asker {
    /// The only one.
    pub const ONE: Self = Self { number: 0, of: 1 };

    /// Of so many connections or requests, those that are this host's.
    pub(crate) fn part_of(self, all: u64) -> u64 {
        let of = u64::from(self.of.max(1));
        all / of + u64::from(u64::from(self.number) < all % of)
    }
}

impl Plan {
    /// What each row is about: bytes or connections, and the offered load if there is one.
    #[must_use]
    pub fn rows(&self) -> Vec<(u32, Option<u32>)> {
        let plain = |values: &[u32]| values.iter().map(|value| (*value, None)).collect();
        match self.test {
            Test::Latency | Test::Bandwidth | Test::Rate => plain(&self.sizes),
            Test::Cq if self.loads_requests_s.is_empty() => plain(&self.connections),
            Test::Cq => {
                let loads = self.loads_requests_s.iter();
                let of = |count: u32| loads.clone().map(move |load| (count, Some(*load)));
                self.connections.iter().copied().flat_map(of).collect()
            }
        }
    }

    /// A plan with the usual rows and settings of a test.
    #[must_use]
    pub fn usual(test: Test) -> Self {
        let sizes: &[u32] = match test {
            Test::Latency => &[
                0, 8, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576,
            ],
            Test::Bandwidth => &[
                64, 256, 1024, 4096, 16_384, 32_768, 65_536, 262_144, 1_048_576, 4_194_304,
            ],
            Test::Rate => &[8],
            Test::Cq => &[],
        };
        let connections: &[u32] = match test {
            Test::Cq => &[1, 16, 64, 256, 1024],
            _ => &[],
        };
        Self {
            test,
            sizes: sizes.to_vec(),
            connections: connections.to_vec(),
            loads_requests_s: Vec::new(),
            mode: Mode::Poll,
            level: ReliabilityLevel::ReliableDelivery,
            is_touched: false,
            memory: Memory::Shared,
            iterations: None,
            is_counted: false,
            asker: Asker::ONE,
        }
    }
}

/// A level's name on the command line and in results.
pub(crate) const fn level_name(level: ReliabilityLevel) -> &'static str {
    match level {
        ReliabilityLevel::Unreliable => "ud",
        ReliabilityLevel::ReliableDelivery => "rd",
        ReliabilityLevel::ReliableReception => "rr",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_all_askers_are_the_whole() {
        for (all, of) in [(1, 1), (64, 4), (67, 4), (3, 3), (2, 5)] {
            let parts = (0..of).map(|number| Asker { number, of }.part_of(all));
            let parts: Vec<u64> = parts.collect();
            assert_eq!(parts.iter().sum::<u64>(), all, "{all} in {of}");
            assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn ways_of_transfer_are_found_by_name() {
        for transfer in Transfer::ALL {
            assert_eq!(transfer.name().parse(), Ok(transfer));
        }
        let error = "pipe".parse::<Transfer>().unwrap_err();
        assert!(
            error.contains("auto, inline, pool, direct, copy"),
            "{error}"
        );
    }
}
