//! The fuzz entries on stable Rust: seed inputs, then mutations of them.
//!
//! Each case has a number, from which its input follows. Without settings the cases are the first
//! few hundred of each entry, the same in every run. `FUZZ_SECONDS` runs new ones for so long an
//! entry; `FUZZ_ENTRY` and `FUZZ_CASE` run one again.

#[path = "../../fuzz/entries.rs"]
mod entries;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use entries::ENTRIES;

/// What is run: the entry of a name over a text.
struct Entry {
    name: &'static str,
    run: fn(&str, &str),
}

/// Cases of each entry when no time is given.
const CASES: u64 = 400;
/// Longest input, bytes: mutations that double an input stop here.
const INPUT_BYTES_MAX: usize = 1 << 14;

#[test]
fn every_entry_stands_every_case() {
    let one: Option<u64> = setting("FUZZ_CASE");
    let seconds: Option<u64> = setting("FUZZ_SECONDS");
    let only = std::env::var("FUZZ_ENTRY").ok();
    for (name, _) in ENTRIES {
        if only.as_deref().is_some_and(|only| only != *name) {
            continue;
        }
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has no seed inputs");
        let entry = Entry {
            name,
            run: |name, text| entries::run(name, text.as_bytes()),
        };
        match (one, seconds) {
            (Some(case), _) => run(&entry, &seeds, case),
            (None, Some(seconds)) => by_the_clock(&entry, &seeds, Duration::from_secs(seconds)),
            (None, None) => (0..CASES).for_each(|case| run(&entry, &seeds, case)),
        }
    }
}

/// A check of the checker: a panic must be told with the command that repeats it.
#[test]
fn failing_case_says_how_to_repeat_it() {
    let entry = Entry {
        name: "edge_list",
        run: |_, text| assert!(!text.contains("hosts"), "found"),
    };
    let seeds = seeds(entry.name);
    let failed = std::panic::catch_unwind(|| (0..100).for_each(|case| run(&entry, &seeds, case)));
    let message = failed.unwrap_err().downcast::<String>().unwrap();
    assert!(
        message.contains("FUZZ_ENTRY=edge_list FUZZ_CASE="),
        "{message}"
    );
}

#[test]
fn case_has_one_input() {
    let seeds = seeds("study");
    for case in 0..50 {
        assert_eq!(input(&seeds, case), input(&seeds, case));
    }
    let different = (0..50).filter(|case| input(&seeds, *case) != input(&seeds, case + 50));
    assert!(different.count() > 40);
}

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not `{value}`")),
    )
}

fn by_the_clock(entry: &Entry, seeds: &[String], span: Duration) {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock after 1970");
    let first = since_epoch.as_secs() << 24;
    let begin = Instant::now();
    let mut slowest = Duration::ZERO;
    let mut case = first;
    while begin.elapsed() < span {
        let begin = Instant::now();
        run(entry, seeds, case);
        slowest = slowest.max(begin.elapsed());
        case += 1;
    }
    println!(
        "{}: {} cases, the slowest took {slowest:.1?}",
        entry.name,
        case - first
    );
}

fn run(entry: &Entry, seeds: &[String], case: u64) {
    let text = input(seeds, case);
    let name = entry.name;
    let outcome = std::panic::catch_unwind(|| (entry.run)(name, &text));
    if let Err(panic) = outcome {
        let kept = std::env::temp_dir().join(format!("viaduct-fuzz-{name}-{case}.txt"));
        let kept = match std::fs::write(&kept, &text) {
            Ok(()) => format!("its input is in {}", kept.display()),
            Err(error) => format!("its input could not be kept: {error}"),
        };
        let reason = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without words");
        panic!(
            "{reason}\n{kept}; again: FUZZ_ENTRY={name} FUZZ_CASE={case} \
             cargo test -p viaduct-xtask --test fuzz_smoke"
        );
    }
}

/// Texts to begin with: the folder of the entry, and what ships.
fn seeds(name: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![root.join("fuzz/seeds").join(name)];
    match name {
        "study" => folders.push(root.join("studies")),
        "preset" => folders.push(root.join("models")),
        _ => {}
    }
    let mut files: Vec<PathBuf> = folders
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .map(|entry| entry.expect("a folder that can be listed").path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| std::fs::read_to_string(file).expect("a seed that can be read"))
        .collect()
}

/// The seeds come first, as they are; then each case is one of them with a few mutations.
fn input(seeds: &[String], case: u64) -> String {
    if let Some(seed) = usize::try_from(case).ok().and_then(|case| seeds.get(case)) {
        return seed.clone();
    }
    let mut random = Random(case);
    let mut bytes = seeds[random.below(seeds.len())].clone().into_bytes();
    for _ in 0..=random.below(4) {
        let other = &seeds[random.below(seeds.len())];
        mutate(&mut bytes, other.as_bytes(), &mut random);
        bytes.truncate(INPUT_BYTES_MAX);
    }
    // What is no UTF-8 is refused when the file is read, before any of this.
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Words that parsers trip over.
const WORDS: &[&str] = &[
    "0",
    "-1",
    "1e400",
    "1e-400",
    "-0.0",
    "nan",
    "inf",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "99999999999999999999",
    "0.0000000000001",
    "\"",
    "'",
    "\\",
    "\\u0000",
    "[",
    "]",
    "[[",
    "{",
    "}",
    "=",
    ",",
    "#",
    "\n",
    "\r\n",
    "\t",
    " ",
    "\u{b5}s",
    "\u{feff}",
    "\0",
    "true",
    "1979-05-27",
    "\"0 s\"",
    "\"1 ps\"",
    "\"1 MB\"",
    "\"1e30 Gbit/s\"",
    "\"infinite\"",
    "<",
    ">",
    "&#0;",
    "<!--",
    "]]>",
    "<![CDATA[",
    "null",
    "*",
    "..",
    "/dev/zero",
    "100",
    "%",
];

fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let place = random.below(bytes.len() + 1);
    let span = place..(place + random.below(24)).min(bytes.len());
    match random.below(8) {
        0 if place < bytes.len() => bytes[place] ^= 1 << random.below(8),
        1 => drop(bytes.drain(span)),
        2 => {
            let copy = bytes[span].to_vec();
            let target = random.below(bytes.len() + 1);
            drop(bytes.splice(target..target, copy));
        }
        3 => {
            let from = random.below(other.len() + 1);
            let piece = &other[from..(from + random.below(80)).min(other.len())];
            drop(bytes.splice(place..place, piece.iter().copied()));
        }
        4 => replace_number(bytes, place, random),
        5 => swap_lines(bytes, random),
        6 => {
            let line = lines(bytes).nth(random.below(lines(bytes).count()));
            if let Some(line) = line {
                drop(bytes.drain(line));
            }
        }
        _ => {
            let word = WORDS[random.below(WORDS.len())];
            drop(bytes.splice(place..place, word.bytes()));
        }
    }
}

/// Puts a word in place of the next number.
fn replace_number(bytes: &mut Vec<u8>, from: usize, random: &mut Random) {
    let Some(start) = (from..bytes.len()).find(|place| bytes[*place].is_ascii_digit()) else {
        return;
    };
    let digits = bytes[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let word = WORDS[random.below(12)];
    drop(bytes.splice(start..start + digits, word.bytes()));
}

fn swap_lines(bytes: &mut Vec<u8>, random: &mut Random) {
    let mut texts: Vec<Vec<u8>> = lines(bytes).map(|line| bytes[line].to_vec()).collect();
    if texts.is_empty() {
        return;
    }
    let (one, two) = (random.below(texts.len()), random.below(texts.len()));
    texts.swap(one, two);
    *bytes = texts.concat();
}

/// Each line's bytes, with its end.
fn lines(bytes: &[u8]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut start = 0;
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(move |line| {
            let range = start..start + line.len();
            start = range.end;
            range
        })
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// From 0 up to `bound` exclusive; 0 if it is 0. The bias is of no matter here.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}
