//! What threads of a program see of each other.

use std::time::Duration;

use crate::run::{each_time, once, program};

/// What a host prints alone.
fn alone(role: &str) -> String {
    each_time(&program("threads"), &[&[role]]).remove(0)
}

/// A call of the system costs 200 ns, a reading of a clock 25; to lock and unlock costs nothing.
/// Thread N sleeps for N times 10 us with the mutex, and who asked first has it first.
#[test]
fn mutexes_are_had_in_turn() {
    let mut wanted = "1 has it at 225\nin vain for 2000\n".to_owned();
    let mut free_at = 225 + 200 + 10_000;
    for number in [2, 3, 1, 2, 3, 1, 2, 3] {
        let at = free_at + 25;
        wanted += &format!("{number} has it at {at}\n");
        free_at = at + 200 + number * 10_000;
    }
    wanted += &format!("joined at {}\n", free_at + 200 + 1000 + 25);
    assert_eq!(alone("mutexes"), wanted);
}

#[test]
fn condition_variables_call_who_waited_first() {
    let wanted = "1 takes one at 100825\n\
                  2 takes one at 201025\n\
                  3 takes one at 301225\n\
                  1 takes one at 401425\n\
                  2 takes one at 501625\n\
                  3 takes one at 501650\n\
                  joined at 501675\n\
                  in vain for 7000\n\
                  in vain for 7000\n";
    assert_eq!(alone("conditions"), wanted);
}

#[test]
fn barriers_semaphores_and_other_locks() {
    let wanted = "in vain for 900\n\
                  3 is past the barrier at 31775, last\n\
                  1 is past the barrier at 31775\n\
                  2 is past the barrier at 31775\n\
                  3 is past the barrier at 62000, last\n\
                  1 is past the barrier at 62000\n\
                  2 is past the barrier at 62000\n\
                  1 has the semaphore at 206975\n\
                  1 has the lock at 207000\n\
                  2 has the semaphore at 212175\n\
                  3 has the semaphore at 217375\n\
                  2 has the lock at 237225\n\
                  3 has the lock at 237225\n\
                  1 has been in turn at 240425\n\
                  2 has been in turn at 270650\n\
                  3 has been in turn at 273850\n\
                  joined at 273875\n";
    assert_eq!(alone("others"), wanted);
}

#[test]
fn futexes_by_number() {
    let wanted = "in vain for 1725\n\
                  in vain for 2500\n\
                  1 sees 1 at 56725\n\
                  2 sees 2 at 107125\n\
                  3 sees 3 at 157525\n\
                  joined at 157550\n";
    assert_eq!(alone("futexes"), wanted);
}

#[test]
fn a_forked_child_has_threads_and_a_semaphore_of_both() {
    let printed = alone("shared");
    assert!(
        printed.starts_with("posted after 40425\n1 has it at 40650\n"),
        "{printed}"
    );
    assert!(printed.ends_with("joined at 223875\n"), "{printed}");
}

#[test]
fn processes_wait_for_each_other_at_a_condition_variable_of_both() {
    // Each has the ball for 10 us and a call of the system, and reads the clock.
    let turns =
        (0..6).map(|ball| format!("{} has ball {ball} at {}\n", ball % 2, 225 + ball * 10_225));
    let turns: String = turns.collect();
    let printed = alone("shared-condition");
    let refused = printed.strip_prefix(&format!("{turns}in vain for 7050\n"));
    assert!(
        refused.is_some_and(|it| it.starts_with("viaduct: a barrier of several processes")),
        "{printed}"
    );
}

/// Else who is earlier would have the turn, and wait for what the other holds where nobody sees it.
#[test]
fn a_lock_that_readers_may_have_is_taken_within_other_locks() {
    let printed = alone("read-within");
    assert!(printed.starts_with("read at "), "{printed}");
    assert!(printed.contains("\nprinted at "), "{printed}");
}

#[test]
fn threads_that_wait_for_each_other_are_named() {
    let (result, _) = once(&program("threads"), &[&["deadlock"]], |coordinator| {
        coordinator.set_patience(Duration::from_millis(50));
    });
    let text = result.unwrap_err().to_string();
    assert!(text.contains("thread 0 of process"), "{text}");
    assert!(
        text.contains("on host 0 is in pthread_mutex_lock since 10.400 us"),
        "{text}"
    );
    assert!(
        text.contains("on host 0 is in pthread_rwlock_wrlock since 10.400 us"),
        "{text}"
    );
}

#[test]
fn loops_that_make_no_call_end_when_others_write() {
    // Each of 20 rounds has sleeps of 1, 2 and 3 us, one behind the other; who has written gives
    // the turn in the call behind it.
    let at = 200 + 20 * (6000 + 3 * 200) + 60 * 200;
    let wanted = format!("60 at {}\njoined at {}\n", at + 25, at + 2000 + 25);
    assert_eq!(alone("loops"), wanted);
    let after = 200 + 20 * (10_000 + 5000 + 2 * 200);
    assert_eq!(alone("shared-loop"), format!("after {}\n", after + 25));
}

#[test]
fn a_computation_taken_for_such_a_loop_is_told() {
    let (result, ended) = once(&program("threads"), &[&["computes"]], |_| {});
    assert_eq!(ended, [(true, "1000000000 at 25\n".to_owned())]);
    let notices = result.unwrap().notices;
    assert!(
        notices[0].contains("was taken for a wait for memory"),
        "{notices:?}"
    );
}

#[test]
fn a_loop_that_touches_new_pages_is_no_such_loop() {
    let (result, ended) = once(&program("threads"), &[&["touches"]], |_| {});
    assert_eq!(ended, [(true, "touched at 25\n".to_owned())]);
    let notices = result.unwrap().notices;
    assert!(notices.is_empty(), "{notices:?}");
}

#[test]
fn a_loop_that_nothing_ends_is_named() {
    let (result, _) = once(&program("threads"), &[&["spins"]], |coordinator| {
        coordinator.set_patience(Duration::from_millis(50));
    });
    let text = result.unwrap_err().to_string();
    let wanted = "on host 0 is in a loop that makes no call since 0.000 us";
    assert!(text.contains(wanted), "{text}");
}
