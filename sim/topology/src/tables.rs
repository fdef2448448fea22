//! Given routing tables, as JSON: for each switch, for each target host, the next node.
//!
//! ```text
//! {"s0": {"n0": "n0", "n1": "s1"},
//!  "s1": {"*": "s0", "n1": "n1"}}
//! ```
//!
//! `*` stands for all hosts that the switch does not name. A host at the switch itself is always
//! delivered. Parallel links to the next node are equal paths: see [`crate::EqualPaths`].

use std::collections::BTreeMap;
use std::ops::Range;

use crate::HostId;
use crate::SwitchId;
use crate::error::{FileError, TopologyError, shortened};
use crate::graph::{Entries, Graph, HOLE, TableFaults, check_table_size};
use crate::json::{Member, members, place, root, text};
use crate::names::Names;

const SHAPE: &str = "write {\"switch\": {\"target host\": \"next node\", ...}, ...}";

/// Replaces the routes of `graph` by those of the file `source`.
pub(crate) fn apply(graph: &mut Graph, source: &str) -> Result<(), TopologyError> {
    let (hosts, switches) = (graph.host_count() as usize, graph.switch_count() as usize);
    check_table_size(hosts as u64, switches as u64)?;
    let host_numbers = numbers(graph.host_names());
    let switch_numbers = numbers(graph.switch_names());
    let error = |span: &Range<usize>, problem: String, help: &str| -> TopologyError {
        FileError::new(source, span.clone(), problem, help).into()
    };
    let mut next = vec![HOLE; hosts * switches];
    let mut made = Entries::new(graph);
    let document = root(source)?;
    for Member {
        name,
        name_span,
        value: table,
    } in &members(source, document, SHAPE)?
    {
        let Some(&switch) = switch_numbers.get(name.as_ref()) else {
            let problem = format!("no switch is named {}", shortened(name));
            return Err(error(
                name_span,
                problem,
                "name switches of the graph, as it does",
            ));
        };
        let mut ports: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
        for (&link, port) in graph.out_links(switch).iter().zip(0..) {
            let neighbour = graph.link_ends(link).1.0;
            ports.entry(neighbour).or_default().push(port);
        }
        let entries = members(source, table, SHAPE)?;
        // The rule for all hosts first, so that the named ones replace it.
        let (rules, named): (Vec<_>, Vec<_>) =
            entries.iter().partition(|entry| entry.name.as_ref() == "*");
        for Member {
            name: target,
            name_span,
            value,
        } in rules.into_iter().chain(named)
        {
            let span = place(source, value);
            let next_name = text(source, value)?;
            let next_switch = switch_numbers.get(next_name.as_ref());
            let port = next_switch.and_then(|next| ports.get(next));
            let target = if target.as_ref() == "*" {
                None
            } else {
                let Some(&target) = host_numbers.get(target.as_ref()) else {
                    let problem = format!("no host is named {}", shortened(target));
                    return Err(error(
                        name_span,
                        problem,
                        "name hosts of the graph, as it does",
                    ));
                };
                Some(target)
            };
            let is_here = |host: u32| graph.host_switch(HostId(host)) == SwitchId(switch);
            match (target, port) {
                (Some(host), _) if is_here(host) => {
                    if host_numbers.get(next_name.as_ref()) != Some(&host) {
                        let host = graph.host_name(HostId(host));
                        let problem = format!("the host {host} is at {name} itself");
                        let help = "its next node here is itself; the entry may be left out";
                        return Err(error(&span, problem, help));
                    }
                }
                (Some(host), Some(ports)) => {
                    let entry = made.entry(graph, switch, HostId(host), ports)?;
                    next[host as usize * switches + switch as usize] = entry;
                }
                (None, Some(ports)) => {
                    let entry = made.entry(graph, switch, HostId(0), ports)?;
                    for host in (0..hosts as u32).filter(|&host| !is_here(host)) {
                        next[host as usize * switches + switch as usize] = entry;
                    }
                }
                (_, None) => {
                    let problem = format!(
                        "{} is no switch to which {name} has a link",
                        shortened(&next_name)
                    );
                    return Err(error(&span, problem, "name a neighbour of the switch"));
                }
            }
        }
    }
    let identity: Box<[u32]> = (0..hosts as u32).collect();
    graph.routes = made.into_routes(identity.clone(), identity, next.into());
    close_loops(graph);
    Ok(())
}

fn numbers(names: &Names) -> BTreeMap<&str, u32> {
    names.iter().zip(0..).collect()
}

/// Finds loops and holes on the way from any host to any other, and cuts the loops.
fn close_loops(graph: &mut Graph) {
    #[derive(Clone, Copy, Eq, PartialEq)]
    enum Mark {
        New,
        /// On the walk that is under way.
        Walk,
        Reaches,
        Fails,
    }

    let switches = graph.switch_count() as usize;
    let mut sources: Vec<u32> = (0..graph.host_count())
        .map(|host| graph.host_switch(HostId(host)).0)
        .collect();
    sources.sort_unstable();
    sources.dedup();
    let mut faults = TableFaults::default();
    let mut marks = vec![Mark::New; switches];
    let mut walk = Vec::new();
    for target in 0..graph.host_count() {
        let first = target as usize * switches;
        marks.fill(Mark::New);
        marks[graph.host_switch(HostId(target)).0 as usize] = Mark::Reaches;
        let mut cut = Vec::new();
        for &source in &sources {
            let mut at = source;
            walk.clear();
            let outcome = loop {
                match marks[at as usize] {
                    Mark::New => {}
                    Mark::Walk => {
                        faults.loop_count += 1;
                        let begin = walk.iter().position(|&switch| switch == at).unwrap_or(0);
                        faults.first_loop.get_or_insert_with(|| {
                            let round = walk[begin..].iter().map(|&switch| SwitchId(switch));
                            (HostId(target), round.collect())
                        });
                        cut.extend_from_slice(&walk[begin..]);
                        break Mark::Fails;
                    }
                    outcome => break outcome,
                }
                marks[at as usize] = Mark::Walk;
                walk.push(at);
                match graph.next_link(graph.row(target), at) {
                    Some(link) => at = graph.link_ends(link).1.0,
                    None => {
                        faults.hole_count += 1;
                        faults
                            .first_hole
                            .get_or_insert((HostId(target), SwitchId(at)));
                        break Mark::Fails;
                    }
                }
            };
            for &switch in &walk {
                marks[switch as usize] = outcome;
            }
        }
        for switch in cut {
            graph.routes.next[first + switch as usize] = HOLE;
        }
    }
    graph.routes.faults = faults;
}
