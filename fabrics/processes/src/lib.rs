//! What processes of one machine share, whatever they say to each other.
//!
//! - `rendezvous`: where they find each other, by names of sockets
//! - `socket`: packets and descriptors, who is at the other end; `user`: whether it is this user
//! - `segment`: sealed memory that both map; `held`: writers that wait while pages move
//! - `copy`: copies of bytes that another process may write; `cma`: one copy by the kernel
//! - `descriptor`: what another process has under a number
//! - `signals`: what is sent to a process is passed on to its child; `capabilities`: what a file
//!   gives to who runs it
//! - `barrier`: barriers for sleepers; `deadline`: when a caller's patience ends
//! - `lock`: locks that cost nothing while one thread uses them; `priority`: a library's own thread
//!   beside those of a real-time program

/// Before a store that peers can see: tests kill a process here. Nothing without debug assertions.
macro_rules! kill_point {
    () => {
        // No feature that tests set: all crates above would be built with it and without.
        #[cfg(debug_assertions)]
        crate::kill_points::point();
    };
}

pub mod barrier;
pub mod capabilities;
pub mod cma;
pub mod copy;
pub mod deadline;
pub mod descriptor;
pub mod held;
pub mod kill_points;
pub mod lock;
pub mod priority;
pub mod rendezvous;
pub mod segment;
pub mod signals;
pub mod socket;
mod sync;
pub mod user;
