//! Active Message endpoints for real: a [`Carrier`] over the VIs of any fabric.
//!
//! A [`Station`] is a process's end: it has endpoints without number, and one VI for each pair of
//! processes, made when the first message between them is sent. At most [`Options::frames`] of
//! these stay; to make room a connection is brought to rest (nothing outstanding, all acknowledged)
//! and closed, and made again by the next message. All VIs are polled through one completion queue.
//!
//! ```text
//!  Endpoint (viaduct-am)
//!     |
//!  Station        station.rs: the carrier; waiting.rs: who sleeps where
//!     |
//!  State          one lock: endpoints.rs: queues;  peers.rs: other processes, what waits for them
//!     |           dispatch.rs: what arrives;  frames.rs: which connection has to go
//!  Connection     connection.rs: one VI, a window of 32 messages, acknowledgements (wire.rs)
//!
//!  Acceptor       acceptor.rs: a thread of its own that answers who wants to connect
//! ```
//!
//! ```
//! use std::sync::Arc;
//! use viaduct_am::{Body, Endpoint, EventMask, HandlerId, Handlers, Key, Options};
//! use viaduct_endpoints::{Identity, Station};
//! use viaduct_inproc::InProcess;
//!
//! const ADD: HandlerId = HandlerId::of(0);
//! const SUM: HandlerId = HandlerId::of(0);
//!
//! let fabric = Arc::new(InProcess::new());
//! let open = |number| Station::start(Arc::clone(&fabric), "inproc0", Identity::new(number),
//! Default::default()); let (here, there) = (open(1)?, open(2)?);
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
