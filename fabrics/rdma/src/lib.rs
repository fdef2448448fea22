//! Queue pairs between processes of one machine, without RDMA hardware: the objects and calls of
//! verbs, for faces to translate.
//!
//! ```text
//! devices() -> Device        open -> Context           attributes, port, gid, partition_key
//! Context                    allocate_protection_domain, create_completion_channel,
//!                            create_completion_queue, next_async_event
//! ProtectionDomain           register_memory, allocate, create_queue_pair,
//!                            create_shared_receive_queue, create_address_handle
//! QueuePair                  modify, query, post_send, post_sends, post_receive
//! CompletionQueue            poll, arm, resize
//! CompletionChannel          fd, next_event
//! ```
//!
//! - Handles are small values that are copied. One whose object is destroyed, or that belongs to
//!   the parent of a forked process, is told from live ones: calls answer EINVAL. A forked child
//!   may open devices of its own.
//! - Words, numbers and bits are those of `infiniband/verbs.h` ([`viaduct_core::verbs`]).
//! - Errors are numbers of `errno.h` with a reason in words ([`Error`]).
//! - `cookie` is a number of the caller's (an address of its own structure) by which events name
//!   the object.
//! - No thread starts before a device is opened.

mod carrier;
mod context;
mod counters;
mod device;
mod direct;
mod engine;
mod error;
mod faults;
mod limits;
mod link;
mod memory;
mod packet;
mod pair;
mod queues;
mod region;
mod requester;
mod responder;
mod ring;
mod service;
mod shared;
mod short;
mod state;
mod tables;

pub use context::{AsyncElement, AsyncEvent, Context};
pub use counters::Counters;
pub use device::{
    DEVICES_MAX, Device, DeviceAttributes, GidEntry, GidType, PortAttributes, devices, gid_of,
};
pub use error::of_system;
pub use faults::{FaultError, parse_faults};
pub use pair::{DatagramDestination, QueuePair, QueuePairOptions, ReceiveRequest, SendRequest};
pub use queues::{CompletionChannel, CompletionQueue, CompletionQueueOptions, SharedReceiveQueue};
pub use region::{AddressHandle, Buffer, MemoryRegion, ProtectionDomain};
pub use viaduct_core::verbs::{self, Error, Result};
