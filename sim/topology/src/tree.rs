//! Fat trees: the k-ary n-tree, everything by arithmetic.
//!
//! k^n hosts, n levels of k^(n-1) switches; level 0 has the hosts. Write a switch's place in its
//! level with n-1 digits in base k. Switch w of level l and switch w' of level l+1 are joined when
//! w and w' agree in all digits but digit l (digit 0 is the lowest). Host p is at switch p/k of
//! level 0.
//!
//! A route goes up until source and target lie below the switch, then down. The way down is given
//! by the target; the way up is free and chosen by the target too ("d-mod-k"): from level l it
//! takes the port whose number is digit l of the target's number. All traffic to one host then
//! comes down one tree, and that of hosts with neighbouring numbers down different ones.
//!
//! ```text
//! links between switches   up:   first + (level * width + lower switch) * k + port
//!                          down: the same, after all the links up
//! ```

use crate::divider::Divider;
use crate::error::TopologyError;
use crate::generated::{Generated, Step};
use crate::grid::{port_reason, within};
use crate::{EqualPaths, HostId, LinkClass, LinkId, Plan, Ports, SwitchId};

/// Most levels of a fat tree: with two hosts a switch more have no numbers.
pub const LEVELS_MAX: u32 = 31;

/// The measures of a fat tree.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TreeShape {
    /// k: hosts at a lowest switch, and links of a switch to either side. At least 2.
    pub arity: u32,
    /// n: levels of switches. At least 1.
    pub levels: u32,
}

/// A k-ary n-tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Tree {
    shape: TreeShape,
    /// Powers of the arity, from the zeroth to the n-th.
    powers: Box<[u32]>,
    by_arity: Divider,
    hosts: u32,
    /// Switches of a level.
    width: u32,
    /// Links up between switches; as many go down.
    up_links: u32,
    ports: Ports,
}

impl Tree {
    pub(crate) fn new(shape: TreeShape, ports: Ports) -> Result<Self, TopologyError> {
        let TreeShape { arity, levels } = shape;
        if arity < 2 {
            return Err(TopologyError::TooSmall {
                what: "the arity of a fat tree",
                count: u64::from(arity),
                minimum: 2,
            });
        }
        if levels < 1 {
            return Err(TopologyError::TooSmall {
                what: "the number of levels of a fat tree",
                count: 0,
                minimum: 1,
            });
        }
        if levels > LEVELS_MAX {
            return Err(TopologyError::TooLarge {
                what: "the number of levels of a fat tree",
                count: u64::from(levels),
                limit: u64::from(LEVELS_MAX),
                help: "use fewer levels",
            });
        }
        let mut powers = vec![1u32];
        let mut hosts = 1u64;
        for _ in 0..levels {
            hosts = within("the number of hosts", hosts * u64::from(arity))?;
            powers.push(hosts as u32);
        }
        let width = hosts / u64::from(arity);
        let up_links = u64::from(levels - 1) * hosts;
        within("the number of switches", width * u64::from(levels))?;
        within("the number of directed links", 2 * (hosts + up_links))?;
        let tree = Self {
            shape,
            powers: powers.into(),
            by_arity: Divider::new(arity),
            hosts: hosts as u32,
            width: width as u32,
            up_links: up_links as u32,
            ports,
        };
        let up = if levels > 1 { arity } else { 0 };
        let needed = arity.saturating_add(up);
        if needed > ports.0 {
            return Err(TopologyError::TooFewPorts {
                switch: tree.switch_name(SwitchId(0)),
                needed,
                available: ports.0,
                reason: port_reason(arity, up),
            });
        }
        Ok(tree)
    }

    /// Appends the links between the switches of `source` and `target`.
    #[inline]
    pub(crate) fn route<L: From<LinkId>>(&self, source: HostId, target: HostId, path: &mut Vec<L>) {
        let arity = self.shape.arity;
        let first_up = 2 * self.hosts;
        let first_down = first_up + self.up_links;
        // The target's number without its lowest digits: `target_rests[l]` lacks l of them.
        let mut target_rests = [0u32; LEVELS_MAX as usize + 1];
        let mut target_rest = target.0;
        let mut source_rest = self.by_arity.quotient(source.0);
        let mut level = 0;
        loop {
            target_rests[level] = target_rest;
            let target_above = self.by_arity.quotient(target_rest);
            if source_rest == target_above {
                break;
            }
            let power = self.powers[level];
            // Digits below this level are already the target's, the others still the source's.
            let place = target.0 - target_rest * power + source_rest * power;
            let port = target_rest - target_above * arity;
            let number = (level as u32 * self.width + place) * arity + port;
            path.push(LinkId(first_up + number).into());
            source_rest = self.by_arity.quotient(source_rest);
            target_rest = target_above;
            level += 1;
        }
        while level > 0 {
            level -= 1;
            let power = self.powers[level];
            let (rest, above) = (target_rests[level], target_rests[level + 1]);
            // The lower switch: digit l of the target's number is passed over.
            let place = target.0 - rest * power + above * power;
            let number = (level as u32 * self.width + place) * arity + (rest - above * arity);
            path.push(LinkId(first_down + number).into());
        }
    }

    /// One of them: its number in base k says how far each choice is from the one of
    /// [`Tree::route`].
    fn way(&self, source: HostId, target: HostId, levels: usize, number: u64) -> Vec<LinkId> {
        let arity = self.shape.arity;
        let link = |first: u32, level: usize, place: u32, port: u32| {
            let number = (level as u32 * self.width + place) * arity + port;
            LinkId(2 * self.hosts + first + number)
        };
        // A switch's place from digit `level` on, as a host below it has it.
        let high = |host: HostId, level: usize| {
            let power = self.powers[level];
            host.0 / arity / power * power
        };
        let (mut path, mut choices) = (Vec::new(), Vec::new());
        let (mut low, mut rest) = (0, number);
        for level in 0..levels {
            let power = self.powers[level];
            let offset = (rest % u64::from(arity)) as u32;
            let port = (target.0 / power % arity + offset) % arity;
            path.push(link(0, level, low + high(source, level), port));
            choices.push((low, port));
            low += port * power;
            rest /= u64::from(arity);
        }
        for (level, (low, port)) in choices.into_iter().enumerate().rev() {
            let place = low + high(target, level);
            path.push(link(self.up_links, level, place, port));
        }
        path
    }

    /// Whether a lowest switch lies below another.
    fn is_above(&self, at: SwitchId, lowest: SwitchId) -> bool {
        let (level, place) = (at.0 / self.width, at.0 % self.width);
        let power = self.powers[level as usize];
        level > 0 && place / power == lowest.0 / power
    }
}

impl Generated for Tree {
    fn host_count(&self) -> u32 {
        self.hosts
    }

    fn switch_count(&self) -> u32 {
        self.width * self.shape.levels
    }

    fn switch_link_count(&self) -> u32 {
        2 * self.up_links
    }

    fn link_class(&self, index: u32) -> LinkClass {
        match self.is_first_of_pair(index) {
            true => LinkClass::TreeUp,
            false => LinkClass::TreeDown,
        }
    }

    /// Whether it goes up.
    fn is_first_of_pair(&self, index: u32) -> bool {
        index < self.up_links
    }

    #[inline]
    fn host_switch(&self, host: HostId) -> SwitchId {
        SwitchId(self.by_arity.quotient(host.0))
    }

    fn step_count(&self, at: SwitchId, goal: SwitchId) -> u32 {
        match self.is_above(at, goal) {
            true => 1,
            false => self.shape.arity,
        }
    }

    fn step(&self, at: SwitchId, goal: SwitchId, number: u32) -> Step {
        let arity = self.shape.arity;
        let (level, place) = (at.0 / self.width, at.0 % self.width);
        // A place with another digit.
        let with = |level: u32, digit: u32| {
            let power = self.powers[level as usize];
            let old = place / power % arity;
            (place + digit * power - old * power, old)
        };
        if self.is_above(at, goal) {
            let level = level - 1;
            let digit = goal.0 / self.powers[level as usize] % arity;
            let (lower, port) = with(level, digit);
            return Step {
                link: self.up_links + (level * self.width + lower) * arity + port,
                to: SwitchId(level * self.width + lower),
            };
        }
        let (upper, _) = with(level, number);
        Step {
            link: at.0 * arity + number,
            to: SwitchId((level + 1) * self.width + upper),
        }
    }

    /// By the digit of the target's number.
    fn fixed_step(&self, at: SwitchId, target: HostId, _count: u32) -> u32 {
        let level = at.0 / self.width;
        target.0 / self.powers[level as usize] % self.shape.arity
    }

    /// One for each choice of links up, those of the first level first.
    fn equal_ways(&self, source: HostId, target: HostId, most: usize) -> Vec<Vec<LinkId>> {
        let levels = self.distance(source, target) / 2;
        let count = u64::from(self.shape.arity).saturating_pow(levels);
        let count = count.min(most as u64);
        (0..count)
            .map(|way| self.way(source, target, levels as usize, way))
            .collect()
    }

    fn distance(&self, source: HostId, target: HostId) -> u32 {
        let mut source_rest = self.by_arity.quotient(source.0);
        let mut target_rest = self.by_arity.quotient(target.0);
        let mut levels = 0;
        while source_rest != target_rest {
            source_rest = self.by_arity.quotient(source_rest);
            target_rest = self.by_arity.quotient(target_rest);
            levels += 1;
        }
        2 * levels
    }

    fn link_ends(&self, index: u32) -> (SwitchId, SwitchId) {
        let up = index < self.up_links;
        let number = if up { index } else { index - self.up_links };
        let (lower, port) = self.by_arity.split(number);
        let (level, place) = (lower / self.width, lower % self.width);
        let power = self.powers[level as usize];
        let digit = place / power % self.shape.arity;
        let upper_place = place - digit * power + port * power;
        let upper = SwitchId((level + 1) * self.width + upper_place);
        if up {
            (SwitchId(lower), upper)
        } else {
            (upper, SwitchId(lower))
        }
    }

    fn switch_name(&self, switch: SwitchId) -> String {
        format!("s{}-{}", switch.0 / self.width, switch.0 % self.width)
    }

    fn host_name(&self, host: HostId) -> String {
        format!("n{}", host.0)
    }

    fn description(&self) -> String {
        let TreeShape { arity, levels } = self.shape;
        format!(
            "fat tree of {levels} levels, arity {arity}, {} hosts",
            self.hosts
        )
    }

    fn plan(&self) -> Plan<'_> {
        Plan::FatTree(self.shape)
    }

    fn hosts_per_switch(&self) -> Option<u32> {
        Some(self.shape.arity)
    }

    fn ports(&self) -> Option<Ports> {
        Some(self.ports)
    }

    fn usual_paths(&self) -> EqualPaths {
        EqualPaths::Single
    }

    fn heap_bytes(&self) -> u64 {
        size_of_val(&*self.powers) as u64
    }
}
