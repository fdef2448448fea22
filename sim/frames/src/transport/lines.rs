//! Which line leads to which peer.
//!
//! Of most peers in a large network an interface never hears. So what it keeps of one is made when
//! the two first meet, and found by a table: of the first peers, by number; of the others, sorted.

use std::collections::BTreeMap;

use crate::names::{Line, NONE, Peer};

/// Peers that are found by number: a table of 16 KiB at most.
const DIRECT: usize = 1 << 12;

#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    /// As long as the highest of these peers that was met.
    direct: Vec<u32>,
    others: BTreeMap<u32, u32>,
}

impl Lines {
    /// The line to a peer that was met.
    #[inline]
    pub(super) fn find(&self, peer: Peer) -> Option<Line> {
        match self.direct.get(peer.index()) {
            Some(&line) if line != NONE => Some(Line::new(line)),
            _ => self.find_other(peer),
        }
    }

    #[cold]
    fn find_other(&self, peer: Peer) -> Option<Line> {
        let line = self.others.get(&(peer.index() as u32));
        line.copied().map(Line::new)
    }

    /// A peer that was not met before has this line.
    #[cold]
    pub(super) fn add(&mut self, peer: Peer, line: Line) {
        let index = peer.index();
        if index >= DIRECT {
            self.others.insert(index as u32, line.index() as u32);
            return;
        }
        if self.direct.len() <= index {
            self.direct.resize(index + 1, NONE);
        }
        self.direct[index] = line.index() as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_far_apart_are_found_by_their_lines_and_others_are_not() {
        let mut lines = Lines::default();
        let peers = [7, 0, 100_000, 4_095, 4_096, u32::MAX - 1].map(Peer::new);
        for (number, peer) in (0..).zip(peers) {
            assert_eq!(lines.find(peer), None);
            lines.add(peer, Line::new(number));
        }
        for (number, peer) in (0..).zip(peers) {
            assert_eq!(lines.find(peer), Some(Line::new(number)));
        }
        for stranger in [1, 4_094, 4_097, 99_999, u32::MAX] {
            assert_eq!(lines.find(Peer::new(stranger)), None);
        }
        // No table is as long as the highest number.
        assert!(lines.direct.len() <= DIRECT);
    }
}
