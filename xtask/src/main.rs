//! Checks that no other tool makes: dependency walls, tidiness, commands in the docs.
//!
//! `cargo xtask tidy` reads the tree and cargo's metadata; it builds nothing. `cargo xtask docs`
//! builds the command and runs it. `cargo xtask test` runs all tests, as many programs at once as
//! there are processors.

mod licence;
mod mentions;
mod metadata;
mod released;
mod shells;
mod side_by_side;
mod snippets;
mod test_programs;
mod test_targets;
mod text;
mod walls;

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use metadata::Metadata;

/// What a check found wrong: where, what, what instead.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Finding {
    place: String,
    text: String,
}

impl Finding {
    fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            text: text.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.text)
    }
}

type Findings = Result<Vec<Finding>, Box<dyn Error>>;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy      dependency walls, licences, and the rules of the tree; builds nothing
  docs      every command shown in README.md and docs/ runs as shown (`docs README.md` runs
            one page), commands, options and keys named there exist, and what that builds for
            release has no rule that a test can break
  test      every test of the workspace, several test programs at once; flags after it are cargo's";

fn main() -> ExitCode {
    let command = std::env::args().nth(1);
    let others: Vec<String> = std::env::args().skip(2).collect();
    let outcome = match command.as_deref() {
        Some("tidy") => tidy(),
        Some("test") => {
            Metadata::read().and_then(|metadata| test_programs::run_all(&metadata, &others))
        }
        Some("docs") => docs(&others),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    match outcome {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                eprintln!("error: {finding}");
            }
            eprintln!("{} found", findings.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn docs(pages: &[String]) -> Findings {
    let metadata = Metadata::read()?;
    let mut findings = snippets::run_all(&metadata, pages)?;
    // It has just built what is released.
    findings.extend(released::check(&metadata)?);
    Ok(findings)
}

fn tidy() -> Findings {
    let metadata = Metadata::read()?;
    let files = text::read_tree(&metadata.workspace_root)?;
    let mut findings = walls::check(
        &metadata,
        text::find(&files, "docs/dependencies.md"),
        text::find(&files, walls::MAP),
    );
    findings.extend(test_targets::check(&metadata));
    findings.extend(text::check(&files));
    println!(
        "tidy: {} files, {} packages",
        files.len(),
        metadata.packages.len()
    );
    Ok(findings)
}

/// Builds the command with optimisation and answers where it is.
fn build_viaduct(metadata: &Metadata) -> Result<PathBuf, Box<dyn Error>> {
    build(metadata, "viaduct-cli")?;
    let name = format!("release/viaduct{}", std::env::consts::EXE_SUFFIX);
    Ok(metadata.target_directory.join(name))
}

/// Builds one package of ours with optimisation.
fn build(metadata: &Metadata, package: &str) -> Result<(), Box<dyn Error>> {
    cargo(
        metadata,
        &["build", "--quiet", "--release", "--package", package],
    )
}

fn cargo(metadata: &Metadata, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    if !metadata.cargo().args(arguments).status()?.success() {
        return Err(format!("cargo {} fails", arguments.join(" ")).into());
    }
    Ok(())
}

/// A directory for one use, removed when dropped.
#[derive(Debug)]
struct ScratchDirectory {
    path: PathBuf,
}

impl ScratchDirectory {
    fn new(name: &str) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("viaduct-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self { path })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // Nothing depends on its being gone.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
