//! Two processes that send each other small messages in turn, as `ib_send_lat` does: what a half
//! round takes, or, one step at a time, which instructions.
//!
//! ```text
//! cargo build --release -p viaduct-rdma --example half_rounds
//! half_rounds 1000000                                         tells nanoseconds
//! valgrind --tool=callgrind --toggle-collect='*half_rounds*turn*' half_rounds 1000 steps
//!                                                             instructions, and where they are
//! ```
//!
//! In steps each side looks once in vain before the other one sends: every half round has the same
//! instructions. Those of that look are not among them.

use std::io::{Read, Write, stdin, stdout};
use std::process::{Command, Stdio};
use std::time::Instant;

use viaduct_rdma::verbs::flags::{access, send};
use viaduct_rdma::verbs::{
    Capabilities, Completion, CompletionStatus, QueuePairAttributes, QueuePairType,
    ScatterGatherElement, SendOpcode,
};
use viaduct_rdma::{
    CompletionQueue, CompletionQueueOptions, QueuePair, QueuePairOptions, ReceiveRequest,
    SendRequest, devices,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const BYTES: u32 = 8;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next();
    let rounds: u32 = rounds.and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let words: Vec<String> = arguments.collect();
    let has = |word| words.iter().any(|each| each == word);
    let in_steps = has("steps");
    if has("peer") {
        return run((&mut stdin(), &mut stdout()), rounds, in_steps, false);
    }
    let mut peer = Command::new(std::env::current_exe()?);
    peer.arg(rounds.to_string()).args(&words).arg("peer");
    let mut peer = (peer.stdin(Stdio::piped()).stdout(Stdio::piped())).spawn()?;
    let (Some(mut from), Some(mut to)) = (peer.stdout.take(), peer.stdin.take()) else {
        return Err("the peer has no pipes".into());
    };
    run((&mut from, &mut to), rounds, in_steps, true)?;
    peer.wait()?;
    Ok(())
}

/// A side: its queue pair, its completion queues, and its memory.
struct Side {
    pair: QueuePair,
    sent: CompletionQueue,
    received: CompletionQueue,
    element: ScatterGatherElement,
}

impl Side {
    fn new(memory: &[u8]) -> Result<Self> {
        let context = devices()[0].open()?;
        let domain = context.allocate_protection_domain()?;
        let (start, bytes) = (memory.as_ptr() as u64, memory.len() as u64);
        // SAFETY: the memory lives as long as the program.
        let region = unsafe { domain.register_memory(start, bytes, start, access::LOCAL_WRITE) }?;
        let entries = CompletionQueueOptions {
            entries: 16,
            ..CompletionQueueOptions::default()
        };
        let sent = context.create_completion_queue(&entries)?;
        let received = context.create_completion_queue(&entries)?;
        let pair = domain.create_queue_pair(&QueuePairOptions {
            kind: QueuePairType::Rc,
            capabilities: Capabilities {
                max_send_requests: 4,
                max_receive_requests: 4,
                max_send_elements: 1,
                max_receive_elements: 1,
                max_inline_bytes: 64,
            },
            send_queue: sent,
            receive_queue: received,
            shared_receive_queue: None,
            is_every_send_signaled: false,
            cookie: 0,
        })?;
        let element = ScatterGatherElement {
            address: start,
            length: BYTES,
            local_key: region.memory_key(),
        };
        Ok(Self {
            pair,
            sent,
            received,
            element,
        })
    }

    fn receive(&self) -> Result<()> {
        Ok(self.pair.post_receive(&ReceiveRequest {
            request: 2,
            elements: &[self.element],
        })?)
    }

    fn send(&self) -> Result<()> {
        let request = SendRequest::new(1, SendOpcode::Send)
            .with_elements(std::slice::from_ref(&self.element))
            .with_flags(send::INLINE | send::SIGNALED);
        // SAFETY: the element's bytes live as long as the program.
        Ok(unsafe { self.pair.post_send(&request) }?)
    }

    /// What is counted: the side learns that its last message has come, takes the next one, and
    /// answers.
    #[inline(never)]
    fn turn(&self, has_sent: bool) -> Result<()> {
        if has_sent {
            wait(&self.sent)?;
        }
        wait(&self.received)?;
        self.receive()?;
        self.send()
    }
}

fn wait(queue: &CompletionQueue) -> Result<()> {
    let mut done = [Completion::default()];
    while queue.poll(&mut done)? == 0 {}
    assert_eq!(done[0].status, CompletionStatus::Success);
    Ok(())
}

fn run(
    (from, to): (&mut dyn Read, &mut dyn Write),
    rounds: u32,
    in_steps: bool,
    is_first: bool,
) -> Result<()> {
    let memory = [0_u8; 64];
    let side = Side::new(&memory)?;
    say(to, &side.pair.number().to_le_bytes())?;
    let mut number = [0; 4];
    from.read_exact(&mut number)?;
    let peer = u32::from_le_bytes(number);
    side.pair.raise(&QueuePairAttributes::connection(peer))?;
    side.receive()?;
    say(to, &[0])?;
    from.read_exact(&mut [0])?;
    if is_first {
        side.send()?;
    }
    // The token: its holder's peer has sent, and waits.
    let pass = |to: &mut dyn Write| -> Result<()> {
        assert_eq!(side.sent.poll(&mut [Completion::default()])?, 0);
        say(to, &[0])
    };
    if in_steps && is_first {
        pass(to)?;
    }
    let begin = Instant::now();
    for round in 0..rounds {
        if in_steps {
            from.read_exact(&mut [0])?;
        }
        side.turn(is_first || round > 0)?;
        if in_steps {
            pass(to)?;
        }
    }
    let nanoseconds = begin.elapsed().as_nanos() as f64 / f64::from(2 * rounds);
    if is_first {
        println!("{nanoseconds:.1} ns a half round of {rounds} rounds");
    }
    // Neither leaves before the other has what was sent.
    say(to, &[0])?;
    Ok(from.read_exact(&mut [0])?)
}

fn say(to: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    to.write_all(bytes)?;
    Ok(to.flush()?)
}
