//! Endpoints that are polled together.

use std::fmt;
use std::future::poll_fn;
use std::time::Duration;

use crate::carrier::{Carrier, Group, Readiness, Watch};
use crate::endpoint::Endpoint;
use crate::error::WaitError;

/// Endpoints of one carrier that one owner polls together.
///
/// Those that have something to take are served in turn, a message each, whatever the number of
/// those that have nothing.
pub struct Bundle<C: Carrier, S> {
    carrier: C,
    group: Group,
    members: Vec<Option<Endpoint<C, S>>>,
    free: Vec<usize>,
}

impl<C: Carrier, S> Bundle<C, S> {
    /// An empty one.
    pub fn new(carrier: &C) -> Self {
        Self {
            carrier: carrier.clone(),
            group: carrier.create_group(),
            members: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Takes an endpoint in; its number among the members.
    ///
    /// # Panics
    ///
    /// With more than 2^32 members, or an endpoint of another carrier.
    pub fn insert(&mut self, endpoint: Endpoint<C, S>) -> usize {
        let index = self.free.pop().unwrap_or(self.members.len());
        let member = u32::try_from(index).expect("a bundle has at most 2^32 members");
        assert!(
            self.carrier.is_same(endpoint.carrier()),
            "a bundle takes endpoints of its own carrier; this one is another's"
        );
        self.carrier.join(endpoint.slot(), self.group, member);
        if index == self.members.len() {
            self.members.push(Some(endpoint));
        } else {
            self.members[index] = Some(endpoint);
        }
        index
    }

    /// Gives a member back.
    pub fn remove(&mut self, index: usize) -> Option<Endpoint<C, S>> {
        let endpoint = self.members.get_mut(index)?.take()?;
        self.carrier.leave(endpoint.slot());
        self.free.push(index);
        Some(endpoint)
    }

    /// A member.
    #[must_use]
    pub fn member(&self, index: usize) -> Option<&Endpoint<C, S>> {
        self.members.get(index)?.as_ref()
    }

    /// As [`Bundle::member`], to use it.
    pub fn member_mut(&mut self, index: usize) -> Option<&mut Endpoint<C, S>> {
        self.members.get_mut(index)?.as_mut()
    }

    /// How many members it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len() - self.free.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All members.
    pub fn members(&self) -> impl Iterator<Item = &Endpoint<C, S>> {
        self.members.iter().flatten()
    }

    /// Handles at most `limit` messages, a message of each member that has some in turn; how many
    /// that were.
    #[inline]
    pub fn poll(&mut self, limit: usize) -> usize {
        for handled in 0..limit {
            let Some(taken) = self.carrier.take_any(self.group) else {
                return handled;
            };
            let has_more = taken.has_more;
            if let Some(endpoint) = self.member_mut(taken.member as usize) {
                endpoint.handle(taken.arrival);
            }
            if !has_more {
                return handled + 1;
            }
        }
        limit
    }

    /// Sleeps until some member has something to take; `None` waits for ever.
    ///
    /// # Errors
    ///
    /// [`WaitError::TimedOut`].
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<(), WaitError> {
        let waited = self
            .carrier
            .wait(Watch::Group(self.group), &has_arrival, limit);
        waited.map_err(|_| WaitError::TimedOut)
    }

    /// As [`Bundle::wait`], without a thread and for ever.
    pub async fn wait_async(&mut self) {
        let watch = Watch::Group(self.group);
        poll_fn(|context| self.carrier.poll_wait(watch, &has_arrival, context)).await;
    }
}

const fn has_arrival(found: Readiness) -> bool {
    found.request || found.reply || found.returned
}

impl<C: Carrier, S> Drop for Bundle<C, S> {
    fn drop(&mut self) {
        self.members.clear();
        self.carrier.destroy_group(self.group);
    }
}

impl<C: Carrier, S> fmt::Debug for Bundle<C, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Bundle")
            .field("group", &self.group)
            .field("members", &self.len())
            .finish_non_exhaustive()
    }
}
