//! The fabrics that this program can measure.

use std::env;
use std::os::unix::process::CommandExt;

use viaduct_local as local;
use viaduct_measure::{Machine, MeasureError, Meeting, Plan, Row, Transfer, Tuning};
use viaduct_provider::via::ReliabilityLevel;

use crate::failure::Failure;
use crate::itself;

/// Where the shared-memory fabric reads how to move bytes, once, when its first NIC is opened.
const SHM_TRANSFER: &str = "VIADUCT_TRANSFER";

/// A fabric, by name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fabric {
    /// Processes of this machine.
    Shm,
}

impl Fabric {
    const ALL: [Self; 1] = [Self::Shm];

    /// The fabric of a name.
    ///
    /// # Errors
    ///
    /// With all names, when there is none of this one.
    pub(crate) fn named(name: &str) -> Result<Self, Failure> {
        let found = Self::ALL.into_iter().find(|fabric| fabric.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|fabric| format!("{} ({})", fabric.name(), fabric.purpose()));
            Failure::new(
                format!("no fabric is called `{name}`"),
                format!(
                    "the fabrics: {}, sim:MODEL[@STUDY] (between simulated hosts; MODEL is a preset of \
                     `viaduct models` or the path of a preset file)",
                    names.join(", ")
                ),
            )
        })
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
        }
    }

    const fn purpose(self) -> &'static str {
        match self {
            Self::Shm => "between processes of this machine, over shared memory",
        }
    }

    /// The device to open.
    pub(crate) const fn device(self) -> &'static str {
        match self {
            Self::Shm => local::DEVICE,
        }
    }

    /// How the fabric moves bytes if nobody says.
    pub(crate) fn usual_transfer(self) -> Transfer {
        match self {
            Self::Shm => {
                let asked = env::var(SHM_TRANSFER).ok();
                asked.and_then(|name| name.parse().ok()).unwrap_or_default()
            }
        }
    }

    /// Tells the fabric how to move bytes. What the other side's process inherits says so too.
    ///
    /// # Errors
    ///
    /// When it does not know this way.
    pub(crate) fn tune(self, transfer: Transfer) -> Result<(), Failure> {
        let tuned = match self {
            Self::Shm => ShmTuning.set_transfer(transfer),
        };
        tuned.map_err(|reason| {
            Failure::plain(format!(
                "--transfer {transfer} --on {}: {reason}",
                self.name()
            ))
        })
    }

    /// Is the initiating side.
    pub(crate) fn initiate(
        self,
        meeting: &Meeting,
        plan: &Plan,
        machine: &Machine,
        on_row: &mut dyn FnMut(&Row),
    ) -> Result<Vec<Row>, MeasureError> {
        match self {
            Self::Shm => local::initiate(meeting, plan, machine, on_row),
        }
    }

    /// Is the responding side.
    pub(crate) fn respond(
        self,
        meeting: &Meeting,
        level: ReliabilityLevel,
        machine: &Machine,
    ) -> Result<(), MeasureError> {
        match self {
            Self::Shm => local::respond(meeting, level, machine),
        }
    }
}

/// The shared-memory fabric's settings.
struct ShmTuning;

impl Tuning for ShmTuning {
    fn set_transfer(&self, transfer: Transfer) -> Result<(), String> {
        if Fabric::Shm.usual_transfer() == transfer {
            return Ok(());
        }
        // The fabric reads its environment, which a program cannot change safely once it has
        // threads: this process begins again with another one.
        let error = itself::command()
            .map_err(|error| error.to_string())?
            .args(itself::arguments())
            .env(SHM_TRANSFER, transfer.name())
            .exec();
        Err(format!(
            "cannot start again with {SHM_TRANSFER}={transfer}: {error}"
        ))
    }
}
