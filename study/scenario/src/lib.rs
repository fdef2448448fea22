//! Studies and model presets: strict TOML with units, errors that point at the place.
//!
//! [`Study::load`] reads a study by name or path and makes the [`ClusterConfig`] of a run:
//!
//! ```
//! use viaduct_scenario::{Override, Study};
//!
//! let study = Study::load("torus-1024", &[Override::fixed("traffic.rate=400")])?;
//! assert_eq!(study.value("traffic.size").as_deref(), Some("32 KiB"));
//! let again = Study::from_resolved(&study.resolved_toml())?;
//! assert_eq!(again.resolved_toml(), study.resolved_toml());
//!
//! let slip = Study::load("torus-1024", &[Override::fixed("links.rate=856 MByte/s")]);
//! assert!(slip.unwrap_err().to_string().contains("did you mean \"856 Mbit/s\"?"));
//! # Ok::<(), viaduct_scenario::Diagnostics>(())
//! ```
//!
//! A value has three forms: text, typed scenario, configuration. The steps between them, each in a
//! file of its own:
//!
//! ```text
//! document   TOML to a tree with places      overrides  --set and sweeps put into the tree
//! preset     the hardware merged below it    network_preset   switches and cables, likewise
//! settings   the tree read into the typed scenario
//! build      settings to the configuration   checks     what does not go together
//! combinations   which workloads, adapters, levels and faults do not, in one table
//! ```
//!
//! A key is declared once, in `schema`: its name is that of the field that it fills, beside type,
//! unit, default and meaning (`section`). Reading, `--set`, presets, `viaduct keys`, what messages
//! suggest and the resolved scenario come from that declaration, and code reaches a value by its
//! field: what is misspelt does not compile.
//!
//! # Words
//!
//! - study, cell (of a sweep), preset; what a preset inherits: `Study`, `SweepAxis`, `Preset`;
//!   `Chain` (`study.rs`, `preset.rs`, `inherit.rs`)
//!
//! [`ClusterConfig`]: viaduct_cluster::config::ClusterConfig

mod adapter;
mod application;
mod build;
mod builtin;
mod checks;
pub mod combinations;
mod diagnostics;
mod document;
mod endpoints;
mod faults;
mod figure;
mod files;
mod foreign;
mod host_groups;
mod inherit;
mod keys;
mod message_list;
mod network;
mod network_preset;
mod overrides;
mod preset;
mod programs;
mod published;
mod range;
mod rows;
mod schema;
mod section;
mod settings;
mod simgrid_files;
mod stored_messages;
mod study;
mod sweep;
mod trace_files;
mod units;
mod value;

/// Tables of keys: each has a constant for every key that it declares, as [`KeyName`] shows.
pub mod key {
    pub use crate::schema::{
        Bus, Cable, Cpu, Firmware, Interface, Kernel, Links, Nic, Rdma, RemoteWrites, Run,
        StudyWords, Traffic,
    };
}

pub use build::UNTIL_ALL_HAVE_ENDED;
pub use diagnostics::{DIAGNOSTICS_MAX, Diagnostic, Diagnostics, Severity};
pub use document::TEXT_BYTES_MAX;
pub use endpoints::{
    endpoints_in, endpoints_of, keep_faults_of_hosts, load_endpoints, load_endpoints_in,
};
pub use faults::{FAULTS_MAX, read_faults};
pub use figure::{Figure, FigureTest};
pub use files::read_text;
pub use keys::{Fallback, Key, Table, key_at, keys_text, table, tables};
pub use message_list::{LISTED_TIME_MAX, message_list_csv};
pub use network::network_toml;
pub use network_preset::{NetworkPreset, is_network, list_networks, load_network, parse_network};
pub use overrides::Override;
pub use preset::{Confidence, Preset, PresetNumber, list_models, load_preset, parse_preset};
pub use programs::{ProgramsError, load_programs, programs_of};
pub use published::{PUBLISHED_MAX, Published, Role};
pub use schema::{DESCRIPTORS_MAX, LEVELS, MESSAGE_BYTES_MAX, MechanismKind, PROCESSES_MAX};
pub use section::KeyName;
pub use simgrid_files::read_simgrid_trace;
pub use study::{
    CELLS_MAX, Difference, HandedIn, Study, SweepAxis, list_studies, parse_study, parse_study_on,
    parse_study_with,
};
pub use sweep::{Sweep, SweepSource, axis_number, axis_unit};
pub use trace_files::{TraceFiles, read_trace};
pub use units::{
    FREQUENCY_MAX, RATE_BITS_MAX, RATE_BITS_MIN, SIZE_BYTES_MAX, TIME_SECONDS_MAX, UnitError,
    format_frequency, format_rate, format_ratio, format_size, format_time, parse_frequency,
    parse_rate, parse_ratio, parse_size, parse_time,
};
pub use value::{Kind, LIST_LENGTH_MAX};
