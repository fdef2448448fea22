//! Published figures of simulated interfaces, beside ours.

use std::rc::Rc;

use viaduct_measure::{Bulk, LogP, bulk, logp};
use viaduct_report::{Comparison, Figure, FigureRole};
use viaduct_scenario::Role;

use super::failure_of;
use super::simulated::{Interface, RequestProgram, measure};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

const SOURCE: &str = "Mainwaring and Culler, \"Design challenges of virtual networks\", 1999";

/// Measures what figures were published for; nothing for a name of something else.
///
/// # Errors
///
/// When a program fails.
pub(crate) fn comparisons(
    name: Option<&str>,
    interrupt: &Interrupt,
) -> Result<Vec<Comparison>, Failure> {
    let asked = |model: &str| match name {
        Some(name) if name != model => Ok(None),
        _ => Interface::named(&format!("sim:{model}")),
    };
    let mut rows = Vec::new();
    if let Some(gam) = asked("gam-myrinet")? {
        let study = gam.name();
        let found = gam
            .measure(interrupt, &logp_program())
            .map_err(failure_of)?;
        let both_us = found.o_send_us + found.o_recv_us;
        rows.push(row(study, "16 B", "overheads_us", 5.8, both_us));
        rows.push(row(study, "16 B", "gap_us", 5.8, found.gap_us));
        let program: RequestProgram<Bulk> =
            Rc::new(|requests| bulk(requests, &[8192], &mut |_| {}));
        let found = gam.measure(interrupt, &program).map_err(failure_of)?;
        let mbyte_s = found.rows.first().map_or(f64::NAN, |row| row.mbyte_s);
        rows.push(row(study, "8 KiB", "bulk_mbyte_s", 38.0, mbyte_s));
    }
    if let Some(am) = asked("am-myrinet")? {
        let study = am.name();
        let with = am.config(2);
        let mut without = with.clone();
        without.firmware.steps.check_out = 0;
        without.firmware.steps.check_in = 0;
        let of = |config| measure(config, interrupt, &logp_program()).map_err(failure_of);
        let (with, without) = (of(with)?, of(without)?);
        let point = "16 B, error checking";
        let latency_us = with.latency_us - without.latency_us;
        rows.push(row(study, point, "added_latency_us", 1.1, latency_us));
        let gap_us = with.gap_us - without.gap_us;
        rows.push(row(study, point, "added_gap_us", 1.1, gap_us));
    }
    Ok(rows)
}

fn logp_program() -> RequestProgram<LogP> {
    Rc::new(|requests| logp(requests))
}

fn row(study: &str, point: &str, quantity: &str, published: f64, ours: f64) -> Comparison {
    let figure = Figure {
        value: published,
        role: FigureRole::Given,
        tolerance: Role::Given.tolerance(),
        blind: None,
        authors_model: None,
    };
    let sources = vec![SOURCE.to_owned()];
    Comparison::new([study, point, quantity], &figure, Some(ours), sources)
}
