//! Rates and times with their units, as the attributes of links in a file give them.

/// Digits that a number may have; more cannot be told apart anyway.
const DIGITS_MAX: usize = 18;

/// Units of a rate and what they are in bits a second.
const RATES: &[(&str, f64)] = &[
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
    ("Tbit/s", 1e12),
    ("B/s", 8.0),
    ("kB/s", 8e3),
    ("MB/s", 8e6),
    ("GB/s", 8e9),
    ("KiB/s", 8.0 * 1024.0),
    ("MiB/s", 8.0 * 1_048_576.0),
    ("GiB/s", 8.0 * 1_073_741_824.0),
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

/// Bits a second of text like `856 Mbit/s`; always above 0.
pub(crate) fn parse_rate(text: &str) -> Result<f64, QuantityError> {
    let help = "write a number and a unit, for example \"856 Mbit/s\" or \"1.25 GB/s\"";
    let (number, unit) = split(text, "a rate", help)?;
    let Some(&(_, factor)) = RATES.iter().find(|(name, _)| *name == unit) else {
        let units: Vec<&str> = RATES.iter().map(|(name, _)| *name).collect();
        return Err(unknown_unit(unit, "rate", &units));
    };
    let power = 10u64.pow(number.fraction_digits) as f64;
    let rate = number.digits as f64 * factor / power;
    if number.digits == 0 {
        return Err(QuantityError {
            problem: "a rate of 0 would never end a message".to_owned(),
            help: "leave the link out, or give it a rate above 0".to_owned(),
        });
    }
    Ok(rate)
}

/// Picoseconds of text like `0.5 us`, to the nearest.
pub(crate) fn parse_time(text: &str) -> Result<u64, QuantityError> {
    let help = "write a number and a unit, for example \"0.5 us\" or \"120 ns\"";
    let (number, unit) = split(text, "a time", help)?;
    let Some(&(_, factor)) = TIMES.iter().find(|(name, _)| *name == unit) else {
        let units: Vec<&str> = TIMES.iter().map(|(name, _)| *name).collect();
        return Err(unknown_unit(unit, "time", &units));
    };
    let power = 10u128.pow(number.fraction_digits);
    let picoseconds = (u128::from(number.digits) * u128::from(factor) + power / 2) / power;
    // Half of the numbers are kept free, so that sums along a path have room.
    match u64::try_from(picoseconds) {
        Ok(picoseconds) if picoseconds <= u64::MAX / 2 => Ok(picoseconds),
        _ => Err(QuantityError {
            problem: "the time is too long".to_owned(),
            help: "write a time below 100 days".to_owned(),
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
        assert_eq!(parse_rate("000.500 bit/s"), Ok(0.5));
    }

    #[test]
    fn times_are_in_picoseconds_to_the_nearest() {
        assert_eq!(parse_time("0.5 us"), Ok(500_000));
        assert_eq!(parse_time("0 s"), Ok(0));
        assert_eq!(parse_time("1.4999 ps"), Ok(1));
        assert_eq!(parse_time("1.5 ps"), Ok(2));
        assert_eq!(parse_time("9000000 s"), Ok(9_000_000_000_000_000_000));
        assert_eq!(
            parse_time("9300000 s").unwrap_err().problem,
            "the time is too long"
        );
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
