//! The protection tags of all NICs of a process.
//!
//! They are numbered together, so that a tag of one NIC is known to be foreign on another.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::slots::Slots;

/// The tags of one NIC.
#[derive(Debug)]
pub(super) struct Tags {
    nic: u64,
    live: u32,
}

#[derive(Clone, Copy, Debug)]
struct Tag {
    nic: u64,
    /// VIs and regions that use it.
    users: u32,
}

#[derive(Debug)]
struct All {
    tags: Slots<Tag>,
    nics: u64,
}

fn all() -> MutexGuard<'static, All> {
    static ALL: Mutex<All> = Mutex::new(All {
        tags: Slots::new(),
        nics: 0,
    });
    // Nothing in here panics half way through a change.
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tags {
    pub(super) fn new() -> Self {
        let mut all = all();
        all.nics += 1;
        Self {
            nic: all.nics,
            live: 0,
        }
    }

    pub(super) const fn live(&self) -> u32 {
        self.live
    }

    /// Makes a tag with so many users.
    pub(super) fn insert(&mut self, users: u32) -> u32 {
        self.live += 1;
        let nic = self.nic;
        all().tags.insert(Tag { nic, users })
    }

    /// Users of a live tag of this NIC.
    pub(super) fn users(&self, tag: u32) -> Option<u32> {
        let known = all().tags.get(tag)?;
        (known.nic == self.nic).then_some(known.users)
    }

    pub(super) fn set_users(&self, tag: u32, users: u32) {
        let nic = self.nic;
        all().tags.replace(tag, Tag { nic, users });
    }

    pub(super) fn remove(&mut self, tag: u32) {
        if self.users(tag).is_some() {
            self.live -= 1;
            all().tags.remove(tag);
        }
    }
}

impl Drop for Tags {
    fn drop(&mut self) {
        let nic = self.nic;
        all().tags.remove_where(|tag| tag.nic == nic);
    }
}
