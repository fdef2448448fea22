//! Published figures of programs on a preset's hosts.

use crate::diagnostics::Diagnostics;
use crate::document::Tree;
use crate::published::{self, Role};
use crate::rows::Row;

/// What a published figure of a program was measured with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FigureTest {
    /// Half a round trip of a message.
    Latency,
    /// Messages one way.
    Bandwidth,
    /// Half a round trip of a remote write, without VIA.
    RawLatency,
    /// Remote writes one way, without VIA.
    RawBandwidth,
}

/// A published figure of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The program.
    pub test: FigureTest,
    /// Bytes of its messages.
    pub bytes: u32,
    /// The figure.
    pub value: f64,
    /// Its unit: `us` or `Mbit/s`.
    pub unit: &'static str,
    /// Where it is published.
    pub source: String,
    /// What it is for.
    pub role: Role,
    /// How far a reproduction may be off, relative to the figure.
    pub tolerance: f64,
}

/// The figures of one preset's text.
pub(crate) fn read(tree: &Tree, diagnostics: &mut Diagnostics) -> Vec<Figure> {
    let rows = published::list("preset.published").read(tree, "", diagnostics);
    rows.iter().filter_map(|(row, _)| figure(row)).collect()
}

fn figure(row: &Row) -> Option<Figure> {
    let role = Role::of(row.choice("role")?);
    Some(Figure {
        test: match row.choice("test")? {
            "bandwidth" => FigureTest::Bandwidth,
            "raw-latency" => FigureTest::RawLatency,
            "raw-bandwidth" => FigureTest::RawBandwidth,
            _ => FigureTest::Latency,
        },
        bytes: row.count("size")?,
        value: row.real("value")?,
        unit: row.choice("unit")?,
        source: row.text("source")?,
        role,
        tolerance: row.real("tolerance").unwrap_or(role.tolerance()),
    })
}
