//! One VI between two processes: a window of messages, and how they ended.
//!
//! Each end posts enough receives that nothing the rules allow finds none: a window of counted
//! messages, as many acknowledgements (each covers at least one counted message that the other had
//! not seen covered), and the two about the end. A peer that sends more breaks its connection.

use std::collections::VecDeque;
use std::time::Instant;

use viaduct_provider::{Buffer, CompletionError, Provider, Received, Vi};

use crate::payload::SendPool;
use crate::peers::Frame;
use crate::wire::{self, HEADER_BYTES, Header, Kind, Verdict, WINDOW};

/// Receives that an end has posted, and sends that may be posted.
pub(crate) const DEPTH: u32 = 2 * WINDOW + 8;
/// Of these, receives that need not be posted at every moment.
const UNPOSTED_MAX: usize = 4;

/// The connection is of no use any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Broken;

pub(crate) struct Connection<P: Provider> {
    pub(crate) vi: Vi<P>,
    pub(crate) peer: u32,
    pub(crate) is_open: bool,

    /// What the VI has: how long, and whether it is counted.
    in_flight: VecDeque<(u32, bool)>,
    /// Counted messages that the VI gave back, the oldest first.
    retained: VecDeque<Frame>,
    /// Verdicts on the oldest of `retained` and `in_flight`.
    settled: VecDeque<Verdict>,
    /// How many of them say no.
    refused_count: u32,
    sent: u32,
    acknowledged: u32,

    /// Counted messages of the peer that have a verdict.
    decided: u32,
    reported: u32,
    verdicts: [u8; WINDOW as usize],
    has_refusal: bool,
    /// Whether it stands in the list of those that owe an acknowledgement.
    pub(crate) is_listed: bool,

    /// This end wants to close, and sends no counted message.
    pub(crate) has_asked: bool,
    /// The other end does.
    pub(crate) peer_asked: bool,
    /// This end has said that all is acknowledged.
    pub(crate) has_agreed: bool,
    /// Since when it is on its way out, where threads of the system run it.
    pub(crate) resting_since: Option<Instant>,

    /// Buffers that are to be posted again when there is time, at most [`UNPOSTED_MAX`].
    unposted: Vec<Buffer>,
    /// Whether it stands in the list of those with something to do when there is time.
    pub(crate) has_chores: bool,

    pub(crate) used_last: u64,
    pub(crate) is_referenced: bool,
}

impl<P: Provider> Connection<P> {
    pub(crate) fn new(vi: Vi<P>, peer: u32) -> Self {
        Self {
            vi,
            peer,
            is_open: false,
            in_flight: VecDeque::new(),
            retained: VecDeque::new(),
            settled: VecDeque::new(),
            refused_count: 0,
            sent: 0,
            acknowledged: 0,
            decided: 0,
            reported: 0,
            verdicts: [0; WINDOW as usize],
            has_refusal: false,
            is_listed: false,
            has_asked: false,
            peer_asked: false,
            has_agreed: false,
            resting_since: None,
            unposted: Vec::with_capacity(UNPOSTED_MAX),
            has_chores: false,
            used_last: 0,
            is_referenced: true,
        }
    }

    /// Whether it is on its way out.
    pub(crate) const fn is_resting(&self) -> bool {
        self.has_asked || self.peer_asked
    }

    /// Whether a counted message can go now.
    #[inline]
    pub(crate) const fn has_room(&self) -> bool {
        self.is_open && !self.is_resting() && self.outstanding() < WINDOW
    }

    /// Counted messages without an acknowledgement.
    #[inline]
    pub(crate) const fn outstanding(&self) -> u32 {
        self.sent.wrapping_sub(self.acknowledged)
    }

    /// Counted messages of the peer that it does not know the verdict on.
    #[inline]
    pub(crate) const fn owed(&self) -> u32 {
        self.decided.wrapping_sub(self.reported)
    }

    /// Whether the peer waits for a verdict that only an acknowledgement of its own can bring.
    pub(crate) const fn must_acknowledge(&self) -> bool {
        self.has_refusal || self.owed() >= WINDOW / 2 || (self.is_resting() && self.owed() > 0)
    }

    /// Posts a counted message. The caller has seen that there is room.
    ///
    /// # Errors
    ///
    /// [`Broken`], with the message among what [`Connection::remains`] has.
    #[inline]
    pub(crate) fn send(&mut self, mut frame: Frame, pool: &mut SendPool) -> Result<(), Broken> {
        wire::set_acknowledged(&mut frame.buffer, self.decided);
        self.sent = self.sent.wrapping_add(1);
        self.reported = self.decided;
        self.post(frame, true, pool)
    }

    /// Posts a message that is not counted, in a buffer that has room for it.
    pub(crate) fn send_control(
        &mut self,
        kind: Kind,
        mut buffer: Buffer,
        pool: &mut SendPool,
    ) -> Result<(), Broken> {
        let header = Header {
            acknowledged: self.decided,
            ..Header::control(kind)
        };
        let mut length = header.emit(None, &mut buffer);
        if self.has_refusal {
            // Only an acknowledgement has room for verdicts: one is sent before anything else.
            debug_assert_eq!(kind, Kind::Acknowledgement);
            length = HEADER_BYTES + self.verdicts.len();
            buffer[HEADER_BYTES..length].copy_from_slice(&self.verdicts);
            self.has_refusal = false;
            self.verdicts = [0; WINDOW as usize];
        }
        self.reported = self.decided;
        let length = length as u32;
        self.post(Frame { buffer, length }, false, pool)
    }

    pub(crate) const fn has_refusal(&self) -> bool {
        self.has_refusal
    }

    fn post(&mut self, frame: Frame, is_counted: bool, pool: &mut SendPool) -> Result<(), Broken> {
        // Completions are taken when they are many: each look costs.
        if self.in_flight.len() > WINDOW as usize {
            self.reap(pool)?;
        }
        let Frame { buffer, length } = frame;
        match self.vi.post_send(buffer, length as usize) {
            Ok(()) => {
                self.in_flight.push_back((length, is_counted));
                Ok(())
            }
            Err(refused) => {
                if is_counted {
                    // Behind all that the VI has: they are fetched before.
                    self.take_down();
                    self.reap_all(pool);
                    let buffer = refused.buffer;
                    self.retained.push_back(Frame { buffer, length });
                }
                Err(Broken)
            }
        }
    }

    /// Takes what the VI has sent.
    pub(crate) fn reap(&mut self, pool: &mut SendPool) -> Result<(), Broken> {
        let outcome = loop {
            let (buffer, is_broken) = match self.vi.try_sent() {
                Ok(Some(sent)) => (sent.buffer, false),
                Ok(None) | Err(CompletionError::NothingPosted) => break Ok(()),
                Err(CompletionError::Failed { buffer, .. }) => (buffer, true),
                Err(_) => break Err(Broken),
            };
            match self.in_flight.pop_front() {
                Some((length, true)) => self.retained.push_back(Frame { buffer, length }),
                Some((_, false)) | None => pool.put(buffer),
            }
            if is_broken {
                break Err(Broken);
            }
        };
        // What was accepted needs no copy any more.
        while self.settled.front() == Some(&Verdict::Accepted)
            && let Some(frame) = self.retained.pop_front()
        {
            self.settled.pop_front();
            pool.put(frame.buffer);
        }
        outcome
    }

    fn reap_all(&mut self, pool: &mut SendPool) {
        // Every failed one ends a call.
        for _ in 0..=DEPTH {
            if self.in_flight.is_empty() || self.reap(pool).is_ok() {
                break;
            }
        }
    }

    /// Takes the peer's word on this end's messages, up to the count `acknowledged`.
    ///
    /// # Errors
    ///
    /// [`Broken`] for a count of messages that were not sent, or a verdict that is none.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        acknowledged: u32,
        verdicts: Option<&[u8; WINDOW as usize]>,
    ) -> Result<(), Broken> {
        if acknowledged.wrapping_sub(self.acknowledged) > self.outstanding() {
            return Err(Broken);
        }
        while self.acknowledged != acknowledged {
            let number = verdicts.map_or(0, |verdicts| verdicts[place(self.acknowledged)]);
            let verdict = Verdict::of(number).ok_or(Broken)?;
            self.refused_count += u32::from(verdict != Verdict::Accepted);
            self.settled.push_back(verdict);
            self.acknowledged = self.acknowledged.wrapping_add(1);
        }
        Ok(())
    }

    /// The next message that was not accepted, and its verdict.
    pub(crate) fn next_refused(
        &mut self,
        pool: &mut SendPool,
    ) -> Result<Option<(Frame, Verdict)>, Broken> {
        if self.refused_count == 0 {
            return Ok(None);
        }
        self.reap(pool)?;
        if self.settled.is_empty() || self.retained.is_empty() {
            return Ok(None);
        }
        // `reap` leaves one that says no in front.
        self.refused_count -= 1;
        Ok(self.retained.pop_front().zip(self.settled.pop_front()))
    }

    /// Whether messages that were refused have not come back from the VI yet.
    pub(crate) const fn has_unreturned(&self) -> bool {
        self.refused_count > 0
    }

    /// Notes the verdict on the next counted message of the peer.
    ///
    /// # Errors
    ///
    /// [`Broken`] for more messages than a window.
    #[inline]
    pub(crate) fn decide(&mut self, verdict: Verdict) -> Result<(), Broken> {
        if self.owed() >= WINDOW {
            return Err(Broken);
        }
        if verdict != Verdict::Accepted {
            self.verdicts[place(self.decided)] = verdict.number();
            self.has_refusal = true;
        }
        self.decided = self.decided.wrapping_add(1);
        Ok(())
    }

    /// The next message, if it is there.
    #[inline]
    pub(crate) fn receive(&mut self) -> Result<Option<Received>, Broken> {
        match self.vi.try_receive() {
            Ok(received) => Ok(received),
            Err(_) => Err(Broken),
        }
    }

    /// Offers a buffer to the next message.
    #[inline]
    pub(crate) fn offer(&mut self, buffer: Buffer) -> Result<(), Broken> {
        self.vi.post_receive(buffer).map_err(|_| Broken)
    }

    /// Offers a buffer again, soon: it costs less when nobody waits for an answer.
    #[inline]
    pub(crate) fn offer_later(&mut self, buffer: Buffer) -> Result<(), Broken> {
        if self.unposted.len() == UNPOSTED_MAX {
            return self.offer(buffer);
        }
        self.unposted.push(buffer);
        Ok(())
    }

    /// Does what was left for when there is time.
    pub(crate) fn do_chores(&mut self, pool: &mut SendPool) -> Result<(), Broken> {
        while let Some(buffer) = self.unposted.pop() {
            self.offer(buffer)?;
        }
        self.reap(pool)
    }

    fn take_down(&mut self) {
        // Whatever it says: what is posted comes back, or stays with the VI.
        let _ = self.vi.disconnect();
    }

    /// Ends it: the messages that have no verdict, or one that says no.
    pub(crate) fn remains(mut self, pool: &mut SendPool) -> Vec<(Frame, Option<Verdict>)> {
        self.take_down();
        self.reap_all(pool);
        let mut remains = Vec::new();
        for frame in self.retained.drain(..) {
            match self.settled.pop_front() {
                Some(Verdict::Accepted) => pool.put(frame.buffer),
                verdict => remains.push((frame, verdict)),
            }
        }
        remains
    }
}

/// Where the verdict on a message stands.
const fn place(sequence: u32) -> usize {
    (sequence % WINDOW) as usize
}
