//! Seeds of random tests: how many, and how to run one again.

use viaduct_engine::{Stream, StreamKey};

/// A stream of a test.
pub(crate) fn stream(seed: u64, entity: u64) -> Stream {
    Stream::new(StreamKey {
        seed,
        purpose: 0x7e57,
        entity,
    })
}

/// A number of the environment.
#[expect(
    clippy::disallowed_methods,
    reason = "how long a test runs is its caller's choice"
)]
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect(name))
}

/// How much longer than usual tests are to run: `INTERFACE_SEEDS`.
pub(crate) fn times() -> u64 {
    number("INTERFACE_SEEDS").unwrap_or(1)
}

/// Runs `explore` with many seeds: `count` of them, or `INTERFACE_SEEDS` times as many, or only
/// `INTERFACE_SEED`.
pub(crate) fn each(filter: &str, count: u64, explore: impl Fn(u64)) {
    if let Some(seed) = number("INTERFACE_SEED") {
        explore(seed);
        return;
    }
    for seed in 0..count * times() {
        let guard = Replay { filter, seed };
        explore(seed);
        core::mem::forget(guard);
    }
}

/// Says how to run a seed again when its run panics.
struct Replay<'a> {
    filter: &'a str,
    seed: u64,
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        let Self { filter, seed } = self;
        println!("again: INTERFACE_SEED={seed} cargo test -p viaduct-frames --lib {filter}");
    }
}
