//! The processes of a run: those that are clients, those that want to be, and those that are
//! expected.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};

use super::Outputs;
use super::listener::{Connected, Listener};
use crate::handshake::Welcome;
use crate::hosts::HostAddresses;
use crate::seat::{Bell, MESSAGE_BYTES_MAX, Post, Request, SEATS, Seat, printable};
use crate::world::{Process, Thread};

/// Programs that are told of because they were refused something, at most.
const REFUSED_MAX: usize = 16;

/// A process that was started for the run.
#[derive(Debug)]
pub(super) struct Expected {
    pid: i32,
    watched: u64,
    is_there: bool,
    has_ended: bool,
    /// Keeps what is watched.
    _pidfd: OwnedFd,
}

impl Expected {
    /// None: it has ended already.
    pub(super) fn new(listener: &mut Listener, pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        let pidfd = open(pid)?;
        let watched = listener.watch(&pidfd).ok()?;
        Some(Self {
            pid,
            watched,
            is_there: false,
            has_ended: false,
            _pidfd: pidfd,
        })
    }
}

/// A process that has connected and not yet had its first turn.
#[derive(Debug)]
pub(super) struct Stranger {
    connected: Connected,
    host: u32,
    watched: u64,
    not_before: u64,
}

impl Stranger {
    /// The clock of what it was before it replaced itself by another program.
    pub(super) fn not_before(&self) -> u64 {
        self.not_before
    }
}

/// A process that is not there any more.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) process: Process,
    pub(super) threads: Vec<Thread>,
    /// Its clock, if it had the turn.
    pub(super) clock: Option<u64>,
    /// Whose turn that was, and what was posted in it.
    pub(super) last_turn: Option<(Thread, Vec<Post>)>,
}

#[derive(Debug)]
struct Seated {
    seat: Seat,
    number: u32,
}

#[derive(Debug)]
struct Client {
    connected: Connected,
    watched: u64,
    threads: BTreeMap<Thread, Seated>,
    threads_ever: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Processes {
    outputs: Option<Outputs>,
    listener: Listener,
    hosts: u32,
    addresses: HostAddresses,
    expected: Vec<Expected>,
    clients_min: u32,
    computing_ps_per_ns: u64,
    strangers: Vec<Stranger>,
    clients: BTreeMap<Process, Client>,
    /// Their seats may still be in somebody's hand.
    buried: Vec<Client>,
    clients_ever: u32,
    /// Seats have been looked at since so many had been taken; none: since somebody was admitted.
    newcomers_seen: Option<u32>,
    holder: Option<(Thread, u64)>,
    notices: Vec<String>,
    remarks: Vec<String>,
    /// Names of programs that were refused `io_uring`.
    refused: BTreeSet<String>,
}

impl Processes {
    pub(super) fn new(
        listener: Listener,
        hosts: u32,
        addresses: HostAddresses,
        expected: Vec<Expected>,
        clients_min: u32,
        computing_ps_per_ns: u64,
        outputs: Option<Outputs>,
    ) -> Self {
        Self {
            outputs,
            listener,
            hosts,
            addresses,
            expected,
            clients_min,
            computing_ps_per_ns,
            strangers: Vec::new(),
            clients: BTreeMap::new(),
            buried: Vec::new(),
            clients_ever: 0,
            newcomers_seen: None,
            holder: None,
            notices: Vec::new(),
            remarks: Vec::new(),
            refused: BTreeSet::new(),
        }
    }

    pub(super) fn listener(&self) -> &Listener {
        &self.listener
    }

    pub(super) fn bell(&self) -> Bell {
        self.listener.bell()
    }

    pub(super) fn notice(&mut self, text: String) {
        self.notices.push(text);
    }

    /// Unless it was noticed before.
    pub(super) fn notice_once(&mut self, text: String) {
        if !self.notices.contains(&text) {
            self.notice(text);
        }
    }

    pub(super) fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    pub(super) fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }

    /// A program has asked the system for `io_uring`: told of the first process that runs it.
    pub(super) fn remark_refused(&mut self, process: Process) {
        let Process { host, pid, .. } = process;
        let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name: String = name.trim_ascii_end().iter().map(printable).collect();
        // One that calls itself by many names is told of often enough.
        if self.refused.len() < REFUSED_MAX && self.refused.insert(name.clone()) {
            self.remarks.push(format!(
                "`{name}` (process {pid} on host {host}) asked for io_uring, which takes real \
                 time: it was told that this system has none (ENOSYS). If it does not go on \
                 without, have it use epoll, threads, or plain reads and writes"
            ));
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.clients_ever
    }

    /// Whether no client is left and none is to come.
    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.strangers.is_empty()
    }

    /// How many have connected and not yet had their first turn.
    pub(super) fn strangers(&self) -> u32 {
        self.strangers.len() as u32
    }

    /// Whether all that the run begins with are there.
    pub(super) fn is_complete(&self) -> bool {
        let mut expected = self.expected.iter();
        if self.clients_min > 0 {
            self.strangers.len() >= self.clients_min as usize
                || !self.expected.is_empty() && expected.all(|it| it.has_ended)
        } else {
            expected.all(|it| it.is_there || it.has_ended)
        }
    }

    /// Welcomes all that connect. Returns the processes that were clients and are now others, by
    /// `exec`.
    pub(super) fn accept(&mut self) -> io::Result<Vec<Gone>> {
        let mut replaced = Vec::new();
        while let Some(connected) = self.listener.accept()? {
            let Some(mut connected) = connected else {
                self.notice("a process that wanted to be a client was not taken".to_owned());
                continue;
            };
            let pid = connected.pid;
            let hello = connected.hello;
            let host = hello.host.unwrap_or(hello.rank % self.hosts);
            if host >= self.hosts {
                self.notice(format!(
                    "process {pid} wants to be on host {host} of {}: it is not taken",
                    self.hosts
                ));
                continue;
            }
            let Some(pidfd) = &connected.pidfd else {
                continue;
            };
            let watched = self.listener.watch(pidfd)?;
            let welcome = Welcome {
                host,
                addresses: self.addresses,
                computing_ps_per_ns: self.computing_ps_per_ns,
            };
            let (page, outputs) = (self.listener.page(), self.outputs.as_mut());
            if connected.welcome(welcome, page, outputs).is_err() {
                continue;
            }
            for it in &mut self.expected {
                it.is_there |= it.pid == pid;
            }
            self.strangers
                .retain(|stranger| stranger.connected.pid != pid);
            let before = self.clients.keys().find(|process| process.pid == pid);
            let before = before.copied().and_then(|process| self.remove(process));
            let not_before = before.as_ref().and_then(|gone| gone.clock);
            replaced.extend(before);
            self.strangers.push(Stranger {
                connected,
                host,
                watched,
                not_before: not_before.unwrap_or(0),
            });
        }
        Ok(replaced)
    }

    /// What is watched under this number has ended: a client's end is returned.
    pub(super) fn ended(&mut self, watched: u64) -> Option<Gone> {
        for it in &mut self.expected {
            it.has_ended |= it.watched == watched;
        }
        self.strangers
            .retain(|stranger| stranger.watched != watched);
        let client = self.clients.iter().find(|(_, it)| it.watched == watched);
        let process = *client?.0;
        self.remove(process)
    }

    fn remove(&mut self, process: Process) -> Option<Gone> {
        let client = self.clients.remove(&process)?;
        let held = self.holder.filter(|(thread, _)| thread.process == process);
        let last = held.and_then(|(thread, given)| {
            let seated = client.threads.get(&thread)?;
            let (clock, posts) = seated.seat.last_turn(given);
            Some((clock, (thread, posts)))
        });
        let (clock, last_turn) = last.unzip();
        let threads = client.threads.keys().copied().collect();
        self.buried.push(client);
        Some(Gone {
            process,
            threads,
            clock,
            last_turn,
        })
    }

    /// Gives the memory back of clients that have gone.
    pub(super) fn bury(&mut self) {
        self.buried.clear();
    }

    /// Ends a client that broke the rules.
    pub(super) fn kill(&mut self, process: Process, reason: &str) -> Option<Gone> {
        self.clients.get(&process)?.connected.kill();
        let Process { host, pid, .. } = process;
        self.notice(format!("process {pid} on host {host} was killed: {reason}"));
        self.remove(process)
    }

    /// Ends the clients of a host that has died.
    pub(super) fn kill_of(&mut self, host: u32, died: u64) -> Vec<Gone> {
        let all = self.clients.keys().copied();
        let its: Vec<Process> = all.filter(|process| process.host == host).collect();
        if !its.is_empty() {
            let died = died as f64 / 1e6;
            self.remarks.push(format!(
                "host{host} died at {died:.3} us: its programs were ended"
            ));
        }
        for process in &its {
            if let Some(client) = self.clients.get(process) {
                client.connected.kill();
            }
        }
        its.into_iter().filter_map(|it| self.remove(it)).collect()
    }

    /// Ends all that are clients or want to be.
    pub(super) fn kill_all(&self) {
        let clients = self.clients.values().map(|client| &client.connected);
        let strangers = self.strangers.iter().map(|stranger| &stranger.connected);
        for connected in clients.chain(strangers) {
            connected.kill();
        }
    }

    /// The first by host and rank of those that have connected.
    pub(super) fn next_stranger(&mut self) -> Option<Stranger> {
        let expected = &self.expected;
        let place = |stranger: &Stranger| {
            let pid = stranger.connected.pid;
            let started = expected.iter().position(|it| it.pid == pid);
            let rank = stranger.connected.hello.rank;
            (stranger.host, rank, started.unwrap_or(usize::MAX), pid)
        };
        let strangers = self.strangers.iter().enumerate();
        let (at, _) = strangers.min_by_key(|(_, stranger)| place(stranger))?;
        Some(self.strangers.remove(at))
    }

    pub(super) fn take_stranger(&mut self, pid: i32) -> Option<Stranger> {
        let mut strangers = self.strangers.iter();
        let at = strangers.position(|stranger| stranger.connected.pid == pid)?;
        Some(self.strangers.remove(at))
    }

    /// Makes it a client.
    pub(super) fn admit(&mut self, stranger: Stranger) -> Process {
        let process = Process {
            host: stranger.host,
            number: self.clients_ever,
            pid: stranger.connected.pid,
        };
        self.clients_ever += 1;
        if let Some(seat) = Seat::of(&stranger.connected.seats, 0) {
            seat.set_process(process.number);
        }
        let client = Client {
            connected: stranger.connected,
            watched: stranger.watched,
            threads: BTreeMap::new(),
            threads_ever: 0,
        };
        self.clients.insert(process, client);
        self.newcomers_seen = None;
        process
    }

    /// Whether a process is a client, or wants to be one.
    pub(super) fn is_client(&self, pid: i32) -> bool {
        self.clients.keys().any(|process| process.pid == pid)
            || self.strangers.iter().any(|it| it.connected.pid == pid)
    }

    /// What stands for a client in calls of the system.
    pub(super) fn pidfd(&self, process: Process) -> Option<&OwnedFd> {
        self.clients.get(&process)?.connected.pidfd.as_ref()
    }

    pub(super) fn is_alive(&self, process: Process) -> bool {
        self.clients.contains_key(&process)
    }

    /// The seat that a process takes before any other.
    pub(super) fn first_seat(&self, process: Process) -> Option<Seat> {
        Seat::of(&self.clients.get(&process)?.connected.seats, 0)
    }

    /// Threads that have sat down since this was asked, with their clocks, which are at least
    /// `not_before`.
    pub(super) fn newcomers(&mut self, not_before: u64) -> Vec<(Thread, u64)> {
        let count = self.listener.bell().newcomers();
        let mut found = Vec::new();
        if self.newcomers_seen == Some(count) {
            return found;
        }
        self.newcomers_seen = Some(count);
        for (process, client) in &mut self.clients {
            for number in 0..SEATS {
                let Some(seat) = Seat::of(&client.connected.seats, number) else {
                    continue;
                };
                let mut seated = client.threads.values();
                if !seat.has_given() || seated.any(|seated| seated.number == number) {
                    continue;
                }
                // A newcomer has nothing to lose: what it says beside its clock is not looked at.
                let asked = seat.asked(0);
                if asked
                    .as_ref()
                    .is_ok_and(|asked| asked.request == Request::End)
                {
                    seat.set_free();
                    continue;
                }
                let clock = asked.map_or(0, |asked| asked.clock).max(not_before);
                let thread = Thread {
                    process: *process,
                    number: client.threads_ever,
                };
                client.threads_ever += 1;
                client.threads.insert(thread, Seated { seat, number });
                found.push((thread, clock));
            }
        }
        found
    }

    pub(super) fn seat(&self, thread: Thread) -> Option<Seat> {
        let client = self.clients.get(&thread.process)?;
        Some(client.threads.get(&thread)?.seat)
    }

    pub(super) fn free_seat(&mut self, thread: Thread) {
        if let Some(client) = self.clients.get_mut(&thread.process)
            && let Some(seated) = client.threads.remove(&thread)
        {
            seated.seat.set_free();
        }
    }

    /// # Panics
    ///
    /// When the world's answer is longer than [`MESSAGE_BYTES_MAX`].
    pub(super) fn put_answer(&self, thread: Thread, answer: &[u8]) {
        assert!(
            answer.len() <= MESSAGE_BYTES_MAX,
            "an answer of {} bytes",
            answer.len()
        );
        if let Some(seat) = self.seat(thread) {
            seat.put_message(answer);
        }
    }

    /// Whose the turn is, and the clock with which it was given.
    pub(super) fn set_holder(&mut self, holder: Option<(Thread, u64)>) {
        self.holder = holder;
    }

    /// The call that a thread is in.
    pub(super) fn doing(&self, thread: Thread) -> String {
        self.seat(thread)
            .map_or_else(String::new, |seat| seat.doing())
    }
}

fn open(pid: i32) -> Option<OwnedFd> {
    rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Whether there is no such process, or nothing is left of it but its number.
pub(super) fn has_ended(pid: i32) -> bool {
    let Some(pidfd) = open(pid) else {
        return true;
    };
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut waited = [PollFd::new(&pidfd, PollFlags::IN)];
    rustix::event::poll(&mut waited, Some(&now)).is_ok_and(|count| count > 0)
}
