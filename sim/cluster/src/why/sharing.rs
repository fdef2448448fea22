//! What sharing cost a flow, from when others were there.

use viaduct_engine::Time;

use crate::trace::Span;

/// How much of `within` at least one of `spans` covers.
pub(super) fn covered(within: Span, spans: impl Iterator<Item = Span>) -> Time {
    let mut spans: Vec<Span> = spans.map(|span| span.overlap(within)).collect();
    spans.sort_by_key(|span| span.begin);
    let mut total = Time::ZERO;
    let mut reached = within.begin;
    for span in spans {
        total += span.end.saturating_sub(span.begin.max(reached));
        reached = reached.max(span.end);
    }
    total
}

/// A link or bus as one flow sees it.
#[derive(Clone, Debug)]
pub(super) struct SharedServer {
    /// What it would give the flow alone, bytes on the link a picosecond.
    pub(super) rate: f64,
    /// When others were there, one entry each.
    pub(super) others: Vec<Span>,
}

/// The time by which a flow of `own` falls behind at each server, picoseconds.
///
/// Its rate is the least of `rate_max` and its shares, where n flows have 1/n each. While that is
/// less than what it has alone, the server with the least share is charged.
pub(super) fn lost(own: Span, rate_max: f64, servers: &[SharedServer]) -> Vec<f64> {
    let alone = servers
        .iter()
        .map(|server| server.rate)
        .fold(rate_max, f64::min);
    // Times at which one more is there, or one fewer.
    let mut changes: Vec<(Time, usize, i64)> = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        for other in &server.others {
            let other = other.overlap(own);
            if other.length() > Time::ZERO {
                changes.push((other.begin, index, 1));
                changes.push((other.end, index, -1));
            }
        }
    }
    changes.sort_unstable();
    let mut members = vec![1_i64; servers.len()];
    let mut lost = vec![0.0; servers.len()];
    let mut now = own.begin;
    for (time, index, change) in changes {
        if time > now {
            let mut rate = rate_max;
            let mut slowest = None;
            for (index, (server, &members)) in servers.iter().zip(&members).enumerate() {
                let share = server.rate / members as f64;
                if share < rate {
                    (rate, slowest) = (share, Some(index));
                }
            }
            if let Some(slowest) = slowest.filter(|_| rate < alone) {
                let span = (time - now).picoseconds() as f64;
                lost[slowest] += span * (1.0 - rate / alone);
            }
            now = time;
        }
        members[index] += change;
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(begin: u64, end: u64) -> Span {
        Span {
            begin: Time::from_picoseconds(begin),
            end: Time::from_picoseconds(end),
        }
    }

    fn server(rate: f64, others: &[(u64, u64)]) -> SharedServer {
        SharedServer {
            rate,
            others: others
                .iter()
                .map(|&(begin, end)| span(begin, end))
                .collect(),
        }
    }

    #[test]
    fn what_is_covered_twice_counts_once() {
        let spans = [
            span(0, 15),
            span(12, 20),
            span(13, 14),
            span(30, 99),
            span(50, 60),
        ];
        let total = covered(span(10, 40), spans.into_iter());
        assert_eq!(total.picoseconds(), 10 + 10);
        assert_eq!(covered(span(20, 30), spans.into_iter()), Time::ZERO);
    }

    #[test]
    fn a_flow_alone_loses_nothing() {
        let servers = [server(1.0, &[]), server(0.5, &[(0, 10), (100, 110)])];
        assert_eq!(lost(span(10, 100), 2.0, &servers), [0.0, 0.0]);
    }

    #[test]
    fn each_of_n_has_a_share_of_one_nth() {
        // One other for 20, two for 10, and one that ends after the flow.
        let servers = [server(1.0, &[(0, 30), (20, 30), (90, 200)])];
        let lost = lost(span(0, 100), 1.0, &servers);
        assert!((lost[0] - (10.0 + 10.0 * 2.0 / 3.0 + 5.0)).abs() < 1e-9);
    }

    #[test]
    fn the_server_with_the_least_share_is_charged() {
        // Alone the flow has 1. The fast server has 3 shared by two: 1.5, no loss.
        let fast = server(3.0, &[(0, 100)]);
        let slow = server(1.0, &[(40, 80)]);
        let charged = lost(span(0, 100), 9.0, &[fast.clone(), slow]);
        assert_eq!(charged, [0.0, 20.0]);
        // Both less than alone: one of them is charged, not both.
        let slower = server(1.0, &[(40, 80), (40, 80), (40, 80)]);
        let crowded = server(1.0, &[(40, 80)]);
        let charged = lost(span(0, 100), 9.0, &[fast, crowded, slower]);
        assert_eq!(charged, [0.0, 0.0, 30.0]);
    }

    #[test]
    fn what_the_flow_could_not_use_anyway_is_no_loss() {
        // A limit of its own of 0.25, and a half of 1: nothing is lost.
        let servers = [server(1.0, &[(0, 100)])];
        assert_eq!(lost(span(0, 100), 0.25, &servers), [0.0]);
    }
}
