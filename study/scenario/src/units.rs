//! Quantities with written units, read exactly and written so that they read back the same.
//!
//! A number is kept as decimal digits until its unit is known, so `"0.1 us"` is 100,000 ps and not
//! something near it. What is written is the shortest text that gives the same value again.

use viaduct_engine::Time;
use viaduct_hardware::Rate;

/// Longest span of time, seconds: about 100 days, below half of what [`Time`] holds.
pub const TIME_SECONDS_MAX: u64 = 9_000_000;
/// Largest size, bytes: 2^50.
pub const SIZE_BYTES_MAX: u64 = 1 << 50;
/// Largest finite rate, bits a second: 1,000 Tbit/s.
pub const RATE_BITS_MAX: f64 = 1e15;
/// Smallest rate above zero, bits a second.
pub const RATE_BITS_MIN: f64 = 1.0;
/// Largest frequency, a second: ten a nanosecond, beyond what any program or processor does.
pub const FREQUENCY_MAX: f64 = 1e10;

/// Why a text is not a quantity.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnitError {
    /// What is wrong, to stand beside the text.
    pub problem: String,
    /// What to write instead, quotes and all.
    pub suggestion: Option<String>,
}

impl UnitError {
    fn new(problem: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            suggestion: None,
        }
    }

    fn suggest(problem: impl Into<String>, suggestion: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            suggestion: Some(suggestion.into()),
        }
    }
}

/// A non-negative decimal number as written: `digits * 10^exponent`.
#[derive(Clone, Copy, Debug)]
struct Decimal {
    digits: u128,
    exponent: i32,
}

/// Most digits of a number; more are surely a slip, and would not fit the exact arithmetic.
const DIGITS_MAX: usize = 25;
/// Largest power of ten in an exponent.
const EXPONENT_MAX: i32 = 30;

impl Decimal {
    /// The value to the nearest double.
    fn to_f64(self) -> f64 {
        // The standard library's reading of decimals is correctly rounded.
        format!("{}e{}", self.digits, self.exponent)
            .parse()
            .unwrap_or(f64::INFINITY)
    }

    /// `self * factor * 10^exponent`, rounded to the nearest whole; none if it does not fit.
    /// The second value says whether the result is exact.
    fn scaled(self, factor: u128, exponent: i32) -> Option<(u64, bool)> {
        let product = self.digits.checked_mul(factor)?;
        let exponent = self.exponent + exponent;
        if product == 0 {
            return Some((0, true));
        }
        let power = 10_u128.checked_pow(exponent.unsigned_abs());
        if exponent >= 0 {
            let whole = product.checked_mul(power?)?;
            return Some((u64::try_from(whole).ok()?, true));
        }
        let Some(power) = power else {
            return Some((0, false));
        };
        let whole = product / power + u128::from(product % power >= power - power / 2);
        Some((u64::try_from(whole).ok()?, product % power == 0))
    }
}

/// Splits `"856 Mbit/s"` into number and unit.
fn split(text: &str, what: &str, example: &str) -> Result<(Decimal, String), UnitError> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(UnitError::suggest(
            format!("{what} is missing here"),
            quoted(example),
        ));
    }
    if let Some(rest) = trimmed.strip_prefix('-') {
        let problem = format!("{what} cannot be negative");
        return Err(UnitError::suggest(problem, quoted(rest.trim())));
    }
    let trimmed = trimmed.strip_prefix('+').unwrap_or(trimmed);
    let lower = trimmed.to_ascii_lowercase();
    if lower.starts_with("nan") {
        return Err(UnitError::new("not a number"));
    }
    if lower.starts_with("inf") {
        return Err(UnitError::new(format!("{what} must be finite here")));
    }
    let number_end = number_length(trimmed);
    let (number, unit) = trimmed.split_at(number_end);
    if number.is_empty() {
        let problem = format!("{what} begins with a number, such as {}", quoted(example));
        return Err(UnitError::new(problem));
    }
    if unit.starts_with(',') {
        let joined: String = trimmed.chars().filter(|&c| c != ',').collect();
        let problem = "thousands are not separated by commas, and decimals have a point";
        return Err(UnitError::suggest(problem, quoted(&joined)));
    }
    let decimal = decimal(number)?;
    let unit = unit.trim_start().replace(['\u{b5}', '\u{3bc}'], "u");
    Ok((decimal, unit))
}

/// Bytes of a text that belong to its leading number: digits, `_`, a point, an exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 0;
    while end < bytes.len() && (bytes[end].is_ascii_digit() || matches!(bytes[end], b'.' | b'_')) {
        end += 1;
    }
    if end > 0 && end < bytes.len() && matches!(bytes[end], b'e' | b'E') {
        let mut tail = end + 1;
        if tail < bytes.len() && matches!(bytes[tail], b'+' | b'-') {
            tail += 1;
        }
        let digits_start = tail;
        while tail < bytes.len() && bytes[tail].is_ascii_digit() {
            tail += 1;
        }
        if tail > digits_start {
            end = tail;
        }
    }
    end
}

fn decimal(number: &str) -> Result<Decimal, UnitError> {
    let (mantissa, power) = match number.split_once(['e', 'E']) {
        Some((mantissa, power)) => (mantissa, power.parse::<i32>().unwrap_or(i32::MAX)),
        None => (number, 0),
    };
    if power.unsigned_abs() > EXPONENT_MAX.unsigned_abs() {
        let problem = format!("powers of ten beyond {EXPONENT_MAX} have no use here");
        return Err(UnitError::new(problem));
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let plain = |part: &str| part.chars().filter(|&c| c != '_').collect::<String>();
    let (whole, fraction) = (plain(whole), plain(fraction));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err(UnitError::new("not a number"));
    }
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.len() > DIGITS_MAX {
        let problem = format!("more than {DIGITS_MAX} digits have no use here");
        return Err(UnitError::new(problem));
    }
    let digits = if digits.is_empty() { "0" } else { digits };
    let digits = digits.parse().map_err(|_| UnitError::new("not a number"))?;
    let fraction_digits = i32::try_from(fraction.len()).unwrap_or(i32::MAX / 2);
    Ok(Decimal {
        digits,
        exponent: power - fraction_digits,
    })
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// The number of a text, as written, for suggestions.
fn number_of(text: &str) -> &str {
    let trimmed = text.trim();
    trimmed[..number_length(trimmed)].trim()
}

const TIME_UNITS: [(&str, u128, i32); 7] = [
    ("ps", 1, 0),
    ("ns", 1, 3),
    ("us", 1, 6),
    ("ms", 1, 9),
    ("s", 1, 12),
    ("min", 6, 13),
    ("h", 36, 14),
];

/// Reads a span of time, to the nearest picosecond.
///
/// # Errors
///
/// When it is no number, has no unit or a wrong one, or is beyond [`TIME_SECONDS_MAX`].
pub fn parse_time(text: &str) -> Result<Time, UnitError> {
    let (number, unit) = split(text, "a time", "10 ms")?;
    let written = number_of(text);
    if unit.is_empty() {
        let problem = "a time needs its unit: ps, ns, us, ms or s";
        return Err(UnitError::suggest(problem, format!("\"{written} ms\"")));
    }
    let Some(&(_, factor, exponent)) = TIME_UNITS.iter().find(|entry| entry.0 == unit) else {
        let meant = match unit.to_ascii_lowercase().as_str() {
            "sec" | "secs" | "second" | "seconds" => "s",
            "msec" | "millisecond" | "milliseconds" => "ms",
            "usec" | "microsecond" | "microseconds" => "us",
            "nsec" | "nanosecond" | "nanoseconds" => "ns",
            "m" | "minute" | "minutes" | "mins" => "min",
            "hour" | "hours" | "hr" => "h",
            lower => TIME_UNITS
                .iter()
                .map(|entry| entry.0)
                .find(|&u| u == lower)
                .unwrap_or(""),
        };
        let problem = format!("`{unit}` is no unit of time: ps, ns, us, ms, s, min or h");
        return Err(if meant.is_empty() {
            UnitError::new(problem)
        } else {
            UnitError::suggest(problem, format!("\"{written} {meant}\""))
        });
    };
    let too_long = || UnitError::new(format!("longer than {TIME_SECONDS_MAX} s"));
    let (picoseconds, _) = number.scaled(factor, exponent).ok_or_else(too_long)?;
    if picoseconds > TIME_SECONDS_MAX * 1_000_000_000_000 {
        return Err(too_long());
    }
    if picoseconds == 0 && number.digits != 0 {
        return Err(UnitError::new(
            "shorter than the simulator's clock resolves, 1 ps",
        ));
    }
    Ok(Time::from_picoseconds(picoseconds))
}

const SIZE_UNITS: [(&str, u128); 13] = [
    ("B", 1),
    ("Byte", 1),
    ("byte", 1),
    ("bytes", 1),
    ("KB", 1_000),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Reads a size in bytes.
///
/// # Errors
///
/// When it is no number, has no unit or a wrong one, is no whole number of bytes, or is beyond
/// [`SIZE_BYTES_MAX`].
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text, "a size", "32 KiB")?;
    let written = number_of(text);
    if unit.is_empty() {
        let problem = "a size needs its unit: B, kB, MB, KiB or MiB";
        return Err(UnitError::suggest(problem, format!("\"{written} B\"")));
    }
    let Some(&(_, factor)) = SIZE_UNITS.iter().find(|entry| entry.0 == unit) else {
        let lower = unit.to_ascii_lowercase();
        if lower.contains("bit") || (unit.ends_with('b') && unit != "b") {
            let is_binary = lower.get(1..3) == Some("ib");
            let meant = match (lower.trim_end_matches(['b', 'i', 't', 's']), is_binary) {
                ("k", true) => "KiB",
                ("k", false) => "kB",
                ("m", true) => "MiB",
                ("m", false) => "MB",
                ("g", true) => "GiB",
                ("g", false) => "GB",
                _ => "B",
            };
            let problem = format!("`{unit}` counts bits; sizes are in bytes");
            return Err(UnitError::suggest(
                problem,
                format!("\"{written} {meant}\""),
            ));
        }
        let meant = match lower.as_str() {
            "k" => Some("KiB"),
            "m" => Some("MiB"),
            "g" => Some("GiB"),
            lower => SIZE_UNITS
                .iter()
                .map(|e| e.0)
                .find(|u| u.eq_ignore_ascii_case(lower)),
        };
        let problem = format!("`{unit}` is no unit of size: B, kB, MB, GB, KiB, MiB or GiB");
        return Err(match meant {
            Some(meant) => UnitError::suggest(problem, format!("\"{written} {meant}\"")),
            None => UnitError::new(problem),
        });
    };
    let too_large = || UnitError::new(format!("more than {SIZE_BYTES_MAX} B"));
    let (bytes, exact) = number.scaled(factor, 0).ok_or_else(too_large)?;
    if bytes > SIZE_BYTES_MAX {
        return Err(too_large());
    }
    if !exact {
        let problem = "not a whole number of bytes";
        return Err(UnitError::suggest(problem, format!("\"{bytes} B\"")));
    }
    Ok(bytes)
}

/// Rates: name, bits per unit as `factor * 10^exponent`.
const RATE_UNITS: [(&str, u32, i32); 16] = [
    ("bit/s", 1, 0),
    ("kbit/s", 1, 3),
    ("Mbit/s", 1, 6),
    ("Gbit/s", 1, 9),
    ("Tbit/s", 1, 12),
    ("B/s", 8, 0),
    ("kB/s", 8, 3),
    ("MB/s", 8, 6),
    ("GB/s", 8, 9),
    ("TB/s", 8, 12),
    ("Byte/s", 8, 0),
    ("kByte/s", 8, 3),
    ("MByte/s", 8, 6),
    ("GByte/s", 8, 9),
    ("MiB/s", 8 << 20, 0),
    ("GiB/s", 8 << 30, 0),
];

/// Reads a data rate.
///
/// # Errors
///
/// When it is no number, has no unit, an unknown one or one that may mean bits or bytes, or is
/// outside [`RATE_BITS_MIN`] to [`RATE_BITS_MAX`].
pub fn parse_rate(text: &str) -> Result<Rate, UnitError> {
    let (number, unit) = split(text, "a rate", "856 Mbit/s")?;
    let written = number_of(text);
    if unit.is_empty() {
        let problem = "a rate needs its unit: Mbit/s, Gbit/s, MB/s or GB/s";
        return Err(UnitError::suggest(problem, format!("\"{written} Mbit/s\"")));
    }
    let Some(&(_, factor, exponent)) = RATE_UNITS.iter().find(|entry| entry.0 == unit) else {
        return Err(unknown_rate_unit(written, &unit));
    };
    // A power of two, 1 or a byte's bits, multiplies a double exactly.
    let shifted = Decimal {
        exponent: number.exponent + exponent,
        ..number
    };
    let bits = shifted.to_f64() * f64::from(factor);
    if bits == 0.0 {
        return Err(UnitError::new("nothing ever crosses at a rate of zero"));
    }
    if bits < RATE_BITS_MIN {
        return Err(UnitError::new("less than 1 bit/s"));
    }
    if bits > RATE_BITS_MAX {
        return Err(UnitError::new("more than 1000 Tbit/s"));
    }
    Ok(Rate::from_bits_per_second(bits))
}

fn unknown_rate_unit(written: &str, unit: &str) -> UnitError {
    let lower = unit.to_ascii_lowercase();
    let stem = ["ps", "/s", "/sec", "/second"]
        .iter()
        .find_map(|end| lower.strip_suffix(end));
    let Some(stem) = stem else {
        let problem = format!("`{unit}` is no unit of a rate: a second is missing");
        let meant = RATE_UNITS.iter().map(|entry| entry.0).find(|name| {
            name.strip_suffix("/s")
                .is_some_and(|name| name.eq_ignore_ascii_case(unit))
        });
        return match meant {
            Some(meant) => UnitError::suggest(problem, format!("\"{written} {meant}\"")),
            None => UnitError::new(format!(
                "`{unit}` is no unit of a rate: Mbit/s, Gbit/s, MB/s or GB/s"
            )),
        };
    };
    let prefix = match stem.chars().next() {
        Some('k') => "k",
        Some('m') => "M",
        Some('g') => "G",
        Some('t') => "T",
        _ => "",
    };
    match &stem[prefix.len().min(stem.len())..] {
        // `Mb/s`, `Gbps`: whoever writes it means one, whoever reads it takes the other.
        "b" => UnitError {
            problem: format!("`{unit}` may mean bits or bytes"),
            suggestion: Some(format!(
                "\"{written} {prefix}bit/s\" or \"{written} {prefix}B/s\""
            )),
        },
        "bit" | "bits" => UnitError::suggest(
            format!("`{unit}` is no unit of a rate"),
            format!("\"{written} {prefix}bit/s\""),
        ),
        "byte" | "bytes" => UnitError::suggest(
            format!("`{unit}` is no unit of a rate"),
            format!("\"{written} {prefix}B/s\""),
        ),
        _ => {
            let problem = format!("`{unit}` is no unit of a rate: Mbit/s, Gbit/s, MB/s or GB/s");
            UnitError::new(problem)
        }
    }
}

/// Reads a number of times a second: `"100/s"`, also `"2 kHz"`.
///
/// # Errors
///
/// When it is no number, has no unit, is zero, or is beyond [`FREQUENCY_MAX`].
pub fn parse_frequency(text: &str) -> Result<f64, UnitError> {
    let (number, unit) = split(text, "a number per second", "100/s")?;
    let written = number_of(text);
    let exponent = match unit.as_str() {
        "/s" | "Hz" => 0,
        "kHz" | "k/s" => 3,
        "MHz" | "M/s" => 6,
        "" => {
            let problem = "how often needs its unit: /s";
            return Err(UnitError::suggest(problem, format!("\"{written}/s\"")));
        }
        _ => {
            let problem = format!("`{unit}` is no unit of how often: /s, k/s, M/s");
            return Err(UnitError::suggest(problem, format!("\"{written}/s\"")));
        }
    };
    let value = Decimal {
        exponent: number.exponent + exponent,
        ..number
    }
    .to_f64();
    if value == 0.0 {
        return Err(UnitError::new("at a rate of zero nothing is ever sent"));
    }
    if value > FREQUENCY_MAX {
        return Err(UnitError::new(
            "more than 10^10 a second, which no program does; a link's rate is in bit/s",
        ));
    }
    Ok(value)
}

/// Reads a share: `"12.5 %"`, or a plain number from 0 to 1.
///
/// # Errors
///
/// When it is no number, has a wrong unit, or is outside 0 to 1.
pub fn parse_ratio(text: &str) -> Result<f64, UnitError> {
    let (number, unit) = split(text, "a share", "12.5 %")?;
    let written = number_of(text);
    let exponent = match unit.as_str() {
        "" => 0,
        "%" => -2,
        _ => {
            let problem = format!("`{unit}` is no unit of a share: %");
            return Err(UnitError::suggest(problem, format!("\"{written} %\"")));
        }
    };
    let value = Decimal {
        exponent: number.exponent + exponent,
        ..number
    }
    .to_f64();
    if value > 1.0 {
        let problem = "a share is at most 1, or 100 %";
        return Err(if unit.is_empty() && value <= 100.0 {
            UnitError::suggest(problem, format!("\"{written} %\""))
        } else {
            UnitError::new(problem)
        });
    }
    Ok(value)
}

/// Writes a time in the largest unit of which it is a multiple of a thousandth.
#[must_use]
pub fn format_time(time: Time) -> String {
    let picoseconds = time.picoseconds();
    if picoseconds == 0 {
        return "0 s".to_owned();
    }
    let mut chosen = (1, "ps");
    for (size, unit) in [
        (1_000, "ns"),
        (1_000_000, "us"),
        (1_000_000_000, "ms"),
        (1_000_000_000_000_u64, "s"),
    ] {
        if picoseconds >= size && picoseconds.is_multiple_of(size / 1_000) {
            chosen = (size, unit);
        }
    }
    let (size, unit) = chosen;
    let (whole, part) = (picoseconds / size, picoseconds % size);
    if part == 0 {
        return format!("{whole} {unit}");
    }
    let fraction = format!("{:03}", part / (size / 1_000));
    format!("{whole}.{} {unit}", fraction.trim_end_matches('0'))
}

/// Writes a size in the largest binary unit that leaves a whole number.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    for (size, unit) in [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= size && bytes.is_multiple_of(size) {
            return format!("{} {unit}", bytes / size);
        }
    }
    format!("{bytes} B")
}

/// A rate with three digits, for messages.
pub(crate) fn rough_rate(bits_per_second: f64) -> String {
    let units = [
        (1e12, "Tbit/s"),
        (1e9, "Gbit/s"),
        (1e6, "Mbit/s"),
        (1e3, "kbit/s"),
    ];
    let found = units.iter().find(|(size, _)| bits_per_second >= *size);
    let (size, unit) = found.copied().unwrap_or((1.0, "bit/s"));
    let value = bits_per_second / size;
    let decimals = if value >= 100.0 {
        0
    } else {
        usize::from(value < 10.0) + 1
    };
    format!("{value:.decimals$} {unit}")
}

/// Writes a rate in bits, as briefly as it reads back the same; `infinite` if it is.
#[must_use]
pub fn format_rate(rate: Rate) -> String {
    let bits = rate.bits_per_second();
    if bits.is_infinite() {
        return "infinite".to_owned();
    }
    per_second(bits, "bit/s")
}

/// Writes bytes a second as briefly as they read back the same.
pub(crate) fn format_rate_in_bytes(bytes: f64) -> String {
    per_second(bytes, "B/s")
}

fn per_second(count: f64, unit: &str) -> String {
    let (exponent, prefix) = match count {
        c if c >= 1e12 => (12, "T"),
        c if c >= 1e9 => (9, "G"),
        c if c >= 1e6 => (6, "M"),
        c if c >= 1e3 => (3, "k"),
        _ => (0, ""),
    };
    format!("{} {prefix}{unit}", shifted(count, exponent))
}

/// Writes a number of times a second.
#[must_use]
pub fn format_frequency(frequency: f64) -> String {
    format!("{}/s", shifted(frequency, 0))
}

/// Writes a share in percent.
#[must_use]
pub fn format_ratio(ratio: f64) -> String {
    format!("{} %", shifted(ratio, -2))
}

/// The shortest decimals of `value / 10^exponent` that give `value` again when the power is put
/// back: the point is moved in the text, so that no division rounds.
fn shifted(value: f64, exponent: i32) -> String {
    let scientific = format!("{value:e}");
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    // The point stands after this many digits.
    let point = 1 + power - exponent;
    if point <= 0 {
        let zeros = "0".repeat(point.unsigned_abs() as usize);
        let text = format!("0.{zeros}{digits}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let point = point as usize;
    if digits.len() <= point {
        return format!("{digits}{}", "0".repeat(point - digits.len()));
    }
    format!("{}.{}", &digits[..point], &digits[point..])
}
