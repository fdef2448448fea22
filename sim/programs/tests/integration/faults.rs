//! Faults over simulated hosts: what both ends are told, at each reliability level, on every kind
//! of adapter.

mod again;
mod connecting;
mod death;
mod levels;
mod rates;
mod remote;
mod slow;
mod two;
