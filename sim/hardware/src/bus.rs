//! The I/O bus.

use viaduct_engine::Time;

use viaduct_network::Rate;

/// The I/O bus: a fluid server for DMA, and a cost for each short transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BusModel {
    /// Peak rate.
    pub rate: Rate,
    /// Bytes a DMA burst carries; 0: bursts cost nothing.
    pub burst_bytes: u32,
    /// Arbitration, address and turn-around of each burst.
    pub burst_overhead: Time,
    /// A programmed write of the CPU to the NIC (a doorbell).
    pub programmed_write: Time,
    /// A short read by the NIC (a descriptor): request to data.
    pub read: Time,
    /// A short write by the NIC (a status word).
    pub write: Time,
}

impl BusModel {
    /// It costs nothing.
    pub const FREE: Self = Self {
        rate: Rate::INFINITE,
        burst_bytes: 0,
        burst_overhead: Time::ZERO,
        programmed_write: Time::ZERO,
        read: Time::ZERO,
        write: Time::ZERO,
    };

    /// Whether data crosses it in no time. Short transactions of such a bus cost nothing either.
    #[inline]
    #[must_use]
    pub const fn is_free(&self) -> bool {
        self.rate.is_infinite()
    }

    /// A short transaction of native adapters, with nobody else on the bus.
    #[inline]
    pub(crate) const fn short(&self, time: Time) -> Time {
        if self.is_free() { Time::ZERO } else { time }
    }

    /// The rate that long DMA transfers reach, bursts' overhead counted.
    #[must_use]
    pub fn dma_rate(&self) -> Rate {
        if self.burst_bytes == 0 || self.rate.is_infinite() {
            return self.rate;
        }
        let bytes = f64::from(self.burst_bytes);
        let picoseconds =
            bytes / self.rate.bytes_per_picosecond() + self.burst_overhead.picoseconds() as f64;
        Rate::from_bits_per_second(bytes / picoseconds * 8e12)
    }
}
