//! Who is connected with whom, and what the one who asked is told.

use crate::address::Address;
use crate::connection::RequestPhase;
use crate::via::error::ConnectFailure;

/// Whether a client that asks for an address meets a wait.
///
/// VIA, connection set-up: what counts is the address asked for, length and bytes; the client's own
/// takes no part.
#[must_use]
pub fn meets(asked: &Address, waited_on: &Address) -> bool {
    rule!(asked == waited_on)
}

/// Whether two requests of peers, each the asker's own address and the one that it asks for, are
/// for each other.
///
/// VIA, peer-to-peer: each asks for the other's own address.
#[must_use]
pub fn are_peers(one: (&Address, &Address), other: (&Address, &Address)) -> bool {
    rule!(one == (other.1, other.0))
}

/// What the asker's consumer is told of a request that has come so far; nothing of one that is
/// under way, or that it gave up itself.
#[must_use]
pub fn failure_told(phase: RequestPhase) -> Option<ConnectFailure> {
    rule!(match phase {
        RequestPhase::Rejected => Some(ConnectFailure::Rejected),
        RequestPhase::Unmatched => Some(ConnectFailure::NoMatch),
        RequestPhase::TimedOut => Some(ConnectFailure::TimedOut),
        RequestPhase::Unreachable => Some(ConnectFailure::NotReachable),
        RequestPhase::Waiting
        | RequestPhase::Offered
        | RequestPhase::Connected
        | RequestPhase::Withdrawn => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asker_is_told_of_every_end_that_is_not_its_own() {
        for (phase, told) in [
            (RequestPhase::Waiting, None),
            (RequestPhase::Offered, None),
            (RequestPhase::Connected, None),
            (RequestPhase::Withdrawn, None),
            (RequestPhase::Rejected, Some(ConnectFailure::Rejected)),
            (RequestPhase::Unmatched, Some(ConnectFailure::NoMatch)),
            (RequestPhase::TimedOut, Some(ConnectFailure::TimedOut)),
            (
                RequestPhase::Unreachable,
                Some(ConnectFailure::NotReachable),
            ),
        ] {
            assert_eq!(failure_told(phase), told, "{phase:?}");
        }
    }
}
