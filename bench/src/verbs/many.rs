//! Many queue pairs between two processes, with a request each: what one takes of memory, how many
//! connect in a second, and how many requests are answered. The bench starts itself twice.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use rustix::process::{Signal, set_parent_process_death_signal};
use viaduct_rdma::verbs::flags::{access, send};
use viaduct_rdma::verbs::{
    Capabilities, Completion, CompletionStatus, QueuePairAttributes, QueuePairType,
    ScatterGatherElement, SendOpcode,
};
use viaduct_rdma::{
    CompletionQueue, CompletionQueueOptions, QueuePair, QueuePairOptions, ReceiveRequest,
    SendRequest, devices,
};

use crate::floor::pin;
use crate::transports::{leashed, own_program, run};

/// The hidden words for the side that asks, and for the one that answers.
pub(crate) const ASKING: &str = "pairs-asking";
pub(crate) const ANSWERING: &str = "pairs-answering";

/// Queue pairs.
pub(crate) const PAIRS: usize = 1000;
/// Requests of each that are answered before the clock runs, and while it does.
const ROUNDS_BEFORE: usize = 20;
const ROUNDS: usize = 200;
/// Bytes of a request and of its answer, as in `viaduct measure cq`.
const BYTES: u32 = 32;
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// What is measured of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Many {
    /// Memory of one, at both ends.
    pub(crate) bytes_a_pair: f64,
    pub(crate) connections_s: f64,
    pub(crate) requests_s: f64,
}

/// Measures them, each side on a core of its own.
///
/// # Errors
///
/// One line: what a side said.
pub(crate) fn measure(cores: [usize; 2]) -> Result<Many, String> {
    let mut command = leashed(own_program()?)?;
    command.arg(ASKING);
    command.args(cores.map(|core| core.to_string()));
    let output = run(&mut command, LIMIT)?;
    figures(&output).ok_or_else(|| format!("{ASKING} printed no figures: {output}"))
}

fn figures(output: &str) -> Option<Many> {
    let words: Vec<f64> = output
        .split_whitespace()
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    let [bytes_a_pair, connections_s, requests_s] = words[..] else {
        return None;
    };
    Some(Many {
        bytes_a_pair,
        connections_s,
        requests_s,
    })
}

/// The side that asks: it starts the other one, and prints the figures.
///
/// # Errors
///
/// One line: an argument, the system, or the fabric.
pub(crate) fn ask(arguments: &[String]) -> Result<(), String> {
    let [near, far] = arguments else {
        return Err(format!("{ASKING} wants two cores"));
    };
    let failed = |error: io::Error| format!("{ASKING}: {error}");
    let mut child = Command::new(own_program()?)
        .args([ANSWERING, far])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(format!("{ASKING}: a process without its pipes"));
    };
    let mut peer = Peer(input, BufReader::new(output));
    settle(near)?;
    let mut side = Side::open()?;
    peer.hear()?;
    let begin = Instant::now();
    peer.say("connect")?;
    side.make()?;
    peer.say(&side.numbers())?;
    let others = peer.hear()?;
    side.connect(&others)?;
    peer.hear()?;
    let connections_s = PAIRS as f64 / begin.elapsed().as_secs_f64();
    for pair in 0..PAIRS {
        side.send(pair)?;
    }
    side.exchange(PAIRS * ROUNDS_BEFORE)?;
    let begin = Instant::now();
    side.exchange(PAIRS * ROUNDS)?;
    let requests_s = (PAIRS * ROUNDS) as f64 / begin.elapsed().as_secs_f64();
    let here = side.grown_bytes()?;
    peer.say("stop")?;
    let there: u64 = peer.hear()?.parse().map_err(|error| format!("{error}"))?;
    child.wait().map_err(failed)?;
    let bytes_a_pair = (here + there) as f64 / PAIRS as f64;
    println!("{bytes_a_pair} {connections_s} {requests_s}");
    Ok(())
}

/// The side that answers.
///
/// # Errors
///
/// As [`ask`].
pub(crate) fn answer(arguments: &[String]) -> Result<(), String> {
    let [core] = arguments else {
        return Err(format!("{ANSWERING} wants a core"));
    };
    settle(core)?;
    let mut side = Side::open()?;
    let mut lines = io::stdin().lines();
    let mut hear = || match lines.next() {
        Some(Ok(line)) => Ok(line),
        _ => Err(format!("{ANSWERING}: the other side is gone")),
    };
    println!("here");
    hear()?;
    side.make()?;
    println!("{}", side.numbers());
    side.connect(&hear()?)?;
    println!("connected");
    // What is asked last of each pair stays without an answer.
    side.exchange(PAIRS * (ROUNDS_BEFORE + ROUNDS))?;
    hear()?;
    println!("{}", side.grown_bytes()?);
    Ok(())
}

fn settle(core: &str) -> Result<(), String> {
    let core = core.parse().map_err(|_| format!("no core: {core}"))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    pin(core).map_err(|error| error.to_string())
}

/// The other process.
struct Peer(ChildStdin, BufReader<ChildStdout>);

impl Peer {
    fn say(&mut self, line: &str) -> Result<(), String> {
        writeln!(self.0, "{line}").map_err(|error| format!("{ASKING}: {error}"))
    }

    fn hear(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.1.read_line(&mut line) {
            Ok(length) if length > 0 => Ok(line.trim().to_owned()),
            _ => Err(format!("{ASKING}: the other side is gone")),
        }
    }
}

/// One end of all of them.
struct Side {
    domain: viaduct_rdma::ProtectionDomain,
    sends: CompletionQueue,
    receives: CompletionQueue,
    /// A request's bytes, and for each pair those that come.
    memory: Vec<u8>,
    local_key: u32,
    pairs: Vec<QueuePair>,
    index_of: HashMap<u32, usize>,
    resident_before: u64,
}

fn said(error: viaduct_rdma::Error) -> String {
    format!("queue pairs: {error}")
}

impl Side {
    fn open() -> Result<Self, String> {
        let device = devices().into_iter().next();
        let device = device.ok_or("there is no device for queue pairs")?;
        let context = device.open().map_err(said)?;
        let domain = context.allocate_protection_domain().map_err(said)?;
        let entries = CompletionQueueOptions {
            entries: 4 * PAIRS as u32,
            ..CompletionQueueOptions::default()
        };
        let sends = context.create_completion_queue(&entries).map_err(said)?;
        let receives = context.create_completion_queue(&entries).map_err(said)?;
        let memory = vec![1_u8; (1 + PAIRS) * BYTES as usize];
        let (start, length) = (memory.as_ptr() as u64, memory.len() as u64);
        // SAFETY: the memory lives as long as this side, and is not moved.
        let region = unsafe { domain.register_memory(start, length, start, access::LOCAL_WRITE) };
        Ok(Self {
            domain,
            sends,
            receives,
            memory,
            local_key: region.map_err(said)?.memory_key(),
            pairs: Vec::with_capacity(PAIRS),
            index_of: HashMap::with_capacity(PAIRS),
            resident_before: resident_bytes()?,
        })
    }

    fn make(&mut self) -> Result<(), String> {
        for index in 0..PAIRS {
            let pair = self.domain.create_queue_pair(&QueuePairOptions {
                kind: QueuePairType::Rc,
                capabilities: Capabilities {
                    max_send_requests: 2,
                    max_receive_requests: 2,
                    max_send_elements: 1,
                    max_receive_elements: 1,
                    max_inline_bytes: 64,
                },
                send_queue: self.sends,
                receive_queue: self.receives,
                shared_receive_queue: None,
                is_every_send_signaled: false,
                cookie: 0,
            });
            let pair = pair.map_err(said)?;
            self.index_of.insert(pair.number(), index);
            self.pairs.push(pair);
        }
        Ok(())
    }

    fn numbers(&self) -> String {
        let numbers = self.pairs.iter().map(|pair| pair.number().to_string());
        numbers.collect::<Vec<_>>().join(" ")
    }

    fn connect(&self, others: &str) -> Result<(), String> {
        let others = others.split_whitespace().map(str::parse);
        let others: Result<Vec<u32>, _> = others.collect();
        let others = others.map_err(|error| error.to_string())?;
        if others.len() != PAIRS {
            return Err(format!("{} numbers of queue pairs came", others.len()));
        }
        for (index, (pair, other)) in self.pairs.iter().zip(others).enumerate() {
            pair.raise(&QueuePairAttributes::connection(other))
                .map_err(said)?;
            self.receive(index)?;
        }
        Ok(())
    }

    fn element(&self, place: usize) -> ScatterGatherElement {
        ScatterGatherElement {
            address: self.memory.as_ptr() as u64 + place as u64 * u64::from(BYTES),
            length: BYTES,
            local_key: self.local_key,
        }
    }

    fn receive(&self, index: usize) -> Result<(), String> {
        let request = ReceiveRequest {
            request: index as u64,
            elements: &[self.element(1 + index)],
        };
        self.pairs[index].post_receive(&request).map_err(said)
    }

    fn send(&self, index: usize) -> Result<(), String> {
        let elements = [self.element(0)];
        let request = SendRequest::new(0, SendOpcode::Send)
            .with_elements(&elements)
            .with_flags(send::INLINE);
        // SAFETY: the bytes are this side's.
        unsafe { self.pairs[index].post_send(&request) }.map_err(said)
    }

    /// Takes so many messages, and answers each.
    fn exchange(&self, messages: usize) -> Result<(), String> {
        let mut done = [Completion::default(); 16];
        let mut taken = 0;
        while taken < messages {
            let most = done.len().min(messages - taken);
            let count = self.receives.poll(&mut done[..most]).map_err(said)?;
            for completion in &done[..count] {
                let index = self.index_of.get(&completion.queue_pair);
                let index = *index.ok_or("a completion of no queue pair of this side")?;
                if completion.status != CompletionStatus::Success {
                    return Err(format!("a message ended with {:?}", completion.status));
                }
                self.receive(index)?;
                self.send(index)?;
            }
            taken += count;
        }
        Ok(())
    }

    fn grown_bytes(&self) -> Result<u64, String> {
        Ok(resident_bytes()?.saturating_sub(self.resident_before))
    }
}

/// Memory of this process that is there.
fn resident_bytes() -> Result<u64, String> {
    let text = std::fs::read_to_string("/proc/self/statm").map_err(|error| error.to_string())?;
    let pages = text.split_whitespace().nth(1);
    let pages: Option<u64> = pages.and_then(|word| word.parse().ok());
    let pages = pages.ok_or("/proc/self/statm says no size")?;
    Ok(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_three_numbers() {
        let many = figures("2048.5 100000 2e6\n").map(|many| many.requests_s);
        assert_eq!(many, Some(2e6));
        assert!(figures("2048.5 100000\n").is_none() && figures("it failed\n").is_none());
    }
}
