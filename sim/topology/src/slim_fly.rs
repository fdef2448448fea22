//! Slim Fly: the graphs of McKay, Miller and Siran, of diameter 2, by arithmetic in a field of q
//! elements, q = 4 w - 1, 4 w or 4 w + 1.
//!
//! Two sides of q x q switches. Switch (x, y) of the first side is joined to those of its column x
//! whose y differs by an element of a set X, switch (m, c) of the second side to those of its
//! column m whose c differs by one of a set X', and (x, y) to (m, c) where y = m x + c. The sets
//! are powers of a primitive element.
//!
//! ```text
//! switches                 side * q * q + column * q + row
//! links between switches   first + switch * links of a switch + port, the q ports to the other
//!                          side first, by its column
//! ```

use crate::divider::Divider;
use crate::error::TopologyError;
use crate::field::Field;
use crate::generated::{Generated, Step, at_least_one, hosts_in_words};
use crate::grid::within;
use crate::{HostId, Plan, SwitchId};

/// A Slim Fly network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SlimFly {
    field: Field,
    /// The sets X and X', one for each side.
    differences: [Box<[u16]>; 2],
    /// For each side and difference its place in the set, [`NONE`] if it is not in it.
    places: [Box<[u16]>; 2],
    hosts_per_switch: u32,
    by_hosts: Divider,
    /// Links of a switch to others.
    degree: u32,
}

const NONE: u16 = u16::MAX;

/// A switch: its side, column and row.
#[derive(Clone, Copy)]
struct Place {
    side: u32,
    column: u32,
    row: u32,
}

impl SlimFly {
    /// Of a field with `order` elements. With no number of hosts a switch has as many as half its
    /// links to others, rounded up, which is what they can carry.
    pub(crate) fn new(order: u32, hosts_per_switch: Option<u32>) -> Result<Self, TopologyError> {
        let rule = "it must be a prime power, at least 3 and of the form 4 w - 1, 4 w or 4 w + 1";
        let field = Field::new(order, rule, |order| order >= 3 && order % 4 != 2)?;
        let exponents: [Vec<u32>; 2] = match order % 4 {
            // The even powers, and the odd ones.
            0 | 1 => [0, 1].map(|first| (first..order - 1 + first).step_by(2).collect()),
            // The even ones up to half of them and then the odd ones, and the other way round.
            _ => {
                let half = (order - 1) / 2;
                let [even, odd] = [0, 1].map(|first| (first..half + first).step_by(2));
                let later = |first: u32| (half + first..order - 1 + first).step_by(2);
                [
                    even.chain(later(0)).collect(),
                    odd.chain(later(1)).collect(),
                ]
            }
        };
        let differences = exponents.map(|exponents| {
            let elements = exponents.iter();
            let elements = elements.map(|&exponent| field.power(exponent % (order - 1)) as u16);
            elements.collect::<Box<[u16]>>()
        });
        let places = [0, 1].map(|side: usize| {
            let mut places = vec![NONE; order as usize];
            for (place, &difference) in (0..).zip(&differences[side]) {
                places[usize::from(difference)] = place;
            }
            places.into_boxed_slice()
        });
        let degree = order + differences[0].len() as u32;
        let hosts_per_switch = hosts_per_switch.unwrap_or(degree.div_ceil(2));
        at_least_one("the number of hosts at a switch", hosts_per_switch)?;
        let switches = 2 * u64::from(order) * u64::from(order);
        let hosts = switches.saturating_mul(u64::from(hosts_per_switch));
        within("the number of hosts", hosts)?;
        let links = (switches * u64::from(degree)).saturating_add(2 * hosts);
        within("the number of directed links", links)?;
        Ok(Self {
            field,
            differences,
            places,
            hosts_per_switch,
            by_hosts: Divider::new(hosts_per_switch),
            degree,
        })
    }

    fn place(&self, switch: SwitchId) -> Place {
        let order = self.field.order();
        let (column, row) = (switch.0 / order, switch.0 % order);
        Place {
            side: u32::from(column >= order),
            column: column % order,
            row,
        }
    }

    fn switch(&self, place: Place) -> SwitchId {
        let order = self.field.order();
        SwitchId((place.side * order + place.column) * order + place.row)
    }

    /// The neighbour on a port.
    fn neighbour(&self, from: Place, port: u32) -> Place {
        let field = &self.field;
        let Some(number) = port.checked_sub(field.order()) else {
            let product = field.multiply(from.column, port);
            let row = match from.side {
                0 => field.subtract(from.row, product),
                _ => field.add(from.row, product),
            };
            return Place {
                side: 1 - from.side,
                column: port,
                row,
            };
        };
        let difference = self.differences[from.side as usize][number as usize];
        Place {
            row: field.add(from.row, difference.into()),
            ..from
        }
    }

    /// The port that leads to a switch, if one does.
    fn port_to(&self, from: Place, to: Place) -> Option<u32> {
        let field = &self.field;
        if from.side != to.side {
            let there = self.neighbour(from, to.column);
            return (there.row == to.row).then_some(to.column);
        }
        if from.column != to.column {
            return None;
        }
        let difference = field.subtract(to.row, from.row);
        let place = self.places[from.side as usize][difference as usize];
        (place != NONE).then(|| field.order() + u32::from(place))
    }

    /// The ports of the shortest ways: the one that leads there, or those to common neighbours.
    fn ports(&self, at: SwitchId, goal: SwitchId) -> impl Iterator<Item = u32> {
        let (from, to) = (self.place(at), self.place(goal));
        let direct = self.port_to(from, to);
        let two = if direct.is_some() { 0 } else { self.degree };
        let over =
            (0..two).filter(move |&port| self.port_to(self.neighbour(from, port), to).is_some());
        direct.into_iter().chain(over)
    }
}

impl Generated for SlimFly {
    fn host_count(&self) -> u32 {
        self.switch_count() * self.hosts_per_switch
    }

    fn switch_count(&self) -> u32 {
        2 * self.field.order() * self.field.order()
    }

    fn switch_link_count(&self) -> u32 {
        self.switch_count() * self.degree
    }

    #[inline]
    fn host_switch(&self, host: HostId) -> SwitchId {
        SwitchId(self.by_hosts.quotient(host.0))
    }

    fn link_ends(&self, index: u32) -> (SwitchId, SwitchId) {
        let (from, port) = (SwitchId(index / self.degree), index % self.degree);
        (from, self.switch(self.neighbour(self.place(from), port)))
    }

    fn is_first_of_pair(&self, index: u32) -> bool {
        let (from, to) = self.link_ends(index);
        from < to
    }

    fn step_count(&self, at: SwitchId, goal: SwitchId) -> u32 {
        self.ports(at, goal).count() as u32
    }

    fn step(&self, at: SwitchId, goal: SwitchId, number: u32) -> Step {
        // Two switches that are not joined have a common neighbour.
        let port = self.ports(at, goal).nth(number as usize).unwrap_or(0);
        Step {
            link: at.0 * self.degree + port,
            to: self.switch(self.neighbour(self.place(at), port)),
        }
    }

    fn distance(&self, source: HostId, target: HostId) -> u32 {
        let (at, goal) = (self.host_switch(source), self.host_switch(target));
        match self.port_to(self.place(at), self.place(goal)) {
            _ if at == goal => 0,
            Some(_) => 1,
            None => 2,
        }
    }

    fn fixed_step(&self, _at: SwitchId, target: HostId, count: u32) -> u32 {
        target.0 % count
    }

    fn switch_ports(&self, _switch: SwitchId) -> Option<u32> {
        Some(self.hosts_per_switch + self.degree)
    }

    fn switch_name(&self, switch: SwitchId) -> String {
        let Place { side, column, row } = self.place(switch);
        format!("s{side}-{column}-{row}")
    }

    fn host_name(&self, host: HostId) -> String {
        let (switch, place) = self.by_hosts.split(host.0);
        let Place { side, column, row } = self.place(SwitchId(switch));
        format!("n{side}-{column}-{row}-{place}")
    }

    fn description(&self) -> String {
        format!(
            "Slim Fly of order {}, {} switches, {} a switch",
            self.field.order(),
            self.switch_count(),
            hosts_in_words(self.hosts_per_switch)
        )
    }

    fn plan(&self) -> Plan<'_> {
        Plan::SlimFly {
            order: self.field.order(),
            hosts_per_switch: self.hosts_per_switch,
        }
    }

    fn heap_bytes(&self) -> u64 {
        let sets = self.differences.iter().chain(&self.places);
        self.field.heap_bytes() + sets.map(|set| size_of_val(&**set) as u64).sum::<u64>()
    }
}
