//! The stream of Protocol Buffers: a varint of a length before each message.
//!
//! Numbers of fields are those of Chakra's `et_def.proto`; what does not count here is skipped.

use std::io::{BufRead, Read};

use prost::{Message, Oneof};

use super::nodes::{Node, Reader};
use super::{ChakraError, NodeName, RankFile, unreadable};

/// Longest message, bytes: what claims to be longer is no trace.
const MESSAGE_BYTES_MAX: u64 = 256 << 20;

/// What a file begins with: nothing of it is needed.
#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(bytes = "vec", tag = "1")]
    version: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(bytes = "vec", tag = "2")]
    name: Vec<u8>,
    #[prost(uint64, tag = "3")]
    kind: u64,
    #[prost(uint64, repeated, tag = "5")]
    data_deps: Vec<u64>,
    #[prost(uint64, tag = "7")]
    duration_micros: u64,
    #[prost(message, optional, tag = "8")]
    inputs: Option<Values>,
    #[prost(message, repeated, tag = "10")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Values {
    #[prost(bytes = "vec", tag = "1")]
    values: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(
        oneof = "Value",
        tags = "3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 28, 29"
    )]
    value: Option<Value>,
}

/// Writers differ in which kind of number they take for an attribute: all are read.
#[derive(Clone, PartialEq, Oneof)]
enum Value {
    #[prost(double, tag = "3")]
    Double(f64),
    #[prost(float, tag = "5")]
    Float(f32),
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(message, tag = "28")]
    Bools(Bools),
    #[prost(bytes, tag = "29")]
    Text(Vec<u8>),
}

#[derive(Clone, PartialEq, Message)]
struct Bools {
    #[prost(bool, repeated, tag = "1")]
    values: Vec<bool>,
}

impl Value {
    fn number(&self) -> Option<i128> {
        Some(match *self {
            Self::Int32(it) | Self::Sint32(it) | Self::Sfixed32(it) => it.into(),
            Self::Int64(it) | Self::Sint64(it) | Self::Sfixed64(it) => it.into(),
            Self::Uint32(it) | Self::Fixed32(it) => it.into(),
            Self::Uint64(it) | Self::Fixed64(it) => it.into(),
            Self::Bool(it) => it.into(),
            Self::Double(_) | Self::Float(_) | Self::Bools(_) | Self::Text(_) => return None,
        })
    }

    fn count(&self) -> Result<u64, String> {
        match self.number() {
            None => Err("no whole number".to_owned()),
            Some(number) => u64::try_from(number).map_err(|_| format!("{number}, and counts")),
        }
    }
}

pub(super) fn read(source: &mut dyn BufRead) -> Result<RankFile, ChakraError> {
    let mut reader = Reader::default();
    let mut message = Vec::new();
    for number in 0_u64.. {
        let Some(length) = length(source, number)? else {
            break;
        };
        message.clear();
        let mut limited = (&mut *source).take(length);
        let read = limited.read_to_end(&mut message);
        read.map_err(|error| unreadable(&error))?;
        if (message.len() as u64) < length {
            let (what, there) = match number {
                0 => (
                    "its metadata: no Chakra trace, or a cut one".to_owned(),
                    message.len(),
                ),
                _ => (format!("message {number}"), message.len()),
            };
            return Err(ChakraError::new(format!(
                "the file ends in {what}: {length} bytes are expected, {there} are there"
            )));
        }
        if number > 0 {
            reader.add(node(&message, number)?)?;
            continue;
        }
        Metadata::decode(&*message).map_err(|error| {
            ChakraError::new(format!(
                "no Chakra trace: its first message is no metadata ({error})"
            ))
        })?;
    }
    Ok(reader.finish())
}

/// The length of the next message; none at the end of the file.
fn length(source: &mut dyn BufRead, number: u64) -> Result<Option<u64>, ChakraError> {
    let mut length = 0_u64;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        let read = source.read(&mut byte).map_err(|error| unreadable(&error))?;
        if read == 0 {
            return match shift {
                0 => Ok(None),
                _ => Err(ChakraError::new(format!(
                    "the file ends in the length of message {number}"
                ))),
            };
        }
        length |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] < 0x80 {
            if length > MESSAGE_BYTES_MAX {
                break;
            }
            return Ok(Some(length));
        }
    }
    Err(ChakraError::new(format!(
        "message {number} is longer than {MESSAGE_BYTES_MAX} B: no Chakra trace, or one whose \
         middle is missing"
    )))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn node(message: &[u8], number: u64) -> Result<Node, ChakraError> {
    let record = Record::decode(message)
        .map_err(|error| ChakraError::new(format!("message {number} is no node: {error}")))?;
    let mut node = Node {
        id: record.id,
        name: text(record.name),
        kind: record.kind,
        needs: record.data_deps,
        microseconds: record.duration_micros,
        values: record
            .inputs
            .map(|inputs| text(inputs.values))
            .unwrap_or_default(),
        ..Node::default()
    };
    for attribute in record.attributes {
        let Some(value) = attribute.value else {
            continue;
        };
        let name = text(attribute.name);
        let set = set(&mut node, &name, value);
        set.map_err(|problem| {
            let named = NodeName(node.id, &node.name);
            ChakraError::new(format!("{named}: its `{name}` is {problem}"))
        })?;
    }
    Ok(node)
}

fn set(node: &mut Node, name: &str, value: Value) -> Result<(), String> {
    match name {
        "is_cpu_op" => node.is_cpu_op = value.count()? != 0,
        "num_ops" => node.num_ops = value.count()?,
        "comm_type" => node.comm_type = Some(value.count()?),
        "comm_size" => node.comm_size = Some(value.count()?),
        "comm_src" => node.source = Some(value.count()?),
        "comm_dst" => node.target = Some(value.count()?),
        "comm_tag" => node.tag = Some(value.count()?),
        "pg_name" => {
            node.group = match value {
                Value::Text(name) => Some(text(name)),
                number => Some(number.count()?.to_string()),
            }
            .filter(|name| !name.is_empty());
        }
        "involved_dim" => {
            if let Value::Bools(involved) = value {
                node.is_partial = involved.values.contains(&false);
            }
        }
        _ => {}
    }
    Ok(())
}
