//! Keys, ranges and rights.

use viaduct_provider::via::verbs::errno;
use viaduct_provider::via::verbs::flags::access;
use viaduct_provider::via::verbs::{AsyncEventType, CompletionStatus, QueuePairState, SendOpcode};

use super::{Case, PATIENT, RC, code, connect, connect_with, post};
use crate::verbs::{ALL, Post, Side};

cases! {
    a_wrong_remote_key_is_refused: "ibv_poll_cq(3), IBV_WC_REM_ACCESS_ERR";
    a_range_past_the_region_is_refused: "ibv_reg_mr(3)";
    a_region_without_the_right_is_refused: "ibv_reg_mr(3)";
    a_queue_pair_without_the_right_refuses: "ibv_modify_qp(3), qp_access_flags";
    a_region_of_another_domain_is_refused: "ibv_alloc_pd(3)";
    a_deregistered_region_is_refused: "ibv_dereg_mr(3)";
    an_atomic_off_its_eight_bytes_is_refused: "ibv_poll_cq(3), IBV_WC_REM_INV_REQ_ERR";
    a_wrong_local_key_fails_at_home: "ibv_poll_cq(3), IBV_WC_LOC_PROT_ERR";
    a_receive_that_is_too_short_fails_both: "ibv_poll_cq(3), IBV_WC_LOC_LEN_ERR";
    remote_rights_need_the_local_one: "ibv_reg_mr(3)";
}

/// A remote access that is refused: at the sender with this status, and at the target.
fn refused(near: &mut Side, far: &mut Side, wrong: Post, status: CompletionStatus) {
    near.send(wrong);
    assert_eq!(near.sent().status, code(status));
    assert_eq!(near.state(), u64::from(QueuePairState::Error.number()));
    let kind = if status == CompletionStatus::RemoteAccessError {
        AsyncEventType::QueuePairAccessError
    } else {
        AsyncEventType::QueuePairRequestError
    };
    assert_eq!(far.event(), (u64::from(kind.number()), 100));
    assert_eq!(far.state(), u64::from(QueuePairState::Error.number()));
}

const REMOTE: [SendOpcode; 5] = [
    SendOpcode::RdmaWrite,
    SendOpcode::RdmaWriteWithImmediate,
    SendOpcode::RdmaRead,
    SendOpcode::AtomicFetchAndAdd,
    SendOpcode::AtomicCompareAndSwap,
];

/// Each remote operation on a connection of its own.
fn each_is_refused(
    near: &mut Side,
    far: &mut Side,
    far_access: u32,
    spoil: impl Fn(&mut Side, &mut Side, Post) -> Post,
) {
    for opcode in REMOTE {
        near.renew();
        far.renew();
        let link = connect_with(near, far, RC, far_access, PATIENT);
        far.set_words(0, &[1]);
        far.receive(5, 0, 64);
        let right = Post {
            length: 8,
            ..link.remote(opcode, 0)
        };
        let wrong = spoil(near, far, right);
        refused(near, far, wrong, CompletionStatus::RemoteAccessError);
        assert_eq!(far.words(0, 1), [1]);
    }
}

fn a_wrong_remote_key_is_refused(near: &mut Side, far: &mut Side) {
    each_is_refused(near, far, ALL, |_, _, right| Post {
        key: right.key ^ 1,
        ..right
    });
}

fn a_range_past_the_region_is_refused(near: &mut Side, far: &mut Side) {
    let end = 8 * crate::verbs::WORDS as u64;
    each_is_refused(near, far, ALL, |_, _, right| Post {
        remote: right.remote + end,
        ..right
    });
    near.renew();
    far.renew();
    let link = connect(near, far, RC);
    let wrong = Post {
        length: 9,
        ..link.remote(SendOpcode::RdmaWrite, end - 8)
    };
    refused(near, far, wrong, CompletionStatus::RemoteAccessError);
}

fn a_region_without_the_right_is_refused(near: &mut Side, far: &mut Side) {
    each_is_refused(near, far, ALL, |_, far, right| {
        let key = far.done("region", &[u64::from(access::LOCAL_WRITE)])[0];
        Post { key, ..right }
    });
}

fn a_queue_pair_without_the_right_refuses(near: &mut Side, far: &mut Side) {
    each_is_refused(near, far, access::LOCAL_WRITE, |_, _, right| right);
}

fn a_region_of_another_domain_is_refused(near: &mut Side, far: &mut Side) {
    each_is_refused(near, far, ALL, |_, far, right| {
        let key = far.done("foreign-region", &[])[0];
        Post { key, ..right }
    });
}

fn a_deregistered_region_is_refused(near: &mut Side, far: &mut Side) {
    each_is_refused(near, far, ALL, |_, far, right| {
        far.done("deregister", &[1]);
        right
    });
    // Nor is what the peer has kept of it, since it has used it.
    each_is_refused(near, far, ALL, |near, far, right| {
        near.send(right);
        assert_eq!(near.sent().status, code(CompletionStatus::Success));
        far.set_words(0, &[1]);
        far.receive(6, 0, 64);
        far.done("deregister", &[1]);
        right
    });
}

fn an_atomic_off_its_eight_bytes_is_refused(near: &mut Side, far: &mut Side) {
    let link = connect(near, far, RC);
    let wrong = Post {
        length: 8,
        ..link.remote(SendOpcode::AtomicFetchAndAdd, 4)
    };
    refused(
        near,
        far,
        wrong,
        CompletionStatus::RemoteInvalidRequestError,
    );
}

fn a_wrong_local_key_fails_at_home(near: &mut Side, far: &mut Side) {
    for opcode in [
        SendOpcode::Send,
        SendOpcode::RdmaWrite,
        SendOpcode::RdmaRead,
    ] {
        near.renew();
        far.renew();
        let link = connect(near, far, RC);
        near.send(Post {
            own_key: 0x7fff_ff01,
            ..link.remote(opcode, 0)
        });
        assert_eq!(
            near.sent().status,
            code(CompletionStatus::LocalProtectionError)
        );
        assert_eq!(near.state(), u64::from(QueuePairState::Error.number()));
        assert_eq!(far.state(), u64::from(QueuePairState::ReadyToSend.number()));
    }
    // A read needs LOCAL_WRITE at home.
    near.renew();
    far.renew();
    let link = connect(near, far, RC);
    let key = near.done("region", &[0])[0];
    near.send(Post {
        own_key: key,
        ..link.remote(SendOpcode::RdmaRead, 0)
    });
    assert_eq!(
        near.sent().status,
        code(CompletionStatus::LocalProtectionError)
    );
}

fn a_receive_that_is_too_short_fails_both(near: &mut Side, far: &mut Side) {
    for length in [64, 100_000] {
        near.renew();
        far.renew();
        connect(near, far, RC);
        far.receive(5, 0, length - 1);
        near.send(Post {
            length,
            ..post(SendOpcode::Send)
        });
        let came = far.received();
        assert_eq!(
            (came.request, came.status),
            (5, code(CompletionStatus::LocalLengthError))
        );
        let status = code(CompletionStatus::RemoteInvalidRequestError);
        assert_eq!(near.sent().status, status);
        assert_eq!(far.state(), u64::from(QueuePairState::Error.number()));
    }
}

fn remote_rights_need_the_local_one(near: &mut Side, _: &mut Side) {
    for rights in [access::REMOTE_WRITE, access::REMOTE_ATOMIC] {
        assert_eq!(
            near.call("region", &[u64::from(rights)]),
            Err(errno::EINVAL)
        );
    }
    near.done("region", &[u64::from(access::REMOTE_READ)]);
    // Programs ask for windows to be bound beside the other rights, though they bind none.
    let bound = access::LOCAL_WRITE | access::MEMORY_WINDOW_BIND;
    near.done("region", &[u64::from(bound)]);
    let on_demand = u64::from(access::ON_DEMAND);
    assert_eq!(near.call("region", &[on_demand]), Err(errno::EOPNOTSUPP));
}
