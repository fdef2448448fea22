//! What both ends of a connection do while one of them waits for death.

use std::time::Duration;

use viaduct_core::{Queue, ReliabilityLevel, Status, ViState};
use viaduct_provider::{CompletionQueueHandle, Done, Provider, ReturnCode, ViHandle, control};

use super::Random;
use super::end::{Arena, BUFFER_BYTES, BUFFERS, Station, WINDOW_BYTES, fill, says};
use crate::Shm;

pub(super) const LEVELS: [ReliabilityLevel; 3] = [
    ReliabilityLevel::Unreliable,
    ReliabilityLevel::ReliableDelivery,
    ReliabilityLevel::ReliableReception,
];

/// How the two ends of one round work; both derive it from the round's seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) level: ReliabilityLevel,
    /// Whether user memory is allocated as shared.
    pub(super) is_shared: bool,
    pub(super) has_queue: bool,
    pub(super) blocks: bool,
    /// Whether the peer leaves and comes back now and then.
    pub(super) reconnects: bool,
    /// Whether the peer waits for the connection.
    pub(super) peer_serves: bool,
}

impl Way {
    pub(super) fn of(seed: u64) -> Self {
        let mut random = Random(seed);
        Self {
            level: random.pick(&LEVELS),
            is_shared: random.one_in(2),
            has_queue: random.one_in(3),
            blocks: random.one_in(2),
            reconnects: random.one_in(4),
            peer_serves: random.one_in(2),
        }
    }

    pub(super) fn arena(&self, station: &Station) -> Arena {
        if self.is_shared {
            station.shared
        } else {
            station.private
        }
    }
}

/// The traffic of one end over one connection.
pub(super) struct Traffic<'a> {
    station: &'a Station,
    arena: Arena,
    way: Way,
    pub(super) vi: ViHandle,
    queue: Option<CompletionQueueHandle>,
    random: Random,
    /// Messages sent and received that take a receive.
    sent: u32,
    pub(super) received: u32,
    /// Numbers of what is posted, oldest first.
    sends: std::collections::VecDeque<(usize, u16)>,
    receives: std::collections::VecDeque<usize>,
    /// The peer's window: address and handle.
    window: Option<(u64, u32)>,
    /// Error bits that completions ended with, in order.
    send_errors: Vec<u32>,
    receive_errors: Vec<u32>,
}

/// The connection has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Ended;

impl<'a> Traffic<'a> {
    /// A VI with all receives posted.
    pub(super) fn new(
        station: &'a Station,
        way: Way,
        queue: Option<CompletionQueueHandle>,
        seed: u64,
    ) -> Self {
        let arena = way.arena(station);
        let vi = station.vi(way.level, queue);
        let mut traffic = Self {
            station,
            arena,
            way,
            vi,
            queue,
            random: Random(seed),
            sent: 0,
            received: 0,
            sends: std::collections::VecDeque::new(),
            receives: std::collections::VecDeque::new(),
            window: None,
            send_errors: Vec::new(),
            receive_errors: Vec::new(),
        };
        for number in 0..BUFFERS {
            arena.post_receive(vi, number).unwrap();
            traffic.receives.push_back(number);
        }
        traffic
    }

    /// Does a bit of everything.
    pub(super) fn step(&mut self) -> Result<(), Ended> {
        while self.sends.len() < BUFFERS {
            self.send();
        }
        if self.queue.is_some() {
            self.take_from_queue();
        } else {
            let is_idle = !self.take(Queue::Send) & !self.take(Queue::Receive);
            if is_idle && self.way.blocks && self.random.one_in(4) {
                let limit = Some(Duration::from_millis(500));
                match Shm::global().receive_wait(self.vi, limit) {
                    Ok(done) => {
                        self.deal(Queue::Receive, done);
                    }
                    Err(error) => assert_eq!(error.code(), ReturnCode::Timeout, "{error}"),
                }
            }
        }
        let has_ended = !self.send_errors.is_empty() || !self.receive_errors.is_empty();
        let state = Shm::global().query_vi(self.vi).unwrap().state;
        if has_ended || state != ViState::Connected {
            return Err(Ended);
        }
        Ok(())
    }

    fn send(&mut self) {
        // The lowest number that is not posted.
        let number = (0..BUFFERS)
            .find(|number| self.sends.iter().all(|(posted, _)| posted != number))
            .unwrap();
        let data = self.arena.send_buffer(number);
        let size = self.random.pick(&[
            0,
            1,
            8,
            48,
            49,
            216,
            217,
            1000,
            4096,
            4097,
            65_536,
            BUFFER_BYTES,
        ]);
        let is_reliable = self.way.level != ReliabilityLevel::Unreliable;
        let choice = self.random.below(10);
        let (operation, takes_receive) = match self.window {
            Some(_) if choice == 0 => (control::RDMA_WRITE, false),
            Some(_) if choice == 1 => (control::RDMA_WRITE, true),
            Some(_) if choice == 2 && is_reliable => (control::RDMA_READ, false),
            _ => (control::SEND_RECEIVE, true),
        };
        let mut length = size;
        if self.sent == 0 {
            // The first message says where the window is.
            length = 16;
            let window = self.arena.window().addr() as u64;
            // SAFETY: the buffer is not posted, aligned, and large enough.
            unsafe {
                data.cast::<u64>().write(window);
                data.add(8)
                    .cast::<u64>()
                    .write(self.arena.handle.bits().into());
            }
        } else if operation != control::RDMA_READ {
            fill(data, length.min(8192), self.sent);
            if length > 8192 {
                fill(data, length, self.sent);
            }
        }
        let immediate = takes_receive.then_some(self.sent);
        let (address, handle) = self.window.unwrap_or_default();
        let offset = self.random.below((WINDOW_BYTES - BUFFER_BYTES) as u64);
        let posted = self.arena.post_send(
            self.vi,
            number,
            length,
            operation,
            immediate,
            (address + offset, handle),
        );
        posted.unwrap();
        self.sends.push_back((number, operation));
        self.sent += u32::from(takes_receive);
    }

    fn take(&mut self, queue: Queue) -> bool {
        let done = match queue {
            Queue::Send => Shm::global().send_done(self.vi),
            Queue::Receive => Shm::global().receive_done(self.vi),
        };
        self.deal(queue, done.unwrap())
    }

    fn take_from_queue(&mut self) {
        let Some(queue) = self.queue else { return };
        let mut entry = Shm::global().completion_done(queue).unwrap();
        if entry.is_none() && self.way.blocks {
            let limit = Some(Duration::from_millis(500));
            entry = match Shm::global().completion_wait(queue, limit) {
                Ok(entry) => Some(entry),
                Err(error) => {
                    assert_eq!(error.code(), ReturnCode::Timeout, "{error}");
                    None
                }
            };
        }
        if let Some(entry) = entry {
            assert_eq!(entry.vi, self.vi);
            assert!(
                self.take(entry.queue),
                "an entry of a descriptor that is not done"
            );
        }
    }

    /// Checks a descriptor that came back; whether one did.
    fn deal(&mut self, queue: Queue, done: Done) -> bool {
        let Some(descriptor) = done.descriptor() else {
            return false;
        };
        let (number, length, immediate, status) = self.arena.taken(descriptor);
        let is_error = matches!(done, Done::Failed(_));
        let status_bits = Status::from_bits(status);
        assert!(status_bits.is_done(), "{status:#x}");
        assert_eq!(status_bits.is_error(), is_error, "{status:#x}");
        let errors = status & Status::ERROR_MASK.bits();
        match queue {
            Queue::Send => {
                assert_eq!(
                    self.sends.pop_front().map(|(number, _)| number),
                    Some(number)
                );
                if is_error {
                    self.send_errors.push(errors);
                }
                assert!(
                    is_error || self.send_errors.is_empty(),
                    "a success after an error"
                );
            }
            Queue::Receive => {
                assert_eq!(self.receives.pop_front(), Some(number));
                if is_error {
                    self.receive_errors.push(errors);
                    return true;
                }
                assert!(self.receive_errors.is_empty(), "a success after an error");
                self.check(number, length as usize, immediate, status);
                self.received += 1;
                if self.arena.post_receive(self.vi, number).is_ok() {
                    self.receives.push_back(number);
                }
            }
        }
        true
    }

    fn check(&mut self, number: usize, length: usize, immediate: u32, status: u32) {
        let data = self.arena.receive_buffer(number);
        assert_eq!(
            immediate, self.received,
            "a message is missing, or came twice"
        );
        if self.received == 0 {
            assert_eq!(length, 16);
            // SAFETY: handed back, and as long.
            self.window = Some(unsafe {
                (
                    data.cast::<u64>().read(),
                    data.add(8).cast::<u64>().read() as u32,
                )
            });
        } else if status & Status::OPERATION_MASK.bits() == 0x0001_0000 {
            assert!(
                says(data, length, immediate),
                "message {immediate} of {length} bytes"
            );
        }
    }

    /// After the end: takes what is left, and checks how it ended. `died`: the peer did not
    /// disconnect.
    pub(super) fn finish(mut self, died: bool) {
        let shm = Shm::global();
        let limit = Duration::from_secs(2);
        let is_empty = super::process::wait_until(limit, || {
            if self.queue.is_some() {
                while let Some(queue) = self.queue
                    && let Some(entry) = shm.completion_done(queue).unwrap()
                {
                    assert!(self.take(entry.queue));
                }
            } else {
                while self.take(Queue::Send) {}
                while self.take(Queue::Receive) {}
            }
            self.sends.is_empty() && self.receives.is_empty()
        });
        let (sends, receives) = (self.sends.len(), self.receives.len());
        assert!(
            is_empty,
            "{sends} sends and {receives} receives never completed"
        );
        let state = shm.query_vi(self.vi).unwrap().state;
        assert_eq!(state, ViState::Error);
        assert!(
            super::process::wait_until(limit, || self.station.times_lost(self.vi) > 0),
            "nobody said that the connection was lost"
        );
        let (flushed, failed) = (Status::FLUSHED_ERROR.bits(), Status::TRANSPORT_ERROR.bits());
        let in_flight = match self.way.level {
            ReliabilityLevel::Unreliable => flushed,
            _ if died => failed,
            // It may have died after it said that it leaves.
            _ => flushed | failed,
        };
        let mut was_flushed = false;
        for error in &self.send_errors {
            let is_flushed = *error == flushed;
            assert!(
                is_flushed || in_flight & error != 0 && !was_flushed,
                "{:x?} at {:?}",
                self.send_errors,
                self.way
            );
            was_flushed = is_flushed;
        }
        // The oldest may be half filled; the sender has begun no other.
        for (index, error) in self.receive_errors.iter().enumerate() {
            assert!(
                *error == flushed || index == 0 && in_flight & error != 0,
                "{:x?} at {:?}",
                self.receive_errors,
                self.way
            );
        }
        shm.disconnect(self.vi).unwrap();
        shm.destroy_vi(self.vi).unwrap();
        assert_eq!(self.station.times_lost(self.vi), 1);
    }

    /// Leaves before the peer does.
    pub(super) fn leave(self) {
        Shm::global().disconnect(self.vi).unwrap();
        if let Some(queue) = self.queue {
            while Shm::global().completion_done(queue).unwrap().is_some() {}
        }
        Shm::global().destroy_vi(self.vi).unwrap();
    }
}
