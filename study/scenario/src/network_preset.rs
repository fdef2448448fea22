//! Presets of networks: files with the numbers of switches and cables, each with its source and how
//! sure it is. `links.preset` names one, and what the study does not say itself is the preset's.

use std::path::Path;

use viaduct_network::Sharing;

use crate::diagnostics::{Diagnostic, Diagnostics, Place};
use crate::document::{self, Raw, Tree};
use crate::files::Files;
use crate::inherit::{self, Chain, NETWORKS, Opened};
use crate::keys::{self, Key, Table};
use crate::preset::may_hold;
use crate::preset::number::{PresetNumber, numbers};
use crate::schema::{Links, NetworkHead, Switches};
use crate::section::{KeyName, Section, Setting, Word};
use crate::settings::read_row;

/// Levels that have a preset's rates and delays, whatever else its links do.
const COARSE: [Sharing; 3] = [Sharing::Fluid, Sharing::MaxMin, Sharing::Queues];

/// Keys that are a study's own, with the reason.
const NOT_OF_PRESETS: [(KeyName, &str); 5] = [
    (Links::preset, "write `inherits` at the top"),
    (
        Links::model,
        "the study chooses it; write `level` at the top",
    ),
    (Links::signal_rate, "write `rate`, after line coding"),
    (Links::coding, "write `rate`, after line coding"),
    (
        Links::congestion_control,
        "it is the senders', and the study chooses it",
    ),
];

/// Numbers that a preset gives or inherits, those of one level beside it.
const NEEDED: [(KeyName, Option<Sharing>); 13] = [
    (Links::switching, None),
    (Links::rate, None),
    (Links::propagation, None),
    (Links::frame_payload, None),
    (Links::frame_header, None),
    (Switches::delay, None),
    (Switches::cut_through, None),
    (Links::buffer, Some(Sharing::Packets)),
    (Links::full, Some(Sharing::Packets)),
    (Links::flow_control, Some(Sharing::Credits)),
    (Links::flit, Some(Sharing::Credits)),
    (Links::channel_buffer, Some(Sharing::Credits)),
    (Links::credit_delay, Some(Sharing::Credits)),
];

/// A preset of a network, for printing.
#[derive(Clone, Debug)]
pub struct NetworkPreset {
    /// Its name.
    pub name: String,
    /// The switches and cables, one line.
    pub description: String,
    /// Where its numbers come from, one line.
    pub source: String,
    /// The presets that it inherits, each by the one before, as the files name them.
    pub inherits: Vec<String>,
    /// The level that has what its links do.
    pub level: Sharing,
    /// Each number, in the order of the list of keys.
    pub numbers: Vec<PresetNumber>,
}

impl NetworkPreset {
    /// Whether a study with it may be computed at a level.
    #[must_use]
    pub fn fits(&self, level: Sharing) -> bool {
        fits(self.level, level)
    }

    /// The words of `links.model` that fit, the one that has all of it first.
    #[must_use]
    pub fn levels(&self) -> Vec<&'static str> {
        let others = COARSE.into_iter().filter(|level| *level != self.level);
        let levels = [self.level].into_iter().chain(others);
        levels.map(Sharing::name).collect()
    }
}

pub(crate) fn fits(of_preset: Sharing, level: Sharing) -> bool {
    level == of_preset || COARSE.contains(&level)
}

/// The tables of a preset of networks.
pub(crate) fn tables() -> Vec<&'static Table> {
    vec![Switches::table(), Links::table()]
}

/// Puts the numbers of the preset that a study names below its own values; none if the study names
/// one that is wrong, which the diagnostics say.
pub(crate) fn merge(
    tree: &mut Tree,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<Option<Sharing>> {
    let Some(entry) = tree.at_path(&Links::preset.path()) else {
        return Some(None);
    };
    let place = entry.node.place;
    let Raw::Text(name) = &entry.node.raw else {
        // The list of keys complains of what is no text.
        return None;
    };
    let opened = match inherit::open(&NETWORKS, name.trim(), Some(place), files) {
        Ok(opened) => opened,
        Err(diagnostic) => {
            diagnostics.push(diagnostic);
            return None;
        }
    };
    let errors_before = diagnostics.error_count();
    let (preset, preset_tree) = read(opened, files, diagnostics)?;
    if diagnostics.error_count() > errors_before {
        return None;
    }
    let level = level_of(tree)?;
    if !preset.fits(level) {
        let levels: Vec<String> = preset
            .levels()
            .iter()
            .map(|it| format!("\"{it}\""))
            .collect();
        let title = format!(
            "`{}` is no network for model = \"{}\"",
            preset.name,
            level.name()
        );
        let label = format!("its links do what \"{}\" has", preset.level.name());
        let help = format!("write model = {}", levels.join(" or "));
        diagnostics.push(Diagnostic::error(title).at(place).label(label).help(help));
        return None;
    }
    // All are found first: what a preset gives counts as nothing that the study says.
    let mut added = Vec::new();
    for table in tables() {
        let Some(Raw::Table(subtree)) = preset_tree.find(table.name).map(|it| &it.node.raw) else {
            continue;
        };
        for entry in &subtree.entries {
            let (Some(key), Raw::Table(sourced)) = (table.find(&entry.name), &entry.node.raw)
            else {
                continue;
            };
            let path = format!("{}.{}", table.name, entry.name);
            if let Some(value) = sourced.find("value")
                && tree.at_path(&path).is_none()
                && counts(key, level)
                && !is_excluded(table, key, tree)
                && !(files.has_graph() && follows_study(key, tree))
                && may_hold(tree, table.name)
            {
                added.push((path, entry.name_place, value.node.clone()));
            }
        }
    }
    for (path, name_place, node) in added {
        tree.add(&path, name_place, node);
    }
    Some(Some(preset.level))
}

/// The level that a study is computed at; none if it is none.
fn level_of(tree: &Tree) -> Option<Sharing> {
    let path = Links::model.path();
    match tree.at_path(&path).map(|entry| &entry.node.raw) {
        Some(Raw::Text(word)) => Sharing::of_word(word.trim()),
        Some(_) => None,
        None => Sharing::of_word(keys::key_at(&path)?.1.default_text()),
    }
}

/// Whether a key counts at a level.
fn counts(key: &Key, level: Sharing) -> bool {
    let mut conditions = key.when.iter();
    conditions.all(|(governing, words)| *governing != "model" || words.contains(&level.word()))
}

/// Whether the study gives something that may not stand beside a key.
fn is_excluded(table: &Table, key: &Key, tree: &Tree) -> bool {
    let gives = |path: &str| tree.at_path(path).is_some();
    let path = format!("{}.{}", table.name, key.name);
    key.excludes.iter().any(|other| gives(&other.path()))
        || table.keys.iter().any(|other| {
            other.excludes.iter().any(|it| it.is_at(&path))
                && gives(&format!("{}.{}", table.name, other.name))
        })
}

/// Whether a key of hosts' links has the value of one that the study gives, if it has none itself.
/// A program that builds a network says there what its links have, hosts' links among them.
fn follows_study(key: &Key, tree: &Tree) -> bool {
    let followed = [
        (Links::host_rate, Links::rate),
        (Links::host_propagation, Links::propagation),
    ];
    let mut followed = followed.iter();
    followed.any(|(host, of)| host.key() == key.name && tree.at_path(&of.path()).is_some())
}

/// Whether a name or a path is that of a preset of networks, and not of hosts.
#[must_use]
pub fn is_network(name_or_path: &str) -> bool {
    let mut files = Files::on_disk(Path::new(""));
    let Ok(opened) = inherit::open(&NETWORKS, name_or_path, None, &mut files) else {
        return false;
    };
    let (_, tree) = document::parse("", &opened.text, &mut Diagnostics::default());
    let mut tables = tables().into_iter();
    tree.is_some_and(|tree| {
        tree.find("level").is_some() || tables.any(|table| tree.find(table.name).is_some())
    })
}

/// Reads a preset of networks, built in or a file, and the files that it inherits.
///
/// # Errors
///
/// What is wrong with it, or that there is none.
pub fn load_network(name_or_path: &str) -> Result<NetworkPreset, Diagnostics> {
    NETWORKS.load(name_or_path, read)
}

/// Reads the text of a preset of networks; `file_name` is for messages. No file is opened: it can
/// inherit only what is built in.
///
/// # Errors
///
/// What is wrong with it.
pub fn parse_network(file_name: &str, text: &str) -> Result<NetworkPreset, Diagnostics> {
    inherit::parse(file_name, text, read)
}

/// All presets of networks that are built in.
#[must_use]
pub fn list_networks() -> Vec<NetworkPreset> {
    NETWORKS.list(read)
}

/// Reads a preset and what it inherits; the tree holds both.
fn read(
    opened: Opened,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<(NetworkPreset, Tree)> {
    let errors_before = diagnostics.error_count();
    let chain = Chain::read(&NETWORKS, opened, files, diagnostics);
    chain.check(diagnostics);
    let file = chain.layers.first()?.whole();
    let tree = chain.merged();
    // What is wrong in the heads has been said, of each text by itself.
    let head = NETWORKS.head_of(&tree);
    let is_level_given = head.find("level").is_some();
    let head: NetworkHead = read_row(&head, file, &mut diagnostics.same_sources());
    if !is_level_given && chain.is_whole {
        diagnostics.push(
            Diagnostic::error("the preset has no level")
                .at(file)
                .help("add `level = \"packets\"` at the top, or \"credits\", \"queues\", ..."),
        );
    }
    let level = head.level.known();
    let mut read = Vec::new();
    for table in tables() {
        if let Some(entry) = tree.find(table.name) {
            read.extend(numbers(table, entry, false, diagnostics));
            if let Raw::Table(subtree) = &entry.node.raw {
                check_keys(table, subtree, level, diagnostics);
            }
        }
    }
    let is_there = |key: KeyName| {
        let entry = tree.at_path(&key.path());
        entry.is_some()
    };
    for (key, _) in NEEDED.iter().filter(|(key, of)| {
        chain.is_whole && of.is_none_or(|of| level == Some(of)) && !is_there(*key)
    }) {
        let meaning = keys::key_at(&key.path()).map_or("", |(_, key)| key.meaning);
        diagnostics.push(missing(*key, file).help(format!(
            "a preset gives or inherits what its network does; it is {meaning}"
        )));
    }
    if diagnostics.error_count() > errors_before {
        return None;
    }
    let text = |key: Setting<String>| key.known().unwrap_or_default();
    let preset = NetworkPreset {
        name: text(head.name),
        description: text(head.description),
        source: text(head.source),
        inherits: chain.parents.clone(),
        level: level?,
        numbers: read,
    };
    Some((preset, tree))
}

fn missing(key: KeyName, file: Place) -> Diagnostic {
    let title = format!("missing key `{}` in [{}]", key.key(), key.root());
    Diagnostic::error(title).at(file)
}

/// Complains of keys that are the study's, and of those that do not count at the preset's level.
fn check_keys(
    table: &'static Table,
    subtree: &Tree,
    level: Option<Sharing>,
    diagnostics: &mut Diagnostics,
) {
    for entry in &subtree.entries {
        let Some(key) = table.find(&entry.name) else {
            continue;
        };
        let path = format!("{}.{}", table.name, key.name);
        let mut others = NOT_OF_PRESETS.iter();
        if let Some((_, help)) = others.find(|(other, _)| other.is_at(&path)) {
            diagnostics.push(
                Diagnostic::error(format!("`{}` is no number of a preset", key.name))
                    .at(entry.name_place)
                    .help((*help).to_owned()),
            );
        } else if let Some(level) = level
            && !counts(key, level)
        {
            let title = format!("`{}` in [{}] has no effect here", key.name, table.name);
            diagnostics.push(
                Diagnostic::error(title)
                    .at(entry.name_place)
                    .label(format!("not used with level = \"{}\"", level.name()))
                    .help(format!(
                        "leave it out, or write {}",
                        key.used_with().replace("model", "level")
                    )),
            );
        }
    }
}
