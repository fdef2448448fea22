//! How two queue pairs become connected: their programs trade numbers, as RDMA programs do over a
//! socket.

use std::time::Duration;

use pyo3::prelude::*;
use viaduct_programs::verbs::{QueuePairAttributes, QueuePairType};
use viaduct_provider::{Buffer, Provider, Vi};

use super::device::refused;
use super::meeting::{Clock, Meeting, explained};
use super::on;
use super::pair::AnyPair;
use super::vi::AnyVi;
use crate::errors;

/// Bytes of the number of a queue pair.
pub(crate) const NUMBER_BYTES: usize = 4;

/// The VI over which numbers were told, the rank of the peer if it asked, and the peer's private
/// data; or the error for which there is no connection.
pub(crate) type Joined = PyResult<(AnyVi, Option<usize>, Vec<u8>)>;

/// What tells the numbers of queue pairs, ready to be carried out by a program that blocks.
pub(crate) struct Join<P: Provider> {
    pub(crate) vi: Vi<P>,
    pub(crate) meeting: Meeting<P>,
    pub(crate) name: Option<String>,
    pub(crate) told: Buffer,
    pub(crate) telling: Buffer,
    pub(crate) length: usize,
    pub(crate) pair: AnyPair,
    pub(crate) kind: QueuePairType,
    pub(crate) attributes: QueuePairAttributes,
    pub(crate) limit: Option<Duration>,
}

impl<P: Provider> Join<P> {
    /// Both ends tell their number, become ready, and say so: what one sends then finds the other
    /// ready.
    pub(crate) fn carry_out<C: Clock>(
        mut self,
        clock: &C,
    ) -> PyResult<(Vi<P>, Option<usize>, Vec<u8>)> {
        let post = |posted: Result<(), viaduct_provider::Refused>| {
            posted.map_err(|refused| errors::refused(refused.error))
        };
        let patience = Some(self.limit.unwrap_or(C::PATIENCE));
        post(self.vi.post_receive(self.told))?;
        post(self.vi.post_receive(Buffer::empty()))?;
        let met = self.meeting.meet(clock, &mut self.vi, self.limit);
        let rank = met.map_err(|error| {
            errors::refused_as(error.code(), explained(&error, self.name.as_deref()))
        })?;
        post(self.vi.post_send(self.telling, self.length))?;
        let received = self.vi.receive(patience);
        let received = received.map_err(|error| errors::completion(&error))?;
        let words = &received.buffer[..received.length];
        let Some((number, data)) = words.split_first_chunk::<NUMBER_BYTES>() else {
            return Err(errors::fabric(
                "NoMatch",
                "the peer is no queue pair: connect queue pairs with queue pairs".to_owned(),
            ));
        };
        self.attributes.destination = u32::from_le_bytes(*number);
        for (step, mask) in self.attributes.steps_up(self.kind).skip(1) {
            let modified = on!(&self.pair, pair => pair.modify(&step, mask));
            modified.map_err(|error| refused(&error))?;
        }
        let data = data.to_vec();
        post(self.vi.post_send(Buffer::empty(), 0))?;
        let ready = self.vi.receive(patience);
        ready.map_err(|error| errors::completion(&error))?;
        Ok((self.vi, rank, data))
    }
}
