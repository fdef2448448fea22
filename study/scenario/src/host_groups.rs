//! Hosts that differ from the others: `[[host_group]]`.
//!
//! A group that names a preset has that hardware, with what its own `model` changes; one that names
//! none has that of `[hosts]`, with such changes.

use viaduct_hardware::{ByHost, HostModel};
use viaduct_topology::{HostId, Topology};

use crate::adapter::Adapter;
use crate::build;
use crate::combinations::Refusal;
use crate::diagnostics::{Diagnostic, Diagnostics, Place};
use crate::document::{self, Entry, Node, Raw, Tree};
use crate::faults;
use crate::files::Files;
use crate::preset;
use crate::rows::{self, List};
use crate::schema::{CompletionKind, HostGroup, Hosts, Model};
use crate::section::{Absent, Section};
use crate::settings::{Context, Hardware};

/// Most groups of a study.
const GROUPS_MAX: usize = 1_000;

const GROUPS: List = List {
    nouns: ["a group of hosts", "groups of hosts"],
    rows_max: GROUPS_MAX,
};

/// The table of a row that says what hardware its hosts have.
const MODEL: &str = "model";

/// Hosts that differ from those that only `[hosts]` speaks of.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    row: HostGroup,
    hardware: Hardware,
}

impl Group {
    /// What makes its hosts others, or its head.
    pub(crate) fn place(&self) -> Place {
        self.row.nic.place()
    }
}

/// Reads the groups of a tree, into which the hardware of `[hosts]` has been put.
pub(crate) fn read(
    tree: &Tree,
    context: Context,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Vec<Group> {
    let rows = GROUPS.read::<HostGroup>(tree, MODEL, diagnostics);
    let groups = rows.into_iter().map(|row| {
        let mut own = Tree::default();
        let nic = row.keys.nic.known();
        if let (None, Some(entry)) = (&nic, tree.at_path(Model::table().name)) {
            own.set(&entry_path(), entry.name_place, entry.node.clone());
        }
        if let Some(Entry {
            name_place, node, ..
        }) = row.beside
        {
            put_over(&mut own, &entry_path(), *name_place, node);
        }
        let mut is_there = true;
        if let Some(name) = nic {
            let place = row.keys.nic.place();
            own.set(&Hosts::nic.path(), place, text(name, place));
            is_there = preset::merge(&mut own, "", files, diagnostics).is_some();
        }
        let context = Context {
            model_missing: !is_there,
            ..context
        };
        Group {
            hardware: Hardware::read(&own, context, diagnostics),
            row: row.keys,
        }
    });
    groups.collect()
}

fn entry_path() -> String {
    Model::table().name.to_owned()
}

fn text(text: String, place: Place) -> Node {
    Node {
        place,
        raw: Raw::Text(text),
    }
}

/// Puts what a node holds over what a tree has at a path, table by table.
fn put_over(tree: &mut Tree, path: &str, name_place: Place, node: &Node) {
    let Raw::Table(table) = &node.raw else {
        return tree.set(path, name_place, node.clone());
    };
    for entry in &table.entries {
        let path = format!("{path}.{}", entry.name);
        match &entry.node.raw {
            // A number with its source is a table, too.
            Raw::Table(inner) if inner.find("value").is_none() => {
                put_over(tree, &path, entry.name_place, &entry.node);
            }
            _ => tree.set(&path, entry.name_place, entry.node.clone()),
        }
    }
}

/// The hardware of all hosts, by the common one and the groups.
pub(crate) fn by_host(
    common: HostModel,
    groups: &[Group],
    completion: CompletionKind,
    topology: &Topology,
    diagnostics: &mut Diagnostics,
) -> Result<ByHost<HostModel>, Absent> {
    let hosts = topology.host_count();
    let mut taken = vec![false; hosts as usize];
    let mut found: Vec<(Vec<u32>, HostModel)> = Vec::new();
    let mut is_wrong = false;
    for group in groups {
        let completion = group.row.completion.known().unwrap_or(completion);
        if matches!(group.hardware.adapter, Adapter::Endpoints(_)) {
            let Refusal { reason, help, .. } = Refusal::ALIKE_INTERFACES;
            let error = Diagnostic::error(reason).at(group.place());
            diagnostics.push(error.help(help));
            return Err(Absent::Told);
        }
        let model = build::host(&group.hardware, completion)?;
        let listed = group.row.hosts.get()?;
        match members(&listed, topology, &mut taken) {
            Ok(members) => found.push((members, model)),
            Err(label) => {
                is_wrong = true;
                let help = "write numbers, as in \"0-7, 12\", \"0-1023:4\" for every fourth, \
                            \"switch s0\" for its hosts, or names of hosts";
                let error = Diagnostic::error("these hosts cannot be a group");
                diagnostics.push(error.at(group.row.hosts.place()).label(label).help(help));
            }
        }
    }
    if is_wrong {
        return Err(Absent::Told);
    }
    let mut found = found.into_iter();
    // What no host has is not asked whether others understand it.
    let mut by_host = ByHost::from(match taken.contains(&false) {
        true => common,
        false => found.next().map_or(common, |(_, model)| model),
    });
    for (members, model) in found {
        by_host.set_group(hosts, members, model);
    }
    refuse_strangers(&by_host, groups, diagnostics)?;
    Ok(by_host)
}

/// Refuses adapters that do not understand each other.
fn refuse_strangers(
    by_host: &ByHost<HostModel>,
    groups: &[Group],
    diagnostics: &mut Diagnostics,
) -> Result<(), Absent> {
    let common = by_host.common();
    // Where no host is without a group, the first one's hardware is the common one.
    let without_own = groups.len() + 1 - by_host.values().count();
    for (other, group) in by_host.values().skip(1).zip(&groups[without_own..]) {
        if let Some(what) = common.mechanism.differs_from(&other.mechanism) {
            let names = format!("{} and {}: {what}", common.name, other.name);
            diagnostics.push(
                Diagnostic::error(Refusal::STRANGERS.reason)
                    .at(group.row.nic.place())
                    .label(names)
                    .help(Refusal::STRANGERS.help),
            );
            return Err(Absent::Told);
        }
    }
    Ok(())
}

/// The hosts that a text names, none of which may be taken.
fn members(listed: &str, topology: &Topology, taken: &mut [bool]) -> Result<Vec<u32>, String> {
    let mut members = Vec::new();
    for part in listed.split(',') {
        for host in hosts_of(part.trim(), topology)? {
            let name = topology.node_name(viaduct_topology::Node::Host(HostId(host)));
            match std::mem::replace(&mut taken[host as usize], true) {
                true => return Err(format!("host {host} ({name}) is in a group already")),
                false => members.push(host),
            }
        }
    }
    Ok(members)
}

/// The hosts of a part of such a text.
fn hosts_of(part: &str, topology: &Topology) -> Result<Vec<u32>, String> {
    let count = topology.host_count();
    if part.is_empty() {
        return Err("it names no host".to_owned());
    }
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u32>().unwrap_or(u32::MAX))
    };
    let within = |host: u32| match host < count {
        true => Ok(host),
        false => Err(format!("no host {host}: hosts are 0 to {}", count - 1)),
    };
    if let Some(host) = number(part) {
        return Ok(vec![within(host)?]);
    }
    let (range, step) = part.split_once(':').unwrap_or((part, "1"));
    if let Some((first, last)) = range.split_once('-')
        && let (Some(first), Some(last)) = (number(first.trim()), number(last.trim()))
    {
        let step = number(step.trim()).filter(|step| *step > 0);
        let step = step.ok_or_else(|| format!("`{}` is no step", part.trim()))?;
        if first > last {
            return Err(format!("{first} to {last} are no hosts"));
        }
        return Ok((within(first)?..=within(last)?)
            .step_by(step as usize)
            .collect());
    }
    if let Some(name) = part.strip_prefix("switch ") {
        let switch = faults::switch(name, topology)?;
        let hosts = (0..count).filter(|host| topology.host_switch(HostId(*host)) == switch);
        let hosts: Vec<u32> = hosts.collect();
        return match hosts.is_empty() {
            true => Err(format!("no host is on switch {}", name.trim())),
            false => Ok(hosts),
        };
    }
    faults::host(part, topology).map(|host| vec![host.0])
}

/// The groups as TOML, each with all its hardware.
pub(crate) fn to_toml(groups: &[Group]) -> String {
    let mut text = String::new();
    for group in groups {
        text.push_str(&format!("\n{}\n", HostGroup::table().heading()));
        for setting in group.row.list() {
            let is_nic = setting.key().name == HostGroup::nic.key();
            if is_nic {
                let inline = document::quote(preset::INLINE);
                text.push_str(&format!("{} = {inline}\n", setting.key().name));
            } else if let Some(value) = setting.value() {
                text.push_str(&rows::line(setting.key().name, &value));
            }
        }
        let mut head = None;
        for setting in group.hardware.list() {
            let Some(value) = setting.value() else {
                continue;
            };
            if head != Some(setting.table().name) {
                head = Some(setting.table().name);
                let name = setting.table().name.replace("hosts.", "host_group.");
                text.push_str(&format!("[{name}]\n"));
            }
            text.push_str(&rows::line(setting.key().name, &value));
        }
    }
    text
}
