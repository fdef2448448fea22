//! What is released holds no rule that a test can break.
//!
//! Builds with debug assertions can break the rules of the core one by one, so that tests can show
//! that they would notice; what is released must not know how.

use std::path::Path;

use crate::metadata::Metadata;
use crate::{Finding, Findings};

/// In every program with a rule that can be broken: the name of a place inside one.
const BREAKABLE: &[u8] = b"::send_is_well_formed::here";

/// What a release has of it, and what of the same files tests have. Builds nothing; a file that was
/// not built is not looked at.
pub(crate) fn check(metadata: &Metadata) -> Findings {
    let mut findings = Vec::new();
    for (profile, breaks) in [("release", false), ("debug", true)] {
        for name in ["viaduct", "libvipl.a"] {
            let path = metadata.target_directory.join(profile);
            let path = path.join(name);
            if !path.exists() {
                continue;
            }
            if has_breakable(&path)? != breaks {
                let text = if breaks {
                    "has no rule that a test can break: what this check looks for is gone"
                } else {
                    "has rules that a test can break: it was built with debug assertions"
                };
                findings.push(Finding::new(path.display().to_string(), text));
            }
        }
    }
    Ok(findings)
}

fn has_breakable(path: &Path) -> std::io::Result<bool> {
    let bytes = std::fs::read(path)?;
    Ok(bytes.windows(BREAKABLE.len()).any(|at| at == BREAKABLE))
}
