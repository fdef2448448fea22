//! Does a ring all-reduce survive a torus? Every host has a vector; at the end all have the sum.
//!
//! ```text
//! cargo run --release --example all_reduce -- [STUDY] [BYTES] [ORDER] [MODEL]
//! ```
//!
//! STUDY gives the network (a two-dimensional torus), MODEL the hosts' adapters. The ring is a way
//! round the hosts: ORDER is `snake`, in which the next of the ring is a neighbour of the torus, or
//! `shuffled`. In the first half of the steps each host adds what comes to a piece of its vector
//! and passes the piece on, in the second half whole sums go round. Two receives are posted at a
//! time, and flow control holds back a sender that is further ahead: without it the connection
//! would break.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_programs::{Process, SimulatedFabric, Simulation};
use viaduct_provider::{Buffer, Memory, Nic, ReturnCode, Vi};
use viaduct_scenario::load_programs;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// What adding costs: a stream of three 8-byte words a sum, at 12 GB/s.
const ADDING_BYTES_PER_SECOND: f64 = 4e9;

/// Connections are made before this time, sums between it and the end.
const BEGIN: Duration = Duration::from_millis(100);
const END: Duration = Duration::from_secs(100);

#[expect(
    clippy::disallowed_methods,
    reason = "the command line is the example's configuration"
)]
fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let study = arguments.next().unwrap_or_else(|| "torus-1024".to_owned());
    let bytes: usize = arguments.next().map_or(Ok(1 << 20), |word| word.parse())?;
    let order = arguments.next().unwrap_or_else(|| "snake".to_owned());
    let model = arguments.next().unwrap_or_else(|| "rnic-gen4".to_owned());

    // The network of the study, in which nobody else sends.
    let config = load_programs(&model, Some(&study), 2)?.quiet();
    let hosts = config.topology.host_count();
    let place = places(&order, hosts)?;
    let words = bytes / 8;
    if words == 0 || !words.is_multiple_of(hosts as usize) {
        return Err(
            format!("BYTES must be a multiple of 8 bytes for each of {hosts} hosts").into(),
        );
    }

    let mut simulation = Simulation::new(config);
    let spans = Arc::new(Mutex::new(Vec::new()));
    for position in 0..hosts {
        let (host, next) = (
            place[position as usize],
            place[((position + 1) % hosts) as usize],
        );
        let spans = Arc::clone(&spans);
        simulation.spawn(host, move |process| {
            let piece = words / hosts as usize;
            let ends = match Ends::connect(&process, position, next, piece * 8) {
                Ok(ends) => ends,
                Err(error) => return eprintln!("host {host}: {error}"),
            };
            process.spawn_async(move |process| async move {
                // The work begins when all connections are there.
                process
                    .sleep_async(BEGIN.saturating_sub(process.now()))
                    .await;
                let mut vector: Vec<u64> = vec![u64::from(position) + 1; words];
                let done = ends
                    .reduce(&process, position, hosts, &mut vector)
                    .await
                    .is_ok();
                let sum = u64::from(hosts) * (u64::from(hosts) + 1) / 2;
                if done && vector.iter().all(|each| *each == sum) {
                    spans
                        .lock()
                        .expect("nobody panics with it")
                        .push(process.now() - BEGIN);
                }
                // Nobody leaves while a neighbour still works.
                process.sleep_async(END.saturating_sub(process.now())).await;
            });
        });
    }
    let counts = simulation.run()?.counts;

    let spans = spans.lock().expect("nobody panics with it");
    if spans.len() < hosts as usize {
        return Err(format!("{} of {hosts} hosts have the sum", spans.len()).into());
    }
    let slowest = spans.iter().max().copied().unwrap_or_default();
    println!(
        "all_reduce: {hosts} hosts, ring {order}, {bytes} bytes, {} messages: {:.1} us, {:.3} GB/s a host",
        counts.messages,
        slowest.as_secs_f64() * 1e6,
        // What a host has to send, whatever the algorithm: 2 (n - 1) / n of the vector.
        2.0 * f64::from(hosts - 1) / f64::from(hosts) * bytes as f64 / slowest.as_secs_f64() / 1e9
    );
    Ok(())
}

/// The hosts in the order of the ring, of a square torus with a host a switch.
fn places(order: &str, hosts: u32) -> Outcome<Vec<u32>> {
    let side = hosts.isqrt();
    if side * side != hosts || !side.is_multiple_of(2) {
        return Err("the network must be a square torus of even side, a host a switch".into());
    }
    let mut places: Vec<u32> = (0..hosts)
        .map(|position| {
            let (row, along) = (position / side, position % side);
            let column = if row % 2 == 0 {
                along
            } else {
                side - 1 - along
            };
            row * side + column
        })
        .collect();
    match order {
        "snake" => {}
        "shuffled" => {
            // Fisher and Yates, with a random sequence that is the same each time.
            let mut state = 1_u64;
            for last in (1..places.len()).rev() {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                places.swap(last, (state >> 33) as usize % (last + 1));
            }
        }
        _ => return Err(format!("no order `{order}`: snake or shuffled").into()),
    }
    Ok(places)
}

/// A host's connections to its neighbours of the ring.
struct Ends {
    before: Vi<SimulatedFabric>,
    next: Vi<SimulatedFabric>,
    outgoing: Buffer,
}

impl Ends {
    fn connect(process: &Process, position: u32, next_host: u32, bytes: usize) -> Outcome<Self> {
        let nic = Nic::open(process.fabric(), "sim0")?;
        // At the end somebody leaves first: that is no news.
        nic.set_error_handler(Some(Arc::new(|_| {})))?;
        let longest = nic.attributes().max_transfer_bytes;
        if bytes > longest as usize {
            return Err(
                format!("a piece of {bytes} bytes; a message has {longest} at most").into(),
            );
        }
        // The one before may be many steps ahead; a send that finds no receive waits for one.
        let vi = || {
            nic.vi()
                .flow_control(true)
                .send_depth(2)
                .receive_depth(4)
                .build()
        };
        let (mut before, mut next) = (vi()?, vi()?);
        for buffer in nic.buffers(2, bytes, Memory::Private)? {
            before.post_receive(buffer)?;
        }
        let ask = |next: &mut Vi<_>| -> Outcome {
            let address = nic.resolve(&format!("host{next_host}"), b"ring")?;
            loop {
                match next.connect(&address, None) {
                    Ok(_) => return Ok(()),
                    // It does not listen yet.
                    Err(error) if error.code() == ReturnCode::NoMatch => {
                        process.sleep(Duration::from_micros(100));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        // Every second of the ring listens first, or all would ask and nobody answer.
        if position.is_multiple_of(2) {
            ask(&mut next)?;
        }
        nic.listen(b"ring").accept(&mut before, None)?;
        if !position.is_multiple_of(2) {
            ask(&mut next)?;
        }
        let outgoing = nic.buffer(bytes, Memory::Private)?;
        Ok(Self {
            before,
            next,
            outgoing,
        })
    }

    async fn reduce(
        mut self,
        process: &Process,
        position: u32,
        hosts: u32,
        vector: &mut [u64],
    ) -> Outcome {
        let piece = vector.len() / hosts as usize;
        let range = |index: u32| {
            let from = (index % hosts) as usize * piece;
            from..from + piece
        };
        for step in 0..2 * (hosts - 1) {
            let passed = range(position + 2 * hosts - step);
            for (bytes, word) in self.outgoing.chunks_exact_mut(8).zip(&vector[passed]) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            self.next.post_send(self.outgoing, piece * 8)?;
            let received = self.before.receive_async().await?;
            let is_sum = step >= hosts - 1;
            let kept = range(position + 2 * hosts - step - 1);
            for (word, bytes) in vector[kept].iter_mut().zip(received.data().chunks_exact(8)) {
                let came = u64::from_le_bytes(bytes.try_into()?);
                *word = if is_sum { came } else { *word + came };
            }
            if !is_sum {
                let seconds = (piece * 8) as f64 / ADDING_BYTES_PER_SECOND;
                process.compute(Duration::from_secs_f64(seconds));
            }
            self.before.post_receive(received.buffer)?;
            self.outgoing = self.next.sent_async().await?.buffer;
        }
        Ok(())
    }
}
