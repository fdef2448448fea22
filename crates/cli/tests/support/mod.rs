//! What the tests of the command share: a folder of a test's own, and the command run in it.

#![allow(
    dead_code,
    reason = "each test program takes what it needs of this module"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// An empty folder of a test's own, which goes with the test. Its name is not the test's to choose,
/// so that two tests cannot share one.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    /// With one file in it.
    pub(crate) fn with(file: &str, content: &str) -> Self {
        let folder = Self::new();
        fs::write(folder.join(file), content).unwrap();
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.join(file)).unwrap()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_viaduct"));
        command
            .args(arguments)
            .current_dir(self.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs what must succeed and gives its one object.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs what must succeed without a word on stderr, and gives what it says.
    pub(crate) fn said(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(text(&output.stderr), "");
        assert_eq!(output.status.code(), Some(0));
        text(&output.stdout)
    }

    /// Runs what must fail and gives what it says on stderr; stdout must be empty.
    pub(crate) fn failure(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "");
        text(&output.stderr)
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
