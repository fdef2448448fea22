//! CLAN's own network, below VIA: a host gives memory, and whoever holds its cookie writes there.
//!
//! ```
//! use viaduct_programs::Simulation;
//!
//! let simulation = Simulation::new(viaduct_scenario::load_programs("clan", None, 2)?);
//! let network = |host| simulation.process(host).remote_writes().expect("CLAN");
//! let given = network(1).give(64);
//! let cookie = given.cookie();
//! simulation.spawn(0, move |process| {
//!     let memory = process.remote_writes().expect("CLAN").map(cookie).expect("mapped");
//!     memory.write(0, b"hello").expect("inside");
//! });
//! simulation.spawn(1, move |_| {
//!     // The bytes appear in order: the last of them comes last.
//!     let seen = given.poll(None, |bytes| (bytes[4] != 0).then(|| bytes[..5].to_vec()));
//!     assert_eq!(seen.as_deref(), Some(&b"hello"[..]));
//! });
//! # let mut simulation = simulation;
//! assert_eq!(simulation.run()?.counts.remote_writes, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod carry;
mod measure;

use std::fmt;
use std::time::Duration;

use viaduct_provider::{Error, Result, ReturnCode};

use crate::cluster::{Cluster, Hosted};
use crate::process::Process;
use viaduct_hardware::{HostModel, Mechanism, RemoteWriteModel};

pub(crate) use carry::{RawEvent, RawWrites, WriteId};
pub use measure::{remote_write_latency, remote_write_rate};

/// Names memory that a host has given. Whoever holds it may map the memory and write there, until
/// it is taken back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cookie {
    pub(crate) host: u32,
    pub(crate) area: u32,
    pub(crate) length: u32,
}

/// The network of CLAN adapters, as programs of one host use it.
#[derive(Clone, Debug)]
pub struct RemoteWrites {
    process: Process,
}

/// Memory of this host that others may write into. Dropped, it is taken back: what is written then,
/// or is under way, is refused.
pub struct Given {
    process: Process,
    cookie: Cookie,
}

/// Memory of another host, mapped here.
#[derive(Clone, Debug)]
pub struct Mapped {
    process: Process,
    cookie: Cookie,
}

impl fmt::Debug for Given {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut given = formatter.debug_struct("Given");
        given.field("cookie", &self.cookie).finish_non_exhaustive()
    }
}

/// The numbers of an adapter that has remote writes.
pub(crate) fn model_of(host: &HostModel) -> Option<RemoteWriteModel> {
    match &host.mechanism {
        Mechanism::RemoteWrites(model) => Some(*model),
        Mechanism::Native(_)
        | Mechanism::Firmware(_)
        | Mechanism::Kernel(_)
        | Mechanism::Rdma(_) => None,
    }
}

impl Process {
    /// The network below VIA; `None` if the adapter has no remote writes.
    #[must_use]
    pub fn remote_writes(&self) -> Option<RemoteWrites> {
        model_of(self.lock().config.host.of(self.place()))?;
        Some(RemoteWrites {
            process: self.clone(),
        })
    }
}

impl RemoteWrites {
    /// Gives memory of this host, zeroed.
    #[must_use]
    pub fn give(&self, bytes: u32) -> Given {
        let mut cluster = self.process.lock();
        let cookie = cluster.programs.raw.give(self.process.place(), bytes);
        drop(cluster);
        Given {
            process: self.process.clone(),
            cookie,
        }
    }

    /// Maps memory of another host, which costs what a mapping costs.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::InvalidParameter`] if it was taken back.
    pub fn map(&self, cookie: Cookie) -> Result<Mapped> {
        let mut cluster = self.process.lock();
        if !cluster.programs.raw.has(cookie) {
            return Err(taken_back(cookie));
        }
        if let Some(model) = model_of(cluster.config.host.of(self.process.place())) {
            self.process.spend(&mut cluster, model.map);
        }
        Ok(Mapped {
            process: self.process.clone(),
            cookie,
        })
    }
}

impl Given {
    /// What others need to write here.
    #[must_use]
    pub const fn cookie(&self) -> Cookie {
        self.cookie
    }

    /// Looks at the memory until there is something to see, in a loop; `None` when the time is
    /// over, or when the program cannot wait. `look` must not use the simulation: it would wait for
    /// itself.
    pub fn poll<T>(
        &self,
        limit: Option<Duration>,
        mut look: impl FnMut(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let area = self.cookie.area;
        self.process.poll_memory(limit, |cluster: &mut Cluster| {
            cluster.programs.raw.bytes(area).and_then(&mut look)
        })
    }

    /// Sleeps until there is something to see, with a tripwire on the byte at `offset`; without
    /// one, if all are taken, as [`Given::poll`].
    pub fn wait<T>(
        &self,
        offset: u32,
        limit: Option<Duration>,
        mut look: impl FnMut(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let area = self.cookie.area;
        let place = (area, offset);
        self.process
            .wait_for_memory(place, limit, |cluster: &mut Cluster| {
                cluster.programs.raw.bytes(area).and_then(&mut look)
            })
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        let mut cluster = self.process.lock();
        Hosted::take_back(&mut cluster, self.cookie);
    }
}

impl Mapped {
    /// Writes with the processor, which is busy until the adapter has taken the bytes.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::InvalidParameter`] outside the memory.
    pub fn write(&self, offset: u32, bytes: &[u8]) -> Result<()> {
        self.check(offset, bytes)?;
        let mut cluster = self.process.lock();
        let host = self.process.place();
        Hosted::write_raw(&mut cluster, host, self.cookie, offset, bytes);
        Ok(())
    }

    /// Queues a request to the DMA engine and returns; later writes of the processor may overtake
    /// it, later requests do not. Short ones the queue's scheduler writes
    /// itself.
    ///
    /// # Errors
    ///
    /// [`ReturnCode::InvalidParameter`] outside the memory.
    pub fn post_dma(&self, offset: u32, bytes: &[u8]) -> Result<()> {
        self.check(offset, bytes)?;
        let mut cluster = self.process.lock();
        let host = self.process.place();
        Hosted::post_raw(&mut cluster, host, self.cookie, offset, bytes);
        Ok(())
    }

    /// Polls until at most so many DMA requests of this host have not ended; false when the time is
    /// over.
    pub fn poll_dma(&self, at_most: u32, limit: Option<Duration>) -> bool {
        let host = self.process.place();
        let found = self.process.poll_memory(limit, |cluster: &mut Cluster| {
            (cluster.programs.raw.requests(host) <= at_most).then_some(())
        });
        found.is_some()
    }

    fn check(&self, offset: u32, bytes: &[u8]) -> Result<()> {
        let end = u64::from(offset) + bytes.len() as u64;
        if bytes.is_empty() || end > u64::from(self.cookie.length) {
            let reason = format!(
                "a write of {} bytes at {offset}: the memory has {} bytes, and a write has one at \
                 least",
                bytes.len(),
                self.cookie.length
            );
            return Err(Error::new(ReturnCode::InvalidParameter, reason));
        }
        Ok(())
    }
}

fn taken_back(cookie: Cookie) -> Error {
    let reason = format!(
        "the memory was taken back: host{} gives it no longer",
        cookie.host
    );
    Error::new(ReturnCode::InvalidParameter, reason)
}
