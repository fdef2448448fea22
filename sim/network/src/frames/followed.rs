//! The frames of one message, followed through the queues: where its last byte waited.
//!
//! Each frame's times at each place are kept. Afterwards the message's critical path is walked
//! back, from the frame that came last to the moment when the message began. A frame that found a
//! place taken by a frame of its own message waited for that, so the walk goes on with that frame;
//! otherwise with the same frame at the place before. What lies between is what others took, and is
//! charged to the place. What is left are the message's own times on links, cables and switches,
//! which are no longer than those of the message alone.

use std::collections::BTreeMap;

use viaduct_engine::Time;

use super::Frames;
use super::calendar::{Arrival, Kind};
use crate::fluid::{FlowId, ResourceId};

/// What the frames of a message waited for, on the way of its last byte.
#[derive(Clone, Debug, Default)]
pub struct FrameWaits {
    /// At each link and bus that a frame of it crossed.
    pub places: BTreeMap<ResourceId, PlaceWait>,
    /// How long congestion control held its adapter back.
    pub held_back: Time,
    /// Until frames that a full queue had trimmed were sent again.
    pub sent_again: Time,
    /// For messages of the same flow that were sent before it, and came later.
    pub in_order: Time,
}

/// What frames met at one link or bus.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PlaceWait {
    /// How long the last byte was held up there by frames of others, and by pauses.
    pub waited: Time,
    /// How much of that the link paused.
    pub paused: Time,
    /// Frames that crossed it, and those of them that it marked and trimmed.
    pub frames: u32,
    /// See `frames`.
    pub marked: u32,
    /// See `frames`.
    pub trimmed: u32,
}

/// The message that is followed. Times are picoseconds.
#[derive(Debug, Default)]
pub(super) struct Followed {
    passage: u32,
    /// When it began, and when it was handed over.
    begun: u64,
    end: u64,
    first_link: u32,
    source_bus: u32,
    turns: Vec<AdapterTurn>,
    crossings: Vec<Crossing>,
    /// The last crossing of each place, and those of the first link, in order.
    last: BTreeMap<u32, usize>,
    on_first_link: Vec<usize>,
    /// Crossings by when they come to the next place, and when they were sent.
    under_way: BTreeMap<(u64, u64), usize>,
    /// Links that heard that they are to pause or go on.
    pauses: Vec<(u32, u64, bool)>,
}

/// Its adapter has chosen one of its frames.
#[derive(Clone, Copy, Debug)]
struct AdapterTurn {
    /// When pacing let it, when it was chosen, and when it was read over the bus.
    allowed: u64,
    chosen: u64,
    read: u64,
    /// How long after that the adapter can read the next one at the earliest.
    span: u64,
    /// When it was ready for the link.
    ready: u64,
    /// Whether the next one is read while this one leaves.
    reads_ahead: bool,
    is_again: bool,
    /// Whether its flow has a window, so that it was chosen when something had come back.
    has_window: bool,
}

/// A frame at a place.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    place: u32,
    came: u64,
    began: u64,
    ended: u64,
    /// When it comes to the next place.
    goes_on: u64,
    /// When it began on the first link; not known on the last bus.
    sent: Option<u64>,
    /// By which turn of its adapter, and whether it was sent again.
    turn: Option<usize>,
    is_again: bool,
    /// The frame of the same message before it at this place, and the same frame at the place
    /// before.
    in_front: Option<usize>,
    upstream: Option<usize>,
    kind: Kind,
}

impl Frames {
    /// Follows a message that begins now, in place of another.
    pub(crate) fn follow(&mut self, flow: FlowId, now: Time) {
        let passage = &self.passages[flow.0 as usize];
        self.followed = Some(Box::new(Followed {
            passage: flow.0,
            begun: now.picoseconds(),
            first_link: passage.way.first().copied().unwrap_or(u32::MAX),
            source_bus: self.bus_of(passage.parts.source),
            ..Followed::default()
        }));
    }

    /// What the followed message waited for, once it is there.
    pub(crate) fn take_waits(&mut self) -> Option<FrameWaits> {
        self.followed.take().map(|followed| followed.waits())
    }

    /// The followed message, if it is this one.
    pub(super) fn followed(&mut self, id: u32) -> Option<&mut Followed> {
        self.followed.as_deref_mut().filter(|it| it.passage == id)
    }

    /// The number of a host's bus, behind those of the links.
    fn bus_of(&self, host: u32) -> u32 {
        self.outputs.len() as u32 + host
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
            followed.crosses(Crossing {
                came: it.time,
                began: start,
                ended: start + service,
                goes_on,
                sent: Some(it.sent),
                kind,
                ..Crossing::at(it.link)
            });
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
        let Some(followed) = self.followed(id) else {
            return;
        };
        let before = followed.crossings.last().map(|it| it.ended);
        let came = before.unwrap_or(followed.begun);
        self.follow_bus(host, id, kind, (came, on_bus.0, on_bus.1));
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
            followed.turns.push(AdapterTurn {
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
            followed.crosses(Crossing {
                came: ready,
                began,
                ended,
                goes_on: ended,
                kind,
                ..Crossing::at(bus)
            });
        }
    }

    /// A link hears that it is to pause, or to go on.
    pub(super) fn follow_pause(&mut self, link: u32, now: u64, is_paused: bool) {
        if let Some(followed) = &mut self.followed {
            followed.pauses.push((link, now, is_paused));
        }
    }

    /// A message is handed over.
    pub(super) fn follow_end(&mut self, id: u32, end: u64) {
        if let Some(followed) = self.followed(id) {
            followed.end = end;
        }
    }
}

impl Crossing {
    fn at(place: u32) -> Self {
        Self {
            place,
            came: 0,
            began: 0,
            ended: 0,
            goes_on: 0,
            sent: None,
            turn: None,
            is_again: false,
            in_front: None,
            upstream: None,
            kind: Kind::new(false, false),
        }
    }

    /// From when it began there until it came to the next place.
    const fn step(&self) -> u64 {
        self.goes_on.saturating_sub(self.began)
    }
}

impl Followed {
    fn crosses(&mut self, mut it: Crossing) {
        let number = self.crossings.len();
        if it.place == self.first_link {
            let turn = self.on_first_link.len();
            self.on_first_link.push(number);
            if let Some(of_adapter) = self.turns.get(turn) {
                it.came = of_adapter.ready;
                (it.turn, it.is_again) = (Some(turn), of_adapter.is_again);
            }
        } else {
            let sent = it.sent.map_or(0..=u64::MAX, |sent| sent..=sent);
            let keys = (it.came, *sent.start())..=(it.came, *sent.end());
            let key = self.under_way.range(keys).next().map(|(key, _)| *key);
            it.upstream = key.and_then(|key| self.under_way.remove(&key));
            it.is_again = it
                .upstream
                .is_some_and(|upstream| self.crossings[upstream].is_again);
        }
        it.in_front = self.last.insert(it.place, number);
        if let Some(sent) = it.sent {
            self.under_way.insert((it.goes_on, sent), number);
        }
        self.crossings.push(it);
    }

    /// Walks back from the frame that came last.
    fn waits(&self) -> FrameWaits {
        let mut waits = FrameWaits::default();
        for it in &self.crossings {
            let before = it.upstream.map(|upstream| self.crossings[upstream].kind);
            let is_new = |has: fn(Kind) -> bool| has(it.kind) && !before.is_some_and(has);
            let place = waits.at(it.place);
            place.frames += 1;
            place.marked += u32::from(is_new(Kind::is_marked));
            place.trimmed += u32::from(is_new(Kind::is_trimmed));
        }
        let numbers = 0..self.crossings.len();
        let Some(mut at) = numbers.max_by_key(|&number| self.crossings[number].goes_on) else {
            return waits;
        };
        let there = self.crossings[at].goes_on;
        waits.in_order = Time::from_picoseconds(self.end.saturating_sub(there));
        let steps_at_end = self.steps_at_end();
        let mut is_at_end = true;
        loop {
            let it = &self.crossings[at];
            if is_at_end
                && it.is_again
                && let Some(&step) = steps_at_end.get(&it.place)
            {
                // The message alone ends with its last frame, which may be shorter.
                let longer = it.step().saturating_sub(step);
                waits.sent_again += Time::from_picoseconds(longer);
            }
            // A frame of its own message was in its way.
            if let Some(in_front) = it.in_front
                && self.crossings[in_front].ended >= it.came
            {
                let in_front_of_it = &self.crossings[in_front];
                self.charge(&mut waits, it.place, (in_front_of_it.ended, it.began));
                if it.is_again || in_front_of_it.kind.is_trimmed() {
                    // One of the two is more than the message alone has.
                    let own = in_front_of_it.ended - in_front_of_it.began;
                    waits.sent_again += Time::from_picoseconds(own);
                }
                at = in_front;
                is_at_end = false;
                continue;
            }
            self.charge(&mut waits, it.place, (it.came, it.began));
            is_at_end &= it.turn.is_none();
            let earlier = match it.turn {
                Some(turn) => self.before_turn(&mut waits, turn),
                None => it.upstream,
            };
            match earlier {
                Some(earlier) => at = earlier,
                None => return waits,
            }
        }
    }

    /// How long the last frame of the message takes at each place, until it comes to the next.
    fn steps_at_end(&self) -> BTreeMap<u32, u64> {
        let is_whole = |it: &&Crossing| it.kind.is_last() && !it.kind.is_trimmed();
        let of_last = self.crossings.iter().filter(is_whole);
        of_last.map(|it| (it.place, it.step())).collect()
    }

    /// Charges what the turn of an adapter waited for; the frame on the first link that it
    /// followed.
    fn before_turn(&self, waits: &mut FrameWaits, mut number: usize) -> Option<usize> {
        loop {
            let turn = &self.turns[number];
            let before = number.checked_sub(1);
            let on_link = before.and_then(|before| self.on_first_link.get(before).copied());
            // From when on it could have been chosen and read: by the frame before it on the link,
            // or with the adapter; and what that frame costs until then.
            let mut ready = (self.begun, 0);
            let mut is_by_adapter = false;
            if let (Some(before), Some(on_link)) = (before, on_link) {
                let (before, on_link) = (&self.turns[before], &self.crossings[on_link]);
                ready = match before.reads_ahead {
                    true => (on_link.began, turn.ready - turn.read),
                    false => (on_link.ended, on_link.ended - on_link.began),
                };
                is_by_adapter = before.read + before.span > ready.0;
                if is_by_adapter {
                    ready = (before.read + before.span, before.span);
                }
            }
            let on_bus = (turn.chosen.max(ready.0), turn.read);
            self.charge(waits, self.source_bus, on_bus);
            self.charge_turn(waits, turn, ready);
            if !is_by_adapter {
                return on_link;
            }
            number -= 1;
        }
    }

    /// Charges the time from when an adapter could have chosen a frame until it did. A frame that
    /// is sent again costs what it takes, too.
    fn charge_turn(&self, waits: &mut FrameWaits, turn: &AdapterTurn, (ready, own): (u64, u64)) {
        let gap = turn.chosen.saturating_sub(ready);
        if turn.is_again {
            waits.sent_again += Time::from_picoseconds(gap + own);
            return;
        }
        let held_back = match turn.has_window {
            true => gap,
            false => turn.allowed.saturating_sub(ready).min(gap),
        };
        waits.held_back += Time::from_picoseconds(held_back);
        self.charge(waits, self.first_link, (ready + held_back, turn.chosen));
    }

    fn charge(&self, waits: &mut FrameWaits, place: u32, (from, until): (u64, u64)) {
        let paused = self.paused(place, from, until);
        let wait = waits.at(place);
        wait.waited += Time::from_picoseconds(until.saturating_sub(from));
        wait.paused += Time::from_picoseconds(paused);
    }

    /// For how long a link paused between two times.
    fn paused(&self, link: u32, from: u64, until: u64) -> u64 {
        let mut changes = self
            .pauses
            .iter()
            .filter(|change| change.0 == link)
            .peekable();
        // Of a link that goes on first, nobody saw when it was told to pause.
        let goes_on_first = changes.peek().is_some_and(|change| !change.2);
        let mut since = goes_on_first.then_some(0);
        let mut paused = 0;
        let mut add = |begin: u64, end: u64| {
            paused += end.min(until).saturating_sub(begin.max(from));
        };
        for &(_, time, is_paused) in changes {
            match (since, is_paused) {
                (None, true) => since = Some(time),
                (Some(begin), false) => {
                    add(begin, time);
                    since = None;
                }
                _ => {}
            }
        }
        if let Some(begin) = since {
            add(begin, until);
        }
        paused
    }
}

impl FrameWaits {
    fn at(&mut self, place: u32) -> &mut PlaceWait {
        self.places.entry(ResourceId(place)).or_default()
    }
}
