//! What a message of a study asks of VIA.

use viaduct_core::Operation;

/// What a message is: a send, or an access to its target's memory.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum MessageOperation {
    /// Its target takes it with a receive.
    #[default]
    Send,
    /// A remote write: it takes no receive, and nobody at its target hears of it.
    Write,
    /// A remote write with immediate data, which takes a receive at its target.
    WriteWithImmediate,
    /// A remote read: a request goes to the target, whose adapter answers with the bytes.
    Read,
}

impl MessageOperation {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Send,
        Self::Write,
        Self::WriteWithImmediate,
        Self::Read,
    ];

    /// Its word in studies, lists and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::WriteWithImmediate => "write-with-immediate",
            Self::Read => "read",
        }
    }

    /// Whether it takes a receive, and the application at its target hears of it.
    #[must_use]
    pub const fn is_heard(self) -> bool {
        matches!(self, Self::Send | Self::WriteWithImmediate)
    }

    /// That of a descriptor, which has immediate data or not.
    pub(crate) const fn of(operation: Operation, has_immediate: bool) -> Self {
        match operation {
            Operation::RdmaWrite if has_immediate => Self::WriteWithImmediate,
            Operation::RdmaWrite => Self::Write,
            Operation::RdmaRead => Self::Read,
            // Of what is illegal nothing is sent.
            Operation::SendReceive | Operation::Illegal => Self::Send,
        }
    }
}
