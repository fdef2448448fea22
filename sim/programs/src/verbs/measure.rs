//! Programs that measure queue pairs, by the rules of perftest: `ib_send_lat`, `ib_write_bw` and
//! the like.
//!
//! | | latency | bandwidth |
//! |---|---|---|
//! | send | half a round trip; receives complete | receives are posted anew |
//! | write | half a round trip; each sees the other's last byte | |
//! | read | from the post to the completion | |
//! | inline | sends up to 236 bytes, writes up to 220 | nothing |
//! | signalled | each, before its answer is waited for | every hundredth and the last |
//! | under way | one | 128, of reads 16 |
//!
//! Source: `DEF_*` in `src/perftest_parameters.h` and the loops of `src/perftest_resources.c` in
//! linux-rdma/perftest.

use std::sync::{Arc, Mutex, PoisonError};

use viaduct_engine::Time;

use super::{
    Buffer, Capabilities, Completion, CompletionQueue, CompletionQueueOptions, CompletionStatus,
    Error, QueuePair, QueuePairAttributes, QueuePairOptions, QueuePairType, ReceiveRequest,
    SendOpcode, SendRequest, errno, flags,
};
use crate::executor::{Simulation, SimulationError};
use crate::process::Process;

/// What is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Messages.
    Send,
    /// Remote writes.
    Write,
    /// Remote reads.
    Read,
}

/// Why a measurement did not come to its end.
#[derive(Debug)]
pub enum MeasureError {
    /// A call failed, or a request did.
    Verbs(Error),
    /// The simulation ended first.
    Simulation(SimulationError),
}

impl std::fmt::Display for MeasureError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Verbs(error) => error.fmt(formatter),
            Self::Simulation(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for MeasureError {}

impl From<Error> for MeasureError {
    fn from(error: Error) -> Self {
        Self::Verbs(error)
    }
}

impl From<SimulationError> for MeasureError {
    fn from(error: SimulationError) -> Self {
        Self::Simulation(error)
    }
}

const INLINE_SEND_BYTES: u32 = 236;
const INLINE_WRITE_BYTES: u32 = 220;
const SENDS_UNDER_WAY: u64 = 128;
const READS_UNDER_WAY: u8 = 16;
const RECEIVES: u32 = 512;
const SIGNALED_EVERY: u64 = 100;

type Times = Arc<Mutex<Vec<Time>>>;
type Failed = Arc<Mutex<Option<Error>>>;

/// One end: what a program of perftest has.
struct End {
    pair: QueuePair,
    sends: CompletionQueue,
    receives: CompletionQueue,
    buffer: Buffer,
    bytes: u32,
}

impl End {
    fn new(process: &Process, bytes: u32) -> Result<Self, Error> {
        let context = process.rdma()?.open()?;
        let queue = |entries| {
            let options = CompletionQueueOptions {
                entries,
                ..CompletionQueueOptions::default()
            };
            context.create_completion_queue(&options)
        };
        let (sends, receives) = (queue(SENDS_UNDER_WAY as u32)?, queue(RECEIVES)?);
        let domain = context.allocate_protection_domain()?;
        let rights =
            flags::access::LOCAL_WRITE | flags::access::REMOTE_WRITE | flags::access::REMOTE_READ;
        // What comes lies behind what goes.
        let buffer = domain.allocate(2 * bytes as usize, rights)?;
        let pair = domain.create_queue_pair(&QueuePairOptions {
            kind: QueuePairType::Rc,
            capabilities: Capabilities {
                max_send_requests: SENDS_UNDER_WAY as u32,
                max_receive_requests: RECEIVES,
                max_send_elements: 1,
                max_receive_elements: 1,
                max_inline_bytes: INLINE_SEND_BYTES,
            },
            send_queue: sends.clone(),
            receive_queue: receives.clone(),
            shared_receive_queue: None,
            is_every_send_signaled: false,
            cookie: 0,
        })?;
        Ok(Self {
            pair,
            sends,
            receives,
            buffer,
            bytes,
        })
    }

    fn connect(&self, peer: &Self) -> Result<(), Error> {
        let rights = flags::access::REMOTE_WRITE | flags::access::REMOTE_READ;
        self.pair.raise(&QueuePairAttributes {
            access_flags: rights,
            max_read_atomic: READS_UNDER_WAY,
            max_destination_read_atomic: READS_UNDER_WAY,
            ..QueuePairAttributes::connection(peer.pair.number())
        })
    }

    /// Where a peer writes and reads.
    fn target(&self) -> (u64, u32) {
        let address = self.buffer.address() + u64::from(self.bytes);
        (address, self.buffer.memory_key())
    }

    fn post(
        &self,
        opcode: SendOpcode,
        flags: u32,
        (address, key): (u64, u32),
    ) -> Result<(), Error> {
        let elements = [self.buffer.element(0, self.bytes)];
        let elements: &[_] = if self.bytes > 0 { &elements } else { &[] };
        let request = SendRequest::new(0, opcode)
            .with_elements(elements)
            .with_flags(flags)
            .with_remote(address, key);
        // SAFETY: what is inline lies in the buffer.
        unsafe { self.pair.post_send(&request) }
    }

    fn receive(&self) -> Result<(), Error> {
        let elements = [self.buffer.element(self.bytes as usize, self.bytes)];
        let request = ReceiveRequest {
            request: 0,
            elements: if self.bytes > 0 { &elements } else { &[] },
        };
        self.pair.post_receive(&request)
    }
}

/// A completion that comes, and is none of an error.
fn done(queue: &CompletionQueue) -> Result<(), Error> {
    match queue.wait(None)? {
        Some(completion) => check(&completion),
        None => Err(Error::new(errno::EAGAIN, "the program cannot wait")),
    }
}

fn check(completion: &Completion) -> Result<(), Error> {
    match completion.status {
        CompletionStatus::Success => Ok(()),
        status => Err(Error::new(
            errno::EIO,
            format!("a request of a queue pair completed with {status:?}"),
        )),
    }
}

/// Two ends, on the first host and the last, and what their programs tell.
struct Pair {
    ends: [Arc<End>; 2],
    last: u32,
    times: Times,
    failed: Failed,
}

impl Pair {
    fn new(simulation: &Simulation, bytes: u32) -> Result<Self, Error> {
        let last = simulation.hosts() - 1;
        let near = End::new(&simulation.process(0), bytes)?;
        let far = End::new(&simulation.process(last), bytes)?;
        near.connect(&far)?;
        far.connect(&near)?;
        Ok(Self {
            ends: [Arc::new(near), Arc::new(far)],
            last,
            times: Times::default(),
            failed: Failed::default(),
        })
    }

    /// Starts a program at an end.
    fn spawn(
        &self,
        simulation: &Simulation,
        end: usize,
        program: impl FnOnce(&Process, &End, &Times) -> Result<(), Error> + Send + 'static,
    ) {
        let host = [0, self.last][end];
        let (end, times) = (Arc::clone(&self.ends[end]), Arc::clone(&self.times));
        let failed = Arc::clone(&self.failed);
        simulation.spawn(host, move |process| {
            if let Err(error) = program(&process, &end, &times) {
                let mut first = failed.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(error);
            }
        });
    }

    /// Runs the programs; the moments that they noted.
    fn run(self, simulation: &mut Simulation) -> Result<Vec<Time>, MeasureError> {
        let ran = simulation.run();
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = failed.clone() {
            return Err(error.into());
        }
        ran?;
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut times))
    }
}

fn note(times: &Times, process: &Process) {
    let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
    times.push(process.time());
}

/// Latencies of so many operations of some bytes, one after the other, between the first host and
/// the last: of sends and writes half a round trip each, of reads until the bytes are there. Writes
/// have a byte at least, in which they are seen.
///
/// # Errors
///
/// [`MeasureError`]: EOPNOTSUPP where the adapters have no queue pairs, EIO when a request failed.
pub fn latency(
    simulation: &mut Simulation,
    operation: Operation,
    bytes: u32,
    iterations: u64,
) -> Result<Vec<Time>, MeasureError> {
    let bytes = if operation == Operation::Write {
        bytes.max(1)
    } else {
        bytes
    };
    let pair = Pair::new(simulation, bytes)?;
    // As the first is not counted, in which adapters learn of the connection.
    let rounds = iterations + 1;
    let (opcode, inline_bytes) = match operation {
        Operation::Send => (SendOpcode::Send, Some(INLINE_SEND_BYTES)),
        Operation::Write => (SendOpcode::RdmaWrite, Some(INLINE_WRITE_BYTES)),
        Operation::Read => (SendOpcode::RdmaRead, None),
    };
    let mut flags = flags::send::SIGNALED;
    if inline_bytes.is_some_and(|most| bytes <= most) {
        flags |= flags::send::INLINE;
    }
    let count = if operation == Operation::Read { 1 } else { 2 };
    for at in 0..count {
        let peer = pair.ends[1 - at].target();
        if operation == Operation::Send {
            pair.ends[at].receive()?;
        }
        pair.spawn(simulation, at, move |process, end, times| {
            let is_first = at == 0;
            for round in 1..=rounds {
                if !is_first {
                    end.await_peer(operation, round)?;
                }
                if is_first {
                    note(times, process);
                }
                if operation == Operation::Write {
                    end.buffer.write(bytes as usize - 1, &[round as u8]);
                }
                end.post(opcode, flags, peer)?;
                done(&end.sends)?;
                if is_first && operation != Operation::Read {
                    end.await_peer(operation, round)?;
                }
            }
            if is_first {
                note(times, process);
            }
            Ok(())
        });
    }
    let times = pair.run(simulation)?;
    let spans = times.windows(2).map(|it| it[1] - it[0]);
    let share = |span: Time| Time::from_picoseconds(span.picoseconds() / count as u64);
    Ok(spans.map(share).skip(1).collect())
}

impl End {
    /// Waits for what the peer sends or writes in a round, and posts the next receive.
    fn await_peer(&self, operation: Operation, round: u64) -> Result<(), Error> {
        if operation == Operation::Send {
            done(&self.receives)?;
            return self.receive();
        }
        let last = 2 * self.bytes as usize - 1;
        let look = |bytes: &[u8]| (bytes[last] == round as u8).then_some(());
        let seen = self.buffer.poll(None, look);
        seen.ok_or_else(|| Error::new(errno::EAGAIN, "the program cannot wait"))
    }
}

/// How long so many operations of some bytes take, as many at once as may be under way, from the
/// first post to the last completion, between the first host and the last.
///
/// # Errors
///
/// As [`latency`].
pub fn bandwidth(
    simulation: &mut Simulation,
    operation: Operation,
    bytes: u32,
    iterations: u64,
) -> Result<Time, MeasureError> {
    let pair = Pair::new(simulation, bytes)?;
    let opcode = match operation {
        Operation::Send => SendOpcode::Send,
        Operation::Write => SendOpcode::RdmaWrite,
        Operation::Read => SendOpcode::RdmaRead,
    };
    let peer = pair.ends[1].target();
    if operation == Operation::Send {
        for _ in 0..RECEIVES {
            pair.ends[1].receive()?;
        }
        pair.spawn(simulation, 1, move |_, end, _| {
            for _ in 0..iterations {
                done(&end.receives)?;
                end.receive()?;
            }
            Ok(())
        });
    }
    pair.spawn(simulation, 0, move |process, end, times| {
        note(times, process);
        let (mut posted, mut completed) = (0, 0);
        while completed < iterations {
            while posted < iterations && posted - completed < SENDS_UNDER_WAY {
                posted += 1;
                let is_signaled = posted % SIGNALED_EVERY == 0 || posted == iterations;
                let flags = if is_signaled {
                    flags::send::SIGNALED
                } else {
                    0
                };
                end.post(opcode, flags, peer)?;
            }
            done(&end.sends)?;
            completed = (completed + SIGNALED_EVERY).min(iterations);
        }
        note(times, process);
        Ok(())
    });
    let times = pair.run(simulation)?;
    let ended = times.last().copied().unwrap_or_default();
    Ok(ended - times.first().copied().unwrap_or_default())
}
