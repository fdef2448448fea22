//! Peers of another user, and in containers that share a folder with this process and nothing
//! else. They need a test that runs as root, as it does in most containers; otherwise they say so
//! and pass.

use std::ffi::CStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use viaduct_provider::{Done, Provider};

use super::hostile::Honest;
use super::process::{run_survivor, say};
use crate::{Shm, vi};

/// How the peer is another: a user's number, or a kind of container.
const STRANGER: &str = "VIADUCT_CHAOS_STRANGER";
const RENDEZVOUS: &str = "VIADUCT_RENDEZVOUS";
const SOON: Duration = Duration::from_secs(10);
/// A user of no other process here.
const USER: u32 = 64_242;

#[test]
fn a_peer_of_another_user_is_served_and_not_trusted() {
    if !is_root() {
        return println!("not run: only root can become another user");
    }
    for protected in ["0", "1"] {
        let environment = [(STRANGER, "user"), ("VIADUCT_PROTECTED", protected)];
        run_survivor("strangers", &environment, Duration::from_secs(60));
    }
}

#[test]
fn a_peer_in_a_container_is_met_through_the_folder_they_share() {
    if !is_root() {
        return println!("not run: only root can make namespaces everywhere");
    }
    for container in ["namespaces", "own numbers", "no number"] {
        if let Err(error) = contained(&mut Command::new("true"), container).status() {
            println!("not run in a container of kind {container:?}: {error}");
            continue;
        }
        let folder = std::env::temp_dir().join(format!("viaduct-folder-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let environment = [
            (STRANGER, container),
            (RENDEZVOUS, folder.to_str().unwrap()),
        ];
        run_survivor("strangers", &environment, Duration::from_secs(60));
        // The killed peer left its socket.
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(super) fn survive() {
    let kind = std::env::var(STRANGER).unwrap();
    let is_protected = crate::host::protected_by_environment();
    let mut honest = Honest::connect_to(|command| {
        if kind == "user" {
            // By the process itself: another user may not be able to reach this executable.
            command.env(STRANGER, USER.to_string());
        } else {
            contained(command, &kind);
        }
    });
    let (link, ..) = vi::shared(honest.vi).unwrap();
    let trusted = match kind.as_str() {
        "namespaces" | "own numbers" => !is_protected,
        // Its user cannot be told from others that have no number there.
        _ => false,
    };
    assert_eq!(link.trusted(), trusted, "{kind}");
    let started = Instant::now();
    for round in 0..50 {
        for length in [0, 48, 49, 4096, 70_000, 131_072] {
            honest.echo(length - length.min(round % 2));
        }
    }
    say(&format!("{kind}: 300 echoes took {:?}", started.elapsed()));
    // What it opens to others is written and read there.
    honest.peer.signal(libc::SIGKILL);
    honest.station.private.post_receive(honest.vi, 0).unwrap();
    let killed = Instant::now();
    let done = Shm::global().receive_wait(honest.vi, Some(SOON)).unwrap();
    assert!(matches!(done, Done::Failed(_)), "{done:?}");
    say(&format!("{kind}: noticed after {:?}", killed.elapsed()));
    say("survived");
}

/// Becomes the user that the environment names, if it names one.
pub(super) fn become_other() {
    let Some(user) = std::env::var(STRANGER)
        .ok()
        .and_then(|text| text.parse().ok())
    else {
        return;
    };
    // SAFETY: plain system calls, of glibc for all threads of this process.
    let results = unsafe {
        [
            libc::setgroups(0, std::ptr::null()),
            libc::setgid(user),
            libc::setuid(user),
        ]
    };
    assert_eq!(results, [0; 3], "{}", io::Error::last_os_error());
    assert_eq!(rustix::process::geteuid().as_raw(), user);
}

/// Has a command run in namespaces of its own, as process 1: with `own numbers` its user has
/// another number there, with `no number` none.
fn contained<'a>(command: &'a mut Command, kind: &str) -> &'a mut Command {
    let mut namespaces =
        libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWNET;
    let map = match kind {
        "own numbers" => Some(c"1000 0 1"),
        _ => None,
    };
    if kind != "namespaces" {
        namespaces |= libc::CLONE_NEWUSER;
    }
    // SAFETY: only system calls, between fork and exec.
    unsafe { command.pre_exec(move || enter(namespaces, map)) }
}

/// Moves this process, which has one thread, into new namespaces.
fn enter(namespaces: i32, map: Option<&'static CStr>) -> io::Result<()> {
    let checked = |result: i32| match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    };
    // SAFETY: plain system calls on constants and on values of this function. The second process
    // goes on to exec; the first only waits for it.
    unsafe {
        checked(libc::unshare(namespaces))?;
        if let Some(map) = map {
            let file = checked(libc::open(c"/proc/self/uid_map".as_ptr(), libc::O_WRONLY))?;
            checked(libc::write(file, map.as_ptr().cast(), map.count_bytes()) as i32)?;
            checked(libc::close(file))?;
        }
        let none = std::ptr::null();
        let private = libc::MS_REC | libc::MS_PRIVATE;
        checked(libc::mount(none, c"/".as_ptr(), none, private, none.cast()))?;
        let shm = c"/dev/shm".as_ptr();
        let kind = c"tmpfs".as_ptr();
        checked(libc::mount(kind, shm, kind, 0, none.cast()))?;
        let first = checked(libc::fork())?;
        if first == 0 {
            checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
            let kind = c"proc".as_ptr();
            checked(libc::mount(kind, c"/proc".as_ptr(), kind, 0, none.cast()))?;
            return Ok(());
        }
        // Whoever started this learns of the exec when nobody holds its pipe.
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
        let mut status = 0;
        libc::waitpid(first, &raw mut status, 0);
        libc::_exit(libc::WEXITSTATUS(status));
    }
}
