//! What the queues tell of the frames of one message that is followed.

use viaduct_engine::Time;

use super::Frames;
use super::calendar::{Arrival, Kind};
use crate::fluid::FlowId;
use crate::followed::{AdapterTurn, Crossing, Followed, Piece, Waits};

impl Frames {
    /// Follows a message that begins now, in place of another.
    pub(crate) fn follow(&mut self, flow: FlowId, now: Time) {
        let passage = &self.passages[flow.0 as usize];
        let first_link = passage.way.first().copied().unwrap_or(u32::MAX);
        let bus = self.bus_of(passage.parts.source);
        self.followed = Some(Box::new(Followed::new(flow.0, now, first_link, bus)));
    }

    /// What the followed message waited for, once it is there.
    pub(crate) fn take_waits(&mut self) -> Option<Waits> {
        self.followed.take().map(|followed| followed.waits())
    }

    /// The followed message, if it is this one.
    pub(super) fn followed(&mut self, id: u32) -> Option<&mut Followed> {
        self.followed.as_deref_mut().filter(|it| it.is(id))
    }

    /// The number of a host's bus, behind those of the links.
    fn bus_of(&self, host: u32) -> u32 {
        self.outputs.len() as u32 + self.adapters.first_with(host)
    }

    /// A frame has begun on a link, and comes to the next place, or to its target, at a time.
    #[cold]
    pub(super) fn follow_crossing(
        &mut self,
        it: &Arrival,
        kind: Kind,
        (start, service): (u64, u64),
        goes_on: u64,
    ) {
        if let Some(followed) = self.followed(it.passage) {
            let span = (start, start + service);
            let crossing = Crossing::new(it.link, kind.into(), it.time, span, goes_on);
            let key = (it.time, it.sent);
            followed.crosses(crossing, key..=key, Some((goes_on, it.sent)));
        }
    }

    /// A frame has begun on the last link: its first byte comes to its target's adapter at `head`.
    #[cold]
    pub(super) fn follow_arrival(&mut self, it: &Arrival, kind: Kind, head: u64, service: u64) {
        let span = self.passages[it.passage as usize].taken[usize::from(kind.is_last())].span();
        let ready = match kind.is_trimmed() {
            true => head + service,
            false => head + service.saturating_sub(span),
        };
        let start = head - self.cables[it.link].propagation;
        self.follow_crossing(it, kind, (start, service), ready);
    }

    /// A frame that crosses nothing but a host's bus has crossed it.
    #[cold]
    pub(super) fn follow_inside(&mut self, host: u32, id: u32, kind: Kind, on_bus: (u64, u64)) {
        if let Some(followed) = self.followed(id) {
            let came = followed.last_end();
            self.follow_bus(host, id, kind, (came, on_bus.0, on_bus.1));
        }
    }

    /// A host's adapter has chosen a frame, which it reads over the bus, and which comes to its
    /// link.
    #[cold]
    pub(super) fn follow_turn(
        &mut self,
        id: u32,
        (kind, allowed, is_again): (Kind, u64, bool),
        (chosen, read, ready): (u64, u64, u64),
    ) {
        let has_window = self.windows.is_some();
        let own = self.passages[id as usize].own[usize::from(kind.is_last())];
        if let Some(followed) = self.followed(id) {
            followed.takes_turn(AdapterTurn {
                allowed,
                chosen,
                read,
                span: own.span(),
                ready,
                reads_ahead: own.span() > 0,
                is_again,
                has_window,
            });
        }
    }

    /// A frame that was ready at a time has crossed a host's bus, or been with its adapter.
    #[cold]
    pub(super) fn follow_bus(
        &mut self,
        host: u32,
        id: u32,
        kind: Kind,
        (ready, began, ended): (u64, u64, u64),
    ) {
        let bus = self.bus_of(host);
        if let Some(followed) = self.followed(id) {
            let crossing = Crossing::new(bus, kind.into(), ready, (began, ended), ended);
            followed.crosses(crossing, (ready, 0)..=(ready, u64::MAX), None);
        }
    }

    /// A link hears that it is to pause, or to go on.
    pub(super) fn follow_pause(&mut self, link: u32, now: u64, is_paused: bool) {
        if let Some(followed) = &mut self.followed {
            followed.pauses(link, now, is_paused);
        }
    }

    /// A message is handed over.
    pub(super) fn follow_end(&mut self, id: u32, end: u64) {
        if let Some(followed) = self.followed(id) {
            followed.end = end;
        }
    }
}

impl From<Kind> for Piece {
    fn from(kind: Kind) -> Self {
        Self {
            is_last: kind.is_last(),
            is_marked: kind.is_marked(),
            is_trimmed: kind.is_trimmed(),
        }
    }
}
