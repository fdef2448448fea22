//! Trees of three levels of equal switches (the folded Clos network that is sold as a fat tree), by
//! arithmetic: pods of edge and aggregation switches, and core switches above them.
//!
//! With k ports a pod has k/2 edge switches; an edge switch has its ports up and down as the
//! oversubscription says, k/2 each without any; each of its links up leads to another aggregation
//! switch of the pod, and of these each has k/2 links to core switches of its own: core switch c of
//! aggregation switch a is joined to aggregation switch a of every pod.
//!
//! ```text
//! switches                 edge switches pod by pod, aggregation switches pod by pod, the core
//! links between switches   edge to aggregation, then aggregation to core: for each lower switch
//!                          and link up 2 * (switch * links up + link), and the way down behind it
//! ```
//!
//! Without a choice a way to host t goes up by the digits of t, so that all traffic to one host
//! comes down one tree, and that to its neighbours down others.

use crate::divider::Divider;
use crate::error::TopologyError;
use crate::generated::{Generated, Step, at_least_one, even_ports, hosts_in_words, nearest};
use crate::grid::within;
use crate::{HostId, LinkClass, Plan, SwitchId};

/// The measures of a tree of equal switches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClosShape {
    /// k: ports of a switch.
    pub radix: u32,
    /// Levels of switches: 2 or 3.
    pub tiers: u32,
    /// Links down of a switch with hosts for each of its links up.
    pub oversubscription: u32,
    /// Pods that are there, of two tiers leaves: all that the switches above have ports for, if
    /// they are not said.
    pub pods: Option<u32>,
}

impl ClosShape {
    /// Links up and down of a switch with hosts.
    pub(crate) fn edge(&self) -> Result<(u32, u32), TopologyError> {
        let Self {
            radix,
            oversubscription,
            ..
        } = *self;
        at_least_one("the oversubscription", oversubscription)?;
        even_ports("a tree of equal switches", radix)?;
        let parts = u64::from(oversubscription) + 1;
        let exists = |radix: u64| radix.is_multiple_of(2) && radix.is_multiple_of(parts);
        if !exists(u64::from(radix)) {
            return Err(TopologyError::NoSuchSize {
                what: "the number of ports of a switch",
                size: u64::from(radix),
                rule: format!(
                    "of each {parts} ports of a switch with hosts one goes up, and of the other \
                     switches half go down"
                ),
                nearest: nearest(u64::from(radix), |radix| radix > 0 && exists(radix)),
            });
        }
        let up = radix / parts as u32;
        Ok((up, radix - up))
    }

    /// Pods, or leaves: each has a port of every switch above.
    pub(crate) fn pods(&self) -> Result<u32, TopologyError> {
        let pods = self.pods.unwrap_or(self.radix);
        at_least_one("the number of pods", pods)?;
        match pods <= self.radix {
            true => Ok(pods),
            false => Err(TopologyError::TooLarge {
                what: "the number of pods",
                count: u64::from(pods),
                limit: u64::from(self.radix),
                help: "each takes a port of every switch above: take switches with more ports",
            }),
        }
    }
}

/// A tree of three levels of equal switches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Clos {
    shape: ClosShape,
    hosts: u32,
    by_edge: Divider,
    /// Hosts of an edge switch.
    down: u32,
    /// Links up of an edge switch, and aggregation switches of a pod.
    up: u32,
    /// Half the ports: edge switches of a pod, and links up of an aggregation switch.
    half: u32,
    pods: u32,
}

impl Clos {
    /// Of three tiers.
    pub(crate) fn new(shape: ClosShape) -> Result<Self, TopologyError> {
        let (up, down) = shape.edge()?;
        let half = shape.radix / 2;
        let pods = u64::from(shape.pods()?);
        let hosts = pods * u64::from(half) * u64::from(down);
        let hosts = within("the number of hosts", hosts)? as u32;
        let up_links = pods * u64::from(half) * u64::from(up);
        let of_pods = pods * (u64::from(half) + u64::from(up));
        within(
            "the number of switches",
            of_pods + u64::from(up) * u64::from(half),
        )?;
        within(
            "the number of directed links",
            4 * up_links + 2 * u64::from(hosts),
        )?;
        Ok(Self {
            shape: ClosShape {
                pods: Some(pods as u32),
                ..shape
            },
            hosts,
            by_edge: Divider::new(down),
            down,
            up,
            half,
            pods: pods as u32,
        })
    }

    /// All edge switches; the aggregation switches follow.
    const fn edges(&self) -> u32 {
        self.pods * self.half
    }

    /// Aggregation switches, and then the core.
    const fn aggregations(&self) -> u32 {
        self.pods * self.up
    }

    /// Links from edge to aggregation switches, and as many further up.
    const fn up_links(&self) -> u32 {
        self.edges() * self.up
    }

    fn place(&self, switch: SwitchId) -> Place {
        let Some(number) = switch.0.checked_sub(self.edges()) else {
            return Place::Edge {
                pod: switch.0 / self.half,
            };
        };
        match number.checked_sub(self.aggregations()) {
            None => Place::Aggregation {
                pod: number / self.up,
                index: number % self.up,
            },
            Some(core) => Place::Core {
                index: core / self.half,
                link: core % self.half,
            },
        }
    }

    fn aggregation(&self, pod: u32, index: u32) -> SwitchId {
        SwitchId(self.edges() + pod * self.up + index)
    }

    /// The step between an edge switch and one above it.
    fn lower(&self, edge: SwitchId, index: u32, is_down: bool) -> Step {
        Step {
            link: 2 * (edge.0 * self.up + index) + u32::from(is_down),
            to: match is_down {
                true => edge,
                false => self.aggregation(edge.0 / self.half, index),
            },
        }
    }

    /// The step between an aggregation switch and one above it.
    fn upper(&self, pod: u32, index: u32, link: u32, is_down: bool) -> Step {
        let number = (pod * self.up + index) * self.half + link;
        Step {
            link: 2 * (self.up_links() + number) + u32::from(is_down),
            to: match is_down {
                true => self.aggregation(pod, index),
                false => {
                    let first = self.edges() + self.aggregations();
                    SwitchId(first + index * self.half + link)
                }
            },
        }
    }
}

/// Where a switch is.
enum Place {
    Edge {
        pod: u32,
    },
    Aggregation {
        pod: u32,
        index: u32,
    },
    /// Above the aggregation switches of this number, on this link of theirs.
    Core {
        index: u32,
        link: u32,
    },
}

impl Generated for Clos {
    fn host_count(&self) -> u32 {
        self.hosts
    }

    fn switch_count(&self) -> u32 {
        self.edges() + self.aggregations() + self.up * self.half
    }

    fn switch_link_count(&self) -> u32 {
        4 * self.up_links()
    }

    fn link_class(&self, index: u32) -> LinkClass {
        match self.is_first_of_pair(index) {
            true => LinkClass::TreeUp,
            false => LinkClass::TreeDown,
        }
    }

    /// Whether it goes up.
    fn is_first_of_pair(&self, index: u32) -> bool {
        index.is_multiple_of(2)
    }

    #[inline]
    fn host_switch(&self, host: HostId) -> SwitchId {
        SwitchId(self.by_edge.quotient(host.0))
    }

    fn link_ends(&self, index: u32) -> (SwitchId, SwitchId) {
        let pair = index / 2;
        let ends = match pair.checked_sub(self.up_links()) {
            None => {
                let (edge, index) = (SwitchId(pair / self.up), pair % self.up);
                [false, true].map(|is_down| self.lower(edge, index, is_down).to)
            }
            Some(number) => {
                let (aggregation, link) = (number / self.half, number % self.half);
                let (pod, index) = (aggregation / self.up, aggregation % self.up);
                [false, true].map(|is_down| self.upper(pod, index, link, is_down).to)
            }
        };
        match self.is_first_of_pair(index) {
            true => (ends[1], ends[0]),
            false => (ends[0], ends[1]),
        }
    }

    fn step_count(&self, at: SwitchId, goal: SwitchId) -> u32 {
        match self.place(at) {
            Place::Edge { .. } => self.up,
            Place::Aggregation { pod, .. } if pod == goal.0 / self.half => 1,
            Place::Aggregation { .. } => self.half,
            Place::Core { .. } => 1,
        }
    }

    fn step(&self, at: SwitchId, goal: SwitchId, number: u32) -> Step {
        let goal_pod = goal.0 / self.half;
        match self.place(at) {
            Place::Edge { .. } => self.lower(at, number, false),
            Place::Aggregation { pod, index } if pod == goal_pod => self.lower(goal, index, true),
            Place::Aggregation { pod, index } => self.upper(pod, index, number, false),
            Place::Core { index, link } => self.upper(goal_pod, index, link, true),
        }
    }

    fn fixed_step(&self, at: SwitchId, target: HostId, count: u32) -> u32 {
        match self.place(at) {
            Place::Edge { .. } => target.0 % count,
            _ => target.0 / self.up % count,
        }
    }

    fn distance(&self, source: HostId, target: HostId) -> u32 {
        let (from, to) = (self.host_switch(source), self.host_switch(target));
        match (self.place(from), self.place(to)) {
            _ if from == to => 0,
            (Place::Edge { pod: one }, Place::Edge { pod: other }) if one == other => 2,
            _ => 4,
        }
    }

    fn switch_ports(&self, _switch: SwitchId) -> Option<u32> {
        Some(self.shape.radix)
    }

    fn switch_name(&self, switch: SwitchId) -> String {
        match self.place(switch) {
            Place::Edge { pod } => format!("edge{pod}-{}", switch.0 % self.half),
            Place::Aggregation { pod, index } => format!("agg{pod}-{index}"),
            Place::Core { index, link } => format!("core{index}-{link}"),
        }
    }

    fn host_name(&self, host: HostId) -> String {
        let (edge, place) = self.by_edge.split(host.0);
        format!("n{}-{}-{place}", edge / self.half, edge % self.half)
    }

    fn description(&self) -> String {
        format!(
            "tree of three levels of switches with {} ports, {}, {} links down and {} up at a \
             switch with hosts",
            self.shape.radix,
            hosts_in_words(self.hosts),
            self.down,
            self.up,
        )
    }

    fn plan(&self) -> Plan<'_> {
        Plan::Clos(self.shape)
    }
}
