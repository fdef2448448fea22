//! One side of a case: what it does by command, in this process or in another.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use viaduct_rdma::verbs::flags::{access, attribute};
use viaduct_rdma::verbs::{
    AddressAttributes, Capabilities, Completion, Mtu, QueuePairAttributes, QueuePairState,
    QueuePairType, ScatterGatherElement, SendOpcode, SharedReceiveAttributes,
};
use viaduct_rdma::{
    AddressHandle, AsyncElement, CompletionChannel, CompletionQueue, CompletionQueueOptions,
    Context, DatagramDestination, MemoryRegion, ProtectionDomain, QueuePair, QueuePairOptions,
    ReceiveRequest, SendRequest, SharedReceiveQueue, devices,
};

/// Words of the memory of a station.
pub(crate) const WORDS: usize = 1 << 17;
/// How long a completion that must come is waited for. Where a rule is broken on purpose it seldom
/// comes, and the sooner that is said the better.
fn patience() -> Duration {
    static SECONDS: LazyLock<u64> = LazyLock::new(|| match std::env::var_os(BROKEN_RULE) {
        None => 20,
        Some(_) => 3,
    });
    Duration::from_secs(*SECONDS)
}

/// The variable that names the rule.
const BROKEN_RULE: &str = "VIADUCT_BROKEN_RULE";
/// How long it is waited for one that must not come.
const SILENCE: Duration = Duration::from_millis(30);

/// What a station answers: numbers, or an errno.
pub(crate) type Reply = Result<Vec<u64>, i32>;

/// All rights of a region or a queue pair.
pub(crate) const ALL: u32 =
    access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;

/// Q_Key of all datagrams.
pub(crate) const QUEUE_KEY: u32 = 0x1234_5678;

/// The objects of one side.
pub(crate) struct Station {
    context: Context,
    domain: ProtectionDomain,
    channel: CompletionChannel,
    send_queue: CompletionQueue,
    receive_queue: CompletionQueue,
    shared: Option<SharedReceiveQueue>,
    pairs: Vec<QueuePair>,
    memory: Vec<u64>,
    regions: Vec<MemoryRegion>,
    address: AddressHandle,
}

type Made<T> = viaduct_rdma::Result<T>;

impl Station {
    pub(crate) fn new() -> Self {
        Self::make().expect("a station needs a device")
    }

    fn make() -> Made<Self> {
        let context = devices()[0].open()?;
        let domain = context.allocate_protection_domain()?;
        let channel = context.create_completion_channel()?;
        let options = CompletionQueueOptions {
            entries: 256,
            cookie: 1,
            channel: Some(channel),
            ..CompletionQueueOptions::default()
        };
        let send_queue = context.create_completion_queue(&options)?;
        let options = CompletionQueueOptions {
            cookie: 2,
            ..options
        };
        let receive_queue = context.create_completion_queue(&options)?;
        let memory = vec![0_u64; WORDS];
        let mut route = AddressAttributes {
            is_global: true,
            port: 1,
            ..AddressAttributes::default()
        };
        route.route.destination_gid = context.device().gid(1, 0)?.gid;
        let address = domain.create_address_handle(&route)?;
        let mut station = Self {
            context,
            domain,
            channel,
            send_queue,
            receive_queue,
            shared: None,
            pairs: Vec::new(),
            memory,
            regions: Vec::new(),
            address,
        };
        station
            .call("region", &[u64::from(ALL)])
            .expect("memory is registered");
        Ok(station)
    }

    /// Does what a command says. Numbers come and go in the order of the functions of [`Side`].
    pub(crate) fn call(&mut self, name: &str, numbers: &[u64]) -> Reply {
        self.answer(name, numbers).map_err(|error| error.errno())
    }

    fn answer(&mut self, name: &str, n: &[u64]) -> Made<Vec<u64>> {
        let none = Ok(Vec::new());
        match name {
            "region" => {
                let start = self.memory.as_ptr() as u64;
                let length = 8 * WORDS as u64;
                // SAFETY: the memory lives as long as the station.
                let region = unsafe {
                    self.domain
                        .register_memory(start, length, start, n[0] as u32)?
                };
                self.regions.push(region);
                Ok(vec![u64::from(region.memory_key()), start])
            }
            "foreign-region" => {
                let domain = self.context.allocate_protection_domain()?;
                let start = self.memory.as_ptr() as u64;
                // SAFETY: as above.
                let region = unsafe { domain.register_memory(start, 4096, start, ALL)? };
                Ok(vec![u64::from(region.memory_key()), start])
            }
            "deregister" => {
                self.regions[n[0] as usize].deregister()?;
                none
            }
            "shared" => {
                let attributes = SharedReceiveAttributes {
                    max_requests: n[0] as u32,
                    max_elements: 4,
                    limit: 0,
                };
                let shared = self.domain.create_shared_receive_queue(&attributes, 3)?;
                self.shared = Some(shared);
                none
            }
            "limit" => {
                let attributes = SharedReceiveAttributes {
                    limit: n[0] as u32,
                    ..SharedReceiveAttributes::default()
                };
                let shared = self.shared.expect("made before");
                shared.modify(
                    &attributes,
                    viaduct_rdma::verbs::flags::shared_receive::LIMIT,
                )?;
                none
            }
            "pair" => {
                let kind = QueuePairType::from_number(n[0] as u32).expect("a type");
                let options = QueuePairOptions {
                    kind,
                    capabilities: Capabilities {
                        max_send_requests: 64,
                        max_receive_requests: n[2] as u32,
                        max_send_elements: 4,
                        max_receive_elements: 4,
                        max_inline_bytes: 256,
                    },
                    send_queue: self.send_queue,
                    receive_queue: self.receive_queue,
                    shared_receive_queue: self.shared,
                    is_every_send_signaled: n[1] != 0,
                    cookie: 100 + self.pairs.len() as u64,
                };
                let pair = self.domain.create_queue_pair(&options)?;
                self.pairs.push(pair);
                Ok(vec![u64::from(pair.number())])
            }
            // The second goes as far as RTR.
            "up" | "half-up" => {
                let kind = self.pairs[n[0] as usize].query()?.1.kind;
                let states = [
                    QueuePairState::Init,
                    QueuePairState::ReadyToReceive,
                    QueuePairState::ReadyToSend,
                ];
                let count = if name == "up" { 3 } else { 2 };
                for state in states.into_iter().take(count) {
                    let (attributes, mask) = self.step(kind, state, n);
                    self.pairs[n[0] as usize].modify(&attributes, mask)?;
                }
                none
            }
            "modify" => {
                let state = QueuePairState::from_number(n[1] as u32).expect("a state");
                let attributes = QueuePairAttributes {
                    state,
                    ..QueuePairAttributes::default()
                };
                self.pairs[n[0] as usize].modify(&attributes, n[2] as u32)?;
                none
            }
            "state" => Ok(vec![u64::from(self.pairs[n[0] as usize].state()?.number())]),
            "query" => {
                let (attributes, options) = self.pairs[n[0] as usize].query()?;
                Ok(vec![
                    u64::from(attributes.destination),
                    u64::from(attributes.access_flags),
                    u64::from(attributes.timeout),
                    u64::from(attributes.retry_count),
                    u64::from(attributes.receiver_not_ready_retry),
                    u64::from(attributes.min_receiver_not_ready_timer),
                    u64::from(attributes.queue_key),
                    u64::from(attributes.path_mtu.number()),
                    u64::from(options.capabilities.max_inline_bytes),
                ])
            }
            "receive" => {
                let elements = [self.element(n[2], n[3], 0)];
                let request = ReceiveRequest {
                    request: n[1],
                    elements: if n[3] == 0 { &[] } else { &elements },
                };
                match self.shared {
                    Some(shared) if n[0] == u64::MAX => shared.post_receive(&request)?,
                    _ => self.pairs[n[0] as usize].post_receive(&request)?,
                }
                none
            }
            "send" => {
                let [
                    pair,
                    opcode,
                    flags,
                    request,
                    at,
                    length,
                    remote,
                    key,
                    immediate,
                    add,
                    swap,
                    to,
                    own_key,
                ] = n.try_into().expect("thirteen numbers");
                let elements = [self.element(at, length, own_key as u32)];
                let opcode = SendOpcode::from_number(opcode as u32).expect("an opcode");
                let mut send = SendRequest::new(request, opcode)
                    .with_flags(flags as u32)
                    .with_remote(remote, key as u32);
                if length > 0 {
                    send = send.with_elements(&elements);
                }
                send.immediate = immediate as u32;
                send.compare_add = add;
                send.swap = swap;
                if to != 0 {
                    send.datagram = Some(DatagramDestination {
                        address: self.address,
                        queue_pair: to as u32,
                        queue_key: if swap == 0 { QUEUE_KEY } else { swap as u32 },
                    });
                }
                // SAFETY: inline bytes lie in the station's memory.
                unsafe { self.pairs[pair as usize].post_send(&send)? };
                none
            }
            "poll-send" => self.poll(self.send_queue, n[0] != 0),
            "poll-receive" => self.poll(self.receive_queue, n[0] != 0),
            "write" => {
                self.memory[n[0] as usize..][..n.len() - 1].copy_from_slice(&n[1..]);
                none
            }
            "read" => {
                let words = &self.memory[n[0] as usize..][..n[1] as usize];
                // Another process writes them: each is read as it is now.
                Ok(words
                    .iter()
                    // SAFETY: words of a vector.
                    .map(|word| unsafe { std::ptr::from_ref(word).read_volatile() })
                    .collect())
            }
            "event" => {
                set_nonblocking(self.context.async_fd());
                let end = Instant::now() + if n[0] != 0 { patience() } else { SILENCE };
                loop {
                    match self.context.next_async_event() {
                        Ok(event) => {
                            let cookie = match event.element {
                                AsyncElement::CompletionQueue(cookie)
                                | AsyncElement::QueuePair(cookie)
                                | AsyncElement::SharedReceiveQueue(cookie) => cookie,
                                _ => 0,
                            };
                            self.acknowledge(cookie);
                            return Ok(vec![u64::from(event.kind.number()), cookie]);
                        }
                        Err(_) if Instant::now() < end => std::thread::yield_now(),
                        Err(_) => return none,
                    }
                }
            }
            "arm" => {
                self.receive_queue.arm(n[0] != 0)?;
                none
            }
            "channel" => {
                let end = Instant::now() + if n[0] != 0 { patience() } else { SILENCE };
                loop {
                    match self.channel.try_next_event() {
                        Ok(cookie) => {
                            self.receive_queue.acknowledge_events(1);
                            return Ok(vec![cookie]);
                        }
                        Err(_) if Instant::now() < end => std::thread::yield_now(),
                        Err(_) => return none,
                    }
                }
            }
            "small-queue" => {
                let options = CompletionQueueOptions {
                    entries: n[0] as u32,
                    cookie: 9,
                    ..CompletionQueueOptions::default()
                };
                self.receive_queue = self.context.create_completion_queue(&options)?;
                none
            }
            "resize" => Ok(vec![u64::from(self.receive_queue.resize(n[0] as u32)?)]),
            "destroy" => {
                match n[0] {
                    0 => self.domain.deallocate()?,
                    1 => self.receive_queue.destroy()?,
                    2 => self.channel.destroy()?,
                    3 => self.shared.expect("made before").destroy()?,
                    pair => self.pairs[pair as usize - 4].destroy()?,
                }
                none
            }
            "look" => {
                let end = Instant::now() + Duration::from_millis(n[0]);
                let mut one = [Completion::default()];
                while Instant::now() < end {
                    if self.receive_queue.poll(&mut one)? == 1 {
                        self.answer("receive", &[0, 1, 0, 300_000])?;
                    }
                }
                none
            }
            "counters" => {
                let counters = viaduct_rdma::Counters::of_this_process();
                Ok(vec![counters.kernel_copies, counters.packets])
            }
            "faults" => {
                let counters = viaduct_rdma::Counters::of_this_process();
                Ok(vec![
                    counters.lost,
                    counters.retries,
                    counters.not_ready,
                    counters.not_ready_retries,
                    counters.delayed,
                    counters.port_downs,
                    counters.broken_queue_pairs,
                ])
            }
            "port" => {
                let port = self.context.device().port(1)?;
                Ok(vec![
                    u64::from(port.state.number()),
                    u64::from(port.physical_state),
                ])
            }
            _ => panic!("a station does not know {name}"),
        }
    }

    fn acknowledge(&self, cookie: u64) {
        match cookie {
            3 => {
                if let Some(shared) = self.shared {
                    shared.acknowledge_async_events(1);
                }
            }
            1 | 2 | 9 => self.receive_queue.acknowledge_async_events(1),
            _ => {
                if let Some(pair) = self.pairs.get((cookie as usize).wrapping_sub(100)) {
                    pair.acknowledge_async_events(1);
                }
            }
        }
    }

    fn element(&self, at: u64, length: u64, key: u32) -> ScatterGatherElement {
        ScatterGatherElement {
            address: self.memory.as_ptr() as u64 + at,
            length: length as u32,
            local_key: if key == 0 {
                self.regions[0].memory_key()
            } else {
                key
            },
        }
    }

    /// Attributes of a step up; numbers are those of [`Side::up`].
    fn step(
        &self,
        kind: QueuePairType,
        state: QueuePairState,
        n: &[u64],
    ) -> (QueuePairAttributes, u32) {
        let mut attributes = QueuePairAttributes {
            state,
            port: 1,
            queue_key: QUEUE_KEY,
            destination: n[1] as u32,
            access_flags: n[2] as u32,
            path_mtu: Mtu::Bytes1024,
            receive_packet_number: 0xff_fffe,
            send_packet_number: 0xff_fffe,
            timeout: n[3] as u8,
            retry_count: n[4] as u8,
            receiver_not_ready_retry: n[5] as u8,
            min_receiver_not_ready_timer: 1,
            max_read_atomic: 4,
            max_destination_read_atomic: 4,
            ..QueuePairAttributes::default()
        };
        attributes.address.is_global = true;
        attributes.address.port = 1;
        if let Ok(entry) = self.context.device().gid(1, 0) {
            attributes.address.route.destination_gid = entry.gid;
        }
        let is_reliable = kind == QueuePairType::Rc;
        let is_datagram = kind == QueuePairType::Ud;
        let mut mask = attribute::STATE;
        match state {
            QueuePairState::Init => {
                mask |= attribute::PARTITION_KEY_INDEX | attribute::PORT;
                mask |= if is_datagram {
                    attribute::QUEUE_KEY
                } else {
                    attribute::ACCESS_FLAGS
                };
            }
            QueuePairState::ReadyToReceive => {
                if !is_datagram {
                    mask |= attribute::ADDRESS
                        | attribute::PATH_MTU
                        | attribute::DESTINATION
                        | attribute::RECEIVE_PACKET_NUMBER;
                }
                if is_reliable {
                    mask |= attribute::MAX_DESTINATION_READ_ATOMIC
                        | attribute::MIN_RECEIVER_NOT_READY_TIMER;
                }
            }
            _ => {
                mask |= attribute::SEND_PACKET_NUMBER;
                if is_reliable {
                    mask |= attribute::TIMEOUT
                        | attribute::RETRY_COUNT
                        | attribute::RECEIVER_NOT_READY_RETRY
                        | attribute::MAX_READ_ATOMIC;
                }
            }
        }
        (attributes, mask)
    }

    fn poll(&self, queue: CompletionQueue, must_come: bool) -> Made<Vec<u64>> {
        let mut one = [Completion::default()];
        let end = Instant::now() + if must_come { patience() } else { SILENCE };
        loop {
            if queue.poll(&mut one)? == 1 {
                let [done] = one;
                return Ok(vec![
                    done.request,
                    u64::from(done.status.number()),
                    u64::from(done.opcode.number()),
                    u64::from(done.byte_length),
                    u64::from(done.immediate),
                    u64::from(done.queue_pair),
                    u64::from(done.source_queue_pair),
                    u64::from(done.flags),
                ]);
            }
            if Instant::now() >= end {
                return Ok(Vec::new());
            }
        }
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        let _ = self.context.close();
    }
}

fn set_nonblocking(fd: i32) {
    // SAFETY: the call takes numbers.
    unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) };
}

/// Serves commands from standard input until it ends.
pub(crate) fn serve() {
    let mut station = Station::new();
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        if name == "new" {
            drop(station);
            station = Station::new();
            writeln!(output, "ok").expect("the case listens");
        } else {
            let numbers: Vec<u64> = words.map(|word| word.parse().expect("a number")).collect();
            match station.call(name, &numbers) {
                Ok(numbers) => {
                    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
                    writeln!(output, "ok {}", words.join(" ")).expect("the case listens");
                }
                Err(errno) => writeln!(output, "error {errno}").expect("the case listens"),
            }
        }
        output.flush().expect("the case listens");
    }
}

/// A station in another process.
pub(crate) struct Remote {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Remote {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// With variables in its environment.
    pub(crate) fn start_with(variables: &[(&str, &str)]) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .arg("--station")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process is started");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self {
            child,
            input,
            output,
        }
    }

    /// Says what to do, and does not wait until it is done.
    pub(crate) fn begin(&mut self, name: &str, numbers: &[u64]) {
        let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let line = format!("{name} {}", words.join(" "));
        writeln!(self.input, "{}", line.trim_end()).expect("the station listens");
    }

    fn call(&mut self, name: &str, numbers: &[u64]) -> Reply {
        self.begin(name, numbers);
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .expect("the station answers");
        let mut words = line.split_whitespace();
        match words.next() {
            Some("ok") => Ok(words.map(|word| word.parse().expect("a number")).collect()),
            Some("error") => Err(words
                .next()
                .and_then(|word| word.parse().ok())
                .expect("errno")),
            _ => panic!("the station died at `{name}`"),
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One side of a case.
pub(crate) enum Side {
    Here(Box<Station>),
    There(Remote),
}

/// A completion, in numbers.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) request: u64,
    pub(crate) status: u64,
    pub(crate) opcode: u64,
    pub(crate) bytes: u64,
    pub(crate) immediate: u64,
    pub(crate) pair: u64,
    pub(crate) source: u64,
    pub(crate) flags: u64,
}

/// A send with its defaults.
#[derive(Clone, Copy, Default)]
pub(crate) struct Post {
    pub(crate) pair: u64,
    pub(crate) opcode: u64,
    pub(crate) flags: u32,
    pub(crate) request: u64,
    pub(crate) at: u64,
    pub(crate) length: u64,
    pub(crate) remote: u64,
    pub(crate) key: u64,
    pub(crate) immediate: u64,
    pub(crate) add: u64,
    pub(crate) swap: u64,
    pub(crate) to: u64,
    pub(crate) own_key: u64,
}

impl Side {
    pub(crate) fn call(&mut self, name: &str, numbers: &[u64]) -> Reply {
        match self {
            Self::Here(station) => station.call(name, numbers),
            Self::There(remote) => remote.call(name, numbers),
        }
    }

    /// A call that succeeds.
    pub(crate) fn done(&mut self, name: &str, numbers: &[u64]) -> Vec<u64> {
        self.call(name, numbers)
            .unwrap_or_else(|errno| panic!("{name} {numbers:?} failed with errno {errno}"))
    }

    /// All objects anew.
    pub(crate) fn renew(&mut self) {
        match self {
            Self::Here(station) => **station = Station::new(),
            Self::There(remote) => {
                remote.call("new", &[]).expect("a new station");
            }
        }
    }

    pub(crate) fn post(&mut self, post: Post) -> Reply {
        self.call(
            "send",
            &[
                post.pair,
                post.opcode,
                u64::from(post.flags),
                post.request,
                post.at,
                post.length,
                post.remote,
                post.key,
                post.immediate,
                post.add,
                post.swap,
                post.to,
                post.own_key,
            ],
        )
    }

    pub(crate) fn send(&mut self, post: Post) {
        self.post(post).expect("the send is posted");
    }

    pub(crate) fn receive(&mut self, request: u64, at: u64, length: u64) {
        self.done("receive", &[0, request, at, length]);
    }

    fn completion(&mut self, name: &str, must_come: bool) -> Option<Done> {
        let numbers = self.done(name, &[u64::from(must_come)]);
        let [
            request,
            status,
            opcode,
            bytes,
            immediate,
            pair,
            source,
            flags,
        ] = numbers.try_into().ok()?;
        Some(Done {
            request,
            status,
            opcode,
            bytes,
            immediate,
            pair,
            source,
            flags,
        })
    }

    /// The completion of a send that must come.
    pub(crate) fn sent(&mut self) -> Done {
        self.completion("poll-send", true)
            .expect("a send completes")
    }

    /// The completion of a receive that must come.
    pub(crate) fn received(&mut self) -> Done {
        self.completion("poll-receive", true)
            .expect("a receive completes")
    }

    /// No send completes.
    pub(crate) fn nothing_sent(&mut self) {
        assert_eq!(self.completion("poll-send", false), None);
    }

    /// No receive completes.
    pub(crate) fn nothing_received(&mut self) {
        assert_eq!(self.completion("poll-receive", false), None);
    }

    /// The next asynchronous event: its type and the cookie of its object.
    pub(crate) fn event(&mut self) -> (u64, u64) {
        match self.done("event", &[1])[..] {
            [kind, cookie] => (kind, cookie),
            _ => panic!("an event comes"),
        }
    }

    pub(crate) fn words(&mut self, at: u64, count: u64) -> Vec<u64> {
        self.done("read", &[at / 8, count])
    }

    pub(crate) fn set_words(&mut self, at: u64, words: &[u64]) {
        let mut numbers = vec![at / 8];
        numbers.extend(words);
        self.done("write", &numbers);
    }

    pub(crate) fn state(&mut self) -> u64 {
        self.done("state", &[0])[0]
    }
}
