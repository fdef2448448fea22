//! A heap of four children a node, with pop and push fused.

use super::{Entry, Rival};

/// Pop leaves the root vacant; a push that follows fills it, which spares one walk of the two.
#[derive(Debug, Default)]
pub(crate) struct FourAryHeap {
    entries: Vec<Entry>,
    sequence: u64,
    root_is_vacant: bool,
}

impl Rival for FourAryHeap {
    fn push(&mut self, time: u64, event: u64) {
        self.sequence += 1;
        let entry = Entry::new(time, self.sequence, event);
        if self.root_is_vacant {
            self.root_is_vacant = false;
            self.sift_down(entry);
        } else {
            self.entries.push(entry);
            self.sift_up(entry);
        }
    }

    fn pop(&mut self) -> Option<(u64, u64)> {
        if self.root_is_vacant {
            self.root_is_vacant = false;
            let last = self.entries.pop()?;
            if !self.entries.is_empty() {
                self.sift_down(last);
            }
        }
        let first = *self.entries.first()?;
        self.root_is_vacant = true;
        Some((first.time(), first.event))
    }
}

impl FourAryHeap {
    /// Finds the place of `entry` from the root down; the root's own is overwritten.
    fn sift_down(&mut self, entry: Entry) {
        let entries = self.entries.as_mut_slice();
        let mut place = 0;
        loop {
            let first = 4 * place + 1;
            let least = match entries.get(first..first + 4) {
                // Two pairs, then their winners: which child wins is a coin's throw, so no branch.
                Some([a, b, c, d]) => {
                    let (left, left_key) = if b.key < a.key {
                        (1, b.key)
                    } else {
                        (0, a.key)
                    };
                    let (right, right_key) = if d.key < c.key {
                        (3, d.key)
                    } else {
                        (2, c.key)
                    };
                    first + if right_key < left_key { right } else { left }
                }
                _ if first >= entries.len() => break,
                _ => (first..entries.len())
                    .min_by_key(|&child| entries[child].key)
                    .unwrap_or(first),
            };
            if entries[least].key >= entry.key {
                break;
            }
            entries[place] = entries[least];
            place = least;
        }
        entries[place] = entry;
    }

    /// Finds the place of `entry` from the last one up.
    fn sift_up(&mut self, entry: Entry) {
        let mut place = self.entries.len() - 1;
        while place > 0 {
            let parent = (place - 1) / 4;
            if self.entries[parent] <= entry {
                break;
            }
            self.entries[place] = self.entries[parent];
            place = parent;
        }
        self.entries[place] = entry;
    }
}
