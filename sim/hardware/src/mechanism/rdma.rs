//! A current RDMA adapter: what crosses PCI Express, and what the adapter remembers.
//!
//! A short send goes with its descriptor, written by the processor behind the doorbell. A longer
//! one has its descriptor fetched, several with one read, and then its data, whose rate is bounded
//! by the reads that may be outstanding. A connection whose state is not in the adapter costs a
//! read at each end: that is the residency of `viaduct-frames`, as of endpoints in frames, with
//! other costs.

use std::collections::BTreeMap;

use viaduct_engine::{Stream, StreamKey, Time};
use viaduct_frames::Endpoint;
use viaduct_frames::residency::{Brought, Costs, FRAMES_MAX, Policy, Residency, Stall};

use super::{Mover, Plan, Request, Step};
use crate::bus::BusModel;
use viaduct_network::Frame;

/// A current RDMA adapter: latencies of PCI Express, and caches that miss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RdmaModel {
    /// A doorbell's way to the adapter.
    pub doorbell: Time,
    /// Sends up to this size are written with their descriptor by the processor, bytes, unless a
    /// program says itself which.
    pub inline_bytes: u32,
    /// A read over PCI Express, request to data, without the data's own time.
    pub read: Time,
    /// Bytes of reads that may be outstanding: with the read's latency they bound the rate.
    pub read_credit_bytes: u32,
    /// The adapter's time for a message, at each end, pipelined.
    pub message: Time,
    /// Descriptors that come with one fetch.
    pub fetch_batch: u32,
    /// The adapters' part of the one-way latency, both ends.
    pub adapters: Time,
    /// Writing a completion entry.
    pub completion: Time,
    /// Connections whose state the adapter keeps, 1 to 65,534; others cost a read.
    pub connections: u32,
    /// Times that a reliable connection sends again without progress before it breaks; 0: never.
    pub retries: u32,
    /// How long it waits for a message's acknowledgement until then.
    pub timeout: Time,
    /// Whether only what is missing goes again (selective repeat), not all from there on as well
    /// (go-back-N).
    pub repeats_selectively: bool,
}

/// A connection, by the host and the VI at its other end.
type Connection = (u32, u32);

/// What an adapter remembers.
#[derive(Debug)]
pub struct Rdma {
    /// Connections, and which of them have their state in the adapter.
    residency: Residency,
    endpoints: BTreeMap<Connection, Endpoint>,
    /// The connection that was used last: its state is there.
    last: Option<Connection>,
    /// For policies that draw; this one does not.
    random: Stream,
}

impl Rdma {
    pub(crate) fn new(connections: u32) -> Self {
        let frames = connections.clamp(1, FRAMES_MAX.into()) as u16;
        Self {
            residency: Residency::new(frames, Policy::LeastRecentlyUsed, Stall::Nobody),
            endpoints: BTreeMap::new(),
            last: None,
            random: Stream::new(StreamKey {
                seed: 0,
                purpose: 0,
                entity: 0,
            }),
        }
    }

    /// Brings the state of a connection into the adapter; none if it is the one that was used last.
    fn bring(&mut self, connection: Connection) -> Option<Brought> {
        if self.last.replace(connection) == Some(connection) {
            return None;
        }
        let endpoint = self.endpoints.entry(connection);
        let endpoint = *endpoint.or_insert_with(|| self.residency.create());
        self.residency.bring_now(endpoint, &mut self.random)
    }

    pub(crate) fn plan(
        &mut self,
        [nic, receiver]: [&RdmaModel; 2],
        receiver_bus: &BusModel,
        frame: Frame,
        request: &Request,
    ) -> Plan {
        let bytes = request.bytes;
        let is_short = bytes <= nic.inline_bytes;
        let is_inline = bytes == 0 || request.is_inline.unwrap_or(is_short);
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
        let mut match_service = receiver.message;
        if let Some(brought) = self.bring((request.target.0, request.target.1 as u32)) {
            // What it is called at one end it is called at the other, too.
            fetch += nic.connection_costs().of_message(&brought);
            match_service += receiver.connection_costs().of_message(&brought);
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
            service: Step::of(nic.message),
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
            adapters: half(nic.adapters + receiver.adapters),
            match_service: Step::of(match_service),
            matches_first: true,
            completion: Step {
                bus: receiver_bus.write,
                own: receiver.completion,
            },
            ..Plan::free(bytes)
        }
    }
}

/// Of what two adapters each have for both.
const fn half(both: Time) -> Time {
    Time::from_picoseconds(both.picoseconds() / 2)
}

impl RdmaModel {
    /// What it costs to have a connection's state in the adapter: a read of host memory, which has
    /// a copy of what leaves.
    const fn connection_costs(&self) -> Costs {
        Costs {
            fault: Time::ZERO,
            page_in: Time::ZERO,
            unload: Time::ZERO,
            upload: self.read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_a_list_of_the_least_recently_used() {
        let mut random = Stream::new(StreamKey {
            seed: 4,
            purpose: 0,
            entity: 0,
        });
        for room in [1, 2, 7] {
            let mut rdma = Rdma::new(room);
            let mut list: Vec<Connection> = Vec::new();
            for _ in 0..5000 {
                let connection = (random.below(3) as u32, random.below(4) as u32);
                let place = list.iter().position(|known| *known == connection);
                if let Some(place) = place {
                    list.remove(place);
                }
                list.push(connection);
                if list.len() > room as usize {
                    list.remove(0);
                }
                let brought = rdma.bring(connection);
                let was_there = brought.is_none_or(|brought| brought.was_resident);
                assert_eq!(was_there, place.is_some());
            }
        }
    }
}
