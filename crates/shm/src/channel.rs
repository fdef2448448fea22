//! Shared memory of one connection: transfer queues and cookie queues.
