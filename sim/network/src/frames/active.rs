//! Adapters that have something to do, and when.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Times and hosts. An adapter that sends frame after frame has something to do a frame later, so
/// that most come in the order of time.
#[derive(Debug, Default)]
pub(super) struct Active {
    in_order: VecDeque<(u64, u32)>,
    others: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Active {
    #[inline]
    pub(super) fn push(&mut self, time: u64, host: u32) {
        match self.in_order.back() {
            Some(&(last, _)) if last > time => self.others.push(Reverse((time, host))),
            _ => self.in_order.push_back((time, host)),
        }
    }

    /// The first time.
    #[inline]
    pub(super) fn first(&self) -> Option<u64> {
        let in_order = self.in_order.front().map(|&(time, _)| time);
        let others = self.others.peek().map(|&Reverse((time, _))| time);
        match (in_order, others) {
            (Some(time), Some(other)) => Some(time.min(other)),
            (time, other) => time.or(other),
        }
    }

    /// Takes what is before a time.
    #[inline]
    pub(super) fn take_before(&mut self, end: u64, due: &mut Vec<(u64, u32)>) {
        while let Some(&first) = self.in_order.front()
            && first.0 < end
        {
            self.in_order.pop_front();
            due.push(first);
        }
        while let Some(&Reverse(first)) = self.others.peek()
            && first.0 < end
        {
            self.others.pop();
            due.push(first);
        }
    }

    pub(super) fn state_bytes(&self) -> usize {
        (self.in_order.capacity() + self.others.capacity()) * size_of::<(u64, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_before_a_time_is_taken_and_nothing_else() {
        let mut active = Active::default();
        let all = [(5, 1), (7, 2), (3, 3), (7, 4), (9, 5), (8, 6), (1, 7)];
        for (time, host) in all {
            active.push(time, host);
        }
        assert_eq!(active.first(), Some(1));
        let mut due = Vec::new();
        active.take_before(8, &mut due);
        due.sort_unstable();
        assert_eq!(due, [(1, 7), (3, 3), (5, 1), (7, 2), (7, 4)]);
        assert_eq!(active.first(), Some(8));
        active.take_before(10, &mut due);
        assert_eq!((due.len(), active.first()), (7, None));
    }
}
