//! How long a side looks in vain before it says that the other one hangs.

use std::time::Duration;

use crate::error::{MeasureError, Result};

/// How long a side waits for the other before it gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// The most that counts of the time between two looks at the clock. A side that looked at nothing
/// for longer was not running itself, and nor may the other have been: the machine stood still, or
/// was somebody else's.
const BETWEEN_LOOKS_MAX: Duration = Duration::from_secs(1);

/// A wait, and how long it has gone on.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    waited: Duration,
    last_ns: Option<u64>,
}

impl Patience {
    /// After a look in vain, at this time.
    ///
    /// # Errors
    ///
    /// When it has gone on for too long.
    pub(crate) fn look(&mut self, doing: &'static str, now_ns: u64) -> Result<()> {
        let since = now_ns - self.last_ns.replace(now_ns).unwrap_or(now_ns);
        self.waited += Duration::from_nanos(since).min(BETWEEN_LOOKS_MAX);
        if self.waited > PATIENCE {
            return Err(MeasureError::Stalled {
                doing,
                waited: self.waited,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn a_side_that_looks_for_ten_seconds_gives_up() {
        let mut patience = Patience::default();
        let given_up = (5 * SECOND_NS..)
            .step_by(SECOND_NS as usize / 100)
            .find(|now_ns| patience.look("waiting", *now_ns).is_err());
        assert_eq!(given_up, Some(15 * SECOND_NS + SECOND_NS / 100));
    }

    #[test]
    fn a_machine_that_stood_still_is_not_held_against_the_other_side() {
        let mut patience = Patience::default();
        for now_ns in [0, 1, 11 * SECOND_NS, 100 * SECOND_NS, 1000 * SECOND_NS] {
            patience.look("waiting", now_ns).unwrap();
        }
        // It is still heard of in the end.
        let later = (1001..1020).find(|now| patience.look("waiting", now * SECOND_NS).is_err());
        assert_eq!(later, Some(1007));
    }
}
