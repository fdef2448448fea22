//! The binary interface of libibverbs on 64-bit machines: the layouts and values that programs were
//! compiled against, for the libraries that take the place of libibverbs and librdmacm.
//!
//! Types, fields and values have the names that C gives them, without the prefix that repeats in
//! each: what they mean is in the manual pages of rdma-core. Sizes and offsets are held against its
//! headers by a test. Two structures have grown over the years; here is the newest form, and
//! [`VerbsContext`] says how older programs find their part of it.

#![no_std]
#![expect(
    missing_docs,
    reason = "fields and values are those of verbs.h, whose manual pages say what they mean"
)]

mod context;
mod extended;
mod objects;
mod requests;
mod values;

pub use context::*;
pub use extended::*;
pub use objects::*;
pub use requests::*;
pub use values::*;
