//! Datagrams.

use viaduct_provider::via::verbs::errno;
use viaduct_provider::via::verbs::{CompletionStatus, QueuePairState, SendOpcode};

use super::{Case, Link, OK, UC, UD, code, connect, post};
use crate::verbs::{Post, QUEUE_KEY, Side};

cases! {
    a_datagram_comes_behind_its_routing_header: "ibv_post_recv(3)";
    a_datagram_with_another_queue_key_is_dropped: "Q_Keys of the specification";
    a_datagram_without_a_receive_is_dropped: "unreliable datagrams of the specification";
    a_datagram_longer_than_the_mtu_is_refused: "ibv_post_send(3)";
    what_is_longer_than_its_receive_is_dropped: "class D of the specification's errors";
    a_datagram_that_fails_at_home_leaves_what_is_received: "states of the specification, SQE";
    operations_of_other_types_are_refused: "ibv_post_send(3)";
}

fn datagrams(near: &mut Side, far: &mut Side) -> Link {
    connect(near, far, UD)
}

fn a_datagram_comes_behind_its_routing_header(near: &mut Side, far: &mut Side) {
    let link = datagrams(near, far);
    near.set_words(0, &[1, 2, 3]);
    far.receive(5, 0, 4096);
    near.send(Post {
        length: 24,
        to: link.far,
        ..post(SendOpcode::Send)
    });
    let came = far.received();
    assert_eq!((came.status, came.bytes, came.flags & 1), (OK, 64, 1));
    assert_eq!((came.pair, came.source), (link.far, link.near));
    assert_eq!(far.words(40, 3), [1, 2, 3]);
    assert_eq!(near.sent().status, OK);
}

fn a_datagram_with_another_queue_key_is_dropped(near: &mut Side, far: &mut Side) {
    let link = datagrams(near, far);
    far.receive(5, 0, 4096);
    let wrong = u64::from(QUEUE_KEY) + 1;
    near.send(Post {
        to: link.far,
        swap: wrong,
        ..post(SendOpcode::Send)
    });
    assert_eq!(near.sent().status, OK);
    far.nothing_received();
    // With the highest bit it is the sender's own.
    near.send(Post {
        to: link.far,
        swap: 1 << 31,
        ..post(SendOpcode::Send)
    });
    assert_eq!(far.received().status, OK);
}

fn a_datagram_without_a_receive_is_dropped(near: &mut Side, far: &mut Side) {
    let link = datagrams(near, far);
    near.send(Post {
        to: link.far,
        ..post(SendOpcode::Send)
    });
    assert_eq!(near.sent().status, OK);
    far.nothing_received();
    far.receive(5, 0, 4096);
    far.nothing_received();
    near.send(Post {
        to: link.far,
        ..post(SendOpcode::Send)
    });
    assert_eq!(far.received().request, 5);
}

fn what_is_longer_than_its_receive_is_dropped(near: &mut Side, far: &mut Side) {
    let link = datagrams(near, far);
    far.receive(5, 0, 64);
    for length in [25, 24] {
        near.send(Post {
            to: link.far,
            length,
            ..post(SendOpcode::Send)
        });
        assert_eq!(near.sent().status, OK);
    }
    let came = far.received();
    assert_eq!((came.request, came.status, came.bytes), (5, OK, 64));
    far.nothing_received();
}

fn a_datagram_longer_than_the_mtu_is_refused(near: &mut Side, far: &mut Side) {
    let link = datagrams(near, far);
    near.send(Post {
        to: link.far,
        length: 4097,
        ..post(SendOpcode::Send)
    });
    assert_eq!(near.sent().status, code(CompletionStatus::LocalLengthError));
}

fn a_datagram_that_fails_at_home_leaves_what_is_received(near: &mut Side, far: &mut Side) {
    let link = datagrams(near, far);
    near.receive(5, 0, 4096);
    near.send(Post {
        to: link.far,
        length: 4097,
        ..post(SendOpcode::Send)
    });
    assert_eq!(near.sent().status, code(CompletionStatus::LocalLengthError));
    assert_eq!(near.state(), u64::from(QueuePairState::SendError.number()));
    far.send(Post {
        to: link.near,
        ..post(SendOpcode::Send)
    });
    let came = near.received();
    assert_eq!((came.request, came.status), (5, OK));
}

fn operations_of_other_types_are_refused(near: &mut Side, far: &mut Side) {
    use SendOpcode::{AtomicCompareAndSwap, AtomicFetchAndAdd, RdmaRead, RdmaWrite};
    let link = datagrams(near, far);
    for opcode in [RdmaWrite, RdmaRead, AtomicCompareAndSwap] {
        let wrong = Post {
            to: link.far,
            ..link.remote(opcode, 0)
        };
        assert_eq!(near.post(wrong), Err(errno::EINVAL), "{opcode:?}");
    }
    near.renew();
    far.renew();
    let link = connect(near, far, UC);
    for opcode in [RdmaRead, AtomicFetchAndAdd] {
        let wrong = link.remote(opcode, 0);
        assert_eq!(near.post(wrong), Err(errno::EINVAL), "{opcode:?}");
    }
}
