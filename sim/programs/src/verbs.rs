//! RDMA verbs on simulated hosts: queue pairs over the RDMA adapters of the presets.
//!
//! The semantics is `viaduct_core`'s [`Adapter`]; what posts, doorbells, fetches, links and
//! completions cost is what the host's model says. Names and calls are those of `viaduct_rdma`,
//! which has queue pairs between processes of this machine. Handles are cloned, and know
//! their host.
//!
//! ```
//! use viaduct_programs::Simulation;
//! use viaduct_programs::verbs::flags::{access, send};
//! use viaduct_programs::verbs::{
//!     Buffer, Capabilities, CompletionQueue, CompletionQueueOptions,
//!     QueuePair, QueuePairAttributes, QueuePairOptions, QueuePairType, SendOpcode, SendRequest,
//! };
//! use viaduct_programs::Process;
//!
//! const ALL: u32 = access::LOCAL_WRITE | access::REMOTE_WRITE;
//!
//! fn make(process: &Process) -> (QueuePair, CompletionQueue, Buffer) {
//!     let context = process.rdma().unwrap().open().unwrap();
//!     let options = CompletionQueueOptions { entries: 16, ..Default::default() };
//!     let queue = context.create_completion_queue(&options).unwrap();
//!     let domain = context.allocate_protection_domain().unwrap();
//!     let options = QueuePairOptions {
//!         kind: QueuePairType::Rc,
//!         capabilities: Capabilities {
//!             max_send_requests: 16,
//!             max_send_elements: 1,
//!             ..Capabilities::default()
//!         },
//!         send_queue: queue.clone(),
//!         receive_queue: queue.clone(),
//!         shared_receive_queue: None,
//!         is_every_send_signaled: true,
//!         cookie: 0,
//!     };
//!     let pair = domain.create_queue_pair(&options).unwrap();
//!     (pair, queue, domain.allocate(64, ALL).unwrap())
//! }
//!
//! fn connect(pair: &QueuePair, peer: u32) {
//!     let attributes = QueuePairAttributes {
//!         access_flags: ALL,
//!         ..QueuePairAttributes::connection(peer)
//!     };
//!     pair.raise(&attributes).unwrap();
//! }
//!
//! let mut simulation = Simulation::new(viaduct_scenario::load_programs("rnic-gen5", None, 2)?);
//! let (near, queue, source) = make(&simulation.process(0));
//! let (far, _, target) = make(&simulation.process(1));
//! connect(&near, far.number());
//! connect(&far, near.number());
//! source.write(0, b"hello");
//! let (remote, key) = (target.address(), target.memory_key());
//! simulation.spawn(0, move |process| {
//!     let elements = [source.element(0, 5)];
//!     let write = SendRequest::new(7, SendOpcode::RdmaWrite)
//!         .with_elements(&elements)
//!         .with_remote(remote, key);
//!     let begin = process.now();
//!     // SAFETY: nothing is inline.
//!     unsafe { near.post_send(&write) }.unwrap();
//!     assert_eq!(queue.wait(None).unwrap().unwrap().request, 7);
//!     assert!((process.now() - begin).as_nanos() < 10_000);
//! });
//! simulation.run()?;
//! assert_eq!(target.read(0, 5), b"hello");
//! # let _ = send::SIGNALED;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is simulated of it
//!
//! - An inline send is written with its descriptor; of another the adapter fetches descriptor and
//!   bytes. Whether a send is inline its flag says, and not its size.
//! - The target's adapter acknowledges each message when all of it is placed, with a frame without
//!   payload that crosses the links as others do. Adapters that acknowledge several at once are not
//!   modelled.
//! - A message is carried as one, whatever the MTU. One that is lost goes again with all behind it:
//!   when the target says that its number is missing, which it sees if another follows, or when the
//!   queue pair's timeout is over.
//! - Numbers of queue pairs say which host they are on; GIDs are not looked at.
//! - Calls that set something up take the time of a call, no more; registering memory takes what
//!   the model says.

mod handles;
mod host;
pub mod measure;
mod memory;

pub use handles::{
    AddressHandle, CompletionChannel, CompletionQueue, CompletionQueueOptions, Context,
    DatagramDestination, Device, ProtectionDomain, QueuePair, QueuePairOptions, SendRequest,
    SharedReceiveQueue,
};
pub(crate) use host::Verbs;
pub use memory::{Buffer, MemoryRegion};
pub use viaduct_provider::via::verbs::carrier::Signal;
pub use viaduct_provider::via::verbs::{
    Adapter, AddressAttributes, AsyncElement, AsyncEvent, AsyncEventType, Capabilities, Completion,
    CompletionOpcode, CompletionStatus, Error, GlobalRoute, Key, Limits, Mtu, QueuePairAttributes,
    QueuePairState, QueuePairType, ReceiveRequest, Result, ScatterGatherElement, SendOpcode,
    SharedReceiveAttributes, bytes_of, errno, flags,
};
