//! Descriptors: what a consumer posts to a work queue.

use alloc::boxed::Box;

use crate::keys::MemoryHandle;

/// One unit of work for a send or a receive queue, by value.
///
/// The queue keeps it until the consumer takes its completion. The buffers named by its segments
/// belong to the provider for that long.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Descriptor {
    /// What to do. A receive queue takes [`Operation::SendReceive`] only.
    pub operation: Operation,
    /// Do not start before all earlier remote reads of this queue are complete.
    pub queue_fence: bool,
    /// Four bytes carried beside a sent message or a remote write. Ignored on a receive queue.
    pub immediate: Option<u32>,
    /// Send queue: bytes in all data segments together. Ignored on a receive queue, whose capacity
    /// is the sum of its segments.
    pub length: u32,
    /// Where the bytes lie.
    pub segments: Segments,
    /// The consumer's name for this descriptor, handed back at completion.
    pub cookie: u64,
}

impl Descriptor {
    /// A send of everything in `segments`.
    ///
    /// The length is their sum, or `u32::MAX`, which completes with a length error, above that.
    #[inline]
    #[must_use]
    pub fn send(segments: Segments, cookie: u64) -> Self {
        let length = u32::try_from(segments.total_bytes()).unwrap_or(u32::MAX);
        let operation = Operation::SendReceive;
        Self {
            operation,
            queue_fence: false,
            immediate: None,
            length,
            segments,
            cookie,
        }
    }

    /// A receive into `segments`.
    #[inline]
    #[must_use]
    pub fn receive(segments: Segments, cookie: u64) -> Self {
        let operation = Operation::SendReceive;
        Self {
            operation,
            queue_fence: false,
            immediate: None,
            length: 0,
            segments,
            cookie,
        }
    }

    /// A write of everything in `data` to the peer's memory at `remote`.
    #[must_use]
    pub fn rdma_write(remote: RemoteSegment, data: &[DataSegment], cookie: u64) -> Self {
        Self {
            operation: Operation::RdmaWrite,
            ..Self::send(Segments::with_remote(remote, data), cookie)
        }
    }

    /// A read of the peer's memory at `remote`, to fill everything in `data`.
    #[must_use]
    pub fn rdma_read(remote: RemoteSegment, data: &[DataSegment], cookie: u64) -> Self {
        Self {
            operation: Operation::RdmaRead,
            ..Self::send(Segments::with_remote(remote, data), cookie)
        }
    }

    /// The same, held back until all earlier remote reads of its queue are complete.
    #[must_use]
    pub fn with_queue_fence(self) -> Self {
        Self {
            queue_fence: true,
            ..self
        }
    }

    /// The same with immediate data.
    #[must_use]
    pub fn with_immediate(self, immediate: u32) -> Self {
        Self {
            immediate: Some(immediate),
            ..self
        }
    }
}

/// What a descriptor asks for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Operation {
    /// A send on the send queue, a receive on the receive queue.
    SendReceive,
    /// A write into the peer's memory. Needs a remote segment.
    RdmaWrite,
    /// A read of the peer's memory. Needs a remote segment and takes no immediate data.
    RdmaRead,
    /// The control word of a foreign descriptor says nothing legal: completes with a format error.
    Illegal,
}

/// A range of registered local memory.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct DataSegment {
    /// First byte.
    pub address: u64,
    /// The registration that covers the range.
    pub handle: MemoryHandle,
    /// Bytes. A segment of 0 bytes is legal and its address and handle are not looked at.
    pub length: u32,
}

/// A place in the peer's memory: where a remote write or read begins.
///
/// The peer says both by other means: it knows where its memory lies and what its handle is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RemoteSegment {
    /// First byte, as the peer addresses it.
    pub address: u64,
    /// The peer's registration that covers the range.
    pub handle: MemoryHandle,
}

/// The segments of a descriptor: data segments in the order of the message's bytes, and before
/// them, for remote operations, the remote one.
///
/// No segment or one data segment lie in the descriptor itself; more are boxed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Segments(Storage);

#[derive(Clone, Debug, Default, Eq, PartialEq)]
enum Storage {
    #[default]
    None,
    One(DataSegment),
    Many(Box<[DataSegment]>),
    /// The remote segment, packed, and the data segments.
    Remote(Box<[DataSegment]>),
}

impl Segments {
    /// No segment: a message of 0 bytes.
    #[must_use]
    pub const fn none() -> Self {
        Self(Storage::None)
    }

    /// One segment.
    #[must_use]
    pub const fn one(segment: DataSegment) -> Self {
        Self(Storage::One(segment))
    }

    /// Any number of segments. More than the NIC's limit completes with a format error.
    #[must_use]
    pub fn from_slice(segments: &[DataSegment]) -> Self {
        match segments {
            [] => Self::none(),
            [segment] => Self::one(*segment),
            _ => Self(Storage::Many(segments.into())),
        }
    }

    /// A remote segment and any number of data segments. A send ignores the former.
    #[must_use]
    pub fn with_remote(remote: RemoteSegment, data: &[DataSegment]) -> Self {
        let RemoteSegment { address, handle } = remote;
        let first = DataSegment {
            address,
            handle,
            length: 0,
        };
        Self(Storage::Remote(
            core::iter::once(first)
                .chain(data.iter().copied())
                .collect(),
        ))
    }

    /// The remote segment, if there is one.
    #[inline]
    #[must_use]
    pub fn remote(&self) -> Option<RemoteSegment> {
        match &self.0 {
            Storage::Remote(segments) => segments.first().map(|first| RemoteSegment {
                address: first.address,
                handle: first.handle,
            }),
            _ => None,
        }
    }

    /// Segments, the remote one included.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        match &self.0 {
            Storage::None => 0,
            Storage::One(_) => 1,
            Storage::Many(segments) | Storage::Remote(segments) => segments.len(),
        }
    }

    /// Whether both lie in their descriptors and are equal.
    #[inline]
    pub(crate) fn are_equal_in_place(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Storage::None, Storage::None) => true,
            (Storage::One(one), Storage::One(another)) => one == another,
            _ => false,
        }
    }

    /// The same, of segments that lie in their descriptor; none, of others.
    #[inline]
    pub(crate) const fn copy_in_place(&self) -> Self {
        match self.0 {
            Storage::One(segment) => Self::one(segment),
            _ => Self::none(),
        }
    }

    /// The data segments, in order.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[DataSegment] {
        match &self.0 {
            Storage::None => &[],
            Storage::One(segment) => core::slice::from_ref(segment),
            Storage::Many(segments) => segments,
            Storage::Remote(segments) => segments.get(1..).unwrap_or_default(),
        }
    }

    /// The sum of the data segments' lengths.
    #[inline]
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        match &self.0 {
            Storage::None => 0,
            Storage::One(segment) => u64::from(segment.length),
            Storage::Many(_) | Storage::Remote(_) => {
                self.as_slice().iter().map(|s| u64::from(s.length)).sum()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(length: u32) -> DataSegment {
        DataSegment {
            address: 0x1000,
            handle: MemoryHandle::from_bits(1 << 20),
            length,
        }
    }

    #[test]
    fn segments_keep_their_order_and_sum() {
        for count in 0..4_u32 {
            let list: Box<[DataSegment]> = (0..count).map(segment).collect();
            let remote = RemoteSegment {
                address: 7,
                handle: MemoryHandle::from_bits(1),
            };
            for (segments, place) in [
                (Segments::from_slice(&list), None),
                (Segments::with_remote(remote, &list), Some(remote)),
            ] {
                assert_eq!(segments.as_slice(), &*list);
                assert_eq!(segments.remote(), place);
                assert_eq!(segments.count(), list.len() + place.iter().count());
                assert_eq!(
                    segments.total_bytes(),
                    list.iter().map(|s| u64::from(s.length)).sum()
                );
            }
        }
    }

    #[test]
    fn a_sum_past_the_length_field_does_not_wrap() {
        let huge = Segments::from_slice(&[segment(u32::MAX), segment(2)]);
        assert_eq!(huge.total_bytes(), u64::from(u32::MAX) + 2);
        assert_eq!(Descriptor::send(huge, 0).length, u32::MAX);
    }
}
