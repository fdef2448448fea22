use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::devices;
use crate::verbs::flags::shared_receive;
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
