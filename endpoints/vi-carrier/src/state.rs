//! What a station knows, under its one lock.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use viaduct_am::{
    Admission, Arrival, Body, CarrierError, Content, Key, Message, Name, Phase, Readiness, Reason,
    Refusal, Slot, Words,
};
use viaduct_core::HostAddress;
use viaduct_provider::{CompletionQueue, Error, Nic, Provider, ViHandle, ViMap};

use crate::connection::{Broken, Connection, DEPTH};
use crate::endpoints::{EndpointSlot, Queued, Refused, Taken, content};
use crate::frames::{Candidate, Replacement};
use crate::identity::{Identity, Parts};
use crate::options::Options;
use crate::payload::{Payload, SendPool, Spare};
use crate::peers::{Frame, Peer, Peers, Route, SELF};
use crate::station::ReturnPath;
use crate::waiting::Waiters;
use crate::wire::{Header, Kind, MESSAGE_BYTES_MAX, NO_MESSAGE, Packet, Verdict, WireBody};

/// How long a connection may be on its way out when its place is wanted. Who computes and calls
/// nothing agrees within a second.
const REST_PATIENCE: Duration = Duration::from_secs(5);

/// What a station has done and has.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// Connections to other processes that exist.
    pub connections: u32,
    /// Connections that came about, ever.
    pub connections_made: u64,
    /// Connections that this process closed to have room for others.
    pub evictions: u64,
    /// Connections that broke.
    pub connections_lost: u64,
    /// Messages that found a full request queue here, and were sent again later.
    pub found_full: u64,
    /// Messages that went back to their senders from here.
    pub refused: u64,
    /// Replies for requests that nobody waits for: their endpoint was freed.
    pub strays: u64,
    /// Other processes that it knows: somebody has a route to them, or something waits for them.
    pub peers: u64,
}

pub(crate) struct StationState<P: Provider> {
    pub(crate) nic: Nic<P>,
    pub(crate) identity: Identity,
    pub(crate) options: Options,
    pub(crate) completions: CompletionQueue<P>,
    pub(crate) endpoints: Vec<EndpointSlot>,
    free: Vec<u32>,
    /// Members with something to take, a line for each group.
    pub(crate) groups: Vec<Option<VecDeque<u32>>>,
    pub(crate) peers: Peers,
    pub(crate) connections: Vec<Option<Box<Connection<P>>>>,
    pub(crate) by_vi: ViMap<usize>,
    /// Peers to connect to, once the lock is free.
    pub(crate) to_connect: VecDeque<u32>,
    /// Connections that owe an acknowledgement which nothing else carries yet.
    pub(crate) owing: Vec<usize>,
    /// Connections with something to do when there is time.
    pub(crate) chores: Vec<usize>,
    /// Peers that have something new to send.
    pub(crate) dirty: Vec<u32>,
    pub(crate) pool: SendPool,
    pub(crate) received: Arc<Spare>,
    replacement: Replacement,
    /// Counts messages, for the policy.
    pub(crate) now: u64,
    /// Looks in vain since the last message.
    pub(crate) idle: u32,
    pub(crate) waiters: Waiters,
    pub(crate) statistics: Statistics,
    pub(crate) is_closed: bool,
    /// Whether threads of the system run it.
    pub(crate) has_threads: bool,
}

impl<P: Provider> StationState<P> {
    pub(crate) fn new(
        nic: Nic<P>,
        completions: CompletionQueue<P>,
        identity: Identity,
        options: Options,
        has_threads: bool,
    ) -> Self {
        let own = Peer::new(identity, nic.host());
        let seed = Parts {
            host: nic.host(),
            identity,
            index: 0,
            generation: 0,
        };
        let seed = seed.name().to_bytes().iter().fold(0_u64, |sum, byte| {
            sum.rotate_left(9).wrapping_mul(31) ^ u64::from(*byte)
        });
        Self {
            nic,
            identity,
            options,
            completions,
            endpoints: Vec::new(),
            free: Vec::new(),
            groups: Vec::new(),
            peers: Peers::new(own),
            connections: Vec::new(),
            by_vi: ViMap::default(),
            to_connect: VecDeque::new(),
            owing: Vec::new(),
            chores: Vec::new(),
            dirty: Vec::new(),
            pool: SendPool::new(),
            received: Spare::new(options.memory),
            replacement: Replacement::new(options.policy, seed),
            now: 0,
            idle: 0,
            waiters: Waiters::default(),
            statistics: Statistics::default(),
            is_closed: false,
            has_threads,
        }
    }

    // Endpoints.

    pub(crate) fn create(&mut self, admission: Admission) -> Result<(Slot, Name), CarrierError> {
        let index = match self.free.pop() {
            Some(index) => {
                self.endpoints[index as usize].begin_again(admission);
                index
            }
            None => {
                let index = u32::try_from(self.endpoints.len())
                    .map_err(|_| CarrierError::new("a station has at most 2^32 endpoints"))?;
                self.endpoints.push(EndpointSlot::new(admission));
                index
            }
        };
        let parts = Parts {
            host: self.nic.host(),
            identity: self.identity,
            index,
            generation: self.endpoints[index as usize].generation,
        };
        Ok((Slot(index), parts.name()))
    }

    pub(crate) fn destroy(&mut self, slot: Slot) {
        let endpoint = &mut self.endpoints[slot.0 as usize];
        let waiting = std::mem::take(&mut endpoint.waiting_peers);
        let left = endpoint.end();
        // An index whose generations are used up stays unused.
        if endpoint.generation < u32::MAX {
            self.free.push(slot.0);
        }
        for queued in left {
            self.send_back(slot.0, queued, Reason::EndpointFreed);
        }
        // What waits for room is sent again, to learn that there is no endpoint.
        self.tell_room(slot.0, waiting);
    }

    pub(crate) fn resolve(&mut self, name: &Name) -> Result<Route, CarrierError> {
        let parts = Parts::of(name);
        if parts.generation == 0 {
            return Err(CarrierError::new(format!(
                "{name} is no name of an endpoint: take one from Endpoint::name"
            )));
        }
        let peer = self.peer_of(parts.host, parts.identity);
        self.peers[peer as usize].routes += 1;
        Ok(Route {
            peer,
            index: parts.index,
            generation: parts.generation,
        })
    }

    pub(crate) fn release(&mut self, route: Route) {
        if let Some(peer) = self.peers.get_mut(route.peer) {
            peer.routes = peer.routes.saturating_sub(1);
        }
    }

    pub(crate) fn peer_of(&mut self, host: HostAddress, identity: Identity) -> u32 {
        if let Some(peer) = self.peers.find(host, identity) {
            return peer;
        }
        if self.peers.is_crowded() {
            let endpoints = self.endpoints.iter().flat_map(EndpointSlot::peers);
            let connections = self.connections.iter().flatten().map(|each| each.peer);
            let used: BTreeSet<u32> = endpoints.chain(connections).collect();
            self.peers.forget_unused(&used);
        }
        self.peers.add(host, identity)
    }

    // Sending.

    #[inline]
    pub(crate) fn offer(
        &mut self,
        slot: Slot,
        route: Route,
        key: Key,
        context: u32,
        message: &Message<'_>,
    ) -> Result<(), Refusal> {
        if self.is_closed {
            return Err(Refusal::Closed);
        }
        if route.peer == SELF {
            return self.offer_here(slot, route, key, context, message);
        }
        let peer = &mut self.peers[route.peer as usize];
        let is_parked = peer.parked.contains_key(&route.index);
        if !is_parked && !peer.has_room() {
            peer.has_refused = true;
            self.endpoints[slot.0 as usize].refused = Some(Refused::Peer(route.peer));
            return Err(Refusal::Full);
        }
        let tag = self.endpoints[slot.0 as usize].begin_request(route.peer, context);
        let header = Header {
            target: route.index,
            source: slot.0,
            tag,
            generation: route.generation,
            key: key.0,
            ..Header::control(Kind::Request)
        };
        let Ok(frame) = self.frame(header, Some(message)) else {
            // No memory: as good as no room.
            self.endpoints[slot.0 as usize].end_request(tag, route.peer);
            return Err(Refusal::Full);
        };
        if is_parked {
            let peer = &mut self.peers[route.peer as usize];
            peer.parked.entry(route.index).or_default().push_back(frame);
            return Ok(());
        }
        self.send(route.peer, frame);
        Ok(())
    }

    fn frame(&mut self, header: Header, message: Option<&Message<'_>>) -> Result<Frame, Error> {
        let has_payload = message.is_some_and(|message| !message.payload().is_empty());
        let mut buffer = self.pool.take(&self.nic, has_payload)?;
        let length = header.emit(message, &mut buffer) as u32;
        Ok(Frame { buffer, length })
    }

    /// Sends a counted message now, or keeps it until it can go.
    #[inline]
    pub(crate) fn send(&mut self, peer: u32, frame: Frame) {
        let its = &mut self.peers[peer as usize];
        let Some(index) = its.connection else {
            its.pending.push_back(frame);
            return self.want(peer);
        };
        if its.pending.is_empty()
            && let Some(connection) = self.connections[index].as_deref_mut()
            && connection.has_room()
            && !connection.has_refusal()
        {
            self.now += 1;
            connection.used_last = self.now;
            connection.is_referenced = true;
            if connection.send(frame, &mut self.pool).is_err() {
                self.close(index, false);
            }
            return;
        }
        its.pending.push_back(frame);
        self.touch(peer);
    }

    /// Has the peer's connection looked at before the lock is given back.
    pub(crate) fn touch(&mut self, peer: u32) {
        if !self.dirty.contains(&peer) {
            self.dirty.push(peer);
        }
    }

    /// Has somebody connect to a peer.
    pub(crate) fn want(&mut self, peer: u32) {
        let its = &mut self.peers[peer as usize];
        if !its.is_wanted && its.connection.is_none() {
            its.is_wanted = true;
            self.to_connect.push_back(peer);
        }
    }

    pub(crate) fn reply(&mut self, slot: Slot, path: ReturnPath, message: Option<&Message<'_>>) {
        self.peers[path.peer as usize].replies_due -= 1;
        if self.is_closed {
            return;
        }
        if path.peer == SELF {
            return self.reply_here(slot, path, message);
        }
        let header = Header {
            detail: if message.is_some() { 0 } else { NO_MESSAGE },
            target: path.endpoint,
            source: slot.0,
            tag: path.tag,
            generation: self.endpoints[slot.0 as usize].generation,
            ..Header::control(Kind::Reply)
        };
        // As for any other memory of a program: there is nothing to go on with.
        let frame = self.frame(header, message).expect("memory for a reply");
        self.send(path.peer, frame);
    }

    /// Returns a request that was taken in and will not be handled.
    fn send_back(&mut self, slot: u32, queued: Queued, reason: Reason) {
        self.statistics.refused += 1;
        let Queued { path, content } = queued;
        self.peers[path.peer as usize].replies_due -= 1;
        if path.peer == SELF {
            if let Some(sender) = self.endpoints.get_mut(path.endpoint as usize)
                && let Some(context) = sender.end_request(path.tag, SELF)
            {
                sender.return_request(context, reason, Some(content));
                self.arrived(path.endpoint);
            }
            return;
        }
        let words = content.words;
        let body = match &content.body {
            viaduct_am::ContentBody::Short => Body::Short,
            viaduct_am::ContentBody::Medium(bytes) => Body::Medium(bytes.as_ref()),
            viaduct_am::ContentBody::Bulk { offset, bytes } => Body::Bulk {
                offset: *offset,
                bytes: bytes.as_ref(),
            },
        };
        let header = Header {
            detail: reason.number(),
            target: path.endpoint,
            source: slot,
            tag: path.tag,
            ..Header::control(Kind::Back)
        };
        // It was a message: it still keeps the limits.
        if let Ok(message) = Message::new(content.handler, words.as_slice(), body)
            && let Ok(frame) = self.frame(header, Some(&message))
        {
            self.send(path.peer, frame);
        }
    }

    // Within the process.

    fn offer_here(
        &mut self,
        slot: Slot,
        route: Route,
        key: Key,
        context: u32,
        message: &Message<'_>,
    ) -> Result<(), Refusal> {
        let packet = local_packet(Kind::Request, message);
        let verdict = match self.endpoints.get(route.index as usize) {
            Some(target) => target.judge(route.generation, key.0, &packet),
            None => Verdict::Refused(Reason::NoSuchEndpoint),
        };
        if verdict == Verdict::Busy {
            self.endpoints[slot.0 as usize].refused = Some(Refused::Local(route.index));
            let waiting = &mut self.endpoints[route.index as usize].waiting_peers;
            if !waiting.contains(&SELF) {
                waiting.push(SELF);
            }
            return Err(Refusal::Full);
        }
        let content = content(&packet, |_, _| Payload::copied(message.payload()));
        let sender = &mut self.endpoints[slot.0 as usize];
        if let Verdict::Refused(reason) = verdict {
            sender.return_request(context, reason, Some(content));
            self.statistics.refused += 1;
            self.arrived(slot.0);
            return Ok(());
        }
        let path = ReturnPath {
            peer: SELF,
            endpoint: slot.0,
            tag: sender.begin_request(SELF, context),
        };
        self.endpoints[route.index as usize].push_request(path, content);
        self.peers[SELF as usize].replies_due += 1;
        self.arrived(route.index);
        Ok(())
    }

    fn reply_here(&mut self, slot: Slot, path: ReturnPath, message: Option<&Message<'_>>) {
        let Some(sender) = self.endpoints.get_mut(path.endpoint as usize) else {
            return;
        };
        let Some(context) = sender.end_request(path.tag, SELF) else {
            self.statistics.strays += 1;
            return;
        };
        let mut returned = None;
        let content = message.and_then(|message| {
            let packet = local_packet(Kind::Reply, message);
            let content = content(&packet, |_, _| Payload::copied(message.payload()));
            match sender.judge_reply(&packet) {
                Verdict::Refused(reason) => {
                    returned = Some((reason, content));
                    None
                }
                Verdict::Accepted | Verdict::Busy => Some(content),
            }
        });
        sender.push_answer(Arrival::Reply { context, content });
        self.arrived(path.endpoint);
        if let Some((reason, content)) = returned {
            self.return_reply(slot.0, reason, content);
        }
    }

    pub(crate) fn return_reply(&mut self, slot: u32, reason: Reason, content: Content<Payload>) {
        self.endpoints[slot as usize].push_answer(Arrival::Returned {
            context: 0,
            phase: Phase::Reply,
            reason,
            content: Some(content),
        });
        self.arrived(slot);
    }

    // Taking.

    /// Something stands in the endpoint's queues that did not before.
    #[inline]
    pub(crate) fn arrived(&mut self, slot: u32) {
        let endpoint = &mut self.endpoints[slot as usize];
        let group = endpoint.group.map(|(group, _)| group);
        if let Some(group) = group
            && !endpoint.is_queued_in_group
            && let Some(Some(line)) = self.groups.get_mut(group as usize)
        {
            endpoint.is_queued_in_group = true;
            line.push_back(slot);
        }
        self.waiters.wake(slot, group);
    }

    #[inline]
    pub(crate) fn pop(&mut self, slot: u32) -> Option<Taken> {
        let endpoint = &mut self.endpoints[slot as usize];
        let taken = endpoint.pop()?;
        if !endpoint.waiting_peers.is_empty() && endpoint.is_half_empty() {
            let waiting = std::mem::take(&mut endpoint.waiting_peers);
            self.tell_room(slot, waiting);
        }
        Some(taken)
    }

    /// Whether some member of a group has something to take, most likely.
    #[inline]
    pub(crate) fn has_ready(&self, group: u32) -> bool {
        let line = self.groups.get(group as usize).and_then(Option::as_ref);
        line.is_some_and(|line| !line.is_empty())
    }

    #[inline]
    pub(crate) fn pop_any(&mut self, group: u32) -> Option<(u32, Taken)> {
        loop {
            let slot = self.groups.get_mut(group as usize)?.as_mut()?.pop_front()?;
            let endpoint = &mut self.endpoints[slot as usize];
            endpoint.is_queued_in_group = false;
            // It may have left the group, or been emptied by itself.
            let Some((_, member)) = endpoint.group.filter(|(its, _)| *its == group) else {
                continue;
            };
            let Some(taken) = self.pop(slot) else {
                continue;
            };
            let endpoint = &mut self.endpoints[slot as usize];
            if !endpoint.is_empty() && !endpoint.is_queued_in_group {
                endpoint.is_queued_in_group = true;
                if let Some(Some(line)) = self.groups.get_mut(group as usize) {
                    line.push_back(slot);
                }
            }
            return Some((member, taken));
        }
    }

    #[cold]
    fn tell_room(&mut self, slot: u32, waiting: Vec<u32>) {
        for peer in waiting {
            if peer == SELF {
                self.waiters.wake_all();
            } else {
                self.tell_ready(slot, peer);
            }
        }
    }

    /// Has a peer send again what it was told to keep for an endpoint.
    pub(crate) fn tell_ready(&mut self, slot: u32, peer: u32) {
        let header = Header {
            source: slot,
            ..Header::control(Kind::Ready)
        };
        if let Ok(frame) = self.frame(header, None) {
            self.send(peer, frame);
        }
    }

    pub(crate) fn look(&self, slot: u32) -> Readiness {
        let endpoint = &self.endpoints[slot as usize];
        let room = match endpoint.refused {
            None => true,
            Some(Refused::Peer(peer)) => self.peers[peer as usize].has_room(),
            Some(Refused::Local(index)) => {
                let target = &self.endpoints[index as usize];
                !target.is_live || target.has_room()
            }
        };
        Readiness {
            room,
            ..endpoint.look()
        }
    }

    // Connections.

    /// A VI with its receives posted, in the table. `None` without memory, or without a frame now.
    pub(crate) fn new_connection(&mut self, peer: u32) -> Result<Option<(usize, ViHandle)>, Error> {
        if !self.make_room() {
            return Ok(None);
        }
        let vi = self
            .nic
            .vi()
            .max_transfer_bytes(MESSAGE_BYTES_MAX as u32)
            .send_depth(DEPTH)
            .receive_depth(DEPTH)
            .receive_completions(&self.completions)
            .build()?;
        let handle = vi.handle();
        let mut connection = Box::new(Connection::new(vi, peer));
        for _ in 0..DEPTH {
            let buffer = self.received.take(&self.nic)?;
            if connection.offer(buffer).is_err() {
                let reason = "a new VI took no receive";
                return Err(Error::new(viaduct_provider::ReturnCode::Resource, reason));
            }
        }
        let free = self.connections.iter().position(Option::is_none);
        let index = free.unwrap_or(self.connections.len());
        if index == self.connections.len() {
            self.connections.push(None);
        }
        self.connections[index] = Some(connection);
        self.by_vi.insert(handle, index);
        self.peers[peer as usize].connection = Some(index);
        Ok(Some((index, handle)))
    }

    /// Whether one more connection may be made; has others closed for it.
    fn make_room(&mut self) -> bool {
        let frames = self.options.frames.max(1) as usize;
        if self.connections.iter().flatten().count() >= 2 * frames {
            let Some(index) = self.overdue() else {
                return false;
            };
            self.close(index, false);
        }
        let present = || self.connections.iter().flatten();
        let mut active = present().filter(|each| !each.is_resting()).count();
        while active >= frames {
            let candidates: Vec<Candidate> = self
                .connections
                .iter()
                .enumerate()
                .filter_map(|(index, each)| Some((index, each.as_deref()?)))
                .filter(|(_, each)| each.is_open && !each.is_resting())
                .map(|(index, each)| Candidate {
                    index,
                    used_last: each.used_last,
                    is_referenced: each.is_referenced,
                })
                .collect();
            let Some((victim, passed)) = self.replacement.choose(&candidates) else {
                // All others are being made.
                break;
            };
            for index in passed {
                if let Some(connection) = self.connections[index].as_deref_mut() {
                    connection.is_referenced = false;
                }
            }
            self.statistics.evictions += 1;
            self.ask_to_rest(victim);
            active -= 1;
        }
        true
    }

    /// A connection that has been on its way out for so long that its peer does not keep the rules,
    /// or has stopped.
    fn overdue(&self) -> Option<usize> {
        self.connections.iter().position(|each| {
            let since = each.as_deref().and_then(|each| each.resting_since);
            since.is_some_and(|since| since.elapsed() > REST_PATIENCE)
        })
    }

    /// Takes a connection out and settles what it leaves. `is_rested`: all was acknowledged, both
    /// ways, and the peer lives.
    #[cold]
    pub(crate) fn close(&mut self, index: usize, is_rested: bool) {
        let Some(connection) = self.connections[index].take() else {
            return;
        };
        let peer = connection.peer;
        let is_rested = is_rested || (connection.has_agreed && connection.outstanding() == 0);
        let was_open = connection.is_open;
        self.by_vi.remove(&connection.vi.handle());
        if self.peers[peer as usize].connection == Some(index) {
            self.peers[peer as usize].connection = None;
        }
        let remains = connection.remains(&mut self.pool);
        for (frame, verdict) in remains {
            let verdict = verdict.unwrap_or(Verdict::Refused(Reason::ConnectionLost));
            // A reply that the peer calls busy is lost with the connection.
            if self.refused(peer, frame, verdict).is_err() {
                debug_assert!(!is_rested);
            }
        }
        if !is_rested && was_open {
            self.statistics.connections_lost += 1;
            let its = &mut self.peers[peer as usize];
            its.absences = its.absences.max(1);
            self.end_unanswered(peer);
        }
        let its = &mut self.peers[peer as usize];
        its.unpark_all();
        its.is_ready_early = false;
        // The other end sends all that waited again, without being told.
        its.put_off.clear();
        if !its.pending.is_empty() {
            self.want(peer);
        }
        // Whoever waits may have to connect.
        self.waiters.wake_all();
    }

    /// Ends the requests that a lost peer had got and not answered.
    fn end_unanswered(&mut self, peer: u32) {
        let its = &self.peers[peer as usize];
        let unsent: BTreeSet<(u32, u32)> = its
            .pending
            .iter()
            .chain(its.parked.values().flatten())
            .filter_map(Frame::packet)
            .filter(|packet| packet.header.kind == Kind::Request)
            .map(|packet| (packet.header.source, packet.header.tag))
            .collect();
        for slot in 0..self.endpoints.len() as u32 {
            let endpoint = &mut self.endpoints[slot as usize];
            let ended = endpoint.end_all(peer, |tag| unsent.contains(&(slot, tag)));
            for context in &ended {
                endpoint.return_request(*context, Reason::Unanswered, None);
            }
            if !ended.is_empty() {
                self.arrived(slot);
            }
        }
    }

    /// Returns all that waits for a peer which cannot be reached.
    pub(crate) fn fail(&mut self, peer: u32, reason: Reason) {
        let its = &mut self.peers[peer as usize];
        its.absences = its.absences.saturating_add(1);
        its.unpark_all();
        for frame in std::mem::take(&mut its.pending) {
            // Only `Busy` is no answer to a reply.
            let _ = self.refused(peer, frame, Verdict::Refused(reason));
        }
        // What it had got before, and will not answer.
        self.end_unanswered(peer);
        self.waiters.wake_all();
    }

    /// A message of this process came back, with what the peer says of it.
    pub(crate) fn refused(
        &mut self,
        peer: u32,
        frame: Frame,
        verdict: Verdict,
    ) -> Result<(), Broken> {
        let Some(packet) = frame.packet() else {
            return Ok(());
        };
        let header = packet.header;
        let reason = match verdict {
            Verdict::Accepted => None,
            Verdict::Busy if header.kind == Kind::Request => {
                let its = &mut self.peers[peer as usize];
                if its.is_ready_early || its.connection.is_none() {
                    its.pending.push_back(frame);
                    self.touch(peer);
                } else {
                    its.parked
                        .entry(header.target)
                        .or_default()
                        .push_back(frame);
                }
                return Ok(());
            }
            Verdict::Busy => return Err(Broken),
            Verdict::Refused(reason) => Some(reason),
        };
        if let Some(reason) = reason {
            let bytes =
                |first: u32, end: u32| Payload::copied(&frame.buffer[first as usize..end as usize]);
            let content = content(&packet, bytes);
            let slot = header.source;
            let endpoint = &mut self.endpoints[slot as usize];
            match header.kind {
                Kind::Request => {
                    if let Some(context) = endpoint.end_request(header.tag, peer) {
                        endpoint.return_request(context, reason, Some(content));
                        self.arrived(slot);
                    }
                }
                // The credit without a message: nobody misses it.
                Kind::Reply
                    if header.detail != NO_MESSAGE
                        && endpoint.is_live
                        && endpoint.generation == header.generation =>
                {
                    self.return_reply(slot, reason, content);
                }
                _ => {}
            }
        }
        self.pool.put(frame.buffer);
        Ok(())
    }
}

/// A message that stays in the process, as if it had come over a VI.
fn local_packet(kind: Kind, message: &Message<'_>) -> Packet {
    let end = message.payload().len() as u32;
    Packet {
        header: Header::control(kind),
        handler: message.handler(),
        words: Words::new(message.words()),
        body: match message.body() {
            Body::Short => WireBody::Short,
            Body::Medium(_) => WireBody::Medium { first: 0, end },
            Body::Bulk { offset, .. } => WireBody::Bulk {
                offset,
                first: 0,
                end,
            },
        },
    }
}
