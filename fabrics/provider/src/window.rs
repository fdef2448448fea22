//! Memory that peers reach: windows, and how a peer names one.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use viaduct_core::MemoryHandle;

use crate::error::{Error, Result, ReturnCode};
use crate::provider::Provider;
use crate::region::Region;

/// What peers may do with a [`Window`], through VIs that allow it too.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Access {
    /// Write.
    Write,
    /// Read.
    Read,
    /// Write and read.
    ReadWrite,
}

impl Access {
    pub(crate) const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }

    pub(crate) const fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }
}

/// Registered memory that peers write or read at any time, without a word.
///
/// It is therefore never a slice: bytes are copied in and out, and single words are loaded and
/// stored as one. A program that polls a word sees all that was written before it
/// ([`Window::load_u32`]).
///
/// Made by [`crate::Nic::window`]. Dropped, it is deregistered: a peer that writes then fails.
pub struct Window<P: Provider> {
    region: Arc<Region<P>>,
    length: usize,
}

impl<P: Provider> Window<P> {
    pub(crate) fn new(region: Region<P>, length: usize) -> Self {
        Self {
            region: Arc::new(region),
            length,
        }
    }

    /// Bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a window is never empty")]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// What a peer needs to reach it.
    #[must_use]
    pub fn remote(&self) -> RemoteBuffer {
        RemoteBuffer {
            address: self.region.address().as_ptr().expose_provenance() as u64,
            handle: self.region.handle().bits(),
            length: self.length as u32,
        }
    }

    /// Copies bytes out, as they are now.
    ///
    /// # Panics
    ///
    /// When the range is not inside the window.
    pub fn read(&self, offset: usize, target: &mut [u8]) {
        self.check(offset, target.len());
        let (head, words) = self.split(offset, target.len());
        let (first, rest) = target.split_at_mut(head);
        let (middle, last) = rest.split_at_mut(words * WORD_BYTES);
        // Relaxed: the order of bulk data is that of the word or completion that told of it.
        for (index, byte) in first.iter_mut().enumerate() {
            *byte = self.byte(offset + index).load(Ordering::Relaxed);
        }
        let offset = offset + head;
        for (index, word) in middle.chunks_exact_mut(WORD_BYTES).enumerate() {
            let value = self
                .word(offset + index * WORD_BYTES)
                .load(Ordering::Relaxed);
            word.copy_from_slice(&value.to_ne_bytes());
        }
        let offset = offset + words * WORD_BYTES;
        for (index, byte) in last.iter_mut().enumerate() {
            *byte = self.byte(offset + index).load(Ordering::Relaxed);
        }
    }

    /// Copies bytes in.
    ///
    /// # Panics
    ///
    /// When the range is not inside the window.
    pub fn write(&self, offset: usize, source: &[u8]) {
        self.check(offset, source.len());
        let (head, words) = self.split(offset, source.len());
        let (first, rest) = source.split_at(head);
        let (middle, last) = rest.split_at(words * WORD_BYTES);
        // Relaxed: see `read`.
        for (index, byte) in first.iter().enumerate() {
            self.byte(offset + index).store(*byte, Ordering::Relaxed);
        }
        let offset = offset + head;
        let (chunks, _) = middle.as_chunks::<WORD_BYTES>();
        for (index, word) in chunks.iter().enumerate() {
            let value = u64::from_ne_bytes(*word);
            self.word(offset + index * WORD_BYTES)
                .store(value, Ordering::Relaxed);
        }
        let offset = offset + words * WORD_BYTES;
        for (index, byte) in last.iter().enumerate() {
            self.byte(offset + index).store(*byte, Ordering::Relaxed);
        }
    }

    /// Loads a word; what its writer wrote before it can be read after.
    ///
    /// # Panics
    ///
    /// When it is not inside the window, or `offset` not a multiple of 4.
    #[must_use]
    pub fn load_u32(&self, offset: usize) -> u32 {
        self.check_word(offset, 4);
        // SAFETY: inside the region, aligned, and reached by atomic operations only.
        let word = unsafe { AtomicU32::from_ptr(self.at(offset).cast()) };
        // Acquire: pairs with the order in which a fabric places a message's bytes.
        word.load(Ordering::Acquire)
    }

    /// Loads a word of eight bytes; what its writer wrote before it can be read after.
    ///
    /// # Panics
    ///
    /// When it is not inside the window, or `offset` not a multiple of 8.
    #[must_use]
    pub fn load_u64(&self, offset: usize) -> u64 {
        self.check_word(offset, WORD_BYTES);
        // Acquire: as in `load_u32`.
        self.word(offset).load(Ordering::Acquire)
    }

    fn check(&self, offset: usize, length: usize) {
        let inside = offset
            .checked_add(length)
            .is_some_and(|end| end <= self.length);
        assert!(
            inside,
            "{length} bytes at {offset} are not inside a window of {} bytes",
            self.length
        );
    }

    fn check_word(&self, offset: usize, bytes: usize) {
        self.check(offset, bytes);
        assert!(
            offset.is_multiple_of(bytes),
            "offset {offset} of a word is not a multiple of {bytes}"
        );
    }

    /// The byte at `offset`, which is inside.
    fn at(&self, offset: usize) -> *mut u8 {
        self.region.address().as_ptr().wrapping_add(offset)
    }

    /// How a range falls into bytes before the first whole word, and whole words; the rest is bytes
    /// again.
    fn split(&self, offset: usize, length: usize) -> (usize, usize) {
        // The window begins at a multiple of the word.
        let head = (offset.next_multiple_of(WORD_BYTES) - offset).min(length);
        let words = (length - head) / WORD_BYTES;
        (head, words)
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as in `byte`, and aligned: the window and `offset` are multiples of the word.
        unsafe { AtomicU64::from_ptr(self.at(offset).cast()) }
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        // SAFETY: inside the region by `check`, alive as long as the window, and reached by
        // atomic operations only: a window gives out no reference to its bytes.
        unsafe { AtomicU8::from_ptr(self.at(offset)) }
    }
}

impl<P: Provider> fmt::Debug for Window<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Window")
            .field("region", &self.region)
            .finish()
    }
}

/// A range of a peer's memory: what its [`Window`] tells, to be sent in a message.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RemoteBuffer {
    /// First byte, in the peer's address space.
    pub address: u64,
    /// The peer's memory handle.
    pub handle: u32,
    /// Bytes.
    pub length: u32,
}

impl RemoteBuffer {
    /// Bytes of the form in which it travels.
    pub const BYTES: usize = 16;

    /// As bytes, least significant first: address (8), handle (4), length (4).
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.handle.to_le_bytes());
        bytes[12..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// From the first [`RemoteBuffer::BYTES`] bytes of a message; `None` if there are fewer.
    ///
    /// What is wrong in them is found by the peer's NIC when it is used.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (address, rest) = bytes.split_first_chunk()?;
        let (handle, rest) = rest.split_first_chunk()?;
        let (length, _) = rest.split_first_chunk()?;
        Some(Self {
            address: u64::from_le_bytes(*address),
            handle: u32::from_le_bytes(*handle),
            length: u32::from_le_bytes(*length),
        })
    }

    /// A part of it.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::InvalidParameter`] when the part is not inside.
    pub fn part(self, offset: u32, length: u32) -> Result<Self> {
        match offset.checked_add(length) {
            Some(end) if end <= self.length => Ok(Self {
                address: self.address.wrapping_add(u64::from(offset)),
                length,
                ..self
            }),
            _ => {
                let reason = format!(
                    "{length} bytes at {offset} are not inside a remote buffer of {} bytes",
                    self.length
                );
                Err(Error::new(ReturnCode::InvalidParameter, reason))
            }
        }
    }

    /// The handle, as the semantics name it.
    #[must_use]
    pub const fn memory_handle(self) -> MemoryHandle {
        MemoryHandle::from_bits(self.handle)
    }
}

const WORD_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_buffer_survives_the_way() {
        let remote = RemoteBuffer {
            address: 0x7fff_0123_4567_89ab,
            handle: 0xfedc_ba98,
            length: 0x8000_0001,
        };
        let mut message = remote.to_bytes().to_vec();
        message.push(7);
        assert_eq!(RemoteBuffer::from_bytes(&message), Some(remote));
        assert_eq!(RemoteBuffer::from_bytes(&message[..15]), None);
    }

    #[test]
    fn a_part_stays_inside() {
        let remote = RemoteBuffer {
            address: 1000,
            handle: 1,
            length: 100,
        };
        let part = remote.part(90, 10).unwrap();
        assert_eq!((part.address, part.length), (1090, 10));
        assert!(remote.part(90, 11).is_err());
        assert!(remote.part(u32::MAX, 2).is_err());
    }
}
