//! Virtual networks on simulated hosts: LANai interfaces with endpoint frames on Myrinet.
#![forbid(unsafe_code)]

mod agenda;
mod cluster;
mod config;
mod exchange;
mod faults;
mod firmware;
mod host;
mod ledger;
mod messages;
mod network;
mod process;
mod processor;
mod program;
mod reboot;
mod station;
mod timesharing;
mod work;

pub use cluster::{Cluster, Totals};
pub use config::{Config, Firmware, Host, Network};
pub use faults::{BOOTS_MAX, Cable, Fault, FaultError, Switch};
pub use ledger::Ends;
pub use program::{
    ClientResult, Contention, Exchange, Measured, Server, contention, exchange, measure,
};
pub use station::{Outcome, Programs, ReturnPath, Route, Station, Stuck};
pub use timesharing::{
    ParallelProgram, Pattern, Phases, Scheduler, Shares, TimeSharing, Wait, Workload, time_share,
};
pub use work::{Steps, Work};
