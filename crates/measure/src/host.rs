//! Where a program runs: its clock, and what it can learn of the machine.

use std::time::Duration;

/// Where a program runs. A real machine is [`crate::Machine`]; a simulated host answers in its own
/// time.
pub trait Host {
    /// Nanoseconds since some moment, never less than before.
    fn now_ns(&self) -> u64;

    /// Called between two looks at a queue.
    #[inline]
    fn relax(&self) {
        std::hint::spin_loop();
    }

    /// The same, where something else is to be done after so long.
    #[inline]
    fn relax_for(&self, _longest: Duration) {
        self.relax();
    }

    /// Lets time pass.
    fn sleep(&self, time: Duration);

    /// Why the program should end early; asked now and then.
    fn stop_reason(&self) -> Option<String> {
        None
    }

    /// How long a cache line takes from one side's core to the other's, in nanoseconds; `None`
    /// where that means nothing.
    fn line_ns(&self) -> Option<f64> {
        None
    }

    /// Bytes of memory that this process holds, its part of shared memory included.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}
