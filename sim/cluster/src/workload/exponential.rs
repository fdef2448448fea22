//! The exponential distribution of mean 1, fast and the same on every machine.

use std::sync::LazyLock;

use viaduct_engine::Stream;

use super::piecewise::unit;

/// A number drawn from the exponential distribution of mean 1.
///
/// The ziggurat of Marsaglia and Tsang (2000) with 256 layers of equal area: 98.9 % of the draws
/// cost one random number, one multiplication and one comparison. The tables are computed once
/// with `libm`.
#[inline]
pub(super) fn exponential(stream: &mut Stream) -> f64 {
    let table = &*ZIGGURAT;
    loop {
        let bits = stream.next_u64();
        let layer = (bits & 0xff) as usize;
        // The top 53 bits are independent of the low 8 that chose the layer.
        let x = unit(bits) * table.x[layer];
        if x < table.x[layer + 1] {
            return x;
        }
        if layer == 0 {
            // The tail of an exponential is an exponential that begins at the tail.
            return TAIL - libm::log(1.0 - unit(stream.next_u64()));
        }
        let height =
            table.f[layer] + unit(stream.next_u64()) * (table.f[layer + 1] - table.f[layer]);
        if height < libm::exp(-x) {
            return x;
        }
    }
}

/// The right edge of each layer, and the density there; layer 0 holds the tail.
struct Ziggurat {
    x: [f64; LAYERS + 1],
    f: [f64; LAYERS + 1],
}

static ZIGGURAT: LazyLock<Ziggurat> = LazyLock::new(|| {
    let mut x = [0.0; LAYERS + 1];
    let area = (TAIL + 1.0) * libm::exp(-TAIL);
    // Layer 0 is the rectangle below the tail and the tail, widened to the common area.
    x[0] = area / libm::exp(-TAIL);
    x[1] = TAIL;
    for layer in 1..LAYERS - 1 {
        x[layer + 1] = -libm::log(area / x[layer] + libm::exp(-x[layer]));
    }
    x[LAYERS] = 0.0;
    Ziggurat {
        x,
        f: x.map(|x| libm::exp(-x)),
    }
});

const LAYERS: usize = 256;

/// Where the tail begins for 256 layers (Marsaglia and Tsang 2000, section 3).
const TAIL: f64 = 7.697_117_470_131_05;

#[cfg(test)]
mod tests {
    use viaduct_engine::StreamKey;

    use super::*;

    #[test]
    fn layers_have_equal_areas() {
        let Ziggurat { x, f } = &*ZIGGURAT;
        let area = x[0] * f[1];
        for layer in 1..LAYERS {
            let here = x[layer] * (f[layer + 1] - f[layer]);
            assert!(
                (here - area).abs() < 1e-9,
                "layer {layer}: {here} instead of {area}"
            );
        }
    }

    #[test]
    fn moments_are_those_of_the_exponential() {
        let mut stream = Stream::new(StreamKey {
            seed: 1,
            purpose: 2,
            entity: 3,
        });
        let count = 1_000_000;
        let mut powers = [0.0; 4];
        for _ in 0..count {
            let x = exponential(&mut stream);
            for (power, sum) in powers.iter_mut().enumerate() {
                *sum += x.powi(power as i32 + 1) / f64::from(count);
            }
        }
        // The n-th moment is n!; its standard error here sqrt((2n)! - n!^2) / 1000.
        for (power, (moment, expected)) in powers.into_iter().zip([1.0, 2.0, 6.0, 24.0]).enumerate()
        {
            let error = [0.001, 0.0045, 0.026, 0.2][power];
            assert!(
                (moment - expected).abs() < 4.0 * error,
                "moment {}: {moment}",
                power + 1
            );
        }
    }

    #[test]
    fn distribution_is_exponential_in_the_body_and_the_tail() {
        let mut stream = Stream::new(StreamKey {
            seed: 4,
            purpose: 5,
            entity: 6,
        });
        let count = 1_000_000;
        let samples: Vec<f64> = (0..count).map(|_| exponential(&mut stream)).collect();
        for bound in [0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 7.0, 7.7, 8.0, 9.0] {
            let expected = f64::from(count) * libm::exp(-bound);
            let above = samples.iter().filter(|&&x| x > bound).count() as f64;
            let deviation = (expected * (1.0 - libm::exp(-bound))).sqrt();
            assert!(
                (above - expected).abs() < 4.0 * deviation,
                "{above} above {bound}"
            );
        }
    }
}
