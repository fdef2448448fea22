//! Finite fields, of which Slim Fly and PolarFly networks are made.

use crate::error::TopologyError;
use crate::generated::nearest;

/// The largest order: networks of it have half a million switches.
pub const ORDER_MAX: u32 = 509;

/// The field of a prime power of elements. An element's number is its polynomial's value at p; 0
/// and 1 are what they seem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Field {
    order: u32,
    /// Sums by both numbers.
    sums: Box<[u16]>,
    negatives: Box<[u16]>,
    /// Powers of a primitive element, twice over.
    powers: Box<[u16]>,
    /// Of each element but 0 the exponent that makes it.
    exponents: Box<[u16]>,
}

/// Whether a field has so many elements: the prime, and its exponent.
pub(crate) fn prime_power(order: u64) -> Option<(u32, u32)> {
    let prime = (2..=order).find(|&divisor| order.is_multiple_of(divisor))?;
    let (mut rest, mut exponent) = (order, 0);
    while rest.is_multiple_of(prime) {
        rest /= prime;
        exponent += 1;
    }
    (rest == 1).then_some((prime as u32, exponent))
}

impl Field {
    /// The field of `order` elements. `exists` says which orders its network takes, `rule` says it
    /// in words.
    pub(crate) fn new(
        order: u32,
        rule: &str,
        exists: impl Fn(u64) -> bool,
    ) -> Result<Self, TopologyError> {
        let exists =
            |order| order <= u64::from(ORDER_MAX) && prime_power(order).is_some() && exists(order);
        let known = prime_power(u64::from(order.min(ORDER_MAX + 1)));
        let (Some((prime, exponent)), true) = (known, exists(u64::from(order))) else {
            let nearest = nearest(u64::from(order.min(ORDER_MAX + 1)), exists);
            return Err(TopologyError::NoSuchSize {
                what: "the order of the field",
                size: u64::from(order),
                rule: rule.to_owned(),
                nearest,
            });
        };
        let digits = |element: u32| -> Vec<u32> {
            (0..exponent)
                .map(|place| element / prime.pow(place) % prime)
                .collect()
        };
        let number = |digits: &[u32]| {
            let digits = digits.iter().rev();
            digits.fold(0, |number, &digit| number * prime + digit)
        };
        let mut sums = Vec::with_capacity((order * order) as usize);
        for one in 0..order {
            for other in 0..order {
                let (one, other) = (digits(one), digits(other));
                let sum = one.iter().zip(&other).map(|(a, b)| (a + b) % prime);
                sums.push(number(&sum.collect::<Vec<_>>()) as u16);
            }
        }
        let negative = |element: u32| {
            let digits = digits(element).into_iter();
            number(
                &digits
                    .map(|digit| (prime - digit) % prime)
                    .collect::<Vec<_>>(),
            ) as u16
        };
        let negatives = (0..order).map(negative).collect();
        // The powers of x modulo a monic polynomial of the degree: one of them, tried in order, has
        // x as a primitive element. Of a prime the polynomial is x - c: that makes x the element c.
        let powers_of = |low: u32| -> Option<Vec<u16>> {
            let low = digits(low);
            let mut power = digits(1);
            let mut powers = Vec::with_capacity(order as usize);
            loop {
                powers.push(number(&power) as u16);
                // Times x; the highest digit comes back as its multiple of `low`.
                let top = power.pop().unwrap_or(0);
                power.insert(0, 0);
                for (digit, factor) in power.iter_mut().zip(&low) {
                    *digit = (*digit + top * factor) % prime;
                }
                match number(&power) {
                    1 => break,
                    0 => return None,
                    _ if powers.len() as u32 == order => return None,
                    _ => {}
                }
            }
            (powers.len() as u32 == order - 1).then_some(powers)
        };
        // Every field has one.
        let once = (0..order).find_map(powers_of).unwrap_or_default();
        let mut exponents = vec![0; order as usize];
        for (exponent, &element) in (0u16..).zip(&once) {
            exponents[usize::from(element)] = exponent;
        }
        Ok(Self {
            order,
            sums: sums.into(),
            negatives,
            powers: once.iter().chain(&once).copied().collect(),
            exponents: exponents.into(),
        })
    }

    pub(crate) const fn order(&self) -> u32 {
        self.order
    }

    #[inline]
    pub(crate) fn add(&self, one: u32, other: u32) -> u32 {
        u32::from(self.sums[(one * self.order + other) as usize])
    }

    #[inline]
    pub(crate) fn subtract(&self, one: u32, other: u32) -> u32 {
        self.add(one, u32::from(self.negatives[other as usize]))
    }

    #[inline]
    pub(crate) fn multiply(&self, one: u32, other: u32) -> u32 {
        if one == 0 || other == 0 {
            return 0;
        }
        let exponent = |element: u32| usize::from(self.exponents[element as usize]);
        u32::from(self.powers[exponent(one) + exponent(other)])
    }

    /// What gives 1 with an element that is not 0.
    #[inline]
    pub(crate) fn inverse(&self, element: u32) -> u32 {
        let exponent = u32::from(self.exponents[element as usize]);
        u32::from(self.powers[(self.order - 1 - exponent) as usize])
    }

    /// A power of the primitive element, below the order.
    pub(crate) fn power(&self, exponent: u32) -> u32 {
        u32::from(self.powers[exponent as usize])
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> u64 {
        let tables = [&self.sums, &self.negatives, &self.powers, &self.exponents];
        tables
            .iter()
            .map(|table| size_of_val(&***table) as u64)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_laws_of_fields_hold() {
        for order in [2, 3, 4, 5, 7, 8, 9, 16, 25, 27, 49] {
            let field = Field::new(order, "", |_| true).unwrap();
            for a in 0..order {
                assert_eq!(field.add(a, 0), a);
                assert_eq!(field.subtract(a, a), 0);
                assert_eq!(field.multiply(a, 1), a);
                if a > 0 {
                    assert_eq!(field.multiply(a, field.inverse(a)), 1, "{a} of {order}");
                }
                for b in 0..order {
                    assert_eq!(field.add(a, b), field.add(b, a));
                    assert_eq!(field.multiply(a, b), field.multiply(b, a));
                    for c in 0..order {
                        let sum = field.multiply(a, field.add(b, c));
                        let sums = field.add(field.multiply(a, b), field.multiply(a, c));
                        assert_eq!(sum, sums, "{a}({b} + {c}) of {order}");
                        let product = field.multiply(a, field.multiply(b, c));
                        assert_eq!(product, field.multiply(field.multiply(a, b), c));
                    }
                }
            }
        }
    }

    #[test]
    fn orders_that_are_no_prime_powers_name_the_nearest() {
        let refused = |order| {
            Field::new(order, "it is so", |_| true)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refused(6),
            "the order of the field: there is no 6, since it is so; nearest are 5 and 7"
        );
        assert!(refused(512).ends_with("nearest are 509"));
        assert!(refused(u32::MAX).ends_with("nearest are 509"));
        assert!(refused(0).ends_with("nearest are 2"));
    }
}
