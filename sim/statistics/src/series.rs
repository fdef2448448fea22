//! A quantity over time, in a bounded number of windows.

/// What two neighbouring windows become when they are joined.
pub trait Merge {
    /// Takes in what `later` holds, which came after.
    fn merge(&mut self, later: &Self);
}

impl Merge for u64 {
    fn merge(&mut self, later: &Self) {
        *self += later;
    }
}

/// Equal windows of time, each with a `W`; when there would be too many, neighbours are joined
/// and the width doubles.
///
/// A series that holds `windows_max` windows at first therefore ends with more than half as
/// many, however long it runs.
#[derive(Clone, Debug)]
pub struct Series<W> {
    start: u64,
    width: u64,
    windows_max: usize,
    windows: Vec<W>,
    /// Start of the window used last, and its place: nearly always the next one used.
    current_start: u64,
    current: usize,
}

/// One window of a [`Series`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Window<'series, W> {
    /// Its first instant.
    pub start: u64,
    /// The first instant after it.
    pub end: u64,
    /// What it holds.
    pub content: &'series W,
}

impl<W: Default + Merge> Series<W> {
    /// Windows of `width` from `start` on, at most `windows_max` of them; at least a width of 1
    /// and 2 windows.
    #[must_use]
    pub fn new(start: u64, width: u64, windows_max: usize) -> Self {
        Self {
            start,
            width: width.max(1),
            windows_max: windows_max.max(2),
            windows: vec![W::default()],
            current_start: start,
            current: 0,
        }
    }

    /// The window of `time`; times before the start belong to the first.
    ///
    /// A content that is never asked for is `W::default()`, so windows without events exist.
    #[inline]
    pub fn at(&mut self, time: u64) -> &mut W {
        if time.wrapping_sub(self.current_start) >= self.width {
            self.move_to(time);
        }
        &mut self.windows[self.current]
    }

    fn move_to(&mut self, time: u64) {
        let since = time.saturating_sub(self.start);
        while since / self.width >= self.windows_max as u64 {
            self.double();
        }
        self.current = (since / self.width) as usize;
        self.current_start = self.start + self.current as u64 * self.width;
        if self.windows.len() <= self.current {
            self.windows.resize_with(self.current + 1, W::default);
        }
    }

    fn double(&mut self) {
        let mut windows = core::mem::take(&mut self.windows).into_iter();
        while let Some(mut window) = windows.next() {
            if let Some(later) = windows.next() {
                window.merge(&later);
            }
            self.windows.push(window);
        }
        self.width = self.width.saturating_mul(2);
    }

    /// The width of a window.
    #[must_use]
    pub fn width(&self) -> u64 {
        self.width
    }

    /// The windows from the first to the latest asked for.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Window<'_, W>> {
        self.windows.iter().enumerate().map(|(index, content)| {
            let start = self
                .start
                .saturating_add((index as u64).saturating_mul(self.width));
            Window {
                start,
                end: start.saturating_add(self.width),
                content,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Keeps the order of what was joined.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Times(Vec<u64>);

    impl Merge for Times {
        fn merge(&mut self, later: &Self) {
            self.0.extend(&later.0);
        }
    }

    #[test]
    fn windows_double_when_there_are_too_many() {
        let mut series = Series::<u64>::new(100, 10, 4);
        (100..140).for_each(|time| *series.at(time) += 1);
        assert_eq!(
            series
                .iter()
                .map(|window| *window.content)
                .collect::<Vec<_>>(),
            [10; 4]
        );
        *series.at(140) += 1;
        let windows: Vec<_> = series
            .iter()
            .map(|window| (window.start, window.end, *window.content))
            .collect();
        assert_eq!(windows, [(100, 120, 20), (120, 140, 20), (140, 160, 1)]);
    }

    #[test]
    fn a_leap_to_the_end_of_time_is_taken() {
        let mut series = Series::<u64>::new(0, 1, 8);
        *series.at(3) += 1;
        *series.at(u64::MAX) += 1;
        assert_eq!(series.iter().map(|window| *window.content).sum::<u64>(), 2);
        assert!(series.iter().len() <= 8);
    }

    #[test]
    fn times_before_the_start_belong_to_the_first_window() {
        let mut series = Series::<u64>::new(50, 10, 4);
        *series.at(75) += 1;
        *series.at(3) += 1;
        assert_eq!(
            series
                .iter()
                .map(|window| *window.content)
                .collect::<Vec<_>>(),
            [1, 0, 1]
        );
    }

    proptest! {
        #[test]
        fn every_time_is_in_its_window(
            start in 0..1_000_u64,
            width in 1..100_u64,
            windows_max in 2..20_usize,
            times in prop::collection::vec(0..100_000_u64, 1..200),
        ) {
            let mut series = Series::<Times>::new(start, width, windows_max);
            for &time in &times {
                series.at(start + time).0.push(start + time);
            }
            prop_assert!(series.iter().len() <= windows_max);
            prop_assert!((series.width() / width).is_power_of_two());
            for window in series.iter() {
                prop_assert_eq!(window.end - window.start, series.width());
                for time in &window.content.0 {
                    prop_assert!((window.start..window.end).contains(time));
                }
            }
            let kept: usize = series.iter().map(|window| window.content.0.len()).sum();
            prop_assert_eq!(kept, times.len());
        }
    }
}
