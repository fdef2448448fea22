//! Virtual networks on simulated hosts: LANai interfaces with endpoint frames on Myrinet.
//!
//! # A message's way between two interfaces
//!
//! The rules are in `viaduct-frames`. Eight events carry a request and its reply (`agenda.rs`).
//!
//! 1. **Posting** (`host.rs: kick_host`): when the processor has ended its work, the message goes
//!    into its endpoint's send queue: in the frame, or on the host after a fault, from which the
//!    driver's words follow (`cluster.rs: follow_driver`).
//! 2. **Sending** (`firmware.rs: send_one`): `Service` says whose turn it is, `Transport::send`
//!    finds a channel or the endpoint parks. Long messages cross the bus first (`depart`);
//!    the network (`load.rs: Links`) says when the tail arrives, or has the packet wait on its way.
//! 3. **Receiving** (`receive_one`, `judge`): `Transport::handle_packet` says whether it is new,
//!    `InterfaceSide::lookup` where its endpoint is. It is accepted and written, or refused with a
//!    reason; the answer goes back when that is done.
//! 4. **The answer** (`follow_transport`): completed, sent again later, or returned. Programs of
//!    `am` (`station.rs`) have stacks of their own, as those of `programs`: each call leaves its
//!    stack until the processor has ended it. What messages say, which the rest knows the length
//!    of, and what endpoints let in is in `exchange.rs`.
//! 5. **Remaps**: `begin_task` drains an endpoint (recalling what is refused), unloads and uploads
//!    it; `image_moved` tells the driver.
//!
//! # Words
//!
//! - fault: links that are down, reboot; book of requests and how they ended: `Fault`; `Ledger`,
//!   `Ends` (`faults.rs`, `ledger.rs`; `reboot.rs`)
//! - rank of an application, a process of its own: `Ranks` (`ranks.rs`); a cluster's interfaces:
//!   `Endpoints` (`interfaces.rs`); the way of a request that somebody asks for: `Journey`
//!   (`journeys.rs`)
//! - processor that processes share: slice, quantum, raised; wait in two phases: `Processor`,
//!   `Scheduler`, `Wait` (`processor.rs`, `timesharing.rs`; `process.rs`)
#![forbid(unsafe_code)]

mod agenda;
mod background;
mod cluster;
mod config;
mod exchange;
mod faults;
mod firmware;
mod host;
mod interfaces;
mod journeys;
mod ledger;
mod load;
mod messages;
mod process;
mod processor;
mod program;
mod ranks;
mod reboot;
mod station;
mod timesharing;
mod work;

pub use cluster::{Cluster, LinkLoad, Totals};
pub use config::{Config, Firmware, Host, LinkModel, Network, NetworkError, Wiring};
pub use faults::{BOOTS_MAX, Fault, FaultError};
pub use interfaces::{Endpoints, MESSAGE_BYTES_MAX};
pub use ledger::Ends;
pub use load::{FairLinks, Flight, HeldLinks, Links};
pub use program::{
    ClientResult, Contention, Exchange, Measured, Server, contention, exchange, measure,
};
pub use station::{Outcome, Programs, ReturnPath, Route, Station, Stuck};
pub use timesharing::{
    ParallelProgram, Pattern, Phases, Scheduler, Shares, TimeSharing, Wait, Workload, time_share,
};
pub use work::{Steps, Work};
