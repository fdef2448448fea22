//! The RDMA adapter of a host: its protection domain, memory regions and completion queues.

use std::time::Duration;

use pyo3::prelude::*;
use viaduct_programs::verbs::{self, errno};
use viaduct_provider::via::verbs::CompletionQueueOptions;

use super::home::{Held, locked};
use super::meeting::Clock;
use super::region::Region;
use super::state::HostState;
use super::{On, on};
use crate::errors;

/// A signal came while it waited.
pub(crate) const EINTR: i32 = 4;

/// What verbs refuses, with the name of its number.
pub(crate) fn refused(error: &verbs::Error) -> PyErr {
    let code = match error.errno() {
        errno::EIO => "EIO",
        errno::EAGAIN => "EAGAIN",
        errno::ENOMEM => "ENOMEM",
        errno::EBUSY => "EBUSY",
        errno::EOPNOTSUPP => "EOPNOTSUPP",
        _ => "EINVAL",
    };
    errors::fabric(code, format!("{} ({code})", error.reason()))
}

/// An opened device.
#[derive(Debug)]
pub(crate) struct Opened<C, D> {
    context: C,
    pub(crate) domain: D,
    pub(crate) gid: [u8; 16],
}

/// The device of a host, opened by what first needs it.
pub(crate) type Device = On<
    Opened<verbs::Context, verbs::ProtectionDomain>,
    Opened<viaduct_rdma::Context, viaduct_rdma::ProtectionDomain>,
>;

/// What was opened.
pub(crate) type AnyContext = On<verbs::Context, viaduct_rdma::Context>;

/// Where requests complete, and where that is told.
#[derive(Clone, Debug)]
pub(crate) struct Completions<Q, C> {
    pub(crate) queue: Q,
    channel: C,
}

/// The completions of one queue of a queue pair.
pub(crate) type Queue = On<
    Completions<verbs::CompletionQueue, verbs::CompletionChannel>,
    Completions<viaduct_rdma::CompletionQueue, viaduct_rdma::CompletionChannel>,
>;

impl Device {
    fn open(host: &HostState) -> verbs::Result<Self> {
        Ok(match &host.place {
            On::Simulated(place) => {
                let context = place.process.rdma()?.open()?;
                let (domain, gid) = (
                    context.allocate_protection_domain()?,
                    context.device().gid(),
                );
                Self::Simulated(Opened {
                    context,
                    domain,
                    gid,
                })
            }
            On::Real(_) => {
                let devices = viaduct_rdma::devices();
                let device = devices.first().ok_or_else(|| {
                    let reason = "there is no device: VIADUCT_RDMA_DEVICES is 0";
                    verbs::Error::new(errno::EOPNOTSUPP, reason)
                })?;
                let context = device.open()?;
                let (domain, gid) = (context.allocate_protection_domain()?, device.gid(1, 0)?.gid);
                Self::Real(Opened {
                    context,
                    domain,
                    gid,
                })
            }
        })
    }

    /// What was opened, to be asked without holding this.
    pub(crate) fn context(&self) -> AnyContext {
        match self {
            Self::Simulated(device) => On::Simulated(device.context.clone()),
            Self::Real(device) => On::Real(device.context),
        }
    }

    pub(crate) fn queue(&self, entries: u32) -> verbs::Result<Queue> {
        /// A queue has an entry at least, though nothing is ever posted.
        fn options<C: Clone>(entries: u32, channel: &C) -> CompletionQueueOptions<C> {
            CompletionQueueOptions {
                entries: entries.max(1),
                channel: Some(channel.clone()),
                ..CompletionQueueOptions::default()
            }
        }
        Ok(match self {
            Self::Simulated(device) => {
                let channel = device.context.create_completion_channel()?;
                let options = options(entries, &channel);
                let queue = device.context.create_completion_queue(&options)?;
                On::Simulated(Completions { queue, channel })
            }
            Self::Real(device) => {
                let channel = device.context.create_completion_channel()?;
                let options = options(entries, &channel);
                let queue = device.context.create_completion_queue(&options)?;
                On::Real(Completions { queue, channel })
            }
        })
    }
}

impl Queue {
    pub(crate) fn take(&self) -> verbs::Result<Option<verbs::Completion>> {
        let mut one = [verbs::Completion::default()];
        let taken = on!(self, completions => completions.queue.poll(&mut one))?;
        Ok((taken == 1).then_some(one[0]))
    }

    /// Sleeps until something completes, for so long at most.
    pub(crate) fn wait<C: Clock>(
        &self,
        clock: &C,
        limit: Option<Duration>,
    ) -> verbs::Result<Option<verbs::Completion>> {
        let begun = clock.now();
        let spin = C::spin_time();
        let is_over = |spent: Duration| limit.is_some_and(|limit| spent >= limit);
        while clock.now() - begun < spin && !is_over(clock.now() - begun) {
            if let Some(completion) = self.take()? {
                return Ok(Some(completion));
            }
            std::hint::spin_loop();
        }
        loop {
            // What completed before the queue was armed is told to nobody.
            for is_armed in [false, true] {
                if is_armed {
                    on!(self, completions => completions.queue.arm(false))?;
                }
                if let Some(completion) = self.take()? {
                    return Ok(Some(completion));
                }
            }
            let left = limit.map(|limit| (begun + limit).saturating_sub(clock.now()));
            match on!(self, completions => completions.channel.next_event(left)) {
                Err(error) if matches!(error.errno(), errno::EAGAIN | EINTR) => {
                    return Ok(None);
                }
                event => event?,
            };
        }
    }
}

impl HostState {
    pub(crate) fn with_device<T>(
        &self,
        act: impl FnOnce(&Device) -> verbs::Result<T>,
    ) -> PyResult<T> {
        self.check_turn()?;
        let mut opened = locked(&self.device);
        let device = match opened.take() {
            Some(device) => device,
            None => Device::open(self).map_err(|error| refused(&error))?,
        };
        act(opened.insert(device)).map_err(|error| refused(&error))
    }

    pub(crate) fn make_region(&self, bytes: usize, access: u32) -> PyResult<Region> {
        let buffer = self.with_device(|device| {
            Ok(match device {
                On::Simulated(device) => {
                    let buffer = device.domain.allocate(bytes, access)?;
                    On::Simulated(Held::new(buffer, self.home()))
                }
                On::Real(device) => On::Real(device.domain.allocate(bytes, access)?),
            })
        })?;
        Ok(Region::new(buffer, self.id))
    }
}
