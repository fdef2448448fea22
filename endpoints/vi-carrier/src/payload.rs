//! Bytes that arrived, and where their memory goes afterwards.

use std::fmt;
use std::mem;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use viaduct_provider::{Buffer, Memory, Nic, Provider, Result};

use crate::connection::DEPTH;
use crate::wire;

/// Bytes that arrived: a part of a receive buffer, which goes back when they are dropped.
pub struct Payload(Kind);

enum Kind {
    Buffer {
        buffer: Buffer,
        range: Range<u32>,
        pool: Arc<Spare>,
    },
    Copied(Box<[u8]>),
}

impl Payload {
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        Self(Kind::Copied(bytes.into()))
    }

    /// A part of a buffer; the caller has checked that it has it.
    pub(crate) fn part(buffer: Buffer, range: Range<u32>, pool: &Arc<Spare>) -> Self {
        Self(Kind::Buffer {
            buffer,
            range,
            pool: Arc::clone(pool),
        })
    }
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Kind::Buffer { buffer, range, .. } => buffer
                .get(range.start as usize..range.end as usize)
                .unwrap_or(&[]),
            Kind::Copied(bytes) => bytes,
        }
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        if let Kind::Buffer { buffer, pool, .. } = &mut self.0 {
            pool.put(mem::replace(buffer, Buffer::empty()));
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Payload({} bytes)", self.as_ref().len())
    }
}

/// Buffers of messages to be sent. Its owner has the station's lock.
pub(crate) struct SendPool {
    small: Vec<Buffer>,
    large: Vec<Buffer>,
}

impl SendPool {
    pub(crate) const fn new() -> Self {
        Self {
            small: Vec::new(),
            large: Vec::new(),
        }
    }

    /// One that has room for all words, and for a payload of the longest if there is one.
    #[inline]
    pub(crate) fn take<P: Provider>(&mut self, nic: &Nic<P>, has_payload: bool) -> Result<Buffer> {
        let buffers = match has_payload {
            true => &mut self.large,
            false => &mut self.small,
        };
        if let Some(buffer) = buffers.pop() {
            return Ok(buffer);
        }
        *buffers = match has_payload {
            true => nic.buffers(LARGE_AT_ONCE, wire::MESSAGE_BYTES_MAX, Memory::Private)?,
            false => nic.buffers(SMALL_AT_ONCE, wire::SMALL_BYTES, Memory::Private)?,
        };
        Ok(buffers.pop().unwrap_or_else(Buffer::empty))
    }

    #[inline]
    pub(crate) fn put(&mut self, buffer: Buffer) {
        if buffer.len() > wire::SMALL_BYTES {
            self.large.push(buffer);
        } else {
            self.small.push(buffer);
        }
    }
}

/// Buffers that are made in one registration.
const SMALL_AT_ONCE: usize = 64;
const LARGE_AT_ONCE: usize = 16;

/// Receive buffers that nobody uses. Programs give them back at any time: so they have a lock of
/// their own, held for a push or a pop only.
pub(crate) struct Spare {
    buffers: Mutex<Vec<Buffer>>,
    memory: Memory,
}

impl Spare {
    pub(crate) fn new(memory: Memory) -> Arc<Self> {
        Arc::new(Self {
            buffers: Mutex::new(Vec::new()),
            memory,
        })
    }

    /// One of them, a new one if there is none. A connection's lie in one registration: a fabric
    /// that keeps the last ones at hand finds them there.
    pub(crate) fn take<P: Provider>(&self, nic: &Nic<P>) -> Result<Buffer> {
        if let Some(buffer) = self.lock().pop() {
            return Ok(buffer);
        }
        let mut fresh = nic.buffers(DEPTH as usize, wire::MESSAGE_BYTES_MAX, self.memory)?;
        let one = fresh.pop().unwrap_or_else(Buffer::empty);
        self.lock().append(&mut fresh);
        Ok(one)
    }

    pub(crate) fn put(&self, buffer: Buffer) {
        self.lock().push(buffer);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Buffer>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
