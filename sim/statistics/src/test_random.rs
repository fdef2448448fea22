//! Random numbers for tests: xorshift64* with a fixed seed.

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 0 to 1, never either.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    pub(crate) fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }

    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * libm::log(self.unit())).sqrt() * libm::cos(core::f64::consts::TAU * self.unit())
    }
}
