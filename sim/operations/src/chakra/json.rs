//! The JSON form of a rank's file, as Chakra's feeder reads it.
//!
//! A study that is written out carries its traces so. `process_groups` beside the nodes is ours.

use std::io::{self, BufRead, Read, Write};

use serde_json::{Map, Value, json};

use super::nodes::{Node, Reader};
use super::ranks::groups_of;
use super::{ChakraError, NodeName, RankFile, unreadable};
use crate::collective::Collective;
use crate::trace::{HOST, Work};

/// Longest file, bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;

pub(super) fn read(source: &mut dyn BufRead) -> Result<RankFile, ChakraError> {
    let mut bytes = Vec::new();
    let mut limited = source.take(FILE_BYTES_MAX + 1);
    let read = limited.read_to_end(&mut bytes);
    read.map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ChakraError::new(format!(
            "a trace in JSON has at most {FILE_BYTES_MAX} B: convert it to Protocol Buffers"
        )));
    }
    let file: Value = serde_json::from_slice(&bytes)
        .map_err(|error| ChakraError::new(format!("no JSON: {error}")))?;
    let Some(nodes) = file.get("workload_graph").and_then(Value::as_array) else {
        let is_host_trace = file.get("nodes").is_some() && file.get("schema").is_some();
        return Err(ChakraError::new(match is_host_trace {
            true => {
                "this is what PyTorch records: `chakra_trace_link` and `chakra_converter` make a \
                 Chakra trace of it"
            }
            false => "a trace in JSON has its nodes in `workload_graph`, and this has none",
        }));
    };
    let mut reader = Reader::default();
    if let Some(groups) = file.get("process_groups") {
        let groups = groups_of(groups);
        reader.add_groups(
            groups.map_err(|problem| ChakraError::new(format!("`process_groups`: {problem}")))?,
        );
    }
    for (number, node) in nodes.iter().enumerate() {
        let Value::Object(node) = node else {
            return Err(ChakraError::new(format!(
                "`workload_graph[{number}]` is no object"
            )));
        };
        reader.add(self::node(node, number)?)?;
    }
    Ok(reader.finish())
}

fn node(object: &Map<String, Value>, number: usize) -> Result<Node, ChakraError> {
    let text = |key: &str| match object.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(number @ Value::Number(_)) => number.to_string(),
        _ => String::new(),
    };
    let name = text("Name");
    let id = object.get("Id").and_then(Value::as_u64);
    let id = id.ok_or_else(|| {
        ChakraError::new(format!(
            "`workload_graph[{number}]` has no whole number `Id`"
        ))
    })?;
    let count = |key: &str| match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| {
            let named = NodeName(id, &name);
            ChakraError::new(format!("{named}: its `{key}` is {value}, and counts"))
        }),
    };
    let needs = match object.get("data_deps") {
        None => Vec::new(),
        Some(needs) => {
            let all = needs.as_array().into_iter().flatten();
            let all: Option<Vec<u64>> = all.map(Value::as_u64).collect();
            all.filter(|_| needs.is_array()).ok_or_else(|| {
                ChakraError::new(format!(
                    "{}: its `data_deps` are no ids",
                    NodeName(id, &name)
                ))
            })?
        }
    };
    Ok(Node {
        id,
        kind: count("NodeType")?.unwrap_or(0),
        needs,
        microseconds: count("runtime")?.unwrap_or(0),
        is_cpu_op: object.get("is_cpu_op") == Some(&Value::Bool(true)),
        num_ops: count("num_ops")?.unwrap_or(0),
        comm_type: count("comm_type")?,
        comm_size: count("comm_size")?,
        source: count("comm_src")?,
        target: count("comm_dst")?,
        tag: count("comm_tag")?,
        group: Some(text("pg_name")).filter(|name| !name.is_empty()),
        is_partial: false,
        values: text("values"),
        name,
    })
}

/// Writes what of a rank's file counts; it is read again to the same steps.
///
/// # Errors
///
/// Those of what it is written to.
pub fn write_json(file: &RankFile, target: &mut dyn Write) -> io::Result<()> {
    writeln!(target, "{{\"workload_graph\": [")?;
    let count = file.steps.len() as u32;
    for place in 0..count {
        let (id, name) = file.steps.name(place);
        let needs = file.steps.needs(place).iter();
        let needs: Vec<u64> = needs.map(|need| file.steps.name(*need).0).collect();
        let mut node = Map::new();
        let mut set = |key: &str, value: Value| node.insert(key.to_owned(), value);
        set("Id", json!(id));
        set("Name", json!(name));
        set("data_deps", json!(needs));
        match file.steps.work(place) {
            Work::Compute {
                nanoseconds,
                processor,
            } => {
                set("NodeType", json!(4));
                set("runtime", json!(nanoseconds / 1_000));
                set("is_cpu_op", json!(processor == HOST));
            }
            Work::Count {
                operations,
                processor,
            } => {
                set("NodeType", json!(4));
                set("num_ops", json!(operations));
                set("is_cpu_op", json!(processor == HOST));
            }
            Work::Send { bytes, to, tag } => {
                set("NodeType", json!(5));
                set("comm_size", json!(bytes));
                set("comm_dst", json!(to));
                set("comm_tag", json!(tag));
            }
            Work::Receive { bytes, from, tag } => {
                set("NodeType", json!(6));
                set("comm_size", json!(bytes));
                set("comm_src", json!(from));
                set("comm_tag", json!(tag));
            }
            Work::Together(together) => {
                set("NodeType", json!(7));
                set("comm_type", json!(comm_type(together.collective)));
                set("comm_size", json!(together.bytes));
                if let Some(name) = &file.group_names[together.group as usize] {
                    set("pg_name", json!(name));
                }
            }
        }
        let comma = if place + 1 < count { "," } else { "" };
        writeln!(target, "{}{comma}", Value::Object(node))?;
    }
    match file.groups.is_empty() {
        true => writeln!(target, "]}}"),
        false => writeln!(target, "], \"process_groups\": {}}}", json!(file.groups)),
    }
}

const fn comm_type(collective: Collective) -> u64 {
    match collective {
        Collective::AllReduce => 0,
        Collective::Reduce => 1,
        Collective::AllGather => 2,
        Collective::Gather => 3,
        Collective::Scatter => 4,
        Collective::Broadcast => 5,
        Collective::AllToAll => 6,
        Collective::ReduceScatter => 7,
        Collective::Barrier => 9,
    }
}
