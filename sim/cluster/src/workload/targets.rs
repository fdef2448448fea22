//! To whom a process sends, compiled for one network.

use std::sync::Arc;

use viaduct_engine::{Stream, StreamKey};
use viaduct_topology::{HostId, Topology};

use super::error::PatternError;
use super::pattern::Pattern;
use super::piecewise::unit;

/// A [`Pattern`] on one network: gives each message its target, without allocation.
///
/// Memory is 4 bytes a host for the random permutation, 4 bytes a host and a pair for pairs, and
/// none a host for the others.
///
/// ```
/// use std::sync::Arc;
/// use viaduct_engine::{Stream, StreamKey};
/// use viaduct_cluster::workload::{Pattern, Targets};
/// use viaduct_topology::{HostId, Ports, Topology};
///
/// let torus = Arc::new(Topology::torus(&[16, 16], 4, Ports(8))?);
/// let targets = Targets::new(&Pattern::StraightLine { hops: 4 }, &torus, 1)?;
/// let mut stream = Stream::new(StreamKey { seed: 1, purpose: 0, entity: 0 });
/// let target = targets.next_target(HostId(0), &mut 0, &mut stream);
/// assert!(targets.peers_of(HostId(0)).any(|peer| Some(peer) == target));
/// assert_eq!(targets.possible_targets(HostId(0)), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Targets {
    topology: Arc<Topology>,
    /// Places of a host in the network.
    adapters: u32,
    hosts: u32,
    rule: Rule,
    silent_hosts: u32,
}

#[derive(Clone, Debug)]
enum Rule {
    /// `everywhere`: from each host each direction leads to a host, to so many distinct ones. Then
    /// the network is a torus, the same from each host, and no open direction is looked for.
    StraightLine {
        hops: u32,
        directions: u32,
        everywhere: Option<u32>,
    },
    Uniform,
    Transpose {
        side: u32,
    },
    BitReversal {
        shift: u32,
    },
    Fixed(Arc<[u32]>),
    Neighbours,
    HotSpot {
        hot: u32,
        fraction: f64,
    },
    Incast {
        target: u32,
    },
    AllToAll,
    Pairs(Arc<Pairs>),
}

/// The targets of host h are `targets[first[h]..first[h + 1]]`.
#[derive(Debug)]
struct Pairs {
    first: Vec<u32>,
    targets: Vec<u32>,
}

impl Targets {
    /// Compiles `pattern` for `topology`; `seed` is the run's, and decides the random permutation.
    ///
    /// # Errors
    ///
    /// When the pattern does not fit the network, or names a host that it does not have.
    pub fn new(
        pattern: &Pattern,
        topology: &Arc<Topology>,
        seed: u64,
    ) -> Result<Self, PatternError> {
        Self::between(pattern, topology, 1, seed)
    }

    /// As [`Targets::new`], where so many places of the network, one after the other, are the
    /// adapters of one host: between hosts, which are numbered by themselves.
    ///
    /// # Errors
    ///
    /// As [`Targets::new`]; and where a pattern follows the network's links, and the adapters of a
    /// host may be at several switches.
    pub fn between(
        pattern: &Pattern,
        topology: &Arc<Topology>,
        adapters: u32,
        seed: u64,
    ) -> Result<Self, PatternError> {
        let adapters = adapters.max(1);
        let hosts = topology.host_count() / adapters;
        if hosts < 2 {
            return Err(PatternError::TooFewHosts { hosts });
        }
        let existing = |host: u32| {
            let last = hosts - 1;
            if host > last {
                Err(PatternError::NoSuchHost { host, last })
            } else {
                Ok(host)
            }
        };
        let directions = topology.directions();
        let needs_directions =
            matches!(pattern, Pattern::StraightLine { .. } | Pattern::Neighbours);
        if needs_directions && directions == 0 {
            return Err(PatternError::NoDirections {
                pattern: pattern.name(),
            });
        }
        let at_switch = topology.hosts_per_switch().unwrap_or(0);
        if needs_directions && !at_switch.is_multiple_of(adapters) {
            return Err(PatternError::AdaptersApart {
                pattern: pattern.name(),
                adapters,
                at_switch,
            });
        }
        let rule = match pattern {
            Pattern::StraightLine { hops } => straight_line(topology, *hops, adapters)?,
            Pattern::Uniform => Rule::Uniform,
            Pattern::Transpose => Rule::Transpose {
                side: square_root(hosts)?,
            },
            Pattern::BitReversal if hosts.is_power_of_two() => Rule::BitReversal {
                shift: 32 - hosts.trailing_zeros(),
            },
            Pattern::BitReversal => {
                let above = u64::from(hosts).next_power_of_two();
                return Err(PatternError::NotPowerOfTwo {
                    hosts,
                    below: above / 2,
                    above,
                });
            }
            Pattern::RandomPermutation => Rule::Fixed(permutation(hosts, seed)),
            Pattern::Neighbours => Rule::Neighbours,
            Pattern::HotSpot { fraction, .. } if !(0.0..=1.0).contains(fraction) => {
                return Err(PatternError::Fraction {
                    fraction: *fraction,
                });
            }
            Pattern::HotSpot { hot, fraction } => Rule::HotSpot {
                hot: existing(*hot)?,
                fraction: *fraction,
            },
            Pattern::Incast { target } => Rule::Incast {
                target: existing(*target)?,
            },
            Pattern::AllToAll => Rule::AllToAll,
            Pattern::Pairs(pairs) => {
                for (index, &(source, target)) in pairs.iter().enumerate() {
                    if existing(source)? == existing(target)? {
                        return Err(PatternError::ToItself {
                            pair: index + 1,
                            host: source,
                        });
                    }
                }
                Rule::Pairs(Arc::new(Pairs::new(pairs, hosts)?))
            }
        };
        let mut targets = Self {
            topology: Arc::clone(topology),
            adapters,
            hosts,
            rule,
            silent_hosts: 0,
        };
        targets.silent_hosts = targets.count_silent();
        if targets.silent_hosts < hosts {
            return Ok(targets);
        }
        Err(match pattern {
            Pattern::StraightLine { hops } => PatternError::LeadsOutside { hops: *hops },
            _ => PatternError::NobodySends {
                pattern: pattern.name(),
            },
        })
    }

    /// Of hosts none of which sends.
    pub(crate) fn nobody(topology: &Arc<Topology>) -> Self {
        let hosts = topology.host_count();
        let none = Pairs {
            first: Vec::new(),
            targets: Vec::new(),
        };
        Self {
            topology: Arc::clone(topology),
            adapters: 1,
            hosts,
            rule: Rule::Pairs(Arc::new(none)),
            silent_hosts: hosts,
        }
    }

    /// The target of the next message of a process on `source`; none if the host never sends.
    ///
    /// `turn` belongs to the process, begins at 0, and is kept for patterns that take their
    /// targets in turn.
    #[inline]
    pub fn next_target(
        &self,
        source: HostId,
        turn: &mut u32,
        stream: &mut Stream,
    ) -> Option<HostId> {
        match &self.rule {
            Rule::StraightLine {
                hops,
                directions,
                everywhere,
            } => {
                let line = |direction| self.line(source, direction, *hops);
                if everywhere.is_some() {
                    return line(stream.below(u64::from(*directions)) as u32);
                }
                let open = (0..*directions)
                    .filter(|&direction| line(direction).is_some())
                    .count();
                let drawn = stream.below(open as u64) as usize;
                (0..*directions).filter_map(line).nth(drawn)
            }
            Rule::Uniform => Some(self.any_other(source, stream)),
            Rule::HotSpot { hot, fraction } => {
                let to_hot = source.0 != *hot && unit(stream.next_u64()) < *fraction;
                Some(if to_hot {
                    HostId(*hot)
                } else {
                    self.any_other(source, stream)
                })
            }
            Rule::Neighbours => {
                let mut neighbours = self.neighbours(source);
                let target = neighbours.nth(*turn as usize).or_else(|| {
                    *turn = 0;
                    self.neighbours(source).next()
                });
                *turn += 1;
                target
            }
            Rule::AllToAll | Rule::Pairs(_) => {
                let choices = self.choice_count(source);
                if *turn >= choices {
                    *turn = 0;
                }
                let target = self.choice(source, *turn);
                *turn += 1;
                target
            }
            Rule::Transpose { .. }
            | Rule::BitReversal { .. }
            | Rule::Fixed(_)
            | Rule::Incast { .. } => self.choice(source, 0),
        }
    }

    /// Hosts that never send under this pattern on this network.
    #[must_use]
    pub fn silent_hosts(&self) -> u32 {
        self.silent_hosts
    }

    /// How many hosts `source` may send to.
    #[must_use]
    pub fn possible_targets(&self, source: HostId) -> u32 {
        match self.rule {
            Rule::HotSpot { .. } if self.sends_to_hot_only(source) => 1,
            Rule::Uniform | Rule::AllToAll | Rule::HotSpot { .. } => self.hosts - 1,
            Rule::StraightLine {
                everywhere: Some(peers),
                ..
            } => peers,
            _ => self.peers_of(source).count() as u32,
        }
    }

    /// The hosts that `source` may send to, none twice; for some patterns these are all others,
    /// see [`Self::possible_targets`].
    pub fn peers_of(&self, source: HostId) -> impl Iterator<Item = HostId> + '_ {
        let few = match self.rule {
            Rule::HotSpot { hot, .. } if self.sends_to_hot_only(source) => Some(vec![HostId(hot)]),
            // The only ones whose choices may repeat a host.
            Rule::StraightLine { .. } | Rule::Pairs(_) => {
                let choices = 0..self.choice_count(source);
                let mut peers: Vec<HostId> = choices
                    .filter_map(|index| self.choice(source, index))
                    .collect();
                peers.sort_unstable();
                peers.dedup();
                Some(peers)
            }
            _ => None,
        };
        let count = few
            .as_ref()
            .map_or_else(|| self.choice_count(source), |few| few.len() as u32);
        (0..count).filter_map(move |index| match &few {
            Some(few) => Some(few[index as usize]),
            None => self.choice(source, index),
        })
    }

    /// The share of a source's messages that goes to all other hosts alike, in the long run.
    pub(crate) fn uniform_share(&self, source: HostId) -> f64 {
        match self.rule {
            Rule::Uniform | Rule::AllToAll => 1.0,
            Rule::HotSpot { hot, .. } if hot == source.0 => 1.0,
            Rule::HotSpot { fraction, .. } => 1.0 - fraction,
            _ => 0.0,
        }
    }

    /// The targets of the other messages of a source, with their shares. A host may be there
    /// twice.
    pub(crate) fn named_shares(&self, source: HostId) -> impl Iterator<Item = (HostId, f64)> + '_ {
        let hot = match self.rule {
            Rule::HotSpot { hot, fraction } if hot != source.0 => Some((HostId(hot), fraction)),
            _ => None,
        };
        let count = match self.rule {
            Rule::Uniform | Rule::AllToAll | Rule::HotSpot { .. } => 0,
            _ => self.choice_count(source),
        };
        let choices = (0..count).filter_map(move |index| self.choice(source, index));
        let share = 1.0 / choices.clone().count() as f64;
        hot.into_iter()
            .chain(choices.map(move |target| (target, share)))
    }

    /// Whether the pattern looks the same from each host of a torus.
    pub(crate) fn is_shift_invariant(&self) -> bool {
        matches!(
            self.rule,
            Rule::StraightLine { .. } | Rule::Neighbours | Rule::Uniform | Rule::AllToAll
        )
    }

    /// The host so many links away in a straight line.
    fn line(&self, source: HostId, direction: u32, hops: u32) -> Option<HostId> {
        line(&self.topology, self.adapters, source, direction, hops)
    }

    /// The corresponding hosts of the neighbouring switches.
    fn neighbours(&self, source: HostId) -> impl Iterator<Item = HostId> + '_ {
        let first = HostId(source.0 * self.adapters);
        let places = self.topology.neighbours(first);
        places.map(|place| HostId(place.0 / self.adapters))
    }

    /// Upper bound of the indices of [`Self::choice`].
    fn choice_count(&self, source: HostId) -> u32 {
        match &self.rule {
            Rule::StraightLine { directions, .. } => *directions,
            Rule::Neighbours => self.neighbours(source).count() as u32,
            Rule::Uniform | Rule::AllToAll | Rule::HotSpot { .. } => self.hosts - 1,
            Rule::Pairs(pairs) => {
                pairs.first[source.0 as usize + 1] - pairs.first[source.0 as usize]
            }
            Rule::Transpose { .. }
            | Rule::BitReversal { .. }
            | Rule::Fixed(_)
            | Rule::Incast { .. } => 1,
        }
    }

    #[inline]
    fn choice(&self, source: HostId, index: u32) -> Option<HostId> {
        let host = source.0;
        let target = match &self.rule {
            Rule::StraightLine { hops, .. } => {
                return self.line(source, index, *hops);
            }
            Rule::Neighbours => return self.neighbours(source).nth(index as usize),
            Rule::Uniform | Rule::HotSpot { .. } => return Some(self.other(source, index)),
            Rule::AllToAll => {
                let from_next = u64::from(host) + 1 + u64::from(index);
                let hosts = u64::from(self.hosts);
                (if from_next < hosts {
                    from_next
                } else {
                    from_next - hosts
                }) as u32
            }
            Rule::Pairs(pairs) => {
                let first = pairs.first[host as usize];
                if index >= pairs.first[host as usize + 1] - first {
                    return None;
                }
                pairs.targets[(first + index) as usize]
            }
            Rule::Transpose { side } => host % side * side + host / side,
            Rule::BitReversal { shift } => host.reverse_bits() >> shift,
            Rule::Fixed(targets) => targets[host as usize],
            Rule::Incast { target } => *target,
        };
        (target != host).then_some(HostId(target))
    }

    /// The `index`-th host other than `source`.
    #[inline]
    fn other(&self, source: HostId, index: u32) -> HostId {
        HostId(index + u32::from(index >= source.0))
    }

    #[inline]
    fn any_other(&self, source: HostId, stream: &mut Stream) -> HostId {
        self.other(source, stream.below(u64::from(self.hosts - 1)) as u32)
    }

    fn sends_to_hot_only(&self, source: HostId) -> bool {
        matches!(self.rule, Rule::HotSpot { hot, fraction } if fraction == 1.0 && hot != source.0)
    }

    fn count_silent(&self) -> u32 {
        match &self.rule {
            Rule::Uniform | Rule::AllToAll | Rule::HotSpot { .. } | Rule::Fixed(_) => 0,
            Rule::StraightLine {
                everywhere: Some(_),
                ..
            } => 0,
            Rule::Incast { .. } => 1,
            Rule::Transpose { side } => *side,
            _ => {
                let silent = |&host: &u32| self.named_shares(HostId(host)).next().is_none();
                (0..self.hosts).filter(silent).count() as u32
            }
        }
    }
}

/// The host so many links away in a straight line, where each has so many places.
fn line(
    topology: &Topology,
    adapters: u32,
    source: HostId,
    direction: u32,
    hops: u32,
) -> Option<HostId> {
    if adapters == 1 {
        return topology.straight_line(source, direction, hops);
    }
    let place = topology.straight_line(HostId(source.0 * adapters), direction, hops)?;
    Some(HostId(place.0 / adapters))
}

/// Checks that no line closes on itself, and whether each is open from everywhere.
fn straight_line(topology: &Topology, hops: u32, adapters: u32) -> Result<Rule, PatternError> {
    if hops == 0 {
        return Err(PatternError::NoHops);
    }
    let directions = topology.directions();
    let mut is_open_everywhere = true;
    for host in 0..topology.host_count() / adapters {
        for direction in 0..directions {
            let target = line(topology, adapters, HostId(host), direction, hops);
            if target == Some(HostId(host)) {
                return Err(PatternError::ReturnsToSource {
                    hops,
                    host,
                    direction,
                });
            }
            is_open_everywhere &= target.is_some();
        }
    }
    let everywhere = is_open_everywhere.then(|| {
        let mut peers: Vec<_> = (0..directions)
            .map(|direction| line(topology, adapters, HostId(0), direction, hops))
            .collect();
        peers.sort_unstable();
        peers.dedup();
        peers.len() as u32
    });
    Ok(Rule::StraightLine {
        hops,
        directions,
        everywhere,
    })
}

fn square_root(hosts: u32) -> Result<u32, PatternError> {
    let side = hosts.isqrt();
    if side * side == hosts {
        return Ok(side);
    }
    let (below, above) = (u64::from(side), u64::from(side) + 1);
    Err(PatternError::NotSquare {
        hosts,
        below: below * below,
        above: above * above,
    })
}

/// A permutation without fixed points, each equally likely: shuffles (Fisher and Yates) are
/// drawn until one has none, 2.7 on average.
fn permutation(hosts: u32, seed: u64) -> Arc<[u32]> {
    let mut stream = Stream::new(StreamKey {
        seed,
        purpose: PERMUTATION_PURPOSE,
        entity: 0,
    });
    let mut targets: Vec<u32> = (0..hosts).collect();
    loop {
        for place in (1..targets.len()).rev() {
            targets.swap(place, stream.below(place as u64 + 1) as usize);
        }
        if (0..hosts)
            .zip(&targets)
            .all(|(source, &target)| source != target)
        {
            return targets.into();
        }
    }
}

impl Pairs {
    fn new(pairs: &[(u32, u32)], hosts: u32) -> Result<Self, PatternError> {
        if pairs.len() > PAIRS_MAX {
            return Err(PatternError::TooManyPairs {
                pairs: pairs.len(),
                max: PAIRS_MAX,
            });
        }
        let mut by_source = pairs.to_vec();
        // Stable: a source's targets stay in the order given.
        by_source.sort_by_key(|&(source, _)| source);
        let first = (0..=hosts)
            .map(|host| by_source.partition_point(|&(source, _)| source < host) as u32)
            .collect();
        let targets = by_source.into_iter().map(|(_, target)| target).collect();
        Ok(Self { first, targets })
    }
}

/// Most pairs of a [`Pattern::Pairs`].
pub const PAIRS_MAX: usize = 1 << 26;

/// The purpose of the stream that draws the random permutation.
const PERMUTATION_PURPOSE: u64 = 0x7065_726d_7574_6531;

#[cfg(test)]
mod tests {
    use viaduct_topology::Ports;

    use super::super::test_support::stream;
    use super::*;

    fn torus(sizes: &[u32], hosts: u32) -> Arc<Topology> {
        Arc::new(Topology::torus(sizes, hosts, Ports(64)).unwrap())
    }

    fn mesh(sizes: &[u32], hosts: u32) -> Arc<Topology> {
        Arc::new(Topology::mesh(sizes, hosts, Ports(64)).unwrap())
    }

    fn switch(hosts: u32) -> Arc<Topology> {
        Arc::new(Topology::single_switch(hosts, Ports(1 << 20)).unwrap())
    }

    fn targets(pattern: &Pattern, topology: &Arc<Topology>) -> Targets {
        Targets::new(pattern, topology, 7).unwrap()
    }

    /// How often each host is the target of `source` in `draws` messages of one process.
    fn drawn(targets: &Targets, source: u32, draws: u32) -> Vec<u32> {
        let (mut stream, mut turn) = (stream(u64::from(source)), 0);
        let mut counts = vec![0; targets.hosts as usize];
        for _ in 0..draws {
            let target = targets
                .next_target(HostId(source), &mut turn, &mut stream)
                .unwrap();
            counts[target.0 as usize] += 1;
        }
        counts
    }

    fn refused(pattern: &Pattern, topology: &Arc<Topology>) -> String {
        Targets::new(pattern, topology, 7).unwrap_err().to_string()
    }

    #[test]
    fn study_sends_four_hops_in_four_directions_equally_often() {
        let torus = torus(&[16, 16], 4);
        let targets = targets(&Pattern::StraightLine { hops: 4 }, &torus);
        assert_eq!(targets.silent_hosts(), 0);
        for source in [0, 3, 517, 1023] {
            let counts = drawn(&targets, source, 40_000);
            let reached: Vec<u32> = (0..1024)
                .filter(|&host| counts[host as usize] > 0)
                .collect();
            assert_eq!(reached.len(), 4);
            for host in reached {
                assert_eq!(torus.path_length(HostId(source), HostId(host)), Some(6));
                assert_eq!(host % 4, source % 4, "the corresponding host");
                // 10,000 expected, deviation 87.
                assert!((9_600..10_400).contains(&counts[host as usize]));
            }
        }
    }

    #[test]
    fn straight_lines_in_a_mesh_stay_inside_and_share_equally() {
        let mesh = mesh(&[5, 9], 1);
        let targets = targets(&Pattern::StraightLine { hops: 4 }, &mesh);
        // Column 2 of 5 has no line of 4 along the row; rows 0 to 8 always have one up or down.
        assert_eq!(targets.silent_hosts(), 0);
        // The corner reaches (4, 0) and (0, 4); the middle of the edge (2, 0) only (2, 4).
        let counts = drawn(&targets, 0, 10_000);
        assert_eq!(counts.iter().filter(|&&count| count > 0).count(), 2);
        assert!((4_800..5_200).contains(&counts[4]) && counts[4] + counts[20] == 10_000);
        assert_eq!(drawn(&targets, 2, 100)[22], 100);
        assert_eq!(targets.possible_targets(HostId(2)), 1);
    }

    #[test]
    fn hosts_without_a_line_are_silent_and_counted() {
        let mesh = mesh(&[5, 5], 2);
        let targets = targets(&Pattern::StraightLine { hops: 3 }, &mesh);
        // Only the middle switch, with two hosts, is less than 3 from every edge.
        assert_eq!(targets.silent_hosts(), 2);
        let mut stream = stream(1);
        for host in [24, 25] {
            assert_eq!(targets.next_target(HostId(host), &mut 0, &mut stream), None);
            assert_eq!(targets.possible_targets(HostId(host)), 0);
        }
        assert_eq!(
            refused(&Pattern::StraightLine { hops: 5 }, &mesh),
            "pattern `straight-line` with hops = 5 leads out of the network from every host; use \
             fewer hops, below the switches of the longest dimension"
        );
    }

    #[test]
    fn straight_line_that_returns_is_refused() {
        let line = |hops| Pattern::StraightLine { hops };
        assert!(matches!(
            Targets::new(&line(4), &torus(&[16, 4], 1), 1),
            Err(PatternError::ReturnsToSource {
                hops: 4,
                host: 0,
                direction: 2
            })
        ));
        assert!(Targets::new(&line(5), &torus(&[16, 4], 1), 1).is_ok());
        assert_eq!(
            Targets::new(&line(0), &torus(&[4], 1), 1).unwrap_err(),
            PatternError::NoHops
        );
        let tree = viaduct_topology::TreeShape {
            arity: 2,
            levels: 2,
        };
        let tree = Arc::new(Topology::fat_tree(tree, Ports(4)).unwrap());
        for pattern in [line(1), Pattern::Neighbours] {
            assert!(matches!(
                Targets::new(&pattern, &tree, 1),
                Err(PatternError::NoDirections { .. })
            ));
        }
    }

    #[test]
    fn half_way_round_a_ring_both_directions_meet_in_one_peer() {
        let targets = targets(&Pattern::StraightLine { hops: 4 }, &torus(&[8], 1));
        assert_eq!(targets.peers_of(HostId(1)).collect::<Vec<_>>(), [HostId(5)]);
        assert_eq!(drawn(&targets, 1, 50)[5], 50);
    }

    #[test]
    fn uniform_reaches_every_other_host_equally() {
        let targets = targets(&Pattern::Uniform, &switch(11));
        for source in [0, 4, 10] {
            let counts = drawn(&targets, source, 100_000);
            for (host, &count) in counts.iter().enumerate() {
                // 10,000 expected, deviation 95.
                let expected = if host == source as usize {
                    0..1
                } else {
                    9_600..10_400
                };
                assert!(expected.contains(&count), "{source} to {host}: {count}");
            }
            assert_eq!(targets.possible_targets(HostId(source)), 10);
            assert!(
                targets
                    .peers_of(HostId(source))
                    .all(|peer| peer.0 != source)
            );
        }
    }

    #[test]
    fn fixed_patterns_are_permutations() {
        for (pattern, hosts, silent) in [
            (Pattern::Transpose, 49, 7),
            (Pattern::BitReversal, 64, 8),
            (Pattern::RandomPermutation, 50, 0),
            (Pattern::RandomPermutation, 2, 0),
        ] {
            let targets = targets(&pattern, &switch(hosts));
            assert_eq!(targets.silent_hosts(), silent, "{pattern:?}");
            let mut stream = stream(1);
            let mut reached: Vec<u32> = (0..hosts)
                .filter_map(|host| targets.next_target(HostId(host), &mut 0, &mut stream))
                .map(|target| target.0)
                .collect();
            reached.sort_unstable();
            reached.dedup();
            assert_eq!(reached.len() as u32, hosts - silent, "{pattern:?}");
        }
    }

    #[test]
    fn transpose_and_bit_reversal_have_the_known_targets() {
        let target = |pattern, hosts, source| {
            targets(&pattern, &switch(hosts))
                .peers_of(HostId(source))
                .next()
                .map(|host| host.0)
        };
        assert_eq!(target(Pattern::Transpose, 16, 6), Some(9));
        assert_eq!(target(Pattern::Transpose, 16, 5), None);
        assert_eq!(target(Pattern::BitReversal, 16, 0b0011), Some(0b1100));
        assert_eq!(target(Pattern::BitReversal, 16, 0b1001), None);
        assert_eq!(
            refused(&Pattern::Transpose, &switch(50)),
            "pattern `transpose` needs a square number of hosts, not 50: 49 or 64"
        );
        assert_eq!(
            refused(&Pattern::BitReversal, &switch(50)),
            "pattern `bit-reversal` needs a power of two of hosts, not 50: 32 or 64"
        );
        assert!(refused(&Pattern::BitReversal, &switch(2)).starts_with("no host"));
    }

    #[test]
    fn random_permutation_follows_the_seed() {
        let switch = switch(1_000);
        let of_seed = |seed| {
            let targets = Targets::new(&Pattern::RandomPermutation, &switch, seed).unwrap();
            (0..1_000)
                .map(|host| targets.choice(HostId(host), 0))
                .collect::<Vec<_>>()
        };
        assert_eq!(of_seed(1), of_seed(1));
        assert_ne!(of_seed(1), of_seed(2));
    }

    #[test]
    fn turns_go_round() {
        let order = |pattern: &Pattern, topology: &Arc<Topology>, source, count| {
            let targets = targets(pattern, topology);
            let (mut turn, mut stream) = (0, stream(1));
            (0..count)
                .map(|_| {
                    targets
                        .next_target(HostId(source), &mut turn, &mut stream)
                        .unwrap()
                        .0
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(
            order(&Pattern::AllToAll, &switch(4), 2, 7),
            [3, 0, 1, 3, 0, 1, 3]
        );
        let mesh = mesh(&[3, 3], 1);
        assert_eq!(order(&Pattern::Neighbours, &mesh, 0, 5), [1, 3, 1, 3, 1]);
        let pairs = Pattern::Pairs(vec![(2, 0), (1, 3), (2, 3), (2, 0)]);
        assert_eq!(order(&pairs, &switch(4), 2, 7), [0, 3, 0, 0, 3, 0, 0]);
        assert_eq!(order(&pairs, &switch(4), 1, 2), [3, 3]);
        let targets = targets(&pairs, &switch(4));
        assert_eq!(
            (targets.silent_hosts(), targets.possible_targets(HostId(2))),
            (2, 2)
        );
        assert_eq!(targets.next_target(HostId(0), &mut 0, &mut stream(1)), None);
    }

    #[test]
    fn hot_spot_and_incast_favour_their_host() {
        let hot = |fraction| Pattern::HotSpot { hot: 3, fraction };
        let some = targets(&hot(0.5), &switch(11));
        let counts = drawn(&some, 0, 100_000);
        // A half and a tenth of the other half, deviation 157.
        assert!((54_300..55_700).contains(&counts[3]), "{}", counts[3]);
        assert_eq!(drawn(&some, 3, 1_000)[3], 0);
        assert_eq!(some.possible_targets(HostId(0)), 10);
        let all = targets(&hot(1.0), &switch(11));
        assert_eq!(drawn(&all, 0, 1_000)[3], 1_000);
        assert_eq!(all.peers_of(HostId(0)).collect::<Vec<_>>(), [HostId(3)]);
        assert_eq!(all.possible_targets(HostId(0)), 1);
        assert_eq!(all.peers_of(HostId(3)).count(), 10);
        let incast = targets(&Pattern::Incast { target: 3 }, &switch(11));
        assert_eq!((drawn(&incast, 0, 9)[3], incast.silent_hosts()), (9, 1));
        assert_eq!(incast.next_target(HostId(3), &mut 0, &mut stream(1)), None);
    }

    #[test]
    fn what_is_drawn_is_among_the_peers() {
        let torus = torus(&[4, 4], 1);
        let pairs = (0..15).map(|host| (host, host + 1)).collect();
        for pattern in [
            Pattern::StraightLine { hops: 3 },
            Pattern::Uniform,
            Pattern::Transpose,
            Pattern::BitReversal,
            Pattern::RandomPermutation,
            Pattern::Neighbours,
            Pattern::HotSpot {
                hot: 1,
                fraction: 0.3,
            },
            Pattern::Incast { target: 0 },
            Pattern::AllToAll,
            Pattern::Pairs(pairs),
        ] {
            let targets = targets(&pattern, &torus);
            let mut silent = 0;
            for host in (0..16).map(HostId) {
                let peers: Vec<HostId> = targets.peers_of(host).collect();
                assert_eq!(
                    peers.len() as u32,
                    targets.possible_targets(host),
                    "{pattern:?}"
                );
                let (mut turn, mut stream) = (0, stream(u64::from(host.0)));
                let mut reached = [false; 16];
                for _ in 0..400 {
                    match targets.next_target(host, &mut turn, &mut stream) {
                        Some(target) => reached[target.0 as usize] = true,
                        None => assert!(peers.is_empty(), "{pattern:?}"),
                    }
                }
                silent += u32::from(peers.is_empty());
                let reached: Vec<HostId> = (0..16)
                    .filter(|&host| reached[host as usize])
                    .map(HostId)
                    .collect();
                let mut sorted = peers;
                sorted.sort_unstable();
                assert_eq!(sorted, reached, "{pattern:?} from {host:?}");
            }
            assert_eq!(silent, targets.silent_hosts(), "{pattern:?}");
        }
    }

    #[test]
    fn hosts_that_do_not_exist_are_refused() {
        let switch = switch(8);
        let expected = "host 8 does not exist; the network has hosts 0 to 7";
        assert_eq!(refused(&Pattern::Incast { target: 8 }, &switch), expected);
        assert_eq!(
            refused(
                &Pattern::HotSpot {
                    hot: 8,
                    fraction: 0.1
                },
                &switch
            ),
            expected
        );
        assert_eq!(
            refused(&Pattern::Pairs(vec![(0, 1), (8, 0)]), &switch),
            expected
        );
        assert_eq!(
            refused(&Pattern::Pairs(vec![(0, 1), (1, 8)]), &switch),
            expected
        );
        assert_eq!(
            refused(&Pattern::Pairs(vec![(0, 1), (5, 5)]), &switch),
            "pair 2 (counted from 1) sends from host 5 to itself"
        );
        assert!(refused(&Pattern::Pairs(Vec::new()), &switch).starts_with("no host"));
        for fraction in [-0.1, 1.1, f64::NAN] {
            assert!(refused(&Pattern::HotSpot { hot: 1, fraction }, &switch).contains("fraction"));
        }
        let alone = Arc::new(Topology::single_switch(1, Ports(1)).unwrap());
        assert_eq!(
            refused(&Pattern::Uniform, &alone),
            "a pattern needs at least 2 hosts; the network has 1"
        );
    }
}
