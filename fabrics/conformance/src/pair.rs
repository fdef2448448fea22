//! The set-up that most cases share: a NIC, a VI with memory, a connection to the other side.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use viaduct_provider::via::{
    Address, HostAddress, MemoryAttributes, MemoryHandle, NicAttributes, ProtectionTag, Queue,
    ReliabilityLevel, RemoteViAttributes, ViAttributes, ViState,
};
use viaduct_provider::{
    CompletionQueueHandle, ControlSegment, Done, NicHandle, ReturnCode, Segment, ViHandle,
};

use crate::check::{Outcome, Stop, equal, holds};
use crate::environment::{Environment, LIMIT};
use crate::memory::{Block, Work, pattern};

/// Status words of clean completions.
pub(crate) mod status {
    pub(crate) const SENT: u32 = 0x0000_0001;
    pub(crate) const RECEIVED: u32 = 0x0001_0001;
    pub(crate) const RECEIVED_IMMEDIATE: u32 = 0x0009_0001;
    pub(crate) const WRITTEN: u32 = 0x0002_0001;
    pub(crate) const WRITTEN_BY_PEER: u32 = 0x000B_0001;
    pub(crate) const READ: u32 = 0x0004_0001;

    pub(crate) const DONE: u32 = 0x0000_0001;
    pub(crate) const FORMAT_ERROR: u32 = 0x0000_0002;
    pub(crate) const PROTECTION_ERROR: u32 = 0x0000_0004;
    pub(crate) const LENGTH_ERROR: u32 = 0x0000_0008;
    pub(crate) const PARTIAL_ERROR: u32 = 0x0000_0010;
    pub(crate) const FLUSHED: u32 = 0x0000_0020;
    pub(crate) const TRANSPORT_ERROR: u32 = 0x0000_0040;
    pub(crate) const RDMA_PROTECTION_ERROR: u32 = 0x0000_0080;
    pub(crate) const REMOTE_DESCRIPTOR_ERROR: u32 = 0x0000_0100;
    pub(crate) const ERROR_MASK: u32 = 0x0000_01FE;
    pub(crate) const IMMEDIATE: u32 = 0x0008_0000;
}

pub(crate) const UD: ReliabilityLevel = ReliabilityLevel::Unreliable;
pub(crate) const RD: ReliabilityLevel = ReliabilityLevel::ReliableDelivery;
pub(crate) const RR: ReliabilityLevel = ReliabilityLevel::ReliableReception;

/// An open NIC with a protection tag.
#[derive(Clone, Debug)]
pub(crate) struct Nic {
    pub(crate) handle: NicHandle,
    pub(crate) tag: ProtectionTag,
    pub(crate) attributes: Arc<NicAttributes>,
    pub(crate) host: HostAddress,
}

impl Nic {
    pub(crate) fn open(env: &Environment) -> Outcome<Self> {
        let handle = env.open_nic()?;
        let (attributes, host) = env.provider().query_nic(handle)?;
        Ok(Self {
            handle,
            tag: env.provider().create_protection_tag(handle)?,
            attributes,
            host,
        })
    }

    /// An address of this NIC that only this case uses.
    pub(crate) fn address(&self, env: &Environment, name: &str) -> Address {
        Address::new(self.host, &env.discriminator(name))
    }

    /// The levels that it supports.
    pub(crate) fn levels(&self) -> Vec<ReliabilityLevel> {
        [UD, RD, RR]
            .into_iter()
            .filter(|level| self.attributes.reliability_levels.contains(*level))
            .collect()
    }

    /// The reliable ones of them.
    pub(crate) fn reliable_levels(&self) -> Vec<ReliabilityLevel> {
        let mut levels = self.levels();
        levels.retain(|level| *level != UD);
        levels
    }

    /// Skips the case unless a level is supported.
    pub(crate) fn need(&self, level: ReliabilityLevel) -> Outcome {
        if self.attributes.reliability_levels.contains(level) {
            Ok(())
        } else {
            Err(Stop::Skipped(format!("the NIC has no level {level:?}")))
        }
    }

    /// The level with which cases work that are not about levels.
    pub(crate) fn any_level(&self) -> Outcome<ReliabilityLevel> {
        let first = self.levels().first().copied();
        first.ok_or_else(|| Stop::failed("the NIC has no reliability level at all"))
    }

    /// Largest message of a case's VIs: the NIC's own limit may be too long to try.
    pub(crate) fn transfer_max(&self) -> u32 {
        self.attributes.max_transfer_bytes.min(4 << 20)
    }
}

/// What a VI is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) level: ReliabilityLevel,
    /// 0 for [`Nic::transfer_max`].
    pub(crate) transfer_max: u32,
    pub(crate) rdma_write: bool,
    pub(crate) rdma_read: bool,
    pub(crate) send_completions: Option<CompletionQueueHandle>,
    pub(crate) receive_completions: Option<CompletionQueueHandle>,
    /// Of registered memory.
    pub(crate) bytes: usize,
}

impl Options {
    pub(crate) const fn level(level: ReliabilityLevel) -> Self {
        Self {
            level,
            transfer_max: 0,
            rdma_write: false,
            rdma_read: false,
            send_completions: None,
            receive_completions: None,
            bytes: 64 << 10,
        }
    }

    /// The attributes of a VI of this level that asks for nothing special.
    pub(crate) fn attributes(nic: &Nic, level: ReliabilityLevel) -> ViAttributes {
        ViAttributes {
            reliability: level,
            ..ViAttributes::unreliable(nic.tag, nic.transfer_max())
        }
    }

    pub(crate) const fn bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    pub(crate) const fn rdma_write(self) -> Self {
        Self {
            rdma_write: true,
            ..self
        }
    }

    pub(crate) const fn rdma_read(self) -> Self {
        Self {
            rdma_read: true,
            ..self
        }
    }

    pub(crate) const fn receive_completions(self, queue: CompletionQueueHandle) -> Self {
        Self {
            receive_completions: Some(queue),
            ..self
        }
    }

    pub(crate) const fn completions(self, queue: CompletionQueueHandle) -> Self {
        Self {
            send_completions: Some(queue),
            receive_completions: Some(queue),
            ..self
        }
    }
}

/// A descriptor that came back: where it lies, and what its control segment said then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) address: u64,
    pub(crate) control: ControlSegment,
    /// Whether it was handed back as failed.
    pub(crate) failed: bool,
}

/// A VI with memory to send from and receive into.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) env: Arc<Environment>,
    pub(crate) nic: Nic,
    pub(crate) vi: ViHandle,
    pub(crate) attributes: ViAttributes,
    /// Registered under `handle` with the VI's permissions.
    pub(crate) data: Block,
    pub(crate) handle: MemoryHandle,
    works: Cell<Arena>,
}

/// Where the next descriptor goes.
#[derive(Clone, Copy, Debug)]
struct Arena {
    block: Block,
    handle: MemoryHandle,
    used: usize,
}

const ARENA_BYTES: usize = 64 << 10;

impl Arena {
    fn new(env: &Environment, nic: &Nic, length: usize) -> Outcome<Self> {
        let block = Block::new(env, length)?;
        let handle = block.register(env, nic.handle, &MemoryAttributes::local(nic.tag))?;
        Ok(Self {
            block,
            handle,
            used: 0,
        })
    }
}

impl End {
    /// An idle VI.
    pub(crate) fn new(env: &Arc<Environment>, nic: &Nic, options: Options) -> Outcome<Self> {
        let attributes = ViAttributes {
            max_transfer_bytes: match options.transfer_max {
                0 => nic.transfer_max(),
                bytes => bytes,
            },
            rdma_write: options.rdma_write,
            rdma_read: options.rdma_read,
            ..Options::attributes(nic, options.level)
        };
        let vi = env.provider().create_vi(
            nic.handle,
            &attributes,
            options.send_completions,
            options.receive_completions,
        )?;
        let data = Block::new(env, options.bytes)?;
        let permissions = MemoryAttributes {
            tag: nic.tag,
            rdma_write: options.rdma_write,
            rdma_read: options.rdma_read,
        };
        let handle = data.register(env, nic.handle, &permissions)?;
        Ok(Self {
            env: env.clone(),
            nic: nic.clone(),
            vi,
            attributes,
            data,
            handle,
            works: Cell::new(Arena::new(env, nic, ARENA_BYTES)?),
        })
    }

    /// A part of its memory.
    pub(crate) fn segment(&self, offset: usize, length: usize) -> Segment {
        Segment {
            address: self.data.address() + offset as u64,
            handle: self.handle.bits(),
            length: length as u32,
        }
    }

    /// A place for a descriptor of so many segments.
    pub(crate) fn work(&self, segments: usize) -> Outcome<Work> {
        let mut arena = self.works.get();
        let bytes = Work::bytes(segments);
        if arena.block.length() - arena.used < bytes {
            arena = Arena::new(&self.env, &self.nic, ARENA_BYTES.max(bytes))?;
        }
        let work = Work::at(arena.block, arena.used, segments, arena.handle);
        arena.used += bytes;
        self.works.set(arena);
        Ok(work)
    }

    /// Posts a receive into a part of its memory.
    #[track_caller]
    pub(crate) fn post_receive(&self, offset: usize, length: usize) -> Outcome<Work> {
        let work = self.work(1)?.receive(&[self.segment(offset, length)]);
        work.post_receive(&self.env, self.vi)?;
        Ok(work)
    }

    /// Posts a send of a part of its memory.
    #[track_caller]
    pub(crate) fn post_send(&self, offset: usize, length: usize) -> Outcome<Work> {
        let work = self.work(1)?.send(&[self.segment(offset, length)]);
        work.post_send(&self.env, self.vi)?;
        Ok(work)
    }

    /// Posts a prepared send.
    #[track_caller]
    pub(crate) fn post(&self, work: Work) -> Outcome<Work> {
        work.post_send(&self.env, self.vi)?;
        Ok(work)
    }

    /// Posts a prepared receive.
    #[track_caller]
    pub(crate) fn post_to_receive(&self, work: Work) -> Outcome<Work> {
        work.post_receive(&self.env, self.vi)?;
        Ok(work)
    }

    /// Fills a part of its memory with a pattern, which it returns.
    pub(crate) fn fill(&self, offset: usize, length: usize, seed: u64) -> Vec<u8> {
        let bytes = pattern(seed, length);
        self.data.write(offset, &bytes);
        bytes
    }

    /// One look at a queue.
    pub(crate) fn done(&self, queue: Queue) -> viaduct_provider::Result<Done> {
        match queue {
            Queue::Send => self.env.provider().send_done(self.vi),
            Queue::Receive => self.env.provider().receive_done(self.vi),
        }
    }

    /// Looks at a queue until its oldest descriptor comes back.
    #[track_caller]
    pub(crate) fn take(&self, queue: Queue) -> Outcome<Taken> {
        self.env.until(
            format_args!("a completion on the {queue:?} queue"),
            || match self.done(queue)? {
                Done::NotDone => Ok(None),
                Done::Empty => Err(Stop::failed(format_args!(
                    "the {queue:?} queue: expected a descriptor, was empty"
                ))),
                done @ (Done::Complete(_) | Done::Failed(_)) => taken(&self.env, done).map(Some),
            },
        )
    }

    /// Waits for the send `work` to come back, whatever its status.
    #[track_caller]
    pub(crate) fn sent(&self, work: Work) -> Outcome<Taken> {
        self.expect(Queue::Send, work)
    }

    /// Waits for the receive `work` to come back, whatever its status.
    #[track_caller]
    pub(crate) fn received(&self, work: Work) -> Outcome<Taken> {
        self.expect(Queue::Receive, work)
    }

    /// Waits for the send `work` to come back clean.
    #[track_caller]
    pub(crate) fn sent_well(&self, work: Work) -> Outcome<Taken> {
        let taken = self.expect(Queue::Send, work)?;
        crate::check::equal_status(taken.control.status, status::SENT, "a send")?;
        Ok(taken)
    }

    /// Waits for the receive `work` to come back clean with exactly `bytes` at `offset`.
    #[track_caller]
    pub(crate) fn received_bytes(&self, work: Work, offset: usize, bytes: &[u8]) -> Outcome<Taken> {
        let taken = self.expect(Queue::Receive, work)?;
        crate::check::equal_status(taken.control.status, status::RECEIVED, "a receive")?;
        equal(
            taken.control.length as usize,
            bytes.len(),
            "bytes of a receive",
        )?;
        let actual = self.data.read(offset, bytes.len());
        crate::check::equal_bytes(&actual, bytes, "the data of a receive")?;
        Ok(taken)
    }

    #[track_caller]
    fn expect(&self, queue: Queue, work: Work) -> Outcome<Taken> {
        let taken = self.take(queue)?;
        equal(
            taken.address,
            work.address(),
            "the address of the descriptor that came back",
        )?;
        Ok(taken)
    }

    /// Takes what is complete until the queue is empty.
    #[track_caller]
    pub(crate) fn drain(&self, queue: Queue) -> Outcome<Vec<Taken>> {
        let mut all = Vec::new();
        self.env
            .until(format_args!("the end of the {queue:?} queue"), || {
                Ok(match self.done(queue)? {
                    Done::NotDone => None,
                    Done::Empty => Some(()),
                    done @ (Done::Complete(_) | Done::Failed(_)) => {
                        all.push(taken(&self.env, done)?);
                        None
                    }
                })
            })?;
        Ok(all)
    }

    pub(crate) fn state(&self) -> Outcome<ViState> {
        Ok(self.env.provider().query_vi(self.vi)?.state)
    }

    /// Fails unless the VI is in `state`.
    #[track_caller]
    pub(crate) fn is_in(&self, state: ViState) -> Outcome {
        equal(self.state()?, state, "the state of the VI")
    }

    /// Waits for the VI to come into `state`.
    #[track_caller]
    pub(crate) fn comes_to(&self, state: ViState) -> Outcome {
        self.env.until(format_args!("VI in state {state}"), || {
            Ok((self.state()? == state).then_some(()))
        })
    }

    /// Connects to the other side: side 0 asks, side 1 accepts. Both are connected after it.
    #[track_caller]
    pub(crate) fn connect(&self) -> Outcome<RemoteViAttributes> {
        let [their_host] = self.env.exchange_numbers([self.nic.host.get()])?;
        let remote = if self.env.side() == 0 {
            let host = HostAddress::new(their_host);
            let server = Address::new(host, &self.env.discriminator("server"));
            request(
                &self.env,
                self.vi,
                &self.nic.address(&self.env, "client"),
                &server,
            )?
        } else {
            accept(
                &self.env,
                &self.nic,
                self.vi,
                &self.nic.address(&self.env, "server"),
            )?
        };
        // Before the other side goes on: what it does next may break the connection.
        self.is_in(ViState::Connected)?;
        self.env.meet("connected")?;
        Ok(remote)
    }

    /// Disconnects, and waits until the other side has.
    #[track_caller]
    pub(crate) fn disconnect(&self) -> Outcome {
        self.env.provider().disconnect(self.vi)?;
        self.env.meet("disconnected")
    }

    /// Ends what a case does with a VI: disconnected on both sides, drained, destroyed.
    #[track_caller]
    pub(crate) fn close(self) -> Outcome {
        self.env.meet("closing")?;
        self.env.provider().disconnect(self.vi)?;
        self.drain(Queue::Send)?;
        self.drain(Queue::Receive)?;
        self.env.provider().destroy_vi(self.vi)?;
        self.env.meet("closed")
    }
}

/// The descriptor that a look at a queue brought.
#[track_caller]
pub(crate) fn taken(env: &Environment, done: Done) -> Outcome<Taken> {
    let Some(descriptor) = done.descriptor() else {
        return Err(Stop::failed("expected a descriptor, none came"));
    };
    let address = descriptor.as_ptr().expose_provenance() as u64;
    // The fabric names the address: it is read only if it is memory of this side.
    let Some(work) = Work::of_side(env, address) else {
        return Err(Stop::failed(format_args!(
            "a descriptor came back at {address:#x}, where none was posted"
        )));
    };
    let control = work.control();
    let failed = matches!(done, Done::Failed(_));
    let status = control.status;
    holds(
        status & status::DONE != 0,
        format_args!("DONE in the status {status:#010x} of a descriptor that came back"),
    )?;
    equal(
        failed,
        status & status::ERROR_MASK != 0,
        format_args!("handed back as failed, with status {status:#010x}"),
    )?;
    Ok(Taken {
        address,
        control,
        failed,
    })
}

/// A connected VI: opens the NIC and connects to the other side, which does the same.
#[track_caller]
pub(crate) fn pair(env: &Arc<Environment>, nic: &Nic, options: Options) -> Outcome<End> {
    let end = End::new(env, nic, options)?;
    end.connect()?;
    Ok(end)
}

/// Asks for a connection until somebody waits there.
#[track_caller]
pub(crate) fn request(
    env: &Environment,
    vi: ViHandle,
    local: &Address,
    remote: &Address,
) -> Outcome<RemoteViAttributes> {
    env.until("somebody who waits for the request", || {
        match env
            .provider()
            .connect_request(vi, local, remote, Some(LIMIT))
        {
            Ok(remote) => Ok(Some(remote)),
            Err(error) if error.code() == ReturnCode::NoMatch => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
}

/// Waits for a request and accepts it.
#[track_caller]
pub(crate) fn accept(
    env: &Environment,
    nic: &Nic,
    vi: ViHandle,
    local: &Address,
) -> Outcome<RemoteViAttributes> {
    let incoming = env
        .provider()
        .connect_wait(nic.handle, local, Some(LIMIT))?;
    env.provider().connect_accept(incoming.connection, vi)?;
    Ok(incoming.attributes)
}

/// Connects two VIs of this side with each other.
#[track_caller]
pub(crate) fn connect_locally(client: &End, server: &End, name: &str) -> Outcome {
    let env = &client.env;
    let address = server.nic.address(env, name);
    let (vi, local, remote) = (
        client.vi,
        client.nic.address(env, "client"),
        address.clone(),
    );
    let task = env.spawn("client", move |env| request(env, vi, &local, &remote))?;
    accept(env, &server.nic, server.vi, &address)?;
    task.join()?;
    client.is_in(ViState::Connected)?;
    server.is_in(ViState::Connected)
}

/// A time limit in milliseconds.
pub(crate) const fn milliseconds(milliseconds: u64) -> Option<Duration> {
    Some(Duration::from_millis(milliseconds))
}
