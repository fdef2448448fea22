use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use viaduct_core::verbs::requester::{self, Turn};
use viaduct_core::verbs::{QueuePairState, check, responder};

use super::engine;
use crate::devices;
use crate::state::{Incoming, Short};
use crate::verbs::flags::{access, send, shared_receive};
use crate::verbs::{
    AsyncEventType, Capabilities, Completion, CompletionOpcode, QueuePairAttributes, QueuePairType,
    ScatterGatherElement, SendOpcode, SharedReceiveAttributes,
};
use crate::{
    CompletionQueue, CompletionQueueOptions, Context, ProtectionDomain, QueuePair,
    QueuePairOptions, ReceiveRequest, SendRequest,
};

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

/// A queue pair of its own, with a completion queue for sends and one for receives.
fn pair(
    context: &Context,
    domain: &ProtectionDomain,
    kind: QueuePairType,
) -> (QueuePair, CompletionQueue, CompletionQueue) {
    let entries = CompletionQueueOptions {
        entries: 4,
        ..CompletionQueueOptions::default()
    };
    let [sent, received] = [0; 2].map(|_| context.create_completion_queue(&entries).unwrap());
    let options = QueuePairOptions {
        kind,
        capabilities: Capabilities {
            max_send_requests: 4,
            max_receive_requests: 4,
            max_send_elements: 1,
            max_receive_elements: 1,
            max_inline_bytes: 64,
        },
        send_queue: sent,
        receive_queue: received,
        shared_receive_queue: None,
        is_every_send_signaled: false,
        cookie: 0,
    };
    let pair = domain.create_queue_pair(&options).unwrap();
    (pair, sent, received)
}

/// What is kept for the short way is what the rules say, in every state, and is made anew whenever
/// a queue pair was worked on.
#[test]
fn what_the_short_way_keeps_is_what_the_rules_say() {
    use QueuePairState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendDrained, SendError};
    let context = devices()[0].open().unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    for kind in [QueuePairType::Rc, QueuePairType::Uc, QueuePairType::Ud] {
        let (handle, ..) = pair(&context, &domain, kind);
        let place = handle.key.index();
        let mut engine = engine().unwrap();
        let states = [
            Reset,
            Init,
            ReadyToReceive,
            ReadyToSend,
            SendDrained,
            SendError,
            Error,
        ];
        for (state, bits) in states
            .into_iter()
            .flat_map(|state| (0..32).map(move |bits| (state, bits)))
        {
            let has = |bit: u32| bits & 1 << bit != 0;
            let mut pair = engine.objects.take_pair(place).unwrap();
            pair.attributes.destination = 0x1234;
            pair.state = state;
            pair.wait_until = u64::from(has(0));
            pair.is_established = has(1);
            pair.drain_wanted = has(2);
            pair.options.shared_receive_queue = has(3).then_some(handle.key);
            pair.own.incoming = has(4).then_some(Incoming {
                receive: None,
                remote: None,
                total: 1,
                offset: 0,
            });
            let is_connected = kind != QueuePairType::Ud;
            let begins = check::takes_sends(state) && requester::turn(state, false) == Turn::Begins;
            let tells = responder::event_at_first_request(state, has(1)).is_some();
            let hears = check::hears(state) && !tells && !has(2) && !has(3) && !has(4);
            let ends = u64::from(handle.number()) | 0x1234 << 32;
            let expected = Short {
                sends: is_connected && begins && !has(0),
                hears: if is_connected && hears { ends } else { 0 },
            };
            pair.own.short = Short::default();
            engine.objects.put_pair(pair);
            let pair = engine.objects.pairs.at(place).unwrap().as_ref().unwrap();
            assert_eq!(pair.own.short, expected, "{kind:?} {state:?} {bits:05b}");
        }
        // The others that were set do not outlive the test.
        let mut pair = engine.objects.take_pair(place).unwrap();
        pair.state = Reset;
        pair.options.shared_receive_queue = None;
        pair.own.incoming = None;
        engine.objects.put_pair(pair);
        drop(engine);
        handle.destroy().unwrap();
    }
}

/// `ibv_poll_cq(3)`: a message that acknowledges a send is not lost, wherever its program looks
/// next.
#[test]
fn a_message_that_ends_a_send_is_found_wherever_its_program_looks() {
    let context = devices()[0].open().unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let memory = domain.allocate(8, access::LOCAL_WRITE).unwrap();
    let element = ScatterGatherElement {
        address: memory.address(),
        length: 8,
        local_key: memory.memory_key(),
    };
    let [first, second] = [0; 2].map(|_| pair(&context, &domain, QueuePairType::Rc));
    for (one, other) in [(&first, &second), (&second, &first)] {
        // What is lost is not sent again.
        let mut attributes = QueuePairAttributes::connection(other.0.number());
        attributes.timeout = 0;
        one.0.raise(&attributes).unwrap();
    }
    let receive = |side: &QueuePair| {
        let elements = &[element];
        let request = 2;
        side.post_receive(&ReceiveRequest { request, elements })
            .unwrap();
    };
    let send = |side: &QueuePair| {
        let request = SendRequest::new(1, SendOpcode::Send)
            .with_elements(std::slice::from_ref(&element))
            .with_flags(send::INLINE | send::SIGNALED);
        // SAFETY: the memory outlives the call.
        unsafe { side.post_send(&request) }.unwrap();
    };
    let wait = |queue: &CompletionQueue| {
        let mut done = [Completion::default()];
        let is_found = (0..1_000_000).any(|_| queue.poll(&mut done).unwrap() > 0);
        assert!(is_found, "nothing came");
        done[0].opcode
    };
    for looks_at_sends in [0, 1, 2, 3] {
        receive(&first.0);
        receive(&second.0);
        send(&first.0);
        assert_eq!(wait(&second.2), CompletionOpcode::Receive);
        engine().unwrap().is_waiting = true;
        send(&second.0);
        assert_eq!(wait(&first.1), CompletionOpcode::Send);
        for _ in 0..looks_at_sends {
            assert_eq!(first.1.poll(&mut [Completion::default()]).unwrap(), 0);
        }
        assert_eq!(wait(&first.2), CompletionOpcode::Receive);
        assert_eq!(wait(&second.1), CompletionOpcode::Send);
    }
}
