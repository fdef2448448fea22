//! Confidence intervals of runs, by seeds, where the mean is known.

use crate::common::{ideal_host, nic, run, scenario};
use viaduct_cluster::config::{Arrivals, ClusterConfig};
use viaduct_cluster::result::{SteadyState, TooShort};
use viaduct_cluster::workload::{
    Interval, ListedMessage, MessageList, MessageOperation, Pattern, SizeDistribution,
};
use viaduct_engine::Time;
use viaduct_topology::{Ports, Topology};

/// One link of 8 us a mean message, Poisson arrivals at `load` of its rate, about so many of them
/// after a warm-up of a tenth.
fn one_link(load: f64, messages: f64, moving_per_vi: u32, size: SizeDistribution) -> ClusterConfig {
    let topology = Topology::single_switch(2, Ports(2)).expect("a switch");
    let mut config = scenario(topology, ideal_host(), Pattern::Pairs(vec![(0, 1)]));
    nic(config.host.common_mut()).moving_per_vi = moving_per_vi;
    config.hosts.prepost = 100_000;
    config.hosts.send_buffers = 100_000;
    let service_ps = size.mean_bytes() * 8_000.0;
    config.traffic.size = size;
    let interval = Interval::exponential(service_ps / load).expect("a mean");
    config.traffic.arrivals = Arrivals::Open(interval);
    config.run.warmup = Time::from_picoseconds((service_ps / load * messages / 10.0) as u64);
    config.run.until = Time::from_picoseconds((service_ps / load * messages * 1.1) as u64);
    config.traffic.stop = config.run.until;
    config
}

/// Of some seeds: how many runs have an interval, and how many percent of these hold the mean; no
/// run without one is called steady.
fn by_seeds(seeds: u64, mut config: ClusterConfig, mean_us: f64) -> (u32, f64) {
    let (mut shown, mut held) = (0_u32, 0_u32);
    for seed in 1..=seeds {
        config.run.seed = seed;
        let result = run(&config);
        let latency = result.latency.expect("messages");
        assert_eq!(
            latency.mean_us.ci95.is_none(),
            latency.no_interval.is_some()
        );
        match latency.mean_us.ci95 {
            Some(half_width) => {
                shown += 1;
                held += u32::from((latency.mean_us.mean - mean_us).abs() <= half_width);
            }
            None => assert_ne!(result.steady, SteadyState::Steady, "seed {seed}"),
        }
    }
    (shown, 100.0 * f64::from(held) / f64::from(shown.max(1)))
}

#[test]
fn intervals_hold_the_mean_of_an_md1_queue_at_92_percent_of_seeds() {
    for (load, messages, shown_min) in [(0.3, 600.0, 170), (0.5, 1_000.0, 170), (0.7, 5_000.0, 180)]
    {
        let mean_us = 8.0 * (1.0 + load / (2.0 * (1.0 - load)));
        let config = one_link(load, messages, 1, SizeDistribution::constant(1_000));
        let (shown, percent) = by_seeds(200, config, mean_us);
        assert!(
            shown >= shown_min,
            "load {load}: {shown} of 200 have an interval"
        );
        assert!(percent >= 92.0, "load {load}: {percent} % of {shown}");
    }
}

#[test]
fn short_runs_of_busy_queues_have_no_interval() {
    for (load, messages) in [(0.8, 1_000.0), (0.9, 5_000.0), (0.95, 5_000.0)] {
        let config = one_link(load, messages, 1, SizeDistribution::constant(1_000));
        let mean_us = 8.0 * (1.0 + load / (2.0 * (1.0 - load)));
        let (shown, _) = by_seeds(20, config, mean_us);
        assert_eq!(shown, 0, "load {load}");
    }
}

#[test]
fn intervals_hold_the_mean_of_pareto_sizes_or_say_that_they_are_rare() {
    // Processor sharing between VIs: the mean is E[S] / (1 - load) whatever the sizes.
    let size = |max| SizeDistribution::pareto(100, max, 1.5).expect("a distribution");
    let mean_us = size(2_000).mean_bytes() * 8e-3 / 0.5;
    let many_vis = |load: f64, messages: f64, size: SizeDistribution| {
        let processes = 100;
        let interval = size.mean_bytes() * 8_000.0 / load * f64::from(processes);
        let mut config = one_link(load, messages, u32::MAX, size);
        config.hosts.processes = processes;
        config.hosts.prepost = 8;
        config.traffic.arrivals = Arrivals::Open(Interval::exponential(interval).expect("a mean"));
        config
    };
    let (shown, percent) = by_seeds(200, many_vis(0.5, 3_000.0, size(2_000)), mean_us);
    assert!(shown >= 180 && percent >= 92.0, "{percent} % of {shown}");
    let config = many_vis(0.5, 3_000.0, size(1_000_000));
    let result = run(&config);
    let latency = result.latency.expect("messages");
    let Some(TooShort::Sizes { needed, .. }) = latency.no_interval else {
        panic!("{:?}", latency.no_interval);
    };
    assert!(needed > 100_000, "{needed}");
    assert!(
        result.warnings.iter().any(|warning| {
            warning.text.starts_with("too short for an interval") && warning.help.is_some()
        }),
        "{:?}",
        result.warnings
    );
}

#[test]
fn many_busy_queues_together_hide_nothing() {
    // 16 pairs on 16 links: their delays in turn look independent of each other.
    let topology = Topology::single_switch(32, Ports(32)).expect("a switch");
    let pairs = (0..16).map(|host| (host, host + 16)).collect();
    let mut config = one_link(0.9, 300.0, 1, SizeDistribution::constant(1_000));
    let pattern = Pattern::Pairs(pairs);
    let wide = scenario(topology, config.host.common().clone(), pattern);
    config.topology = wide.topology;
    config.traffic.pattern = wide.traffic.pattern;
    let (shown, _) = by_seeds(20, config, 44.0);
    assert_eq!(shown, 0);
}

#[test]
fn a_run_that_a_wait_needs_longer_says_how_long() {
    let mut config = one_link(0.9, 2_000.0, 1, SizeDistribution::constant(1_000));
    let result = run(&config);
    let latency = result.latency.expect("messages");
    let Some(TooShort::Span { measured, needed }) = latency.no_interval else {
        panic!("{:?}", latency.no_interval);
    };
    // 8 us / (1 - sqrt(0.9))^2 = 3.0 ms, a hundred times.
    assert!(
        (needed.microseconds_f64() / 303_800.0 - 1.0).abs() < 0.03,
        "{needed}"
    );
    assert!(measured < needed);
    config.run.until = config.run.warmup + needed;
    config.traffic.stop = config.run.until;
    let latency = run(&config).latency.expect("messages");
    assert!(latency.mean_us.ci95.is_some(), "{:?}", latency.no_interval);
}

#[test]
fn a_run_whose_latency_doubles_is_not_called_steady() {
    // Of a list, so that nobody else disturbs: sizes and with them latencies grow from 1 to 2.
    let messages: Vec<ListedMessage> = (0..2_000_u32)
        .map(|number| ListedMessage {
            time: Time::from_microseconds(100 * u64::from(number)),
            source: 0,
            target: 1,
            bytes: 1_000 + number / 2 + (number * 7919) % 500,
            operation: MessageOperation::Send,
        })
        .collect();
    let topology = Topology::single_switch(2, Ports(2)).expect("a switch");
    let mut config = scenario(topology, ideal_host(), Pattern::Pairs(vec![(0, 1)]));
    let end = Time::from_microseconds(300_000);
    config.traffic = viaduct_cluster::config::TrafficConfig::listed(
        std::sync::Arc::new(MessageList::new(&messages, 2, 1).expect("a list")),
        Time::ZERO,
        end,
    );
    config.run.until = end;
    let result = run(&config);
    assert!(
        !matches!(result.steady, SteadyState::Steady | SteadyState::Unknown),
        "{:?}",
        result.steady
    );
    let latency = result.latency.expect("messages");
    assert_eq!(latency.no_interval, Some(TooShort::NotSteady));
    assert!(
        result
            .warnings
            .iter()
            .any(|warning| warning.text.contains("latency")),
        "{:?}",
        result.warnings
    );
}
