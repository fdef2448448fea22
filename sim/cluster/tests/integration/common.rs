//! Small scenarios for the tests of this crate.

use std::ops::ControlFlow;
use std::sync::Arc;

use viaduct_cluster::adapters::Adapters;
use viaduct_cluster::config::{Arrivals, ClusterConfig, HostsConfig, RunConfig, TrafficConfig};
use viaduct_cluster::faults::Detection;
use viaduct_cluster::result::RunResult;
use viaduct_cluster::workload::{Interval, MessageOperation, Pattern, SizeDistribution};
use viaduct_core::ReliabilityLevel;
use viaduct_engine::Time;
use viaduct_hardware::{
    BusModel, Completion, Frame, HostModel, Mechanism, MemoryModel, NicModel, ProcessorModel, Rate,
    Switching,
};
use viaduct_network::{Arrival, LinkConfig, Sharing, SwitchModel};
use viaduct_topology::Topology;

pub(crate) fn nanoseconds(nanoseconds: u64) -> Time {
    Time::from_nanoseconds(nanoseconds)
}

/// Hosts and NICs that cost nothing.
pub(crate) fn ideal_host() -> HostModel {
    let zero = Time::ZERO;
    HostModel {
        name: "ideal".into(),
        processor: ProcessorModel {
            post: zero,
            reap: zero,
            polling_delay: zero,
            interrupt: zero,
            wake_up: zero,
        },
        completion: Completion::Polling,
        memory: MemoryModel::FREE,
        bus: BusModel {
            rate: Rate::INFINITE,
            burst_bytes: 0,
            burst_overhead: zero,
            programmed_write: zero,
            read: zero,
            write: zero,
        },
        mechanism: Mechanism::Native(NicModel {
            doorbell: zero,
            send_descriptor: zero,
            translate: zero,
            inline_bytes: 0,
            dma_setup: zero,
            moving_per_vi: u32::MAX,
            rate: Rate::INFINITE,
            page_bytes: 0,
            page_crossing: zero,
            forwarding: Switching::CutThrough,
            receive_match: zero,
            completion: zero,
        }),
        transfer_max_bytes: 1 << 30,
    }
}

/// A host in which every stage costs something, in round numbers.
pub(crate) fn costly_host() -> HostModel {
    HostModel {
        name: "costly".into(),
        processor: ProcessorModel {
            post: nanoseconds(1_000),
            reap: nanoseconds(700),
            polling_delay: nanoseconds(130),
            interrupt: nanoseconds(5_000),
            wake_up: nanoseconds(2_000),
        },
        completion: Completion::Interrupt,
        memory: MemoryModel::FREE,
        bus: BusModel {
            // 500 bytes at 4 ns and 500 ns a burst: 5 ns a byte.
            rate: Rate::from_bits_per_second(2e9),
            burst_bytes: 500,
            burst_overhead: nanoseconds(500),
            programmed_write: nanoseconds(300),
            read: nanoseconds(600),
            write: nanoseconds(200),
        },
        mechanism: Mechanism::Native(NicModel {
            doorbell: nanoseconds(400),
            send_descriptor: nanoseconds(900),
            translate: nanoseconds(150),
            inline_bytes: 32,
            dma_setup: nanoseconds(800),
            moving_per_vi: 1,
            rate: Rate::from_bits_per_second(1e9),
            page_bytes: 4096,
            page_crossing: nanoseconds(1_500),
            forwarding: Switching::CutThrough,
            receive_match: nanoseconds(1_100),
            completion: nanoseconds(250),
        }),
        transfer_max_bytes: 1 << 30,
    }
}

/// The adapter of a host that has VIA in it.
pub(crate) fn nic(host: &mut HostModel) -> &mut NicModel {
    match &mut host.mechanism {
        Mechanism::Native(nic) => nic,
        other => panic!("an adapter without VIA: {other:?}"),
    }
}

/// The same host with other numbers, which `factor` says, wherever hosts that talk with each other
/// may differ.
pub(crate) fn another(host: &HostModel, factor: u64) -> HostModel {
    let longer =
        |time: &mut Time| *time = Time::from_picoseconds(time.picoseconds() * factor + 1_000);
    let slower = |rate: &mut Rate| {
        *rate = Rate::from_bits_per_second(rate.bits_per_second() / factor as f64);
    };
    let mut host = host.clone();
    host.name = format!("{} and slower", host.name);
    let processor = &mut host.processor;
    for time in [
        &mut processor.post,
        &mut processor.reap,
        &mut processor.polling_delay,
        &mut processor.interrupt,
        &mut processor.wake_up,
        &mut host.bus.programmed_write,
        &mut host.bus.read,
        &mut host.bus.write,
    ] {
        longer(time);
    }
    slower(&mut host.bus.rate);
    match &mut host.mechanism {
        Mechanism::Native(nic) => {
            longer(&mut nic.doorbell);
            longer(&mut nic.send_descriptor);
            longer(&mut nic.receive_match);
            longer(&mut nic.completion);
            slower(&mut nic.rate);
            nic.inline_bytes += 8;
        }
        Mechanism::RemoteWrites(clan) => {
            longer(&mut clan.adapter);
            longer(&mut clan.segment);
            longer(&mut clan.dma_interrupt);
            slower(&mut clan.write_rate);
        }
        Mechanism::Firmware(nic) => longer(&mut nic.cycle),
        Mechanism::Kernel(kernel) => {
            longer(&mut kernel.system_call);
            longer(&mut kernel.receive_frame);
            longer(&mut kernel.interrupt);
            slower(&mut kernel.copy_rate);
        }
        Mechanism::Rdma(nic) => {
            longer(&mut nic.doorbell);
            longer(&mut nic.read);
            longer(&mut nic.message);
            longer(&mut nic.completion);
            nic.connections = 2;
        }
    }
    host
}

/// Everything but the network and the traffic at its plainest.
pub(crate) fn scenario(topology: Topology, host: HostModel, pattern: Pattern) -> ClusterConfig {
    ClusterConfig {
        topology: Arc::new(topology),
        links: LinkConfig {
            sharing: Sharing::Fluid,
            arrival: Arrival::default(),
            switching: Switching::CutThrough,
            rate: Rate::from_bits_per_second(1e9),
            host_rate: Rate::from_bits_per_second(1e9),
            propagation: Time::ZERO,
            host_propagation: Time::ZERO,
            frame: Frame {
                payload_bytes: 0,
                header_bytes: 0,
            },
            buffers: viaduct_network::Buffers::default(),
            credits: viaduct_network::CreditLinks::default(),
        },
        switch: SwitchModel {
            delay: Time::ZERO,
            cut_through_bytes: 0,
        },
        host: host.into(),
        interfaces: None,
        hosts: HostsConfig {
            processes: 1,
            adapters: Adapters::ONE,
            processors: None,
            prepost: 8,
            is_prepost_chosen: true,
            send_buffers: 1_000,
            bus_load: None,
        },
        traffic: TrafficConfig {
            pattern,
            arrivals: Arrivals::Open(Interval::exponential(1e9).expect("a mean")),
            size: SizeDistribution::constant(1_000),
            operation: MessageOperation::Send,
            reliability: ReliabilityLevel::Unreliable,
            start: Time::ZERO,
            stop: Time::from_milliseconds(100),
        },
        faults: Vec::new(),
        detection: Detection::default(),
        background: Vec::new(),
        run: RunConfig {
            warmup: Time::ZERO,
            until: Time::from_milliseconds(100),
            drain: true,
            messages_max: None,
            events_max: None,
            seed: 1,
            message_rows_max: 1_000,
            connections_kept: viaduct_cluster::CONNECTIONS_KEPT,
        },
    }
}

/// All links take so long, those of hosts and those between switches.
pub(crate) fn set_propagation(config: &mut ClusterConfig, propagation: Time) {
    config.links.propagation = propagation;
    config.links.host_propagation = propagation;
}

/// Runs, and demands that the run found nothing wrong with itself.
pub(crate) fn run(config: &ClusterConfig) -> RunResult {
    let result = viaduct_cluster::run(config, &mut |_| ControlFlow::Continue(())).expect("runs");
    assert!(result.violations.is_empty(), "{:?}", result.violations);
    result
}
