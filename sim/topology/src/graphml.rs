//! Graphs as GraphML.
//!
//! ```text
//! <graphml>
//!   <key id="d0" for="node" attr.name="kind" attr.type="string"><default>switch</default></key>
//!   <key id="d1" for="edge" attr.name="rate" attr.type="string"/>
//!   <graph edgedefault="undirected">
//!     <node id="n0"><data key="d0">host</data></node>
//!     <edge source="n0" target="s0"><data key="d1">856 Mbit/s</data></edge>
//!   </graph>
//! </graphml>
//! ```
//!
//! Attributes are those of the node-link form. Parallel edges are allowed when edges have an `id`,
//! which is how NetworkX writes multigraphs. One graph; no nested graphs, no hyperedges.

use std::collections::BTreeMap;
use std::ops::Range;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::draft::{Draft, End};
use crate::error::TopologyError;
use crate::parts::{GraphParts, LinkAttributes};
use crate::{EqualPaths, GraphRouting, Topology};

/// Deepest nesting of elements.
const DEPTH_MAX: usize = 32;
/// Most XML attributes of an element.
const ELEMENT_ATTRIBUTES_MAX: usize = 32;
/// Most attribute declarations of a file.
const KEYS_MAX: usize = 1000;

/// Reads a graph from GraphML; the crate's documentation shows what is understood.
///
/// # Errors
///
/// XML that is not understood, with its place; a node without a kind; a host without or with
/// several links; too few ports; a graph beyond the limits.
pub fn parse_graphml(source: &str) -> Result<Topology, TopologyError> {
    Topology::from_parts(read(source)?, GraphRouting::ShortestPath(EqualPaths::Hash))
}

/// Reads a graph, checked as a whole, without routes.
pub(crate) fn read(source: &str) -> Result<GraphParts, TopologyError> {
    let mut parser = Parser {
        draft: Draft::new(source, "give the edges ids"),
        keys: BTreeMap::new(),
        open: Vec::new(),
        key: None,
        item: None,
        data: None,
        graphs: 0,
        directed: false,
    };
    let mut reader = Reader::from_str(source);
    loop {
        let start = reader.buffer_position() as usize;
        let event = reader.read_event();
        let span = start..reader.buffer_position() as usize;
        match event {
            Ok(Event::Start(element)) => parser.start(&element, span)?,
            Ok(Event::Empty(element)) => {
                parser.start(&element, span)?;
                parser.end()?;
            }
            Ok(Event::End(_)) => parser.end()?,
            Ok(Event::Text(text)) => parser.characters(&text, span)?,
            Ok(Event::CData(text)) => parser.characters(&text, span)?,
            Ok(Event::GeneralRef(reference)) => {
                let character = match reference.resolve_char_ref() {
                    Ok(Some(character)) => Some(character.to_string()),
                    _ => {
                        quick_xml::escape::resolve_predefined_entity(&reference).map(str::to_owned)
                    }
                };
                let Some(character) = character else {
                    let help = "write the text itself; only &lt; &gt; &amp; &quot; &apos; and \
                                numbers like &#65; are known";
                    return Err(parser.draft.error(&span, "an unknown entity", help));
                };
                parser.characters(&character, span)?;
            }
            Ok(Event::Eof) => return parser.finish(),
            Ok(_) => {}
            Err(error) => {
                let at = (reader.error_position() as usize).min(source.len());
                let end = (at + 1).min(source.len());
                let problem = format!("this is not XML: {error}");
                let help = "correct the file, or write it by a program";
                return Err(parser.draft.error(&(at..end), problem, help));
            }
        }
    }
}

/// An element that matters while it is open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Element {
    Graphml,
    Key,
    Default,
    Graph,
    Node,
    Edge,
    Data,
    /// Skipped with all that is in it.
    Other,
}

/// A declared attribute.
struct Key {
    name: String,
    default: Option<(String, Range<usize>)>,
    for_nodes: bool,
    for_edges: bool,
}

/// The node or edge that is being read.
struct Item {
    /// One name of a node, two of an edge.
    ends: Vec<End>,
    directed: bool,
    span: Range<usize>,
    /// Values by name of the attribute.
    values: BTreeMap<String, (String, Range<usize>)>,
}

struct Parser<'a> {
    draft: Draft<'a>,
    keys: BTreeMap<String, Key>,
    open: Vec<Element>,
    /// Id of the declaration that is being read.
    key: Option<String>,
    item: Option<Item>,
    /// Name of the attribute, text so far and its place.
    data: Option<(String, String, Range<usize>)>,
    graphs: u32,
    directed: bool,
}

type Attributes = BTreeMap<String, String>;

impl Parser<'_> {
    fn start(&mut self, element: &BytesStart<'_>, span: Range<usize>) -> Result<(), TopologyError> {
        if self.open.len() >= DEPTH_MAX {
            let problem = format!("elements are nested more than {DEPTH_MAX} deep");
            return Err(self.draft.error(&span, problem, "write plain GraphML"));
        }
        let name = element.local_name();
        let name: &str = name.as_ref();
        let parent = self.open.last().copied();
        let kind = match (parent, name) {
            (None, "graphml") => Element::Graphml,
            (None, _) => {
                let problem = "the file is not GraphML";
                return Err(self.draft.error(&span, problem, "begin with <graphml>"));
            }
            (Some(Element::Graphml), "key") => self.start_key(element, &span)?,
            (Some(Element::Key), "default") => {
                self.data = Some((String::new(), String::new(), span));
                Element::Default
            }
            (Some(Element::Graphml), "graph") => {
                self.graphs += 1;
                if self.graphs > 1 {
                    let problem = "a second graph in the file";
                    return Err(self.draft.error(&span, problem, "write one graph a file"));
                }
                let attributes = self.attributes(element, &span)?;
                self.directed = match attributes.get("edgedefault").map(String::as_str) {
                    Some("directed") => true,
                    Some("undirected") => false,
                    _ => {
                        let problem = "the graph does not say how edges are meant";
                        let help = "write edgedefault=\"undirected\" or edgedefault=\"directed\"";
                        return Err(self.draft.error(&span, problem, help));
                    }
                };
                Element::Graph
            }
            (Some(Element::Graph), "node" | "edge") => self.start_item(element, name, span)?,
            (Some(Element::Graph | Element::Node | Element::Edge), "hyperedge" | "graph") => {
                let problem = format!("a <{name}> inside of a graph");
                let help = "write nodes, and edges between two of them, directly in one graph";
                return Err(self.draft.error(&span, problem, help));
            }
            (Some(Element::Node | Element::Edge), "data") => {
                let attributes = self.attributes(element, &span)?;
                let key = attributes.get("key").and_then(|id| self.keys.get(id));
                let Some(key) = key else {
                    let problem = "data without a declared key";
                    let help = "declare it before the graph, like \
                                <key id=\"d0\" for=\"node\" attr.name=\"kind\" \
                                attr.type=\"string\"/>";
                    return Err(self.draft.error(&span, problem, help));
                };
                self.data = Some((key.name.clone(), String::new(), span));
                Element::Data
            }
            _ => Element::Other,
        };
        self.open.push(kind);
        Ok(())
    }

    fn start_key(
        &mut self,
        element: &BytesStart<'_>,
        span: &Range<usize>,
    ) -> Result<Element, TopologyError> {
        let mut attributes = self.attributes(element, span)?;
        let (Some(id), Some(name)) = (attributes.remove("id"), attributes.remove("attr.name"))
        else {
            // yEd declares graphics without a name; data with such a key is an error later.
            return Ok(Element::Other);
        };
        if self.keys.len() >= KEYS_MAX {
            let problem = format!("more than {KEYS_MAX} keys are declared");
            return Err(self
                .draft
                .error(span, problem, "leave out those that are not needed"));
        }
        let owner = attributes.remove("for").unwrap_or_else(|| "all".to_owned());
        let key = Key {
            name,
            default: None,
            for_nodes: owner == "node" || owner == "all",
            for_edges: owner == "edge" || owner == "all",
        };
        if self.keys.insert(id.clone(), key).is_some() {
            let problem = "a second key with this id";
            return Err(self
                .draft
                .error(span, problem, "give each key an id of its own"));
        }
        self.key = Some(id);
        Ok(Element::Key)
    }

    fn start_item(
        &mut self,
        element: &BytesStart<'_>,
        name: &str,
        span: Range<usize>,
    ) -> Result<Element, TopologyError> {
        let mut attributes = self.attributes(element, &span)?;
        let is_node = name == "node";
        let wanted: &[&str] = if is_node {
            &["id"]
        } else {
            &["source", "target"]
        };
        let mut ends = Vec::new();
        for &wanted in wanted {
            let Some(name) = attributes.remove(wanted) else {
                let problem = format!("the {name} has no `{wanted}`");
                return Err(self.draft.error(&span, problem, "name a node there"));
            };
            ends.push(End {
                name,
                span: span.clone(),
            });
        }
        let directed = match attributes.get("directed").map(String::as_str) {
            None => self.directed,
            Some("true") => true,
            Some("false") => false,
            Some(_) => {
                let problem = "`directed` is neither true nor false";
                return Err(self.draft.error(&span, problem, "write true or false"));
            }
        };
        if !is_node && attributes.contains_key("id") {
            self.draft.multigraph = true;
        }
        self.item = Some(Item {
            ends,
            directed,
            span,
            values: BTreeMap::new(),
        });
        Ok(if is_node {
            Element::Node
        } else {
            Element::Edge
        })
    }

    fn attributes(
        &self,
        element: &BytesStart<'_>,
        span: &Range<usize>,
    ) -> Result<Attributes, TopologyError> {
        let help = "write attributes as name=\"value\", each once";
        let mut attributes = Attributes::new();
        for attribute in element.attributes() {
            if attributes.len() >= ELEMENT_ATTRIBUTES_MAX {
                let problem = format!("more than {ELEMENT_ATTRIBUTES_MAX} attributes");
                return Err(self.draft.error(span, problem, "write plain GraphML"));
            }
            let attribute = attribute.map_err(|error| {
                self.draft
                    .error(span, format!("this is not XML: {error}"), help)
            })?;
            let value = attribute.normalized_value(quick_xml::XmlVersion::Explicit1_0);
            let value = value.map_err(|error| {
                self.draft
                    .error(span, format!("this is not XML: {error}"), help)
            })?;
            attributes.insert(attribute.key.as_ref().to_owned(), value.into_owned());
        }
        Ok(attributes)
    }

    fn characters(&mut self, text: &str, mut span: Range<usize>) -> Result<(), TopologyError> {
        // Places are those of the text without the blanks around it.
        let raw = self.draft.source.get(span.clone()).unwrap_or("");
        span.end -= raw.len() - raw.trim_end().len();
        span.start += (raw.len() - raw.trim_start().len()).min(span.len());
        match self.open.last() {
            Some(Element::Data | Element::Default) => {
                if let Some((_, value, place)) = &mut self.data {
                    // The place of the text, not of its element, once there is some.
                    *place = if value.is_empty() {
                        span
                    } else {
                        place.start..span.end
                    };
                    value.push_str(text);
                }
                Ok(())
            }
            // Text in front of, behind or between elements means nothing, unless it is no blank.
            Some(Element::Graph | Element::Graphml) | None if !text.trim().is_empty() => {
                let help = "remove it: a graph has elements only";
                Err(self.draft.error(&span, "text between elements", help))
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self) -> Result<(), TopologyError> {
        match self.open.pop() {
            Some(Element::Key) => self.key = None,
            Some(Element::Default) => {
                let key = self.key.as_ref().and_then(|id| self.keys.get_mut(id));
                if let (Some(key), Some((_, value, span))) = (key, self.data.take()) {
                    key.default = Some((value.trim().to_owned(), span));
                }
            }
            Some(Element::Data) => {
                if let (Some(item), Some((name, value, span))) = (&mut self.item, self.data.take())
                {
                    let entry = (value.trim().to_owned(), span.clone());
                    if item.values.insert(name.clone(), entry).is_some() {
                        let problem = format!("`{name}` is given twice");
                        return Err(self.draft.error(&span, problem, "give it once"));
                    }
                }
            }
            Some(Element::Node) => {
                if let Some(item) = self.item.take() {
                    self.end_node(item)?;
                }
            }
            Some(Element::Edge) => {
                if let Some(item) = self.item.take() {
                    self.end_edge(item)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds declared defaults for values that are not given.
    fn add_defaults(&self, item: &mut Item, is_node: bool) {
        let known: &[&str] = if is_node {
            &["kind", "ports"]
        } else {
            &["rate", "latency"]
        };
        for key in self
            .keys
            .values()
            .filter(|key| known.contains(&key.name.as_str()))
        {
            let applies = if is_node {
                key.for_nodes
            } else {
                key.for_edges
            };
            if let (true, Some(default)) = (applies, &key.default) {
                item.values
                    .entry(key.name.clone())
                    .or_insert_with(|| default.clone());
            }
        }
    }

    fn end_node(&mut self, mut item: Item) -> Result<(), TopologyError> {
        self.add_defaults(&mut item, true);
        let Some(End { name, span }) = item.ends.pop() else {
            return Ok(());
        };
        let (mut kind, mut ports) = (None, None);
        for (attribute, (value, span)) in item.values {
            match attribute.as_str() {
                "kind" => kind = Some(self.draft.parse_kind(&value, &span)?),
                "ports" => ports = Some((self.draft.parse_ports(&value, &span)?, span)),
                _ => self.draft.note_unused("node", &attribute),
            }
        }
        let Some(kind) = kind else {
            let problem = format!("the node {} has no `kind`", crate::error::shortened(&name));
            let help = "declare a key with attr.name=\"kind\" and give each node host or switch; \
                        in NetworkX: graph.nodes[name][\"kind\"] = \"host\"";
            return Err(self.draft.error(&item.span, problem, help));
        };
        self.draft.add_node(name, span, kind, ports)
    }

    fn end_edge(&mut self, mut item: Item) -> Result<(), TopologyError> {
        self.add_defaults(&mut item, false);
        let Ok(ends) = <[End; 2]>::try_from(item.ends) else {
            return Ok(());
        };
        let mut attributes = LinkAttributes::default();
        for (attribute, (value, span)) in item.values {
            if !self
                .draft
                .edge_attribute(&mut attributes, &attribute, &value, &span)?
            {
                self.draft.note_unused("edge", &attribute);
            }
        }
        self.draft.add_edge(ends, item.directed, attributes)
    }

    fn finish(self) -> Result<GraphParts, TopologyError> {
        let length = self.draft.source.len();
        if !self.open.is_empty() || self.graphs == 0 {
            let problem = if self.graphs == 0 {
                "the file has no graph"
            } else {
                "the file ends within an element"
            };
            let help = "write <graphml><graph edgedefault=\"undirected\">...</graph></graphml>";
            return Err(self.draft.error(&(length..length), problem, help));
        }
        self.draft.finish()
    }
}
