use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::verbs::flags::{attribute, send, shared_receive};
use crate::verbs::notices::Destruction;
use crate::verbs::{
    Adapter, AsyncEventType, Capabilities, Completion, CompletionStatus, DatagramDestination,
    Memory, Packets, QueuePairAttributes, QueuePairOptions, QueuePairState, QueuePairType,
    ReceiveRequest, SendOpcode, SendRequest, SharedReceiveAttributes, errno,
};

const LIMITS: Limits = Limits {
    first_number: 0x4000,
    max_queue_pairs: 2,
    max_regions: 4,
    max_address_handles: 4,
    max_objects: 4,
    max_requests: 4,
    max_elements: 2,
    max_inline_bytes: 64,
    min_inline_bytes: 16,
    max_completion_entries: 8,
    max_read_atomic: 4,
    max_message_bytes: 1 << 20,
    max_region_bytes: 1 << 20,
    mtu: Mtu::Bytes4096,
    gids: 1,
    needs_route: true,
};

/// Nothing is in it.
struct NoMemory;

impl Memory for NoMemory {
    fn read(&self, _: u64, _: usize, _: &mut Vec<u8>) {}

    fn write(&mut self, _: u64, _: &[u8]) {}
}

struct World {
    adapter: Adapter,
    context: Key,
    channel: Key,
    queue: Key,
    domain: Key,
}

impl World {
    fn new() -> Self {
        let mut adapter = Adapter::new(LIMITS, 1, Packets::from([7; 16]));
        adapter.set_time(1);
        let context = adapter.notices.open((), None).unwrap();
        let channel = adapter.notices.create_channel(context, None).unwrap();
        let options = CompletionQueueOptions {
            entries: 8,
            cookie: 1,
            channel: Some(channel),
            ..CompletionQueueOptions::default()
        };
        let queue = adapter.create_completion_queue(context, &options).unwrap();
        let domain = adapter.allocate_domain(context).unwrap();
        Self {
            adapter,
            context,
            channel,
            queue,
            domain,
        }
    }

    fn shared(&mut self) -> Key {
        let attributes = SharedReceiveAttributes {
            max_requests: 4,
            ..SharedReceiveAttributes::default()
        };
        self.adapter
            .create_shared(self.domain, &attributes, 3)
            .unwrap()
    }

    fn pair(&mut self, kind: QueuePairType, shared: Option<Key>) -> Key {
        let options = QueuePairOptions {
            kind,
            capabilities: Capabilities {
                max_send_requests: 4,
                max_receive_requests: 4,
                max_send_elements: 1,
                max_receive_elements: 1,
                max_inline_bytes: 0,
            },
            send_queue: self.queue,
            receive_queue: self.queue,
            shared_receive_queue: shared,
            is_every_send_signaled: true,
            cookie: 100,
        };
        self.adapter.create_pair(self.domain, &options).unwrap().0
    }

    fn raise(&mut self, pair: Key) {
        let mut attributes = QueuePairAttributes {
            port: 1,
            ..QueuePairAttributes::default()
        };
        (attributes.address.is_global, attributes.address.port) = (true, 1);
        let kind = self.adapter.pair(pair).unwrap().options.kind;
        for (step, mask) in attributes.steps_up(kind) {
            self.adapter.modify(pair, &step, mask).unwrap();
        }
    }

    fn goes_to(&mut self, pair: Key, state: QueuePairState) {
        let wanted = QueuePairAttributes {
            state,
            send_drained_notify: true,
            ..QueuePairAttributes::default()
        };
        let mut mask = attribute::STATE;
        if state == QueuePairState::SendDrained {
            mask |= attribute::SEND_DRAINED_NOTIFY;
        }
        self.adapter.modify(pair, &wanted, mask).unwrap();
    }

    fn next_event(&mut self) -> Option<AsyncEventType> {
        let event = self.adapter.next_async_event(self.context).unwrap();
        event.map(|event| event.kind)
    }
}

fn errno_of<T>(result: Result<T>) -> Option<i32> {
    result.err().map(|error| error.errno())
}

/// `ibv_destroy_cq(3)`, `ibv_dealloc_pd(3)`, `ibv_destroy_srq(3)`.
#[test]
fn what_is_used_is_not_destroyed() {
    let mut world = World::new();
    let shared = world.shared();
    let pair = world.pair(QueuePairType::Rc, Some(shared));
    let (queue, domain, channel) = (world.queue, world.domain, world.channel);
    let all = &mut world.adapter;
    assert_eq!(errno_of(all.notices.destroy_queue(queue)), Some(16));
    assert_eq!(errno_of(all.destroy_shared(shared)), Some(errno::EBUSY));
    assert_eq!(errno_of(all.deallocate_domain(domain)), Some(errno::EBUSY));
    assert_eq!(errno_of(all.notices.destroy_channel(channel)), Some(16));
    assert_eq!(all.destroy_pair(pair), Ok(Destruction::Done));
    assert_eq!(errno_of(all.destroy_pair(pair)), Some(errno::EINVAL));
    assert_eq!(all.destroy_shared(shared), Ok(Destruction::Done));
    assert_eq!(all.notices.destroy_queue(queue), Ok(Destruction::Done));
    assert_eq!(all.notices.destroy_channel(channel), Ok(()));
    assert_eq!(all.deallocate_domain(domain), Ok(()));
}

/// `ibv_destroy_cq(3)`, `ibv_ack_cq_events(3)`.
#[test]
fn a_completion_queue_stays_until_its_events_are_acknowledged() {
    let mut world = World::new();
    let notices = &mut world.adapter.notices;
    for _ in 0..2 {
        notices.arm(world.queue, false).unwrap();
        notices.complete(world.queue, Completion::default(), false);
    }
    assert_eq!(notices.armed(), 0);
    assert_eq!(notices.next_completion_event(world.channel), Ok(Some(1)));
    assert_eq!(notices.destroy_queue(world.queue), Ok(Destruction::Waits));
    // What nobody had taken is taken back.
    assert_eq!(notices.next_completion_event(world.channel), Ok(None));
    notices.acknowledge(world.queue, 1);
    assert_eq!(notices.destroy_queue(world.queue), Ok(Destruction::Done));
}

/// `ibv_get_async_event(3)`.
#[test]
fn objects_stay_until_asynchronous_events_are_acknowledged() {
    let mut world = World::new();
    let shared = world.shared();
    let pair = world.pair(QueuePairType::Rc, Some(shared));
    world.raise(pair);
    world.goes_to(pair, QueuePairState::Error);
    let limit = SharedReceiveAttributes {
        limit: 1,
        ..SharedReceiveAttributes::default()
    };
    let modified = world
        .adapter
        .modify_shared(shared, &limit, shared_receive::LIMIT);
    assert_eq!(modified, Ok(()));
    for _ in 0..=LIMITS.max_completion_entries {
        let notices = &mut world.adapter.notices;
        notices.complete(world.queue, Completion::default(), false);
    }
    let told = [
        AsyncEventType::LastRequestReached,
        AsyncEventType::SharedReceiveQueueLimitReached,
        AsyncEventType::CompletionQueueError,
    ];
    assert_eq!([0; 3].map(|_| world.next_event()), told.map(Some));
    let all = &mut world.adapter;
    assert_eq!(all.destroy_pair(pair), Ok(Destruction::Waits));
    all.acknowledge_async(Owner::Pair(pair), 1);
    assert_eq!(all.destroy_pair(pair), Ok(Destruction::Done));
    assert_eq!(all.destroy_shared(shared), Ok(Destruction::Waits));
    all.acknowledge_async(Owner::Shared(shared), 1);
    assert_eq!(all.destroy_shared(shared), Ok(Destruction::Done));
    assert_eq!(
        all.notices.destroy_queue(world.queue),
        Ok(Destruction::Waits)
    );
    all.acknowledge_async(Owner::Queue(world.queue), 1);
    assert_eq!(
        all.notices.destroy_queue(world.queue),
        Ok(Destruction::Done)
    );
}

#[test]
fn events_of_what_goes_are_taken_back() {
    let mut world = World::new();
    let shared = world.shared();
    let pair = world.pair(QueuePairType::Rc, Some(shared));
    world.raise(pair);
    world.goes_to(pair, QueuePairState::Error);
    assert_eq!(world.adapter.destroy_pair(pair), Ok(Destruction::Done));
    assert_eq!(world.next_event(), None);
}

#[test]
fn a_device_takes_its_objects_with_it() {
    let mut world = World::new();
    let shared = world.shared();
    let pair = world.pair(QueuePairType::Rc, Some(shared));
    let all = &mut world.adapter;
    let region = all.register_memory(world.domain, 64, 64, 64, 0).unwrap().0;
    all.notices.arm(world.queue, false).unwrap();
    assert_eq!(all.close(world.context), Ok(()));
    assert_eq!(all.notices.armed(), 0);
    assert_eq!(errno_of(all.close(world.context)), Some(errno::EINVAL));
    assert_eq!(errno_of(all.query(pair)), Some(errno::EINVAL));
    assert_eq!(errno_of(all.query_shared(shared)), Some(errno::EINVAL));
    assert_eq!(errno_of(all.notices.entries(world.queue)), Some(22));
    assert_eq!(errno_of(all.deregister_memory(region)), Some(errno::EINVAL));
    assert_eq!(errno_of(all.deallocate_domain(world.domain)), Some(22));
}

/// `ibv_post_send(3)`: what stands before the one that fails is posted there; here all or none is.
#[test]
fn of_several_sends_all_are_posted_or_none() {
    let mut world = World::new();
    let pair = world.pair(QueuePairType::Ud, None);
    world.raise(pair);
    let mut way = AddressAttributes {
        is_global: true,
        port: 1,
        ..AddressAttributes::default()
    };
    let address = world.adapter.create_address(world.domain, &way).unwrap();
    way.route.source_gid_index = 1;
    let refused = world.adapter.create_address(world.domain, &way);
    assert_eq!(errno_of(refused), Some(errno::EINVAL));
    let to = |address| SendRequest {
        datagram: Some(DatagramDestination {
            address,
            queue_pair: 9,
            queue_key: 0,
        }),
        ..SendRequest::new(1, SendOpcode::Send)
    };
    way.route.source_gid_index = 0;
    let gone = world.adapter.create_address(world.domain, &way).unwrap();
    world.adapter.destroy_address(gone).unwrap();
    let all = &mut world.adapter;
    let posted = all.post(pair, &[to(address), to(gone)], &NoMemory);
    assert_eq!(errno_of(posted), Some(errno::EINVAL));
    assert_eq!(all.pair(pair).unwrap().sends.len(), 0);
    let none: SendRequest<'_> = SendRequest::new(1, SendOpcode::Send);
    assert!(all.post(pair, &[to(address), none], &NoMemory).is_err());
    assert_eq!(all.pair(pair).unwrap().sends.len(), 0);
    assert_eq!(all.post(pair, &[to(address); 4], &NoMemory), Ok(()));
    let fifth = all.post(pair, &[to(address)], &NoMemory);
    assert_eq!(errno_of(fifth), Some(errno::ENOMEM));
}

/// States of the specification: in SQD what has begun is finished first.
#[test]
fn a_send_of_which_a_part_is_sent_is_not_drained() {
    let mut world = World::new();
    let pair = world.pair(QueuePairType::Rc, None);
    world.raise(pair);
    let request: SendRequest<'_> = SendRequest::new(1, SendOpcode::Send);
    world.adapter.post(pair, &[request], &NoMemory).unwrap();
    let mut taken = world.adapter.take_pair(pair.index()).unwrap();
    taken.sends.next_mut().unwrap().offset = 1;
    world.adapter.restore_pair(taken);
    world.goes_to(pair, QueuePairState::SendDrained);
    assert_eq!(world.next_event(), None);
    let mut taken = world.adapter.take_pair(pair.index()).unwrap();
    taken.sends.hand_over(QueuePairType::Rc);
    taken.sends.acknowledge(1);
    world.adapter.retire(&mut taken);
    world.adapter.restore_pair(taken);
    assert_eq!(world.next_event(), Some(AsyncEventType::SendQueueDrained));
}

#[test]
fn an_error_flushes_what_is_posted_and_sizes_are_those_that_were_got() {
    let mut world = World::new();
    let pair = world.pair(QueuePairType::Rc, None);
    let sizes = world.adapter.query(pair).unwrap().1.capabilities;
    assert_eq!(sizes.max_inline_bytes, LIMITS.min_inline_bytes);
    world.raise(pair);
    let all = &mut world.adapter;
    let receive = ReceiveRequest {
        request: 5,
        elements: &[],
    };
    all.post_receive(pair, &receive).unwrap();
    let request: SendRequest<'_> = SendRequest::new(4, SendOpcode::Send).with_flags(send::SIGNALED);
    all.post(pair, &[request], &NoMemory).unwrap();
    world.goes_to(pair, QueuePairState::Error);
    let mut flushed = vec![];
    while let Some(done) = world.adapter.notices.poll(world.queue).unwrap() {
        flushed.push((done.request, done.status));
    }
    let status = CompletionStatus::FlushError;
    assert_eq!(flushed, [(4, status), (5, status)]);
}
