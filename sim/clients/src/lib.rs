//! Programs in processes of their own on simulated hosts: what they ask, carried out.
//!
//! ```text
//!   client's process                 here
//!   libibverbs --Request (bytes)-->  Clients: a deputy for each thread
//!   libvipl                              |  (`viaduct_programs::outside`)
//!                                        |  perform.rs: the calls of `viaduct_programs::verbs`
//!                                        |  via.rs: the operations of VIA
//!                                        |  looks.rs: what a loop of looks is told
//!              <----what came--------  handlers.rs: of VIA, called by a thread of the client
//!                                    Simulation: hosts, adapters, network
//!              <----bytes of messages---  memory.rs: copies by the kernel
//!              <----readable or not-----  descriptors.rs: of channels and opened devices
//! ```
//!
//! Posts that will be taken come without their thread, which waits for no answer and goes on: what
//! that takes the processor it knows (`viaduct_calls`).
//!
//! A client is a third kind of program on its host, beside blocking and asynchronous ones. What its
//! calls cost and how long they wait is the same to the picosecond: the same code carries them out.
//! `viaduct_turns` gives threads their turns and knows nothing of that.

mod descriptors;
mod handlers;
mod looks;
mod memory;
mod perform;
mod via;
mod world;

pub use world::Clients;
