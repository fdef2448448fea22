//! Division by a number that is known only when the topology is built, without the divide
//! instruction: a route takes two of these per dimension.

/// Divides any `u32` by one fixed divisor with a multiplication.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Divider {
    divisor: u32,
    /// 2^64 / divisor, rounded up; 0 stands for the divisor 1, whose value does not fit.
    reciprocal: u64,
}

impl Divider {
    /// A divider by `divisor`, which is at least 1.
    pub(crate) fn new(divisor: u32) -> Self {
        let divisor = divisor.max(1);
        let reciprocal = if divisor == 1 {
            0
        } else {
            u64::MAX / u64::from(divisor) + 1
        };
        Self {
            divisor,
            reciprocal,
        }
    }

    /// Quotient of `number` by the divisor.
    #[inline]
    pub(crate) fn quotient(self, number: u32) -> u32 {
        if self.reciprocal == 0 {
            return number;
        }
        // The reciprocal exceeds 2^64/d by less than 1, so the product exceeds 2^64 * n/d by less
        // than n < 2^32, that is 2^-32 after the shift: less than 1/d, the least distance of n/d
        // to the next whole number above. The quotient is therefore exact for every n.
        ((u128::from(self.reciprocal) * u128::from(number)) >> 64) as u32
    }

    /// Quotient and remainder of `number` by the divisor.
    #[inline]
    pub(crate) fn split(self, number: u32) -> (u32, u32) {
        let quotient = self.quotient(number);
        (quotient, number - quotient * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotients_at_the_ends_of_the_range_are_exact() {
        for divisor in [
            1,
            2,
            3,
            4,
            5,
            7,
            16,
            641,
            65_535,
            65_537,
            u32::MAX - 1,
            u32::MAX,
        ] {
            let divider = Divider::new(divisor);
            for number in [0, 1, divisor - 1, divisor, u32::MAX - 1, u32::MAX] {
                assert_eq!(divider.split(number), (number / divisor, number % divisor));
            }
        }
    }

    proptest! {
        #[test]
        fn split_is_division(number: u32, divisor in 1u32..) {
            let expected = (number / divisor, number % divisor);
            prop_assert_eq!(Divider::new(divisor).split(number), expected);
        }
    }
}
