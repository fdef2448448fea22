//! Cases by subject, each with the source of the rule that it holds.

use viaduct_provider::via::verbs::flags::{attribute, send};
use viaduct_provider::via::verbs::{CompletionStatus, QueuePairState, QueuePairType, SendOpcode};

use crate::verbs::{ALL, Post, Side};

/// A case: its name, the source of its rule, and what it does.
pub type Case = (&'static str, &'static str, fn(&mut Side, &mut Side));

macro_rules! cases {
    ($($name:ident: $source:literal;)+) => {
        pub(super) const CASES: &[Case] = &[$((stringify!($name), $source, $name)),+];
    };
}

mod completion;
mod datagrams;
mod messages;
mod notices;
mod protection;
mod queues;
mod remote;
mod retries;
mod states;

/// All cases.
pub fn all() -> impl Iterator<Item = &'static Case> {
    let all = [
        messages::CASES,
        datagrams::CASES,
        remote::CASES,
        completion::CASES,
        retries::CASES,
        protection::CASES,
        states::CASES,
        queues::CASES,
        notices::CASES,
    ];
    all.into_iter().flatten()
}

const RC: u64 = QueuePairType::Rc as u64;
const UC: u64 = QueuePairType::Uc as u64;
const UD: u64 = QueuePairType::Ud as u64;
const SIGNALED: u32 = send::SIGNALED;

fn code(status: CompletionStatus) -> u64 {
    u64::from(status.number())
}

const OK: u64 = CompletionStatus::Success as u64;

/// What stands up between two sides.
struct Link {
    near: u64,
    far: u64,
    /// The far side's memory and key.
    base: u64,
    key: u64,
}

/// Timeout, retries, and retries without a receive of a connection.
const PATIENT: [u64; 3] = [14, 7, 7];

fn connect_with(
    near: &mut Side,
    far: &mut Side,
    kind: u64,
    far_access: u32,
    patience: [u64; 3],
) -> Link {
    let one = near.done("pair", &[kind, 0, 64])[0];
    let two = far.done("pair", &[kind, 0, 64])[0];
    let [timeout, retries, not_ready] = patience;
    let up = |peer, rights: u32| [0, peer, u64::from(rights), timeout, retries, not_ready];
    far.done("up", &up(one, far_access));
    near.done("up", &up(two, ALL));
    let region = far.done("region", &[u64::from(ALL)]);
    Link {
        near: one,
        far: two,
        base: region[1],
        key: region[0],
    }
}

fn connect(near: &mut Side, far: &mut Side, kind: u64) -> Link {
    connect_with(near, far, kind, ALL, PATIENT)
}

fn post(opcode: SendOpcode) -> Post {
    Post {
        opcode: u64::from(opcode.number()),
        flags: SIGNALED,
        length: 64,
        request: 7,
        ..Post::default()
    }
}

impl Link {
    fn remote(&self, opcode: SendOpcode, at: u64) -> Post {
        Post {
            remote: self.base + at,
            key: self.key,
            ..post(opcode)
        }
    }
}

fn to_error(side: &mut Side) {
    let state = u64::from(QueuePairState::Error.number());
    side.done("modify", &[0, state, u64::from(attribute::STATE)]);
}
