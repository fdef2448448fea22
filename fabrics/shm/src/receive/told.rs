//! What the sender is told of posted receives: how many there are, and of those that no slots fill
//! where their bytes may be placed.

use std::sync::atomic::{AtomicU32, Ordering};

use viaduct_core::Status;

use super::{Incoming, ReceiveSide};
use crate::channel::{COOKIES, Cookie, OPAQUE};

impl ReceiveSide {
    /// Tells the sender of the receives that were posted before the connection.
    pub(crate) fn begin(&mut self, mut incoming: Incoming, own_posted: &AtomicU32) {
        incoming.base = self.side.queue.done;
        incoming.posted = self.side.queue.tail.wrapping_sub(self.side.queue.done);
        own_posted.store(incoming.posted, Ordering::Relaxed);
        let posted = incoming.posted;
        let direction = incoming.direction;
        self.incoming = Some(incoming);
        self.write_cookies();
        if let Some(incoming) = &mut self.incoming {
            incoming.counts.indexes += u64::from(posted > 0);
        }
        kill_point!();
        direction.posted().store(posted, Ordering::Release);
        kill_point!();
        direction.opened().store(1, Ordering::Release);
    }

    /// Tells the sender of one receive more.
    #[inline(never)]
    pub(crate) fn posted(&mut self, own_posted: &AtomicU32) {
        let Some(incoming) = &mut self.incoming else {
            return;
        };
        incoming.posted = incoming.posted.wrapping_add(1);
        let posted = incoming.posted;
        let is_current = incoming.cookies == posted.wrapping_sub(1);
        let last = self.side.queue.tail.wrapping_sub(1);
        // A receive that everything inline fits needs no cookie.
        if is_current
            && self
                .side
                .queue
                .get(last)
                .is_some_and(|entry| entry.bytes < incoming.cookie_from_bytes)
        {
            incoming.cookies = posted;
        } else {
            self.write_cookies();
        }
        if let Some(incoming) = &mut self.incoming {
            incoming.counts.indexes += 1;
            own_posted.store(posted, Ordering::Relaxed);
            kill_point!();
            incoming.direction.posted().store(posted, Ordering::Release);
        }
    }

    /// Writes the cookies for which there is room.
    pub(crate) fn write_cookies(&mut self) {
        loop {
            let Some(incoming) = &self.incoming else {
                return;
            };
            let number = incoming.cookies;
            let taken = self.side.queue.done.wrapping_sub(incoming.base);
            if number == incoming.posted
                || number.wrapping_sub(taken).cast_signed() >= COOKIES.cast_signed()
            {
                return;
            }
            let entry_number = incoming.base.wrapping_add(number);
            let cookie = self.cookie(entry_number);
            if let Some(incoming) = &mut self.incoming {
                if let Some(cookie) = cookie {
                    incoming.direction.write_cookie(number, cookie);
                    incoming.counts.cookies += 1;
                }
                incoming.cookies = number.wrapping_add(1);
            }
        }
    }

    /// What the sender may know of a receive: where to write, if it may.
    fn cookie(&mut self, number: u32) -> Option<Cookie> {
        let incoming = self.incoming.as_ref()?;
        let entry = self.side.queue.get(number)?;
        let opaque = incoming.splits.then_some(Cookie {
            capacity: entry.bytes,
            segment: OPAQUE,
            address: 0,
        });
        if !incoming.link.trusted()
            || entry.fault() != Status::PENDING
            || !entry.is_single()
            || entry.reach() < incoming.cookie_from_bytes
            // A sender that splits counts on all that was posted.
            || incoming.splits && !entry.is_sound()
        {
            return opaque;
        }
        // Nothing behind the region is told: a longer message comes to nothing here.
        let (capacity, private) = (entry.reach(), entry.first.address);
        let Some(placement) = self.side.placement(number, capacity) else {
            return opaque;
        };
        let incoming = self.incoming.as_ref()?;
        let (segment, address) = match placement.segment {
            Some(segment) => {
                incoming.link.announce_segment(segment.bits());
                (segment.bits(), placement.offset)
            }
            None => (0, private),
        };
        Some(Cookie {
            capacity,
            segment,
            address,
        })
    }
}
