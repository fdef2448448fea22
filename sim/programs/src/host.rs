//! A simulated host: its agent, its processor, its adapter's engines.

use std::sync::Arc;

use viaduct_agent::{Agent, Device};
use viaduct_engine::{EventId, Time};
use viaduct_hardware::HostModel;
use viaduct_provider::Counts;
use viaduct_provider::via::{HostAddress, Nic, NicAttributes, ViId};

use crate::notices::Notices;
use crate::queues::Told;
use crate::tasks::TaskId;
use crate::verbs::Verbs;

/// The one NIC of a host's agent.
pub(crate) const DEVICE: usize = 0;

/// What an adapter of a host is called.
#[must_use]
pub fn device_name(adapter: u32) -> String {
    format!("sim{adapter}")
}

/// The first host's address: six bytes, as in Ethernet's locally administered range.
pub(crate) const FIRST_ADDRESS: u64 = 0x0200_0000_0001;

pub(crate) const fn address_of(host: u32) -> HostAddress {
    HostAddress::new(FIRST_ADDRESS + host as u64)
}

pub(crate) fn host_at(address: HostAddress, count: usize) -> Option<u32> {
    let index = address.get().checked_sub(FIRST_ADDRESS)?;
    (index < count as u64).then_some(index as u32)
}

/// In this order: what every message needs comes first, what few hosts ever need last.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Host {
    /// By the VI's index: what its queues' other ends were told of, of an adapter that tells.
    pub(crate) told: Vec<Told>,
    /// Tripwires and the event queue, of an adapter that has them.
    pub(crate) notices: Option<Box<Notices>>,
    /// Tasks that wait for a change at the host: kept at its first place.
    pub(crate) watchers: Vec<TaskId>,
    /// What its NIC did to move messages.
    pub(crate) counts: Counts,
    pub(crate) agent: Agent,
    /// Its queue pairs, once a program has asked for some.
    pub(crate) verbs: Option<Box<Verbs>>,
    /// The task that calls this host's handlers.
    pub(crate) handler: Option<TaskId>,
    /// When the semantics is to be told that time has passed.
    pub(crate) timeout: Option<(Time, EventId)>,
}

/// Makes room for one more. It doubles from one: most simulated hosts have one or two of anything.
pub(crate) fn reserve_little<T>(items: &mut Vec<T>) {
    if items.len() == items.capacity() {
        items.reserve_exact(items.len().max(1));
    }
}

impl Host {
    pub(crate) fn new(
        number: u32,
        adapter: u32,
        model: &HostModel,
        name: &Arc<str>,
        attributes: &Arc<NicAttributes>,
    ) -> Self {
        let nic = Nic::new(Arc::clone(attributes));
        let address = address_of(number);
        let device = Device::new(Arc::clone(name), address, nic, Arc::clone(attributes));
        Self {
            agent: Agent::new(adapter, device, Vec::new()),
            told: Vec::new(),
            watchers: Vec::new(),
            notices: Notices::new(&model.mechanism),
            verbs: None,
            timeout: None,
            handler: None,
            counts: Counts::default(),
        }
    }

    #[inline]
    pub(crate) fn nic(&mut self) -> &mut Nic {
        &mut self.agent.devices[DEVICE].nic
    }

    #[inline]
    pub(crate) fn told(&mut self, vi: ViId) -> &mut Told {
        let index = vi.index() as usize;
        if self.told.len() <= index {
            self.tell_more(index);
        }
        self.told[index].of(vi)
    }

    #[cold]
    fn tell_more(&mut self, last: usize) {
        // Room for as many, or twice as many: most simulated hosts have a VI or two.
        let more = (last + 1).max(2 * self.told.len()) - self.told.len();
        self.told.reserve_exact(more);
        self.told.resize_with(last + 1, Told::default);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of programs is as fast as what a message reads of two hosts is small.
    #[test]
    fn what_each_program_of_many_has_is_small() {
        let sizes = [
            ("a host's programs", size_of::<Host>(), 768),
            ("what a VI's other end was told", size_of::<Told>(), 32),
        ];
        for (what, bytes, bytes_max) in sizes {
            assert!(bytes <= bytes_max, "{what}: {bytes} bytes");
        }
    }
}
