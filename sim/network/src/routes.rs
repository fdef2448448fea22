//! Ways that senders choose from, packet by packet, and what happens to packets on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_topology::{HostId, LinkId, Topology};

use crate::damage::Damage;
use crate::outages::{Links, Outages, parts};
use crate::packets::{LinkUse, Parcel};

/// The links of a way.
type Way = Box<[LinkId]>;

/// The equal ways between hosts, as they come to be needed; links that are down or lose packets;
/// what each link has carried, if somebody wants to know.
#[derive(Debug)]
pub struct Routes {
    topology: Arc<Topology>,
    /// The hosts that take part, by place.
    hosts: Vec<HostId>,
    /// Of the equal ways between two hosts, how many are used at most.
    ways_max: u16,
    ways: BTreeMap<(HostId, HostId), Box<[Way]>>,
    outages: Outages,
    damage: Option<Damage>,
    /// By links, once they are watched.
    used: BTreeMap<LinkId, LinkUse>,
    are_watched: bool,
    /// Whether it matters which links a packet crosses, beside how long that takes.
    pub(crate) are_of_interest: bool,
}

impl Routes {
    pub(crate) fn new(topology: &Arc<Topology>, ways_max: u16) -> Self {
        Self {
            topology: Arc::clone(topology),
            hosts: Vec::new(),
            ways_max: ways_max.max(1),
            ways: BTreeMap::new(),
            outages: Outages::default(),
            damage: None,
            used: BTreeMap::new(),
            are_watched: false,
            are_of_interest: false,
        }
    }

    pub(crate) fn join(&mut self, host: HostId) {
        self.hosts.push(host);
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    pub(crate) fn topology_shared(&self) -> Arc<Topology> {
        Arc::clone(&self.topology)
    }

    /// Hosts that take part.
    pub(crate) const fn count(&self) -> usize {
        self.hosts.len()
    }

    /// The hosts that a packet goes from and to.
    #[inline]
    pub(crate) fn ends(&self, packet: &impl Parcel) -> (HostId, HostId) {
        let host = |place: u32| self.hosts[place as usize];
        (host(packet.from()), host(packet.to()))
    }

    /// The way of a packet; its host's link and back if it has none, which a network that was
    /// checked leaves to no pair.
    pub(crate) fn way(&mut self, packet: &impl Parcel) -> &[LinkId] {
        let ends = self.ends(packet);
        let (topology, most) = (&self.topology, usize::from(self.ways_max));
        let ways = self.ways.entry(ends).or_insert_with(|| {
            let mut found = topology.equal_ways(ends.0, ends.1, most);
            if found.is_empty() {
                found.push(vec![topology.host_up(ends.0), topology.host_down(ends.1)]);
            }
            found.into_iter().map(Vec::into_boxed_slice).collect()
        });
        &ways[usize::from(packet.route()) % ways.len()]
    }

    pub(crate) fn take_down(
        &mut self,
        links: Links,
        from: Time,
        until: Option<Time>,
    ) -> Result<(), String> {
        for link in links.resolve(&self.topology)? {
            self.outages.add(link, from, until);
        }
        self.are_of_interest = true;
        Ok(())
    }

    pub(crate) fn cut_off(&mut self, host: u32, from: Time, until: Time) {
        let host = self.hosts[host as usize];
        for link in [self.topology.host_up(host), self.topology.host_down(host)] {
            self.outages.add(link.0, from, Some(until));
        }
        self.are_of_interest = true;
    }

    pub(crate) fn lose_on(&mut self, links: Links, rate: f64, seed: u64) -> Result<(), String> {
        let count = self.topology.link_count();
        let damage = self.damage.get_or_insert_with(|| Damage::none(count, seed));
        for link in links.resolve(&self.topology)? {
            damage.lose(link, rate);
        }
        self.are_of_interest = true;
        Ok(())
    }

    pub(crate) fn watch(&mut self) {
        self.used.clear();
        self.are_watched = true;
        self.are_of_interest = true;
    }

    pub(crate) const fn link_use(&self) -> &BTreeMap<LinkId, LinkUse> {
        &self.used
    }

    /// Whether a packet that is on its way from one time to another is cut or harmed.
    pub(crate) fn harm(&mut self, packet: &impl Parcel, from: Time, to: Time) -> Option<Loss> {
        let ends = self.ends(packet);
        self.way(packet);
        let Self {
            ways,
            outages,
            damage,
            ..
        } = self;
        let ways = ways.get(&ends)?;
        let way = &ways[usize::from(packet.route()) % ways.len()];
        if outages.cut(parts(way), from, to).is_some() {
            return Some(Loss::Cut);
        }
        let damage = damage.as_mut()?;
        (!damage.lets_pass(way)).then_some(Loss::Harmed)
    }

    /// A packet has crossed its way. `busy` says how long that took of a link, and is told whether
    /// that is the last one.
    pub(crate) fn charge(&mut self, packet: &impl Parcel, busy: impl Fn(LinkId, bool) -> Time) {
        if !self.are_watched {
            return;
        }
        let way: Way = self.way(packet).into();
        let last = way.len() - 1;
        for (place, link) in way.iter().enumerate() {
            let its = self.used.entry(*link).or_default();
            its.packets += 1;
            its.bytes += u64::from(packet.bytes());
            its.busy += busy(*link, place == last);
        }
    }
}

/// Why a packet does not arrive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Loss {
    /// A part of its way was down.
    Cut,
    /// A link lost it.
    Harmed,
}
