//! Active Message endpoints of this process.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use viaduct_am::{Bundle, Endpoint, EventMask, Key, Name};
use viaduct_measure::{
    Burst, ClientCounts, Machine, MeasureError, Prober, RequestState, Requests, SMALL_BYTES,
    Stoppable, contend, request_handlers, request_options,
};
use viaduct_provider::Memory;
use viaduct_shm::Shm;
use viaduct_vi_carrier::{Identity, Options, Station, Statistics};

use crate::DEVICE;

/// Nobody else has a name of these endpoints.
const KEY: Key = Key(0x6c6f_6770);

/// How long a server sleeps before it looks whether it is over.
const NAP: Duration = Duration::from_millis(20);

/// For the bursts of one figure: more than they take where nothing else runs.
const FIGURE_LIMIT: Duration = Duration::from_secs(2);

type End = Endpoint<Station<Shm>, RequestState>;

/// What this process has of the fabric.
#[derive(Debug)]
pub struct Side {
    station: Station<Shm>,
}

impl Side {
    /// With so many frames.
    ///
    /// # Errors
    ///
    /// [`MeasureError::Impossible`], with what the system or the fabric refused.
    pub fn start(frames: u32) -> Result<Self, MeasureError> {
        let options = Options {
            frames,
            memory: Memory::Shared,
            ..Options::default()
        };
        let identity = Identity::random()
            .map_err(|error| impossible(format_args!("no random bytes for a name: {error}")))?;
        let started = Station::start(Shm::global(), DEVICE, identity, options);
        Ok(Self {
            station: started.map_err(impossible)?,
        })
    }

    /// An endpoint that answers requests.
    ///
    /// # Errors
    ///
    /// [`MeasureError::Impossible`], with what the fabric refused.
    pub fn server(&self) -> Result<Server, MeasureError> {
        self.endpoint().map(Server)
    }

    /// An endpoint that makes requests of the server of a name.
    ///
    /// # Errors
    ///
    /// [`MeasureError::Impossible`], with what the fabric refused.
    pub fn client(&self, server: &Name) -> Result<Client, MeasureError> {
        let mut endpoint = self.endpoint()?;
        endpoint.map(0, server, KEY).map_err(impossible)?;
        Ok(Client(endpoint))
    }

    /// What its connections did since it started.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.station.statistics()
    }

    /// Has one thread answer for all these servers, until it is over; it sleeps after so many looks
    /// in vain.
    pub fn serve_together(&self, servers: Vec<Server>, looks: u32, is_over: &AtomicBool) {
        let mut looked = 0;
        let mut bundle = Bundle::new(&self.station);
        for Server(endpoint) in servers {
            bundle.insert(endpoint);
        }
        // Relaxed: the flag guards no other memory.
        while !is_over.load(Ordering::Relaxed) {
            if bundle.poll(64) > 0 {
                looked = 0;
            } else if looked < looks {
                looked += 1;
            } else {
                let _ = bundle.wait(Some(NAP));
            }
        }
    }

    fn endpoint(&self) -> Result<End, MeasureError> {
        let handlers = request_handlers();
        let options = request_options(KEY);
        let made = Endpoint::new(&self.station, &handlers, RequestState::default(), options);
        made.map_err(impossible)
    }
}

/// An endpoint that answers requests.
#[derive(Debug)]
pub struct Server(End);

impl Server {
    /// What its clients are told.
    #[must_use]
    pub fn name(&self) -> Name {
        self.0.name()
    }

    /// Answers until the process ends.
    pub fn serve(mut self) -> ! {
        const LOOKS: u32 = 100_000;
        const NAP: Duration = Duration::from_millis(100);

        let mut looks = 0;
        loop {
            looks = if self.0.poll() > 0 { 0 } else { looks + 1 };
            if looks > LOOKS {
                // A nap that nothing ends is as good.
                let _ = self.0.wait(EventMask::MESSAGE, Some(NAP));
                looks = 0;
            }
        }
    }

    /// Answers until it is over; sleeps after so many looks in vain.
    pub fn serve_until(mut self, looks: u32, is_over: &AtomicBool) {
        let mut looked = 0;
        // Relaxed: the flag guards no other memory.
        while !is_over.load(Ordering::Relaxed) {
            if self.0.poll() > 0 {
                looked = 0;
            } else if looked < looks {
                looked += 1;
            } else {
                let _ = self.0.wait(EventMask::MESSAGE, Some(NAP));
            }
        }
    }
}

/// An endpoint that makes requests of one server.
#[derive(Debug)]
pub struct Client(End);

impl Client {
    /// Has a program make requests, each burst so often if that is said, until it ends or there is
    /// a reason to stop.
    pub fn ask(
        self,
        repetitions: Option<u32>,
        stop_reason: &dyn Fn() -> Option<String>,
        program: &mut dyn FnMut(&mut dyn Requests),
    ) {
        let host = Stoppable {
            host: Machine::new(None),
            stop_reason,
        };
        program(&mut Prober::new(self.0, &host, repetitions).within(FIGURE_LIMIT));
    }

    /// Waits for the reply to one request: then server and client know each other.
    ///
    /// # Errors
    ///
    /// When no reply comes.
    pub fn open(self) -> Result<Self, MeasureError> {
        let machine = Machine::new(None);
        let mut prober = Prober::new(self.0, &machine, Some(1));
        prober.burst(Burst {
            requests: 1,
            bytes: SMALL_BYTES,
            delay_ns: 0,
            is_echoed: false,
        })?;
        Ok(Self(prober.into_endpoint()))
    }

    /// Makes as many requests as it has credits for, and counts replies in a window of time after
    /// some to warm up; sleeps after so many looks in vain.
    ///
    /// # Errors
    ///
    /// When a request came back, or no reply comes any more.
    pub fn contend(
        &mut self,
        bytes: u32,
        warm_up: Duration,
        window: Duration,
        looks: u32,
    ) -> Result<ClientCounts, MeasureError> {
        contend(
            &mut self.0,
            &Machine::new(None),
            bytes,
            warm_up,
            window,
            looks,
        )
    }
}

fn impossible(reason: impl fmt::Display) -> MeasureError {
    MeasureError::Impossible {
        reason: reason.to_string(),
    }
}
