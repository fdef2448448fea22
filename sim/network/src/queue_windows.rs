//! What queues of links held and did, window by window.

use core::cmp::Reverse;

use viaduct_engine::Time;
use viaduct_topology::Topology;

use crate::fluid::ResourceId;
use crate::frames::limits::QueueCounts;
use crate::network::Network;

/// Of one window so many queues are kept, those that held most: that bounds the memory.
pub const QUEUES_OF_A_WINDOW_MAX: usize = 1_024;

/// What the queue of one link held and did in one window.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QueueWindow {
    /// The window's end.
    pub end: Time,
    /// The link.
    pub link: u32,
    /// Most bytes that were in the queue at once; 0 if no more than a full frame was, or at
    /// `queues` no more than one message.
    pub bytes_max: u64,
    /// Frames that were lost, trimmed or marked there, and pauses of the link.
    pub counts: QueueCounts,
}

/// The windows of a run, each with its queues: those in which something waited, or frames were
/// lost, trimmed or marked, and those of links that paused.
#[derive(Debug)]
pub(crate) struct QueueWindows {
    /// In order of their ends, and of the links.
    rows: Vec<QueueWindow>,
    /// What each queue had done when the present window began.
    before: Vec<QueueCounts>,
}

impl QueueWindows {
    /// Of a network; none where links have no queues.
    pub(crate) fn of(network: &Network, topology: &Topology) -> Option<Self> {
        network.has_queues().then(|| Self {
            rows: Vec::new(),
            before: vec![QueueCounts::default(); topology.link_count() as usize],
        })
    }

    /// Ends a window at `now`. What happens at the end of the window before, behind it, belongs to
    /// that.
    pub(crate) fn close(&mut self, network: &mut Network, now: Time) {
        let begun = self.rows.partition_point(|row| row.end < now);
        for (link, before) in (0_u32..).zip(&mut self.before) {
            let resource = ResourceId(link);
            let bytes_max = network.take_queue_max_bytes(resource, now);
            let until_now = network.queue_counts(resource, now);
            let counts = until_now.since(*before);
            *before = until_now;
            if bytes_max > 0 || counts != QueueCounts::default() {
                self.rows.push(QueueWindow {
                    end: now,
                    link,
                    bytes_max,
                    counts,
                });
            }
        }
        let window = self.rows.split_off(begun);
        self.rows.extend(kept(window));
    }

    /// Makes windows that end at multiples of a width after an origin of those that there are.
    pub(crate) fn widen(&mut self, origin: Time, width: Time) {
        for row in &mut self.rows {
            let since = row.end.saturating_sub(origin).picoseconds();
            let windows = since.div_ceil(width.picoseconds());
            row.end = origin.saturating_add(width.saturating_mul(windows));
        }
        let rows = core::mem::take(&mut self.rows);
        let windows = rows.chunk_by(|one, other| one.end == other.end);
        self.rows = windows.flat_map(|rows| kept(rows.to_vec())).collect();
    }

    /// All windows that have ended are as if they had not been.
    pub(crate) fn forget(&mut self) {
        self.rows.clear();
    }

    /// All windows that have ended, while others are to come.
    pub(crate) fn rows(&self) -> Vec<QueueWindow> {
        self.rows.clone()
    }

    /// All windows that have ended.
    pub(crate) fn into_rows(self) -> Vec<QueueWindow> {
        self.rows
    }

    /// Memory of the account.
    pub(crate) fn state_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<QueueWindow>()
            + self.before.capacity() * size_of::<QueueCounts>()
    }
}

/// The rows of one window, one for each queue, of those that held most.
fn kept(mut rows: Vec<QueueWindow>) -> Vec<QueueWindow> {
    rows.sort_by_key(|row| row.link);
    rows.dedup_by(|later, row| {
        let is_same = later.link == row.link;
        if is_same {
            row.bytes_max = row.bytes_max.max(later.bytes_max);
            row.counts = row.counts.and(later.counts);
        }
        is_same
    });
    if rows.len() > QUEUES_OF_A_WINDOW_MAX {
        rows.sort_by_key(|row| (Reverse(row.bytes_max), row.link));
        rows.truncate(QUEUES_OF_A_WINDOW_MAX);
        rows.sort_by_key(|row| row.link);
    }
    rows
}

impl QueueCounts {
    /// What has happened since there were these.
    fn since(self, before: Self) -> Self {
        Self {
            lost: self.lost - before.lost,
            trimmed: self.trimmed - before.trimmed,
            marked: self.marked - before.marked,
            pauses: self.pauses - before.pauses,
            paused: self.paused.saturating_sub(before.paused),
        }
    }

    /// Both together.
    fn and(self, other: Self) -> Self {
        Self {
            lost: self.lost + other.lost,
            trimmed: self.trimmed + other.trimmed,
            marked: self.marked + other.marked,
            pauses: self.pauses + other.pauses,
            paused: self.paused.saturating_add(other.paused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(end_us: u64, link: u32, bytes_max: u64, lost: u64) -> QueueWindow {
        QueueWindow {
            end: Time::from_nanoseconds(end_us * 1_000),
            link,
            bytes_max,
            counts: QueueCounts {
                lost,
                ..QueueCounts::default()
            },
        }
    }

    #[test]
    fn of_two_windows_that_become_one_the_most_stays_and_counts_add_up() {
        let mut windows = QueueWindows {
            rows: vec![
                row(1, 4, 900, 1),
                row(1, 7, 100, 0),
                row(2, 4, 500, 2),
                row(3, 0, 70, 0),
            ],
            before: Vec::new(),
        };
        windows.widen(Time::ZERO, Time::from_nanoseconds(2_000));
        let expected = [row(2, 4, 900, 3), row(2, 7, 100, 0), row(4, 0, 70, 0)];
        assert_eq!(windows.into_rows(), expected);
    }

    #[test]
    fn windows_that_begin_later_become_one_from_there() {
        let rows = vec![row(8, 4, 900, 1), row(9, 4, 500, 2), row(10, 4, 70, 0)];
        let mut windows = QueueWindows {
            rows,
            before: Vec::new(),
        };
        // The first of them lasts from 7 to 8.
        windows.widen(Time::from_nanoseconds(7_000), Time::from_nanoseconds(2_000));
        assert_eq!(windows.into_rows(), [row(9, 4, 900, 3), row(11, 4, 70, 0)]);
    }

    #[test]
    fn the_deepest_queues_of_a_window_are_kept_in_order() {
        let most = QUEUES_OF_A_WINDOW_MAX as u32;
        let rows = (0..most + 2).map(|link| row(1, link, 10 + u64::from(link), 0));
        let rows = kept(rows.rev().collect());
        assert_eq!(rows.len(), QUEUES_OF_A_WINDOW_MAX);
        let links: Vec<u32> = rows.iter().map(|row| row.link).collect();
        assert_eq!(links, (2..most + 2).collect::<Vec<_>>());
    }
}
