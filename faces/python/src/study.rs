//! A study, read and ready to run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use pyo3::prelude::*;
use viaduct_cluster::workload::ListedMessage;
use viaduct_operations::Graph;
use viaduct_report::{Provenance, Summary};
use viaduct_scenario::{
    Diagnostics, HandedIn, Override, Sweep, list_models, list_networks, list_studies,
    parse_study_on, parse_study_with,
};
use viaduct_topology::Topology;

use crate::errors;
use crate::run::Run;
use crate::watch::Watch;

/// A study as it was read.
#[pyclass(frozen, module = "viaduct._native")]
#[derive(Debug)]
pub(crate) struct Study {
    inner: Arc<viaduct_scenario::Study>,
    origin: Origin,
    settings: Vec<String>,
}

/// What a study is pickled as: name, text, the files that it names, settings, its point of a sweep.
type Pickled = (
    String,
    String,
    BTreeMap<String, String>,
    Vec<String>,
    Vec<(String, String)>,
);

/// Where it can be read again, with other settings.
#[derive(Clone, Debug)]
enum Origin {
    NameOrPath(Arc<str>),
    Text(Arc<str>),
    /// A text with the texts of the files that it names: it was read elsewhere.
    Carried {
        name: Arc<str>,
        text: Arc<str>,
        files: Arc<BTreeMap<String, String>>,
    },
    /// A text whose network Python made.
    Network {
        name: Arc<str>,
        text: Arc<str>,
        file: &'static str,
        network: Arc<Topology>,
        /// And whose messages or operations it made, in place of a file.
        made: Made,
    },
}

/// What the hosts of a network do, if Python made it.
#[derive(Clone, Debug)]
pub(crate) enum Made {
    Nothing,
    Messages(&'static str, Arc<[ListedMessage]>),
    Graph(&'static str, Arc<Graph>),
}

impl Made {
    fn handed_in(&self) -> HandedIn<'static> {
        let nothing = HandedIn::default();
        match self {
            Self::Nothing => nothing,
            Self::Messages(file, list) => HandedIn {
                messages: Some((file, Arc::clone(list))),
                ..nothing
            },
            Self::Graph(file, graph) => HandedIn {
                graph: Some((file, Arc::clone(graph))),
                ..nothing
            },
        }
    }
}

impl Origin {
    fn read(&self, settings: &[String]) -> Result<viaduct_scenario::Study, Diagnostics> {
        let overrides: Vec<Override> = settings.iter().map(Override::fixed).collect();
        match self {
            Self::NameOrPath(name_or_path) => {
                viaduct_scenario::Study::load(name_or_path, &overrides)
            }
            Self::Text(text) => parse_study_with(text, &overrides),
            Self::Carried { name, text, files } => {
                let handed_in = HandedIn {
                    files: Some(files),
                    ..HandedIn::default()
                };
                parse_study_on(name, text, &overrides, handed_in)
            }
            Self::Network {
                name,
                text,
                file,
                network,
                made,
            } => {
                let handed_in = HandedIn {
                    network: Some((file, Arc::clone(network))),
                    ..made.handed_in()
                };
                parse_study_on(name, text, &overrides, handed_in)
            }
        }
    }
}

impl Study {
    /// The same study, read once more as what runs over `settings`.
    pub(crate) fn open_sweep(&self, settings: Vec<Override>) -> Result<Sweep, Diagnostics> {
        let own = self.settings.iter().map(Override::fixed);
        let all: Vec<Override> = own.chain(settings).collect();
        match &self.origin {
            Origin::NameOrPath(name_or_path) => Sweep::load(name_or_path, &all),
            Origin::Text(text) => Sweep::from_text("study", text, &all, BTreeMap::new()),
            Origin::Carried { name, text, files } => {
                Sweep::from_text(name, text, &all, (**files).clone())
            }
            // Whoever makes the runs has neither the network nor the files: all go as texts.
            Origin::Network { name, text, .. } => {
                Sweep::from_text(name, text, &all, self.inner.carried_files())
            }
        }
    }

    fn read(py: Python<'_>, origin: Origin, settings: Vec<String>) -> PyResult<Self> {
        let inner = py
            .detach(|| origin.read(&settings))
            .map_err(|diagnostics| errors::scenario(&diagnostics))?;
        Ok(Self {
            inner: Arc::new(inner),
            origin,
            settings,
        })
    }

    /// A study on a network that stands for a file of the text.
    pub(crate) fn on_network(
        py: Python<'_>,
        name: &str,
        text: &str,
        (file, network): (&'static str, Arc<Topology>),
        made: Made,
        settings: Vec<String>,
    ) -> PyResult<Self> {
        let origin = Origin::Network {
            name: name.into(),
            text: text.into(),
            file,
            network,
            made,
        };
        Self::read(py, origin, settings)
    }
}

#[pymethods]
impl Study {
    /// Reads a study that is built in, by its name, or a file.
    #[staticmethod]
    fn load(py: Python<'_>, name_or_path: &str, settings: Vec<String>) -> PyResult<Self> {
        Self::read(py, Origin::NameOrPath(name_or_path.into()), settings)
    }

    /// Names of the keys of a table of studies.
    #[staticmethod]
    fn keys(table: &str) -> Vec<&'static str> {
        let table = viaduct_scenario::table(table);
        let keys = table.map_or(&[][..], |table| &table.keys);
        keys.iter().map(|key| key.name).collect()
    }

    /// Reads a study's text.
    #[staticmethod]
    fn parse(py: Python<'_>, text: &str, settings: Vec<String>) -> PyResult<Self> {
        Self::read(py, Origin::Text(text.into()), settings)
    }

    /// The same study with further settings.
    fn with_settings(&self, py: Python<'_>, settings: Vec<String>) -> PyResult<Self> {
        let all = self.settings.iter().cloned().chain(settings).collect();
        Self::read(py, self.origin.clone(), all)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>, py: Python<'py>) -> PyResult<(Py<PyAny>, Pickled)> {
        let study = slf.get();
        let source = py.detach(|| {
            let mut all = study.open_sweep(Vec::new())?;
            all.gather_files();
            Ok(all.source())
        });
        let source = source.map_err(|diagnostics| errors::scenario(&diagnostics))?;
        let restored = slf.get_type().getattr("_restored")?.unbind();
        let settings = study.settings.clone();
        let point = study.inner.point.clone();
        Ok((
            restored,
            (source.name, source.text, source.files, settings, point),
        ))
    }

    #[staticmethod]
    fn _restored(
        py: Python<'_>,
        name: &str,
        text: &str,
        files: BTreeMap<String, String>,
        settings: Vec<String>,
        point: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let origin = Origin::Carried {
            name: name.into(),
            text: text.into(),
            files: Arc::new(files),
        };
        let mut study = Self::read(py, origin, settings)?;
        Arc::make_mut(&mut study.inner).point = point;
        Ok(study)
    }

    /// The points of its sweep; itself if there is none.
    fn points(&self) -> Vec<Self> {
        let point = |cell: viaduct_scenario::Study| {
            let set = cell
                .point
                .iter()
                .map(|(key, value)| format!("{key}={value}"));
            Self {
                settings: self.settings.iter().cloned().chain(set).collect(),
                origin: self.origin.clone(),
                inner: Arc::new(cell),
            }
        };
        self.inner.cells().into_iter().map(point).collect()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    #[getter]
    fn title(&self) -> &str {
        &self.inner.title
    }

    #[getter]
    fn question(&self) -> &str {
        &self.inner.question
    }

    /// The keys that it runs over, with their values.
    #[getter]
    fn sweep(&self) -> Vec<(String, Vec<String>)> {
        let axes = self.inner.sweep.iter();
        axes.map(|axis| (axis.key.clone(), axis.values.clone()))
            .collect()
    }

    /// Of a point of a sweep: the swept keys and their values here.
    #[getter]
    fn point(&self) -> Vec<(String, String)> {
        self.inner.point.clone()
    }

    /// The value of a key, as a person writes it.
    fn value(&self, key: &str) -> Option<String> {
        self.inner.value(key)
    }

    /// The whole scenario as TOML.
    fn to_toml(&self) -> String {
        self.inner.resolved_toml()
    }

    /// What the user should know, as the command prints it; empty if there is nothing.
    #[getter]
    fn warnings(&self) -> String {
        match self.inner.warnings.is_empty() {
            true => String::new(),
            false => self.inner.warnings.render(false).trim_end().to_owned(),
        }
    }

    /// Runs it; `report(simulated_s, until_s, events)` is called five times a second.
    #[pyo3(signature = (seed, report))]
    fn run(&self, py: Python<'_>, seed: Option<u64>, report: Option<Py<PyAny>>) -> PyResult<Run> {
        let mut config = self.inner.config.clone();
        config.run.seed = seed.unwrap_or(config.run.seed);
        let mut watch = Watch::new(report);
        let started = Instant::now();
        let result = py
            .detach(|| viaduct_cluster::run(&config, &mut |progress| watch.look(&progress)))
            .map_err(|error| {
                errors::run(
                    format_args!("{} cannot be run: {error}", self.inner.name),
                    None,
                )
            })?;
        watch.finish(py)?;
        let provenance = Provenance {
            study: self.inner.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            wall_s: started.elapsed().as_secs_f64(),
            // Of the whole Python process it would say nothing about the run.
            peak_rss_bytes: None,
        };
        let summary = Summary::new(&provenance, &config, &result);
        let study = Arc::clone(&self.inner);
        Ok(Run::new(study, config, (summary, result)))
    }
}

/// Names, titles and questions of the studies that are built in.
#[pyfunction]
pub(crate) fn studies() -> Vec<(&'static str, String, String)> {
    list_studies()
}

/// Names of the presets of networks that are built in.
#[pyfunction]
pub(crate) fn network_models() -> Vec<String> {
    let presets = list_networks();
    presets.iter().map(|preset| preset.name.clone()).collect()
}

/// Names of the presets that are built in.
#[pyfunction]
pub(crate) fn models() -> Vec<String> {
    let presets = list_models();
    presets.iter().map(|preset| preset.name.clone()).collect()
}
