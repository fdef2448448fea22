//! Files that a study names: on disk, or carried along inside it.

use std::collections::BTreeMap;
use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use viaduct_cluster::workload::{ListedMessage, MessageList};
use viaduct_operations::trace::Trace;
use viaduct_operations::{Graph, goal, gzip};
use viaduct_topology::Topology;

use crate::document::TEXT_BYTES_MAX;
use crate::simgrid_files;
use crate::trace_files::{self, TraceFiles, TraceTexts};

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
    /// Graphs of operations that a program handed in, by the path that the study writes.
    handed_in_graphs: BTreeMap<String, Arc<Graph>>,
    /// Graphs of operations read before.
    applications: BTreeMap<String, Arc<Graph>>,
    /// Traces read before, with the texts by which a study carries them.
    traces: BTreeMap<String, (Arc<TraceFiles>, TraceTexts)>,
    /// SimGrid's traces read before.
    simgrid_traces: BTreeMap<String, Arc<Trace>>,
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

    /// Whether a program has built the network.
    pub(crate) fn has_graph(&self) -> bool {
        !self.graphs.is_empty()
    }

    /// Adds messages in place of the text that would list them.
    pub(crate) fn hand_in_messages(&mut self, path: &str, messages: Arc<[ListedMessage]>) {
        self.messages.insert(path.to_owned(), messages);
    }

    /// Messages that were handed in.
    pub(crate) fn messages(&self, path: &str) -> Option<Arc<[ListedMessage]>> {
        self.messages.get(path).cloned()
    }

    /// Adds a graph of operations in place of the file that would have it.
    pub(crate) fn hand_in_application(&mut self, path: &str, graph: Arc<Graph>) {
        self.handed_in_graphs.insert(path.to_owned(), graph);
    }

    /// A graph of operations that was handed in.
    pub(crate) fn handed_in_application(&self, path: &str) -> Option<Arc<Graph>> {
        self.handed_in_graphs.get(path).cloned()
    }

    /// Remembers a list: the points of a sweep share it.
    pub(crate) fn keep_list(&mut self, path: &str, list: Arc<MessageList>) {
        self.lists.insert(path.to_owned(), list);
    }

    /// A list made before.
    pub(crate) fn list(&self, path: &str) -> Option<Arc<MessageList>> {
        self.lists.get(path).cloned()
    }

    /// Remembers a graph of operations: the points of a sweep share it.
    pub(crate) fn keep_application(&mut self, path: &str, graph: Arc<Graph>) {
        self.applications.insert(path.to_owned(), graph);
    }

    /// A graph of operations read before.
    pub(crate) fn application(&self, path: &str) -> Option<Arc<Graph>> {
        self.applications.get(path).cloned()
    }

    /// The text of a file, remembered as used.
    pub(crate) fn text(&mut self, path: &str) -> Result<Arc<str>, String> {
        let text = self.peek(path)?;
        self.used.insert(path.to_owned(), Arc::clone(&text));
        Ok(text)
    }

    /// The text of a GOAL file, remembered as used; a binary one as the text that says the same.
    pub(crate) fn goal_text(&mut self, path: &str) -> Result<Arc<str>, String> {
        if let Some(base) = self
            .base
            .as_ref()
            .filter(|_| !self.texts.contains_key(path))
        {
            let bytes = read_bytes(&base.join(path))?;
            let text = match goal::is_binary(&bytes) {
                true => text_of_binary(&bytes)?,
                false => text_of(bytes)?,
            };
            self.texts.insert(path.to_owned(), text.into());
        }
        self.text(path)
    }

    /// The text of a file, remembered as used; of one by gzip what is packed in it.
    pub(crate) fn packed_text(&mut self, path: &str) -> Result<Arc<str>, String> {
        let on_disk = self.base.as_ref().map(|base| base.join(path));
        if let Some(place) = on_disk.filter(|_| !self.texts.contains_key(path)) {
            let text = text_of(gzip::unpacked(read_bytes(&place)?, TEXT_BYTES_MAX)?)?;
            self.texts.insert(path.to_owned(), text.into());
        }
        self.text(path)
    }

    /// The traces of a path, remembered as used: the study carries them in their JSON form.
    pub(crate) fn trace(&mut self, path: &str) -> Result<Arc<TraceFiles>, String> {
        if !self.traces.contains_key(path) {
            let carried = trace_files::carried(path, &self.texts)?;
            let (files, names) = match (carried, &self.base) {
                (Some(carried), _) => carried,
                (None, Some(base)) => trace_files::on_disk(base, path)?,
                (None, None) => {
                    return Err("not carried in [files], and no other file is read here".to_owned());
                }
            };
            let texts = files.texts(names)?;
            self.traces
                .insert(path.to_owned(), (Arc::new(files), texts));
        }
        let (files, texts) = &self.traces[path];
        for (name, text) in texts {
            self.texts.insert(name.clone(), Arc::clone(text));
            self.used.insert(name.clone(), Arc::clone(text));
        }
        Ok(Arc::clone(files))
    }

    /// The SimGrid trace of a path; its texts are remembered as used.
    pub(crate) fn simgrid_trace(&mut self, path: &str) -> Result<Arc<Trace>, String> {
        if let Some(trace) = self.simgrid_traces.get(path) {
            return Ok(Arc::clone(trace));
        }
        let (trace, _) = simgrid_files::read(self, path)?;
        let trace = Arc::new(trace);
        self.simgrid_traces
            .insert(path.to_owned(), Arc::clone(&trace));
        Ok(trace)
    }

    /// Names of the files of a folder, whose path ends in `/`, of those that the study carries or
    /// else on disk; none if there is no such folder.
    pub(crate) fn names_within(&self, folder: &str) -> Result<Option<Vec<String>>, String> {
        let carried = self
            .texts
            .keys()
            .filter_map(|path| path.strip_prefix(folder));
        let carried = carried.filter(|name| !name.contains('/'));
        let carried: Vec<String> = carried.map(str::to_owned).collect();
        if !carried.is_empty() {
            return Ok(Some(carried));
        }
        let place = self.base.as_ref().map(|base| base.join(folder));
        match place.filter(|place| place.is_dir()) {
            Some(place) => names_in(&place).map(Some),
            None => Ok(None),
        }
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

/// Reads a text file of at most [`TEXT_BYTES_MAX`].
///
/// # Errors
///
/// Why not, without the path; of bytes that are not UTF-8, where they stand.
pub fn read_text(path: &Path) -> Result<String, String> {
    text_of(read_bytes(path)?)
}

fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| not_utf8(error.as_bytes(), error.utf8_error()))
}

/// A binary GOAL file as a text.
fn text_of_binary(bytes: &[u8]) -> Result<String, String> {
    let graph = goal::read_binary(&mut Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    goal::write_text(&graph, &mut text).map_err(|error| error.to_string())?;
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("as a text it is longer than {TEXT_BYTES_MAX} B"));
    }
    text_of(text)
}

/// Reads a file of at most [`TEXT_BYTES_MAX`].
fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    // Before it is opened: a pipe that nobody writes to would never open.
    let metadata = std::fs::metadata(path).map_err(|error| reason(&error))?;
    if metadata.is_dir() {
        return Err("it is a directory".to_owned());
    }
    if !metadata.is_file() {
        return Err("it is no ordinary file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(|error| reason(&error))?;
    let mut bytes = Vec::new();
    let limit = TEXT_BYTES_MAX as u64;
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| reason(&error))?;
    if bytes.len() > TEXT_BYTES_MAX {
        return Err(format!("it is longer than {limit} B"));
    }
    Ok(bytes)
}

fn not_utf8(bytes: &[u8], error: std::str::Utf8Error) -> String {
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        return "it is UTF-16, and UTF-8 is read here: save it as UTF-8".to_owned();
    }
    let (before, rest) = bytes.split_at(error.valid_up_to());
    if bytes.contains(&0) {
        return "it is not a text".to_owned();
    }
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    let byte = rest.first().copied().unwrap_or_default();
    format!("it is not UTF-8: byte 0x{byte:02X} in line {line}; save it as UTF-8")
}

/// Names in a folder, as texts.
pub(crate) fn names_in(folder: &Path) -> Result<Vec<String>, String> {
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let all = std::fs::read_dir(folder).map_err(|error| reason(&error))?;
    let names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.collect())
}

pub(crate) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "it may not be read".to_owned(),
        _ => error.to_string(),
    }
}
