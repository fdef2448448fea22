//! PolarFly: the graphs of Erdos and Renyi over a field of q elements, of diameter 2, by
//! arithmetic.
//!
//! The switches are the points of the projective plane, vectors of three elements whose first that
//! is not 0 is 1; two are joined if they are orthogonal. A switch that is orthogonal to itself, as
//! q + 1 of them are, has q links to others, all others q + 1. Two that are not joined have exactly
//! one common neighbour: their cross product.
//!
//! ```text
//! switches                 the points (1, y, z) as y * q + z, then (0, 1, z), then (0, 0, 1)
//! links between switches   first + those of the switches before + port
//! ```

use crate::divider::Divider;
use crate::error::TopologyError;
use crate::field::Field;
use crate::generated::{Generated, Step, at_least_one, hosts_in_words};
use crate::grid::within;
use crate::{HostId, Plan, SwitchId};

/// A PolarFly network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PolarFly {
    field: Field,
    hosts_per_switch: u32,
    by_hosts: Divider,
    /// Switches that are orthogonal to themselves, ascending.
    own_neighbours: Box<[u32]>,
}

type Point = [u32; 3];

impl PolarFly {
    /// Of a field with `order` elements. With no number of hosts a switch has half as many as links
    /// to others, rounded up.
    pub(crate) fn new(order: u32, hosts_per_switch: Option<u32>) -> Result<Self, TopologyError> {
        let field = Field::new(order, "it must be a prime power", |_| true)?;
        let hosts_per_switch = hosts_per_switch.unwrap_or((order + 1).div_ceil(2));
        at_least_one("the number of hosts at a switch", hosts_per_switch)?;
        let switches = u64::from(order) * u64::from(order) + u64::from(order) + 1;
        let hosts = switches.saturating_mul(u64::from(hosts_per_switch));
        within("the number of hosts", hosts)?;
        let links = (switches * u64::from(order + 1)).saturating_add(2 * hosts);
        within("the number of directed links", links)?;
        let mut network = Self {
            field,
            hosts_per_switch,
            by_hosts: Divider::new(hosts_per_switch),
            own_neighbours: Box::default(),
        };
        let switches = (0..switches as u32).filter(|&switch| {
            let point = network.point(SwitchId(switch));
            network.are_orthogonal(point, point)
        });
        network.own_neighbours = switches.collect();
        Ok(network)
    }

    fn point(&self, switch: SwitchId) -> Point {
        let order = self.field.order();
        match switch.0.checked_sub(order * order) {
            None => [1, switch.0 / order, switch.0 % order],
            Some(rest) if rest < order => [0, 1, rest],
            Some(_) => [0, 0, 1],
        }
    }

    /// The switch of a vector that is not 0.
    fn switch(&self, point: Point) -> SwitchId {
        let (field, order) = (&self.field, self.field.order());
        SwitchId(match point {
            [0, 0, _] => order * order + order,
            [0, y, z] => order * order + field.multiply(z, field.inverse(y)),
            [x, y, z] => {
                let scale = field.inverse(x);
                field.multiply(y, scale) * order + field.multiply(z, scale)
            }
        })
    }

    fn are_orthogonal(&self, one: Point, other: Point) -> bool {
        let field = &self.field;
        let products = one.iter().zip(&other);
        let products = products.map(|(&one, &other)| field.multiply(one, other));
        products.fold(0, |sum, product| field.add(sum, product)) == 0
    }

    fn cross(&self, one: Point, other: Point) -> Point {
        let field = &self.field;
        [(1, 2), (2, 0), (0, 1)].map(|(a, b)| {
            let product = field.multiply(one[a], other[b]);
            field.subtract(product, field.multiply(one[b], other[a]))
        })
    }

    /// A point on the line that is orthogonal to one: all but the coordinate that this one begins
    /// with are free, in the ratio 1 : `number`, or 0 : 1 for the last number, the order.
    fn on_line(&self, point: Point, number: u32) -> Point {
        let field = &self.field;
        let [first, second] = match number == field.order() {
            false => [1, number],
            true => [0, 1],
        };
        match point {
            [1, y, z] => {
                let sum = field.add(field.multiply(y, first), field.multiply(z, second));
                [field.subtract(0, sum), first, second]
            }
            [0, 1, z] => [first, field.subtract(0, field.multiply(z, second)), second],
            _ => [first, second, 0],
        }
    }

    /// The number of a point on that line.
    fn number_on_line(&self, point: Point, on_line: Point) -> u32 {
        let field = &self.field;
        let [first, second] = match point {
            [1, ..] => [on_line[1], on_line[2]],
            [0, 1, _] => [on_line[0], on_line[2]],
            _ => [on_line[0], on_line[1]],
        };
        match first {
            0 => field.order(),
            _ => field.multiply(second, field.inverse(first)),
        }
    }

    /// The number of a switch on its own line, if it is there: it is no neighbour.
    fn own_number(&self, point: Point) -> Option<u32> {
        self.are_orthogonal(point, point)
            .then(|| self.number_on_line(point, point))
    }

    /// The first link of a switch.
    fn first_link(&self, switch: u32) -> u32 {
        let before = self.own_neighbours.partition_point(|&own| own < switch);
        switch * (self.field.order() + 1) - before as u32
    }

    /// The step to a neighbour.
    fn step_to(&self, at: SwitchId, neighbour: Point) -> Step {
        let point = self.point(at);
        let number = self.number_on_line(point, neighbour);
        let is_behind_own = self.own_number(point).is_some_and(|own| number > own);
        Step {
            link: self.first_link(at.0) + number - u32::from(is_behind_own),
            to: self.switch(neighbour),
        }
    }
}

impl Generated for PolarFly {
    fn host_count(&self) -> u32 {
        self.switch_count() * self.hosts_per_switch
    }

    fn switch_count(&self) -> u32 {
        let order = self.field.order();
        order * order + order + 1
    }

    fn switch_link_count(&self) -> u32 {
        self.first_link(self.switch_count())
    }

    #[inline]
    fn host_switch(&self, host: HostId) -> SwitchId {
        SwitchId(self.by_hosts.quotient(host.0))
    }

    fn link_ends(&self, index: u32) -> (SwitchId, SwitchId) {
        // The switch's links begin a little before where they would if none lacked one.
        let mut from = index / (self.field.order() + 1);
        while self.first_link(from + 1) <= index {
            from += 1;
        }
        let point = self.point(SwitchId(from));
        let port = index - self.first_link(from);
        let own = self.own_number(point);
        let number = port + u32::from(own.is_some_and(|own| port >= own));
        (SwitchId(from), self.switch(self.on_line(point, number)))
    }

    fn is_first_of_pair(&self, index: u32) -> bool {
        let (from, to) = self.link_ends(index);
        from < to
    }

    fn step_count(&self, _at: SwitchId, _goal: SwitchId) -> u32 {
        1
    }

    fn step(&self, at: SwitchId, goal: SwitchId, _number: u32) -> Step {
        let (from, to) = (self.point(at), self.point(goal));
        match self.are_orthogonal(from, to) {
            true => self.step_to(at, to),
            false => self.step_to(at, self.cross(from, to)),
        }
    }

    fn distance(&self, source: HostId, target: HostId) -> u32 {
        let (at, goal) = (self.host_switch(source), self.host_switch(target));
        match self.are_orthogonal(self.point(at), self.point(goal)) {
            _ if at == goal => 0,
            true => 1,
            false => 2,
        }
    }

    fn switch_ports(&self, switch: SwitchId) -> Option<u32> {
        let links = self.first_link(switch.0 + 1) - self.first_link(switch.0);
        Some(self.hosts_per_switch + links)
    }

    fn switch_name(&self, switch: SwitchId) -> String {
        let [x, y, z] = self.point(switch);
        format!("s{x}-{y}-{z}")
    }

    fn host_name(&self, host: HostId) -> String {
        let (switch, place) = self.by_hosts.split(host.0);
        let [x, y, z] = self.point(SwitchId(switch));
        format!("n{x}-{y}-{z}-{place}")
    }

    fn description(&self) -> String {
        format!(
            "PolarFly of order {}, {} switches, {} a switch",
            self.field.order(),
            self.switch_count(),
            hosts_in_words(self.hosts_per_switch)
        )
    }

    fn plan(&self) -> Plan<'_> {
        Plan::PolarFly {
            order: self.field.order(),
            hosts_per_switch: self.hosts_per_switch,
        }
    }

    fn heap_bytes(&self) -> u64 {
        self.field.heap_bytes() + size_of_val(&*self.own_neighbours) as u64
    }
}
