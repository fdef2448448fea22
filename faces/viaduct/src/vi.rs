//! The interface that programs are written against: NICs, VIs, buffers, completions.
//!
//! [`Nic`] is where to begin. The whole of it is `viaduct-provider`, whose docs say how the parts
//! belong together.

pub use viaduct_provider::*;
