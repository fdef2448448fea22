//! How a queue pair is made.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use viaduct_programs::verbs::flags::access;
use viaduct_programs::verbs::{self, Capabilities, QueuePairAttributes, QueuePairType, errno};
use viaduct_provider::via::verbs::QueuePairOptions;

use super::{QueuePair, SharesCompletions};
use crate::programs::completions::SharedCompletionQueue;
use crate::programs::home::locked;
use crate::programs::receives::SharedReceiveQueue;
use crate::programs::state::HostState;
use crate::programs::{On, on};

/// Remote reads and atomics that are under way at once.
const READS_MAX: u8 = 16;

/// What a queue pair is to be like.
#[derive(Debug)]
pub(crate) struct PairWish<'a> {
    pub(crate) kind: &'a str,
    pub(crate) send_depth: u32,
    pub(crate) receive_depth: u32,
    pub(crate) inline_bytes: u32,
    pub(crate) ack_timeout: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) queue_key: u32,
    pub(crate) shared: Option<&'a SharedReceiveQueue>,
    pub(crate) send_completions: Option<&'a SharedCompletionQueue>,
    pub(crate) receive_completions: Option<&'a SharedCompletionQueue>,
}

impl PairWish<'_> {
    fn options<Q: Clone, S: Clone>(
        &self,
        kind: QueuePairType,
        (sends, receives): (&Q, &Q),
        shared: Option<&S>,
        cookie: u64,
    ) -> QueuePairOptions<Q, S> {
        QueuePairOptions {
            kind,
            capabilities: Capabilities {
                max_send_requests: self.send_depth,
                max_receive_requests: self.receive_depth,
                max_send_elements: 1,
                max_receive_elements: 1,
                max_inline_bytes: self.inline_bytes,
            },
            send_queue: sends.clone(),
            receive_queue: receives.clone(),
            shared_receive_queue: shared.cloned(),
            is_every_send_signaled: true,
            cookie,
        }
    }
}

impl HostState {
    pub(crate) fn make_pair(
        self: &Arc<Self>,
        py: Python<'_>,
        wish: &PairWish<'_>,
    ) -> PyResult<Py<QueuePair>> {
        let kind = match wish.kind {
            "rc" => QueuePairType::Rc,
            "uc" => QueuePairType::Uc,
            "ud" => QueuePairType::Ud,
            other => {
                return Err(PyValueError::new_err(format!(
                    "kind is \"rc\" (reliable connected), \"uc\" (unreliable connected) or \"ud\" \
                     (unreliable datagrams), not {other:?}"
                )));
            }
        };
        let shared = [
            ("receive", wish.shared.map(|shared| &shared.host)),
            (
                "completion",
                wish.send_completions.map(|shared| &shared.host),
            ),
            (
                "completion",
                wish.receive_completions.map(|shared| &shared.host),
            ),
        ];
        for (what, host) in shared {
            if host.is_some_and(|host| host.id != self.id) {
                return Err(PyValueError::new_err(format!(
                    "the shared {what} queue is of another host or adapter: take one of the queue pair's host"
                )));
            }
        }
        let cookie = locked(&self.pairs).len() as u64;
        let attributes = QueuePairAttributes {
            access_flags: access::LOCAL_WRITE
                | access::REMOTE_WRITE
                | access::REMOTE_READ
                | access::REMOTE_ATOMIC,
            timeout: wish.ack_timeout,
            retry_count: wish.retry_count,
            receiver_not_ready_retry: wish.rnr_retry,
            min_receiver_not_ready_timer: 1,
            max_read_atomic: READS_MAX,
            max_destination_read_atomic: READS_MAX,
            queue_key: wish.queue_key,
            // Its peer's number is known when they connect.
            ..QueuePairAttributes::connection(0)
        };
        let receive_depth = match wish.shared {
            Some(shared) => shared.depth,
            None => wish.receive_depth,
        };
        let (pair, sends, receives, gid) = self.with_device(|device| {
            let queue = |shared: Option<&SharedCompletionQueue>, depth| match shared {
                Some(shared) => Ok(shared.queue.clone()),
                None => device.queue(depth),
            };
            let sends = queue(wish.send_completions, wish.send_depth)?;
            let receives = queue(wish.receive_completions, receive_depth)?;
            let shared = wish.shared.map(|shared| &shared.queue);
            let pair = match (device, &sends, &receives, shared) {
                (
                    On::Simulated(device),
                    On::Simulated(sends),
                    On::Simulated(receives),
                    None | Some(On::Simulated(_)),
                ) => {
                    let queues = (&sends.queue, &receives.queue);
                    let shared = shared.and_then(|shared| shared.simulated());
                    let options = wish.options(kind, queues, shared, cookie);
                    On::Simulated(device.domain.create_queue_pair(&options)?)
                }
                (
                    On::Real(device),
                    On::Real(sends),
                    On::Real(receives),
                    None | Some(On::Real(_)),
                ) => {
                    let queues = (&sends.queue, &receives.queue);
                    let shared = shared.and_then(|shared| shared.real());
                    let options = wish.options(kind, queues, shared, cookie);
                    On::Real(device.domain.create_queue_pair(&options)?)
                }
                _ => {
                    return Err(verbs::Error::new(
                        errno::EINVAL,
                        "a queue is of another host",
                    ));
                }
            };
            // It takes receives before it is connected; for datagrams, that is all.
            let steps = if kind == QueuePairType::Ud { 3 } else { 1 };
            for (step, mask) in attributes.steps_up(kind).take(steps) {
                on!(&pair, pair => pair.modify(&step, mask))?;
            }
            let gid = on!(device, device => device.gid);
            Ok((pair, sends, receives, gid))
        })?;
        let pair = QueuePair {
            host: Arc::clone(self),
            pair,
            kind,
            attributes,
            gid,
            sends,
            receives,
            shares_completions: SharesCompletions {
                sends: wish.send_completions.is_some(),
                receives: wish.receive_completions.is_some(),
            },
            cookie,
            posted: match wish.shared {
                Some(shared) => Arc::clone(&shared.receives),
                None => Arc::default(),
            },
            state: Mutex::default(),
        };
        let pair = Py::new(py, pair)?;
        locked(&self.pairs).insert(pair.get().number(), pair.clone_ref(py));
        Ok(pair)
    }
}
