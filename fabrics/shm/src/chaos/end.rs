//! A NIC with memory, as the programs of these tests use it.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_core::{
    Address, MemoryAttributes, MemoryHandle, ProtectionTag, ReliabilityLevel, ViAttributes,
};
use viaduct_provider::{
    CompletionQueueHandle, Descriptor, ErrorCode, NicHandle, Provider, Result, Segment, ViHandle,
    control,
};

use crate::Shm;
use crate::service::locked;

/// Bytes of one buffer.
pub(super) const BUFFER_BYTES: usize = 128 << 10;
/// Buffers of each kind, and descriptors of each queue.
pub(super) const BUFFERS: usize = 8;
const DESCRIPTORS_AT: usize = 0;
const RECEIVES_AT: usize = 64 << 10;
const SENDS_AT: usize = RECEIVES_AT + BUFFERS * BUFFER_BYTES;
const WINDOW_AT: usize = SENDS_AT + BUFFERS * BUFFER_BYTES;
/// Memory that peers may write and read.
pub(super) const WINDOW_BYTES: usize = 256 << 10;
pub(super) const ARENA_BYTES: usize = WINDOW_AT + WINDOW_BYTES;

/// Registered memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arena {
    base: NonNull<u8>,
    pub(super) handle: MemoryHandle,
}

// SAFETY: the memory is never freed, and a buffer is used by whoever has not posted it.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// An open NIC.
pub(super) struct Station {
    pub(super) nic: NicHandle,
    pub(super) tag: ProtectionTag,
    pub(super) shared: Arena,
    pub(super) private: Arena,
    /// By VI: how often its connection was lost.
    lost: Arc<Mutex<BTreeMap<u64, u32>>>,
}

impl Station {
    pub(super) fn open() -> Self {
        let shm = Shm::global();
        let nic = shm.open_nic("viaduct0").unwrap();
        let tag = shm.create_protection_tag(nic).unwrap();
        let register = |base: NonNull<u8>| {
            let attributes = MemoryAttributes {
                tag,
                rdma_write: true,
                rdma_read: true,
            };
            // SAFETY: arenas are never freed.
            let handle =
                unsafe { shm.register_memory(nic, base.as_ptr(), ARENA_BYTES, &attributes) };
            Arena {
                base,
                handle: handle.unwrap(),
            }
        };
        let shared = register(shm.allocate_shared(nic, ARENA_BYTES).unwrap());
        #[repr(align(64))]
        #[derive(Clone, Copy)]
        struct Line {
            _bytes: [u8; 64],
        }
        let lines = vec![Line { _bytes: [0; 64] }; ARENA_BYTES / 64].into_boxed_slice();
        let private = register(NonNull::from(Box::leak(lines)).cast());
        let lost: Arc<Mutex<BTreeMap<u64, u32>>> = Arc::default();
        let told = lost.clone();
        let handler = move |error: &viaduct_provider::AsynchronousError| {
            if error.code == ErrorCode::ConnectionLost {
                let vi = error.vi.map_or(0, ViHandle::bits);
                *locked(&told).entry(vi).or_default() += 1;
            }
        };
        shm.set_error_handler(nic, Some(Arc::new(handler))).unwrap();
        Self {
            nic,
            tag,
            shared,
            private,
            lost,
        }
    }

    /// How often the program was told that this VI lost its connection.
    pub(super) fn times_lost(&self, vi: ViHandle) -> u32 {
        locked(&self.lost).get(&vi.bits()).copied().unwrap_or(0)
    }

    pub(super) fn forget_lost(&self) {
        locked(&self.lost).clear();
    }

    pub(super) fn address(&self, discriminator: &str) -> Address {
        let (_, host) = Shm::global().query_nic(self.nic).unwrap();
        Address::new(host, discriminator.as_bytes())
    }

    /// A VI that takes part in everything and whose sends wait for receives.
    pub(super) fn vi(
        &self,
        level: ReliabilityLevel,
        queue: Option<CompletionQueueHandle>,
    ) -> ViHandle {
        let attributes = ViAttributes {
            reliability: level,
            rdma_write: true,
            rdma_read: level != ReliabilityLevel::Unreliable,
            ..ViAttributes::unreliable(self.tag, BUFFER_BYTES as u32)
        };
        let vi = Shm::global()
            .create_vi(self.nic, &attributes, queue, queue)
            .unwrap();
        Shm::global().set_flow_control(vi, true).unwrap();
        vi
    }

    /// Asks a server until one is there.
    pub(super) fn ask(&self, vi: ViHandle, discriminator: &str, limit: Duration) -> Result<()> {
        let local = self.address("chaos client");
        let remote = self.address(discriminator);
        Shm::global().connect_request(vi, &local, &remote, Some(limit))?;
        Ok(())
    }

    /// Waits for a client.
    pub(super) fn serve(&self, vi: ViHandle, discriminator: &str, limit: Duration) -> Result<()> {
        let address = self.address(discriminator);
        let request = Shm::global().connect_wait(self.nic, &address, Some(limit))?;
        Shm::global().connect_accept(request.connection, vi)
    }
}

impl Arena {
    /// The same memory as another NIC knows it.
    pub(super) fn registered_by(&self, station: &Station) -> Self {
        let attributes = MemoryAttributes::local(station.tag);
        let (shm, base) = (Shm::global(), self.base);
        // SAFETY: arenas are never freed.
        let handle =
            unsafe { shm.register_memory(station.nic, base.as_ptr(), ARENA_BYTES, &attributes) };
        let handle = handle.unwrap();
        Self { base, handle }
    }

    fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < ARENA_BYTES);
        // SAFETY: inside the arena.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Descriptor `number` of a queue.
    fn descriptor(&self, receive: bool, number: usize) -> *mut Descriptor {
        let index = 2 * number + usize::from(receive);
        self.at(DESCRIPTORS_AT + index * size_of::<Descriptor>())
            .cast()
    }

    pub(super) fn receive_buffer(&self, number: usize) -> *mut u8 {
        self.at(RECEIVES_AT + number * BUFFER_BYTES)
    }

    pub(super) fn send_buffer(&self, number: usize) -> *mut u8 {
        self.at(SENDS_AT + number * BUFFER_BYTES)
    }

    pub(super) fn window(&self) -> *mut u8 {
        self.at(WINDOW_AT)
    }

    /// Posts receive `number` for as many bytes as a buffer has.
    pub(super) fn post_receive(&self, vi: ViHandle, number: usize) -> Result<()> {
        self.post_receive_at(vi, number, 0, BUFFER_BYTES)
    }

    /// Posts receive `number` for a part of its buffer.
    pub(super) fn post_receive_at(
        &self,
        vi: ViHandle,
        number: usize,
        offset: usize,
        length: usize,
    ) -> Result<()> {
        let descriptor = self.descriptor(true, number);
        // SAFETY: inside the arena, aligned, not posted.
        unsafe {
            descriptor.write(Descriptor::default());
            (*descriptor).control.segment_count = 1;
            (*descriptor).control.length = length as u32;
            (*descriptor).segments[0] = Segment {
                address: (self.receive_buffer(number).addr() + offset) as u64,
                handle: self.handle.bits(),
                length: length as u32,
            };
            Shm::global().post_receive(vi, descriptor, self.handle)
        }
    }

    /// Posts send `number`: a message, or a remote operation on `remote` (address and handle).
    pub(super) fn post_send(
        &self,
        vi: ViHandle,
        number: usize,
        length: usize,
        operation: u16,
        immediate: Option<u32>,
        remote: (u64, u32),
    ) -> Result<()> {
        let descriptor = self.descriptor(false, number);
        let data = Segment {
            address: self.send_buffer(number).addr() as u64,
            handle: self.handle.bits(),
            length: length as u32,
        };
        // SAFETY: inside the arena, aligned, not posted; two segments fit.
        unsafe {
            descriptor.write(Descriptor::default());
            let head = &raw mut (*descriptor).control;
            (*head).control = operation;
            (*head).length = length as u32;
            if let Some(immediate) = immediate {
                (*head).control |= control::IMMEDIATE;
                (*head).immediate = immediate;
            }
            if operation == control::SEND_RECEIVE {
                (*head).segment_count = 1;
                (*descriptor).segments[0] = data;
            } else {
                (*head).segment_count = 2;
                (*descriptor).segments = [
                    Segment {
                        address: remote.0,
                        handle: remote.1,
                        length: 0,
                    },
                    data,
                ];
            }
            Shm::global().post_send(vi, descriptor, self.handle)
        }
    }

    /// The number of a descriptor that came back, with its length, immediate data and status.
    pub(super) fn taken(&self, descriptor: NonNull<Descriptor>) -> (usize, u32, u32, u32) {
        let offset = descriptor.as_ptr().addr() - self.base.as_ptr().addr();
        let index = (offset - DESCRIPTORS_AT) / size_of::<Descriptor>();
        // SAFETY: it was handed back.
        let head = unsafe { (&raw const (*descriptor.as_ptr()).control).read_volatile() };
        (index / 2, head.length, head.immediate, head.status)
    }
}

/// Writes what message `sequence` of `length` bytes says.
pub(super) fn fill(data: *mut u8, length: usize, sequence: u32) {
    for index in 0..length {
        // SAFETY: the caller's buffer has the bytes and is not posted.
        unsafe { data.add(index).write_volatile(byte(index, sequence)) };
    }
}

/// Whether it says that.
pub(super) fn says(data: *const u8, length: usize, sequence: u32) -> bool {
    // Of long ones some lines: a debug build looks at 100 MB a second.
    let step = 1 + length / 4096;
    (0..length).step_by(step).chain(length.checked_sub(1)).all(
        // SAFETY: as for `fill`.
        |index| unsafe { data.add(index).read_volatile() == byte(index, sequence) },
    )
}

fn byte(index: usize, sequence: u32) -> u8 {
    (index as u8)
        .wrapping_mul(31)
        .wrapping_add((index >> 8) as u8)
        .wrapping_add((sequence as u8).wrapping_mul(7))
}
