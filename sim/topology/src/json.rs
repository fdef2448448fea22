//! JSON with places: values stay slices of the file, so that each error can point at its own.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{FileError, TopologyError};

/// A name and a value of an object.
pub(crate) struct Member<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) name_span: Range<usize>,
    pub(crate) value: &'a RawValue,
}

/// Where a value stands in the file of which it is a slice.
pub(crate) fn place(source: &str, value: &RawValue) -> Range<usize> {
    let text = value.get();
    let start = (text.as_ptr() as usize).saturating_sub(source.as_ptr() as usize);
    start..start.saturating_add(text.len())
}

/// The one value of a file.
pub(crate) fn root(source: &str) -> Result<&RawValue, TopologyError> {
    serde_json::from_str(source).map_err(|error| syntax(source, source, &error))
}

/// The members of an object, in order; no name occurs twice.
pub(crate) fn members<'a>(
    source: &str,
    value: &'a RawValue,
    shape: &str,
) -> Result<Vec<Member<'a>>, TopologyError> {
    if !value.get().starts_with('{') {
        let span = place(source, value);
        return Err(FileError::new(source, span, "this is not an object", shape).into());
    }
    let mut deserializer = serde_json::Deserializer::from_str(value.get());
    let members = deserializer
        .deserialize_map(Members)
        .map_err(|error| syntax(source, value.get(), &error))?;
    let members: Vec<Member<'a>> = members
        .into_iter()
        .map(|(name, value)| {
            Ok(Member {
                name: text(source, name)?,
                name_span: place(source, name),
                value,
            })
        })
        .collect::<Result<_, TopologyError>>()?;
    let mut sorted: Vec<&Member<'a>> = members.iter().collect();
    // Equal names keep the order of the file.
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0].name == pair[1].name) {
        let problem = "the same name for a second time in an object";
        let span = pair[1].name_span.clone();
        return Err(FileError::new(source, span, problem, "give each name once").into());
    }
    Ok(members)
}

/// The values of a list.
pub(crate) fn list<'a>(
    source: &str,
    value: &'a RawValue,
    shape: &str,
) -> Result<Vec<&'a RawValue>, TopologyError> {
    if !value.get().starts_with('[') {
        let span = place(source, value);
        return Err(FileError::new(source, span, "this is not a list", shape).into());
    }
    serde_json::from_str(value.get()).map_err(|error| syntax(source, value.get(), &error))
}

/// A string without its quotes; a number or a word as it stands.
pub(crate) fn text<'a>(source: &str, value: &'a RawValue) -> Result<Cow<'a, str>, TopologyError> {
    let json = value.get();
    if json.starts_with('"') {
        return serde_json::from_str::<Text<'a>>(json)
            .map(|text| text.0)
            .map_err(|error| syntax(source, json, &error));
    }
    if json.starts_with(['{', '[']) {
        let span = place(source, value);
        let help = "write text or a number";
        return Err(FileError::new(source, span, "this is not a single value", help).into());
    }
    Ok(Cow::Borrowed(json))
}

/// A string that stays a slice of the file where it has no escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// An error of the JSON reader in `part`, a slice of `source`.
fn syntax(source: &str, part: &str, error: &serde_json::Error) -> TopologyError {
    let line_start = part
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum::<usize>();
    let before = (part.as_ptr() as usize).saturating_sub(source.as_ptr() as usize);
    let start = before + line_start + error.column().saturating_sub(1);
    let text = error.to_string();
    // The reader's own place counts from the part, ours from the file.
    let reason = text.split(" at line ").next().unwrap_or(&text).to_owned();
    let end = if start < source.len() {
        start + 1
    } else {
        start
    };
    let problem = format!("this is not JSON: {reason}");
    FileError::new(
        source,
        start..end,
        problem,
        "correct the file, or write it by a program",
    )
    .into()
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(&'de RawValue, &'de RawValue)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}
