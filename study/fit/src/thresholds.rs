//! The sizes from which a model moves messages another way: fitted by trying.
//!
//! Only messages on either side of such a size show it, so each two neighbouring sizes of the fit
//! are one place where it may lie, and nothing tells where between them: it is put in the middle,
//! by ratio.

use viaduct_scenario::{KeyName, MechanismKind, Preset, key};

use crate::measured::Measured;

/// A number of a preset that is such a size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Threshold {
    pub(crate) key: KeyName,
    /// Bytes that messages of its size have more than the last that goes the way before.
    first_of_next: u64,
}

const fn up_to(key: KeyName) -> Threshold {
    Threshold {
        key,
        first_of_next: 0,
    }
}

/// The thresholds of a kind of adapter that a measurement can show.
pub(crate) fn of(preset: &Preset) -> Vec<Threshold> {
    match preset.mechanism {
        MechanismKind::Native => vec![up_to(key::Nic::inline)],
        MechanismKind::Rdma => vec![up_to(key::Rdma::inline)],
        MechanismKind::RemoteWrites => vec![
            Threshold {
                key: key::RemoteWrites::dma_from,
                first_of_next: 1,
            },
            up_to(key::RemoteWrites::dma_written),
        ],
        MechanismKind::Firmware | MechanismKind::Kernel | MechanismKind::Endpoints => Vec::new(),
    }
}

/// Where a threshold may lie: two sizes of the fit at least on either side, so that a way is not
/// fitted to a single point. The last byte of the way before.
pub(crate) fn places(measured: &[Measured]) -> Vec<u64> {
    let points = measured.iter().flat_map(|each| &each.points);
    let used = points.filter(|point| !point.is_held_out);
    let mut sizes: Vec<u32> = used.map(|point| point.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let inner = sizes.get(1..sizes.len().saturating_sub(1)).unwrap_or(&[]);
    inner
        .windows(2)
        .map(|pair| middle(pair[0], pair[1]))
        .collect()
}

/// Between two sizes, by ratio: at least the lower, and below the higher.
fn middle(lower: u32, higher: u32) -> u64 {
    let product = f64::from(lower.max(1)) * f64::from(higher);
    (product.sqrt() as u64).clamp(u64::from(lower), u64::from(higher) - 1)
}

impl Threshold {
    /// The preset with it behind a size.
    pub(crate) fn put(self, preset: &Preset, last_bytes: u64) -> Option<Preset> {
        let mut preset = preset.clone();
        let number = preset.numbers.iter_mut().find(|it| it.is(self.key))?;
        *number = number.with_bytes(last_bytes + self.first_of_next)?;
        Some(preset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_lies_between_two_sizes() {
        assert_eq!(middle(8, 256), 45);
        assert_eq!(middle(0, 8), 2);
        assert_eq!(middle(8, 9), 8);
        assert_eq!(middle(0, 1), 0);
    }
}
