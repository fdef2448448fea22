//! Which host and adapter a program stands at.

use std::sync::Arc;

use super::Process;

impl Process {
    /// The host's number.
    #[must_use]
    pub fn host(&self) -> u32 {
        self.shared.lock().config.adapter_at(self.place).0
    }

    /// How many adapters the host has.
    #[must_use]
    pub fn adapters(&self) -> u32 {
        self.shared.lock().config.hosts.adapters.count
    }

    /// The number of the adapter that this view has, in its host.
    #[must_use]
    pub fn adapter(&self) -> u32 {
        self.shared.lock().config.adapter_at(self.place).1
    }

    /// The same host by another of its adapters: what is opened there is of that adapter. Programs
    /// have the first unless they ask for another one. None if there is no such adapter.
    #[must_use]
    pub fn at_adapter(&self, adapter: u32) -> Option<Self> {
        let places = self.shared.lock().places_with(self.place);
        let place = places.start.checked_add(adapter)?;
        let shared = Arc::clone(&self.shared);
        places.contains(&place).then(|| Self::new(shared, place))
    }
}
