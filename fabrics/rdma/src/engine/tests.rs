use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::devices;
use crate::verbs::flags::{access, shared_receive};
use crate::verbs::{AsyncEventType, SharedReceiveAttributes};

/// How long it is waited for what must not come.
const SILENCE: Duration = Duration::from_millis(50);

/// `ibv_destroy_srq(3)`, `ibv_get_async_event(3)`.
#[test]
fn whoever_destroys_waits_for_the_acknowledgement() {
    let context = devices()[0].open().unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let attributes = SharedReceiveAttributes {
        max_requests: 4,
        max_elements: 1,
        limit: 1,
    };
    let shared = domain.create_shared_receive_queue(&attributes, 3).unwrap();
    shared.modify(&attributes, shared_receive::LIMIT).unwrap();
    let event = context.try_next_async_event().unwrap();
    let reached = AsyncEventType::SharedReceiveQueueLimitReached;
    assert_eq!(event.kind, reached);
    let (sender, destroyed) = mpsc::channel();
    thread::spawn(move || sender.send(shared.destroy()));
    assert!(destroyed.recv_timeout(SILENCE).is_err());
    shared.acknowledge_async_events(1);
    assert!(destroyed.recv().unwrap().is_ok());
    assert!(shared.query().is_err());
    assert!(domain.deallocate().is_ok());
}

/// `ibv_get_cq_event(3)`, but for the limit.
#[test]
fn a_wait_for_an_event_ends_with_its_time() {
    let context = devices()[0].open().unwrap();
    let channel = context.create_completion_channel().unwrap();
    let begun = Instant::now();
    let waited = channel.next_event(Some(SILENCE));
    assert_eq!(waited.unwrap_err().errno(), libc::EAGAIN);
    assert!(begun.elapsed() >= SILENCE);
}

/// `ibv_dealloc_pd(3)`.
#[test]
fn memory_is_open_until_it_is_dropped() {
    let context = devices()[0].open().unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let buffer = domain.allocate(10, access::LOCAL_WRITE).unwrap();
    assert_eq!(buffer.len(), 10);
    assert_eq!(domain.deallocate().unwrap_err().errno(), libc::EBUSY);
    drop(buffer);
    assert!(domain.deallocate().is_ok());
}
