//! A preset of interfaces with endpoints made into the configuration of simulated ones.

use std::sync::Arc;

use viaduct_cluster::interfaces::{Asked, Interfaces};
use viaduct_engine::Time;
use viaduct_frames::service::Discipline;
use viaduct_frames::transport;
use viaduct_hardware::Rate;
use viaduct_lanai::{
    Config, Fault, Firmware, Host, LinkModel, Network, Phases, Scheduler, Steps, Wait,
};

use crate::adapter::Adapter;
use crate::combinations::Refusal;
use crate::diagnostics::Place;
use crate::keys::Table;
use crate::preset::{Preset, load_preset};
use crate::programs::{self, Lacking, ProgramsError};
use crate::schema::{
    Endpoints, HostSide, Interface, InterfaceNetwork, PhasesKind, Transport, WaitKind,
};
use crate::section::{Absent, AnySetting, Section, Setting};
use crate::settings::Settings;
use crate::study::Study;

/// `hosts` hosts with interfaces of a preset, built in or a file.
///
/// ```
/// let config = viaduct_scenario::load_endpoints("am-myrinet", 25)?;
/// assert_eq!((config.hosts, config.frames), (25, 8));
/// assert_eq!(config, viaduct_lanai::Config::am_myrinet(25, 8));
/// # Ok::<(), viaduct_scenario::ProgramsError>(())
/// ```
///
/// # Errors
///
/// [`ProgramsError`]: what is wrong with it, or that it has no endpoints.
pub fn load_endpoints(model: &str, hosts: u32) -> Result<Config, ProgramsError> {
    let preset = load_preset(model).map_err(ProgramsError::Wrong)?;
    endpoints_of(&preset, model, hosts)
}

/// The same for a preset that is loaded; `model` is its name in messages.
///
/// # Errors
///
/// [`ProgramsError`].
pub fn endpoints_of(preset: &Preset, model: &str, hosts: u32) -> Result<Config, ProgramsError> {
    if !preset.has_endpoints() {
        let model = model.to_owned();
        return Err(ProgramsError::NoEndpoints { model });
    }
    let refuse = |reason: &str| {
        let reason = format!("the preset {model}: {reason}");
        Err(ProgramsError::NoNetwork { reason })
    };
    let made = EndpointTables::of(preset);
    let made = made.and_then(|tables| config_of(&tables, hosts).map_err(Lacking::from));
    let config = match made {
        Ok(config) => config,
        // A preset that loads has every number.
        Err(Lacking(what)) => return refuse(&format!("a number is missing: {what}")),
    };
    match config.check_numbers() {
        Ok(()) => Ok(config),
        Err((_, reason)) => refuse(reason),
    }
}

/// The same in the network of a study: its hosts and switches, the rates of its links, what they
/// and its switches add. Packets share links as the study's `links.model` says, where it says
/// anything: else they hold their ways, as is these interfaces' own rule. They have the headers of
/// the preset.
///
/// # Errors
///
/// [`ProgramsError`]: also what is wrong with the study, a fault of a host that takes no part, or
/// that its network does not join so many hosts.
pub fn load_endpoints_in(model: &str, study: &str, hosts: u32) -> Result<Config, ProgramsError> {
    let read = Study::load(study, &[]).map_err(ProgramsError::Wrong)?;
    let mut config = endpoints_in(model, study, &read, hosts)?;
    keep_faults_of_hosts(&mut config);
    Ok(config)
}

/// The same of a study that is read; `study` is its name in messages. Among its faults are those of
/// hosts that take no part: [`keep_faults_of_hosts`] leaves them out.
///
/// # Errors
///
/// [`ProgramsError`], as [`load_endpoints_in`].
pub fn endpoints_in(
    model: &str,
    study: &str,
    read: &Study,
    hosts: u32,
) -> Result<Config, ProgramsError> {
    let refuse = |reason: String| ProgramsError::NoNetwork {
        reason: format!("the study {study}: {reason}"),
    };
    if !read.config.host.are_alike() {
        let Refusal { reason, help, .. } = Refusal::ALIKE_INTERFACES;
        return Err(refuse(format!("{reason}: {help}")));
    }
    if read.config.hosts.adapters.count > 1 {
        let Refusal { reason, help, .. } = Refusal::ONE_ADAPTER;
        return Err(refuse(format!("{reason}: {help}")));
    }
    if read.config.hosts.processors.is_some() {
        let reason = "endpoints find one processor at their host: leave hosts.processors out";
        return Err(refuse(reason.to_owned()));
    }
    let config = load_endpoints(model, hosts)?;
    let shares_links = read.given_sharing().is_some();
    let joined = config.in_cluster(&read.config, shares_links);
    joined.map_err(|error| refuse(error.to_string()))
}

/// Leaves out the faults of hosts that take no part.
pub fn keep_faults_of_hosts(config: &mut Config) {
    let hosts = config.hosts;
    let takes_part = |fault: &Fault| fault.host().is_none_or(|host| host < hosts);
    config.faults.retain(takes_part);
}

/// The tables of interfaces with endpoints.
#[derive(Clone, Debug)]
pub(crate) struct EndpointTables {
    pub(crate) endpoints: Endpoints,
    pub(crate) interface: Interface,
    pub(crate) host: HostSide,
    pub(crate) network: InterfaceNetwork,
    pub(crate) transport: Option<Transport>,
}

impl EndpointTables {
    /// Their descriptions, in the order of [`Self::list`].
    pub(crate) fn tables() -> [&'static Table; 5] {
        [
            Endpoints::table(),
            Interface::table(),
            HostSide::table(),
            InterfaceNetwork::table(),
            Transport::table(),
        ]
    }

    fn of(preset: &Preset) -> Result<Self, Lacking> {
        Ok(Self {
            endpoints: programs::table(preset)?,
            interface: programs::table(preset)?,
            host: programs::table(preset)?,
            network: programs::table(preset)?,
            transport: preset.section(),
        })
    }

    pub(crate) fn list(&self) -> Vec<&dyn AnySetting> {
        let transport = self.transport.as_ref().map(Section::list);
        [
            self.endpoints.list(),
            self.interface.list(),
            self.host.list(),
            self.network.list(),
            transport.unwrap_or_default(),
        ]
        .concat()
    }
}

/// The interfaces of a study's hosts, if these have endpoints.
pub(crate) fn interfaces(settings: &Settings) -> Result<Option<Arc<dyn Interfaces>>, Absent> {
    let Adapter::Endpoints(tables) = &settings.hardware.adapter else {
        return Ok(None);
    };
    Ok(Some(Arc::new(viaduct_lanai::Endpoints {
        preset: config_of(tables, 1)?,
        shares_links: settings.links.model.is_given(),
        scheduler: scheduler(settings)?,
    })))
}

/// Where a study asks of them what they refuse.
pub(crate) fn place_of(settings: &Settings, asked: Asked) -> Place {
    let hosts = &settings.hosts;
    let nic = hosts.nic.place();
    let Adapter::Endpoints(tables) = &settings.hardware.adapter else {
        return nic;
    };
    match asked {
        Asked::Turns => {
            let table = settings.scheduling.as_ref();
            table.map_or(nic, |table| table.quantum.place())
        }
        Asked::Processors => hosts.processors.place(),
        Asked::Processes => hosts.processes.place(),
        Asked::BusLoad => {
            let table = settings.bus_load.as_ref();
            table.map_or(nic, |table| table.interval.place())
        }
        Asked::Remap => tables.endpoints.remap.place(),
        Asked::Frames => tables.endpoints.frames.place(),
        Asked::Loss => tables.network.lost.place(),
        Asked::Clock => tables.interface.clock.place(),
        Asked::TimeOut => {
            let table = tables.transport.as_ref();
            table.map_or(nic, |table| table.timeout_min.place())
        }
        Asked::Interfaces => nic,
    }
}

/// How ranks of one host share its processor.
fn scheduler(settings: &Settings) -> Result<Scheduler, Absent> {
    let is_shared = settings.hosts.processes.get()? > 1;
    let quantum = Time::from_milliseconds(10);
    if is_shared && settings.hosts.processors.optional()?.is_none() {
        return Ok(Scheduler {
            quantum,
            switch: Time::ZERO,
            wait: Wait::Leave,
            phases: Phases::Random,
        });
    }
    let usual = match is_shared {
        true => WaitKind::TwoPhase,
        false => WaitKind::Spin,
    };
    let of = |span: Option<Time>, usual: Time| span.unwrap_or(usual);
    let table = settings.scheduling.as_ref();
    let spin = table.map(|table| table.spin.get()).transpose()?;
    let spin = of(spin, Time::from_microseconds(150));
    let wait = table.map(|table| table.wait.optional()).transpose()?;
    let phases = table.map(|table| table.phases.get()).transpose()?;
    let given = table.map(|table| table.quantum.get()).transpose()?;
    let switch = table.map(|table| table.switch.get()).transpose()?;
    Ok(Scheduler {
        quantum: of(given, quantum),
        switch: of(switch, Time::from_microseconds(50)),
        wait: match wait.flatten().unwrap_or(usual) {
            WaitKind::Spin => Wait::Spin,
            WaitKind::Block => Wait::Block,
            WaitKind::TwoPhase => Wait::TwoPhase(spin),
        },
        phases: match phases.unwrap_or(PhasesKind::Random) {
            PhasesKind::Random => Phases::Random,
            PhasesKind::Aligned => Phases::Aligned,
        },
    })
}

fn config_of(tables: &EndpointTables, hosts: u32) -> Result<Config, Absent> {
    let table = &tables.endpoints;
    Ok(Config {
        faults: Vec::new(),
        wiring: None,
        model: LinkModel::Wormhole,
        background: Vec::new(),
        watches_links: false,
        hosts,
        frames: table.frames.get()?,
        image_bytes: table.image.get()?,
        queue_entries: table.queue.get()?,
        policy: table.policy.get()?,
        stall: table.remap.get()?,
        discipline: Discipline {
            messages_max: table.turn_messages.get()?,
            time_max: table.turn.get()?,
        },
        transport: match &tables.transport {
            Some(transport) => Some(transport_of(transport, hosts)?),
            None => None,
        },
        firmware: firmware_of(&tables.interface)?,
        host: host_of(&tables.host)?,
        network: network_of(&tables.network)?,
        seed: 1,
    })
}

fn transport_of(table: &Transport, hosts: u32) -> Result<transport::Config, Absent> {
    Ok(transport::Config {
        peers: hosts,
        channels: table.channels.get()?,
        routes: table.routes.get()?,
        timeout_min: table.timeout_min.get()?,
        timeout_max: table.timeout_max.get()?,
        refusal_delay: table.refusal_delay.get()?,
        doublings_max: table.doublings_max.get()?,
        transmissions_max: table.transmissions_max.get()?,
        unbound_delay: table.unbound_delay.get()?,
        unreachable_after: table.unreachable_after.get()?,
        incarnation_at_first: 0,
    })
}

fn firmware_of(table: &Interface) -> Result<Firmware, Absent> {
    Ok(Firmware {
        clock_hz: table.clock.get()?,
        steps: Steps {
            turn: table.turn.get()?,
            descriptor: table.descriptor.get()?,
            header: table.header.get()?,
            start: table.start.get()?,
            notice: table.notice.get()?,
            word: table.word.get()?,
            endpoint: table.endpoint.get()?,
            queue: table.queue.get()?,
            dma: table.dma.get()?,
            check_out: table.check_out.get()?,
            check_in: table.check_in.get()?,
            name: table.name.get()?,
            channel: table.channel.get()?,
            sequence: table.sequence.get()?,
            stamp: table.stamp.get()?,
            timer: table.timer.get()?,
            end: table.end.get()?,
            recall: table.recall.get()?,
            driver_word: table.driver_word.get()?,
        },
    })
}

fn host_of(table: &HostSide) -> Result<Host, Absent> {
    Ok(Host {
        send: table.send.get()?,
        receive: table.receive.get()?,
        poll_frame: table.poll_frame.get()?,
        poll_host: table.poll_host.get()?,
        copy_bytes_s: bytes_s(&table.copy_rate)?,
        switch: table.switch.get()?,
        fault: table.fault.get()?,
        interrupt: table.interrupt.get()?,
        remap_period: table.remap_period.get()?,
        driver: table.driver.get()?,
        unmap: table.unmap.get()?,
        store: table.store.get()?,
        map: table.map.get()?,
        write_bytes_s: bytes_s(&table.write_rate)?,
        read_bytes_s: bytes_s(&table.read_rate)?,
    })
}

fn network_of(table: &InterfaceNetwork) -> Result<Network, Absent> {
    Ok(Network {
        link_bytes_s: bytes_s(&table.rate)?,
        switch: table.switch.get()?,
        header_bytes: table.header.get()?,
        answer_bytes: table.answer.get()?,
        hosts_a_leaf: table.hosts_a_leaf.get()?,
        receive_buffers: table.receive_buffers.get()?,
        lost_per_million: (table.lost.get()? * 1e6).round() as u32,
    })
}

fn bytes_s(rate: &Setting<Rate>) -> Result<f64, Absent> {
    // A power of two divides a double exactly.
    Ok(rate.get()?.bits_per_second() / 8.0)
}

#[cfg(test)]
mod tests {
    use viaduct_frames::residency::{Policy, Stall};

    use super::*;
    use crate::preset::parse_preset;

    #[test]
    fn the_presets_are_those_of_the_simulation() {
        let load = |model| load_endpoints(model, 25).expect("a built-in preset");
        assert_eq!(load("gam-myrinet"), Config::gam_myrinet(25));
        assert_eq!(load("am-myrinet"), Config::am_myrinet(25, 8));
    }

    fn changed(table: &str, key: &str, value: &str) -> Result<Config, ProgramsError> {
        let text = format!(
            "name = \"mine\"\ninherits = \"am-myrinet\"\n[{table}]\n{key} = {{ value = {value}, \
             source = \"a test\", confidence = \"assumed\" }}\n"
        );
        let preset = parse_preset("mine.toml", &text).map_err(ProgramsError::Wrong)?;
        endpoints_of(&preset, "mine", 2)
    }

    #[test]
    fn a_file_that_inherits_changes_what_it_gives() {
        let mut expected = Config::am_myrinet(2, 8);
        expected.stall = Stall::Thread;
        let found = changed("endpoints", "remap", "\"blocking\"").expect("a preset");
        assert_eq!(found, expected);
        let lost = changed("network", "lost", "\"1.5 %\"").expect("a preset");
        assert_eq!(lost.network.lost_per_million, 15_000);
        let lru = changed("endpoints", "policy", "\"least-recently-used\"").expect("a preset");
        assert_eq!(lru.policy, Policy::LeastRecentlyUsed);
    }

    #[test]
    fn what_cannot_be_simulated_is_refused() {
        for (table, key, value, words) in [
            ("interface", "clock", "\"10 Hz\"", "below 1 kHz"),
            ("interface", "header", "-1", "header"),
            ("transport", "timeout_min", "\"0 s\"", "overdue at once"),
            ("transport", "channels", "33", "channels"),
        ] {
            let error = changed(table, key, value).expect_err("it is refused");
            assert!(error.to_string().contains(words), "{error}");
        }
        let error = load_endpoints("clan-pio", 2).expect_err("it has VIs");
        assert!(error.to_string().contains("no endpoints"), "{error}");
    }
}
