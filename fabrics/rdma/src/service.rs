//! The thread that hears links: peers that come, kicks, peers that die; and, while sends are under
//! way, looks after them now and then.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use viaduct_processes::{priority, socket};

use crate::engine::{self, Engine, IS_TICK_DUE, IS_TICKING};
use crate::link::{Link, MESSAGE_BYTES, Message};

/// Between two looks at sends under way.
pub(crate) const TICK: Duration = Duration::from_millis(1);
/// So often the thread leaves sends under way to a program that looks after them.
const TICKS_ALONE: u32 = 20;
/// Ticks without sends under way, after which the thread sleeps until it is woken.
const IDLE_TICKS: u32 = 20;
/// How long it goes on looking after it was woken for requests.
const LINGER: Duration = Duration::from_micros(50);
/// The longest that it goes on without a look at its sockets.
const LINGER_MAX: Duration = Duration::from_millis(1);

pub(crate) fn start(wake: Arc<OwnedFd>) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("viaduct-rdma".into());
    // Signals are for the program's threads.
    let blocked = block_signals();
    let started = thread.spawn(move || run(&wake));
    restore_signals(&blocked);
    started.map(drop)
}

fn block_signals() -> libc::sigset_t {
    // SAFETY: plain sets of signals, filled by the calls.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: a set that the system filled.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}

/// Has this thread run beside a program that is real-time, or says what may come of it.
fn run_before_the_program() {
    let Err(error) = priority::run_before_the_program() else {
        return;
    };
    let processors = rustix::thread::sched_getaffinity(None);
    if processors.is_ok_and(|processors| processors.count() == 1) {
        eprintln!(
            "viaduct: the program runs at a real-time priority and on one processor, and the \
             library's thread may not run at a higher one ({error}): peers may wait for ever while \
             the program looks without a pause. Let it run on two processors, or raise the limit of \
             real-time priorities (`ulimit -r`)"
        );
    }
}

fn run(wake: &Arc<OwnedFd>) {
    run_before_the_program();
    let mut idle = 0;
    loop {
        let Ok(mut guard) = engine::engine() else {
            return;
        };
        let port_change = guard.follow_port().map(Duration::from_nanos);
        let listener = guard.listener.clone();
        let lines: Vec<(usize, Arc<OwnedFd>)> = (0..)
            .zip(&guard.links)
            .filter_map(|(index, link)| Some((index, link.as_ref()?.socket.clone()?)))
            .collect();
        let strangers = guard.strangers.clone();
        drop(guard);
        let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(lines.len() + strangers.len() + 2);
        let watch = |fd: BorrowedFd<'_>| PollFd::from_borrowed_fd(fd_static(fd), PollFlags::IN);
        polled.push(watch(wake.as_fd()));
        polled.push(watch(listener.as_fd()));
        polled.extend(lines.iter().map(|(_, line)| watch(line.as_fd())));
        polled.extend(strangers.iter().map(|line| watch(line.as_fd())));
        let is_ticking = IS_TICKING.load(Ordering::Relaxed);
        let tick = is_ticking.then_some(TICK);
        let limit = tick.into_iter().chain(port_change).min();
        let limit = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        let mut ticks = 0;
        let ready: Vec<bool> = loop {
            let found = rustix::event::poll(&mut polled, limit.as_ref());
            let has_ticked = found == Ok(0) && tick.is_some();
            ticks += 1;
            // The lock is left to a program that looks by itself.
            let is_looked_after = has_ticked && !IS_TICK_DUE.swap(true, Ordering::Relaxed);
            if !is_looked_after || port_change.is_some() || ticks == TICKS_ALONE {
                break polled.iter().map(|fd| !fd.revents().is_empty()).collect();
            }
        };
        drop(polled);
        let _ = rustix::io::read(wake.as_fd(), &mut [0_u8; 8]);
        let Ok(mut engine) = engine::engine() else {
            return;
        };
        let mut was_kicked = ready[0];
        for ((index, line), _) in lines.iter().zip(&ready[2..]).filter(|(_, ready)| **ready) {
            was_kicked |= hear_line(&mut engine, *index, line);
        }
        let waiting = ready[2 + lines.len()..].iter();
        let spoke = strangers.into_iter().zip(waiting);
        for (line, _) in spoke.filter(|(_, spoke)| **spoke) {
            // This thread alone takes them away.
            engine.strangers.retain(|each| !Arc::ptr_eq(each, &line));
            greet(&mut engine, line);
        }
        while let Ok(Some(line)) = listener.accept() {
            greet(&mut engine, Arc::new(line));
        }
        engine.progress();
        engine.tick();
        rearm(&mut engine);
        if engine.has_work() {
            idle = 0;
            IS_TICKING.store(true, Ordering::Relaxed);
        } else if !ready.contains(&true) {
            idle += ticks;
            if idle > IDLE_TICKS {
                // The next send finds the thread asleep, and gives it as many ticks again.
                idle = 0;
                IS_TICKING.store(false, Ordering::Relaxed);
            }
        }
        drop(engine);
        if was_kicked {
            linger();
        }
    }
}

/// Ties a descriptor to no lifetime: the lists it is taken from outlive the poll.
fn fd_static<'a>(fd: BorrowedFd<'_>) -> BorrowedFd<'a> {
    use std::os::fd::AsRawFd;
    // SAFETY: each is held by an `Arc` or a list of this function's caller until after the poll.
    unsafe { BorrowedFd::borrow_raw(fd.as_raw_fd()) }
}

/// Requests that need this thread seldom come alone. A program that looks itself is left alone.
fn linger() {
    let mut end = Instant::now() + LINGER;
    let last = end + LINGER_MAX;
    let mut looks = None;
    loop {
        let now = Instant::now();
        if now > end || now > last {
            return;
        }
        let Ok(mut engine) = engine::engine() else {
            return;
        };
        if looks.is_some_and(|looks| looks != engine.looks) {
            return;
        }
        looks = Some(engine.looks);
        let count = engine.progress();
        drop(engine);
        if count > 0 {
            end = now + LINGER;
        } else {
            std::thread::yield_now();
        }
    }
}

/// Wants to be woken again, and looks once more.
fn rearm(engine: &mut Engine) {
    if engine.objects.notices.armed() > 0 {
        engine.set_attention(true);
        engine.progress();
    }
}

/// A peer has connected.
fn greet(engine: &mut Engine, line: Arc<OwnedFd>) {
    let mut bytes = [0; MESSAGE_BYTES];
    match socket::receive(line.as_fd(), &mut bytes) {
        Ok(received) => {
            match Message::decode(&bytes[..received.length]) {
                Some(Message::Hello(greeting)) => {
                    let tables = &engine.objects.notices.carrier.tables;
                    let beside = received.descriptors;
                    let link = Link::accept(line, &greeting, beside, engine.block, tables);
                    if let Ok(link) = link {
                        let index = engine.add_link(link);
                        let links = &mut engine.links_by_block;
                        links.entry(greeting.block()).or_insert(index);
                    }
                }
                // Dropped, the line tells that it is done.
                Some(Message::Count) => engine.count_direct(),
                _ => {}
            }
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            engine.strangers.push(line);
        }
        Err(_) => {}
    }
}

/// Takes what a peer says over the socket; whether it was a kick.
fn hear_line(engine: &mut Engine, index: usize, line: &Arc<OwnedFd>) -> bool {
    let mut was_kicked = false;
    loop {
        // The place may have another link by now.
        let is_same = engine.links[index]
            .as_ref()
            .and_then(|link| link.socket.as_ref())
            .is_some_and(|socket| Arc::ptr_eq(socket, line));
        if !is_same {
            return was_kicked;
        }
        let mut bytes = [0; MESSAGE_BYTES];
        let received = match socket::receive(line.as_fd(), &mut bytes) {
            Ok(received) if received.length > 0 => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return was_kicked,
            _ => {
                engine.lose_link(index);
                return true;
            }
        };
        let Some(link) = &mut engine.links[index] else {
            return was_kicked;
        };
        let heard = match Message::decode(&bytes[..received.length]) {
            Some(Message::Kick) => {
                was_kicked = true;
                true
            }
            Some(Message::Copies(copies)) => {
                link.peer_copies = copies;
                true
            }
            Some(Message::Welcome(greeting)) => {
                was_kicked = true;
                link.welcome(&greeting, received.descriptors).is_ok()
            }
            _ => false,
        };
        if !heard {
            engine.lose_link(index);
            return true;
        }
    }
}
