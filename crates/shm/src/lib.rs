//! The VI Architecture between processes of one machine, over shared memory.
