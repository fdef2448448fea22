//! Whether a loop waits for memory: a thread is run instruction by instruction for a while, by the
//! processor's trap flag. If it comes back to where it was with the same in all registers, and does
//! so along the same way some times more, nothing but what somebody else writes can end its loop.
//! How long that takes makes no difference, and so the machine's load makes none.
//!
//! A loop that counts, and one that computes, has other registers each time. One that counts in
//! memory and never has the number in a register changes flags as it goes.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use libc::{greg_t, siginfo_t, ucontext_t};
use viaduct_turns::{activity, here};

use crate::real;

/// Instructions of a loop at most.
const INSTRUCTIONS_MAX: u32 = 128;
/// So often it comes back with the same in all registers.
const ROUNDS: u32 = 4;

/// The trap flag, and the flags that say how an operation ended.
const TRAP: greg_t = 0x100;
const ARITHMETIC: greg_t = 0x8d5;
/// General registers, the next instruction and the flags: the first of those that the system tells.
const REGISTERS: usize = libc::REG_EFL as usize + 1;

type State = [greg_t; REGISTERS];

/// What a thread has done since it is run by steps.
struct Steps {
    is_on: Cell<bool>,
    /// What it had done before.
    activity: Cell<u64>,
    begin: Cell<State>,
    /// In this round.
    count: Cell<u32>,
    rounds: Cell<u32>,
    /// The ways of this round and of the first.
    way: Cell<u64>,
    first_way: Cell<u64>,
}

thread_local! {
    static STEPS: Steps = const {
        Steps {
            is_on: Cell::new(false),
            activity: Cell::new(0),
            begin: Cell::new([0; REGISTERS]),
            count: Cell::new(0),
            rounds: Cell::new(0),
            way: Cell::new(0),
            first_way: Cell::new(0),
        }
    };
}

/// The program has a handler of its own for what traps.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Has traps of this process come here.
pub(crate) fn listen() {
    // SAFETY: an action of zeros is one; the handler does what a handler may.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        let mut before: libc::sigaction = core::mem::zeroed();
        real::sigaction(libc::SIGTRAP, &raw const action, &raw mut before);
        let is_free = [libc::SIG_DFL, libc::SIG_IGN, action.sa_sigaction];
        if !is_free.contains(&before.sa_sigaction) {
            real::sigaction(libc::SIGTRAP, &raw const before, ptr::null_mut());
            give_up();
        }
    }
    STEPS.with(|steps| steps.is_on.set(false));
}

/// The program wants to have traps itself: nothing is run by steps any more.
pub(crate) fn give_up() {
    IS_TAKEN.store(true, Ordering::Relaxed);
}

fn state(context: &ucontext_t) -> State {
    let mut state: State = [0; REGISTERS];
    state.copy_from_slice(&context.uc_mcontext.gregs[..REGISTERS]);
    state[libc::REG_EFL as usize] &= ARITHMETIC;
    state
}

/// Has the thread that was interrupted run by steps when its signal's handler returns; false: it
/// does already, or cannot.
pub(crate) fn begin(context: &mut ucontext_t) -> bool {
    // SAFETY: the set is the system's.
    let is_masked = unsafe { libc::sigismember(&raw const context.uc_sigmask, libc::SIGTRAP) };
    if is_masked != 0 || IS_TAKEN.load(Ordering::Relaxed) {
        return false;
    }
    STEPS.with(|steps| {
        if context.uc_mcontext.gregs[libc::REG_EFL as usize] & TRAP != 0 {
            return false;
        }
        steps.is_on.set(true);
        steps.activity.set(activity());
        steps.begin.set(state(context));
        for number in [&steps.count, &steps.rounds] {
            number.set(0);
        }
        steps.way.set(0);
        context.uc_mcontext.gregs[libc::REG_EFL as usize] |= TRAP;
        true
    })
}

extern "C" fn trap(_signal: c_int, _about: *mut siginfo_t, context: *mut c_void) {
    let error = real::errno();
    // SAFETY: the system passes it.
    let context = unsafe { &mut *context.cast::<ucontext_t>() };
    let is_loop = STEPS.with(|steps| {
        let seen = steps.is_on.get().then(|| steps.see(&state(context)));
        if seen != Some(Seen::Something) {
            context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP;
            steps.is_on.set(false);
        }
        seen == Some(Seen::Loop)
    });
    if is_loop {
        crate::loops::wait(context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64);
    }
    real::set_errno(error);
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Seen {
    /// Nothing that says more.
    Something,
    /// A loop that waits for memory.
    Loop,
    /// None.
    NoLoop,
}

impl Steps {
    /// One instruction more has been run.
    fn see(&self, state: &State) -> Seen {
        if here().is_none() || activity() != self.activity.get() {
            return Seen::NoLoop;
        }
        self.follow(state)
    }

    fn follow(&self, state: &State) -> Seen {
        // An order of the registers and of the steps: FNV's multiplication by a prime.
        let add = |way: u64, register: &greg_t| {
            (way ^ *register as u64).wrapping_mul(0x0000_0100_0000_01b3)
        };
        self.way.set(state.iter().fold(self.way.get(), add));
        self.count.set(self.count.get() + 1);
        if *state != self.begin.get() {
            return match self.count.get() < INSTRUCTIONS_MAX {
                true => Seen::Something,
                false => Seen::NoLoop,
            };
        }
        let way = self.way.replace(0);
        self.count.set(0);
        self.rounds.set(self.rounds.get() + 1);
        if self.rounds.get() == 1 {
            self.first_way.set(way);
        } else if way != self.first_way.get() {
            return Seen::NoLoop;
        }
        match self.rounds.get() < ROUNDS {
            true => Seen::Something,
            false => Seen::Loop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is seen at last of a loop of four instructions, which is begun at its first, with such
    /// a register at each by the round.
    fn seen(register: impl Fn(u32, u32) -> i64) -> Seen {
        let at = |round, instruction| {
            let mut state: State = [0; REGISTERS];
            state[libc::REG_RAX as usize] = register(round, instruction);
            state[libc::REG_RIP as usize] = instruction.into();
            state
        };
        STEPS.with(|steps| {
            steps.begin.set(at(0, 0));
            steps.count.set(0);
            steps.rounds.set(0);
            steps.way.set(0);
            let states = (0..).flat_map(|round| (0..4).map(move |number| (round, number)));
            let seen = states
                .skip(1)
                .map(|(round, number)| steps.follow(&at(round, number)));
            seen.into_iter()
                .find(|seen| *seen != Seen::Something)
                .unwrap()
        })
    }

    #[test]
    fn a_loop_that_has_the_same_in_all_registers_each_time_waits_for_memory() {
        assert_eq!(seen(|_, instruction| instruction.into()), Seen::Loop);
        // Of what it has found in memory, too.
        assert_eq!(seen(|_, instruction| (7 * instruction).into()), Seen::Loop);
    }

    #[test]
    fn a_loop_that_counts_does_not() {
        assert_eq!(seen(|round, _| round.into()), Seen::NoLoop);
        // Where it is begun nothing is to be seen of that.
        let counts = |round: u32, instruction: u32| match instruction {
            2 => round.into(),
            _ => 0,
        };
        assert_eq!(seen(counts), Seen::NoLoop);
        // Every second time it is the same.
        let turns = |round: u32, instruction: u32| match instruction {
            2 => i64::from(round % 4 / 2),
            _ => 0,
        };
        assert_eq!(seen(turns), Seen::NoLoop);
    }
}
