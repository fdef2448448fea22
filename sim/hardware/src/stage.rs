//! Where the time of a message goes: the stages between post and completion.

/// One stage of a message's way, in the order in which it meets them.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(usize)]
pub enum Stage {
    /// Waiting for a free send buffer of the host's pool.
    Buffer,
    /// Waiting for the sending host's processor.
    SenderProcessor,
    /// Building the descriptor and putting it into the send queue.
    Post,
    /// The sending software's own part, where the adapter does not do all: cookies and requests of
    /// a library, the kernel's way, data that the processor writes.
    Software,
    /// The programmed write over the bus, and the NIC's noticing it.
    Doorbell,
    /// Waiting while the NIC handles earlier descriptors and data.
    SendQueue,
    /// The sending adapter: reading and checking the descriptor, translating addresses, starting
    /// DMA.
    Descriptor,
    /// Moving the bytes at the rate of the slowest stage, nobody else there.
    Transfer,
    /// What sharing links and buses with others added to the transfer.
    Queued,
    /// Propagation, the switches' delays, and the adapters' on the way; where messages are stored,
    /// waiting behind those of the same flow.
    Network,
    /// At the receiving NIC: finding the VI, reading its descriptor, checking, starting DMA; where
    /// the kernel receives, its work and copies.
    Receive,
    /// Writing the completion.
    Completion,
    /// Waiting for the receiving host's processor.
    ReceiverProcessor,
    /// Interrupt and wake-up, or the polling loop's delay.
    Notice,
    /// Taking the completed descriptor off its queue.
    Reap,
}

/// Number of stages.
pub const STAGES: usize = 15;

impl Stage {
    /// All stages in order.
    pub const ALL: [Self; STAGES] = [
        Self::Buffer,
        Self::SenderProcessor,
        Self::Post,
        Self::Software,
        Self::Doorbell,
        Self::SendQueue,
        Self::Descriptor,
        Self::Transfer,
        Self::Queued,
        Self::Network,
        Self::Receive,
        Self::Completion,
        Self::ReceiverProcessor,
        Self::Notice,
        Self::Reap,
    ];

    /// The stage's name in tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buffer => "buffer",
            Self::SenderProcessor => "sender_processor",
            Self::Post => "post",
            Self::Software => "software",
            Self::Doorbell => "doorbell",
            Self::SendQueue => "send_queue",
            Self::Descriptor => "descriptor",
            Self::Transfer => "transfer",
            Self::Queued => "queued",
            Self::Network => "network",
            Self::Receive => "receive",
            Self::Completion => "completion",
            Self::ReceiverProcessor => "receiver_processor",
            Self::Notice => "notice",
            Self::Reap => "reap",
        }
    }

    /// Whether a message is in it only while others are there.
    #[must_use]
    pub const fn is_wait(self) -> bool {
        matches!(
            self,
            Self::Buffer
                | Self::SenderProcessor
                | Self::SendQueue
                | Self::Queued
                | Self::ReceiverProcessor
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_docs_have_every_stage_in_order() {
        let docs = include_str!("../../../docs/output.md");
        let table = docs.split("### Stages").nth(1).unwrap_or_default();
        let table = table.split("\n## ").next().unwrap_or_default();
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
        let names: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
        assert_eq!(names, Stage::ALL.map(Stage::name));
        for (place, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, place);
        }
    }
}
