//! One list of messages, carried by a study's own processes and by programs.
//!
//! Each pair of hosts has a program that posts and one that takes. The first posts at the list's
//! times, and takes what is complete of its sends behind each post. The second keeps as many
//! receives posted as a study's process, hears of messages as its preset says, and posts each
//! receive again before it looks for the next message.

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use viaduct_cluster::config::{ClusterConfig, TrafficConfig};
use viaduct_cluster::result::{MessageRow, RunResult};
use viaduct_cluster::workload::{ListedMessage, MessageList, MessageOperation};
use viaduct_engine::Time;
use viaduct_hardware::{Mechanism, Notice};
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Process, Simulation};
use viaduct_provider::via::ReliabilityLevel;
use viaduct_provider::{Buffer, Memory, Nic, ReturnCode};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// Receives that each process keeps posted.
const RECEIVES: u32 = 64;

/// Sizes that change from one message to the next: short ones come behind long ones.
const SIZES: [u32; 8] = [64, 30_000, 0, 5000, 64, 0, 5000, 4];

/// So that all programs are connected when the first message is posted.
const START: Time = Time::from_microseconds(20_000);

/// Messages from each host of the first half to one of the second, so many each. They fill so many
/// percent of the link that all of them cross, if it is as fast as those of hosts.
pub(crate) fn messages(config: &SimulationConfig, count: u32, load: u32) -> Vec<ListedMessage> {
    let pairs = config.topology.host_count() / 2;
    let bytes: u32 = SIZES.iter().sum();
    let round = config.links.host_rate.time_for(f64::from(bytes * pairs));
    let apart = round.picoseconds() * 100 / u64::from(load) / SIZES.len() as u64;
    let of_pair = |pair: u32| {
        let sizes = SIZES.into_iter().cycle().skip(pair as usize);
        let first = apart * u64::from(pair) / u64::from(pairs);
        (0..u64::from(count))
            .zip(sizes)
            .map(move |(place, bytes)| ListedMessage {
                time: START + Time::from_picoseconds(first + apart * place),
                source: pair,
                target: pair + pairs,
                bytes,
                operation: MessageOperation::Send,
            })
    };
    (0..pairs).flat_map(of_pair).collect()
}

/// The list of what was posted, at the times at which it was.
pub(crate) fn posted(result: &RunResult) -> Vec<ListedMessage> {
    let listed = |row: MessageRow| ListedMessage {
        time: row.posted,
        source: row.source,
        target: row.target,
        bytes: row.bytes,
        operation: row.operation,
    };
    rows(result).into_iter().map(listed).collect()
}

/// The messages of each pair in the order of their posts, without their numbers: programs of other
/// pairs may post at the same time.
pub(crate) fn rows(result: &RunResult) -> Vec<MessageRow> {
    let mut rows = result.message_rows.clone();
    rows.sort_by_key(|row| (row.source, row.message));
    for row in &mut rows {
        row.message = 0;
    }
    rows
}

/// Has the adapter move the messages of a VI one by one, as it does those of programs: `ideal`
/// moves any number of a list's at once.
pub(crate) fn move_one_by_one(config: &mut SimulationConfig) {
    if let Mechanism::Native(nic) = &mut config.host.common_mut().mechanism {
        nic.moving_per_vi = 1;
    }
}

/// What becomes of the messages of a list.
pub(crate) fn of_list(config: &SimulationConfig, messages: &[ListedMessage]) -> Outcome<RunResult> {
    let hosts = config.topology.host_count();
    let list = Arc::new(MessageList::new(messages, hosts, 1)?);
    let mut config = ClusterConfig::from(config.clone());
    config.traffic = TrafficConfig::listed(list, Time::ZERO, Time::MAX);
    config.traffic.reliability = ReliabilityLevel::ReliableDelivery;
    config.run.until = end(messages);
    config.run.message_rows_max = messages.len() as u32;
    config.hosts.prepost = RECEIVES;
    config.hosts.send_buffers = messages.len() as u32;
    let result = viaduct_cluster::run(&config, &mut |_| ControlFlow::Continue(()))?;
    sound(result)
}

/// What becomes of the same messages, which programs post and take.
pub(crate) fn of_programs(
    config: &SimulationConfig,
    messages: &[ListedMessage],
) -> Outcome<RunResult> {
    let mut simulation = Simulation::new(config.clone());
    simulation.keep_account(messages.len() as u32);
    let (notice, end) = (config.host.common().notice(), end(messages));
    for pair in messages.chunk_by(|one, next| one.source == next.source) {
        let (source, target) = (pair[0].source, pair[0].target);
        let count = pair.len();
        let buffer_bytes = pair.iter().map(|it| it.bytes).max().unwrap_or(0) as usize;
        simulation.spawn(target, move |process| {
            if let Err(error) = take(&process, notice, (count, buffer_bytes), end) {
                eprintln!("host{target}: {error}");
            }
        });
        let messages = pair.to_vec();
        simulation.spawn(source, move |process| {
            if let Err(error) = post(&process, &messages, end) {
                eprintln!("host{source}: {error}");
            }
        });
    }
    simulation.run()?;
    sound(simulation.account())
}

/// Takes so many messages of at most so many bytes.
fn take(
    process: &Process,
    notice: Notice,
    (count, bytes): (usize, usize),
    end: Time,
) -> Outcome<()> {
    let nic = Nic::open(process.fabric(), "sim0")?;
    let vi = nic.vi().reliability(ReliabilityLevel::ReliableDelivery);
    let mut vi = vi.receive_depth(RECEIVES).build()?;
    for _ in 0..RECEIVES {
        vi.post_receive(nic.buffer(bytes, Memory::Private)?)?;
    }
    nic.listen(b"listed").accept(&mut vi, None)?;
    for _ in 0..count {
        let received = match notice {
            Notice::Interrupt { .. } => vi.receive(None)?,
            Notice::Polling { .. } => loop {
                if let Some(received) = vi.try_receive()? {
                    break received;
                }
            },
        };
        vi.post_receive(received.buffer)?;
    }
    process.sleep_until(end);
    Ok(())
}

/// Posts messages at their times, or when the processor has done with those before.
fn post(process: &Process, messages: &[ListedMessage], end: Time) -> Outcome<()> {
    let nic = Nic::open(process.fabric(), "sim0")?;
    let vi = nic.vi().reliability(ReliabilityLevel::ReliableDelivery);
    let mut vi = vi.send_depth(messages.len() as u32).build()?;
    let target = messages.first().map_or(0, |message| message.target);
    let address = nic.resolve(&format!("host{target}"), b"listed")?;
    while let Err(error) = vi.connect(&address, None) {
        if error.code() != ReturnCode::NoMatch {
            return Err(error.into());
        }
        process.sleep(Duration::from_micros(10));
    }
    let buffer = |message: &ListedMessage| match message.bytes {
        0 => Ok(Buffer::empty()),
        bytes => nic.buffer(bytes as usize, Memory::Private),
    };
    let buffers: Vec<_> = messages.iter().map(buffer).collect::<Result<_, _>>()?;
    let mut incomplete = 0;
    // They stay registered: giving memory back takes the processor.
    let mut sent = Vec::with_capacity(messages.len());
    for (message, buffer) in messages.iter().zip(buffers) {
        process.sleep_until(message.time);
        vi.post_send(buffer, message.bytes as usize)?;
        incomplete += 1;
        while incomplete > 0
            && let Some(buffer) = vi.try_sent()?
        {
            sent.push(buffer);
            incomplete -= 1;
        }
    }
    // What is complete after that its process does not hear of, nor does a list's.
    process.sleep_until(end);
    for _ in 0..incomplete {
        sent.push(vi.sent(None)?);
    }
    Ok(())
}

/// By then all messages have been taken.
fn end(messages: &[ListedMessage]) -> Time {
    let last = messages.iter().map(|message| message.time).max();
    let each = Time::from_milliseconds(2).saturating_mul(messages.len() as u64);
    last.unwrap_or(START) + each
}

/// A result, if all messages were taken and the run has found nothing wrong with itself.
fn sound(result: RunResult) -> Outcome<RunResult> {
    if let Some(violation) = result.violations.first() {
        return Err(violation.clone().into());
    }
    let counts = result.messages;
    if counts.delivered != counts.posted {
        return Err(format!("{} of {} were taken", counts.delivered, counts.posted).into());
    }
    Ok(result)
}
