//! What makes a generated network.

use crate::clos::ClosShape;
use crate::dragonfly::DragonflyShape;
use serde_json::{Map, Value};

use crate::leaf_spine::RailShape;
use crate::{ChainHosts, Topology, TreeShape};

/// What makes a generated network, but for the ports of its switches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Plan<'a> {
    /// See [`Topology::single_switch`].
    SingleSwitch {
        /// All hosts.
        hosts: u32,
    },
    /// See [`Topology::chain`].
    Chain {
        /// All switches.
        switches: u32,
        /// Where the hosts are.
        hosts: ChainHosts,
    },
    /// See [`Topology::mesh`].
    Mesh {
        /// Switches in each dimension.
        dimensions: &'a [u32],
        /// Hosts at each.
        hosts_per_switch: u32,
    },
    /// See [`Topology::torus`].
    Torus {
        /// Switches in each dimension.
        dimensions: &'a [u32],
        /// Hosts at each.
        hosts_per_switch: u32,
    },
    /// See [`Topology::fat_tree`].
    FatTree(TreeShape),
    /// See [`Topology::leaf_spine`].
    LeafSpine {
        /// All hosts.
        hosts: u32,
        /// Of a leaf.
        hosts_per_leaf: u32,
        /// Switches of the spine.
        spines: u32,
    },
    /// See [`crate::Topology::dragonfly`].
    Dragonfly(DragonflyShape),
    /// See [`crate::Topology::dragonfly_plus`].
    DragonflyPlus {
        /// Ports of a switch.
        radix: u32,
        /// All groups.
        groups: u32,
    },
    /// See [`crate::Topology::hyperx`].
    HyperX {
        /// Switches in each dimension.
        dimensions: &'a [u32],
        /// Hosts at each.
        hosts_per_switch: u32,
    },
    /// See [`crate::Topology::slim_fly`].
    SlimFly {
        /// Elements of the field.
        order: u32,
        /// Hosts at each switch.
        hosts_per_switch: u32,
    },
    /// See [`crate::Topology::polar_fly`].
    PolarFly {
        /// Elements of the field.
        order: u32,
        /// Hosts at each switch.
        hosts_per_switch: u32,
    },
    /// See [`crate::Topology::clos`]; of three tiers.
    Clos(ClosShape),
    /// See [`crate::Topology::rail`].
    Rail(RailShape),
}

impl Plan<'_> {
    /// What it is and its measures, in the words and keys of studies. Values are numbers, lists of
    /// them, true and false, which TOML and JSON write alike.
    #[must_use]
    pub fn words(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let number = |key, value: u32| (key, value.to_string());
        let grid = |sizes: &[u32], each| {
            let dimensions = ("dimensions", format!("{sizes:?}"));
            vec![dimensions, number("hosts_per_switch", each)]
        };
        match *self {
            Self::SingleSwitch { hosts } => ("switch", vec![number("hosts", hosts)]),
            Self::Chain { switches, hosts } => {
                let (each, ends_only) = match hosts {
                    ChainHosts::EverySwitch(each) => (each, false),
                    ChainHosts::Ends(each) => (each, true),
                };
                let measures = vec![
                    number("switches", switches),
                    number("hosts_per_switch", each),
                    ("ends_only", ends_only.to_string()),
                ];
                ("chain", measures)
            }
            Self::Mesh {
                dimensions,
                hosts_per_switch,
            } => ("mesh", grid(dimensions, hosts_per_switch)),
            Self::Torus {
                dimensions,
                hosts_per_switch,
            } => ("torus", grid(dimensions, hosts_per_switch)),
            Self::FatTree(TreeShape { arity, levels }) => (
                "fat-tree",
                vec![number("arity", arity), number("levels", levels)],
            ),
            Self::LeafSpine {
                hosts,
                hosts_per_leaf,
                spines,
            } => {
                let measures = vec![
                    number("hosts", hosts),
                    number("hosts_per_switch", hosts_per_leaf),
                    number("spines", spines),
                ];
                ("leaf-spine", measures)
            }
            Self::Dragonfly(shape) => {
                let measures = vec![
                    number("hosts_per_switch", shape.hosts_per_switch),
                    number("switches_per_group", shape.switches_per_group),
                    number("global_links", shape.global_links),
                    number("groups", shape.groups),
                ];
                ("dragonfly", measures)
            }
            Self::DragonflyPlus { radix, groups } => {
                let measures = vec![number("radix", radix), number("groups", groups)];
                ("dragonfly-plus", measures)
            }
            Self::HyperX {
                dimensions,
                hosts_per_switch,
            } => ("hyperx", grid(dimensions, hosts_per_switch)),
            Self::SlimFly {
                order,
                hosts_per_switch,
            } => {
                let each = number("hosts_per_switch", hosts_per_switch);
                ("slim-fly", vec![number("order", order), each])
            }
            Self::PolarFly {
                order,
                hosts_per_switch,
            } => {
                let each = number("hosts_per_switch", hosts_per_switch);
                ("polar-fly", vec![number("order", order), each])
            }
            Self::Clos(shape) => {
                let mut measures = vec![
                    number("radix", shape.radix),
                    number("tiers", shape.tiers),
                    number("oversubscription", shape.oversubscription),
                ];
                measures.extend(shape.pods.map(|pods| number("pods", pods)));
                ("clos", measures)
            }
            Self::Rail(shape) => {
                let measures = vec![
                    number("rails", shape.rails),
                    number("servers", shape.servers),
                    number("servers_per_unit", shape.servers_per_unit),
                    number("spines", shape.spines),
                ];
                ("rail", measures)
            }
        }
    }
}

/// The network that such words describe, if it is one that is not recognised by its links.
pub(crate) fn described(words: &Map<String, Value>) -> Option<Topology> {
    let number = |key: &str| u32::try_from(words.get(key)?.as_u64()?).ok();
    let made = match words.get("topology")?.as_str()? {
        "leaf-spine" => Topology::leaf_spine(
            number("hosts")?,
            number("hosts_per_switch")?,
            number("spines")?,
        ),
        "dragonfly" => Topology::dragonfly(DragonflyShape {
            hosts_per_switch: number("hosts_per_switch")?,
            switches_per_group: number("switches_per_group")?,
            global_links: number("global_links")?,
            groups: number("groups")?,
        }),
        "dragonfly-plus" => Topology::dragonfly_plus(number("radix")?, number("groups")),
        "hyperx" => {
            let sizes = words.get("dimensions")?.as_array()?.iter();
            let sizes = sizes.map(|size| u32::try_from(size.as_u64()?).ok());
            Topology::hyperx(
                &sizes.collect::<Option<Vec<_>>>()?,
                number("hosts_per_switch")?,
            )
        }
        "slim-fly" => Topology::slim_fly(number("order")?, number("hosts_per_switch")),
        "polar-fly" => Topology::polar_fly(number("order")?, number("hosts_per_switch")),
        "clos" => Topology::clos(ClosShape {
            radix: number("radix")?,
            tiers: number("tiers")?,
            oversubscription: number("oversubscription")?,
            pods: number("pods"),
        }),
        "rail" => Topology::rail(RailShape {
            rails: number("rails")?,
            servers: number("servers")?,
            servers_per_unit: number("servers_per_unit")?,
            spines: number("spines")?,
        }),
        _ => return None,
    };
    made.ok()
}
