//! Gives threads of this process their turns, as whoever has clients in processes does.

use std::cell::RefCell;
use std::ffi::CStr;
use std::sync::mpsc::{Receiver, Sender, channel};

use viaduct_calls::Line;
use viaduct_clients::Clients;
use viaduct_programs::Simulation;
use viaduct_turns::hosts::HostAddresses;
use viaduct_turns::{Outcome, Process, Thread, World as _};

/// What a thread says when it gives its turn back.
enum Said {
    Asks(u64, Vec<u8>),
    Ended,
}

/// A thread's end of it.
struct Seat {
    clock: u64,
    says: Sender<Said>,
    hears: Receiver<(u64, Vec<u8>)>,
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
            (seat.clock, *answer) = seat.hears.recv().expect("as above");
        });
    }
}

pub(crate) fn line() -> &'static dyn Line {
    &Turns
}

/// The clock of the thread that calls, in picoseconds.
pub(crate) fn now() -> u64 {
    with_seat(|seat| seat.clock)
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
    says: Receiver<Said>,
    hears: Sender<(u64, Vec<u8>)>,
}

impl Member {
    const fn clock(&self) -> Option<u64> {
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
}

/// Runs programs, each in a thread that is a client on the host of its place.
pub(crate) fn run(simulation: Simulation, programs: Vec<Program>) -> Ran {
    run_on(simulation, (0..).zip(programs).collect())
}

/// The same on hosts that are named.
pub(crate) fn run_on(mut simulation: Simulation, programs: Vec<(u32, Program)>) -> Ran {
    let mut clients = Clients::new(&mut simulation, HostAddresses::default());
    let (mut written, mut rung) = (Vec::new(), Vec::new());
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
                says: heard,
                hears: tells,
            });
            scope.spawn(move || {
                let (clock, _) = hears.recv().expect("somebody gives turns");
                let ends = says.clone();
                SEAT.set(Some(Seat { clock, says, hears }));
                program();
                ends.send(Said::Ended).expect("as above");
            });
        }
        give_turns(&mut clients, &mut members, &mut written, &mut rung);
    });
    Ran {
        simulation,
        written,
        rung,
    }
}

fn give_turns(
    clients: &mut Clients<'_>,
    members: &mut [Member],
    written: &mut Vec<(u32, u64)>,
    rung: &mut Vec<u64>,
) {
    loop {
        let first = members
            .iter()
            .enumerate()
            .filter_map(|(place, member)| Some((member.clock()?, place)))
            .min();
        let until = match first {
            Some((clock, _)) => clock,
            None if members.iter().all(|it| matches!(it.state, State::Ended)) => return,
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
        let member = &mut members[place];
        match std::mem::replace(&mut member.state, State::Waiting) {
            State::Ready(clock, answer) => {
                member.hears.send((clock, answer)).expect("it listens");
                member.state = match member.says.recv().expect("it says what it does") {
                    Said::Asks(clock, request) => State::Asking(clock, request),
                    Said::Ended => State::Ended,
                };
                if matches!(member.state, State::Ended) {
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
