//! Peers that are not ready, or not there.

use viaduct_provider::via::verbs::{CompletionStatus, QueuePairState, SendOpcode};

use super::{Case, OK, RC, code, connect, connect_with, post};
use crate::verbs::{ALL, Post, Side};

cases! {
    a_send_waits_for_a_receive_for_ever_with_7: "ibv_modify_qp(3), rnr_retry";
    a_send_without_a_receive_fails_after_its_retries: "ibv_modify_qp(3), rnr_retry";
    a_peer_that_is_not_there_exceeds_the_retries: "ibv_modify_qp(3), retry_cnt";
    a_number_that_is_another_s_by_now_acknowledges_nothing: "ibv_modify_qp(3), dest_qp_num";
    timeout_0_waits_for_ever: "ibv_modify_qp(3), timeout";
    a_queue_pair_that_comes_up_late_gets_what_was_sent: "retries of the specification";
}

fn a_send_waits_for_a_receive_for_ever_with_7(near: &mut Side, far: &mut Side) {
    connect(near, far, RC);
    near.send(post(SendOpcode::Send));
    near.send(Post {
        request: 8,
        ..post(SendOpcode::Send)
    });
    near.nothing_sent();
    near.nothing_sent();
    far.receive(1, 0, 64);
    far.receive(2, 0, 64);
    assert_eq!((far.received().request, far.received().request), (1, 2));
    assert_eq!((near.sent().request, near.sent().request), (7, 8));
}

fn a_send_without_a_receive_fails_after_its_retries(near: &mut Side, far: &mut Side) {
    connect_with(near, far, RC, ALL, [14, 7, 1]);
    near.send(Post {
        flags: 0,
        ..post(SendOpcode::Send)
    });
    near.send(Post {
        flags: 0,
        request: 8,
        ..post(SendOpcode::Send)
    });
    let sent = near.sent();
    let status = code(CompletionStatus::ReceiverNotReadyRetryExceededError);
    assert_eq!((sent.request, sent.status), (7, status));
    let flushed = near.sent();
    assert_eq!(
        (flushed.request, flushed.status),
        (8, code(CompletionStatus::FlushError))
    );
    assert_eq!(near.state(), u64::from(QueuePairState::Error.number()));
}

fn a_peer_that_is_not_there_exceeds_the_retries(near: &mut Side, far: &mut Side) {
    let link = connect_with(near, far, RC, ALL, [8, 2, 7]);
    far.done("destroy", &[4]);
    near.send(post(SendOpcode::Send));
    assert_eq!(
        near.sent().status,
        code(CompletionStatus::RetryExceededError)
    );
    // The same where nobody has the number at all, and for what asks.
    near.done("pair", &[RC, 0, 64]);
    let nobody = link.near ^ 0x80_0000;
    near.done("up", &[1, nobody, 0, 8, 2, 7]);
    near.send(Post {
        pair: 1,
        ..link.remote(SendOpcode::RdmaRead, 0)
    });
    assert_eq!(
        near.sent().status,
        code(CompletionStatus::RetryExceededError)
    );
}

fn a_number_that_is_another_s_by_now_acknowledges_nothing(near: &mut Side, far: &mut Side) {
    let link = connect_with(near, far, RC, ALL, [8, 2, 7]);
    far.done("destroy", &[4]);
    // A later queue pair gets the number, and hears as much from another one.
    let mut place = 1;
    while far.done("pair", &[RC, 0, 64]) != [link.far] {
        far.done("destroy", &[4 + place]);
        place += 1;
    }
    let one = near.done("pair", &[RC, 0, 64])[0];
    far.done("up", &[place, one, u64::from(ALL), 8, 2, 7]);
    near.done("up", &[1, link.far, u64::from(ALL), 8, 2, 7]);
    far.done("receive", &[place, 5, 0, 64]);
    near.send(Post {
        pair: 1,
        ..post(SendOpcode::Send)
    });
    assert_eq!((near.sent().status, far.received().status), (OK, OK));
    near.send(post(SendOpcode::Send));
    assert_eq!(
        near.sent().status,
        code(CompletionStatus::RetryExceededError)
    );
}

fn timeout_0_waits_for_ever(near: &mut Side, far: &mut Side) {
    connect_with(near, far, RC, ALL, [0, 0, 7]);
    far.done("destroy", &[4]);
    near.send(post(SendOpcode::Send));
    near.nothing_sent();
    near.nothing_sent();
}

fn a_queue_pair_that_comes_up_late_gets_what_was_sent(near: &mut Side, far: &mut Side) {
    let one = near.done("pair", &[RC, 0, 64])[0];
    let two = far.done("pair", &[RC, 0, 64])[0];
    near.done("up", &[0, two, u64::from(ALL), 12, 7, 7]);
    near.send(post(SendOpcode::Send));
    near.nothing_sent();
    far.done("up", &[0, one, u64::from(ALL), 12, 7, 7]);
    far.receive(5, 0, 64);
    assert_eq!(far.received().request, 5);
    assert_eq!(near.sent().status, OK);
}
