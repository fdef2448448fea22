//! Virtual networks: Active Message endpoints, over whatever carries their messages.
//!
//! An [`Endpoint`] holds message queues and state; a process can have many. Its [`Name`] is opaque
//! and exchanged by any means. A translation table maps a small integer to a name and a [`Key`];
//! every message carries the key, and the other end takes it only if it is its own. A virtual
//! network is a set of endpoints that refer to one another.
//!
//! Communication is split-phase: a request runs a handler at the other end, which answers by
//! exactly one reply, which runs a handler here. A message is short (up to 8 words), medium (a
//! payload is shown to the handler) or bulk (it is written into the other endpoint's segment, then
//! the handler runs). Delivery is exactly once; what cannot be delivered comes back to its sender,
//! to the undeliverable handler, with a [`Reason`].
//!
//! ```text
//!  program
//!     |        Endpoint, SharedEndpoint, Bundle      tables, credits, handlers, event masks: here
//!     v
//!  Carrier     names, keys, exactly once, back to the sender, waiting: who moves the messages
//! ```
//!
//! There is no clock, thread or source of randomness here: waiting is the carrier's. Programs that
//! are written against this crate are the same over every carrier.
//!
//! # Words
//!
//! - endpoint, its name, key; carrier: `Endpoint`, `Name`, `Key`; `Carrier` (`endpoint.rs`,
//!   `name.rs`, `carrier.rs`)

#![forbid(unsafe_code)]

mod bundle;
mod carrier;
mod endpoint;
mod error;
mod events;
mod handlers;
mod message;
mod name;
mod shared;
mod table;

pub use bundle::Bundle;
pub use carrier::{
    Admission, Arrival, ArrivalOf, Carrier, CarrierError, Content, ContentBody, Group, HandlerSet,
    Phase, Readiness, Refusal, Slot, Taken, TimedOut, Watch,
};
pub use endpoint::{Endpoint, Options};
pub use error::{RequestError, WaitError};
pub use events::EventMask;
pub use handlers::{Handlers, ParseReasonError, Reason, Reply, Request, Returned, View};
pub use message::{
    Body, CREDITS_DEFAULT, HANDLERS_MAX, HandlerId, Invalid, MTU_BYTES, Message,
    REQUEST_QUEUE_ENTRIES, WORDS_MAX, Words,
};
pub use name::{Key, Name, ParseNameError};
pub use shared::SharedEndpoint;
pub use table::TABLE_ENTRIES_MAX;
