//! Programs on simulated hosts.
//!
//! A [`Simulation`] has hosts with a NIC each and a network between them. Programs written against
//! [`viaduct_fabric`] run on the hosts, blocking or asynchronous, in virtual time: what
//! they post, wait for and compute costs what the [`config::HostModel`] says. Equal inputs give
//! equal runs.
//!
//! ```
//! use std::time::Duration;
//! use viaduct_fabric::{Memory, Nic, ReturnCode};
//! use viaduct_simfabric::Simulation;
//!
//! let mut simulation = Simulation::new(viaduct_scenario::load_programs("clan-pio", None, 2)?);
//! simulation.spawn(0, |process| {
//!     let nic = Nic::open(process.fabric(), "sim0").unwrap();
//!     let mut vi = nic.vi().build().unwrap();
//!     vi.post_receive(nic.buffer(64, Memory::Private).unwrap()).unwrap();
//!     nic.listen(b"hello").accept(&mut vi, None).unwrap();
//!     assert_eq!(vi.receive(None).unwrap().data(), b"hello");
//!     // The clock that programs see is the simulation's.
//!     assert!(process.now() < Duration::from_millis(1));
//! });
//! simulation.spawn(1, |process| {
//!     let nic = Nic::open(process.fabric(), "sim0").unwrap();
//!     let mut vi = nic.vi().build().unwrap();
//!     let server = nic.resolve("host0", b"hello").unwrap();
//!     while let Err(error) = vi.connect(&server, None) {
//!         assert_eq!(error.code(), ReturnCode::NoMatch);
//!         process.sleep(Duration::from_micros(10));
//!     }
//!     process.compute(Duration::from_micros(3));
//!     let mut buffer = nic.buffer(64, Memory::Private).unwrap();
//!     buffer[..5].copy_from_slice(b"hello");
//!     vi.post_send(buffer, 5).unwrap();
//!     vi.sent(None).unwrap();
//!     process.sleep(Duration::from_micros(100));
//! });
//! let outcome = simulation.run()?;
//! assert_eq!(outcome.counts.messages, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  programs      executor.rs: stacks and futures, one at a time      tasks.rs: who waits
//!      |  process.rs: Runtime of viaduct_agent, time, compute
//!      v
//!      |                                                          raw.rs: CLAN below VIA
//!  cluster.rs    events; host.rs: agent, processor, engines
//!      |
//!      v
//!  carry.rs      a message's way, as mechanism.rs planned it          control.rs: connections
//!      |  queues.rs: what the message queues of CLAN write
//!      v
//!  notices.rs    how CLAN's programs hear of it: tripwires, events
//!  network.rs    links and buses, shared by a rule of viaduct_sim
//!  look_ahead.rs asks for memory before events need it
//!
//!  retransmission.rs    what RDMA sends again
//!  faults.rs     what goes wrong where and when                      failures.rs: what follows
//! ```

/// The guide's program, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/programs.md")]
struct Guide;

mod breakdown;
mod carry;
mod cluster;
pub mod config;
mod control;
mod counts;
mod event;
mod executor;
mod failures;
pub mod faults;
mod host;
mod lock;
mod look_ahead;
mod mechanism;
mod message;
mod network;
mod notices;
mod process;
mod queues;
pub mod raw;
mod retransmission;
mod tasks;
pub mod traffic;

pub use breakdown::{Stage, breakdown, way, ways};
pub use counts::Counts;
pub use executor::{Outcome, Simulation, SimulationError, die};
pub use notices::{Resource, Shortage};
pub use process::{Process, SimulatedFabric};
