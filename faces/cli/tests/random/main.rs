//! Random studies: whatever the command is given, it says what is wrong, or what it says holds.
//!
//! Each study is drawn with a seed of its own (`study.rs`) and looked at by every command that
//! takes one (`promises.rs`). One that breaks a promise is made smaller while it still does, and
//! shown with the command that draws it again.
//!
//! `VIADUCT_RANDOM` is the first seed and how many there are: `VIADUCT_RANDOM="1000 5000"`. The
//! study of a single seed is shown (`cargo test ... -- --nocapture`).
//! `VIADUCT_COMMAND` is the command to try, if not that of this build.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod promises;
mod study;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::promises::Ended;

/// First seed and how many studies, where nothing else is asked for.
const USUAL: (u64, u64) = (1, 200);

/// How long a study is made smaller, in milliseconds.
const SHRINKING_MS: u32 = 120_000;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Which seeds: the first and how many.
fn seeds() -> (u64, u64) {
    let Some(text) = variable("VIADUCT_RANDOM") else {
        return USUAL;
    };
    let numbers: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
    let [first, count] = numbers[..] else {
        panic!("VIADUCT_RANDOM is {text:?}: a first seed and a count are needed, as in \"1 20\"")
    };
    (first, count)
}

/// How the study of a seed ended; if it broke a promise, which and what it takes.
fn tried(viaduct: &Path, seed: u64, is_shown: bool) -> Result<Ended, String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config {
        cases: 1,
        max_shrink_iters: u32::MAX,
        failure_persistence: None,
        max_shrink_time: SHRINKING_MS,
        ..Config::default()
    };
    let ended = Mutex::new(None);
    let mut runner = TestRunner::new_with_rng(config, random);
    let result = runner.run(&study::study(), |text| {
        if is_shown {
            println!("{text}");
        }
        let found = promises::look(viaduct, &text).map_err(TestCaseError::fail)?;
        *ended.lock().unwrap() = Some(found);
        Ok(())
    });
    match result {
        Ok(()) => Ok(ended.into_inner().unwrap().unwrap()),
        Err(TestError::Fail(reason, text)) => Err(format!(
            "seed {seed}: {reason}\n{text}\nagain: VIADUCT_RANDOM=\"{seed} 1\" cargo test \
             --package viaduct-cli --test random\n"
        )),
        Err(TestError::Abort(reason)) => Err(format!("seed {seed}: {reason}")),
    }
}

#[test]
fn the_command_keeps_its_promises_for_any_study() {
    let own = PathBuf::from(env!("CARGO_BIN_EXE_viaduct"));
    let viaduct = variable("VIADUCT_COMMAND").map_or(own, |path| fs::canonicalize(path).unwrap());
    let (first, count) = seeds();
    let next = AtomicU64::new(first);
    let broken = Mutex::new(Vec::new());
    let counts = Mutex::new(BTreeMap::<String, u64>::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed - first >= count {
                return;
            }
            match tried(&viaduct, seed, count == 1) {
                Ok(ended) => {
                    if let Ended::Broke(words) = &ended {
                        println!("seed {seed}: {words}");
                    }
                    *counts.lock().unwrap().entry(ended.to_string()).or_default() += 1;
                }
                Err(text) => {
                    eprintln!("{text}");
                    broken.lock().unwrap().push(text);
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut counts: Vec<(String, u64)> = counts.into_inner().unwrap().into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (ended, count) in &counts {
        println!("{count:6} {ended}");
    }
    let broken = broken.into_inner().unwrap();
    let refused = counts
        .iter()
        .filter(|(ended, _)| ended.starts_with("refused"));
    let refused: u64 = refused.map(|(_, count)| count).sum();
    assert!(
        count < USUAL.1 || refused < count,
        "each study was refused: the drawing no longer fits the keys"
    );
    assert!(
        broken.is_empty(),
        "{} of {count}:\n{}",
        broken.len(),
        broken.join("\n")
    );
}
