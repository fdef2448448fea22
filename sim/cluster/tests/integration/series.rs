//! The windows of a run's series.

use crate::common::{ideal_host, run, scenario};
use viaduct_cluster::config::{Arrivals, ClusterConfig};
use viaduct_cluster::workload::{Interval, Pattern, SizeDistribution};
use viaduct_engine::Time;
use viaduct_hardware::Frame;
use viaduct_topology::{ChainHosts, Ports, Topology};

/// One link between two switches, a quarter of it used: 1,000 bytes each 32 us at 1 Gbit/s.
fn quarter() -> ClusterConfig {
    let topology = Topology::chain(2, ChainHosts::Ends(1), Ports(8)).expect("a chain");
    let mut config = scenario(topology, ideal_host(), Pattern::Pairs(vec![(0, 1)]));
    config.links.frame = Frame {
        payload_bytes: 0,
        header_bytes: 0,
    };
    config.traffic.arrivals = Arrivals::Open(Interval::constant(32e6).expect("an interval"));
    config.traffic.size = SizeDistribution::constant(1_000);
    config
}

/// A warm-up that ends with a window, within one, and within the first leave no gap.
#[test]
fn links_are_as_busy_in_the_window_in_which_the_warm_up_ends() {
    for warmup_us in [0, 300, 20_000, 20_500] {
        let mut config = quarter();
        config.run.warmup = Time::from_nanoseconds(warmup_us * 1_000);
        let result = run(&config);
        let rows = result.series.iter();
        let rows: Vec<_> = rows.filter(|row| row.end <= config.run.until).collect();
        assert_eq!(rows.len(), 100);
        for row in rows {
            // The link of one of two directions; a message more or less of some 31 a window.
            let used = row.link_utilisation_mean * 2.0;
            assert!((used - 0.25).abs() < 0.01, "{warmup_us} us: {row:?}");
            assert!((row.link_utilisation_max - used).abs() < 1e-12, "{row:?}");
        }
        let mesh = result.links.iter().map(|class| class.usage.utilisation_max);
        let busiest = mesh.fold(0.0, f64::max);
        assert!((busiest - 0.25).abs() < 0.001, "{warmup_us} us: {busiest}");
    }
}

#[test]
fn a_run_that_is_cut_off_has_no_window_without_length() {
    let mut config = quarter();
    config.run.drain = false;
    // The last event is that of the last window.
    config.traffic.stop = Time::from_milliseconds(99);
    config.run.until = Time::from_milliseconds(100);
    let result = run(&config);
    let ends: Vec<Time> = result.series.iter().map(|row| row.end).collect();
    assert!(ends.windows(2).all(|pair| pair[0] < pair[1]), "{ends:?}");
    let posted: u64 = result.series.iter().map(|row| row.posted).sum();
    assert_eq!(posted, result.messages.posted);
}
