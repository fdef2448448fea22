//! A discrete-event engine that knows nothing of networks: time, the event queue, random streams.

mod prefetch;
mod queue;
mod radix;
mod random;
mod time;

pub use prefetch::{prefetch, prefetch_all, prefetch_range};
pub use queue::{EventId, EventQueue, LANES_MAX, Lane, PENDING_MAX, SEQUENCE_MAX};
pub use random::{Stream, StreamKey};
pub use time::Time;
