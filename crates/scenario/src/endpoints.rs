//! A preset of interfaces with endpoints made into the configuration of simulated ones.

use viaduct_engine::Time;
use viaduct_interface::residency::{Policy, Stall};
use viaduct_interface::service::Discipline;
use viaduct_interface::transport;
use viaduct_lanai::{Config, Firmware, Host, Network, Steps};

use crate::preset::{ENDPOINTS, Preset, load_preset};
use crate::programs::{Numbers, ProgramsError};
use crate::value::Value;

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
pub fn load_endpoints(model: &str, hosts: u16) -> Result<Config, ProgramsError> {
    let preset = load_preset(model).map_err(ProgramsError::Wrong)?;
    endpoints_of(&preset, model, hosts)
}

/// The same for a preset that is loaded; `model` is its name in messages.
///
/// # Errors
///
/// [`ProgramsError`].
pub fn endpoints_of(preset: &Preset, model: &str, hosts: u16) -> Result<Config, ProgramsError> {
    if !preset.has_endpoints() {
        let model = model.to_owned();
        return Err(ProgramsError::NoEndpoints { model });
    }
    let numbers = Numbers(preset);
    let refuse = |reason: &str| {
        let reason = format!("the preset {model}: {reason}");
        Err(ProgramsError::NoNetwork { reason })
    };
    // A preset that loads has every number.
    let Some(config) = config_of(&numbers, hosts) else {
        return refuse("a number is missing");
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

fn config_of(numbers: &Numbers<'_>, hosts: u16) -> Option<Config> {
    let table = ENDPOINTS;
    Some(Config {
        faults: Vec::new(),
        hosts,
        frames: short(numbers, table, "frames")?,
        image_bytes: numbers.count(table, "image")?,
        queue_entries: numbers.count(table, "queue")?,
        policy: match numbers.choice(table, "policy")? {
            "least-recently-used" => Policy::LeastRecentlyUsed,
            "clock" => Policy::Clock,
            _ => Policy::Random,
        },
        stall: match numbers.choice(table, "remap")? {
            "blocking" => Stall::Thread,
            _ => Stall::Nobody,
        },
        discipline: Discipline {
            messages_max: numbers.count(table, "turn_messages")?,
            time_max: numbers.time(table, "turn")?,
        },
        transport: match numbers.value("transport", "channels") {
            Some(_) => Some(transport_of(numbers, hosts)?),
            None => None,
        },
        firmware: firmware_of(numbers)?,
        host: host_of(numbers)?,
        network: network_of(numbers)?,
        seed: 1,
    })
}

fn transport_of(numbers: &Numbers<'_>, hosts: u16) -> Option<transport::Config> {
    let table = "transport";
    Some(transport::Config {
        peers: hosts,
        channels: byte(numbers, table, "channels")?,
        routes: byte(numbers, table, "routes")?,
        timeout_min: numbers.time(table, "timeout_min")?,
        timeout_max: numbers.time(table, "timeout_max")?,
        refusal_delay: numbers.time(table, "refusal_delay")?,
        doublings_max: byte(numbers, table, "doublings_max")?,
        transmissions_max: byte(numbers, table, "transmissions_max")?,
        unbound_delay: numbers.time(table, "unbound_delay")?,
        unreachable_after: numbers.time(table, "unreachable_after")?,
    })
}

fn firmware_of(numbers: &Numbers<'_>) -> Option<Firmware> {
    let table = "interface";
    let Value::Frequency(clock_hz) = *numbers.value(table, "clock")? else {
        return None;
    };
    let cycles = |key| numbers.count(table, key);
    Some(Firmware {
        clock_hz,
        steps: Steps {
            turn: cycles("turn")?,
            descriptor: cycles("descriptor")?,
            header: cycles("header")?,
            start: cycles("start")?,
            notice: cycles("notice")?,
            word: cycles("word")?,
            endpoint: cycles("endpoint")?,
            queue: cycles("queue")?,
            dma: cycles("dma")?,
            check_out: cycles("check_out")?,
            check_in: cycles("check_in")?,
            name: cycles("name")?,
            channel: cycles("channel")?,
            sequence: cycles("sequence")?,
            stamp: cycles("stamp")?,
            timer: cycles("timer")?,
            end: cycles("end")?,
            recall: cycles("recall")?,
            driver_word: cycles("driver_word")?,
        },
    })
}

fn host_of(numbers: &Numbers<'_>) -> Option<Host> {
    let table = "host";
    Some(Host {
        send: numbers.time(table, "send")?,
        receive: numbers.time(table, "receive")?,
        poll_frame: numbers.time(table, "poll_frame")?,
        poll_host: numbers.time(table, "poll_host")?,
        copy_bytes_s: bytes_s(numbers, table, "copy_rate")?,
        switch: numbers.time(table, "switch")?,
        fault: numbers.time(table, "fault")?,
        interrupt: numbers.time(table, "interrupt")?,
        remap_period: numbers.time(table, "remap_period")?,
        driver: numbers.time(table, "driver")?,
        unmap: numbers.time(table, "unmap")?,
        store: numbers.time(table, "store")?,
        map: numbers.time(table, "map")?,
        write_bytes_s: bytes_s(numbers, table, "write_rate")?,
        read_bytes_s: bytes_s(numbers, table, "read_rate")?,
    })
}

fn network_of(numbers: &Numbers<'_>) -> Option<Network> {
    let table = "network";
    let Value::Ratio(lost) = *numbers.value(table, "lost")? else {
        return None;
    };
    Some(Network {
        link_bytes_s: bytes_s(numbers, table, "rate")?,
        switch: numbers.time(table, "switch")?,
        header_bytes: numbers.count(table, "header")?,
        answer_bytes: numbers.count(table, "answer")?,
        hosts_a_leaf: short(numbers, table, "hosts_a_leaf")?,
        receive_buffers: short(numbers, table, "receive_buffers")?,
        lost_per_million: (lost * 1e6).round() as u32,
    })
}

fn bytes_s(numbers: &Numbers<'_>, table: &str, key: &str) -> Option<f64> {
    // A power of two divides a double exactly.
    Some(numbers.rate(table, key)?.bits_per_second() / 8.0)
}

fn short(numbers: &Numbers<'_>, table: &str, key: &str) -> Option<u16> {
    u16::try_from(numbers.count(table, key)?).ok()
}

fn byte(numbers: &Numbers<'_>, table: &str, key: &str) -> Option<u8> {
    u8::try_from(numbers.count(table, key)?).ok()
}

#[cfg(test)]
mod tests {
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
