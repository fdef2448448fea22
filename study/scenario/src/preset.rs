//! Presets of a host's hardware: files in which each number has its source and how sure it is.

pub(crate) mod number;

use crate::diagnostics::{Diagnostic, Diagnostics, Place};
use crate::document::{Raw, Tree};
use crate::endpoints::EndpointTables;
use crate::figure::{self, Figure};
use crate::files::Files;
use crate::inherit::{self, Chain, HOSTS, Opened};
use crate::keys::{Key, Table};
use crate::schema::{
    Bus, Cable, Cpu, Endpoints, Firmware, HostSide, Hosts, Interface, InterfaceNetwork, Kernel,
    MechanismKind, Memory, Model, Nic, PresetHead, Rdma, RemoteWrites, Transport,
};
use crate::section::{KeyState, Section, Setting, Source};
use crate::settings::read_row;
use crate::value::Value;

use number::numbers;
pub use number::{Confidence, PresetNumber};

/// A preset, for printing.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Its name.
    pub name: String,
    /// The hardware, one line.
    pub description: String,
    /// Where its numbers come from, one line.
    pub source: String,
    /// The presets that it inherits, each by the one before, as the files name them.
    pub inherits: Vec<String>,
    /// How the adapter carries messages.
    pub mechanism: MechanismKind,
    /// Each number, in the order of the list of keys.
    pub numbers: Vec<PresetNumber>,
    /// Published figures of programs on such hosts.
    pub published: Vec<Figure>,
}

impl Preset {
    /// Whether it is of interfaces with endpoints, which have no VIs: `load_endpoints` is for it.
    #[must_use]
    pub fn has_endpoints(&self) -> bool {
        self.mechanism == MechanismKind::Endpoints
    }

    /// A table of its numbers as they are now; none if it leaves the whole of it out.
    pub(crate) fn section<S: Section>(&self) -> Option<S> {
        let table = S::table();
        let mut numbers = self.numbers.iter();
        numbers.any(|number| number.table == table.root()).then(|| {
            S::read(&mut Numbers {
                preset: self,
                table,
                keys: table.keys.iter(),
            })
        })
    }
}

/// The numbers of one table of a preset.
struct Numbers<'a> {
    preset: &'a Preset,
    table: &'static Table,
    keys: std::slice::Iter<'static, Key>,
}

impl Source for Numbers<'_> {
    fn next_key(&mut self) -> Setting<Value> {
        // A section has as many fields as its table has keys: one list makes both.
        let key = self.keys.next().unwrap_or(&self.table.keys[0]);
        let is_it = |it: &&PresetNumber| it.table == self.table.root() && it.key == key.name;
        let number = self.preset.numbers.iter().find(is_it);
        let state = number.map_or(KeyState::Unset, |number| {
            KeyState::Value(number.meant.clone())
        });
        let around = Place {
            source: usize::MAX,
            start: 0,
            end: 0,
        };
        Setting::new((self.table, key), state, None, around)
    }
}

/// The tables of a preset; what its file calls them is [`Table::root`].
pub(crate) fn tables() -> Vec<&'static Table> {
    vec![
        Cpu::table(),
        Bus::table(),
        Nic::table(),
        RemoteWrites::table(),
        Firmware::table(),
        Kernel::table(),
        Rdma::table(),
        Memory::table(),
        Cable::table(),
        Endpoints::table(),
        Interface::table(),
        HostSide::table(),
        InterfaceNetwork::table(),
        Transport::table(),
    ]
}

/// Which table of its own a mechanism has.
fn own_table(mechanism: MechanismKind) -> &'static Table {
    match mechanism {
        MechanismKind::Native => Nic::table(),
        MechanismKind::RemoteWrites => RemoteWrites::table(),
        MechanismKind::Firmware => Firmware::table(),
        MechanismKind::Kernel => Kernel::table(),
        MechanismKind::Rdma => Rdma::table(),
        MechanismKind::Endpoints => Endpoints::table(),
    }
}

/// The same with those beside it that no other mechanism has.
fn own_tables(mechanism: MechanismKind) -> Vec<&'static Table> {
    match mechanism {
        MechanismKind::Endpoints => EndpointTables::tables().to_vec(),
        _ => vec![own_table(mechanism)],
    }
}

/// Whether a preset of a mechanism has use for a table, and whether it must give it.
fn needs(mechanism: MechanismKind, table: &'static Table) -> (bool, bool) {
    let is = |others: &[&'static Table]| others.iter().any(|other| std::ptr::eq(*other, table));
    let has_endpoints = mechanism == MechanismKind::Endpoints;
    if is(&[Cpu::table(), Bus::table()]) {
        (!has_endpoints, !has_endpoints)
    } else if is(&[Cable::table(), Memory::table()]) {
        (!has_endpoints, false)
    } else if is(&[
        Interface::table(),
        HostSide::table(),
        InterfaceNetwork::table(),
    ]) {
        (has_endpoints, has_endpoints)
    } else if is(&[Transport::table()]) {
        (has_endpoints, false)
    } else {
        let is_own = is(&[own_table(mechanism)]);
        (is_own, is_own)
    }
}

/// The name that says that the study itself holds the hardware.
pub(crate) const INLINE: &str = "inline";

/// Finds the hardware that a study names and merges it below the study's own values: the preset, if
/// it is one. None if there is none or it is wrong; then the diagnostics say why.
pub(crate) fn merge(
    tree: &mut Tree,
    default_name: &str,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<Option<Preset>> {
    let (name, place) = match tree.at_path(&Hosts::nic.path()) {
        None => (default_name.to_owned(), None),
        Some(entry) => match &entry.node.raw {
            Raw::Text(text) => (text.trim().to_owned(), Some(entry.node.place)),
            // The list of keys complains of what is no text.
            _ => return None,
        },
    };
    if name == INLINE {
        return Some(None);
    }
    let opened = match inherit::open(&HOSTS, &name, place, files) {
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
    let mechanism_path = Model::mechanism.path();
    // A study that gives a mechanism of its own gives that adapter's numbers as well.
    let chosen = tree.at_path(&mechanism_path).is_some();
    let mut tables = match preset.has_endpoints() {
        true => Vec::new(),
        false => vec![Cpu::table(), Bus::table(), Memory::table()],
    };
    if !chosen {
        tables.extend(own_tables(preset.mechanism));
    }
    for table in tables {
        let (short, long) = (table.root(), table.name);
        let Some(Raw::Table(subtree)) = preset_tree.find(short).map(|entry| &entry.node.raw) else {
            continue;
        };
        for entry in &subtree.entries {
            let path = format!("{long}.{}", entry.name);
            if tree.at_path(&path).is_none() && may_hold(tree, long) {
                tree.set(&path, entry.name_place, entry.node.clone());
            }
        }
    }
    if let Some(entry) = preset_tree.find("mechanism")
        && !chosen
        && preset.mechanism != MechanismKind::Native
        && may_hold(tree, Model::table().name)
    {
        tree.set(&mechanism_path, entry.name_place, entry.node.clone());
    }
    let name_path = Model::name.path();
    if let Some(entry) = preset_tree.find("name")
        && tree.at_path(&name_path).is_none()
        && may_hold(tree, Model::table().name)
    {
        let mut node = entry.node.clone();
        node.raw = Raw::Text(preset.name.clone());
        tree.set(&name_path, entry.name_place, node);
    }
    Some(Some(preset))
}

/// Whether a path consists of tables as far as it exists: what else stands there is a mistake that
/// must not be written over.
pub(crate) fn may_hold(tree: &Tree, path: &str) -> bool {
    let ends = path
        .match_indices('.')
        .map(|(at, _)| at)
        .chain([path.len()]);
    ends.map(|end| &path[..end]).all(|part| {
        tree.at_path(part)
            .is_none_or(|entry| matches!(entry.node.raw, Raw::Table(_)))
    })
}

/// Reads a preset of the given name, built in or a file, and the files that it inherits.
///
/// # Errors
///
/// What is wrong with it, or that there is none.
pub fn load_preset(name_or_path: &str) -> Result<Preset, Diagnostics> {
    HOSTS.load(name_or_path, read)
}

/// Reads a preset's text; `file_name` is for messages. No file is opened: it can inherit only what
/// is built in.
///
/// # Errors
///
/// What is wrong with it.
pub fn parse_preset(file_name: &str, text: &str) -> Result<Preset, Diagnostics> {
    inherit::parse(file_name, text, read)
}

/// All presets that are built in.
#[must_use]
pub fn list_models() -> Vec<Preset> {
    HOSTS.list(read)
}

/// Reads a preset and what it inherits; the tree holds both.
fn read(
    opened: Opened,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<(Preset, Tree)> {
    let chain = Chain::read(&HOSTS, opened, files, diagnostics);
    chain.check(diagnostics);
    let whole = chain.layers.first()?.whole();
    let tree = chain.merged();
    // What is wrong in the heads has been said, of each text by itself.
    let head: PresetHead = read_row(
        &HOSTS.head_of(&tree),
        whole,
        &mut diagnostics.same_sources(),
    );
    let text = |key: Setting<String>| key.known().unwrap_or_default();
    let mechanism = head.mechanism.known().unwrap_or(MechanismKind::Native);
    let mut preset = Preset {
        name: text(head.name),
        description: text(head.description),
        source: text(head.source),
        inherits: chain.parents.clone(),
        mechanism,
        numbers: Vec::new(),
        published: chain.layers.first().map_or_else(Vec::new, |own| {
            figure::read(&own.tree, mechanism, diagnostics)
        }),
    };
    for table in tables() {
        let (has_use, must_give) = needs(mechanism, table);
        if !has_use {
            continue;
        }
        let (short, long) = (table.root(), table.name);
        if let Some(entry) = tree.find(short) {
            let read = numbers(table, entry, chain.is_whole, diagnostics);
            preset.numbers.extend(read);
        } else if must_give
            && chain.is_whole
            && !chain.layers.iter().any(|layer| layer.gives(short))
        {
            diagnostics.push(
                Diagnostic::error(format!("the preset has no table [{short}]"))
                    .at(whole)
                    .help(format!("its keys: viaduct keys {long}")),
            );
        }
    }
    Some((preset, tree))
}
