//! What channels tell of the units of one message that is followed.
//!
//! The units of a packet go one after another over each of its links, and those of a message that
//! keeps to one way do. So a unit is known by its number among those that crossed the same place.

use std::collections::{BTreeMap, BTreeSet};

use viaduct_engine::Time;

use super::Credits;
use super::channel::NONE;
use super::units::Kind;
use crate::fluid::FlowId;
use crate::followed::{AdapterTurn, Crossing, Followed, Key, Piece, Waits};

/// A message that is followed.
#[derive(Debug)]
pub(super) struct FollowedUnits {
    followed: Followed,
    /// How many units of a packet have crossed a place of its way.
    crossed: BTreeMap<(u32, u16), u32>,
    /// How many have come to the target, and have crossed its bus.
    came: u64,
    taken: u64,
    /// Links that are free while it waits for room in a channel at their end.
    awaited: BTreeSet<u32>,
}

impl Credits {
    /// Follows a message of a host that begins now, in place of another.
    pub(crate) fn follow(&mut self, flow: FlowId, host: u32, now: Time) {
        let first = self.passages[flow.0 as usize].way.first();
        let first_link = first.map_or(NONE, |&channel| self.channels[channel as usize].link);
        let bus = self.bus_of(host);
        self.followed = Some(Box::new(FollowedUnits {
            followed: Followed::new(flow.0, now, first_link, bus),
            crossed: BTreeMap::new(),
            came: 0,
            taken: 0,
            awaited: BTreeSet::new(),
        }));
    }

    /// What the followed message waited for, once it is there.
    pub(crate) fn take_waits(&mut self) -> Option<Waits> {
        self.followed.take().map(|it| it.followed.waits())
    }

    /// The number of a host's bus, behind those of the links.
    fn bus_of(&self, host: u32) -> u32 {
        self.links.len() as u32 + self.adapters.first_with(host)
    }

    /// A host's adapter has chosen a unit, which it reads over the bus, and which comes to its
    /// link.
    #[cold]
    pub(super) fn follow_turn(
        &mut self,
        id: u32,
        (kind, allowed): (Kind, u64),
        (chosen, read, ready): (u64, u64, u64),
    ) {
        let span = self.passages[id as usize].own[kind.place()].span();
        if let Some(it) = self.followed.as_mut().filter(|it| it.followed.is(id)) {
            it.followed.takes_turn(AdapterTurn {
                allowed,
                chosen,
                read,
                span,
                ready,
                reads_ahead: span > 0,
                is_again: false,
                has_window: false,
            });
        }
    }

    /// A unit has begun on a link, and may go on from the switch behind it from a time on; none if
    /// it comes to its target.
    #[cold]
    pub(super) fn follow_unit(
        &mut self,
        (id, packet, kind): (u32, u32, Kind),
        place: u16,
        (link, start, service): (u32, u64, u64),
        goes_on: Option<u64>,
    ) {
        let head = start + self.links[link as usize].crossing;
        let span = self.passages[id as usize].taken[kind.place()].span();
        let Some(it) = &mut self.followed else {
            return;
        };
        if it.awaited.remove(&link) {
            it.followed.pauses(link, start, false);
        }
        if !it.followed.is(id) {
            return;
        }
        let number = it.crossed.entry((packet, place)).or_default();
        let unit = u64::from(packet) << 32 | u64::from(*number);
        *number += 1;
        let key = (u64::from(place), unit);
        let (goes_on, next) = match goes_on {
            Some(time) => (time, (u64::from(place) + 1, unit)),
            None => {
                it.came += 1;
                (head + service.saturating_sub(span), at_target(it.came))
            }
        };
        let span = (start, start + service);
        let crossing = Crossing::new(link, kind.into(), start, span, goes_on);
        it.followed.crosses(crossing, key..=key, Some(next));
    }

    /// A unit that was ready at a time has crossed its target's bus, or been with its adapter.
    #[cold]
    pub(super) fn follow_bus(
        &mut self,
        host: u32,
        (id, kind): (u32, Kind),
        (ready, ended): (u64, u64),
    ) {
        let bus = self.bus_of(host);
        let span = self.passages[id as usize].taken[kind.place()].span();
        if let Some(it) = self.followed.as_mut().filter(|it| it.followed.is(id)) {
            it.taken += 1;
            let key = at_target(it.taken);
            let crossing = Crossing::new(bus, kind.into(), ready, (ended - span, ended), ended);
            it.followed.crosses(crossing, key..=key, None);
        }
    }

    /// A unit that crosses nothing but a host's bus begins to.
    #[cold]
    pub(super) fn follow_inside(&mut self, host: u32, (id, kind): (u32, Kind), begin: u64) {
        let bus = self.bus_of(host);
        let end = begin + self.passages[id as usize].own[kind.place()].span();
        if let Some(it) = self.followed.as_mut().filter(|it| it.followed.is(id)) {
            let came = it.followed.last_end();
            let crossing = Crossing::new(bus, kind.into(), came, (begin, end), end);
            let nowhere = at_target(0);
            it.followed.crosses(crossing, nowhere..=nowhere, None);
        }
    }

    /// A unit of a message finds no room at the end of a link that is free.
    #[cold]
    pub(super) fn follow_want(&mut self, id: u32, link: u32, now: u64) {
        if let Some(it) = self.followed.as_mut().filter(|it| it.followed.is(id))
            && it.awaited.insert(link)
        {
            it.followed.pauses(link, now, true);
        }
    }
}

/// What the unit that comes to the target as so manieth is known by.
fn at_target(number: u64) -> Key {
    (u64::MAX, number)
}

impl From<Kind> for Piece {
    fn from(kind: Kind) -> Self {
        Self {
            is_last: kind == Kind::MessageEnd,
            ..Self::default()
        }
    }
}
