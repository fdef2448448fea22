//! A fitted preset as text.

use std::fmt::Write as _;

use viaduct_measure::Test;

use crate::fit::Fit;

impl Fit {
    /// The text of a preset with the fitted numbers, which inherits the base for all others.
    /// `inherits` names the base as the file must, `files` are those that the measurements came
    /// from.
    #[must_use]
    pub fn preset_text(&self, name: &str, inherits: &str, files: &[String]) -> String {
        let files = files.join(" and ");
        let base = &self.preset.name;
        let fabric = self.measured.first().map_or("", |each| &each.fabric);
        let mut text = String::from(
            "# Values: numbers with their units. Confidence: measured, published, derived, \
             fitted, assumed.\n\n",
        );
        let description = format!("{base}, its numbers fitted to a measurement of {fabric}");
        let source = format!("viaduct fit of {files}; what is not here is {base}'s");
        for (key, value) in [
            ("name", name),
            ("inherits", inherits),
            ("description", &description),
            ("source", &source),
        ] {
            let _ = writeln!(text, "{key} = {}", quoted(value));
        }
        let fitted_to = format!("fitted to {files}: {}", self.what_was_used());
        let mut table = "";
        for number in &self.numbers {
            let after = &number.after;
            if after.table != table {
                table = after.table;
                let _ = writeln!(text, "\n[{table}]");
            }
            let mut source = format!("{fitted_to}; a part of {}", number.what);
            if number.is_shared {
                let _ = write!(source, ", in the ratio of {base}'s numbers");
            } else {
                source = format!("{fitted_to}; {}", number.what);
            }
            let _ = writeln!(
                text,
                "{} = {{ value = {}, source = {}, confidence = \"fitted\" }}",
                after.key,
                quoted(&after.value),
                quoted(&source)
            );
        }
        text
    }

    fn what_was_used(&self) -> String {
        let parts = self.measured.iter().map(|each| {
            let used = each.points.iter().filter(|point| !point.is_held_out);
            let sizes: Vec<u32> = used.map(|point| point.bytes).collect();
            let (first, last) = (sizes.first(), sizes.last());
            let test = match each.test {
                Test::Latency => "latency",
                Test::Bandwidth => "bandwidth",
                Test::Rate => "rate",
                Test::Cq => "cq",
            };
            let kind = match (&each.placement, each.is_simulated) {
                (_, true) => ", simulated hosts".to_owned(),
                (Some(placement), _) => format!(", {placement} cores"),
                (None, _) => String::new(),
            };
            format!(
                "{test} of {} sizes from {} to {} bytes over {}{kind}",
                sizes.len(),
                first.unwrap_or(&0),
                last.unwrap_or(&0),
                each.fabric
            )
        });
        parts.collect::<Vec<_>>().join(" and ")
    }
}

/// A text between quotes, as TOML has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            _ if character.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_leave_its_quotes() {
        assert_eq!(quoted("a \"b\" \\c\n"), r#""a \"b\" \\c\u000A""#);
        assert_eq!(quoted("\u{7f}"), r#""\u007F""#);
    }
}
