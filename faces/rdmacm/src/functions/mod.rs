//! The functions of `rdma_cma.h` and `rdma_verbs.h`, by what they are about.

mod channel;
mod connection;
mod identifier;
mod information;
mod multicast;
mod options;
mod queue_pair;

pub use channel::*;
pub use connection::*;
pub use identifier::*;
pub use information::*;
pub use multicast::*;
pub use options::*;
pub use queue_pair::*;
