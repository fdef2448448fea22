//! The fabric between processes of this machine, over shared memory.

pub use viaduct_shm::Shm;
