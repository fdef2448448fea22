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
    /// The programmed write over the bus, and the NIC's noticing it.
    Doorbell,
    /// Waiting while the NIC handles earlier descriptors and data.
    SendQueue,
    /// Reading and checking the descriptor, translating addresses, starting DMA.
    Descriptor,
    /// Moving the bytes at the rate of the slowest stage, nobody else there.
    Transfer,
    /// What sharing links and buses with others added to the transfer.
    Queued,
    /// Propagation, and the switches' delays.
    Network,
    /// At the receiving NIC: finding the VI, reading its descriptor, checking, starting DMA.
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
pub const STAGES: usize = 14;

impl Stage {
    /// All stages in order.
    pub const ALL: [Self; STAGES] = [
        Self::Buffer,
        Self::SenderProcessor,
        Self::Post,
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
}
