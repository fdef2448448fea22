//! librdmacm: connections of RDMA programs by address, without RDMA hardware.
//!
//! A full drop-in for the library of rdma-core: all names of its versions RDMACM_1.0 to 1.5, over
//! the exported functions of our libibverbs. What the original asks of the kernel, a connection
//! manager in each process does.
//!
//! ```text
//!   program  --  functions/*  --  verbs: libibverbs, as any program calls it
//!                 abi, object      |
//!                                manager: endpoints, channels, ports, sockets to other processes
//! ```
//!
//! # Decisions
//!
//! - **No state of queue pairs is kept here**: they are set by `ibv_modify_qp`, in the thread that
//!   takes the event, as in the original.
//! - **Sockets over RDMA** (`rsocket` and its like) answer that they are not supported; these names
//!   are made by the linker (`symbols/librdmacm.symbols`).

pub mod abi;
mod address;
mod attributes;
mod call;
mod devices;
mod functions;
mod manager;
mod object;
mod system;
mod verbs;

pub use functions::*;

/// Handles are pointers, and layouts those of 64 bits.
const _: () = assert!(
    size_of::<*mut u8>() == 8,
    "librdmacm needs a machine with 64-bit pointers"
);
