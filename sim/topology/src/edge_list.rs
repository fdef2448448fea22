//! Graphs as lists of edges, one per line.
//!
//! ```text
//! # comment, to the end of the line
//! hosts n* gateway                  # which nodes are hosts: names, or prefixes that end in *
//! ports 8 s*                        # optional: the ports of switches
//! n0 s0
//! s0 s1 rate="856 Mbit/s" latency="0.5 us"
//! s1 n1
//! ```
//!
//! Nodes are the names on the edges; those that no `hosts` line names are switches. Hosts and
//! switches are numbered as they first appear on an edge. Where a name matches several entries, the
//! name itself wins over a prefix and a longer prefix over a shorter one. A line `directed` makes
//! each edge one link from the first node to the second, instead of one each way; a line
//! `multigraph` allows several edges between the same switches. `hosts` and `ports` are no names.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::draft::{Draft, End, NodeKind};
use crate::error::TopologyError;
use crate::parts::{GraphParts, LinkAttributes};
use crate::{EqualPaths, GraphRouting, Topology};

/// Reads a graph from a list of edges; the crate's documentation shows the format.
///
/// # Errors
///
/// A line that is not understood, with its place; a host without or with several links; too few
/// ports; a graph beyond the limits.
pub fn parse_edge_list(text: &str) -> Result<Topology, TopologyError> {
    Topology::from_parts(read(text)?, GraphRouting::ShortestPath(EqualPaths::Hash))
}

/// Reads a graph, checked as a whole, without routes.
pub(crate) fn read(text: &str) -> Result<GraphParts, TopologyError> {
    let mut reader = Reader {
        draft: Draft::new(text, "add a line `multigraph`"),
        directed: false,
        hosts: Rules::default(),
        ports: Rules::default(),
        edges: Vec::new(),
    };
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        reader.line(&tokens(text, start..start + line.len()))?;
        start += line.len();
    }
    reader.finish()
}

/// A word of a line and where it stands.
struct Token<'a> {
    text: &'a str,
    span: Range<usize>,
}

/// The words of a line: blanks separate them except within double quotes; `#` ends the line.
fn tokens(source: &str, line: Range<usize>) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut begin, mut quoted) = (None, false);
    let mut end = line.end;
    for (offset, character) in source[line.clone()].char_indices() {
        let at = line.start + offset;
        if character == '#' && !quoted {
            end = at;
            break;
        }
        if character == '"' {
            quoted = !quoted;
        }
        let blank = character.is_whitespace() && !quoted || character == '\n';
        match begin {
            None if !blank => begin = Some(at),
            Some(first) if blank => {
                tokens.push(Token {
                    text: &source[first..at],
                    span: first..at,
                });
                begin = None;
            }
            _ => {}
        }
    }
    if let Some(first) = begin {
        tokens.push(Token {
            text: &source[first..end],
            span: first..end,
        });
    }
    tokens
}

/// What is said of names and prefixes.
struct Rules<T> {
    names: BTreeMap<String, (T, Range<usize>)>,
    prefixes: BTreeMap<String, (T, Range<usize>)>,
}

impl<T> Default for Rules<T> {
    fn default() -> Self {
        Self {
            names: BTreeMap::new(),
            prefixes: BTreeMap::new(),
        }
    }
}

impl<T: Copy> Rules<T> {
    /// Adds a rule; false if the same one is there already.
    fn add(&mut self, token: &Token<'_>, value: T) -> bool {
        let entry = (value, token.span.clone());
        match token.text.strip_suffix('*') {
            Some(prefix) => self.prefixes.insert(prefix.to_owned(), entry).is_none(),
            None => self.names.insert(token.text.to_owned(), entry).is_none(),
        }
    }

    /// What is said of `name`; the rule is noted as used.
    fn find<'a>(&'a self, name: &str, used: &mut BTreeSet<usize>) -> Option<&'a T> {
        let by_prefix = || {
            let ends = name.char_indices().map(|(end, _)| end).chain([name.len()]);
            ends.rev().find_map(|end| self.prefixes.get(&name[..end]))
        };
        let (value, span) = self.names.get(name).or_else(by_prefix)?;
        used.insert(span.start);
        Some(value)
    }

    fn spans(&self) -> impl Iterator<Item = &Range<usize>> {
        self.names
            .values()
            .chain(self.prefixes.values())
            .map(|(_, span)| span)
    }
}

struct Reader<'a> {
    draft: Draft<'a>,
    directed: bool,
    hosts: Rules<()>,
    ports: Rules<u32>,
    edges: Vec<([End; 2], LinkAttributes)>,
}

impl Reader<'_> {
    fn line(&mut self, tokens: &[Token<'_>]) -> Result<(), TopologyError> {
        match tokens {
            [] => Ok(()),
            [word] if word.text == "directed" => {
                self.directed = true;
                Ok(())
            }
            [word] if word.text == "multigraph" => {
                self.draft.multigraph = true;
                Ok(())
            }
            [word, names @ ..] if word.text == "hosts" => {
                if names.is_empty() {
                    let help = "write names or prefixes after it, like `hosts n*`";
                    return Err(self.draft.error(&word.span, "`hosts` names no node", help));
                }
                names.iter().try_for_each(|name| {
                    self.name(name)?;
                    let fresh = self.hosts.add(name, ());
                    self.once(fresh, name)
                })
            }
            [word, rest @ ..] if word.text == "ports" => {
                let [count, names @ ..] = rest else {
                    let help = "write a number and the switches after it, like `ports 8 s*`";
                    return Err(self
                        .draft
                        .error(&word.span, "`ports` without a number", help));
                };
                let ports = self.draft.parse_ports(count.text, &count.span)?;
                if names.is_empty() {
                    let help = "write names or prefixes after the number, like `ports 8 s*`";
                    return Err(self
                        .draft
                        .error(&word.span, "`ports` names no switch", help));
                }
                names.iter().try_for_each(|name| {
                    self.name(name)?;
                    let fresh = self.ports.add(name, ports);
                    self.once(fresh, name)
                })
            }
            [alone] => {
                let problem = "an edge needs two nodes";
                Err(self
                    .draft
                    .error(&alone.span, problem, "write one edge a line, like `n0 s0`"))
            }
            [source, target, attributes @ ..] => self.edge(source, target, attributes),
        }
    }

    fn once(&self, fresh: bool, token: &Token<'_>) -> Result<(), TopologyError> {
        if fresh {
            return Ok(());
        }
        Err(self
            .draft
            .error(&token.span, "the same is said before", "say it once"))
    }

    fn name(&self, token: &Token<'_>) -> Result<(), TopologyError> {
        if token.text.contains(['=', '"']) {
            let help = "write names without blanks, quotes and equals signs";
            return Err(self
                .draft
                .error(&token.span, "this is not the name of a node", help));
        }
        self.draft.check_name(token.text, &token.span)
    }

    fn edge(
        &mut self,
        source: &Token<'_>,
        target: &Token<'_>,
        tokens: &[Token<'_>],
    ) -> Result<(), TopologyError> {
        let mut attributes = LinkAttributes::default();
        let mut seen = Vec::new();
        for end in [source, target] {
            self.name(end)?;
            if end.text.contains('*') || matches!(end.text, "hosts" | "ports") {
                let problem = "this is not the name of a node";
                let help = "the words hosts and ports begin a line of their own, \
                            and * stands only there";
                return Err(self.draft.error(&end.span, problem, help));
            }
        }
        for token in tokens {
            let Some((name, value)) = token.text.split_once('=') else {
                let help = "write attributes as key=value, like rate=\"856 Mbit/s\"; \
                            from NetworkX write the list with data=False";
                let problem = "an edge has two nodes, then attributes";
                return Err(self.draft.error(&token.span, problem, help));
            };
            let quotes = value.matches('"').count();
            let value = match value.strip_prefix('"').and_then(|v| v.strip_suffix('"')) {
                Some(inner) if quotes == 2 => inner,
                None if quotes == 0 => value,
                _ => {
                    let help = "put the whole value between two quotes, like rate=\"856 Mbit/s\"";
                    return Err(self
                        .draft
                        .error(&token.span, "the quotes do not pair", help));
                }
            };
            if seen.contains(&name) {
                let problem = format!("`{name}` is given twice");
                return Err(self.draft.error(&token.span, problem, "give it once"));
            }
            if !self
                .draft
                .edge_attribute(&mut attributes, name, value, &token.span)?
            {
                let problem = "an edge has no such attribute";
                return Err(self
                    .draft
                    .error(&token.span, problem, "write rate= or latency="));
            }
            seen.push(name);
        }
        let end = |token: &Token<'_>| End {
            name: token.text.to_owned(),
            span: token.span.clone(),
        };
        self.edges.push(([end(source), end(target)], attributes));
        Ok(())
    }

    fn finish(mut self) -> Result<GraphParts, TopologyError> {
        if self.hosts.spans().next().is_none() {
            let length = self.draft.source.len();
            let problem = "no line says which nodes are hosts";
            let help = "add a line with names or prefixes, like `hosts n*`; \
                        all other nodes are switches";
            return Err(self.draft.error(&(length..length), problem, help));
        }
        let (mut used_hosts, mut used_ports) = (BTreeSet::new(), BTreeSet::new());
        for (ends, attributes) in self.edges {
            for end in &ends {
                if self.draft.has_node(&end.name) {
                    continue;
                }
                let is_host = self.hosts.find(&end.name, &mut used_hosts).is_some();
                let kind = if is_host {
                    NodeKind::Host
                } else {
                    NodeKind::Switch
                };
                self.draft
                    .add_node(end.name.clone(), end.span.clone(), kind, None)?;
                if kind == NodeKind::Switch
                    && let Some(&ports) = self.ports.find(&end.name, &mut used_ports)
                {
                    self.draft.set_ports(&end.name, ports);
                }
            }
            self.draft.add_edge(ends, self.directed, attributes)?;
        }
        let unused_host = self
            .hosts
            .spans()
            .find(|span| !used_hosts.contains(&span.start));
        if let Some(span) = unused_host {
            let help = "correct the name, or leave it out";
            return Err(self.draft.error(span, "no edge has such a node", help));
        }
        let unused_ports = self
            .ports
            .spans()
            .find(|span| !used_ports.contains(&span.start));
        if let Some(span) = unused_ports {
            let help = "correct the name, or leave it out";
            return Err(self.draft.error(span, "no edge has such a switch", help));
        }
        self.draft.finish()
    }
}
