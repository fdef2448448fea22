//! CLAN's adapter from outside: tripwires, the event queue, and what happens when they run out.

mod notices;
mod raw;
