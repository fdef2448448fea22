//! The states of a VI: what may follow what, and what a queue does with a descriptor in each.
//!
//! ```text
//!              Ask                    Establish
//!   +--> Idle -----> ConnectPending -----------+
//!   |     | ^              | Fail, Disconnect  |
//!   |     | +--------------+                   v
//!   |     +------ Establish (accept) ------> Connected
//!   |                                          |   |
//!   +---------------- Disconnect --------------+   | Lose
//!   +---------------- Disconnect ----- Error <-----+
//! ```
//!
//! Pure functions, for every kind of data path.

use crate::ids::Queue;
use crate::via::error::ViError;
use crate::via::state::ViState;

/// Something that may change the state of a VI.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Transition {
    /// The consumer asks for a connection, as a client or as a peer.
    Ask,
    /// The connection is there: asked for and granted, or accepted as a server.
    Establish,
    /// The connection asked for did not come about: refused, no match, too late.
    Fail,
    /// The connection is gone without the consumer's doing: the peer left, or an error broke it.
    Lose,
    /// The consumer disconnects.
    Disconnect,
}

/// The state that follows.
///
/// # Errors
/// [`ViError::InvalidState`] where this cannot happen, or may not be asked for.
#[inline]
pub fn next(state: ViState, transition: Transition) -> Result<ViState, ViError> {
    let next = match (transition, state) {
        (Transition::Ask, ViState::Idle) => Ok(ViState::ConnectPending),
        (Transition::Establish, ViState::Idle | ViState::ConnectPending) => Ok(ViState::Connected),
        (Transition::Lose, ViState::Connected) => Ok(ViState::Error),
        // Legal everywhere, without effect on the state when idle.
        (Transition::Fail, ViState::ConnectPending) | (Transition::Disconnect, _) => {
            Ok(ViState::Idle)
        }
        _ => Err(ViError::InvalidState { state }),
    };
    rule!(next, transition)
}

/// Whether both queues are flushed by this transition.
///
/// A failed attempt leaves the receives posted: programs try again with them.
#[must_use]
pub fn flushes(transition: Transition) -> bool {
    rule!(matches!(
        transition,
        Transition::Lose | Transition::Disconnect
    ))
}

/// Whether a descriptor that is posted in this state completes at once as flushed.
///
/// Receives are posted before the connection is made; a send needs it.
#[inline]
#[must_use]
pub fn flushes_posts(state: ViState, queue: Queue) -> bool {
    rule!(match queue {
        Queue::Send => !matches!(state, ViState::Connected),
        Queue::Receive => matches!(state, ViState::Error),
    })
}

/// Whether a VI in this state may be destroyed. Completions that were not taken are discarded.
#[must_use]
pub fn may_be_destroyed(state: ViState) -> bool {
    rule!(matches!(state, ViState::Idle | ViState::Error))
}

/// Whether the attributes of a VI in this state may be changed.
#[must_use]
pub fn may_be_changed(state: ViState) -> bool {
    rule!(matches!(state, ViState::Idle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_can_be_left_by_disconnecting_and_only_a_connection_can_be_lost() {
        for state in [
            ViState::Idle,
            ViState::Connected,
            ViState::ConnectPending,
            ViState::Error,
        ] {
            assert_eq!(next(state, Transition::Disconnect), Ok(ViState::Idle));
            assert_eq!(
                next(state, Transition::Lose).is_ok(),
                state == ViState::Connected
            );
            assert_eq!(next(state, Transition::Ask).is_ok(), state == ViState::Idle);
            assert_eq!(
                next(state, Transition::Fail).is_ok(),
                state == ViState::ConnectPending
            );
        }
        let refused = Err(ViError::InvalidState {
            state: ViState::Error,
        });
        assert_eq!(next(ViState::Error, Transition::Establish), refused);
    }
}
