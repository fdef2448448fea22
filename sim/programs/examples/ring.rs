//! Simulated hosts in a ring: in each round every host sends a message to the next, receives one
//! from the one before, and computes for a microsecond.
//!
//! ```text
//! cargo run --release --example ring [HOSTS] [ROUNDS] [MODEL]
//! ```
//!
//! The set-up is a blocking program, which has a stack while it runs; the rounds are a future.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use viaduct_programs::{Process, SimulatedFabric, Simulation};
use viaduct_provider::{Buffer, Memory, Nic, ReturnCode, Vi};
use viaduct_scenario::load_programs;

const BYTES: usize = 8;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[expect(
    clippy::disallowed_methods,
    reason = "the command line is the example's configuration"
)]
fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual: u32| arguments.next().map_or(Ok(usual), |word| word.parse());
    let (hosts, rounds) = (number(1024)?, number(100)?);
    let model = arguments.next().unwrap_or_else(|| "clan-pio".to_owned());
    if hosts < 2 || !hosts.is_multiple_of(2) {
        return Err("the ring takes an even number of hosts".into());
    }

    let mut simulation = Simulation::new(load_programs(&model, None, hosts)?);
    let finished = Arc::new(AtomicU32::new(0));
    for host in 0..hosts {
        let finished = Arc::clone(&finished);
        simulation.spawn(host, move |process| {
            let Ok(ends) = Ends::connect(&process, hosts) else {
                return;
            };
            process.spawn_async(move |process| async move {
                if ends.go_round(&process, rounds).await.is_ok() {
                    finished.fetch_add(1, Ordering::Relaxed);
                }
            });
        });
    }
    let outcome = simulation.run()?;

    let finished = finished.load(Ordering::Relaxed);
    if finished < hosts {
        return Err(format!("{} of {hosts} hosts failed", hosts - finished).into());
    }
    println!(
        "ring: {hosts} hosts of {model}, {} messages in {:.1} us of simulated time",
        outcome.counts.messages,
        outcome.end.microseconds_f64()
    );
    Ok(())
}

/// A host's connections to its neighbours.
struct Ends {
    before: Vi<SimulatedFabric>,
    next: Vi<SimulatedFabric>,
    outgoing: Buffer,
}

impl Ends {
    fn connect(process: &Process, hosts: u32) -> Outcome<Self> {
        let nic = Nic::open(process.fabric(), "sim0")?;
        let vi = || nic.vi().send_depth(2).receive_depth(4).build();
        let (mut before, mut next) = (vi()?, vi()?);
        for buffer in nic.buffers(2, BYTES, Memory::Private)? {
            before.post_receive(buffer)?;
        }
        let neighbour = format!("host{}", (process.host() + 1) % hosts);
        let ask = |next: &mut Vi<_>| -> Outcome {
            let address = nic.resolve(&neighbour, b"ring")?;
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
        // Every second host listens first, or all would ask and nobody answer.
        if process.host().is_multiple_of(2) {
            ask(&mut next)?;
        }
        nic.listen(b"ring").accept(&mut before, None)?;
        if !process.host().is_multiple_of(2) {
            ask(&mut next)?;
        }
        let outgoing = nic.buffer(BYTES, Memory::Private)?;
        Ok(Self {
            before,
            next,
            outgoing,
        })
    }

    async fn go_round(mut self, process: &Process, rounds: u32) -> Outcome {
        for _ in 0..rounds {
            self.next.post_send(self.outgoing, BYTES)?;
            let received = self.before.receive_async().await?;
            self.before.post_receive(received.buffer)?;
            self.outgoing = self.next.sent_async().await?.buffer;
            process.compute(Duration::from_micros(1));
        }
        // Nobody leaves while a neighbour still sends.
        process.sleep_async(Duration::from_millis(10)).await;
        Ok(())
    }
}
