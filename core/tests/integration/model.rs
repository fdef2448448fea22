//! Random operations on two NICs against an obvious reference: lists of descriptors, each with its
//! state, searched from the front. Whatever the order of starting, arriving, finishing, losing and
//! disconnecting, at each reliability level, each descriptor comes back once, in post order, with
//! the status that the reference says; nothing is delivered twice; completion queues tell of each
//! completion once; a connection that ends is told once at each end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::common::*;
use proptest::prelude::*;
use viaduct_core::*;

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

#[derive(Clone, Copy, Debug)]
struct Send {
    operation: Operation,
    length: u32,
    fault: Option<Fault>,
    immediate: bool,
    fence: bool,
    /// Whether the remote address lies outside the peer's memory.
    is_astray: bool,
}

#[derive(Clone, Debug)]
enum Step {
    PostSend(Send),
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
    Acknowledge {
        pick: usize,
    },
    FailTransport,
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
type Action = (usize, usize, Step);

fn action() -> impl Strategy<Value = Action> {
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
    let kind = prop_oneof![
        4 => Just(Operation::SendReceive),
        2 => Just(Operation::RdmaWrite),
        1 => Just(Operation::RdmaRead),
    ];
    let flags = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.1));
    let send = (kind, 0_u32..20, fault(), flags).prop_map(
        |(operation, length, fault, (immediate, fence, is_astray))| Send {
            operation,
            length,
            fault,
            immediate,
            fence,
            is_astray,
        },
    );
    let step = prop_oneof![
        12 => send.prop_map(Step::PostSend),
        12 => (0_u32..25, fault())
            .prop_map(|(capacity, fault)| Step::PostReceive { capacity, fault }),
        12 => Just(Step::StartSend),
        10 => (pick(), sent).prop_map(|(pick, outcome)| Step::FinishSend { pick, outcome }),
        12 => pick().prop_map(|pick| Step::Arrive { pick }),
        1 => pick().prop_map(|pick| Step::Lose { pick }),
        10 => (pick(), received)
            .prop_map(|(pick, outcome)| Step::FinishReceive { pick, outcome }),
        10 => pick().prop_map(|pick| Step::Acknowledge { pick }),
        1 => Just(Step::FailTransport),
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
    /// What a send asks for; of a receive under way, what has taken it.
    operation: Operation,
    fence: bool,
    is_astray: bool,
    /// Of a receive under way, whose message has taken it.
    from: Option<Origin>,
}

/// A send under way: its host, VI and work.
type Origin = (usize, ViId, WorkId);

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
    remote: Option<RemoteSegment>,
    is_astray: bool,
    from: Origin,
}

struct World {
    level: ReliabilityLevel,
    pair: Pair,
    completion_queues: [CompletionQueueId; 2],
    vis: [Vec<ModelVi>; 2],
    network: Vec<Message>,
    acknowledgements: Vec<Origin>,
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
    fn new(level: ReliabilityLevel) -> Self {
        let attributes = NicAttributes {
            max_descriptors_per_queue: DEPTH as u32,
            max_segments_per_descriptor: 3,
            ..NicAttributes::default()
        };
        let mut pair = Pair::unconnected_with(attributes);
        let completion_queues =
            [0, 1].map(|host| pair.hosts[host].nic.create_completion_queue(1).unwrap());
        let mut world = Self {
            level,
            pair,
            completion_queues,
            vis: [Vec::new(), Vec::new()],
            network: Vec::new(),
            acknowledgements: Vec::new(),
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
        let attributes = ViAttributes {
            reliability: self.level,
            rdma_write: true,
            rdma_read: self.level.is_reliable(),
            ..self.pair.hosts[host].attributes()
        };
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

    fn step(&mut self, (host, which, step): Action) {
        let vi = self.vis[host][which].id;
        match step {
            Step::PostSend(send) => self.post(host, which, Queue::Send, send),
            Step::PostReceive { capacity, fault } => {
                let receive = Send {
                    operation: Operation::SendReceive,
                    length: capacity,
                    // A receive's own length field means nothing.
                    fault: fault.filter(|fault| !matches!(fault, Fault::Length)),
                    // Nor does its immediate data.
                    immediate: self.cookies.is_multiple_of(2),
                    fence: false,
                    is_astray: false,
                };
                self.post(host, which, Queue::Receive, receive);
            }
            Step::StartSend => self.start_send(host, which),
            Step::FinishSend { pick, outcome } => self.finish_send(host, which, pick, outcome),
            Step::Acknowledge { pick } => self.acknowledge(pick),
            Step::FailTransport => self.fail_transport(host, vi),
            Step::Arrive { pick } => self.arrive(pick),
            Step::Lose { pick } => {
                if !self.network.is_empty() {
                    let message = self.network.remove(pick % self.network.len());
                    if self.level.is_reliable() {
                        // What carries messages reliably says so when it cannot.
                        self.fail_transport(message.from.0, message.from.1);
                    }
                }
            }
            Step::FinishReceive { pick, outcome } => {
                self.finish_receive(host, which, pick, outcome);
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

    fn finish_send(&mut self, host: usize, which: usize, pick: usize, outcome: SendOutcome) {
        let Some((index, work)) = self.under_way(host, which, Queue::Send, pick) else {
            return;
        };
        let vi = self.vis[host][which].id;
        let nic = &mut self.pair.hosts[host].nic;
        assert!(nic.finish_send(vi, work, outcome));
        let entry = &mut self.vis[host][which].queues[0][index];
        let is_read = entry.operation == Operation::RdmaRead;
        match outcome {
            SendOutcome::Sent if self.level == ReliabilityLevel::ReliableReception && !is_read => {
                // Waits for its acknowledgement.
                assert!(nic.finish_send(vi, work, outcome));
                return;
            }
            SendOutcome::Sent => finish_send(entry, 0),
            _ if self.level.is_reliable() => self.broken((host, which), 0x40, 0x40),
            SendOutcome::CutShort => finish_send(entry, 0x10),
            _ => finish_send(entry, 0x40),
        }
        assert!(!self.pair.hosts[host].nic.finish_send(vi, work, outcome));
    }

    fn finish_receive(&mut self, host: usize, which: usize, pick: usize, outcome: ReceiveOutcome) {
        let Some((index, work)) = self.under_way(host, which, Queue::Receive, pick) else {
            return;
        };
        let model = &mut self.vis[host][which];
        let nic = &mut self.pair.hosts[host].nic;
        assert!(nic.finish_receive(model.id, work, outcome));
        assert!(!nic.finish_receive(model.id, work, outcome));
        let entry = &mut model.queues[1][index];
        let operation = match entry.operation {
            Operation::RdmaWrite => 0x0003_0001,
            _ => 0x0001_0001,
        };
        let (length, immediate) = (entry.length, entry.immediate);
        let (error, length, immediate) = match outcome {
            ReceiveOutcome::CutShort { placed_bytes } => (0x10, placed_bytes.min(length), None),
            ReceiveOutcome::Corrupt => (0x40, 0, None),
            _ => (0, length, immediate),
        };
        let flag = if immediate.is_some() { 0x0008_0000 } else { 0 };
        entry.progress = Progress::Finished {
            status: operation | error | flag,
            length,
            immediate,
        };
        if error == 0 {
            self.acknowledgements.extend(entry.from);
        } else if self.level.is_reliable() {
            self.broken((host, which), 0x40, 0x40);
        }
    }

    fn acknowledge(&mut self, pick: usize) {
        if self.acknowledgements.is_empty() {
            return;
        }
        let place = pick % self.acknowledgements.len();
        let (host, vi, work) = self.acknowledgements.remove(place);
        let completed = self.pair.hosts[host].nic.handle_acknowledgement(vi, work);
        let entry = self.send_under_way((host, vi, work));
        let expected = entry.filter(|_| self.level == ReliabilityLevel::ReliableReception);
        assert_eq!(completed, expected.is_some());
        if let Some((which, index)) = expected {
            finish_send(&mut self.vis[host][which].queues[0][index], 0);
        }
    }

    /// Where the reference has a send, if it is under way.
    fn send_under_way(&self, (host, vi, work): Origin) -> Option<(usize, usize)> {
        let which = self.vis[host].iter().position(|model| model.id == vi)?;
        let is_it = |e: &Entry| matches!(e.progress, Progress::Started(w) if w == work);
        let index = self.vis[host][which].queues[0].iter().position(is_it)?;
        Some((which, index))
    }

    fn fail_transport(&mut self, host: usize, vi: ViId) {
        let failed = self.pair.hosts[host].nic.handle_transport_failure(vi);
        let which = self.vis[host].iter().position(|model| model.id == vi);
        let connected = which.filter(|w| self.vis[host][*w].state == ViState::Connected);
        assert_eq!(failed, connected.is_some());
        if let Some(which) = connected {
            let error = if self.level.is_reliable() { 0x40 } else { 0x20 };
            self.broken((host, which), error, error);
        }
    }

    /// A connection breaks: what is under way at this end, at the other, has these errors.
    fn broken(&mut self, (host, which): (usize, usize), own: u32, others: u32) {
        // Two queues of a VI have no order between them, but what came before the break did.
        self.tell();
        self.pair.carry();
        let peer = self.vis[host][which].peer.expect("it is connected");
        for ((host, which), under_way) in [((host, which), own), (peer, others)] {
            let model = &mut self.vis[host][which];
            flush(model, Queue::Send, under_way);
            flush(model, Queue::Receive, under_way);
            model.state = ViState::Error;
            model.peer = None;
            model.lost += 1;
        }
    }

    fn post(&mut self, host: usize, which: usize, queue: Queue, send: Send) {
        let Send {
            operation,
            length,
            fault,
            immediate,
            fence,
            is_astray,
        } = send;
        let cookie = self.cookies;
        let source = &self.pair.hosts[host];
        let mut data = vec![
            source.data(0, length / 2),
            source.data(0, length - length / 2),
        ];
        match fault {
            Some(Fault::Format) => data.extend([source.data(0, 0); 2]),
            Some(Fault::Protection) => data[0] = source.data(MEMORY_BYTES, 1),
            Some(Fault::Length) | None => {}
        }
        let segments = if operation == Operation::SendReceive {
            Segments::from_slice(&data)
        } else {
            let offset = if is_astray { MEMORY_BYTES } else { 0 };
            Segments::with_remote(self.pair.hosts[1 - host].remote(offset), &data)
        };
        let mut descriptor = Descriptor {
            operation,
            queue_fence: fence,
            ..Descriptor::send(segments, cookie)
        };
        if matches!(fault, Some(Fault::Length)) {
            descriptor.length += 1;
        }
        let immediate = immediate.then_some(cookie as u32);
        descriptor.immediate = immediate;
        // A read takes no immediate data, and unreliable delivery has none.
        let is_illegal =
            operation == Operation::RdmaRead && (immediate.is_some() || !self.level.is_reliable());
        let fault = if is_illegal {
            Some(Fault::Format)
        } else {
            fault
        };
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
            operation,
            fence,
            is_astray,
            from: None,
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
            flush(model, queue, 0x20);
        }
    }

    fn start_send(&mut self, host: usize, which: usize) {
        let started = self.pair.hosts[host]
            .nic
            .start_send(self.vis[host][which].id);
        let level = self.level;
        let model = &mut self.vis[host][which];
        if model.state != ViState::Connected {
            assert_eq!(started, None);
            return;
        }
        let to = model.peer.expect("a connected VI has a peer");
        for index in 0..model.queues[0].len() {
            let under_way = |e: &&Entry| matches!(e.progress, Progress::Started(_));
            let earlier: Vec<_> = model.queues[0][..index].iter().filter(under_way).collect();
            let is_read = |e: &&Entry| e.operation == Operation::RdmaRead;
            let (is_last, reads) = (earlier.is_empty(), earlier.into_iter().any(|e| is_read(&e)));
            let entry = &mut model.queues[0][index];
            if !matches!(entry.progress, Progress::Posted) {
                continue;
            }
            let error = match entry.fault {
                Some(Fault::Format) => 0x2,
                Some(Fault::Protection) => 0x4,
                Some(Fault::Length) => 0x8,
                None if entry.fence && reads => break,
                None => {
                    let started = started.expect("there is a good send");
                    assert_eq!(started.header.operation, entry.operation);
                    assert_eq!(started.header.length, entry.length);
                    assert_eq!(started.header.immediate, entry.immediate);
                    entry.progress = Progress::Started(started.work);
                    let is_astray = entry.is_astray && entry.length > 0;
                    let (vi, connection) = (started.peer.vi, model.connection);
                    let from = (host, model.id, started.work);
                    assert_eq!(started.peer.host.get() as usize, to.0);
                    assert_eq!(vi, self.vis[to.0][to.1].id);
                    let remote = self.pair.hosts[host].nic.send_remote(from.1, from.2);
                    self.network.push(Message {
                        to,
                        vi,
                        connection,
                        header: started.header,
                        remote,
                        is_astray,
                        from,
                    });
                    return;
                }
            };
            if !level.is_reliable() {
                finish_send(entry, error);
            } else {
                // Breaks the connection, once those before it have ended.
                if is_last {
                    finish_send(entry, error);
                    self.broken((host, which), 0x20, 0x20);
                }
                break;
            }
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
        let mut place = pick % self.network.len();
        if self.level.is_reliable() {
            // In the order of their sending.
            let picked = &self.network[place];
            let same = |m: &Message| (m.connection, m.to) == (picked.connection, picked.to);
            place = self.network.iter().position(same).unwrap();
        }
        let message = self.network.remove(place);
        let (host, which) = message.to;
        let nic = &mut self.pair.hosts[host].nic;
        let header = &message.header;
        // The receive that was taken, if one was.
        let verdict: Result<Option<WorkId>, DropReason> = match header.operation {
            Operation::SendReceive => match nic.start_receive(message.vi, header) {
                ReceiveVerdict::Place(receive) => {
                    assert_eq!((receive.length, receive.receives), (header.length, 1));
                    Ok(Some(receive.work))
                }
                ReceiveVerdict::Drop(reason) => Err(reason),
            },
            operation => {
                let remote = message.remote.unwrap();
                let verdict = if operation == Operation::RdmaWrite {
                    nic.start_remote_write(message.vi, header, remote)
                } else {
                    nic.start_remote_read(message.vi, header, remote)
                };
                match verdict {
                    RemoteVerdict::Access(started) => {
                        if started.receive.is_none() && operation == Operation::RdmaWrite {
                            let placed = ReceiveOutcome::Placed;
                            assert!(nic.finish_remote_write(message.vi, started, placed));
                            self.acknowledgements.push(message.from);
                        }
                        Ok(started.receive)
                    }
                    RemoteVerdict::Drop(reason) => Err(reason),
                }
            }
        };
        let model = &mut self.vis[host][which];
        let current = model.id == message.vi
            && model.state == ViState::Connected
            && model.connection == message.connection;
        if !current {
            assert_eq!(verdict, Err(DropReason::NotConnected));
            return;
        }
        let is_write = header.operation == Operation::RdmaWrite;
        let takes_receive =
            header.operation == Operation::SendReceive || header.immediate.is_some();
        if !takes_receive {
            if message.is_astray {
                assert_eq!(verdict, Err(DropReason::RemoteProtection));
                self.refused(&message, 0x80);
            } else {
                assert_eq!(verdict, Ok(None));
            }
            return;
        }
        let next = model.queues[1]
            .iter_mut()
            .find(|e| matches!(e.progress, Progress::Posted));
        let Some(entry) = next else {
            assert_eq!(verdict, Err(DropReason::NoDescriptor));
            model.drops += 1;
            self.refused(&message, 0x100);
            return;
        };
        let operation = if is_write { 0x0003_0001 } else { 0x0001_0001 };
        let (error, reason, remote_error) = match entry.fault {
            Some(Fault::Format) => (0x2, DropReason::Format, 0x100),
            _ if is_write && message.is_astray => (0x80, DropReason::RemoteProtection, 0x80),
            // Its first byte lies outside: a message of none is not looked at.
            Some(Fault::Protection) if !is_write && header.length > 0 => {
                (0x4, DropReason::Protection, 0x100)
            }
            _ if !is_write && header.length > entry.length => (0x8, DropReason::TooLong, 0x100),
            _ => {
                entry.length = header.length;
                entry.immediate = header.immediate;
                entry.operation = header.operation;
                entry.from = Some(message.from);
                entry.progress = Progress::Started(verdict.unwrap().unwrap());
                return;
            }
        };
        assert_eq!(verdict, Err(reason));
        entry.progress = Progress::Finished {
            status: operation | error,
            length: 0,
            immediate: None,
        };
        self.refused(&message, remote_error);
    }

    /// The target has refused a message: at the reliable levels that breaks the connection, and
    /// at reliable reception, or if it is a read, its sender is told.
    fn refused(&mut self, message: &Message, error: u32) {
        if !self.level.is_reliable() {
            return;
        }
        let is_told = self.level == ReliabilityLevel::ReliableReception
            || message.header.operation == Operation::RdmaRead;
        if is_told && let Some((which, index)) = self.send_under_way(message.from) {
            finish_send(&mut self.vis[message.from.0][which].queues[0][index], error);
        }
        self.broken(message.to, 0x20, 0x20);
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
        flush(model, Queue::Send, 0x20);
        flush(model, Queue::Receive, 0x20);
        model.state = ViState::Idle;
        let peer = model.peer.take();
        self.pair.carry();
        if let Some((host, which)) = peer {
            let model = &mut self.vis[host][which];
            flush(model, Queue::Send, 0x20);
            flush(model, Queue::Receive, 0x20);
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

    /// What became visible since the last call goes into the completion queues.
    fn tell(&mut self) {
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
            }
        }
    }

    /// What must hold after every step.
    fn check(&mut self) {
        self.tell();
        for host in 0..2 {
            for model in &self.vis[host] {
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
    let operation = match entry.operation {
        Operation::RdmaWrite => 0x0002_0001,
        Operation::RdmaRead => 0x0004_0001,
        _ => 0x0000_0001,
    };
    entry.progress = Progress::Finished {
        status: operation | error,
        length: entry.length,
        immediate: None,
    };
}

/// Everything pending comes back: with `under_way` what was started, as flushed what was not.
fn flush(model: &mut ModelVi, queue: Queue, under_way: u32) {
    for entry in &mut model.queues[queue as usize] {
        let error = match entry.progress {
            Progress::Finished { .. } => continue,
            Progress::Started(_) => under_way,
            Progress::Posted => 0x20,
        };
        match queue {
            Queue::Send => finish_send(entry, error),
            Queue::Receive => {
                entry.progress = Progress::Finished {
                    status: 0x0001_0001 | error,
                    length: 0,
                    immediate: None,
                };
            }
        }
    }
}

fn run(level: ReliabilityLevel, actions: Vec<Action>) {
    let mut world = World::new(level);
    for action in actions {
        world.step(action);
        world.check();
    }
    world.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn unreliable_delivery_does_what_the_reference_does(
        actions in prop::collection::vec(action(), 1..400)
    ) {
        run(ReliabilityLevel::Unreliable, actions);
    }

    #[test]
    fn reliable_delivery_does_what_the_reference_does(
        actions in prop::collection::vec(action(), 1..400)
    ) {
        run(ReliabilityLevel::ReliableDelivery, actions);
    }

    #[test]
    fn reliable_reception_does_what_the_reference_does(
        actions in prop::collection::vec(action(), 1..400)
    ) {
        run(ReliabilityLevel::ReliableReception, actions);
    }
}
