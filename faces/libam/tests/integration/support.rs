//! libam for the tests of this crate.

use viaduct_c_programs::Library;

pub(crate) static AM: Library = Library::new(
    "am",
    env!("CARGO_MANIFEST_DIR"),
    env!("CARGO_TARGET_TMPDIR"),
);
