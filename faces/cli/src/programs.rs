//! Published figures of programs on a preset's hosts, beside ours.

use viaduct_measure::{Plan, Row, Test};
use viaduct_programs::SimulationError;
use viaduct_programs::raw::{remote_write_latency, remote_write_rate};
use viaduct_report::Comparison;
use viaduct_scenario::{Figure, FigureTest, Preset, format_size};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::measure::{Ending, LevelName, Task};
use crate::planning::role;
use crate::simulated::Simulated;
use crate::virtual_networks::{Interface, figure_of};

/// Runs the programs that figures of a preset were published for, on its hosts: `hosts` is its
/// name, or the path of its file.
///
/// # Errors
///
/// When a program fails. What is interrupted leaves its figure out.
pub(crate) fn comparisons(
    hosts: &str,
    preset: &Preset,
    interrupt: &Interrupt,
) -> Result<Vec<Comparison>, Failure> {
    let mut rows = Vec::new();
    let study = format!("sim:{hosts}");
    let interface = match preset.has_endpoints() {
        true => Interface::named(&study)?,
        false => None,
    };
    for figure in &preset.published {
        let ours = match &interface {
            Some(interface) => figure_of(interface, figure, interrupt)?,
            None => ours(&Simulated::of_model(hosts)?, figure, interrupt)?,
        };
        let mut point = format_size(u64::from(figure.bytes));
        if let FigureTest::CheckingLatency | FigureTest::CheckingGap = figure.test {
            point.push_str(", error checking");
        }
        let published = viaduct_report::Figure {
            value: figure.value,
            role: role(figure.role),
            tolerance: figure.tolerance,
            blind: None,
            authors_model: None,
        };
        let sources = vec![figure.source.clone()];
        let names = [&*study, &point, quantity(figure)];
        rows.push(Comparison::new(names, &published, ours, sources));
    }
    Ok(rows)
}

const fn quantity(figure: &Figure) -> &'static str {
    match figure.test {
        FigureTest::Latency => "half_round_trip_us",
        FigureTest::Bandwidth => "bandwidth_mbit_s",
        FigureTest::RawLatency => "remote_write_us",
        FigureTest::RawBandwidth => "remote_writes_mbit_s",
        FigureTest::Overheads => "overheads_us",
        FigureTest::Gap => "gap_us",
        FigureTest::Bulk => "bulk_mbyte_s",
        FigureTest::CheckingLatency => "added_latency_us",
        FigureTest::CheckingGap => "added_gap_us",
    }
}

/// Our figure in the unit of the published one; none for a figure of endpoints.
fn ours(hosts: &Simulated, figure: &Figure, interrupt: &Interrupt) -> Result<Option<f64>, Failure> {
    let test = match figure.test {
        FigureTest::Latency => Test::Latency,
        FigureTest::Bandwidth => Test::Bandwidth,
        FigureTest::RawLatency => {
            let time = remote_write_latency(hosts.config(), figure.bytes).map_err(broken)?;
            return Ok(time.map(|time| time.microseconds_f64()));
        }
        FigureTest::RawBandwidth => {
            let rate = remote_write_rate(hosts.config(), figure.bytes).map_err(broken)?;
            return Ok(rate.map(|rate| rate.bits_per_second() / 1e6));
        }
        _ => return Ok(None),
    };
    let mut plan = Plan::usual(test);
    plan.sizes = vec![figure.bytes];
    let task = Task::of(plan, LevelName::Rd);
    let measured = hosts.measure(&task, interrupt, &mut |_| {});
    if let Ending::Failed(failure) = measured.ending {
        return Err(failure);
    }
    Ok(measured.report.rows.first().map(|row| match row {
        Row::Latency(row) => row.half_rtt_us.median,
        Row::Stream(row) => row.mbyte_s * 8.0,
        Row::CompletionQueue(row) => row.requests_s,
    }))
}

fn broken(error: SimulationError) -> Failure {
    Failure::Broken {
        title: error.to_string(),
        help: None,
    }
}
