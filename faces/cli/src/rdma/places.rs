//! Where libraries and files of the launcher lie.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Names another folder of libraries.
const LIBRARIES_VARIABLE: &str = "VIADUCT_RDMA_LIBRARIES";

/// What every program below the launcher loads, in the order of loading.
pub(super) const PRELOADED: [&str; 3] = [
    "libviaduct-rdma-paths.so",
    "libibverbs.so.1",
    "librdmacm.so.1",
];

/// What programs on simulated hosts load, too.
pub(super) const SIMULATED_TIME: &str = "libviaduct-time.so";

/// The folder of the libraries: beside the command in a folder of built files, or where `make
/// install` puts them.
pub(super) fn libraries() -> Result<PathBuf, Failure> {
    if let Some(folder) = std::env::var_os(LIBRARIES_VARIABLE) {
        let folder = PathBuf::from(folder);
        return complete(&folder).ok_or_else(|| {
            Failure::new(
                format!(
                    "{LIBRARIES_VARIABLE}: no libibverbs.so.1 in {}",
                    folder.display()
                ),
                "name a folder that packaging/link-verbs.sh has filled",
            )
        });
    }
    let itself = std::env::current_exe()
        .and_then(fs::canonicalize)
        .map_err(|error| {
            Failure::plain(format!(
                "the system does not say where this program is: {error}"
            ))
        })?;
    let beside = itself.parent().unwrap_or(Path::new("/"));
    let candidates = [beside.join("rdma"), beside.join("../lib/viaduct/rdma")];
    candidates
        .iter()
        .find_map(|folder| complete(folder))
        .ok_or_else(|| {
            Failure::new(
                format!(
                    "the libraries for RDMA programs are neither in {} nor in {}",
                    candidates[0].display(),
                    candidates[1].display()
                ),
                "`make install` installs them, `make rdma` makes them in a folder of built files; \
             VIADUCT_RDMA_LIBRARIES names another folder",
            )
        })
}

fn complete(folder: &Path) -> Option<PathBuf> {
    let folder = fs::canonicalize(folder).ok()?;
    folder.join("libibverbs.so.1").is_file().then_some(folder)
}

/// This user's number.
fn user() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |found| found.uid())
}

/// This user's own folder for what lives as long as a session.
pub(super) fn session() -> Result<PathBuf, Failure> {
    let folder = match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("viaduct"),
        None => std::env::temp_dir().join(format!("viaduct-rdma-{}", user())),
    };
    private(&folder)?;
    Ok(folder)
}

/// Where this process's number means something: containers that share a folder have processes of
/// the same numbers, and do not see each other's.
pub(super) fn process_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// Makes a folder that nobody else may enter, if it is not there; one of somebody else is refused.
pub(super) fn private(folder: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| {
        Failure::new(
            format!("cannot make the folder {}: {error}", folder.display()),
            "set XDG_RUNTIME_DIR to a folder of yours that may be written to",
        )
    })?;
    let found = fs::symlink_metadata(folder)
        .map_err(|error| Failure::plain(format!("cannot look at {}: {error}", folder.display())))?;
    if !found.is_dir() || found.uid() != user() {
        return Err(Failure::new(
            format!("{} is not a folder of this user", folder.display()),
            "set XDG_RUNTIME_DIR to a folder of yours, or have this one removed",
        ));
    }
    Ok(())
}
