//! What the tests of C interfaces share: compilers, a library as it is installed, programs in two
//! processes. It knows no library; a test fails where something is missing.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A C library of this repository, for a test of the crate that makes it.
#[derive(Debug)]
pub struct Library {
    name: &'static str,
    crate_root: &'static str,
    scratch: &'static str,
    folder: OnceLock<PathBuf>,
}

impl Library {
    /// `name` as in `-lname`; the crate's `CARGO_MANIFEST_DIR` and `CARGO_TARGET_TMPDIR`.
    #[must_use]
    pub const fn new(name: &'static str, crate_root: &'static str, scratch: &'static str) -> Self {
        Self {
            name,
            crate_root,
            scratch,
            folder: OnceLock::new(),
        }
    }

    /// The folder of the crate.
    #[must_use]
    pub fn crate_root(&self) -> &'static Path {
        Path::new(self.crate_root)
    }

    /// The folder of the headers.
    #[must_use]
    pub fn include(&self) -> PathBuf {
        self.crate_root().join("../../include")
    }

    /// The static library, which cargo builds beside each test.
    ///
    /// # Panics
    ///
    /// When it is not there.
    #[must_use]
    pub fn archive(&self) -> PathBuf {
        let test = std::env::current_exe().unwrap();
        let archive = test.with_file_name(format!("lib{}.a", self.name));
        assert!(archive.is_file(), "{} is not there", archive.display());
        archive
    }

    /// A folder that belongs to this test binary.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    #[must_use]
    pub fn scratch(&self) -> PathBuf {
        let test = std::env::current_exe().unwrap();
        let name = test.file_stem().unwrap().to_str().unwrap();
        // Without the number that cargo puts behind it: the next build takes the same folder.
        let name = name.rsplit_once('-').map_or(name, |(name, _)| name);
        let folder = Path::new(self.scratch).join(format!("{}-{name}", self.name));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// A folder with the shared and the static library as they are installed.
    ///
    /// # Panics
    ///
    /// When it cannot be linked.
    pub fn folder(&self) -> &Path {
        self.folder.get_or_init(|| {
            // Says so if there is none.
            let _ = compiler(false);
            let folder = self.scratch().join("lib");
            let is_fresh = || {
                let linked = folder.join(format!("lib{}.so", self.name)).metadata();
                let linked = linked.and_then(|file| file.modified());
                let built = self.archive().metadata().and_then(|file| file.modified());
                linked.is_ok_and(|linked| built.is_ok_and(|built| linked > built))
            };
            if !is_fresh() {
                // Several processes may come here at once: the first to rename has linked for all.
                let own = self.scratch().join(format!("lib-{}", std::process::id()));
                let symbols = self.crate_root().join(format!("{}.map", self.name));
                for script in ["link-shared.sh", "link-static.sh"] {
                    let script = packaging().join(script);
                    run(Command::new(script).args([&self.archive(), &symbols, &own]));
                }
                if !is_fresh() {
                    let _ = std::fs::remove_dir_all(&folder);
                }
                if std::fs::rename(&own, &folder).is_err() {
                    std::fs::remove_dir_all(&own).unwrap();
                }
            }
            folder
        })
    }

    /// Installs this library alone, as `make install` does, and returns the prefix.
    ///
    /// # Panics
    ///
    /// When it cannot be installed.
    #[must_use]
    pub fn installed(&self) -> PathBuf {
        let prefix = self.scratch().join("prefix");
        let archive = self.archive();
        let mut install = Command::new(packaging().join("install.sh"));
        install.arg(archive.parent().unwrap()).arg(&prefix);
        run(install.arg(self.name));
        prefix
    }

    /// Removes what [`Self::installed`] installed.
    ///
    /// # Panics
    ///
    /// When a file or folder is left.
    pub fn uninstall(&self, prefix: &Path) {
        run(Command::new(packaging().join("uninstall.sh")).arg(prefix));
        let left: Vec<_> = std::fs::read_dir(prefix).unwrap().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// Compiles C sources with the flags that the installed pkg-config file says, those for
    /// `-static` for `is_static`.
    ///
    /// # Panics
    ///
    /// When it cannot be built.
    #[must_use]
    pub fn program_of_installed(
        &self,
        prefix: &Path,
        sources: &[PathBuf],
        is_static: bool,
    ) -> PathBuf {
        let file = prefix.join(format!("lib/pkgconfig/{}.pc", self.name));
        let text = std::fs::read_to_string(file).unwrap();
        let said = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.unwrap_or_else(|| panic!("no `{key}` in {text}"))
        };
        let prefix = said("prefix=");
        let flags = |key: &str| -> Vec<String> {
            let flags = said(key).replace("${includedir}", &format!("{prefix}/include"));
            let flags = flags.replace("${libdir}", &format!("{prefix}/lib"));
            flags.split_whitespace().map(str::to_owned).collect()
        };
        let mut command = Command::new(compiler(false));
        command.args(flags("Cflags:")).args(sources);
        if is_static {
            command.arg("-static");
        }
        command.args(flags("Libs:"));
        if is_static {
            command.args(flags("Libs.private:"));
        }
        let kind = if is_static { "static" } else { "shared" };
        let program = self.scratch().join(format!("installed-{kind}"));
        run(command.arg("-o").arg(&program));
        program
    }

    /// Compiles C sources, by a C standard, into a program that is linked with the shared library,
    /// or with the static one.
    ///
    /// # Panics
    ///
    /// When it cannot be built.
    #[must_use]
    pub fn program(
        &self,
        name: &str,
        standard: &str,
        sources: &[PathBuf],
        linked_statically: bool,
    ) -> PathBuf {
        let program = self.scratch().join(name);
        let mut command = Command::new(compiler(false));
        command.arg(format!("-std={standard}"));
        command.args(["-O1", "-Wall", "-Wextra", "-Werror"]);
        command.arg("-I").arg(self.include()).args(sources);
        if linked_statically {
            command.arg(self.folder().join(format!("lib{}.a", self.name)));
            command.args(["-lpthread", "-ldl", "-lm"]);
        } else {
            command
                .arg("-L")
                .arg(self.folder())
                .arg(format!("-l{}", self.name))
                .arg("-lpthread");
        }
        // Tests that want the same program may build it at the same time, and run it.
        let own = format!("{name}.{:?}", std::thread::current().id());
        let own = self.scratch().join(own.replace(['(', ')'], ""));
        run(command.arg("-o").arg(&own));
        std::fs::rename(&own, &program).unwrap();
        program
    }

    /// What `tests/c/abi.c` of the crate prints of its header, by a standard of C, or of C++ for
    /// `cxx`; without a warning.
    ///
    /// # Panics
    ///
    /// When it cannot be built.
    #[must_use]
    pub fn printed_abi(&self, cxx: bool, standard: &str) -> String {
        let program = self.scratch().join(format!("abi-{standard}"));
        let mut command = Command::new(compiler(cxx));
        command.arg(format!("-std={standard}"));
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic-errors"]);
        if cxx {
            command.args(["-x", "c++", "-Wno-invalid-offsetof"]);
        }
        command.arg("-I").arg(self.include());
        command.arg(self.crate_root().join("tests/c/abi.c"));
        run(command.arg("-o").arg(&program));
        run(&mut Command::new(program))
    }

    /// Runs a program as two processes, and returns what each printed.
    ///
    /// One that does not end is killed: a hang is a failure with a name.
    ///
    /// # Panics
    ///
    /// When one fails or does not end.
    pub fn run_pair(
        &self,
        program: &Path,
        sides: [&str; 2],
        port: &str,
        environment: &[(&str, &str)],
    ) -> [String; 2] {
        let start = |side: &str| -> Child {
            Command::new(program)
                .args([side, port])
                .env("LD_LIBRARY_PATH", self.folder())
                .envs(environment.iter().copied())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let mut children = sides.map(start);
        // A thread each reads what they print: a full pipe would stop them.
        let printed = children.each_mut().map(|child| {
            let (output, errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
            (reader(output), reader(errors))
        });
        let mut deadline = Instant::now() + Duration::from_secs(120);
        let mut hung = false;
        loop {
            let ended = children.each_mut().map(|child| child.try_wait().unwrap());
            if ended.iter().all(Option::is_some) {
                break;
            }
            if ended.iter().flatten().any(|status| !status.success()) {
                // The other one may wait for it without end.
                deadline = deadline.min(Instant::now() + Duration::from_secs(5));
            }
            if Instant::now() > deadline {
                hung = true;
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut outputs = Vec::new();
        for (child, (output, errors)) in children.iter_mut().zip(printed) {
            // It has ended, or will not.
            let _ = child.kill();
            outputs.push(Output {
                status: child.wait().unwrap(),
                stdout: output.join().unwrap(),
                stderr: errors.join().unwrap(),
            });
        }
        let outputs: [Output; 2] = outputs.try_into().unwrap();
        let texts = outputs.each_ref().map(|output| {
            format!(
                "{}: {}{}",
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            )
        });
        assert!(
            !hung && outputs.iter().all(|output| output.status.success()),
            "{} as {} and {}{}:\n{}\n{}",
            program.display(),
            sides[0],
            sides[1],
            if hung { " did not end" } else { "" },
            texts[0],
            texts[1]
        );
        outputs.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The numbers of [`Library::printed_abi`], or of the file that it has to equal: a name and a
/// number a line, the latter decimal or `0x`.
///
/// # Panics
///
/// When a line has another form.
#[must_use]
pub fn abi_numbers(printed: &str) -> BTreeMap<&str, u64> {
    let read = |line| {
        let (name, value) = str::rsplit_once(line, ' ')?;
        let number = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        };
        Some((name, number?))
    };
    let lines = printed.lines();
    lines
        .map(|line| read(line).unwrap_or_else(|| panic!("`{line}` is no name and number")))
        .collect()
}

/// A C compiler, or a C++ compiler for `cxx`: it must be there.
///
/// # Panics
///
/// When it is not.
#[must_use]
pub fn compiler(cxx: bool) -> String {
    let (variable, default, package) = if cxx {
        ("CXX", "c++", "g++")
    } else {
        ("CC", "cc", "gcc")
    };
    let name = std::env::var(variable).unwrap_or_else(|_| default.to_owned());
    let found = Command::new(&name).arg("--version").output();
    assert!(
        found.is_ok_and(|output| output.status.success()),
        "no compiler `{name}`: install {package} (Debian: apt install build-essential), or name \
         one in {variable}"
    );
    name
}

/// Runs a command to its end and returns what it printed.
///
/// # Panics
///
/// When it fails.
pub fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    succeeded(&format!("{command:?}"), &output)
}

fn succeeded(what: &str, output: &Output) -> String {
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{what}: {}\n{printed}{errors}",
        output.status
    );
    printed
}

/// Whether this system has the C library to be linked into a program.
#[must_use]
pub fn has_static_libc() -> bool {
    let found = run(Command::new(compiler(false)).arg("-print-file-name=libc.a"));
    Path::new(found.trim()).is_absolute()
}

/// The folder of the scripts that install.
fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// A name that no other test uses as its port.
#[must_use]
pub fn port(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

fn reader(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        from.read_to_end(&mut all).unwrap();
        all
    })
}
