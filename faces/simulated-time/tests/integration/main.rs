//! C programs on simulated hosts, over a world that has nothing: what they print is the same in
//! every run, and to the picosecond what was simulated.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

mod computing;
mod interrupted;
mod map;
mod programs;
mod refused;
mod repeats;
mod run;
mod threads;
