//! Which packages have more than one test program, and why.
//!
//! Each test program is compiled, optimised and linked with all that it calls, so a package's tests
//! from outside are modules of one: `tests/integration/main.rs`.

use std::collections::BTreeSet;

use crate::Finding;
use crate::metadata::{Metadata, Package};

/// A test program beside its package's own one.
struct Apart {
    package: &'static str,
    test: &'static str,
    reason: &'static str,
}

const fn apart(package: &'static str, test: &'static str, reason: &'static str) -> Apart {
    Apart {
        package,
        test,
        reason,
    }
}

const SUITE: &str = "the suite has a `main` of its own, and starts itself again as the other side";
const OTHER_SIDE: &str = "it has a `main` of its own, and starts itself again as the other side";
const ALLOCATIONS: &str = "the allocator that counts is the process's";
const MODEL: &str = "it compiles files of the library over the atomics of a model";

/// A new test program is a row here, with its reason.
const APART: &[Apart] = &[
    apart("viaduct-engine", "allocation", ALLOCATIONS),
    apart("viaduct-lanai", "allocation", ALLOCATIONS),
    apart("viaduct-programs", "conformance", SUITE),
    apart("viaduct-programs", "verbs", SUITE),
    apart("viaduct-shm", "conformance", SUITE),
    apart("viaduct-shm", "protected", SUITE),
    apart("viaduct-shm", "loom", MODEL),
    apart("viaduct-shm", "shuttle", MODEL),
    apart("viaduct-rdma", "conformance", SUITE),
    apart("viaduct-rdma", "faults", OTHER_SIDE),
    apart("viaduct-rdma", "kills", OTHER_SIDE),
    apart(
        "viaduct-rdma",
        "fork",
        "only a process of one thread may fork",
    ),
    apart("viaduct-turns", "turns", OTHER_SIDE),
    apart("viaduct-vipl", "conformance", SUITE),
    apart("viaduct-vipl", "tag_zero", "the switch is the process's"),
    apart(
        "viaduct-scenario",
        "matrix",
        "`make matrix` runs it alone, in full",
    ),
    apart(
        "viaduct-cli",
        "record",
        "`make record` runs it alone, in full",
    ),
    apart(
        "viaduct-cli",
        "random",
        "`make random` runs it alone, with many more studies",
    ),
];

pub(crate) fn check(metadata: &Metadata) -> Vec<Finding> {
    let mut tests = metadata.members().flat_map(tests_of).collect();
    check_tests(&mut tests)
}

fn tests_of(package: &Package) -> impl Iterator<Item = (&str, &str)> {
    let tests = package.targets.iter().filter(|target| target.is("test"));
    tests.map(|target| (package.name.as_str(), target.name.as_str()))
}

/// Takes pairs of a package and a test program.
fn check_tests(tests: &mut BTreeSet<(&str, &str)>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for row in APART {
        if !tests.remove(&(row.package, row.test)) {
            let text = format!(
                "has no test `{}`, which APART keeps apart: {}",
                row.test, row.reason
            );
            findings.push(Finding::new(row.package, text));
        }
    }
    let mut last = None;
    for &(package, test) in &*tests {
        if last == Some(package) {
            let text = format!(
                "`{test}` is one more test program: make it a module of tests/integration/main.rs, \
                 or give it a row with its reason in APART"
            );
            findings.push(Finding::new(package, text));
        }
        last = Some(package);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed() -> BTreeSet<(&'static str, &'static str)> {
        APART.iter().map(|row| (row.package, row.test)).collect()
    }

    #[test]
    fn a_package_has_one_test_program_beside_those_apart() {
        let mut tests = listed();
        tests.insert(("viaduct-shm", "integration"));
        assert_eq!(check_tests(&mut tests), []);
        let mut tests = listed();
        tests.extend([("viaduct-shm", "integration"), ("viaduct-shm", "loopback")]);
        let findings = check_tests(&mut tests);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].text.starts_with("`loopback`"), "{findings:?}");
    }

    #[test]
    fn a_row_without_its_test_is_found() {
        let mut tests = listed();
        tests.remove(&("viaduct-cli", "record"));
        let findings = check_tests(&mut tests);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].place, "viaduct-cli");
    }
}
