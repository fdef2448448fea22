//! Descriptors at which clients wait, by duplicates here: a client is given its turn when one of
//! them has something, and not to find that none has.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::fd::RawFd;

use rustix::event::epoll;
use rustix::process::PidfdGetfdFlags;

use crate::world::Thread;

/// Ends of waits that are looked at together.
const READY_MOST: usize = 64;

#[derive(Debug)]
pub(super) struct Descriptors {
    epoll: OwnedFd,
    /// The duplicates of each wait, by the number that it has in the system.
    waits: BTreeMap<u64, (Thread, Vec<OwnedFd>)>,
    numbers: BTreeMap<Thread, u64>,
    next_number: u64,
}

impl Descriptors {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            waits: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next_number: 0,
        })
    }

    /// A thread of a process waits at these descriptors of it, for these events each; false: they
    /// cannot be waited at here, or one of them is no descriptor, which the thread has to be told.
    pub(super) fn watch(
        &mut self,
        thread: Thread,
        process: &OwnedFd,
        list: &[(RawFd, i16)],
    ) -> bool {
        self.forget(thread);
        let number = self.next_number;
        self.next_number += 1;
        let mut duplicates = Vec::with_capacity(list.len());
        for (descriptor, events) in list {
            // As `poll` has it.
            if *descriptor < 0 {
                continue;
            }
            if self
                .add(number, process, *descriptor, *events, &mut duplicates)
                .is_err()
            {
                self.release(duplicates);
                return false;
            }
        }
        self.waits.insert(number, (thread, duplicates));
        self.numbers.insert(thread, number);
        true
    }

    fn add(
        &self,
        number: u64,
        process: &OwnedFd,
        descriptor: RawFd,
        events: i16,
        duplicates: &mut Vec<OwnedFd>,
    ) -> io::Result<()> {
        let flags = PidfdGetfdFlags::empty();
        let duplicate = rustix::process::pidfd_getfd(process, descriptor, flags)?;
        // The numbers of these events are those of `poll`.
        let events = epoll::EventFlags::from_bits_truncate(u32::from(events as u16));
        let data = epoll::EventData::new_u64(number);
        epoll::add(&self.epoll, &duplicate, data, events)?;
        duplicates.push(duplicate);
        Ok(())
    }

    /// A thread no longer waits.
    pub(super) fn forget(&mut self, thread: Thread) {
        if let Some(number) = self.numbers.remove(&thread)
            && let Some((_, duplicates)) = self.waits.remove(&number)
        {
            self.release(duplicates);
        }
    }

    /// The client has the same open: what is closed here alone would still be looked at.
    fn release(&self, duplicates: Vec<OwnedFd>) {
        for duplicate in duplicates {
            let _ = epoll::delete(&self.epoll, &duplicate);
        }
    }

    /// Threads whose wait may be over.
    pub(super) fn ready(&self) -> Vec<Thread> {
        if self.waits.is_empty() {
            return Vec::new();
        }
        let now = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut room = Vec::with_capacity(READY_MOST.max(self.waits.len()));
        let spare = rustix::buffer::spare_capacity(&mut room);
        if epoll::wait(&self.epoll, spare, Some(&now)).is_err() {
            return Vec::new();
        }
        let thread = |event: &epoll::Event| self.waits.get(&event.data.u64()).map(|wait| wait.0);
        room.iter().filter_map(thread).collect()
    }
}
