//! Which host and adapter a program stands at.

use std::sync::Arc;

use viaduct_agent::agent_of;
use viaduct_provider::{Error, Result, ReturnCode};

use super::Process;
use crate::host::device_name;

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

    /// The same host by the adapter of this name.
    ///
    /// # Errors
    ///
    /// `InvalidParameter` if it has no such adapter.
    pub fn at_device(&self, name: &str) -> Result<Self> {
        let adapters = self.adapters();
        let number = (0..adapters).find(|adapter| device_name(*adapter) == name);
        number
            .and_then(|adapter| self.at_adapter(adapter))
            .ok_or_else(|| {
                let names = match adapters {
                    1 => format!("there is {}", device_name(0)),
                    _ => format!(
                        "there are {} to {}",
                        device_name(0),
                        device_name(adapters - 1)
                    ),
                };
                let reason = format!("no device {name:?}; {names}");
                Error::new(ReturnCode::InvalidParameter, reason)
            })
    }

    /// The same host by the adapter that has given a handle, or a key, of these bits. Bits that
    /// none has given name nothing at any of them.
    #[must_use]
    pub fn at_adapter_of(&self, bits: u64) -> Self {
        let other = self.at_adapter(agent_of(bits));
        other.unwrap_or_else(|| self.clone())
    }
}
