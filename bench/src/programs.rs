//! Programs on simulated hosts: round trips and messages a wall second, memory of a program.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use viaduct_programs::{Process, SimulatedFabric, Simulation};
use viaduct_provider::{Buffer, Descriptor, Memory, Nic, ReturnCode, Vi};
use viaduct_scenario::load_programs;

use crate::table::{Row, Samples, Target};

const MODEL: &str = "clan-pio";
const BYTES: usize = 8;
const ROUND_TRIPS: u64 = 300_000;
const HOSTS: u32 = 1024;
const ROUNDS: u32 = 500;
/// Hosts whose memory is weighed.
const WEIGHED: u32 = 10_000;
/// What a program of the ring has registered: for each of two VIs rings of one send descriptor and
/// two receive descriptors, and three buffers, each in 64 bytes of its own.
const REGISTERED_BYTES: usize = 2 * (1 + 2) * size_of::<Descriptor>() + 3 * 64;
const TARGET_PER_S: f64 = 1e6;
const TARGET_BYTES: f64 = 2048.0;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// All of it.
pub(crate) fn measure(repeat: usize) -> Vec<Row> {
    let [mut trips, mut messages, mut beside, mut futures] = [const { Samples::EMPTY }; 4];
    let mut run = || -> Outcome {
        for _ in 0..repeat {
            trips.add(ping_pong()?);
            messages.add(ring(HOSTS, ROUNDS)?.messages_per_wall_s);
        }
        let weighed = ring(WEIGHED, 1)?;
        beside.add(weighed.bytes_a_program - REGISTERED_BYTES as f64);
        futures.add(weighed.future_bytes as f64);
        Ok(())
    };
    if let Err(error) = run() {
        return vec![Row::missing("programs", error.to_string())];
    }
    let at_least = Target::AtLeast(TARGET_PER_S);
    vec![
        Row::new(
            "clan-pio, 2 programs, round trips a wall second",
            "1/s",
            at_least,
            &trips,
        ),
        Row::new(
            "clan-pio, a ring of 1,024 programs, messages a wall second",
            "1/s",
            Target::AtLeast(TARGET_PER_S),
            &messages,
        ),
        Row::new(
            "memory of a program with two VIs, beside buffers and descriptors, 10,000 hosts",
            "B",
            Target::Below(TARGET_BYTES),
            &beside,
        ),
        Row::new(
            "of it, the program's own future",
            "B",
            Target::None,
            &futures,
        ),
    ]
}

/// Two blocking programs that poll; round trips a wall second.
fn ping_pong() -> Outcome<f64> {
    let mut simulation = Simulation::new(load_programs(MODEL, None, 2)?);
    for host in 0..2 {
        simulation.spawn(host, move |process| {
            if let Err(error) = play(&process) {
                eprintln!("host {}: {error}", process.host());
            }
        });
    }
    let begin = Instant::now();
    let outcome = simulation.run()?;
    let wall_s = begin.elapsed().as_secs_f64();
    if outcome.counts.messages < 2 * ROUND_TRIPS {
        return Err("the ping-pong ended early".into());
    }
    Ok(ROUND_TRIPS as f64 / wall_s)
}

fn play(process: &Process) -> Outcome {
    let nic = Nic::open(process.fabric(), "sim0")?;
    let mut vi = nic.vi().send_depth(2).receive_depth(2).build()?;
    let is_server = process.host() == 0;
    vi.post_receive(nic.buffer(BYTES, Memory::Private)?)?;
    let mut outgoing = nic.buffer(BYTES, Memory::Private)?;
    if is_server {
        nic.listen(b"ping").accept(&mut vi, None)?;
    } else {
        ask(process, &nic, &mut vi, "host0", b"ping")?;
    }
    for _ in 0..ROUND_TRIPS {
        if !is_server {
            vi.post_send(outgoing, BYTES)?;
            outgoing = vi.sent(None)?.buffer;
        }
        let received = loop {
            match vi.try_receive()? {
                Some(received) => break received,
                None => process.relax(),
            }
        };
        vi.post_receive(received.buffer)?;
        if is_server {
            vi.post_send(outgoing, BYTES)?;
            outgoing = vi.sent(None)?.buffer;
        }
    }
    process.sleep(Duration::from_millis(1));
    Ok(())
}

fn ask(
    process: &Process,
    nic: &Nic<SimulatedFabric>,
    vi: &mut Vi<SimulatedFabric>,
    host: &str,
    discriminator: &[u8],
) -> Outcome {
    let address = nic.resolve(host, discriminator)?;
    loop {
        match vi.connect(&address, None) {
            Ok(_) => return Ok(()),
            // It does not listen yet.
            Err(error) if error.code() == ReturnCode::NoMatch => {
                process.sleep(Duration::from_micros(100));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

struct Ring {
    messages_per_wall_s: f64,
    bytes_a_program: f64,
    future_bytes: u64,
}

/// What the programs of a ring tell of the moments at which all are ready, and done.
#[derive(Default)]
struct Times {
    ready: AtomicU64,
    future_bytes: AtomicU64,
    begun: Mutex<Option<(Instant, u64)>>,
}

/// A message from each host to the next, and again: asynchronous programs, set up by blocking ones.
fn ring(hosts: u32, rounds: u32) -> Outcome<Ring> {
    let config = load_programs(MODEL, None, hosts)?;
    let before = resident_bytes()?;
    let mut simulation = Simulation::new(config);
    let times = Arc::new(Times::default());
    for host in 0..hosts {
        let times = Arc::clone(&times);
        simulation.spawn(host, move |process| {
            let Ok(ends) = Ends::connect(&process, hosts) else {
                return;
            };
            if times.ready.fetch_add(1, Ordering::Relaxed) + 1 == u64::from(hosts) {
                let now = (Instant::now(), resident_bytes().unwrap_or(0));
                *times.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
            }
            process.spawn_async(move |process| {
                let program = ends.go_round(process, rounds);
                let bytes = size_of_val(&program) as u64;
                times.future_bytes.store(bytes, Ordering::Relaxed);
                program
            });
        });
    }
    let outcome = simulation.run()?;
    let begun = *times.begun.lock().unwrap_or_else(PoisonError::into_inner);
    let (begin, resident) = begun.ok_or("not all hosts were connected")?;
    let messages = u64::from(hosts) * u64::from(rounds);
    if outcome.counts.messages < messages {
        return Err("the ring ended early".into());
    }
    let grown = resident.max(resident_bytes()?).saturating_sub(before);
    Ok(Ring {
        messages_per_wall_s: messages as f64 / begin.elapsed().as_secs_f64(),
        bytes_a_program: grown as f64 / f64::from(hosts),
        future_bytes: times.future_bytes.load(Ordering::Relaxed),
    })
}

struct Ends {
    before: Vi<SimulatedFabric>,
    next: Vi<SimulatedFabric>,
    outgoing: Buffer,
}

impl Ends {
    fn connect(process: &Process, hosts: u32) -> Outcome<Self> {
        let nic = Nic::open(process.fabric(), "sim0")?;
        let vi = || nic.vi().send_depth(1).receive_depth(2).build();
        let (mut before, mut next) = (vi()?, vi()?);
        for buffer in nic.buffers(2, BYTES, Memory::Private)? {
            before.post_receive(buffer)?;
        }
        let neighbour = format!("host{}", (process.host() + 1) % hosts);
        // Every second host listens first, or all would ask and nobody answer.
        let asks_first = process.host().is_multiple_of(2);
        if asks_first {
            ask(process, &nic, &mut next, &neighbour, b"ring")?;
        }
        nic.listen(b"ring").accept(&mut before, None)?;
        if !asks_first {
            ask(process, &nic, &mut next, &neighbour, b"ring")?;
        }
        let outgoing = nic.buffer(BYTES, Memory::Private)?;
        Ok(Self {
            before,
            next,
            outgoing,
        })
    }

    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an `async fn` holds its arguments twice"
    )]
    fn go_round(mut self, process: Process, rounds: u32) -> impl Future<Output = ()> + Send {
        async move {
            // What fails shows in the count of messages.
            for _ in 0..rounds {
                if self.next.post_send(self.outgoing, BYTES).is_err() {
                    return;
                }
                let Ok(received) = self.before.receive_async().await else {
                    return;
                };
                let Ok(()) = self.before.post_receive(received.buffer) else {
                    return;
                };
                let Ok(sent) = self.next.sent_async().await else {
                    return;
                };
                self.outgoing = sent.buffer;
            }
            // Nobody leaves while a neighbour still sends.
            process.sleep_async(Duration::from_millis(10)).await;
        }
    }
}

/// Memory that this process holds.
fn resident_bytes() -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text
        .split_whitespace()
        .nth(1)
        .ok_or("no resident size")?
        .parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}
