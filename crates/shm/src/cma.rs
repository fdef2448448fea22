//! One copy between private memories by the kernel.
