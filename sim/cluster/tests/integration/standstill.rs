//! Messages that wait for each other in a ring end a run, which says so.

use core::ops::ControlFlow;

use viaduct_cluster::result::Ended;
use viaduct_cluster::workload::Pattern;
use viaduct_network::{Buffers, Sharing, WhenFull};
use viaduct_topology::{Ports, Topology};

use crate::common::{ideal_host, scenario};

#[test]
fn a_ring_of_waiting_channels_ends_a_run_unless_there_are_classes() {
    for classes in [1, 2] {
        let ring = Topology::torus(&[8], 1, Ports(8)).expect("a ring");
        let mut config = scenario(ring, ideal_host(), Pattern::Uniform);
        config.links.sharing = Sharing::Credits;
        config.links.frame.payload_bytes = 100;
        config.links.credits.channels = classes;
        config.links.credits.classes = classes;
        config.links.credits.buffer_bytes = Some(256);
        config.traffic.arrivals = viaduct_cluster::config::Arrivals::Window(4);
        config.traffic.size = viaduct_cluster::workload::SizeDistribution::constant(20_000);
        config.traffic.stop = viaduct_engine::Time::from_microseconds(5_000);
        config.run.until = config.traffic.stop;
        let result = viaduct_cluster::run(&config, &mut |_| ControlFlow::Continue(()));
        let result = result.expect("it runs");
        if classes == 1 {
            assert_eq!(result.ended, Ended::Deadlock);
            let [said] = &result.violations[..] else {
                panic!("{:?}", result.violations);
            };
            assert!(said.contains("-> s1 (channel 0)"), "{said}");
        } else {
            assert_eq!(result.ended, Ended::Finished);
            assert!(result.violations.is_empty(), "{:?}", result.violations);
        }
    }
}

#[test]
fn a_ring_of_links_that_pause_ends_a_run_unless_there_is_room() {
    for (room, stands_still) in [(8_000, true), (50_000_000, false)] {
        let ring = Topology::torus(&[8], 1, Ports(8)).expect("a ring");
        let mut config = scenario(ring, ideal_host(), Pattern::Uniform);
        config.links.sharing = Sharing::Packets;
        config.links.frame.payload_bytes = 1_000;
        config.links.buffers = Buffers {
            bytes_max: Some(room),
            full: WhenFull::Pause {
                headroom_bytes: None,
            },
            ..Buffers::default()
        };
        config.traffic.arrivals = viaduct_cluster::config::Arrivals::Window(4);
        config.traffic.size = viaduct_cluster::workload::SizeDistribution::constant(200_000);
        config.traffic.stop = viaduct_engine::Time::from_microseconds(5_000);
        config.run.until = config.traffic.stop;
        let result = viaduct_cluster::run(&config, &mut |_| ControlFlow::Continue(()));
        let result = result.expect("it runs");
        if stands_still {
            assert_eq!(result.ended, Ended::Deadlock);
            let [said] = &result.violations[..] else {
                panic!("{:?}", result.violations);
            };
            assert!(said.contains("links.buffer"), "{said}");
        } else {
            assert_eq!(result.ended, Ended::Finished);
            assert!(result.violations.is_empty(), "{:?}", result.violations);
        }
    }
}
