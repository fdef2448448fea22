//! Simulated interfaces, by name, and requests in their time.

use viaduct_engine::Time;
use viaduct_lanai::{Burst as LanaiBurst, Config, Prober};
use viaduct_measure::{Burst, Elapsed, MeasureError, Requests};

use crate::interrupt::Interrupt;

/// An interface with endpoints, of which hosts are simulated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Interface {
    /// Virtual networks: endpoint frames, transport, error checking.
    AmMyrinet,
    /// The first generation: one endpoint, messages that go once.
    GamMyrinet,
}

impl Interface {
    /// All of them.
    pub(crate) const ALL: [Self; 2] = [Self::AmMyrinet, Self::GamMyrinet];

    /// The interface of a fabric's name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The fabric's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::AmMyrinet => "sim:am-myrinet",
            Self::GamMyrinet => "sim:gam-myrinet",
        }
    }

    /// Its name alone.
    pub(crate) fn model(self) -> &'static str {
        self.name().trim_start_matches("sim:")
    }

    /// So many hosts with it, each with so many frames if it has several.
    pub(crate) fn config(self, hosts: u16, frames: u16) -> Config {
        match self {
            Self::AmMyrinet => Config::am_myrinet(hosts, frames),
            Self::GamMyrinet => Config::gam_myrinet(hosts),
        }
    }

    /// Requests from one host to another.
    pub(crate) fn requests(self, interrupt: &Interrupt) -> SimulatedRequests {
        SimulatedRequests::new(&self.config(2, 8), interrupt)
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
