//! Rates and times with their units, as the attributes of links in a file give them.
//!
//! The limits keep every value writable: the shortest decimal of a rate in bits a second has 17
//! digits at most, a time in picoseconds too, and both are read again to the same value.

/// Digits that a number may have; more cannot be told apart anyway.
const DIGITS_MAX: usize = 18;

/// Lowest rate of a link, bits a second.
const RATE_BITS_MIN: f64 = 1.0;
/// Highest rate of a link, bits a second.
const RATE_BITS_MAX: f64 = 1e15;
/// Longest latency of a link, picoseconds: a day.
const TIME_PICOSECONDS_MAX: u64 = 86_400_000_000_000_000;

/// Units of a rate and what they are in bits a second.
const RATES: &[(&str, u64)] = &[
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("Tbit/s", 1_000_000_000_000),
    ("B/s", 8),
    ("kB/s", 8_000),
    ("MB/s", 8_000_000),
    ("GB/s", 8_000_000_000),
    ("KiB/s", 8 << 10),
    ("MiB/s", 8 << 20),
    ("GiB/s", 8 << 30),
];

/// Units of a time and what they are in picoseconds.
const TIMES: &[(&str, u64)] = &[
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
];

/// What is wrong with a quantity, and what to write instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct QuantityError {
    pub(crate) problem: String,
    pub(crate) help: String,
}

/// A decimal number: digits and how many of them follow the point.
struct Decimal {
    digits: u64,
    fraction_digits: u32,
}

/// Bits a second of text like `856 Mbit/s`, to the nearest; from [`RATE_BITS_MIN`] to
/// [`RATE_BITS_MAX`].
pub(crate) fn parse_rate(text: &str) -> Result<f64, QuantityError> {
    let help = "write a number and a unit, for example \"856 Mbit/s\" or \"1.25 GB/s\"";
    let (number, unit) = split(text, "a rate", help)?;
    let Some(&(_, factor)) = RATES.iter().find(|(name, _)| *name == unit) else {
        let units: Vec<&str> = RATES.iter().map(|(name, _)| *name).collect();
        return Err(unknown_unit(unit, "rate", &units));
    };
    if number.digits == 0 {
        return Err(QuantityError {
            problem: "a rate of 0 would never end a message".to_owned(),
            help: "leave the link out, or give it a rate above 0".to_owned(),
        });
    }
    let bits = u128::from(number.digits) * u128::from(factor);
    // The standard library reads decimals correctly rounded.
    let rate = format!("{bits}e-{}", number.fraction_digits)
        .parse()
        .unwrap_or(f64::INFINITY);
    if !(RATE_BITS_MIN..=RATE_BITS_MAX).contains(&rate) {
        let side = if rate < RATE_BITS_MIN { "low" } else { "high" };
        return Err(QuantityError {
            problem: format!("the rate is too {side}"),
            help: "write a rate from 1 bit/s to 1000 Tbit/s".to_owned(),
        });
    }
    Ok(rate)
}

/// Picoseconds of text like `0.5 us`, to the nearest; at most [`TIME_PICOSECONDS_MAX`].
pub(crate) fn parse_time(text: &str) -> Result<u64, QuantityError> {
    let help = "write a number and a unit, for example \"0.5 us\" or \"120 ns\"";
    let (number, unit) = split(text, "a time", help)?;
    let Some(&(_, factor)) = TIMES.iter().find(|(name, _)| *name == unit) else {
        let units: Vec<&str> = TIMES.iter().map(|(name, _)| *name).collect();
        return Err(unknown_unit(unit, "time", &units));
    };
    let power = 10u128.pow(number.fraction_digits);
    let picoseconds = (u128::from(number.digits) * u128::from(factor) + power / 2) / power;
    match u64::try_from(picoseconds) {
        Ok(picoseconds) if picoseconds <= TIME_PICOSECONDS_MAX => Ok(picoseconds),
        _ => Err(QuantityError {
            problem: "the time is too long".to_owned(),
            help: "write a time up to 86400 s, which is a day".to_owned(),
        }),
    }
}

fn unknown_unit(unit: &str, what: &str, units: &[&str]) -> QuantityError {
    QuantityError {
        problem: format!("`{}` is no unit of a {what}", crate::error::shortened(unit)),
        help: format!("write one of {}", units.join(", ")),
    }
}

/// Splits text into its number and its unit.
fn split<'a>(text: &'a str, what: &str, help: &str) -> Result<(Decimal, &'a str), QuantityError> {
    let error = |problem: String| QuantityError {
        problem,
        help: help.to_owned(),
    };
    let text = text.trim();
    let end = text
        .find(|character: char| !(character.is_ascii_digit() || character == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(error(format!(
            "{what} begins with a decimal number, this does not"
        )));
    }
    let fraction = fraction.trim_end_matches('0');
    let whole = whole.trim_start_matches('0');
    if whole.len() + fraction.len() > DIGITS_MAX {
        return Err(error(format!(
            "the number has more than {DIGITS_MAX} digits"
        )));
    }
    if unit.is_empty() {
        return Err(error(format!("{what} without a unit could mean anything")));
    }
    let digits = whole
        .bytes()
        .chain(fraction.bytes())
        .fold(0, |value: u64, digit| value * 10 + u64::from(digit - b'0'));
    Ok((
        Decimal {
            digits,
            fraction_digits: fraction.len() as u32,
        },
        unit,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_in_bits_a_second() {
        assert_eq!(parse_rate("856 Mbit/s"), Ok(856e6));
        assert_eq!(parse_rate("  1.25Gbit/s "), Ok(1.25e9));
        assert_eq!(parse_rate("133 MB/s"), Ok(1.064e9));
        assert_eq!(parse_rate("1 MiB/s"), Ok(8_388_608.0));
        assert_eq!(parse_rate("000.500 kbit/s"), Ok(500.0));
        // Rounded once: over 2^53 digits and power would be rounded before the division.
        assert_eq!(
            parse_rate("1234567.89012345678 bit/s"),
            Ok(1_234_567.890_123_456_8)
        );
    }

    #[test]
    fn rates_and_times_end_at_their_limits() {
        let problem = |text: &str| parse_rate(text).unwrap_err().problem;
        assert_eq!(parse_rate("1 bit/s"), Ok(1.0));
        assert_eq!(parse_rate("0.125 B/s"), Ok(1.0));
        assert_eq!(problem("0.99 bit/s"), "the rate is too low");
        assert_eq!(parse_rate("1000 Tbit/s"), Ok(1e15));
        assert_eq!(problem("1000.1 Tbit/s"), "the rate is too high");
        assert_eq!(problem("999999999999999999 GiB/s"), "the rate is too high");
        assert_eq!(problem("8429496729.656 Gbit/s"), "the rate is too high");
        assert_eq!(parse_time("86400 s"), Ok(TIME_PICOSECONDS_MAX));
        assert_eq!(
            parse_time("86400.000000000001 s").unwrap_err().problem,
            "the time is too long"
        );
    }

    #[test]
    fn times_are_in_picoseconds_to_the_nearest() {
        assert_eq!(parse_time("0.5 us"), Ok(500_000));
        assert_eq!(parse_time("0 s"), Ok(0));
        assert_eq!(parse_time("1.4999 ps"), Ok(1));
        assert_eq!(parse_time("1.5 ps"), Ok(2));
        assert!(parse_time("999999999999999999 s").is_err());
    }

    #[test]
    fn plain_numbers_and_foreign_units_are_explained() {
        let problem = |text: &str| parse_rate(text).unwrap_err().problem;
        assert_eq!(problem("100"), "a rate without a unit could mean anything");
        assert_eq!(
            problem("fast"),
            "a rate begins with a decimal number, this does not"
        );
        assert_eq!(
            problem("-1 bit/s"),
            "a rate begins with a decimal number, this does not"
        );
        assert_eq!(
            problem("1.2.3 bit/s"),
            "a rate begins with a decimal number, this does not"
        );
        assert_eq!(problem("1e9 bit/s"), "`e9 bit/s` is no unit of a rate");
        assert_eq!(problem("10 Mbps"), "`Mbps` is no unit of a rate");
        assert_eq!(
            problem("0.0 Mbit/s"),
            "a rate of 0 would never end a message"
        );
        assert_eq!(
            problem("1234567890123456789 bit/s"),
            "the number has more than 18 digits"
        );
        assert_eq!(
            problem(""),
            "a rate begins with a decimal number, this does not"
        );
        assert_eq!(
            parse_time("5 hours").unwrap_err().help,
            "write one of ps, ns, us, ms, s"
        );
    }
}
