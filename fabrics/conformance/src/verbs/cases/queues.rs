//! Sizes of queues, shared receive queues, and objects that are used by others.

use viaduct_provider::via::verbs::errno;
use viaduct_provider::via::verbs::{AsyncEventType, SendOpcode};

use super::{Case, OK, RC, UC, connect, post, to_error};
use crate::verbs::Side;

cases! {
    full_queues_take_nothing: "ibv_post_recv(3), ENOMEM";
    a_shared_receive_queue_serves_and_tells_its_limit: "ibv_modify_srq(3)";
    what_was_received_is_not_flushed: "acknowledgements of the specification";
    the_last_request_is_told: "ibv_get_async_event(3), IBV_EVENT_QP_LAST_WQE_REACHED";
    a_completion_queue_that_overruns_is_lost: "ibv_get_async_event(3), IBV_EVENT_CQ_ERR";
    a_completion_queue_is_not_made_smaller_than_what_is_in_it: "ibv_resize_cq(3)";
    objects_with_children_stay: "ibv_dealloc_pd(3), ibv_destroy_cq(3), EBUSY";
    whoever_destroys_waits_until_events_are_acknowledged: "ibv_get_cq_event(3), ibv_get_async_event(3)";
}

fn full_queues_take_nothing(near: &mut Side, far: &mut Side) {
    connect(near, far, RC);
    for request in 0..64 {
        near.receive(request, 0, 64);
        near.send(post(SendOpcode::Send));
    }
    assert_eq!(near.call("receive", &[0, 1, 0, 64]), Err(errno::ENOMEM));
    assert_eq!(near.post(post(SendOpcode::Send)), Err(errno::ENOMEM));
}

fn a_shared_receive_queue_serves_and_tells_its_limit(near: &mut Side, far: &mut Side) {
    far.done("shared", &[16]);
    connect(near, far, RC);
    for request in 0..4 {
        far.done("receive", &[u64::MAX, request, 0, 64]);
    }
    far.done("limit", &[3]);
    assert_eq!(far.call("receive", &[0, 1, 0, 64]), Err(errno::EINVAL));
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

fn what_was_received_is_not_flushed(near: &mut Side, far: &mut Side) {
    connect(near, far, RC);
    for request in 0..4 {
        far.receive(request, 0, 64);
        near.send(post(SendOpcode::Send));
        assert_eq!(far.received().request, request);
    }
    // The sender looks only when it gives up, as one that hears of its peer's farewell.
    to_error(near);
    for _ in 0..4 {
        assert_eq!(near.sent().status, OK);
    }
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
    assert_eq!(far.call("resize", &[2]), Err(errno::EINVAL));
    assert_eq!(far.call("resize", &[0]), Err(errno::EINVAL));
    assert!(far.done("resize", &[3])[0] >= 3);
    for request in 0..3 {
        assert_eq!(far.received().request, request);
    }
}

fn objects_with_children_stay(near: &mut Side, _: &mut Side) {
    near.done("shared", &[4]);
    near.done("pair", &[RC, 0, 4]);
    for object in 0..4 {
        assert_eq!(
            near.call("destroy", &[object]),
            Err(errno::EBUSY),
            "{object}"
        );
    }
    near.done("destroy", &[4]);
    near.done("destroy", &[3]);
    near.done("destroy", &[1]);
    assert_eq!(near.call("destroy", &[4]), Err(errno::EINVAL));
}

/// The last numbers of what takes an event: it must come, and is not acknowledged.
const HELD: [u64; 2] = [1, 1];

fn whoever_destroys_waits_until_events_are_acknowledged(near: &mut Side, far: &mut Side) {
    let (pair, queue, shared) = (4, 1, 3);
    far.done("shared", &[16]);
    connect(near, far, RC);
    far.done("limit", &[1]);
    let reached = AsyncEventType::SharedReceiveQueueLimitReached.number();
    assert_eq!(far.done("event", &HELD), [u64::from(reached), 3]);
    far.done("arm", &[0]);
    far.done("receive", &[u64::MAX, 1, 0, 64]);
    near.send(post(SendOpcode::Send));
    assert_eq!(far.done("channel", &HELD), [2]);
    to_error(far);
    let last = AsyncEventType::LastRequestReached.number();
    assert_eq!(far.done("event", &HELD), [u64::from(last), 100]);
    // Whoever may not destroy does not wait either.
    for object in [queue, shared] {
        assert_eq!(far.call("destroy", &[object]), Err(errno::EBUSY));
    }
    for object in [pair, queue, shared] {
        let was_there = far.done("destroy-held", &[object]);
        assert_eq!(was_there, [1], "{object} was destroyed too early");
        assert_eq!(far.call("destroy", &[object]), Err(errno::EINVAL));
    }
}
