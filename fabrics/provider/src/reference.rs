//! How the safe interface holds a fabric.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::provider::Provider;

/// A fabric that stays as long as something was made on it: a static one, or a shared one.
///
/// Made from `&'static P` or `Arc<P>`; [`crate::Nic::open`] takes either.
pub struct Fabric<P: Provider>(Kind<P>);

enum Kind<P: Provider> {
    Static(&'static P),
    Shared(Arc<P>),
}

impl<P: Provider> From<&'static P> for Fabric<P> {
    fn from(provider: &'static P) -> Self {
        Self(Kind::Static(provider))
    }
}

impl<P: Provider> From<Arc<P>> for Fabric<P> {
    fn from(provider: Arc<P>) -> Self {
        Self(Kind::Shared(provider))
    }
}

impl<P: Provider> Clone for Fabric<P> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Kind::Static(provider) => Kind::Static(provider),
            Kind::Shared(provider) => Kind::Shared(Arc::clone(provider)),
        })
    }
}

impl<P: Provider> Deref for Fabric<P> {
    type Target = P;

    #[inline]
    fn deref(&self) -> &P {
        match &self.0 {
            Kind::Static(provider) => provider,
            Kind::Shared(provider) => provider,
        }
    }
}

impl<P: Provider> fmt::Debug for Fabric<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Fabric")
    }
}
