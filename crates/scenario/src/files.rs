//! Files that a study names: on disk, or carried along inside it.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use viaduct_sim::workload::{ListedMessage, MessageList};
use viaduct_topology::Topology;

use crate::document::TEXT_BYTES_MAX;

/// Where files come from. Each is read once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// Texts carried in the study, or read before, by the path that the study writes.
    texts: BTreeMap<String, Arc<str>>,
    /// The study's directory; none where the disk is out of bounds.
    base: Option<PathBuf>,
    /// Networks that a program handed in, by the path that the study writes: no text is read.
    graphs: BTreeMap<String, Arc<Topology>>,
    /// Messages that a program handed in, by the path that the study writes.
    messages: BTreeMap<String, Arc<[ListedMessage]>>,
    /// Lists made before.
    lists: BTreeMap<String, Arc<MessageList>>,
    used: BTreeMap<String, Arc<str>>,
}

impl Files {
    /// Only what is carried along.
    pub(crate) fn carried() -> Self {
        Self::default()
    }

    /// Also what lies on disk; paths are relative to `base`.
    pub(crate) fn on_disk(base: &Path) -> Self {
        Self {
            base: Some(base.to_owned()),
            ..Self::default()
        }
    }

    /// Adds a text that is carried along.
    pub(crate) fn carry(&mut self, path: &str, text: &str) {
        self.texts.insert(path.to_owned(), text.into());
    }

    /// Adds a network in place of the text that would describe it.
    pub(crate) fn hand_in(&mut self, path: &str, graph: Arc<Topology>) {
        self.graphs.insert(path.to_owned(), graph);
    }

    /// A network that was handed in.
    pub(crate) fn graph(&self, path: &str) -> Option<Arc<Topology>> {
        self.graphs.get(path).cloned()
    }

    /// Adds messages in place of the text that would list them.
    pub(crate) fn hand_in_messages(&mut self, path: &str, messages: Arc<[ListedMessage]>) {
        self.messages.insert(path.to_owned(), messages);
    }

    /// Messages that were handed in.
    pub(crate) fn messages(&self, path: &str) -> Option<Arc<[ListedMessage]>> {
        self.messages.get(path).cloned()
    }

    /// Remembers a list: the points of a sweep share it.
    pub(crate) fn keep_list(&mut self, path: &str, list: Arc<MessageList>) {
        self.lists.insert(path.to_owned(), list);
    }

    /// A list made before.
    pub(crate) fn list(&self, path: &str) -> Option<Arc<MessageList>> {
        self.lists.get(path).cloned()
    }

    /// The text of a file, remembered as used.
    pub(crate) fn text(&mut self, path: &str) -> Result<Arc<str>, String> {
        let text = self.peek(path)?;
        self.used.insert(path.to_owned(), Arc::clone(&text));
        Ok(text)
    }

    /// The text of a file.
    pub(crate) fn peek(&mut self, path: &str) -> Result<Arc<str>, String> {
        if let Some(text) = self.texts.get(path) {
            return Ok(Arc::clone(text));
        }
        let Some(base) = &self.base else {
            return Err("not carried in [files], and no other file is read here".to_owned());
        };
        let text: Arc<str> = read_text(&base.join(path))?.into();
        self.texts.insert(path.to_owned(), Arc::clone(&text));
        Ok(text)
    }

    /// All texts that were carried or read so far, presets among them, by path.
    pub(crate) fn known(&self) -> &BTreeMap<String, Arc<str>> {
        &self.texts
    }

    /// The files used so far, by path.
    pub(crate) fn used(&self) -> &BTreeMap<String, Arc<str>> {
        &self.used
    }
}

/// Reads a text file of bounded length; the error says why not, without the path.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    // Before it is opened: a pipe that nobody writes to would never open.
    let metadata = std::fs::metadata(path).map_err(|error| reason(&error))?;
    if !metadata.is_file() {
        return Err("it is no ordinary file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(|error| reason(&error))?;
    let mut text = String::new();
    let limit = TEXT_BYTES_MAX as u64;
    file.take(limit + 1)
        .read_to_string(&mut text)
        .map_err(|error| reason(&error))?;
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("it is longer than {limit} B"));
    }
    Ok(text)
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "it may not be read".to_owned(),
        std::io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    }
}
