//! What happens in a window: adapters have sent, and frames come to queues.

use viaduct_engine::{EventId, EventQueue};

use super::calendar::Arrival;
use super::{Frames, WINDOW};
use crate::adapter::NEVER;
use crate::fluid::FlowId;

/// So many windows may follow one another in one event, if nothing else is to happen in between.
const SPARED_MAX: u32 = 1 << 10;

impl Frames {
    /// A window of the hosts is over: what their adapters have sent in it is on its way, and the
    /// queues of the next window are worked out.
    pub(super) fn end_window<E: Copy + From<FlowId>>(&mut self, queue: &mut EventQueue<E>) {
        self.window_event = EventId::NONE;
        self.window_end = NEVER;
        for turn in 1.. {
            let next = self.work_window(queue.now().picoseconds());
            // Which queue was worked out first is nobody's business.
            self.notices.sort_unstable();
            let Some(next) = next else {
                break;
            };
            let begin = self.calendar.begin(next);
            let is_told_first = |&(time, _): &(u64, u32)| time <= begin.picoseconds();
            if self.notices.first().is_some_and(is_told_first) {
                self.end_window_by(queue, next);
                break;
            }
            self.tell(queue);
            if turn == SPARED_MAX || !queue.spare(begin) {
                self.end_window_by(queue, next);
                break;
            }
        }
        self.tell(queue);
    }

    /// Works out a window that ends now: the next one in which there is something to do.
    fn work_window(&mut self, now: u64) -> Option<u64> {
        while self.advance_due(now) {}
        let window = self.calendar.window(now);
        let mut bucket = self.calendar.take(window);
        if self.spread.as_ref().is_some_and(|it| it.looks_ahead()) {
            for arrival in &mut bucket {
                self.choose_detour(arrival, now);
            }
        }
        if self.ordered.is_some() {
            let end = self.calendar.begin(window + 1);
            self.work_out(&bucket, end.picoseconds());
            self.look_for_deadlock(now, window);
        } else if self.spread.as_ref().is_some_and(|it| it.is_by_queue()) {
            self.serve_by_queue(&bucket);
        } else {
            self.serve_all(&bucket);
        }
        self.calendar.keep(bucket);
        let of_adapters = self
            .active
            .first()
            .map(|wake| self.calendar.window(wake) + 1);
        let next = [of_adapters, self.calendar.first()]
            .into_iter()
            .flatten()
            .min();
        next.map(|next| next.max(window + 1))
    }

    /// Works out what adapters have done before `now` that had something to do; whether there were
    /// any.
    fn advance_due(&mut self, now: u64) -> bool {
        let mut due = core::mem::take(&mut self.due);
        self.active.take_before(now, &mut due);
        for (turn, &(wake, host)) in due.iter().enumerate() {
            self.look_ahead_of_adapters(&due[turn..]);
            if self.active_from[host as usize] != wake {
                // It was found to have something to do before.
                continue;
            }
            self.advance(host, now);
            let wake = self.wake_of(host);
            self.active_from[host as usize] = wake;
            if wake != NEVER {
                self.active.push(wake, host);
            }
        }
        let had_any = !due.is_empty();
        due.clear();
        self.due = due;
        had_any
    }

    /// What comes to queues in a window, each by itself.
    fn serve_all(&mut self, bucket: &[Arrival]) {
        let Some(order) = self.inboxes.order(bucket) else {
            return self.serve_each(bucket.len(), |turn| &bucket[turn]);
        };
        self.serve_each(order.len(), |turn| &bucket[order[turn] as usize]);
        self.inboxes.give_back(order);
    }

    /// Frames that come to queues, in their order.
    #[inline(always)]
    fn serve_each<'a>(&mut self, count: usize, arrival: impl Fn(usize) -> &'a Arrival) {
        self.look_at_first(count, &arrival);
        for turn in 0..count {
            self.look_ahead(count, turn, &arrival);
            self.serve(arrival(turn));
        }
    }

    /// A window is to end when this one begins, or before.
    pub(super) fn end_window_by<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        window: u64,
    ) {
        if window >= self.window_end {
            return;
        }
        self.window_end = window;
        let begin = self.calendar.begin(window);
        if !queue.reschedule(self.window_event, begin) {
            self.window_event = queue.schedule(begin, E::from(WINDOW));
        }
    }
}
