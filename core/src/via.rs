//! What only the Virtual Interface Architecture has: its NIC and VIs, their states, levels and
//! outcomes, the words of its C interface, its name service, and this project's extensions of it.

mod attributes;
mod breaking;
pub mod check;
mod connect;
mod error;
mod error_code;
mod event;
mod introduction;
mod ledger;
pub mod matching;
mod messages;
pub mod names;
mod nic;
mod open;
pub mod outcome;
mod peer;
mod remote;
mod splitting;
mod state;
mod status;
mod transfer;
pub mod transition;
mod vi;
mod work_queue;

pub use attributes::{
    Extensions, NicAttributes, ReliabilityLevel, ReliabilityLevels, RemoteViAttributes,
    ViAttributes,
};
pub use error::{CompletionQueueError, ConnectError, ConnectFailure, PostError, ViError};
pub use error_code::{ErrorCode, ResourceCode};
pub use event::Event;
pub use introduction::Introduction;
pub use messages::{BreakReason, ConnectionMessage, Transmit};
pub use nic::Nic;
pub use remote::{RemoteVerdict, StartedRemote};
pub use state::ViState;
pub use status::{CompletedOperation, Status};
pub use transfer::{
    Completions, DropReason, MessageHeader, ReceiveOutcome, ReceiveVerdict, SendOutcome,
    StartedReceive, StartedSend,
};
pub use vi::ViInformation;
pub use work_queue::{Completion, Done, WorkId};
