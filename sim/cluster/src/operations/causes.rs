//! What freed each operation last: what the critical path of an application is read from.
//!
//! A first run keeps who freed whom, 8 bytes an operation. From that, the path to the operation
//! that ended last is read backwards as [`Leg`]s. A second run keeps the times of those legs alone.
//! Each leg begins when the one before it ends, so that they add up to the makespan.

use std::collections::BTreeMap;

use viaduct_engine::Time;
use viaduct_operations::{After, Graph, Kind, OperationId};

use super::{Role, Way};
use crate::why::Record;

/// Marks what an operation waited for as the start, not the end, of another one.
const BY_START: u32 = 1 << 31;
/// Marks a receive that ended because its message came; others found it there.
const BY_MESSAGE: u32 = 1 << 31;
/// Nothing; no operation has this number.
const NOTHING: u32 = u32::MAX;

/// One stretch of the critical path: what went on.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Activity {
    /// A processor was given a computation, and did it.
    Compute,
    /// A processor handed the bytes of an eager send to the adapter.
    Post,
    /// A message of a send was posted, and its receiver took it.
    Message(Role),
    /// The bytes of a rendezvous left, and their sender learnt it.
    Leave,
    /// The local link sent a message within a host.
    LocalSend,
    /// The same, until it was there.
    LocalMessage,
    /// A receive copied an eager message that had come before it; not if that took no time.
    Copy,
    /// The sender of a rendezvous registered its bytes; not if that took no time.
    RegisterSent,
    /// The same of its receiver.
    RegisterReceived,
}

impl Activity {
    /// Those that last until their operation ends.
    const TO_THE_END: [Self; 5] = [
        Self::Compute,
        Self::Post,
        Self::Leave,
        Self::LocalSend,
        Self::Copy,
    ];
}

/// An activity of an operation.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Leg {
    pub(crate) operation: OperationId,
    pub(crate) activity: Activity,
}

/// When a leg was under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timed {
    pub(crate) begin: Time,
    pub(crate) end: Time,
    /// How long a computation waited for its processor.
    pub(crate) waited: Time,
    /// The message of it that came last.
    pub(crate) message: Option<Record>,
}

/// What is kept of a run for the critical path of its application.
#[derive(Debug)]
pub(crate) enum Causes {
    /// Of the first run: who freed whom.
    Links(Links),
    /// Of the second: when the legs of the path were under way.
    Times(BTreeMap<Leg, Timed>),
}

/// Who freed whom.
#[derive(Debug)]
pub(crate) struct Links {
    /// By operation: what freed it, the last of what it waited for, with [`BY_START`]; [`NOTHING`]
    /// if it waited for nothing.
    freed_by: Vec<u32>,
    /// By operation: the receive of a send, the send of a receive, the latter with [`BY_MESSAGE`].
    matched: Vec<u32>,
    /// The operation that ended last.
    last: u32,
}

impl Links {
    pub(crate) fn new(graph: &Graph) -> Self {
        Self {
            freed_by: vec![NOTHING; graph.len()],
            matched: vec![NOTHING; graph.len()],
            last: NOTHING,
        }
    }

    /// The way to the operation that ended last, from the start; empty if none has ended.
    pub(super) fn path(&self, graph: &Graph, way_of: impl Fn(OperationId) -> Way) -> Vec<Leg> {
        let mut legs = Vec::new();
        let mut reached = self.last;
        while reached != NOTHING {
            let mut id = reached & !BY_START;
            if reached & BY_START == 0 {
                let mut add = |operation, activity| {
                    legs.push(Leg {
                        operation,
                        activity,
                    });
                };
                id = self.step_back(id, graph.operation(id).kind, &way_of, &mut add);
            }
            reached = self.freed_by[id as usize];
        }
        legs.reverse();
        legs
    }

    /// Adds what led to the end of an operation, the last first; gives the operation with whose
    /// beginning that began.
    fn step_back(
        &self,
        id: OperationId,
        kind: Kind,
        way_of: impl Fn(OperationId) -> Way,
        add: &mut impl FnMut(OperationId, Activity),
    ) -> OperationId {
        let word = self.matched[id as usize];
        match kind {
            Kind::Compute => add(id, Activity::Compute),
            Kind::Send => match way_of(id) {
                Way::Local => add(id, Activity::LocalSend),
                Way::Eager => add(id, Activity::Post),
                Way::Rendezvous => {
                    add(id, Activity::Leave);
                    return self.step_back_from_clearance(id, word, add);
                }
            },
            Kind::Receive => {
                let (send, is_by_message) = (word & !BY_MESSAGE, word & BY_MESSAGE != 0);
                let activity = match way_of(send) {
                    Way::Local => Activity::LocalMessage,
                    Way::Eager => Activity::Message(Role::Eager),
                    Way::Rendezvous => {
                        add(send, Activity::Message(Role::Data));
                        return self.step_back_from_clearance(send, id, add);
                    }
                };
                if is_by_message {
                    add(send, activity);
                    return send;
                }
                // The message was there, and waited for the receive.
                add(id, Activity::Copy);
            }
        }
        id
    }

    fn step_back_from_clearance(
        &self,
        send: OperationId,
        receive: OperationId,
        add: &mut impl FnMut(OperationId, Activity),
    ) -> OperationId {
        add(send, Activity::Message(Role::Clearance));
        add(send, Activity::RegisterReceived);
        if self.matched[receive as usize] & BY_MESSAGE == 0 {
            return receive;
        }
        add(send, Activity::Message(Role::Request));
        add(send, Activity::RegisterSent);
        send
    }
}

impl Causes {
    /// Of a second run, which times these legs.
    pub(crate) fn times(path: &[Leg]) -> Self {
        Self::Times(path.iter().map(|leg| (*leg, Timed::default())).collect())
    }

    /// An operation waits for nothing any more since something of another one happened.
    pub(super) fn freed(&mut self, id: OperationId, by: OperationId, what: After) {
        if let Self::Links(links) = self {
            let mark = if what == After::Start { BY_START } else { 0 };
            links.freed_by[id as usize] = by | mark;
        }
    }

    /// A send and a receive match, at the moment of one or the other.
    pub(super) fn matched(&mut self, send: OperationId, receive: OperationId, is_by_message: bool) {
        if let Self::Links(links) = self {
            let mark = if is_by_message { BY_MESSAGE } else { 0 };
            links.matched[send as usize] = receive;
            links.matched[receive as usize] = send | mark;
        }
    }

    pub(super) fn ended(&mut self, id: OperationId, now: Time) {
        match self {
            Self::Links(links) => links.last = id,
            Self::Times(_) => {
                for activity in Activity::TO_THE_END {
                    if let Some(timed) = self.timed(id, activity) {
                        timed.end = now;
                    }
                }
            }
        }
    }

    /// The times of a leg, if they are to be kept.
    pub(super) fn timed(
        &mut self,
        operation: OperationId,
        activity: Activity,
    ) -> Option<&mut Timed> {
        match self {
            Self::Times(times) => times.get_mut(&Leg {
                operation,
                activity,
            }),
            Self::Links(_) => None,
        }
    }
}
