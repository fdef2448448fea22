//! A preset of interfaces with endpoints made into the configuration of simulated ones.

use viaduct_engine::Time;
use viaduct_frames::service::Discipline;
use viaduct_frames::transport;
use viaduct_hardware::Rate;
use viaduct_lanai::{Config, Fault, Firmware, Host, LinkModel, Network, Steps, Wiring};
use viaduct_topology::{HostId, Topology};

use crate::combinations::Refusal;
use crate::preset::{Preset, load_preset};
use crate::programs::{self, Lacking, ProgramsError};
use crate::schema::{Endpoints, HostSide, Interface, InterfaceNetwork, Transport};
use crate::section::{Absent, Setting};
use crate::study::Study;

/// The slowest processor of an interface, in Hz: below, times have no place in 64 bits.
const CLOCK_HZ_MIN: f64 = 1e3;

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
    let config = match config_of(preset, hosts) {
        Ok(config) => config,
        // A preset that loads has every number.
        Err(Lacking(what)) => return refuse(&format!("a number is missing: {what}")),
    };
    if config.firmware.clock_hz < CLOCK_HZ_MIN {
        return refuse("`clock` in [interface] is below 1 kHz");
    }
    let transport = config.transport;
    if transport.is_some_and(|transport| transport.timeout_min == Time::ZERO) {
        return refuse("`timeout_min` in [transport] is 0 s: an answer would be overdue at once");
    }
    Ok(config)
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
    let model = match read.given_sharing() {
        Some(sharing) => LinkModel::Shared(sharing, read.config.links.switching),
        None => LinkModel::Wormhole,
    };
    let of_study = read.config.clone();
    let links = &of_study.links;
    let bytes_s = |rate: Rate| rate.bits_per_second() / 8.0;
    let mut config = Config {
        wiring: Some(Wiring {
            topology: of_study.topology,
            host_bytes_s: bytes_s(links.host_rate),
            switch_bytes_s: bytes_s(links.rate),
            propagation: links.propagation,
            host_propagation: links.host_propagation,
            switch: of_study.switch.delay,
            cut_through_bytes: of_study.switch.cut_through_bytes,
            buffers: links.buffers,
            credits: links.credits,
        }),
        model,
        background: of_study.background,
        ..config
    };
    let joined = config.joined();
    let topology = joined.map_err(|error| refuse(error.to_string()))?;
    // Of all hosts that there are: who takes part may be said later.
    let mut all = Config {
        hosts: topology.host_count(),
        ..config.clone()
    };
    for fault in &of_study.faults {
        let fault = fault_of_endpoints(fault, &all, &topology).map_err(refuse)?;
        all.faults.push(fault);
    }
    all.check_faults()
        .map_err(|error| refuse(format!("[[fault]] {}: {}", error.fault + 1, error.reason)))?;
    config.faults = all.faults;
    Ok(config)
}

/// Leaves out the faults of hosts that take no part.
pub fn keep_faults_of_hosts(config: &mut Config) {
    let hosts = config.hosts;
    let takes_part = |fault: &Fault| fault.host().is_none_or(|host| host < hosts);
    config.faults.retain(takes_part);
}

/// A fault of a study, of hosts whose interfaces have endpoints; `topology` is that which joins
/// those of the configuration.
///
/// # Errors
///
/// Why they do not have it.
pub fn fault_of_endpoints(
    fault: &viaduct_cluster::faults::Fault,
    config: &Config,
    topology: &Topology,
) -> Result<Fault, String> {
    use viaduct_cluster::faults::Fault as OfStudy;

    let place = |host: u32| {
        let place = config.host_at(topology, HostId(host));
        place.ok_or("that host takes no part")
    };
    match *fault {
        OfStudy::LinkDown { links, from, until } => Ok(Fault::LinksDown { links, from, until }),
        OfStudy::HostDies { host, at } => Ok(Fault::Reboot {
            host: place(host)?,
            at,
            down_for: None,
        }),
        // A packet whose checksum is wrong is dropped.
        OfStudy::Loss { links, rate } | OfStudy::Corruption { links, rate } => {
            Ok(Fault::LinksLose { links, rate })
        }
        OfStudy::NicDies { host, at } => Ok(Fault::InterfaceDies {
            host: place(host)?,
            at,
        }),
        OfStudy::SlowHost { host, from, by } => Ok(Fault::SlowHost {
            host: place(host)?,
            from,
            by,
        }),
    }
}

fn config_of(preset: &Preset, hosts: u32) -> Result<Config, Lacking> {
    let table: Endpoints = programs::table(preset)?;
    let transport = preset.section::<Transport>();
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
        transport: match transport {
            Some(transport) => Some(transport_of(&transport, hosts)?),
            None => None,
        },
        firmware: firmware_of(&programs::table(preset)?)?,
        host: host_of(&programs::table(preset)?)?,
        network: network_of(&programs::table(preset)?)?,
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
