//! The program whose traffic is counted, for any fabric.

use std::alloc::{Layout, alloc_zeroed};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use viaduct_provider::via::{
    Address, MemoryAttributes, MemoryHandle, ReliabilityLevel, ViAttributes,
};
use viaduct_provider::{
    CONTROL_SEGMENT_BYTES, CompletionQueueHandle, Counts, Descriptor, Done, ErrorHandler, Fabric,
    Memory, NicHandle, Provider, ReturnCode, Segment, ViHandle, control,
};

/// Messages from the first side to the second: a multiple of the slots after which the real fabric
/// tells how far it has read, so that it does not matter where it stood at the beginning.
pub(crate) const MESSAGES: u32 = 32;
/// Receives that each side keeps posted: fewer than a cookie queue holds.
const RECEIVES: u32 = 8;
/// Messages of a stream until the other side answers.
const WINDOW: u32 = 4;
/// Sends that may be outstanding.
const SENDS: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(30);

/// Who sends when.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pattern {
    PingPong,
    Stream,
}

/// How a side waits for messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wait {
    Poll,
    /// Asleep; whoever sends waits until the other sleeps.
    Block,
}

/// What is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) bytes: u32,
    /// Of each send.
    pub(crate) segments: u32,
    pub(crate) receive_segments: u32,
    pub(crate) wait: Wait,
    /// Whether receives complete into a completion queue.
    pub(crate) is_queued: bool,
    pub(crate) level: ReliabilityLevel,
    pub(crate) flow_control: bool,
    pub(crate) pattern: Pattern,
    pub(crate) memory: Memory,
}

type Nics<P> = [Option<(Fabric<P>, NicHandle)>; 2];

/// What the two sides know of each other beside the fabric.
pub(crate) struct Meeting<P: Provider> {
    nics: Mutex<Nics<P>>,
    stages: [AtomicU32; 2],
    has_failed: AtomicBool,
    place: Vec<u8>,
}

impl<P: Provider> Meeting<P> {
    pub(crate) fn new() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        Self {
            nics: Mutex::new([None, None]),
            stages: [AtomicU32::new(0), AtomicU32::new(0)],
            has_failed: AtomicBool::new(false),
            place: format!("counts-{}-{number}", std::process::id()).into_bytes(),
        }
    }
}

struct Side<'a, P: Provider> {
    fabric: Fabric<P>,
    nic: NicHandle,
    vi: ViHandle,
    queue: Option<CompletionQueueHandle>,
    base: NonNull<u8>,
    handle: MemoryHandle,
    number: usize,
    case: Case,
    meeting: &'a Meeting<P>,
    pause: &'a dyn Fn(),
    sends: u32,
    outstanding: u32,
    /// Messages that the other side has been sent asleep, and how often it had slept before.
    sleeps: Option<u64>,
}

/// Is one side; what its NIC counted between the connection's warm-up and its end.
pub(crate) fn side<P: Provider>(
    fabric: impl Into<Fabric<P>>,
    device: &str,
    number: usize,
    case: Case,
    meeting: &Meeting<P>,
    pause: &dyn Fn(),
) -> Counts {
    let mut side = Side::open(fabric.into(), device, number, case, meeting, pause);
    for slot in 0..RECEIVES {
        side.post_receive(slot);
    }
    side.connect();
    side.warm_up();
    side.meet();
    let before = side.counts(number);
    if case.wait == Wait::Block {
        side.sleeps = Some(side.counts(1 - number).sleeps);
    }
    side.meet();
    side.run();
    side.drain_sends(0);
    side.meet();
    let counts = side.counts(number) - before;
    side.meet();
    side.close();
    counts
}

impl<P: Provider> Drop for Side<'_, P> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.meeting.has_failed.store(true, Ordering::Relaxed);
        }
    }
}

impl<'a, P: Provider> Side<'a, P> {
    fn open(
        fabric: Fabric<P>,
        device: &str,
        number: usize,
        case: Case,
        meeting: &'a Meeting<P>,
        pause: &'a dyn Fn(),
    ) -> Self {
        let nic = fabric.open_nic(device).unwrap();
        let ignore: ErrorHandler = Arc::new(|_| ());
        fabric.set_error_handler(nic, Some(ignore)).unwrap();
        let tag = fabric.create_protection_tag(nic).unwrap();
        let length = (SENDS + RECEIVES) as usize * Self::stride(case);
        let base = match case.memory {
            Memory::Shared => fabric.allocate_shared(nic, length).unwrap(),
            Memory::Private => {
                let layout = Layout::from_size_align(length, 4096).unwrap();
                // SAFETY: the length is not 0. It is never freed: the test's process ends soon.
                NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap()
            }
        };
        let attributes = MemoryAttributes::local(tag);
        // SAFETY: it stays mapped until the NIC is closed.
        let handle = unsafe { fabric.register_memory(nic, base.as_ptr(), length, &attributes) };
        let handle = handle.unwrap();
        let queue = case
            .is_queued
            .then(|| fabric.create_completion_queue(nic, 256).unwrap());
        let attributes = ViAttributes {
            reliability: case.level,
            ..ViAttributes::unreliable(tag, 1 << 20)
        };
        let vi = fabric.create_vi(nic, &attributes, None, queue).unwrap();
        fabric.set_flow_control(vi, case.flow_control).unwrap();
        meeting.nics.lock().unwrap()[number] = Some((fabric.clone(), nic));
        Self {
            fabric,
            nic,
            vi,
            queue,
            base,
            handle,
            number,
            case,
            meeting,
            pause,
            sends: 0,
            outstanding: 0,
            sleeps: None,
        }
    }

    /// Gives everything back. A process of the real fabric that holds many blocks of shared memory
    /// shows its peers no further ones, and then messages take another way.
    fn close(self) {
        self.fabric.disconnect(self.vi).unwrap();
        if self.case.memory == Memory::Shared {
            let base = self.base.as_ptr();
            self.fabric
                .deregister_memory(self.nic, base, self.handle)
                .unwrap();
            // SAFETY: the queues are flushed, and nothing else is in this memory.
            unsafe { self.fabric.free_shared(self.nic, self.base) }.unwrap();
        }
        self.fabric.close_nic(self.nic).unwrap();
    }

    /// Room for a descriptor of four segments, and a message.
    fn stride(case: Case) -> usize {
        (128 + Self::room(case) as usize).next_multiple_of(128)
    }

    /// Bytes of a receive.
    fn room(case: Case) -> u32 {
        case.bytes.max(64)
    }

    fn pause(&self) {
        let has_failed = self.meeting.has_failed.load(Ordering::Relaxed);
        assert!(!has_failed, "the other side has failed");
        (self.pause)();
    }

    /// Waits for the other side to get here.
    fn meet(&self) {
        let [own, other] = [self.number, 1 - self.number].map(|side| &self.meeting.stages[side]);
        // SeqCst: what either did before is seen by the other.
        let stage = own.fetch_add(1, Ordering::SeqCst) + 1;
        while other.load(Ordering::SeqCst) < stage {
            self.pause();
        }
    }

    fn counts(&self, side: usize) -> Counts {
        let nic = self.meeting.nics.lock().unwrap()[side].clone();
        let (fabric, nic) = nic.unwrap();
        fabric.counts(nic).unwrap()
    }

    fn connect(&self) {
        let (_, host) = self.fabric.query_nic(self.nic).unwrap();
        if self.number == 1 {
            let local = Address::new(host, &self.meeting.place);
            let request = self.fabric.connect_wait(self.nic, &local, Some(PATIENCE));
            let request = request.unwrap();
            self.fabric
                .connect_accept(request.connection, self.vi)
                .unwrap();
            return;
        }
        let local = Address::new(host, b"initiator");
        loop {
            // The other side's NIC is open before it waits.
            let other = self.meeting.nics.lock().unwrap()[1].clone();
            let asked = other.map(|(fabric, nic)| {
                let (_, host) = fabric.query_nic(nic).unwrap();
                let remote = Address::new(host, &self.meeting.place);
                self.fabric
                    .connect_request(self.vi, &local, &remote, Some(PATIENCE))
            });
            match asked {
                Some(Ok(_)) => return,
                Some(Err(error)) => assert_eq!(error.code(), ReturnCode::NoMatch, "{error}"),
                None => {}
            }
            self.pause();
        }
    }

    /// A descriptor in place `place`, for so many bytes in so many segments.
    fn descriptor(&self, place: u32, bytes: u32, segments: u32, flags: u16) -> *mut Descriptor {
        let offset = place as usize * Self::stride(self.case);
        // SAFETY: the place is inside the memory, and has room for the descriptor and its bytes;
        // it is aligned, and not posted.
        unsafe {
            let at = self.base.as_ptr().add(offset);
            let data = at.add(128).addr() as u64;
            let descriptor = at.cast::<Descriptor>();
            descriptor.write(Descriptor::default());
            (*descriptor).control.control = control::SEND_RECEIVE | flags;
            (*descriptor).control.segment_count = segments as u16;
            (*descriptor).control.length = bytes;
            let list = at.add(CONTROL_SEGMENT_BYTES).cast::<Segment>();
            for segment in 0..segments {
                let [start, end] = [segment, segment + 1].map(|it| bytes * it / segments);
                list.add(segment as usize).write(Segment {
                    address: data + u64::from(start),
                    handle: self.handle.bits(),
                    length: end - start,
                });
            }
            descriptor
        }
    }

    fn post_receive(&self, slot: u32) {
        let (room, segments) = (Self::room(self.case), self.case.receive_segments);
        let descriptor = self.descriptor(SENDS + slot, room, segments, 0);
        // SAFETY: descriptor and data lie in memory that stays until the NIC is closed.
        unsafe { self.fabric.post_receive(self.vi, descriptor, self.handle) }.unwrap();
    }

    fn send(&mut self, bytes: u32, immediate: Option<u32>) {
        if let Some(sleeps) = &mut self.sleeps {
            // It is woken by this message: it has left its mark before it was counted.
            *sleeps += 1;
            let wanted = *sleeps;
            while self.counts(1 - self.number).sleeps < wanted {
                self.pause();
            }
        }
        self.drain_sends(SENDS - 1);
        let place = self.sends % SENDS;
        self.sends += 1;
        let flags = if immediate.is_some() {
            control::IMMEDIATE
        } else {
            0
        };
        // A segment of no bytes is none to any fabric.
        let segments = if bytes == 0 { 1 } else { self.case.segments };
        let descriptor = self.descriptor(place, bytes, segments, flags);
        // SAFETY: as in `post_receive`; the first bytes are the message's number.
        unsafe {
            (*descriptor).control.immediate = immediate.unwrap_or_default();
            let data = descriptor.cast::<u8>().add(128);
            data.write_bytes(self.sends as u8, bytes as usize);
            self.fabric
                .post_send(self.vi, descriptor, self.handle)
                .unwrap();
        }
        self.outstanding += 1;
    }

    fn drain_sends(&mut self, outstanding_max: u32) {
        while self.outstanding > outstanding_max {
            match self.fabric.send_done(self.vi).unwrap() {
                Done::Complete(_) => self.outstanding -= 1,
                Done::NotDone => self.pause(),
                other => panic!("{:?}: a send ended as {other:?}", self.case),
            }
        }
    }

    /// The next message: its length and immediate data. Its receive is posted again.
    fn receive(&self) -> (u32, u32) {
        let done = match (self.queue, self.case.wait, self.sleeps) {
            (None, Wait::Block, Some(_)) => {
                self.fabric.receive_wait(self.vi, Some(PATIENCE)).unwrap()
            }
            (Some(queue), Wait::Block, Some(_)) => {
                self.fabric.completion_wait(queue, Some(PATIENCE)).unwrap();
                self.fabric.receive_done(self.vi).unwrap()
            }
            (None, ..) => self.poll(|| {
                let done = self.fabric.receive_done(self.vi).unwrap();
                (done != Done::NotDone).then_some(done)
            }),
            (Some(queue), ..) => {
                self.poll(|| self.fabric.completion_done(queue).unwrap());
                self.fabric.receive_done(self.vi).unwrap()
            }
        };
        let Done::Complete(descriptor) = done else {
            panic!("{:?}: a receive ended as {done:?}", self.case);
        };
        // SAFETY: it has come back, and lies in our memory.
        let (control, first, last) = unsafe {
            let control = (*descriptor.as_ptr()).control;
            let data = descriptor.as_ptr().cast::<u8>().add(128);
            let last = data.add((control.length as usize).saturating_sub(1));
            (control, data.read(), last.read())
        };
        assert_eq!(first, last, "the bytes of one message");
        let place =
            (descriptor.as_ptr().addr() - self.base.as_ptr().addr()) / Self::stride(self.case);
        self.post_receive(place as u32 - SENDS);
        (control.length, control.immediate)
    }

    fn poll<T>(&self, look: impl Fn() -> Option<T>) -> T {
        loop {
            if let Some(found) = look() {
                return found;
            }
            self.pause();
        }
    }

    /// Until messages of both sides go as they will: where shared memory lies is told beside the
    /// connection, and messages before that take another way.
    fn warm_up(&mut self) {
        let (mut is_ready, mut other_is_ready) = (false, false);
        let start = Instant::now();
        loop {
            let (has_time, case) = (start.elapsed() < PATIENCE, self.case);
            assert!(has_time, "{case:?}: messages still go through the pool");
            let pooled = self.counts(self.number).pooled;
            if self.number == 1 {
                other_is_ready = self.receive().1 == 1;
            }
            self.send(self.case.bytes, Some(is_ready.into()));
            self.drain_sends(0);
            if self.number == 0 {
                other_is_ready = self.receive().1 == 1;
            }
            // Both have told what they knew before this round.
            if is_ready && other_is_ready {
                return;
            }
            is_ready = self.counts(self.number).pooled == pooled;
        }
    }

    fn run(&mut self) {
        let bytes = self.case.bytes;
        match (self.case.pattern, self.number) {
            (Pattern::PingPong, 0) => {
                for _ in 0..MESSAGES {
                    self.send(bytes, None);
                    assert_eq!(self.receive().0, bytes);
                }
            }
            (Pattern::PingPong, _) => {
                for _ in 0..MESSAGES {
                    assert_eq!(self.receive().0, bytes);
                    self.send(bytes, None);
                }
            }
            (Pattern::Stream, 0) => {
                for number in 1..=MESSAGES {
                    self.send(bytes, None);
                    if number % WINDOW == 0 {
                        assert_eq!(self.receive().0, 0);
                    }
                }
            }
            (Pattern::Stream, _) => {
                for number in 1..=MESSAGES {
                    assert_eq!(self.receive().0, bytes);
                    if number % WINDOW == 0 {
                        self.send(0, None);
                    }
                }
            }
        }
    }
}
