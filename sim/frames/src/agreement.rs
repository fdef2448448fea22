//! How driver and interface agree on what is in which frame.
//!
//! The two talk by messages over a system endpoint that never leaves its frame: a queue each way,
//! in order, nothing lost, each message read some time after it was written. So both may begin
//! something at once: the driver frees an endpoint, or gives its number to a new one, while the
//! interface asks for it to be brought.
//!
//! ```text
//!   driver                                    interface
//!     | -- create, free ----------------------> |  what exists
//!     | <- remap wanted ----------------------- |  a message came for what is not in a frame
//!     | -- bring to rest ---------------------> |  no new sends; outstanding ones are settled
//!     | <- at rest ---------------------------- |
//!     | -- unload (pages are unmapped) -------> |
//!     | <- moved (with or without work) ------- |
//!     | -- upload ----------------------------> |
//!     | <- moved ------------------------------ |
//! ```
//!
//! Each message carries its sender's logical clock and how far the sender had read the other's
//! ([`Stamped`]: a vector clock of two). The driver's word about an endpoint holds: a wish of the
//! interface that was written before it had read the driver's last word about that endpoint is
//! void. That loses nothing, since that word, once read, has the interface ask again at the next
//! reference.
//!
//! What holds:
//! - when nothing is under way, driver and interface have the same endpoints in the same frames;
//! - no wish acts on another endpoint than the one it was made for, though numbers are given again;
//! - the interface asks once, until the driver says something about the endpoint;
//! - a message that does not fit the receiver's state is a [`Disagreement`], never acted upon.

mod driver;
mod interface;

use core::fmt;

pub use driver::{Driver, News};
pub use interface::{InterfaceSide, Lookup, Task};

use crate::names::{Endpoint, Frame};

/// The driver's words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ToInterface {
    /// There is a new endpoint of this number.
    Create(Endpoint),
    /// It is no more.
    Free(Endpoint),
    /// Begin nothing new of it, and say when nothing is outstanding.
    BringToRest(Endpoint, Frame),
    /// Move it to host memory.
    Unload(Endpoint, Frame),
    /// Move it into this frame.
    Upload(Endpoint, Frame),
}

/// The interface's words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ToDriver {
    /// A message came for an endpoint that is in no frame.
    RemapWanted(Endpoint),
    /// Nothing of it is outstanding.
    AtRest(Endpoint),
    /// It was unloaded or uploaded, as was asked; unloaded, it may have messages to be sent.
    Moved {
        /// Which endpoint.
        endpoint: Endpoint,
        /// Whether messages to be sent are in its image.
        has_work: bool,
    },
}

/// A message with the logical clocks of its sender.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stamped<T> {
    /// How many messages the sender had written, with this one.
    pub clock: u64,
    /// How many of the receiver's it had read by then.
    pub seen: u64,
    /// What it says.
    pub message: T,
}

/// One side's clocks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Clocks {
    written: u64,
    read: u64,
}

impl Clocks {
    fn stamp<T>(&mut self, message: T) -> Stamped<T> {
        self.written += 1;
        Stamped {
            clock: self.written,
            seen: self.read,
            message,
        }
    }

    /// Takes the next message: the other's clock goes up by one each.
    fn take<T>(&mut self, stamped: &Stamped<T>) -> Result<(), Disagreement> {
        if stamped.clock != self.read + 1 || stamped.seen > self.written {
            return Err(Disagreement::OutOfOrder {
                clock: stamped.clock,
                expected: self.read + 1,
            });
        }
        self.read += 1;
        Ok(())
    }
}

/// A message that does not fit: a fault of one of the two sides. Nothing was changed by it but
/// clocks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Disagreement {
    /// The messages before it are missing, or it came twice, or it claims to answer what was not
    /// said.
    OutOfOrder {
        /// Its clock.
        clock: u64,
        /// The clock of the message that is due.
        expected: u64,
    },
    /// The driver speaks of a frame whose occupant or phase is another.
    Frame(ToInterface),
    /// The interface answers what was not asked.
    NotAsked(ToDriver),
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfOrder { clock, expected } => {
                write!(f, "message {clock} came where message {expected} was due")
            }
            Self::Frame(message) => {
                write!(
                    f,
                    "the driver said {message:?}, which does not fit the frame"
                )
            }
            Self::NotAsked(message) => {
                write!(f, "the interface said {message:?}, which was not asked for")
            }
        }
    }
}

impl core::error::Error for Disagreement {}

#[cfg(test)]
mod tests;
