//! What a message costs that is alone: its buffers are known to the adapters, nothing came before
//! it, and nobody else is on its way.
//!
//! Its latency is the sum of its fixed costs, and its bytes at the rate of the slowest part (links,
//! buses, the adapters' own rate):
//!
//! ```text
//! post + doorbell + descriptor + max over parts(n / rate) + propagation + switches
//!      + receive + completion + notice + reap
//! ```
//!
//! With store-and-forward the bytes are paid once a hop.
//!
//! That is a send. Nobody hears of a remote write without immediate data, which ends with its
//! completion. A remote read is two messages, one each way: its request is like a write of no
//! bytes, and its answer begins with its bytes.

use viaduct_engine::Time;
use viaduct_network::fluid::FlowDemand;
use viaduct_network::hops::{Alone, End};
use viaduct_network::{Frame, Rate};

use crate::host::HostModel;
use crate::mechanism::{AdapterState, LastPlan, Plan, Request, Step};
use crate::pair::Pair;
use crate::stage::{STAGES, Stage};

/// What a message is that crosses the network once, and so which steps it has at its ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Leg {
    /// A send, or a remote write with immediate data: the receiver's application takes so long to
    /// hear of it, and takes it.
    Taken(Time),
    /// A remote write, or the request of a remote read: nobody at its target hears of it.
    Placed,
    /// The answer of a remote read, which the adapter that is asked sends without its host.
    Answer,
}

impl HostModel {
    /// What hosts of this model are to the network.
    #[must_use]
    pub fn end(&self) -> End {
        End {
            bus_rate: self.bus.dma_rate(),
            forwarding: self.mechanism.forwarding(),
            write: self.bus.write,
        }
    }
}

impl Pair<'_> {
    /// The plan of a message of so many bytes and one segment that is alone.
    #[must_use]
    pub fn plan_alone(self, link: (Frame, Rate), bytes: u32) -> Plan {
        let request = Request::alone(bytes, (0, 0));
        let mut state = AdapterState::new(&self.sender.mechanism);
        let last = &mut LastPlan::default();
        if !self.sender.mechanism.is_stateless() {
            // The first message fills the caches.
            state.plan(self, link, &request, last);
        }
        *state.plan(self, link, &request, last)
    }

    /// The stages of a message that is planned so, over a way that takes so long. They add up to
    /// its latency; those of a remote read are the sums of its request's and its answer's.
    #[must_use]
    pub fn stages_alone(self, plan: &Plan, way: Alone, leg: Leg) -> [Time; STAGES] {
        let Alone { moving, delay } = way;
        let mut receive = plan.match_service.alone();
        if plan.receive_processor > Time::ZERO {
            // Most of the processor's work is done while the bytes come.
            let there = receive + moving + plan.receive_last;
            receive = plan.receive_processor.max(there) - moving;
        }
        let mut stages = [Time::ZERO; STAGES];
        let mut put = |stage: Stage, time| stages[stage as usize] = time;
        put(Stage::Transfer, moving);
        put(Stage::Network, delay + plan.adapters);
        put(Stage::Receive, receive);
        put(Stage::Completion, plan.completion.alone());
        if leg != Leg::Answer {
            let HostModel { mechanism, bus, .. } = self.sender;
            let doorbell = mechanism.doorbell(bus).unwrap_or(Step::ZERO);
            put(Stage::Post, self.sender.processor.post);
            put(Stage::Software, plan.processor);
            put(Stage::Doorbell, doorbell.alone());
            put(Stage::Descriptor, plan.service.alone() + plan.fetch);
        }
        if let Leg::Taken(notice) = leg {
            put(Stage::Notice, notice);
            put(Stage::Reap, self.receiver.processor.reap);
        }
        stages
    }
}

impl Plan {
    /// What the message puts on links and buses, and how fast the adapters can move it.
    #[inline]
    #[must_use]
    pub fn demand(&self, tag: u32) -> FlowDemand {
        FlowDemand {
            wire_bytes: self.wire_bytes,
            scale: self.scale,
            rate_max: self.rate_max,
            tag,
        }
    }

    /// The same bytes as the answer of a remote read: no processor works for it at the adapter that
    /// sends it.
    #[must_use]
    pub fn of_answer(self) -> Self {
        Self {
            processor: Time::ZERO,
            ..self
        }
    }
}
