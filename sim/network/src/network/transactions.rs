//! Short transactions on the hosts' buses, and short messages of their adapters.

use viaduct_engine::{EventQueue, Time};

use super::{Apart, Network};
use crate::fluid::{FlowDemand, FlowId, ResourceId};
use crate::hops::Shape;

impl Network {
    /// How long a short transaction of `length` takes on a host's bus now.
    ///
    /// The bus serves it as one more member: with n transfers active it takes n + 1 times its
    /// length, and takes its length away from those transfers that the bus holds back. `own`
    /// transfers wait for the transaction and are not among them.
    // Mostly the bus is free, and that is a few steps less than a call.
    #[inline(always)]
    pub fn transact<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        host: u32,
        length: Time,
        own: u32,
    ) -> Time {
        if !self.has_buses || length == Time::ZERO {
            return length;
        }
        let bus = self.bus(host);
        let active = match &mut self.apart {
            None => self.fluid.active_on(bus),
            Some(Apart::Queues(queues)) => queues.busy_on(bus, queue.now()),
            Some(Apart::Arrived(queues)) => queues.busy_on(bus),
            Some(Apart::Frames(frames)) => frames.busy_on_bus(queue, host).into(),
            Some(Apart::Credits(credits)) => credits.busy_on_bus(host, queue.now()).into(),
        };
        let active = active.saturating_sub(own);
        if active == 0 {
            return length;
        }
        self.transact_among(queue, bus, length, active)
    }

    #[inline(never)]
    fn transact_among<E: Copy + From<FlowId>>(
        &mut self,
        queue: &mut EventQueue<E>,
        bus: ResourceId,
        length: Time,
        active: u32,
    ) -> Time {
        match &mut self.apart {
            None => self.fluid.hold_up(queue, bus, length),
            Some(Apart::Queues(queues)) => queues.hold_up(bus, length, queue.now()),
            Some(Apart::Arrived(queues)) => queues.hold_up(bus, length, queue.now()),
            Some(Apart::Frames(frames)) => frames.hold_up(bus.0 - self.first_bus, length),
            Some(Apart::Credits(credits)) => credits.hold_up(bus.0 - self.first_bus, length),
        }
        length.saturating_mul(u64::from(active) + 1)
    }

    /// How long a short message of the adapters themselves takes, an acknowledgement say, until it
    /// is in the other host's memory: it waits for nobody, and is stored where all are.
    pub fn control_delay(&mut self, ends: (u32, u32), flow: u32) -> Time {
        const CONTROL_BYTES: u64 = 16;

        let wire_bytes = self.links.frame.wire_bytes(CONTROL_BYTES) as f64;
        self.route(ends, flow);
        let hosts = self.ends(ends);
        let (path, delays) = (&self.path_links, self.delays());
        let shape = Shape::of_links(path.len());
        let demand = FlowDemand {
            wire_bytes,
            scale: f64::INFINITY,
            rate_max: f64::INFINITY,
            tag: 0,
        };
        let mut delay = Time::ZERO;
        let mut from = 0;
        while from < path.len() {
            let end = shape.hop_end(from, self.links.switching, &hosts);
            delay += delays.hop(shape, &(from..end), path, &demand, &hosts);
            if from > 0 {
                let rate = delays.slowest(&path[from..end]);
                delay += Time::from_picoseconds((wire_bytes / rate + 0.5) as u64);
            }
            from = end;
        }
        if hosts.target.has_bus() {
            delay += hosts.target.write;
        }
        delay + self.links.host_rate.time_for(wire_bytes)
    }
}
