//! A preset made into hosts for programs, and the network that they stand in.

use std::fmt;
use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_fabric::via::NicAttributes;
use viaduct_sim::config::{
    BusModel, Frame, LinkConfig, NicModel, Rate, Sharing, SwitchModel, Switching,
};
use viaduct_simfabric::config::{
    FirmwareModel, HostModel, KernelModel, Mechanism, MemoryModel, NoticeModel, ProcessorModel,
    QueueDesign, RdmaModel, RemoteWriteModel, SimulationConfig, Ways,
};
use viaduct_simfabric::faults::Detection;
use viaduct_topology::{Ports, Topology};

use crate::diagnostics::Diagnostics;
use crate::preset::{Preset, PresetNumber, load_preset, own_table};
use crate::study::Study;
use crate::value::Value;

/// Why there are no simulated hosts of a name.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProgramsError {
    /// The preset or the study is wrong.
    Wrong(Diagnostics),
    /// The preset is of interfaces that have endpoints and no VIs.
    NoVia {
        /// Which preset.
        model: String,
    },
    /// The preset is of adapters with VIA, and has no endpoints.
    NoEndpoints {
        /// Which preset.
        model: String,
    },
    /// The preset names no cable, and no study was given.
    NoLink {
        /// Which preset.
        model: String,
    },
    /// A network for so many hosts cannot be made.
    NoNetwork {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for ProgramsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(diagnostics) => diagnostics.fmt(formatter),
            Self::NoLink { model } => write!(
                formatter,
                "the preset {model} has no [link]: name a study for the network, as in \
                 sim:{model}@four-hop"
            ),
            Self::NoVia { model } => write!(
                formatter,
                "the preset {model} has endpoints and no VIs: viaduct measure logp, bulk, \
                 contention and timesharing are for it"
            ),
            Self::NoEndpoints { model } => write!(
                formatter,
                "the preset {model} has VIs and no endpoints: am-myrinet and gam-myrinet have \
                 them, and files that inherit one"
            ),
            Self::NoNetwork { reason } => formatter.write_str(reason),
        }
    }
}

impl std::error::Error for ProgramsError {}

/// Hosts of a preset in the network of a study, or `hosts` of them on one switch that costs
/// nothing, with cables of the preset.
///
/// # Errors
///
/// [`ProgramsError`].
pub fn load_programs(
    model: &str,
    study: Option<&str>,
    hosts: u32,
) -> Result<SimulationConfig, ProgramsError> {
    let preset = load_preset(model).map_err(ProgramsError::Wrong)?;
    programs_of(&preset, model, study, hosts)
}

/// The same for a preset that is loaded, and may have been changed since; `model` is its name in
/// messages.
///
/// # Errors
///
/// [`ProgramsError`].
pub fn programs_of(
    preset: &Preset,
    model: &str,
    study: Option<&str>,
    hosts: u32,
) -> Result<SimulationConfig, ProgramsError> {
    if preset.has_endpoints() {
        let model = model.to_owned();
        return Err(ProgramsError::NoVia { model });
    }
    let numbers = Numbers(preset);
    let Some(host) = numbers.host() else {
        // A preset that loads has every number.
        return Err(ProgramsError::NoNetwork {
            reason: format!("the preset {model} lacks a number"),
        });
    };
    if let Some(study) = study {
        let Study {
            config,
            for_programs,
            ..
        } = Study::load(study, &[]).map_err(ProgramsError::Wrong)?;
        return Ok(SimulationConfig {
            topology: config.topology,
            links: config.links,
            switch: config.switch,
            host,
            faults: for_programs.faults,
            traffic: for_programs.background,
            detection: for_programs.detection,
            seed: config.run.seed,
        });
    }
    let Some(links) = numbers.links() else {
        let model = model.to_owned();
        return Err(ProgramsError::NoLink { model });
    };
    let topology = Topology::single_switch(hosts, Ports(hosts));
    let topology = topology.map_err(|error| ProgramsError::NoNetwork {
        reason: error.to_string(),
    })?;
    Ok(SimulationConfig {
        topology: Arc::new(topology),
        links,
        switch: SwitchModel {
            delay: Time::ZERO,
            cut_through_bytes: 0,
        },
        host,
        faults: Vec::new(),
        traffic: Vec::new(),
        detection: Detection::default(),
        seed: 1,
    })
}

/// The numbers of a preset, by table and key.
pub(crate) struct Numbers<'a>(pub(crate) &'a Preset);

impl Numbers<'_> {
    pub(crate) fn value(&self, table: &str, key: &str) -> Option<&Value> {
        let is_it = |number: &&PresetNumber| number.table == table && number.key == key;
        self.0
            .numbers
            .iter()
            .find(is_it)
            .map(|number| &number.meant)
    }

    pub(crate) fn time(&self, table: &str, key: &str) -> Option<Time> {
        match self.value(table, key)? {
            Value::Time(time) => Some(*time),
            _ => None,
        }
    }

    pub(crate) fn rate(&self, table: &str, key: &str) -> Option<Rate> {
        match self.value(table, key)? {
            Value::Rate(rate) => Some(*rate),
            _ => None,
        }
    }

    pub(crate) fn count(&self, table: &str, key: &str) -> Option<u32> {
        match self.value(table, key)? {
            Value::Size(number) | Value::Count(number) => u32::try_from(*number).ok(),
            _ => None,
        }
    }

    pub(crate) fn choice(&self, table: &str, key: &str) -> Option<&'static str> {
        match self.value(table, key)? {
            Value::Choice(word) => Some(word),
            _ => None,
        }
    }

    fn host(&self) -> Option<HostModel> {
        let mechanism = match self.0.mechanism {
            "remote-writes" => Mechanism::RemoteWrites(self.remote_writes()?),
            "firmware" => Mechanism::Firmware(self.firmware()?),
            "kernel" => Mechanism::Kernel(self.kernel()?),
            "rdma" => Mechanism::Rdma(self.rdma()?),
            _ => Mechanism::Native(self.native()?),
        };
        let table = own_table(self.0.mechanism);
        let most = NicAttributes::default();
        let transfer_max = self.count(table, "transfer_max")?;
        let attributes = NicAttributes {
            max_transfer_bytes: transfer_max.min(most.max_transfer_bytes),
            ..most
        };
        Some(HostModel {
            name: self.0.name.clone(),
            processor: ProcessorModel {
                post: self.time("cpu", "post")?,
                reap: self.time("cpu", "reap")?,
                polling_delay: self.time("cpu", "polling_delay")?,
                interrupt: self.time("cpu", "interrupt")?,
                wake_up: self.time("cpu", "wake_up")?,
            },
            memory: self.memory(),
            bus: BusModel {
                rate: self.rate("bus", "rate")?,
                burst_bytes: self.count("bus", "burst")?,
                burst_overhead: self.time("bus", "burst_overhead")?,
                programmed_write: self.time("bus", "programmed_write")?,
                read: self.time("bus", "read")?,
                write: self.time("bus", "write")?,
            },
            mechanism,
            attributes,
        })
    }

    /// A preset that says nothing of memory registers it at no cost.
    fn memory(&self) -> MemoryModel {
        let table = "memory";
        let register = self.time(table, "register");
        match (register, self.rate(table, "register_rate")) {
            (Some(register), Some(register_rate)) => MemoryModel {
                register,
                register_rate,
            },
            _ => MemoryModel::FREE,
        }
    }

    fn links(&self) -> Option<LinkConfig> {
        let table = "link";
        let rate = self.rate(table, "rate")?;
        let propagation = self.time(table, "propagation")?;
        Some(LinkConfig {
            sharing: Sharing::Fluid,
            switching: Switching::CutThrough,
            rate,
            host_rate: rate,
            // Half of it on each side of the switch that stands for the cable.
            propagation: Time::from_picoseconds(propagation.picoseconds() / 2),
            frame: Frame {
                payload_bytes: self.count(table, "frame_payload")?,
                header_bytes: self.count(table, "frame_header")?,
            },
        })
    }

    fn native(&self) -> Option<NicModel> {
        let table = "nic";
        Some(NicModel {
            doorbell: self.time(table, "doorbell")?,
            send_descriptor: self.time(table, "send_descriptor")?,
            translate: self.time(table, "translate")?,
            inline_bytes: self.count(table, "inline")?,
            dma_setup: self.time(table, "dma_setup")?,
            moving_per_vi: self.count(table, "moving_per_vi")?,
            rate: self.rate(table, "rate")?,
            page_bytes: self.count(table, "page")?,
            page_crossing: self.time(table, "page_crossing")?,
            forwarding: match self.choice(table, "forwarding")? {
                "store-and-forward" => Switching::StoreAndForward,
                _ => Switching::CutThrough,
            },
            receive_match: self.time(table, "receive_match")?,
            completion: self.time(table, "completion")?,
        })
    }

    fn remote_writes(&self) -> Option<RemoteWriteModel> {
        let table = "remote_writes";
        Some(RemoteWriteModel {
            adapter: self.time(table, "adapter")?,
            write_rate: self.rate(table, "write_rate")?,
            segment: self.time(table, "segment")?,
            map: self.time(table, "map")?,
            mappings: self.count(table, "mappings")?,
            dma_from_bytes: self.count(table, "dma_from")?,
            dma_request: self.time(table, "dma_request")?,
            dma_written_bytes: self.count(table, "dma_written")?,
            dma_setup: self.time(table, "dma_setup")?,
            dma_interrupt: self.time(table, "dma_interrupt")?,
            slot_bytes: self.count(table, "slot")?,
            queues: match self.choice(table, "queues")? {
                "lapped" => QueueDesign::Lapped,
                _ => QueueDesign::Indexed,
            },
            inline_bytes: self.count(table, "inline")?,
            inline_first_bytes: self.count(table, "inline_first")?,
            inline_next_bytes: self.count(table, "inline_next")?,
            returned_every: self.count(table, "returned_every")?,
            notices: NoticeModel {
                tripwires: self.count(table, "tripwires")?,
                tripwire: self.time(table, "tripwire")?,
                events: self.count(table, "events")?,
                interrupt: self.time(table, "event_interrupt")?,
                event: self.time(table, "event")?,
                look: self.time(table, "look")?,
            },
        })
    }

    fn firmware(&self) -> Option<FirmwareModel> {
        let table = "firmware";
        let ways = self.choice(table, "ways")?;
        Some(FirmwareModel {
            cycle: self.time(table, "cycle")?,
            doorbell_cycles: self.count(table, "doorbell")?,
            descriptor_cycles: self.count(table, "descriptor")?,
            page_cycles: self.count(table, "page")?,
            dma_cycles: self.count(table, "dma")?,
            send_cycles: self.count(table, "send")?,
            receive_cycles: self.count(table, "receive")?,
            completion_cycles: self.count(table, "completion")?,
            packet_bytes: self.count(table, "packet")?,
            page_bytes: self.count(table, "page_size")?,
            write_rate: self.rate(table, "write_rate")?,
            ways: Ways {
                written: ways == "adaptive",
                staged: ways != "streamed",
                streamed: ways != "staged",
            },
        })
    }

    fn kernel(&self) -> Option<KernelModel> {
        let table = "kernel";
        Some(KernelModel {
            system_call: self.time(table, "system_call")?,
            send_frame: self.time(table, "send_frame")?,
            receive_frame: self.time(table, "receive_frame")?,
            copy_rate: self.rate(table, "copy_rate")?,
            adapter: self.time(table, "adapter")?,
            interrupt: self.time(table, "interrupt")?,
            coalescing: self.time(table, "coalescing")?,
            frame_bytes: self.count(table, "frame")?,
        })
    }

    fn rdma(&self) -> Option<RdmaModel> {
        let table = "rdma";
        Some(RdmaModel {
            doorbell: self.time(table, "doorbell")?,
            inline_bytes: self.count(table, "inline")?,
            read: self.time(table, "read")?,
            read_credit_bytes: self.count(table, "read_credit")?,
            message: self.time(table, "message")?,
            fetch_batch: self.count(table, "fetch_batch")?,
            adapters: self.time(table, "adapters")?,
            completion: self.time(table, "completion")?,
            connections: self.count(table, "connections")?,
            retries: self.count(table, "retries")?,
            timeout: self.time(table, "timeout")?,
        })
    }
}
