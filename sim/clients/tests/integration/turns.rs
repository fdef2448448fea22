//! Gives threads of this process their turns, as whoever has clients in processes does.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::mpsc::{Receiver, Sender, channel};

use viaduct_calls::{Credits, Line};
use viaduct_clients::Clients;
use viaduct_programs::Simulation;
use viaduct_turns::hosts::HostAddresses;
use viaduct_turns::{Outcome, Process, Thread, World as _};

/// What a thread says when it gives its turn back.
enum Said {
    Posts(u64, Vec<u8>),
    Looks(u64, Vec<u8>),
    Sleeps(u64),
    Asks(u64, Vec<u8>),
    Ended,
}

/// What it hears with its turn: its clock, before when it finds nothing, and an answer.
type Heard = (u64, u64, Vec<u8>);

/// A thread's end of it.
struct Seat {
    clock: u64,
    /// Before when it finds nothing that it has not been told of.
    quiet_until: u64,
    says: Sender<Said>,
    hears: Receiver<Heard>,
    /// None: each post waits for its answer.
    credits: Option<&'static Credits>,
}

thread_local! {
    static SEAT: RefCell<Option<Seat>> = const { RefCell::new(None) };
}

fn with_seat<T>(act: impl FnOnce(&mut Seat) -> T) -> T {
    SEAT.with_borrow_mut(|seat| act(seat.as_mut().expect("a thread with turns")))
}

/// The line of the thread that calls.
struct Turns;

impl Line for Turns {
    fn call(&self, _: &'static CStr, request: &[u8], answer: &mut Vec<u8>) {
        // A thread that a library has started is none that has turns: it is given no answer.
        if SEAT.with_borrow(Option::is_none) {
            return;
        }
        with_seat(|seat| {
            let asks = Said::Asks(seat.clock, request.to_vec());
            seat.says.send(asks).expect("somebody gives turns");
            (seat.clock, seat.quiet_until, *answer) = seat.hears.recv().expect("as above");
        });
    }

    fn credits(&self) -> Option<&Credits> {
        with_seat(|seat| seat.credits)
    }

    fn post(&self, request: &[u8], cost: u64) -> bool {
        with_seat(|seat| {
            let posts = Said::Posts(seat.clock, request.to_vec());
            seat.says.send(posts).expect("somebody gives turns");
            seat.clock += cost;
        });
        true
    }

    fn look(&self, request: &[u8], cost: u64) -> bool {
        with_seat(|seat| {
            let is_known = seat.clock + cost < seat.quiet_until;
            if is_known {
                let looks = Said::Looks(seat.clock, request.to_vec());
                seat.says.send(looks).expect("somebody gives turns");
                seat.clock += cost;
            }
            is_known
        })
    }
}

pub(crate) fn line() -> &'static dyn Line {
    &Turns
}

/// The clock of the thread that calls, in picoseconds.
pub(crate) fn now() -> u64 {
    with_seat(|seat| seat.clock)
}

/// Before what others see of the thread that calls: nothing is before it any more.
pub(crate) fn synchronise() {
    with_seat(|seat| {
        let sleeps = Said::Sleeps(seat.clock);
        seat.says.send(sleeps).expect("somebody gives turns");
        (seat.clock, seat.quiet_until, _) = seat.hears.recv().expect("as above");
    });
}

/// The thread that calls computes.
pub(crate) fn compute(picoseconds: u64) {
    with_seat(|seat| seat.clock += picoseconds);
}

enum State {
    /// Has an answer to go on with.
    Ready(u64, Vec<u8>),
    Asking(u64, Vec<u8>),
    Waiting,
    Ended,
}

struct Member {
    thread: Thread,
    state: State,
    /// What it has posted, and is yet to be carried out.
    posts: VecDeque<(u64, Vec<u8>)>,
    says: Receiver<Said>,
    hears: Sender<Heard>,
}

impl Member {
    fn clock(&self) -> Option<u64> {
        if let Some((at, _)) = self.posts.front() {
            return Some(*at);
        }
        match self.state {
            State::Ready(clock, _) | State::Asking(clock, _) => Some(clock),
            State::Waiting | State::Ended => None,
        }
    }
}

type Program = Box<dyn FnOnce() + Send>;

/// What is left when all programs have ended.
pub(crate) struct Ran {
    pub(crate) simulation: Simulation,
    /// Whose memory was written, and when a loop there saw that.
    pub(crate) written: Vec<(u32, u64)>,
    /// When descriptors became readable.
    pub(crate) rung: Vec<u64>,
    /// Posts that nobody has waited for.
    pub(crate) on_credit: u32,
    /// Looks in vain that nobody was asked for.
    pub(crate) spared: u32,
}

/// Runs programs, each in a thread that is a client on the host of its place.
pub(crate) fn run(simulation: Simulation, programs: Vec<Program>) -> Ran {
    run_on(simulation, (0..).zip(programs).collect())
}

/// The same, and each post waits for its answer.
pub(crate) fn run_without_credit(simulation: Simulation, programs: Vec<Program>) -> Ran {
    run_with(simulation, (0..).zip(programs).collect(), false)
}

/// As [`run`], on hosts that are named.
pub(crate) fn run_on(simulation: Simulation, programs: Vec<(u32, Program)>) -> Ran {
    run_with(simulation, programs, true)
}

fn run_with(mut simulation: Simulation, programs: Vec<(u32, Program)>, has_credit: bool) -> Ran {
    let mut clients = Clients::new(&mut simulation, HostAddresses::default());
    let (mut written, mut rung, mut on_credit) = (Vec::new(), Vec::new(), (0, 0));
    std::thread::scope(|scope| {
        let mut members = Vec::new();
        for (number, (host, program)) in (0..).zip(programs) {
            let process = Process {
                host,
                number,
                pid: std::process::id() as i32,
            };
            clients.came(process, 0);
            let ((says, heard), (tells, hears)) = (channel(), channel());
            members.push(Member {
                thread: Thread { process, number: 0 },
                state: State::Ready(0, Vec::new()),
                posts: VecDeque::new(),
                says: heard,
                hears: tells,
            });
            scope.spawn(move || {
                let (clock, quiet_until, _) = hears.recv().expect("somebody gives turns");
                let ends = says.clone();
                let credits = has_credit.then(|| &*Box::leak(Box::default()));
                SEAT.set(Some(Seat {
                    clock,
                    quiet_until,
                    says,
                    hears,
                    credits,
                }));
                program();
                synchronise();
                ends.send(Said::Ended).expect("as above");
            });
        }
        on_credit = give_turns(&mut clients, &mut members, &mut written, &mut rung);
    });
    Ran {
        simulation,
        written,
        rung,
        on_credit: on_credit.0,
        spared: on_credit.1,
    }
}

fn give_turns(
    clients: &mut Clients<'_>,
    members: &mut [Member],
    written: &mut Vec<(u32, u64)>,
    rung: &mut Vec<u64>,
) -> (u32, u32) {
    let (mut on_credit, mut spared) = (0, 0);
    loop {
        let first = members
            .iter()
            .enumerate()
            .filter_map(|(place, member)| Some((member.clock()?, place)))
            .min();
        let until = match first {
            Some((clock, _)) => clock,
            None if members.iter().all(|it| matches!(it.state, State::Ended)) => {
                return (on_credit - spared, spared);
            }
            None => clients.next_event().expect("something is to come"),
        };
        let reached = clients.advance(until);
        let mut has_answers = reached < until;
        while let Some(process) = clients.written() {
            written.push((process.number, reached));
        }
        if clients.has_rung() {
            rung.push(reached);
        }
        while let Some((thread, when, answer)) = clients.ready() {
            let member = members.iter_mut().find(|it| it.thread == thread);
            member.expect("its thread").state = State::Ready(when, answer);
            has_answers = true;
        }
        let (Some((_, place)), false) = (first, has_answers) else {
            continue;
        };
        let host = members[place].thread.process.host;
        let of_host = members.iter().filter(|it| it.thread.process.host == host);
        let is_alone = of_host.count() == 1;
        let member = &mut members[place];
        if let Some((at, request)) = member.posts.pop_front() {
            clients.post(member.thread, at, &request);
            on_credit += 1;
            continue;
        }
        match std::mem::replace(&mut member.state, State::Waiting) {
            State::Ready(clock, answer) => {
                let quiet_until = match is_alone {
                    true => clients.quiet_until(member.thread, clock),
                    false => 0,
                };
                let heard = (clock, quiet_until, answer);
                member.hears.send(heard).expect("it listens");
                member.state = loop {
                    match member.says.recv().expect("it says what it does") {
                        Said::Posts(clock, request) => member.posts.push_back((clock, request)),
                        Said::Looks(clock, request) => {
                            member.posts.push_back((clock, request));
                            spared += 1;
                        }
                        Said::Asks(clock, request) => break State::Asking(clock, request),
                        Said::Sleeps(clock) => break State::Ready(clock, Vec::new()),
                        Said::Ended => break State::Ended,
                    }
                };
                if matches!(member.state, State::Ended) {
                    for (at, request) in member.posts.drain(..) {
                        clients.post(member.thread, at, &request);
                    }
                    clients.gone(member.thread.process, until);
                }
            }
            State::Asking(clock, request) => {
                let mut answer = Vec::new();
                match clients.call(member.thread, clock, &request, &mut answer) {
                    Outcome::Done { cost } => member.state = State::Ready(clock + cost, answer),
                    Outcome::Waits { .. } => {}
                }
            }
            State::Waiting | State::Ended => unreachable!("it has no clock"),
        }
    }
}
