//! Parallel programs by name, as far as their messages go: what each rank sends, and computes
//! between, as a [`Trace`].
//!
//! | program | what it does | ranks |
//! |---|---|---|
//! | `nas-ep` | draws random numbers, then adds up | any |
//! | `nas-is` | sorts integers: all keys change hands in each iteration | powers of two |
//! | `nas-ft` | a Fourier transform: transpositions an iteration | powers of two, a pencil each |
//! | `nas-cg` | conjugate gradients: sums along the rows of a grid of ranks | powers of two |
//! | `nas-mg` | cycles over grids from fine to coarse and back | powers of two, a point each |
//! | `nas-lu` | sweeps over a grid of ranks, plane by plane | powers of two, four points a side |
//! | `nas-sp` | sweeps in three directions, shared by all ranks | squares, three points a side |
//! | `nas-bt` | the same with longer messages | squares, three points a side |
//! | `linpack` | solves equations: panels go along a grid of ranks, rows down it | any |
//! | `radix-sort` | sorts keys, each in a message of its own | any |
//!
//! The first eight are those of the NAS Parallel Benchmarks 2 (Bailey and others, NAS-95-020,
//! 1995), and their sizes those of its classes. Which message follows which is derived from the MPI
//! programs that NASA gives away; each module says what of it is assumed. The timed part is made,
//! without what comes before it and without verification.
//!
//! Computations count the operations that the program itself counts when it prints its rate,
//! shared evenly. Of `nas-is` that is a key that is ranked, of `nas-ep` a number that is drawn, of
//! `radix-sort` a key that is counted or sent.

mod linpack;
mod multipartition;
mod nas_bt;
mod nas_cg;
mod nas_ep;
mod nas_ft;
mod nas_is;
mod nas_lu;
mod nas_mg;
mod nas_sp;
mod radix_sort;
#[cfg(test)]
mod tests;

use core::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::collective::{Collective, RANKS_MAX};
use crate::trace::{Group, MESSAGES, Steps, Together, Trace, Work};

pub use linpack::{Matrix, PanelBroadcast};
pub use radix_sort::Keys;

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
    /// Cycles over grids from fine to coarse and back.
    NasMg,
    /// Sweeps of a solver of triangular systems.
    NasLu,
    /// Sweeps of a solver of systems with five diagonals.
    NasSp,
    /// Sweeps of a solver of systems of blocks.
    NasBt,
    /// A system of equations by elimination.
    Linpack,
    /// A sort by digits, key by key.
    RadixSort,
}

impl Program {
    /// All that there are.
    pub const ALL: [Self; 10] = [
        Self::NasEp,
        Self::NasIs,
        Self::NasFt,
        Self::NasCg,
        Self::NasMg,
        Self::NasLu,
        Self::NasSp,
        Self::NasBt,
        Self::Linpack,
        Self::RadixSort,
    ];

    /// Its name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NasEp => "nas-ep",
            Self::NasIs => "nas-is",
            Self::NasFt => "nas-ft",
            Self::NasCg => "nas-cg",
            Self::NasMg => "nas-mg",
            Self::NasLu => "nas-lu",
            Self::NasSp => "nas-sp",
            Self::NasBt => "nas-bt",
            Self::Linpack => "linpack",
            Self::RadixSort => "radix-sort",
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
    /// Between how many ranks.
    pub ranks: u32,
    /// Its first iterations alone, panels of Linpack, passes of the sort; without it all.
    pub iterations: Option<u32>,
    /// Of a NAS benchmark: how large a problem.
    pub class: Class,
    /// Of Linpack: the system of equations.
    pub matrix: Matrix,
    /// Of the sort: what is sorted.
    pub keys: Keys,
}

impl Request {
    /// All of a program, of the size that it has if nothing is said.
    #[must_use]
    pub fn usual(program: Program, ranks: u32) -> Self {
        Self {
            program,
            ranks,
            iterations: None,
            class: Class::A,
            matrix: Matrix::default(),
            keys: Keys::default(),
        }
    }

    /// How many iterations there are.
    #[must_use]
    pub const fn iterations_max(&self) -> u32 {
        let class = self.class;
        match self.program {
            Program::NasEp => 1,
            Program::NasIs => nas_is::ITERATIONS,
            Program::NasFt => nas_ft::iterations(class),
            Program::NasCg => nas_cg::iterations(class),
            Program::NasMg => nas_mg::iterations(class),
            Program::NasLu => nas_lu::iterations(class),
            Program::NasSp => nas_sp::iterations(class),
            Program::NasBt => nas_bt::iterations(class),
            Program::Linpack => self.matrix.panels(),
            Program::RadixSort => self.keys.passes(),
        }
    }

    /// How large the problem is, as messages say it.
    fn problem(&self) -> String {
        match self.program {
            Program::Linpack => format!(
                "order {} in blocks of {}",
                self.matrix.order, self.matrix.block
            ),
            Program::RadixSort => format!("digits of {} bits", self.keys.digit_bits),
            _ => format!("class {:?}", self.class),
        }
    }
}

/// Why there is no such program.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ProgramError {
    /// It is not done between so many.
    #[error("{program} of {problem} has no {ranks} ranks: it has {nearest}")]
    Ranks {
        /// Which.
        program: Program,
        /// How large a problem.
        problem: String,
        /// How many there were to be.
        ranks: u32,
        /// The numbers that come nearest.
        nearest: String,
    },
    /// It has not so many iterations.
    #[error("{program} of {problem} has 1 to {most} iterations, not {iterations}")]
    Iterations {
        /// Which.
        program: Program,
        /// How large a problem.
        problem: String,
        /// How many there were to be.
        iterations: u32,
        /// How many there are.
        most: u32,
    },
    /// A matrix, a block or a digit of a size that it cannot have.
    #[error("{what} is 1 to {most}, not {value}")]
    Size {
        /// What.
        what: &'static str,
        /// What it was to be.
        value: u32,
        /// The largest.
        most: u32,
    },
}

/// Most equations of a system.
pub const ORDER_MAX: u32 = 1 << 20;
/// Most rows and columns of a block.
pub const BLOCK_MAX: u32 = 1 << 12;
/// Most keys of a sort.
pub const KEYS_MAX: u32 = 1 << 26;
/// Most bits of a digit.
pub const DIGIT_BITS_MAX: u32 = 16;

fn check_sizes(request: &Request) -> Result<(), ProgramError> {
    let Request { matrix, keys, .. } = request;
    let sizes: &[(&'static str, u32, u32)] = match request.program {
        Program::Linpack => &[
            ("the order of the matrix", matrix.order, ORDER_MAX),
            ("a block's side", matrix.block, BLOCK_MAX),
        ],
        Program::RadixSort => &[
            ("the number of keys", keys.count, KEYS_MAX),
            (
                "the number of bits of a digit",
                keys.digit_bits,
                DIGIT_BITS_MAX,
            ),
        ],
        _ => &[],
    };
    let wrong = sizes
        .iter()
        .find(|(_, value, most)| *value == 0 || value > most);
    match wrong.copied() {
        None => Ok(()),
        Some((what, value, most)) => Err(ProgramError::Size { what, value, most }),
    }
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
        matrix,
        keys,
    } = *request;
    check_sizes(request)?;
    check_ranks(request)?;
    let most = request.iterations_max();
    let iterations = iterations.unwrap_or(most);
    if iterations == 0 || iterations > most {
        return Err(ProgramError::Iterations {
            program,
            problem: request.problem(),
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
        Program::NasFt if nas_ft::has_pencils(class, ranks) => {
            each(&|rank| nas_ft::rounds(class, (ranks, rank), iterations))
        }
        Program::NasFt => same(nas_ft::rounds(class, (ranks, 0), iterations)),
        Program::NasCg => each(&|rank| nas_cg::rounds(class, (ranks, rank), iterations)),
        Program::NasMg => each(&|rank| nas_mg::rounds(class, (ranks, rank), iterations)),
        Program::NasLu => each(&|rank| nas_lu::rounds(class, (ranks, rank), iterations)),
        Program::NasSp => each(&|rank| nas_sp::rounds(class, (ranks, rank), iterations)),
        Program::NasBt => each(&|rank| nas_bt::rounds(class, (ranks, rank), iterations)),
        Program::Linpack => each(&|rank| linpack::rounds(&matrix, (ranks, rank), iterations)),
        Program::RadixSort => each(&|rank| radix_sort::rounds(&keys, (ranks, rank), iterations)),
    };
    let mut groups = vec![Group {
        name: "all".to_owned(),
        members: (0..ranks).collect(),
    }];
    if program == Program::NasFt {
        groups.extend(nas_ft::groups(class, ranks));
    }
    Ok(Trace {
        ranks: of_ranks,
        groups,
        step_word: "step",
        receives_are_limits: false,
    })
}

/// Which numbers of ranks a program has.
#[derive(Clone, Copy)]
enum Numbers {
    All,
    PowersOfTwo,
    Squares,
}

impl Numbers {
    /// The largest of them that is not above a number, which is not 0.
    const fn up_to(self, ranks: u32) -> u32 {
        match self {
            Self::All => ranks,
            Self::PowersOfTwo => 1 << ranks.ilog2(),
            Self::Squares => ranks.isqrt().pow(2),
        }
    }

    /// The next one after one of them.
    const fn after(self, ranks: u32) -> u32 {
        match self {
            Self::All => ranks + 1,
            Self::PowersOfTwo => 2 * ranks,
            Self::Squares => (ranks.isqrt() + 1).pow(2),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::All => "numbers",
            Self::PowersOfTwo => "powers of two",
            Self::Squares => "squares",
        }
    }
}

fn check_ranks(request: &Request) -> Result<(), ProgramError> {
    let Request {
        program,
        class,
        ranks,
        ..
    } = *request;
    let (numbers, most) = match program {
        Program::NasEp | Program::Linpack | Program::RadixSort => (Numbers::All, RANKS_MAX),
        Program::NasIs | Program::NasCg => (Numbers::PowersOfTwo, RANKS_MAX),
        Program::NasFt => (Numbers::PowersOfTwo, nas_ft::ranks_max(class)),
        Program::NasMg => (Numbers::PowersOfTwo, nas_mg::ranks_max(class)),
        Program::NasLu => (Numbers::PowersOfTwo, nas_lu::ranks_max(class)),
        Program::NasSp => (Numbers::Squares, nas_sp::ranks_max(class)),
        Program::NasBt => (Numbers::Squares, nas_bt::ranks_max(class)),
    };
    let nearest = match ranks {
        0 => "at least 1".to_owned(),
        _ if ranks > most => format!("at most {most}"),
        _ => {
            let below = numbers.up_to(ranks);
            if below == ranks {
                return Ok(());
            }
            format!(
                "{}, as {below} and {}",
                numbers.name(),
                numbers.after(below)
            )
        }
    };
    Err(ProgramError::Ranks {
        program,
        problem: request.problem(),
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

    /// Receives are posted and begin together, beside rows of work of which each begins when the
    /// one before has ended.
    fn add_in_turn(&mut self, name: &str, posted: &[Work], rows: &[Vec<Work>]) {
        if posted.is_empty() && rows.is_empty() {
            return;
        }
        let before = self.before.clone();
        self.add(name, posted);
        let begin = match posted {
            [] => self.steps.len() as u32,
            _ => self.before.start,
        };
        self.before = before;
        for row in rows {
            self.add(name, row);
        }
        self.before = begin..self.steps.len() as u32;
    }

    fn compute(&mut self, name: &str, operations: f64) {
        self.add(name, &[counted(operations)]);
    }

    /// The part in a collective of all ranks, with bytes as
    /// [`collective::Request`](crate::collective::Request) counts them.
    fn together(&mut self, name: &str, collective: Collective, bytes: u64) {
        self.together_in(0, name, collective, bytes);
    }

    /// The same of the ranks of a group of the trace.
    fn together_in(&mut self, group: u32, name: &str, collective: Collective, bytes: u64) {
        let together = Together {
            collective,
            bytes,
            group,
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

/// So many operations, on the processor that handles messages.
fn counted(operations: f64) -> Work {
    Work::Count {
        operations: operations.round() as u64,
        processor: MESSAGES,
    }
}

/// Bytes of a double.
const DOUBLE: u64 = 8;
