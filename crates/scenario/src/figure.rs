//! Published figures of programs on a preset's hosts.

use crate::diagnostics::Diagnostics;
use crate::document::Tree;
use crate::published::{self, Role};
use crate::schema::{FigureRole, FigureRow};
use crate::section::{Absent, Word};

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
    let rows = published::LIST.read(tree, "", diagnostics).into_iter();
    rows.filter_map(|row| diagnostics.tell(figure(&row.keys)))
        .collect()
}

fn figure(row: &FigureRow) -> Result<Figure, Absent> {
    let role = match row.role.get()? {
        FigureRole::Given => Role::Given,
        FigureRole::Result => Role::Result,
    };
    Ok(Figure {
        test: row.test.get()?,
        bytes: row.size.get()?,
        value: row.value.get()?,
        unit: row.unit.get()?.word(),
        source: row.source.get()?,
        role,
        tolerance: row.tolerance.optional()?.unwrap_or(role.tolerance()),
    })
}
