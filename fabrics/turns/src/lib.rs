//! Processes of one machine that run one at a time, each thread with a simulated clock.
//!
//! A *coordinator* owns what the processes run against, a [`World`]: its time is the simulation's.
//! The *clients* are processes with threads as they are; exactly one thread of all of them runs at
//! any moment, and holds the *turn*. It gives the turn back in calls that it makes: those that the
//! world must answer, sleeps, waits. Whose turn is next is a matter of simulated time, and then of
//! host, process and thread in order of creation, so that equal programs have equal runs.
//!
//! - [`World`]: what is simulated, as the coordinator asks it
//! - [`Coordinator`]: takes clients in, gives the turn, knows when nothing can go on
//! - [`Client`]: a process's side: its clock, sleeping, calls of the world, waits on what is real
//! - [`Waited`]: what such a wait is for
//! - [`hosts`]: addresses of hosts, for sockets and for adapters
//! - `seat`: the memory in which the two meet, one segment for each process, and what is believed
//!   of it; `handshake`: how a process comes to have one
//!
//! # Time
//!
//! Times are picoseconds. A thread's clock runs ahead of the simulation by what it was charged
//! while it held the turn; a call is taken when no other thread and no event of the world is before
//! it. With the turn comes a *horizon*, the first time at which anything else can happen: what ends
//! before it needs nobody, and is done without giving the turn.
//!
//! What a thread computes between its calls takes no time, unless the coordinator has it charged by
//! the processor's time ([`Coordinator::count_computing`]), which is another in each run.
//!
//! # What is real
//!
//! Sockets, pipes and files stay the system's, and take no simulated time. A thread that would
//! block there gives the turn and is asked, before time goes on, to try again when what it waits
//! for may be there ([`Client::foreign`], [`Waited`]): when the coordinator finds something at one
//! of its descriptors, of which it has duplicates meanwhile, or when another has done something. As
//! only one thread runs, what another wrote is there when it looks: order and times are the same in
//! every run. What others do there is known by [`Client::synchronise`]; what they do without is
//! found some turns later.
//!
//! Processes that are no clients and that clients talk with, such as whoever started them, are
//! given the real time that they need: when a client has told one something ([`tell_outside`]),
//! time does not go on before all of them sleep ([`Coordinator::heed_outside`]), and who looks for
//! something from them waits for that, too ([`await_outside`]).
//!
//! A signal may have its handler run in a thread that waits for its turn. The handler says so
//! ([`interrupt`]), and who sends signals gives the turn behind that ([`let_others_see`]): a sleep
//! is over then, and a wait for something real tries again.
//!
//! A thread that looks at memory in a loop makes no call at all. Whoever finds that out from
//! outside of it, by a timer of the system, has it give the turn ([`await_memory`]) until something
//! is written there: by the world ([`World::written`]), or by somebody of its host.
//!
//! # Decisions
//!
//! - The turn passes by futexes in shared memory. All clients and the coordinator share one core
//!   ([`pin_to_one_core`]): a switch there costs 2.4 us, and 22 us between two.
//! - Whoever starts clients has them lie at the same addresses in each run ([`fix_addresses`]):
//!   those of Open MPI differ where they do not.
//! - The memory of a process is shared with the coordinator alone. What is read there is read once
//!   and checked; a client that breaks the rules is killed, and the others go on. One page is
//!   shared by all, the bell: who writes nonsense there delays others, and that is all.
//! - A process that ends while it holds the turn gives it by ending: its clock as it was last
//!   counts.
//! - The state of a process lies in one shared object, which has a symbol for others
//!   ([`symbol`]): a C library in the same process finds the same clock by it ([`client`]).

mod client;
mod computing;
mod coordinator;
mod handshake;
pub mod hosts;
mod own;
mod seat;
mod table;
mod waited;
mod world;

pub use client::{Client, InLibrary, client};
pub use coordinator::{Coordinator, Ended, Output, RunError, Stopper, Waiting};
pub use handshake::{HOST_VARIABLE, RANK_VARIABLES, SOCKET_VARIABLE};
pub use own::{
    NewThread, activity, await_memory, await_outside, forget, give_while_computing, has_computed,
    here, host_addresses, interrupt, least_processor_ns, let_computing_go, let_others_see, local,
    process_number, show_time, start, tell_outside, tell_refused, watch_waits,
};
pub use seat::{MESSAGE_BYTES_MAX, TIME_MAX};
pub use table::{Table, symbol};
pub use waited::Waited;
pub use world::{Outcome, Process, Thread, World};

/// Has programs that this thread starts from here on, and those that they start, lie at the same
/// addresses each time: some do things in the order of addresses, or spread them by these.
///
/// # Errors
///
/// What the system says: in some containers it does not allow that.
pub fn fix_addresses() -> std::io::Result<()> {
    /// Says what is set and changes nothing.
    const ASK: libc::c_ulong = 0xffff_ffff;
    let set = |persona| {
        // SAFETY: it takes a number.
        let before = unsafe { libc::personality(persona) };
        match u64::try_from(before) {
            Ok(before) => Ok(before),
            Err(_) => Err(std::io::Error::last_os_error()),
        }
    };
    set(set(ASK)? | libc::ADDR_NO_RANDOMIZE as libc::c_ulong).map(|_| ())
}

/// Has this process, and what it starts from here on, have no huge pages but those that it asks the
/// system for by name: of many programs that use little of each there is not enough memory.
///
/// # Errors
///
/// What the system says.
pub fn without_huge_pages() -> std::io::Result<()> {
    // SAFETY: the call takes numbers.
    let result = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Has this thread, and what it starts from here on, run on the core that it is on.
///
/// # Errors
///
/// What the system says.
pub fn pin_to_one_core() -> std::io::Result<()> {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(rustix::thread::sched_getcpu());
    Ok(rustix::thread::sched_setaffinity(None, &cores)?)
}
