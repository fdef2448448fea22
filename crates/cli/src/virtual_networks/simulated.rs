//! Simulated interfaces, by the names of their presets, and requests in their time.

use viaduct_engine::Time;
use viaduct_lanai::{Burst as LanaiBurst, Config, Prober};
use viaduct_measure::{Burst, Elapsed, MeasureError, Requests};
use viaduct_scenario::{ProgramsError, load_endpoints};

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// An interface with endpoints, of which hosts are simulated: `sim:am-myrinet` (virtual networks),
/// `sim:gam-myrinet` (one endpoint, messages that go once), a file that inherits one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Interface {
    name: String,
    config: Config,
}

impl Interface {
    /// The interface of a fabric's name; none if that is something else, or the preset has no
    /// endpoints.
    ///
    /// # Errors
    ///
    /// When the preset is wrong.
    pub(crate) fn named(name: &str) -> Result<Option<Self>, Failure> {
        let Some(preset) = name.strip_prefix("sim:") else {
            return Ok(None);
        };
        match load_endpoints(preset, 2) {
            Ok(config) => Ok(Some(Self {
                name: name.to_owned(),
                config,
            })),
            Err(ProgramsError::NoEndpoints { .. }) => Ok(None),
            // Of another kind, with a study: `sim:clan@four-hop`.
            Err(_) if preset.contains('@') => Ok(None),
            Err(ProgramsError::Wrong(diagnostics)) => Err(diagnostics.into()),
            Err(error) => Err(Failure::plain(error.to_string())),
        }
    }

    /// The fabric's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether there are frames for endpoints to contend for.
    pub(crate) fn has_virtual_networks(&self) -> bool {
        self.config.transport.is_some()
    }

    /// So many hosts with it.
    pub(crate) fn config(&self, hosts: u16) -> Config {
        let mut config = self.config.clone();
        config.hosts = hosts;
        if let Some(transport) = &mut config.transport {
            transport.peers = hosts;
        }
        config
    }

    /// Requests from one host to another.
    pub(crate) fn requests(&self, interrupt: &Interrupt) -> SimulatedRequests {
        SimulatedRequests::new(&self.config(2), interrupt)
    }
}

/// Requests in simulated time.
#[derive(Debug)]
pub(crate) struct SimulatedRequests {
    prober: Prober,
    interrupt: Interrupt,
}

impl SimulatedRequests {
    /// From one host to another.
    pub(crate) fn new(config: &Config, interrupt: &Interrupt) -> Self {
        Self {
            prober: Prober::new(config),
            interrupt: interrupt.clone(),
        }
    }
}

impl Requests for SimulatedRequests {
    fn burst(&mut self, burst: Burst) -> Result<Elapsed, MeasureError> {
        if self.interrupt.is_asked() {
            return Err(MeasureError::Stopped {
                reason: "stopped by Ctrl-C".to_owned(),
            });
        }
        let elapsed = self.prober.burst(LanaiBurst {
            requests: burst.requests,
            bytes: burst.bytes,
            delay: Time::from_nanoseconds(burst.delay_ns),
            is_echoed: burst.is_echoed,
        });
        let nanoseconds = |time: Time| (time - elapsed.computed).picoseconds() as f64 / 1e3;
        Ok(Elapsed {
            issued_ns: nanoseconds(elapsed.issued),
            finished_ns: nanoseconds(elapsed.finished),
        })
    }

    /// Simulated time does not vary.
    fn repetitions(&self, _: Burst) -> u32 {
        1
    }
}
