//! What was published of simulated interfaces, measured on ours.

use std::sync::Arc;

use viaduct_measure::{Bulk, LogP, MeasureError, bulk, logp};
use viaduct_scenario::{Figure, FigureTest};

use super::failure_of;
use super::simulated::{Interface, RequestProgram, measure};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Our figure in the unit of the published one; none for a figure that is not of endpoints.
///
/// # Errors
///
/// When a program fails.
pub(crate) fn figure_of(
    interface: &Interface,
    figure: &Figure,
    interrupt: &Interrupt,
) -> Result<Option<f64>, Failure> {
    let found = match figure.test {
        FigureTest::Overheads => {
            logp_of(interface, interrupt).map(|it| Some(it.o_send_us + it.o_recv_us))
        }
        FigureTest::Gap => logp_of(interface, interrupt).map(|it| Some(it.gap_us)),
        FigureTest::Bulk => {
            let bytes = figure.bytes;
            let program: RequestProgram<Bulk> =
                Arc::new(move |requests| bulk(requests, &[bytes], &mut |_| {}));
            let found = interface.measure(interrupt, &program);
            found.map(|it| it.rows.first().map(|row| row.mbyte_s))
        }
        FigureTest::CheckingLatency => added(interface, interrupt, |it| it.latency_us),
        FigureTest::CheckingGap => added(interface, interrupt, |it| it.gap_us),
        FigureTest::Latency
        | FigureTest::Bandwidth
        | FigureTest::RawLatency
        | FigureTest::RawBandwidth => Ok(None),
    };
    found.map_err(failure_of)
}

fn logp_of(interface: &Interface, interrupt: &Interrupt) -> Result<LogP, MeasureError> {
    interface.measure(interrupt, &logp_program())
}

/// What error checking adds to one of the parameters.
fn added(
    interface: &Interface,
    interrupt: &Interrupt,
    parameter: fn(&LogP) -> f64,
) -> Result<Option<f64>, MeasureError> {
    let with = logp_of(interface, interrupt)?;
    let mut config = interface.config(2);
    config.firmware.steps.check_out = 0;
    config.firmware.steps.check_in = 0;
    let without = measure(config, interrupt, &logp_program())?;
    Ok(Some(parameter(&with) - parameter(&without)))
}

fn logp_program() -> RequestProgram<LogP> {
    Arc::new(|requests| logp(requests))
}
