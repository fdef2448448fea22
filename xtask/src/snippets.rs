//! Runs the commands that the docs show.
//!
//! A fenced block tagged `console` shows commands after `$ `. Those that start with `viaduct` or
//! `make study` are run in an empty directory, one a page, so that a later command finds what an
//! earlier one left. A command must end with exit code 0, or with N where a comment on its line
//! says `# exit N`. A comment `# not run: reason` keeps one that takes minutes from being run. A
//! fenced block tagged `toml file=NAME` is written to that file first.

use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use cargo_metadata::Metadata;

use crate::{Finding, Findings, ScratchDirectory, build_viaduct};

/// What a page asks for, in its order.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Step {
    /// Write a file.
    Write { name: String, text: String },
    /// Run a command of ours.
    Run {
        line: usize,
        command: String,
        exit_code: i32,
    },
    /// A word of the Makefile, which must exist.
    Word { line: usize, word: String },
}

/// Runs every page's commands with the release build.
pub(crate) fn run_all(metadata: &Metadata) -> Findings {
    let root = metadata.workspace_root.as_std_path();
    let viaduct = build_viaduct(metadata, true)?;
    let binaries = viaduct.parent().ok_or("the build has no directory")?;
    let makefile = std::fs::read_to_string(root.join("Makefile"))?;
    let mut findings = Vec::new();
    let mut commands = 0;
    for page in pages(root)? {
        let text = std::fs::read_to_string(root.join(&page))?;
        let scratch = ScratchDirectory::new(&format!("docs-{}", page.replace('/', "-")))?;
        for step in steps(&text) {
            match step {
                Step::Write { name, text } => std::fs::write(scratch.path().join(name), text)?,
                Step::Word { line, word } => {
                    if !makefile
                        .lines()
                        .any(|each| each.starts_with(&format!("{word}:")))
                    {
                        let text = format!("`make {word}` is not a word of the Makefile");
                        findings.push(Finding::new(format!("{page}:{line}"), text));
                    }
                }
                Step::Run {
                    line,
                    command,
                    exit_code,
                } => {
                    commands += 1;
                    if let Err(text) = run_one(&command, exit_code, scratch.path(), binaries)? {
                        findings.push(Finding::new(format!("{page}:{line}"), text));
                    }
                }
            }
        }
    }
    findings.extend(check_listings(root, &viaduct)?);
    println!("docs: {commands} commands run");
    Ok(findings)
}

fn pages(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut pages = Vec::new();
    if root.join("README.md").is_file() {
        pages.push("README.md".to_owned());
    }
    for entry in std::fs::read_dir(root.join("docs"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            pages.push(format!("docs/{name}"));
        }
    }
    pages.sort();
    Ok(pages)
}

/// Reads a page; lines are numbered from 1.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        let Some(tag) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<(usize, &str)> = lines
            .by_ref()
            .take_while(|(_, line)| !line.starts_with("```"))
            .map(|(number, line)| (number + 1, line))
            .collect();
        if tag.trim() == "console" {
            steps.extend(
                block
                    .into_iter()
                    .filter_map(|(number, line)| command(number, line)),
            );
        } else if let Some(name) = tag.strip_prefix("toml file=") {
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

fn command(line: usize, text: &str) -> Option<Step> {
    let shown = text.strip_prefix("$ ")?;
    let (command, comment) = shown.split_once(" #").unwrap_or((shown, ""));
    let command = command.trim();
    let comment = comment.trim();
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
    let is_ours = |name: &str| command == name || command.starts_with(&format!("{name} "));
    if is_ours("viaduct") {
        return Some(Step::Run {
            line,
            command: command.to_owned(),
            exit_code,
        });
    }
    if is_ours("make study") {
        // What the Makefile does once the command is built; `the_makefile_runs_the_study` says so.
        let command = "viaduct run torus-1024".to_owned();
        return Some(Step::Run {
            line,
            command,
            exit_code,
        });
    }
    let word = command
        .strip_prefix("make ")?
        .split_whitespace()
        .next()?
        .to_owned();
    Some(Step::Word { line, word })
}

/// Answers what was wrong, if anything.
fn run_one(
    command: &str,
    exit_code: i32,
    directory: &Path,
    binaries: &Path,
) -> Result<Result<(), String>, Box<dyn Error>> {
    let mut path = OsString::from(binaries);
    path.push(if cfg!(windows) { ";" } else { ":" });
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(directory)
        .env("PATH", path)
        .output()?;
    if output.status.code() == Some(exit_code) {
        return Ok(Ok(()));
    }
    Ok(Err(format!(
        "`{command}` ended with {}, shown is exit code {exit_code}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    )))
}

/// `viaduct studies` and `viaduct models` list every file that ships.
fn check_listings(root: &Path, viaduct: &Path) -> Findings {
    let mut findings = Vec::new();
    for folder in ["studies", "models"] {
        let output = Command::new(viaduct).arg(folder).output()?;
        let listing = String::from_utf8_lossy(&output.stdout).into_owned();
        for entry in std::fs::read_dir(root.join(folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let Some(stem) = name.strip_suffix(".toml") else {
                continue;
            };
            if !listing.split_whitespace().any(|word| word == stem) {
                let text = format!("`viaduct {folder}` does not list `{stem}`");
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
        let run = |line, command: &str, exit_code| Step::Run {
            line,
            command: command.to_owned(),
            exit_code,
        };
        assert_eq!(
            steps(PAGE),
            [
                run(4, "viaduct run torus-1024", 0),
                run(5, "viaduct run four-hop --set traffic.size=\"64 B\"", 0),
                run(7, "viaduct run wrong.toml", 1),
                Step::Word {
                    line: 9,
                    word: "bench".to_owned()
                },
                Step::Write {
                    name: "wrong.toml".to_owned(),
                    text: "[traffic]\n".to_owned()
                },
            ]
        );
    }

    #[test]
    fn exit_code_must_be_the_shown_one() {
        let here = std::env::temp_dir();
        let run = |command, exit_code| run_one(command, exit_code, &here, &here).unwrap();
        assert_eq!(run("exit 3", 3), Ok(()));
        assert!(
            run("exit 3", 0)
                .unwrap_err()
                .contains("shown is exit code 0")
        );
        assert!(run("true", 1).is_err());
    }

    #[test]
    fn the_makefile_runs_the_study() {
        let makefile = include_str!("../../Makefile");
        assert!(makefile.contains("STUDY ?= torus-1024\n"));
        assert!(makefile.contains("\n\t@$(VIADUCT) run $(STUDY)\n"));
    }
}
