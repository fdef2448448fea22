//! Sends and receives of connections.

use viaduct_provider::via::verbs::errno;
use viaduct_provider::via::verbs::flags::send;
use viaduct_provider::via::verbs::{CompletionOpcode, SendOpcode};

use super::{Case, OK, RC, SIGNALED, UC, connect, post};
use crate::verbs::{Post, Side};

cases! {
    sends_of_all_lengths_arrive: "ibv_post_send(3)";
    unreliable_sends_arrive_and_complete: "ibv_post_send(3)";
    immediate_data_come_with_sends_and_writes: "ibv_post_send(3)";
    inline_bytes_are_taken_when_posted: "ibv_post_send(3), IBV_SEND_INLINE";
    many_operations_mix: "ordering of the specification";
}

fn sends_of_all_lengths_arrive(near: &mut Side, far: &mut Side) {
    let link = connect(near, far, RC);
    for length in [0, 8, 32, 40, 256, 1024, 8184, 8192, 65_536, 524_288] {
        let words: Vec<u64> = (0..length / 8).map(|word| word * 3 + length).collect();
        near.set_words(0, &words);
        far.receive(length, 8, 600_000);
        near.send(Post {
            length,
            ..post(SendOpcode::Send)
        });
        let came = far.received();
        assert_eq!(
            (came.request, came.status, came.bytes),
            (length, OK, length)
        );
        assert_eq!((came.pair, came.source), (link.far, link.near));
        assert_eq!(came.opcode, u64::from(CompletionOpcode::Receive.number()));
        assert_eq!(far.words(8, length / 8), words);
        let sent = near.sent();
        assert_eq!((sent.request, sent.status, sent.pair), (7, OK, link.near));
    }
}

fn unreliable_sends_arrive_and_complete(near: &mut Side, far: &mut Side) {
    connect(near, far, UC);
    // Without a receive: lost, and complete all the same.
    near.send(post(SendOpcode::Send));
    assert_eq!(near.sent().status, OK);
    far.nothing_received();
    // Longer than its receive: dropped, and the receive stays for the next.
    far.receive(5, 0, 20_000);
    near.send(Post {
        length: 100_000,
        ..post(SendOpcode::Send)
    });
    assert_eq!(near.sent().status, OK);
    far.nothing_received();
    for length in [0, 64, 100_000] {
        if length > 0 {
            far.receive(5, 0, 600_000);
        }
        near.send(Post {
            length,
            ..post(SendOpcode::Send)
        });
        let came = far.received();
        assert_eq!((came.status, came.bytes), (OK, length));
        assert_eq!(near.sent().status, OK);
    }
}

fn immediate_data_come_with_sends_and_writes(near: &mut Side, far: &mut Side) {
    let link = connect(near, far, RC);
    far.receive(5, 0, 4096);
    near.send(Post {
        immediate: 0xdead_beef,
        ..post(SendOpcode::SendWithImmediate)
    });
    let came = far.received();
    assert_eq!((came.immediate, came.flags), (0xdead_beef, 2));
    for length in [0, 64, 20_000] {
        // Its receive needs no memory.
        far.receive(6, 0, 0);
        let write = link.remote(SendOpcode::RdmaWriteWithImmediate, 4096);
        near.set_words(0, &[length + 1]);
        near.send(Post {
            immediate: 9,
            length,
            ..write
        });
        let came = far.received();
        assert_eq!((came.request, came.status, came.bytes), (6, OK, length));
        assert_eq!((came.immediate, came.flags), (9, 2));
        let opcode = CompletionOpcode::ReceiveRdmaWithImmediate.number();
        assert_eq!(came.opcode, u64::from(opcode));
        if length > 0 {
            assert_eq!(far.words(4096, 1), [length + 1]);
        }
    }
}

fn inline_bytes_are_taken_when_posted(near: &mut Side, far: &mut Side) {
    connect(near, far, RC);
    near.set_words(0, &[11]);
    // Nothing is posted there yet: the send waits, and its memory changes.
    let inline = SIGNALED | send::INLINE;
    near.send(Post {
        flags: inline,
        length: 8,
        own_key: 1,
        ..post(SendOpcode::Send)
    });
    near.set_words(0, &[22]);
    far.receive(5, 0, 64);
    assert_eq!(far.received().status, OK);
    assert_eq!(far.words(0, 1), [11]);
    let long = Post {
        flags: inline,
        length: 257,
        ..post(SendOpcode::Send)
    };
    assert_eq!(near.post(long), Err(errno::EINVAL));
    let read = Post {
        flags: inline,
        length: 8,
        ..post(SendOpcode::RdmaRead)
    };
    assert_eq!(near.post(read), Err(errno::EINVAL));
}

fn many_operations_mix(near: &mut Side, far: &mut Side) {
    let link = connect(near, far, RC);
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = move |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % limit
    };
    let mut sum = 0;
    far.set_words(0, &[0]);
    for turn in 0..300 {
        let length = [8, 64, 4096, 30_000][next(4) as usize];
        match next(4) {
            0 => {
                near.set_words(8192, &[turn]);
                far.receive(turn, 131_072, 65_536);
                near.send(Post {
                    length,
                    at: 8192,
                    ..post(SendOpcode::Send)
                });
                let came = far.received();
                assert_eq!((came.request, came.status, came.bytes), (turn, OK, length));
                assert_eq!(far.words(131_072, 1), [turn]);
            }
            1 => {
                near.set_words(8192, &[turn]);
                let write = link.remote(SendOpcode::RdmaWrite, 262_144);
                near.send(Post {
                    length,
                    at: 8192,
                    ..write
                });
            }
            2 => {
                far.set_words(300_000, &[turn]);
                let read = link.remote(SendOpcode::RdmaRead, 300_000);
                near.send(Post {
                    length,
                    at: 65_536,
                    ..read
                });
            }
            _ => {
                sum += turn;
                let add = link.remote(SendOpcode::AtomicFetchAndAdd, 0);
                near.send(Post {
                    length: 8,
                    add: turn,
                    ..add
                });
            }
        }
        assert_eq!(near.sent().status, OK);
    }
    assert_eq!(far.words(0, 1), [sum]);
}
