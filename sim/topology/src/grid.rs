//! Chains, meshes and tori: switches at the points of a grid, everything by arithmetic.
//!
//! Switches are numbered with the first dimension fastest: in a 16x16 torus, switch 3 + 16 * 4 is
//! `s3-4`. Hosts are numbered switch by switch. Links between switches are numbered dimension by
//! dimension, in each by place, first the positive then the negative direction:
//!
//! ```text
//! wrapping dimension       first + 2 * source switch + (0: positive, 1: negative)
//! dimension without wrap   first + 2 * edge          + (0: positive, 1: negative)
//! ```
//!
//! where an edge is numbered like the lower of its two switches in the grid without the last layer.
//!
//! Routing is dimension order, first dimension first; in a wrapping dimension the shorter way
//! round, and at exactly half the ring the positive direction.

use crate::divider::Divider;
use crate::error::TopologyError;
use crate::generated::{Generated, Step, hosts_in_words};
use crate::{EqualPaths, HostId, LinkId, Plan, Ports, SwitchId};

/// Most dimensions of a mesh or torus.
pub const DIMENSIONS_MAX: usize = 8;

/// Which grid this is; decides names and words, not links.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Shape {
    SingleSwitch,
    Chain,
    Mesh,
    Torus,
}

/// Where the hosts of a chain are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChainHosts {
    /// So many at each switch.
    EverySwitch(u32),
    /// So many at the first switch and as many at the last.
    Ends(u32),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Placement {
    Every(Divider),
    /// Hosts at the first switch; the others are at the last.
    Ends,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Dimension {
    pub(crate) size: u32,
    /// Distance in switch numbers of neighbours in this dimension.
    stride: u32,
    /// Whether the last switch of a line has a link of its own to the first: tori from size 3.
    pub(crate) wraps: bool,
    /// First link of the dimension, counted from the first link between switches.
    first_link: u32,
    by_size: Divider,
    by_stride: Divider,
}

impl Dimension {
    /// Links of a switch in this dimension where it has most.
    fn degree_max(&self) -> u32 {
        (self.size - 1).min(2)
    }

    /// Directed links of the dimension.
    fn link_count(size: u32, wraps: bool, switches: u64) -> u64 {
        if wraps {
            2 * switches
        } else {
            2 * (switches / u64::from(size)) * u64::from(size - 1)
        }
    }

    /// Hops from coordinate `source` to `target`, and whether they go in negative direction.
    #[inline]
    fn hops(&self, source: u32, target: u32) -> (u32, bool) {
        if !self.wraps {
            return (source.abs_diff(target), target < source);
        }
        let positive = if target >= source {
            target - source
        } else {
            target + self.size - source
        };
        let negative = self.size - positive;
        if positive <= negative {
            (positive, false)
        } else {
            (negative, true)
        }
    }
}

/// A chain, mesh, torus or single switch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Grid {
    shape: Shape,
    dimensions: Box<[Dimension]>,
    sizes: Box<[u32]>,
    switches: u32,
    hosts: u32,
    /// At each switch that has any.
    hosts_per_switch: u32,
    placement: Placement,
    switch_links: u32,
    ports: Ports,
}

impl Grid {
    pub(crate) fn new(
        shape: Shape,
        sizes: &[u32],
        chain_hosts: ChainHosts,
        ports: Ports,
    ) -> Result<Self, TopologyError> {
        let least = |what, count: u64| TopologyError::TooSmall {
            what,
            count,
            minimum: 1,
        };
        if sizes.is_empty() {
            return Err(least("the number of dimensions", 0));
        }
        if sizes.len() > DIMENSIONS_MAX {
            return Err(TopologyError::TooLarge {
                what: "the number of dimensions",
                count: sizes.len() as u64,
                limit: DIMENSIONS_MAX as u64,
                help: "use fewer dimensions",
            });
        }
        if sizes.contains(&0) {
            return Err(least("the size of a dimension", 0));
        }
        let (hosts_per_switch, everywhere) = match chain_hosts {
            ChainHosts::EverySwitch(count) => (count, true),
            ChainHosts::Ends(count) => (count, false),
        };
        if hosts_per_switch == 0 {
            return Err(least("the number of hosts at a switch", 0));
        }

        let switches = sizes.iter().fold(1u64, |product, &size| {
            product.saturating_mul(u64::from(size))
        });
        let switches = within("the number of switches", switches)?;
        let places = if everywhere { switches } else { 2 };
        let hosts = within("the number of hosts", places * u64::from(hosts_per_switch))?;

        let mut dimensions = Vec::with_capacity(sizes.len());
        let (mut stride, mut links) = (1u64, 0u64);
        for &size in sizes {
            let wraps = shape == Shape::Torus && size > 2;
            dimensions.push(Dimension {
                size,
                stride: stride as u32,
                wraps,
                first_link: links as u32,
                by_size: Divider::new(size),
                by_stride: Divider::new(stride as u32),
            });
            links += Dimension::link_count(size, wraps, switches);
            within("the number of directed links", links + 2 * hosts)?;
            stride *= u64::from(size);
        }

        let grid = Self {
            shape,
            dimensions: dimensions.into(),
            sizes: sizes.into(),
            switches: switches as u32,
            hosts: hosts as u32,
            hosts_per_switch,
            placement: if everywhere {
                Placement::Every(Divider::new(hosts_per_switch))
            } else {
                Placement::Ends
            },
            switch_links: links as u32,
            ports,
        };
        grid.check_ports()?;
        Ok(grid)
    }

    /// Refuses a grid whose neediest switch has too few ports.
    fn check_ports(&self) -> Result<(), TopologyError> {
        let inner = |d: &Dimension| u32::from(d.size > 2 && !d.wraps) * d.stride;
        let inner_switch = SwitchId(self.dimensions.iter().map(inner).sum());
        let inner_links: u32 = self.dimensions.iter().map(Dimension::degree_max).sum();
        let (switch, hosts, links) = match self.placement {
            Placement::Every(_) => (inner_switch, self.hosts_per_switch, inner_links),
            Placement::Ends if self.switches == 1 => (SwitchId(0), self.hosts, 0),
            // An inner switch of a chain has two links and no host, an end one link and a host or
            // more: never less.
            Placement::Ends => (SwitchId(0), self.hosts_per_switch, 1),
        };
        let needed = hosts.saturating_add(links);
        if needed <= self.ports.0 {
            return Ok(());
        }
        Err(TopologyError::TooFewPorts {
            switch: self.switch_name(switch),
            needed,
            available: self.ports.0,
            reason: port_reason(hosts, links),
        })
    }

    pub(crate) fn lines(&self) -> &[Dimension] {
        &self.dimensions
    }

    pub(crate) fn has_hosts_at_ends_only(&self) -> bool {
        self.placement == Placement::Ends
    }

    /// Number of `host` among those of its switch.
    fn index_at_switch(&self, host: HostId) -> u32 {
        match self.placement {
            Placement::Every(by_hosts) => by_hosts.split(host.0).1,
            // A chain of one switch has both ends' hosts at it.
            Placement::Ends if self.switches == 1 || host.0 < self.hosts_per_switch => host.0,
            Placement::Ends => host.0 - self.hosts_per_switch,
        }
    }

    /// Appends the links between the switches `source` and `target`.
    #[inline]
    pub(crate) fn route<L: From<LinkId>>(
        &self,
        source: SwitchId,
        target: SwitchId,
        path: &mut Vec<L>,
    ) {
        let first = 2 * self.hosts;
        let (mut at, mut source_rest, mut target_rest) = (source.0, source.0, target.0);
        for dimension in &self.dimensions {
            let (source_above, coordinate) = dimension.by_size.split(source_rest);
            let (target_above, goal) = dimension.by_size.split(target_rest);
            source_rest = source_above;
            target_rest = target_above;
            if coordinate == goal {
                continue;
            }
            let (hops, negative) = dimension.hops(coordinate, goal);
            let Dimension {
                size,
                stride,
                wraps,
                first_link,
                ..
            } = *dimension;
            let base = first + first_link + u32::from(negative);
            // Steps are added modulo 2^32, so that they may be negative; choices are values rather
            // than branches, since the direction of a message is hard to predict.
            let step = if negative {
                stride.wrapping_neg()
            } else {
                stride
            };
            let (mut index, hop_around, step_around) = if wraps {
                let around = stride * (size - 1);
                if negative {
                    (at, coordinate, around)
                } else {
                    (at, size - 1 - coordinate, around.wrapping_neg())
                }
            } else {
                // An edge has the number of its lower switch, less a layer for each line below.
                let lower = at.wrapping_sub(if negative { stride } else { 0 });
                (lower.wrapping_sub(source_above * stride), u32::MAX, 0)
            };
            path.extend((0..hops).map(|hop| {
                let link = LinkId(base.wrapping_add(index.wrapping_mul(2)));
                index = index.wrapping_add(if hop == hop_around { step_around } else { step });
                L::from(link)
            }));
            if source_rest == target_rest {
                // In all dimensions that are left the switches are at one place.
                break;
            }
            at = at.wrapping_add(goal.wrapping_sub(coordinate).wrapping_mul(stride));
        }
    }

    /// The links in positive direction of the ring of a dimension that begins at switch 0.
    pub(crate) fn first_ring(&self, dimension: usize) -> impl Iterator<Item = u32> {
        let Dimension {
            size,
            stride,
            first_link,
            ..
        } = self.dimensions[dimension];
        (0..size).map(move |coordinate| first_link + 2 * coordinate * stride)
    }

    /// See [`crate::Topology::straight_line`].
    pub(crate) fn straight_line(&self, host: HostId, direction: u32, hops: u32) -> Option<HostId> {
        let dimension = self.dimensions.get(direction as usize / 2)?;
        let negative = direction % 2 == 1;
        if hops == 0 {
            return Some(host);
        }
        if dimension.size == 1 {
            return None;
        }
        let switch = self.host_switch(host).0;
        let (_, coordinate) = dimension
            .by_size
            .split(dimension.by_stride.quotient(switch));
        let goal = if self.shape == Shape::Torus {
            // Rarely more than once round: without a division.
            let hops = if hops < dimension.size {
                hops
            } else {
                hops % dimension.size
            };
            let positive = if negative {
                dimension.size - hops
            } else {
                hops
            };
            let left = dimension.size - coordinate;
            if positive < left {
                coordinate + positive
            } else {
                positive - left
            }
        } else if negative {
            coordinate.checked_sub(hops)?
        } else {
            coordinate
                .checked_add(hops)
                .filter(|&goal| goal < dimension.size)?
        };
        let target = switch - coordinate * dimension.stride + goal * dimension.stride;
        let index = self.index_at_switch(host);
        match self.placement {
            Placement::Every(_) => Some(HostId(target * self.hosts_per_switch + index)),
            Placement::Ends if target == 0 => Some(HostId(index)),
            Placement::Ends if target == self.switches - 1 => {
                Some(HostId(self.hosts_per_switch + index))
            }
            Placement::Ends => None,
        }
    }

    /// Whether one hop in `direction` is the same as one in the direction before it.
    pub(crate) fn repeats_direction(&self, direction: u32) -> bool {
        let size = self.sizes.get(direction as usize / 2);
        self.shape == Shape::Torus && direction % 2 == 1 && size == Some(&2)
    }

    fn coordinates(&self, switch: SwitchId) -> String {
        let mut rest = switch.0;
        let mut text = String::new();
        for &size in &self.sizes {
            if !text.is_empty() {
                text.push('-');
            }
            text.push_str(&(rest % size).to_string());
            rest /= size;
        }
        text
    }

    /// The dimension of a link between switches, by its place.
    fn dimension_of(&self, index: u32) -> usize {
        // Dimensions of size 1 have no link and begin where the next one does: the last that
        // begins at or before the index is the one.
        let dimensions = &self.dimensions;
        dimensions.partition_point(|dimension| dimension.first_link <= index) - 1
    }

    /// Whether one link follows the other in the same dimension.
    pub(crate) fn are_of_one_ring(&self, one: u32, other: u32) -> bool {
        self.dimension_of(one) == self.dimension_of(other)
    }

    /// Whether a link joins the two ends of a line to a ring.
    pub(crate) fn passes_end(&self, index: u32) -> bool {
        let (from, to) = self.link_ends(index);
        let dimension = &self.dimensions[self.dimension_of(index)];
        let (from, to) = self.places(dimension, from, to);
        from.abs_diff(to) > 1
    }

    /// Where a switch is in a dimension, and where a goal is.
    fn places(&self, dimension: &Dimension, at: SwitchId, goal: SwitchId) -> (u32, u32) {
        let place = |switch: SwitchId| {
            let line = dimension.by_stride.quotient(switch.0);
            dimension.by_size.split(line).1
        };
        (place(at), place(goal))
    }

    /// The link from a switch to its neighbour in a dimension.
    fn step_along(&self, dimension: &Dimension, at: SwitchId, is_negative: bool) -> Step {
        let Dimension {
            size,
            stride,
            wraps,
            first_link,
            ..
        } = *dimension;
        let coordinate = self.places(dimension, at, at).0;
        let around = stride * (size - 1);
        let to = match is_negative {
            false if coordinate + 1 == size => at.0 - around,
            false => at.0 + stride,
            true if coordinate == 0 => at.0 + around,
            true => at.0 - stride,
        };
        let edge = match wraps {
            true => at.0,
            // That of the lower switch, less a layer for each line below.
            false => at.0.min(to) - at.0 / (stride * size) * stride,
        };
        Step {
            link: first_link + 2 * edge + u32::from(is_negative),
            to: SwitchId(to),
        }
    }

    /// The shortest steps, each as a dimension and whether it goes in negative direction.
    fn steps(&self, at: SwitchId, goal: SwitchId) -> impl Iterator<Item = (&Dimension, bool)> {
        self.dimensions.iter().flat_map(move |dimension| {
            let (here, there) = self.places(dimension, at, goal);
            let (hops, is_negative) = dimension.hops(here, there);
            // Half a ring is as far in both directions.
            let is_half = dimension.wraps && 2 * hops == dimension.size;
            let first = (hops > 0).then_some((dimension, is_negative));
            first
                .into_iter()
                .chain(is_half.then_some((dimension, !is_negative)))
        })
    }
}

impl Generated for Grid {
    fn host_count(&self) -> u32 {
        self.hosts
    }

    fn switch_count(&self) -> u32 {
        self.switches
    }

    fn switch_link_count(&self) -> u32 {
        self.switch_links
    }

    #[inline]
    fn host_switch(&self, host: HostId) -> SwitchId {
        match self.placement {
            Placement::Every(by_hosts) => SwitchId(by_hosts.quotient(host.0)),
            Placement::Ends if host.0 < self.hosts_per_switch => SwitchId(0),
            Placement::Ends => SwitchId(self.switches - 1),
        }
    }

    fn link_ends(&self, index: u32) -> (SwitchId, SwitchId) {
        let dimension = &self.dimensions[self.dimension_of(index)];
        let (edge, negative) = {
            let offset = index - dimension.first_link;
            (offset / 2, offset % 2 == 1)
        };
        let Dimension { size, stride, .. } = *dimension;
        if dimension.wraps {
            let coordinate = edge / stride % size;
            let around = stride * (size - 1);
            let other = match (negative, coordinate) {
                (false, c) if c + 1 == size => edge - around,
                (false, _) => edge + stride,
                (true, 0) => edge + around,
                (true, _) => edge - stride,
            };
            return (SwitchId(edge), SwitchId(other));
        }
        let layer = stride * (size - 1);
        let lower = edge / layer * (stride * size) + edge % layer;
        let (lower, upper) = (SwitchId(lower), SwitchId(lower + stride));
        if negative {
            (upper, lower)
        } else {
            (lower, upper)
        }
    }

    fn is_first_of_pair(&self, index: u32) -> bool {
        // Dimensions have an even number of links each: the even ones go in positive direction.
        index.is_multiple_of(2)
    }

    fn step_count(&self, at: SwitchId, goal: SwitchId) -> u32 {
        self.steps(at, goal).count() as u32
    }

    fn step(&self, at: SwitchId, goal: SwitchId, number: u32) -> Step {
        let step = self.steps(at, goal).nth(number as usize);
        let (dimension, is_negative) = step.unwrap_or((&self.dimensions[0], false));
        self.step_along(dimension, at, is_negative)
    }

    fn distance(&self, source: HostId, target: HostId) -> u32 {
        let (mut source_rest, mut target_rest) =
            (self.host_switch(source).0, self.host_switch(target).0);
        let mut distance = 0;
        for dimension in &self.dimensions {
            let (source_above, coordinate) = dimension.by_size.split(source_rest);
            let (target_above, goal) = dimension.by_size.split(target_rest);
            distance += dimension.hops(coordinate, goal).0;
            (source_rest, target_rest) = (source_above, target_above);
        }
        distance
    }

    /// One: dimension order is what makes it a grid's.
    fn equal_ways(&self, source: HostId, target: HostId, _most: usize) -> Vec<Vec<LinkId>> {
        let mut path = Vec::new();
        self.route(
            self.host_switch(source),
            self.host_switch(target),
            &mut path,
        );
        vec![path]
    }

    fn switch_name(&self, switch: SwitchId) -> String {
        format!("s{}", self.coordinates(switch))
    }

    fn host_name(&self, host: HostId) -> String {
        let switch = self.host_switch(host);
        format!(
            "n{}-{}",
            self.coordinates(switch),
            self.index_at_switch(host)
        )
    }

    fn description(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(u32::to_string).collect();
        let sizes = sizes.join("x");
        let each = hosts_in_words(self.hosts_per_switch);
        match self.shape {
            Shape::SingleSwitch => format!("one switch with {each}"),
            Shape::Chain if self.has_hosts_at_ends_only() => {
                format!("chain of {sizes} switches, {each} at each end")
            }
            Shape::Chain => format!("chain of {sizes} switches, {each} a switch"),
            Shape::Mesh => format!("mesh of {sizes} switches, {each} a switch"),
            Shape::Torus => format!("torus of {sizes} switches, {each} a switch"),
        }
    }

    fn plan(&self) -> Plan<'_> {
        let each = self.hosts_per_switch;
        match self.shape {
            Shape::SingleSwitch => Plan::SingleSwitch { hosts: each },
            Shape::Chain => Plan::Chain {
                switches: self.switches,
                hosts: match self.has_hosts_at_ends_only() {
                    true => ChainHosts::Ends(each),
                    false => ChainHosts::EverySwitch(each),
                },
            },
            Shape::Mesh => Plan::Mesh {
                dimensions: &self.sizes,
                hosts_per_switch: each,
            },
            Shape::Torus => Plan::Torus {
                dimensions: &self.sizes,
                hosts_per_switch: each,
            },
        }
    }

    fn dimensions(&self) -> Option<&[u32]> {
        Some(&self.sizes)
    }

    fn hosts_per_switch(&self) -> Option<u32> {
        Some(self.hosts_per_switch)
    }

    fn ports(&self) -> Option<Ports> {
        Some(self.ports)
    }

    /// Dimension by dimension.
    fn usual_paths(&self) -> EqualPaths {
        EqualPaths::Single
    }

    fn heap_bytes(&self) -> u64 {
        (size_of_val(&*self.dimensions) + size_of_val(&*self.sizes)) as u64
    }
}

/// Passes counts that can be numbered.
pub(crate) fn within(what: &'static str, count: u64) -> Result<u64, TopologyError> {
    // One number is kept free, for tables that need a mark for "none".
    let limit = u64::from(u32::MAX) - 1;
    if count <= limit {
        return Ok(count);
    }
    Err(TopologyError::TooLarge {
        what,
        count,
        limit,
        help: "make the network smaller: links, switches and hosts have 32-bit numbers",
    })
}

/// What takes the ports of a switch, in words.
pub(crate) fn port_reason(hosts: u32, switches: u32) -> String {
    let plural = |count: u32, one: &str, many: &str| match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    };
    format!(
        "{}, {}",
        plural(hosts, "host", "hosts"),
        plural(switches, "switch", "switches")
    )
}
