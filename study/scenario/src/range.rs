//! Ranges of a sweep: `1..100:10`, `64 B..512 B:64 B`.

/// A decimal number: digits, how many of them follow the point, and the unit behind.
#[derive(Clone, Copy, Debug)]
struct Decimal<'a> {
    digits: i128,
    decimals: u32,
    unit: &'a str,
}

/// Most digits of a number, so that no sum of two overflows.
const DIGITS_MAX: usize = 18;

/// Whether a value is written as a range.
pub(crate) fn is_range(text: &str) -> bool {
    text.trim()
        .starts_with(|c: char| c.is_ascii_digit() || c == '-')
        && text.contains("..")
}

/// The values of a range, as they would be written; none if the text is no range.
///
/// From the first on by steps of the third, as long as they are not beyond the second. Without a
/// step it is 1. Sums are exact: `0.1..0.5:0.1` has five values. The unit stands at all three
/// numbers, or at the last alone.
pub(crate) fn expand(text: &str, values_max: usize) -> Result<Option<Vec<String>>, String> {
    let text = text.trim();
    if !is_range(text) {
        return Ok(None);
    }
    let Some((from, rest)) = text.split_once("..") else {
        return Ok(None);
    };
    let (to, step) = match rest.split_once(':') {
        Some((to, step)) => (to, Some(step)),
        None => (rest, None),
    };
    let (from, to) = (decimal(from)?, decimal(to)?);
    let unit = [from.unit, to.unit]
        .into_iter()
        .find(|unit| !unit.is_empty());
    let one = Decimal {
        digits: 1,
        decimals: 0,
        unit: "",
    };
    let step = step.map_or(Ok(one), decimal)?;
    let unit = unit.unwrap_or(step.unit);
    let has_other = |number: Decimal<'_>| !number.unit.is_empty() && number.unit != unit;
    if [from, to, step].into_iter().any(has_other) {
        return Err("the numbers of a range have one unit".to_owned());
    }
    let decimals = from.decimals.max(to.decimals).max(step.decimals);
    let scaled = |number: Decimal<'_>| number.digits * 10_i128.pow(decimals - number.decimals);
    let (first, last, step) = (scaled(from), scaled(to), scaled(step));
    if step <= 0 {
        return Err("the step of a range is above zero".to_owned());
    }
    if last < first {
        return Err("a range ends before it begins".to_owned());
    }
    let count = (last - first) / step + 1;
    if count > values_max as i128 {
        return Err(format!("a range of more than {values_max} values"));
    }
    let values = (0..count).map(|index| written(first + index * step, decimals, unit));
    Ok(Some(values.collect()))
}

fn decimal(text: &str) -> Result<Decimal<'_>, String> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+' | '_'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let plain: String = number.chars().filter(|&c| c != '_').collect();
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let wrong = || format!("`{text}` is no number of a range");
    let has_digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !has_digits || whole.len() + fraction.len() > DIGITS_MAX {
        return Err(wrong());
    }
    Ok(Decimal {
        digits: format!("{whole}{fraction}").parse().map_err(|_| wrong())?,
        decimals: fraction.len() as u32,
        unit: unit.trim(),
    })
}

fn written(value: i128, decimals: u32, unit: &str) -> String {
    let scale = 10_i128.pow(decimals);
    let sign = if value < 0 { "-" } else { "" };
    let (whole, fraction) = (value.abs() / scale, value.abs() % scale);
    let mut text = format!("{sign}{whole}");
    if fraction > 0 {
        let digits = format!("{fraction:0width$}", width = decimals as usize);
        text = format!("{text}.{}", digits.trim_end_matches('0'));
    }
    match unit {
        "" => text,
        unit if unit.starts_with(['/', '%']) => text + unit,
        unit => format!("{text} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> String {
        match expand(text, 1000) {
            Ok(Some(values)) => values.join(","),
            Ok(None) => "no range".to_owned(),
            Err(problem) => problem,
        }
    }

    #[test]
    fn a_range_has_its_steps_up_to_its_end() {
        assert_eq!(values("1..100:30"), "1,31,61,91");
        assert_eq!(values(" 0.1..0.5:0.1"), "0.1,0.2,0.3,0.4,0.5");
        assert_eq!(values("-1..1"), "-1,0,1");
        assert_eq!(values("64 B..192 B:64 B"), "64 B,128 B,192 B");
        assert_eq!(values("100..300:100/s"), "100/s,200/s,300/s");
        assert_eq!(values("5..5:1"), "5");
    }

    #[test]
    fn what_is_no_range_is_left_alone_or_said_to_be_wrong() {
        assert_eq!(values("../a.graphml"), "no range");
        assert_eq!(values("64 B"), "no range");
        assert_eq!(values("1..2:0"), "the step of a range is above zero");
        assert_eq!(values("2..1:1"), "a range ends before it begins");
        assert_eq!(
            values("1 B..2 KiB:1 B"),
            "the numbers of a range have one unit"
        );
        assert_eq!(values("1..1001:1"), "a range of more than 1000 values");
        assert_eq!(values("1..x"), "`x` is no number of a range");
        assert_eq!(
            values("1..99999999999999999999"),
            "`99999999999999999999` is no number of a range"
        );
    }
}
