//! VIA in the adapter: doorbell, descriptor fetch, protection, DMA.
//!
//! The steps of a message are priced here.

use viaduct_engine::Time;

use super::{Mover, Plan, Request, Step};
use crate::bus::BusModel;
use crate::pages::page_crossings;
use viaduct_network::{Frame, Rate, Switching};

/// The network adapter, stage by stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NicModel {
    /// From the doorbell's arrival to the NIC's reaction.
    pub doorbell: Time,
    /// Reading and checking a send descriptor, beside the bus read.
    pub send_descriptor: Time,
    /// Translation and protection check of one buffer segment.
    pub translate: Time,
    /// Messages up to this size travel with their descriptor and need no DMA of their own, bytes.
    pub inline_bytes: u32,
    /// Starting a DMA transfer of data, at each end.
    pub dma_setup: Time,
    /// Messages of one VI whose data may move at once; the next ones wait in order.
    ///
    /// With more than one, a short message may overtake; its latency counts to its own arrival.
    pub moving_per_vi: u32,
    /// Rate at which the NIC moves a message's bytes between bus and link.
    pub rate: Rate,
    /// Size of a page in the translation table, bytes; 0: pages cost nothing.
    pub page_bytes: u32,
    /// Stopping and restarting the stream where a buffer crosses into its next page, at each end.
    pub page_crossing: Time,
    /// Whether data is forwarded to the link (and from it to the bus) while it still arrives.
    pub forwarding: Switching,
    /// Finding the VI and its next receive descriptor, beside the bus read.
    pub receive_match: Time,
    /// Preparing the completion, beside the bus write.
    pub completion: Time,
}

/// What a message's bytes ask of links and buses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// On the link, with framing.
    pub wire_bytes: f64,
    /// Bytes on the link for each on the bus; infinite if the data does not use it.
    pub scale: f64,
    /// The fastest that both adapters can go, bytes on the link a picosecond.
    pub rate_max: f64,
}

/// The price of a message, step by step.
impl NicModel {
    /// From the processor's write to the adapter's knowing of a descriptor, of either queue.
    #[inline]
    #[must_use]
    pub const fn doorbell(&self, bus: &BusModel) -> Step {
        Step {
            bus: bus.short(bus.programmed_write),
            own: self.doorbell,
        }
    }

    /// Reading and checking a send's descriptor, and starting its data.
    #[inline]
    #[must_use]
    pub fn send(&self, bus: &BusModel, bytes: u32) -> Step {
        Step {
            bus: bus.short(bus.read),
            own: self.send_descriptor + self.data_setup(bytes),
        }
    }

    /// Finding the receive that a message meets, reading its descriptor, and starting its data.
    #[inline]
    #[must_use]
    pub fn receive(&self, bus: &BusModel, bytes: u32) -> Step {
        Step {
            bus: bus.short(bus.read),
            own: self.receive_match + self.data_setup(bytes),
        }
    }

    /// Completing a descriptor.
    #[inline]
    #[must_use]
    pub const fn complete(&self, bus: &BusModel) -> Step {
        Step {
            bus: bus.short(bus.write),
            own: self.completion,
        }
    }

    #[inline]
    fn data_setup(&self, bytes: u32) -> Time {
        let translate = if bytes > 0 {
            self.translate
        } else {
            Time::ZERO
        };
        let setup = if bytes > self.inline_bytes {
            self.dma_setup
        } else {
            Time::ZERO
        };
        translate + setup
    }

    /// For how long the stream of a message stops at one end where buffers cross into their next
    /// pages, picoseconds.
    fn stops(&self, bytes: u32) -> f64 {
        let crossings = page_crossings(bytes, self.page_bytes);
        self.page_crossing.picoseconds() as f64 * f64::from(crossings)
    }

    /// What the bytes of a message to an adapter ask of links and buses.
    #[must_use]
    pub fn load(&self, receiver: &Self, frame: Frame, bytes: u32) -> Load {
        let wire_bytes = frame.wire_bytes(u64::from(bytes)) as f64;
        let payload = f64::from(bytes);
        let stops = self.stops(bytes) + receiver.stops(bytes);
        let rates = [self.rate, receiver.rate].map(Rate::bytes_per_picosecond);
        let least = payload / rates[0].min(rates[1]) + stops;
        Load {
            wire_bytes,
            // A message without bytes of its own does not use the bus for data.
            scale: if bytes == 0 {
                f64::INFINITY
            } else {
                wire_bytes / payload
            },
            // What takes no time has no bound: 0 / 0 would be no number.
            rate_max: if least > 0.0 {
                wire_bytes / least
            } else {
                f64::INFINITY
            },
        }
    }

    /// Whether it takes no time for anything but the bytes, and lets each message go by itself.
    #[must_use]
    pub fn is_free(&self) -> bool {
        let times = [
            self.doorbell,
            self.send_descriptor,
            self.translate,
            self.dma_setup,
            self.receive_match,
            self.completion,
        ];
        times == [Time::ZERO; 6] && self.moving_per_vi == u32::MAX
    }
}

pub(crate) fn plan(
    [nic, receiver]: [&NicModel; 2],
    [bus, receiver_bus]: [&BusModel; 2],
    frame: Frame,
    request: &Request,
) -> Plan {
    let bytes = request.bytes;
    let Load {
        wire_bytes,
        scale,
        rate_max,
    } = nic.load(receiver, frame, bytes);
    let is_inline = bytes <= nic.inline_bytes;
    Plan {
        way: if is_inline { "inline" } else { "DMA" },
        service: nic.send(bus, bytes),
        mover: Mover::Engine,
        wire_bytes,
        scale,
        rate_max,
        sent: nic.complete(bus).alone(),
        match_service: receiver.receive(receiver_bus, bytes),
        matches_first: true,
        completion: receiver.complete(receiver_bus),
        ..Plan::free(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number another power of two, so that a sum says which are in it.
    #[test]
    fn each_step_has_its_own_numbers() {
        let time = |place: u32| Time::from_picoseconds(1 << place);
        let nic = NicModel {
            doorbell: time(0),
            send_descriptor: time(1),
            translate: time(2),
            inline_bytes: 4,
            dma_setup: time(3),
            moving_per_vi: 1,
            rate: Rate::from_bits_per_second(8e12),
            page_bytes: 4096,
            page_crossing: time(4),
            forwarding: Switching::CutThrough,
            receive_match: time(5),
            completion: time(6),
        };
        let bus = BusModel {
            rate: Rate::from_bits_per_second(8e9),
            burst_bytes: 0,
            burst_overhead: Time::ZERO,
            programmed_write: time(7),
            read: time(8),
            write: time(9),
        };
        let frame = Frame {
            payload_bytes: 0,
            header_bytes: 16,
        };
        let sum = |places: &[u32]| Time::from_picoseconds(places.iter().map(|at| 1 << at).sum());
        for (bytes, data) in [(0, &[][..]), (4, &[2]), (5, &[2, 3])] {
            let request = Request {
                bytes,
                segments: 1,
                place_in_batch: 0,
                target: (1, 0),
                is_behind: false,
                is_inline: None,
            };
            let plan = plan([&nic; 2], [&bus; 2], frame, &request);
            assert_eq!(
                plan.service.alone(),
                sum(&[&[8, 1], data].concat()),
                "{bytes}"
            );
            assert_eq!(plan.match_service.alone(), sum(&[&[8, 5], data].concat()));
            assert_eq!(
                (plan.sent, plan.completion.alone()),
                (sum(&[9, 6]), sum(&[9, 6]))
            );
            assert_eq!(nic.doorbell(&bus).alone(), sum(&[7, 0]));
        }
        // Of a bus without a bound the adapter's own time is all there is.
        let free = BusModel {
            rate: Rate::INFINITE,
            ..bus
        };
        let steps = [
            nic.doorbell(&free),
            nic.send(&free, 5),
            nic.receive(&free, 5),
        ];
        let own = [sum(&[0]), sum(&[1, 2, 3]), sum(&[5, 2, 3])];
        assert_eq!(steps.map(Step::alone), own);
        assert_eq!(nic.complete(&free).alone(), sum(&[6]));
        // One byte a picosecond, and a stop at each end for each of two pages.
        let load = nic.load(&nic, frame, 8192);
        assert_eq!((load.wire_bytes, load.scale), (8208.0, 8208.0 / 8192.0));
        assert_eq!(load.rate_max, 8208.0 / (8192.0 + 2.0 * 2.0 * 16.0));
        let frames = [
            frame,
            Frame {
                header_bytes: 0,
                ..frame
            },
        ];
        for frame in frames {
            let load = nic.load(&nic, frame, 0);
            assert_eq!((load.scale, load.rate_max), (f64::INFINITY, f64::INFINITY));
        }
    }
}
