//! Completion channels.

use viaduct_provider::via::verbs::SendOpcode;
use viaduct_provider::via::verbs::flags::send;

use super::{Case, RC, SIGNALED, connect, post};
use crate::verbs::{Post, Side};

cases! {
    an_armed_queue_tells_once: "ibv_req_notify_cq(3)";
    a_queue_armed_for_solicited_ones_keeps_still: "ibv_req_notify_cq(3)";
}

fn an_armed_queue_tells_once(near: &mut Side, far: &mut Side) {
    connect(near, far, RC);
    for request in 0..3 {
        far.receive(request, 0, 64);
    }
    far.done("arm", &[0]);
    near.send(post(SendOpcode::Send));
    assert_eq!(far.done("channel", &[1]), [2]);
    near.send(post(SendOpcode::Send));
    assert_eq!(far.done("channel", &[0]), [0_u64; 0]);
    assert_eq!((far.received().request, far.received().request), (0, 1));
    far.done("arm", &[0]);
    near.send(post(SendOpcode::Send));
    assert_eq!(far.done("channel", &[1]), [2]);
    assert_eq!(far.received().request, 2);
}

fn a_queue_armed_for_solicited_ones_keeps_still(near: &mut Side, far: &mut Side) {
    connect(near, far, RC);
    for request in 0..2 {
        far.receive(request, 0, 64);
    }
    far.done("arm", &[1]);
    near.send(post(SendOpcode::Send));
    assert_eq!(far.received().request, 0);
    assert_eq!(far.done("channel", &[0]), [0_u64; 0]);
    let flags = SIGNALED | send::SOLICITED;
    near.send(Post {
        flags,
        ..post(SendOpcode::Send)
    });
    assert_eq!(far.done("channel", &[1]), [2]);
}
