//! Rates, and what a message is on a link.

use viaduct_engine::Time;

/// A data rate in bits a second, of payload bits unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate {
    bits_per_second: f64,
}

impl Rate {
    /// A rate that no transfer notices.
    pub const INFINITE: Self = Self {
        bits_per_second: f64::INFINITY,
    };

    /// From bits a second.
    #[must_use]
    pub const fn from_bits_per_second(bits_per_second: f64) -> Self {
        Self { bits_per_second }
    }

    /// In bits a second.
    #[must_use]
    pub const fn bits_per_second(self) -> f64 {
        self.bits_per_second
    }

    /// In bytes a picosecond, the unit of the fluid model.
    #[must_use]
    pub fn bytes_per_picosecond(self) -> f64 {
        self.bits_per_second / 8e12
    }

    /// Whether the rate is without bound.
    #[must_use]
    pub const fn is_infinite(self) -> bool {
        self.bits_per_second.is_infinite()
    }

    /// How long `bytes` take at this rate, to the nearest picosecond.
    #[must_use]
    pub fn time_for(self, bytes: f64) -> Time {
        Time::from_picoseconds((bytes / self.bytes_per_picosecond() + 0.5) as u64)
    }
}

/// Framing: what a message costs on the link beside its own bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame {
    /// Largest payload of a frame, bytes; 0 means that a message is one frame.
    pub payload_bytes: u32,
    /// Header, trailer and gap of a frame, bytes.
    pub header_bytes: u32,
}

impl Frame {
    /// Bytes on the link for a message of `bytes`: at least one frame.
    #[must_use]
    pub fn wire_bytes(self, bytes: u64) -> u64 {
        bytes + self.count(bytes) * u64::from(self.header_bytes)
    }

    /// Frames of a message of `bytes`: at least one.
    #[must_use]
    pub fn count(self, bytes: u64) -> u64 {
        match self.payload_bytes {
            0 => 1,
            payload => bytes.div_ceil(u64::from(payload)).max(1),
        }
    }
}

/// When a switch, or a NIC, forwards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Switching {
    /// While the message still arrives.
    CutThrough,
    /// When the whole message has arrived.
    StoreAndForward,
}
