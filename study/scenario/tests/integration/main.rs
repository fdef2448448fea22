//! Texts into configurations, and what bad ones are told.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapters;
mod application;
mod bad_scenarios;
mod faults;
mod handed_in;
mod host_groups;
mod interfaces;
mod message_list;
mod network_presets;
mod networks;
mod properties;
mod shipped;
