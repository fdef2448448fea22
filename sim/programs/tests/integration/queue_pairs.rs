//! Queue pairs on simulated hosts in time, and what faults do to them. What they mean is held by
//! the suite of verbs (`verbs/`).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::faults::{Fault, Links};
use viaduct_engine::Time;
use viaduct_hardware::Mechanism;
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::verbs::flags::{access, send, shared_receive};
use viaduct_programs::verbs::{
    Buffer, Capabilities, Completion, CompletionQueue, CompletionQueueOptions, CompletionStatus,
    QueuePair, QueuePairAttributes, QueuePairOptions, QueuePairState, QueuePairType,
    ReceiveRequest, SendOpcode, SendRequest, SharedReceiveAttributes, errno,
};
use viaduct_programs::{Counts, Process, Simulation};
use viaduct_scenario::load_programs;
use viaduct_topology::{HostId, Node, SwitchId};

pub(crate) const ALL: u32 =
    access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;
const BYTES: usize = 1 << 20;

/// What a program of a host has.
pub(crate) struct End {
    pub(crate) pair: QueuePair,
    pub(crate) queue: CompletionQueue,
    pub(crate) buffer: Buffer,
}

impl End {
    pub(crate) fn new(process: &Process, kind: QueuePairType) -> Self {
        let context = process.rdma().unwrap().open().unwrap();
        let options = CompletionQueueOptions {
            entries: 4096,
            ..CompletionQueueOptions::default()
        };
        let queue = context.create_completion_queue(&options).unwrap();
        let domain = context.allocate_protection_domain().unwrap();
        let options = QueuePairOptions {
            kind,
            capabilities: Capabilities {
                max_send_requests: 1024,
                max_receive_requests: 1024,
                max_send_elements: 1,
                max_receive_elements: 1,
                max_inline_bytes: 200,
            },
            send_queue: queue.clone(),
            receive_queue: queue.clone(),
            shared_receive_queue: None,
            is_every_send_signaled: true,
            cookie: 0,
        };
        let pair = domain.create_queue_pair(&options).unwrap();
        let buffer = domain.allocate(BYTES, ALL).unwrap();
        Self {
            pair,
            queue,
            buffer,
        }
    }

    pub(crate) fn raise(&self, peer: u32, timeout: u8, retry_count: u8) {
        let attributes = QueuePairAttributes {
            access_flags: ALL,
            timeout,
            retry_count,
            min_receiver_not_ready_timer: 1,
            max_read_atomic: 4,
            max_destination_read_atomic: 4,
            ..QueuePairAttributes::connection(peer)
        };
        self.pair.raise(&attributes).unwrap();
    }

    pub(crate) fn post(
        &self,
        opcode: SendOpcode,
        flags: u32,
        bytes: u32,
        to: (u64, u32),
        add: u64,
    ) {
        let elements = [self.buffer.element(0, bytes)];
        let mut request = SendRequest::new(0, opcode)
            .with_elements(&elements)
            .with_flags(flags)
            .with_remote(to.0, to.1);
        request.compare_add = add;
        // SAFETY: what is inline lies in the buffer.
        unsafe { self.pair.post_send(&request) }.unwrap();
    }

    pub(crate) fn receive(&self, request: u64) {
        let elements = [self.buffer.element(4096, 4096)];
        let request = ReceiveRequest {
            request,
            elements: &elements,
        };
        self.pair.post_receive(&request).unwrap();
    }

    pub(crate) fn done(&self) -> Completion {
        let completion = self.queue.wait(Some(Duration::from_secs(1))).unwrap();
        completion.expect("something completes")
    }

    /// Its memory, as a peer names it.
    pub(crate) fn memory(&self) -> (u64, u32) {
        (self.buffer.address(), self.buffer.memory_key())
    }
}

pub(crate) fn hosts(model: &str) -> SimulationConfig {
    load_programs(model, None, 2).unwrap()
}

/// Two hosts with a queue pair each, connected.
pub(crate) fn two(
    config: SimulationConfig,
    kind: QueuePairType,
    timeout: u8,
) -> (Simulation, End, End) {
    let simulation = Simulation::new(config);
    let [near, far] = [0, 1].map(|host| End::new(&simulation.process(host), kind));
    near.raise(far.pair.number(), timeout, 7);
    far.raise(near.pair.number(), timeout, 7);
    (simulation, near, far)
}

/// How long one operation takes, from its post to its completion, when the adapter knows the
/// connection.
fn span(model: &str, opcode: SendOpcode, flags: u32, bytes: u32) -> Time {
    let (mut simulation, near, far) = two(hosts(model), QueuePairType::Rc, 14);
    let spans = Arc::new(Mutex::new(Vec::new()));
    let (told, to) = (Arc::clone(&spans), far.memory());
    for request in 0..3 {
        far.receive(request);
    }
    simulation.spawn(0, move |process| {
        for _ in 0..3 {
            let begin = process.time();
            near.post(opcode, flags, bytes, to, 0);
            assert_eq!(near.done().status, CompletionStatus::Success);
            told.lock().unwrap().push(process.time() - begin);
        }
    });
    simulation.run().unwrap();
    let spans = spans.lock().unwrap();
    assert_eq!(spans[1], spans[2], "a quiet cluster repeats itself");
    spans[2]
}

#[test]
fn an_inline_send_saves_the_reads_of_descriptor_and_bytes() {
    for model in ["rnic-gen3", "rnic-gen4", "rnic-gen5"] {
        let Mechanism::Rdma(rnic) = hosts(model).host.common().mechanism else {
            panic!("{model} has queue pairs");
        };
        for opcode in [SendOpcode::Send, SendOpcode::RdmaWrite] {
            let inline = span(model, opcode, send::INLINE, 8);
            let fetched = span(model, opcode, 0, 8);
            let saved = fetched - inline;
            assert!(
                saved >= rnic.read + rnic.read,
                "{model} {opcode:?}: {saved:?}"
            );
            assert!(saved < rnic.read + rnic.read + rnic.read);
        }
    }
}

#[test]
fn a_read_brings_its_bytes_back_and_a_long_write_takes_its_time() {
    let model = "rnic-gen5";
    let write = |bytes| span(model, SendOpcode::RdmaWrite, 0, bytes);
    let read = |bytes| span(model, SendOpcode::RdmaRead, 0, bytes);
    // 400 Gbit/s: a mebibyte takes 21 us, either way.
    for of in [&write as &dyn Fn(u32) -> Time, &read] {
        let (short, long) = (of(8), of(1 << 20));
        let moved = (long - short).microseconds_f64();
        assert!((20.0..30.0).contains(&moved), "{moved} us");
        assert!((1.0..5.0).contains(&short.microseconds_f64()), "{short:?}");
    }
}

/// Adds and sends over links that lose: the sum in memory, how many requests and receives
/// completed, when the last program ended, and how many packets were sent again.
fn under_loss(rate: f64, kind: QueuePairType) -> (u64, usize, usize, Time, u64) {
    const ROUNDS: u64 = 200;
    let mut config = hosts("rnic-gen4");
    if rate > 0.0 {
        let links = Links::All;
        config.faults = vec![Fault::Loss { links, rate }];
    }
    // Twice 4.096 us, and more than that for each time.
    let (mut simulation, near, far) = two(config, kind, 4);
    let to = far.memory();
    for request in 0..ROUNDS {
        far.receive(request);
    }
    let ended = Arc::new(Mutex::new(0));
    let told = Arc::clone(&ended);
    simulation.spawn(0, move |process| {
        for round in 1..=ROUNDS {
            if kind == QueuePairType::Rc {
                near.post(SendOpcode::AtomicFetchAndAdd, 0, 8, to, round);
            }
            near.post(SendOpcode::Send, 0, 64, (0, 0), 0);
        }
        let sends = if kind == QueuePairType::Rc { 2 } else { 1 };
        for _ in 0..ROUNDS * sends {
            let done = near.done();
            assert_eq!(done.status, CompletionStatus::Success, "{done:?}");
            *told.lock().unwrap() += 1;
        }
        process.sleep(Duration::from_millis(1));
    });
    let outcome = simulation.run().unwrap();
    let mut received = Vec::new();
    let mut one = [Completion::default()];
    while far.queue.poll(&mut one).unwrap() == 1 {
        assert_eq!(one[0].status, CompletionStatus::Success);
        received.push(one[0].request);
    }
    assert!(received.is_sorted(), "receives complete in order");
    let sum = u64::from_ne_bytes(far.buffer.read(0, 8).try_into().unwrap());
    let ended = *ended.lock().unwrap();
    let again = outcome.counts.retransmissions;
    (sum, ended, received.len(), outcome.end, again)
}

#[test]
fn a_reliable_queue_pair_carries_out_each_request_once_though_links_lose() {
    let (sum, ended, received, _, again) = under_loss(0.0, QueuePairType::Rc);
    assert_eq!((sum, ended, received, again), (20_100, 400, 200, 0));
    // What is lost is requests, acknowledgements, and what atomics have found.
    let lossy = under_loss(0.02, QueuePairType::Rc);
    let (sum, ended, received, _, again) = lossy;
    assert_eq!((sum, ended, received), (20_100, 400, 200));
    assert!(again > 5, "{again} times");
    assert_eq!(lossy, under_loss(0.02, QueuePairType::Rc), "it repeats");
}

/// Registering the memory of an [`End`] keeps its host busy for 79 us.
const READY: Duration = Duration::from_micros(200);

/// Carries `count` writes of so many bytes, posted from [`READY`] on, while links are down from
/// before to some time behind that. What was counted, and how long it took; of what it hears
/// nothing of for 65.536 us (4.096 us times 2^4) a queue pair sends all again.
fn through_an_outage(links: Links, until_us: u64, count: u64, bytes: u32) -> (Counts, Time) {
    let ready = Time::from_picoseconds(READY.as_nanos() as u64 * 1000);
    let mut config = hosts("rnic-gen4");
    config.faults = vec![Fault::LinkDown {
        links,
        from: Time::ZERO,
        until: Some(ready + Time::from_microseconds(until_us)),
    }];
    let (mut simulation, near, far) = two(config, QueuePairType::Rc, 4);
    let to = far.memory();
    simulation.spawn(0, move |process| {
        process.sleep(READY - process.now());
        for _ in 0..count {
            near.post(SendOpcode::RdmaWrite, 0, bytes, to, 0);
        }
        for _ in 0..count {
            assert_eq!(near.done().status, CompletionStatus::Success);
        }
    });
    let outcome = simulation.run().unwrap();
    (outcome.counts, outcome.end - ready)
}

/// `check_psn` in `drivers/infiniband/sw/rxe/rxe_resp.c`.
///
/// At 200 Gbit/s 64 KiB move for 2.6 us. The first write begins to move before 2 us, when the link
/// is down, and the second not before 2.6 us, when it is up again: so the first alone is lost, and
/// the second shows it. Ten writes move in 27 us, and ten more in 54, which is less than the
/// timeout.
#[test]
fn a_later_request_shows_what_is_missing() {
    let (counts, took) = through_an_outage(Links::All, 2, 10, 65_536);
    assert_eq!((counts.lost, counts.retransmissions), (1, 1));
    assert!(took < Time::from_microseconds(60), "{took:?}");
}

/// Posting takes 40 ns, so that a thousand writes have gone at 45 us, and arrived. All their
/// acknowledgements are lost, and all writes begin again when the timeout is over, one each 10 ns.
/// The first of them is acknowledged with all the others, and what has not begun again by then does
/// not: fetching takes 0.7 us, the adapters 0.6 us each way, and all else less, so that a round
/// trip ends before 3 us, in which 300 begin.
#[test]
fn a_late_acknowledgement_spares_what_was_to_go_again() {
    const WRITES: u64 = 1000;
    let back = Links::OneWay(Node::Host(HostId(1)), Node::Switch(SwitchId(0)));
    let (counts, took) = through_an_outage(back, 60, WRITES, 64);
    assert_eq!((counts.lost, counts.retransmissions), (WRITES, 1));
    assert!(took > Time::from_microseconds(65), "{took:?}");
    let again = counts.messages - WRITES;
    assert!((1..=300).contains(&again), "{again} went again");
}

#[test]
fn what_an_unreliable_queue_pair_loses_is_complete_and_gone() {
    let (_, ended, received, _, again) = under_loss(0.05, QueuePairType::Uc);
    assert_eq!((ended, again), (200, 0));
    assert!((150..200).contains(&received), "{received} of 200");
}

#[test]
fn a_dead_host_exceeds_the_retries_when_they_are_over() {
    let (mut simulation, near, far) = two(hosts("rnic-gen5"), QueuePairType::Rc, 10);
    let to = far.memory();
    simulation.spawn(1, |process| process.die());
    simulation.spawn(0, move |process| {
        process.sleep(Duration::from_micros(10));
        let begin = process.now();
        near.post(SendOpcode::RdmaWrite, 0, 8, to, 0);
        assert_eq!(near.done().status, CompletionStatus::RetryExceededError);
        // Once, and seven times more: 4.096 us times 2^10 each.
        let waited = (process.now() - begin).as_secs_f64() * 1e3;
        assert!((33.5..33.7).contains(&waited), "{waited} ms");
        assert_eq!(near.pair.state().unwrap(), QueuePairState::Error);
    });
    simulation.run().unwrap();
}

#[test]
fn an_asynchronous_program_awaits_completions_as_long_as_a_blocking_one() {
    let mut ends = Vec::new();
    for is_asynchronous in [false, true] {
        let (mut simulation, near, far) = two(hosts("rnic-gen5"), QueuePairType::Rc, 14);
        let to = far.memory();
        let end = Arc::new(Mutex::new(None));
        let told = Arc::clone(&end);
        if is_asynchronous {
            simulation.spawn_async(0, |process| async move {
                near.post(SendOpcode::RdmaRead, 0, 4096, to, 0);
                let done = near.queue.completed().await.unwrap();
                assert_eq!(done.byte_length, 4096);
                *told.lock().unwrap() = Some(process.time());
            });
        } else {
            simulation.spawn(0, move |process| {
                near.post(SendOpcode::RdmaRead, 0, 4096, to, 0);
                assert_eq!(near.done().byte_length, 4096);
                *told.lock().unwrap() = Some(process.time());
            });
        }
        simulation.run().unwrap();
        ends.push(end.lock().unwrap().unwrap());
    }
    assert_eq!(ends[0], ends[1]);
}

#[test]
fn many_sends_at_once_are_limited_by_the_link() {
    let (mut simulation, near, far) = two(hosts("rnic-gen5"), QueuePairType::Rc, 14);
    let to = far.memory();
    simulation.spawn(0, move |process| {
        let begin = process.now();
        for _ in 0..100 {
            near.post(SendOpcode::RdmaWrite, 0, 65_536, to, 0);
        }
        for _ in 0..100 {
            near.done();
        }
        let seconds = (process.now() - begin).as_secs_f64();
        let gigabits = 100.0 * 65_536.0 * 8.0 / seconds / 1e9;
        assert!((330.0..400.0).contains(&gigabits), "{gigabits} Gbit/s");
    });
    simulation.run().unwrap();
}

/// `ibv_destroy_srq(3)`, `ibv_get_async_event(3)`.
#[test]
fn whoever_destroys_sleeps_until_events_are_acknowledged() {
    const LATER: Duration = Duration::from_millis(1);
    let mut simulation = Simulation::new(hosts("rnic-gen5"));
    let context = simulation.process(0).rdma().unwrap().open().unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let attributes = SharedReceiveAttributes {
        max_requests: 4,
        max_elements: 1,
        limit: 1,
    };
    let shared = domain.create_shared_receive_queue(&attributes, 3).unwrap();
    shared.modify(&attributes, shared_receive::LIMIT).unwrap();
    assert!(context.try_next_async_event().is_ok());
    // Nobody but a program can wait.
    assert_eq!(shared.destroy().unwrap_err().errno(), errno::EAGAIN);
    let held = shared.clone();
    simulation.spawn(0, move |process| {
        process.sleep(LATER);
        held.acknowledge_async_events(1);
    });
    let gone = Arc::new(Mutex::new(None));
    let place = Arc::clone(&gone);
    simulation.spawn(0, move |process| {
        shared.destroy().unwrap();
        *place.lock().unwrap() = Some(process.now());
    });
    simulation.run().unwrap();
    let gone = gone.lock().unwrap().unwrap();
    assert!(gone > LATER && gone < 2 * LATER, "{gone:?}");
}

#[test]
fn only_rdma_adapters_have_queue_pairs() {
    for model in ["clan", "giganet-clan", "ideal"] {
        let Ok(config) = load_programs(model, None, 2) else {
            continue;
        };
        let refused = Simulation::new(config).process(0).rdma().unwrap_err();
        assert!(refused.reason().contains("no queue pairs"), "{refused}");
    }
}

#[test]
fn what_perftest_measures_is_as_the_model_says() {
    use viaduct_programs::verbs::measure::{Operation, bandwidth, latency};

    let spans = |operation, bytes| {
        let mut simulation = Simulation::new(hosts("rnic-gen5"));
        let spans = latency(&mut simulation, operation, bytes, 20).unwrap();
        assert_eq!(spans.len(), 20);
        spans[19]
    };
    for operation in [Operation::Send, Operation::Write] {
        let (short, long) = (spans(operation, 8), spans(operation, 4096));
        assert!(short < long);
        assert!((0.5..2.0).contains(&short.microseconds_f64()), "{short:?}");
    }
    // A write completes nothing at its target; one more byte than goes inline is fetched.
    assert!(spans(Operation::Write, 8) < spans(Operation::Send, 8));
    let (inline, fetched) = (spans(Operation::Write, 220), spans(Operation::Write, 221));
    assert!((fetched - inline).microseconds_f64() > 0.4);
    // A read is a round trip.
    assert!(spans(Operation::Read, 8) > spans(Operation::Write, 8));
    for operation in [Operation::Send, Operation::Write, Operation::Read] {
        let mut simulation = Simulation::new(hosts("rnic-gen5"));
        let span = bandwidth(&mut simulation, operation, 65_536, 1000).unwrap();
        let gigabits = 1000.0 * 65_536.0 * 8.0 / span.microseconds_f64() / 1e3;
        assert!(
            (330.0..400.0).contains(&gigabits),
            "{operation:?}: {gigabits} Gbit/s"
        );
    }
    let mut simulation = Simulation::new(hosts("clan"));
    assert!(latency(&mut simulation, Operation::Send, 8, 1).is_err());
}
