//! The VI user agent: the operations of a fabric over the semantics of `viaduct-core`, for whoever
//! moves the bytes and tells the time.
//!
//! [`AgentProvider`] is a [`Provider`](viaduct_provider::Provider): handles, descriptors where they
//! lie in the consumer's memory, completions, notify handlers. What it does not know is how a
//! message reaches the other end, what time it is, and how a caller waits: that is its [`Runtime`].
//! Threads of one process have one (`viaduct-threads`), hosts of a simulated cluster another
//! (`viaduct-programs`).
//!
//! ```text
//!  consumer      provider.rs, work.rs, connections.rs   an operation each
//!                    |  Runtime: operate, poll, block
//!                    v
//!                agent.rs      NICs, handles, queues; completions into descriptors; events heard
//!                    |    \
//!                    v     memory.rs   descriptors and bytes where they lie, in this process
//!                    |                 or, by elsewhere.rs, in that of a program
//!                viaduct_core::Nic   <---  the runtime's transport: starts and finishes messages
//! ```
//!
//! # Words
//!
//! - VI user agent; where it runs: `Agent`, `Runtime` (`agent.rs`, `runtime.rs`)

mod agent;
mod connections;
mod device;
pub mod elsewhere;
mod hear;
mod job;
mod memory;
mod provider;
mod refusal;
mod runtime;
mod table;
mod work;

pub use agent::Agent;
pub use device::{Device, Devices};
pub use elsewhere::{Elsewhere, MemoryElsewhere, Owner};
pub use job::Call;
pub use memory::{copy, gather};
pub use provider::AgentProvider;
pub use refusal::dead;
pub use runtime::{Runtime, Work};
pub use table::{AGENT_BITS, agent_of, first_generation};
