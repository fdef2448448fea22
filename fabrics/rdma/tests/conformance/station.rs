//! Stations over queue pairs between processes: in this process, or in another.

#[path = "../../../conformance/verbs/objects.rs"]
mod objects;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use objects::Objects;
#[allow(unused_imports, reason = "shared with tests that post by hand")]
pub(crate) use viaduct_conformance::verbs::{ALL, Post, Reply, Station};

/// What is not the same on all fabrics.
mod fabric {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    pub(crate) use viaduct_rdma::{
        AddressHandle, AsyncElement, CompletionChannel, CompletionQueue, CompletionQueueOptions,
        Context, DatagramDestination, MemoryRegion, ProtectionDomain, QueuePair, QueuePairOptions,
        ReceiveRequest, Result as Made, SendRequest, SharedReceiveQueue, verbs,
    };

    /// Where a station is: here.
    pub(crate) type Home = ();

    pub(crate) fn open((): &Home) -> Made<Context> {
        viaduct_rdma::devices()[0].open()
    }

    pub(crate) fn gid(context: &Context) -> Made<[u8; 16]> {
        Ok(context.device().gid(1, 0)?.gid)
    }

    pub(crate) const fn way(address: &AddressHandle) -> AddressHandle {
        *address
    }

    pub(crate) fn now(_: &Context) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }

    pub(crate) fn relax(_: &Context) {
        std::thread::yield_now();
    }

    pub(crate) fn later(_: &Context, span: Duration, act: impl FnOnce() + Send + 'static) {
        std::thread::spawn(move || {
            std::thread::sleep(span);
            act();
        });
    }

    /// Commands of tests that are this fabric's alone.
    pub(crate) fn answer(context: &Context, name: &str) -> Made<Vec<u64>> {
        match name {
            "counters" => {
                let counters = viaduct_rdma::Counters::of_this_process();
                Ok(vec![
                    counters.peer_writes,
                    counters.peer_write_bytes,
                    counters.peer_reads,
                    counters.peer_read_bytes,
                    counters.peer_atomics,
                ])
            }
            "shared-copies" => {
                let counters = viaduct_rdma::Counters::of_this_process();
                Ok(vec![counters.shared_copies, counters.kernel_copies])
            }
            "faults" => {
                let counters = viaduct_rdma::Counters::of_this_process();
                Ok(vec![
                    counters.lost,
                    counters.retries,
                    counters.not_ready,
                    counters.not_ready_retries,
                    counters.delayed,
                    counters.port_downs,
                    counters.broken_queue_pairs,
                ])
            }
            "port" => {
                let port = context.device().port(1)?;
                Ok(vec![
                    u64::from(port.state.number()),
                    u64::from(port.physical_state),
                ])
            }
            _ => panic!("a station does not know {name}"),
        }
    }
}

/// A station in this process.
pub(crate) struct Local(Objects);

impl Local {
    pub(crate) fn new() -> Self {
        Self(Objects::new(&()))
    }
}

impl Station for Local {
    fn call(&mut self, name: &str, numbers: &[u64]) -> Reply {
        self.0.call(name, numbers)
    }

    fn renew(&mut self) {
        *self = Self::new();
    }
}

/// Serves commands from standard input until it ends.
pub(crate) fn serve() {
    let mut station = Objects::new(&());
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        if name == "new" {
            drop(station);
            station = Objects::new(&());
            writeln!(output, "ok").expect("the case listens");
        } else {
            let numbers: Vec<u64> = words.map(|word| word.parse().expect("a number")).collect();
            match station.call(name, &numbers) {
                Ok(numbers) => {
                    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
                    writeln!(output, "ok {}", words.join(" ")).expect("the case listens");
                }
                Err(errno) => writeln!(output, "error {errno}").expect("the case listens"),
            }
        }
        output.flush().expect("the case listens");
    }
}

/// A station in another process.
pub(crate) struct Remote {
    pub(crate) child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    variables: Vec<(String, String)>,
}

impl Remote {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// With variables in its environment.
    pub(crate) fn start_with(variables: &[(&str, &str)]) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .arg("--station")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process is started");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self {
            child,
            input,
            output,
            variables: variables
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        }
    }

    /// Says what to do, and does not wait until it is done.
    pub(crate) fn begin(&mut self, name: &str, numbers: &[u64]) {
        let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let line = format!("{name} {}", words.join(" "));
        writeln!(self.input, "{}", line.trim_end()).expect("the station listens");
    }
}

impl Station for Remote {
    fn call(&mut self, name: &str, numbers: &[u64]) -> Reply {
        self.begin(name, numbers);
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .expect("the station answers");
        let mut words = line.split_whitespace();
        match words.next() {
            Some("ok") => Ok(words.map(|word| word.parse().expect("a number")).collect()),
            Some("error") => Err(words
                .next()
                .and_then(|word| word.parse().ok())
                .expect("errno")),
            _ => panic!("the station died at `{name}`"),
        }
    }
    fn renew(&mut self) {
        self.call("new", &[]).expect("a new station");
    }

    fn restart(&mut self) {
        let variables = std::mem::take(&mut self.variables);
        let variables: Vec<_> = variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        *self = Self::start_with(&variables);
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
