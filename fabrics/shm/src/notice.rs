//! Tripwires: how a sender tells a completion queue which of its many VIs have news.
//!
//! A completion queue with many VIs does not look at each of them. It has a *group* in the notice
//! area of each link, in the direction in which its VIs receive, and leaves the group's number in
//! their channels' `tripwire` word. Whoever publishes a slot of such a channel sets the channel's
//! bit in the group:
//!
//! ```text
//! line 0          sleeper: whom to wake when a bit is set; written by the receiver
//! lines 1..5      summary: 32 words, one bit for each word below that has a bit
//! lines 5..261    2,048 words, one bit a channel
//! ```
//!
//! The sender sets the bit, then the word's bit of the summary unless it is set, and then reads
//! the sleeper. The receiver takes the bits away in the other order: a word of the summary, then
//! the words that it names, then it looks at the VIs. So a bit that the receiver clears was set
//! after the slot was published, and a bit that it missed has the summary set again.
//!
//! The sender uses a locked instruction for the bit, unlike elsewhere. To skip it when the bit is
//! set already would be wrong: the load could come before its slot is visible, and the receiver
//! between the two clear the bit and look in vain. It also keeps the loads of the summary and of
//! the sleeper behind the bit.
//!
//! What the peer writes here is a hint. Bits of channels that the completion queue does not have
//! are dropped, and others cost one look each; a bit that is never set is made up for by the full
//! scan that the completion queue does now and then.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::copy::prefetch_line_to_write;

/// Groups of one direction of a link: completion queues with many VIs on it.
pub(crate) const GROUPS: u32 = 64;
/// Channels that have a bit, 65,536 of either end; those above have no tripwire.
pub(crate) const CHANNELS: u32 = 1 << 17;
const LINE: usize = 64;
const SUMMARY_WORDS: usize = 32;
const WORDS: usize = CHANNELS as usize / 64;
const SUMMARY_AT: usize = LINE;
const WORDS_AT: usize = SUMMARY_AT + SUMMARY_WORDS * 8;
const GROUP_BYTES: usize = WORDS_AT + WORDS * 8;
/// Bytes of the area of one direction, whole pages.
pub(crate) const NOTICE_BYTES: usize = (GROUPS as usize * GROUP_BYTES).next_multiple_of(4096);

/// The bits of one end's channels, so that channels of neighbouring numbers of one owner are
/// neighbours: the owner is the lowest bit of a channel's number.
const HALF: u32 = CHANNELS / 2;

/// The notice area of one direction of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notices {
    base: NonNull<u8>,
}

// SAFETY: a view of memory that is shared anyway; every access is atomic.
unsafe impl Send for Notices {}
// SAFETY: as above.
unsafe impl Sync for Notices {}

/// The number of a channel's bit.
#[inline]
pub(crate) const fn place(channel: u32) -> u32 {
    (channel >> 1) + (channel & 1) * HALF
}

impl Notices {
    /// # Safety
    ///
    /// `base` has [`NOTICE_BYTES`] bytes, aligned to 64, mapped while this is used.
    pub(crate) const unsafe fn new(base: NonNull<u8>) -> Self {
        Self { base }
    }

    #[inline]
    fn at(&self, group: u32, offset: usize) -> *mut u8 {
        let group = group % GROUPS;
        // SAFETY: every `offset` of this file is inside a group.
        unsafe {
            self.base
                .as_ptr()
                .add(group as usize * GROUP_BYTES + offset)
        }
    }

    /// The parker of a receiver that sleeps for any VI of the group, plus 1.
    #[inline]
    pub(crate) fn sleeper(&self, group: u32) -> &AtomicU32 {
        // SAFETY: inside the area, aligned, only reached atomically.
        unsafe { AtomicU32::from_ptr(self.at(group, 0).cast()) }
    }

    #[inline]
    fn summary(&self, group: u32, index: usize) -> &AtomicU64 {
        let offset = SUMMARY_AT + index % SUMMARY_WORDS * 8;
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.at(group, offset).cast()) }
    }

    #[inline]
    fn word(&self, group: u32, index: usize) -> &AtomicU64 {
        let offset = WORDS_AT + index % WORDS * 8;
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.at(group, offset).cast()) }
    }

    /// Asks for what [`Notices::post`] is going to write.
    #[inline]
    pub(crate) fn prefetch(&self, group: u32, channel: u32) {
        let index = place(channel % CHANNELS) as usize / 64;
        prefetch_line_to_write(self.word(group, index).as_ptr().cast());
    }

    /// Tells of a slot that was published on a channel; the mark of a sleeper to be woken, or 0.
    /// The group is the peer's word.
    #[inline]
    pub(crate) fn post(&self, group: u32, channel: u32) -> u32 {
        if group >= GROUPS || channel >= CHANNELS {
            return 0;
        }
        let place = place(channel);
        let index = place as usize / 64;
        kill_point!();
        // SeqCst, as all in this order: the bit is set before the summary and the sleeper are read,
        // while the receiver takes the summary, and leaves its mark, before it reads the bits. One
        // of them sees the other. What the bits were is not asked: an instruction that tells it
        // fetches the line twice.
        self.word(group, index)
            .fetch_or(1 << (place % 64), Ordering::SeqCst);
        kill_point!();
        let summary = self.summary(group, index / 64);
        let named = 1 << (index % 64);
        if summary.load(Ordering::SeqCst) & named == 0 {
            summary.fetch_or(named, Ordering::SeqCst);
        }
        kill_point!();
        let sleeper = self.sleeper(group);
        if sleeper.load(Ordering::SeqCst) == 0 {
            return 0;
        }
        sleeper.swap(0, Ordering::SeqCst)
    }

    /// Takes the bits of a group, of the lowest `counts` of either end's channels, and gives their
    /// places to `each`.
    ///
    /// Not to rely on the summary finds also what a sender told that was stopped before it could
    /// write there, or is hostile.
    #[inline]
    pub(crate) fn take(
        &self,
        group: u32,
        counts: [usize; 2],
        relies_on_summary: bool,
        mut each: impl FnMut(u32),
    ) {
        for (half, count) in counts.into_iter().enumerate() {
            let first = half * (WORDS / 2);
            let words = count.div_ceil(64);
            for offset in (0..words).step_by(64) {
                let summary = self.summary(group, (first + offset) / 64);
                // A plain load first: there is nothing most of the time.
                let mut named = if summary.load(Ordering::Relaxed) == 0 {
                    0
                } else {
                    summary.swap(0, Ordering::SeqCst)
                };
                // Words behind the last channel are the peer's invention.
                let here = u64::MAX >> (64 - (words - offset).min(64));
                named = if relies_on_summary {
                    named & here
                } else {
                    here
                };
                while named != 0 {
                    let index = first + offset + named.trailing_zeros() as usize;
                    named &= named - 1;
                    let word = self.word(group, index);
                    if word.load(Ordering::SeqCst) == 0 {
                        continue;
                    }
                    let mut bits = word.swap(0, Ordering::SeqCst);
                    while bits != 0 {
                        each(index as u32 * 64 + bits.trailing_zeros());
                        bits &= bits - 1;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Area(Box<[u128]>);

    impl Area {
        fn new() -> (Self, Notices) {
            // Lines are not shared with others here: 16 bytes of alignment are enough.
            let mut area = Self(vec![0_u128; NOTICE_BYTES / 16].into_boxed_slice());
            let base = NonNull::from(&mut *area.0).cast();
            // SAFETY: it has the bytes, and lives as long as the test.
            let notices = unsafe { Notices::new(base) };
            (area, notices)
        }
    }

    fn taken(notices: &Notices, group: u32, counts: [usize; 2], relies: bool) -> Vec<u32> {
        let mut places = Vec::new();
        notices.take(group, counts, relies, |place| places.push(place));
        places
    }

    const ALL: [usize; 2] = [HALF as usize; 2];

    #[test]
    fn what_was_posted_is_taken_once() {
        let (_area, notices) = Area::new();
        let channels = [0, 1, 2, 127, 128, 8191, 8192, CHANNELS - 2, CHANNELS - 1];
        for group in [0, 7, GROUPS - 1] {
            for channel in channels {
                assert_eq!(notices.post(group, channel), 0);
                assert_eq!(notices.post(group, channel), 0);
            }
            for relies in [true, false] {
                let mut expected: Vec<u32> = channels.into_iter().map(place).collect();
                expected.sort_unstable();
                assert_eq!(taken(&notices, group, ALL, relies), expected);
                assert_eq!(taken(&notices, group, ALL, relies), []);
                for channel in channels {
                    notices.post(group, channel);
                }
            }
        }
    }

    #[test]
    fn nothing_outside_is_touched() {
        let (_area, notices) = Area::new();
        notices.sleeper(0).store(9, Ordering::Relaxed);
        for (group, channel) in [(GROUPS, 0), (u32::MAX, 0), (0, CHANNELS), (0, u32::MAX)] {
            assert_eq!(notices.post(group, channel), 0);
        }
        assert_eq!(taken(&notices, 0, ALL, false), []);
        assert_eq!(notices.sleeper(0).load(Ordering::Relaxed), 9);
    }

    #[test]
    fn a_lost_summary_is_made_up_for() {
        let (_area, notices) = Area::new();
        notices.post(3, 200);
        notices.summary(3, 0).store(0, Ordering::Relaxed);
        assert_eq!(taken(&notices, 3, ALL, true), []);
        assert_eq!(taken(&notices, 3, ALL, false), [100]);
        // The next to tell does it for both.
        notices.post(3, 200);
        notices.summary(3, 0).store(0, Ordering::Relaxed);
        notices.post(3, 202);
        assert_eq!(taken(&notices, 3, ALL, true), [100, 101]);
    }

    #[test]
    fn the_first_to_tell_wakes_the_sleeper() {
        let (_area, notices) = Area::new();
        notices.sleeper(5).store(12, Ordering::Relaxed);
        assert_eq!(notices.post(4, 6), 0);
        assert_eq!(notices.post(5, 6), 12);
        assert_eq!(notices.post(5, 8), 0);
    }

    #[test]
    fn only_channels_in_use_are_asked_for() {
        let (_area, notices) = Area::new();
        notices.post(0, 0);
        notices.post(0, 1);
        assert_eq!(taken(&notices, 0, [1, 0], true), [0]);
        assert_eq!(taken(&notices, 0, [1, 1], true), [HALF]);
    }

    #[test]
    fn no_notice_is_lost_between_threads() {
        let (area, notices) = Area::new();
        let rounds = if cfg!(miri) { 200 } else { 20_000 };
        let slots: [AtomicU32; 4] = Default::default();
        let published: [AtomicU32; 4] = Default::default();
        std::thread::scope(|scope| {
            for (channel, slot) in slots.iter().enumerate() {
                let published = &published;
                scope.spawn(move || {
                    for round in 1..=rounds {
                        slot.store(round, Ordering::Relaxed);
                        notices.post(2, channel as u32 * 2);
                        while published[channel].load(Ordering::Relaxed) != round {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            // Each round is seen through its own notice, or the senders wait for ever.
            let mut done = 0;
            while done < 4 {
                notices.take(2, [4, 0], true, |place| {
                    let seen = slots[place as usize].load(Ordering::Relaxed);
                    if published[place as usize].swap(seen, Ordering::Relaxed) != seen
                        && seen == rounds
                    {
                        done += 1;
                    }
                });
                std::thread::yield_now();
            }
        });
        drop(area);
    }
}
