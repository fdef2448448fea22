//! What receivers tell senders of frames, one by one: which were trimmed and are to be sent again,
//! and where senders keep windows, what has come.
//!
//! What is told takes as long as the first byte of a message takes that is alone, and 64 bytes on
//! the sender's link; it waits for nobody. An adapter hears it in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Frames;
use super::calendar::Kind;
use super::nscc::Heard;
use crate::adapter::NEVER;
use crate::links::Buffers;
use crate::queues::FlowKey;

/// What is on its way to each host.
#[derive(Debug)]
pub(super) struct Replies {
    hosts: Vec<BinaryHeap<Reverse<Reply>>>,
}

/// Of one frame of a message. The order of these is that of time, and then of flows.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Reply {
    time: u64,
    flow: Option<FlowKey>,
    /// The message, if the frame is to be sent again.
    wanted: Option<u32>,
    kind: Kind,
    bytes: u32,
    heard: Heard,
}

impl Replies {
    /// Of so many hosts; none if nobody is told anything.
    pub(super) fn of(buffers: &Buffers, hosts: u32) -> Option<Box<Self>> {
        let any = buffers.may_trim() || buffers.has_windows();
        any.then(|| {
            Box::new(Self {
                hosts: (0..hosts).map(|_| BinaryHeap::new()).collect(),
            })
        })
    }

    /// When a host hears of something next.
    pub(super) fn next(&self, host: u32) -> u64 {
        let next = self.hosts[host as usize].peek();
        next.map_or(NEVER, |Reverse(reply)| reply.time)
    }

    pub(super) fn state_bytes(&self) -> usize {
        let all: usize = self.hosts.iter().map(BinaryHeap::capacity).sum();
        all * size_of::<Reply>()
    }
}

impl Frames {
    /// A frame, or what is left of it, is all there at its receiver, or would be.
    pub(super) fn reply(&mut self, id: u32, kind: Kind, time: u64, heard: Heard) {
        let time = time + self.time_back(id);
        let parts = &self.passages[id as usize].parts;
        let host = parts.source;
        let reply = Reply {
            time,
            flow: parts.flow,
            wanted: kind.is_trimmed().then_some(id),
            kind: Kind::new(kind.is_first(), kind.is_last()),
            bytes: parts.sizes.held(kind.is_last()),
            heard,
        };
        if let Some(replies) = &mut self.replies {
            replies.hosts[host as usize].push(Reverse(reply));
            // The end of a window looks at it: this is told there, or by an adapter that works
            // before one ends.
            if time < self.active_from[host as usize] {
                self.activate(host, time);
            }
        }
    }

    /// An adapter hears of a frame.
    pub(super) fn hear(&mut self, host: u32) {
        let replies = self.replies.as_mut();
        let reply = replies.and_then(|replies| replies.hosts[host as usize].pop());
        let Some(Reverse(reply)) = reply else {
            return;
        };
        if let (Some(windows), Some(flow)) = (&mut self.windows, reply.flow) {
            windows.hear(flow, reply.time, reply.bytes.into(), reply.heard);
        }
        if let Some(id) = reply.wanted {
            self.is_wanted(host, id, reply.kind, reply.time);
        }
        if self.windows.is_some() && self.hold_back(host, reply.flow) {
            self.adapters[host].out.look_at(reply.time);
        }
    }

    /// When an adapter has something to do: it sends, or hears of something.
    pub(super) fn wake_of(&self, host: u32) -> u64 {
        self.hears_from(host).min(self.adapters[host].out.wake)
    }

    /// When an adapter hears of something next.
    pub(super) fn hears_from(&self, host: u32) -> u64 {
        self.replies.as_ref().map_or(NEVER, |it| it.next(host))
    }

    /// Notes whether a flow's window has room for its next frame; whether it has.
    pub(super) fn hold_back(&mut self, host: u32, flow: Option<FlowKey>) -> bool {
        let (Some(windows), Some(flow)) = (&self.windows, flow) else {
            return true;
        };
        let out = &mut self.adapters[host].out;
        let Some(first) = out.first_of(Some(flow)) else {
            return false;
        };
        let parts = &self.passages[first as usize].parts;
        let bytes = parts.sizes.held(parts.next_kind().is_last());
        let has_room = windows.has_room(flow, bytes.into());
        out.hold(flow, !has_room);
        has_room
    }

    /// A message has joined the line of its adapter: its flow has a window.
    pub(super) fn open_window(&mut self, id: u32) {
        let parts = &self.passages[id as usize].parts;
        let (host, flow) = (parts.source, parts.flow);
        if self.windows.is_none() {
            return;
        }
        let trip = self.unloaded(id, false) + self.time_back(id);
        let link = self.passages[id as usize].way[0];
        let rate = self.cables[link].rate;
        if let (Some(windows), Some(flow)) = (&mut self.windows, flow) {
            windows.begin(flow, trip, rate);
        }
        self.hold_back(host, flow);
    }

    /// How long a frame of a message takes to its receiver that waits for nobody.
    pub(super) fn unloaded(&self, id: u32, is_last: bool) -> u64 {
        let passage = &self.passages[id as usize];
        let bytes = passage.parts.sizes.bytes(is_last);
        let mut time = 0;
        for (place, link) in passage.way.iter().enumerate() {
            let cable = &self.cables[*link];
            let service = cable.service(bytes);
            time += cable.propagation;
            time += match passage.way.get(place + 1) {
                None => service,
                Some(next) => {
                    let cut = cable.cut(bytes, self.forwarding);
                    let next = self.cables[*next].service(bytes);
                    cable.switch + self.forwarding.wait(cut, service, next)
                }
            };
        }
        time
    }
}
