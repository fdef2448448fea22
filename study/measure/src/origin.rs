//! Where and when a measurement was made, and by what.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Where and when a measurement was made, and by what; what is not known is left out.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Origin {
    /// The machine's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Its processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// When it was begun, in UTC: `2026-11-23T08:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Version of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// At which level the network between simulated hosts was computed: a value of `links.model`,
    /// or `held` where packets hold their whole ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_level: Option<String>,
}

impl Origin {
    /// This machine, now.
    #[must_use]
    pub fn here(version: &str) -> Self {
        let word = |path: &str| {
            let text = fs::read_to_string(path).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let information = word("/proc/cpuinfo").unwrap_or_default();
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            machine: word("/proc/sys/kernel/hostname"),
            processor: processor(&information),
            date: since.ok().map(|since| date(since.as_secs())),
            version: Some(version.to_owned()),
            network_level: None,
        }
    }

    /// Hosts simulated on a network of a level: which machine simulates them, and when, changes
    /// nothing.
    #[must_use]
    pub fn simulated(version: &str, network_level: &str) -> Self {
        Self {
            version: Some(version.to_owned()),
            network_level: Some(network_level.to_owned()),
            ..Self::default()
        }
    }
}

/// The processor's name, of what the system says of it.
fn processor(information: &str) -> Option<String> {
    let line = |key: &str| {
        let mut pairs = information.lines().filter_map(|line| line.split_once(':'));
        let (_, name) = pairs.find(|(name, _)| name.trim() == key)?;
        Some(name.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    // Not every architecture has a name there.
    line("model name").or_else(|| line("CPU part").map(|part| format!("CPU part {part}")))
}

/// Seconds since 1970 as a date and time of day, by the Gregorian calendar.
fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin with March here, so that the day that is leapt ends one.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = match month {
        0..=9 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    let year = year + 400 * era + later;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, wanted) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date(seconds), wanted);
        }
    }

    #[test]
    fn a_processor_is_named_as_the_system_names_it() {
        let text = "processor\t: 0\nmodel name\t: A  Processor @ 3 GHz\nmodel\t\t: 1\n";
        assert_eq!(processor(text).as_deref(), Some("A Processor @ 3 GHz"));
        let other = "processor : 0\nCPU part : 0xd0c\n";
        assert_eq!(processor(other).as_deref(), Some("CPU part 0xd0c"));
        assert_eq!(processor(""), None);
    }
}
