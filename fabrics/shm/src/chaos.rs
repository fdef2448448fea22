//! Peers that die, stop and lie: tests with real processes, and what these share.
//!
//! A test starts this executable again as the process under test, the *survivor*, and that starts
//! it again as its peers. So nothing else runs in a process whose descriptors and mappings are
//! counted, and a survivor that hangs can be ended.

mod breaks;
mod departures;
mod end;
mod forks;
mod hostile;
mod kills;
mod noticed;
mod process;
mod stops;
mod strangers;
mod thirds;
mod traffic;

use viaduct_processes::kill_points::{KILL_AT, POINTS};

/// Random numbers by a seed that a failure prints (splitmix64).
#[derive(Clone, Copy, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// A number from the environment, for longer runs and for the replay of a failure.
fn number(variable: &str, otherwise: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(otherwise, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number"))
    })
}
