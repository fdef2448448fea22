//! Queue pairs of one process.

use viaduct_rdma::verbs::flags::{access, attribute, send};
use viaduct_rdma::verbs::*;
use viaduct_rdma::*;

struct Side {
    context: Context,
    domain: ProtectionDomain,
    queue: CompletionQueue,
    pair: QueuePair,
    memory: Vec<u64>,
    region: MemoryRegion,
}

const ALL: u32 =
    access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;

fn side(kind: QueuePairType) -> Side {
    let context = devices()[0].open().unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let options = CompletionQueueOptions {
        entries: 64,
        ..Default::default()
    };
    let queue = context.create_completion_queue(&options).unwrap();
    let pair = domain
        .create_queue_pair(&QueuePairOptions {
            kind,
            capabilities: Capabilities {
                max_send_requests: 16,
                max_receive_requests: 16,
                max_send_elements: 4,
                max_receive_elements: 4,
                max_inline_bytes: 64,
            },
            send_queue: queue,
            receive_queue: queue,
            shared_receive_queue: None,
            is_every_send_signaled: false,
            cookie: 1,
        })
        .unwrap();
    let memory = vec![0_u64; 1 << 16];
    let address = memory.as_ptr() as u64;
    let region = unsafe { domain.register_memory(address, 8 << 16, address, ALL) }.unwrap();
    Side {
        context,
        domain,
        queue,
        pair,
        memory,
        region,
    }
}

fn up(side: &Side, peer: u32, kind: QueuePairType) {
    let gid = side.context.device().gid(1, 0).unwrap().gid;
    let mut attributes = QueuePairAttributes {
        state: QueuePairState::Init,
        port: 1,
        access_flags: ALL,
        queue_key: 0x1111,
        ..Default::default()
    };
    let (third, datagram) = match kind {
        QueuePairType::Ud => (attribute::QUEUE_KEY, true),
        _ => (attribute::ACCESS_FLAGS, false),
    };
    let mask = attribute::STATE | attribute::PARTITION_KEY_INDEX | attribute::PORT | third;
    side.pair.modify(&attributes, mask).unwrap();
    attributes.state = QueuePairState::ReadyToReceive;
    attributes.path_mtu = Mtu::Bytes1024;
    attributes.destination = peer;
    attributes.address.is_global = true;
    attributes.address.port = 1;
    attributes.address.route.destination_gid = gid;
    attributes.max_destination_read_atomic = 1;
    attributes.min_receiver_not_ready_timer = 12;
    let mut mask = attribute::STATE;
    if !datagram {
        mask |= attribute::ADDRESS
            | attribute::PATH_MTU
            | attribute::DESTINATION
            | attribute::RECEIVE_PACKET_NUMBER;
    }
    if kind == QueuePairType::Rc {
        mask |= attribute::MAX_DESTINATION_READ_ATOMIC | attribute::MIN_RECEIVER_NOT_READY_TIMER;
    }
    side.pair.modify(&attributes, mask).unwrap();
    attributes.state = QueuePairState::ReadyToSend;
    attributes.timeout = 14;
    attributes.retry_count = 7;
    attributes.receiver_not_ready_retry = 7;
    attributes.max_read_atomic = 1;
    let mut mask = attribute::STATE | attribute::SEND_PACKET_NUMBER;
    if kind == QueuePairType::Rc {
        mask |= attribute::TIMEOUT
            | attribute::RETRY_COUNT
            | attribute::RECEIVER_NOT_READY_RETRY
            | attribute::MAX_READ_ATOMIC;
    }
    side.pair.modify(&attributes, mask).unwrap();
}

fn await_one(side: &Side) -> Completion {
    let mut one = [Completion::default()];
    while side.queue.poll(&mut one).unwrap() == 0 {}
    one[0]
}

fn element(side: &Side, at: usize, length: u32) -> ScatterGatherElement {
    ScatterGatherElement {
        address: side.memory[at..].as_ptr() as u64,
        length,
        local_key: side.region.memory_key(),
    }
}

#[test]
fn every_operation_of_a_reliable_connection_arrives() {
    let kind = QueuePairType::Rc;
    let (mut one, two) = (side(kind), side(kind));
    up(&one, two.pair.number(), kind);
    up(&two, one.pair.number(), kind);
    for length in [0_u32, 8, 64, 1000, 100_000, 500_000] {
        let words = length as usize / 8;
        for (at, word) in one.memory[..words].iter_mut().enumerate() {
            *word = at as u64 + u64::from(length);
        }
        let place = [element(&two, 0, 8 << 16)];
        two.pair
            .post_receive(&ReceiveRequest {
                request: 9,
                elements: &place,
            })
            .unwrap();
        let bytes = [element(&one, 0, length)];
        let request = SendRequest::new(5, SendOpcode::Send)
            .with_elements(&bytes)
            .with_flags(send::SIGNALED);
        unsafe { one.pair.post_send(&request) }.unwrap();
        let came = await_one(&two);
        assert_eq!(
            (came.status, came.request, came.byte_length),
            (CompletionStatus::Success, 9, length)
        );
        assert_eq!(await_one(&one).request, 5);
        assert_eq!(one.memory[..words], two.memory[..words]);

        let request = SendRequest::new(6, SendOpcode::RdmaRead)
            .with_elements(&bytes)
            .with_remote(two.memory[1..].as_ptr() as u64, two.region.memory_key())
            .with_flags(send::SIGNALED);
        unsafe { one.pair.post_send(&request) }.unwrap();
        let done = await_one(&one);
        assert_eq!(
            (done.status, done.request, done.opcode),
            (CompletionStatus::Success, 6, CompletionOpcode::RdmaRead)
        );
        let request = SendRequest::new(7, SendOpcode::RdmaWrite)
            .with_elements(&bytes)
            .with_remote(two.memory[3..].as_ptr() as u64, two.region.memory_key())
            .with_flags(send::SIGNALED);
        unsafe { one.pair.post_send(&request) }.unwrap();
        let done = await_one(&one);
        assert_eq!((done.status, done.request), (CompletionStatus::Success, 7));
    }
    let bytes = [element(&one, 0, 8)];
    let mut request = SendRequest::new(8, SendOpcode::AtomicFetchAndAdd)
        .with_elements(&bytes)
        .with_remote(two.memory.as_ptr() as u64, two.region.memory_key())
        .with_flags(send::SIGNALED);
    request.compare_add = 3;
    let before = two.memory[0];
    unsafe { one.pair.post_send(&request) }.unwrap();
    assert_eq!(await_one(&one).status, CompletionStatus::Success);
    assert_eq!((one.memory[0], two.memory[0]), (before, before + 3));
    one.context.close().unwrap();
    two.context.close().unwrap();
    let _ = (one.domain, two.domain);
}

#[test]
fn a_datagram_comes_with_its_header() {
    let kind = QueuePairType::Ud;
    let (one, two) = (side(kind), side(kind));
    up(&one, 0, kind);
    up(&two, 0, kind);
    let place = [element(&two, 0, 4096)];
    two.pair
        .post_receive(&ReceiveRequest {
            request: 9,
            elements: &place,
        })
        .unwrap();
    let mut way = AddressAttributes {
        port: 1,
        is_global: true,
        ..Default::default()
    };
    way.route.destination_gid = two.context.device().gid(1, 0).unwrap().gid;
    let address = one.domain.create_address_handle(&way).unwrap();
    let bytes = [element(&one, 0, 100)];
    let mut request = SendRequest::new(5, SendOpcode::Send)
        .with_elements(&bytes)
        .with_flags(send::SIGNALED);
    request.datagram = Some(DatagramDestination {
        address,
        queue_pair: two.pair.number(),
        queue_key: 0x1111,
    });
    unsafe { one.pair.post_send(&request) }.unwrap();
    let came = await_one(&two);
    assert_eq!(
        (came.byte_length, came.source_queue_pair),
        (140, one.pair.number())
    );
    assert_eq!(await_one(&one).status, CompletionStatus::Success);
}
