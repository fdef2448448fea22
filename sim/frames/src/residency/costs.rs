//! What the steps of a remap cost.

use viaduct_engine::Time;

use super::{Brought, Step};

/// Costs of faults and of the steps of a remap.
///
/// Bringing to rest has no cost of its own: it takes as long as what is outstanding.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Costs {
    /// A write that traps into the kernel, to the thread that wrote.
    pub fault: Time,
    /// An image read from disk.
    pub page_in: Time,
    /// An image moved to host memory.
    pub unload: Time,
    /// An image moved into a frame.
    pub upload: Time,
}

impl Costs {
    /// Of an image of `image_bytes`, moved at `bytes_per_s`, with `driver` of the kernel's time for
    /// each unload and each upload. No page is ever on disk.
    #[must_use]
    pub fn of_image(image_bytes: u32, bytes_per_s: f64, driver: Time, fault: Time) -> Self {
        let step = driver + Time::from_seconds_f64(f64::from(image_bytes) / bytes_per_s);
        Self {
            fault,
            page_in: Time::ZERO,
            unload: step,
            upload: step,
        }
    }

    /// Of one step.
    #[must_use]
    pub fn of_step(&self, step: Step) -> Time {
        match step {
            Step::PageIn(_) => self.page_in,
            Step::Unload(..) => self.unload,
            Step::Upload(..) => self.upload,
            Step::BringToRest(..) | Step::Release(_) => Time::ZERO,
        }
    }

    /// What a message waits for where the message is who waits.
    #[must_use]
    pub fn of_message(&self, brought: &Brought) -> Time {
        let mut wait = Time::ZERO;
        if brought.unloaded.is_some() {
            wait += self.unload;
        }
        if !brought.was_resident {
            wait += self.upload;
        }
        wait
    }
}
