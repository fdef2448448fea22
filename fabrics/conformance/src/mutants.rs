//! Whether the suite notices when a rule of `viaduct-core` is broken.
//!
//! A mutant is a rule that says something else than it should; `viaduct_core::mutation` lists them.
//! Each is run as this program again, with the mutant's name in the environment: until the first
//! case fails, or to the end if none does. What nothing notices over a fabric stands in
//! `survivors.txt`, with the reason; a survivor that does not stand there is a failure, and one
//! that stands there and is noticed after all is one too.

use std::process::ExitCode;

#[cfg(debug_assertions)]
pub use broken::{break_what_is_asked, is_rule_broken, run, say_whether_asked};
#[cfg(not(debug_assertions))]
pub use whole::{break_what_is_asked, is_rule_broken, run, say_whether_asked};

/// Whose rules are broken, and what is known of those that nothing notices.
#[derive(Clone, Copy, Debug)]
pub struct Mutants {
    /// What the fabric is called in the list of survivors.
    pub under: &'static str,
    /// The list: lines `mutant | fabrics | reason`.
    pub survivors: &'static str,
    /// Where it lies, for messages.
    pub file: &'static str,
    /// Whether the rules are those of verbs; otherwise they are VIA's.
    pub is_verbs: bool,
}

impl Mutants {
    /// Of VIA's rules, which the suite of this crate holds.
    pub(crate) const fn of_via(under: &'static str) -> Self {
        Self {
            under,
            survivors: include_str!("../survivors.txt"),
            file: "fabrics/conformance/survivors.txt",
            is_verbs: false,
        }
    }
}

/// Of a build without debug assertions: it has no mutants.
#[cfg(not(debug_assertions))]
mod whole {
    use super::{ExitCode, Mutants};

    /// Breaks nothing, and says so.
    #[must_use]
    pub const fn break_what_is_asked() -> bool {
        false
    }

    /// Whether a rule is broken in this process. Without debug assertions rules cannot be broken.
    #[must_use]
    pub const fn is_rule_broken() -> bool {
        false
    }

    /// Says nothing.
    pub const fn say_whether_asked() {}

    /// Refuses to run mutants.
    #[must_use]
    pub fn run(_mutants: &Mutants, words: Option<&[String]>) -> ExitCode {
        if words.is_none() {
            return ExitCode::SUCCESS;
        }
        eprintln!("mutants need a build with debug assertions: leave out --release");
        ExitCode::FAILURE
    }
}

#[cfg(debug_assertions)]
mod broken {
    use std::collections::BTreeMap;
    use std::fmt::Write;
    use std::io::Read;
    use std::process::{Child, Command, Stdio};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use viaduct_provider::via::mutation::{VARIABLE, break_rule, mutants, was_asked};

    use super::{ExitCode, Mutants};

    /// How long a mutant may take. One that hangs is noticed.
    const LIMIT: Duration = Duration::from_secs(120);
    /// Of so many mutants one is run after the suite.
    const SAMPLED: usize = 16;
    /// Mutants at a time: most of a case is waiting.
    const AT_ONCE: usize = 6;

    /// How a mutant ended.
    enum Fate {
        /// Which case failed, or how else it was noticed.
        Noticed(String),
        /// Whether at least somebody asked the broken rule, if it is known.
        Survived(String),
    }

    /// Breaks the rule that the environment names. Whether it names one. The library of the C
    /// interface does the same: its rules are others than this program's.
    ///
    /// # Panics
    ///
    /// For a name that no mutant has.
    #[must_use]
    pub fn break_what_is_asked() -> bool {
        let Ok(name) = std::env::var(VARIABLE) else {
            return false;
        };
        assert!(
            break_rule(&name),
            "{VARIABLE} is \"{name}\": no rule of this name can be broken in such a way"
        );
        true
    }

    /// Whether a rule is broken in this process on purpose, for the cases to notice.
    #[must_use]
    pub fn is_rule_broken() -> bool {
        std::env::var_os(VARIABLE).is_some()
    }

    /// Says whether the broken rule was asked in this process.
    pub fn say_whether_asked() {
        println!("{ASKED}{}", was_asked());
    }

    const ASKED: &str = "the broken rule was asked in this process: ";

    /// Runs mutants: those whose names have one of the words, all if there is no word, a sample if
    /// there is no list.
    #[must_use]
    pub fn run(suite: &Mutants, words: Option<&[String]>) -> ExitCode {
        let Mutants { under, file, .. } = suite;
        let reasons = match survivors(suite) {
            Ok(reasons) => reasons,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        };
        let all = mutants().into_iter().map(|mutant| mutant.to_string());
        let all: Vec<String> = all
            .filter(|name| name.starts_with("verbs::") == suite.is_verbs)
            .collect();
        let mut failures: Vec<String> = reasons
            .keys()
            .filter(|name| !all.iter().any(|other| other == **name))
            .map(|name| format!("{name}: {file} names it, but there is no such mutant"))
            .collect();
        let mut chosen: Vec<&String> = all.iter().collect();
        match words {
            Some([]) => {}
            Some(words) => chosen.retain(|name| words.iter().any(|word| name.contains(word))),
            None => {
                // Those that survive take longest, and are for the long run.
                chosen.retain(|name| !reasons.contains_key(name.as_str()));
                chosen = chosen.into_iter().step_by(SAMPLED).collect();
            }
        }
        println!("\n{} of {} mutants over {under}", chosen.len(), all.len());
        for (name, fate, took) in fates(&chosen) {
            let took = took.as_millis();
            let listed = reasons.contains_key(name);
            match &fate {
                Fate::Noticed(by) => println!("{name:<48} noticed by {by}, {took} ms"),
                Fate::Survived(asked) => println!("{name:<48} SURVIVES ({asked}), {took} ms"),
            }
            match fate {
                Fate::Noticed(_) if listed => failures.push(format!(
                    "{name} is noticed: take it out of {file}"
                )),
                Fate::Survived(_) if !listed => failures.push(format!(
                    "{name} is noticed by no case: write one, or say in {file} why there can be none"
                )),
                _ => {}
            }
        }
        println!(
            "{under}: {} mutants run, {} stand in the list of survivors, {} not as they should be",
            chosen.len(),
            reasons.len(),
            failures.len()
        );
        for failure in &failures {
            println!("  {failure}");
        }
        if failures.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }

    /// Runs mutants, some at a time, and says how each ended, in their order.
    fn fates<'a>(names: &[&'a String]) -> Vec<(&'a str, Fate, Duration)> {
        let next = AtomicUsize::new(0);
        let found = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE.min(names.len()) {
                scope.spawn(|| {
                    while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let start = Instant::now();
                        let fate = fate(name)
                            .unwrap_or_else(|error| Fate::Survived(format!("not run: {error}")));
                        if let Ok(mut found) = found.lock() {
                            found.push((name.as_str(), fate, start.elapsed()));
                        }
                    }
                });
            }
        });
        let mut found = found.into_inner().unwrap_or_default();
        found.sort_by_key(|(name, ..)| names.iter().position(|other| other == name));
        found
    }

    fn fate(name: &str) -> std::io::Result<Fate> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(VARIABLE, name)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = child.stdout.take();
        let reader = std::thread::spawn(move || {
            let mut said = Vec::new();
            // What was read before an error counts.
            let _ = output.map(|mut output| output.read_to_end(&mut said));
            String::from_utf8_lossy(&said).into_owned()
        });
        let status = wait(&mut child)?;
        let said = reader.join().unwrap_or_default();
        let by = said
            .lines()
            .find(|line| line.contains(" FAILED "))
            .and_then(|line| line.split_whitespace().find(|word| *word != "test"))
            .map(|number| format!("case {number}"));
        Ok(match (status, by) {
            (Some(true), _) => {
                let asked = said.lines().find_map(|line| line.strip_prefix(ASKED));
                Fate::Survived(match asked {
                    Some("true") => "asked".to_owned(),
                    _ => "never asked in the first process".to_owned(),
                })
            }
            (_, Some(case)) => Fate::Noticed(case),
            (Some(false), None) => Fate::Noticed("its process, which died".to_owned()),
            (None, None) => Fate::Noticed("its process, which hung".to_owned()),
        })
    }

    /// Whether a process ended well; `None` for one that had to be killed.
    fn wait(child: &mut Child) -> std::io::Result<Option<bool>> {
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status.success()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill()?;
        child.wait()?;
        Ok(None)
    }

    /// The mutants that nothing notices over a fabric, with the reasons.
    fn survivors(suite: &Mutants) -> Result<BTreeMap<&'static str, &'static str>, String> {
        let mut found = BTreeMap::new();
        let mut problems = String::new();
        for (number, line) in suite.survivors.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut columns = line.splitn(3, '|').map(str::trim);
            let (Some(name), Some(fabrics), Some(reason)) =
                (columns.next(), columns.next(), columns.next())
            else {
                let _ = writeln!(
                    problems,
                    "{}:{}: expected \"mutant | fabrics | reason\"",
                    suite.file,
                    number + 1
                );
                continue;
            };
            let is_ours = |fabric: &str| fabric == suite.under || fabric == "all";
            if fabrics.split(", ").any(is_ours) {
                found.insert(name, reason);
            }
        }
        if problems.is_empty() {
            Ok(found)
        } else {
            Err(problems)
        }
    }
}
