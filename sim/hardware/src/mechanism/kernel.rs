//! VIA in the kernel: a system call and a copy at the sender, frames, and at the receiver an
//! interrupt, the protocol, and a copy.
//!
//! A long message's frames overlap: what the processors do for each bounds its rate, and the last
//! frame's part comes behind the last byte.

use viaduct_engine::Time;

use super::{Mover, Plan, Request, Step};
use crate::bus::BusModel;
use viaduct_network::{Frame, Rate};

/// VIA in the kernel: a system call, copies, frames, interrupts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelModel {
    /// Entering and leaving the kernel at a post.
    pub system_call: Time,
    /// The protocol's and driver's work on a frame to send.
    pub send_frame: Time,
    /// The driver's and protocol's work on a frame that came.
    pub receive_frame: Time,
    /// Rate of a copy by the processor, once at each end.
    pub copy_rate: Rate,
    /// Adapter: from the driver's word to the first bit, and from the last bit to memory: each.
    pub adapter: Time,
    /// The interrupt of a frame, its handler begun.
    pub interrupt: Time,
    /// How long the adapter waits for more frames before it interrupts.
    pub coalescing: Time,
    /// Largest payload of a frame, bytes.
    pub frame_bytes: u32,
}

pub(crate) fn plan(
    [kernel, receiver]: [&KernelModel; 2],
    [bus, receiver_bus]: [&BusModel; 2],
    (frame, link_rate): (Frame, Rate),
    request: &Request,
) -> Plan {
    let bytes = request.bytes;
    let payload = kernel.frame_bytes.max(1);
    let frames = bytes.div_ceil(payload).max(1);
    let times =
        |time: Time, count: u32| Time::from_picoseconds(time.picoseconds() * u64::from(count));
    let copy = |model: &KernelModel| model.copy_rate.time_for(f64::from(bytes));
    let last_copy = receiver
        .copy_rate
        .time_for(f64::from(bytes - (frames - 1) * payload));
    let framing = Frame {
        payload_bytes: payload,
        ..frame
    };
    let wire_bytes = framing.wire_bytes(u64::from(bytes)) as f64;
    let sending = times(kernel.send_frame, frames) + copy(kernel);
    // Frames that come while the adapter waits share an interrupt.
    let frame_bytes = f64::from(payload + frame.header_bytes);
    let between = link_rate.time_for(frame_bytes).picoseconds() as f64;
    let waits = receiver.coalescing.picoseconds() as f64;
    let share = if waits > between {
        between / waits
    } else {
        1.0
    };
    let interrupt = (receiver.interrupt.picoseconds() as f64 * share) as u64;
    let each = receiver.receive_frame + Time::from_picoseconds(interrupt);
    let receiving = times(each, frames) + copy(receiver);
    let slowest = sending.max(receiving).picoseconds() as f64;
    Plan {
        way: "copied",
        // The first frame is copied and handed over before anything moves.
        processor: kernel.system_call + kernel.send_frame + first_copy(kernel, bytes),
        service: Step {
            bus: bus.programmed_write + bus.read,
            own: Time::ZERO,
        },
        mover: Mover::Engine,
        wire_bytes,
        scale: if bytes == 0 {
            f64::INFINITY
        } else {
            wire_bytes / f64::from(bytes)
        },
        rate_max: if frames > 1 {
            wire_bytes / slowest
        } else {
            f64::INFINITY
        },
        adapters: kernel.adapter + receiver.adapter,
        receive_processor: receiving,
        receive_last: receiver.coalescing + receiver.interrupt + receiver.receive_frame + last_copy,
        completion: Step {
            bus: receiver_bus.write,
            own: Time::ZERO,
        },
        ..Plan::free(bytes)
    }
}

/// Copying the first frame.
fn first_copy(kernel: &KernelModel, bytes: u32) -> Time {
    kernel
        .copy_rate
        .time_for(f64::from(bytes.min(kernel.frame_bytes.max(1))))
}
