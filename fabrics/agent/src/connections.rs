//! Connecting: the operations that wait for the other end.

use std::time::Duration;

use viaduct_provider::via::{Address, ConnectError, RemoteViAttributes};
use viaduct_provider::{
    ConnectionHandle, Error, IncomingRequest, NicHandle, Result, ReturnCode, ViHandle,
};

use crate::agent::{Answer, Attempt, WaitAnswer};
use crate::provider::AgentProvider;
use crate::refusal::dead;
use crate::runtime::Runtime;

impl<R: Runtime> AgentProvider<R> {
    pub(crate) fn wait_for_client(
        &self,
        nic: NicHandle,
        local: &Address,
        limit: Option<Duration>,
    ) -> Result<IncomingRequest> {
        let (device, wait) = self.runtime.operate(None, |state, now| {
            let index = state.nic(nic)?.device;
            let device = &mut state.devices[index];
            if local.host != device.address {
                return Err(dead("the local address is not one of this NIC"));
            }
            let wait = device
                .nic
                .connect_wait(local.clone(), now, self.runtime.span(limit))?;
            device.waits.insert(wait, WaitAnswer::Open { nic });
            Ok((index, wait))
        })?;
        // The semantics keeps the time; its answer ends the wait.
        let answer = self.runtime.block(None, |state| {
            let device = &mut state.devices[device];
            if let Some(WaitAnswer::Open { .. }) = device.waits.get(&wait) {
                return Ok(None);
            }
            match device.end_wait(wait) {
                Some(WaitAnswer::Open { .. }) => Ok(None),
                Some(WaitAnswer::Requested(incoming)) => Ok(Some(Ok(incoming))),
                Some(WaitAnswer::TimedOut) => Ok(Some(Err(Error::new(
                    ReturnCode::Timeout,
                    "nobody asked for a connection in the time given",
                )))),
                None => Err(dead("the NIC was closed while it waited")),
            }
        })?;
        answer.unwrap_or_else(|| Err(dead("the wait has ended")))
    }

    pub(crate) fn accept_client(&self, connection: ConnectionHandle, vi: ViHandle) -> Result<()> {
        self.runtime.operate(Some(vi), |state, _| {
            let Some(request) = state.requests.get(connection) else {
                return Err(dead("the connection handle names no open request"));
            };
            let (nic, id) = (request.nic, request.id);
            let (vi, device) = state.vi_and_nic(vi)?;
            if vi.nic != nic {
                return Err(dead(
                    "the VI belongs to another NIC handle than the request",
                ));
            }
            let accepted = device.nic.accept(id, vi.id);
            if matches!(accepted, Ok(()) | Err(ConnectError::RequestWithdrawn)) {
                state.requests.remove(connection);
            }
            accepted.map_err(Error::from)
        })
    }

    pub(crate) fn reject_client(&self, connection: ConnectionHandle) -> Result<()> {
        self.runtime.operate(None, |state, _| {
            let Some(request) = state.requests.remove(connection) else {
                return Err(dead("the connection handle names no open request"));
            };
            state.devices[request.device]
                .nic
                .reject(request.id)
                .map_err(Error::from)
        })
    }

    pub(crate) fn ask_server(
        &self,
        vi: ViHandle,
        local: &Address,
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<RemoteViAttributes> {
        self.runtime.operate(Some(vi), |state, now| {
            let (vi, device) = state.vi_and_nic(vi)?;
            let (local, remote) = (local.clone(), remote.clone());
            device
                .nic
                .connect_request(vi.id, local, remote, now, self.runtime.span(limit))?;
            vi.attempt = Attempt::Client(None);
            Ok(())
        })?;
        let answer = self.runtime.block(None, |state| {
            let vi = state.vi(vi)?;
            match std::mem::replace(&mut vi.attempt, Attempt::None) {
                Attempt::Client(None) => {
                    vi.attempt = Attempt::Client(None);
                    Ok(None)
                }
                Attempt::Client(Some(answer)) => Ok(Some(answer)),
                other => {
                    vi.attempt = other;
                    Err(left())
                }
            }
        })?;
        answer.map_or_else(|| Err(left()), |answer| answer.map_err(Error::from))
    }

    pub(crate) fn ask_peer(
        &self,
        vi: ViHandle,
        local: &Address,
        remote: &Address,
        limit: Option<Duration>,
    ) -> Result<()> {
        self.runtime.operate(Some(vi), |state, now| {
            let (vi, device) = state.vi_and_nic(vi)?;
            if local.host != device.address {
                return Err(dead("the local address is not one of the VI's NIC"));
            }
            let (local, remote) = (local.clone(), remote.clone());
            device
                .nic
                .connect_peer_request(vi.id, local, remote, now, self.runtime.span(limit))?;
            vi.attempt = Attempt::Peer(None);
            Ok(())
        })
    }

    pub(crate) fn look_for_peer(&self, vi: ViHandle) -> Result<Option<RemoteViAttributes>> {
        let answer = self
            .runtime
            .operate(None, |state, _| take_answer(&mut state.vi(vi)?.attempt))?;
        answer.transpose().map_err(Error::from)
    }

    pub(crate) fn wait_for_peer(&self, vi: ViHandle) -> Result<RemoteViAttributes> {
        // The request's own time limit ends the wait.
        let answer = self
            .runtime
            .block(None, |state| take_answer(&mut state.vi(vi)?.attempt))?;
        answer.map_or_else(|| Err(left()), |answer| answer.map_err(Error::from))
    }
}

/// The answer to a peer request, if it has come. It is told once.
fn take_answer(attempt: &mut Attempt) -> Result<Option<Answer>> {
    match std::mem::replace(attempt, Attempt::None) {
        Attempt::Peer(None) => {
            *attempt = Attempt::Peer(None);
            Ok(None)
        }
        Attempt::Peer(answer) => Ok(answer),
        other => {
            *attempt = other;
            Err(Error::new(
                ReturnCode::InvalidState,
                "the VI has not asked for a peer, or was told the answer",
            ))
        }
    }
}

fn left() -> Error {
    Error::new(
        ReturnCode::InvalidState,
        "the VI was disconnected while it asked for a connection",
    )
}
