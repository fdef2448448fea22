//! What was measured of requests: for a person and for a program.

use serde::Serialize;

use super::{Bulk, LogP};
use crate::origin::Origin;
use crate::report::{aligned, significant};

/// Which program makes requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestTest {
    /// LogP parameters.
    Logp,
    /// Bandwidth and round trip of bulk messages.
    Bulk,
    /// Many clients of one server.
    Contention,
    /// Parallel programs that share processors.
    Timesharing,
}

impl RequestTest {
    /// Its name, as on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Logp => "logp",
            Self::Bulk => "bulk",
            Self::Contention => "contention",
            Self::Timesharing => "timesharing",
        }
    }
}

/// The results of one fabric.
#[derive(Clone, Debug, Serialize)]
pub struct RequestReport<T> {
    /// The fabric's name.
    pub fabric: String,
    /// The program.
    pub test: RequestTest,
    /// The cores of the two sides; `None` on simulated hosts.
    pub cores: Option<[usize; 2]>,
    /// Where and when it was measured, and by what.
    #[serde(flatten)]
    pub origin: Origin,
    /// What was found.
    #[serde(flatten)]
    pub figures: T,
}

impl<T: Serialize> RequestReport<T> {
    /// As one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Numbers, names and lists: nothing in it can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl LogP {
    /// One table of several fabrics, one row each.
    #[must_use]
    pub fn table(reports: &[RequestReport<Self>]) -> String {
        let rows = reports.iter().map(|report| {
            let it = &report.figures;
            let values = [
                it.o_send_us,
                it.o_recv_us,
                it.latency_us,
                it.gap_us,
                it.round_trip_us,
            ];
            let values = values.map(significant).into_iter();
            std::iter::once(report.fabric.clone())
                .chain(values)
                .collect()
        });
        let heads = ["us", "o send", "o recv", "latency", "gap", "round trip"];
        let rows: Vec<Vec<String>> = rows.collect();
        let text = "logp: requests of 16 bytes and their replies, in bursts of growing length\n\n";
        let busy: String = reports
            .iter()
            .filter(|report| report.figures.is_cut_short)
            .map(|report| cut_short(&report.fabric))
            .collect();
        text.to_owned() + &aligned(&heads, &rows) + &busy + LOGP_EXPLANATION
    }
}

/// What a reader must know of figures that were cut short.
fn cut_short(fabric: &str) -> String {
    format!("\n  {fabric}: the machine was busy otherwise, and long bursts were left out\n")
}

const LOGP_EXPLANATION: &str = "\n  o send: the issue of one request. gap: the steady interval of \
     long bursts. o recv: what the\n  interval of a burst with a computing delay has more than the \
     delay, less o send.\n  latency: half the round trip, less both.\n";

impl Bulk {
    /// The table of one fabric.
    #[must_use]
    pub fn table(report: &RequestReport<Self>) -> String {
        let it = &report.figures;
        let rows = it.rows.iter().map(|row| {
            let values = [row.mbyte_s, row.round_trip_us].map(significant);
            std::iter::once(row.bytes.to_string())
                .chain(values)
                .collect()
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let mut text = format!(
            "bulk over {}: requests with short replies one way, and to and fro\n\n",
            report.fabric
        );
        text.push_str(&aligned(&["bytes", "MB/s", "round trip us"], &rows));
        if it.is_cut_short {
            text.push_str(&cut_short(&report.fabric));
        }
        if let Some(bytes) = it.half_power_bytes {
            text.push_str(&format!("\n  half the bandwidth: at {bytes:.0} bytes\n"));
        }
        if let Some(line) = it.round_trip_fit {
            text.push_str(&format!(
                "  round trip: {} us + {:.5} us a byte\n",
                significant(line.us),
                line.us_per_byte
            ));
        }
        text
    }
}
