//! A preset made into hosts for programs, and the network that they stand in.

use std::fmt;
use std::sync::Arc;

use viaduct_cluster::adapters::Adapters;
use viaduct_cluster::faults::Detection;
use viaduct_cluster::workload::MessageOperation;
use viaduct_engine::Time;
use viaduct_hardware::{Frame, HostModel, Switching};
use viaduct_network::{Arrival, Buffers, CreditLinks, LinkConfig, Sharing, SwitchModel};
use viaduct_programs::config::{Around, SimulationConfig};
use viaduct_provider::via::NicAttributes;
use viaduct_topology::{Ports, Topology};

use crate::adapter::Adapter;
use crate::build;
use crate::combinations::{Combination, HostsKind, Refusal, Workload};
use crate::diagnostics::Diagnostics;
use crate::host_groups;
use crate::preset::{Preset, load_preset};
use crate::schema::{Cable, CompletionKind, Cpu, MechanismKind};
use crate::section::{Absent, Section};
use crate::study::Study;

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
                "the preset {model}: {}: {}",
                Refusal::NO_VIS.reason,
                Refusal::NO_VIS.help
            ),
            Self::NoEndpoints { model } => write!(
                formatter,
                "the preset {model} has VIs, and no endpoints in its interfaces: am-myrinet and \
                 gam-myrinet have them, and files that inherit one; over VIs endpoints are programs"
            ),
            Self::NoNetwork { reason } => formatter.write_str(reason),
        }
    }
}

impl std::error::Error for ProgramsError {}

/// Hosts of a preset in the network of a study with its traffic around them, or `hosts` of them on
/// one switch that costs nothing, with cables of the preset.
///
/// The study's messages are sent and taken by processes of their own on the same hosts. The preset
/// stands in place of the study's `[hosts]`: hosts of its groups (`[[host_group]]`) have the
/// hardware that the study says. Programs begin when the study's warm-up is over. Its traffic goes
/// on for as long as they run, or until the study's `traffic.stop`, if it says one: `run.until` and
/// `run.messages_max` end runs of the study alone. Without [`SimulationConfig::around`] nothing is
/// sent but what programs send, and they begin at once.
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
    let host = host_of(preset, model)?;
    if let Some(name) = study {
        let study = Study::load(name, &[]).map_err(ProgramsError::Wrong)?;
        return programs_in(preset, model, name, &study);
    }
    let Some(cable) = preset.section::<Cable>() else {
        let model = model.to_owned();
        return Err(ProgramsError::NoLink { model });
    };
    let links = links(&cable).map_err(|absent| lacks(model, &absent.into()))?;
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
        host: host.into(),
        adapters: Adapters::ONE,
        processors: None,
        faults: Vec::new(),
        background: Vec::new(),
        around: None,
        detection: Detection::default(),
        seed: 1,
    })
}

/// Hosts of a preset in the network of a study that is read, with its traffic around them, as
/// [`load_programs`] makes them; `model` and `name` are what messages call the two.
fn programs_in(
    preset: &Preset,
    model: &str,
    name: &str,
    study: &Study,
) -> Result<SimulationConfig, ProgramsError> {
    let host = host_of(preset, model)?;
    let around = around(study);
    let mut told = study.warnings.same_sources();
    let topology = &study.config.topology;
    let chosen = CompletionKind::Preset;
    let hosts = host_groups::by_host(host, &study.groups, chosen, topology, &mut told);
    let Ok(mut hosts) = hosts else {
        return Err(ProgramsError::Wrong(told));
    };
    for host in hosts.values_mut() {
        host.transfer_max_bytes = host.transfer_max_bytes.min(transfer_bytes_max());
    }
    let config = study.config.clone();
    let combination = Combination {
        workload: Workload::Programs,
        adapter: preset.mechanism,
        operation: MessageOperation::Send,
        is_answered: false,
        level: None,
        disturbance: None,
        hosts: HostsKind::of(&hosts, config.hosts.adapters),
    };
    if let Some(Refusal { reason, help, .. }) = Refusal::of(&combination) {
        let reason = format!("the study {name}: {reason}: {help}");
        return Err(ProgramsError::NoNetwork { reason });
    }
    Ok(SimulationConfig {
        topology: config.topology,
        links: config.links,
        switch: config.switch,
        host: hosts,
        adapters: config.hosts.adapters,
        processors: config.hosts.processors,
        faults: config.faults,
        background: config.background,
        around: Some(around),
        detection: config.detection,
        seed: config.run.seed,
    })
}

/// The hardware of a preset, which has VIs.
fn host_of(preset: &Preset, model: &str) -> Result<HostModel, ProgramsError> {
    if preset.has_endpoints() {
        let model = model.to_owned();
        return Err(ProgramsError::NoVia { model });
    }
    host(preset).map_err(|lacking| lacks(model, &lacking))
}

/// A number of a preset is missing.
fn lacks(model: &str, Lacking(what): &Lacking) -> ProgramsError {
    ProgramsError::NoNetwork {
        reason: format!("the preset {model} lacks a number: {what}"),
    }
}

/// A study's own traffic, on hosts of a preset.
fn around(study: &Study) -> Around {
    let config = &study.config;
    let mut traffic = config.traffic.clone();
    if !study.stops_traffic() {
        traffic.stop = Time::MAX;
    }
    Around {
        hosts: config.hosts.clone(),
        traffic,
        warmup: config.run.warmup,
    }
}

/// A table that a preset of this mechanism must have; a preset that loads has it.
pub(crate) fn table<S: Section>(preset: &Preset) -> Result<S, Lacking> {
    let is_there = preset.section();
    is_there.ok_or_else(|| Lacking(format!("[{}]", S::table().root())))
}

/// What a preset lacks.
pub(crate) struct Lacking(pub(crate) String);

impl From<Absent> for Lacking {
    fn from(absent: Absent) -> Self {
        Self(absent.problem().unwrap_or_else(|| "a number".to_owned()))
    }
}

/// The largest message that a descriptor of a program takes.
fn transfer_bytes_max() -> u32 {
    NicAttributes::default().max_transfer_bytes
}

fn host(preset: &Preset) -> Result<HostModel, Lacking> {
    let adapter = adapter(preset)?;
    let cpu: Cpu = table(preset)?;
    Ok(HostModel {
        name: preset.name.clone(),
        processor: build::processor(&cpu)?,
        completion: build::completion(&cpu, CompletionKind::Preset)?,
        memory: build::memory(preset.section().as_ref())?,
        bus: build::bus(&table(preset)?)?,
        mechanism: adapter.mechanism()?,
        transfer_max_bytes: match adapter.transfer_max() {
            Some(bytes) => bytes.get()?.min(transfer_bytes_max()),
            None => transfer_bytes_max(),
        },
    })
}

fn adapter(preset: &Preset) -> Result<Adapter, Lacking> {
    Ok(match preset.mechanism {
        MechanismKind::Native => Adapter::Native(table(preset)?),
        MechanismKind::RemoteWrites => Adapter::RemoteWrites(table(preset)?),
        MechanismKind::Firmware => Adapter::Firmware(table(preset)?),
        MechanismKind::Kernel => Adapter::Kernel(table(preset)?),
        MechanismKind::Rdma => Adapter::Rdma(table(preset)?),
        MechanismKind::Endpoints => return Err(Lacking("VIs".to_owned())),
    })
}

fn links(cable: &Cable) -> Result<LinkConfig, Absent> {
    let (rate, propagation) = (cable.rate.get()?, cable.propagation.get()?);
    // Half of it on each side of the switch that stands for the cable.
    let half = Time::from_picoseconds(propagation.picoseconds() / 2);
    Ok(LinkConfig {
        sharing: Sharing::MaxMin,
        arrival: Arrival::default(),
        switching: Switching::CutThrough,
        rate,
        host_rate: rate,
        propagation: half,
        host_propagation: half,
        frame: Frame {
            payload_bytes: cable.frame_payload.get()?,
            header_bytes: cable.frame_header.get()?,
        },
        buffers: Buffers::default(),
        credits: CreditLinks::default(),
    })
}
