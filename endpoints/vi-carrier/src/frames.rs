//! Which connection has to go when another is needed.

use crate::options::Policy;

/// What a policy knows of a connection that may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) index: usize,
    pub(crate) used_last: u64,
    pub(crate) is_referenced: bool,
}

/// Chooses victims.
#[derive(Debug)]
pub(crate) struct Replacement {
    policy: Policy,
    /// Of the random policy, or where the clock's hand is.
    state: u64,
}

impl Replacement {
    pub(crate) const fn new(policy: Policy, seed: u64) -> Self {
        Self {
            policy,
            // xorshift stays at 0.
            state: seed | 1,
        }
    }

    /// The victim, and those whose mark the clock's hand took away as it went by. Candidates come
    /// in the order of their indices.
    pub(crate) fn choose(&mut self, candidates: &[Candidate]) -> Option<(usize, Vec<usize>)> {
        let none = Vec::new();
        if candidates.is_empty() {
            return None;
        }
        match self.policy {
            Policy::Random => {
                self.state ^= self.state << 13;
                self.state ^= self.state >> 7;
                self.state ^= self.state << 17;
                let draw = (self.state >> 32) as usize % candidates.len();
                Some((candidates[draw].index, none))
            }
            Policy::LeastRecentlyUsed => {
                let oldest = candidates.iter().min_by_key(|each| each.used_last)?;
                Some((oldest.index, none))
            }
            Policy::Clock => {
                let hand = self.state as usize;
                let first = candidates.partition_point(|each| each.index < hand);
                let circle = candidates[first..].iter().chain(&candidates[..first]);
                let mut passed = Vec::new();
                // Once round takes all marks away.
                for each in circle.clone().chain(circle.clone().take(1)) {
                    if !each.is_referenced || passed.contains(&each.index) {
                        self.state = each.index as u64 + 1;
                        return Some((each.index, passed));
                    }
                    passed.push(each.index);
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(marks: &[bool]) -> Vec<Candidate> {
        let each = |(index, mark): (usize, &bool)| Candidate {
            index,
            used_last: [5, 3, 4][index % 3],
            is_referenced: *mark,
        };
        marks.iter().enumerate().map(each).collect()
    }

    #[test]
    fn the_clock_takes_the_next_that_was_not_used() {
        let mut clock = Replacement::new(Policy::Clock, 0);
        // Its hand begins behind 0.
        assert_eq!(
            clock.choose(&candidates(&[false, true, false, true])),
            Some((2, vec![1]))
        );
        assert_eq!(
            clock.choose(&candidates(&[true, true, true, true])),
            Some((3, vec![3, 0, 1, 2]))
        );
        assert_eq!(clock.choose(&[]), None);
    }

    #[test]
    fn least_recently_used_is_the_oldest() {
        let mut policy = Replacement::new(Policy::LeastRecentlyUsed, 0);
        let chosen = policy.choose(&candidates(&[false; 3])).map(|found| found.0);
        assert_eq!(chosen, Some(1));
    }

    #[test]
    fn random_takes_each_about_as_often() {
        let mut policy = Replacement::new(Policy::Random, 7);
        let mut counts = [0; 4];
        for _ in 0..4000 {
            counts[policy.choose(&candidates(&[true; 4])).unwrap().0] += 1;
        }
        assert!(counts.iter().all(|count| *count > 800), "{counts:?}");
    }
}
