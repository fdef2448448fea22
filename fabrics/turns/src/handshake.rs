//! How a process becomes a client: one packet each way over a Unix socket.

use std::ffi::OsStr;

use crate::hosts::HostAddresses;

/// Names the coordinator's socket to its clients.
pub const SOCKET_VARIABLE: &str = "VIADUCT_SIMULATION";
/// Says which host a client is on; without it a launcher's rank does.
pub const HOST_VARIABLE: &str = "VIADUCT_SIMULATION_HOST";
/// Says that a client has started this one, which writes where it is told to.
pub(crate) const OUTPUT_VARIABLE: &str = "VIADUCT_SIMULATION_OUTPUT";
/// Where launchers say which of their processes one is.
pub const RANK_VARIABLES: [&str; 4] = [
    "PMI_RANK",
    "PMIX_RANK",
    "OMPI_COMM_WORLD_RANK",
    "SLURM_PROCID",
];

/// First in each packet: what this is, and the version of all that is shared.
const MAGIC: u64 = u64::from_le_bytes(*b"vturns07");
/// For a host that is not said.
const NO_HOST: u32 = u32::MAX;
const HELLO_BYTES: usize = 16;
const WELCOME_BYTES: usize = 24;
/// Room for either packet.
pub(crate) const PACKET_BYTES_MAX: usize = 64;

/// What a process says of itself. Beside it come its output and its errors, unless one of them is
/// closed or a client has started it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Hello {
    pub(crate) host: Option<u32>,
    pub(crate) rank: u32,
}

impl Hello {
    /// What the environment says; none: the process has no place in the simulation.
    ///
    /// # Errors
    ///
    /// The variable that is no number.
    pub(crate) fn from_environment() -> Result<Option<Self>, String> {
        let number = |name: &str| -> Result<Option<u32>, String> {
            let Some(text) = std::env::var_os(name) else {
                return Ok(None);
            };
            let number = OsStr::to_str(&text).and_then(|text| text.parse().ok());
            let number = number.filter(|number| *number != NO_HOST);
            number
                .map(Some)
                .ok_or_else(|| format!("{name} is {}, not a number", text.display()))
        };
        let host = number(HOST_VARIABLE)?;
        let mut rank = None;
        for name in RANK_VARIABLES {
            if rank.is_none() {
                rank = number(name)?;
            }
        }
        if host.is_none() && rank.is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            host,
            rank: rank.unwrap_or(0),
        }))
    }

    pub(crate) fn to_bytes(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.host.unwrap_or(NO_HOST).to_le_bytes());
        bytes[12..].copy_from_slice(&self.rank.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = after_magic::<HELLO_BYTES>(bytes)?;
        let host = number_at(bytes, 8);
        Some(Self {
            host: (host != NO_HOST).then_some(host),
            rank: number_at(bytes, 12),
        })
    }
}

/// The answer: beside it come the segment of the process and the bell, and behind these its output
/// and its errors, if they are others than came beside what it said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Welcome {
    pub(crate) host: u32,
    /// Of all hosts.
    pub(crate) addresses: HostAddresses,
    /// What a nanosecond of computing is charged; 0: it is free.
    pub(crate) computing_ps_per_ns: u64,
}

impl Welcome {
    pub(crate) fn to_bytes(self) -> [u8; WELCOME_BYTES] {
        let mut bytes = [0; WELCOME_BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.host.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.addresses.to_bits().to_le_bytes());
        bytes[16..].copy_from_slice(&self.computing_ps_per_ns.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = after_magic::<WELCOME_BYTES>(bytes)?;
        Some(Self {
            host: number_at(bytes, 8),
            addresses: HostAddresses::from_bits(number_at(bytes, 12))?,
            computing_ps_per_ns: u64::from_le_bytes(*bytes.last_chunk()?),
        })
    }
}

fn after_magic<const BYTES: usize>(bytes: &[u8]) -> Option<&[u8; BYTES]> {
    let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
    bytes.starts_with(&MAGIC.to_le_bytes()).then_some(bytes)
}

fn number_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_back_as_they_were_and_others_are_refused() {
        for hello in [
            Hello {
                host: Some(3),
                rank: 7,
            },
            Hello {
                host: None,
                rank: 0,
            },
        ] {
            let bytes = hello.to_bytes();
            assert_eq!(Hello::from_bytes(&bytes), Some(hello));
            assert_eq!(Hello::from_bytes(&bytes[..15]), None);
            let mut other = bytes;
            other[7] ^= 1;
            assert_eq!(Hello::from_bytes(&other), None);
        }
        let welcome = Welcome {
            host: 9,
            addresses: HostAddresses::default(),
            computing_ps_per_ns: 1 << 40,
        };
        assert_eq!(Welcome::from_bytes(&welcome.to_bytes()), Some(welcome));
        assert_eq!(Welcome::from_bytes(&[0; WELCOME_BYTES]), None);
        assert_eq!(Welcome::from_bytes(&[]), None);
    }
}
