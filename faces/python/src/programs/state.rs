//! What everything on a host shares, by the adapter that its program has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use viaduct_programs::{Process, SimulatedFabric, device_name};
use viaduct_provider::via::{Address, ReliabilityLevel};
use viaduct_provider::{ErrorCode, ErrorHandler, Nic, ViHandle};
use viaduct_shm::Shm;

use super::On;
use super::device::Device;
use super::home::{Held, Home, has_turn, locked, new_host_id};
use super::pair::QueuePair;
use super::queue::CompletionQueue;
use super::receives::SharedReceiveQueue;
use super::vi::Vi;
use crate::errors;

/// Names of the hosts with programs, and their numbers.
#[derive(Debug)]
pub(crate) struct Names(pub(crate) Vec<(String, u32)>);

/// A host of a simulation.
#[derive(Debug)]
pub(crate) struct Simulated {
    pub(crate) process: Process,
    pub(crate) nic: Held<Nic<SimulatedFabric>>,
    pub(crate) home: Arc<Home>,
}

impl Simulated {
    /// A host by an adapter, whose NIC is opened.
    pub(crate) fn open(process: Process, home: &Arc<Home>) -> PyResult<Self> {
        let name = device_name(process.adapter());
        let nic = Nic::open(process.fabric(), &name).map_err(errors::refused)?;
        let told = Some(quiet_about_ends());
        nic.set_error_handler(told).map_err(errors::refused)?;
        Ok(Self {
            process,
            nic: Held::new(nic, Some(Arc::clone(home))),
            home: Arc::clone(home),
        })
    }
}

/// This process, as a host of a run.
#[derive(Debug)]
pub(crate) struct Real {
    pub(crate) nic: Nic<Shm>,
    pub(crate) started: Instant,
    /// Whose ports are meant, of all runs on this machine.
    pub(crate) run: u64,
}

/// What everything on a host shares that is of one of its adapters.
#[derive(Debug)]
pub(crate) struct HostState {
    /// A number that no other has.
    pub(crate) id: u64,
    /// That of the state by the host's first adapter, which its program has.
    pub(crate) turn: u64,
    pub(crate) name: String,
    rank: usize,
    pub(crate) names: Arc<Names>,
    pub(crate) place: On<Simulated, Real>,
    /// Whether its program looks at its queues again and again, and does not sleep.
    pub(crate) polls: bool,
    /// The host's VIs, until its program has ended: those that it forgets stay connected.
    vis: Mutex<BTreeMap<ViHandle, Py<Vi>>>,
    /// Its queue pairs by their numbers, for as long.
    pub(crate) pairs: Mutex<BTreeMap<u32, Py<QueuePair>>>,
    pub(crate) shared_receives: Mutex<Vec<Py<SharedReceiveQueue>>>,
    /// Its RDMA adapter, if it was needed.
    pub(crate) device: Mutex<Option<Device>>,
    /// The host by its adapters, from the second on, as far as its program has asked for them: of
    /// the state by the first.
    others: Mutex<BTreeMap<u32, Arc<Self>>>,
    /// The state by the first adapter; none: this is it.
    first: Option<Weak<Self>>,
}

impl HostState {
    pub(crate) fn new(
        rank: usize,
        names: Arc<Names>,
        place: On<Simulated, Real>,
        polls: bool,
    ) -> Arc<Self> {
        let id = new_host_id();
        Self::with(id, id, rank, names, place, polls, None)
    }

    fn with(
        id: u64,
        turn: u64,
        rank: usize,
        names: Arc<Names>,
        place: On<Simulated, Real>,
        polls: bool,
        first: Option<Weak<Self>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            turn,
            name: names.0[rank].0.clone(),
            rank,
            names,
            place,
            polls,
            vis: Mutex::default(),
            pairs: Mutex::default(),
            shared_receives: Mutex::default(),
            device: Mutex::default(),
            others: Mutex::default(),
            first,
        })
    }

    /// The number of its adapter, and how many the host has.
    pub(crate) fn adapter(&self) -> (u32, u32) {
        match &self.place {
            On::Simulated(place) => (place.process.adapter(), place.process.adapters()),
            On::Real(_) => (0, 1),
        }
    }

    /// The same host by one of its adapters, whose NIC is opened when it is first asked for.
    pub(crate) fn at_adapter(self: &Arc<Self>, adapter: u32) -> PyResult<Arc<Self>> {
        let first = match &self.first {
            Some(first) => first.upgrade().ok_or_else(errors::in_use)?,
            None => Arc::clone(self),
        };
        let no_such = || {
            let (_, adapters) = self.adapter();
            let there = match adapters {
                1 => "there is one, number 0".to_owned(),
                _ => format!("there are {adapters}, numbers 0 to {}", adapters - 1),
            };
            PyValueError::new_err(format!("{} has no adapter {adapter}: {there}", self.name))
        };
        if adapter == 0 {
            return Ok(first);
        }
        let On::Simulated(place) = &first.place else {
            return Err(no_such());
        };
        if let Some(known) = locked(&first.others).get(&adapter) {
            return Ok(Arc::clone(known));
        }
        let process = place.process.at_adapter(adapter).ok_or_else(no_such)?;
        let place = Simulated::open(process, &place.home)?;
        let other = Self::with(
            new_host_id(),
            first.turn,
            first.rank,
            Arc::clone(&first.names),
            On::Simulated(place),
            first.polls,
            Some(Arc::downgrade(&first)),
        );
        locked(&first.others).insert(adapter, Arc::clone(&other));
        Ok(other)
    }

    /// The state by each adapter beside this one that its program has asked for.
    fn others(&self) -> Vec<Arc<Self>> {
        locked(&self.others).values().cloned().collect()
    }

    /// Says no to whoever is not the host's program.
    #[inline]
    pub(crate) fn check_turn(&self) -> PyResult<()> {
        if has_turn(self.turn) {
            return Ok(());
        }
        let name = &self.name;
        Err(errors::fabric(
            "InvalidState",
            format!("what belongs to {name} is for the program of {name}, while it runs"),
        ))
    }

    pub(crate) fn home(&self) -> Option<Arc<Home>> {
        match &self.place {
            On::Simulated(place) => Some(Arc::clone(&place.home)),
            On::Real(_) => None,
        }
    }

    /// The time since the run began.
    pub(crate) fn now(&self) -> Duration {
        match &self.place {
            On::Simulated(place) => place.process.now(),
            On::Real(place) => place.started.elapsed(),
        }
    }

    pub(crate) fn vi(&self, py: Python<'_>, handle: ViHandle) -> Option<Py<Vi>> {
        locked(&self.vis).get(&handle).map(|vi| vi.clone_ref(py))
    }

    /// Those of all its adapters.
    pub(crate) fn vis(&self, py: Python<'_>) -> Vec<Py<Vi>> {
        let vis = locked(&self.vis);
        let own = vis.values().map(|vi| vi.clone_ref(py));
        let others = self.others();
        own.chain(others.iter().flat_map(|other| other.vis(py)))
            .collect()
    }

    /// Those of all its adapters.
    pub(crate) fn pairs(&self, py: Python<'_>) -> Vec<Py<QueuePair>> {
        let pairs = locked(&self.pairs);
        let own = pairs.values().map(|pair| pair.clone_ref(py));
        let others = self.others();
        own.chain(others.iter().flat_map(|other| other.pairs(py)))
            .collect()
    }

    /// The queue pair with a number.
    pub(crate) fn pair(&self, py: Python<'_>, number: u32) -> PyResult<Py<QueuePair>> {
        let pairs = locked(&self.pairs);
        let pair = pairs.get(&number).ok_or_else(errors::in_use)?;
        Ok(pair.clone_ref(py))
    }

    /// The program has ended: nothing holds its VIs any more, and its queue pairs are gone.
    pub(crate) fn release(&self) {
        for other in self.others() {
            other.release();
        }
        for pair in std::mem::take(&mut *locked(&self.pairs)).values() {
            pair.get().destroy();
        }
        let shared_receives = std::mem::take(&mut *locked(&self.shared_receives));
        drop(shared_receives);
        let vis = std::mem::take(&mut *locked(&self.vis));
        drop(vis);
    }

    pub(crate) fn make_vi(self: &Arc<Self>, py: Python<'_>, wish: &Wish<'_>) -> PyResult<Py<Vi>> {
        let home = self.home();
        let (handle, vi) = match &self.place {
            On::Simulated(place) => {
                let mut builder = wish.apply(place.nic.vi());
                if let Some(queue) = wish.send_completions
                    && let On::Simulated(queue) = &*queue.get().queue()?
                {
                    builder = builder.send_completions(queue);
                }
                if let Some(queue) = wish.receive_completions
                    && let On::Simulated(queue) = &*queue.get().queue()?
                {
                    builder = builder.receive_completions(queue);
                }
                let vi = builder.build().map_err(errors::refused)?;
                (vi.handle(), On::Simulated(Held::new(vi, home)))
            }
            On::Real(place) => {
                let mut builder = wish.apply(place.nic.vi());
                if let Some(queue) = wish.send_completions
                    && let On::Real(queue) = &*queue.get().queue()?
                {
                    builder = builder.send_completions(queue);
                }
                if let Some(queue) = wish.receive_completions
                    && let On::Real(queue) = &*queue.get().queue()?
                {
                    builder = builder.receive_completions(queue);
                }
                let vi = builder.build().map_err(errors::refused)?;
                (vi.handle(), On::Real(vi))
            }
        };
        let vi = Py::new(py, Vi::new(Arc::clone(self), vi))?;
        locked(&self.vis).insert(handle, vi.clone_ref(py));
        Ok(vi)
    }

    /// Where a port of a host is waited on and asked for: by its adapter of this one's number.
    pub(crate) fn address(&self, number: u32, port: &str) -> PyResult<Address> {
        match &self.place {
            On::Simulated(place) => place
                .nic
                .resolve_at(&format!("host{number}"), self.adapter().0, port.as_bytes())
                .map_err(errors::refused),
            On::Real(place) => {
                let mut name = place.run.to_le_bytes().to_vec();
                name.extend_from_slice(&number.to_le_bytes());
                name.extend_from_slice(port.as_bytes());
                Ok(place.nic.address(&name))
            }
        }
    }

    pub(crate) const fn rank(&self) -> usize {
        self.rank
    }

    /// The name of the host of a rank.
    pub(crate) fn name_of(&self, rank: usize) -> Option<&str> {
        self.names.0.get(rank).map(|(name, _)| name.as_str())
    }

    /// The number of the host that this program runs on.
    pub(crate) fn number(&self) -> u32 {
        self.names.0[self.rank].1
    }

    /// The number of a host by its name.
    pub(crate) fn find(&self, name: &str) -> PyResult<u32> {
        let found = self.names.0.iter().find(|(known, _)| known == name);
        found.map(|(_, number)| *number).ok_or_else(|| {
            let known: Vec<&str> = self.names.0.iter().map(|(name, _)| name.as_str()).collect();
            let more = if known.len() > 8 { ", ..." } else { "" };
            let known = known[..known.len().min(8)].join(", ");
            PyValueError::new_err(format!(
                "no program runs on a host called {name:?}: there are {known}{more}"
            ))
        })
    }
}

/// What a VI is to be like.
#[derive(Debug, Default)]
pub(crate) struct Wish<'a> {
    pub(crate) reliability: Option<ReliabilityLevel>,
    pub(crate) send_depth: Option<u32>,
    pub(crate) receive_depth: Option<u32>,
    pub(crate) max_transfer_bytes: Option<u32>,
    pub(crate) rdma_write: bool,
    pub(crate) rdma_read: bool,
    pub(crate) flow_control: bool,
    pub(crate) request_splitting: bool,
    pub(crate) send_completions: Option<&'a Py<CompletionQueue>>,
    pub(crate) receive_completions: Option<&'a Py<CompletionQueue>>,
}

impl Wish<'_> {
    fn apply<P: viaduct_provider::Provider>(
        &self,
        mut builder: viaduct_provider::ViBuilder<P>,
    ) -> viaduct_provider::ViBuilder<P> {
        if let Some(level) = self.reliability {
            builder = builder.reliability(level);
        }
        if let Some(depth) = self.send_depth {
            builder = builder.send_depth(depth);
        }
        if let Some(depth) = self.receive_depth {
            builder = builder.receive_depth(depth);
        }
        if let Some(bytes) = self.max_transfer_bytes {
            builder = builder.max_transfer_bytes(bytes);
        }
        builder
            .rdma_write(self.rdma_write)
            .rdma_read(self.rdma_read)
            .flow_control(self.flow_control)
            .request_splitting(self.request_splitting)
    }
}

/// Says on stderr what no descriptor tells of, but for the ends of connections: what is posted on
/// them tells of those.
pub(crate) fn quiet_about_ends() -> ErrorHandler {
    Arc::new(|error| {
        if error.code != ErrorCode::ConnectionLost {
            eprintln!("viaduct: {:?} on VI {:?}", error.code, error.vi);
        }
    })
}
