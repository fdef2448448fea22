//! Threads of this process as an agent's surroundings.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use viaduct_agent::{Agent, AgentProvider, Device, Runtime};
use viaduct_provider::via::names::NameTable;
use viaduct_provider::via::outcome::Harm;
use viaduct_provider::via::{HostAddress, Nic, NicAttributes, Timespan, Timestamp};
use viaduct_provider::{Error, Result, ReturnCode, ViHandle};

use crate::handlers::work;
use crate::shared::Shared;

/// A fabric inside this process, with one NIC ([`AgentProvider::new`]) or several ([`with_nics`]).
///
/// Its devices are called `inproc0`, `inproc1` and so on, as are the hosts of its name service.
/// Two fabrics know nothing of each other. Dropping it ends its thread; memory of
/// [`allocate_shared`](viaduct_provider::Provider::allocate_shared) lives until then at the latest.
pub type InProcess = AgentProvider<Threads>;

/// With so many NICs of these attributes. Each is called by its device's name; what the attributes
/// say of a name is not used.
#[must_use]
pub fn with_nics(count: u32, attributes: NicAttributes) -> InProcess {
    AgentProvider {
        runtime: Threads::with_nics(count, &attributes, None),
    }
}

/// With so many NICs, as [`with_nics`], every message of which comes to harm.
///
/// For programs that want to see what then becomes of them. Connections are made as ever.
#[must_use]
pub fn with_harm(count: u32, attributes: NicAttributes, harm: Harm) -> InProcess {
    AgentProvider {
        runtime: Threads::with_nics(count, &attributes, Some(harm)),
    }
}

/// The threads of this process, a lock, and a thread that calls handlers.
pub struct Threads {
    shared: Arc<Shared>,
    names: NameTable,
    /// Calls handlers; started when the first NIC is opened.
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Threads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names.iter().map(|(name, _)| name).collect();
        formatter
            .debug_struct("InProcess")
            .field("devices", &names)
            .finish_non_exhaustive()
    }
}

impl Default for Threads {
    /// With one NIC, `inproc0`.
    fn default() -> Self {
        Self::with_nics(1, &NicAttributes::default(), None)
    }
}

impl Threads {
    fn with_nics(count: u32, attributes: &NicAttributes, harm: Option<Harm>) -> Self {
        let mut names = NameTable::new();
        let mut device = |index: u32| {
            let name = format!("inproc{index}");
            // Six bytes, as in Ethernet's locally administered range.
            let address = HostAddress::new(0x0200_0000_0001 + u64::from(index));
            // Neither the name nor the address was there before.
            let _ = names.insert(&name, address);
            let attributes = Arc::new(NicAttributes {
                name: name.as_str().into(),
                ..attributes.clone()
            });
            let nic = Nic::new(attributes.clone());
            Device::new(name.into(), address, nic, attributes)
        };
        let first = device(0);
        let others = (1..count).map(device).collect();
        Self {
            shared: Arc::new(Shared::new(Agent::new(0, first, others), harm)),
            names,
            worker: Mutex::new(None),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.close();
        let worker = self
            .worker
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = worker.take()
            && worker.thread().id() != std::thread::current().id()
        {
            // A handler that panicked has said so.
            let _ = worker.join();
        }
    }
}

// SAFETY: `carry` moves bytes by the verdicts of the semantics, under the lock of all operations.
unsafe impl Runtime for Threads {
    fn start(&self) -> Result<()> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_none() {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("viaduct-handlers".to_owned());
            let started = thread.spawn(move || work(&shared)).map_err(|error| {
                let reason = format!("the thread that calls handlers could not start: {error}");
                Error::new(ReturnCode::Resource, reason)
            })?;
            *worker = Some(started);
        }
        Ok(())
    }

    fn access<T>(&self, act: impl FnOnce(&mut Agent) -> T) -> T {
        act(&mut self.shared.lock().agent)
    }

    fn operate<T>(
        &self,
        vi: Option<ViHandle>,
        act: impl FnOnce(&mut Agent, Timestamp) -> Result<T>,
    ) -> Result<T> {
        self.shared.operate(vi, act)
    }

    fn block<T>(
        &self,
        limit: Option<Duration>,
        look: impl FnMut(&mut Agent) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.shared.block(limit, look)
    }

    fn is_handler(&self) -> bool {
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let own = worker.as_ref().map(|worker| worker.thread().id());
        own == Some(std::thread::current().id())
    }

    fn span(&self, limit: Option<Duration>) -> Timespan {
        // In nanoseconds, as all instants of this fabric.
        limit.map_or(Timespan::INFINITE, |limit| {
            let nanoseconds = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
            Timespan::from_picoseconds(nanoseconds)
        })
    }

    fn address(&self, name: &str, index: u32) -> Result<HostAddress> {
        self.names.address(name, index).map_err(unknown_name)
    }

    fn name(&self, address: HostAddress) -> Result<String> {
        self.names
            .name(address)
            .map(str::to_owned)
            .map_err(unknown_name)
    }

    fn neighbours(&self, own: HostAddress, hops: u32) -> Vec<HostAddress> {
        // Every other NIC is one hop away.
        self.names
            .iter()
            .flat_map(|(_, addresses)| addresses.iter().copied())
            .filter(|address| hops > 0 || *address == own)
            .collect()
    }
}

fn unknown_name(error: impl fmt::Display) -> Error {
    Error::new(ReturnCode::NameService, error.to_string())
}
