//! A message on its way through a network of channels.

use super::channel::NONE;
use super::units::{Kind, Left, Units};
use crate::fluid::FlowDemand;
use crate::frames::alone::{Own, Span};
use crate::frames::passage::Crossing;
use crate::rate::{Rate, Switching};

/// No time.
pub(super) const NEVER: u64 = u64::MAX;

/// A message, over what it crosses at once. Times are picoseconds; `NEVER` if not known yet.
#[derive(Debug)]
pub(super) struct Passage {
    pub(super) tag: u32,
    pub(super) is_active: bool,
    /// The host that it goes to.
    pub(super) target: u32,
    /// The channels of its links, by number.
    pub(super) way: Vec<u32>,
    pub(super) has_first_bus: bool,
    pub(super) has_last_bus: bool,
    pub(super) units: Units,
    /// Bytes on the link for each byte on a bus.
    pub(super) scale: f64,
    /// By kind of unit: with the sender's adapter, and with the target's.
    pub(super) own: [Own; 3],
    pub(super) taken: [Own; 3],
    /// When the target's adapter may begin with the next unit.
    pub(super) next_taken: u64,
    /// What the adapter has not sent yet, and when it may send the next one.
    pub(super) left: Left,
    pub(super) next_start: u64,
    /// What is behind it in its flow.
    pub(super) behind: u32,
    /// How long its first byte takes, nobody else there.
    pub(super) lead: u64,
    /// Whether it is to be told that its head is there, and that its sender is done.
    pub(super) owes_head: bool,
    pub(super) owes_gone: bool,
    /// When its head is there; when its last byte has left the sender; when that is there.
    pub(super) head: u64,
    pub(super) gone: u64,
    pub(super) end: u64,
}

impl Passage {
    pub(super) const EMPTY: Self = Self {
        tag: 0,
        is_active: false,
        target: 0,
        way: Vec::new(),
        has_first_bus: false,
        has_last_bus: false,
        units: Units::NONE,
        scale: 1.0,
        own: [Own::NOTHING; 3],
        taken: [Own::NOTHING; 3],
        next_taken: 0,
        left: Left::NOTHING,
        next_start: 0,
        behind: NONE,
        lead: 0,
        owes_head: false,
        owes_gone: false,
        head: NEVER,
        gone: NEVER,
        end: NEVER,
    };

    /// Begins anew with a message of some units; its way is laid by others.
    pub(super) fn begin(
        &mut self,
        crossing: &Crossing<'_>,
        demand: &FlowDemand,
        units: Units,
        alone: Span,
        (bus_rate, switching): (Rate, Switching),
    ) {
        let rate = |has_bus: bool| has_bus.then_some(bus_rate);
        let own = |bytes| Own::of(bytes, demand, rate(crossing.has_first_bus));
        let taken = |bytes| Own::taken(bytes, demand, rate(crossing.has_last_bus), switching);
        let is_sent = !crossing.way.is_empty();
        *self = Self {
            tag: demand.tag,
            is_active: true,
            target: crossing.hosts.1,
            way: core::mem::take(&mut self.way),
            has_first_bus: crossing.has_first_bus,
            has_last_bus: crossing.has_last_bus,
            units,
            scale: demand.scale,
            own: units.bytes.map(own),
            taken: units.bytes.map(taken),
            left: units.all(),
            lead: alone.head,
            owes_head: is_sent && crossing.brings_head,
            owes_gone: is_sent,
            ..Self::EMPTY
        };
    }

    /// Bytes of a unit on the link.
    #[inline]
    pub(super) fn bytes(&self, kind: Kind) -> f64 {
        self.units.bytes[kind.place()]
    }
}
