//! Presets that inherit others: the chain of their texts, and the one table of numbers it comes to.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::builtin;
use crate::diagnostics::{Diagnostic, Diagnostics, Place, excerpt, nearest};
use crate::document::{self, Entry, Node, Raw, Tree};
use crate::files::Files;
use crate::keys::Table;
use crate::network_preset;
use crate::preset;
use crate::schema::{NetworkHead, PresetHead};
use crate::section::Section;
use crate::settings::{bad_value, unknown_key};

/// Most presets that one inherits, each by the one before it.
pub(crate) const PARENTS_MAX: usize = 8;

/// The key that names the preset inherited.
const INHERITS: &str = "inherits";

/// Presets of one kind: those that are built in, and which keys their files have.
#[derive(Debug)]
pub(crate) struct Library {
    /// What they are presets of, in the plural.
    of: &'static str,
    /// The key of a study that names one.
    key: &'static str,
    texts: &'static [(&'static str, &'static str)],
    /// Where those built in lie.
    folder: &'static str,
    head: fn() -> &'static Table,
    tables: fn() -> Vec<&'static Table>,
    /// Whether their files have published figures.
    has_figures: bool,
}

/// Presets of hosts.
pub(crate) static HOSTS: Library = Library {
    of: "hosts",
    key: "hosts.nic",
    texts: &builtin::MODELS,
    folder: "models",
    head: PresetHead::table,
    tables: preset::tables,
    has_figures: true,
};

/// Presets of networks.
pub(crate) static NETWORKS: Library = Library {
    of: "networks",
    key: "links.preset",
    texts: &builtin::NETWORKS,
    folder: "models/networks",
    head: NetworkHead::table,
    tables: network_preset::tables,
    has_figures: false,
};

/// All kinds.
pub(crate) static LIBRARIES: [&Library; 2] = [&HOSTS, &NETWORKS];

/// Reads the text of a preset; `file_name` is for messages. No file is opened.
pub(crate) fn parse<T>(file_name: &str, text: &str, read: Read<T>) -> Result<T, Diagnostics> {
    let opened = Opened {
        path: file_name.to_owned(),
        text: text.into(),
    };
    without_errors(opened, Files::carried(), read)
}

fn without_errors<T>(opened: Opened, mut files: Files, read: Read<T>) -> Result<T, Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    match read(opened, &mut files, &mut diagnostics) {
        Some((preset, _)) if !diagnostics.has_errors() => Ok(preset),
        _ => Err(diagnostics),
    }
}

/// What reads a preset and what it inherits; the tree holds both.
pub(crate) type Read<T> = fn(Opened, &mut Files, &mut Diagnostics) -> Option<(T, Tree)>;

impl Library {
    /// Reads a preset, built in or a file, and the files that it inherits.
    pub(crate) fn load<T>(&self, name_or_path: &str, read: Read<T>) -> Result<T, Diagnostics> {
        let mut files = Files::on_disk(Path::new(""));
        match open(self, name_or_path, None, &mut files) {
            Ok(opened) => without_errors(opened, files, read),
            Err(diagnostic) => {
                let mut diagnostics = Diagnostics::default();
                diagnostics.push(diagnostic);
                Err(diagnostics)
            }
        }
    }

    /// All that are built in.
    pub(crate) fn list<T>(&self, read: Read<T>) -> Vec<T> {
        let presets = self
            .texts
            .iter()
            .map(|(name, text)| parse(name, text, read));
        presets.filter_map(Result::ok).collect()
    }

    /// The text of one that is built in.
    fn text(&self, name: &str) -> Option<&'static str> {
        let mut texts = self.texts.iter();
        texts
            .find(|(known, _)| *known == name)
            .map(|(_, text)| *text)
    }

    /// The table that its files call by a name.
    pub(crate) fn table_at(&self, root: &str) -> Option<&'static Table> {
        (self.tables)()
            .into_iter()
            .find(|table| table.root() == root)
    }

    /// What stands before the tables of a preset.
    pub(crate) fn head_of(&self, tree: &Tree) -> Tree {
        let is_head = |entry: &&Entry| (self.head)().find(&entry.name).is_some();
        let entries = tree.entries.iter().filter(is_head).cloned().collect();
        Tree { entries }
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.texts.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }

    fn unknown(&self, name: &str, place: Option<Place>) -> Diagnostic {
        let near = nearest(name, self.texts.iter().map(|(name, _)| *name));
        let mut others = LIBRARIES.iter().filter(|other| other.text(name).is_some());
        let near = match (others.next(), near) {
            (Some(other), _) => format!("it is one of {}, for {}; ", other.of, other.key),
            (None, Some(near)) => format!("did you mean \"{near}\"? "),
            (None, None) => String::new(),
        };
        let of = match std::ptr::eq(self, &raw const HOSTS) {
            true => String::new(),
            false => format!(" of {}", self.of),
        };
        let all = format!("the presets{of} are {}", self.names());
        // Without a place nothing else shows which name is meant, nor a label.
        match place {
            Some(place) => Diagnostic::error(format!("no such preset{of}"))
                .at(place)
                .label(all)
                .help(format!(
                    "{near}a file of your own ends in .toml; viaduct models shows the presets"
                )),
            None => Diagnostic::error(format!("no preset {}", excerpt(name)))
                .help(format!("{near}{all}; a file of your own ends in .toml")),
        }
    }
}

/// A preset's text and where it is from.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    /// Its path: as messages show it, and what the paths in it are relative to.
    pub(crate) path: String,
    pub(crate) text: Arc<str>,
}

/// Finds a preset: one that is built in, by its name, or a file. `place` is where it is named.
pub(crate) fn open(
    library: &Library,
    name: &str,
    place: Option<Place>,
    files: &mut Files,
) -> Result<Opened, Diagnostic> {
    open_beside(library, name, Path::new(""), place, files)
}

fn open_beside(
    library: &Library,
    name: &str,
    directory: &Path,
    place: Option<Place>,
    files: &mut Files,
) -> Result<Opened, Diagnostic> {
    if let Some(text) = library.text(name) {
        return Ok(Opened {
            path: format!("{}/{name}.toml", library.folder),
            text: text.into(),
        });
    }
    if !name.ends_with(".toml") {
        return Err(library.unknown(name, place));
    }
    let path = directory.join(name).to_string_lossy().into_owned();
    match files.peek(&path) {
        Ok(text) => Ok(Opened { path, text }),
        Err(reason) => {
            let title = format!("cannot read the preset {}: {reason}", excerpt(&path));
            let error = Diagnostic::error(title).at_maybe(place);
            Err(match place {
                Some(_) => error,
                None => error.help(format!("built in are {}", library.names())),
            })
        }
    }
}

/// A preset and those that it inherits, the nearest first.
#[derive(Debug)]
pub(crate) struct Chain {
    library: &'static Library,
    pub(crate) layers: Vec<Layer>,
    /// Those inherited, as the files name them.
    pub(crate) parents: Vec<String>,
    /// False if the end of the chain could not be reached: then the diagnostics say why, and a
    /// number that is missing may stand there.
    pub(crate) is_whole: bool,
}

/// One text of a chain.
#[derive(Debug)]
pub(crate) struct Layer {
    opened: Opened,
    source: usize,
    pub(crate) tree: Tree,
}

impl Layer {
    /// The text as a whole, for what is not in it.
    pub(crate) const fn whole(&self) -> Place {
        Place {
            source: self.source,
            start: 0,
            end: 0,
        }
    }

    /// Whether it has something of this name.
    pub(crate) fn gives(&self, name: &str) -> bool {
        self.tree.find(name).is_some()
    }
}

impl Chain {
    /// Reads a preset and what it inherits.
    pub(crate) fn read(
        library: &'static Library,
        first: Opened,
        files: &mut Files,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let mut chain = Self {
            library,
            layers: Vec::new(),
            parents: Vec::new(),
            is_whole: false,
        };
        let mut next = first;
        loop {
            let (source, tree) = document::parse(&next.path, &next.text, diagnostics);
            let Some(tree) = tree else {
                return chain;
            };
            let inherits = tree.find(INHERITS).map(|entry| entry.node.clone());
            chain.layers.push(Layer {
                opened: next,
                source,
                tree,
            });
            let (name, place) = match inherits {
                None => {
                    chain.is_whole = true;
                    return chain;
                }
                Some(Node {
                    place,
                    raw: Raw::Text(name),
                }) => (name.trim().to_owned(), place),
                // The list of keys complains of what is no text.
                Some(_) => return chain,
            };
            match chain.parent(&name, place, files) {
                Ok(parent) => next = parent,
                Err(diagnostic) => {
                    diagnostics.push(diagnostic);
                    return chain;
                }
            }
            chain.parents.push(name);
        }
    }

    /// Opens what the last layer inherits.
    fn parent(&self, name: &str, place: Place, files: &mut Files) -> Result<Opened, Diagnostic> {
        let child = self.layers.last().map_or("", |layer| &layer.opened.path);
        let directory = Path::new(child).parent().unwrap_or(Path::new(""));
        let parent =
            open_beside(self.library, name, directory, Some(place), files).map_err(|error| {
                if error.help_text().is_some() {
                    return error;
                }
                error.help(format!(
                    "the path is relative to the file that it stands in; built in are {}",
                    self.library.names()
                ))
            })?;
        // Through a link to a directory, `..` leads elsewhere than the path says: files that only
        // look like one differ in their text.
        let is_parent = |layer: &&Layer| {
            plain(&layer.opened.path) == plain(&parent.path) && layer.opened.text == parent.text
        };
        if let Some(again) = self.layers.iter().position(|layer| is_parent(&layer)) {
            let last = self.layers.len() - 1;
            let between: Vec<String> = self.layers[again..last]
                .iter()
                .skip(1)
                .map(|layer| excerpt(&layer.opened.path))
                .collect();
            let label = if again == last {
                "this is the file itself".to_owned()
            } else if between.is_empty() {
                "which inherits this".to_owned()
            } else {
                format!("which inherits this by way of {}", between.join(", "))
            };
            return Err(Diagnostic::error("a preset inherits itself")
                .at(place)
                .label(label)
                .help(format!(
                    "name a preset outside the circle, or take `{INHERITS}` out and give every \
                     number"
                )));
        }
        if self.layers.len() > PARENTS_MAX {
            return Err(Diagnostic::error(format!(
                "a preset inherits more than {PARENTS_MAX} others"
            ))
            .at(place)
            .label("this is one too many")
            .help(format!(
                "put the numbers of some into one file, and take `{INHERITS}` out there"
            )));
        }
        Ok(parent)
    }

    /// What is wrong with each text by itself.
    pub(crate) fn check(&self, diagnostics: &mut Diagnostics) {
        for layer in &self.layers {
            check_layer(self.library, layer, diagnostics);
        }
    }

    /// The preset with what it inherits: of each known key the nearest entry, its place in the
    /// file that gives it. The name is its own.
    pub(crate) fn merged(&self) -> Tree {
        let mut entries: Vec<Entry> = Vec::new();
        for key in &(self.library.head)().keys {
            let is_own = key.name == "name" || key.name == INHERITS;
            let count = if is_own { 1 } else { self.layers.len() };
            let mut layers = self.layers.iter().take(count);
            entries.extend(layers.find_map(|layer| layer.tree.find(key.name)).cloned());
        }
        for table in (self.library.tables)() {
            let short = table.root();
            let tables: Vec<(&Entry, &Tree)> = self
                .layers
                .iter()
                .filter_map(|layer| {
                    let entry = layer.tree.find(short)?;
                    match &entry.node.raw {
                        Raw::Table(tree) => Some((entry, tree)),
                        _ => None,
                    }
                })
                .collect();
            let Some((nearest, _)) = tables.first() else {
                continue;
            };
            let keys = table.keys.iter();
            let numbers = keys
                .filter_map(|key| tables.iter().find_map(|(_, tree)| tree.find(key.name)))
                .cloned()
                .collect();
            entries.push(Entry {
                name: short.to_owned(),
                name_place: nearest.name_place,
                node: Node {
                    place: nearest.node.place,
                    raw: Raw::Table(Tree { entries: numbers }),
                },
                overridden: false,
                counts_with: None,
            });
        }
        Tree { entries }
    }
}

/// What is wrong with one text, whatever inherits it: its head, and keys that no preset has.
fn check_layer(library: &Library, layer: &Layer, diagnostics: &mut Diagnostics) {
    let head = (library.head)();
    for entry in &layer.tree.entries {
        // Looking for what was meant takes its time: not for each of a million.
        if diagnostics.is_full() {
            break;
        }
        match (library.table_at(&entry.name), &entry.node.raw) {
            (Some(table), Raw::Table(subtree)) => {
                unknown_numbers(head, table, subtree, diagnostics)
            }
            (Some(table), raw) => diagnostics.push(
                Diagnostic::error(format!("`{}` is a table of numbers", table.root()))
                    .at(entry.node.place)
                    .label(format!("this is {}", raw.noun())),
            ),
            // Its rows are read beside the numbers.
            (None, _) if library.has_figures && entry.name == "published" => {}
            (None, _) if head.find(&entry.name).is_none() => {
                diagnostics.push(unknown_key(head, &entry.name).at(entry.name_place));
            }
            (None, _) => {}
        }
    }
    for key in &head.keys {
        match layer.tree.find(key.name) {
            Some(entry) => {
                if let Err(error) = key.kind.read(&entry.node, false) {
                    diagnostics.push(bad_value(head, key, &entry.node, &error));
                }
            }
            None if key.name == "name" => {
                let help = "add `name = \"...\"` at the top";
                diagnostics.push(
                    Diagnostic::error("the preset has no name")
                        .at(layer.whole())
                        .help(help),
                );
            }
            None => {}
        }
    }
}

fn unknown_numbers(
    head: &Table,
    table: &'static Table,
    subtree: &Tree,
    diagnostics: &mut Diagnostics,
) {
    for entry in &subtree.entries {
        if diagnostics.is_full() {
            break;
        }
        if table.find(&entry.name).is_none() {
            let mut diagnostic = unknown_key(table, &entry.name).at(entry.name_place);
            if head.find(&entry.name).is_some() {
                diagnostic = diagnostic.help("it stands at the top, before the first table");
            }
            diagnostics.push(diagnostic);
        }
    }
}

/// A path without `.` and `name/..`.
fn plain(path: &str) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(plain.components().next_back(), Some(Component::Normal(_))) =>
            {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}
