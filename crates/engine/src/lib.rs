//! A discrete-event engine that knows nothing of networks: time, the event queue, random streams.

mod random;
mod time;

pub use random::{Stream, StreamKey};
pub use time::Time;
