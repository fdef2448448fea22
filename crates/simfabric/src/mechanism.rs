//! How an adapter carries a message: one framework, a module a kind.
//!
//! A mechanism is asked for a [`Plan`] once for each message, when it starts. The plan says which
//! parts of the host and the adapter work on it and for how long; `carry.rs` runs plans, with
//! queueing wherever a part is busy and sharing wherever links and buses are. What a mechanism
//! remembers between messages (a cache, say) is its state on each host.

mod firmware;
mod kernel;
mod native;
mod rdma;
mod remote_writes;
mod tally;

use viaduct_engine::Time;
use viaduct_sim::config::{BusModel, LinkConfig};

use crate::config::{HostModel, Mechanism};
use crate::message::PlanId;
use rdma::Rdma;
use remote_writes::RemoteWrites;
pub(crate) use tally::{Tally, Way};

/// A message, as a mechanism sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Bytes that cross the network: of a remote read the answer's.
    pub(crate) bytes: u32,
    /// Segments at the sender.
    pub(crate) segments: u32,
    /// Whether other messages of the engine came just before, with the same fetch.
    pub(crate) place_in_batch: u32,
    /// Host and region that the bytes go to, as far as the sender knows: what a mapping is for.
    pub(crate) target: (u32, u64),
    /// Whether messages of this VI wait in the engine's queue, which none may overtake.
    pub(crate) is_behind: bool,
}

/// Who begins to move the bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mover {
    /// The sending program's processor, with its own writes: it is busy for as long as that takes
    /// when nobody else is there.
    Processor(Time),
    /// The adapter's engine, which then goes on to the next message.
    Engine,
    /// The adapter's engine, busy until the bytes have left and its interrupt is served.
    HeldEngine,
}

/// What a message costs where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// What the adapter, or the software above it, calls this way of moving a message.
    pub(crate) way: &'static str,
    /// Work of the sending processor before the bytes move.
    pub(crate) processor: Time,
    /// Work of the sending processor while the engine serves.
    pub(crate) beside: Time,
    /// Work of the sending engine, its reads over the bus included.
    pub(crate) service: Time,
    pub(crate) mover: Mover,
    /// On the link, with framing.
    pub(crate) wire_bytes: f64,
    /// Bytes on the link for each on the bus; infinite if the data does not use it.
    pub(crate) scale: f64,
    /// The fastest that both adapters can go, bytes on the link a picosecond.
    pub(crate) rate_max: f64,
    /// From the last byte's leaving to the send's completion.
    pub(crate) sent: Time,
    /// Work of the sending processor when the bytes have left: an interrupt.
    pub(crate) sent_interrupt: Time,
    /// From the engine's work on to the bytes' beginning to move, while it goes on to others.
    pub(crate) fetch: Time,
    /// What the adapters add to the way of each byte.
    pub(crate) adapters: Time,
    /// Work of the receiving engine, beginning with the first byte.
    pub(crate) match_service: Time,
    /// Whether a message takes its receive when its first byte comes, not its last.
    pub(crate) matches_first: bool,
    /// Whether that is the engine that sends as well.
    pub(crate) is_one_engine: bool,
    /// Work of the receiving processor, most of it while the bytes come.
    pub(crate) receive_processor: Time,
    /// The part of it that the last byte waits for.
    pub(crate) receive_last: Time,
    /// From the last byte to the completion in memory.
    pub(crate) completion: Time,
    /// What is counted at the sender.
    pub(crate) tally: Tally,
}

/// The plan that was made last, and of what: the next message is mostly like it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastPlan {
    of: Option<Likeness>,
    pub(crate) plan: Plan,
    /// Whether it is not the one that messages find under `kept`.
    pub(crate) is_new: bool,
    pub(crate) kept: Option<PlanId>,
}

/// What a plan hangs on, where one is kept: bytes, segments, whether the mapping is there, whether
/// others are before it.
type Likeness = (u32, u32, bool, bool);

impl Default for LastPlan {
    fn default() -> Self {
        Self {
            of: None,
            plan: Plan::free(0),
            is_new: true,
            kept: None,
        }
    }
}

impl LastPlan {
    fn set(&mut self, plan: Plan) -> &Plan {
        self.plan = plan;
        self.is_new = true;
        &self.plan
    }
}

/// A mechanism's state on one host.
#[derive(Debug)]
pub(crate) enum State {
    /// It remembers nothing.
    Plain,
    RemoteWrites(RemoteWrites),
    Rdma(Box<Rdma>),
}

impl State {
    pub(crate) fn new(model: &HostModel) -> Self {
        match &model.mechanism {
            Mechanism::Native(_) | Mechanism::Firmware(_) | Mechanism::Kernel(_) => Self::Plain,
            Mechanism::RemoteWrites(_) => Self::RemoteWrites(RemoteWrites::default()),
            Mechanism::Rdma(model) => Self::Rdma(Box::new(Rdma::new(model.connections))),
        }
    }

    /// What a message costs. Hosts of one model share what was planned last.
    pub(crate) fn plan<'a>(
        &mut self,
        model: &HostModel,
        links: &LinkConfig,
        request: &Request,
        last: &'a mut LastPlan,
    ) -> &'a Plan {
        let (bus, frame) = (&model.bus, links.frame);
        let plan = match (self, &model.mechanism) {
            (Self::RemoteWrites(state), Mechanism::RemoteWrites(clan)) => {
                return state.plan(clan, bus, frame, request, last);
            }
            (_, Mechanism::Native(nic)) => native::plan(nic, bus, frame, request),
            (_, Mechanism::Firmware(nic)) => {
                firmware::plan(nic, bus, (frame, links.host_rate), request)
            }
            (_, Mechanism::Kernel(kernel)) => {
                kernel::plan(kernel, bus, (frame, links.host_rate), request)
            }
            (Self::Rdma(state), Mechanism::Rdma(nic)) => state.plan(nic, bus, frame, request),
            // The state was made for the model.
            (_, Mechanism::RemoteWrites(_) | Mechanism::Rdma(_)) => Plan::free(request.bytes),
        };
        last.set(plan)
    }
}

impl Mechanism {
    /// Whether the adapter is told of a post by a doorbell, and how long until it acts; otherwise
    /// the posting processor starts the message itself.
    pub(crate) fn doorbell(&self, bus: &BusModel) -> Option<Time> {
        match self {
            Self::Native(nic) => Some(bus.programmed_write + nic.doorbell),
            Self::Firmware(nic) => {
                let notice = nic.cycle.picoseconds() * u64::from(nic.doorbell_cycles);
                Some(bus.programmed_write + Time::from_picoseconds(notice))
            }
            Self::Rdma(nic) => Some(nic.doorbell),
            Self::RemoteWrites(_) | Self::Kernel(_) => None,
        }
    }
}

impl Plan {
    /// One that costs nothing but its bytes.
    pub(crate) fn free(bytes: u32) -> Self {
        Self {
            way: "",
            processor: Time::ZERO,
            beside: Time::ZERO,
            service: Time::ZERO,
            mover: Mover::Engine,
            wire_bytes: f64::from(bytes),
            scale: if bytes == 0 { f64::INFINITY } else { 1.0 },
            rate_max: f64::INFINITY,
            sent: Time::ZERO,
            sent_interrupt: Time::ZERO,
            fetch: Time::ZERO,
            adapters: Time::ZERO,
            match_service: Time::ZERO,
            matches_first: false,
            is_one_engine: false,
            receive_processor: Time::ZERO,
            receive_last: Time::ZERO,
            completion: Time::ZERO,
            tally: Tally {
                way: if bytes == 0 { Way::Inline } else { Way::Copied },
                ..Tally::default()
            },
        }
    }
}
