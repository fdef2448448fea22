//! What clients do: each is this program again.

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use viaduct_turns::{Client, NewThread, Waited};

use crate::cases::coordinate;
use crate::runs::{itself, pipe};
use crate::world::US;

pub(crate) fn say(client: Client, text: &str) {
    let mut answer = Vec::new();
    assert!(client.call(c"call", text.as_bytes(), &mut answer));
}

/// What a client does, by its first word; descriptors that it inherits are numbers.
pub(crate) fn act(role: &str, words: &[String]) {
    if role == "coordinates" {
        return coordinate(&words[0]);
    }
    let client = viaduct_turns::start().unwrap().unwrap();
    let number = |at: usize| -> u64 { words[at].parse().unwrap() };
    match role {
        // Steps of so many picoseconds, so many times.
        "steps" => {
            for _ in 0..number(1) {
                let before = client.now();
                let mut answer = b"> ".to_vec();
                assert!(client.call(c"cost", b"cost 70", &mut answer));
                assert_eq!(answer, b"> cost 70");
                assert_eq!(client.now(), before + 70);
                client.charge(number(0));
            }
        }
        "waits" => {
            let mut answer = Vec::new();
            assert!(client.call(c"wait", b"wait 5000", &mut answer));
            assert_eq!(
                (answer.as_slice(), client.now()),
                (&b"rung at 5000"[..], 5000)
            );
            assert!(!client.call(c"until", b"until 300", &mut answer));
            assert_eq!(
                (answer.as_slice(), client.now()),
                (&b"rung at 5000"[..], 5300)
            );
        }
        "posts" => {
            for _ in 0..number(1) {
                client.charge(number(0));
                client.post(b"posted");
            }
            // What was posted may start something: this gives the turn.
            client.sleep_until(100 * US);
            say(client, "slept");
        }
        "wakes" => {
            // The other waits from the start.
            client.sleep_until(US);
            client.charge(US);
            client.post(b"wake");
            client.sleep_until(100 * US);
            client.synchronise();
            write(number(0) as i32, 7);
        }
        "woken" => {
            client.call(c"never", b"never", &mut Vec::new());
            let early = read(client, number(0) as i32, Some(client.now()));
            let late = read(client, number(0) as i32, None);
            say(client, &format!("read {early:?} {late:?}"));
        }
        "reads" => {
            for _ in 0..number(1) {
                let byte = read(client, number(0) as i32, None);
                say(client, &format!("read {byte:?}"));
            }
        }
        "writes" => {
            for byte in 0..3 {
                client.charge(5 * US);
                client.synchronise();
                write(number(0) as i32, byte);
            }
            client.charge(US);
        }
        "mutters" => {
            for byte in 0..2 {
                for _ in 0..1000 {
                    client.call(c"cost", b"cost 1000000", &mut Vec::new());
                }
                // Nobody is told.
                write(number(0) as i32, byte);
            }
        }
        "rings" => {
            let (from, to) = pipe();
            say(client, &format!("ring {} {}", to.as_raw_fd(), 7 * US));
            let byte = read(client, from.as_raw_fd(), None);
            assert_eq!((byte, client.now()), (Some(1), 7 * US));
            say(client, "heard it");
        }
        "leaves" => {
            // What is to come then finds nobody.
            say(client, &format!("ring 0 {}", 7 * US));
            client.charge(US);
        }
        "deadline" => {
            let byte = read(client, number(0) as i32, Some(7 * US));
            assert!(byte.is_none() && client.now() == 7 * US);
            say(client, "in vain");
        }
        "outside" => {
            say(client, "begins");
            let byte = read(client, number(0) as i32, None);
            say(client, &format!("read {byte:?}"));
        }
        "blocks" => {
            client.charge(US);
            let mut byte = 0_u8;
            // SAFETY: one byte has room.
            unsafe { libc::read(number(0) as i32, (&raw mut byte).cast(), 1) };
        }
        "sleeps" => {
            for _ in 0..1000 {
                client.sleep_until(client.now() + US);
            }
            say(client, "slept");
            if let Some(to) = words.first() {
                client.synchronise();
                write(to.parse().unwrap(), 3);
            }
        }
        "asks" => {
            for _ in 0..3 {
                client.charge(US);
                client.synchronise();
                viaduct_turns::tell_outside();
                write(number(0) as i32, b'\n');
                let byte = read(client, number(1) as i32, None);
                say(client, &format!("read {byte:?}"));
            }
        }
        // Each at the same times: one writes, if it has where, and one looks, once.
        "asks_once" => {
            for round in 1..=3 {
                client.sleep_until(round * US);
                if let Some(to) = words.first().and_then(|to| to.parse().ok()) {
                    viaduct_turns::tell_outside();
                    write(to, b'\n');
                }
                if let Some(from) = words.get(1).and_then(|from| from.parse().ok()) {
                    viaduct_turns::await_outside();
                    say(client, &format!("looked {:?}", read_once(from)));
                }
            }
        }
        "clocks" => {
            let end = number(0) * US;
            while client.now() < end {
                client.charge(US / 40);
            }
            say(client, "read");
        }
        "looks" => {
            let place = AtomicU8::new(0);
            let address = place.as_ptr().addr();
            say(client, &format!("poke {address} {}", 7 * US));
            client.charge(US);
            // What a signal's handler does that interrupts such a loop.
            while place.load(Ordering::Relaxed) == 0 {
                viaduct_turns::await_memory();
            }
            assert_eq!(client.now(), 7 * US);
            say(client, "saw it");
        }
        "threads" => threads(client),
        "unknown" => unknown_thread(client),
        "dies" => {
            client.sleep_until(2 * US);
            client.charge(US);
            client.post(b"last words");
            // SAFETY: it ends this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        "lies" => {
            client.sleep_until(2 * US);
            scribble();
            say(client, "never heard");
            panic!("it lives on");
        }
        "forks" => forks(client),
        "replaced" => say(client, "replaced"),
        "never" => {
            client.charge(US);
            client.call(c"never", b"never", &mut Vec::new());
        }
        other => panic!("no role {other}"),
    }
}

pub(crate) fn read(client: Client, descriptor: i32, deadline: Option<u64>) -> Option<u8> {
    let waited = [(descriptor, libc::POLLIN)];
    let waited = Waited::Descriptors(&waited);
    client.foreign(c"read", waited, deadline, || read_once(descriptor))
}

fn read_once(descriptor: i32) -> Option<u8> {
    let mut byte = 0_u8;
    // SAFETY: one byte has room.
    let got = unsafe { libc::read(descriptor, (&raw mut byte).cast(), 1) };
    (got == 1).then_some(byte)
}

pub(crate) fn write(descriptor: i32, byte: u8) {
    // SAFETY: one byte is there.
    let put = unsafe { libc::write(descriptor, (&raw const byte).cast(), 1) };
    assert_eq!(put, 1);
}

pub(crate) fn threads(client: Client) {
    static RUNS: AtomicBool = AtomicBool::new(false);
    // Between two calls nobody else is here, however long that takes.
    let alone = || {
        assert!(!RUNS.swap(true, Ordering::SeqCst), "two threads run");
        std::thread::yield_now();
        for _ in 0..10_000 {
            std::hint::spin_loop();
        }
        assert!(RUNS.swap(false, Ordering::SeqCst));
    };
    let mut handles = Vec::new();
    for number in 1..=3_u64 {
        alone();
        let announced = NewThread::announce().unwrap();
        handles.push(std::thread::spawn(move || {
            announced.begin();
            for _ in 0..4 {
                alone();
                client.sleep_until(client.now() + number * 100);
                say(client, "awake");
            }
            NewThread::end();
        }));
        client.charge(50);
    }
    for _ in 0..20 {
        alone();
        client.sleep_until(client.now() + 130);
    }
    for handle in handles {
        handle.join().unwrap();
    }
}

pub(crate) fn unknown_thread(client: Client) {
    let unknown = std::thread::spawn(move || {
        say(client, "unknown");
        NewThread::end();
    });
    client.foreign(c"join", Waited::Anything, None, || {
        unknown.is_finished().then_some(())
    });
    say(client, "joined");
}

/// Writes over all seats of this process, as somebody might who means harm.
pub(crate) fn scribble() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps
        .lines()
        .find(|line| line.contains("viaduct-seats"))
        .unwrap();
    let start = usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    // Behind `turn`, which would hang this process alone.
    for at in (4..128).step_by(4) {
        // SAFETY: the first seat is as long; whoever reads it stands what it finds.
        unsafe { std::ptr::with_exposed_provenance_mut::<u32>(start + at).write_volatile(!0) };
    }
}

pub(crate) fn forks(client: Client) {
    client.charge(3 * US);
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        viaduct_turns::forget();
        viaduct_turns::start().unwrap().unwrap();
        client.charge(US);
        say(client, "child");
        client.charge(US);
        let error = itself("replaced", &[]).exec();
        panic!("{error}");
    }
    NewThread::forked(child);
    say(client, "parent");
    let status = client.foreign(c"wait", Waited::Anything, None, || {
        let mut status = 0;
        // SAFETY: the number has room.
        let got = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        (got == child).then_some(status)
    });
    assert_eq!(status, Some(0));
    say(client, "waited");
}
