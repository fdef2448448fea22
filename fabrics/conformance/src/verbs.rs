//! One suite of cases for queue pairs, whoever carries them.
//!
//! A case has two sides, each a [`Station`] with objects of its own: it does what it is told by
//! name and numbers, wherever it is. What the names mean stands in `verbs/station.rs` beside this
//! crate's sources, which every fabric compiles over its own calls.

mod cases;

pub use cases::{Case, all as cases};

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use crate::mutants::{self, Mutants};
use viaduct_provider::via::verbs::flags::access;

/// Words of the memory of a station.
pub const WORDS: usize = 1 << 17;

/// What a station answers: numbers, or an errno.
pub type Reply = Result<Vec<u64>, i32>;

/// All rights of a region or a queue pair.
pub const ALL: u32 =
    access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;

/// Q_Key of all datagrams.
pub const QUEUE_KEY: u32 = 0x1234_5678;

/// What breaks when a rule of verbs is broken, over a fabric that the list of survivors calls so.
#[must_use]
pub const fn mutants_under(under: &'static str) -> Mutants {
    Mutants {
        under,
        survivors: include_str!("../verbs/survivors.txt"),
        file: "fabrics/conformance/verbs/survivors.txt",
        is_verbs: true,
    }
}

/// A run of the suite.
#[derive(Debug)]
pub struct Run {
    filter: Option<String>,
    is_mutant: bool,
    failed: Vec<String>,
    count: usize,
}

impl Run {
    /// Whether a rule is broken: one case that fails is enough.
    #[must_use]
    pub const fn is_mutant(&self) -> bool {
        self.is_mutant
    }

    /// Whether all cases are run.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.filter.is_none()
    }

    /// Whether the run is over, since what was to be noticed was.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_mutant && !self.failed.is_empty()
    }

    /// Runs a case, of which `run` makes the sides, under a name of theirs; whether it failed. One
    /// that was not asked for does not.
    pub fn case(&mut self, sides: &str, case: &Case, run: impl FnOnce()) -> bool {
        let (name, source, _) = case;
        let whole = format!("{sides}::{name}");
        let filter = self.filter.as_deref();
        if self.is_over() || filter.is_some_and(|filter| !whole.contains(filter)) {
            return false;
        }
        self.count += 1;
        let has_failed = catch_unwind(AssertUnwindSafe(run)).is_err();
        let ending = if has_failed { "FAILED" } else { "ok" };
        println!("test {whole} ... {ending} ({source})");
        if has_failed {
            self.failed.push(whole);
        }
        has_failed
    }
}

/// What a test of the suite does: `run` runs it as its arguments say. Then a sample of the rules is
/// broken, one at a time, and a case must fail; `--mutants` breaks all of them.
pub fn main(suite: &Mutants, run: impl FnOnce(&mut Run)) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_mutant = mutants::break_what_is_asked();
    if arguments.iter().any(|word| word == "--list") {
        for (name, _, _) in cases() {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let words = arguments.iter().filter(|word| !word.starts_with('-'));
    let words: Vec<String> = words.cloned().collect();
    if arguments.iter().any(|word| word == "--mutants") {
        return mutants::run(suite, Some(&words));
    }
    let mut ran = Run {
        filter: words.into_iter().next(),
        is_mutant,
        failed: Vec::new(),
        count: 0,
    };
    run(&mut ran);
    println!(
        "{} of {} cases passed",
        ran.count - ran.failed.len(),
        ran.count
    );
    for name in &ran.failed {
        println!("failed: {name}");
    }
    if !ran.failed.is_empty() {
        return ExitCode::FAILURE;
    }
    if is_mutant {
        mutants::say_whether_asked();
    } else if ran.is_whole() {
        return mutants::run(suite, None);
    }
    ExitCode::SUCCESS
}

/// A completion, in numbers.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Done {
    /// The word for it.
    pub request: u64,
    /// How it ended.
    pub status: u64,
    /// What it was.
    pub opcode: u64,
    /// Bytes that came.
    pub bytes: u64,
    /// Immediate data.
    pub immediate: u64,
    /// Whose it is.
    pub pair: u64,
    /// Who sent it.
    pub source: u64,
    /// Bits of what is known of it.
    pub flags: u64,
}

/// A send with its defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Post {
    /// On which queue pair, by the order in which they were made.
    pub pair: u64,
    /// What to do.
    pub opcode: u64,
    /// Bits of a send.
    pub flags: u32,
    /// The word for it.
    pub request: u64,
    /// From which byte of the memory.
    pub at: u64,
    /// Bytes.
    pub length: u64,
    /// Where in the peer's memory.
    pub remote: u64,
    /// The key of that.
    pub key: u64,
    /// Immediate data.
    pub immediate: u64,
    /// What to compare with, or to add.
    pub add: u64,
    /// What to store; of a datagram its Q_Key.
    pub swap: u64,
    /// For a datagram the queue pair it is for.
    pub to: u64,
    /// The local key; 0: that of the first region.
    pub own_key: u64,
}

/// One side of a case.
pub trait Station {
    /// Does what a command says. Numbers come and go in the order of the functions below.
    fn call(&mut self, name: &str, numbers: &[u64]) -> Reply;

    /// All objects anew.
    fn renew(&mut self);

    /// The same, in another process if it has one of its own.
    fn restart(&mut self) {
        self.renew();
    }

    /// A call that succeeds.
    fn done(&mut self, name: &str, numbers: &[u64]) -> Vec<u64> {
        self.call(name, numbers)
            .unwrap_or_else(|errno| panic!("{name} {numbers:?} failed with errno {errno}"))
    }

    /// Posts a send.
    fn post(&mut self, post: Post) -> Reply {
        self.call(
            "send",
            &[
                post.pair,
                post.opcode,
                u64::from(post.flags),
                post.request,
                post.at,
                post.length,
                post.remote,
                post.key,
                post.immediate,
                post.add,
                post.swap,
                post.to,
                post.own_key,
            ],
        )
    }

    /// A send that is posted.
    fn send(&mut self, post: Post) {
        self.post(post).expect("the send is posted");
    }

    /// A receive of queue pair 0 that is posted.
    fn receive(&mut self, request: u64, at: u64, length: u64) {
        self.done("receive", &[0, request, at, length]);
    }

    /// The next completion of a queue, if one comes in time.
    fn completion(&mut self, name: &str, must_come: bool) -> Option<Done> {
        let numbers = self.done(name, &[u64::from(must_come)]);
        let [
            request,
            status,
            opcode,
            bytes,
            immediate,
            pair,
            source,
            flags,
        ] = numbers.try_into().ok()?;
        Some(Done {
            request,
            status,
            opcode,
            bytes,
            immediate,
            pair,
            source,
            flags,
        })
    }

    /// The completion of a send that must come.
    fn sent(&mut self) -> Done {
        self.completion("poll-send", true)
            .expect("a send completes")
    }

    /// The completion of a receive that must come.
    fn received(&mut self) -> Done {
        self.completion("poll-receive", true)
            .expect("a receive completes")
    }

    /// No send completes.
    fn nothing_sent(&mut self) {
        assert_eq!(self.completion("poll-send", false), None);
    }

    /// No receive completes.
    fn nothing_received(&mut self) {
        assert_eq!(self.completion("poll-receive", false), None);
    }

    /// The next asynchronous event: its type and the cookie of its object.
    fn event(&mut self) -> (u64, u64) {
        match self.done("event", &[1])[..] {
            [kind, cookie] => (kind, cookie),
            _ => panic!("an event comes"),
        }
    }

    /// Words of its memory, from a byte on.
    fn words(&mut self, at: u64, count: u64) -> Vec<u64> {
        self.done("read", &[at / 8, count])
    }

    /// Sets words of its memory, from a byte on.
    fn set_words(&mut self, at: u64, words: &[u64]) {
        let mut numbers = vec![at / 8];
        numbers.extend(words);
        self.done("write", &numbers);
    }

    /// The state of queue pair 0.
    fn state(&mut self) -> u64 {
        self.done("state", &[0])[0]
    }
}

/// Any side of a case.
pub type Side = dyn Station;
