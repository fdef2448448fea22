//! For how long any of several processors has worked.

use viaduct_engine::Time;

/// Spans that are kept before those that are over are put together.
const KEPT_MAX: usize = 64;

/// The time that is covered by spans, some of which overlap. None begins before it is added.
#[derive(Clone, Debug, Default)]
pub(super) struct Busy {
    /// Covered by spans that are over.
    past: Time,
    /// Those that may not be over.
    spans: Vec<(Time, Time)>,
}

impl Busy {
    /// Adds a span, at a time that is not after its begin.
    pub(super) fn add(&mut self, now: Time, (begin, end): (Time, Time)) {
        if begin == end {
            return;
        }
        if self.spans.len() >= KEPT_MAX {
            self.put_together(now);
        }
        self.spans.push((begin, end));
    }

    /// What is covered up to now.
    pub(super) fn until(&mut self, now: Time) -> Time {
        self.put_together(now);
        let spans = self.spans.iter();
        let began = spans.map(|(begin, _)| now.saturating_sub(*begin));
        began.fold(self.past, Time::saturating_add)
    }

    /// What is covered in all.
    pub(super) fn all(&self) -> Time {
        let mut all = self.clone();
        all.until(Time::MAX)
    }

    /// Joins spans that overlap, and counts those that are over.
    fn put_together(&mut self, now: Time) {
        self.spans.sort_unstable();
        let mut kept: Vec<(Time, Time)> = Vec::with_capacity(self.spans.len());
        for (begin, end) in self.spans.drain(..) {
            match kept.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => kept.push((begin, end)),
            }
        }
        kept.retain(|(begin, end)| {
            let is_over = *end <= now;
            if is_over {
                self.past = self.past.saturating_add(end.saturating_sub(*begin));
            }
            !is_over
        });
        self.spans = kept;
    }

    pub(super) fn state_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<(Time, Time)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use viaduct_engine::{Stream, StreamKey};

    #[test]
    fn what_several_cover_is_counted_once() {
        for entity in 0..50 {
            let mut stream = Stream::new(StreamKey {
                seed: 1,
                purpose: 7,
                entity,
            });
            let (mut busy, mut now) = (Busy::default(), 0);
            let mut covered = vec![false; 20_000];
            let of = Time::from_picoseconds;
            for _ in 0..400 {
                now += stream.below(40);
                let begin = now + stream.below(30);
                let end = begin + stream.below(60);
                busy.add(of(now), (of(begin), of(end)));
                covered[begin as usize..end as usize].fill(true);
                if stream.below(5) == 0 {
                    let count = covered[..now as usize].iter().filter(|it| **it).count();
                    assert_eq!(busy.until(of(now)), of(count as u64), "{entity} at {now}");
                }
            }
            let count = covered.iter().filter(|it| **it).count();
            assert_eq!(busy.all(), of(count as u64), "{entity}");
            assert!(busy.spans.len() <= KEPT_MAX + 1);
        }
    }
}
