//! What is set for a program.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::executable::Executable;
use super::stats::Process;
use super::{AdapterArguments, files, places, stats};
use crate::failure::Failure;

/// Variables of the environment, and where processes below it count.
#[derive(Debug)]
pub(super) struct Environment {
    variables: Vec<(&'static str, OsString)>,
    preloaded: Vec<PathBuf>,
    counters: PathBuf,
}

/// The environment of programs that see these adapters. `owner` is the process below which they
/// run: what they count is kept for as long as it.
pub(super) fn of(adapters: &AdapterArguments, owner: u32) -> Result<Environment, Failure> {
    let libraries = places::libraries()?;
    // The loader takes both as separators, and knows no way to escape them.
    if libraries
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| b" :".contains(byte))
    {
        return Err(Failure::new(
            format!(
                "the loader takes no path with a blank or a colon: {}",
                libraries.display()
            ),
            "install viaduct in another folder, or make a link to this one and name it in \
             VIADUCT_RDMA_LIBRARIES",
        ));
    }
    let preloaded: Vec<_> = places::PRELOADED
        .iter()
        .map(|name| libraries.join(name))
        .filter(|library| library.is_file())
        .collect();
    let counters = stats::new_folder(owner)?;
    // AddressSanitizer wants to be the first library, which the launcher cannot promise below a
    // script.
    let sanitizer = OsStr::new("verify_asan_link_order=0");
    let search = before("LD_LIBRARY_PATH", libraries.as_os_str(), b":");
    let mut variables: Vec<(&'static str, OsString)> = vec![
        ("LD_LIBRARY_PATH", search),
        // For NCCL, which loads the library by its name without a version.
        ("NCCL_IBVERBS_LIB", libraries.join("libibverbs.so.1").into()),
        ("VIADUCT_RDMA_SYS", files::folder(adapters)?.into()),
        ("VIADUCT_RDMA_STATS", counters.clone().into()),
        ("ASAN_OPTIONS", before("ASAN_OPTIONS", sanitizer, b":")),
    ];
    for (name, value) in adapters.variables() {
        variables.push((name, value.into()));
    }
    Ok(Environment {
        variables,
        preloaded,
        counters,
    })
}

/// A list of the environment with a word in front, unless it is there already.
fn before(name: &str, word: &OsStr, separator: &[u8]) -> OsString {
    let mut list = word.as_bytes().to_vec();
    let old = std::env::var_os(name).unwrap_or_default();
    let old = old
        .as_bytes()
        .split(|byte| separator.contains(byte))
        .filter(|other| !other.is_empty() && *other != word.as_bytes());
    for other in old {
        list.push(b':');
        list.extend_from_slice(other);
    }
    OsString::from_vec(list)
}

impl Environment {
    /// Has programs take the time from a simulation.
    pub(super) fn take_simulated_time(&mut self) -> Result<(), Failure> {
        let library = places::libraries()?.join(places::SIMULATED_TIME);
        if !library.is_file() {
            return Err(Failure::new(
                format!("there is no {}", library.display()),
                "`make rdma` makes it, `make install` installs it",
            ));
        }
        self.preloaded.push(library);
        Ok(())
    }

    /// `LD_PRELOAD`, with a library in front of ours where a program wants that.
    fn preload(&self, first: Option<&str>) -> OsString {
        let mut list: Vec<u8> = first
            .map(|name| name.as_bytes().to_vec())
            .unwrap_or_default();
        let ours = self
            .preloaded
            .iter()
            .map(|library| library.as_os_str().as_bytes().to_vec());
        let old = std::env::var_os("LD_PRELOAD").unwrap_or_default();
        let old = old
            .as_bytes()
            .split(|byte| b" :".contains(byte))
            .filter(|other| {
                let path = Path::new(OsStr::from_bytes(other));
                !other.is_empty() && !self.preloaded.iter().any(|library| library == path)
            });
        for other in ours.chain(old.map(<[u8]>::to_vec)) {
            if !list.is_empty() {
                list.push(b':');
            }
            list.extend_from_slice(&other);
        }
        OsString::from_vec(list)
    }

    /// Sets it for a command.
    pub(super) fn apply(&self, command: &mut Command, program: &Executable) {
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("LD_PRELOAD", self.preload(program.sanitizer.as_deref()));
    }

    /// As commands of a shell.
    pub(super) fn as_shell(&self) -> Result<String, Failure> {
        let mut text = String::new();
        let preload = ("LD_PRELOAD", self.preload(None));
        for (name, value) in self.variables.iter().chain([&preload]) {
            let value = value.to_str().ok_or_else(|| {
                Failure::plain(format!("{name} is not text: {}", value.display()))
            })?;
            let quoted = value.replace('\'', "'\\''");
            // Writing to a string does not fail.
            let _ = writeln!(text, "export {name}='{quoted}'");
        }
        Ok(text)
    }

    /// What crossed in processes of this environment.
    pub(super) fn crossed(&self) -> Vec<Process> {
        stats::in_folder(&self.counters)
    }

    /// How many processes of this environment have counters that cannot be read.
    pub(super) fn unreadable(&self) -> usize {
        stats::unreadable(&self.counters)
    }
}
