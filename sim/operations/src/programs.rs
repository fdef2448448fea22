//! Parallel programs by name, as far as their messages go: what each rank sends, and computes
//! between, as a [`Trace`].
//!
//! | program | what it does | ranks |
//! |---|---|---|
//! | `nas-ep` | draws random numbers, then adds up | any |
//! | `nas-is` | sorts integers: all keys change hands in each iteration | powers of two |
//! | `nas-ft` | a Fourier transform: a transposition an iteration | powers of two, one a plane |
//! | `nas-cg` | conjugate gradients: sums along the rows of a grid of ranks | powers of two |
//! | `nas-lu` | sweeps over a grid of ranks, plane by plane | powers of two, four points a side |
//!
//! They are those of the NAS Parallel Benchmarks 2 (Bailey and others, NAS-95-020, 1995) and their
//! sizes those of its classes. Which message follows which is derived from the MPI programs that
//! NASA gives away; each module says what of it is assumed. The timed part is made, without what
//! comes before it and without verification.
//!
//! Computations count the operations that the program itself counts when it prints its rate,
//! shared evenly. Of `nas-is` that is a key that is ranked, of `nas-ep` a number that is drawn.

mod nas_cg;
mod nas_ep;
mod nas_ft;
mod nas_is;
mod nas_lu;
#[cfg(test)]
mod tests;

use core::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::collective::{Collective, RANKS_MAX};
use crate::trace::{Group, MESSAGES, Steps, Together, Trace, Work};

/// A parallel program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Program {
    /// Embarrassingly parallel.
    NasEp,
    /// Integer sort.
    NasIs,
    /// Fourier transform.
    NasFt,
    /// Conjugate gradients.
    NasCg,
    /// Sweeps of a solver of triangular systems.
    NasLu,
}

impl Program {
    /// All that there are.
    pub const ALL: [Self; 5] = [
        Self::NasEp,
        Self::NasIs,
        Self::NasFt,
        Self::NasCg,
        Self::NasLu,
    ];

    /// Its name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NasEp => "nas-ep",
            Self::NasIs => "nas-is",
            Self::NasFt => "nas-ft",
            Self::NasCg => "nas-cg",
            Self::NasLu => "nas-lu",
        }
    }

    /// How many iterations it has.
    #[must_use]
    pub const fn iterations(self, class: Class) -> u32 {
        match self {
            Self::NasEp => 1,
            Self::NasIs => nas_is::ITERATIONS,
            Self::NasFt => nas_ft::iterations(class),
            Self::NasCg => nas_cg::iterations(class),
            Self::NasLu => nas_lu::iterations(class),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// How large the problem is: S for a sample, W for a workstation, then ever larger.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "they have no other names")]
pub enum Class {
    S,
    W,
    A,
    B,
    C,
}

impl Class {
    /// All that there are, by size.
    pub const ALL: [Self; 5] = [Self::S, Self::W, Self::A, Self::B, Self::C];
}

/// A program that is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// Which.
    pub program: Program,
    /// How large a problem.
    pub class: Class,
    /// Between how many ranks.
    pub ranks: u32,
    /// Its first iterations alone; without it all.
    pub iterations: Option<u32>,
}

/// Why there is no such program.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ProgramError {
    /// It is not done between so many.
    #[error("{program} of class {class:?} has no {ranks} ranks: it has {nearest}")]
    Ranks {
        /// Which.
        program: Program,
        /// How large a problem.
        class: Class,
        /// How many there were to be.
        ranks: u32,
        /// The numbers that come nearest.
        nearest: String,
    },
    /// It has not so many iterations.
    #[error("{program} of class {class:?} has 1 to {most} iterations, not {iterations}")]
    Iterations {
        /// Which.
        program: Program,
        /// How large a problem.
        class: Class,
        /// How many there were to be.
        iterations: u32,
        /// How many there are.
        most: u32,
    },
}

/// What the ranks of a program do.
///
/// # Errors
///
/// [`ProgramError`] if it is not done between so many, or has not so many iterations.
pub fn trace(request: &Request) -> Result<Trace, ProgramError> {
    let Request {
        program,
        class,
        ranks,
        iterations,
    } = *request;
    check_ranks(program, class, ranks)?;
    let most = program.iterations(class);
    let iterations = iterations.unwrap_or(most);
    if iterations == 0 || iterations > most {
        return Err(ProgramError::Iterations {
            program,
            class,
            iterations,
            most,
        });
    }
    let same = |rounds: Rounds| {
        let steps = Arc::new(rounds.steps);
        (0..ranks).map(|_| Arc::clone(&steps)).collect()
    };
    let each = |rounds: &dyn Fn(u32) -> Rounds| {
        let steps = (0..ranks).map(|rank| Arc::new(rounds(rank).steps));
        steps.collect()
    };
    let of_ranks: Vec<Arc<Steps>> = match program {
        Program::NasEp => same(nas_ep::rounds(class, ranks)),
        Program::NasIs => same(nas_is::rounds(class, ranks, iterations)),
        Program::NasFt => same(nas_ft::rounds(class, ranks, iterations)),
        Program::NasCg => each(&|rank| nas_cg::rounds(class, (ranks, rank), iterations)),
        Program::NasLu => each(&|rank| nas_lu::rounds(class, (ranks, rank), iterations)),
    };
    Ok(Trace {
        ranks: of_ranks,
        groups: vec![Group {
            name: "all".to_owned(),
            members: (0..ranks).collect(),
        }],
        step_word: "step",
    })
}

fn check_ranks(program: Program, class: Class, ranks: u32) -> Result<(), ProgramError> {
    let most = match program {
        Program::NasFt => nas_ft::ranks_max(class),
        Program::NasLu => nas_lu::ranks_max(class),
        _ => RANKS_MAX,
    };
    let is_power = program != Program::NasEp;
    if (1..=most).contains(&ranks) && (!is_power || ranks.is_power_of_two()) {
        return Ok(());
    }
    let nearest = match ranks {
        0 => "at least 1".to_owned(),
        _ if ranks > most => format!("at most {most}"),
        _ => {
            let below = 1 << ranks.ilog2();
            format!("powers of two, as {below} and {}", below * 2)
        }
    };
    Err(ProgramError::Ranks {
        program,
        class,
        ranks,
        nearest,
    })
}

/// The steps of a rank in rounds: those of one begin when those of the one before have ended.
#[derive(Default)]
struct Rounds {
    steps: Steps,
    before: core::ops::Range<u32>,
}

impl Rounds {
    /// All begin together; nothing is added if there are none.
    fn add(&mut self, name: &str, all: &[Work]) {
        if all.is_empty() {
            return;
        }
        let begin = self.steps.len() as u32;
        for work in all {
            let number = self.steps.len() as u64;
            self.steps.add(*work, number, name, self.before.clone());
        }
        self.before = begin..self.steps.len() as u32;
    }

    fn compute(&mut self, name: &str, operations: f64) {
        let operations = operations.round() as u64;
        let processor = MESSAGES;
        let work = Work::Count {
            operations,
            processor,
        };
        self.add(name, &[work]);
    }

    /// The part in a collective of all ranks, with bytes as
    /// [`collective::Request`](crate::collective::Request) counts them.
    fn together(&mut self, name: &str, collective: Collective, bytes: u64) {
        let together = Together {
            collective,
            bytes,
            group: 0,
            root: 0,
        };
        self.add(name, &[Work::Together(together)]);
    }

    /// A receive is posted, a message sent to the same rank, and both are waited for.
    fn exchange(&mut self, name: &str, with: u32, (sent, received): (u64, u64)) {
        let tag = 0;
        let receive = Work::Receive {
            bytes: received,
            from: with,
            tag,
        };
        let send = Work::Send {
            bytes: sent,
            to: with,
            tag,
        };
        self.add(name, &[receive, send]);
    }
}

/// Bytes of a double.
const DOUBLE: u64 = 8;
