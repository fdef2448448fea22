//! Where the time of ranks goes, and for whom they wait.

use proptest::prelude::*;
use viaduct_cluster::adapters::Adapters;
use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::result::RankRow;
use viaduct_cluster::workload::{Handling, Protocol};
use viaduct_engine::Time;
use viaduct_operations::Operation;

use crate::application::{EAGER, chains, config, receive, send};
use crate::common::{costly_host, ideal_host, nanoseconds, run};
use crate::critical_path::{Drawn, compute_aside, drawn};

fn ranks(config: &ClusterConfig) -> Vec<RankRow> {
    run(config).application.unwrap().ranks
}

#[test]
fn a_rank_waits_for_who_is_late() {
    // 1,000 bytes take 8,500 ns, 100 take 1,300.
    let graph = chains(&[
        &[Operation::compute(9_000), send(1_000, 1)],
        &[receive(1_000, 0), Operation::compute(500), receive(100, 2)],
        &[Operation::compute(20_000), send(100, 1)],
    ]);
    let rows = ranks(&config(graph, ideal_host(), EAGER, 1));
    let waits = [None, Some((0, nanoseconds(17_500))), None];
    assert_eq!(
        rows.iter().map(|row| row.longest_wait).collect::<Vec<_>>(),
        waits
    );
    // From 18,000 on until the message of rank 2, which was posted at 20,000, is there.
    let waited_for = [17_500, 0, 3_300].map(nanoseconds);
    assert_eq!(
        rows.iter().map(|row| row.waited_for).collect::<Vec<_>>(),
        waited_for
    );
    assert_eq!(rows[1].waiting, nanoseconds(17_500 + 3_300));
}

#[test]
fn a_rendezvous_waits_for_a_late_receiver_and_not_while_it_computes() {
    let protocol = Protocol {
        eager_bytes: 999,
        ..EAGER
    };
    // The answer comes at 7,500; the bytes have left 8,000 ns later, and are there 500 after that.
    let graph = chains(&[
        &[send(1_000, 1)],
        &[Operation::compute(7_000), receive(1_000, 0)],
    ]);
    let rows = ranks(&config(graph, ideal_host(), protocol, 1));
    let (peer, wait) = rows[0].longest_wait.unwrap();
    assert_eq!((peer, wait), (1, rows[0].waiting));
    assert!(wait >= nanoseconds(15_500), "{wait}");
    // Rounding to picoseconds aside, a clearance and the bytes.
    assert_eq!(rows[0].waited_for.picoseconds() / 1000, 9_000);
    assert_eq!(rows[1].longest_wait, Some((0, rows[0].waited_for)));
}

#[test]
fn a_processor_that_is_busy_does_not_wait() {
    // The message is there long before the computation on another processor ends, and nobody is
    // waited for then.
    let graph = chains(&[
        &[send(1_000, 1)],
        &[receive(1_000, 0), compute_aside(50_000), receive(100, 2)],
        &[Operation::compute(60_000), send(100, 1)],
    ]);
    let rows = ranks(&config(graph, ideal_host(), EAGER, 1));
    assert_eq!(rows[0].waited_for, nanoseconds(8_500));
    assert_eq!(rows[2].waited_for, nanoseconds(60_000 + 1_300 - 58_500));
    assert_eq!(rows[1].waiting, nanoseconds(61_300 - 50_000));
}

#[test]
fn who_comes_while_the_processor_handles_another_is_not_waited_for() {
    // The second message comes within the 7,700 ns in which the first one is handled.
    let graph = chains(&[
        &[receive(100, 1), receive(100, 2)],
        &[send(100, 0)],
        &[compute_aside(2_000), send(100, 0)],
    ]);
    let rows = ranks(&config(graph, costly_host(), EAGER, 1));
    assert!(rows[1].waited_for > nanoseconds(5_000), "{:?}", rows[1]);
    assert_eq!(rows[2].waited_for, Time::ZERO);
}

/// Both sums over all ranks.
fn sums(rows: &[RankRow]) -> (Time, Time) {
    let sum = |of: fn(&RankRow) -> Time| {
        let times = rows.iter().map(of);
        times.fold(Time::ZERO, Time::saturating_add)
    };
    (sum(|row| row.waited_for), sum(|row| row.waiting))
}

fn drawn_config(drawn: &Drawn, is_costly: bool, eager: u64) -> ClusterConfig {
    let protocol = Protocol {
        eager_bytes: eager,
        piece_bytes: 1_500,
        local: None,
        adapters: Adapters::ONE,
        handling: Handling::FREE,
    };
    let host = if is_costly {
        costly_host()
    } else {
        ideal_host()
    };
    config(drawn.graph(), host, protocol, 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// With hosts that cost nothing a rank computes, or waits for somebody.
    #[test]
    fn who_waits_waits_for_somebody(drawn in drawn(), eager in 0_u64..6_000) {
        let rows = ranks(&drawn_config(&drawn, false, eager));
        let (waited_for, waiting) = sums(&rows);
        prop_assert_eq!(waited_for, waiting);
        for row in &rows {
            prop_assert_eq!(row.computing.saturating_add(row.waiting), row.span);
            let longest = row.longest_wait.map_or(Time::ZERO, |(_, wait)| wait);
            prop_assert!(longest <= row.waiting);
        }
    }

    /// Work for messages that comes after a rank's last operation is all that may be missing.
    #[test]
    fn nobody_waits_while_busy(drawn in drawn(), eager in 0_u64..6_000) {
        for row in ranks(&drawn_config(&drawn, true, eager)) {
            let longest = row.longest_wait.map_or(Time::ZERO, |(_, wait)| wait);
            let idle = row.span.saturating_sub(row.computing);
            prop_assert!(longest <= idle, "{:?}", row);
        }
    }
}
