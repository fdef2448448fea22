//! Active Message endpoints between processes: a [`Carrier`] over the VIs of any fabric.
//!
//! A [`Station`] is a process's end: it has any number of endpoints, and one VI for each pair of
//! processes, made when the first message between them is sent. At most [`Options::frames`] of
//! these stay open. To make room a connection is drained (nothing outstanding, all acknowledged)
//! and closed; the next message makes it again. All VIs are polled through one completion queue.
//!
//! ```text
//!  Endpoint (viaduct-am)
//!     |
//!  Station        station.rs: the carrier; waiting.rs: who sleeps where
//!     |
//!  StationState   one lock: endpoints.rs: queues;  peers.rs: other processes, what waits for them
//!     |           dispatch.rs: what arrives;  frames.rs: which connection has to go
//!  Connection     connection.rs: one VI, a window of 32 messages, acknowledgements (wire.rs)
//!
//!  Acceptor       acceptor.rs: a thread of its own that answers who wants to connect
//! ```
//!
//! ```
//! use std::sync::Arc;
//! use viaduct_am::{Body, Endpoint, EventMask, HandlerId, Handlers, Key, Options};
//! use viaduct_vi_carrier::{Identity, Station};
//! use viaduct_threads::InProcess;
//!
//! const ADD: HandlerId = HandlerId::of(0);
//! const SUM: HandlerId = HandlerId::of(0);
//!
//! let fabric = Arc::new(InProcess::new());
//! let open = |number| {
//!     let identity = Identity::new(number);
//!     Station::start(Arc::clone(&fabric), "inproc0", identity, Default::default())
//! };
//! let (here, there) = (open(1)?, open(2)?);
//!
//! let handlers = Handlers::new(|_: &mut u64, returned| panic!("{returned:?}"))
//!     .on_request(ADD, |_, request| {
//!         let sum = request.words().iter().sum();
//!         request.reply(SUM, &[sum]).unwrap();
//!     })
//!     .on_reply(SUM, |sum, reply| *sum = reply.words()[0]);
//! let handlers = Arc::new(handlers);
//! let key = Key(1999);
//! let mut server = Endpoint::new(&there, &handlers, 0, Options::new(key))?;
//! let mut client = Endpoint::new(&here, &handlers, 0, Options::new(Key(0)))?;
//!
//! // The name went from one to the other by any means.
//! client.map(0, &server.name(), key)?;
//! client.request(0, ADD, &[40, 2])?;
//! server.wait(EventMask::MESSAGE, None)?;
//! server.poll();
//! client.wait(EventMask::MESSAGE, None)?;
//! client.poll();
//! assert_eq!(*client.state(), 42);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # An active message's way
//!
//! A program's call is `am`'s (`endpoint.rs`): it finds name and key in the endpoint's table, takes
//! a credit, and offers the message to the carrier. This crate carries it over VIs, under one lock
//! per process (`state.rs`).
//!
//! 1. `StationState::offer` writes a header of 32 bytes and the words (`wire.rs`) into a send
//!    buffer: with two words that is what `shm` sends in one cache line. `Connection::send` posts
//!    it, if there is a connection with room in its window of 32; else it waits in
//!    `Peer::pending`, and who holds no lock connects (`acceptor.rs`).
//! 2. The other process polls: `StationState::progress` takes completions, `dispatch.rs` reads the
//!    message once, and the endpoint's slot judges it (`endpoints.rs: judge`): life, key, handler,
//!    segment, room. Each counted message gets a verdict. Acknowledgements are a count in every
//!    header; verdicts that say no go in a message of their own, before any other.
//! 3. The sender keeps a message until its verdict. *Accepted* frees it. *Busy* parks it until the
//!    endpoint says that it has room (`Kind::Ready`). Anything else returns it to its endpoint with
//!    the reason.
//! 4. `Endpoint::poll` takes from its own slot and runs the handler with no lock held; the token
//!    replies the same way. A request's tag is the carrier's: a reply without an open request of
//!    that tag to that process is dropped. A peer is forgotten when no table entry, connection or
//!    open request leads to it (`peers.rs`): `Carrier::release` gives a route back.
//! 5. A connection that breaks returns what had no verdict (`Reason::ConnectionLost`) and what was
//!    delivered and has no reply (`Unanswered`); what had not been sent is tried on a new one.
//!
//! Draining: whoever needs the frame sends `Rest` and no counted message after it; the peer sends
//! `AtRest` once all of its own are acknowledged; then the first closes. Nothing is outstanding, so
//! the next message makes a new connection and none is lost or doubled. Connections on their way
//! out do not count as frames, up to as many again, so that making one never waits for a peer.
//!
//! # Words
//!
//! - station: a process's end of its virtual networks; frame: a connection that stays: `Station`,
//!   `Options::frames` (`station.rs`, `options.rs`)
//! - counted message: one that is acknowledged, and kept until then; verdict: how it ended:
//!   `Kind::is_counted`, `Verdict` (`wire.rs`)
//! - draining: closing a connection with nothing outstanding: `has_asked`, `peer_asked`,
//!   `has_agreed` (`connection.rs`)
//!
//! [`Carrier`]: viaduct_am::Carrier

#![forbid(unsafe_code)]

mod acceptor;
mod connection;
mod dispatch;
mod endpoints;
mod frames;
mod identity;
mod options;
mod payload;
mod peers;
mod state;
mod station;
mod waiting;
mod wire;

pub use acceptor::Acceptor;
pub use identity::Identity;
pub use options::{Options, Policy};
pub use payload::Payload;
pub use peers::Route;
pub use state::Statistics;
pub use station::{ReturnPath, Station};
