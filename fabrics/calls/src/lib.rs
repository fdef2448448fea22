//! Calls of verbs as bytes: what a program asks of whoever has its objects elsewhere.
//!
//! A program on a simulated host runs in a process of its own. Its queue pairs and all that belongs
//! to them are where the host is simulated; what the program holds are their keys. Handles here
//! have the names and calls of `viaduct_rdma`, which has queue pairs between processes of this
//! machine, so that a face translates onto either.
//!
//! ```text
//!   program's process                     where its host is simulated
//!   Context, QueuePair, ...  --Request-->  whoever carries it out
//!        Line                <--answer---  (`viaduct-clients`)
//! ```
//!
//! Bytes of messages are not among these: whoever carries packets reads and writes the program's
//! memory. Only those of inline sends are, which must be taken when they are posted.

mod handles;
mod request;
mod wire;

pub use handles::{
    AddressHandle, CompletionChannel, CompletionQueue, CompletionQueueOptions, Context,
    DatagramDestination, Device, Line, MemoryRegion, ProtectionDomain, QueuePair, QueuePairOptions,
    SendRequest, SharedReceiveQueue,
};
pub use request::{Datagram, Description, Owner, Receive, Request, Send, answer, put_answer};
pub use wire::Wire;
