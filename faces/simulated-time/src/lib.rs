//! A library for `LD_PRELOAD`: it has programs live in simulated time, on simulated hosts.
//!
//! A process below a coordinator (`viaduct_turns`) becomes a client of it when this library is
//! loaded; any other process sees everything as it is. Each function here takes the place of one of
//! the C library.
//!
//! - `clocks`: clocks and sleeps; `counter`: the processor's counter of time
//! - `faults`: signals that are this library's before they are the program's
//! - `hosts`: names of hosts; `sockets`: whom sockets are bound and connected to
//! - `transfers`: reads and writes that would block; `polls`: waits on many descriptors
//! - `repeats`: loops that ask the same again and again
//! - `loops`: loops that make no call; `steps`: what shows that one waits for memory
//! - `timers`: timers that send signals, call functions or can be read; `handlers`: handlers of
//!   signals; `interruptions`: waits that end by them
//! - `threads`: threads, which run one at a time; `locks`: what they wait for; `common`: what
//!   several processes wait for
//! - `processes`: processes that are made, replaced, waited for and ended; `signals`: signals that
//!   are sent and waited for
//! - `random`: random numbers that programs draw, and those that UCX makes
//! - `io_uring`, `languages`: what is refused
//! - `real`: the functions of the C library
//!
//! # What things cost
//!
//! Reading a clock, reading the counter and a call of the system cost what [`cost`] says. What a
//! program computes costs nothing, unless the coordinator has it counted by the processor's time.
//!
//! # Limits
//!
//! - A wait that is not a call by name is not seen, and holds the turn: reads of pipes and sockets
//!   by the C library's streams, system calls by number. `io_uring` and programs in Go, which wait
//!   so, are refused.
//! - A lock that is taken within `malloc` gives the turn while `malloc`'s own is held. Another
//!   thread of the process that allocates meanwhile waits for that with the turn, and the run ends.
//!   Read locks that nobody has for writing, as UCX's hooks of `brk` take, give none.
//! - Random numbers that a program reads of `/dev/urandom`, or has the processor draw, are others
//!   in each run.
//! - Timers of the time that a program computes (`ITIMER_VIRTUAL`, `ITIMER_PROF`) run in real time.
//! - Signals end waits, but not those of verbs for events (`ibv_get_cq_event`).
//! - Barriers that lie in memory of several processes are refused.
//! - Programs without a dynamic linker, and those that run with another user's rights, are not
//!   reached. Of those that a client of another user than root starts none does: the filter that
//!   refuses `io_uring` has the system ignore setuid bits.

use viaduct_turns::{NewThread, Table};

pub mod clocks;
mod common;
pub mod counter;
mod faults;
pub mod handlers;
pub mod hosts;
mod interruptions;
mod io_uring;
mod languages;
pub mod locks;
mod loops;
pub mod polls;
pub mod processes;
pub mod random;
mod real;
mod repeats;
pub mod signals;
pub mod sockets;
mod steps;
pub mod threads;
pub mod timers;
pub mod transfers;

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
compile_error!("programs live in simulated time with glibc on x86-64 only");

/// What things cost, in picoseconds.
pub mod cost {
    /// A clock by a call of the C library, which calls no system.
    pub const CLOCK_READ: u64 = 25_000;
    /// The processor's counter.
    pub const COUNTER_READ: u64 = 10_000;
    /// A call of the system, whatever it does.
    pub const SYSTEM_CALL: u64 = 200_000;
}

/// The state of this process as a client, for other libraries in it.
#[unsafe(no_mangle)]
pub extern "C" fn viaduct_turns_1() -> *const Table {
    viaduct_turns::symbol()
}

/// Makes this process a client, or says why it cannot be one and ends it: it would run in real time
/// beside others that do not.
fn begin() {
    match viaduct_turns::start() {
        Ok(None) => {}
        Ok(Some(_)) => {
            if let Some(path) = languages::of_go() {
                refuse(&format!(
                    "{} is written in Go, whose runtime waits by calls of the system of its own, \
                     which take real time; a program in C, C++, Rust or Python can take part",
                    path.display()
                ));
            }
            io_uring::refuse();
            counter::forbid();
            counter::measure();
            loops::watch_process();
        }
        Err(error) => refuse(&error.to_string()),
    }
}

/// Ends this process.
fn refuse(reason: &str) -> ! {
    eprintln!("viaduct: this program cannot take part in the simulation: {reason}");
    std::process::exit(1);
}

extern "C" fn load() {
    sockets::look_at_environment();
    begin();
}

/// At the end of the process: what it does from here on is seen at its time.
extern "C" fn unload() {
    processes::before_end();
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOAD: extern "C" fn() = unload;

/// In a child that was forked.
fn begin_child() {
    viaduct_turns::forget();
    timers::forget();
    begin();
}

/// In the parent.
fn has_child(pid: i32) {
    NewThread::forked(pid);
}
