//! A NIC's error handler that remembers what it was told.

use std::sync::{Arc, Mutex};

use viaduct_provider::{AsynchronousError, ErrorCode, NicHandle, ResourceCode, ViHandle};

use crate::check::{Outcome, equal};
use crate::environment::{Environment, lock};

/// The asynchronous errors of a NIC since [`Errors::of`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors(Arc<Mutex<Vec<AsynchronousError>>>);

impl Errors {
    /// Sets the NIC's handler.
    pub(crate) fn of(env: &Environment, nic: NicHandle) -> Outcome<Self> {
        let errors = Self::default();
        let list = errors.0.clone();
        env.provider()
            .set_error_handler(nic, Some(Arc::new(move |error| lock(&list).push(*error))))?;
        Ok(errors)
    }

    /// Every error so far with this code.
    pub(crate) fn with(&self, code: ErrorCode) -> Vec<AsynchronousError> {
        lock(&self.0)
            .iter()
            .filter(|error| error.code == code)
            .copied()
            .collect()
    }

    /// Waits for an error about a VI, and checks what it says.
    #[track_caller]
    pub(crate) fn about_vi(
        &self,
        env: &Environment,
        nic: NicHandle,
        vi: ViHandle,
        code: ErrorCode,
    ) -> Outcome {
        let error = env.until(
            format_args!("a call of the error handler with {code:?}"),
            || {
                Ok(self
                    .with(code)
                    .into_iter()
                    .find(|error| error.vi == Some(vi)))
            },
        )?;
        equal(error.nic, nic, format_args!("the NIC of {code:?}"))?;
        equal(
            error.resource,
            ResourceCode::Vi,
            format_args!("the resource of {code:?}"),
        )
    }

    /// Fails if an error was told about a VI whose code is none of these.
    #[track_caller]
    pub(crate) fn only(&self, vi: ViHandle, codes: &[ErrorCode]) -> Outcome {
        let told = lock(&self.0);
        let others = told
            .iter()
            .filter(|error| error.vi == Some(vi) && !codes.contains(&error.code));
        let others: Vec<ErrorCode> = others.map(|error| error.code).collect();
        equal(others, Vec::new(), "what else the error handler was told")
    }

    /// How many errors with this code were told about a VI.
    pub(crate) fn count(&self, vi: ViHandle, code: ErrorCode) -> usize {
        self.with(code)
            .iter()
            .filter(|error| error.vi == Some(vi))
            .count()
    }
}
