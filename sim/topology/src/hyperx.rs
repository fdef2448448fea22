//! HyperX: a grid in which all switches of a line are joined to each other, by arithmetic. With one
//! dimension it is a fully connected network, with dimensions of size 2 a hypercube.
//!
//! ```text
//! switches                 the first dimension fastest
//! links between switches   first + switch * links of a switch + port, the ports of the first
//!                          dimension first, in each by the neighbour's coordinate
//! ```
//!
//! A way has one link for each dimension in which source and target differ, in any order. Without a
//! choice it is the order of the dimensions.

use crate::divider::Divider;
use crate::error::TopologyError;
use crate::generated::{Generated, Step, at_least_one, hosts_in_words};
use crate::grid::{DIMENSIONS_MAX, within};
use crate::{HostId, Plan, SwitchId};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Dimension {
    size: u32,
    stride: u32,
    /// Its first port at a switch.
    first_port: u32,
    by_size: Divider,
    by_stride: Divider,
}

impl Dimension {
    #[inline]
    fn place(&self, switch: SwitchId) -> u32 {
        self.by_size.split(self.by_stride.quotient(switch.0)).1
    }
}

/// A HyperX.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HyperX {
    sizes: Box<[u32]>,
    dimensions: Box<[Dimension]>,
    hosts_per_switch: u32,
    by_hosts: Divider,
    hosts: u32,
    switches: u32,
    /// Links of a switch to others.
    degree: u32,
}

impl HyperX {
    pub(crate) fn new(sizes: &[u32], hosts_per_switch: u32) -> Result<Self, TopologyError> {
        at_least_one("the number of dimensions", sizes.len() as u32)?;
        if sizes.len() > DIMENSIONS_MAX {
            return Err(TopologyError::TooLarge {
                what: "the number of dimensions",
                count: sizes.len() as u64,
                limit: DIMENSIONS_MAX as u64,
                help: "use fewer dimensions",
            });
        }
        let least = sizes.iter().copied().min().unwrap_or(0);
        at_least_one("the size of a dimension", least)?;
        at_least_one("the number of hosts at a switch", hosts_per_switch)?;
        let mut dimensions = Vec::with_capacity(sizes.len());
        let (mut switches, mut degree) = (1u64, 0u64);
        for &size in sizes {
            dimensions.push(Dimension {
                size,
                stride: switches as u32,
                first_port: degree as u32,
                by_size: Divider::new(size),
                by_stride: Divider::new(switches as u32),
            });
            switches = within("the number of switches", switches * u64::from(size))?;
            degree += u64::from(size - 1);
        }
        let hosts = switches.saturating_mul(u64::from(hosts_per_switch));
        let hosts = within("the number of hosts", hosts)?;
        let links = switches.saturating_mul(degree).saturating_add(2 * hosts);
        within("the number of directed links", links)?;
        Ok(Self {
            sizes: sizes.into(),
            dimensions: dimensions.into(),
            hosts_per_switch,
            by_hosts: Divider::new(hosts_per_switch),
            hosts: hosts as u32,
            switches: switches as u32,
            degree: degree as u32,
        })
    }

    /// The dimensions in which two switches differ.
    fn differing(&self, at: SwitchId, goal: SwitchId) -> impl Iterator<Item = &Dimension> {
        let dimensions = self.dimensions.iter();
        dimensions.filter(move |dimension| dimension.place(at) != dimension.place(goal))
    }

    fn coordinates(&self, switch: SwitchId) -> String {
        let places = self.dimensions.iter();
        let places: Vec<String> = places.map(|it| it.place(switch).to_string()).collect();
        places.join("-")
    }
}

impl Generated for HyperX {
    fn host_count(&self) -> u32 {
        self.hosts
    }

    fn switch_count(&self) -> u32 {
        self.switches
    }

    fn switch_link_count(&self) -> u32 {
        self.switches * self.degree
    }

    #[inline]
    fn host_switch(&self, host: HostId) -> SwitchId {
        SwitchId(self.by_hosts.quotient(host.0))
    }

    fn link_ends(&self, index: u32) -> (SwitchId, SwitchId) {
        let (from, port) = (index / self.degree, index % self.degree);
        // Dimensions of size 1 have no port and begin where the next one does.
        let number = self
            .dimensions
            .partition_point(|dimension| dimension.first_port <= port);
        let dimension = &self.dimensions[number - 1];
        let here = dimension.place(SwitchId(from));
        let port = port - dimension.first_port;
        let there = port + u32::from(port >= here);
        let to = from - here * dimension.stride + there * dimension.stride;
        (SwitchId(from), SwitchId(to))
    }

    fn is_first_of_pair(&self, index: u32) -> bool {
        let (from, to) = self.link_ends(index);
        from < to
    }

    fn step_count(&self, at: SwitchId, goal: SwitchId) -> u32 {
        self.differing(at, goal).count() as u32
    }

    fn step(&self, at: SwitchId, goal: SwitchId, number: u32) -> Step {
        let dimension = self.differing(at, goal).nth(number as usize);
        let dimension = dimension.unwrap_or(&self.dimensions[0]);
        let (here, there) = (dimension.place(at), dimension.place(goal));
        let port = dimension.first_port + there - u32::from(there > here);
        Step {
            link: at.0 * self.degree + port,
            to: SwitchId(at.0 - here * dimension.stride + there * dimension.stride),
        }
    }

    fn distance(&self, source: HostId, target: HostId) -> u32 {
        self.step_count(self.host_switch(source), self.host_switch(target))
    }

    fn switch_ports(&self, _switch: SwitchId) -> Option<u32> {
        Some(self.hosts_per_switch + self.degree)
    }

    fn switch_name(&self, switch: SwitchId) -> String {
        format!("s{}", self.coordinates(switch))
    }

    fn host_name(&self, host: HostId) -> String {
        let (switch, place) = self.by_hosts.split(host.0);
        format!("n{}-{place}", self.coordinates(SwitchId(switch)))
    }

    fn description(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(u32::to_string).collect();
        let each = hosts_in_words(self.hosts_per_switch);
        format!("HyperX of {} switches, {each} a switch", sizes.join("x"))
    }

    fn plan(&self) -> Plan<'_> {
        Plan::HyperX {
            dimensions: &self.sizes,
            hosts_per_switch: self.hosts_per_switch,
        }
    }

    fn heap_bytes(&self) -> u64 {
        (size_of_val(&*self.dimensions) + size_of_val(&*self.sizes)) as u64
    }
}
