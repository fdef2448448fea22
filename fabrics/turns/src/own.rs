//! The state of this process as a client.
//!
//! It is made once, lives as long as the process, and is never freed: a signal's handler and the
//! last destructor may still use it. A forked child has none of it until it makes its own.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use viaduct_processes::deadline::Deadline;
use viaduct_processes::segment::{Access, Segment};
use viaduct_processes::socket;

use crate::client::Client;
use crate::computing;
use crate::handshake::{Hello, OUTPUT_VARIABLE, PACKET_BYTES_MAX, SOCKET_VARIABLE, Welcome};
use crate::hosts::HostAddresses;
use crate::seat::{BELL_BYTES, Bell, PROCESS_BYTES, Reply, Request, SEATS, Seat, seen};
use crate::table::{Sink, Table, VERSION};

/// How long a coordinator may take to welcome a client: it does so whatever else it waits for.
const WELCOME_LIMIT: Duration = Duration::from_secs(60);
/// How often a thread that waits for its turn looks whether there is still a coordinator.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How far a thread may be ahead of what is first behind it, 10 us, when it does nothing but charge
/// its clock; or a hundredth of the time for which it has done so.
const LEAD_MIN: u64 = 10_000_000;
const LEAD_PARTS: u64 = 100;
/// Descriptors of ours have numbers from here on, so that a program's have those it would have.
const DESCRIPTOR_MIN: i32 = 700;

struct Own {
    seats: Segment,
    bell: Bell,
    /// Keeps the bell.
    _bell: Segment,
    host: u32,
    addresses: HostAddresses,
    coordinator: i32,
}

static OWN: AtomicPtr<Own> = AtomicPtr::new(core::ptr::null_mut());

thread_local! {
    /// One more than the number of this thread's seat; 0: it has none yet.
    static SEAT: Cell<u32> = const { Cell::new(0) };
    /// This thread is giving the turn or waiting for it: a signal's handler that comes here
    /// meanwhile does as if there were no simulation.
    static IS_WAITING: Cell<bool> = const { Cell::new(false) };
    /// This thread's clock when it last did more than charge it.
    static CHARGES_SINCE: Cell<u64> = const { Cell::new(0) };
    /// Who may see what this thread has done since it last gave the turn: bits of `seen`.
    static SEEN: Cell<u32> = const { Cell::new(seen::BY_CLIENTS) };
    /// Counts what this thread has done here.
    static ACTIVITY: Cell<u64> = const { Cell::new(0) };
    /// Functions of libraries that it is in, one in the other.
    static IN_LIBRARIES: Cell<u32> = const { Cell::new(0) };
    /// The count when it last waited for memory.
    static AT_MEMORY: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Called at the end of each wait for the turn, for whoever watches threads; null: nobody does.
static AFTER_WAIT: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// What [`show_time`] was told last.
static SHOWN: AtomicU64 = AtomicU64::new(0);

static TABLE: Table = Table {
    version: VERSION,
    host,
    now,
    quiet_until,
    charge,
    synchronise,
    sleep_until,
    call,
    post,
    foreign_wait,
    foreign_end,
    enter,
    leave,
};

fn own() -> Option<&'static Own> {
    // SAFETY: null, or made in `start` and never freed.
    unsafe { OWN.load(Ordering::Acquire).as_ref() }
}

pub(crate) fn table() -> Option<&'static Table> {
    own().map(|_| &TABLE)
}

/// Makes this process a client of the coordinator that the environment names, and returns when its
/// first turn has come. None: the environment names none, or no place in the simulation.
///
/// # Errors
///
/// What the environment should have said; what the system says.
pub fn start() -> io::Result<Option<Client>> {
    if own().is_some() {
        return Ok(Some(Client::over(&TABLE)));
    }
    let Some(path) = std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from) else {
        return Ok(None);
    };
    let hello = Hello::from_environment()
        .map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))?;
    let Some(hello) = hello else {
        return Ok(None);
    };
    let (made, ps_per_ns) = connect(&path, hello).map_err(|error| {
        let path = path.display();
        io::Error::new(error.kind(), format!("{SOCKET_VARIABLE}={path}: {error}"))
    })?;
    OWN.store(Box::into_raw(Box::new(made)), Ordering::Release);
    computing::count(ps_per_ns);
    take_seat();
    Ok(Some(Client::over(&TABLE)))
}

/// This process as a client, by the state in this shared object. What may be called while this
/// thread waits for its turn, by a signal's handler: the clock stands.
#[must_use]
pub fn local() -> Option<Client> {
    own().map(|_| Client::over(&TABLE))
}

/// The addresses of the hosts of this process's run, by the state in this shared object.
#[must_use]
pub fn host_addresses() -> HostAddresses {
    own().map_or_else(HostAddresses::default, |own| own.addresses)
}

/// The number of this process among all that were clients of its run, which is the same in each
/// run, by the state in this shared object.
#[must_use]
pub fn process_number() -> Option<u32> {
    Some(Seat::of(&own()?.seats, 0)?.process())
}

/// As [`local`], for what gives the turn: none, too, while this thread waits for it.
#[must_use]
pub fn here() -> Option<Client> {
    if IS_WAITING.get() { None } else { local() }
}

/// Forgets the state, in a child that was forked: [`start`] makes it a client of its own.
pub fn forget() {
    OWN.store(core::ptr::null_mut(), Ordering::Release);
    SEAT.set(0);
    IS_WAITING.set(false);
    SEEN.set(seen::BY_CLIENTS);
    IN_LIBRARIES.set(0);
    AT_MEMORY.set(u64::MAX);
}

/// The state, and what computing counts.
fn connect(path: &std::path::Path, hello: Hello) -> io::Result<(Own, u64)> {
    // Before a descriptor of ours has the number of one that is closed.
    let output = output();
    let address = SocketAddrUnix::new(path)?;
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::connect(&socket, &address)?;
    let coordinator = socket::credentials(socket.as_fd())?.pid;
    socket::send(socket.as_fd(), &hello.to_bytes(), &output)?;
    let mut waited = [PollFd::new(&socket, PollFlags::IN)];
    if !socket::poll(&mut waited, Deadline::after(Some(WELCOME_LIMIT)))? {
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the simulation does not answer",
        ));
    }
    let mut packet = [0; PACKET_BYTES_MAX];
    let received = socket::receive(socket.as_fd(), &mut packet)?;
    let welcome = Welcome::from_bytes(&packet[..received.length]).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the simulation refused this process, or is of another version of Viaduct",
        )
    })?;
    let mut descriptors = received.descriptors;
    let elsewhere = descriptors.split_off(descriptors.len().min(2));
    let [seats, bell] = <[OwnedFd; 2]>::try_from(descriptors)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no segments came"))?;
    write_to(&elsewhere);
    let seats = Segment::map(out_of_the_way(seats), PROCESS_BYTES, Access::ReadWrite)?;
    let page = Segment::map(out_of_the_way(bell), BELL_BYTES, Access::ReadWrite)?;
    let bell = Bell::of(&page).ok_or(io::ErrorKind::InvalidData)?;
    let own = Own {
        seats,
        bell,
        _bell: page,
        host: welcome.host,
        addresses: welcome.addresses,
        coordinator,
    };
    Ok((own, welcome.computing_ps_per_ns))
}

/// Where this process writes, if it may be told to write elsewhere.
fn output() -> Vec<BorrowedFd<'static>> {
    let numbers = [libc::STDOUT_FILENO, libc::STDERR_FILENO];
    // SAFETY: the call takes numbers.
    let is_open = |number: &i32| unsafe { libc::fcntl(*number, libc::F_GETFD) } >= 0;
    if std::env::var_os(OUTPUT_VARIABLE).is_some() || !numbers.iter().all(is_open) {
        return Vec::new();
    }
    // SAFETY: they are open, and this runs when the library is loaded: nobody closes them.
    numbers
        .map(|number| unsafe { BorrowedFd::borrow_raw(number) })
        .to_vec()
}

/// Has this process, and those that it starts, write there. Nobody has written yet.
fn write_to(output: &[OwnedFd]) {
    let [out, errors] = output else { return };
    // SAFETY: the calls take numbers, and the stream is the C library's.
    unsafe {
        let is_screen = libc::isatty(libc::STDOUT_FILENO) == 1;
        libc::dup2(out.as_raw_fd(), libc::STDOUT_FILENO);
        libc::dup2(errors.as_raw_fd(), libc::STDERR_FILENO);
        // Lines of a program that ends without a word are seen all the same, as on the screen.
        if is_screen {
            libc::setvbuf(stdout, core::ptr::null_mut(), libc::_IOLBF, 0);
        }
    }
    // SAFETY: this runs when the library is loaded: there is no other thread yet.
    unsafe { std::env::set_var(OUTPUT_VARIABLE, "told") };
}

unsafe extern "C" {
    /// The C library's stream.
    static stdout: *mut libc::FILE;
}

/// The same under a high number, where there is one.
fn out_of_the_way(descriptor: OwnedFd) -> OwnedFd {
    // SAFETY: the call takes numbers and makes a descriptor for us alone.
    let moved = unsafe {
        libc::fcntl(
            descriptor.as_raw_fd(),
            libc::F_DUPFD_CLOEXEC,
            DESCRIPTOR_MIN,
        )
    };
    if moved < 0 {
        return descriptor;
    }
    // SAFETY: it is new, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(moved) }
}

/// Says why and ends the process.
fn end(reason: &str) -> ! {
    let text = format!("viaduct: {reason}\n");
    // SAFETY: the bytes are valid for the call.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    // SAFETY: the call does not return. Not `exit`: destructors would come here again.
    unsafe { libc::_exit(1) }
}

/// Waits until the turn has come to a seat that has given it.
fn wait(own: &Own, seat: Seat) {
    while !seat.wait(LOOK_INTERVAL) {
        // Number 0 is a coordinator outside of our namespace of processes.
        // SAFETY: signal 0 is none.
        let gone = own.coordinator > 0 && unsafe { libc::kill(own.coordinator, 0) } != 0;
        if gone && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
            end("the simulation has ended before this program");
        }
    }
    CHARGES_SINCE.set(seat.clock());
    computing::restart();
}

fn exchange(own: &Own, seat: Seat, request: Request, until: Option<u64>) -> Reply {
    IS_WAITING.set(true);
    seat.set_seen(SEEN.replace(0));
    seat.give(request, until);
    own.bell.ring();
    wait(own, seat);
    IS_WAITING.set(false);
    seat.take_interrupted();
    let after = AFTER_WAIT.load(Ordering::Relaxed);
    if !after.is_null() {
        // SAFETY: `watch_waits` has put a function of this type there.
        let after: extern "C" fn() = unsafe { core::mem::transmute(after) };
        after();
    }
    seat.reply()
}

/// What this thread has done as a client, counted: a thread that computes or looks at memory in a
/// loop counts nothing.
#[must_use]
pub fn activity() -> u64 {
    ACTIVITY.get()
}

/// Before a signal is sent to this process at this time, by a thread that has its turn: clocks that
/// a handler reads which interrupts a wait show it.
pub fn show_time(time: u64) {
    SHOWN.fetch_max(time, Ordering::Relaxed);
}

/// By a signal's handler, in its thread: if that waits for its turn, it has it now, at the time of
/// whoever has sent the signal, unless it waits for an answer of the world.
pub fn interrupt() {
    if IS_WAITING.get()
        && let (Some(own), Some(number)) = (own(), SEAT.get().checked_sub(1))
        && let Some(seat) = Seat::of(&own.seats, number)
    {
        seat.interrupt();
        own.bell.count_interruption();
        own.bell.ring();
    }
}

/// Gives the turn, after something that others are to see at once: a signal.
pub fn let_others_see() {
    if let Some((own, seat)) = running() {
        SEEN.set(SEEN.get() | seen::BY_CLIENTS);
        exchange(own, seat, Request::Sleep, Some(seat.clock()));
    }
}

/// Says that this program has asked the system for `io_uring`, and that it was refused.
pub fn tell_refused() {
    if let Some((own, seat)) = running() {
        exchange(own, seat, Request::Refused, None);
    }
}

/// Has a function called whenever a thread has waited for its turn, by that thread.
pub fn watch_waits(after: extern "C" fn()) {
    AFTER_WAIT.store(after as *mut c_void, Ordering::Relaxed);
}

/// For a signal's handler that has found this thread in a loop that makes no call: gives the turn
/// until something is written into memory of this process, or others of its host have had a turn.
/// The loop is no computing.
pub fn await_memory() {
    let activity = ACTIVITY.get();
    let Some((own, seat)) = seated() else { return };
    seat.set_doing(b"a loop that makes no call");
    let again = AT_MEMORY.replace(activity) == activity;
    let request = if again {
        Request::MemoryAgain
    } else {
        Request::Memory
    };
    exchange(own, seat, request, None);
}

/// For a signal's handler that looks now and then at this thread, which has made no call since the
/// last look and was not found to wait then: what it had computed by then counts.
pub fn has_computed() {
    if let Some((_, seat)) = seated() {
        seat.set_clock(seat.clock().saturating_add(computing::take_to_last_look()));
    }
}

/// As [`has_computed`], up to now, and others go on until this thread's clock. False: computing is
/// free.
pub fn give_while_computing() -> bool {
    if !computing::is_counted() {
        return false;
    }
    let activity = ACTIVITY.get();
    if seated().is_some() {
        catch_up();
        ACTIVITY.set(activity);
    }
    true
}

/// What the caller is about to do in place of the program, and what led there, takes so much of the
/// processor's time, which is no computing.
pub fn let_computing_go(ns: u64) {
    computing::let_go(ns);
}

/// The least processor time that something takes, where computing counts.
#[must_use]
pub fn least_processor_ns(what: impl Fn()) -> Option<u64> {
    computing::is_counted().then(|| computing::least_ns(what))
}

/// The seat of this thread, if it has one and runs.
fn seated() -> Option<(&'static Own, Seat)> {
    let own = own()?;
    if IS_WAITING.get() {
        return None;
    }
    Some((own, Seat::of(&own.seats, SEAT.get().checked_sub(1)?)?))
}

/// The seat of this thread, if it runs: one that is not yet known sits down first. What it has
/// computed before is charged.
fn running() -> Option<(&'static Own, Seat)> {
    let own = own()?;
    if IS_WAITING.get() {
        return None;
    }
    ACTIVITY.set(ACTIVITY.get().wrapping_add(1));
    let number = match SEAT.get() {
        0 => return take_seat(),
        number => number - 1,
    };
    let seat = Seat::of(&own.seats, number)?;
    if computing::is_counted() && IN_LIBRARIES.get() == 0 {
        seat.set_clock(seat.clock().saturating_add(computing::take()));
    }
    Some((own, seat))
}

/// Has a seat for a thread that is to be made or has come by itself.
fn claim(own: &Own) -> Option<(u32, Seat)> {
    (0..SEATS).find_map(|number| {
        let seat = Seat::of(&own.seats, number)?;
        seat.claim().then_some((number, seat))
    })
}

fn take_seat() -> Option<(&'static Own, Seat)> {
    let own = own()?;
    let Some((number, seat)) = claim(own) else {
        end(&format!(
            "a simulated process has more than {SEATS} threads"
        ));
    };
    SEAT.set(number + 1);
    seat.set_task();
    seat.set_clock(0);
    seat.set_doing(b"start");
    IS_WAITING.set(true);
    seat.give(Request::Start, None);
    own.bell.count_newcomer();
    own.bell.ring();
    wait(own, seat);
    IS_WAITING.set(false);
    Some((own, seat))
}

/// A thread that its creator, which holds the turn, announces: it has its first turn in order.
#[derive(Debug)]
pub struct NewThread(u32);

impl NewThread {
    /// Before the thread is made. None: this process is no client.
    #[must_use]
    pub fn announce() -> Option<Self> {
        let (own, creator) = running()?;
        let Some((number, seat)) = claim(own) else {
            end(&format!(
                "a simulated process has more than {SEATS} threads"
            ));
        };
        seat.set_clock(creator.clock());
        seat.set_doing(b"start");
        seat.give(Request::Start, None);
        own.bell.count_newcomer();
        creator.lower_horizon();
        Some(Self(number))
    }

    /// In the thread, before anything else: returns when its first turn has come.
    pub fn begin(self) {
        let Some(own) = own() else { return };
        let Some(seat) = Seat::of(&own.seats, self.0) else {
            return;
        };
        SEAT.set(self.0 + 1);
        seat.set_task();
        IS_WAITING.set(true);
        wait(own, seat);
        IS_WAITING.set(false);
    }

    /// When there was no way to make the thread: as if it ended at once.
    pub fn cancel(self) {
        let Some((own, creator)) = running() else {
            return;
        };
        let Some(seat) = Seat::of(&own.seats, self.0) else {
            return;
        };
        seat.give(Request::End, None);
        let _ = exchange(own, creator, Request::Sleep, Some(creator.clock()));
    }

    /// At the end of a thread that has begun: the turn goes to others, and does not come back.
    pub fn end() {
        let Some((own, seat)) = running() else { return };
        IS_WAITING.set(true);
        seat.set_doing(b"end");
        seat.give(Request::End, None);
        own.bell.ring();
    }

    /// Behind a fork, in the parent: returns when the child has become a client, or ended.
    pub fn forked(child: i32) {
        let Some((own, seat)) = running() else { return };
        let Ok(child) = u64::try_from(child) else {
            return;
        };
        exchange(own, seat, Request::Born, Some(child));
    }
}

extern "C" fn enter() {
    if computing::is_counted() {
        running();
        IN_LIBRARIES.set(IN_LIBRARIES.get() + 1);
    }
}

extern "C" fn leave() {
    if computing::is_counted() {
        IN_LIBRARIES.set(IN_LIBRARIES.get().saturating_sub(1));
        if IN_LIBRARIES.get() == 0 {
            computing::restart();
        }
    }
}

extern "C" fn host() -> u32 {
    own().map_or(0, |own| own.host)
}

extern "C" fn now() -> u64 {
    // A handler that interrupts a wait sees the clock of the wait.
    if IS_WAITING.get() {
        let number = SEAT.get().wrapping_sub(1);
        let seat = own().and_then(|own| Seat::of(&own.seats, number));
        let clock = seat.map_or(0, |seat| seat.clock());
        return clock.max(SHOWN.load(Ordering::Relaxed));
    }
    running().map_or(0, |(_, seat)| seat.clock())
}

extern "C" fn quiet_until() -> u64 {
    seated().map_or(0, |(_, seat)| seat.quiet_until())
}

extern "C" fn charge(picoseconds: u64) {
    if let Some((_, seat)) = running() {
        seat.set_clock(seat.clock().saturating_add(picoseconds));
        // A loop that reads clocks until something has happened lets it happen.
        let (clock, since) = (seat.clock(), CHARGES_SINCE.get());
        let lead = LEAD_MIN.max((clock - since.min(clock)) / LEAD_PARTS);
        if clock > seat.horizon().saturating_add(lead) {
            catch_up();
            CHARGES_SINCE.set(since);
        }
    }
}

extern "C" fn synchronise() {
    catch_up();
    SEEN.set(SEEN.get() | seen::BY_CLIENTS);
}

/// Says that what this thread does before it next gives the turn may be seen outside of the
/// simulation, by whoever started this process or is connected with it: time does not go on before
/// those have done what they do about it.
pub fn tell_outside() {
    SEEN.set(SEEN.get() | seen::OUTSIDE);
}

/// Before this thread looks whether something real is there, without having given the turn at its
/// clock: returns when those outside of the simulation have done what they do about what clients,
/// this one too, have told them. It finds all that they have to tell, and not as much as they
/// happen to have told.
pub fn await_outside() {
    if let Some((own, seat)) = seated()
        && seat.is_outside_busy(SEEN.get() & seen::OUTSIDE != 0)
    {
        exchange(own, seat, Request::Look, None);
    }
}

/// Gives the turn if others are before this thread's clock.
fn catch_up() {
    if let Some((own, seat)) = running() {
        let clock = seat.clock();
        if clock > seat.horizon() {
            exchange(own, seat, Request::Sleep, Some(clock));
        }
    }
}

extern "C" fn sleep_until(time: u64) {
    if let Some((own, seat)) = running() {
        if time <= seat.clock() {
            return catch_up();
        }
        if time < seat.horizon() {
            seat.set_clock(time);
        } else {
            seat.set_doing(b"sleep");
            exchange(own, seat, Request::Sleep, Some(time));
        }
    }
}

/// # Safety
///
/// `what` is a string; `request` has `length` bytes; `sink` may be called with `context`.
unsafe extern "C" fn call(
    what: *const c_char,
    request: *const u8,
    length: usize,
    sink: Sink,
    context: *mut c_void,
) -> bool {
    let Some((own, seat)) = running() else {
        return false;
    };
    // SAFETY: the caller's promise.
    let (what, request) = unsafe {
        (
            CStr::from_ptr(what),
            core::slice::from_raw_parts(request, length),
        )
    };
    seat.set_doing(what.to_bytes());
    seat.put_message(request);
    if exchange(own, seat, Request::Call, None) != Reply::Granted {
        return false;
    }
    let answer = seat.take_message();
    // SAFETY: the caller's promise.
    unsafe { sink(context, answer.as_ptr(), answer.len()) };
    true
}

/// # Safety
///
/// `request` has `length` bytes.
unsafe extern "C" fn post(request: *const u8, length: usize) {
    let Some((own, seat)) = running() else {
        return;
    };
    // SAFETY: the caller's promise.
    let request = unsafe { core::slice::from_raw_parts(request, length) };
    CHARGES_SINCE.set(seat.clock());
    if !seat.add_post(request) {
        exchange(own, seat, Request::Sleep, Some(seat.clock()));
        seat.add_post(request);
    }
}

/// # Safety
///
/// `what` is a string; `waited` has `length` bytes.
unsafe extern "C" fn foreign_wait(
    what: *const c_char,
    deadline: u64,
    again: bool,
    waited: *const u8,
    length: usize,
) -> bool {
    let Some((own, seat)) = running() else {
        // A handler that interrupts a wait has to wait by itself; nothing is known to it.
        return true;
    };
    // SAFETY: the caller's promise.
    seat.set_doing(unsafe { CStr::from_ptr(what) }.to_bytes());
    // SAFETY: as above.
    seat.put_message(unsafe { core::slice::from_raw_parts(waited, length) });
    let deadline = (deadline != u64::MAX).then_some(deadline);
    let request = if again {
        Request::Again
    } else {
        Request::Foreign
    };
    exchange(own, seat, request, deadline) == Reply::Retry
}

extern "C" fn foreign_end() {
    if let Some((_, seat)) = running() {
        seat.set_clock(seat.clock().max(seat.now()));
        SEEN.set(SEEN.get() | seen::BY_CLIENTS);
    }
}
