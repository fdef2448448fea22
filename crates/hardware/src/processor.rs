//! What the processor of a host spends.

use viaduct_engine::Time;

/// Processor costs. One processor a host; its work is served first come, first served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CpuModel {
    /// Building a descriptor and putting it into a work queue.
    pub post: Time,
    /// Taking a completed descriptor off its queue.
    pub reap: Time,
    /// How the application learns of a received message.
    pub notice: Notice,
}

/// How a completion reaches the application.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notice {
    /// The application reads the completion word in memory over and over.
    Polling {
        /// From the write of the completion to the loop's seeing it, on average.
        delay: Time,
    },
    /// The NIC interrupts; the system wakes the application.
    Interrupt {
        /// From the interrupt to its handler's end.
        interrupt: Time,
        /// Scheduling the application that waits.
        wake_up: Time,
    },
}

/// What the processor of a host spends. One processor a host; its programs take turns.
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
