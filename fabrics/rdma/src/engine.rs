//! What a process holds.

use std::os::fd::RawFd;

use viaduct_core::verbs::{
    AddressAttributes, Completion, QueuePairAttributes, QueuePairState, SharedReceiveAttributes,
};

use crate::context::AsyncEvent;
use crate::counters::Counters;
use crate::device::Device;
use crate::error::{Result, unsupported};
use crate::pair::{QueuePairOptions, ReceiveRequest, SendRequest};
use crate::queues::CompletionQueueOptions;

/// Names an object of the engine, and which of those that had its place.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Key {
    index: u32,
    life: u32,
}

impl Key {
    pub(crate) const fn number(self) -> u32 {
        self.index
    }
}

macro_rules! later {
    ($($name:ident($($type:ty),*) -> $result:ty;)+) => {
        $(pub(crate) fn $name($(_: $type),*) -> Result<$result> {
            Err(unsupported("this fabric is being written"))
        })+
    };
}
type K = Key;
later! {
    open_context(Device) -> Key;
    next_async_event(K) -> AsyncEvent;
    allocate_protection_domain(K) -> Key;
    create_completion_channel(K) -> Key;
    create_completion_queue(K, &CompletionQueueOptions) -> Key;
    close_context(K) -> ();
    register_memory(K, u64, u64, u64, u32) -> (Key, u32);
    create_shared_receive_queue(K, &SharedReceiveAttributes, u64) -> Key;
    create_queue_pair(K, &QueuePairOptions) -> (Key, u32);
    create_address_handle(K, &AddressAttributes) -> Key;
    deallocate_protection_domain(K) -> ();
    reregister_memory(K, u32, Option<K>, u64, u64, u32) -> ();
    deregister_memory(K) -> ();
    destroy_address_handle(K) -> ();
    next_completion_event(K) -> u64;
    destroy_completion_channel(K) -> ();
    poll_completions(K, &mut [Completion]) -> usize;
    arm(K, bool) -> ();
    completion_queue_entries(K) -> u32;
    resize_completion_queue(K, u32) -> u32;
    destroy_completion_queue(K) -> ();
    post_shared_receive(K, &ReceiveRequest<'_>) -> ();
    modify_shared_receive_queue(K, &SharedReceiveAttributes, u32) -> ();
    query_shared_receive_queue(K) -> SharedReceiveAttributes;
    destroy_shared_receive_queue(K) -> ();
    queue_pair_state(K) -> QueuePairState;
    modify_queue_pair(K, &QueuePairAttributes, u32) -> ();
    query_queue_pair(K) -> (QueuePairAttributes, QueuePairOptions);
    post_receive(K, &ReceiveRequest<'_>) -> ();
    destroy_queue_pair(K) -> ();
}

pub(crate) unsafe fn post_sends(_: Key, _: &[SendRequest<'_>]) -> Result<()> {
    Err(unsupported("this fabric is being written"))
}
pub(crate) fn async_fd(_: Key) -> RawFd {
    -1
}
pub(crate) fn channel_fd(_: Key) -> RawFd {
    -1
}
pub(crate) fn acknowledge_completion_events(_: Key, _: u32) {}
pub(crate) fn acknowledge_async_events(_: Key, _: u32) {}
pub(crate) fn counters() -> Counters {
    Counters::default()
}
