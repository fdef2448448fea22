//! Hosts for tests: one of each kind of adapter, and one that costs nothing.

use std::sync::Arc;

use viaduct_cluster::adapters::Adapters;
use viaduct_cluster::faults::Detection;
use viaduct_engine::Time;
use viaduct_hardware::{BusModel, Completion, Frame, HostModel, NicModel, Rate, Switching};
use viaduct_hardware::{
    Mechanism, MemoryModel, NoticeModel, ProcessorModel, QueueDesign, RemoteWriteModel,
};
use viaduct_network::{Arrival, LinkConfig, Sharing, SwitchModel};
use viaduct_programs::config::SimulationConfig;
use viaduct_topology::{Ports, Topology};

const fn nanoseconds(count: u64) -> Time {
    Time::from_picoseconds(count * 1000)
}

/// Two hosts on a cable.
pub(crate) fn pair(host: HostModel) -> SimulationConfig {
    let rate = Rate::from_bits_per_second(1e9);
    SimulationConfig {
        topology: Arc::new(Topology::single_switch(2, Ports(8)).unwrap()),
        links: LinkConfig {
            sharing: Sharing::Fluid,
            arrival: Arrival::default(),
            switching: Switching::CutThrough,
            rate,
            host_rate: rate,
            propagation: nanoseconds(10),
            host_propagation: nanoseconds(10),
            frame: Frame {
                payload_bytes: 0,
                header_bytes: 16,
            },
            buffers: viaduct_network::Buffers::default(),
            credits: viaduct_network::CreditLinks::default(),
        },
        switch: SwitchModel {
            delay: Time::ZERO,
            cut_through_bytes: 0,
        },
        host: host.into(),
        adapters: Adapters::ONE,
        processors: None,
        faults: Vec::new(),
        background: Vec::new(),
        around: None,
        detection: Detection::default(),
        seed: 1,
    }
}

const FREE_PROCESSOR: ProcessorModel = ProcessorModel {
    post: Time::ZERO,
    reap: Time::ZERO,
    polling_delay: Time::ZERO,
    interrupt: Time::ZERO,
    wake_up: Time::ZERO,
};

const FREE_BUS: BusModel = BusModel {
    rate: Rate::INFINITE,
    burst_bytes: 0,
    burst_overhead: Time::ZERO,
    programmed_write: Time::ZERO,
    read: Time::ZERO,
    write: Time::ZERO,
};

const FREE_NIC: NicModel = NicModel {
    doorbell: Time::ZERO,
    send_descriptor: Time::ZERO,
    translate: Time::ZERO,
    inline_bytes: 0,
    dma_setup: Time::ZERO,
    moving_per_vi: 1,
    rate: Rate::INFINITE,
    page_bytes: 0,
    page_crossing: Time::ZERO,
    forwarding: Switching::CutThrough,
    receive_match: Time::ZERO,
    completion: Time::ZERO,
};

const PROCESSOR: ProcessorModel = ProcessorModel {
    post: nanoseconds(500),
    reap: nanoseconds(400),
    polling_delay: nanoseconds(200),
    interrupt: nanoseconds(6700),
    wake_up: nanoseconds(1500),
};

fn bus() -> BusModel {
    BusModel {
        rate: Rate::from_bits_per_second(132e6 * 8.0),
        burst_bytes: 512,
        burst_overhead: nanoseconds(390),
        programmed_write: nanoseconds(200),
        read: nanoseconds(500),
        write: nanoseconds(250),
    }
}

/// One that costs nothing.
pub(crate) fn ideal() -> HostModel {
    HostModel {
        name: "ideal".to_owned(),
        processor: FREE_PROCESSOR,
        completion: Completion::Polling,
        memory: MemoryModel::FREE,
        bus: FREE_BUS,
        mechanism: Mechanism::Native(FREE_NIC),
        transfer_max_bytes: 1 << 30,
    }
}

/// VIA in the adapter.
pub(crate) fn native() -> HostModel {
    HostModel {
        name: "native".to_owned(),
        processor: PROCESSOR,
        completion: Completion::Polling,
        memory: MemoryModel::FREE,
        bus: bus(),
        mechanism: Mechanism::Native(NicModel {
            doorbell: nanoseconds(400),
            send_descriptor: nanoseconds(1400),
            translate: nanoseconds(430),
            inline_bytes: 32,
            dma_setup: nanoseconds(850),
            rate: Rate::from_bits_per_second(1e9),
            page_bytes: 4096,
            page_crossing: nanoseconds(2950),
            receive_match: nanoseconds(1700),
            completion: nanoseconds(400),
            ..FREE_NIC
        }),
        transfer_max_bytes: 1 << 30,
    }
}

pub(crate) const NOTICES: NoticeModel = NoticeModel {
    tripwires: 4096,
    tripwire: nanoseconds(400),
    events: 1024,
    interrupt: nanoseconds(3000),
    event: nanoseconds(150),
    look: nanoseconds(30),
};

/// VIA above remote writes: by the processor below so many bytes, by the engine from there on.
pub(crate) fn remote_writes(name: &str, dma_from_bytes: u32) -> HostModel {
    HostModel {
        name: name.to_owned(),
        processor: PROCESSOR,
        completion: Completion::Polling,
        memory: MemoryModel::FREE,
        bus: bus(),
        mechanism: Mechanism::RemoteWrites(RemoteWriteModel {
            adapter: nanoseconds(900),
            write_rate: Rate::from_bits_per_second(85e6 * 8.0),
            segment: nanoseconds(1000),
            map: nanoseconds(5000),
            mappings: 16,
            dma_from_bytes,
            dma_request: nanoseconds(900),
            dma_written_bytes: 128,
            dma_setup: nanoseconds(600),
            dma_interrupt: nanoseconds(3000),
            slot_bytes: 16,
            queues: QueueDesign::Indexed,
            inline_bytes: 0,
            inline_first_bytes: 0,
            inline_next_bytes: 0,
            returned_every: 1,
            notices: NOTICES,
        }),
        transfer_max_bytes: 1 << 30,
    }
}

/// All of them.
pub(crate) fn all() -> Vec<HostModel> {
    vec![
        ideal(),
        native(),
        remote_writes("clan-pio", u32::MAX),
        remote_writes("clan-dma", 0),
        remote_writes("clan", 1024),
    ]
}
