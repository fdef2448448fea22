//! When a library's own thread has a processor, beside a program whose threads are real-time.
//!
//! A thread that a real-time program starts has its policy and its priority. If the program looks
//! without a pause for what comes, and both may run on one processor only, then the other never
//! runs: nobody takes the processor from a real-time thread but one of a higher priority.

use std::io;
use std::mem::MaybeUninit;

/// Has this thread run before those of the program that started it, if they are real-time: it
/// sleeps most of the time. Nothing for other programs.
///
/// # Errors
///
/// What the system says: who is not root needs `RLIMIT_RTPRIO` for it.
pub fn run_before_the_program() -> io::Result<()> {
    let mut parameters = MaybeUninit::<libc::sched_param>::zeroed();
    // SAFETY: thread 0 is this one; the system fills what the second call points to.
    let (policy, mut parameters) = unsafe {
        let policy = libc::sched_getscheduler(0);
        if libc::sched_getparam(0, parameters.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        (policy, parameters.assume_init())
    };
    let is_real_time = matches!(
        policy & !libc::SCHED_RESET_ON_FORK,
        libc::SCHED_FIFO | libc::SCHED_RR
    );
    // SAFETY: the call takes numbers alone.
    let highest = unsafe { libc::sched_get_priority_max(libc::SCHED_FIFO) };
    if !is_real_time || parameters.sched_priority >= highest {
        return Ok(());
    }
    parameters.sched_priority += 1;
    // SAFETY: the system reads the parameters.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::lock::BiasedMutex;

    /// Has this thread run on one processor, and at a real-time priority; whether it may.
    fn become_real_time(priority: i32) -> bool {
        let parameters = libc::sched_param {
            sched_priority: priority,
        };
        let mut processors = rustix::thread::CpuSet::new();
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|each| allowed.is_set(*each));
        processors.set(first.unwrap());
        rustix::thread::sched_setaffinity(None, &processors).unwrap();
        // SAFETY: the system reads the parameters.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
    }

    #[test]
    fn a_thread_of_a_real_time_program_that_looks_without_a_pause_runs() {
        static HAS_RUN: AtomicBool = AtomicBool::new(false);
        let program = thread::spawn(|| {
            if !become_real_time(1) {
                println!("this user may not run at a real-time priority: nothing was tested");
                return true;
            }
            let own = thread::spawn(|| {
                run_before_the_program().unwrap();
                // It sleeps now and then.
                thread::sleep(Duration::from_millis(1));
                HAS_RUN.store(true, Ordering::Relaxed);
            });
            // What starts it may wait: then it has run so far. After that nobody waits.
            thread::sleep(Duration::from_micros(500));
            let begun = Instant::now();
            while !HAS_RUN.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_millis(100) {
                std::hint::spin_loop();
            }
            let has_run = HAS_RUN.load(Ordering::Relaxed);
            own.join().unwrap();
            has_run
        });
        assert!(program.join().unwrap());
    }

    #[test]
    fn a_lock_is_had_from_a_thread_of_lower_priority_on_the_same_processor() {
        static LOCK: std::sync::OnceLock<BiasedMutex<u32>> = std::sync::OnceLock::new();
        let lock = LOCK.get_or_init(|| BiasedMutex::new(0));
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            if !become_real_time(1) {
                println!("this user may not run at a real-time priority: nothing was tested");
                return done.send(()).unwrap();
            }
            drop(lock.lock());
            let held = lock.lock();
            let other = thread::spawn(move || {
                run_before_the_program().unwrap();
                *lock.lock() += 1;
                done.send(()).unwrap();
            });
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(20) {
                // Where it gives the processor away, the other one tries to have the lock.
                thread::yield_now();
            }
            drop(held);
            other.join().unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(5)).unwrap();
    }
}
