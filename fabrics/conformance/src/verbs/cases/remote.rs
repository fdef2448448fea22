//! Remote writes, reads and atomics.

use viaduct_provider::via::verbs::flags::send;
use viaduct_provider::via::verbs::{CompletionOpcode, SendOpcode};

use super::{Case, OK, RC, SIGNALED, UC, connect, post};
use crate::verbs::{Post, Side};

cases! {
    writes_land_without_a_completion_at_the_target: "ibv_post_send(3)";
    reads_bring_what_is_there: "ibv_post_send(3)";
    atomics_return_what_was_there: "ibv_post_send(3)";
    a_write_behind_a_send_lands_behind_it: "ordering of the specification";
    a_fence_waits_for_reads: "ibv_post_send(3), IBV_SEND_FENCE";
    requests_of_no_bytes_look_at_no_key: "requests of no bytes of the specification";
}

fn writes_land_without_a_completion_at_the_target(near: &mut Side, far: &mut Side) {
    for kind in [RC, UC] {
        near.renew();
        far.renew();
        let link = connect(near, far, kind);
        far.receive(5, 0, 64);
        for length in [8, 16, 64, 4096, 100_000, 500_000] {
            let words: Vec<u64> = (0..length / 8).map(|word| word ^ length).collect();
            near.set_words(0, &words);
            near.send(Post {
                length,
                ..link.remote(SendOpcode::RdmaWrite, 1024)
            });
            let sent = near.sent();
            let opcode = u64::from(CompletionOpcode::RdmaWrite.number());
            assert_eq!((sent.status, sent.opcode), (OK, opcode));
            // An unreliable write is complete before it has landed.
            while far.words(1024, length / 8) != words {
                assert_eq!(kind, UC);
            }
        }
        far.nothing_received();
    }
}

fn reads_bring_what_is_there(near: &mut Side, far: &mut Side) {
    let link = connect(near, far, RC);
    for length in [0, 8, 4096, 100_000, 500_000] {
        let words: Vec<u64> = (0..length / 8).map(|word| word ^ length).collect();
        far.set_words(64, &words);
        near.send(Post {
            length,
            at: 8,
            ..link.remote(SendOpcode::RdmaRead, 64)
        });
        let sent = near.sent();
        let opcode = u64::from(CompletionOpcode::RdmaRead.number());
        assert_eq!((sent.status, sent.opcode), (OK, opcode));
        assert_eq!(near.words(8, length / 8), words);
    }
}

fn atomics_return_what_was_there(near: &mut Side, far: &mut Side) {
    let link = connect(near, far, RC);
    far.set_words(128, &[100]);
    let add = link.remote(SendOpcode::AtomicFetchAndAdd, 128);
    near.send(Post {
        length: 8,
        add: 5,
        ..add
    });
    assert_eq!(
        near.sent().opcode,
        u64::from(CompletionOpcode::FetchAndAdd.number())
    );
    assert_eq!(
        (near.words(0, 1), far.words(128, 1)),
        (vec![100], vec![105])
    );
    let swap = link.remote(SendOpcode::AtomicCompareAndSwap, 128);
    near.send(Post {
        length: 8,
        add: 1,
        swap: 9,
        ..swap
    });
    assert_eq!(near.sent().status, OK);
    assert_eq!(
        (near.words(0, 1), far.words(128, 1)),
        (vec![105], vec![105])
    );
    near.send(Post {
        length: 8,
        add: 105,
        swap: 9,
        ..swap
    });
    assert_eq!(near.sent().status, OK);
    assert_eq!((near.words(0, 1), far.words(128, 1)), (vec![105], vec![9]));
}

fn a_write_behind_a_send_lands_behind_it(near: &mut Side, far: &mut Side) {
    let link = connect(near, far, RC);
    far.set_words(512, &[0]);
    near.set_words(0, &[77]);
    near.send(Post {
        flags: 0,
        ..post(SendOpcode::Send)
    });
    near.send(Post {
        length: 8,
        ..link.remote(SendOpcode::RdmaWrite, 512)
    });
    // The send has no receive, so nothing behind it may have happened.
    near.nothing_sent();
    assert_eq!(far.words(512, 1), [0]);
    far.receive(5, 0, 64);
    assert_eq!(far.received().status, OK);
    assert_eq!(near.sent().status, OK);
    assert_eq!(far.words(512, 1), [77]);
}

fn a_fence_waits_for_reads(near: &mut Side, far: &mut Side) {
    let link = connect(near, far, RC);
    for turn in 0..20 {
        far.set_words(4096, &[turn]);
        far.receive(5, 0, 64);
        near.send(Post {
            flags: 0,
            length: 8,
            at: 64,
            ..link.remote(SendOpcode::RdmaRead, 4096)
        });
        // It sends what the read brings.
        let flags = SIGNALED | send::FENCE;
        near.send(Post {
            flags,
            length: 8,
            at: 64,
            ..post(SendOpcode::Send)
        });
        assert_eq!(far.received().status, OK);
        assert_eq!(far.words(0, 1), [turn]);
        assert_eq!(near.sent().status, OK);
    }
}

fn requests_of_no_bytes_look_at_no_key(near: &mut Side, far: &mut Side) {
    let link = connect(near, far, RC);
    for opcode in [SendOpcode::RdmaWrite, SendOpcode::RdmaRead] {
        near.send(Post {
            length: 0,
            key: 0,
            ..link.remote(opcode, 0)
        });
        assert_eq!(near.sent().status, OK, "{opcode:?}");
    }
}
