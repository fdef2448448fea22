//! What every fabric does for a program, and a safe way to ask for it.
//!
//! [`Provider`] is the VI Provider Library in Rust words: its operations, one by one, over
//! descriptors that lie in the consumer's memory. The C interface, the conformance suite and the
//! safe interface stand on it; each fabric implements it.
//!
//! The safe interface is for programs. Whoever owns a [`Buffer`] may touch it: posting gives it to
//! the fabric, a completion gives it back. There are three ways to wait for one: look
//! ([`Vi::try_receive`]), sleep ([`Vi::receive`]), or `await` ([`Vi::receive_async`], on any
//! executor).
//!
//! ```text
//! Nic --- buffers, window      registered memory: a program's own, or open to peers
//!  |----- completion_queue     one place to look for completions of many VIs
//!  |----- vi --- Vi            connect, post, take completions; splits in Sender and Receiver
//!  `----- listen -- Listener   wait for a Request, accept it with a Vi
//! ```
//!
//! Two ends of one process exchange a message; between processes the two halves of the program are
//! two programs, and the fabric is `viaduct_shm::Shm::global()`.
//!
//! ```
//! use std::{sync::Arc, thread};
//! use viaduct_provider::{Memory, Nic, ReturnCode};
//! use viaduct_threads::InProcess;
//!
//! let fabric = Arc::new(InProcess::new());
//! let nic = Nic::open(Arc::clone(&fabric), "inproc0")?;
//! let listener = nic.listen(b"echo");
//!
//! let server = thread::spawn(move || {
//!     let nic = Nic::open(fabric, "inproc0")?;
//!     let mut vi = nic.vi().build()?;
//!     // Receives are posted before the connection: a message that finds none breaks it.
//!     vi.post_receive(nic.buffer(64, Memory::Shared)?)?;
//!     nic.listen(b"echo").accept(&mut vi, None)?;
//!     let message = vi.receive(None)?;
//!     vi.post_send(message.buffer, message.length)?;
//!     // Dropping a VI disconnects: first the other side has to leave.
//!     vi.sent(None)?;
//!     vi.post_receive(nic.buffer(64, Memory::Shared)?)?;
//!     assert!(vi.receive(None).is_err_and(|end| end.is_flushed()));
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! });
//!
//! let mut vi = nic.vi().build()?;
//! vi.post_receive(nic.buffer(64, Memory::Shared)?)?;
//! // Nobody listens until the server does.
//! while let Err(error) = vi.connect(listener.address(), None) {
//!     assert_eq!(error.code(), ReturnCode::NoMatch);
//! }
//! let mut buffer = nic.buffer(64, Memory::Shared)?;
//! buffer[..5].copy_from_slice(b"hello");
//! vi.post_send_immediate(buffer, 5, 1998)?;
//! let answer = vi.receive(None)?;
//! assert_eq!(answer.data(), b"hello");
//! drop(vi);
//! server.join().unwrap()?;
//! # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! No call allocates for a message: descriptors lie in one registered block of the VI. What a
//! program drops in any order, or forgets, is safe: memory that the fabric may still reach stays.

mod buffer;
mod completion;
mod completion_queue;
mod counts;
mod descriptor;
mod distance;
mod error;
mod half;
mod listener;
mod mailbox;
mod nic;
mod provider;
mod reference;
mod refusal;
mod region;
mod vi;
mod window;
mod work_queue;

pub use buffer::{Buffer, BufferHold};
pub use completion::{CompletionError, Received, Refused, Sent};
pub use completion_queue::{CompletionQueue, ViHasher, ViMap};
pub use counts::Counts;
pub use descriptor::{
    CONTROL_SEGMENT_BYTES, ControlSegment, DESCRIPTOR_ALIGNMENT, Descriptor, Segment, control,
};
pub use distance::{NEAR_LINE_BELOW_NS, is_near_line};
pub use error::{Error, Result, ReturnCode};
pub use half::{Receiver, Sender};
pub use listener::{Listener, Request};
pub use nic::Nic;
pub use provider::{
    AsynchronousError, CompletionEntry, CompletionHandler, CompletionQueueHandle, ConnectionHandle,
    DescriptorHandler, Done, ErrorHandler, IncomingRequest, NicHandle, Provider, ViHandle,
    ViInformation, Watched,
};
pub use reference::Fabric;
pub use region::Memory;
pub use vi::{Vi, ViBuilder};
pub use viaduct_core::{self as via, ErrorCode, ResourceCode};
pub use window::{Access, RemoteBuffer, Window};
