//! How the groups of a dragonfly are joined.
//!
//! Every pair of groups has the same number of links, and it is the largest that the ports allow.
//! With n groups, port j of group g leads to group g + 1 + (j mod (n - 1)), modulo n. Ports that
//! are left over stay free.

/// Ports of a group that lead to other groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Groups {
    pub(crate) count: u32,
    /// Links between each two groups.
    pub(crate) links: u32,
}

impl Groups {
    /// Groups with so many ports each; there are enough to reach every other group.
    pub(crate) fn new(count: u32, ports: u32) -> Self {
        Self {
            count,
            links: ports / (count - 1).max(1) * u32::from(count > 1),
        }
    }

    /// Ports of a group that are used.
    pub(crate) const fn ports(self) -> u32 {
        self.links * (self.count - 1)
    }

    /// The port of one of the links to another group.
    pub(crate) const fn port(self, from: u32, to: u32, link: u32) -> u32 {
        let further = (to + self.count - from) % self.count;
        further - 1 + link * (self.count - 1)
    }

    /// The group and its port that a port leads to.
    pub(crate) const fn across(self, from: u32, port: u32) -> (u32, u32) {
        let others = self.count - 1;
        let (further, link) = (port % others + 1, port / others);
        let to = (from + further) % self.count;
        (to, self.port(to, from, link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_lead_there_and_back() {
        for (count, ports) in [(9, 8), (4, 8), (4, 7), (2, 5), (1, 5)] {
            let groups = Groups::new(count, ports);
            let mut links = vec![0; (count * count) as usize];
            for from in 0..count {
                for port in 0..groups.ports() {
                    let (to, back) = groups.across(from, port);
                    assert_ne!(to, from);
                    assert_eq!(groups.across(to, back), (from, port));
                    links[(from * count + to) as usize] += 1;
                }
            }
            let each = |(place, &links): (u32, &u32)| match place / count == place % count {
                true => links == 0,
                false => links == groups.links,
            };
            assert!((0..).zip(&links).all(each), "{links:?}");
        }
    }
}
