//! How far apart two cores are, as far as a line of cache that goes between them tells.

/// Two cores are near, with one cache below both, when a line that each of them writes in turn
/// takes less than this from one to the other.
///
/// Half round trips that were measured, in nanoseconds: an EPYC of 2022 33 to 60 inside one cache
/// and 180 to 270 between two; a Sapphire Rapids, whose cache is one mesh, 100 to 152. What follows
/// from the distance lies by that limit, too: on the mesh streaming stores pay from 16 to 64 KiB,
/// as on the EPYC's near cores, and not from 4 KiB on, as on its far ones.
pub const NEAR_LINE_BELOW_NS: u32 = 170;

/// Whether a line that takes so long goes between near cores.
#[must_use]
pub fn is_near_line(nanoseconds: f64) -> bool {
    nanoseconds < f64::from(NEAR_LINE_BELOW_NS)
}
