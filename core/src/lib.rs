//! The Virtual Interface Architecture's semantics: no I/O, no clock, no thread, no randomness.
//!
//! A [`Nic`] holds what one NIC knows: VIs and their work queues, completion queues, memory regions
//! and protection tags, connections. It is told what happened and answers what to do; a driver,
//! simulated or real, moves the bytes, which are never touched here.
//!
//! ```text
//!   consumer                         driver
//!   create_*, register_memory        start_send, finish_send, handle_acknowledgement
//!   post_send, post_receive          start_receive, finish_receive
//!   send_done, receive_done          start_remote_write, start_remote_read
//!   connect_*, accept, disconnect    handle_connection_message, handle_timeout
//!            |                       handle_transport_failure, handle_host_unreachable
//!             \                      poll_transmit, poll_timeout, poll_ready
//!              \                    /
//!                Nic  --- poll_event
//! ```
//!
//! The rules themselves are pure functions, for data paths of another shape too: [`outcome`] (what
//! an incident does at each reliability level), [`protection`], [`transition`], [`check`],
//! [`connection`] (how far a request for a connection has come) and [`matching`] (who is connected
//! with whom).
//! `core/README.md` lists what a driver must do and what was decided where VIA leaves room.
//!
//! # Example
//!
//! Two NICs connect and exchange one message. The driver is the loop in `carry`, and the assignment
//! of the header.
//!
//! ```
//! use std::sync::Arc;
//! use viaduct_core::*;
//!
//! fn carry(nics: &mut [Nic; 2]) {
//!     let now = Timestamp::ZERO;
//!     for from in [0, 1, 0] {
//!         while let Some(Transmit { to, message }) = nics[from].poll_transmit() {
//!             let from = HostAddress::new(from as u64);
//!             nics[to.get() as usize].handle_connection_message(from, message, now);
//!         }
//!     }
//! }
//!
//! let attributes = Arc::new(NicAttributes::default());
//! let mut nics = [Nic::new(attributes.clone()), Nic::new(attributes)];
//! let mut vis = Vec::new();
//! let mut buffers = Vec::new();
//! for nic in &mut nics {
//!     let tag = nic.create_protection_tag()?;
//!     let handle = nic.register_memory(0x1000, 4096, MemoryAttributes::local(tag))?;
//!     buffers.push(Segments::one(DataSegment { address: 0x1000, handle, length: 64 }));
//!     vis.push(nic.create_vi(ViAttributes::unreliable(tag, 4096), None, None)?);
//! }
//!
//! // Receives are posted before there is a connection.
//! nics[1].post_receive(vis[1], Descriptor::receive(buffers[1].clone(), 7))?;
//!
//! // Host 1 waits on an address, host 0 asks for it, host 1 accepts.
//! let (client, server) =
//!     (Address::new(HostAddress::new(0), b"me"), Address::new(HostAddress::new(1), b"server"));
//! nics[1].connect_wait(server.clone(), Timestamp::ZERO, Timespan::INFINITE)?;
//! let limit = Timespan::from_milliseconds(10);
//! nics[0].connect_request(vis[0], client, server, Timestamp::ZERO, limit)?;
//! carry(&mut nics);
//! let Some(Event::ConnectionRequested { request, .. }) = nics[1].poll_event() else { panic!() };
//! nics[1].accept(request, vis[1])?;
//! carry(&mut nics);
//! assert!(matches!(nics[0].poll_event(), Some(Event::Connected { .. })));
//!
//! // The consumer posts; the driver starts, carries and finishes; both consumers look.
//! nics[0].post_send(vis[0], Descriptor::send(buffers[0].clone(), 5).with_immediate(42))?;
//! let send = nics[0].start_send(vis[0]).unwrap();
//! let header = send.header;
//! assert_eq!(nics[0].send_segments(vis[0], send.work)[0].length, 64);
//! nics[0].finish_send(vis[0], send.work, SendOutcome::Sent);
//! assert_eq!(nics[0].send_done(vis[0]).completion().unwrap().cookie, 5);
//!
//! let ReceiveVerdict::Place(receive) = nics[1].start_receive(send.peer.vi, &header) else {
//!     panic!()
//! };
//! nics[1].finish_receive(vis[1], receive.work, ReceiveOutcome::Placed);
//! let completion = nics[1].receive_done(vis[1]).completion().unwrap();
//! assert_eq!(completion.status.bits(), 0x0009_0001);
//! assert_eq!((completion.cookie, completion.length, completion.immediate), (7, 64, Some(42)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Parts
//!
//! What knows nothing of the VI Architecture lies in files beside this one. What only it has lies
//! in `via/`, which uses them; none of them uses it, which a test holds. Another kind of end, with
//! queue pairs for one, gets a folder beside `via/` and uses the same files.
//!
//! - `keys.rs`, `protection.rs`, `memory.rs`: handles, tags, rights, regions, the check of an
//!   access. More rights, such as atomic operations, become fields of `Rights` and
//!   `MemoryAttributes`; memory windows become regions.
//! - `descriptor.rs`: a unit of work by value, its operation, segments, immediate data and cookie.
//!   More operations go here.
//! - `completion_queue.rs`: where the completions of many queues are found. A queue that loses
//!   entries beyond a limit would say so here.
//! - `connection.rs`: phases of a request for a connection. Private data stay with the messages of
//!   whoever has them.
//! - `ids.rs`, `address.rs`, `slab.rs`, `time.rs`: names of ends and hosts, tables, instants.
//! - `mutation.rs`: rules broken on purpose, in tests; new rules go into its list of sources.
//!
//! Not shared yet, since it holds VIA's status word: `via/work_queue.rs`. Queue pairs and shared
//! receive queues need it with the status as a parameter. States, outcomes at a level, formats and
//! errors are different there, and will be files of their own with the same shape: pure functions,
//! each a rule.
//!
//! # Words
//!
//! - NIC (network interface controller), adapter: `Nic`, `NicAttributes` (`via/nic.rs`,
//!   `via/attributes.rs`)
//! - virtual interface, VI: `Vi`, named by `ViId`; `ViState` (`via/vi.rs`, `ids.rs`,
//!   `via/state.rs`)
//! - work queue, send and receive: `WorkQueue`, entries named by `WorkId` (`via/work_queue.rs`)
//! - descriptor, data segment, immediate data: `Descriptor`, `Segments`, `DataSegment`
//!   (`descriptor.rs`)
//! - status word of a descriptor: `Status`, `Completion` (`via/status.rs`, `via/work_queue.rs`)
//! - completion queue: `CompletionQueue`, `CompletionEntry` (`completion_queue.rs`)
//! - memory region, handle; protection tag: `Region` (`protection.rs`), `MemoryHandle`,
//!   `ProtectionTag` (`keys.rs`)
//! - connect, wait, request, accept, disconnect: `connect_wait`, `connect_request`, `accept`, ...
//!   (`via/connect.rs`, `via/open.rs`)
//! - reliability level: `ReliabilityLevel` (`via/attributes.rs`)

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

/// What a rule says: in builds with debug assertions, unless a test has broken it.
///
/// After a comma stands what tells its parts from each other, if it is one of several.
#[cfg(debug_assertions)]
macro_rules! rule {
    ($says:expr) => {
        rule!($says, ())
    };
    ($says:expr, $part:expr) => {{
        fn here() {}
        crate::mutation::ask(core::any::type_name_of_val(&here), $part, $says)
    }};
}
#[cfg(not(debug_assertions))]
macro_rules! rule {
    ($says:expr $(, $part:expr)?) => {
        $says
    };
}

mod address;
mod completion_queue;
pub mod connection;
mod descriptor;
mod ids;
mod keys;
mod memory;
#[cfg(debug_assertions)]
pub mod mutation;
pub mod protection;
mod slab;
mod time;
pub mod verbs;
mod via;

pub use address::{Address, Discriminator, HostAddress};
pub use completion_queue::{CompletionEntry, CompletionQueueId, CompletionQueueInformation};
pub use descriptor::{DataSegment, Descriptor, Operation, RemoteSegment, Segments};
pub use ids::{ConnectionNumber, Peer, Queue, RequestId, ViId, WaitId};
pub use keys::{MemoryAttributes, MemoryHandle, ProtectionTag, Rights};
pub use memory::{MemoryError, TagError};
pub use time::{Timespan, Timestamp};
pub use via::{
    BreakReason, CompletedOperation, Completion, CompletionQueueError, Completions, ConnectError,
    ConnectFailure, ConnectionMessage, Done, DropReason, ErrorCode, Event, Extensions,
    Introduction, MessageHeader, Nic, NicAttributes, PostError, ReceiveOutcome, ReceiveVerdict,
    ReliabilityLevel, ReliabilityLevels, RemoteVerdict, RemoteViAttributes, ResourceCode,
    SendOutcome, StartedReceive, StartedRemote, StartedSend, Status, Transmit, ViAttributes,
    ViError, ViInformation, ViState, WorkId, check, matching, names, outcome, transition,
};

#[cfg(test)]
mod tests {
    /// The parts that every kind of end uses.
    const SHARED: [(&str, &str); 10] = [
        ("address", include_str!("address.rs")),
        ("completion_queue", include_str!("completion_queue.rs")),
        ("connection", include_str!("connection.rs")),
        ("descriptor", include_str!("descriptor.rs")),
        ("ids", include_str!("ids.rs")),
        ("keys", include_str!("keys.rs")),
        ("memory", include_str!("memory.rs")),
        ("protection", include_str!("protection.rs")),
        ("slab", include_str!("slab.rs")),
        ("time", include_str!("time.rs")),
    ];

    #[test]
    fn shared_parts_use_shared_parts_alone() {
        for (name, source) in SHARED {
            let code = source.lines().filter(|line| !line.trim().starts_with("//"));
            for line in code.filter(|line| line.contains("crate::")) {
                let used = line.split("crate::").skip(1);
                let modules = used.map(|rest| rest.split([':', ';']).next().unwrap_or_default());
                for module in modules {
                    let is_shared = SHARED.iter().any(|(shared, _)| *shared == module);
                    assert!(is_shared, "{name} uses {module}: {line}");
                }
            }
        }
    }
}
