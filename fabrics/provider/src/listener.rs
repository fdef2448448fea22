//! The side that waits for connections.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use viaduct_core::{Address, RemoteViAttributes};

use crate::error::Result;
use crate::nic::NicShared;
use crate::provider::{IncomingRequest, Provider};
use crate::vi::Vi;

/// Waits for connection requests to one endpoint.
///
/// A request is taken only while a call waits for it: a client that asks in between is told
/// [`crate::ReturnCode::NoMatch`], and asks again.
pub struct Listener<P: Provider> {
    nic: Arc<NicShared<P>>,
    address: Address,
}

impl<P: Provider> Listener<P> {
    pub(crate) fn new(nic: Arc<NicShared<P>>, address: Address) -> Self {
        Self { nic, address }
    }

    /// Where clients find it.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Waits for a request; `None` waits for ever.
    ///
    /// # Errors
    ///
    /// [`crate::ReturnCode::Timeout`].
    pub fn request(&self, limit: Option<Duration>) -> Result<Request<P>> {
        let incoming = self
            .nic
            .fabric
            .connect_wait(self.nic.handle, &self.address, limit)?;
        Ok(Request {
            nic: Arc::clone(&self.nic),
            incoming,
            is_open: true,
        })
    }

    /// Waits for a request and accepts it with an idle VI that has its receives posted.
    ///
    /// # Errors
    ///
    /// [`crate::ReturnCode::Timeout`], and what [`Request::accept`] says; the client is then
    /// rejected.
    pub fn accept(&self, vi: &mut Vi<P>, limit: Option<Duration>) -> Result<RemoteViAttributes> {
        let mut request = self.request(limit)?;
        request.accept(vi)?;
        Ok(request.incoming.attributes)
    }
}

impl<P: Provider> fmt::Debug for Listener<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Listener")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// A client that waits for an answer. Dropped without one, it is rejected.
pub struct Request<P: Provider> {
    nic: Arc<NicShared<P>>,
    incoming: IncomingRequest,
    is_open: bool,
}

impl<P: Provider> Request<P> {
    /// Who asks.
    #[must_use]
    pub const fn remote(&self) -> &Address {
        &self.incoming.remote
    }

    /// With what kind of VI.
    #[must_use]
    pub const fn attributes(&self) -> &RemoteViAttributes {
        &self.incoming.attributes
    }

    /// Accepts with an idle VI of the same level and longest transfer.
    ///
    /// # Errors
    ///
    /// What [`Provider::connect_accept`] says; the request stays open then.
    pub fn accept(&mut self, vi: &mut Vi<P>) -> Result<()> {
        self.nic
            .fabric
            .connect_accept(self.incoming.connection, vi.handle())?;
        self.is_open = false;
        Ok(())
    }

    /// Tells the client no.
    pub fn reject(self) {
        drop(self);
    }
}

impl<P: Provider> Drop for Request<P> {
    fn drop(&mut self) {
        if self.is_open {
            // A client that has given up meanwhile needs no answer.
            let _ = self.nic.fabric.connect_reject(self.incoming.connection);
        }
    }
}

impl<P: Provider> fmt::Debug for Request<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Request")
            .field("incoming", &self.incoming)
            .finish_non_exhaustive()
    }
}
