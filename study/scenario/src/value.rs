//! Values of keys: what kinds there are, how each is read and written.

use viaduct_engine::Time;
use viaduct_hardware::Rate;

use crate::diagnostics::excerpt;
use crate::document::{Node, Raw, quote};
use crate::units::{self, UnitError};

/// What may stand at a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Any text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The name of a built-in preset, or the path of a file.
    Preset,
    /// A path, relative to the file it stands in.
    File,
    /// A span of time.
    Time,
    /// A span of time, or this path of a key whose time it is.
    TimeOr(&'static str),
    /// Bytes, up to a limit.
    Size(u64),
    /// The same, or `unlimited`.
    SizeOrUnlimited(u64),
    /// A finite data rate.
    Rate,
    /// A data rate or `infinite`.
    RateOrInfinite,
    /// Times a second.
    Frequency,
    /// 0 to 1, or in percent.
    Ratio,
    /// A whole number within limits, both included.
    Count(u64, u64),
    /// The same, or `unlimited`.
    CountOrUnlimited(u64, u64),
    /// A number without unit, finite.
    Real,
    /// `true` or `false`.
    Boolean,
    /// A list of whole numbers of at least 1.
    Counts,
    /// A list of pairs of host numbers.
    Pairs,
    /// A list of pairs of a time and a cumulative share.
    TimeTable,
}

/// A value that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Choice(&'static str),
    Time(Time),
    Size(u64),
    Rate(Rate),
    Frequency(f64),
    Ratio(f64),
    Count(u64),
    /// A count that nothing reaches.
    Unlimited,
    Real(f64),
    Boolean(bool),
    Counts(Vec<u32>),
    Pairs(Vec<(u32, u32)>),
    TimeTable(Vec<(Time, f64)>),
}

/// Entries of a list that are read; longer lists belong into a file.
pub const LIST_LENGTH_MAX: usize = 100_000;

impl Kind {
    /// The kind in words, for `viaduct keys`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Choice(choices) => choices.join(" | "),
            Self::Preset => "preset or file".to_owned(),
            Self::File => "file".to_owned(),
            Self::Time => "time".to_owned(),
            Self::TimeOr(path) => format!("time | {path}"),
            Self::Size(_) => "size".to_owned(),
            Self::SizeOrUnlimited(_) => "size | unlimited".to_owned(),
            Self::Rate => "rate".to_owned(),
            Self::RateOrInfinite => "rate | infinite".to_owned(),
            Self::Frequency => "times a second".to_owned(),
            Self::Ratio => "share".to_owned(),
            Self::Count(0, max) if *max >= u64::from(u32::MAX) => "whole number".to_owned(),
            Self::Count(min, max) if *max >= u64::from(u32::MAX) => {
                format!("whole number from {min}")
            }
            Self::Count(min, max) => format!("whole number, {min} to {max}"),
            Self::CountOrUnlimited(min, max) => {
                format!("whole number, {min} to {max} | unlimited")
            }
            Self::Real => "number".to_owned(),
            Self::Boolean => "true | false".to_owned(),
            Self::Counts => "list of whole numbers".to_owned(),
            Self::Pairs => "list of [source, target]".to_owned(),
            Self::TimeTable => "list of [time, cumulative share]".to_owned(),
        }
    }

    /// The unit in which [`Value::number`] gives values of this kind, as the end of a column's
    /// name; none of what is no number.
    pub(crate) fn number_unit(&self) -> Option<&'static str> {
        match self {
            Self::Time | Self::TimeOr(_) => Some("us"),
            Self::Size(_) | Self::SizeOrUnlimited(_) => Some("bytes"),
            Self::Rate | Self::RateOrInfinite => Some("bits_per_s"),
            Self::Frequency => Some("per_s"),
            Self::Ratio => Some("fraction"),
            Self::Count(..) | Self::CountOrUnlimited(..) => Some("count"),
            Self::Real => Some("number"),
            _ => None,
        }
    }

    /// Whether any text is a value, so that `--set` takes what follows `=` as it stands.
    pub(crate) fn is_text(&self) -> bool {
        matches!(
            self,
            Self::Text | Self::Choice(_) | Self::Preset | Self::File
        )
    }

    /// Reads a value; `bare_frequency` also takes a frequency without its `/s`.
    pub(crate) fn read(&self, node: &Node, bare_frequency: bool) -> Result<Value, UnitError> {
        match (self, &node.raw) {
            (Self::Text | Self::Preset | Self::File, Raw::Text(text)) => {
                if text.trim().is_empty() && *self != Self::Text {
                    return Err(problem("nothing is named here"));
                }
                Ok(Value::Text(text.clone()))
            }
            (Self::Choice(choices), Raw::Text(text)) => choice(choices, text),
            (Self::TimeOr(path), Raw::Text(text)) if text.trim() == *path => {
                Ok(Value::Choice(path))
            }
            (Self::Time | Self::TimeOr(_), Raw::Text(text)) => {
                units::parse_time(text).map(Value::Time)
            }
            (Self::CountOrUnlimited(..) | Self::SizeOrUnlimited(_), Raw::Text(text))
                if text.trim() == "unlimited" =>
            {
                Ok(Value::Unlimited)
            }
            (Self::Size(max) | Self::SizeOrUnlimited(max), Raw::Text(text)) => {
                let bytes = units::parse_size(text)?;
                if bytes > *max {
                    let limit = units::format_size(*max);
                    return Err(problem(format!(
                        "more than the most that is taken here, {limit}"
                    )));
                }
                Ok(Value::Size(bytes))
            }
            (Self::Rate | Self::RateOrInfinite, Raw::Text(text)) => {
                if text.trim() == "infinite" {
                    if *self == Self::RateOrInfinite {
                        return Ok(Value::Rate(Rate::INFINITE));
                    }
                    return Err(problem(
                        "the rate of a link is finite: shares of it are worked out",
                    ));
                }
                units::parse_rate(text).map(Value::Rate)
            }
            (Self::Frequency, Raw::Text(text)) => {
                units::parse_frequency(text).map(Value::Frequency)
            }
            (Self::Frequency, Raw::Number(number)) if bare_frequency => {
                units::parse_frequency(&format!("{number}/s")).map(Value::Frequency)
            }
            (Self::Ratio, Raw::Text(text) | Raw::Number(text)) => {
                units::parse_ratio(text).map(Value::Ratio)
            }
            (Self::Count(min, max) | Self::CountOrUnlimited(min, max), Raw::Number(number)) => {
                count(number, *min, *max).map(Value::Count)
            }
            (Self::Count(..) | Self::CountOrUnlimited(..), Raw::Text(text)) => {
                Err(counted_text(text))
            }
            (Self::Real, Raw::Number(number)) => real(number).map(Value::Real),
            (Self::Boolean, Raw::Boolean(boolean)) => Ok(Value::Boolean(*boolean)),
            (Self::Boolean, Raw::Text(text)) if text == "true" || text == "false" => {
                let problem = "true and false stand without quotes".to_owned();
                Err(UnitError {
                    problem,
                    suggestion: Some(text.clone()),
                })
            }
            (Self::Counts, Raw::Array(list)) => counts(list).map(Value::Counts),
            (Self::Pairs, Raw::Array(list)) => pairs(list).map(Value::Pairs),
            (Self::TimeTable, Raw::Array(list)) => time_table(list).map(Value::TimeTable),
            (
                Self::Time
                | Self::TimeOr(_)
                | Self::Size(_)
                | Self::SizeOrUnlimited(_)
                | Self::Rate
                | Self::RateOrInfinite
                | Self::Frequency,
                Raw::Number(number),
            ) => Err(self.unit_missing(number)),
            (_, raw) => Err(problem(format!(
                "this is {}, not {}",
                raw.noun(),
                self.noun()
            ))),
        }
    }

    /// A number stands where a quantity is due.
    fn unit_missing(&self, number: &str) -> UnitError {
        let read = match self {
            Self::Time | Self::TimeOr(_) => units::parse_time(number).err(),
            Self::Size(_) | Self::SizeOrUnlimited(_) => units::parse_size(number).err(),
            Self::Frequency => units::parse_frequency(number).err(),
            _ => units::parse_rate(number).err(),
        };
        read.unwrap_or_else(|| problem("the unit is missing"))
    }

    fn noun(&self) -> String {
        match self {
            Self::Text => "a text in quotes".to_owned(),
            Self::Choice(choices) => format!("one of {}", choices.join(", ")),
            Self::Preset => "the name of a preset in quotes".to_owned(),
            Self::File => "the path of a file in quotes".to_owned(),
            Self::Time | Self::TimeOr(_) => "a time such as \"10 ms\"".to_owned(),
            Self::Size(_) => "a size such as \"32 KiB\"".to_owned(),
            Self::SizeOrUnlimited(_) => "a size such as \"32 KiB\", or \"unlimited\"".to_owned(),
            Self::Rate | Self::RateOrInfinite => "a rate such as \"856 Mbit/s\"".to_owned(),
            Self::Frequency => "how often, such as \"100/s\"".to_owned(),
            Self::Ratio => "a share such as \"12.5 %\"".to_owned(),
            Self::Count(..) => "a whole number".to_owned(),
            Self::CountOrUnlimited(..) => "a whole number, or \"unlimited\"".to_owned(),
            Self::Real => "a number".to_owned(),
            Self::Boolean => "true or false".to_owned(),
            Self::Counts => "a list of whole numbers such as [16, 16]".to_owned(),
            Self::Pairs => "a list of pairs of hosts such as [[0, 1], [1, 0]]".to_owned(),
            Self::TimeTable => {
                "a list such as [[\"1 ms\", \"50 %\"], [\"2 ms\", \"100 %\"]]".to_owned()
            }
        }
    }
}

impl Value {
    /// The value as a number in the unit of its kind.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Time(time) => Some(time.microseconds_f64()),
            Self::Size(bytes) => Some(*bytes as f64),
            Self::Rate(rate) => Some(rate.bits_per_second()),
            Self::Frequency(number) | Self::Ratio(number) | Self::Real(number) => Some(*number),
            Self::Count(count) => Some(*count as f64),
            _ => None,
        }
    }

    /// The value as TOML, so that reading it gives the value again.
    pub(crate) fn to_toml(&self) -> String {
        match self {
            Self::Text(text) => quote(text),
            Self::Count(count) => count.to_string(),
            Self::Real(number) => real_text(*number),
            Self::Boolean(boolean) => boolean.to_string(),
            Self::Counts(counts) => {
                let list: Vec<String> = counts.iter().map(u32::to_string).collect();
                format!("[{}]", list.join(", "))
            }
            Self::Pairs(pairs) => {
                let list: Vec<String> = pairs.iter().map(|(a, b)| format!("[{a}, {b}]")).collect();
                format!("[{}]", list.join(", "))
            }
            Self::TimeTable(points) => {
                let point = |(time, share): &(Time, f64)| {
                    let (time, share) = (units::format_time(*time), units::format_ratio(*share));
                    format!("[\"{time}\", \"{share}\"]")
                };
                let list: Vec<String> = points.iter().map(point).collect();
                format!("[{}]", list.join(", "))
            }
            _ => format!("\"{}\"", self.plain()),
        }
    }

    /// The value as a person writes it, without quotes.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Choice(choice) => (*choice).to_owned(),
            Self::Unlimited => "unlimited".to_owned(),
            Self::Time(time) => units::format_time(*time),
            Self::Size(bytes) => units::format_size(*bytes),
            Self::Rate(rate) => units::format_rate(*rate),
            Self::Frequency(frequency) => units::format_frequency(*frequency),
            Self::Ratio(ratio) => units::format_ratio(*ratio),
            _ => self.to_toml(),
        }
    }
}

fn problem(text: impl Into<String>) -> UnitError {
    UnitError {
        problem: text.into(),
        suggestion: None,
    }
}

fn choice(choices: &'static [&'static str], text: &str) -> Result<Value, UnitError> {
    if let Some(found) = choices.iter().find(|choice| **choice == text.trim()) {
        return Ok(Value::Choice(found));
    }
    let suggestion = crate::diagnostics::nearest(text, choices.iter().copied());
    Err(UnitError {
        problem: format!("not one of {}", choices.join(", ")),
        suggestion: suggestion.map(|choice| format!("\"{choice}\"")),
    })
}

/// A number without underscores, as the standard library reads it.
fn plain_number(number: &str) -> String {
    number.chars().filter(|&c| c != '_' && c != '+').collect()
}

fn count(number: &str, min: u64, max: u64) -> Result<u64, UnitError> {
    let plain = plain_number(number);
    let whole: u64 = match plain.parse() {
        Ok(whole) => whole,
        Err(_) if plain.starts_with('-') && !plain.contains('.') => {
            return Err(problem(format!(
                "a count cannot be negative; the least is {min}"
            )));
        }
        Err(_) if plain.chars().all(|c| c.is_ascii_digit()) => {
            return Err(problem(format!("more than {max}")));
        }
        Err(_) => return Err(problem("not a whole number")),
    };
    if whole < min {
        return Err(problem(format!("must be at least {min}")));
    }
    if whole > max {
        return Err(problem(format!("must be at most {max}")));
    }
    Ok(whole)
}

/// Why a text is no count, and which number it holds.
fn counted_text(text: &str) -> UnitError {
    let number: String = text.trim().chars().filter(|&c| c != ',').collect();
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    match digits.parse::<u64>() {
        Ok(whole) => UnitError {
            problem: "a count has no unit and no quotes".to_owned(),
            suggestion: Some(whole.to_string()),
        },
        Err(_) => problem("not a whole number"),
    }
}

fn real(number: &str) -> Result<f64, UnitError> {
    match plain_number(number).parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(problem("must be finite")),
        Err(_) => Err(problem("not a number")),
    }
}

/// A double as TOML: with a point or an exponent where it is no whole number.
fn real_text(number: f64) -> String {
    if number == number.trunc() && number.abs() < 1e15 {
        return format!("{number:.0}");
    }
    format!("{number:?}")
}

fn checked_length(list: &[Node]) -> Result<(), UnitError> {
    if list.is_empty() {
        return Err(problem("the list is empty"));
    }
    if list.len() > LIST_LENGTH_MAX {
        return Err(problem(format!("more than {LIST_LENGTH_MAX} entries")));
    }
    Ok(())
}

/// The entry of a list that is wrong, in words.
fn entry(index: usize, error: &UnitError) -> UnitError {
    problem(format!("entry {}: {}", index + 1, error.problem))
}

fn small_count(node: &Node, min: u64) -> Result<u32, UnitError> {
    let kind = Kind::Count(min, u64::from(u32::MAX));
    match kind.read(node, false)? {
        Value::Count(whole) => Ok(u32::try_from(whole).unwrap_or(u32::MAX)),
        _ => Err(problem("not a whole number")),
    }
}

fn counts(list: &[Node]) -> Result<Vec<u32>, UnitError> {
    checked_length(list)?;
    let read = |(index, node)| small_count(node, 1).map_err(|error| entry(index, &error));
    list.iter().enumerate().map(read).collect()
}

fn pairs(list: &[Node]) -> Result<Vec<(u32, u32)>, UnitError> {
    checked_length(list)?;
    let pair = |(index, node): (usize, &Node)| match &node.raw {
        Raw::Array(pair) if pair.len() == 2 => {
            let number = |node| small_count(node, 0).map_err(|error| entry(index, &error));
            Ok((number(&pair[0])?, number(&pair[1])?))
        }
        _ => Err(entry(index, &problem("not a pair of hosts such as [0, 1]"))),
    };
    list.iter().enumerate().map(pair).collect()
}

fn time_table(list: &[Node]) -> Result<Vec<(Time, f64)>, UnitError> {
    checked_length(list)?;
    let point = |(index, node): (usize, &Node)| match &node.raw {
        Raw::Array(pair) if pair.len() == 2 => {
            let at = |error| entry(index, &error);
            let time = Kind::Time.read(&pair[0], false).map_err(at)?;
            let share = Kind::Ratio.read(&pair[1], false).map_err(at)?;
            match (time, share) {
                (Value::Time(time), Value::Ratio(share)) => Ok((time, share)),
                _ => Err(at(problem("not a time and a share"))),
            }
        }
        _ => Err(entry(
            index,
            &problem("not a pair such as [\"1 ms\", \"50 %\"]"),
        )),
    };
    list.iter().enumerate().map(point).collect()
}

/// A value as it stands in the file, shortened, for messages.
pub(crate) fn as_written(node: &Node) -> String {
    match &node.raw {
        Raw::Text(text) => format!("\"{}\"", excerpt(text)),
        Raw::Number(number) | Raw::Datetime(number) => excerpt(number),
        Raw::Boolean(boolean) => boolean.to_string(),
        Raw::Array(_) => "[...]".to_owned(),
        Raw::Table(_) => "{...}".to_owned(),
    }
}
