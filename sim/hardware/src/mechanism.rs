//! How an adapter carries a message: one framework, one module per kind.
//!
//! A mechanism is asked for a [`Plan`] once for each message. The plan says which parts of the host
//! and the adapter work on it and for how long; who simulates a cluster carries plans out, with
//! queueing wherever a part is busy and sharing wherever links and buses are. What a mechanism
//! remembers between messages (a cache, say) is its state on each host.

pub mod firmware;
pub mod kernel;
pub mod native;
mod plans;
pub mod rdma;
pub mod remote_writes;
mod tally;

use viaduct_engine::Time;

use crate::bus::BusModel;
use crate::pair::Pair;
use firmware::FirmwareModel;
use kernel::KernelModel;
use native::NicModel;
pub use plans::{PlanId, Plans};
use rdma::{Rdma, RdmaModel};
use remote_writes::{RemoteWriteModel, RemoteWrites};
pub use tally::{Tally, Way};
use viaduct_network::{Frame, Rate, Switching};

/// How an adapter, with the software above it, carries a message.
#[derive(Clone, Debug)]
pub enum Mechanism {
    /// VIA in the adapter: doorbell, descriptor fetch, protection, DMA (Giganet cLAN).
    Native(NicModel),
    /// VIA in a library above remote writes and a DMA engine of one request (CLAN).
    RemoteWrites(RemoteWriteModel),
    /// VIA in the program of a slow processor on the adapter (Myrinet's LANai).
    Firmware(FirmwareModel),
    /// VIA in the kernel, on an ordinary adapter (M-VIA).
    Kernel(KernelModel),
    /// A current RDMA adapter on PCI Express.
    Rdma(RdmaModel),
}

/// A message, as a mechanism sees it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Bytes that cross the network: of a remote read the answer's.
    pub bytes: u32,
    /// Segments at the sender.
    pub segments: u32,
    /// Whether other messages of the engine came just before, with the same fetch.
    pub place_in_batch: u32,
    /// Host and region that the bytes go to, as far as the sender knows: what a mapping is for.
    pub target: (u32, u64),
    /// Whether messages of this VI wait in the engine's queue, which none may overtake.
    pub is_behind: bool,
    /// Whether its program had the bytes written with the descriptor, where programs say so.
    pub is_inline: Option<bool>,
}

impl Request {
    /// What is asked of a message of one segment that came behind no other, such as the answer of a
    /// remote read.
    #[must_use]
    pub const fn alone(bytes: u32, target: (u32, u64)) -> Self {
        Self {
            bytes,
            segments: 1,
            place_in_batch: 0,
            target,
            is_behind: false,
            is_inline: None,
        }
    }
}

/// A step that takes a short transaction of the bus, and a part's own time.
///
/// Who else is on the bus then, whoever simulates a cluster knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Step {
    /// The transaction, with nobody else on the bus.
    pub bus: Time,
    /// The part's own time.
    pub own: Time,
}

impl Step {
    /// It takes no time.
    pub const ZERO: Self = Self::of(Time::ZERO);

    /// One that leaves the bus alone.
    #[must_use]
    pub const fn of(own: Time) -> Self {
        Self {
            bus: Time::ZERO,
            own,
        }
    }

    /// Both, with nobody else on the bus.
    #[inline]
    #[must_use]
    pub fn alone(self) -> Time {
        self.bus + self.own
    }
}

/// Who begins to move the bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mover {
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
pub struct Plan {
    /// What the adapter, or the software above it, calls this way of moving a message.
    pub way: &'static str,
    /// Work of the sending processor before the bytes move.
    pub processor: Time,
    /// Work of the sending processor while the engine serves.
    pub beside: Time,
    /// Work of the sending engine, with its reads over the bus.
    pub service: Step,
    /// Who begins to move the bytes.
    pub mover: Mover,
    /// On the link, with framing.
    pub wire_bytes: f64,
    /// Bytes on the link for each on the bus; infinite if the data does not use it.
    pub scale: f64,
    /// The fastest that both adapters can go, bytes on the link a picosecond.
    pub rate_max: f64,
    /// From the last byte's leaving to the send's completion.
    pub sent: Time,
    /// Work of the sending processor when the bytes have left: an interrupt.
    pub sent_interrupt: Time,
    /// From the engine's work on to the bytes' beginning to move, while it goes on to others.
    pub fetch: Time,
    /// What the adapters add to the way of each byte.
    pub adapters: Time,
    /// Work of the receiving engine, beginning with the first byte.
    pub match_service: Step,
    /// Whether a message takes its receive when its first byte comes, not its last.
    pub matches_first: bool,
    /// Whether that is the engine that sends as well.
    pub is_one_engine: bool,
    /// Work of the receiving processor, most of it while the bytes come.
    pub receive_processor: Time,
    /// The part of it that the last byte waits for.
    pub receive_last: Time,
    /// From the last byte to the completion in memory.
    pub completion: Step,
    /// What is counted at the sender.
    pub tally: Tally,
}

/// The plan that was made last, and of what: the next message is mostly like it.
#[derive(Clone, Copy, Debug)]
pub struct LastPlan {
    of: Option<Likeness>,
    /// The plan.
    pub plan: Plan,
    is_new: bool,
}

/// What a plan hangs on, where one is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Likeness {
    bytes: u32,
    segments: u32,
    /// Which models its two hosts are of.
    groups: [usize; 2],
    /// Whether the buffer that it goes to is mapped.
    is_mapped: bool,
    /// Whether others are before it.
    is_behind: bool,
}

impl Likeness {
    /// Of adapters that remember nothing.
    const fn plain(request: &Request, hosts: Pair<'_>) -> Self {
        Self {
            bytes: request.bytes,
            segments: request.segments,
            groups: hosts.groups,
            is_mapped: true,
            is_behind: false,
        }
    }
}

impl Default for LastPlan {
    fn default() -> Self {
        Self {
            of: None,
            plan: Plan::free(0),
            is_new: true,
        }
    }
}

impl LastPlan {
    /// Whether it is another one than when this was asked last.
    #[inline]
    pub fn take_new(&mut self) -> bool {
        core::mem::take(&mut self.is_new)
    }

    /// Whether the plan is of such a request; if not, the next one will be.
    #[inline]
    fn is_like(&mut self, likeness: Likeness) -> bool {
        self.of.replace(likeness) == Some(likeness)
    }

    fn set(&mut self, plan: Plan) -> &Plan {
        self.plan = plan;
        self.is_new = true;
        &self.plan
    }
}

/// A mechanism's state on one host.
#[derive(Debug)]
pub enum AdapterState {
    /// It remembers nothing.
    Plain,
    /// Which remote buffers are mapped.
    RemoteWrites(RemoteWrites),
    /// Which connections have their state in the adapter.
    Rdma(Box<Rdma>),
}

impl AdapterState {
    /// Of a host that has carried nothing yet.
    #[must_use]
    pub fn new(mechanism: &Mechanism) -> Self {
        match mechanism {
            Mechanism::Native(_) | Mechanism::Firmware(_) | Mechanism::Kernel(_) => Self::Plain,
            Mechanism::RemoteWrites(_) => Self::RemoteWrites(RemoteWrites::default()),
            Mechanism::Rdma(model) => Self::Rdma(Box::new(Rdma::new(model.connections))),
        }
    }

    /// What a message costs between two hosts over their links. Pairs of hosts of the same models
    /// share what was planned last.
    pub fn plan<'a>(
        &mut self,
        hosts: Pair<'_>,
        link: (Frame, Rate),
        request: &Request,
        last: &'a mut LastPlan,
    ) -> &'a Plan {
        use Mechanism::{Firmware, Kernel, Native, RemoteWrites};

        let Pair {
            sender, receiver, ..
        } = hosts;
        let buses = [&sender.bus, &receiver.bus];
        let plan = match (self, &sender.mechanism, &receiver.mechanism) {
            (Self::RemoteWrites(state), RemoteWrites(one), RemoteWrites(other)) => {
                return state.plan([one, other], (buses, hosts.groups), link.0, request, last);
            }
            (Self::Plain, ..) if last.is_like(Likeness::plain(request, hosts)) => {
                return &last.plan;
            }
            (_, Native(one), Native(other)) => native::plan([one, other], buses, link.0, request),
            (_, Firmware(one), Firmware(other)) => {
                firmware::plan([one, other], buses, link, request)
            }
            (_, Kernel(one), Kernel(other)) => kernel::plan([one, other], buses, link, request),
            (Self::Rdma(state), Mechanism::Rdma(one), Mechanism::Rdma(other)) => {
                state.plan([one, other], buses[1], link.0, request)
            }
            // The state was made for the model, and no adapter understands one of another kind: the
            // table of combinations of `viaduct-scenario` has them refused.
            _ => Plan::free(request.bytes),
        };
        last.set(plan)
    }
}

impl Mechanism {
    /// What keeps an adapter from understanding another's messages; nothing if it does understand
    /// them.
    #[must_use]
    pub fn differs_from(&self, other: &Self) -> Option<&'static str> {
        match (self, other) {
            (Self::Native(_), Self::Native(_)) | (Self::Rdma(_), Self::Rdma(_)) => None,
            (Self::Firmware(one), Self::Firmware(other)) => (one.packet_bytes
                != other.packet_bytes)
                .then_some("their programs cut messages into packets of other sizes"),
            (Self::Kernel(one), Self::Kernel(other)) => (one.frame_bytes != other.frame_bytes)
                .then_some("their kernels cut messages into frames of other sizes"),
            (Self::RemoteWrites(one), Self::RemoteWrites(other)) => {
                one.differs_from(other).then_some(
                    "their libraries write other queues, of other slots, into each other's memory",
                )
            }
            (
                Self::Native(_)
                | Self::Rdma(_)
                | Self::Firmware(_)
                | Self::Kernel(_)
                | Self::RemoteWrites(_),
                _,
            ) => Some("they are of other mechanisms, each with a protocol of its own"),
        }
    }

    /// Whether the adapter is told of a post, of a send or a receive, by a doorbell, and how long
    /// until it acts; otherwise the posting processor starts a message itself, and a receive is
    /// there when the processor has put it there.
    #[must_use]
    pub fn doorbell(&self, bus: &BusModel) -> Option<Step> {
        match self {
            Self::Native(nic) => Some(nic.doorbell(bus)),
            Self::Firmware(nic) => {
                let notice = nic.cycle.picoseconds() * u64::from(nic.doorbell_cycles);
                Some(Step {
                    bus: bus.programmed_write,
                    own: Time::from_picoseconds(notice),
                })
            }
            Self::Rdma(nic) => Some(Step::of(nic.doorbell)),
            Self::RemoteWrites(_) | Self::Kernel(_) => None,
        }
    }

    /// The adapter with VIA of its own, if it is one.
    #[must_use]
    pub const fn native(&self) -> Option<&NicModel> {
        match self {
            Self::Native(nic) => Some(nic),
            _ => None,
        }
    }

    /// Messages of one VI whose data may move at once; the next ones wait in order.
    #[must_use]
    pub const fn moving_per_vi(&self) -> u32 {
        match self {
            Self::Native(nic) => nic.moving_per_vi,
            _ => 1,
        }
    }

    /// Whether the adapter reads a VI's next descriptor while data of the VI waits to move.
    #[must_use]
    pub const fn reads_ahead(&self) -> bool {
        !matches!(self, Self::Native(_))
    }

    /// Whether data is forwarded between bus and link while it still arrives.
    #[must_use]
    pub const fn forwarding(&self) -> Switching {
        match self {
            Self::Native(nic) => nic.forwarding,
            _ => Switching::CutThrough,
        }
    }

    /// Whether a processor may be interrupted for what it has sent.
    #[must_use]
    pub const fn interrupts_senders(&self) -> bool {
        matches!(self, Self::RemoteWrites(_))
    }

    /// Whether it sends again what was lost on a reliable connection.
    #[must_use]
    pub const fn sends_again(&self) -> bool {
        matches!(self, Self::Rdma(model) if model.retries > 0)
    }

    /// Whether it takes no time for anything but the bytes, and lets each message go by itself.
    #[must_use]
    pub fn is_free(&self) -> bool {
        matches!(self, Self::Native(nic) if nic.is_free())
    }

    /// Whether it remembers nothing between messages: equal requests have equal plans.
    #[must_use]
    pub const fn is_stateless(&self) -> bool {
        matches!(self, Self::Native(_) | Self::Firmware(_) | Self::Kernel(_))
    }
}

impl Plan {
    /// One that costs nothing but its bytes.
    #[must_use]
    pub fn free(bytes: u32) -> Self {
        Self {
            way: "",
            processor: Time::ZERO,
            beside: Time::ZERO,
            service: Step::ZERO,
            mover: Mover::Engine,
            wire_bytes: f64::from(bytes),
            scale: if bytes == 0 { f64::INFINITY } else { 1.0 },
            rate_max: f64::INFINITY,
            sent: Time::ZERO,
            sent_interrupt: Time::ZERO,
            fetch: Time::ZERO,
            adapters: Time::ZERO,
            match_service: Step::ZERO,
            matches_first: false,
            is_one_engine: false,
            receive_processor: Time::ZERO,
            receive_last: Time::ZERO,
            completion: Step::ZERO,
            tally: Tally {
                way: if bytes == 0 { Way::Inline } else { Way::Copied },
                ..Tally::default()
            },
        }
    }
}
