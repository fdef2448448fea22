//! Translation tables: small integers to names and keys.

use crate::name::Key;

/// Entries of a translation table, at most.
pub const TABLE_ENTRIES_MAX: usize = 1 << 20;

/// Maps indices to where they lead.
#[derive(Debug)]
pub(crate) struct Table<R> {
    entries: Vec<Option<(R, Key)>>,
}

impl<R: Copy> Table<R> {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// `Err` past the last index that can be.
    pub(crate) fn set(&mut self, index: usize, route: R, key: Key) -> Result<(), ()> {
        if index >= TABLE_ENTRIES_MAX {
            return Err(());
        }
        if index >= self.entries.len() {
            self.entries.resize(index + 1, None);
        }
        self.entries[index] = Some((route, key));
        Ok(())
    }

    /// Whether there was one.
    pub(crate) fn clear(&mut self, index: usize) -> bool {
        self.entries
            .get_mut(index)
            .is_some_and(|entry| entry.take().is_some())
    }

    #[inline]
    pub(crate) fn find(&self, index: usize) -> Option<(R, Key)> {
        self.entries.get(index).copied().flatten()
    }
}
