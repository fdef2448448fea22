//! Presets that inherit others: the chain of their texts, and the one table of numbers it comes to.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::builtin;
use crate::diagnostics::{Diagnostic, Diagnostics, Place, excerpt, nearest};
use crate::document::{self, Entry, Node, Raw, Tree};
use crate::files::Files;
use crate::preset;
use crate::schema::PresetHead;
use crate::section::Section;

/// Most presets that one inherits, each by the one before it.
pub(crate) const PARENTS_MAX: usize = 8;

/// The key that names the preset inherited.
const INHERITS: &str = "inherits";

/// A preset's text and where it is from.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    /// Its path: as messages show it, and what the paths in it are relative to.
    pub(crate) path: String,
    pub(crate) text: Arc<str>,
}

/// Finds a preset: one that is built in, by its name, or a file. `place` is where it is named.
pub(crate) fn open(
    name: &str,
    place: Option<Place>,
    files: &mut Files,
) -> Result<Opened, Diagnostic> {
    open_beside(name, Path::new(""), place, files)
}

fn open_beside(
    name: &str,
    directory: &Path,
    place: Option<Place>,
    files: &mut Files,
) -> Result<Opened, Diagnostic> {
    if let Some(text) = builtin::model(name) {
        return Ok(Opened {
            path: format!("models/{name}.toml"),
            text: text.into(),
        });
    }
    if !name.ends_with(".toml") {
        return Err(unknown_preset(name, place));
    }
    let path = directory.join(name).to_string_lossy().into_owned();
    match files.peek(&path) {
        Ok(text) => Ok(Opened { path, text }),
        Err(reason) => {
            let title = format!("cannot read the preset {}: {reason}", excerpt(&path));
            let error = Diagnostic::error(title).at_maybe(place);
            Err(match place {
                Some(_) => error,
                None => error.help(format!("built in are {}", names())),
            })
        }
    }
}

fn unknown_preset(name: &str, place: Option<Place>) -> Diagnostic {
    let near = nearest(name, builtin::MODELS.iter().map(|(name, _)| *name));
    let near = near.map_or(String::new(), |near| format!("did you mean \"{near}\"? "));
    let all = format!("the presets are {}", names());
    // Without a place nothing else shows which name is meant, nor a label.
    match place {
        Some(place) => Diagnostic::error("no such preset")
            .at(place)
            .label(all)
            .help(format!(
                "{near}a file of your own ends in .toml; viaduct models shows the presets"
            )),
        None => Diagnostic::error(format!("no preset {}", excerpt(name)))
            .help(format!("{near}{all}; a file of your own ends in .toml")),
    }
}

fn names() -> String {
    let names: Vec<&str> = builtin::MODELS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// A preset and those that it inherits, the nearest first.
#[derive(Debug, Default)]
pub(crate) struct Chain {
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
    pub(crate) fn read(first: Opened, files: &mut Files, diagnostics: &mut Diagnostics) -> Self {
        let mut chain = Self::default();
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
        let parent = open_beside(name, directory, Some(place), files).map_err(|error| {
            if error.help_text().is_some() {
                return error;
            }
            error.help(format!(
                "the path is relative to the file that it stands in; built in are {}",
                names()
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

    /// The preset with what it inherits: of each known key the nearest entry, its place in the
    /// file that gives it. The name is its own.
    pub(crate) fn merged(&self) -> Tree {
        let mut entries: Vec<Entry> = Vec::new();
        for key in &PresetHead::table().keys {
            let is_own = key.name == "name" || key.name == INHERITS;
            let count = if is_own { 1 } else { self.layers.len() };
            let mut layers = self.layers.iter().take(count);
            entries.extend(layers.find_map(|layer| layer.tree.find(key.name)).cloned());
        }
        for table in preset::tables() {
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
            });
        }
        Tree { entries }
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
