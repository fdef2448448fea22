//! Calls of verbs and of VIA as bytes: what a program asks of whoever has its objects elsewhere.
//!
//! A program on a simulated host runs in a process of its own. Its queue pairs and all that belongs
//! to them are where the host is simulated; what the program holds are their keys. Handles here
//! have the names and calls of `viaduct_rdma`, which has queue pairs between processes of this
//! machine, so that a face translates onto either. So it is with VIs: [`via::Remote`] is a
//! [`Provider`](viaduct_provider::Provider) as the fabric between processes is.
//!
//! ```text
//!   program's process                     where its host is simulated
//!   Context, QueuePair, ...  --Request-->  whoever carries it out
//!   via::Remote          via::Request      (`viaduct-clients`)
//!        Line                <--answer---
//! ```
//!
//! A line may carry posts on credit ([`Line::post`]): what will be taken is not waited for.
//!
//! Bytes of messages are not among these: whoever carries packets reads and writes the program's
//! memory. Only those of inline sends are, which must be taken when they are posted.

mod asking;
mod credit;
mod handles;
mod looked;
mod request;
pub mod via;
mod wire;

pub use asking::{Line, Refusal, answer, is_of_via, put_answer, put_refused};
pub use credit::Credits;
pub use handles::{
    AddressHandle, CompletionChannel, CompletionQueue, CompletionQueueOptions, Context,
    DatagramDestination, Device, MemoryRegion, ProtectionDomain, QueuePair, QueuePairOptions,
    SendRequest, SharedReceiveQueue,
};
pub use request::{Datagram, Description, Owner, Receive, Request, Send};
pub use wire::Wire;
