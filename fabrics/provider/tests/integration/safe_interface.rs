//! The safe interface over a fabric inside this process: what programs rely on.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use viaduct_provider::via::{Queue, Status, ViState};
use viaduct_provider::{
    Access, Buffer, CompletionError, Memory, Nic, RemoteBuffer, ReturnCode, Vi, ViBuilder, ViMap,
};
use viaduct_threads::InProcess;

const DEVICE: &str = "inproc0";
const SOON: Option<Duration> = Some(Duration::from_secs(20));

/// Two connected VIs of one NIC.
struct Pair {
    nic: Nic<InProcess>,
    client: Vi<InProcess>,
    server: Vi<InProcess>,
}

impl Pair {
    fn new() -> Self {
        Self::with(|builder| builder)
    }

    fn with(describe: impl Fn(ViBuilder<InProcess>) -> ViBuilder<InProcess>) -> Self {
        let nic = open();
        let mut server = describe(nic.vi()).build().unwrap();
        let mut client = describe(nic.vi()).build().unwrap();
        connect(&nic, &mut client, &mut server);
        Self {
            nic,
            client,
            server,
        }
    }

    fn buffer(&self, bytes: usize) -> Buffer {
        self.nic.buffer(bytes, Memory::Shared).unwrap()
    }
}

fn open() -> Nic<InProcess> {
    Nic::open(Arc::new(InProcess::new()), DEVICE).unwrap()
}

fn connect(nic: &Nic<InProcess>, client: &mut Vi<InProcess>, server: &mut Vi<InProcess>) {
    let listener = nic.listen(b"here");
    thread::scope(|scope| {
        scope.spawn(|| listener.accept(server, SOON).unwrap());
        loop {
            match client.connect(listener.address(), SOON) {
                Ok(_) => break,
                Err(error) => assert_eq!(error.code(), ReturnCode::NoMatch, "{error}"),
            }
            thread::yield_now();
        }
    });
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Count {
    /// Some fabrics call handlers from a thread of their own.
    fn wait(&self) {
        while self.0.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
    }
}

#[test]
fn a_buffer_comes_back_with_its_message() {
    let mut pair = Pair::new();
    let receive = pair.buffer(100);
    let address = receive.as_ptr();
    pair.server.post_receive(receive).unwrap();
    let mut message = pair.buffer(64);
    message[..5].copy_from_slice(b"hello");
    pair.client.post_send_immediate(message, 5, 7).unwrap();

    let received = pair.server.receive(SOON).unwrap();
    assert_eq!(received.data(), b"hello");
    assert_eq!((received.length, received.immediate), (5, Some(7)));
    assert_eq!(received.status.bits(), 0x0009_0001);
    assert_eq!(
        (received.buffer.as_ptr(), received.buffer.len()),
        (address, 100)
    );
    let sent = pair.client.sent(SOON).unwrap();
    assert_eq!((sent.buffer.len(), sent.length), (64, 5));
}

#[test]
fn a_ring_of_odd_depth_runs_over_in_order() {
    let mut pair = Pair::with(|builder| builder.send_depth(3).receive_depth(3));
    let mut buffers = pair.nic.buffers(3, 8, Memory::Private).unwrap();
    for buffer in pair.nic.buffers(3, 8, Memory::Shared).unwrap() {
        pair.server.post_receive(buffer).unwrap();
    }
    for round in 0..1000_u64 {
        let mut buffer = buffers.pop().unwrap();
        buffer.copy_from_slice(&round.to_le_bytes());
        pair.client.post_send(buffer, 8).unwrap();
        buffers.push(pair.client.sent(SOON).unwrap().buffer);
        let received = pair.server.receive(SOON).unwrap();
        assert_eq!(received.data(), round.to_le_bytes());
        pair.server.post_receive(received.buffer).unwrap();
    }
}

#[test]
fn a_full_queue_and_a_short_buffer_give_the_buffer_back() {
    let mut pair = Pair::with(|builder| builder.receive_depth(3));
    for _ in 0..3 {
        let buffer = pair.buffer(8);
        pair.server.post_receive(buffer).unwrap();
    }
    let refused = pair.server.post_receive(pair.buffer(9)).unwrap_err();
    assert_eq!(refused.error.code(), ReturnCode::Resource);
    assert_eq!(refused.buffer.len(), 9);
    let refused = pair.client.post_send(pair.buffer(8), 9).unwrap_err();
    assert_eq!(refused.error.code(), ReturnCode::InvalidParameter);
    assert!(refused.to_string().contains("9 bytes"), "{refused}");
    // The queue is as before.
    pair.client.post_send(refused.buffer, 8).unwrap();
    assert_eq!(pair.server.receive(SOON).unwrap().length, 8);
}

#[test]
fn a_message_of_no_bytes_needs_no_buffer() {
    let mut pair = Pair::new();
    pair.server.post_receive(Buffer::empty()).unwrap();
    pair.client
        .post_send_immediate(Buffer::empty(), 0, 99)
        .unwrap();
    let received = pair.server.receive(SOON).unwrap();
    assert_eq!((received.length, received.immediate), (0, Some(99)));
    assert!(received.data().is_empty());
}

#[test]
fn looking_at_queues_with_nothing_to_take() {
    let mut pair = Pair::new();
    let nothing = pair.server.try_receive().unwrap_err();
    assert!(
        matches!(nothing, CompletionError::NothingPosted),
        "{nothing}"
    );
    pair.server
        .post_receive(pair.nic.buffer(8, Memory::Shared).unwrap())
        .unwrap();
    assert!(pair.server.try_receive().unwrap().is_none());
    let timeout = pair
        .server
        .receive(Some(Duration::from_millis(5)))
        .unwrap_err();
    let CompletionError::Fabric(error) = timeout else {
        panic!("{timeout}");
    };
    assert_eq!(error.code(), ReturnCode::Timeout);
}

#[test]
fn a_peer_that_leaves_flushes_what_is_posted() {
    let Pair {
        nic,
        client,
        mut server,
    } = Pair::new();
    server
        .post_receive(nic.buffer(8, Memory::Shared).unwrap())
        .unwrap();
    server
        .post_receive(nic.buffer(9, Memory::Shared).unwrap())
        .unwrap();
    drop(client);
    for length in [8, 9] {
        let error = server.receive(SOON).unwrap_err();
        assert!(error.is_flushed(), "{error}");
        let CompletionError::Failed { buffer, .. } = error else {
            unreachable!("flushed descriptors have buffers");
        };
        assert_eq!(buffer.len(), length);
    }
    assert_eq!(server.query().unwrap().state, ViState::Error);
    server.disconnect().unwrap();
    assert_eq!(server.query().unwrap().state, ViState::Idle);
    let mut again = nic.vi().build().unwrap();
    connect(&nic, &mut again, &mut server);
}

#[test]
fn a_message_that_is_too_long_fails_with_the_buffer() {
    let mut pair = Pair::new();
    pair.server
        .post_receive(pair.nic.buffer(8, Memory::Shared).unwrap())
        .unwrap();
    pair.client
        .post_send(pair.nic.buffer(9, Memory::Shared).unwrap(), 9)
        .unwrap();
    let error = pair.server.receive(SOON).unwrap_err();
    assert!(
        error.status().unwrap().contains(Status::LENGTH_ERROR),
        "{error}"
    );
    assert!(error.to_string().contains("length"), "{error}");
}

#[test]
fn windows_are_written_and_read_from_afar() {
    let mut pair = Pair::with(|builder| builder.rdma_write(true).rdma_read(true));
    let window = pair
        .nic
        .window(1000, Access::ReadWrite, Memory::Shared)
        .unwrap();
    // As it would travel in a message.
    let remote = RemoteBuffer::from_bytes(&window.remote().to_bytes()).unwrap();

    let mut data = pair.buffer(300);
    for (index, byte) in data.iter_mut().enumerate() {
        *byte = index as u8;
    }
    pair.server.post_receive(Buffer::empty()).unwrap();
    let target = remote.part(501, 300).unwrap();
    pair.client
        .post_write_immediate(data, 300, target, 42)
        .unwrap();
    let told = pair.server.receive(SOON).unwrap();
    assert!(told.is_remote_write());
    assert_eq!((told.length, told.immediate), (300, Some(42)));
    assert!(told.data().is_empty());
    let mut copy = vec![0; 302];
    window.read(500, &mut copy);
    assert_eq!((copy[0], copy[301]), (0, 0));
    assert!(
        copy[1..301]
            .iter()
            .enumerate()
            .all(|(index, byte)| *byte == index as u8)
    );
    assert_eq!(
        window.load_u64(504),
        u64::from_le_bytes([3, 4, 5, 6, 7, 8, 9, 10])
    );
    assert_eq!(window.load_u32(504), u32::from_le_bytes([3, 4, 5, 6]));

    window.write(7, &[5; 21]);
    let sent = pair.client.sent(SOON).unwrap();
    pair.client
        .post_read(sent.buffer, 21, remote.part(7, 21).unwrap())
        .unwrap();
    assert_eq!(pair.client.sent(SOON).unwrap().buffer[..21], [5; 21]);
}

#[test]
#[should_panic(expected = "not inside a window of 16 bytes")]
fn a_window_is_not_left() {
    let window = open().window(16, Access::Write, Memory::Private).unwrap();
    window.read(usize::MAX, &mut [0; 2]);
}

#[test]
fn a_dropped_window_refuses_writes() {
    let mut pair = Pair::with(|builder| builder.rdma_write(true));
    let window = pair.nic.window(64, Access::Write, Memory::Shared).unwrap();
    let remote = window.remote();
    drop(window);
    pair.server.post_receive(Buffer::empty()).unwrap();
    let data = pair.buffer(8);
    pair.client.post_write(data, 8, remote).unwrap();
    // At this level the connection breaks; who is told how depends on when.
    assert!(pair.server.receive(SOON).is_err());
}

#[test]
fn completions_of_many_vis_come_through_one_queue() {
    const CLIENTS: u32 = 5;

    let nic = open();
    let mut queue = nic.completion_queue(64).unwrap();
    let mut servers = ViMap::default();
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let builder = nic
            .vi()
            .send_completions(&queue)
            .receive_completions(&queue);
        let mut server = builder.build().unwrap();
        let mut client = nic.vi().build().unwrap();
        server
            .post_receive(nic.buffer(4, Memory::Shared).unwrap())
            .unwrap();
        client
            .post_receive(nic.buffer(4, Memory::Shared).unwrap())
            .unwrap();
        connect(&nic, &mut client, &mut server);
        let mut request = nic.buffer(4, Memory::Shared).unwrap();
        request.copy_from_slice(&number.to_le_bytes());
        client.post_send(request, 4).unwrap();
        servers.insert(server.handle(), server);
        clients.push(client);
    }
    // A request and a sent answer of each.
    for _ in 0..2 * CLIENTS {
        let entry = queue.wait(SOON).unwrap();
        let server = servers.get_mut(&entry.vi).unwrap();
        match entry.queue {
            Queue::Receive => {
                let received = server.try_receive().unwrap().unwrap();
                server.post_send(received.buffer, 4).unwrap();
            }
            Queue::Send => drop(server.try_sent().unwrap().unwrap()),
        }
    }
    assert!(queue.try_next().unwrap().is_none());
    for (number, client) in (0..CLIENTS).zip(&mut clients) {
        assert_eq!(client.receive(SOON).unwrap().data(), number.to_le_bytes());
    }
    // The queue may go before its VIs.
    drop(queue);
    drop(servers);
}

#[test]
fn a_future_is_woken_by_its_message() {
    let mut pair = Pair::new();
    pair.server
        .post_receive(pair.nic.buffer(8, Memory::Shared).unwrap())
        .unwrap();
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    {
        let mut future = pin!(pair.server.receive_async());
        assert!(future.as_mut().poll(&mut context).is_pending());
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        pair.client
            .post_send(pair.nic.buffer(8, Memory::Shared).unwrap(), 8)
            .unwrap();
        count.wait();
        let Poll::Ready(received) = future.as_mut().poll(&mut context) else {
            panic!("woken for nothing");
        };
        assert_eq!(received.unwrap().length, 8);
    }
    // A completion that is there already needs no waiting.
    let mut future = pin!(pair.client.sent_async());
    let Poll::Ready(sent) = future.as_mut().poll(&mut context) else {
        panic!("the send had completed");
    };
    assert_eq!(sent.unwrap().length, 8);
}

#[test]
fn a_dropped_future_loses_no_message() {
    let mut pair = Pair::new();
    let mut context = Context::from_waker(Waker::noop());
    for way in 0..3 {
        pair.server
            .post_receive(pair.nic.buffer(8, Memory::Shared).unwrap())
            .unwrap();
        assert!(
            pin!(pair.server.receive_async())
                .poll(&mut context)
                .is_pending()
        );
        let timeout = pair
            .server
            .receive(Some(Duration::from_millis(1)))
            .unwrap_err();
        assert!(timeout.to_string().contains("time"), "{timeout}");
        let mut message = pair.buffer(8);
        message.fill(way);
        pair.client.post_send(message, 8).unwrap();
        let received = match way {
            0 => pair.server.receive(SOON).unwrap(),
            1 => loop {
                if let Some(received) = pair.server.try_receive().unwrap() {
                    break received;
                }
            },
            _ => loop {
                if let Poll::Ready(received) = pair.server.poll_receive(&context) {
                    break received.unwrap();
                }
            },
        };
        assert_eq!(received.data(), [way; 8]);
    }
    // Nothing posted is said, not waited for.
    let mut future = pin!(pair.server.receive_async());
    let Poll::Ready(Err(error)) = future.as_mut().poll(&mut context) else {
        panic!("there is nothing to wait for");
    };
    assert!(matches!(error, CompletionError::NothingPosted), "{error}");
}

#[test]
fn a_completion_queue_wakes_a_future() {
    let nic = open();
    let mut queue = nic.completion_queue(8).unwrap();
    let mut server = nic.vi().receive_completions(&queue).build().unwrap();
    let mut client = nic.vi().build().unwrap();
    server.post_receive(Buffer::empty()).unwrap();
    connect(&nic, &mut client, &mut server);
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(queue.next_async());
    assert!(future.as_mut().poll(&mut context).is_pending());
    client.post_send(Buffer::empty(), 0).unwrap();
    count.wait();
    let Poll::Ready(entry) = future.as_mut().poll(&mut context) else {
        panic!("woken for nothing");
    };
    assert_eq!(entry.unwrap().vi, server.handle());
    assert_eq!(server.try_receive().unwrap().unwrap().length, 0);
}

#[test]
fn halves_work_in_two_threads() {
    // As many as receives are posted: nobody counts credits here.
    const MESSAGES: u32 = 64;

    let Pair {
        nic,
        client,
        mut server,
    } = Pair::new();
    for buffer in nic.buffers(64, 4, Memory::Shared).unwrap() {
        server.post_receive(buffer).unwrap();
    }
    let (mut sender, mut receiver) = client.split();
    for buffer in nic.buffers(64, 4, Memory::Private).unwrap() {
        receiver.post_receive(buffer).unwrap();
    }
    let mut buffer = nic.buffer(4, Memory::Shared).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..MESSAGES {
                buffer.copy_from_slice(&number.to_le_bytes());
                sender.post_send(buffer, 4).unwrap();
                buffer = sender.sent(SOON).unwrap().buffer;
            }
        });
        scope.spawn(move || {
            for number in 0..MESSAGES {
                let received = receiver.receive(SOON).unwrap();
                assert_eq!(received.data(), number.to_le_bytes());
            }
        });
        for _ in 0..MESSAGES {
            let received = server.receive(SOON).unwrap();
            server.post_send(received.buffer, 4).unwrap();
            drop(server.sent(SOON).unwrap());
        }
    });
    // Both halves are gone, and with them the connection.
    server.post_receive(Buffer::empty()).unwrap();
    assert!(server.receive(SOON).unwrap_err().is_flushed());
}

#[test]
fn everything_may_be_dropped_in_any_order_or_forgotten() {
    let Pair {
        nic,
        client,
        mut server,
    } = Pair::new();
    let mut context = Context::from_waker(Waker::noop());
    server
        .post_receive(nic.buffer(8, Memory::Shared).unwrap())
        .unwrap();
    server
        .post_receive(nic.buffer(8, Memory::Private).unwrap())
        .unwrap();
    // A handler is out when the VI goes.
    assert!(pin!(server.receive_async()).poll(&mut context).is_pending());
    let listener = nic.listen(b"never");
    let queue = nic.completion_queue(8).unwrap();
    let bound = nic.vi().receive_completions(&queue).build().unwrap();
    drop(nic);
    drop(queue);
    let (sender, mut receiver) = client.split();
    receiver.post_receive(Buffer::empty()).unwrap();
    drop(receiver);
    drop(server);
    drop(sender);
    drop(listener);
    std::mem::forget(bound);
}

#[test]
fn a_rejected_client_stays_idle() {
    let nic = open();
    let mut client = nic.vi().build().unwrap();
    let listener = nic.listen(b"no");
    thread::scope(|scope| {
        scope.spawn(|| listener.request(SOON).unwrap().reject());
        let code = loop {
            match client.connect(listener.address(), SOON) {
                Err(error) if error.code() == ReturnCode::NoMatch => thread::yield_now(),
                other => break other.unwrap_err().code(),
            }
        };
        assert_eq!(code, ReturnCode::Reject);
    });
    assert_eq!(client.query().unwrap().state, ViState::Idle);
    let timeout = listener
        .request(Some(Duration::from_millis(5)))
        .unwrap_err();
    assert_eq!(timeout.code(), ReturnCode::Timeout);
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let unknown = Nic::open(Arc::new(InProcess::new()), "no such device");
    assert_eq!(unknown.unwrap_err().code(), ReturnCode::InvalidParameter);
    let nic = open();
    assert!(nic.buffers(0, 8, Memory::Shared).unwrap().is_empty());
    assert!(nic.buffer(0, Memory::Shared).is_err());
    assert!(nic.buffers(2, usize::MAX, Memory::Shared).is_err());
    assert!(nic.buffer(1 << 33, Memory::Private).is_err());
    let nothing = nic.vi().send_depth(0).receive_depth(0).build().unwrap_err();
    assert!(nothing.to_string().contains("needs one"), "{nothing}");
    let depth_max = nic.attributes().max_descriptors_per_queue;
    assert!(nic.vi().send_depth(depth_max + 1).build().is_err());
}
