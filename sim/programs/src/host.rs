//! A simulated host: its agent, its processor, its adapter's engines.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use viaduct_agent::{Agent, Device};
use viaduct_engine::{EventId, Time};
use viaduct_hardware::{HostModel, mechanism};
use viaduct_provider::Counts;
use viaduct_provider::via::{ConnectionMessage, HostAddress, Nic, NicAttributes, ViId};

use crate::message::MessageId;
use crate::notices::Notices;
use crate::queues::Told;
use crate::raw::WriteId;
use crate::retransmission::Recovery;
use crate::tasks::TaskId;
use viaduct_cluster::faults::Slowing;

/// The one NIC of a host's agent.
pub(crate) const DEVICE: usize = 0;

/// What every host's NIC is called.
pub(crate) const DEVICE_NAME: &str = "sim0";

/// The first host's address: six bytes, as in Ethernet's locally administered range.
const FIRST_ADDRESS: u64 = 0x0200_0000_0001;

pub(crate) const fn address_of(host: u32) -> HostAddress {
    HostAddress::new(FIRST_ADDRESS + host as u64)
}

pub(crate) fn host_at(address: HostAddress, count: usize) -> Option<u32> {
    let index = address.get().checked_sub(FIRST_ADDRESS)?;
    (index < count as u64).then_some(index as u32)
}

/// In this order: what every message needs comes first, what few hosts ever need last.
#[repr(C, align(64))]
pub(crate) struct Host {
    /// When the processor has done all the work it was given.
    pub(crate) processor_free: Time,
    /// When the receiving engine has done all the work it was given.
    pub(crate) match_free: Time,
    /// What makes the processor slow.
    pub(crate) slowings: Vec<Slowing>,
    /// By the VI's index.
    pub(crate) lines: Vec<Line>,
    /// By peer: what is under way to it.
    pub(crate) streams: Vec<Stream>,
    pub(crate) mechanism: mechanism::AdapterState,
    /// Tripwires and the event queue, of an adapter that has them.
    pub(crate) notices: Option<Box<Notices>>,
    pub(crate) engine: Engine,
    /// Tasks that wait for a change.
    pub(crate) watchers: Vec<TaskId>,
    /// What its NIC did to move messages.
    pub(crate) counts: Counts,
    pub(crate) agent: Agent,
    /// The task that calls this host's handlers.
    pub(crate) handler: Option<TaskId>,
    /// When the semantics is to be told that time has passed.
    pub(crate) timeout: Option<(Time, EventId)>,
    /// By VI: what is to be sent again on its reliable connection. Few hosts have any.
    #[expect(
        clippy::box_collection,
        reason = "a word in place of three, for each of many hosts"
    )]
    pub(crate) recoveries: Option<Box<BTreeMap<ViId, Recovery>>>,
}

/// The sending engine of an adapter.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub(crate) is_busy: bool,
    pub(crate) turns: VecDeque<Turn>,
    /// Messages that it has taken since it last had nothing to do.
    pub(crate) in_batch: u32,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    /// A VI that has sends to be started.
    Vi(ViId),
    /// A message that was started by the processor.
    Message(MessageId),
    /// A request below VIA.
    Raw(WriteId),
}

/// The messages of one VI.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Whether the VI has a turn at the engine coming.
    pub(crate) has_turn: bool,
    /// Whether the bytes of a message move: one at a time, so that none overtakes another.
    pub(crate) is_moving: bool,
    /// Messages in the queue of the DMA engine, or moving by it.
    pub(crate) queued: u32,
    /// Messages that wait for those, in order: few VIs ever have one.
    #[expect(
        clippy::box_collection,
        reason = "a word in place of four, for each VI of many hosts"
    )]
    pub(crate) waiting: Option<Box<VecDeque<MessageId>>>,
    /// When the bytes of the last of its messages may begin to move.
    pub(crate) last_begin: Time,
    /// When the last of its messages arrives: none overtakes another.
    pub(crate) last_arrival: Time,
    /// What its queues' other ends were told of.
    pub(crate) told: Told,
}

/// What is under way to one peer.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) peer: u32,
    /// Messages that have not arrived.
    pub(crate) messages: u32,
    /// Ends of connections that must not overtake them, and what comes behind those.
    #[expect(
        clippy::box_collection,
        reason = "a word in place of three, for each peer of many hosts"
    )]
    pub(crate) held: Option<Box<Vec<ConnectionMessage>>>,
    /// When the last message about connections arrives, which no data overtakes.
    pub(crate) last_control: Time,
}

impl Line {
    /// A message waits behind those that are there.
    pub(crate) fn wait(&mut self, id: MessageId) {
        self.waiting.get_or_insert_default().push_back(id);
    }

    /// The message that has waited longest.
    #[inline]
    pub(crate) fn next_waiting(&mut self) -> Option<MessageId> {
        self.waiting.as_mut()?.pop_front()
    }
}

/// Makes room for one more. It doubles from one: most simulated hosts have one or two of anything.
pub(crate) fn reserve_little<T>(items: &mut Vec<T>) {
    if items.len() == items.capacity() {
        items.reserve_exact(items.len().max(1));
    }
}

impl Host {
    pub(crate) fn new(
        number: u32,
        model: &HostModel,
        name: &Arc<str>,
        attributes: &Arc<NicAttributes>,
    ) -> Self {
        let nic = Nic::new(Arc::clone(attributes));
        let address = address_of(number);
        let device = Device::new(Arc::clone(name), address, nic, Arc::clone(attributes));
        Self {
            agent: Agent::new(device, Vec::new()),
            processor_free: Time::ZERO,
            engine: Engine::default(),
            match_free: Time::ZERO,
            lines: Vec::new(),
            watchers: Vec::new(),
            streams: Vec::new(),
            mechanism: mechanism::AdapterState::new(&model.mechanism),
            recoveries: None,
            notices: Notices::new(&model.mechanism),
            timeout: None,
            handler: None,
            counts: Counts::default(),
            slowings: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn nic(&mut self) -> &mut Nic {
        &mut self.agent.devices[DEVICE].nic
    }

    #[inline]
    pub(crate) fn line(&mut self, vi: ViId) -> &mut Line {
        let index = vi.index() as usize;
        if self.lines.len() <= index {
            self.add_lines(index);
        }
        &mut self.lines[index]
    }

    #[cold]
    fn add_lines(&mut self, last: usize) {
        // Room for as many, or twice as many: most simulated hosts have a VI or two.
        let more = (last + 1).max(2 * self.lines.len()) - self.lines.len();
        self.lines.reserve_exact(more);
        self.lines.resize_with(last + 1, Line::default);
    }

    #[inline]
    pub(crate) fn stream(&mut self, peer: u32) -> &mut Stream {
        let found = self.streams.iter().position(|stream| stream.peer == peer);
        let place = found.unwrap_or_else(|| {
            reserve_little(&mut self.streams);
            self.streams.push(Stream {
                peer,
                messages: 0,
                held: None,
                last_control: Time::ZERO,
            });
            self.streams.len() - 1
        });
        &mut self.streams[place]
    }

    /// Gives the processor work from some moment on; when it is done.
    #[inline]
    pub(crate) fn work(&mut self, from: Time, span: Time) -> Time {
        let begins = self.processor_free.max(from);
        self.processor_free = begins + self.stretched(begins, span);
        self.processor_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    /// A ring of programs is as fast as what a message reads of two hosts is small.
    #[test]
    fn what_each_program_of_many_has_is_small() {
        let sizes = [
            ("a host", size_of::<Host>(), 896),
            ("a VI's messages", size_of::<Line>(), 56),
            ("a peer", size_of::<Stream>(), 24),
            ("a message under way", size_of::<Message>(), 168),
        ];
        for (what, bytes, bytes_max) in sizes {
            assert!(bytes <= bytes_max, "{what}: {bytes} bytes");
        }
    }
}
