//! iceoryx2 between two processes: publish and subscribe each way, both sides spinning. KIND is
//! `in-place`, the payload written and read where it lies in the library's shared memory, or
//! `copied`, from and into private memory, as a program that keeps its data elsewhere has to.

#[path = "../../../src/protocol.rs"]
mod protocol;

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::sample::Sample;
use iceoryx2::sample_mut::SampleMut;
use iceoryx2::sample_mut_uninit::SampleMutUninit;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use protocol::{ANSWER, DEPTH, End, Plan, Test, WINDOW};

/// The version in the manifest: the library does not tell its own at run time.
const VERSION: &str = "0.10";
/// The hidden word that starts the second process; the number of the first follows.
const SECOND: &str = "second";

type Loaned = SampleMutUninit<ipc::Service, [std::mem::MaybeUninit<u64>], ()>;

struct Iceoryx2 {
    publisher: Publisher<ipc::Service, [u64], ()>,
    subscriber: Subscriber<ipc::Service, [u64], ()>,
    /// Written, not yet sent.
    filled: Option<SampleMut<ipc::Service, [u64], ()>>,
    /// Came, not yet given back.
    current: Option<Sample<ipc::Service, [u64], ()>>,
    copies: Option<Copies>,
}

/// Private memory of each slot: what is sent, and what came.
struct Copies {
    sending: Vec<Vec<u64>>,
    came: Vec<Vec<u64>>,
}

impl Iceoryx2 {
    fn loan(&self, bytes: usize) -> Loaned {
        self.publisher
            .loan_slice_uninit(bytes / 8)
            .unwrap_or_else(|error| panic!("no memory to loan: {error}"))
    }
}

impl End for Iceoryx2 {
    fn fill(&mut self, slot: usize, bytes: usize, value: u8) {
        let word = u64::from_ne_bytes([value; 8]);
        if let Some(copies) = &mut self.copies {
            copies.sending[slot][..bytes / 8].fill(word);
            return;
        }
        self.filled = Some(self.loan(bytes).write_from_fn(|_| word));
    }

    fn post(&mut self, slot: usize, bytes: usize) {
        let sample = self.filled.take().unwrap_or_else(|| {
            let loaned = self.loan(bytes);
            if let Some(copies) = &self.copies {
                return loaned.write_from_slice(&copies.sending[slot][..bytes / 8]);
            }
            // SAFETY: any bytes are a number, and these are shared memory that the system or an
            // earlier message has filled. Nobody writes them: that is what untouched means.
            unsafe { loaned.assume_init() }
        });
        if let Err(error) = sample.send() {
            panic!("a message was not sent: {error}");
        }
    }

    fn settle(&mut self, _slot: usize) {}

    fn expect(&mut self, _slot: usize, _bytes: usize) {}

    fn receive(&mut self, slot: usize, bytes: usize) {
        let sample = loop {
            match self.subscriber.receive() {
                Ok(Some(sample)) => break sample,
                Ok(None) => {}
                Err(error) => panic!("a message was not received: {error}"),
            }
        };
        assert_eq!(sample.payload().len(), bytes / 8);
        match &mut self.copies {
            Some(copies) => copies.came[slot][..bytes / 8].copy_from_slice(sample.payload()),
            None => self.current = Some(sample),
        }
    }

    fn sum(&mut self, slot: usize, bytes: usize) -> u64 {
        let words = match (&self.copies, &self.current) {
            (Some(copies), _) => &copies.came[slot][..bytes / 8],
            (None, Some(sample)) => sample.payload(),
            (None, None) => &[],
        };
        words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
    }

    fn release(&mut self, _slot: usize) {
        self.current = None;
    }
}

fn main() -> ExitCode {
    set_log_level(LogLevel::Error);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.as_slice() {
        [word, number, rest @ ..] if word == SECOND => second(number, rest),
        _ => first(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn first(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let plan = Plan::read(arguments)?;
    let number = std::process::id().to_string();
    prepare(&plan, 0)?;
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let mut end = open(&node, &plan, &number, 0)?;
    let mut other = Command::new(std::env::current_exe()?)
        .args([SECOND, &number])
        .args(plan.arguments())
        .stdout(Stdio::piped())
        .spawn()?;
    // Messages that are sent before the other side subscribes would be lost.
    let ready = other
        .stdout
        .take()
        .ok_or("the second process has no output")?;
    let mut word = String::new();
    if BufReader::new(ready).read_line(&mut word)? == 0 {
        return Err("the second process did not start".into());
    }
    let batches = protocol::measure(&mut end, &plan)?;
    println!("{}", protocol::line(&plan, VERSION, &batches));
    let status = other.wait()?;
    if !status.success() {
        return Err(format!("the second process ended with {status}").into());
    }
    Ok(())
}

fn second(number: &str, arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let plan = Plan::read(arguments)?;
    prepare(&plan, 1)?;
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let mut end = open(&node, &plan, number, 1)?;
    println!("ready");
    std::io::stdout().flush()?;
    Ok(protocol::answer(&mut end, &plan)?)
}

fn prepare(plan: &Plan, side: usize) -> Result<(), Box<dyn Error>> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut cores = CpuSet::new();
    cores.set(plan.cores[side]);
    Ok(sched_setaffinity(None, &cores)?)
}

/// A service each way; a full queue makes the publisher wait.
fn open(
    node: &Node<ipc::Service>,
    plan: &Plan,
    number: &str,
    side: usize,
) -> Result<Iceoryx2, Box<dyn Error>> {
    let copies = match plan.kind.as_str() {
        "in-place" => None,
        "copied" => {
            let is_used = |slot| slot < DEPTH || plan.test == Test::Rate && slot != ANSWER;
            let words = |slot| if is_used(slot) { plan.bytes / 8 } else { 1 };
            // Not zeroes, so that every page is there from the start.
            let buffers = || (0..=ANSWER).map(|slot| vec![!0_u64; words(slot)]).collect();
            Some(Copies {
                sending: buffers(),
                came: buffers(),
            })
        }
        kind => return Err(format!("KIND is in-place or copied, not `{kind}`").into()),
    };
    let depth = if plan.test == Test::Rate {
        2 * WINDOW
    } else {
        DEPTH
    };
    let service = |way: usize| -> Result<_, Box<dyn Error>> {
        let name = format!("viaduct-bench/{number}/{way}");
        Ok(node
            .service_builder(&name.as_str().try_into()?)
            .publish_subscribe::<[u64]>()
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size(depth)
            .max_publishers(1)
            .max_subscribers(1)
            .open_or_create()?)
    };
    let publisher = service(side)?
        .publisher_builder()
        .initial_max_slice_len(plan.bytes / 8)
        .max_loaned_samples(2)
        .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
        .create()?;
    let subscriber = service(1 - side)?
        .subscriber_builder()
        .buffer_size(depth)
        .create()?;
    Ok(Iceoryx2 {
        publisher,
        subscriber,
        filled: None,
        current: None,
        copies,
    })
}
