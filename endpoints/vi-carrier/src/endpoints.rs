//! The endpoints of a station: what they let in, and what waits in them.

use std::collections::VecDeque;

use viaduct_am::{Admission, Arrival, Content, ContentBody, Phase, Readiness, Reason};

use crate::payload::Payload;
use crate::station::ReturnPath;
use crate::wire::{Packet, Verdict, WireBody};

/// A request that has no reply yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outstanding {
    pub(crate) tag: u32,
    pub(crate) peer: u32,
    pub(crate) context: u32,
}

pub(crate) type Taken = Arrival<Payload, ReturnPath>;

#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) path: ReturnPath,
    pub(crate) content: Content<Payload>,
}

/// One endpoint. Queues take memory when they are first used.
#[derive(Debug)]
pub(crate) struct EndpointSlot {
    /// Which life of this index; from 1.
    pub(crate) generation: u32,
    pub(crate) is_live: bool,
    pub(crate) admission: Admission,
    /// As they are taken: another shape would be one more copy.
    requests: VecDeque<Taken>,
    answers: VecDeque<Taken>,
    returned_count: u32,
    outstanding: VecDeque<Outstanding>,
    /// Goes on through all lives: what comes late for an earlier one finds nothing.
    tag_next: u32,
    /// Other processes that were told that the queue is full.
    pub(crate) waiting_peers: Vec<u32>,
    pub(crate) group: Option<(u32, u32)>,
    pub(crate) is_queued_in_group: bool,
    /// Where the last offer found no room.
    pub(crate) refused: Option<Refused>,
}

/// Where an offer found no room.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refused {
    /// On the way to this process.
    Peer(u32),
    /// At this endpoint of the own process.
    Local(u32),
}

impl EndpointSlot {
    pub(crate) fn new(admission: Admission) -> Self {
        Self {
            generation: 1,
            is_live: true,
            admission,
            requests: VecDeque::new(),
            answers: VecDeque::new(),
            returned_count: 0,
            outstanding: VecDeque::new(),
            tag_next: 0,
            waiting_peers: Vec::new(),
            group: None,
            is_queued_in_group: false,
            refused: None,
        }
    }

    /// The same index, for another endpoint. The caller has seen that a generation is left.
    pub(crate) fn begin_again(&mut self, admission: Admission) {
        let (generation, tag_next) = (self.generation + 1, self.tag_next);
        *self = Self {
            generation,
            tag_next,
            ..Self::new(admission)
        };
    }

    /// Ends its life; the requests that nobody will handle.
    pub(crate) fn end(&mut self) -> Vec<Queued> {
        self.is_live = false;
        self.answers = VecDeque::new();
        self.outstanding = VecDeque::new();
        self.returned_count = 0;
        self.group = None;
        let requests = std::mem::take(&mut self.requests);
        let queued = requests.into_iter().filter_map(|each| match each {
            Arrival::Request { path, content } => Some(Queued { path, content }),
            Arrival::Reply { .. } | Arrival::Returned { .. } => None,
        });
        queued.collect()
    }

    /// What happens to a request; it is not taken in yet.
    #[inline]
    pub(crate) fn judge(&self, generation: u32, key: u64, packet: &Packet) -> Verdict {
        if generation == 0 || generation > self.generation {
            return Verdict::Refused(Reason::NoSuchEndpoint);
        }
        if generation < self.generation || !self.is_live {
            return Verdict::Refused(Reason::EndpointFreed);
        }
        if key != self.admission.key.0 {
            return Verdict::Refused(Reason::WrongKey);
        }
        if !self.admission.request_handlers.contains(packet.handler) {
            return Verdict::Refused(Reason::NoSuchHandler);
        }
        if !self.fits_segment(packet.body) {
            return Verdict::Refused(Reason::OutsideSegment);
        }
        if !self.has_room() {
            return Verdict::Busy;
        }
        Verdict::Accepted
    }

    /// What happens to a reply to one of this endpoint's requests.
    pub(crate) fn judge_reply(&self, packet: &Packet) -> Verdict {
        if !self.admission.reply_handlers.contains(packet.handler) {
            Verdict::Refused(Reason::NoSuchHandler)
        } else if !self.fits_segment(packet.body) {
            Verdict::Refused(Reason::OutsideSegment)
        } else {
            Verdict::Accepted
        }
    }

    fn fits_segment(&self, body: WireBody) -> bool {
        match body {
            WireBody::Bulk { offset, .. } => offset
                .checked_add(body.bytes())
                .is_some_and(|end| end <= self.admission.segment_bytes),
            WireBody::Short | WireBody::Medium { .. } => true,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.requests.len() < self.admission.request_entries as usize
    }

    /// Whether so little waits that others may send again.
    pub(crate) fn is_half_empty(&self) -> bool {
        self.requests.len() <= self.admission.request_entries as usize / 2
    }

    #[inline]
    pub(crate) fn push_request(&mut self, path: ReturnPath, content: Content<Payload>) {
        self.requests.push_back(Arrival::Request { path, content });
    }

    #[inline]
    pub(crate) fn push_answer(&mut self, answer: Taken) {
        self.returned_count += u32::from(matches!(answer, Arrival::Returned { .. }));
        self.answers.push_back(answer);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Taken> {
        if let Some(answer) = self.answers.pop_front() {
            self.returned_count -= u32::from(matches!(answer, Arrival::Returned { .. }));
            return Some(answer);
        }
        self.requests.pop_front()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.requests.is_empty()
    }

    /// All but the room, which others know.
    pub(crate) fn look(&self) -> Readiness {
        Readiness {
            request: !self.requests.is_empty(),
            reply: self.answers.len() > self.returned_count as usize,
            returned: self.returned_count > 0,
            room: false,
        }
    }

    /// The tag of a request to `peer`.
    #[inline]
    pub(crate) fn begin_request(&mut self, peer: u32, context: u32) -> u32 {
        let tag = self.tag_next;
        self.tag_next = tag.wrapping_add(1);
        self.outstanding
            .push_back(Outstanding { tag, peer, context });
        tag
    }

    /// Ends the request of this tag, if it was sent to `peer` and has not ended; its context.
    #[inline]
    pub(crate) fn end_request(&mut self, tag: u32, peer: u32) -> Option<u32> {
        let is_it = |each: &Outstanding| each.tag == tag && each.peer == peer;
        // Replies come in order, mostly.
        let position = self.outstanding.iter().position(is_it)?;
        let ended = self.outstanding.remove(position)?;
        Some(ended.context)
    }

    /// Who its messages went to, or who waits to hear of it.
    pub(crate) fn peers(&self) -> impl Iterator<Item = u32> {
        let outstanding = self.outstanding.iter().map(|each| each.peer);
        let refused = match self.refused {
            Some(Refused::Peer(peer)) => Some(peer),
            Some(Refused::Local(_)) | None => None,
        };
        let waiting = self.waiting_peers.iter().copied();
        outstanding.chain(waiting).chain(refused)
    }

    /// Ends all requests to `peer` that `is_kept` does not hold for.
    pub(crate) fn end_all(&mut self, peer: u32, is_kept: impl Fn(u32) -> bool) -> Vec<u32> {
        if self.outstanding.is_empty() {
            return Vec::new();
        }
        let mut contexts = Vec::new();
        self.outstanding.retain(|each| {
            let stays = each.peer != peer || is_kept(each.tag);
            if !stays {
                contexts.push(each.context);
            }
            stays
        });
        contexts
    }

    pub(crate) fn return_request(
        &mut self,
        context: u32,
        reason: Reason,
        content: Option<Content<Payload>>,
    ) {
        self.push_answer(Arrival::Returned {
            context,
            phase: Phase::Request,
            reason,
            content,
        });
    }
}

/// A message for its handler, around its payload.
#[inline]
pub(crate) fn content(
    packet: &Packet,
    payload: impl FnOnce(u32, u32) -> Payload,
) -> Content<Payload> {
    Content {
        handler: packet.handler,
        words: packet.words,
        body: match packet.body {
            WireBody::Short => ContentBody::Short,
            WireBody::Medium { first, end } => ContentBody::Medium(payload(first, end)),
            WireBody::Bulk { offset, first, end } => ContentBody::Bulk {
                offset,
                bytes: payload(first, end),
            },
        },
    }
}
