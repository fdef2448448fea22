//! Active Message endpoints over shared memory: a request beside a message of the fabric, many idle
//! endpoints beside few, memory of an endpoint.
//!
//! The other side is this program again, on the other core.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use viaduct_am::{Body, Bundle, Endpoint, HandlerId, Handlers, Key, MTU_BYTES, Name, Options};
use viaduct_provider::{Memory, Nic, ReturnCode, Vi};
use viaduct_shm::Shm;
use viaduct_vi_carrier::{Identity, Station};

use crate::floor;
use crate::table::{Row, Samples, Target};

/// The first argument of the other side.
pub(crate) const SERVER: &str = "endpoint-server";

const CORES: [usize; 2] = [0, 1];
/// What a request carries: two words.
const BYTES: usize = 16;
/// What others do on the machine stretches most of a long measurement: of many short ones the best
/// counts, of all alike.
const BATCHES: u32 = 200;
const ROUND_TRIPS_A_BATCH: u32 = 1_000;
const ACTIVE: usize = 8;
const IDLE: usize = 10_000;
const WEIGHED: usize = 100_000;
const WINDOWS: u32 = 400;
const WINDOW: Duration = Duration::from_millis(1);
const LIMIT: Option<Duration> = Some(Duration::from_secs(10));
const KEY: Key = Key(8);
const PING: HandlerId = HandlerId::of(0);
const PONG: HandlerId = HandlerId::of(0);

/// A request takes at most so many times as long as a message.
const TIMES_MESSAGE_MAX: f64 = 1.5;
const RATE_KEPT_MIN: f64 = 0.9;
const BYTES_MAX: f64 = 1024.0;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;
type End = Endpoint<Station<Shm>, u64>;

/// All of it. The thread that measures is pinned; this one is not.
pub(crate) fn measure(repeat: usize) -> Vec<Row> {
    let measured = thread::spawn(move || run(repeat).map_err(|error| error.to_string())).join();
    match measured {
        Ok(Ok(rows)) => rows,
        Ok(Err(error)) => vec![Row::missing("endpoints", error)],
        Err(_) => vec![Row::missing("endpoints", "the measuring thread panicked")],
    }
}

fn run(repeat: usize) -> Outcome<Vec<Row>> {
    floor::pin(CORES[0])?;
    let [mut messages, mut requests, mut times] = [const { Samples::EMPTY }; 3];
    let [mut few, mut many, mut kept] = [const { Samples::EMPTY }; 3];
    let [mut bulk, mut bytes] = [const { Samples::EMPTY }; 2];
    for _ in 0..repeat {
        let message = half_round_trip_of_messages()?;
        let request = half_round_trip_of_requests()?;
        messages.add(message);
        requests.add(request);
        times.add(request / message);
        let rate_few = rate(ACTIVE, 0)?;
        let rate_many = rate(IDLE, 0)?;
        few.add(rate_few);
        many.add(rate_many);
        kept.add(rate_many / rate_few);
        bulk.add(rate(ACTIVE, MTU_BYTES)? * MTU_BYTES as f64 / 1e6);
    }
    bytes.add(weigh()?);
    Ok(vec![
        Row::new(
            "message of 16 bytes, half round trip",
            "us",
            Target::None,
            &messages,
        ),
        Row::new(
            "request of 16 bytes, half round trip",
            "us",
            Target::None,
            &requests,
        ),
        Row::new(
            "request over message, half round trips",
            "times",
            Target::AtMost(TIMES_MESSAGE_MAX),
            &times,
        ),
        Row::new(
            "8 endpoints, requests of 16 bytes",
            "1/s",
            Target::None,
            &few,
        ),
        Row::new(
            "10,000 endpoints, 8 active, the same",
            "1/s",
            Target::None,
            &many,
        ),
        Row::new(
            "10,000 endpoints over 8, rates",
            "times",
            Target::AtLeast(RATE_KEPT_MIN),
            &kept,
        ),
        Row::new(
            "8 endpoints, medium requests of 8 KiB",
            "MB/s",
            Target::None,
            &bulk,
        ),
        Row::new(
            "memory of an idle endpoint, 100,000 in a process",
            "B",
            Target::AtMost(BYTES_MAX),
            &bytes,
        ),
    ])
}

/// The shortest of the batches.
fn fastest(mut exchange: impl FnMut(u32) -> Outcome<f64>) -> Outcome<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..BATCHES {
        best = best.min(exchange(ROUND_TRIPS_A_BATCH)?);
    }
    Ok(best)
}

/// The other side of a measurement; killed when dropped.
struct Server {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Server {
    fn start(part: &str, argument: &str) -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args([SERVER, part, argument])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let says = process.stdout.take().ok_or("no pipe")?;
        Ok(Self {
            process,
            says: BufReader::new(says),
        })
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if self.says.read_line(&mut line)? == 0 {
            return Err("the other side ended early".into());
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The part of the other process.
///
/// # Errors
///
/// One line.
pub(crate) fn serve(arguments: &[String]) -> Outcome {
    floor::pin(CORES[1])?;
    // Ends with the one who measures, however that ends.
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    match arguments {
        [part, address] if part == "messages" => serve_messages(address),
        [part, count] if part == "requests" => serve_requests(count.parse()?),
        _ => Err("messages ADDRESS, or requests COUNT".into()),
    }
}

fn serve_messages(address: &str) -> Outcome {
    let nic = Nic::open(Shm::global(), "shm")?;
    let (mut vi, mut outgoing) = prepare(&nic)?;
    nic.listen(address.as_bytes()).accept(&mut vi, LIMIT)?;
    for _ in 0..BATCHES * ROUND_TRIPS_A_BATCH {
        take(&mut vi)?;
        outgoing = give(&mut vi, outgoing)?;
    }
    // Dropping the VI disconnects.
    thread::sleep(Duration::from_secs(10));
    Ok(())
}

fn prepare(nic: &Nic<Shm>) -> Outcome<(Vi<Shm>, viaduct_provider::Buffer)> {
    let mut vi = nic.vi().build()?;
    vi.post_receive(nic.buffer(BYTES, Memory::Private)?)?;
    vi.post_receive(nic.buffer(BYTES, Memory::Private)?)?;
    Ok((vi, nic.buffer(BYTES, Memory::Private)?))
}

fn take(vi: &mut Vi<Shm>) -> Outcome {
    let received = loop {
        if let Some(received) = vi.try_receive()? {
            break received;
        }
    };
    vi.post_receive(received.buffer)?;
    Ok(())
}

fn give(vi: &mut Vi<Shm>, buffer: viaduct_provider::Buffer) -> Outcome<viaduct_provider::Buffer> {
    vi.post_send(buffer, BYTES)?;
    loop {
        if let Some(sent) = vi.try_sent()? {
            return Ok(sent.buffer);
        }
    }
}

/// Microseconds.
fn half_round_trip_of_messages() -> Outcome<f64> {
    let address = format!("bench-{}", std::process::id());
    let _server = Server::start("messages", &address)?;
    let nic = Nic::open(Shm::global(), "shm")?;
    let (mut vi, mut outgoing) = prepare(&nic)?;
    let remote = nic.address(address.as_bytes());
    let begin = Instant::now();
    while let Err(error) = vi.connect(&remote, LIMIT) {
        if error.code() != ReturnCode::NoMatch || begin.elapsed() > Duration::from_secs(10) {
            return Err(error.into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    fastest(|count| {
        let begin = Instant::now();
        for _ in 0..count {
            let free = viaduct_provider::Buffer::empty();
            outgoing = give(&mut vi, std::mem::replace(&mut outgoing, free))?;
            take(&mut vi)?;
        }
        Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(2 * count))
    })
}

fn handlers() -> Arc<Handlers<Station<Shm>, u64>> {
    let handlers = Handlers::new(|_: &mut u64, returned| {
        eprintln!("came back: {}", returned.reason);
    });
    let handlers = handlers
        .on_request(PING, |_, request| {
            let words = [request.words()[0], request.words()[1]];
            if request.reply(PONG, &words).is_err() {
                eprintln!("two words are too many");
            }
        })
        .on_reply(PONG, |count, reply| *count += 1 + (reply.words()[1] >> 63));
    Arc::new(handlers)
}

fn station() -> Outcome<Station<Shm>> {
    let options = viaduct_vi_carrier::Options::default();
    Ok(Station::start(
        Shm::global(),
        "shm",
        Identity::random()?,
        options,
    )?)
}

fn serve_requests(count: usize) -> Outcome {
    let (station, handlers) = (station()?, handlers());
    if count == 1 {
        let mut endpoint = Endpoint::new(&station, &handlers, 0, Options::new(KEY))?;
        say(endpoint.name())?;
        loop {
            endpoint.poll();
        }
    }
    let mut bundle = Bundle::new(&station);
    for index in 0..count {
        let endpoint = Endpoint::new(&station, &handlers, 0, Options::new(KEY))?;
        if index % (count / ACTIVE) == 0 {
            say(endpoint.name())?;
        }
        bundle.insert(endpoint);
    }
    loop {
        bundle.poll(64);
    }
}

fn say(name: Name) -> Outcome {
    println!("{name}");
    Ok(std::io::stdout().flush()?)
}

fn client(station: &Station<Shm>, server: &mut Server) -> Outcome<End> {
    let mut endpoint = Endpoint::new(station, &handlers(), 0, Options::new(KEY))?;
    endpoint.map(0, &server.line()?.parse()?, KEY)?;
    Ok(endpoint)
}

/// Microseconds.
fn half_round_trip_of_requests() -> Outcome<f64> {
    let mut server = Server::start("requests", "1")?;
    let station = station()?;
    let mut endpoint = client(&station, &mut server)?;
    fastest(|count| {
        let begin = Instant::now();
        for word in 0..count {
            endpoint.request(0, PING, &[u64::from(word), 2])?;
            while endpoint.poll() == 0 {}
        }
        Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(2 * count))
    })
}

/// Requests a second that 8 clients of one process get answered by a bundle of so many endpoints.
fn rate(endpoints: usize, payload_bytes: usize) -> Outcome<f64> {
    let mut server = Server::start("requests", &endpoints.to_string())?;
    let station = station()?;
    let mut bundle = Bundle::new(&station);
    for _ in 0..ACTIVE {
        bundle.insert(client(&station, &mut server)?);
    }
    let payload = vec![7; payload_bytes];
    let body = match payload_bytes {
        0 => Body::Short,
        _ => Body::Medium(&payload),
    };
    let mut stream = || -> Outcome<f64> {
        let (begin, mut count) = (Instant::now(), 0);
        while begin.elapsed() < WINDOW {
            for index in 0..ACTIVE {
                let endpoint = bundle.member_mut(index).ok_or("no member")?;
                for _ in 0..8 {
                    if endpoint.try_request(0, PING, &[1, 2], body).is_err() {
                        break;
                    }
                }
            }
            count += bundle.poll(64);
        }
        Ok(count as f64 / begin.elapsed().as_secs_f64())
    };
    let mut best = 0.0_f64;
    for _ in 0..WINDOWS {
        best = best.max(stream()?);
    }
    Ok(best)
}

/// Bytes that an endpoint takes which nobody has sent to.
fn weigh() -> Outcome<f64> {
    let (station, handlers) = (station()?, handlers());
    let mut endpoints = Vec::with_capacity(WEIGHED);
    // What all of them share is there.
    endpoints.push(Endpoint::new(&station, &handlers, 0, Options::new(KEY))?);
    let before = resident_bytes()?;
    for _ in 1..WEIGHED {
        endpoints.push(Endpoint::new(&station, &handlers, 0, Options::new(KEY))?);
    }
    Ok((resident_bytes()? - before) / (WEIGHED - 1) as f64)
}

fn resident_bytes() -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = text.split_whitespace().nth(1).ok_or("statm")?.parse()?;
    Ok(pages * rustix::param::page_size() as f64)
}
