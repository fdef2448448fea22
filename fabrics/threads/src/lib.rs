//! A fabric inside one process: the VI Architecture's semantics between threads, with no
//! transport.
//!
//! [`InProcess`] is a [`Provider`](viaduct_provider::Provider) over the semantics of `viaduct-core`
//! alone. Programs can be tried with it where there is no shared memory and no second process; the
//! conformance suite runs over it, so that it holds the semantics to the same claims as the fabrics
//! that move data between processes.
//!
//! ```text
//!  consumer's threads                            the provider's thread
//!  viaduct_agent   one operation each            handlers.rs  error and notify handlers,
//!      |                                              ^       called without the lock
//!      v                                              | calls
//!  shared.rs       lock, do, carry, unlock  ---> carry.rs: messages and events until nothing moves
//! ```
//!
//! A message is moved by the thread that made it possible, with one copy, before its operation
//! returns. Blocking operations wait on one condition variable.
//!
//! ```
//! use viaduct_provider::Provider;
//! use viaduct_threads::InProcess;
//!
//! let fabric = InProcess::new();
//! let nic = fabric.open_nic("inproc0")?;
//! let (attributes, _address) = fabric.query_nic(nic)?;
//! assert_eq!(attributes.reliability_levels.bits(), 7);
//! # Ok::<(), viaduct_provider::Error>(())
//! ```

mod carry;
mod handlers;
mod shared;
mod threads;

pub use threads::{InProcess, Threads, with_harm, with_nics};
