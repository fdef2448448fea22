//! Faults as people write them.

use std::error;
use std::fmt;

use viaduct_core::verbs::faults::{Breakage, Chance, Faults, Period};

/// What is wrong with a fault, and what to write instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FaultError {
    /// The fault as it was written.
    pub fault: String,
    /// What is wrong with it.
    pub wrong: String,
    /// What to write instead.
    pub instead: String,
}

impl fmt::Display for FaultError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            fault,
            wrong,
            instead,
        } = self;
        write!(formatter, "fault `{fault}`: {wrong}; {instead}")
    }
}

impl error::Error for FaultError {}

/// Between faults in one text.
const SEPARATOR: char = ';';

/// Every fault: its name, an example, and what it does.
const KNOWN: [(&str, &str, &str); 5] = [
    (
        "loss",
        "loss=0.001,seed=7",
        "one of a thousand requests is lost",
    ),
    (
        "rnr",
        "rnr=0.01,seed=7",
        "one of a hundred requests is told that the receiver is not ready",
    ),
    ("slow", "slow=50us", "each request begins so much later"),
    (
        "port-down",
        "port-down=2s..3s",
        "the port is down, counted from the first opening of a device",
    ),
    (
        "qp-error",
        "qp-error=after:1000",
        "the queue pair that begins the next request after so many breaks; every:1000 repeats it",
    ),
];

/// Reads faults with semicolons between them.
///
/// # Errors
///
/// The first that is unknown, has a wrong value, or is given twice.
pub fn parse_faults(text: &str) -> Result<Faults, FaultError> {
    let mut faults = Faults::default();
    let all = text.split(SEPARATOR).map(str::trim);
    for fault in all.filter(|fault| !fault.is_empty()) {
        add(&mut faults, fault).map_err(|(wrong, instead)| FaultError {
            fault: fault.to_owned(),
            wrong,
            instead,
        })?;
    }
    Ok(faults)
}

/// What is wrong, and what to write instead.
type Wrong = (String, String);

fn add(faults: &mut Faults, fault: &str) -> Result<(), Wrong> {
    let (name, value) = fault.split_once('=').unwrap_or((fault, ""));
    let (name, value) = (name.trim(), value.trim());
    let Some((_, example, _)) = KNOWN.iter().find(|(known, ..)| *known == name) else {
        let known = KNOWN.map(|(_, example, what)| format!("\n  {example}: {what}"));
        return Err((
            format!("there is no fault `{name}`"),
            format!("write one of these:{}", known.concat()),
        ));
    };
    let wrong = |wrong: String, instead: &str| (wrong, format!("{instead}, as in {example}"));
    if value.is_empty() {
        return Err(wrong("it has no value".to_owned(), "write one"));
    }
    let is_new = match name {
        "loss" => faults.loss.replace(chance(value, &wrong)?).is_none(),
        "rnr" => faults.not_ready.replace(chance(value, &wrong)?).is_none(),
        "slow" => {
            let delay = duration(value).map_err(|text| no_duration(&text, &wrong))?;
            faults.delay_nanoseconds.replace(delay).is_none()
        }
        "port-down" => {
            let period = period(value, &wrong)?;
            faults.port_down.push(period);
            true
        }
        _ => faults.breakage.replace(breakage(value, &wrong)?).is_none(),
    };
    if is_new {
        Ok(())
    } else {
        let twice = format!("`{name}` is given twice");
        Err((twice, "give it once".to_owned()))
    }
}

fn chance(value: &str, wrong: &impl Fn(String, &str) -> Wrong) -> Result<Chance, Wrong> {
    let (probability, rest) = match value.split_once(',') {
        Some((probability, rest)) => (probability.trim(), Some(rest.trim())),
        None => (value, None),
    };
    let seed = match rest.map(|rest| (rest, rest.split_once('='))) {
        None => 0,
        Some((_, Some((name, seed)))) if name.trim() == "seed" => {
            seed.trim().parse().map_err(|_| {
                let text = format!("the seed `{}` is no whole number", seed.trim());
                wrong(text, "write one from 0 to 18446744073709551615")
            })?
        }
        Some((rest, _)) => {
            let text = format!("`{rest}` is not known behind the comma");
            return Err(wrong(text, "only a seed may follow"));
        }
    };
    let number = probability.parse().ok();
    number
        .and_then(|number| Chance::new(number, seed))
        .ok_or_else(|| {
            let text = format!("`{probability}` is no probability");
            wrong(text, "write a number from 0 to 1")
        })
}

fn no_duration(text: &str, wrong: &impl Fn(String, &str) -> Wrong) -> Wrong {
    let text = format!("`{text}` is no time");
    wrong(text, "write a number with its unit, ns, us, ms or s")
}

/// A number and a unit, in nanoseconds; the text itself if it is none.
fn duration(text: &str) -> Result<u64, String> {
    const MONTH: f64 = 2.6e15;
    let text = text.trim();
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let found = units.iter().find_map(|(unit, nanoseconds)| {
        let number = text.strip_suffix(unit)?.trim_end().parse::<f64>().ok()?;
        Some(number * nanoseconds)
    });
    match found {
        Some(time) if (0.0..=MONTH).contains(&time) => Ok(time.round() as u64),
        _ => Err(text.to_owned()),
    }
}

fn period(value: &str, wrong: &impl Fn(String, &str) -> Wrong) -> Result<Period, Wrong> {
    let Some((start, end)) = value.split_once("..") else {
        let text = format!("`{value}` is no period");
        return Err(wrong(text, "write two times with two dots between them"));
    };
    let [start, end] = [start, end].map(duration);
    let start = start.map_err(|text| no_duration(&text, wrong))?;
    let end = end.map_err(|text| no_duration(&text, wrong))?;
    if start >= end {
        let text = format!("`{value}` ends before it has begun");
        return Err(wrong(text, "write the earlier time first"));
    }
    Ok(Period { start, end })
}

fn breakage(value: &str, wrong: &impl Fn(String, &str) -> Wrong) -> Result<Breakage, Wrong> {
    let found = value.split_once(':').and_then(|(word, count)| {
        let count = count.trim().parse().ok()?;
        match (word.trim(), count) {
            ("after", count) => Some(Breakage::After(count)),
            ("every", 1..) => Some(Breakage::Every(count)),
            _ => None,
        }
    });
    found.ok_or_else(|| {
        let text = format!("`{value}` says not when");
        wrong(
            text,
            "write `after:` or `every:` and a number of requests, of `every` 1 at least",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_read() {
        let all = KNOWN.map(|(_, example, _)| example).join(";");
        let expected = Faults {
            loss: Chance::new(0.001, 7),
            not_ready: Chance::new(0.01, 7),
            delay_nanoseconds: Some(50_000),
            port_down: vec![Period {
                start: 2_000_000_000,
                end: 3_000_000_000,
            }],
            breakage: Some(Breakage::After(1000)),
        };
        assert_eq!(parse_faults(&all), Ok(expected));
        assert!(parse_faults("").unwrap().is_none());
        let two = parse_faults("port-down=0s..1 ms; port-down = 2.5ms..4ms").unwrap();
        let periods = [(0, 1_000_000), (2_500_000, 4_000_000)];
        assert_eq!(
            two.port_down,
            periods.map(|(start, end)| Period { start, end })
        );
        let every = parse_faults("qp-error=every:5").unwrap();
        assert_eq!(every.breakage, Some(Breakage::Every(5)));
    }

    #[test]
    fn what_is_wrong_is_told_with_what_to_write_instead() {
        let told = |text| {
            let error = parse_faults(text).unwrap_err();
            format!("{}: {}; {}", error.fault, error.wrong, error.instead)
        };
        let unknown = told("loss=0.5; lose=1");
        assert!(
            unknown.starts_with("lose=1: there is no fault `lose`; write one of these:"),
            "{unknown}"
        );
        for (name, example, _) in KNOWN {
            assert!(unknown.contains(example), "{unknown}");
            assert!(told(name).contains("it has no value; write one, as in"));
        }
        for (text, expected) in [
            (
                "loss=2",
                "loss=2: `2` is no probability; write a number from 0 to 1, as in loss=0.001,seed=7",
            ),
            (
                "rnr=0.1,sed=7",
                "rnr=0.1,sed=7: `sed=7` is not known behind the comma; only a seed may follow, as \
                 in rnr=0.01,seed=7",
            ),
            (
                "loss=0.1,seed=x",
                "loss=0.1,seed=x: the seed `x` is no whole number; write one from 0 to \
                 18446744073709551615, as in loss=0.001,seed=7",
            ),
            (
                "slow=50",
                "slow=50: `50` is no time; write a number with its unit, ns, us, ms or s, as in \
                 slow=50us",
            ),
            (
                "slow=-1s",
                "slow=-1s: `-1s` is no time; write a number with its unit, ns, us, ms or s, as in \
                 slow=50us",
            ),
            (
                "port-down=2s",
                "port-down=2s: `2s` is no period; write two times with two dots between them, as \
                 in port-down=2s..3s",
            ),
            (
                "port-down=3s..2s",
                "port-down=3s..2s: `3s..2s` ends before it has begun; write the earlier time \
                 first, as in port-down=2s..3s",
            ),
            (
                "qp-error=every:0",
                "qp-error=every:0: `every:0` says not when; write `after:` or `every:` and a \
                 number of requests, of `every` 1 at least, as in qp-error=after:1000",
            ),
            (
                "slow=1s;slow=2s",
                "slow=2s: `slow` is given twice; give it once",
            ),
        ] {
            assert_eq!(told(text), expected);
        }
    }
}
