//! Programs on simulated hosts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod account;
mod adapters;
mod around;
mod clan;
mod drawn;
mod equal_paths;
mod faults;
mod given_up;
mod listed;
mod matching;
mod models;
mod near_and_far;
mod outside;
mod pair_accounts;
mod processors;
mod queue_pairs;
mod registration;
mod remote;
mod stored;
mod traffic;
mod waiting;
mod ways;
