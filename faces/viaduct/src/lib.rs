//! One user-level network on any fabric.
//!
//! A program written against the Virtual Interface Architecture, the ancestor of RDMA verbs, runs
//! unchanged between processes of this machine and on a simulated cluster of two to a million
//! hosts. This crate is the front page: it has nothing of its own but [`study::simulate`].
//!
//! | you want | look at |
//! |---|---|
//! | what messages cost on a cluster that you describe | [`study`] |
//! | to write a program that sends messages | [`vi`], the interface to write it against |
//! | to run it between processes | [`processes`] |
//! | to run it on simulated hosts, in simulated time | [`simulated`] |
//! | Active Message endpoints: names, keys and handlers, above either | [`endpoints`] |
//!
//! # Simulate a study
//!
//! A study is a text of keys with units, or the name of one that is built in. Equal studies and
//! seeds give equal results, to the bit.
//!
//! ```
//! use viaduct::study::{Override, Study, simulate};
//!
//! let study = Study::load("two-hosts", &[Override::fixed("traffic.size=64 B")])?;
//! let result = simulate(&study)?;
//! let latency = result.latency.ok_or("no message was delivered")?;
//! println!("{:.3} us, unloaded {:.3} us", latency.mean_us.mean, latency.floor_us);
//! for share in &result.breakdown {
//!     println!("{:>20} {:.3} us", share.stage, share.mean_us);
//! }
//! assert_eq!(result.messages.posted, result.messages.delivered + result.messages.in_flight);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # One program, two fabrics
//!
//! A buffer is handed over with a post and comes back with its completion. Nothing in `answer` and
//! `ask` says where they run:
//!
//! ```
//! use std::error::Error;
//! use std::time::Duration;
//! use viaduct::vi::{Memory, Nic, Provider, ReturnCode};
//!
//! fn answer<P: Provider>(nic: &Nic<P>) -> Result<(), Box<dyn Error>> {
//!     let mut vi = nic.vi().build()?;
//!     // Before the connection, or the first message may find no receive.
//!     vi.post_receive(nic.buffer(64, Memory::Private)?)?;
//!     nic.listen(b"front-page").accept(&mut vi, None)?;
//!     let question = vi.receive(None)?;
//!     vi.post_receive(nic.buffer(64, Memory::Private)?)?;
//!     vi.post_send(question.buffer, question.length)?;
//!     // The other end leaves first.
//!     assert!(vi.receive(None).is_err_and(|end| end.is_flushed()));
//!     Ok(())
//! }
//!
//! fn ask<P: Provider>(nic: &Nic<P>, host: &str, wait: impl Fn()) -> Result<(), Box<dyn Error>> {
//!     let mut vi = nic.vi().build()?;
//!     vi.post_receive(nic.buffer(64, Memory::Private)?)?;
//!     let server = nic.resolve(host, b"front-page")?;
//!     while let Err(error) = vi.connect(&server, None) {
//!         assert_eq!(error.code(), ReturnCode::NoMatch); // nobody listens yet
//!         wait();
//!     }
//!     let mut question = nic.buffer(64, Memory::Private)?;
//!     question[..5].copy_from_slice(b"hello");
//!     vi.post_send(question, 5)?;
//!     assert_eq!(vi.receive(None)?.data(), b"hello");
//!     Ok(())
//! }
//!
//! // Over shared memory; two processes would run one function each.
//! use viaduct::processes::Shm;
//! let pause = Duration::from_micros(10);
//! let server = std::thread::spawn(|| {
//!     answer(&Nic::open(Shm::global(), "shm").unwrap()).unwrap();
//! });
//! ask(&Nic::open(Shm::global(), "shm")?, "localhost", || std::thread::sleep(pause))?;
//! server.join().unwrap();
//!
//! // On two simulated hosts with Giganet cLAN adapters.
//! use viaduct::simulated::{Simulation, load_programs};
//! let mut simulation = Simulation::new(load_programs("giganet-clan", None, 2)?);
//! simulation.spawn(0, |process| {
//!     answer(&Nic::open(process.fabric(), "sim0").unwrap()).unwrap();
//! });
//! simulation.spawn(1, move |process| {
//!     let nic = Nic::open(process.fabric(), "sim0").unwrap();
//!     ask(&nic, "host0", || process.sleep(pause)).unwrap();
//!     println!("simulated time: {:?}", process.now());
//! });
//! assert_eq!(simulation.run()?.counts.messages, 2);
//! # Ok::<_, Box<dyn Error>>(())
//! ```
//!
//! # Build on what lies below
//!
//! Each part is a crate of its own with docs of its own: `viaduct-core` (the rules, without I/O or
//! clock), `viaduct-network`, `viaduct-hardware`, `viaduct-cluster` (the simulator), `viaduct-shm`
//! (the fabric between processes). `ARCHITECTURE.md` is the map.

pub mod endpoints;
pub mod processes;
pub mod simulated;
pub mod study;
pub mod vi;
