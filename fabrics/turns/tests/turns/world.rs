//! A world that has a clock and nothing else.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

use viaduct_turns::{Outcome, Process, Thread, World};

/// Picoseconds.
pub(crate) const US: u64 = 1_000_000;

/// Writes down what it is asked. A request is words: `cost N`, `wait N` (answered so long after),
/// `never` (unless `wake` is posted), `until N` (given up so long after).
#[derive(Default)]
pub(crate) struct Clock {
    now: u64,
    pub(crate) lines: Vec<String>,
    sleepers: Vec<Thread>,
    alarms: BTreeMap<(u64, Thread), ()>,
    ready: Vec<(Thread, u64, Vec<u8>)>,
    /// What is to be written, when, where, and what has been.
    pokes: BTreeMap<u64, (Process, u64)>,
    poked: Vec<Process>,
    /// When a byte is to come to whose descriptor, and whether one has.
    rings: BTreeMap<u64, (Process, u64)>,
    has_rung: bool,
    /// When hosts die.
    deaths: BTreeMap<u64, u32>,
}

impl Clock {
    /// In which hosts die, each at its time.
    pub(crate) fn with_deaths(deaths: impl IntoIterator<Item = (u64, u32)>) -> Self {
        Self {
            deaths: deaths.into_iter().collect(),
            ..Self::default()
        }
    }

    fn say(&mut self, at: u64, thread: Thread, text: &str) {
        let Thread { process, number } = thread;
        let Process {
            host,
            number: process,
            ..
        } = process;
        self.lines.push(format!(
            "{at} host {host} process {process} thread {number}: {text}"
        ));
    }
}

impl World for Clock {
    fn next_event(&self) -> Option<u64> {
        let alarm = self.alarms.first_key_value().map(|((at, _), ())| *at);
        let poke = self.pokes.first_key_value().map(|(at, _)| *at);
        let ring = self.rings.first_key_value().map(|(at, _)| *at);
        let death = self.deaths.keys().copied().find(|at| *at > self.now);
        let all = alarm.into_iter().chain(poke).chain(ring).chain(death);
        all.min()
    }

    fn advance(&mut self, until: u64) -> u64 {
        let first = self.next_event().unwrap_or(u64::MAX);
        if let Some(poke) = self.pokes.first_entry()
            && *poke.key() == first
        {
            let (process, address) = poke.remove();
            let path = format!("/proc/{}/mem", process.pid);
            let memory = std::fs::File::options().write(true).open(path).unwrap();
            memory.write_all_at(&[1], address).unwrap();
            self.poked.push(process);
            self.now = first;
            return first;
        }
        if let Some(ring) = self.rings.first_entry()
            && *ring.key() == first
        {
            let (process, number) = ring.remove();
            let path = format!("/proc/{}/fd/{number}", process.pid);
            std::fs::write(path, [1]).unwrap();
            self.has_rung = true;
            self.now = first;
            return first;
        }
        if self.deaths.contains_key(&first) {
            self.now = first;
            return first;
        }
        let Some(((at, thread), ())) = self.alarms.pop_first() else {
            return until;
        };
        assert!(at <= until && at >= self.now, "time went past {at}");
        self.now = at;
        self.ready
            .push((thread, at, format!("rung at {at}").into_bytes()));
        at
    }

    fn call(&mut self, thread: Thread, now: u64, request: &[u8], answer: &mut Vec<u8>) -> Outcome {
        assert!(now >= self.now, "a call at {now}, behind {}", self.now);
        self.now = now;
        let text = String::from_utf8(request.to_vec()).unwrap();
        self.say(now, thread, &text);
        let number = |word: Option<&str>| word.map_or(0, |word| word.parse().unwrap());
        let mut words = text.split(' ');
        match words.next().unwrap() {
            "wait" => {
                let at = now + number(words.next());
                self.alarms.insert((at, thread), ());
                Outcome::Waits { until: None }
            }
            "never" => {
                self.sleepers.push(thread);
                Outcome::Waits { until: None }
            }
            "until" => Outcome::Waits {
                until: Some(now + number(words.next())),
            },
            "ring" => {
                let descriptor = number(words.next());
                self.rings
                    .insert(now + number(words.next()), (thread.process, descriptor));
                Outcome::Done { cost: 0 }
            }
            "poke" => {
                let address = number(words.next());
                self.pokes
                    .insert(now + number(words.next()), (thread.process, address));
                Outcome::Done { cost: 0 }
            }
            word => {
                answer.extend_from_slice(text.as_bytes());
                let cost = if word == "cost" {
                    number(words.next())
                } else {
                    0
                };
                Outcome::Done { cost }
            }
        }
    }

    fn post(&mut self, thread: Thread, now: u64, request: &[u8]) {
        self.call(thread, now, request, &mut Vec::new());
        if request == b"wake" {
            for thread in std::mem::take(&mut self.sleepers) {
                self.alarms.insert((now + US, thread), ());
            }
        }
    }

    fn ready(&mut self) -> Option<(Thread, u64, Vec<u8>)> {
        self.ready.pop()
    }

    fn written(&mut self) -> Option<Process> {
        self.poked.pop()
    }

    fn has_rung(&mut self) -> bool {
        std::mem::take(&mut self.has_rung)
    }

    fn died(&mut self) -> Option<(u32, u64)> {
        let first = self.deaths.first_entry()?;
        let at = *first.key();
        (at <= self.now).then(|| (first.remove(), at))
    }

    fn gave_up(&mut self, thread: Thread, now: u64) {
        self.say(now, thread, "gave up");
    }

    fn gone(&mut self, process: Process, now: u64) {
        let Process { host, number, .. } = process;
        self.lines
            .push(format!("{now} host {host} process {number}: gone"));
    }
}
