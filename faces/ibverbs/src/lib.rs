//! libibverbs in user space: the C interface of RDMA programs, onto the fabric between processes or
//! onto a simulated host.
//!
//! A function checks its pointers, converts, calls one operation of [`viaduct_rdma`] (of
//! [`viaduct_calls`], where the process runs on a simulated host: `fabric`), and converts back; it
//! decides nothing. What programs see lives here: structures that they hold pointers to
//! (`objects`), functions that they find through these (`context`, `extended`), names and numbers.
//!
//! ```text
//!   program  --  libibverbs.so.1        --  viaduct_rdma  --  processes
//!                                       --  viaduct_calls --  coordinator of a simulation
//!                symbols/*.symbols          objects hold its handles, cookies lead back
//!                functions of this crate
//! ```
//!
//! # Decisions
//!
//! - **The static library is the source of the shared one**: `packaging/link-verbs.sh` links it
//!   with the versions of `symbols/libibverbs.symbols`, and with generated functions for names that
//!   answer "not supported".
//! - **Functions that wait are `C-unwind`.** A program may end a thread that waits for an event by
//!   `pthread_cancel`, as the original can be, which waits in `read`: the C library then unwinds
//!   through the frame, where nothing may be left to drop.
//! - **Objects are looked up before they are changed or destroyed**: one that is not ours, or was
//!   destroyed before, is EINVAL. Posting and polling trust their pointers, as the original does.

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("libibverbs in user space is for Linux on x86-64: layouts of other machines differ");

mod address;
mod call;
mod completion;
mod context;
mod devices;
mod events;
mod extended_completion;
mod extended_pair;
mod fabric;
mod memory;
mod names;
mod objects;
mod pair;
mod post;
mod rates;
mod sysfs;

pub use address::*;
pub use completion::*;
pub use context::*;
pub use devices::*;
pub use events::*;
pub use extended_pair::ibv_qp_to_qp_ex;
pub use memory::*;
pub use names::*;
pub use pair::*;
pub use rates::*;
pub use sysfs::*;
