//! Rates of links: as words of an enumeration, in Mbit/s, and as multiples of the oldest, 2.5
//! Gbit/s.

use std::ffi::c_int;

use viaduct_verbs_abi::*;

/// No multiple of 2.5 Gbit/s is near.
const NONE: c_int = -1;

/// A rate, how many Mbit/s it is (14 Gbit/s are 14,062, by the coding of the link), and the
/// multiple of 2.5 Gbit/s that stands for it.
const RATES: &[(c_int, c_int, c_int)] = &[
    (RATE_2_5_GBPS, 2_500, 1),
    (RATE_5_GBPS, 5_000, 2),
    (RATE_10_GBPS, 10_000, 4),
    (RATE_20_GBPS, 20_000, 8),
    (RATE_30_GBPS, 30_000, 12),
    (RATE_40_GBPS, 40_000, 16),
    (RATE_60_GBPS, 60_000, 24),
    (RATE_80_GBPS, 80_000, 32),
    (RATE_120_GBPS, 120_000, 48),
    (RATE_14_GBPS, 14_062, NONE),
    (RATE_56_GBPS, 56_250, NONE),
    (RATE_112_GBPS, 112_500, NONE),
    (RATE_168_GBPS, 168_750, NONE),
    (RATE_25_GBPS, 25_781, NONE),
    (RATE_100_GBPS, 103_125, NONE),
    (RATE_200_GBPS, 206_250, NONE),
    (RATE_300_GBPS, 309_375, NONE),
    (RATE_28_GBPS, 28_125, 11),
    (RATE_50_GBPS, 53_125, 20),
    (RATE_400_GBPS, 425_000, 160),
    (RATE_600_GBPS, 637_500, 240),
    (RATE_800_GBPS, 850_000, 320),
    (RATE_1200_GBPS, 1_275_000, 480),
];

/// `ibv_rate_to_mbps`: -1 for a rate that is not known.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mbps(rate: c_int) -> c_int {
    let known = RATES.iter().find(|(each, ..)| *each == rate);
    known.map_or(-1, |(_, mbps, _)| *mbps)
}

/// `mbps_to_ibv_rate`: `IBV_RATE_MAX` for what is none.
#[unsafe(no_mangle)]
pub extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> c_int {
    let known = RATES.iter().find(|(_, each, _)| *each == mbps);
    known.map_or(RATE_MAX, |(rate, ..)| *rate)
}

/// `ibv_rate_to_mult`: -1 for a rate that is not known.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mult(rate: c_int) -> c_int {
    let known = RATES.iter().find(|(each, ..)| *each == rate);
    known.map_or(-1, |(_, _, multiple)| *multiple)
}

/// `mult_to_ibv_rate`: `IBV_RATE_MAX` for what is none.
#[unsafe(no_mangle)]
pub extern "C" fn mult_to_ibv_rate(multiple: c_int) -> c_int {
    let known = RATES
        .iter()
        .find(|(_, _, each)| *each == multiple && multiple != NONE);
    known.map_or(RATE_MAX, |(rate, ..)| *rate)
}

/// Mbit/s of a lane by a port's `active_speed`.
pub(crate) fn lane_mbps(speed: u8) -> u32 {
    match speed {
        1 => 2_500,
        2 => 5_000,
        4 | 8 => 10_000,
        16 => 14_000,
        32 => 25_000,
        64 => 50_000,
        128 => 100_000,
        _ => 0,
    }
}

/// Lanes by a port's `active_width`.
pub(crate) fn lanes(width: u8) -> u32 {
    match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    }
}
