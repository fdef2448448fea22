//! A host: one preset.

use viaduct_engine::Time;

use crate::bus::BusModel;
use crate::mechanism::Mechanism;
use crate::memory::MemoryModel;
use crate::processor::{Completion, Notice, ProcessorModel};

/// A host's hardware and system software.
#[derive(Clone, Debug)]
pub struct HostModel {
    /// The preset's name.
    pub name: String,
    /// What the processor spends.
    pub processor: ProcessorModel,
    /// How applications wait for messages; programs decide that for themselves.
    pub completion: Completion,
    /// What registering memory costs.
    pub memory: MemoryModel,
    /// The I/O bus.
    pub bus: BusModel,
    /// How the adapter moves messages.
    pub mechanism: Mechanism,
    /// The largest message of one descriptor, bytes.
    pub transfer_max_bytes: u32,
}

impl HostModel {
    /// Whether nothing that a message asks of it takes time, and each message goes by itself.
    #[must_use]
    pub fn is_free(&self) -> bool {
        let processor = &self.processor;
        [processor.post, processor.reap, self.notice().alone()] == [Time::ZERO; 3]
            && self.bus.is_free()
            && self.mechanism.is_free()
    }

    /// How applications hear of a message.
    #[must_use]
    pub fn notice(&self) -> Notice {
        match (self.processor.notice(self.completion), &self.mechanism) {
            // Who was woken reads of the event queue what for.
            (Notice::Interrupt { interrupt, wake_up }, Mechanism::RemoteWrites(clan)) => {
                Notice::Interrupt {
                    interrupt,
                    wake_up: wake_up + clan.notices.event,
                }
            }
            (notice, _) => notice,
        }
    }
}
