//! The RDMA adapter of a host: its protection domain, memory regions and completion queues.

use std::time::Duration;

use pyo3::prelude::*;
use viaduct_programs::Process;
use viaduct_programs::verbs::{
    self, CompletionChannel, CompletionQueueOptions, ProtectionDomain, errno,
};

use super::On;
use super::home::{Held, locked};
use super::host::{HostState, Simulated};
use super::region::Region;
use crate::errors;

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

/// The device of a host, opened by what first needs it.
#[derive(Debug)]
pub(crate) struct Opened {
    context: verbs::Context,
    pub(crate) domain: ProtectionDomain,
}

impl Opened {
    fn new(process: &Process) -> verbs::Result<Self> {
        let context = process.rdma()?.open()?;
        let domain = context.allocate_protection_domain()?;
        Ok(Self { context, domain })
    }

    pub(crate) fn queue(&self, entries: u32) -> verbs::Result<Queue> {
        let channel = self.context.create_completion_channel()?;
        let options = CompletionQueueOptions {
            // A queue has an entry at least, though nothing is ever posted.
            entries: entries.max(1),
            channel: Some(channel.clone()),
            ..CompletionQueueOptions::default()
        };
        let queue = self.context.create_completion_queue(&options)?;
        Ok(Queue { queue, channel })
    }
}

/// Where requests complete, and where that is told.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) queue: verbs::CompletionQueue,
    channel: CompletionChannel,
}

impl Queue {
    pub(crate) fn take(&self) -> verbs::Result<Option<verbs::Completion>> {
        let mut one = [verbs::Completion::default()];
        Ok((self.queue.poll(&mut one)? == 1).then_some(one[0]))
    }

    /// Sleeps until something completes, for so long at most.
    pub(crate) fn wait(
        &self,
        process: &Process,
        limit: Option<Duration>,
    ) -> verbs::Result<Option<verbs::Completion>> {
        let until = limit.map(|limit| process.now() + limit);
        loop {
            // What completed before the queue was armed is told to nobody.
            for is_armed in [false, true] {
                if is_armed {
                    self.queue.arm(false)?;
                }
                if let Some(completion) = self.take()? {
                    return Ok(Some(completion));
                }
            }
            let left = until.map(|until| until.saturating_sub(process.now()));
            match self.channel.next_event(left) {
                Err(error) if error.errno() == errno::EAGAIN => return Ok(None),
                event => event?,
            };
        }
    }
}

impl HostState {
    fn simulated(&self) -> PyResult<&Simulated> {
        self.check_turn()?;
        match &self.place {
            On::Simulated(place) => Ok(place),
            On::Real(_) => Err(errors::fabric(
                "NotSupported",
                "programs of Python have queue pairs on simulated hosts (\"sim:rnic-gen4\"); between \
                 processes, run RDMA programs with `viaduct rdma`"
                    .to_owned(),
            )),
        }
    }

    pub(crate) fn with_device<T>(
        &self,
        act: impl FnOnce(&Simulated, &Opened) -> verbs::Result<T>,
    ) -> PyResult<T> {
        let place = self.simulated()?;
        let mut opened = locked(&self.device);
        let device = match opened.take() {
            Some(device) => device,
            None => Opened::new(&place.process).map_err(|error| refused(&error))?,
        };
        act(place, opened.insert(device)).map_err(|error| refused(&error))
    }

    pub(crate) fn make_region(&self, bytes: usize, access: u32) -> PyResult<Region> {
        let buffer = self.with_device(|_, device| device.domain.allocate(bytes, access))?;
        Ok(Region::new(Held::new(buffer, self.home()), self.id))
    }
}
