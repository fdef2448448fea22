//! One random stream per entity, keyed by the run's seed and the entity.
//!
//! A stream depends on nothing but its key, so a result does not depend on the order in which
//! entities are made or visited, and adding an entity leaves the others' numbers alone.

use core::convert::Infallible;

use rand_core::{SeedableRng, TryRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Names one stream: the run's seed, what the stream is for, and which entity it belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub struct StreamKey {
    /// The seed of the whole run.
    pub seed: u64,
    /// What the numbers are used for; a constant of the model.
    pub purpose: u64,
    /// Which entity of that kind.
    pub entity: u64,
}

/// A random number generator of its own (xoshiro256++, 32 bytes of state).
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream that `key` names: equal keys give equal numbers.
    #[must_use]
    pub fn new(key: StreamKey) -> Self {
        let mut state = key.seed;
        let mut seed = [0_u8; 32];
        for (word, input) in [key.purpose, key.entity, 0x5eed, 0xd1ce]
            .into_iter()
            .zip(seed.chunks_exact_mut(8))
        {
            state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ mix(word));
            input.copy_from_slice(&state.to_le_bytes());
        }
        Self(Xoshiro256PlusPlus::from_seed(seed))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let Ok(bits) = self.try_next_u64();
        bits
    }

    /// A number from 0 up to `bound` exclusive, each equally likely; 0 if `bound` is 0.
    ///
    /// Multiply-and-reject (Lemire 2019), so no value is favoured.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        // What is rejected is below a remainder by `bound`: hardly any number needs the division.
        if (product as u64) < bound {
            let reject_below = bound.wrapping_neg() % bound;
            while (product as u64) < reject_below {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.0.try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0.try_next_u64()
    }

    fn try_fill_bytes(&mut self, target: &mut [u8]) -> Result<(), Infallible> {
        self.0.try_fill_bytes(target)
    }
}

/// The finaliser of splitmix64: every input bit changes about half of the output bits.
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u64, purpose: u64, entity: u64) -> StreamKey {
        StreamKey {
            seed,
            purpose,
            entity,
        }
    }

    #[test]
    fn equal_keys_give_equal_streams() {
        let mut one = Stream::new(key(1, 2, 3));
        let mut two = Stream::new(key(1, 2, 3));
        assert!((0..100).all(|_| one.next_u64() == two.next_u64()));
    }

    #[test]
    fn each_part_of_the_key_changes_the_stream() {
        let first = |key| Stream::new(key).next_u64();
        let numbers = [
            key(1, 2, 3),
            key(2, 2, 3),
            key(1, 3, 3),
            key(1, 2, 4),
            key(3, 2, 1),
        ];
        for (index, one) in numbers.iter().enumerate() {
            for two in &numbers[..index] {
                assert_ne!(first(*one), first(*two));
            }
        }
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut stream = Stream::new(key(7, 0, 0));
        let mut seen = [0_u32; 5];
        for _ in 0..5_000 {
            seen[stream.below(5) as usize] += 1;
        }
        assert!(
            seen.iter().all(|&count| (850..1150).contains(&count)),
            "{seen:?}"
        );
        assert_eq!(stream.below(0), 0);
    }
}
