//! CLAN's adapter from outside: tripwires, the event queue, and what happens when they run out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod notices;
mod raw;
