//! What an agent needs of the place where it runs.

use std::time::Duration;

use viaduct_provider::via::{HostAddress, Timespan, Timestamp};
use viaduct_provider::{Counts, Error, Result, ReturnCode, ViHandle, Watched};

use crate::agent::Agent;

/// Work of the calling program that an operation costs, where programs pay for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Work {
    /// Building a descriptor and putting it into a send queue.
    PostSend,
    /// Putting a descriptor into a receive queue.
    PostReceive,
    /// Registering so many bytes of memory.
    Register {
        /// How many.
        bytes: u64,
    },
}

/// Where an agent runs: its lock, its time, how callers wait, and who carries its messages.
///
/// # Safety
///
/// What a runtime moves, it moves under the lock that these functions take, and only what the
/// verdicts of the core's `Nic`s allow, so that [`crate::AgentProvider`] keeps the
/// contract of [`viaduct_provider::Provider`].
pub unsafe trait Runtime: Send + Sync + 'static {
    /// Gets ready, before the first NIC is opened.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    fn start(&self) -> Result<()> {
        Ok(())
    }

    /// A look that changes nothing that others wait for.
    fn access<T>(&self, act: impl FnOnce(&mut Agent) -> T) -> T;

    /// An operation, about a VI if one is given: what it does, then what follows from it, also
    /// when it is refused.
    ///
    /// # Errors
    ///
    /// Those of `act`.
    fn operate<T>(
        &self,
        vi: Option<ViHandle>,
        act: impl FnOnce(&mut Agent, Timestamp) -> Result<T>,
    ) -> Result<T>;

    /// As [`Runtime::operate`], about a VI, by a program that pays for `work` first.
    ///
    /// # Errors
    ///
    /// Those of `act`.
    fn perform<T>(
        &self,
        vi: ViHandle,
        _work: Work,
        act: impl FnOnce(&mut Agent, Timestamp) -> Result<T>,
    ) -> Result<T> {
        self.operate(Some(vi), act)
    }

    /// So many looks for something that may be there, between which a program does nothing, and
    /// fewer once it is there: it pays for taking it. `None` when it is not there.
    ///
    /// # Errors
    ///
    /// Those of `look`.
    fn poll<T>(
        &self,
        _watched: Watched,
        _looks: u64,
        mut look: impl FnMut(&mut Agent) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.access(&mut look)
    }

    /// A handler is about to be told of what comes there.
    fn expect(&self, _watched: Watched) {}

    /// Has a program pay for work that is part of an operation.
    fn charge(&self, _work: Work) {}

    /// As [`Runtime::block`], by a program that pays for taking what it sees.
    ///
    /// # Errors
    ///
    /// Those of `look`.
    fn take<T>(
        &self,
        _watched: Watched,
        limit: Option<Duration>,
        look: impl FnMut(&mut Agent) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.block(limit, look)
    }

    /// Looks until there is something to see; `None` when the time is over.
    ///
    /// # Errors
    ///
    /// Those of `look`.
    fn block<T>(
        &self,
        limit: Option<Duration>,
        look: impl FnMut(&mut Agent) -> Result<Option<T>>,
    ) -> Result<Option<T>>;

    /// Whether the caller is a handler that the runtime called.
    fn is_handler(&self) -> bool;

    /// A span of time, in the runtime's unit.
    fn span(&self, limit: Option<Duration>) -> Timespan;

    /// The `index`th address of a host's name.
    ///
    /// # Errors
    ///
    /// `NameService`.
    fn address(&self, name: &str, index: u32) -> Result<HostAddress>;

    /// The name of a host.
    ///
    /// # Errors
    ///
    /// `NameService`.
    fn name(&self, address: HostAddress) -> Result<String>;

    /// What it has counted of the messages of its NIC.
    ///
    /// # Errors
    ///
    /// `NotSupported` where nothing is counted.
    fn counts(&self) -> Result<Counts> {
        Err(Error::new(
            ReturnCode::NotSupported,
            "this fabric does not count its traffic: use shm or a simulated host",
        ))
    }

    /// Hosts within so many hops of one, itself included.
    fn neighbours(&self, own: HostAddress, hops: u32) -> Vec<HostAddress>;
}
