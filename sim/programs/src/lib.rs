//! Programs on simulated hosts.
//!
//! A [`Simulation`] has hosts with a NIC each and a network between them. Programs written against
//! [`viaduct_provider`] run on the hosts, blocking or asynchronous, in virtual time: what
//! they post, wait for and compute costs what the [`viaduct_hardware::HostModel`] says. Equal
//! inputs give equal runs.
//!
//! ```
//! use std::time::Duration;
//! use viaduct_provider::{Memory, Nic, ReturnCode};
//! use viaduct_programs::Simulation;
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
//!      v                                                             raw.rs: CLAN below VIA
//!  verbs.rs      queue pairs, below no agent: `viaduct_core::verbs::Adapter` of each host
//!  cluster.rs    agents of the hosts; what follows from what happens to one
//!      |  queues.rs: what the message queues of CLAN write     bytes.rs: memory of programs
//!      v  notices.rs: how CLAN's programs hear of it: tripwires, events
//!  viaduct_cluster    events, hosts, messages, adapters, network, faults: those of studies
//! ```
//!
//! # How a run goes
//!
//! `Simulation::run` (`executor.rs`) alternates: run every program that can go on, then let one
//! event happen. A blocking program has a stack of its own (`corosensei`) and leaves it when it
//! waits (`process.rs: wait`); an asynchronous one is a future. One thread runs all, and what is
//! ready is taken in the order in which it became so: equal inputs, equal runs.
//!
//! 1. An operation (`viaduct-agent`'s `provider.rs`) gives the host's processor its work
//!    (`Process::spend`), then acts on the host's agent; `Hosted::follow_up` does what follows. A
//!    program's own time runs ahead of the clock by what its processor has to do, and catches up
//!    before it looks at anything (`Process::synchronised`).
//! 2. A post goes to `viaduct_cluster` (`programs/carry.rs: posted`), whose messages of programs
//!    take the way of all messages; `Hosted`, the workload of that cluster, is told what is theirs
//!    alone. A message's bytes are taken when it starts. They are placed when its last byte is
//!    there (`bytes.rs`), in one event with the check of protection: nothing can be deregistered in
//!    between. CLAN's programs hear of it as `notices.rs` says.
//! 3. `settle_vi` completes descriptors; whoever watches the host looks again. Futures are woken
//!    (`Provider::watch`) and take their completions themselves; handlers are called by tasks of
//!    their own.
//!
//! A program of Python (`viaduct-python`'s `programs.rs`) is a generator that such a future holds:
//! it is resumed on the thread of the run and never on a stack of the simulation. What blocks,
//! connecting, is done for it by a blocking program beside it (`meeting.rs`). The run keeps
//! Python's lock; between events, at most 5 ms apart, others get it and signals are heard. Objects
//! that Python drops on another thread, or then, end when the run next has a turn (`home.rs`). Over
//! `shm` the same generator is run by a loop that waits (`real.rs`).
//!
//! # Words
//!
//! - mechanism: how an adapter carries a message; its plan: `Mechanism`, `Plan` of
//!   `viaduct-hardware`

/// The guide's program, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/programs.md")]
struct Guide;

mod breakdown;
mod bytes;
mod cluster;
pub mod config;
mod counts;
mod event;
mod executor;
mod host;
mod lock;
mod notices;
pub mod outside;
mod process;
mod queues;
pub mod raw;
mod tasks;
pub mod verbs;

pub use breakdown::{breakdown, way, ways};
pub use counts::Counts;
pub use executor::{Outcome, Simulation, SimulationError, die, explain};
pub use host::device_name;
pub use notices::{Resource, Shortage};
pub use process::{Process, SimulatedFabric};
