//! States of a queue pair, and what an error flushes.

use viaduct_rdma::verbs::flags::{access, attribute};
use viaduct_rdma::verbs::{CompletionStatus, QueuePairState, SendOpcode};

use super::{Case, RC, code, connect, connect_with, post, to_error};
use crate::station::{Post, Side};

cases! {
    an_error_flushes_both_queues_in_order: "ibv_modify_qp(3), IBV_WC_WR_FLUSH_ERR";
    posts_in_the_error_state_are_flushed: "states of the specification";
    reset_forgets_everything: "states of the specification";
    posts_in_reset_are_refused: "ibv_post_recv(3)";
    a_query_gives_back_what_was_set: "ibv_query_qp(3)";
    a_wrong_mask_changes_nothing: "ibv_modify_qp(3)";
}

fn an_error_flushes_both_queues_in_order(near: &mut Side, far: &mut Side) {
    connect(near, far, RC);
    for request in 0..3 {
        near.receive(10 + request, 0, 64);
        near.send(Post {
            flags: 0,
            request,
            ..post(SendOpcode::Send)
        });
    }
    to_error(near);
    for request in 0..3 {
        let (sent, received) = (near.sent(), near.received());
        let flushed = code(CompletionStatus::FlushError);
        assert_eq!((sent.request, sent.status), (request, flushed));
        assert_eq!((received.request, received.status), (10 + request, flushed));
    }
    near.nothing_sent();
}

fn posts_in_the_error_state_are_flushed(near: &mut Side, far: &mut Side) {
    connect(near, far, RC);
    to_error(near);
    near.send(Post {
        flags: 0,
        ..post(SendOpcode::Send)
    });
    near.receive(5, 0, 64);
    let flushed = code(CompletionStatus::FlushError);
    assert_eq!(
        (near.sent().status, near.received().status),
        (flushed, flushed)
    );
}

fn reset_forgets_everything(near: &mut Side, far: &mut Side) {
    connect(near, far, RC);
    near.receive(5, 0, 64);
    near.send(post(SendOpcode::Send));
    to_error(near);
    let reset = u64::from(QueuePairState::Reset.number());
    near.done("modify", &[0, reset, u64::from(attribute::STATE)]);
    near.nothing_sent();
    near.nothing_received();
    assert_eq!(near.state(), reset);
    // Both come up anew.
    far.done("modify", &[0, reset, u64::from(attribute::STATE)]);
    let numbers = [near, far].map(|side| (side.done("pair", &[RC, 0, 1])[0], side));
    let [(_, near), (_, far)] = numbers;
    let _ = (near, far);
}

fn posts_in_reset_are_refused(near: &mut Side, _: &mut Side) {
    near.done("pair", &[RC, 0, 4]);
    assert_eq!(near.call("receive", &[0, 1, 0, 64]), Err(libc::EINVAL));
    assert_eq!(near.post(post(SendOpcode::Send)), Err(libc::EINVAL));
}

fn a_query_gives_back_what_was_set(near: &mut Side, far: &mut Side) {
    let rights = access::REMOTE_READ;
    let link = connect_with(far, near, RC, rights, [9, 3, 5]);
    let told = near.done("query", &[0]);
    assert_eq!(told[..8], [link.near, u64::from(rights), 9, 3, 5, 1, 0, 3]);
    assert!(told[8] >= 236);
}

fn a_wrong_mask_changes_nothing(near: &mut Side, _: &mut Side) {
    near.done("pair", &[RC, 0, 4]);
    let to = |state: QueuePairState| u64::from(state.number());
    let init = to(QueuePairState::Init);
    let state = u64::from(attribute::STATE);
    assert_eq!(near.call("modify", &[0, init, state]), Err(libc::EINVAL));
    let send = to(QueuePairState::ReadyToSend);
    assert_eq!(near.call("modify", &[0, send, state]), Err(libc::EINVAL));
    let surplus = state | u64::from(attribute::TIMEOUT);
    let error = to(QueuePairState::Error);
    assert_eq!(near.call("modify", &[0, error, surplus]), Err(libc::EINVAL));
    assert_eq!(near.state(), to(QueuePairState::Reset));
}
