//! Published figures of programs on a preset's hosts.

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::document::Tree;
use crate::published::{self, Role};
use crate::schema::{FigureRole, FigureRow, FigureUnit, MechanismKind};
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
    /// What the processors of both ends spend on a request of endpoints.
    Overheads,
    /// The steady interval between requests of endpoints.
    Gap,
    /// Bulk messages of endpoints one way.
    Bulk,
    /// What error checking adds to the latency of requests of endpoints.
    CheckingLatency,
    /// What error checking adds to their gap.
    CheckingGap,
}

/// Bytes of the requests whose overheads, gap and latency are measured.
const REQUEST_BYTES: u32 = 16;

/// Most bytes of a message of an endpoint.
const BULK_BYTES_MAX: u32 = 8192;

impl FigureTest {
    /// The unit of its figures.
    const fn unit(self) -> FigureUnit {
        match self {
            Self::Bandwidth | Self::RawBandwidth => FigureUnit::Megabits,
            Self::Bulk => FigureUnit::Megabytes,
            Self::Latency
            | Self::RawLatency
            | Self::Overheads
            | Self::Gap
            | Self::CheckingLatency
            | Self::CheckingGap => FigureUnit::Microseconds,
        }
    }

    /// Whether it measures endpoints, and not VIs or remote writes.
    const fn is_of_endpoints(self) -> bool {
        match self {
            Self::Latency | Self::Bandwidth | Self::RawLatency | Self::RawBandwidth => false,
            Self::Overheads
            | Self::Gap
            | Self::Bulk
            | Self::CheckingLatency
            | Self::CheckingGap => true,
        }
    }

    /// Why messages of so many bytes cannot be measured; none if they can.
    fn refusal(self, bytes: u32) -> Option<String> {
        match self {
            Self::Bulk => (!(1..=BULK_BYTES_MAX).contains(&bytes))
                .then(|| format!("a message of an endpoint has 1 to {BULK_BYTES_MAX} bytes")),
            _ if self.is_of_endpoints() => (bytes != REQUEST_BYTES)
                .then(|| format!("this is measured with requests of {REQUEST_BYTES} bytes")),
            _ => None,
        }
    }
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
    /// Where it is published.
    pub source: String,
    /// What it is for.
    pub role: Role,
    /// How far a reproduction may be off, relative to the figure.
    pub tolerance: f64,
}

/// The figures of the text of one preset, whose mechanism is known.
pub(crate) fn read(
    tree: &Tree,
    mechanism: MechanismKind,
    diagnostics: &mut Diagnostics,
) -> Vec<Figure> {
    let rows = published::LIST.read(tree, "", diagnostics).into_iter();
    rows.filter_map(|row| {
        let read = figure(&row.keys);
        if let Ok(figure) = &read
            && let Some(mistake) = mistake(&row.keys, figure, mechanism)
        {
            diagnostics.push(mistake);
        }
        diagnostics.tell(read)
    })
    .collect()
}

/// What does not fit together in a row, if anything.
fn mistake(row: &FigureRow, figure: &Figure, mechanism: MechanismKind) -> Option<Diagnostic> {
    let test = figure.test;
    let (word, unit) = (test.word(), test.unit());
    if test.is_of_endpoints() != (mechanism == MechanismKind::Endpoints) {
        let fitting = FigureTest::ALL
            .iter()
            .filter(|other| other.is_of_endpoints() != test.is_of_endpoints());
        let fitting: Vec<&str> = fitting.map(|other| other.word()).collect();
        let title = format!(
            "an adapter of mechanism `{}` cannot be measured by `{word}`",
            mechanism.word()
        );
        let error = Diagnostic::error(title).at(row.test.place());
        return Some(error.help(format!("one of: {}", fitting.join(", "))));
    }
    if row.unit.known() != Some(unit) {
        let title = format!("figures of `{word}` are in {}", unit.word());
        let error = Diagnostic::error(title).at(row.unit.place());
        return Some(error.help(format!("unit = \"{}\"", unit.word())));
    }
    let why = test.refusal(figure.bytes)?;
    let title = format!("`{word}` has no messages of {} B", figure.bytes);
    Some(Diagnostic::error(title).at(row.size.place()).help(why))
}

fn figure(row: &FigureRow) -> Result<Figure, Absent> {
    // It follows from the test; a row without it has been told so.
    row.unit.get()?;
    let role = match row.role.get()? {
        FigureRole::Given => Role::Given,
        FigureRole::Result => Role::Result,
    };
    Ok(Figure {
        test: row.test.get()?,
        bytes: row.size.get()?,
        value: row.value.get()?,
        source: row.source.get()?,
        role,
        tolerance: row.tolerance.optional()?.unwrap_or(role.tolerance()),
    })
}
