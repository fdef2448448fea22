//! The one JSON object of a sweep.

use serde::Serialize;

use super::SweepAccount;
use crate::across::Spread;
use crate::ordered::OrderedMap;

#[derive(Serialize)]
struct Document<'a> {
    study: &'a str,
    version: &'a str,
    digest: String,
    runs_not_begun: u64,
    cells: Vec<Cell<'a>>,
}

#[derive(Serialize)]
struct Cell<'a> {
    cell: u32,
    set: OrderedMap<&'a str>,
    seeds: Vec<u64>,
    status: &'static str,
    reason: Option<&'a str>,
    latency_mean_us: Option<Spread>,
    latency_p50_us: Option<f64>,
    latency_p99_us: Option<f64>,
    link_utilisation_max_fraction: Option<f64>,
    bus_utilisation_max_fraction: Option<f64>,
    offered_messages_per_s: Option<f64>,
    carried_messages_per_s: Option<f64>,
}

/// The sweep's object, as text that ends with a line feed.
///
/// # Panics
///
/// Never: the types hold nothing that JSON cannot say.
#[must_use]
pub fn sweep_document(account: &SweepAccount) -> String {
    let cells = account.cells.iter().map(|cell| Cell {
        cell: cell.number,
        set: cell
            .set
            .iter()
            .map(|(key, value)| (key.clone(), value.as_str()))
            .collect(),
        seeds: cell.records.iter().map(|record| record.seed).collect(),
        status: match cell.reason() {
            Some(_) => "failed",
            None if cell.records.is_empty() => "not_begun",
            None if cell.is_unstable() => "unstable",
            None => "done",
        },
        reason: cell.reason(),
        latency_mean_us: cell.mean_us(),
        latency_p50_us: cell.mean(|run| run.latency_us.p50),
        latency_p99_us: cell.mean(|run| run.latency_us.p99),
        link_utilisation_max_fraction: cell.mean(|run| Some(run.links.utilisation_max)),
        bus_utilisation_max_fraction: cell.mean(|run| Some(run.buses.utilisation_max)),
        offered_messages_per_s: cell.mean(|run| run.offered_messages_per_s),
        carried_messages_per_s: cell.mean(|run| run.carried_messages_per_s),
    });
    let document = Document {
        study: &account.study,
        version: &account.version,
        digest: account.digest(),
        runs_not_begun: account.runs_not_begun,
        cells: cells.collect(),
    };
    serde_json::to_string_pretty(&document).expect("plain numbers and strings") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::sample;

    #[test]
    fn cells_say_what_became_of_them() {
        let text = sweep_document(&sample::account());
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let cells = value["cells"].as_array().unwrap();
        let status: Vec<&str> = cells
            .iter()
            .map(|cell| cell["status"].as_str().unwrap())
            .collect();
        assert_eq!(status, ["done", "done", "unstable", "failed"]);
        assert_eq!(cells[0]["latency_mean_us"]["mean"], 401.5);
        assert!(cells[3]["latency_mean_us"].is_null());
    }
}
