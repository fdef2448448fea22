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

    /// What was there before. The index is below [`TABLE_ENTRIES_MAX`].
    pub(crate) fn set(&mut self, index: usize, route: R, key: Key) -> Option<R> {
        if index >= self.entries.len() {
            self.entries.resize(index + 1, None);
        }
        let before = self.entries[index].replace((route, key));
        before.map(|(route, _)| route)
    }

    /// What was there.
    pub(crate) fn clear(&mut self, index: usize) -> Option<R> {
        let (route, _) = self.entries.get_mut(index)?.take()?;
        Some(route)
    }

    /// Everything that is there.
    pub(crate) fn routes(&self) -> impl Iterator<Item = R> {
        self.entries.iter().flatten().map(|(route, _)| *route)
    }

    #[inline]
    pub(crate) fn find(&self, index: usize) -> Option<(R, Key)> {
        self.entries.get(index).copied().flatten()
    }
}
