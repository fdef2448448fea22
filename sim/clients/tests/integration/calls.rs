//! Programs over the handles, with what they exchange through their own memory.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use viaduct_calls::{
    CompletionChannel, CompletionQueue, CompletionQueueOptions, Context, Device, MemoryRegion,
    ProtectionDomain, QueuePair, QueuePairOptions, Receive, Request, SendRequest, Wire as _,
};
use viaduct_programs::Simulation;
use viaduct_programs::verbs::flags::{access, reregister, send};
use viaduct_programs::verbs::{
    AddressAttributes, Capabilities, Completion, CompletionStatus, Key, QueuePairAttributes,
    QueuePairType, ReceiveRequest, ScatterGatherElement, SendOpcode, errno,
};

use crate::turns::{Ran, compute, line, now, run, run_on, synchronise};

pub(crate) const RIGHTS: u32 = access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ;

pub(crate) fn simulation(hosts: u32) -> Simulation {
    let config = viaduct_scenario::load_programs("rnic-gen5", None, hosts);
    Simulation::new(config.expect("a preset"))
}

/// What a program of perftest has.
pub(crate) struct End {
    pub(crate) context: Context,
    pub(crate) domain: ProtectionDomain,
    pub(crate) sends: CompletionQueue,
    pub(crate) receives: CompletionQueue,
    pub(crate) pair: QueuePair,
    pub(crate) memory: Box<[u8]>,
    pub(crate) region: MemoryRegion,
}

impl End {
    pub(crate) fn new(kind: QueuePairType, bytes: usize) -> Self {
        Self::at(0, kind, bytes)
    }

    /// At one of its host's adapters.
    pub(crate) fn at(adapter: usize, kind: QueuePairType, bytes: usize) -> Self {
        let context = Device::all_at(line()).unwrap()[adapter].open().unwrap();
        let queue = |entries| {
            let options = CompletionQueueOptions {
                entries,
                ..Default::default()
            };
            context.create_completion_queue(&options).unwrap()
        };
        let (sends, receives) = (queue(128), queue(512));
        let domain = context.allocate_protection_domain().unwrap();
        let memory = vec![0; 2 * bytes].into_boxed_slice();
        let address = memory.as_ptr().expose_provenance() as u64;
        // SAFETY: the memory stays with the region.
        let region =
            unsafe { domain.register_memory(address, memory.len() as u64, address, RIGHTS) };
        let options = QueuePairOptions {
            kind,
            capabilities: Capabilities {
                max_send_requests: 128,
                max_receive_requests: 512,
                max_send_elements: 1,
                max_receive_elements: 1,
                max_inline_bytes: 236,
            },
            send_queue: sends,
            receive_queue: receives,
            shared_receive_queue: None,
            is_every_send_signaled: false,
            cookie: 0,
        };
        Self {
            pair: domain.create_queue_pair(&options).unwrap(),
            context,
            domain,
            sends,
            receives,
            region: region.unwrap(),
            memory,
        }
    }

    pub(crate) fn raise(&self, peer: u32) {
        let attributes = QueuePairAttributes {
            access_flags: RIGHTS,
            max_read_atomic: 16,
            max_destination_read_atomic: 16,
            ..QueuePairAttributes::connection(peer)
        };
        self.pair.raise(&attributes).unwrap();
    }

    pub(crate) fn element(&self, from: usize, bytes: usize) -> ScatterGatherElement {
        ScatterGatherElement {
            address: self.address() + from as u64,
            length: bytes as u32,
            local_key: self.region.memory_key(),
        }
    }

    pub(crate) fn address(&self) -> u64 {
        self.memory.as_ptr().addr() as u64
    }

    pub(crate) fn receive(&self, from: usize, bytes: usize) {
        let elements = [self.element(from, bytes)];
        let receive = ReceiveRequest {
            request: 1,
            elements: &elements,
        };
        self.pair.post_receive(&receive).unwrap();
    }

    /// What lies in its memory, of which the kernel may have written.
    pub(crate) fn bytes(&self, from: usize, bytes: usize) -> Vec<u8> {
        let start = &raw const self.memory[from..from + bytes];
        // SAFETY: inside of its memory, while no turn of anybody else is on.
        unsafe { &*start }.to_vec()
    }
}

/// Looks until a completion comes.
pub(crate) fn done(queue: &CompletionQueue) -> Completion {
    let mut found = [Completion::default(); 1];
    while queue.poll(&mut found).unwrap() == 0 {}
    assert_eq!(found[0].status, CompletionStatus::Success, "{found:?}");
    found[0]
}

/// Tells the peer's program something outside of the simulation, as over a socket. Whoever waits
/// looks now and then: threads that wait for each other must give their turns.
pub(crate) struct Socket<T>(pub(crate) Sender<T>, pub(crate) Receiver<T>);

impl<T> Socket<T> {
    pub(crate) fn pair() -> (Self, Self) {
        let ((near, far_end), (far, near_end)) = (channel(), channel());
        (Self(near, near_end), Self(far, far_end))
    }

    pub(crate) fn exchange(&self, own: T, device: &Device) -> T {
        synchronise();
        self.0.send(own).unwrap();
        loop {
            if let Ok(found) = self.1.try_recv() {
                return found;
            }
            // Any call gives the turn when others are behind.
            compute(1_000_000);
            drop(device.open().unwrap().close());
        }
    }
}

#[test]
fn a_message_comes_from_the_memory_of_one_client_into_that_of_another() {
    let (near, far) = Socket::pair();
    let (tells, received) = channel();
    let sends = move || {
        let mut end = End::new(QueuePairType::Rc, 64);
        end.memory[..5].copy_from_slice(b"hello");
        let peer = near.exchange(end.pair.number(), &end.context.device());
        end.raise(peer);
        near.exchange(0, &end.context.device());
        let elements = [end.element(0, 5)];
        let request = SendRequest::new(7, SendOpcode::Send)
            .with_elements(&elements)
            .with_flags(send::SIGNALED);
        let before = now();
        // SAFETY: nothing is inline.
        unsafe { end.pair.post_send(&request) }.unwrap();
        assert_eq!(done(&end.sends).request, 7);
        // There and back over the network, and no more.
        let spent = now() - before;
        assert!((1_000_000..10_000_000).contains(&spent), "{spent} ps");
        end.context.close().unwrap();
    };
    let receives = move || {
        let end = End::new(QueuePairType::Rc, 64);
        let peer = far.exchange(end.pair.number(), &end.context.device());
        end.raise(peer);
        end.receive(0, 64);
        far.exchange(0, &end.context.device());
        let completion = done(&end.receives);
        tells.send(now()).unwrap();
        assert_eq!(
            (completion.byte_length, &*end.bytes(0, 5)),
            (5, &b"hello"[..])
        );
        end.context.close().unwrap();
    };
    let ran = run(simulation(2), vec![Box::new(sends), Box::new(receives)]);
    assert_eq!(ran.simulation.counts().messages, 1);
    // The receiver's memory was written, once.
    let [(receiver, seen)] = ran.written[..] else {
        panic!("{:?}", ran.written);
    };
    assert_eq!(receiver, 1);
    // A program that polls for the message sees it when one sees it that looks into its memory.
    let reap = ran.simulation.configuration().host.of(1).processor.reap;
    assert_eq!(received.recv().unwrap(), seen + reap.picoseconds());
}

#[test]
fn an_inline_datagram_has_the_bytes_of_when_it_was_posted() {
    let (near, far) = Socket::pair();
    let key = 0x1234;
    let raise = move |end: &End| {
        let attributes = QueuePairAttributes {
            queue_key: key,
            ..QueuePairAttributes::connection(0)
        };
        end.pair.raise(&attributes).unwrap();
    };
    let sends = move || {
        let mut end = End::new(QueuePairType::Ud, 64);
        raise(&end);
        let peer = near.exchange((end.pair.number(), [0; 16]), &end.context.device());
        let mut attributes = AddressAttributes {
            is_global: true,
            port: 1,
            ..AddressAttributes::default()
        };
        attributes.route.destination_gid = peer.1;
        let address = end.domain.create_address_handle(&attributes).unwrap();
        end.memory[..5].copy_from_slice(b"first");
        let elements = [end.element(0, 5)];
        let mut request = SendRequest::new(7, SendOpcode::Send)
            .with_elements(&elements)
            .with_flags(send::SIGNALED | send::INLINE);
        request.datagram = Some(viaduct_calls::DatagramDestination {
            address,
            queue_pair: peer.0,
            queue_key: key,
        });
        // SAFETY: the bytes are those of the memory.
        unsafe { end.pair.post_send(&request) }.unwrap();
        end.memory[..5].copy_from_slice(b"later");
        done(&end.sends);
    };
    let receives = move || {
        let end = End::new(QueuePairType::Ud, 64);
        raise(&end);
        end.receive(0, 64);
        let gid = end.context.device().description().gid;
        far.exchange((end.pair.number(), gid), &end.context.device());
        // Behind the header of its route.
        assert_eq!(done(&end.receives).byte_length, 45);
        assert_eq!(end.bytes(40, 5), b"first");
    };
    run(simulation(2), vec![Box::new(sends), Box::new(receives)]);
}

/// Two hosts, of which one sends the other two messages, 50 us after each other. The other does
/// something with a channel, whose queue is armed, and says when each of two messages was there.
fn with_channel(
    take: impl Fn(&CompletionChannel, &CompletionQueue) -> u64 + Send + 'static,
) -> (Vec<u64>, Ran) {
    let (near, far) = Socket::pair();
    let (tells, told) = channel();
    let sends = move || {
        let end = End::new(QueuePairType::Rc, 64);
        let peer = near.exchange(end.pair.number(), &end.context.device());
        end.raise(peer);
        near.exchange(0, &end.context.device());
        for number in 0..2 {
            compute(50_000_000);
            let elements = [end.element(0, 5)];
            let request = SendRequest::new(number, SendOpcode::Send).with_elements(&elements);
            // SAFETY: nothing is inline.
            unsafe { end.pair.post_send(&request) }.unwrap();
        }
        // It is alive until the messages are there.
        compute(50_000_000);
        end.context.close().unwrap();
    };
    let receives = move || {
        let end = End::new(QueuePairType::Rc, 64);
        let channel = end.context.create_completion_channel().unwrap();
        let options = CompletionQueueOptions {
            entries: 16,
            cookie: 0xc0,
            channel: Some(channel),
            ..Default::default()
        };
        let queue = end.context.create_completion_queue(&options).unwrap();
        let options = QueuePairOptions {
            receive_queue: queue,
            ..end.pair.query().unwrap().1
        };
        let pair = end.domain.create_queue_pair(&options).unwrap();
        let end = End { pair, ..end };
        let peer = far.exchange(end.pair.number(), &end.context.device());
        end.raise(peer);
        end.receive(0, 64);
        end.receive(0, 64);
        queue.arm(false).unwrap();
        far.exchange(0, &end.context.device());
        for _ in 0..2 {
            tells.send(take(&channel, &queue)).unwrap();
            queue.acknowledge_events(1);
            queue.arm(false).unwrap();
            assert_eq!(done(&queue).byte_length, 5);
        }
    };
    let ran = run(simulation(2), vec![Box::new(sends), Box::new(receives)]);
    (told.iter().collect(), ran)
}

fn can_be_read(descriptor: RawFd) -> bool {
    // SAFETY: the channel that it belongs to is there.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let mut entries = [PollFd::new(&descriptor, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    rustix::event::poll(&mut entries, Some(&now)).unwrap() > 0
}

fn set_nonblocking(descriptor: RawFd) {
    // SAFETY: as above.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    rustix::fs::fcntl_setfl(descriptor, OFlags::NONBLOCK).unwrap();
}

#[test]
fn whoever_sleeps_for_an_event_is_woken_by_the_completion() {
    let (woken, ran) = with_channel(|channel, _| {
        let before = now();
        assert_eq!(channel.next_event().unwrap(), 0xc0);
        assert!(now() - before >= 40_000_000);
        assert!(!can_be_read(channel.fd()));
        now()
    });
    assert_eq!(woken.len(), 2);
    // The descriptor tells nothing of what was taken before anybody could be told.
    assert!(ran.rung.is_empty(), "{:?}", ran.rung);
}

#[test]
fn a_descriptor_can_be_read_from_when_a_sleeper_is_woken_until_the_event_is_taken() {
    let (woken, _) = with_channel(|channel, _| {
        channel.next_event().unwrap();
        now()
    });
    let (seen, ran) = with_channel(|channel, queue| {
        while !can_be_read(channel.fd()) {
            compute(1_000_000);
            queue.entries().unwrap();
        }
        let seen = now();
        set_nonblocking(channel.fd());
        assert_eq!(channel.next_event().unwrap(), 0xc0);
        assert!(!can_be_read(channel.fd()));
        assert_eq!(channel.next_event().unwrap_err().errno(), errno::EAGAIN);
        seen
    });
    assert_eq!(ran.rung[0], woken[0]);
    for (seen, rung) in seen.iter().zip(&ran.rung) {
        assert!((0..3_000_000).contains(&(seen - rung)), "{seen} {rung}");
    }
}

#[test]
fn two_clients_of_one_host_have_memory_of_their_own() {
    // Both register the same addresses, as programs without random layouts do.
    let (near, far) = Socket::pair();
    let program = |socket: Socket<u32>, is_first: bool| {
        move || {
            let end = End::new(QueuePairType::Rc, 64);
            let peer = socket.exchange(end.pair.number(), &end.context.device());
            end.raise(peer);
            end.receive(0, 64);
            socket.exchange(0, &end.context.device());
            if is_first {
                let elements = [end.element(64, 8)];
                let request = SendRequest::new(7, SendOpcode::Send)
                    .with_elements(&elements)
                    .with_flags(send::SIGNALED);
                // SAFETY: nothing is inline.
                unsafe { end.pair.post_send(&request) }.unwrap();
                done(&end.sends);
            } else {
                done(&end.receives);
            }
        }
    };
    let programs: Vec<(u32, Box<dyn FnOnce() + Send>)> = vec![
        (1, Box::new(program(near, true))),
        (1, Box::new(program(far, false))),
    ];
    let ran = run_on(simulation(2), programs);
    assert_eq!(ran.simulation.counts().messages, 1);
}

#[test]
fn what_a_client_leaves_behind_goes_with_it() {
    let (tells, told) = channel();
    let leaves = move || {
        let end = End::new(QueuePairType::Rc, 64);
        end.raise(end.pair.number());
        tells.send(end.pair.number()).unwrap();
        // Neither closes nor destroys anything.
        std::mem::forget(end);
    };
    let ran = run(simulation(1), vec![Box::new(leaves)]);
    let process = ran.simulation.process(0);
    let first = process.rdma().unwrap().limits().first_number;
    assert_eq!(told.recv().unwrap(), first);
    // The first context of an adapter, and the first life of its place.
    let context = viaduct_programs::verbs::Context::of(&process, Key::from_bits(1 << 32));
    let gone = context.allocate_protection_domain().unwrap_err();
    assert_eq!(gone.errno(), errno::EINVAL);
}

#[test]
fn no_region_reaches_past_the_memory_of_a_client() {
    let program = || {
        let end = End::new(QueuePairType::Rc, 64);
        let past = 1_u64 << 48;
        for (address, length) in [(past, 64), (past - 64, 128), (64, u64::MAX)] {
            // SAFETY: it is refused.
            let made = unsafe { end.domain.register_memory(address, length, address, RIGHTS) };
            assert_eq!(made.unwrap_err().errno(), errno::EINVAL, "{address:#x}");
        }
        let moved = unsafe {
            // SAFETY: as above.
            let flags = reregister::TRANSLATION;
            end.region.reregister(flags, None, past - 64, 128, RIGHTS)
        };
        assert_eq!(moved.unwrap_err().errno(), errno::EINVAL);
        end.context.close().unwrap();
    };
    run(simulation(2), vec![Box::new(program)]);
}

#[test]
fn a_client_whose_post_without_an_answer_is_refused_is_told_so_at_its_next_call() {
    let bytes_of = |request: Request| {
        let mut bytes = Vec::new();
        request.put(&mut bytes);
        bytes
    };
    let receive = Receive {
        request: 1,
        elements: Vec::new(),
    };
    let nobody = Key::from_bits(99);
    // To a queue pair that is not there; what is no post; what is no request.
    let posts = [
        bytes_of(Request::PostReceive {
            pair: nobody,
            receive,
        }),
        bytes_of(Request::Entries { queue: nobody }),
        vec![255],
        Vec::new(),
    ];
    for bytes in posts {
        let asks = move || {
            let device = Device::all_at(line()).unwrap()[0];
            assert!(line().post(&bytes, 0));
            let refused = device.open().unwrap_err();
            let told = refused.to_string();
            assert!(
                refused.errno() == errno::EIO && told.contains("a post without an answer"),
                "{bytes:?}: {told}"
            );
        };
        run(simulation(1), vec![Box::new(asks)]);
    }
}
