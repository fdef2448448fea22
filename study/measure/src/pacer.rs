//! When each of many connections issues its next request, so that all together offer a load.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::plan::Asker;

/// A clock for each connection: a request is due an interval after the one before it was, or when
/// that is answered, if that is later.
///
/// A connection that waited for an answer makes up for one interval at most: what is offered beyond
/// what can be answered is not stored up.
#[derive(Debug)]
pub(crate) struct Pacer {
    interval_ps: u64,
    /// When the request of each connection was due that is out, or is due that is not.
    due_ps: Vec<u64>,
    /// Connections without a request out, the first due first.
    idle: BinaryHeap<Reverse<(u64, usize)>>,
}

const PS_PER_NS: u64 = 1000;

impl Pacer {
    /// For an asker's part of so many connections that offer so many requests a second together;
    /// their first ones are spread over an interval, those of several askers in turn.
    pub(crate) fn new(asker: Asker, connections: u32, requests_s: u32, now_ns: u64) -> Self {
        let step_ps = 1_000_000_000_000 / u64::from(requests_s.max(1));
        let turn = |own: u64| own * u64::from(asker.of) + u64::from(asker.number);
        let first = |own: u64| now_ns * PS_PER_NS + turn(own) * step_ps;
        let own = asker.part_of(connections.into());
        let due_ps: Vec<u64> = (0..own).map(first).collect();
        let idle = due_ps.iter().enumerate();
        let idle = idle.map(|(connection, due)| Reverse((*due, connection)));
        Self {
            interval_ps: step_ps * u64::from(connections),
            idle: idle.collect(),
            due_ps,
        }
    }

    /// The next connection whose request is due.
    #[inline]
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<usize> {
        let Reverse((due_ps, connection)) = *self.idle.peek()?;
        if due_ps > now_ns * PS_PER_NS {
            return None;
        }
        self.idle.pop();
        Some(connection)
    }

    /// The request of a connection has been answered.
    #[inline]
    pub(crate) fn answered(&mut self, connection: usize, now_ns: u64) {
        let earliest = (now_ns * PS_PER_NS).saturating_sub(self.interval_ps);
        let due_ps = &mut self.due_ps[connection];
        *due_ps = (*due_ps + self.interval_ps).max(earliest);
        self.idle.push(Reverse((*due_ps, connection)));
    }

    /// How long until a request is due; `None` if all are out.
    #[inline]
    pub(crate) fn pause(&self, now_ns: u64) -> Option<Duration> {
        let Reverse((due_ps, _)) = self.idle.peek()?;
        let due_ns = due_ps.div_ceil(PS_PER_NS);
        Some(Duration::from_nanos(due_ns.saturating_sub(now_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_spread_evenly_over_connections_and_time() {
        let mut pacer = Pacer::new(Asker::ONE, 4, 1_000_000, 500);
        let mut issued = Vec::new();
        for now_ns in 0..9500 {
            while let Some(connection) = pacer.take_due(now_ns) {
                issued.push((now_ns, connection));
                pacer.answered(connection, now_ns);
            }
        }
        let expected = (0..9).map(|number| (500 + 1000 * number as u64, number % 4));
        assert_eq!(issued, expected.collect::<Vec<_>>());
        assert_eq!(pacer.pause(9300), Some(Duration::from_nanos(200)));
    }

    #[test]
    fn several_askers_take_turns() {
        let mut issued = Vec::new();
        for number in 0..2 {
            let mut pacer = Pacer::new(Asker { number, of: 2 }, 5, 1_000_000, 0);
            for now_ns in 0..10_000 {
                while let Some(connection) = pacer.take_due(now_ns) {
                    issued.push(now_ns);
                    pacer.answered(connection, now_ns);
                }
            }
        }
        issued.sort_unstable();
        assert_eq!(issued, (0..10).map(|turn| turn * 1000).collect::<Vec<_>>());
    }

    #[test]
    fn a_connection_that_waits_has_one_request_out_and_makes_up_for_one() {
        let mut pacer = Pacer::new(Asker::ONE, 1, 1_000_000, 0);
        assert_eq!(pacer.take_due(0), Some(0));
        assert_eq!(
            (pacer.take_due(100_000), pacer.pause(100_000)),
            (None, None)
        );
        pacer.answered(0, 100_500);
        for now_ns in [100_500, 100_501] {
            assert_eq!(pacer.take_due(now_ns), Some(0), "{now_ns}");
            pacer.answered(0, now_ns);
        }
        assert_eq!(pacer.take_due(100_502), None);
        assert_eq!(pacer.take_due(101_500), Some(0));
    }
}
