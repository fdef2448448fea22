//! A measurement between two processes of this machine, each kept on a core of its own.
//!
//! This process is one side; it starts the other from its own program with the hidden command
//! `measure-peer`, and sees to it that neither outlives the other.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use viaduct_measure::{
    Machine, MeasureError, Meeting, Origin, Report, Row, allowed_cores, pin_to_core,
};

use crate::fabrics::Fabric;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::jobs::VERSION;
use crate::measure::{Ending, Measured, Task};
use crate::output;
use crate::peer::Peer;

/// Two cores.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Cores([usize; 2]);

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once(',')
            .and_then(|(first, second)| {
                Some(Self([
                    first.trim().parse().ok()?,
                    second.trim().parse().ok()?,
                ]))
            })
            .ok_or_else(|| "two numbers of cores are wanted, as in 0,1".to_owned())
    }
}

/// The cores of this process and of the other side.
#[derive(Debug)]
pub(crate) struct Pair {
    cores: [usize; 2],
}

impl Pair {
    /// On the cores asked for, or on the first two that this process may use. It may use one once
    /// it has measured: one pair serves all fabrics.
    ///
    /// # Errors
    ///
    /// When there are no such cores.
    pub(crate) fn on(asked: Option<Cores>) -> Result<Self, Failure> {
        choose(asked).map(|cores| Self { cores })
    }

    /// The cores: this process's first.
    pub(crate) const fn cores(&self) -> [usize; 2] {
        self.cores
    }

    /// Measures a fabric; tells how many rows are done after each.
    ///
    /// # Errors
    ///
    /// When it cannot begin. What goes wrong later is the measurement's [`Ending`].
    pub(crate) fn measure(
        &self,
        fabric: Fabric,
        task: &Task,
        interrupt: &Interrupt,
        on_row: &mut dyn FnMut(usize),
    ) -> Result<Measured, Failure> {
        let [own, other] = self.cores;
        let meeting = Meeting {
            device: fabric.device().to_owned(),
            host: None,
            discriminator: meeting_place().into_bytes(),
        };
        pin_to_core(own).map_err(|error| no_core(own, &error))?;

        let origin = Origin::here(VERSION);
        let machine = Machine::new((own != other).then_some(other));
        let peer = Peer::start(fabric, &meeting, task.level, other, &machine)?;
        let mut rows: Vec<Row> = Vec::new();
        let outcome = fabric.initiate(&meeting, &task.plan, &machine, &mut |row| {
            rows.push(row.clone());
            on_row(rows.len());
            if interrupt.is_asked() {
                machine.stop("stopped by Ctrl-C");
            }
        });
        let peer_end = peer.finish();

        let transfer = task.transfer(fabric);
        let mut report = Report::new(fabric.name(), &task.plan, transfer, Some(self.cores), rows);
        report.origin = origin;
        let ending = match outcome {
            Ok(_) => Ending::Complete,
            Err(_) if interrupt.is_asked() && peer_end.failure.is_none() => Ending::Interrupted,
            Err(error) => Ending::Failed(unfinished(&error, peer_end.summary())),
        };
        Ok(Measured {
            report,
            account: None,
            ending,
        })
    }
}

/// What went wrong between the two sides, and what is known of the other.
fn unfinished(error: &MeasureError, peer: Option<String>) -> Failure {
    match error {
        MeasureError::Impossible { reason } => Failure::plain(reason),
        error => Failure::Broken {
            title: error.to_string(),
            help: peer,
        },
    }
}

fn choose(asked: Option<Cores>) -> Result<[usize; 2], Failure> {
    let allowed = allowed_cores()
        .map_err(|error| Failure::plain(format!("cannot ask for this process's cores: {error}")))?;
    if let Some(Cores(cores)) = asked {
        if let Some(core) = cores.into_iter().find(|core| !allowed.contains(core)) {
            return Err(no_core(core, &"there is none, or not for this process"));
        }
        return Ok(cores);
    }
    match allowed[..] {
        [first, second, ..] => Ok([first, second]),
        [only] => {
            let help = "expect times of the scheduler, not of the fabric; try --mode block";
            output::message("warning", "both sides share the only core", Some(help));
            Ok([only, only])
        }
        [] => Err(Failure::plain("this process may run on no core")),
    }
}

fn no_core(core: usize, error: &dyn fmt::Display) -> Failure {
    let allowed = allowed_cores().unwrap_or_default();
    let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    Failure::new(
        format!("cannot run on core {core}: {error}"),
        format!("this process may use the cores {}", allowed.join(", ")),
    )
}

/// A name that no other measurement meets at.
fn meeting_place() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = now.map(|time| time.subsec_nanos()).unwrap_or_default();
    format!("measure-{:x}-{nanoseconds:x}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_two() {
        assert_eq!("0,1".parse(), Ok(Cores([0, 1])));
        for wrong in ["0", "0,1,2", "a,b", ""] {
            assert!(wrong.parse::<Cores>().is_err(), "{wrong}");
        }
    }
}
