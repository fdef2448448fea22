//! What remaps take, and what looks at endpoints do.

use super::*;

/// Two hosts whose interfaces have two frames, and the endpoints of the first.
fn cluster(endpoints: usize, remap_period: Time) -> (Cluster, Vec<Endpoint>) {
    let mut config = Config::am_myrinet(2, 2);
    config.host.remap_period = remap_period;
    let mut cluster = Cluster::new(config).unwrap();
    for host in 0..2 {
        cluster.join(host);
    }
    let made = (0..endpoints).map(|_| cluster.create_endpoint(0)).collect();
    (cluster, made)
}

/// Lets things happen until an endpoint is in a frame, and its process has its mapping.
fn until_in_frame(cluster: &mut Cluster, endpoint: Endpoint) -> Time {
    while !is_in_frame(&cluster.nodes[0].driver, endpoint) {
        assert!(cluster.step(), "it never gets into a frame");
    }
    cluster.queue.now() + cluster.config.host.map
}

fn us(microseconds: f64) -> Time {
    Time::from_seconds_f64(microseconds * 1e-6)
}

fn assert_near(ours: Time, wanted: Time) {
    let off = ours.picoseconds().abs_diff(wanted.picoseconds());
    // Cycles are cut to whole picoseconds.
    assert!(off < 1_000, "{ours}, not {wanted}");
}

/// A word of the driver, taken or said by the interface.
const WORD_US: f64 = 100.0 / 37.5;
/// From the driver's first instruction about an upload to the process's new mapping: its word, the
/// old mapping, the backing store, the image over the bus, the interrupt, the new mapping.
const UPLOAD_US: f64 = 10.0 + 20.0 + 80.0 + WORD_US + 8192.0 / 38.2 + WORD_US + 9.1 + 20.0;
const UNLOAD_US: f64 = 10.0 + 20.0 + 80.0 + WORD_US + 8192.0 / 46.8 + WORD_US + 9.1 + 20.0;
/// Nothing of it is outstanding, so that it is at rest at once.
const REST_US: f64 = 10.0 + WORD_US + 9.1;

#[test]
fn a_remap_takes_what_its_steps_take() {
    let (mut cluster, made) = cluster(3, Time::ZERO);
    let mut now = Time::ZERO;
    for endpoint in &made[..2] {
        let _ = cluster.write(0, *endpoint, now);
        let there = until_in_frame(&mut cluster, *endpoint);
        assert_near(there - now, us(UPLOAD_US));
        now = there;
    }
    // Both frames are taken: one of the two has to leave.
    let _ = cluster.write(0, made[2], now);
    let there = until_in_frame(&mut cluster, made[2]);
    assert_near(there - now, us(REST_US + UNLOAD_US + UPLOAD_US));
}

#[test]
fn the_kernels_thread_looks_once_a_period_and_then_goes_on_until_nothing_is_left() {
    let period = Time::from_milliseconds(10);
    let (mut cluster, made) = cluster(2, period);
    let phase = cluster.nodes[0].driver_phase;
    assert!(phase > Time::ZERO && phase < period, "{phase}");
    for endpoint in &made {
        let _ = cluster.write(0, *endpoint, Time::ZERO);
    }
    let first = until_in_frame(&mut cluster, made[0]);
    assert_near(first, phase + us(UPLOAD_US));
    let second = until_in_frame(&mut cluster, made[1]);
    assert_near(second, phase + us(2.0 * UPLOAD_US));
    // Hosts do not look at the same time.
    assert_ne!(cluster.nodes[1].driver_phase, phase);
}

#[test]
fn a_look_into_a_frame_is_an_uncached_read_and_one_into_host_memory_is_not() {
    let (mut cluster, made) = cluster(2, Time::ZERO);
    let _ = cluster.write(0, made[0], Time::ZERO);
    until_in_frame(&mut cluster, made[0]);
    assert_eq!(cluster.look_span(0, made[0]), us(0.5));
    assert_eq!(cluster.look_span(0, made[1]), us(0.1));
    let host = &cluster.config.host;
    // The read that finds a message is a part of what taking it costs.
    assert_eq!(host.receive_of(16, true), us(2.9));
    assert_eq!(host.receive_of(16, false), us(2.5));
    assert_eq!(host.receive_of(1200, true), us(2.9 + 10.0));
    assert_eq!(host.send_of(1200), us(2.9 + 10.0));
}
