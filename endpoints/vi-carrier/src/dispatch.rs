//! What arrives: to which endpoint, and what the connections have to say in return.

use std::time::Instant;

use viaduct_am::{Arrival, Reason};
use viaduct_provider::{CompletionEntry, Provider, Received};

use crate::connection::{Broken, Connection};
use crate::endpoints::content;
use crate::payload::Payload;
use crate::peers::UNSENT_MAX;
use crate::state::StationState;
use crate::station::ReturnPath;
use crate::wire::{self, HEADER_BYTES, Kind, NO_MESSAGE, Packet, Verdict, WINDOW, WireBody};

/// Completions that one look takes.
const BATCH: usize = 64;
/// Looks after one in vain, before the lock is given back: a message that is just arriving is seen
/// sooner.
const LOOKS: u32 = 2;
/// Looks in vain after which acknowledgements are sent that no message carries.
const IDLE_LOOKS: u32 = 256;

/// How a connection goes on after a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum After {
    Goes,
    /// All is acknowledged, both ways: close it.
    Rested,
}

impl<P: Provider> StationState<P> {
    /// Takes what has arrived, until there is enough.
    #[inline]
    pub(crate) fn progress(&mut self, is_enough: impl Fn(&Self) -> bool) {
        let mut taken = 0;
        let mut looks_left = LOOKS;
        while taken < BATCH {
            match self.completions.try_next() {
                Ok(Some(entry)) => {
                    self.completed(entry);
                    taken += 1;
                    looks_left = 0;
                    if is_enough(self) {
                        break;
                    }
                }
                _ if looks_left > 0 => looks_left -= 1,
                _ => break,
            }
        }
        if taken == 0 {
            if !self.chores.is_empty() {
                self.do_chores();
            }
            self.idle += 1;
            if self.idle >= IDLE_LOOKS {
                self.idle = 0;
                self.acknowledge_all();
                self.settle_late();
            }
        } else {
            self.idle = 0;
        }
        self.follow();
    }

    /// Does what sends and arrivals have left to do.
    #[inline]
    pub(crate) fn follow(&mut self) {
        while let Some(peer) = self.dirty.pop() {
            let its = &self.peers[peer as usize];
            match its.connection {
                Some(index) => self.with_connection(index, |state, connection| {
                    state.transmit(index, connection)?;
                    Ok(After::Goes)
                }),
                None if its.pending.is_empty() => {}
                None => self.want(peer),
            }
        }
    }

    fn do_chores(&mut self) {
        while let Some(index) = self.chores.pop() {
            self.with_connection(index, |state, connection| {
                connection.has_chores = false;
                connection.do_chores(&mut state.pool)?;
                Ok(After::Goes)
            });
        }
    }

    /// Sends every acknowledgement that is owed.
    pub(crate) fn acknowledge_all(&mut self) {
        for index in std::mem::take(&mut self.owing) {
            self.with_connection(index, |state, connection| {
                connection.is_listed = false;
                if connection.owed() > 0 {
                    state.acknowledge(connection)?;
                }
                Ok(After::Goes)
            });
        }
    }

    /// Has a connection brought to rest.
    pub(crate) fn ask_to_rest(&mut self, index: usize) {
        self.with_connection(index, |state, connection| {
            if connection.has_refusal() {
                state.acknowledge(connection)?;
            }
            let buffer = state.pool.take(&state.nic, false).map_err(|_| Broken)?;
            connection.has_asked = true;
            state.note_rest(connection);
            connection.send_control(Kind::Rest, buffer, &mut state.pool)?;
            Ok(After::Goes)
        });
    }

    /// Notes when a connection began to rest. On simulated hosts there is no such clock, and nobody
    /// who does not keep the rules.
    #[cold]
    fn note_rest(&self, connection: &mut Connection<P>) {
        if self.has_threads {
            connection.resting_since.get_or_insert_with(Instant::now);
        }
    }

    /// One descriptor of a VI has completed.
    #[inline]
    pub(crate) fn completed(&mut self, entry: CompletionEntry) {
        // A VI that is gone leaves entries.
        if let Some(index) = self.by_vi.get(&entry.vi).copied() {
            self.with_connection(index, |state, connection| {
                let Some(received) = connection.receive()? else {
                    return Ok(After::Goes);
                };
                if !connection.has_chores {
                    connection.has_chores = true;
                    state.chores.push(index);
                }
                let after = state.dispatch(connection, received)?;
                if after == After::Goes {
                    state.transmit(index, connection)?;
                }
                Ok(after)
            });
        }
    }

    /// Works on a connection that is out of its table meanwhile, and ends it if it broke.
    #[inline]
    fn with_connection(
        &mut self,
        index: usize,
        work: impl FnOnce(&mut Self, &mut Connection<P>) -> Result<After, Broken>,
    ) {
        let Some(mut connection) = self.connections.get_mut(index).and_then(Option::take) else {
            return;
        };
        let outcome = work(self, &mut connection);
        self.connections[index] = Some(connection);
        match outcome {
            Ok(After::Goes) => {}
            Ok(After::Rested) => self.close(index, true),
            Err(Broken) => self.close(index, false),
        }
    }

    fn acknowledge(&mut self, connection: &mut Connection<P>) -> Result<(), Broken> {
        let buffer = self.pool.take(&self.nic, false).map_err(|_| Broken)?;
        connection.send_control(Kind::Acknowledgement, buffer, &mut self.pool)
    }

    /// Sends what a connection has to send.
    #[inline]
    fn transmit(&mut self, index: usize, connection: &mut Connection<P>) -> Result<(), Broken> {
        if !connection.is_open {
            return Ok(());
        }
        let peer = connection.peer as usize;
        if connection.must_acknowledge() {
            self.acknowledge(connection)?;
        }
        if !self.peers[peer].pending.is_empty() {
            self.send_pending(connection)?;
        }
        if connection.peer_asked
            && !connection.has_agreed
            && connection.outstanding() == 0
            && !connection.has_unreturned()
        {
            let buffer = self.pool.take(&self.nic, false).map_err(|_| Broken)?;
            connection.send_control(Kind::AtRest, buffer, &mut self.pool)?;
            connection.has_agreed = true;
        }
        if connection.owed() > 0 && !connection.is_listed {
            connection.is_listed = true;
            self.owing.push(index);
        }
        Ok(())
    }

    fn send_pending(&mut self, connection: &mut Connection<P>) -> Result<(), Broken> {
        let peer = connection.peer as usize;
        while connection.has_room()
            && let Some(frame) = self.peers[peer].pending.pop_front()
        {
            let header = frame.packet().map(|packet| packet.header);
            if let Some(header) = header
                && header.kind == Kind::Request
                && let Some(parked) = self.peers[peer].parked.get_mut(&header.target)
            {
                parked.push_back(frame);
                continue;
            }
            connection.send(frame, &mut self.pool)?;
        }
        if !self.peers[peer].put_off.is_empty() && self.peers[peer].pending.len() <= UNSENT_MAX / 2
        {
            for slot in std::mem::take(&mut self.peers[peer].put_off) {
                self.tell_ready(slot, connection.peer);
            }
        }
        if self.peers[peer].has_refused && self.peers[peer].has_room() {
            self.peers[peer].has_refused = false;
            self.waiters.wake_all();
        }
        Ok(())
    }

    /// Reads one message, and takes it in.
    #[inline]
    fn dispatch(
        &mut self,
        connection: &mut Connection<P>,
        received: Received,
    ) -> Result<After, Broken> {
        let length = received.data().len();
        let Received { buffer, .. } = received;
        let mut packet = Packet::EMPTY;
        if !wire::parse_into(&buffer[..length], &mut packet) {
            return Err(Broken);
        }
        let kind = packet.header.kind;
        self.now += 1;
        connection.used_last = self.now;
        connection.is_referenced = true;

        let verdicts = (kind == Kind::Acknowledgement)
            .then(|| buffer[..length].get(HEADER_BYTES..))
            .flatten()
            .and_then(|bytes| bytes.first_chunk::<{ WINDOW as usize }>());
        connection.settle(packet.header.acknowledged, verdicts)?;
        self.take_refused(connection)?;

        // A buffer with a payload stays with its message, if that is taken in.
        let (buffer, mut payload) = match packet.body {
            WireBody::Medium { first, end } | WireBody::Bulk { first, end, .. } => {
                let fresh = self.received.take(&self.nic).map_err(|_| Broken)?;
                let payload = Payload::part(buffer, first..end, &self.received);
                (fresh, Some(payload))
            }
            WireBody::Short => (buffer, None),
        };
        if kind.is_counted() {
            // Whoever asked to close has sent its last.
            if connection.peer_asked {
                return Err(Broken);
            }
            let verdict = self.take_in(connection, &packet, &mut payload)?;
            connection.decide(verdict)?;
        }
        connection.offer_later(buffer)?;
        match kind {
            Kind::Rest => {
                connection.peer_asked = true;
                self.note_rest(connection);
                Ok(After::Goes)
            }
            Kind::AtRest if connection.has_asked && connection.outstanding() == 0 => {
                Ok(After::Rested)
            }
            Kind::AtRest => Err(Broken),
            _ => Ok(After::Goes),
        }
    }

    /// Settles the messages of this process that the peer refused.
    #[inline]
    fn take_refused(&mut self, connection: &mut Connection<P>) -> Result<(), Broken> {
        if !connection.has_unreturned() {
            return Ok(());
        }
        while let Some((frame, verdict)) = connection.next_refused(&mut self.pool)? {
            self.refused(connection.peer, frame, verdict)?;
        }
        if !connection.has_unreturned() {
            self.peers[connection.peer as usize].is_ready_early = false;
        }
        Ok(())
    }

    /// Settles what a fabric was slow to give back; whether some is still out.
    pub(crate) fn settle_late(&mut self) -> bool {
        for index in 0..self.connections.len() {
            let is_late = |each: &Connection<P>| each.has_unreturned();
            if self.connections[index].as_deref().is_some_and(is_late) {
                self.with_connection(index, |state, connection| {
                    state.take_refused(connection)?;
                    state.transmit(index, connection)?;
                    Ok(After::Goes)
                });
            }
        }
        self.follow();
        let mut present = self.connections.iter().flatten();
        present.any(|each| each.has_unreturned())
    }

    /// Takes a counted message in, or says why not.
    #[inline]
    fn take_in(
        &mut self,
        connection: &Connection<P>,
        packet: &Packet,
        payload: &mut Option<Payload>,
    ) -> Result<Verdict, Broken> {
        let (header, peer) = (packet.header, connection.peer);
        let mut content = || {
            content(packet, |_, _| {
                payload.take().unwrap_or_else(|| Payload::copied(&[]))
            })
        };
        match header.kind {
            Kind::Request => {
                let Some(endpoint) = self.endpoints.get_mut(header.target as usize) else {
                    self.statistics.refused += 1;
                    return Ok(Verdict::Refused(Reason::NoSuchEndpoint));
                };
                let verdict = endpoint.judge(header.generation, header.key, packet);
                let its = &mut self.peers[peer as usize];
                let may_wait = matches!(verdict, Verdict::Accepted | Verdict::Busy);
                if may_wait && its.pending.len() >= UNSENT_MAX {
                    self.statistics.found_full += 1;
                    its.put_off.insert(header.target);
                    return Ok(Verdict::Busy);
                }
                match verdict {
                    Verdict::Accepted => {
                        let path = ReturnPath {
                            peer,
                            endpoint: header.source,
                            tag: header.tag,
                        };
                        endpoint.push_request(path, content());
                        its.replies_due += 1;
                        self.arrived(header.target);
                    }
                    Verdict::Busy => {
                        self.statistics.found_full += 1;
                        if !endpoint.waiting_peers.contains(&peer) {
                            endpoint.waiting_peers.push(peer);
                        }
                    }
                    Verdict::Refused(_) => self.statistics.refused += 1,
                }
                Ok(verdict)
            }
            Kind::Reply | Kind::Back => {
                let Some(endpoint) = self.endpoints.get_mut(header.target as usize) else {
                    return Err(Broken);
                };
                let Some(context) = endpoint.end_request(header.tag, peer) else {
                    self.statistics.strays += 1;
                    return Ok(Verdict::Accepted);
                };
                let mut verdict = Verdict::Accepted;
                if header.kind == Kind::Back {
                    let reason = Reason::try_from(header.detail).map_err(|_| Broken)?;
                    endpoint.return_request(context, reason, Some(content()));
                } else {
                    let has_message = header.detail != NO_MESSAGE;
                    if has_message {
                        verdict = endpoint.judge_reply(packet);
                    }
                    let is_shown = has_message && verdict == Verdict::Accepted;
                    let content = is_shown.then(content);
                    endpoint.push_answer(Arrival::Reply { context, content });
                }
                self.arrived(header.target);
                Ok(verdict)
            }
            Kind::Ready => {
                let its = &mut self.peers[peer as usize];
                its.is_ready_early = connection.has_unreturned();
                its.unpark(header.source);
                Ok(Verdict::Accepted)
            }
            Kind::Acknowledgement | Kind::Rest | Kind::AtRest => Err(Broken),
        }
    }
}
