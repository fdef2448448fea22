//! Runs the commands that the docs show.
//!
//! A fenced block tagged `console` shows commands after `$ `. Those of the programs in [`RUN`], and
//! `make study` and `make install`, are run in a directory with copies of `examples/c` and
//! `studies/virtual-networks`, one directory per page, so that a later command finds what an
//! earlier one left. `cargo run --example NAME` runs the example that the tests' build has made. A
//! command must end with exit code 0, or with N where a comment on its line says `# exit N`. A
//! comment `# not run: reason` keeps one that takes minutes from being run. A fenced block tagged
//! `toml file=NAME`, or `text file=NAME`, is written to that file first.
//!
//! Blocks tagged `console shell 1` and `console shell 2`, one behind the other, hold a command each
//! that are run at the same time. Where a block shows output, the command must print just that; of
//! one that fails, what it says on stderr. `...` stands for what differs between two runs.

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::metadata::{Metadata, Target};
use crate::shells::{Example, Shell, Shells};
use crate::side_by_side::{Ended, side_by_side, workers};
use crate::{Finding, Findings, ScratchDirectory, build, build_viaduct, cargo, mentions};

/// Programs whose commands are run.
const RUN: &[&str] = &[
    "viaduct",
    "cc",
    "cargo run",
    "./pingpong",
    "./am_pingpong",
    "examples/rdma-in-ci/check.sh",
];

/// What a page asks for, in its order.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Step {
    /// Write a file.
    Write { name: String, text: String },
    /// Run a command of ours.
    Run { shell: Shell, exit_code: i32 },
    /// Run commands at the same time.
    Together(Vec<Shell>),
    /// A word of the Makefile, which must exist.
    Word { line: usize, word: String },
}

/// Runs every page's commands with the release build, or those of the pages that are named: as many
/// pages at once as there are processors.
pub(crate) fn run_all(metadata: &Metadata, named: &[String]) -> Findings {
    let root = metadata.workspace_root.as_path();
    let viaduct = build_viaduct(metadata)?;
    build(metadata, "viaduct-vipl")?;
    build(metadata, "viaduct-libam")?;
    for package in [
        "viaduct-ibverbs",
        "viaduct-rdmacm",
        "viaduct-rdma-paths",
        "viaduct-simulated-time",
    ] {
        build(metadata, package)?;
    }
    let binaries = viaduct.parent().ok_or("the build has no directory")?;
    let makefile = std::fs::read_to_string(root.join("Makefile"))?;
    let mut pages = pages(root)?;
    if let Some(unknown) = named.iter().find(|page| !pages.contains(page)) {
        return Err(format!("{unknown} is neither README.md nor a page below docs/").into());
    }
    pages.retain(|page| named.is_empty() || named.contains(page));
    let pages: Vec<Page> = pages
        .into_iter()
        .map(|path| Page::read(root, path))
        .collect::<io::Result<_>>()?;
    build_examples(metadata, &pages)?;
    let examples = metadata.target_directory.join("debug/examples");
    let begin = Instant::now();
    let meeting = Mutex::new(());
    let paths = pages.iter().map(|page| page.path.as_str());
    let mentioned = mentions::check(root, &viaduct, paths)?;
    let mut findings = side_by_side(pages, workers(), |page| {
        let scratch = ScratchDirectory::new(&format!("docs-{}", page.path.replace('/', "-")))?;
        let shells = Shells::new(root, scratch.path(), binaries, &examples)?;
        run_page(page, &shells, scratch.path(), &makefile, &meeting)
    })?;
    findings.extend(mentioned);
    findings.extend(check_listings(root, &viaduct)?);
    println!("docs: {:.1} s", begin.elapsed().as_secs_f64());
    Ok(findings)
}

/// A page, and what it asks for.
struct Page {
    path: String,
    steps: Vec<Step>,
}

impl Page {
    fn read(root: &Path, path: String) -> io::Result<Self> {
        let steps = steps(&std::fs::read_to_string(root.join(&path))?);
        Ok(Self { path, steps })
    }

    /// The commands that it has run.
    fn shells(&self) -> impl Iterator<Item = &Shell> {
        self.steps.iter().flat_map(|step| match step {
            Step::Run { shell, .. } => std::slice::from_ref(shell),
            Step::Together(shells) => shells,
            Step::Write { .. } | Step::Word { .. } => &[],
        })
    }
}

/// Builds the examples that pages run as the tests' build does, with the features of all packages.
/// They print what those of a release print, and `cargo run` would take the features of one
/// package: it would build nearly all below it once more.
fn build_examples(metadata: &Metadata, pages: &[Page]) -> Result<(), Box<dyn Error>> {
    let shells = pages.iter().flat_map(Page::shells);
    let examples = shells.filter_map(|shell| Example::of(&shell.command));
    let names: BTreeSet<&str> = examples.map(|example| example.name).collect();
    let mut arguments = vec!["build", "--quiet", "--workspace"];
    for name in &names {
        let targets = metadata.members().flat_map(|package| &package.targets);
        let is_it = |target: &&Target| target.is("example") && target.name == *name;
        let count = targets.filter(is_it).count();
        if count != 1 {
            let text = format!("the docs run the example `{name}`, and {count} packages have it");
            return Err(text.into());
        }
        arguments.extend(["--example", name]);
    }
    if names.is_empty() {
        return Ok(());
    }
    cargo(metadata, &arguments)
}

/// Runs the commands of one page, in a directory of its own. Commands that run at the same time
/// meet under names that other pages use too: only one page does so at a time.
fn run_page(
    page: &Page,
    shells: &Shells,
    directory: &Path,
    makefile: &str,
    meeting: &Mutex<()>,
) -> io::Result<Ended> {
    let begin = Instant::now();
    let mut commands = 0;
    let mut wrong: Vec<(usize, String)> = Vec::new();
    for step in &page.steps {
        match step {
            Step::Write { name, text } => std::fs::write(directory.join(name), text)?,
            Step::Word { line, word } => {
                let rule = format!("{word}:");
                if !makefile.lines().any(|each| each.starts_with(&rule)) {
                    wrong.push((
                        *line,
                        format!("`make {word}` is not a word of the Makefile"),
                    ));
                }
            }
            Step::Run { shell, exit_code } => {
                commands += 1;
                let outcome = shells.run(shell, *exit_code)?;
                wrong.extend(outcome.err().map(|text| (shell.line, text)));
            }
            Step::Together(together) => {
                commands += together.len();
                // Another page that failed there leaves nothing behind that this one needs.
                let _alone = meeting.lock().unwrap_or_else(PoisonError::into_inner);
                wrong.extend(shells.run_together(together)?);
            }
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let findings = wrong
        .into_iter()
        .map(|(line, text)| Finding::new(format!("{}:{line}", page.path), text));
    Ok(Ended {
        printed: format!("{}: {commands} commands, {seconds:.1} s\n", page.path).into_bytes(),
        findings: findings.collect(),
    })
}

fn pages(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut pages = Vec::new();
    if root.join("README.md").is_file() {
        pages.push("README.md".to_owned());
    }
    pages_below(root, "docs", &mut pages)?;
    pages.sort();
    Ok(pages)
}

fn pages_below(root: &Path, folder: &str, pages: &mut Vec<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            pages_below(root, &path, pages)?;
        } else if path.ends_with(".md") {
            pages.push(path);
        }
    }
    Ok(())
}

/// Reads a page; lines are numbered from 1.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines().enumerate();
    // Whether what a console shows was printed by the last step.
    let mut is_run = false;
    while let Some((_, line)) = lines.next() {
        let Some(tag) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<(usize, &str)> = lines
            .by_ref()
            .take_while(|(_, line)| !line.starts_with("```"))
            .map(|(number, line)| (number + 1, line))
            .collect();
        if let Some(number) = tag.trim().strip_prefix("console shell ") {
            let shells = block.first().map(|&(line, _)| shell(line, &block));
            match steps.last_mut() {
                Some(Step::Together(together)) if number != "1" => together.extend(shells),
                _ => steps.push(Step::Together(shells.into_iter().collect())),
            }
        } else if tag.trim() == "console" {
            for (number, line) in block {
                if line.starts_with("$ ") {
                    is_run = false;
                    if let Some(step) = command(number, line) {
                        is_run = matches!(step, Step::Run { .. });
                        steps.push(step);
                    }
                } else if is_run && let Some(Step::Run { shell, .. }) = steps.last_mut() {
                    let printed = shell.printed.get_or_insert_default();
                    *printed += line;
                    *printed += "\n";
                }
            }
        } else if let Some((_, name)) = tag.split_once(" file=") {
            let text = block
                .into_iter()
                .map(|(_, line)| format!("{line}\n"))
                .collect();
            steps.push(Step::Write {
                name: name.trim().to_owned(),
                text,
            });
        }
    }
    steps
}

/// A command, and what it prints if the block shows it.
fn shell(line: usize, block: &[(usize, &str)]) -> Shell {
    let is_command = |text: &&str| text.starts_with("$ ");
    let texts = || block.iter().map(|(_, text)| *text);
    let command = texts().find(is_command).unwrap_or_default();
    let printed: String = texts()
        .filter(|text| !is_command(text))
        .map(|text| format!("{text}\n"))
        .collect();
    Shell {
        line,
        command: without_comment(command.trim_start_matches("$ "))
            .0
            .to_owned(),
        printed: (!printed.is_empty()).then_some(printed),
    }
}

/// Command and comment of a line.
fn without_comment(shown: &str) -> (&str, &str) {
    let (command, comment) = shown.split_once(" #").unwrap_or((shown, ""));
    (command.trim(), comment.trim())
}

/// The command without the variables that are set for it.
fn without_variables(mut command: &str) -> &str {
    while let Some((word, rest)) = command.split_once(' ')
        && word.contains('=')
    {
        command = rest.trim_start();
    }
    command
}

fn command(line: usize, text: &str) -> Option<Step> {
    let shown = text.strip_prefix("$ ")?;
    let (command, comment) = without_comment(shown);
    if comment.starts_with("not run:") {
        return None;
    }
    let exit_code = comment.strip_prefix("exit ").and_then(|rest| {
        rest.split(|character: char| !character.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    });
    let exit_code = exit_code.unwrap_or(0);
    let run = |command: &str| Step::Run {
        shell: Shell {
            line,
            command: command.to_owned(),
            printed: None,
        },
        exit_code,
    };
    let program = without_variables(command);
    let is_of = |name: &str| program == name || program.starts_with(&format!("{name} "));
    if RUN.iter().any(|name| is_of(name)) {
        return Some(run(command));
    }
    if is_of("make study") {
        // What the Makefile does once the command is built; `the_makefile_runs_the_study` says so.
        return Some(run("viaduct run torus-1024"));
    }
    for (word, script) in SCRIPTS {
        if is_of(&format!("make {word}")) {
            // The files are built already.
            let prefix = command
                .split_once("PREFIX=")
                .map_or("$HOME/.local", |(_, to)| to);
            return Some(run(&format!("{script} {prefix}")));
        }
    }
    let word = command
        .strip_prefix("make ")?
        .split_whitespace()
        .next()?
        .to_owned();
    Some(Step::Word { line, word })
}

/// What the Makefile calls for a word of its own, before the prefix.
const SCRIPTS: &[(&str, &str)] = &[
    ("install", "\"$SOURCE/packaging/install.sh\" \"$BINARIES\""),
    ("uninstall", "\"$SOURCE/packaging/uninstall.sh\""),
];

/// `viaduct studies` and `viaduct models` list every file that ships.
fn check_listings(root: &Path, viaduct: &Path) -> Findings {
    let mut findings = Vec::new();
    for (folder, command) in [
        ("studies", "studies"),
        ("models", "models"),
        ("models/networks", "models"),
    ] {
        let output = Command::new(viaduct).arg(command).output()?;
        let listing = String::from_utf8_lossy(&output.stdout).into_owned();
        for entry in std::fs::read_dir(root.join(folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let Some(stem) = name.strip_suffix(".toml") else {
                continue;
            };
            if !listing.split_whitespace().any(|word| word == stem) {
                let text = format!("`viaduct {command}` does not list `{stem}`");
                findings.push(Finding::new(format!("{folder}/{name}"), text));
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# A page

```console
$ make study     # builds first
$ viaduct run four-hop --set traffic.size=\"64 B\"
four-hop: output, not a command
$ viaduct run wrong.toml   # exit 1: unknown key
$ viaduct run torus-million  # not run: a minute
$ make bench
$ git clone somewhere
$ make install PREFIX=$HOME/there
$ A=1 B=2 cc one.c -o one
```

```console shell 1
$ ./one server
one: done
```

```console shell 2
$ ./one client  # in another shell
```

```toml file=wrong.toml
[traffic]
```

```toml
[not written]
```
";

    #[test]
    fn page_gives_its_steps_in_order() {
        let shell = |line, command: &str, printed: Option<&str>| Shell {
            line,
            command: command.to_owned(),
            printed: printed.map(str::to_owned),
        };
        let run = |line, command: &str, exit_code| Step::Run {
            shell: shell(line, command, None),
            exit_code,
        };
        assert_eq!(
            steps(PAGE),
            [
                run(4, "viaduct run torus-1024", 0),
                Step::Run {
                    shell: shell(
                        5,
                        "viaduct run four-hop --set traffic.size=\"64 B\"",
                        Some("four-hop: output, not a command\n")
                    ),
                    exit_code: 0
                },
                run(7, "viaduct run wrong.toml", 1),
                Step::Word {
                    line: 9,
                    word: "bench".to_owned()
                },
                run(
                    11,
                    "\"$SOURCE/packaging/install.sh\" \"$BINARIES\" $HOME/there",
                    0
                ),
                run(12, "A=1 B=2 cc one.c -o one", 0),
                Step::Together(vec![
                    shell(16, "./one server", Some("one: done\n")),
                    shell(21, "./one client", None),
                ]),
                Step::Write {
                    name: "wrong.toml".to_owned(),
                    text: "[traffic]\n".to_owned()
                },
            ]
        );
    }

    #[test]
    fn the_makefile_runs_the_study() {
        let makefile = include_str!("../../Makefile");
        assert!(makefile.contains("STUDY ?= torus-1024\n"));
        assert!(makefile.contains("\n\t@$(VIADUCT) run $(STUDY)\n"));
    }

    #[test]
    fn the_makefile_installs_by_the_scripts() {
        let makefile = include_str!("../../Makefile");
        for line in [
            "\n\tpackaging/install.sh $(TARGET_DIR)/release $(abspath $(PREFIX))\n",
            "\n\tpackaging/uninstall.sh $(abspath $(PREFIX))\n",
        ] {
            assert!(makefile.contains(line), "{line}");
        }
        assert!(makefile.contains("PREFIX ?= $(HOME)/.local\n"));
    }
}
