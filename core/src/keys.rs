//! Keys to memory: handles, tags, and the rights that go with them.

/// Names a live memory region of one NIC, as it stands in descriptors.
///
/// A handle made by a NIC is never 0. It is told from the 4094 handles that its slot had before.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MemoryHandle(pub(crate) u32);

impl MemoryHandle {
    /// From the number in a foreign descriptor; a number that names nothing fails the checks.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The number.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// Ties ends of connections to the memory regions that their descriptors may name. Belongs to one
/// NIC.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ProtectionTag(pub(crate) u32);

impl ProtectionTag {
    /// From a number of the C interface; a number that names nothing is refused where it is used.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The number, never 0 for a tag made by a NIC.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// What a memory region is registered with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MemoryAttributes {
    /// Which ends may name the region.
    pub tag: ProtectionTag,
    /// Whether a peer may write it.
    pub rdma_write: bool,
    /// Whether a peer may read it.
    pub rdma_read: bool,
}

impl MemoryAttributes {
    /// For local use only.
    #[must_use]
    pub const fn local(tag: ProtectionTag) -> Self {
        Self {
            tag,
            rdma_write: false,
            rdma_read: false,
        }
    }
}

/// What an end of a connection lets its peer do with memory of the same tag.
///
/// A kind of end that lets peers do more, atomic operations for one, gets a field for it here, and
/// [`MemoryAttributes`] the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rights {
    /// The end's tag.
    pub tag: ProtectionTag,
    /// Whether its peer may write.
    pub rdma_write: bool,
    /// Whether its peer may read.
    pub rdma_read: bool,
}
