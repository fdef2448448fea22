//! What it costs to register memory.

use viaduct_engine::Time;

use viaduct_network::Rate;

/// What it costs the processor to register memory: locking pages and telling the adapter of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryModel {
    /// A registration, whatever its length.
    pub register: Time,
    /// Bytes that are registered in a time, beside that; infinite if the length costs nothing.
    pub register_rate: Rate,
}

impl MemoryModel {
    /// Registration costs nothing.
    pub const FREE: Self = Self {
        register: Time::ZERO,
        register_rate: Rate::INFINITE,
    };

    /// What so many bytes take.
    #[must_use]
    pub fn registration(&self, bytes: u64) -> Time {
        self.register + self.register_rate.time_for(bytes as f64)
    }
}
