//! States of a queue pair, and what an error flushes.

use viaduct_provider::via::verbs::errno;
use viaduct_provider::via::verbs::flags::{access, attribute};
use viaduct_provider::via::verbs::{AsyncEventType, CompletionStatus, QueuePairState, SendOpcode};

use super::{Case, OK, RC, code, connect, connect_with, post, to_error};
use crate::verbs::{ALL, Post, Side};

cases! {
    an_error_flushes_both_queues_in_order: "ibv_modify_qp(3), IBV_WC_WR_FLUSH_ERR";
    posts_in_the_error_state_are_flushed: "states of the specification";
    reset_forgets_everything: "states of the specification";
    posts_in_reset_are_refused: "ibv_post_recv(3)";
    a_query_gives_back_what_was_set: "ibv_query_qp(3)";
    a_wrong_mask_changes_nothing: "ibv_modify_qp(3)";
    sends_wait_while_they_are_drained: "states of the specification, SQD";
    a_queue_pair_in_the_error_state_hears_nothing: "states of the specification";
    the_first_request_is_told_where_nothing_is_sent_yet: "ibv_get_async_event(3), IBV_EVENT_COMM_EST";
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
    assert_eq!(near.call("receive", &[0, 1, 0, 64]), Err(errno::EINVAL));
    assert_eq!(near.post(post(SendOpcode::Send)), Err(errno::EINVAL));
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
    assert_eq!(near.call("modify", &[0, init, state]), Err(errno::EINVAL));
    let send = to(QueuePairState::ReadyToSend);
    assert_eq!(near.call("modify", &[0, send, state]), Err(errno::EINVAL));
    let surplus = state | u64::from(attribute::TIMEOUT);
    let error = to(QueuePairState::Error);
    assert_eq!(
        near.call("modify", &[0, error, surplus]),
        Err(errno::EINVAL)
    );
    assert_eq!(near.state(), to(QueuePairState::Reset));
}

fn sends_wait_while_they_are_drained(near: &mut Side, far: &mut Side) {
    connect(near, far, RC);
    let go = |side: &mut Side, state: QueuePairState| {
        let state = u64::from(state.number());
        side.done("modify", &[0, state, u64::from(attribute::STATE)]);
    };
    go(near, QueuePairState::SendDrained);
    far.receive(5, 0, 64);
    near.send(post(SendOpcode::Send));
    near.nothing_sent();
    far.nothing_received();
    go(near, QueuePairState::ReadyToSend);
    assert_eq!(near.sent().status, OK);
    assert_eq!(far.received().status, OK);
}

fn a_queue_pair_in_the_error_state_hears_nothing(near: &mut Side, far: &mut Side) {
    let exceeded = code(CompletionStatus::RetryExceededError);
    for opcode in [SendOpcode::RdmaWrite, SendOpcode::RdmaRead] {
        near.renew();
        far.renew();
        let link = connect_with(near, far, RC, ALL, [1, 1, 7]);
        far.set_words(0, &[1]);
        to_error(far);
        near.send(link.remote(opcode, 0));
        assert_eq!(near.sent().status, exceeded, "{opcode:?}");
        assert_eq!(far.words(0, 1), [1]);
    }
}

fn the_first_request_is_told_where_nothing_is_sent_yet(near: &mut Side, far: &mut Side) {
    let one = near.done("pair", &[RC, 0, 64])[0];
    let two = far.done("pair", &[RC, 0, 64])[0];
    let up = |peer| [0, peer, u64::from(ALL), 14, 7, 7];
    far.done("half-up", &up(one));
    near.done("up", &up(two));
    far.done("region", &[u64::from(ALL)]);
    for request in 0..2 {
        far.receive(request, 0, 64);
        near.send(post(SendOpcode::Send));
        assert_eq!(far.received().status, OK);
        assert_eq!(near.sent().status, OK);
    }
    let kind = AsyncEventType::CommunicationEstablished;
    assert_eq!(far.event(), (u64::from(kind.number()), 100));
}
