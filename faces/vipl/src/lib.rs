//! libvipl: the C interface of 1998, as `include/vipl.h` and `include/viplx.h` declare it.
//!
//! A function checks its pointers, converts, calls one operation of the fabric, and converts back;
//! it decides nothing. What C programs need and fabrics do not know lives here: the types
//! ([`abi`]), the names under which programs of the time open their NIC (`devices`), bytes that
//! they hold pointers to and the switch for protection tag 0 (`nics`).
//!
//! ```text
//!   program  --  vipl.h  --  functions/*  --  Provider  --  shared memory
//!                 abi         call: no panic crosses,   \--  the simulated host of this process
//!                                   reasons are logged        (fabric)
//! ```
//!
//! # Decisions
//!
//! - **The static library is the source of the shared one**: `packaging/link-shared.sh` links it
//!   with symbol versions, for which rustc has no place.

#![expect(
    non_snake_case,
    reason = "functions are spelt as the C interface spells them"
)]

pub mod abi;
mod address;
mod attributes;
mod call;
mod devices;
mod extensions;
mod fabric;
mod functions;
mod handlers;
mod nics;

pub use extensions::*;
pub use functions::*;

/// A handle of the fabric is 64 bits and goes to programs as a pointer.
const _: () = assert!(
    size_of::<*mut u8>() == 8,
    "libvipl needs a machine with 64-bit pointers"
);
