//! Waits that a signal ends.

use crate::run::{each_time, program};

/// What a host prints alone.
fn alone(role: &str) -> String {
    each_time(&program("interrupted"), &[&[role]]).remove(0)
}

/// A signal comes after 20 us, and what the call waits for after 40.
#[test]
fn a_handler_ends_each_wait() {
    let calls = [
        "nanosleep",
        "poll",
        "select",
        "epoll_wait",
        "read",
        "recv",
        "accept",
        "connect",
        "write",
        "sem_wait",
        "sem_timedwait",
        "futex",
        "futex, timed",
        "waitpid",
        "sigtimedwait",
    ];
    let lines = calls.map(|call| format!("{call} EINTR 20, handled 1\n"));
    assert_eq!(alone("plain"), lines.concat());
}

#[test]
fn some_calls_go_on_behind_a_handler_that_has_them_restart() {
    let wanted = "nanosleep EINTR 20, handled 1\n\
                  poll EINTR 20, handled 1\n\
                  select EINTR 20, handled 1\n\
                  epoll_wait EINTR 20, handled 1\n\
                  read done 40, handled 1\n\
                  recv done 41, handled 1\n\
                  accept done 44, handled 1\n\
                  connect Connection refused 1000000, handled 1\n\
                  write done 41, handled 1\n\
                  sem_wait done 41, handled 1\n\
                  sem_timedwait done 41, handled 1\n\
                  futex done 41, handled 1\n\
                  futex, timed EINTR 20, handled 1\n\
                  waitpid done 44, handled 1\n\
                  sigtimedwait EINTR 20, handled 1\n";
    assert_eq!(alone("restart"), wanted);
}

#[test]
fn a_signal_to_a_thread_ends_its_wait_and_no_others() {
    let wanted = "thread's read EINTR 50425, in it 1\nslept 3425\n";
    assert_eq!(alone("threads"), wanted);
}

#[test]
fn programs_see_the_actions_that_they_have_set() {
    assert_eq!(alone("actions"), "as set\n");
}
