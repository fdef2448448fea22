//! What happens to bytes that are placed in the receiver's buffers, as far as their sender can
//! tell.
//!
//! One copy straight into a buffer is the quickest way as long as nobody reads there: its lines
//! stay in the sender's caches. A program that reads its messages has taken them away, and then two
//! copies through the pool can be quicker than one: the receiver's copy brings lines over faster
//! than a program's loop does, and the pool's own lines have long left the innermost cache of the
//! core that read them, from where they are the slowest to take.
//!
//! So now and then a buffer is remembered into which a message was placed. When it comes again, how
//! long the copy takes tells whether it was read in between.

use crate::transfer::{READ_DIRECT_MIN, Read};

/// Buffers that are remembered: of 8 KiB as many as [`READ_BYTES`] holds.
const RECENT: usize = 8;
/// A reader's innermost cache may hold as much of what it has read. On a core with 48 KiB of it:
/// between 64 and 128 KiB of other buffers make the same one quick again.
const READ_BYTES: u64 = 64 << 10;
/// Messages that could tell, from one sample to the next.
const PAUSE: u8 = 64;
/// After so many more a sample's buffer is not waited for any longer.
const PATIENCE: u8 = 255;

/// A receive's buffer: its segment and address there.
pub(super) type Buffer = (u32, u64);

/// What is known of one connection's receiver.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    is_reading: bool,
    sample: Option<Buffer>,
    /// Messages since the last sample ended, or since it was taken.
    since: u8,
    recent: [(Buffer, u32); RECENT],
    newest: usize,
}

/// What to do with a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Look {
    /// Whatever is quickest.
    None,
    /// Place it: its buffer is the sample.
    Place,
    /// Place it, and tell how that went.
    Time,
}

impl Reader {
    /// Begins a message for a buffer: what to do with it, and what is known of the buffer.
    /// `can_tell` says whether the time of a copy into it tells anything.
    #[inline]
    pub(super) fn begin(&mut self, buffer: Buffer, bytes: u32, can_tell: bool) -> (Look, Read) {
        let look = if can_tell {
            self.look(buffer)
        } else {
            Look::None
        };
        let read = if !self.is_reading {
            Read::No
        } else if bytes as usize >= READ_DIRECT_MIN && self.is_soon_again(buffer, bytes) {
            Read::JustNow
        } else {
            Read::Before
        };
        (look, read)
    }

    #[inline]
    fn look(&mut self, buffer: Buffer) -> Look {
        self.since = self.since.saturating_add(1);
        match self.sample {
            None if self.since > PAUSE => {
                (self.sample, self.since) = (Some(buffer), 0);
                Look::Place
            }
            Some(sample) if sample == buffer => {
                (self.sample, self.since) = (None, 0);
                Look::Time
            }
            Some(_) if self.since == PATIENCE => {
                (self.sample, self.since) = (None, 0);
                Look::None
            }
            _ => Look::None,
        }
    }

    /// Keeps what the look at a sample said.
    pub(super) const fn judge(&mut self, was_read: bool) {
        self.is_reading = was_read;
    }

    /// Remembers a message; whether its buffer was the target of one a short while ago, so that
    /// the core that read it may have it in its innermost cache.
    fn is_soon_again(&mut self, buffer: Buffer, bytes: u32) -> bool {
        let mut since = u64::from(bytes);
        let mut is_soon = false;
        for back in 0..RECENT {
            let (other, other_bytes) = self.recent[(self.newest + RECENT - back) % RECENT];
            if since > READ_BYTES || other_bytes == 0 {
                break;
            }
            if other == buffer {
                is_soon = true;
                break;
            }
            since += u64::from(other_bytes);
        }
        self.newest = (self.newest + 1) % RECENT;
        self.recent[self.newest] = (buffer, bytes);
        is_soon
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Buffer = (1, 0);
    const SECOND: Buffer = (1, 4096);

    /// Looks at so many messages for a buffer that need not be looked at.
    fn pause(reader: &mut Reader, buffer: Buffer) {
        (0..PAUSE).for_each(|_| assert_eq!(reader.look(buffer), Look::None));
    }

    #[test]
    fn a_buffer_that_comes_again_tells_whether_it_was_read() {
        let mut reader = Reader::default();
        let nothing = (Look::None, Read::No);
        pause(&mut reader, FIRST);
        assert_eq!(reader.begin(FIRST, 100, false), nothing, "cannot tell");
        assert_eq!(reader.begin(FIRST, 4096, true), (Look::Place, Read::No));
        assert_eq!(reader.begin(SECOND, 4096, true), nothing, "another buffer");
        assert_eq!(reader.begin(FIRST, 100, false), nothing, "cannot tell");
        assert_eq!(reader.begin(FIRST, 4096, true), (Look::Time, Read::No));
        reader.judge(true);
        let mut read = |bytes, read| assert_eq!(reader.begin(FIRST, bytes, false).1, read);
        read(64 << 10, Read::Before);
        read(64 << 10, Read::JustNow);
        read(4095, Read::Before);
        read(4096, Read::JustNow);
        pause(&mut reader, SECOND);
        assert_eq!(reader.look(SECOND), Look::Place);
        assert_eq!(reader.look(SECOND), Look::Time);
        reader.judge(false);
        assert_eq!(reader.begin(FIRST, 64 << 10, false), nothing);
    }

    #[test]
    fn a_buffer_that_does_not_come_again_is_not_waited_for_for_ever() {
        let mut reader = Reader::default();
        pause(&mut reader, FIRST);
        assert_eq!(reader.look(FIRST), Look::Place);
        (0..PATIENCE).for_each(|_| assert_eq!(reader.look(SECOND), Look::None));
        pause(&mut reader, SECOND);
        assert_eq!(reader.look(SECOND), Look::Place);
        assert_eq!(reader.look(SECOND), Look::Time);
    }

    #[test]
    fn a_buffer_comes_soon_again_when_little_was_read_since() {
        let again = |buffers: u32, bytes: u32| {
            let mut reader = Reader::default();
            let mut of = |number: u32| {
                let address = u64::from(number % buffers) * u64::from(bytes);
                reader.is_soon_again((1, address), bytes)
            };
            assert!(!of(0), "never before");
            (1..buffers).for_each(|number| assert!(!of(number)));
            (buffers..4 * buffers).all(of)
        };
        assert!(again(1, 64 << 10));
        assert!(!again(1, (64 << 10) + 1));
        assert!(again(4, 16 << 10));
        assert!(!again(5, 16 << 10));
        assert!(again(8, 8 << 10));
        assert!(!again(64, 8 << 10));
    }
}
