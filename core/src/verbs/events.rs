//! What is told without having been asked for.

use super::AsyncEventType;

/// What an asynchronous event is about. The number is the `cookie` with which the object was made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AsyncElement {
    /// A completion queue.
    CompletionQueue(u64),
    /// A queue pair.
    QueuePair(u64),
    /// A shared receive queue.
    SharedReceiveQueue(u64),
    /// A port.
    Port(u8),
    /// The device.
    Device,
}

/// `struct ibv_async_event`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AsyncEvent {
    /// What happened.
    pub kind: AsyncEventType,
    /// To what.
    pub element: AsyncElement,
}
