//! How numbers are written for people.

/// Four significant digits or so, with thousands separated: `0.412`, `33.20`, `381.2`, `12,345`.
#[must_use]
pub fn quantity(value: f64) -> String {
    with_decimals(value, decimals(value))
}

/// Decimals that [`quantity`] shows for `value`.
pub(crate) fn decimals(value: f64) -> usize {
    match value.abs() {
        magnitude if magnitude >= 9_999.5 => 0,
        magnitude if magnitude >= 99.995 => 1,
        magnitude if magnitude >= 9.9995 => 2,
        _ => 3,
    }
}

/// `value` with that many decimals and thousands separated.
pub(crate) fn with_decimals(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let text = format!("{value:.decimals$}");
    let (sign, digits) = text
        .strip_prefix('-')
        .map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", separate(whole))
}

/// A count with thousands separated: `870,412`.
#[must_use]
pub fn count(value: u64) -> String {
    separate(&value.to_string())
}

/// A text that begins with a number, as `13078.548 us`, with the thousands of that separated.
#[must_use]
pub fn thousands(text: &str) -> String {
    let end = text.find(|it: char| !it.is_ascii_digit());
    let (whole, rest) = text.split_at(end.unwrap_or(text.len()));
    separate(whole) + rest
}

fn separate(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A large count in a unit that leaves three digits or so: `941`, `12.3 k`, `17.2 M`, `144.7 M`.
#[must_use]
pub fn scaled_count(value: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, " G"), (1e6, " M"), (1e3, " k")];
    for (size, unit) in UNITS {
        if value >= 0.99995 * size {
            return format!("{:.1}{unit}", value / size);
        }
    }
    format!("{value:.0}")
}

/// A fraction as per cent, without the sign: `12.25`.
#[must_use]
pub fn percent(fraction: f64) -> String {
    let value = fraction * 100.0;
    match value.abs() {
        0.0 => "0".to_owned(),
        small if small < 0.1 => format!("{value:.4}"),
        _ => format!("{value:.2}"),
    }
}

/// A relative difference: `+0.4 %`.
pub(crate) fn difference(ours: f64, published: f64) -> String {
    if published == 0.0 || !ours.is_finite() {
        return "-".to_owned();
    }
    format!("{:+.1} %", (ours / published - 1.0) * 100.0)
}

/// A wall-clock time: `41 ms`, `0.93 s`, `2 min 5 s`, `3 h 55 min`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if seconds < 0.0995 {
        return format!("{:.0} ms", seconds * 1e3);
    }
    if seconds < 9.995 {
        return format!("{seconds:.2} s");
    }
    if seconds < 99.95 {
        return format!("{seconds:.1} s");
    }
    let whole = (seconds + 0.5) as u64;
    match (whole / 3600, whole % 3600 / 60, whole % 60) {
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) if hours < 100 => format!("{hours} h {minutes} min"),
        (hours, ..) => format!("{} days", hours / 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_keep_their_digits() {
        let shown = [
            0.0,
            0.4124,
            9.9996,
            27.8,
            99.996,
            654.04,
            9_999.6,
            1_234_567.8,
        ]
        .map(quantity)
        .join(" ");
        assert_eq!(
            shown,
            "0.000 0.412 10.00 27.80 100.0 654.0 10,000 1,234,568"
        );
        assert_eq!(quantity(-1234.5), "-1,234.5");
        assert_eq!(quantity(f64::NAN), "-");
    }

    #[test]
    fn counts_are_separated_by_thousands() {
        assert_eq!(
            [0, 999, 1000, 870_412, 144_712_326].map(count).join(" "),
            "0 999 1,000 870,412 144,712,326"
        );
        assert_eq!(
            [0.0, 941.0, 999.96, 12_345.0, 17.2e6, 144_712_326.0]
                .map(scaled_count)
                .join(" "),
            "0 941 1.0 k 12.3 k 17.2 M 144.7 M"
        );
        assert_eq!(
            ["13078.548 us", "612.5369 us", "1048576 B", "0 s", "-"]
                .map(thousands)
                .join(" "),
            "13,078.548 us 612.5369 us 1,048,576 B 0 s -"
        );
    }

    #[test]
    fn wall_clock_reads_as_a_person_says_it() {
        assert_eq!(
            [0.0412, 0.93, 9.5, 38.24, 125.0, 14_100.0, 864_000.0]
                .map(duration)
                .join(", "),
            "41 ms, 0.93 s, 9.50 s, 38.2 s, 2 min 5 s, 3 h 55 min, 10 days"
        );
    }

    #[test]
    fn a_difference_is_relative_to_the_published_figure() {
        assert_eq!(difference(12.25, 12.2), "+0.4 %");
        assert_eq!(difference(26.0, 27.8), "-6.5 %");
        assert_eq!(difference(1.0, 0.0), "-");
    }
}
