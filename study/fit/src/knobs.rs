//! Which numbers of a preset a fit moves, and which of them together.
//!
//! What only ever shows as a sum is moved in the ratio that the base has: a latency cannot tell the
//! processor's part from the adapter's. A knob is a factor by which its numbers are slower; a
//! number under several has their product.

use viaduct_measure::{Mode, Test};
use viaduct_scenario::{KeyName, MechanismKind, Preset, PresetNumber, key, parse_size};

use crate::measured::Measured;

/// Significant digits of a number that was fitted.
const DIGITS: usize = 4;

/// While searching: a small step must show.
const DIGITS_SEARCHING: usize = 12;

/// Numbers that move together.
#[derive(Clone, Debug)]
pub(crate) struct Knob {
    /// What they are, for a source.
    pub(crate) what: &'static str,
    /// Each with the power of the factor: a rate is lower where times are longer.
    pub(crate) numbers: Vec<(KeyName, f64)>,
    /// What a first guess takes its factor from.
    pub(crate) guess: Guess,
}

impl Knob {
    /// The power that a number is moved by; `None` if it is not.
    pub(crate) fn power(&self, number: &PresetNumber) -> Option<f64> {
        let mut numbers = self.numbers.iter();
        let its = numbers.find(|(key, _)| number.is(*key));
        its.map(|(_, power)| *power)
    }
}

/// Where a first guess of a factor comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Guess {
    /// The shortest message.
    Fixed,
    /// How much longer the longest takes.
    Rate,
    /// It is 1: another knob has the common part.
    One,
}

type Keys = &'static [(KeyName, f64)];

const PROCESSOR: Keys = &[(key::Cpu::post, 1.0), (key::Cpu::reap, 1.0)];
const POLLING: Keys = &[(key::Cpu::polling_delay, 1.0)];
const SLEEPING: Keys = &[(key::Cpu::interrupt, 1.0), (key::Cpu::wake_up, 1.0)];
const CABLE: Keys = &[(key::Cable::propagation, 1.0)];
const MOVING: Keys = &[
    (key::Bus::rate, -1.0),
    (key::Bus::burst_overhead, 1.0),
    (key::Cable::rate, -1.0),
];

/// The knobs of a kind of adapter, the most needed first.
pub(crate) fn of(preset: &Preset, measured: &[Measured]) -> Vec<Knob> {
    let notice = if measured.iter().any(|each| each.mode == Mode::Block) {
        SLEEPING
    } else {
        POLLING
    };
    let own: (Keys, Keys) = match preset.mechanism {
        MechanismKind::RemoteWrites => (
            &[
                (key::Bus::programmed_write, 1.0),
                (key::Bus::write, 1.0),
                (key::RemoteWrites::adapter, 1.0),
            ],
            &[(key::RemoteWrites::write_rate, -1.0)],
        ),
        MechanismKind::Firmware => (
            &[
                (key::Bus::programmed_write, 1.0),
                (key::Bus::read, 1.0),
                (key::Bus::write, 1.0),
                (key::Firmware::cycle, 1.0),
            ],
            &[(key::Firmware::write_rate, -1.0)],
        ),
        MechanismKind::Kernel => (
            &[
                (key::Bus::programmed_write, 1.0),
                (key::Bus::read, 1.0),
                (key::Bus::write, 1.0),
                (key::Kernel::system_call, 1.0),
                (key::Kernel::send_frame, 1.0),
                (key::Kernel::receive_frame, 1.0),
                (key::Kernel::adapter, 1.0),
                (key::Kernel::interrupt, 1.0),
                (key::Kernel::coalescing, 1.0),
            ],
            &[(key::Kernel::copy_rate, -1.0)],
        ),
        MechanismKind::Rdma => (
            &[
                (key::Bus::write, 1.0),
                (key::Rdma::doorbell, 1.0),
                (key::Rdma::message, 1.0),
                (key::Rdma::adapters, 1.0),
                (key::Rdma::completion, 1.0),
            ],
            // What may be outstanding bounds the rate as well.
            &[(key::Rdma::read_credit, -1.0)],
        ),
        MechanismKind::Native | MechanismKind::Endpoints => (
            &[
                (key::Bus::programmed_write, 1.0),
                (key::Bus::read, 1.0),
                (key::Bus::write, 1.0),
                (key::Nic::doorbell, 1.0),
                (key::Nic::send_descriptor, 1.0),
                (key::Nic::receive_match, 1.0),
                (key::Nic::completion, 1.0),
            ],
            &[(key::Nic::rate, -1.0)],
        ),
    };
    let knob = |what, guess, parts: &[Keys]| Knob {
        what,
        numbers: parts.concat(),
        guess,
    };
    let mut knobs = vec![
        knob(
            "what every message costs",
            Guess::Fixed,
            &[PROCESSOR, notice, own.0, CABLE],
        ),
        knob("the rate of bytes", Guess::Rate, &[MOVING, own.1]),
    ];
    match preset.mechanism {
        MechanismKind::RemoteWrites => {
            knobs.push(knob(
                "what a segment costs",
                Guess::Fixed,
                &[&[(key::RemoteWrites::segment, 1.0)]],
            ));
            knobs.push(knob(
                "what the DMA engine costs",
                Guess::Fixed,
                &[&[
                    (key::RemoteWrites::dma_request, 1.0),
                    (key::RemoteWrites::dma_setup, 1.0),
                    (key::RemoteWrites::dma_interrupt, 1.0),
                ]],
            ));
        }
        MechanismKind::Firmware => {
            knobs.push(knob(
                "the adapter's processor",
                Guess::One,
                &[&[(key::Firmware::cycle, 1.0)]],
            ));
            // A packet crosses the bus, then the link.
            knobs.push(knob(
                "the link's rate",
                Guess::One,
                &[&[(key::Cable::rate, -1.0)]],
            ));
        }
        MechanismKind::Kernel => {
            knobs.push(knob(
                "what a frame costs",
                Guess::One,
                &[&[
                    (key::Kernel::send_frame, 1.0),
                    (key::Kernel::receive_frame, 1.0),
                ]],
            ));
            knobs.push(knob(
                "the processor's copies",
                Guess::One,
                &[&[(key::Kernel::copy_rate, -1.0)]],
            ));
        }
        MechanismKind::Rdma => knobs.push(knob(
            "a read over the bus",
            Guess::Fixed,
            &[&[(key::Rdma::read, 1.0), (key::Rdma::read_credit, 1.0)]],
        )),
        MechanismKind::Native | MechanismKind::Endpoints => {
            knobs.push(knob(
                "a DMA transfer's set-up",
                Guess::Fixed,
                &[&[(key::Nic::dma_setup, 1.0)]],
            ));
            knobs.push(knob(
                "a segment's translation",
                Guess::Fixed,
                &[&[(key::Nic::translate, 1.0)]],
            ));
            knobs.push(knob(
                "a page's crossing",
                Guess::Rate,
                &[&[(key::Nic::page_crossing, 1.0)]],
            ));
        }
    }
    if preset.mechanism == MechanismKind::RemoteWrites && has_both_ways(preset, measured) {
        knobs.push(knob(
            "the processor's own writes",
            Guess::One,
            &[&[(key::RemoteWrites::write_rate, -1.0)]],
        ));
    }
    // Latency has the sum only; a stream overlaps the processor's work with the adapter's.
    if measured.iter().any(|each| each.test != Test::Latency) {
        knobs.push(knob("the processor's part", Guess::One, &[PROCESSOR]));
    }
    knobs
}

/// So many knobs at most: what the last ones move goes to the first two, in the base's ratio.
pub(crate) fn joined(mut knobs: Vec<Knob>, count_max: usize) -> Vec<Knob> {
    let others = knobs.split_off(knobs.len().min(count_max.max(2)));
    for other in others {
        let into = match other.guess {
            Guess::Fixed => 0,
            Guess::Rate => 1,
            Guess::One => continue,
        };
        knobs[into].numbers.extend(other.numbers);
    }
    knobs
}

/// Whether some messages of the fit go by the processor's own writes and some by DMA.
fn has_both_ways(preset: &Preset, measured: &[Measured]) -> bool {
    let size = |key: KeyName| {
        let number = preset.numbers.iter().find(|it| it.is(key));
        number.and_then(|number| parse_size(&number.value).ok())
    };
    let (Some(from), Some(written)) = (
        size(key::RemoteWrites::dma_from),
        size(key::RemoteWrites::dma_written),
    ) else {
        return false;
    };
    let goes_by_dma = |bytes: u32| u64::from(bytes) >= from && u64::from(bytes) > written;
    // One point would be met by any rate.
    let points = measured.iter().flat_map(|each| &each.points);
    let sizes = points.filter(|point| point.bytes > 0 && !point.is_held_out);
    let (dma, own): (Vec<bool>, Vec<bool>) = sizes
        .map(|point| goes_by_dma(point.bytes))
        .partition(|is_dma| *is_dma);
    dma.len() >= 2 && own.len() >= 2
}

/// A preset whose numbers are slower by what the knobs say, as logarithms.
pub(crate) fn turned(base: &Preset, knobs: &[Knob], factors: &[f64], is_result: bool) -> Preset {
    let digits = if is_result { DIGITS } else { DIGITS_SEARCHING };
    let mut preset = base.clone();
    for number in &mut preset.numbers {
        let own = knobs.iter().zip(factors);
        let own = own.filter_map(|(knob, factor)| Some(knob.power(number)? * factor));
        let logarithms: Vec<f64> = own.collect();
        if logarithms.is_empty() {
            continue;
        }
        if let Some(scaled) = number.scaled(libm::exp(logarithms.iter().sum()), digits) {
            *number = scaled;
        }
    }
    preset
}
