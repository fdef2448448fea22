//! A process that forks while it is connected: the child harms nobody and is told why it may not.

use std::time::Duration;

use viaduct_core::Address;
use viaduct_provider::{Provider, Result, ReturnCode};

use super::hostile::Honest;
use super::process::{run_survivor, say};
use crate::Shm;

#[test]
fn a_forked_child_is_refused_and_its_parent_goes_on() {
    run_survivor("forks", &[], Duration::from_secs(60));
}

pub(super) fn survive() {
    let mut honest = Honest::connect();
    let address = honest.station.address("child");
    let shared = honest.station.shared.window();
    // SAFETY: the window belongs to this test alone.
    unsafe { shared.write_volatile(1) };
    for length in [100, 70_000] {
        honest.echo(length);
        // SAFETY: the child calls this library, reads a file and exits.
        match unsafe { libc::fork() } {
            0 => {
                let refused = std::panic::catch_unwind(|| be_child(&honest, &address));
                // SAFETY: what the parent would clean up is left to it.
                unsafe { libc::_exit(i32::from(refused.is_err())) };
            }
            child => {
                assert!(child > 0, "{}", std::io::Error::last_os_error());
                honest.echo(length);
                let child = rustix::process::Pid::from_raw(child);
                let options = rustix::process::WaitOptions::empty();
                let (_, status) = rustix::process::waitpid(child, options).unwrap().unwrap();
                assert_eq!(status.exit_status(), Some(0), "the child says why above");
            }
        }
        for _ in 0..100 {
            honest.echo(length);
        }
        // SAFETY: as above; the child has written and is gone.
        assert_eq!(unsafe { shared.read_volatile() }, 2);
        // SAFETY: as above.
        unsafe { shared.write_volatile(1) };
    }
    assert_eq!(honest.station.times_lost(honest.vi), 0);
    say("survived");
}

/// Tries everything that could reach the parent's connection.
fn be_child(honest: &Honest, address: &Address) {
    let (shm, vi, nic) = (Shm::global(), honest.vi, honest.station.nic);
    let refused = |code: ReturnCode, error: viaduct_provider::Error| {
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains("forked"), "{error}");
    };
    fn failed<T>(result: Result<T>) -> viaduct_provider::Error {
        match result {
            Ok(_) => panic!("it was not refused"),
            Err(error) => error,
        }
    }
    for error in [
        failed(honest.station.private.post_receive(vi, 1)),
        failed(honest.station.private.post_send(vi, 1, 8, 0, None, (0, 0))),
        failed(shm.receive_done(vi)),
        failed(shm.send_done(vi)),
        failed(shm.receive_wait(vi, None)),
        failed(shm.disconnect(vi)),
        failed(shm.destroy_vi(vi)),
        failed(shm.create_completion_queue(nic, 8)),
        failed(shm.connect_wait(nic, address, None)),
        failed(shm.allocate_shared(nic, 4096)),
        failed(shm.counts(nic)),
        failed(shm.close_nic(nic)),
    ] {
        refused(ReturnCode::InvalidParameter, error);
    }
    refused(ReturnCode::Resource, failed(shm.open_nic("viaduct0")));
    // Nothing of the connection is there; what the program allocated is.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let left: Vec<_> = maps.lines().filter(|l| l.contains("viaduct-")).collect();
    assert!(
        left.iter()
            .all(|l| l.contains("viaduct-slab") || l.contains("viaduct-shared")),
        "{left:#?}"
    );
    assert!(!left.is_empty());
    // SAFETY: the parent looks when this process is gone.
    unsafe { honest.station.shared.window().write_volatile(2) };
}
