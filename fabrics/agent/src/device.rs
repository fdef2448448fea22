//! The NICs of an agent.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use viaduct_provider::ViHandle;
use viaduct_provider::via::{HostAddress, Nic, NicAttributes, ViId, WaitId};

use crate::agent::WaitAnswer;

/// The NICs of an agent, by number. The first lies where the agent does: most have no other.
#[derive(Debug)]
pub struct Devices {
    first: Device,
    others: Box<[Device]>,
}

impl Devices {
    pub(crate) fn new(first: Device, others: Vec<Device>) -> Self {
        Self {
            first,
            others: others.into_boxed_slice(),
        }
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is one at the least")]
    #[must_use]
    pub fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// The NIC of a number, if there is one.
    #[inline]
    #[must_use]
    pub fn get(&self, number: usize) -> Option<&Device> {
        match number.checked_sub(1) {
            None => Some(&self.first),
            Some(place) => self.others.get(place),
        }
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Device> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// All, by number.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Device> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }
}

impl Index<usize> for Devices {
    type Output = Device;

    #[inline]
    fn index(&self, number: usize) -> &Device {
        match number.checked_sub(1) {
            None => &self.first,
            Some(place) => &self.others[place],
        }
    }
}

impl IndexMut<usize> for Devices {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut Device {
        match number.checked_sub(1) {
            None => &mut self.first,
            Some(place) => &mut self.others[place],
        }
    }
}

/// One NIC of the fabric. Several openings of it are several handles.
///
/// In this order: what every message needs comes first.
#[repr(C)]
pub struct Device {
    /// Its semantics.
    pub nic: Nic,
    /// The handles of VIs, by the slots that the semantics has them in.
    vi_handles: Vec<Option<(ViId, ViHandle)>>,
    pub(crate) attributes: Arc<NicAttributes>,
    /// Its host's address.
    pub address: HostAddress,
    pub(crate) name: Arc<str>,
    /// Waits that have not been answered, and those that have.
    pub(crate) waits: BTreeMap<WaitId, WaitAnswer>,
}

impl fmt::Debug for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Device")
            .field("name", &self.name)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Device {
    /// A NIC of a name, with an address and its semantics.
    #[must_use]
    pub fn new(
        name: Arc<str>,
        address: HostAddress,
        nic: Nic,
        attributes: Arc<NicAttributes>,
    ) -> Self {
        Self {
            name,
            address,
            nic,
            attributes,
            vi_handles: Vec::new(),
            waits: BTreeMap::new(),
        }
    }

    /// How a wait ended; it ends with this.
    pub(crate) fn end_wait(&mut self, wait: WaitId) -> Option<WaitAnswer> {
        let answer = self.waits.remove(&wait);
        if self.waits.is_empty() {
            // An empty map keeps half a kilobyte: too much for each of many simulated hosts.
            self.waits = BTreeMap::new();
        }
        answer
    }

    /// The handle of a VI.
    #[inline]
    pub(crate) fn handle_of(&self, vi: ViId) -> Option<ViHandle> {
        let (id, handle) = (*self.vi_handles.get(vi.index() as usize)?)?;
        (id == vi).then_some(handle)
    }

    /// Notes the handle of a VI.
    pub(crate) fn remember(&mut self, vi: ViId, handle: ViHandle) {
        let place = vi.index() as usize;
        if self.vi_handles.len() <= place {
            // Room for one more, or twice as much: most simulated hosts have a VI or two.
            let more = (place + 1).max(self.vi_handles.len()) - self.vi_handles.len();
            self.vi_handles.reserve_exact(more);
            self.vi_handles.resize(place + 1, None);
        }
        self.vi_handles[place] = Some((vi, handle));
    }

    pub(crate) fn forget(&mut self, vi: ViId) {
        if let Some(place) = self.vi_handles.get_mut(vi.index() as usize) {
            *place = None;
        }
    }
}
