//! What cargo says of the workspace and of what it builds.
//!
//! These are the few fields that are asked for here. The library for all of them would give serde,
//! `serde_json` and four more crates other features in the tests' build than a package by itself
//! gives them, and what uses those would be built twice.

use std::error::Error;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// The packages of the workspace, and all that these use.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    workspace_members: Vec<String>,
    pub(crate) workspace_root: PathBuf,
    pub(crate) target_directory: PathBuf,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) license: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    kind: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    kind: Vec<String>,
}

/// A file that cargo has built, or found built.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Artifact {
    package_id: String,
    pub(crate) target: Target,
    profile: Profile,
    pub(crate) executable: Option<PathBuf>,
}

#[derive(Clone, Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// One line of `--message-format=json`.
#[derive(Debug, Deserialize)]
struct Message {
    reason: String,
}

impl Metadata {
    /// Asks cargo.
    pub(crate) fn read() -> Result<Self, Box<dyn Error>> {
        let output = cargo()
            .args(["metadata", "--format-version", "1"])
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The packages of ours.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        let is_member = |package: &&Package| self.workspace_members.contains(&package.id);
        self.packages.iter().filter(is_member)
    }

    /// The package that an artifact is of.
    pub(crate) fn package_of(&self, artifact: &Artifact) -> Option<&Package> {
        let is_it = |package: &&Package| package.id == artifact.package_id;
        self.packages.iter().find(is_it)
    }

    /// Cargo, called for this workspace.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = cargo();
        cargo.current_dir(&self.workspace_root);
        cargo
    }
}

impl Package {
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }
}

impl Dependency {
    pub(crate) fn is_for_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

impl Target {
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind.iter().any(|each| each == kind)
    }
}

impl Artifact {
    /// Those that `printed`, which cargo wrote with `--message-format=json-render-diagnostics`,
    /// tells of.
    pub(crate) fn read_all(
        printed: impl BufRead,
    ) -> impl Iterator<Item = Result<Self, Box<dyn Error>>> {
        printed.lines().filter_map(|line| {
            let read = |line: &str| match serde_json::from_str::<Message>(line)?.reason.as_str() {
                "compiler-artifact" => Ok(Some(serde_json::from_str(line)?)),
                _ => Ok(None),
            };
            match line {
                Ok(line) => read(&line).transpose(),
                Err(error) => Some(Err(error.into())),
            }
        })
    }

    pub(crate) fn is_test(&self) -> bool {
        self.profile.test
    }
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_tells_of_this_package() {
        let metadata = Metadata::read().unwrap();
        let package = metadata
            .members()
            .find(|it| it.name == env!("CARGO_PKG_NAME"));
        let package = package.unwrap();
        assert_eq!(package.folder(), Path::new(env!("CARGO_MANIFEST_DIR")));
        assert_eq!(package.version, env!("CARGO_PKG_VERSION"));
        let of = |name: &str| {
            package
                .dependencies
                .iter()
                .find(|it| it.name == name)
                .unwrap()
        };
        assert!(!of("serde_json").is_for_tests());
        assert!(of("viaduct-scenario").is_for_tests());
        assert!(package.targets.iter().any(|target| target.is("bin")));
        // A package from a registry is none of ours.
        assert!(!metadata.members().any(|it| it.name == "serde_json"));
        assert!(metadata.packages.iter().any(|it| it.name == "serde_json"));
    }

    #[test]
    fn lines_that_tell_of_no_file_are_passed_over() {
        let printed = "\
{\"reason\":\"build-script-executed\",\"package_id\":\"a\"}
{\"reason\":\"compiler-artifact\",\"package_id\":\"a\",\"target\":{\"name\":\"b\",\"kind\":[\"test\"]},\
\"profile\":{\"test\":true},\"executable\":\"/b\"}
{\"reason\":\"build-finished\",\"success\":true}
";
        let artifacts: Result<Vec<_>, _> = Artifact::read_all(printed.as_bytes()).collect();
        let artifacts = artifacts.unwrap();
        assert_eq!(artifacts.len(), 1);
        assert!(artifacts[0].is_test() && artifacts[0].target.name == "b");
        assert!(Artifact::read_all("{".as_bytes()).any(|each| each.is_err()));
    }
}
