//! A value for each host, where many hosts have the same one.

use std::sync::Arc;

/// A value for each host: the common one, but for the hosts of groups.
#[derive(Clone, Debug)]
pub struct ByHost<T> {
    common: T,
    /// One for each group.
    others: Vec<T>,
    /// The group of each host, from 1; 0 is none. Empty while there are no groups.
    group_of: Arc<[u16]>,
}

impl<T> ByHost<T> {
    /// Gives some of `host_count` hosts a value of their own.
    ///
    /// # Panics
    ///
    /// If a host is not one of so many, or there are more groups than 16 bits can number.
    pub fn set_group(&mut self, host_count: u32, hosts: impl IntoIterator<Item = u32>, value: T) {
        self.others.push(value);
        let group = u16::try_from(self.others.len()).expect("a group has a number of 16 bits");
        let mut group_of = self.group_of.to_vec();
        group_of.resize(host_count as usize, 0);
        for host in hosts {
            group_of[host as usize] = group;
        }
        self.group_of = group_of.into();
    }

    /// That of a host.
    // Mostly there are no groups, and that is one comparison.
    #[inline(always)]
    #[must_use]
    pub fn of(&self, host: u32) -> &T {
        match self.group_of.get(host as usize) {
            None | Some(0) => &self.common,
            Some(group) => &self.others[usize::from(*group) - 1],
        }
    }

    /// The place of a host's value among [`ByHost::values`].
    #[inline(always)]
    #[must_use]
    pub fn group(&self, host: u32) -> usize {
        let group = self.group_of.get(host as usize);
        group.map_or(0, |group| usize::from(*group))
    }

    /// The common value, and behind it one for each group.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.common).chain(&self.others)
    }

    /// All of them, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        std::iter::once(&mut self.common).chain(&mut self.others)
    }

    /// The value of hosts that are in no group.
    #[must_use]
    pub const fn common(&self) -> &T {
        &self.common
    }

    /// The same, to be changed.
    pub const fn common_mut(&mut self) -> &mut T {
        &mut self.common
    }

    /// Whether there are no groups.
    #[inline]
    #[must_use]
    pub const fn are_alike(&self) -> bool {
        self.others.is_empty()
    }

    /// What follows from each value.
    #[must_use]
    pub fn map<U>(&self, mut of: impl FnMut(&T) -> U) -> ByHost<U> {
        ByHost {
            common: of(&self.common),
            others: self.others.iter().map(of).collect(),
            group_of: Arc::clone(&self.group_of),
        }
    }
}

/// All hosts have it.
impl<T> From<T> for ByHost<T> {
    fn from(value: T) -> Self {
        Self {
            common: value,
            others: Vec::new(),
            group_of: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_value_of_its_group_and_else_the_common_one() {
        let mut names = ByHost::from("common");
        assert!(names.are_alike());
        assert_eq!((names.of(0), names.of(7)), (&"common", &"common"));
        names.set_group(5, [1, 3], "odd");
        names.set_group(5, [4], "last");
        let all: Vec<&str> = (0..5).map(|host| *names.of(host)).collect();
        assert_eq!(all, ["common", "odd", "common", "odd", "last"]);
        let lengths = names.map(|name| name.len());
        assert_eq!((lengths.of(2), lengths.of(3)), (&6, &3));
        assert!(!lengths.are_alike());
        assert_eq!(lengths.group(4), 2);
    }
}
