//! libam: virtual networks in C, as `include/am.h` declares and describes them.
//!
//! A function checks its pointers, finds the object, calls one operation of `viaduct-am`, and
//! converts back; it decides nothing. Handles are numbers that are looked up, never addresses: one
//! that was freed, or never was one, is an error.
//!
//! ```text
//!   program  --  am.h  --  functions/*  --  viaduct-am  --  viaduct-vi-carrier  --  shared memory
//!                 abi       call: no panic crosses, what failed is kept as text
//!                           handles: numbers to objects;  objects: stations, endpoints, bundles
//!   handlers  <--  handlers: what C is given, and the token that replies once
//! ```
//!
//! # Decisions
//!
//! - **Handles of `am.h` are numbers**, looked up in places that are never given back
//!   (`handles.rs`): one that was freed, or is of another kind, is an error for the price
//!   of one atomic exchange. A C handler may only reply, so that no lock is ever asked for twice.

pub mod abi;
mod call;
mod convert;
mod functions;
mod handlers;
mod handles;
mod objects;
mod texts;

pub use functions::*;

/// A handle is 64 bits and goes to programs as a pointer.
const _: () = assert!(
    size_of::<*mut u8>() == 8,
    "libam needs a machine with 64-bit pointers"
);
