//! The verbs interface: queue pairs and what belongs to them.
//!
//! Words and numbers are those of `infiniband/verbs.h`, so that a face in C translates by casting.
//! The rules are pure functions with the same shape as those of VIA: told what happened, they
//! answer what to do.
//!
//! - `words.rs`: states, types, opcodes, statuses, events
//! - `flags.rs`: bits: access, attribute masks, flags of requests and completions
//! - `attributes.rs`: what queue pairs and addresses are told and asked
//! - `request.rs`: work requests and completions
//! - `transition.rs`: rule: which state may follow which
//! - `check.rs`: rule: what may be posted, what keys let through, timers
//! - `requester.rs`: rule: which send may begin, when it is done, what is tried again and flushed
//! - `responder.rs`: rule: which requests are carried out, and what each failure does
//! - `send_queue.rs`: the sends of a queue pair, as those rules leave them
//! - `completions.rs`: what a completion queue holds, and when it tells its channel
//! - `table.rs`: objects by keys that die with them
//! - `regions.rs`: registered memory
//! - `objects.rs` and its folder: all objects, what they are made with and what uses them; the
//!   states of queue pairs; how what is posted on them ends
//! - `notices.rs`: how a program learns of it: completion queues, channels, events
//! - `carrier.rs`: what those ask of whoever carries the packets
//! - `adapter.rs` and its folder: a carrier of whole packets, for hosts that somebody simulates
//! - `events.rs`, `error.rs`: what is told without being asked for, and why a call failed
//! - `faults.rs`: which requests are struck by faults on request

mod adapter;
mod attributes;
pub mod carrier;
pub mod check;
mod completions;
pub mod error;
mod events;
pub mod faults;
pub mod flags;
pub mod notices;
mod objects;
pub mod regions;
mod request;
pub mod requester;
pub mod responder;
mod send_queue;
mod table;
pub mod transition;
mod words;

pub use adapter::{
    Adapter, Answer, Datagram, Memory, OfPair, OfSend, Outcome, Packet, Packets, Taken,
};
pub use attributes::{
    AddressAttributes, Capabilities, GlobalRoute, QueuePairAttributes, RangeError,
    SharedReceiveAttributes,
};
pub use completions::{Armed, Arrival, CompletionQueueOptions, Completions};
pub use error::{Error, Result, errno};
pub use events::{AsyncElement, AsyncEvent};
pub use objects::{Destination, Limits, Objects, Pair};
pub use request::{
    Completion, DatagramDestination, Elements, QueuePairOptions, Receive, ReceiveRequest,
    ScatterGatherElement, SendRequest, bytes_of,
};
pub use send_queue::{Phase, PostedSend, SendQueue};
pub use table::{Key, Table};
pub use words::{
    AsyncEventType, CompletionOpcode, CompletionStatus, LinkLayer, Mtu, PathMigrationState,
    PortState, QueuePairState, QueuePairType, SendOpcode,
};
