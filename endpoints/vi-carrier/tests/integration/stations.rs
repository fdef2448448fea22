//! Stations of one process, over the fabric of threads: what is promised of messages.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::*;
use viaduct_am::{
    Body, Bundle, EventMask, Key, MTU_BYTES, Name, Reason, SharedEndpoint, WaitError,
};
use viaduct_threads::InProcess;
use viaduct_vi_carrier::{Identity, Options, Policy, Station};

type Fabric = Arc<InProcess>;

fn station(fabric: &Fabric, number: u128, options: Options) -> Station<InProcess> {
    let identity = Identity::new(number);
    Station::start(Arc::clone(fabric), "inproc0", identity, options).unwrap()
}

fn pair() -> (Station<InProcess>, Station<InProcess>) {
    let fabric = Arc::new(InProcess::new());
    let open = |number| station(&fabric, number, Options::default());
    (open(1), open(2))
}

fn joined() -> (End<InProcess>, End<InProcess>) {
    let (here, there) = pair();
    let (mut one, mut other) = (endpoint(&here), endpoint(&there));
    one.map(0, &other.name(), KEY).unwrap();
    other.map(0, &one.name(), KEY).unwrap();
    (one, other)
}

#[test]
fn words_and_bodies_arrive_and_come_back() {
    let (mut one, mut other) = joined();
    let bytes: Vec<u8> = (0..MTU_BYTES).map(|index| (index * 7) as u8).collect();
    one.request(0, MIRROR, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    one.request_with(0, MIRROR, &[2], Body::Medium(&bytes))
        .unwrap();
    one.request_with(0, MIRROR, &[3], Body::Medium(&[]))
        .unwrap();
    let bulk = Body::Bulk {
        offset: 5000,
        bytes: &bytes,
    };
    one.request_with(0, MIRROR, &[4], bulk).unwrap();
    poll_until(&mut [&mut one, &mut other], |ends| {
        ends[0].state().replies.len() == 4
    });
    assert_eq!(other.state().requests, [1, 2, 3, 4]);
    assert_eq!(one.state().replies, [1, 2, 3, 4]);
    assert_eq!(one.state().payload_sum, 2 * sum(&bytes));
    for end in [&one, &other] {
        assert_eq!(end.segment()[5000..5000 + MTU_BYTES], bytes);
        assert_eq!(end.segment()[..5000], [0; 5000]);
        assert_eq!(end.credits(), 32);
    }
}

#[test]
fn what_cannot_be_delivered_comes_back_with_the_reason() {
    let (here, there) = pair();
    let (mut one, mut other) = (endpoint(&here), endpoint(&there));
    let freed = endpoint(&there);
    one.map(0, &other.name(), Key(1)).unwrap();
    one.map(1, &freed.name(), KEY).unwrap();
    one.map(2, &other.name(), KEY).unwrap();
    let mut bytes = other.name().to_bytes();
    bytes[24] = 200;
    one.map(3, &Name::from_bytes(bytes), KEY).unwrap();
    // A life of the endpoint that is to come.
    let mut bytes = other.name().to_bytes();
    bytes[28] = 2;
    one.map(4, &Name::from_bytes(bytes), KEY).unwrap();
    drop(freed);
    // Its index lives again; the old name does not reach it.
    let mut next = endpoint(&there);
    one.request(0, ECHO, &[10]).unwrap();
    one.request_with(1, ECHO, &[11], Body::Medium(&[1, 2]))
        .unwrap();
    one.request(2, NOBODY, &[12]).unwrap();
    let body = Body::Bulk {
        offset: 16 * 1024 - 1,
        bytes: &[3, 4],
    };
    one.request_with(2, ECHO, &[13], body).unwrap();
    one.request(3, ECHO, &[14]).unwrap();
    one.request(4, ECHO, &[15]).unwrap();
    poll_until(&mut [&mut one, &mut other, &mut next], |ends| {
        ends[0].outstanding() == 0
    });
    let expected = [
        (Some(10), Reason::WrongKey),
        (Some(11), Reason::EndpointFreed),
        (Some(12), Reason::NoSuchHandler),
        (Some(13), Reason::OutsideSegment),
        (Some(14), Reason::NoSuchEndpoint),
        (Some(15), Reason::NoSuchEndpoint),
    ];
    assert_eq!(one.state().returned, expected);
    assert_eq!(one.state().payload_sum, 10);
    assert!(other.state().requests.is_empty() && next.state().requests.is_empty());
    assert_eq!(there.statistics().refused, 6);
}

#[test]
fn requests_that_wait_in_a_freed_endpoint_come_back() {
    let (mut one, other) = joined();
    for word in 0..5 {
        one.request_with(0, ECHO, &[word], Body::Medium(&[1]))
            .unwrap();
    }
    // They stand in its queue: another endpoint of that process has polled.
    let station = other.carrier().clone();
    let mut beside = endpoint(&station);
    beside.map(0, &beside.name(), KEY).unwrap();
    poll_until(&mut [&mut beside], |_| {
        other.events().intersects(EventMask::MESSAGE)
    });
    (0..100).for_each(|_| _ = beside.poll());
    drop(other);
    poll_until(&mut [&mut one, &mut beside], |ends| {
        ends[0].outstanding() == 0
    });
    let back = |word| (Some(word), Reason::EndpointFreed);
    assert_eq!(one.state().returned, (0..5).map(back).collect::<Vec<_>>());
    assert_eq!(one.state().payload_sum, 5);
}

#[test]
fn a_reply_to_a_freed_endpoint_harms_nobody() {
    let (mut one, mut other) = joined();
    one.request(0, ECHO, &[1]).unwrap();
    let station = one.carrier().clone();
    drop(one);
    let mut next = endpoint(&station);
    poll_until(&mut [&mut next, &mut other], |_| {
        station.statistics().strays == 1
    });
    assert!(next.state().replies.is_empty());
}

/// Three senders have more requests outstanding than the queue has entries.
#[test]
fn a_full_queue_delays_and_loses_nothing() {
    let fabric = Arc::new(InProcess::new());
    let stations: Vec<_> = (1..=4)
        .map(|number| station(&fabric, number, Options::default()))
        .collect();
    let mut server = endpoint(&stations[3]);
    let mut clients: Vec<_> = stations[..3].iter().map(endpoint).collect();
    const COUNT: u64 = 200;
    let mut sent = [0; 3];
    for client in &mut clients {
        client.map(0, &server.name(), KEY).unwrap();
    }
    for round in 0..1_000_000 {
        for (client, sent) in clients.iter_mut().zip(&mut sent) {
            while *sent < COUNT && client.try_request(0, ECHO, &[*sent], Body::Short).is_ok() {
                *sent += 1;
            }
            client.poll();
        }
        // Slower than they are.
        if round % 7 == 0 {
            server.poll_at_most(3);
        }
        let is_done = |end: &End<InProcess>| end.state().replies.len() as u64 == COUNT;
        if clients.iter().all(is_done) {
            break;
        }
    }
    assert_eq!(server.state().requests.len() as u64, 3 * COUNT);
    for client in &clients {
        // None twice; no order is promised among those that found it full.
        let mut replies = client.state().replies.clone();
        replies.sort_unstable();
        assert_eq!(replies, (0..COUNT).collect::<Vec<_>>());
        assert!(client.state().returned.is_empty());
    }
    assert!(stations[3].statistics().found_full > 0);
}

/// Each process talks to each other one over two frames: connections come and go all the time.
fn more_processes_than_frames(policy: Policy) {
    const PROCESSES: usize = 6;
    const REQUESTS: u64 = 60;
    let fabric = Arc::new(InProcess::new());
    let options = Options {
        frames: 2,
        policy,
        ..Options::default()
    };
    let stations: Vec<_> = (0..PROCESSES)
        .map(|number| station(&fabric, number as u128 + 1, options))
        .collect();
    let ends: Vec<_> = stations.iter().map(endpoint).collect();
    let names: Vec<_> = ends.iter().map(|end| end.name()).collect();
    let done = std::sync::atomic::AtomicUsize::new(0);
    thread::scope(|scope| {
        for (mut end, own) in ends.into_iter().zip(0..) {
            let (names, done) = (&names, &done);
            scope.spawn(move || {
                for (index, name) in names.iter().enumerate() {
                    end.map(index, name, KEY).unwrap();
                }
                let mut draws = Draws(own as u64);
                for word in 0..REQUESTS {
                    let target = draws.next(PROCESSES as u64) as usize;
                    let body = [0_u8; 300];
                    let body = match draws.next(2) {
                        0 => Body::Short,
                        _ => Body::Medium(&body),
                    };
                    end.request_with(target, MIRROR, &[word], body).unwrap();
                    end.poll();
                }
                let mut is_counted = false;
                while done.load(std::sync::atomic::Ordering::Acquire) < PROCESSES {
                    end.poll();
                    if end.outstanding() == 0 && !is_counted {
                        is_counted = true;
                        done.fetch_add(1, std::sync::atomic::Ordering::Release);
                    }
                    let _ = end.wait(EventMask::MESSAGE, Some(Duration::from_micros(200)));
                }
                let mut replies = end.state().replies.clone();
                replies.sort_unstable();
                assert_eq!(end.state().returned, [], "{policy:?}");
                assert_eq!(replies, (0..REQUESTS).collect::<Vec<_>>(), "{policy:?}");
            });
        }
    });
    let evictions: u64 = stations
        .iter()
        .map(|each| each.statistics().evictions)
        .sum();
    assert!(evictions > 0, "{policy:?}");
    for station in &stations {
        let statistics = station.statistics();
        assert_eq!(statistics.connections_lost, 0, "{policy:?}: {statistics:?}");
        assert!(statistics.connections <= 4, "{policy:?}: {statistics:?}");
    }
}

#[test]
fn more_processes_than_frames_random() {
    more_processes_than_frames(Policy::Random);
}

#[test]
fn more_processes_than_frames_least_recently_used() {
    more_processes_than_frames(Policy::LeastRecentlyUsed);
}

#[test]
fn more_processes_than_frames_clock() {
    more_processes_than_frames(Policy::Clock);
}

/// Both send their first message at the same moment, many times.
#[test]
fn both_ends_connecting_at_once_is_one_connection() {
    for round in 0..30 {
        let (mut one, mut other) = joined();
        let barrier = std::sync::Barrier::new(2);
        let run = |end: &mut End<InProcess>| {
            barrier.wait();
            end.request(0, ECHO, &[round]).unwrap();
            while end.state().replies.is_empty() || end.state().requests.is_empty() {
                assert!(end.state().returned.is_empty(), "{:?}", end.state());
                let _ = end.wait(EventMask::MESSAGE, Some(Duration::from_millis(1)));
                end.poll();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| run(&mut one));
            run(&mut other);
        });
        for end in [&one, &other] {
            assert_eq!(end.state().requests, [round]);
            assert_eq!(end.state().replies, [round]);
            assert_eq!(end.carrier().statistics().connections, 1, "round {round}");
        }
    }
}

#[test]
fn a_station_that_closed_is_a_process_that_died() {
    let (mut one, other) = joined();
    let mut third = endpoint(&one.carrier().clone());
    third.map(0, &other.name(), KEY).unwrap();
    one.request(0, ECHO, &[1]).unwrap();
    drop(other);
    poll_until(&mut [&mut one], |ends| ends[0].outstanding() == 0);
    // It freed its endpoint first, and took leave.
    assert_eq!(one.state().returned, [(Some(1), Reason::EndpointFreed)]);
    // What is sent after it is known finds nobody.
    let station = one.carrier().clone();
    poll_until(&mut [&mut one], |_| station.statistics().connections == 0);
    third.request(0, ECHO, &[2]).unwrap();
    poll_until(&mut [&mut third], |ends| ends[0].outstanding() == 0);
    assert_eq!(third.state().returned, [(Some(2), Reason::ProcessDied)]);
}

#[test]
fn endpoints_of_one_process_need_no_connection() {
    let (here, _there) = pair();
    let (mut one, mut other) = (endpoint(&here), endpoint(&here));
    one.map(0, &other.name(), KEY).unwrap();
    one.map(1, &one.name(), KEY).unwrap();
    one.map(2, &other.name(), Key(0)).unwrap();
    let body = Body::Bulk {
        offset: 9,
        bytes: &[1, 2, 3],
    };
    one.request_with(0, MIRROR, &[1], body).unwrap();
    one.request(1, ECHO, &[2]).unwrap();
    one.request(2, ECHO, &[3]).unwrap();
    poll_until(&mut [&mut one, &mut other], |ends| {
        ends[0].outstanding() == 0
    });
    assert_eq!(other.segment()[9..12], [1, 2, 3]);
    assert_eq!(one.segment()[9..12], [1, 2, 3]);
    assert_eq!(one.state().requests, [2]);
    assert_eq!(one.state().returned, [(Some(3), Reason::WrongKey)]);
    assert_eq!(here.statistics().connections_made, 0);
}

#[test]
fn a_waiting_thread_wakes_for_what_it_waits_for() {
    let (mut one, mut other) = joined();
    let limit = Some(Duration::from_millis(1));
    assert_eq!(
        one.wait(EventMask::MESSAGE, limit),
        Err(WaitError::TimedOut)
    );
    assert_eq!(one.wait(EventMask::ALL, None), Ok(EventMask::SPACE));
    thread::scope(|scope| {
        scope.spawn(|| {
            other.wait(EventMask::MESSAGE, None).unwrap();
            assert_eq!(other.poll(), 1);
        });
        one.request(0, ECHO, &[1]).unwrap();
        one.wait(EventMask::MESSAGE, None).unwrap();
        assert_eq!(one.poll(), 1);
        one.map(1, &one.name(), Key(0)).unwrap();
        one.request(1, ECHO, &[2]).unwrap();
        assert_eq!(one.wait(EventMask::RETURNED, None), Ok(EventMask::RETURNED));
    });
}

/// A thread an endpoint, all in one process: one of them at a time looks after the others.
#[test]
fn threads_of_one_process_wait_side_by_side() {
    let (here, there) = pair();
    thread::scope(|scope| {
        for _ in 0..5 {
            let (mut server, mut client) = (endpoint(&there), endpoint(&here));
            client.map(0, &server.name(), KEY).unwrap();
            scope.spawn(move || {
                while server.state().requests.len() < 50 {
                    server.wait(EventMask::MESSAGE, None).unwrap();
                    server.poll();
                }
                // The last reply is on its way.
                server.carrier().flush(Duration::from_millis(100));
            });
            scope.spawn(move || {
                for word in 0..50 {
                    client.request(0, ECHO, &[word]).unwrap();
                    client.wait(EventMask::MESSAGE, None).unwrap();
                    client.poll();
                }
                assert_eq!(client.state().replies.len(), 50);
            });
        }
    });
}

#[test]
fn a_shared_endpoint_serves_several_threads() {
    let (here, there) = pair();
    let mut client = endpoint(&here);
    let mut server = endpoint(&there);
    client.map(0, &server.name(), KEY).unwrap();
    let shared = SharedEndpoint::new(client);
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                let _ = server.wait(EventMask::MESSAGE, Some(Duration::from_millis(5)));
                server.poll();
            }
        });
        let senders: Vec<_> = (0..3)
            .map(|thread| {
                let shared = &shared;
                scope.spawn(move || {
                    for word in 0..100 {
                        let word = [thread * 100 + word];
                        shared.request_with(0, ECHO, &word, Body::Short).unwrap();
                    }
                })
            })
            .collect();
        for sender in senders {
            sender.join().unwrap();
        }
        while shared.with(|client| client.outstanding()) > 0 {
            shared.poll();
            let _ = shared.wait(EventMask::MESSAGE, Some(Duration::from_millis(1)));
        }
        done.store(true, std::sync::atomic::Ordering::Release);
    });
    let client = shared.into_exclusive();
    let mut replies = client.state().replies.clone();
    replies.sort_unstable();
    assert_eq!(replies, (0..300).collect::<Vec<_>>());
}

#[test]
fn members_of_a_bundle_are_served_in_turn() {
    let (here, there) = pair();
    let mut client = endpoint(&here);
    let mut bundle = Bundle::new(&there);
    for index in 0..100 {
        let member = endpoint(&there);
        client.map(index, &member.name(), KEY).unwrap();
        bundle.insert(member);
    }
    // The first has many, two others one each.
    for (index, count) in [(0, 10), (50, 1), (99, 1)] {
        (0..count).for_each(|word| client.request(index, SILENT, &[word]).unwrap());
    }
    let arrived = |bundle: &Bundle<_, Seen>| {
        let waits = |index: usize| {
            bundle
                .member(index)
                .is_some_and(|each| each.events().intersects(EventMask::MESSAGE))
        };
        waits(0) && waits(50) && waits(99)
    };
    let mut beside = endpoint(&there);
    for _ in 0..1_000_000 {
        beside.poll();
        client.poll();
        if arrived(&bundle) {
            break;
        }
    }
    bundle.wait(None).unwrap();
    assert_eq!(bundle.poll(3), 3);
    for index in [0, 50, 99] {
        assert_eq!(bundle.member(index).unwrap().state().requests, [0]);
    }
    assert_eq!(bundle.poll(100), 9);
}

#[test]
fn a_task_waits_without_a_thread() {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Wake, Waker};

    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(value) => return value,
                Poll::Pending => thread::park(),
            }
        }
    }

    let (mut one, mut other) = joined();
    thread::scope(|scope| {
        scope.spawn(|| {
            block_on(async {
                while other.state().requests.len() < 100 {
                    other.wait_async(EventMask::MESSAGE).await.unwrap();
                    other.poll();
                }
                other.carrier().flush(Duration::from_millis(100));
            })
        });
        block_on(async {
            for word in 0..100 {
                one.request_async(0, ECHO, &[word], Body::Short)
                    .await
                    .unwrap();
            }
            while one.state().replies.len() < 100 {
                one.wait_async(EventMask::MESSAGE).await.unwrap();
                one.poll();
            }
        });
    });
    assert_eq!(one.state().replies, (0..100).collect::<Vec<_>>());
}
