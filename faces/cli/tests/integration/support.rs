//! What the tests of the command share: a folder of a test's own, and the command run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) mod chromium;

/// A small cluster under load: a run takes some milliseconds, and has some thousand messages over
/// two kinds of links.
pub(crate) const SMALL: &str = r#"
[run]
until = "20 ms"
warmup = "2 ms"

[network]
topology = "torus"
dimensions = [4, 4]
hosts_per_switch = 2

[links]
model = "fluid"
rate = "856 Mbit/s"

[traffic]
pattern = "uniform"
rate = "2000/s"
size = "1 KiB"
"#;

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

    /// With [`SMALL`] in it, as `small.toml`.
    pub(crate) fn small() -> Self {
        Self::with("small.toml", SMALL)
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

    /// Runs what must end with a code, whatever it says.
    pub(crate) fn ended(&self, code: i32, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        output
    }

    /// Runs what must succeed, whatever it says on stderr, and gives what it says.
    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        text(&self.ended(0, arguments).stdout)
    }

    /// Runs what must succeed and gives its one object.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.ended(0, arguments);
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
        let output = self.ended(code, arguments);
        assert_eq!(text(&output.stdout), "");
        text(&output.stderr)
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
