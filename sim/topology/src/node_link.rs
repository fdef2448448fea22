//! Graphs as NetworkX node-link JSON.
//!
//! ```text
//! {"directed": false, "multigraph": false, "graph": {},
//!  "nodes": [{"id": "n0", "kind": "host"}, {"id": "s0", "kind": "switch", "ports": 8}, ...],
//!  "edges": [{"source": "n0", "target": "s0", "rate": "856 Mbit/s", "latency": "0.5 us"}, ...]}
//! ```
//!
//! Older files say `links` for `edges`. Names may be strings, whole numbers, or lists of them (the
//! coordinates of NetworkX' grids), which become `3-4`. Other attributes are counted, not used.

use std::ops::Range;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::draft::{Draft, End};
use crate::error::TopologyError;
use crate::json::{Member, list, members, place, root, text};
use crate::parts::{GraphParts, LinkAttributes};
use crate::topology::described;
use crate::{EqualPaths, GraphRouting, Topology};

const SHAPE: &str = "write {\"nodes\": [{\"id\": ..., \"kind\": ...}], \"edges\": \
                     [{\"source\": ..., \"target\": ...}]}";

/// Reads a graph from NetworkX node-link JSON; the crate's documentation shows the format.
///
/// # Errors
///
/// JSON that is not understood, with its place; a node without a kind; a host without or with
/// several links; too few ports; a graph beyond the limits.
pub fn parse_node_link_json(source: &str) -> Result<Topology, TopologyError> {
    Topology::from_parts(read(source)?, GraphRouting::ShortestPath(EqualPaths::Hash))
}

/// Reads a graph, checked as a whole, without routes.
pub(crate) fn read(source: &str) -> Result<GraphParts, TopologyError> {
    let mut draft = Draft::new(source, "write \"multigraph\": true");
    let mut directed = false;
    let (mut nodes, mut edges) = (None, None);
    let (mut described_network, mut equal_paths) = (None, None);
    let document = root(source)?;
    for Member { name, value, .. } in &members(source, document, SHAPE)? {
        match name.as_ref() {
            "directed" => directed = boolean(&draft, name, value)?,
            "multigraph" => draft.multigraph = boolean(&draft, name, value)?,
            "nodes" => nodes = Some(list(source, value, SHAPE)?),
            "edges" | "links" if edges.is_some() => {
                let problem = "both `edges` and `links` are given";
                return Err(draft.error(&place(source, value), problem, "give `edges` alone"));
            }
            "edges" | "links" => edges = Some(list(source, value, SHAPE)?),
            // What it is by rule, if this program wrote it; anything else is nobody's business.
            "graph" => {
                let words: Option<Map<String, Value>> = serde_json::from_str(value.get()).ok();
                let words = words.unwrap_or_default();
                described_network = described(&words).map(Box::new);
                let word = words.get("equal_paths").and_then(Value::as_str);
                equal_paths = word.and_then(EqualPaths::from_word);
            }
            _ => draft.note_unused("file", name),
        }
    }
    let (Some(nodes), Some(edges)) = (nodes, edges) else {
        let problem = "the graph has no `nodes` or no `edges`";
        return Err(draft.error(&place(source, document), problem, SHAPE));
    };
    for node in nodes {
        read_node(&mut draft, node)?;
    }
    for edge in edges {
        read_edge(&mut draft, edge, directed)?;
    }
    let mut parts = draft.finish()?;
    parts.described = described_network;
    parts.equal_paths = equal_paths;
    Ok(parts)
}

fn boolean(draft: &Draft<'_>, name: &str, value: &RawValue) -> Result<bool, TopologyError> {
    match value.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => {
            let problem = format!("`{name}` is neither true nor false");
            Err(draft.error(&place(draft.source, value), problem, "write true or false"))
        }
    }
}

fn read_node(draft: &mut Draft<'_>, node: &RawValue) -> Result<(), TopologyError> {
    let source = draft.source;
    let span = place(source, node);
    let (mut id, mut kind, mut ports) = (None, None, None);
    for Member { name, value, .. } in &members(source, node, SHAPE)? {
        if value.get() == "null" {
            continue;
        }
        match name.as_ref() {
            "id" => id = Some((node_name(draft, value)?, place(source, value))),
            "kind" => {
                kind = Some(draft.parse_kind(&text(source, value)?, &place(source, value))?);
            }
            "ports" => {
                let span = place(source, value);
                ports = Some((draft.parse_ports(&text(source, value)?, &span)?, span));
            }
            _ => draft.note_unused("node", name),
        }
    }
    let Some((id, id_span)) = id else {
        return Err(draft.error(
            &span,
            "a node without `id`",
            "give each node a name in `id`",
        ));
    };
    let Some(kind) = kind else {
        let problem = format!("the node {id} has no `kind`");
        let help = "add \"kind\": \"host\" or \"kind\": \"switch\"; \
                    in NetworkX: graph.nodes[name][\"kind\"] = \"host\"";
        return Err(draft.error(&span, problem, help));
    };
    draft.add_node(id, id_span, kind, ports)
}

fn read_edge(draft: &mut Draft<'_>, edge: &RawValue, directed: bool) -> Result<(), TopologyError> {
    let source = draft.source;
    let mut ends = [None, None];
    let mut attributes = LinkAttributes::default();
    for Member { name, value, .. } in &members(source, edge, SHAPE)? {
        if value.get() == "null" {
            continue;
        }
        match name.as_ref() {
            "source" | "target" => {
                let name_of_node = node_name(draft, value)?;
                let end = End {
                    name: name_of_node,
                    span: place(source, value),
                };
                ends[usize::from(name == "target")] = Some(end);
            }
            "rate" | "latency" => {
                let (text, span) = (text(source, value)?, place(source, value));
                draft.edge_attribute(&mut attributes, name, &text, &span)?;
            }
            // Tells parallel edges apart; their order does so here.
            "key" => {}
            _ => draft.note_unused("edge", name),
        }
    }
    let [Some(from), Some(to)] = ends else {
        let problem = "an edge without `source` or `target`";
        return Err(draft.error(&place(source, edge), problem, "name a node in each"));
    };
    draft.add_edge([from, to], directed, attributes)
}

/// The name of a node: text, a whole number, or a list of these.
fn node_name(draft: &Draft<'_>, value: &RawValue) -> Result<String, TopologyError> {
    let source = draft.source;
    let span: Range<usize> = place(source, value);
    let name = if value.get().starts_with('[') {
        let parts = list(source, value, SHAPE)?;
        let parts: Result<Option<Vec<_>>, TopologyError> = parts
            .into_iter()
            .map(|part| scalar_name(source, part))
            .collect();
        parts?.map(|parts| parts.join("-"))
    } else {
        scalar_name(source, value)?
    };
    name.ok_or_else(|| {
        let help = "write text, a whole number, or a list of these";
        draft.error(&span, "this is not the name of a node", help)
    })
}

fn scalar_name(source: &str, value: &RawValue) -> Result<Option<String>, TopologyError> {
    let json = value.get();
    let is_number = json
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'-');
    if is_number || json.starts_with('"') {
        return Ok(Some(text(source, value)?.into_owned()));
    }
    Ok(None)
}
