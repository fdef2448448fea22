//! A current RDMA adapter: what crosses PCI Express, and what the adapter remembers.
//!
//! A short send goes with its descriptor, written by the processor behind the doorbell. A longer
//! one has its descriptor fetched, several with one read, and then its data, whose rate is bounded
//! by the reads that may be outstanding. A connection whose state is not in the adapter's cache
//! costs a read at each end.

use viaduct_engine::Time;
use viaduct_sim::config::{BusModel, Frame};

use super::{Mover, Plan, Request};
use crate::config::RdmaModel;

/// What an adapter remembers.
#[derive(Debug)]
pub(crate) struct Rdma {
    /// Connections whose state it has, the least recently used first.
    known: Vec<(u32, u64)>,
    known_max: usize,
}

impl Rdma {
    pub(crate) const fn new(connections: u32) -> Self {
        Self {
            known: Vec::new(),
            known_max: connections as usize,
        }
    }

    /// Whether the state of a connection is there; it is from now on.
    fn knows(&mut self, connection: (u32, u64)) -> bool {
        if self.known.last() == Some(&connection) {
            return true;
        }
        let found = self.known.iter().position(|known| *known == connection);
        if let Some(place) = found {
            self.known.remove(place);
        } else if self.known.len() >= self.known_max && !self.known.is_empty() {
            self.known.remove(0);
        }
        self.known.push(connection);
        found.is_some()
    }

    pub(crate) fn plan(
        &mut self,
        nic: &RdmaModel,
        bus: &BusModel,
        frame: Frame,
        request: &Request,
    ) -> Plan {
        let bytes = request.bytes;
        let is_inline = bytes <= nic.inline_bytes;
        let mut fetch = Time::ZERO;
        if !is_inline {
            if request
                .place_in_batch
                .is_multiple_of(nic.fetch_batch.max(1))
            {
                fetch += nic.read;
            }
            fetch += nic.read;
        }
        let mut match_service = nic.message;
        if !self.knows((request.target.0, request.target.1 & u64::from(u32::MAX))) {
            fetch += nic.read;
            match_service += nic.read;
        }
        let wire_bytes = frame.wire_bytes(u64::from(bytes)) as f64;
        // Little's law: bytes outstanding over the latency of a read.
        let read_rate = f64::from(nic.read_credit_bytes) / nic.read.picoseconds().max(1) as f64;
        let scale = if bytes == 0 {
            f64::INFINITY
        } else {
            wire_bytes / f64::from(bytes)
        };
        Plan {
            way: if is_inline { "inline" } else { "fetched" },
            service: nic.message,
            mover: Mover::Engine,
            wire_bytes,
            scale,
            rate_max: if is_inline {
                f64::INFINITY
            } else {
                read_rate * wire_bytes / f64::from(bytes)
            },
            sent: nic.completion,
            fetch,
            adapters: nic.adapters,
            match_service,
            matches_first: true,
            completion: nic.completion + bus.write,
            ..Plan::free(bytes)
        }
    }
}
