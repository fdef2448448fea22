//! What the processor of a host spends.

use viaduct_engine::Time;

/// Processor costs. One processor a host; its work is served first come, first served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProcessorModel {
    /// Building a descriptor and putting it into a work queue.
    pub post: Time,
    /// Taking a completed descriptor off its queue.
    pub reap: Time,
    /// From a completion's being written to a polling program's seeing it, on average: half a
    /// turn of the loop. A look that finds nothing takes two of these.
    pub polling_delay: Time,
    /// From an interrupt to its handler's end, when a program sleeps.
    pub interrupt: Time,
    /// Scheduling a program that sleeps.
    pub wake_up: Time,
}

/// What a program does until a completion is there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Completion {
    /// It reads the completion word in memory over and over.
    Polling,
    /// It sleeps; the adapter interrupts, and the system wakes it.
    Interrupt,
}

/// How long a completion takes to reach a program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notice {
    /// To a program that polls.
    Polling {
        /// From the write of the completion to the loop's seeing it, on average.
        delay: Time,
    },
    /// To a program that sleeps.
    Interrupt {
        /// From the interrupt to its handler's end.
        interrupt: Time,
        /// Scheduling the program that waits.
        wake_up: Time,
    },
}

impl ProcessorModel {
    /// It costs nothing.
    pub const FREE: Self = Self {
        post: Time::ZERO,
        reap: Time::ZERO,
        polling_delay: Time::ZERO,
        interrupt: Time::ZERO,
        wake_up: Time::ZERO,
    };

    /// How a program that waits in this way hears of a completion.
    #[must_use]
    pub const fn notice(&self, completion: Completion) -> Notice {
        match completion {
            Completion::Polling => Notice::Polling {
                delay: self.polling_delay,
            },
            Completion::Interrupt => Notice::Interrupt {
                interrupt: self.interrupt,
                wake_up: self.wake_up,
            },
        }
    }
}

impl Notice {
    /// To one that was there before its program looked, the program being busy.
    ///
    /// A loop finds it at once: it has not turned in vain for it. An adapter that interrupts does
    /// so for each completion, and the system makes the program ready each time.
    #[must_use]
    pub fn found(self) -> Time {
        match self {
            Self::Polling { .. } => Time::ZERO,
            Self::Interrupt { .. } => self.alone(),
        }
    }

    /// To a program that waits, with nobody else on the processor.
    #[must_use]
    pub fn alone(self) -> Time {
        match self {
            Self::Polling { delay } => delay,
            Self::Interrupt { interrupt, wake_up } => interrupt + wake_up,
        }
    }
}
