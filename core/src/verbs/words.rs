//! The enumerations of verbs.h that this implementation knows, with its numbers.

use core::ffi::CStr;

macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $word:ident = $number:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$what])* $word = $number,)+
        }

        impl $name {
            /// The word of a number of verbs.h, if it is one.
            #[must_use]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$word),)+
                    _ => None,
                }
            }

            /// Its number in verbs.h.
            #[must_use]
            pub const fn number(self) -> u32 {
                self as u32
            }
        }
    };
}

words! {
    /// `enum ibv_qp_state`.
    QueuePairState {
        /// Just made, or emptied.
        Reset = 0,
        /// Takes receives.
        Init = 1,
        /// Ready to receive.
        ReadyToReceive = 2,
        /// Ready to send.
        ReadyToSend = 3,
        /// Sends are drained; no new one begins.
        SendDrained = 4,
        /// A send failed on a queue pair that goes on receiving.
        SendError = 5,
        /// Everything is flushed.
        Error = 6,
    }
}

words! {
    /// `enum ibv_qp_type`.
    QueuePairType {
        /// Reliable connected.
        Rc = 2,
        /// Unreliable connected.
        Uc = 3,
        /// Unreliable datagram.
        Ud = 4,
    }
}

words! {
    /// `enum ibv_wr_opcode`.
    SendOpcode {
        /// Writes remote memory.
        RdmaWrite = 0,
        /// Writes remote memory and completes a receive there.
        RdmaWriteWithImmediate = 1,
        /// A message.
        Send = 2,
        /// A message with four bytes for its completion.
        SendWithImmediate = 3,
        /// Reads remote memory.
        RdmaRead = 4,
        /// Stores if equal.
        AtomicCompareAndSwap = 5,
        /// Adds.
        AtomicFetchAndAdd = 6,
    }
}

words! {
    /// `enum ibv_wc_status`.
    CompletionStatus {
        /// Done.
        Success = 0,
        /// A message is longer than its buffer, or than what may be sent.
        LocalLengthError = 1,
        /// The queue pair cannot do this.
        LocalQueuePairOperationError = 2,
        /// Not used: of reliable datagrams.
        LocalEndToEndContextOperationError = 3,
        /// A local key or range is wrong.
        LocalProtectionError = 4,
        /// Thrown out, since the queue pair is in the error state.
        FlushError = 5,
        /// Not used: of memory windows.
        MemoryWindowBindError = 6,
        /// A response made no sense.
        BadResponseError = 7,
        /// A local access error at the receiver of a remote write with immediate.
        LocalAccessError = 8,
        /// The peer refuses this request as invalid.
        RemoteInvalidRequestError = 9,
        /// The peer refuses the access.
        RemoteAccessError = 10,
        /// The peer could not carry it out.
        RemoteOperationError = 11,
        /// The peer does not answer.
        RetryExceededError = 12,
        /// The peer had no receive, too often.
        ReceiverNotReadyRetryExceededError = 13,
        /// Not used: of reliable datagrams.
        LocalReliableDatagramDomainViolationError = 14,
        /// Not used: of reliable datagrams.
        RemoteInvalidReliableDatagramRequest = 15,
        /// The peer gave it up.
        RemoteAbortedError = 16,
        /// Not used: of reliable datagrams.
        InvalidEndToEndContextNumberError = 17,
        /// Not used: of reliable datagrams.
        InvalidEndToEndContextStateError = 18,
        /// The device is lost.
        FatalError = 19,
        /// No answer in time.
        ResponseTimeoutError = 20,
        /// Anything else.
        GeneralError = 21,
    }
}

words! {
    /// `enum ibv_wc_opcode`.
    CompletionOpcode {
        /// A send, with immediate or without.
        Send = 0,
        /// A remote write, with immediate or without.
        RdmaWrite = 1,
        /// A remote read.
        RdmaRead = 2,
        /// A compare-and-swap.
        CompareAndSwap = 3,
        /// A fetch-and-add.
        FetchAndAdd = 4,
        /// A receive.
        Receive = 128,
        /// A receive that a remote write with immediate took.
        ReceiveRdmaWithImmediate = 129,
    }
}

words! {
    /// `enum ibv_event_type`.
    AsyncEventType {
        /// A completion queue overran.
        CompletionQueueError = 0,
        /// A queue pair is lost.
        QueuePairFatal = 1,
        /// A peer sent an invalid request.
        QueuePairRequestError = 2,
        /// A peer was refused an access.
        QueuePairAccessError = 3,
        /// The first message came before the state was ready to send.
        CommunicationEstablished = 4,
        /// Sends are drained.
        SendQueueDrained = 5,
        /// Not used: of path migration.
        PathMigrated = 6,
        /// Not used: of path migration.
        PathMigrationError = 7,
        /// The device is lost.
        DeviceFatal = 8,
        /// The link came up.
        PortActive = 9,
        /// The link went down.
        PortError = 10,
        /// The port has another LID.
        LidChange = 11,
        /// The table of P_Keys changed.
        PartitionKeyChange = 12,
        /// Another subnet manager.
        SubnetManagerChange = 13,
        /// A shared receive queue is lost.
        SharedReceiveQueueError = 14,
        /// A shared receive queue has fewer receives than its limit.
        SharedReceiveQueueLimitReached = 15,
        /// A queue pair in the error state will take no more from its shared receive queue.
        LastRequestReached = 16,
        /// Subscriptions must be renewed.
        ClientReregister = 17,
        /// The table of GIDs changed.
        GidChange = 18,
    }
}

words! {
    /// `enum ibv_port_state`.
    PortState {
        /// Nothing works.
        Down = 1,
        /// Up without addresses.
        Init = 2,
        /// Ready.
        Armed = 3,
        /// Works.
        Active = 4,
    }
}

words! {
    /// `enum ibv_mtu`.
    Mtu {
        /// 256 bytes.
        Bytes256 = 1,
        /// 512 bytes.
        Bytes512 = 2,
        /// 1,024 bytes.
        Bytes1024 = 3,
        /// 2,048 bytes.
        Bytes2048 = 4,
        /// 4,096 bytes.
        Bytes4096 = 5,
    }
}

impl Mtu {
    /// Its bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }
}

words! {
    /// `enum ibv_mig_state`.
    PathMigrationState {
        /// Migrated, which is where a queue pair without a second path is.
        Migrated = 0,
        /// To be armed.
        Rearm = 1,
        /// Armed.
        Armed = 2,
    }
}

words! {
    /// `IBV_LINK_LAYER_*`.
    LinkLayer {
        /// LIDs.
        InfiniBand = 1,
        /// RoCE: GIDs.
        Ethernet = 2,
    }
}

impl CompletionStatus {
    /// What it is called, as `ibv_wc_status_str` tells it.
    #[must_use]
    pub const fn text(self) -> &'static CStr {
        match self {
            Self::Success => c"success",
            Self::LocalLengthError => c"local length error",
            Self::LocalQueuePairOperationError => c"local queue pair operation error",
            Self::LocalEndToEndContextOperationError => c"local end-to-end context operation error",
            Self::LocalProtectionError => c"local protection error",
            Self::FlushError => c"work request flushed",
            Self::MemoryWindowBindError => c"memory window bind error",
            Self::BadResponseError => c"bad response error",
            Self::LocalAccessError => c"local access error",
            Self::RemoteInvalidRequestError => c"remote invalid request error",
            Self::RemoteAccessError => c"remote access error",
            Self::RemoteOperationError => c"remote operation error",
            Self::RetryExceededError => c"transport retry counter exceeded",
            Self::ReceiverNotReadyRetryExceededError => {
                c"receiver-not-ready retry counter exceeded"
            }
            Self::LocalReliableDatagramDomainViolationError => {
                c"local reliable datagram domain violation"
            }
            Self::RemoteInvalidReliableDatagramRequest => {
                c"remote invalid reliable datagram request"
            }
            Self::RemoteAbortedError => c"operation aborted by the peer",
            Self::InvalidEndToEndContextNumberError => c"invalid end-to-end context number",
            Self::InvalidEndToEndContextStateError => c"invalid end-to-end context state",
            Self::FatalError => c"fatal error",
            Self::ResponseTimeoutError => c"response timeout",
            Self::GeneralError => c"general error",
        }
    }
}

impl AsyncEventType {
    /// What it is called, as `ibv_event_type_str` tells it.
    #[must_use]
    pub const fn text(self) -> &'static CStr {
        match self {
            Self::CompletionQueueError => c"completion queue error",
            Self::QueuePairFatal => c"queue pair is lost",
            Self::QueuePairRequestError => c"invalid request of the peer",
            Self::QueuePairAccessError => c"access of the peer refused",
            Self::CommunicationEstablished => c"communication established",
            Self::SendQueueDrained => c"send queue drained",
            Self::PathMigrated => c"path migrated",
            Self::PathMigrationError => c"path migration failed",
            Self::DeviceFatal => c"device is lost",
            Self::PortActive => c"port active",
            Self::PortError => c"port error",
            Self::LidChange => c"LID change",
            Self::PartitionKeyChange => c"P_Key change",
            Self::SubnetManagerChange => c"subnet manager change",
            Self::SharedReceiveQueueError => c"shared receive queue error",
            Self::SharedReceiveQueueLimitReached => c"shared receive queue limit reached",
            Self::LastRequestReached => c"last work request of a queue pair reached",
            Self::ClientReregister => c"clients are to register again",
            Self::GidChange => c"GID change",
        }
    }
}

impl SendOpcode {
    /// Whether immediate data go with it.
    #[inline]
    #[must_use]
    pub const fn has_immediate(self) -> bool {
        matches!(self, Self::SendWithImmediate | Self::RdmaWriteWithImmediate)
    }

    /// Whether it writes remote memory.
    #[inline]
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::RdmaWrite | Self::RdmaWriteWithImmediate)
    }

    /// Whether it changes eight bytes in one step.
    #[inline]
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::AtomicCompareAndSwap | Self::AtomicFetchAndAdd)
    }

    /// Whether bytes come back.
    #[inline]
    #[must_use]
    pub const fn is_answered(self) -> bool {
        matches!(self, Self::RdmaRead) || self.is_atomic()
    }
}
