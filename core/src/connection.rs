//! How far a request for a connection has come, and what may happen to it.
//!
//! Of two ends: the one that asks, and the one that waits or asks in turn. Pure functions, for
//! every kind of data path. Who meets whom, and what the asker is told, each kind of end says for
//! itself.

/// How far a request for a connection has come.
///
/// ```text
///          Meet             Accept
/// Waiting ------> Offered ---------> Connected
///    |               |     Reject
///    | Lapse         +-------------> Rejected
///    | LoseServer    |
///    |               +-- LoseServer -------+
///    v                                     v
/// Unmatched     either --- Expire -----> TimedOut
///               either --- Withdraw ---> Withdrawn ----+ Accept, Reject
///               either --- CutOff -----> Unreachable   +-> Withdrawn
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RequestPhase {
    /// Asked, and not met yet by anybody who waits, or who asks in turn.
    Waiting,
    /// The server's consumer has been told of it.
    Offered,
    /// There is a connection.
    Connected,
    /// The server's consumer has said no.
    Rejected,
    /// Nobody waited for it.
    Unmatched,
    /// There was no answer in time, or there will be none.
    TimedOut,
    /// The asker's consumer has given up. The server's learns it when it answers.
    Withdrawn,
    /// The asker's host hears nothing of the other.
    Unreachable,
}

/// What may happen to a request for a connection.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RequestStep {
    /// Somebody waits on its address, or asks for the asker as a peer.
    Meet,
    /// It is kept no longer for somebody who will wait.
    Lapse,
    /// The server's consumer accepts.
    Accept,
    /// The server's consumer rejects.
    Reject,
    /// The asker's time is up.
    Expire,
    /// The asker's consumer ends the attempt, or is gone.
    Withdraw,
    /// The server's consumer is gone.
    LoseServer,
    /// The two hosts hear nothing of each other.
    CutOff,
}

/// How far a request has come after a step; `None` where there is no such step.
///
/// Both ends ask: the server about the requests that it has, the asker
/// about its own. To the asker an answer says, too, that it was met.
#[must_use]
pub fn request_after(phase: RequestPhase, step: RequestStep) -> Option<RequestPhase> {
    use RequestPhase::{
        Connected, Offered, Rejected, TimedOut, Unmatched, Unreachable, Waiting, Withdrawn,
    };
    use RequestStep::{Accept, CutOff, Expire, Lapse, LoseServer, Meet, Reject, Withdraw};
    let next = match (step, phase) {
        (Meet, Waiting) => Some(Offered),
        (Lapse | LoseServer, Waiting) => Some(Unmatched),
        (Accept, Offered) => Some(Connected),
        (Reject, Offered) => Some(Rejected),
        (Accept | Reject, Withdrawn) | (Withdraw, Waiting | Offered) => Some(Withdrawn),
        (Expire, Waiting | Offered) | (LoseServer, Offered) => Some(TimedOut),
        (CutOff, Waiting | Offered) => Some(Unreachable),
        _ => None,
    };
    rule!(next, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: [RequestPhase; 8] = [
        RequestPhase::Waiting,
        RequestPhase::Offered,
        RequestPhase::Connected,
        RequestPhase::Rejected,
        RequestPhase::Unmatched,
        RequestPhase::TimedOut,
        RequestPhase::Withdrawn,
        RequestPhase::Unreachable,
    ];
    const STEPS: [RequestStep; 8] = [
        RequestStep::Meet,
        RequestStep::Lapse,
        RequestStep::Accept,
        RequestStep::Reject,
        RequestStep::Expire,
        RequestStep::Withdraw,
        RequestStep::LoseServer,
        RequestStep::CutOff,
    ];

    #[test]
    fn a_request_ends_once() {
        for phase in PHASES {
            let is_open = matches!(phase, RequestPhase::Waiting | RequestPhase::Offered);
            for step in STEPS {
                match request_after(phase, step) {
                    // Only the server's answer comes after an end, and changes nothing.
                    Some(next) if !is_open => {
                        assert_eq!((phase, next), (RequestPhase::Withdrawn, phase), "{step:?}");
                    }
                    Some(next) => assert_ne!(next, phase, "{step:?}"),
                    None => {}
                }
            }
        }
    }

    #[test]
    fn an_answer_needs_an_offer() {
        for answer in [RequestStep::Accept, RequestStep::Reject] {
            assert_eq!(request_after(RequestPhase::Waiting, answer), None);
            let late = request_after(RequestPhase::Withdrawn, answer);
            assert_eq!(late, Some(RequestPhase::Withdrawn));
        }
        let lost = |phase| request_after(phase, RequestStep::LoseServer);
        assert_eq!(lost(RequestPhase::Waiting), Some(RequestPhase::Unmatched));
        assert_eq!(lost(RequestPhase::Offered), Some(RequestPhase::TimedOut));
    }
}
