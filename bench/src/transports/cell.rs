//! What is measured of each transport, and how a program's line is read.

use serde::Serialize;
use serde_json::Value;

use crate::protocol::Test;

const SIZES: [usize; 6] = [8, 64, 1024, 4096, 65_536, 1_048_576];
const QUICK_SIZES: [usize; 3] = [8, 4096, 65_536];
const STREAM_SIZES: [usize; 2] = [65_536, 1_048_576];
const QUICK_STREAM_SIZES: [usize; 1] = [1_048_576];

/// One quantity of a transport.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Cell {
    pub(crate) test: Test,
    pub(crate) bytes: usize,
    pub(crate) touched: bool,
}

impl Cell {
    pub(crate) const fn new(test: Test, bytes: usize, touched: bool) -> Self {
        Self {
            test,
            bytes,
            touched,
        }
    }

    /// Every cell of a run in the order of the tables; a quick run has the most telling ones.
    pub(crate) fn all(is_full: bool) -> Vec<Self> {
        let (sizes, stream_sizes): (&[usize], &[usize]) = match is_full {
            true => (&SIZES, &STREAM_SIZES),
            false => (&QUICK_SIZES, &QUICK_STREAM_SIZES),
        };
        let mut cells = Vec::new();
        for touched in [false, true] {
            for bytes in sizes
                .iter()
                .filter(|bytes| is_full || !touched || **bytes > 8)
            {
                cells.push(Self::new(Test::Latency, *bytes, touched));
            }
        }
        cells.push(Self::new(Test::Rate, 8, false));
        for bytes in stream_sizes {
            for touched in [false, true] {
                cells.push(Self::new(Test::Bandwidth, *bytes, touched));
            }
        }
        cells
    }

    /// Whether a smaller value is better.
    pub(crate) fn is_time(self) -> bool {
        self.test == Test::Latency
    }

    pub(crate) fn unit(self) -> &'static str {
        match self.test {
            Test::Latency => "us",
            Test::Rate => "M/s",
            Test::Bandwidth => "GB/s",
        }
    }

    /// Its name in a sentence.
    pub(crate) fn label(self) -> String {
        let what = match self.test {
            Test::Latency => "latency",
            Test::Rate => "messages",
            Test::Bandwidth => "bandwidth",
        };
        let touch = if self.touched { " touched" } else { "" };
        format!("{} {what}{touch}", size(self.bytes))
    }
}

/// Bytes for people: `64 KiB`.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// What a program said of a cell: us, millions a second, or GB a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Figures {
    pub(crate) value: f64,
    /// Of batches, where the program tells; in a latency test only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99: Option<f64>,
    #[serde(skip)]
    pub(crate) version: String,
}

/// Reads the JSON that a program printed: ours, a peer's and that of `viaduct measure` are alike.
///
/// # Errors
///
/// When it is no such line.
pub(crate) fn read_figures(test: Test, output: &str) -> Result<Figures, String> {
    let start = output.find('{').unwrap_or(output.len());
    let line: Value = serde_json::from_str(&output[start..])
        .map_err(|error| format!("what it printed is not JSON: {error}"))?;
    let row = line
        .pointer("/rows/0")
        .ok_or("what it printed has no rows")?;
    let number = |path: &str| row.pointer(path).and_then(Value::as_f64);
    let value = match test {
        Test::Latency => number("/half_rtt_us/median"),
        Test::Rate => number("/messages_s").map(|rate| rate / 1e6),
        Test::Bandwidth => number("/mbyte_s").map(|rate| rate / 1e3),
    };
    let value = value
        .filter(|value| *value > 0.0)
        .ok_or(format!("its row has no {} in {row}", test.word()))?;
    let version = line.get("version").and_then(Value::as_str);
    Ok(Figures {
        value,
        min: number("/half_rtt_us/min"),
        p99: number("/half_rtt_us/p99"),
        version: version.unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_a_program_is_read() {
        let line = r#"{"fabric": "shm", "test": "latency", "rows": [{"bytes": 0, "half_rtt_us":
            {"min": 0.07, "median": 0.08, "p99": 0.2}}]}"#;
        let figures = read_figures(Test::Latency, line).expect("read");
        assert_eq!(
            (figures.value, figures.min, figures.p99),
            (0.08, Some(0.07), Some(0.2))
        );
        let line = r#"{"version":"1.2","rows":[{"bytes":8,"messages_s":4e7,"mbyte_s":320.0}]}"#;
        let figures = read_figures(Test::Rate, line).expect("read");
        assert_eq!((figures.value, figures.version.as_str()), (40.0, "1.2"));
        assert_eq!(
            read_figures(Test::Bandwidth, line).expect("read").value,
            0.32
        );
    }

    #[test]
    fn line_without_the_figure_is_refused() {
        assert!(read_figures(Test::Latency, "").is_err());
        assert!(read_figures(Test::Latency, r#"{"rows":[]}"#).is_err());
        let rate = r#"{"rows":[{"bytes":8,"messages_s":4e7}]}"#;
        assert!(read_figures(Test::Latency, rate).is_err());
    }

    #[test]
    fn quick_cells_are_some_of_all() {
        let all = Cell::all(true);
        assert_eq!(all.len(), 12 + 1 + 4);
        let quick = Cell::all(false);
        assert!(quick.len() < all.len() && quick.iter().all(|cell| all.contains(cell)));
    }

    #[test]
    fn cells_have_names() {
        assert_eq!(Cell::new(Test::Latency, 8, false).label(), "8 B latency");
        let cell = Cell::new(Test::Bandwidth, 1 << 20, true);
        assert_eq!(cell.label(), "1 MiB bandwidth touched");
    }
}
