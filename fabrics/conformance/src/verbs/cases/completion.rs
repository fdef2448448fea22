//! Which sends complete, and in which order.

use viaduct_provider::via::verbs::SendOpcode;

use super::{Case, OK, RC, SIGNALED, connect, post};
use crate::verbs::{Post, Side};

cases! {
    only_signaled_sends_complete: "ibv_post_send(3), IBV_SEND_SIGNALED";
    every_send_completes_where_that_is_set: "ibv_create_qp(3), sq_sig_all";
    sends_complete_in_order: "ibv_poll_cq(3)";
    what_was_received_is_complete_though_its_receiver_is_gone: "acknowledgements of the specification";
}

fn only_signaled_sends_complete(near: &mut Side, far: &mut Side) {
    connect(near, far, RC);
    for request in 0..8 {
        far.receive(request, 0, 64);
        let flags = if request == 5 { SIGNALED } else { 0 };
        near.send(Post {
            flags,
            request,
            ..post(SendOpcode::Send)
        });
        assert_eq!(far.received().request, request);
    }
    assert_eq!(near.sent().request, 5);
    near.nothing_sent();
}

fn every_send_completes_where_that_is_set(near: &mut Side, far: &mut Side) {
    let one = near.done("pair", &[RC, 1, 64])[0];
    let two = far.done("pair", &[RC, 0, 64])[0];
    far.done("up", &[0, one, 0, 14, 7, 7]);
    near.done("up", &[0, two, 0, 14, 7, 7]);
    far.receive(5, 0, 64);
    near.send(Post {
        flags: 0,
        ..post(SendOpcode::Send)
    });
    assert_eq!(near.sent().request, 7);
}

fn sends_complete_in_order(near: &mut Side, far: &mut Side) {
    let link = connect(near, far, RC);
    for request in 0..30 {
        far.receive(request, 0, 65_536);
        let opcode = [
            SendOpcode::Send,
            SendOpcode::RdmaRead,
            SendOpcode::RdmaWrite,
        ];
        let opcode = opcode[request as usize % 3];
        let length = [8, 20_000][request as usize % 2];
        near.send(Post {
            request,
            length,
            at: 1024,
            ..link.remote(opcode, 100_000)
        });
    }
    for request in 0..30 {
        let sent = near.sent();
        assert_eq!((sent.request, sent.status), (request, OK));
    }
    for request in 0..10 {
        assert_eq!(far.received().request, request);
    }
}

/// The adapter acknowledges on hardware, and a program may end as soon as it has what it wants.
fn what_was_received_is_complete_though_its_receiver_is_gone(near: &mut Side, far: &mut Side) {
    for is_process_gone in [false, true] {
        let _ = connect(near, far, RC);
        far.receive(1, 0, 64);
        near.send(post(SendOpcode::Send));
        assert_eq!(far.received().status, OK);
        if is_process_gone {
            far.restart();
        } else {
            far.renew();
        }
        assert_eq!(near.sent().status, OK);
        near.renew();
    }
}
