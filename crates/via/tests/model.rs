//! Random operations on two NICs against an obvious reference: lists of descriptors, each with its
//! state, searched from the front. Whatever the order of starting, arriving, finishing, losing and
//! disconnecting, each descriptor comes back once, in post order, with the status that the
//! reference says; nothing is delivered twice; completion queues tell of each completion once.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod common;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use common::*;
use proptest::prelude::*;
use viaduct_via::*;

/// VIs of each host.
const VIS: usize = 2;
/// Descriptors of a queue: small, so that queues fill.
const DEPTH: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Fault {
    Format,
    Protection,
    /// Of sends only.
    Length,
}

#[derive(Clone, Debug)]
enum Step {
    PostSend {
        length: u32,
        fault: Option<Fault>,
        immediate: bool,
    },
    PostReceive {
        capacity: u32,
        fault: Option<Fault>,
    },
    StartSend,
    FinishSend {
        pick: usize,
        outcome: SendOutcome,
    },
    Arrive {
        pick: usize,
    },
    Lose {
        pick: usize,
    },
    FinishReceive {
        pick: usize,
        outcome: ReceiveOutcome,
    },
    SendDone,
    ReceiveDone,
    TakeEntry,
    Disconnect,
    Connect {
        server: usize,
    },
    Recreate,
}

/// A step, and the host and VI that it is about.
type Operation = (usize, usize, Step);

fn operation() -> impl Strategy<Value = Operation> {
    let fault = || {
        prop_oneof![
            8 => Just(None),
            1 => Just(Some(Fault::Format)),
            1 => Just(Some(Fault::Protection)),
            1 => Just(Some(Fault::Length)),
        ]
    };
    let pick = || 0_usize..16;
    let sent = prop_oneof![
        6 => Just(SendOutcome::Sent),
        1 => Just(SendOutcome::CutShort),
        1 => Just(SendOutcome::TransportFailed),
    ];
    let received = prop_oneof![
        6 => Just(ReceiveOutcome::Placed),
        1 => (0_u32..30).prop_map(|placed_bytes| ReceiveOutcome::CutShort { placed_bytes }),
        1 => Just(ReceiveOutcome::Corrupt),
    ];
    let step = prop_oneof![
        12 => (0_u32..20, fault(), any::<bool>())
            .prop_map(|(length, fault, immediate)| Step::PostSend { length, fault, immediate }),
        12 => (0_u32..25, fault())
            .prop_map(|(capacity, fault)| Step::PostReceive { capacity, fault }),
        12 => Just(Step::StartSend),
        10 => (pick(), sent).prop_map(|(pick, outcome)| Step::FinishSend { pick, outcome }),
        12 => pick().prop_map(|pick| Step::Arrive { pick }),
        1 => pick().prop_map(|pick| Step::Lose { pick }),
        10 => (pick(), received)
            .prop_map(|(pick, outcome)| Step::FinishReceive { pick, outcome }),
        8 => Just(Step::SendDone),
        8 => Just(Step::ReceiveDone),
        6 => Just(Step::TakeEntry),
        1 => Just(Step::Disconnect),
        5 => (0..VIS).prop_map(|server| Step::Connect { server }),
        1 => Just(Step::Recreate),
    ];
    (0_usize..2, 0..VIS, step)
}

#[derive(Clone, Copy, Debug)]
enum Progress {
    Posted,
    Started(WorkId),
    Finished {
        status: u32,
        length: u32,
        immediate: Option<u32>,
    },
}

#[derive(Clone, Debug)]
struct Entry {
    cookie: u64,
    /// Of a send its length, of a receive its capacity.
    length: u32,
    immediate: Option<u32>,
    fault: Option<Fault>,
    progress: Progress,
    /// Whether the completion queue has told of it.
    told: bool,
}

/// One VI as the reference sees it.
#[derive(Debug)]
struct ModelVi {
    id: ViId,
    state: ViState,
    peer: Option<(usize, usize)>,
    /// Counts connections, so that a message of an earlier one is known.
    connection: u32,
    /// Sends, receives.
    queues: [Vec<Entry>; 2],
    drops: u32,
    lost: u32,
}

#[derive(Clone, Debug)]
struct Message {
    to: (usize, usize),
    vi: ViId,
    connection: u32,
    header: MessageHeader,
}

struct World {
    pair: Pair,
    completion_queues: [CompletionQueueId; 2],
    vis: [Vec<ModelVi>; 2],
    network: Vec<Message>,
    entries: [VecDeque<(ViId, Queue)>; 2],
    cookies: u64,
    connections: u32,
    /// Posted and not yet returned, in post order.
    owed: BTreeMap<(ViId, usize, Queue), VecDeque<u64>>,
    delivered: BTreeSet<u32>,
    drops_told: BTreeMap<(usize, ViId), u32>,
    losses_told: BTreeMap<(usize, ViId), u32>,
}

impl World {
    fn new() -> Self {
        let attributes = NicAttributes {
            max_descriptors_per_queue: DEPTH as u32,
            max_segments_per_descriptor: 2,
            ..NicAttributes::default()
        };
        let mut pair = Pair::unconnected_with(attributes);
        let completion_queues =
            [0, 1].map(|host| pair.hosts[host].nic.create_completion_queue(1).unwrap());
        let mut world = Self {
            pair,
            completion_queues,
            vis: [Vec::new(), Vec::new()],
            network: Vec::new(),
            entries: [VecDeque::new(), VecDeque::new()],
            cookies: 0,
            connections: 0,
            owed: BTreeMap::new(),
            delivered: BTreeSet::new(),
            drops_told: BTreeMap::new(),
            losses_told: BTreeMap::new(),
        };
        for host in 0..2 {
            for _ in 0..VIS {
                let vi = world.create(host);
                world.vis[host].push(vi);
            }
        }
        world
    }

    fn create(&mut self, host: usize) -> ModelVi {
        let queue = Some(self.completion_queues[host]);
        let attributes = self.pair.hosts[host].attributes();
        ModelVi {
            id: self.pair.hosts[host]
                .nic
                .create_vi(attributes, queue, queue)
                .unwrap(),
            state: ViState::Idle,
            peer: None,
            connection: 0,
            queues: [Vec::new(), Vec::new()],
            drops: 0,
            lost: 0,
        }
    }

    fn step(&mut self, (host, which, step): Operation) {
        let vi = self.vis[host][which].id;
        match step {
            Step::PostSend {
                length,
                fault,
                immediate,
            } => {
                self.post(host, which, Queue::Send, (length, fault, immediate));
            }
            Step::PostReceive { capacity, fault } => {
                // A receive's own length field means nothing.
                let fault = fault.filter(|fault| !matches!(fault, Fault::Length));
                // Nor does its immediate data.
                let immediate = self.cookies.is_multiple_of(2);
                self.post(host, which, Queue::Receive, (capacity, fault, immediate));
            }
            Step::StartSend => self.start_send(host, which),
            Step::FinishSend { pick, outcome } => {
                let error = match outcome {
                    SendOutcome::CutShort => 0x10,
                    SendOutcome::TransportFailed => 0x40,
                    _ => 0,
                };
                let Some((index, work)) = self.under_way(host, which, Queue::Send, pick) else {
                    return;
                };
                assert!(self.pair.hosts[host].nic.finish_send(vi, work, outcome));
                assert!(!self.pair.hosts[host].nic.finish_send(vi, work, outcome));
                finish_send(&mut self.vis[host][which].queues[0][index], error);
            }
            Step::Arrive { pick } => self.arrive(pick),
            Step::Lose { pick } => {
                if !self.network.is_empty() {
                    self.network.remove(pick % self.network.len());
                }
            }
            Step::FinishReceive { pick, outcome } => {
                let Some((index, work)) = self.under_way(host, which, Queue::Receive, pick) else {
                    return;
                };
                assert!(self.pair.hosts[host].nic.finish_receive(vi, work, outcome));
                assert!(!self.pair.hosts[host].nic.finish_receive(vi, work, outcome));
                let entry = &mut self.vis[host][which].queues[1][index];
                let (length, immediate) = (entry.length, entry.immediate);
                entry.progress = match outcome {
                    ReceiveOutcome::CutShort { placed_bytes } => Progress::Finished {
                        status: 0x0001_0011,
                        length: placed_bytes.min(length),
                        immediate: None,
                    },
                    ReceiveOutcome::Corrupt => Progress::Finished {
                        status: 0x0001_0041,
                        length: 0,
                        immediate: None,
                    },
                    _ => {
                        let status = if immediate.is_some() {
                            0x0009_0001
                        } else {
                            0x0001_0001
                        };
                        Progress::Finished {
                            status,
                            length,
                            immediate,
                        }
                    }
                };
            }
            Step::SendDone => {
                self.done(host, which, Queue::Send);
            }
            Step::ReceiveDone => {
                self.done(host, which, Queue::Receive);
            }
            Step::TakeEntry => self.take_entry(host),
            Step::Disconnect => self.disconnect(host, which),
            Step::Connect { server } => self.connect(host, which, server),
            Step::Recreate => self.recreate(host, which),
        }
    }

    fn post(
        &mut self,
        host: usize,
        which: usize,
        queue: Queue,
        (length, fault, immediate): (u32, Option<Fault>, bool),
    ) {
        let cookie = self.cookies;
        let source = &self.pair.hosts[host];
        let mut data = vec![
            source.data(0, length / 2),
            source.data(0, length - length / 2),
        ];
        match fault {
            Some(Fault::Format) => data.push(source.data(0, 0)),
            Some(Fault::Protection) => data[0] = source.data(MEMORY_BYTES, 1),
            Some(Fault::Length) | None => {}
        }
        let mut descriptor = Descriptor::send(Segments::from_slice(&data), cookie);
        if matches!(fault, Some(Fault::Length)) {
            descriptor.length += 1;
        }
        let immediate = immediate.then_some(cookie as u32);
        descriptor.immediate = immediate;
        let declared = descriptor.length;
        let model = &mut self.vis[host][which];
        let nic = &mut self.pair.hosts[host].nic;
        let posted = match queue {
            Queue::Send => nic.post_send(model.id, descriptor),
            Queue::Receive => nic.post_receive(model.id, descriptor),
        };
        let entries = &mut model.queues[queue as usize];
        if entries.len() >= DEPTH {
            assert_eq!(
                posted,
                Err(PostError::QueueFull {
                    limit: DEPTH as u32
                })
            );
            return;
        }
        assert_eq!(posted, Ok(()));
        self.cookies += 1;
        let length = if queue == Queue::Send {
            declared
        } else {
            length
        };
        let progress = Progress::Posted;
        entries.push(Entry {
            cookie,
            length,
            immediate,
            fault,
            progress,
            told: false,
        });
        self.owed
            .entry((model.id, host, queue))
            .or_default()
            .push_back(cookie);
        let flushed = match queue {
            Queue::Send => model.state != ViState::Connected,
            Queue::Receive => model.state == ViState::Error,
        };
        if flushed {
            flush(model, queue);
        }
    }

    fn start_send(&mut self, host: usize, which: usize) {
        let started = self.pair.hosts[host]
            .nic
            .start_send(self.vis[host][which].id);
        let model = &mut self.vis[host][which];
        if model.state != ViState::Connected {
            assert_eq!(started, None);
            return;
        }
        let to = model.peer.expect("a connected VI has a peer");
        for entry in &mut model.queues[0] {
            if !matches!(entry.progress, Progress::Posted) {
                continue;
            }
            let error = match entry.fault {
                Some(Fault::Format) => 0x2,
                Some(Fault::Protection) => 0x4,
                Some(Fault::Length) => 0x8,
                None => {
                    let started = started.expect("there is a good send");
                    assert_eq!(started.header.length, entry.length);
                    assert_eq!(started.header.immediate, entry.immediate);
                    entry.progress = Progress::Started(started.work);
                    let (vi, connection) = (started.peer.vi, model.connection);
                    assert_eq!(started.peer.host.get() as usize, to.0);
                    assert_eq!(vi, self.vis[to.0][to.1].id);
                    let header = started.header;
                    self.network.push(Message {
                        to,
                        vi,
                        connection,
                        header,
                    });
                    return;
                }
            };
            finish_send(entry, error);
        }
        assert_eq!(started, None);
    }

    fn under_way(
        &self,
        host: usize,
        which: usize,
        queue: Queue,
        pick: usize,
    ) -> Option<(usize, WorkId)> {
        let entries = self.vis[host][which].queues[queue as usize]
            .iter()
            .enumerate();
        let under_way: Vec<_> = entries
            .filter_map(|(index, entry)| match entry.progress {
                Progress::Started(work) => Some((index, work)),
                _ => None,
            })
            .collect();
        (!under_way.is_empty()).then(|| under_way[pick % under_way.len()])
    }

    fn arrive(&mut self, pick: usize) {
        if self.network.is_empty() {
            return;
        }
        let message = self.network.remove(pick % self.network.len());
        let (host, which) = message.to;
        let verdict = self.pair.hosts[host]
            .nic
            .start_receive(message.vi, &message.header);
        let model = &mut self.vis[host][which];
        let current = model.id == message.vi
            && model.state == ViState::Connected
            && model.connection == message.connection;
        if !current {
            assert_eq!(verdict, ReceiveVerdict::Drop(DropReason::NotConnected));
            return;
        }
        let next = model.queues[1]
            .iter_mut()
            .find(|e| matches!(e.progress, Progress::Posted));
        let Some(entry) = next else {
            assert_eq!(verdict, ReceiveVerdict::Drop(DropReason::NoDescriptor));
            model.drops += 1;
            return;
        };
        let (error, reason) = match entry.fault {
            Some(Fault::Format) => (0x0001_0003, DropReason::Format),
            Some(Fault::Protection) => (0x0001_0005, DropReason::Protection),
            _ if message.header.length > entry.length => (0x0001_0009, DropReason::TooLong),
            _ => {
                let ReceiveVerdict::Place(receive) = verdict else {
                    panic!("{verdict:?}")
                };
                assert_eq!(receive.length, message.header.length);
                entry.length = message.header.length;
                entry.immediate = message.header.immediate;
                entry.progress = Progress::Started(receive.work);
                return;
            }
        };
        assert_eq!(verdict, ReceiveVerdict::Drop(reason));
        entry.progress = Progress::Finished {
            status: error,
            length: 0,
            immediate: None,
        };
    }

    /// Takes a completion, if there is one; whether there was.
    fn done(&mut self, host: usize, which: usize, queue: Queue) -> bool {
        let model = &mut self.vis[host][which];
        let nic = &mut self.pair.hosts[host].nic;
        let done = match queue {
            Queue::Send => nic.send_done(model.id),
            Queue::Receive => nic.receive_done(model.id),
        };
        let entries = &mut model.queues[queue as usize];
        let Some(head) = entries.first() else {
            assert_eq!(done, Done::Empty);
            return false;
        };
        let Progress::Finished {
            status,
            length,
            immediate,
        } = head.progress
        else {
            assert_eq!(done, Done::NotDone);
            return false;
        };
        let completion = done.completion().expect("the head is complete");
        assert_eq!(completion.cookie, head.cookie);
        assert_eq!(completion.status.bits(), status);
        assert_eq!(
            (completion.length, completion.immediate),
            (length, immediate)
        );
        entries.remove(0);
        let owed = self.owed.get_mut(&(model.id, host, queue)).unwrap();
        assert_eq!(
            owed.pop_front(),
            Some(completion.cookie),
            "once, in post order"
        );
        if let Some(immediate) = immediate {
            assert!(
                self.delivered.insert(immediate),
                "delivered twice: {immediate}"
            );
        }
        true
    }

    fn take_entry(&mut self, host: usize) {
        let nic = &mut self.pair.hosts[host].nic;
        let entry = nic.completion_queue_done(self.completion_queues[host]);
        let expected = self.entries[host].pop_front();
        assert_eq!(
            entry,
            expected.map(|(vi, queue)| CompletionEntry { vi, queue })
        );
    }

    fn disconnect(&mut self, host: usize, which: usize) {
        let model = &mut self.vis[host][which];
        self.pair.hosts[host].nic.disconnect(model.id).unwrap();
        flush(model, Queue::Send);
        flush(model, Queue::Receive);
        model.state = ViState::Idle;
        let peer = model.peer.take();
        self.pair.carry();
        if let Some((host, which)) = peer {
            let model = &mut self.vis[host][which];
            flush(model, Queue::Send);
            flush(model, Queue::Receive);
            model.state = ViState::Error;
            model.peer = None;
            model.lost += 1;
        }
    }

    fn connect(&mut self, host: usize, client: usize, server: usize) {
        let other = 1 - host;
        let ids = [self.vis[host][client].id, self.vis[other][server].id];
        let idle = |model: &ModelVi| model.state == ViState::Idle;
        if !idle(&self.vis[host][client]) || !idle(&self.vis[other][server]) {
            return;
        }
        let now = self.pair.now;
        let name = address(other, "server");
        let wait = self.pair.hosts[other]
            .nic
            .connect_wait(name.clone(), now, SOON)
            .unwrap();
        let local = address(host, "client");
        self.pair.hosts[host]
            .nic
            .connect_request(ids[0], local, name, now, SOON)
            .unwrap();
        self.pair.carry();
        let mut accepted = false;
        for event in self.events(other) {
            if let Event::ConnectionRequested {
                wait: met, request, ..
            } = event
            {
                assert_eq!(met, wait);
                self.pair.hosts[other].nic.accept(request, ids[1]).unwrap();
                accepted = true;
            }
        }
        assert!(accepted);
        self.pair.carry();
        self.connections += 1;
        for (host, which, peer) in [
            (host, client, (other, server)),
            (other, server, (host, client)),
        ] {
            let model = &mut self.vis[host][which];
            model.state = ViState::Connected;
            model.peer = Some(peer);
            model.connection = self.connections;
        }
    }

    fn recreate(&mut self, host: usize, which: usize) {
        let model = &self.vis[host][which];
        let vi = model.id;
        let destroyed = self.pair.hosts[host].nic.destroy_vi(vi);
        if model.state == ViState::Connected {
            let state = ViState::Connected;
            assert_eq!(destroyed, Err(ViError::InvalidState { state }));
            return;
        }
        assert_eq!(destroyed, Ok(()));
        self.entries[host].retain(|(owner, _)| *owner != vi);
        self.owed
            .retain(|(owner, at, _), _| (*owner, *at) != (vi, host));
        let new = self.create(host);
        assert_ne!(new.id, vi);
        self.vis[host][which] = new;
    }

    /// Takes a host's events, and keeps count of those that the reference foretells.
    fn events(&mut self, host: usize) -> Vec<Event> {
        let events = self.pair.hosts[host].events();
        for event in &events {
            match event {
                Event::ReceiveQueueEmpty { vi, dropped } => {
                    *self.drops_told.entry((host, *vi)).or_default() += dropped;
                }
                Event::ConnectionLost { vi } => {
                    *self.losses_told.entry((host, *vi)).or_default() += 1;
                }
                _ => {}
            }
        }
        events
    }

    /// What must hold after every step.
    fn check(&mut self) {
        for host in 0..2 {
            for model in &mut self.vis[host] {
                for queue in [Queue::Send, Queue::Receive] {
                    let entries = &mut model.queues[queue as usize];
                    let visible = |e: &&mut Entry| matches!(e.progress, Progress::Finished { .. });
                    for entry in entries.iter_mut().take_while(visible).filter(|e| !e.told) {
                        entry.told = true;
                        self.entries[host].push_back((model.id, queue));
                    }
                }
                let information = self.pair.hosts[host].nic.query_vi(model.id).unwrap();
                assert_eq!(information.state, model.state);
                assert_eq!(information.send_queue_empty, model.queues[0].is_empty());
                assert_eq!(information.receive_queue_empty, model.queues[1].is_empty());
            }
            let nic = &self.pair.hosts[host].nic;
            let information = nic
                .query_completion_queue(self.completion_queues[host])
                .unwrap();
            assert_eq!(
                information.entries_waiting as usize,
                self.entries[host].len()
            );
            assert_eq!(nic.poll_timeout(), None, "nothing is left open");
        }
    }

    /// Disconnects everything and takes everything back.
    fn finish(mut self) {
        for host in 0..2 {
            for which in 0..VIS {
                self.disconnect(host, which);
                self.check();
            }
        }
        for host in 0..2 {
            for which in 0..VIS {
                for queue in [Queue::Send, Queue::Receive] {
                    while self.done(host, which, queue) {}
                    assert!(self.vis[host][which].queues[queue as usize].is_empty());
                }
            }
            while !self.entries[host].is_empty() {
                self.take_entry(host);
            }
            self.take_entry(host);
            self.events(host);
            for model in &self.vis[host] {
                let told = |counts: &BTreeMap<(usize, ViId), u32>| {
                    counts.get(&(host, model.id)).copied().unwrap_or(0)
                };
                assert_eq!(told(&self.drops_told), model.drops);
                assert_eq!(told(&self.losses_told), model.lost);
            }
        }
        assert!(
            self.owed.values().all(VecDeque::is_empty),
            "{:?}",
            self.owed
        );
    }
}

fn finish_send(entry: &mut Entry, error: u32) {
    let (status, length) = (0x0000_0001 | error, entry.length);
    entry.progress = Progress::Finished {
        status,
        length,
        immediate: None,
    };
}

fn flush(model: &mut ModelVi, queue: Queue) {
    for entry in &mut model.queues[queue as usize] {
        if matches!(entry.progress, Progress::Finished { .. }) {
            continue;
        }
        match queue {
            Queue::Send => finish_send(entry, 0x20),
            Queue::Receive => {
                let status = 0x0001_0021;
                entry.progress = Progress::Finished {
                    status,
                    length: 0,
                    immediate: None,
                };
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_operations_do_what_the_reference_does(
        operations in prop::collection::vec(operation(), 1..400)
    ) {
        let mut world = World::new();
        for operation in operations {
            world.step(operation);
            world.check();
        }
        world.finish();
    }
}
