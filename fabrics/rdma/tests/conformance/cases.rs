//! Cases, each with the source of the rule that it holds.

use viaduct_rdma::verbs::flags::{access, attribute, send};
use viaduct_rdma::verbs::{
    AsyncEventType, CompletionOpcode, CompletionStatus, QueuePairState, QueuePairType, SendOpcode,
};

use crate::station::{ALL, Post, QUEUE_KEY, Remote, Side};

/// A case: its name, the source of its rule, and what it does.
type Case = (&'static str, &'static str, fn(&mut Side, &mut Side));

macro_rules! cases {
    ($($name:ident: $source:literal;)+) => {
        /// All cases.
        pub(crate) const CASES: &[Case] = &[$((stringify!($name), $source, $name)),+];
    };
}

cases! {
    sends_of_all_lengths_arrive: "ibv_post_send(3)";
    unreliable_sends_arrive_and_complete: "ibv_post_send(3)";
    a_datagram_comes_behind_its_routing_header: "ibv_post_recv(3)";
    a_datagram_with_another_queue_key_is_dropped: "Q_Keys of the specification";
    a_datagram_without_a_receive_is_dropped: "unreliable datagrams of the specification";
    a_datagram_longer_than_the_mtu_is_refused: "ibv_post_send(3)";
    immediate_data_come_with_sends_and_writes: "ibv_post_send(3)";
    inline_bytes_are_taken_when_posted: "ibv_post_send(3), IBV_SEND_INLINE";
    writes_land_without_a_completion_at_the_target: "ibv_post_send(3)";
    reads_bring_what_is_there: "ibv_post_send(3)";
    atomics_return_what_was_there: "ibv_post_send(3)";
    a_write_behind_a_send_lands_behind_it: "ordering of the specification";
    only_signaled_sends_complete: "ibv_post_send(3), IBV_SEND_SIGNALED";
    every_send_completes_where_that_is_set: "ibv_create_qp(3), sq_sig_all";
    sends_complete_in_order: "ibv_poll_cq(3)";
    a_send_waits_for_a_receive_for_ever_with_7: "ibv_modify_qp(3), rnr_retry";
    a_send_without_a_receive_fails_after_its_retries: "ibv_modify_qp(3), rnr_retry";
    a_peer_that_is_not_there_exceeds_the_retries: "ibv_modify_qp(3), retry_cnt";
    timeout_0_waits_for_ever: "ibv_modify_qp(3), timeout";
    a_queue_pair_that_comes_up_late_gets_what_was_sent: "retries of the specification";
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
    an_error_flushes_both_queues_in_order: "ibv_modify_qp(3), IBV_WC_WR_FLUSH_ERR";
    posts_in_the_error_state_are_flushed: "states of the specification";
    reset_forgets_everything: "states of the specification";
    posts_in_reset_are_refused: "ibv_post_recv(3)";
    full_queues_take_nothing: "ibv_post_recv(3), ENOMEM";
    a_shared_receive_queue_serves_and_tells_its_limit: "ibv_modify_srq(3)";
    the_last_request_is_told: "ibv_get_async_event(3), IBV_EVENT_QP_LAST_WQE_REACHED";
    a_completion_queue_that_overruns_is_lost: "ibv_get_async_event(3), IBV_EVENT_CQ_ERR";
    a_completion_queue_is_not_made_smaller_than_what_is_in_it: "ibv_resize_cq(3)";
    an_armed_queue_tells_once: "ibv_req_notify_cq(3)";
    a_queue_armed_for_solicited_ones_keeps_still: "ibv_req_notify_cq(3)";
    objects_with_children_stay: "ibv_dealloc_pd(3), ibv_destroy_cq(3), EBUSY";
    a_query_gives_back_what_was_set: "ibv_query_qp(3)";
    a_wrong_mask_changes_nothing: "ibv_modify_qp(3)";
    a_fence_waits_for_reads: "ibv_post_send(3), IBV_SEND_FENCE";
    what_was_received_is_complete_though_its_receiver_is_gone: "acknowledgements of the specification";
    many_operations_mix: "ordering of the specification";
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
    for length in [0, 64, 100_000] {
        far.receive(5, 0, 600_000);
        near.send(Post {
            length,
            ..post(SendOpcode::Send)
        });
        let came = far.received();
        assert_eq!((came.status, came.bytes), (OK, length));
        assert_eq!(near.sent().status, OK);
    }
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

fn a_datagram_longer_than_the_mtu_is_refused(near: &mut Side, far: &mut Side) {
    let link = datagrams(near, far);
    near.send(Post {
        to: link.far,
        length: 4097,
        ..post(SendOpcode::Send)
    });
    assert_eq!(near.sent().status, code(CompletionStatus::LocalLengthError));
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
    assert_eq!(near.post(long), Err(libc::EINVAL));
    let read = Post {
        flags: inline,
        length: 8,
        ..post(SendOpcode::RdmaRead)
    };
    assert_eq!(near.post(read), Err(libc::EINVAL));
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
    spoil: impl Fn(&mut Side, Post) -> Post,
) {
    for opcode in REMOTE {
        near.renew();
        far.renew();
        let link = connect_with(near, far, RC, far_access, PATIENT);
        far.set_words(0, &[1]);
        far.receive(5, 0, 64);
        let wrong = spoil(
            far,
            Post {
                length: 8,
                ..link.remote(opcode, 0)
            },
        );
        refused(near, far, wrong, CompletionStatus::RemoteAccessError);
        assert_eq!(far.words(0, 1), [1]);
    }
}

fn a_wrong_remote_key_is_refused(near: &mut Side, far: &mut Side) {
    each_is_refused(near, far, ALL, |_, right| Post {
        key: right.key ^ 1,
        ..right
    });
}

fn a_range_past_the_region_is_refused(near: &mut Side, far: &mut Side) {
    let end = 8 * crate::station::WORDS as u64;
    each_is_refused(near, far, ALL, |_, right| Post {
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
    each_is_refused(near, far, ALL, |far, right| {
        let key = far.done("region", &[u64::from(access::LOCAL_WRITE)])[0];
        Post { key, ..right }
    });
}

fn a_queue_pair_without_the_right_refuses(near: &mut Side, far: &mut Side) {
    each_is_refused(near, far, access::LOCAL_WRITE, |_, right| right);
}

fn a_region_of_another_domain_is_refused(near: &mut Side, far: &mut Side) {
    each_is_refused(near, far, ALL, |far, right| {
        let key = far.done("foreign-region", &[])[0];
        Post { key, ..right }
    });
}

fn a_deregistered_region_is_refused(near: &mut Side, far: &mut Side) {
    each_is_refused(near, far, ALL, |far, right| {
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
        assert_eq!(near.call("region", &[u64::from(rights)]), Err(libc::EINVAL));
    }
    near.done("region", &[u64::from(access::REMOTE_READ)]);
    let on_demand = u64::from(access::ON_DEMAND);
    assert_eq!(near.call("region", &[on_demand]), Err(libc::EOPNOTSUPP));
}

fn to_error(side: &mut Side) {
    let state = u64::from(QueuePairState::Error.number());
    side.done("modify", &[0, state, u64::from(attribute::STATE)]);
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

fn full_queues_take_nothing(near: &mut Side, far: &mut Side) {
    connect(near, far, RC);
    for request in 0..64 {
        near.receive(request, 0, 64);
        near.send(post(SendOpcode::Send));
    }
    assert_eq!(near.call("receive", &[0, 1, 0, 64]), Err(libc::ENOMEM));
    assert_eq!(near.post(post(SendOpcode::Send)), Err(libc::ENOMEM));
}

fn a_shared_receive_queue_serves_and_tells_its_limit(near: &mut Side, far: &mut Side) {
    far.done("shared", &[16]);
    connect(near, far, RC);
    for request in 0..4 {
        far.done("receive", &[u64::MAX, request, 0, 64]);
    }
    far.done("limit", &[3]);
    assert_eq!(far.call("receive", &[0, 1, 0, 64]), Err(libc::EINVAL));
    near.send(post(SendOpcode::Send));
    assert_eq!(far.received().request, 0);
    assert_eq!(far.done("event", &[0]), [0_u64; 0]);
    near.send(post(SendOpcode::Send));
    assert_eq!(far.received().request, 1);
    let reached = AsyncEventType::SharedReceiveQueueLimitReached.number();
    assert_eq!(far.event(), (u64::from(reached), 3));
    // Told once.
    near.send(post(SendOpcode::Send));
    assert_eq!(far.received().request, 2);
    assert_eq!(far.done("event", &[0]), [0_u64; 0]);
}

fn the_last_request_is_told(near: &mut Side, far: &mut Side) {
    far.done("shared", &[16]);
    connect(near, far, RC);
    far.done("receive", &[u64::MAX, 1, 0, 64]);
    to_error(far);
    let last = AsyncEventType::LastRequestReached.number();
    assert_eq!(far.event(), (u64::from(last), 100));
    // Receives of a shared queue are not flushed.
    far.nothing_received();
}

fn a_completion_queue_that_overruns_is_lost(near: &mut Side, far: &mut Side) {
    far.done("small-queue", &[2]);
    connect(near, far, UC);
    for request in 0..3 {
        far.receive(request, 0, 64);
        near.send(post(SendOpcode::Send));
        assert_eq!(near.sent().status, OK);
    }
    // Somebody must look that the receives complete, not at that queue.
    far.done("poll-send", &[0]);
    let lost = AsyncEventType::CompletionQueueError.number();
    assert_eq!(far.event(), (u64::from(lost), 9));
    assert_eq!(far.received().request, 0);
    assert_eq!(far.received().request, 1);
    assert!(far.call("poll-receive", &[0]).is_err());
}

fn a_completion_queue_is_not_made_smaller_than_what_is_in_it(near: &mut Side, far: &mut Side) {
    connect(near, far, RC);
    for request in 0..3 {
        far.receive(request, 0, 64);
        near.send(post(SendOpcode::Send));
        assert_eq!(near.sent().status, OK);
    }
    assert_eq!(far.call("resize", &[2]), Err(libc::EINVAL));
    assert_eq!(far.call("resize", &[0]), Err(libc::EINVAL));
    assert!(far.done("resize", &[3])[0] >= 3);
    for request in 0..3 {
        assert_eq!(far.received().request, request);
    }
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

fn objects_with_children_stay(near: &mut Side, _: &mut Side) {
    near.done("shared", &[4]);
    near.done("pair", &[RC, 0, 4]);
    for object in 0..4 {
        assert_eq!(
            near.call("destroy", &[object]),
            Err(libc::EBUSY),
            "{object}"
        );
    }
    near.done("destroy", &[4]);
    near.done("destroy", &[3]);
    near.done("destroy", &[1]);
    assert_eq!(near.call("destroy", &[4]), Err(libc::EINVAL));
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

/// The adapter acknowledges on hardware, and a program may end as soon as it has what it wants.
fn what_was_received_is_complete_though_its_receiver_is_gone(near: &mut Side, far: &mut Side) {
    for is_process_gone in [false, true] {
        let _ = connect(near, far, RC);
        far.receive(1, 0, 64);
        near.send(post(SendOpcode::Send));
        assert_eq!(far.received().status, OK);
        if is_process_gone && matches!(far, Side::There(_)) {
            *far = Side::There(Remote::start());
        } else {
            far.renew();
        }
        assert_eq!(near.sent().status, OK);
        near.renew();
    }
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
