//! One message, followed through what it crosses: where its last byte waited.
//!
//! Of a message that goes piece by piece (frames, packets, flits) each piece's times at each place
//! are kept. Afterwards the message's critical path is walked
//! back, from the piece that came last to the moment when the message began. A piece that found a
//! place taken by a piece of its own message waited for that, so the walk goes on with that piece;
//! otherwise with the same piece at the place before. What lies between is what others took, and is
//! charged to the place. What is left are the message's own times on links, cables and switches,
//! which are no longer than those of the message alone.

use core::ops::RangeInclusive;
use std::collections::BTreeMap;

use viaduct_engine::Time;

use crate::fluid::ResourceId;

/// What a message waited for, on the way of its last byte.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// At each link and bus that it crossed, or a piece of it.
    pub places: BTreeMap<ResourceId, PlaceWait>,
    /// How long congestion control held its adapter back.
    pub held_back: Time,
    /// Until frames that a full queue had trimmed were sent again.
    pub sent_again: Time,
    /// For messages of the same flow that were sent before it, and came later.
    pub in_order: Time,
}

/// What a message met at one link or bus.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PlaceWait {
    /// How long the last byte was held up there by others.
    pub waited: Time,
    /// For how much of that the link was free and might send nothing: it paused, or there was no
    /// room in the channel at its end.
    pub paused: Time,
    /// Pieces that crossed it, and those of them that it marked and trimmed.
    pub frames: u32,
    /// See `frames`.
    pub marked: u32,
    /// See `frames`.
    pub trimmed: u32,
}

/// The message that is followed. Times are picoseconds.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    passage: u32,
    /// When it began, and when it was handed over.
    begun: u64,
    pub(crate) end: u64,
    first_link: u32,
    source_bus: u32,
    turns: Vec<AdapterTurn>,
    crossings: Vec<Crossing>,
    /// The last crossing of each place, and those of the first link, in order.
    last: BTreeMap<u32, usize>,
    on_first_link: Vec<usize>,
    /// Crossings by what their pieces are found by at the next place.
    under_way: BTreeMap<Key, usize>,
    /// Links that may send nothing from a time on, or may go on.
    pauses: Vec<(u32, u64, bool)>,
}

/// What says which piece it is that comes to a place.
pub(crate) type Key = (u64, u64);

/// Its adapter has chosen one of its pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdapterTurn {
    /// When pacing let it, when it was chosen, and when it was read over the bus.
    pub(crate) allowed: u64,
    pub(crate) chosen: u64,
    pub(crate) read: u64,
    /// How long after that the adapter can read the next one at the earliest.
    pub(crate) span: u64,
    /// When it was ready for the link.
    pub(crate) ready: u64,
    /// Whether the next one is read while this one leaves.
    pub(crate) reads_ahead: bool,
    pub(crate) is_again: bool,
    /// Whether its flow has a window, so that it was chosen when something had come back.
    pub(crate) has_window: bool,
}

/// What is said of a piece where it crosses a place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Piece {
    /// Whether it is the last one of its message.
    pub(crate) is_last: bool,
    pub(crate) is_marked: bool,
    pub(crate) is_trimmed: bool,
}

/// A piece at a place. Times are picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    pub(crate) place: u32,
    /// When it came there; of what comes to the first link its adapter's turn knows it.
    pub(crate) came: u64,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    /// When it comes to the next place.
    pub(crate) goes_on: u64,
    pub(crate) piece: Piece,
    /// By which turn of its adapter, and whether it was sent again.
    turn: Option<usize>,
    is_again: bool,
    /// The piece of the same message before it at this place, and the same piece at the place
    /// before.
    in_front: Option<usize>,
    upstream: Option<usize>,
}

/// A part of the critical path that the message alone may have, too.
#[derive(Clone, Copy, Debug)]
enum Own {
    /// A piece was in the way of another for so long, on a link or with the adapter.
    Service(u64),
    /// So long after it had begun at a place, a piece came to the next one.
    Step(u32, u64),
}

impl Crossing {
    /// At a place, which it has from when until when, and from where it goes on.
    pub(crate) const fn new(
        place: u32,
        piece: Piece,
        came: u64,
        (began, ended): (u64, u64),
        goes_on: u64,
    ) -> Self {
        Self {
            place,
            came,
            began,
            ended,
            goes_on,
            piece,
            turn: None,
            is_again: false,
            in_front: None,
            upstream: None,
        }
    }

    /// From when it began there until it came to the next place.
    const fn step(&self) -> u64 {
        self.goes_on.saturating_sub(self.began)
    }
}

impl Followed {
    /// A message that begins, on some first link, at a time; `source_bus` is its host's.
    pub(crate) fn new(passage: u32, begun: Time, first_link: u32, source_bus: u32) -> Self {
        Self {
            passage,
            begun: begun.picoseconds(),
            first_link,
            source_bus,
            ..Self::default()
        }
    }

    /// Whether it is this one.
    pub(crate) const fn is(&self, passage: u32) -> bool {
        self.passage == passage
    }

    /// The adapter has chosen a piece of it.
    pub(crate) fn takes_turn(&mut self, turn: AdapterTurn) {
        self.turns.push(turn);
    }

    /// A link may send nothing from a time on, or may go on.
    pub(crate) fn pauses(&mut self, link: u32, now: u64, is_paused: bool) {
        self.pauses.push((link, now, is_paused));
    }

    /// When the last crossing so far ended; if there is none, when the message began.
    pub(crate) fn last_end(&self) -> u64 {
        self.crossings.last().map_or(self.begun, |it| it.ended)
    }

    /// A piece crosses a place. It is the first that is known by one of some keys, and will be
    /// known by another.
    pub(crate) fn crosses(
        &mut self,
        mut it: Crossing,
        known_by: RangeInclusive<Key>,
        next: Option<Key>,
    ) {
        let number = self.crossings.len();
        if it.place == self.first_link {
            let turn = self.on_first_link.len();
            self.on_first_link.push(number);
            if let Some(of_adapter) = self.turns.get(turn) {
                it.came = of_adapter.ready;
                (it.turn, it.is_again) = (Some(turn), of_adapter.is_again);
            }
        } else {
            let known = self.under_way.range(known_by).next();
            let key = known.map(|(key, _)| *key);
            it.upstream = key.and_then(|key| self.under_way.remove(&key));
            if let Some(upstream) = it.upstream.map(|upstream| &self.crossings[upstream]) {
                it.is_again = upstream.is_again;
                it.came = upstream.goes_on;
            }
        }
        it.in_front = self.last.insert(it.place, number);
        if let Some(next) = next {
            self.under_way.insert(next, number);
        }
        self.crossings.push(it);
    }

    /// Walks back from the piece that came last.
    pub(crate) fn waits(&self) -> Waits {
        let mut waits = Waits::default();
        for it in &self.crossings {
            let before = it.upstream.map(|upstream| self.crossings[upstream].piece);
            let is_new = |has: fn(Piece) -> bool| has(it.piece) && !before.is_some_and(has);
            let place = waits.at(it.place);
            place.frames += 1;
            place.marked += u32::from(is_new(|piece| piece.is_marked));
            place.trimmed += u32::from(is_new(|piece| piece.is_trimmed));
        }
        let numbers = 0..self.crossings.len();
        let Some(mut at) = numbers.max_by_key(|&number| self.crossings[number].goes_on) else {
            return waits;
        };
        let there = self.crossings[at].goes_on;
        waits.in_order = Time::from_picoseconds(self.end.saturating_sub(there));
        let mut own = Vec::new();
        let mut comes_from_behind = true;
        loop {
            let it = &self.crossings[at];
            if comes_from_behind {
                own.push(Own::Step(it.place, it.step()));
            }
            // A piece of its own message was in its way.
            if let Some(in_front) = it.in_front
                && self.crossings[in_front].ended >= it.came
            {
                let in_front_of_it = &self.crossings[in_front];
                self.charge(&mut waits, it.place, (in_front_of_it.ended, it.began));
                let service = in_front_of_it.ended - in_front_of_it.began;
                if it.is_again || in_front_of_it.piece.is_trimmed {
                    // One of the two is more than the message alone has.
                    waits.sent_again += Time::from_picoseconds(service);
                } else {
                    own.push(Own::Service(service));
                }
                at = in_front;
                comes_from_behind = false;
                continue;
            }
            self.charge(&mut waits, it.place, (it.came, it.began));
            let earlier = match it.turn {
                Some(turn) => self.before_turn((&mut waits, &mut own), turn),
                None => it.upstream,
            };
            comes_from_behind = it.turn.is_none();
            match earlier {
                Some(earlier) => at = earlier,
                None => break,
            }
        }
        waits.sent_again += Time::from_picoseconds(self.overtaken(&own));
        waits
    }

    /// How much longer the message's own times on a path are than on any of the message alone, as
    /// trimmed pieces have overtaken others, or have come again.
    ///
    /// Alone, each piece but the last is in the way of the next one at one place, and from then on
    /// the steps are those of the last piece, which may be shorter. The times are given from the
    /// last to the first.
    fn overtaken(&self, own: &[Own]) -> u64 {
        if !self.crossings.iter().any(|it| it.piece.is_trimmed) {
            return 0;
        }
        let pieces = self.turns.iter().filter(|turn| !turn.is_again).count();
        let is_service = |own: &&Own| matches!(own, Own::Service(_));
        let services = own.iter().filter(is_service).count();
        let mut too_many = (services + 1).saturating_sub(pieces);
        let steps_at_end = self.steps_at_end();
        let mut longer = 0;
        for own in own {
            match own {
                Own::Service(_) if too_many == 0 => break,
                Own::Service(service) => {
                    too_many -= 1;
                    longer += service;
                }
                Own::Step(place, step) => {
                    let at_end = steps_at_end.get(place).unwrap_or(step);
                    longer += step.saturating_sub(*at_end);
                }
            }
        }
        longer
    }

    /// How long the last piece of the message takes at each place, until it comes to the next.
    fn steps_at_end(&self) -> BTreeMap<u32, u64> {
        let is_whole = |it: &&Crossing| it.piece.is_last && !it.piece.is_trimmed;
        let of_last = self.crossings.iter().filter(is_whole);
        of_last.map(|it| (it.place, it.step())).collect()
    }

    /// Charges what the turn of an adapter waited for; the piece on the first link that it
    /// followed.
    fn before_turn(
        &self,
        (waits, own): (&mut Waits, &mut Vec<Own>),
        mut number: usize,
    ) -> Option<usize> {
        loop {
            let turn = &self.turns[number];
            let before = number.checked_sub(1);
            let on_link = before.and_then(|before| self.on_first_link.get(before).copied());
            // From when on it could have been chosen and read: by the piece before it on the link,
            // or with the adapter; and what that piece costs until then.
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
            if !turn.is_again && before.is_some() {
                own.push(Own::Service(ready.1));
            }
            if !is_by_adapter {
                return on_link;
            }
            number -= 1;
        }
    }

    /// Charges the time from when an adapter could have chosen a piece until it did. A piece that
    /// is sent again costs what it takes, too.
    fn charge_turn(&self, waits: &mut Waits, turn: &AdapterTurn, (ready, own): (u64, u64)) {
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

    fn charge(&self, waits: &mut Waits, place: u32, (from, until): (u64, u64)) {
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

impl Waits {
    /// Of a message that queues have served, which would have been over at a time with nobody else
    /// there: when each queue had served it, less how far its head is from the first one there.
    ///
    /// Queues serve a message at the same time. So each is charged with what it took beyond what
    /// the queues before it, or the message alone, had taken already.
    pub(crate) fn of_queues(alone: Time, served: impl Iterator<Item = (ResourceId, Time)>) -> Self {
        let mut waits = Self::default();
        let mut taken = alone;
        for (resource, served) in served {
            waits.at(resource.0).waited += served.saturating_sub(taken);
            taken = taken.max(served);
        }
        waits
    }

    pub(crate) fn at(&mut self, place: u32) -> &mut PlaceWait {
        self.places.entry(ResourceId(place)).or_default()
    }
}
