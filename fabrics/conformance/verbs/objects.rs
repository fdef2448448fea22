//! What a station of the suite for queue pairs has, and what its commands do.
//!
//! This is compiled into each fabric's test, over the fabric's own calls, of which `fabric` there
//! has those that are not the same everywhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use viaduct_conformance::mutants::is_rule_broken;
use viaduct_conformance::verbs::{ALL, QUEUE_KEY, Reply, WORDS};

use super::fabric::verbs::flags::shared_receive;
use super::fabric::verbs::{
    AddressAttributes, Capabilities, Completion, Mtu, QueuePairAttributes, QueuePairState,
    QueuePairType, ScatterGatherElement, SendOpcode, SharedReceiveAttributes,
};
use super::fabric::{
    self, AddressHandle, AsyncElement, CompletionChannel, CompletionQueue, CompletionQueueOptions,
    Context, DatagramDestination, Made, MemoryRegion, ProtectionDomain, QueuePair,
    QueuePairOptions, ReceiveRequest, SendRequest, SharedReceiveQueue,
};

/// How long a completion that must come is waited for. Where a rule is broken on purpose it seldom
/// comes, and the sooner that is said the better.
fn patience() -> Duration {
    Duration::from_secs(if is_rule_broken() { 3 } else { 20 })
}

/// How long it is waited for one that must not come.
const SILENCE: Duration = Duration::from_millis(30);

/// Words of a page.
const PAGE_WORDS: usize = 512;

/// A page, where pages begin: fabrics may share whole ones.
#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u64; PAGE_WORDS]);

/// The words of pages that follow each other.
fn words_of(pages: &[Page]) -> &[u64] {
    // SAFETY: a page is its words, and nothing else.
    unsafe { std::slice::from_raw_parts(pages.as_ptr().cast(), pages.len() * PAGE_WORDS) }
}

/// The same to write.
fn words_of_mut(pages: &mut [Page]) -> &mut [u64] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), pages.len() * PAGE_WORDS) }
}

/// The objects of one side.
pub(crate) struct Objects {
    context: Context,
    domain: ProtectionDomain,
    channel: CompletionChannel,
    send_queue: CompletionQueue,
    receive_queue: CompletionQueue,
    shared: Option<SharedReceiveQueue>,
    pairs: Vec<QueuePair>,
    memory: Vec<Page>,
    regions: Vec<MemoryRegion>,
    address: AddressHandle,
}

impl Objects {
    pub(crate) fn new(home: &fabric::Home) -> Self {
        Self::make(home).expect("a station needs a device")
    }

    fn make(home: &fabric::Home) -> Made<Self> {
        let context = fabric::open(home)?;
        let domain = context.allocate_protection_domain()?;
        let channel = context.create_completion_channel()?;
        let options = CompletionQueueOptions {
            entries: 256,
            cookie: 1,
            channel: Some(Clone::clone(&channel)),
            ..CompletionQueueOptions::default()
        };
        let send_queue = context.create_completion_queue(&options)?;
        let options = CompletionQueueOptions {
            cookie: 2,
            ..options
        };
        let receive_queue = context.create_completion_queue(&options)?;
        let memory = vec![Page([0; PAGE_WORDS]); WORDS / PAGE_WORDS];
        let mut route = AddressAttributes {
            is_global: true,
            port: 1,
            ..AddressAttributes::default()
        };
        route.route.destination_gid = fabric::gid(&context)?;
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
                let key = u64::from(region.memory_key());
                self.regions.push(region);
                Ok(vec![key, start])
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
                let shared = self.shared.as_ref().expect("made before");
                shared.modify(&attributes, shared_receive::LIMIT)?;
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
                    send_queue: Clone::clone(&self.send_queue),
                    receive_queue: Clone::clone(&self.receive_queue),
                    shared_receive_queue: Clone::clone(&self.shared),
                    is_every_send_signaled: n[1] != 0,
                    cookie: 100 + self.pairs.len() as u64,
                };
                let pair = self.domain.create_queue_pair(&options)?;
                let number = u64::from(pair.number());
                self.pairs.push(pair);
                Ok(vec![number])
            }
            // The second goes as far as RTR.
            "up" | "half-up" => {
                let kind = self.pairs[n[0] as usize].query()?.1.kind;
                let count = if name == "up" { 3 } else { 2 };
                let attributes = self.attributes(n)?;
                for (attributes, mask) in attributes.steps_up(kind).take(count) {
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
                match &self.shared {
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
                        address: fabric::way(&self.address),
                        queue_pair: to as u32,
                        queue_key: if swap == 0 { QUEUE_KEY } else { swap as u32 },
                    });
                }
                // SAFETY: inline bytes lie in the station's memory.
                unsafe { self.pairs[pair as usize].post_send(&send)? };
                none
            }
            "poll-send" => self.poll(&self.send_queue, n[0] != 0),
            "poll-receive" => self.poll(&self.receive_queue, n[0] != 0),
            "write" => {
                words_of_mut(&mut self.memory)[n[0] as usize..][..n.len() - 1]
                    .copy_from_slice(&n[1..]);
                none
            }
            "read" => {
                let words = &words_of(&self.memory)[n[0] as usize..][..n[1] as usize];
                // Another process writes them: each is read as it is now.
                Ok(words
                    .iter()
                    // SAFETY: words of a vector.
                    .map(|word| unsafe { std::ptr::from_ref(word).read_volatile() })
                    .collect())
            }
            "event" => {
                let end = self.end(n[0] != 0);
                loop {
                    match self.context.try_next_async_event() {
                        Ok(event) => {
                            let cookie = match event.element {
                                AsyncElement::CompletionQueue(cookie)
                                | AsyncElement::QueuePair(cookie)
                                | AsyncElement::SharedReceiveQueue(cookie) => cookie,
                                _ => 0,
                            };
                            if !is_held(n) {
                                self.acknowledge(cookie);
                            }
                            return Ok(vec![u64::from(event.kind.number()), cookie]);
                        }
                        Err(_) if fabric::now(&self.context) < end => fabric::relax(&self.context),
                        Err(_) => return none,
                    }
                }
            }
            "arm" => {
                self.receive_queue.arm(n[0] != 0)?;
                none
            }
            "channel" => {
                let end = self.end(n[0] != 0);
                loop {
                    match self.channel.try_next_event() {
                        Ok(cookie) => {
                            if !is_held(n) {
                                self.receive_queue.acknowledge_events(1);
                            }
                            return Ok(vec![cookie]);
                        }
                        Err(_) if fabric::now(&self.context) < end => fabric::relax(&self.context),
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
                    3 => self.shared.as_ref().expect("made before").destroy()?,
                    pair => self.pairs[pair as usize - 4].destroy()?,
                }
                none
            }
            // Whether it was there until an event that the station holds was acknowledged.
            "destroy-held" => {
                let is_acknowledged = Arc::new(AtomicBool::new(false));
                let told = Arc::clone(&is_acknowledged);
                let queue = Clone::clone(&self.receive_queue);
                let (shared, pairs) = (Clone::clone(&self.shared), Clone::clone(&self.pairs));
                let object = n[0];
                fabric::later(&self.context, SILENCE, move || {
                    told.store(true, Ordering::Relaxed);
                    match (object, &shared) {
                        (1, _) => queue.acknowledge_events(1),
                        (3, Some(shared)) => shared.acknowledge_async_events(1),
                        (pair, _) => pairs[pair as usize - 4].acknowledge_async_events(1),
                    }
                });
                self.answer("destroy", n)?;
                Ok(vec![u64::from(is_acknowledged.load(Ordering::Relaxed))])
            }
            "look" => {
                let end = fabric::now(&self.context) + Duration::from_millis(n[0]);
                let mut one = [Completion::default()];
                while fabric::now(&self.context) < end {
                    if self.receive_queue.poll(&mut one)? == 1 {
                        self.answer("receive", &[0, 1, 0, 300_000])?;
                    }
                }
                none
            }
            _ => fabric::answer(&self.context, name),
        }
    }

    fn acknowledge(&self, cookie: u64) {
        match cookie {
            3 => {
                if let Some(shared) = &self.shared {
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

    /// Attributes of a queue pair that goes up, of the numbers that its command has.
    fn attributes(&self, n: &[u64]) -> Made<QueuePairAttributes> {
        let mut attributes = QueuePairAttributes {
            queue_key: QUEUE_KEY,
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
            ..QueuePairAttributes::connection(n[1] as u32)
        };
        attributes.address.route.destination_gid = fabric::gid(&self.context)?;
        Ok(attributes)
    }

    /// Until when something is waited for.
    fn end(&self, must_come: bool) -> Duration {
        let patience = if must_come { patience() } else { SILENCE };
        fabric::now(&self.context) + patience
    }

    fn poll(&self, queue: &CompletionQueue, must_come: bool) -> Made<Vec<u64>> {
        let mut one = [Completion::default()];
        let end = self.end(must_come);
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
            if fabric::now(&self.context) >= end {
                return Ok(Vec::new());
            }
        }
    }
}

/// Whether a command keeps the event that it takes, and does not acknowledge it.
fn is_held(n: &[u64]) -> bool {
    n.get(1).is_some_and(|held| *held != 0)
}

impl Drop for Objects {
    fn drop(&mut self) {
        let _ = self.context.close();
    }
}
