//! A histogram whose bins have equal ratios, and the modes of a distribution.

/// Bins of a power of two.
const PER_OCTAVE: u64 = 16;
const BINS: usize = (60 * PER_OCTAVE + PER_OCTAVE) as usize;

/// A histogram of whole numbers in bins of equal ratios, 16 to a power of two.
///
/// What it says of values is right to one bin: to 6 %. It is 8 KB large, whatever is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct LogHistogram {
    counts: Vec<u64>,
}

/// Values around which many lie, with few between them and the next such.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistogramMode {
    /// The middle of the bin that has most.
    pub value: f64,
    /// Of all values, up to where the fewest lie towards the next mode.
    pub share: f64,
}

impl Default for LogHistogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BINS],
        }
    }
}

impl LogHistogram {
    /// Takes a value in.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.counts[bin(value)] += 1;
    }

    /// Takes so many values of a bin in, as [`LogHistogram::bins`] numbers it; `false` for a number
    /// that no bin has.
    pub fn add(&mut self, bin: usize, count: u64) -> bool {
        let Some(its) = self.counts.get_mut(bin) else {
            return false;
        };
        *its = its.saturating_add(count);
        true
    }

    /// Bins with something in them: number and count.
    pub fn bins(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.counts.iter().copied().enumerate();
        counts.filter(|(_, count)| *count > 0)
    }

    /// Takes another's values in.
    pub fn merge(&mut self, other: &Self) {
        for (bin, count) in other.bins() {
            self.add(bin, count);
        }
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The mean, each value taken for the middle of its bin; [`None`] of nothing.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self
            .bins()
            .map(|(bin, count)| middle(bin) * count as f64)
            .sum();
        let count = self.count();
        (count > 0).then(|| sum / count as f64)
    }

    /// The middle of the bin with the value that this share of all is not above; [`None`] of
    /// nothing.
    #[must_use]
    pub fn value_at(&self, quantile: f64) -> Option<f64> {
        let wanted = (quantile * self.count() as f64).max(1.0);
        let mut below = 0.0;
        let mut last = None;
        for (bin, count) in self.bins() {
            below += count as f64;
            last = Some(middle(bin));
            if below >= wanted {
                break;
            }
        }
        last
    }

    /// The modes, least first: between two of them a bin has less than half of what the lower one
    /// has. Those with fewer than one of a thousand values are left out.
    #[must_use]
    pub fn modes(&self) -> Vec<HistogramMode> {
        let all = self.count();
        let smooth = self.smooth();
        // The last bin of each mode so far, and its peak.
        let mut modes: Vec<Peak> = Vec::new();
        let mut current: Option<Peak> = None;
        for (bin, density) in smooth.iter().copied().enumerate() {
            let peak = current.get_or_insert(Peak::new(bin, density));
            if density > peak.height && peak.valley >= peak.height / 2 {
                // Still the way up, or a dent on it.
                *peak = Peak {
                    first: peak.first,
                    ..Peak::new(bin, density)
                };
            } else if density / 2 > peak.valley {
                // Up again from a valley: the next mode begins behind it.
                let first = peak.valley_bin;
                modes.extend(current.replace(Peak {
                    first,
                    ..Peak::new(bin, density)
                }));
            } else if density < peak.valley {
                peak.valley = density;
                peak.valley_bin = bin;
            }
        }
        modes.extend(current);
        let ends = modes.iter().skip(1).map(|next| next.first).chain([BINS]);
        let found = modes.iter().zip(ends).map(|(mode, end)| HistogramMode {
            value: middle(mode.bin),
            share: self.counts[mode.first..end].iter().sum::<u64>() as f64 / all.max(1) as f64,
        });
        found.filter(|mode| mode.share >= 1e-3).collect()
    }

    /// Sums of three bins, so that one that has fewer by chance is no valley.
    fn smooth(&self) -> Vec<u64> {
        let of = |bin: Option<usize>| bin.and_then(|bin| self.counts.get(bin)).copied();
        (0..BINS)
            .map(|bin| {
                let three = [bin.checked_sub(1), Some(bin), Some(bin + 1)];
                three.into_iter().filter_map(of).sum()
            })
            .collect()
    }
}

/// A mode while it is found.
#[derive(Clone, Copy, Debug)]
struct Peak {
    first: usize,
    bin: usize,
    height: u64,
    /// The least behind the peak, and where.
    valley: u64,
    valley_bin: usize,
}

impl Peak {
    const fn new(bin: usize, height: u64) -> Self {
        Self {
            first: bin,
            bin,
            height,
            valley: height,
            valley_bin: bin,
        }
    }
}

const fn bin(value: u64) -> usize {
    if value < PER_OCTAVE {
        return value as usize;
    }
    let exponent = value.ilog2() as u64;
    ((exponent - 3) * PER_OCTAVE + (value >> (exponent - 4)) % PER_OCTAVE) as usize
}

fn middle(bin: usize) -> f64 {
    let bin = bin as u64;
    if bin < PER_OCTAVE {
        return bin as f64;
    }
    let width = 1_u64 << (bin / PER_OCTAVE - 1);
    (PER_OCTAVE + bin % PER_OCTAVE) as f64 * width as f64 + (width - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> LogHistogram {
        let mut histogram = LogHistogram::default();
        values.into_iter().for_each(|value| histogram.record(value));
        histogram
    }

    #[test]
    fn every_value_has_a_bin_whose_middle_is_near() {
        let mut values: Vec<u64> = (0..5000).collect();
        values.extend((12..64).flat_map(|bits| [(1 << bits) - 1, 1 << bits, 3 << (bits - 1)]));
        values.push(u64::MAX);
        values.sort_unstable();
        let bins: Vec<usize> = values.iter().map(|value| bin(*value)).collect();
        assert!(bins.is_sorted() && bins.last() == Some(&(BINS - 1)));
        for value in values {
            let off = (middle(bin(value)) / (value.max(1) as f64) - 1.0).abs();
            assert!(value == 0 || off < 1.0 / 16.0, "{value}: {off}");
        }
    }

    #[test]
    fn quantiles_mean_and_sums() {
        let mut histogram = of(1000..2000);
        assert!((histogram.value_at(0.5).unwrap() / 1500.0 - 1.0).abs() < 0.04);
        assert!((histogram.mean().unwrap() / 1500.0 - 1.0).abs() < 0.01);
        let other = of([9_000; 1000]);
        histogram.merge(&other);
        assert_eq!(histogram.count(), 2000);
        assert!((histogram.value_at(0.99).unwrap() / 9000.0 - 1.0).abs() < 0.04);
        let mut again = LogHistogram::default();
        assert!(histogram.bins().all(|(bin, count)| again.add(bin, count)));
        assert_eq!(again, histogram);
        assert!(!again.add(BINS, 1));
        assert_eq!(LogHistogram::default().value_at(0.5), None);
        assert_eq!(LogHistogram::default().mean(), None);
    }

    #[test]
    fn modes_are_told_apart_by_the_valley_between() {
        // Two heaps far from each other, 9 to 1.
        let far = of((0..9000)
            .map(|step| 1000 + step % 100)
            .chain((0..1000).map(|step| 50_000 + step)));
        let modes = far.modes();
        assert_eq!(modes.len(), 2, "{modes:?}");
        assert!((modes[0].share - 0.9).abs() < 1e-9 && (modes[1].share - 0.1).abs() < 1e-9);
        assert!((modes[0].value / 1050.0 - 1.0).abs() < 0.06, "{modes:?}");
        assert!((modes[1].value / 50_500.0 - 1.0).abs() < 0.06, "{modes:?}");
        // One broad heap, with a dent.
        let broad = of((0..20_000)
            .map(|step| 1000 + step % 700)
            .filter(|it| it / 64 != 20 || it % 3 > 0));
        assert_eq!(broad.modes().len(), 1, "{:?}", broad.modes());
        // A handful of thousands is none.
        let few = of([1000; 9999].into_iter().chain([90_000; 5]));
        assert_eq!(few.modes().len(), 1);
        assert_eq!(LogHistogram::default().modes(), []);
    }
}
