//! Simulated interfaces, by the names of their presets, and programs that make requests there.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use viaduct_am::{Endpoint, HandlerId, Key, Name};
use viaduct_lanai::{Config, FairLinks, HeldLinks, LinkModel, Links, Programs, Station};
use viaduct_measure::{
    Burst, Elapsed, Host, MeasureError, Origin, Prober, RequestState, Requests, SMALL_BYTES,
    Stoppable, request_handlers, request_options,
};
use viaduct_scenario::{ProgramsError, Study, endpoints_in, keep_faults_of_hosts, load_endpoints};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::jobs::VERSION;

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
        let loaded = match preset.split_once('@') {
            Some((model, study)) => {
                // What the preset is comes first: a study is not needed to say that it has VIs.
                load_endpoints(model, 2).and_then(|_| {
                    let read = Study::load(study, &[]).map_err(ProgramsError::Wrong)?;
                    endpoints_in(model, study, &read, 2)
                })
            }
            None => load_endpoints(preset, 2),
        };
        match loaded {
            Ok(config) => Ok(Some(Self {
                name: name.to_owned(),
                config,
            })),
            Err(ProgramsError::NoEndpoints { .. }) => Ok(None),
            Err(ProgramsError::Wrong(diagnostics)) => Err(diagnostics.into()),
            Err(error) => Err(Failure::plain(error.to_string())),
        }
    }

    /// What a measurement on it says of where it was made.
    pub(crate) fn origin(&self) -> Origin {
        let level = match self.config.model {
            LinkModel::Wormhole => "held",
            LinkModel::Shared(sharing, _) => sharing.name(),
        };
        Origin::simulated(VERSION, level)
    }

    /// The fabric's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether there are frames for endpoints to contend for.
    pub(crate) fn has_virtual_networks(&self) -> bool {
        self.config.transport.is_some()
    }

    /// Whether the network joins so many hosts.
    ///
    /// # Errors
    ///
    /// When that of a study does not.
    pub(crate) fn check_hosts(&self, hosts: u32) -> Result<(), Failure> {
        let joined = self.config(hosts).joined();
        joined.map_err(|error| Failure::plain(format!("`{}`: {error}", self.name)))?;
        Ok(())
    }

    /// Hosts of the network of its study, if there is one.
    pub(crate) fn hosts_max(&self) -> Option<u32> {
        let wiring = self.config.wiring.as_ref();
        wiring.map(|wiring| wiring.topology.host_count())
    }

    /// So many hosts with it.
    pub(crate) fn config(&self, hosts: u32) -> Config {
        let mut config = self.config.clone();
        config.hosts = hosts;
        if let Some(transport) = &mut config.transport {
            transport.peers = hosts;
        }
        keep_faults_of_hosts(&mut config);
        config
    }

    /// Runs a program that makes requests on one of two simulated hosts, the other answering.
    ///
    /// # Errors
    ///
    /// Why the program ended without a result.
    pub(crate) fn measure<T: 'static>(
        &self,
        interrupt: &Interrupt,
        program: &RequestProgram<T>,
    ) -> Result<T, MeasureError> {
        measure(self.config(2), interrupt, program)
    }
}

/// A program that makes requests, and what it finds.
pub(crate) type RequestProgram<T> =
    Arc<dyn Fn(&mut dyn Requests) -> Result<T, MeasureError> + Send + Sync>;

/// The first burst of a simulated pair, after which both know each other.
pub(super) const OPENING: Burst = Burst {
    requests: 1,
    bytes: SMALL_BYTES,
    delay_ns: 0,
    is_echoed: false,
};

/// As [`Interface::measure`], on hosts of this configuration.
pub(crate) fn measure<T: 'static>(
    config: Config,
    interrupt: &Interrupt,
    program: &RequestProgram<T>,
) -> Result<T, MeasureError> {
    match config.model {
        LinkModel::Wormhole => measure_on::<HeldLinks, T>(config, interrupt, program),
        LinkModel::Shared(..) => measure_on::<FairLinks, T>(config, interrupt, program),
    }
}

fn measure_on<N: Links, T: 'static>(
    config: Config,
    interrupt: &Interrupt,
    program: &RequestProgram<T>,
) -> Result<T, MeasureError> {
    const KEY: Key = Key(1);

    let mut programs = Programs::<N>::on_links(config).map_err(impossible)?;
    // What the two tell each other outside of the network.
    let name = Rc::new(Cell::new(None));
    let outcome = Rc::new(RefCell::new(None));
    let (its_name, its_outcome) = (Rc::clone(&name), Rc::clone(&outcome));
    programs.spawn(0, move |station| {
        let (handlers, options) = (request_handlers(), request_options(KEY));
        let made = Endpoint::new(&station, &handlers, Default::default(), options);
        // The other says why there is none.
        let Ok(mut endpoint) = made else { return };
        its_name.set(Some(endpoint.name()));
        while its_outcome.borrow().is_none() {
            if endpoint.poll() == 0 {
                station.idle();
            }
        }
    });
    let its_outcome = Rc::clone(&outcome);
    let (program, interrupt) = (Arc::clone(program), interrupt.clone());
    programs.spawn(1, move |station| {
        let found = ask(&station, name.get(), KEY, interrupt, &program);
        *its_outcome.borrow_mut() = Some(found.map(|(found, mut endpoint)| {
            // The other has to look.
            let _ = endpoint.request(0, HandlerId::of(0), &[]);
            found
        }));
    });
    let ran = programs.run();
    match (outcome.take(), ran) {
        (Some(outcome), _) => outcome,
        (None, Err(stuck)) => Err(impossible(stuck)),
        (None, Ok(_)) => Err(impossible("the program ended without a result")),
    }
}

/// The part of the host that asks.
fn ask<'program, N: Links, T>(
    station: &Station<'program, N>,
    server: Option<Name>,
    key: Key,
    interrupt: Interrupt,
    program: &RequestProgram<T>,
) -> Result<(T, Endpoint<Station<'program, N>, RequestState>), MeasureError> {
    let (handlers, options) = (request_handlers(), request_options(key));
    let made = Endpoint::new(station, &handlers, Default::default(), options);
    let mut endpoint = made.map_err(impossible)?;
    let server = server.ok_or_else(|| impossible("the other host has no endpoint"))?;
    endpoint.map(0, &server, key).map_err(impossible)?;
    let host = Stoppable {
        host: InterfaceHost { station },
        stop_reason: || interrupt.stop_reason(),
    };
    let mut requests = Rested {
        host: &host,
        prober: Prober::new(endpoint, &host, Some(1)),
    };
    // Both endpoints come into frames.
    requests.burst(OPENING)?;
    let found = program(&mut requests)?;
    Ok((found, requests.prober.into_endpoint()))
}

pub(super) fn impossible(reason: impl fmt::Display) -> MeasureError {
    MeasureError::Impossible {
        reason: reason.to_string(),
    }
}

/// A simulated host. To look at its clock costs nothing.
struct InterfaceHost<'station, 'program, N: Links> {
    station: &'station Station<'program, N>,
}

impl<N: Links> Host for InterfaceHost<'_, '_, N> {
    fn now_ns(&self) -> u64 {
        self.now_ps() / 1000
    }

    fn now_ps(&self) -> u64 {
        self.station.now_ps()
    }

    fn compute(&self, time_ns: u64) -> u64 {
        let from_ps = self.now_ps();
        self.station.compute(Duration::from_nanos(time_ns));
        self.now_ps() - from_ps
    }

    fn relax(&self) {
        self.station.idle();
    }

    fn sleep(&self, time: Duration) {
        self.station.compute(time);
    }
}

/// Bursts that begin long after the last acknowledgement of the burst before.
pub(super) struct Rested<'host, H, P> {
    pub(super) host: &'host H,
    pub(super) prober: P,
}

impl<H: Host, P: Requests> Requests for Rested<'_, H, P> {
    fn burst(&mut self, burst: Burst) -> Result<Elapsed, MeasureError> {
        const REST_NS: u64 = 1_000_000;

        self.host.compute(REST_NS);
        self.prober.burst(burst)
    }

    fn repetitions(&self, burst: Burst) -> u32 {
        self.prober.repetitions(burst)
    }
}
