//! What came and went between the warm-up and the end of traffic.

use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::result::RunResult;

use crate::summary::{seconds, tidy};

/// A queue that has grown by this share of what was offered, and by more than chance would let
/// it, grows on.
const GROWTH_MAX: f64 = 0.05;

/// What came and went between the warm-up and the end of traffic.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    /// Messages posted.
    pub(crate) posted: u64,
    /// Messages delivered or dropped.
    pub(crate) left: u64,
    span_s: f64,
}

impl Flow {
    pub(crate) fn of(config: &ClusterConfig, result: &RunResult) -> Self {
        let mut flow = Self::default();
        let warmup = config.run.warmup.picoseconds();
        let stop = config.run.until.min(config.traffic.stop).picoseconds();
        let (mut begin, mut before) = (None, 0);
        for row in &result.series {
            let end = row.end.picoseconds();
            // Whole windows alone: one that holds the end of the warm-up belongs to neither side.
            if before >= warmup && end <= stop {
                flow.posted += row.posted;
                flow.left += row.delivered + row.dropped;
                flow.span_s = seconds(end - *begin.get_or_insert(before));
            }
            before = end;
        }
        flow
    }

    /// So many messages of that time as a rate; none if it is too short to tell.
    pub(crate) fn per_second(&self, count: u64) -> Option<f64> {
        (self.span_s > 0.0).then(|| tidy(count as f64 / self.span_s))
    }

    /// Whether more came than went.
    pub(crate) fn grows(&self) -> bool {
        let posted = self.posted as f64;
        let growth = posted - self.left as f64;
        growth > (GROWTH_MAX * posted).max(4.0 * posted.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_grows_if_it_takes_a_share_of_what_is_offered_and_chance_would_not() {
        let flow = |posted, left| Flow {
            posted,
            left,
            span_s: 2.0,
        };
        assert!(flow(100_000, 94_000).grows());
        assert!(!flow(100_000, 96_000).grows(), "messages under way");
        assert!(!flow(100, 70).grows(), "too few to tell");
        assert!(!flow(0, 0).grows());
        assert_eq!(flow(10, 8).per_second(8), Some(4.0));
        assert_eq!(Flow::default().per_second(8), None);
    }
}
