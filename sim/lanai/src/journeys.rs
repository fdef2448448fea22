//! The ways of requests that somebody asks for, noted by the interfaces that they meet.
//!
//! ```text
//!  post -> send_one: chosen -> depart, bulk_read: left -> receive_one: arrived -> taken
//! ```
//!
//! A request that is refused or lost leaves again; its way is that of the transmission which came.

use std::collections::BTreeMap;

use viaduct_cluster::interfaces::{Journey, Request};
use viaduct_cluster::operations::{Moments, Part, Role};
use viaduct_engine::Time;

use crate::cluster::{Cluster, Entry, SHORT_BYTES};
use crate::load::{Flight, Links, Load};
use crate::ranks::Ranks;
use crate::work::Work;

/// Of requests under way, by number.
#[derive(Debug, Default)]
pub(crate) struct Journeys(BTreeMap<u32, Noted>);

/// What has been noted of one, and when each of its transmissions left.
#[derive(Debug)]
struct Noted {
    journey: Journey,
    left: Vec<Time>,
}

impl Ranks {
    /// A rank begins to post a request.
    pub(crate) fn tell_posted(&mut self, (from, to): (u32, u32), entry: &Entry) {
        let request = Request {
            number: entry.request.into(),
            from,
            to,
            bytes: entry.bytes,
        };
        if self.operations.request_posted(&request, entry.posted_at) {
            let noted = Noted {
                journey: Journey::NOT_BEGUN,
                left: Vec::new(),
            };
            self.journeys.0.insert(entry.request, noted);
        }
    }

    /// A rank has taken a request.
    pub(crate) fn tell_taken(&mut self, rank: u32, entry: &Entry, moments: &Moments) {
        if !self.operations.tells_requests() {
            return;
        }
        let part = Part::of_word(entry.number);
        let operation = self.operations.graph().operation(part.send());
        let from = match part.role() {
            Role::Clearance => operation.peer,
            _ => self.operations.graph().rank_of(part.send()),
        };
        let request = Request {
            number: entry.request.into(),
            from,
            to: rank,
            bytes: entry.bytes,
        };
        let mut journey = self.journeys.0.remove(&entry.request).map(|it| it.journey);
        if let Some(journey) = &mut journey {
            let (post, [in_frame, _]) = self.processors_alone(entry.bytes);
            // Alone its endpoint is in a frame, and its rank waits for it. Where that is not so, it
            // is cheaper to take.
            let took = moments.taken.saturating_sub(moments.take);
            let reap = (in_frame + self.look_alone()).min(took);
            (journey.alone.post, journey.alone.reap) = (post, reap);
        }
        self.operations
            .request_taken(&request, moments, journey.as_ref());
    }

    /// A message of a rank came back to it.
    pub(crate) fn tell_returned(&mut self, entry: &Entry, now: Time) {
        if !entry.is_reply {
            self.operations.request_returned(entry.request.into(), now);
        }
    }
}

impl<N: Links> Cluster<N> {
    /// What is noted of a message, if that is a request that somebody asks for.
    fn noted(&mut self, index: u32) -> Option<&mut Noted> {
        let entry = self.messages[index].entry;
        let journeys = &mut self.ranks.as_mut()?.journeys;
        journeys
            .0
            .get_mut(&entry.request)
            .filter(|_| !entry.is_reply)
    }

    /// Whether anybody asks for requests.
    #[inline]
    fn notes_journeys(&self) -> bool {
        let ranks = self.ranks.as_ref();
        ranks.is_some_and(|ranks| !ranks.journeys.0.is_empty())
    }

    /// The interface begins to send a message.
    #[inline]
    pub(crate) fn note_chosen(&mut self, index: u32, now: Time) {
        if self.notes_journeys() {
            let bytes = self.messages[index].entry.bytes;
            let works = [Work::Send { bytes }];
            let alone = self.interface_alone(&works, bytes, self.config.host.read_bytes_s);
            if let Some(noted) = self.noted(index) {
                let journey = &mut noted.journey;
                journey.chosen = journey.chosen.min(now);
                journey.alone.sending = alone;
            }
        }
    }

    /// A packet leaves the interface's memory.
    #[inline]
    pub(crate) fn note_left(&mut self, flight: &Flight, at: Time) {
        if self.notes_journeys()
            && let Load::Message(_, Some(index)) | Load::Plain(index) = flight.load
            && self.noted(index).is_some()
        {
            let alone = self.links.alone(flight);
            let way = self.links.way(flight).to_vec();
            if let Some(noted) = self.noted(index) {
                noted.left.push(at);
                noted.journey.way = way;
                noted.journey.alone.network = alone;
            }
        }
    }

    /// A message that may be a new one has come to the interface.
    #[inline]
    pub(crate) fn note_arrived(&mut self, index: u32, came: Time) {
        if self.notes_journeys() {
            let bytes = self.messages[index].entry.bytes;
            let works = [Work::Take, Work::Write { bytes }];
            let alone = self.interface_alone(&works, bytes, self.config.host.write_bytes_s);
            if let Some(noted) = self.noted(index) {
                let before = noted.left.iter().rev().find(|left| **left <= came);
                let journey = &mut noted.journey;
                journey.arrived = came;
                journey.left = before.copied().unwrap_or(came);
                journey.alone.receiving = alone;
            }
        }
    }

    /// What works on a message take an interface, and its way over the bus if it is a long one.
    fn interface_alone(&self, works: &[Work], bytes: u32, bytes_s: f64) -> Time {
        let steps = &self.config.firmware.steps;
        let works = works.iter().map(|work| self.cycles(steps.of(*work)));
        let on_bus = match bytes > SHORT_BYTES {
            true => Time::from_seconds_f64(f64::from(bytes) / bytes_s),
            false => Time::ZERO,
        };
        works.fold(on_bus, |sum, span| sum + span)
    }
}
