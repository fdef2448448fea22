//! Where a program runs: its clock, and what it can learn of the machine.

use std::time::Duration;

/// Where a program runs. A real machine is [`crate::Machine`]; a simulated host answers in its own
/// time.
pub trait Host {
    /// Nanoseconds since some moment, never less than before.
    fn now_ns(&self) -> u64;

    /// The same in picoseconds, for simulated hosts, whose clocks are as fine.
    #[inline]
    fn now_ps(&self) -> u64 {
        self.now_ns() * 1000
    }

    /// Keeps the processor busy for so many nanoseconds; how many picoseconds that were.
    #[inline]
    fn compute(&self, time_ns: u64) -> u64 {
        let from_ps = self.now_ps();
        loop {
            let computed_ps = self.now_ps() - from_ps;
            if computed_ps >= time_ns * 1000 {
                return computed_ps;
            }
        }
    }

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

/// A host whose programs end early for a reason that somebody else has, such as Ctrl-C.
#[derive(Clone, Copy, Debug)]
pub struct Stoppable<H, F> {
    /// Where the program runs.
    pub host: H,
    /// Asked now and then, in place of the host.
    pub stop_reason: F,
}

impl<H: Host, F: Fn() -> Option<String>> Host for Stoppable<H, F> {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    #[inline]
    fn now_ps(&self) -> u64 {
        self.host.now_ps()
    }

    #[inline]
    fn compute(&self, time_ns: u64) -> u64 {
        self.host.compute(time_ns)
    }

    #[inline]
    fn relax(&self) {
        self.host.relax();
    }

    #[inline]
    fn relax_for(&self, longest: Duration) {
        self.host.relax_for(longest);
    }

    fn sleep(&self, time: Duration) {
        self.host.sleep(time);
    }

    fn stop_reason(&self) -> Option<String> {
        (self.stop_reason)()
    }

    fn line_ns(&self) -> Option<f64> {
        self.host.line_ns()
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.host.memory_bytes()
    }
}
