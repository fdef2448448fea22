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

use viaduct_engine::Time;
use viaduct_network::fluid::FlowDemand;
use viaduct_network::hops::{Alone, Ends};
use viaduct_network::{Frame, Rate};

use crate::host::HostModel;
use crate::mechanism::{AdapterState, LastPlan, Plan, Request, Step};
use crate::stage::{STAGES, Stage};

impl HostModel {
    /// What hosts of this model are to the network.
    #[must_use]
    pub fn ends(&self) -> Ends {
        Ends {
            bus_rate: self.bus.dma_rate(),
            forwarding: self.mechanism.forwarding(),
            write: self.bus.write,
        }
    }

    /// The plan of a message of so many bytes and one segment that is alone.
    #[must_use]
    pub fn plan_alone(&self, link: (Frame, Rate), bytes: u32) -> Plan {
        let request = Request {
            bytes,
            segments: 1,
            target: (0, 0),
            is_behind: false,
            place_in_batch: 0,
        };
        let hardware = (&self.mechanism, &self.bus);
        let mut state = AdapterState::new(&self.mechanism);
        let last = &mut LastPlan::default();
        if !self.mechanism.is_stateless() {
            // The first message fills the caches.
            state.plan(hardware, link, &request, last);
        }
        *state.plan(hardware, link, &request, last)
    }

    /// The stages of a message that is planned so, over a way that takes so long, to a program that
    /// takes `notice` to hear of it. They add up to its latency.
    #[must_use]
    pub fn stages_alone(&self, plan: &Plan, way: Alone, notice: Time) -> [Time; STAGES] {
        let Alone { moving, delay } = way;
        let mut receive = plan.match_service.alone();
        if plan.receive_processor > Time::ZERO {
            // Most of the processor's work is done while the bytes come.
            let there = receive + moving + plan.receive_last;
            receive = plan.receive_processor.max(there) - moving;
        }
        let doorbell = self.mechanism.doorbell(&self.bus).unwrap_or(Step::ZERO);
        let mut stages = [Time::ZERO; STAGES];
        for (stage, time) in [
            (Stage::Post, self.processor.post),
            (Stage::Software, plan.processor),
            (Stage::Doorbell, doorbell.alone()),
            (Stage::Descriptor, plan.service.alone() + plan.fetch),
            (Stage::Transfer, moving),
            (Stage::Network, delay + plan.adapters),
            (Stage::Receive, receive),
            (Stage::Completion, plan.completion.alone()),
            (Stage::Notice, notice),
            (Stage::Reap, self.processor.reap),
        ] {
            stages[stage as usize] = time;
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
}
