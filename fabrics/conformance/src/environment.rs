//! What a side of a case has: the fabric, time, tasks, and the other side.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use viaduct_provider::via::outcome::Harm;
use viaduct_provider::{NicHandle, Provider};

use crate::check::{Outcome, Stop, holds};
use crate::memory::Allocation;
use crate::world::{Link, World};

/// Longest wait for something that must happen soon. Well below [`CASE_LIMIT`], so that a wait
/// that fails is reported as what it waited for.
pub const LIMIT: Duration = Duration::from_secs(6);

/// After this time a case that has not ended counts as hung.
pub const CASE_LIMIT: Duration = Duration::from_secs(20);

/// What [`Environment::new`] is made of.
pub struct Parts {
    /// The fabric.
    pub provider: Arc<dyn Provider>,
    /// The device that this side opens.
    pub device: String,
    /// Time and tasks.
    pub world: Arc<dyn World>,
    /// The way to the other side, if there is one.
    pub link: Option<Box<dyn Link>>,
    /// 0 for the side that asks for the connection, 1 for the one that waits.
    pub side: usize,
    /// Equal at both sides, different in every case and every run.
    pub token: u64,
    /// Ends the process of this side at once, as `SIGKILL` does, if it has one of its own.
    pub die: Option<fn()>,
    /// What happens to every message of this case.
    pub harm: Option<Harm>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Parts")
            .field("device", &self.device)
            .field("side", &self.side)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// What a side of a case has. Shared by its tasks.
pub struct Environment {
    parts: Parts,
    nics: Mutex<Vec<NicHandle>>,
    /// Memory that the fabric may reach until every NIC is closed.
    allocations: Mutex<Vec<Allocation>>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Environment")
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

impl Environment {
    /// For one side of one case.
    #[must_use]
    pub fn new(parts: Parts) -> Arc<Self> {
        Arc::new(Self {
            parts,
            nics: Mutex::default(),
            allocations: Mutex::default(),
        })
    }

    /// The fabric.
    #[must_use]
    pub fn provider(&self) -> &dyn Provider {
        &*self.parts.provider
    }

    /// The device that this side opens.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.parts.device
    }

    /// 0 for the side that asks for connections, 1 for the one that waits.
    #[must_use]
    pub fn side(&self) -> usize {
        self.parts.side
    }

    /// What happens to every message of this case.
    pub(crate) fn harm(&self) -> Option<Harm> {
        self.parts.harm
    }

    /// A discriminator of this case, equal at both sides for equal names.
    #[must_use]
    pub fn discriminator(&self, name: &str) -> Vec<u8> {
        let mut bytes = self.parts.token.to_le_bytes().to_vec();
        bytes.extend_from_slice(name.as_bytes());
        bytes
    }

    /// Opens the NIC; it is closed when the side ends.
    pub fn open_nic(&self) -> Outcome<NicHandle> {
        let nic = self.provider().open_nic(self.device())?;
        lock(&self.nics).push(nic);
        Ok(nic)
    }

    /// Closes a NIC before the side ends.
    pub fn close_nic(&self, nic: NicHandle) -> Outcome {
        self.provider().close_nic(nic)?;
        lock(&self.nics).retain(|open| *open != nic);
        Ok(())
    }

    /// Keeps memory until every NIC of this side is closed.
    pub(crate) fn keep(&self, allocation: Allocation) {
        lock(&self.allocations).push(allocation);
    }

    /// Whether a range lies in memory of this side.
    pub(crate) fn owns(&self, address: usize, length: usize) -> bool {
        lock(&self.allocations)
            .iter()
            .any(|allocation| allocation.covers(address, length))
    }

    /// Time since some origin.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.parts.world.now()
    }

    /// Lets time pass.
    pub fn sleep(&self, milliseconds: u64) {
        self.parts.world.sleep(Duration::from_millis(milliseconds));
    }

    /// Gives way between two looks at something that will change.
    pub fn relax(&self) {
        self.parts.world.relax();
    }

    /// Looks until there is something to see.
    #[track_caller]
    pub fn until<T>(
        &self,
        what: impl fmt::Display,
        mut look: impl FnMut() -> Outcome<Option<T>>,
    ) -> Outcome<T> {
        let start = self.now();
        let mut late = Stop::failed(format_args!("{what}: expected within {LIMIT:?}, was not"));
        loop {
            if let Some(seen) = look()? {
                return Ok(seen);
            }
            if self.now() - start > LIMIT {
                // Looked at once more after the time was over: the machine may have been busy.
                return match look()? {
                    Some(seen) => Ok(seen),
                    None => Err(std::mem::replace(&mut late, Stop::Failed(String::new()))),
                };
            }
            self.relax();
        }
    }

    /// Sends bytes to the other side and waits for its own.
    #[track_caller]
    pub fn exchange(&self, bytes: &[u8]) -> Outcome<Vec<u8>> {
        let Some(link) = &self.parts.link else {
            return Err(Stop::failed("this case has one side only"));
        };
        link.send(bytes)
            .and_then(|()| link.receive(CASE_LIMIT))
            .map_err(Stop::OtherSide)
    }

    /// Waits for the other side to come to the same place.
    #[track_caller]
    pub fn meet(&self, place: &str) -> Outcome {
        let other = self.exchange(place.as_bytes())?;
        let other = String::from_utf8_lossy(&other);
        holds(
            other == place,
            format_args!("the case itself: both sides at \"{place}\", other at \"{other}\""),
        )
    }

    /// Sends numbers to the other side and waits for as many of its own.
    #[track_caller]
    pub fn exchange_numbers<const N: usize>(&self, numbers: [u64; N]) -> Outcome<[u64; N]> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let theirs = self.exchange(&bytes)?;
        holds(
            theirs.len() == bytes.len(),
            "the case itself: both sides exchange as many numbers",
        )?;
        let mut result = [0; N];
        for (number, bytes) in result.iter_mut().zip(theirs.chunks_exact(8)) {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            *number = u64::from_le_bytes(word);
        }
        Ok(result)
    }

    /// Runs a part of this side beside the rest of it.
    #[track_caller]
    pub fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        name: &str,
        task: impl FnOnce(&Arc<Self>) -> Outcome<T> + Send + 'static,
    ) -> Outcome<Task<T>> {
        let result = Arc::new(Mutex::new(None));
        let (slot, environment) = (result.clone(), self.clone());
        self.parts
            .world
            .spawn(
                name,
                Box::new(move || {
                    let outcome = task(&environment);
                    *lock(&slot) = Some(outcome);
                }),
            )
            .map_err(Stop::failed)?;
        Ok(Task {
            name: name.to_owned(),
            result,
            environment: self.clone(),
        })
    }

    /// Ends this side's process at once; skips where it has none of its own.
    pub fn die(&self) -> Outcome {
        match self.parts.die {
            Some(die) => {
                die();
                Err(Stop::failed("the case itself: the process lives on"))
            }
            None => Err(Stop::Skipped("needs processes".to_owned())),
        }
    }

    /// Closes what the side left open. Memory is given back when its last task ends.
    pub fn finish(&self) -> Outcome {
        let nics = std::mem::take(&mut *lock(&self.nics));
        let mut result = Ok(());
        for nic in nics {
            if let Err(error) = self.provider().close_nic(nic) {
                // What the fabric still has may be reached by it for ever.
                std::mem::take(&mut *lock(&self.allocations))
                    .into_iter()
                    .for_each(std::mem::forget);
                result = Err(Stop::from(error));
            }
        }
        result
    }
}

/// A part of a side that runs beside the rest of it.
pub struct Task<T> {
    name: String,
    result: Arc<Mutex<Option<Outcome<T>>>>,
    environment: Arc<Environment>,
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Task({:?})", self.name)
    }
}

impl<T> Task<T> {
    /// Whether it has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        lock(&self.result).is_some()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn join(self) -> Outcome<T> {
        let what = format!("the end of task \"{}\"", self.name);
        self.environment
            .until(what, || Ok(lock(&self.result).take()))?
    }
}

/// Locks; a thread that panicked with it reports its panic itself.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
