//! What of a network is down when, and what that hits.

use std::collections::BTreeMap;

use viaduct_engine::Time;
use viaduct_topology::{LinkId, Node, Topology};

/// Some of a network's links, each in one direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Links {
    /// Every link.
    All,
    /// One, by number.
    One(LinkId),
    /// Those from one node to another.
    OneWay(Node, Node),
    /// Those between two nodes, in both directions.
    Between(Node, Node),
    /// All of a switch, in both directions.
    Of(Node),
}

impl Links {
    /// Their numbers.
    ///
    /// # Errors
    ///
    /// Why there are none: no such link, or no link between the two nodes.
    pub fn resolve(self, topology: &Topology) -> Result<Vec<u32>, String> {
        let count = topology.link_count();
        let leads = |from: Node, to: Node| {
            (0..count).filter(move |link| topology.link_ends(LinkId(*link)) == (from, to))
        };
        let found: Vec<u32> = match self {
            Self::All => return Ok((0..count).collect()),
            Self::One(link) if link.0 < count => vec![link.0],
            Self::One(link) => {
                return Err(format!("no link {}: links are 0 to {}", link.0, count - 1));
            }
            Self::OneWay(from, to) => leads(from, to).collect(),
            Self::Between(one, other) => leads(one, other).chain(leads(other, one)).collect(),
            Self::Of(node) => (0..count)
                .filter(|link| {
                    let (from, to) = topology.link_ends(LinkId(*link));
                    from == node || to == node
                })
                .collect(),
        };
        if found.is_empty() {
            return Err("no link joins the two nodes that it names".to_owned());
        }
        Ok(found)
    }
}

/// When which parts of a network carry nothing. Parts are links, or whatever else a way crosses, by
/// number.
#[derive(Clone, Debug, Default)]
pub struct Outages {
    /// By part: when it is down, in order; the times do not touch.
    down: BTreeMap<u32, Vec<(Time, Time)>>,
}

impl Outages {
    /// A part is down from one time to another, or for ever.
    pub fn add(&mut self, part: u32, from: Time, until: Option<Time>) {
        let times = self.down.entry(part).or_default();
        times.push((from, until.unwrap_or(Time::MAX)));
        *times = merged(times);
    }

    /// Whether nothing ever is down.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.down.is_empty()
    }

    /// The first moment at which something that crosses these parts from one time to another is
    /// hit; none if nothing of its way is down meanwhile.
    pub fn cut(&self, way: impl IntoIterator<Item = u32>, from: Time, to: Time) -> Option<Time> {
        let times = way.into_iter().filter_map(|part| self.down.get(&part));
        let hit = times
            .flatten()
            .filter(|(down, up)| *down <= to && from < *up);
        hit.map(|(down, _)| from.max(*down)).min()
    }

    /// The first time from `from` on at which none of these parts is down.
    pub fn up_again(&self, way: impl Iterator<Item = u32> + Clone, from: Time) -> Time {
        let mut time = from;
        loop {
            let times = way.clone().filter_map(|part| self.down.get(&part));
            let blocks = |(down, up): &&(Time, Time)| *down <= time && time < *up;
            let Some((_, up)) = times.flatten().find(blocks) else {
                return time;
            };
            time = *up;
        }
    }

    /// Parts that are down for at least so long, and since when each is.
    pub fn lasting(&self, least: Time) -> impl Iterator<Item = (u32, Time)> + '_ {
        self.down.iter().flat_map(move |(part, times)| {
            let long = move |(from, until): &&(Time, Time)| until.saturating_sub(*from) >= least;
            times.iter().filter(long).map(|(from, _)| (*part, *from))
        })
    }
}

/// The numbers of links, as parts of a way.
pub fn parts(links: &[LinkId]) -> impl Iterator<Item = u32> + Clone + '_ {
    links.iter().map(|link| link.0)
}

/// The same times in order, those that touch made one.
fn merged(times: &[(Time, Time)]) -> Vec<(Time, Time)> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let mut merged: Vec<(Time, Time)> = Vec::new();
    for (from, until) in sorted {
        match merged.last_mut() {
            Some((_, end)) if from <= *end => *end = until.max(*end),
            _ => merged.push((from, until)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(microseconds: u64) -> Time {
        Time::from_microseconds(microseconds)
    }

    fn down(part: u32, times: &[(u64, u64)]) -> Outages {
        let mut outages = Outages::default();
        for (from, to) in times {
            outages.add(part, at(*from), Some(at(*to)));
        }
        outages
    }

    #[test]
    fn times_that_touch_are_one() {
        let outages = down(3, &[(5, 6), (1, 2), (2, 4), (3, 3)]);
        assert_eq!(outages.down[&3], [(at(1), at(4)), (at(5), at(6))]);
        // What is down for five microseconds in two pieces is down for three at most.
        assert_eq!(outages.lasting(at(3)).collect::<Vec<_>>(), [(3, at(1))]);
        assert_eq!(outages.lasting(at(4)).count(), 0);
    }

    #[test]
    fn what_crosses_a_part_while_it_is_down_is_hit_and_nothing_else() {
        let outages = down(3, &[(10, 20)]);
        for (from, to, hit) in [
            (0, 9, None),
            (0, 10, Some(10)),
            (12, 13, Some(12)),
            (19, 30, Some(19)),
            (20, 30, None),
            (0, 30, Some(10)),
        ] {
            let cut = |way: [u32; 2]| outages.cut(way, at(from), at(to));
            assert_eq!(cut([1, 3]), hit.map(at), "{from} to {to}");
            assert_eq!(cut([1, 4]), None, "{from} to {to}");
        }
    }

    #[test]
    fn a_part_that_never_comes_back_is_down_for_ever() {
        let mut outages = Outages::default();
        assert!(outages.is_empty());
        outages.add(1, at(5), None);
        assert!(!outages.is_empty());
        assert_eq!(
            outages.cut([1], at(1_000_000), at(1_000_001)),
            Some(at(1_000_000))
        );
        assert_eq!(outages.up_again([1].into_iter(), at(6)), Time::MAX);
    }

    #[test]
    fn a_way_is_up_when_all_its_parts_are() {
        let mut outages = down(3, &[(10, 20)]);
        outages.add(4, at(15), Some(at(25)));
        let up = |way: &'static [u32], from| outages.up_again(way.iter().copied(), at(from));
        assert_eq!(up(&[3, 4], 5), at(5));
        assert_eq!(up(&[3, 4], 12), at(25));
        assert_eq!(up(&[3], 12), at(20));
    }
}
