//! What codes and reasons mean.

use std::ffi::CStr;

use viaduct_am::Reason;

use crate::abi::Code;

/// What a code means.
pub(crate) const fn of_code(code: Code) -> &'static CStr {
    match code {
        Code::Ok => c"done",
        Code::Null => c"a pointer is NULL that must not be",
        Code::Handle => c"not a station, endpoint or bundle that exists",
        Code::Busy => c"another thread uses it",
        Code::InHandler => c"not to be called by a handler",
        Code::Limit => c"a number, length or index outside its limits",
        Code::Name => c"not the name of an endpoint",
        Code::NotMapped => c"nothing is mapped at that index",
        Code::NoCredit => c"every credit waits for its reply",
        Code::Full => c"no room to send now",
        Code::Token => c"not the token of a handler that runs in this thread",
        Code::Replied => c"the request has been replied to",
        Code::TimedOut => c"nothing happened within the time limit",
        Code::State => c"not in this state",
        Code::Resource => c"no memory, or the fabric refuses",
        Code::Forked => c"the process forked after am_open",
        Code::Internal => c"a mistake in the library",
    }
}

/// What a reason means: as Rust programs see it.
pub(crate) const fn of_reason(reason: Reason) -> &'static CStr {
    match reason {
        Reason::WrongKey => c"wrong key",
        Reason::NoSuchEndpoint => c"no such endpoint",
        Reason::EndpointFreed => c"endpoint freed",
        Reason::NoSuchHandler => c"no such handler",
        Reason::OutsideSegment => c"outside the segment",
        Reason::HostUnreachable => c"host unreachable",
        Reason::ProcessDied => c"process died",
        Reason::ConnectionLost => c"connection lost",
        Reason::Unanswered => c"delivered, never answered",
        _ => c"a reason that this library does not know",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_as_in_rust() {
        for reason in Reason::ALL {
            assert_eq!(of_reason(reason).to_str().unwrap(), reason.to_string());
        }
    }
}
