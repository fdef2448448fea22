//! Dependency walls: which crate may know which, and which library has which home.

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;
use crate::licence;
use crate::metadata::Metadata;

/// What one package of ours may lean on, and why no more.
struct Wall {
    package: &'static str,
    own: &'static [&'static str],
    /// Libraries it may use; none: any that `docs/dependencies.md` lists.
    external: Option<&'static [&'static str]>,
    reason: &'static str,
}

/// A new arrow is a change to this table, with its reason. Tests may use more: see [`UNUSED`].
const WALLS: &[Wall] = &[
    Wall {
        package: "viaduct-core",
        own: &[],
        external: Some(&[]),
        reason: "the semantics run on any fabric: no I/O, clock, thread or randomness",
    },
    Wall {
        package: "viaduct-engine",
        own: &[],
        external: Some(&["rand_core", "rand_xoshiro"]),
        reason: "the engine knows nothing of networks",
    },
    Wall {
        package: "viaduct-topology",
        own: &[],
        external: None,
        reason: "graphs and routes are the same for every model and engine",
    },
    Wall {
        package: "viaduct-statistics",
        own: &[],
        external: None,
        reason: "estimates are the same whatever is measured",
    },
    Wall {
        package: "viaduct-network",
        own: &["viaduct-engine", "viaduct-topology"],
        external: Some(&[]),
        reason: "it carries bytes between adapters: hosts, adapters, programs and messages are \
                 unknown to it",
    },
    Wall {
        package: "viaduct-hardware",
        own: &["viaduct-engine", "viaduct-frames", "viaduct-network"],
        external: Some(&[]),
        reason: "what a message costs on a host: of the network it knows rates and frames, of \
                 other messages nothing",
    },
    Wall {
        package: "viaduct-cluster",
        own: &[
            "viaduct-core",
            "viaduct-engine",
            "viaduct-hardware",
            "viaduct-network",
            "viaduct-operations",
            "viaduct-statistics",
            "viaduct-topology",
        ],
        external: None,
        reason: "models take final values: no files, no units, no tables",
    },
    Wall {
        package: "viaduct-operations",
        own: &["viaduct-engine"],
        external: Some(&["flate2", "prost", "serde_json", "thiserror"]),
        reason: "what applications do and what waits for what: hosts and networks are unknown to it",
    },
    Wall {
        package: "viaduct-frames",
        own: &["viaduct-engine"],
        external: Some(&[]),
        reason: "protocols of an interface: whoever has links, memory and costs drives them",
    },
    Wall {
        package: "viaduct-lanai",
        own: &[
            "viaduct-am",
            "viaduct-cluster",
            "viaduct-engine",
            "viaduct-frames",
            "viaduct-network",
            "viaduct-operations",
            "viaduct-statistics",
            "viaduct-topology",
        ],
        external: Some(&["corosensei"]),
        reason: "costs, links and programs around the protocols: no file, clock or thread; what \
                 slows a processor, what ranks do, and what others send, are the cluster's own",
    },
    Wall {
        package: "viaduct-provider",
        own: &["viaduct-core"],
        external: Some(&[]),
        reason: "what programs and fabrics agree on: no fabric of its own",
    },
    Wall {
        package: "viaduct-agent",
        own: &["viaduct-core", "viaduct-provider"],
        external: Some(&[]),
        reason: "the operations of a fabric: how messages move is its runtime's affair",
    },
    Wall {
        package: "viaduct-threads",
        own: &["viaduct-agent", "viaduct-core", "viaduct-provider"],
        external: None,
        reason: "the semantics between threads: real fabrics and simulation stay out",
    },
    Wall {
        package: "viaduct-programs",
        own: &[
            "viaduct-agent",
            "viaduct-cluster",
            "viaduct-core",
            "viaduct-engine",
            "viaduct-frames",
            "viaduct-hardware",
            "viaduct-network",
            "viaduct-provider",
            "viaduct-topology",
        ],
        external: Some(&["corosensei"]),
        reason: "programs on simulated hosts: no file, clock or thread, and no real fabric",
    },
    Wall {
        package: "viaduct-processes",
        own: &[],
        external: Some(&["libc", "rustix"]),
        reason: "memory, sockets and copies between processes: what they say to each other is \
                 unknown to it",
    },
    Wall {
        package: "viaduct-calls",
        own: &["viaduct-core", "viaduct-provider"],
        external: Some(&["rustix"]),
        reason: "what is asked and answered between a program and whoever has its objects: it \
                 knows neither a fabric nor a simulation",
    },
    Wall {
        package: "viaduct-clients",
        own: &[
            "viaduct-calls",
            "viaduct-engine",
            "viaduct-processes",
            "viaduct-programs",
            "viaduct-provider",
            "viaduct-turns",
        ],
        external: Some(&[]),
        reason: "programs of processes on simulated hosts: the one place where the simulated world \
                 reaches into processes, for the bytes of messages",
    },
    Wall {
        package: "viaduct-rdma",
        own: &["viaduct-core", "viaduct-processes"],
        external: Some(&["libc", "rustix"]),
        reason: "a real fabric never sees the simulated world",
    },
    Wall {
        package: "viaduct-turns",
        own: &["viaduct-processes"],
        external: Some(&["libc", "rustix"]),
        reason: "whose turn it is, and when: what is simulated, and what programs call, are \
                 unknown to it",
    },
    Wall {
        package: "viaduct-shm",
        own: &["viaduct-core", "viaduct-processes", "viaduct-provider"],
        external: None,
        reason: "a real fabric never sees the simulated world",
    },
    Wall {
        package: "viaduct-am",
        own: &[],
        external: Some(&[]),
        reason: "endpoints are the same over every carrier: it knows no fabric, clock or thread",
    },
    Wall {
        package: "viaduct-vi-carrier",
        own: &["viaduct-am", "viaduct-core", "viaduct-provider"],
        external: Some(&[]),
        reason: "a carrier over the VIs of any fabric: it knows none",
    },
    Wall {
        package: "viaduct-conformance",
        own: &["viaduct-core", "viaduct-provider"],
        external: None,
        reason: "one suite for every fabric: it knows none",
    },
    Wall {
        package: "viaduct-measure",
        own: &[
            "viaduct-am",
            "viaduct-core",
            "viaduct-provider",
            "viaduct-statistics",
        ],
        external: None,
        reason: "one set of programs for every fabric: it knows none",
    },
    Wall {
        package: "viaduct-local",
        own: &[
            "viaduct-am",
            "viaduct-measure",
            "viaduct-provider",
            "viaduct-shm",
            "viaduct-vi-carrier",
        ],
        external: Some(&[]),
        reason: "the loops that are timed between processes, compiled apart from the command",
    },
    Wall {
        package: "viaduct-plot",
        own: &[],
        external: None,
        reason: "lines, bars and axes: what they mean is the caller's",
    },
    Wall {
        package: "viaduct-vipl",
        own: &[
            "viaduct-calls",
            "viaduct-core",
            "viaduct-provider",
            "viaduct-shm",
            "viaduct-turns",
        ],
        external: None,
        reason: "a face: it translates C into the operations of a fabric, or into calls of whoever \
                 has the objects of a simulated host",
    },
    Wall {
        package: "viaduct-libam",
        own: &["viaduct-am", "viaduct-shm", "viaduct-vi-carrier"],
        external: Some(&["libc"]),
        reason: "a face: it translates C into the operations of endpoints",
    },
    Wall {
        package: "viaduct-verbs-abi",
        own: &[],
        external: Some(&["libc"]),
        reason: "layouts and values of C: no fabric and no function",
    },
    Wall {
        package: "viaduct-ibverbs",
        own: &[
            "viaduct-calls",
            "viaduct-rdma",
            "viaduct-turns",
            "viaduct-verbs-abi",
        ],
        external: Some(&["libc"]),
        reason: "a face: it translates C into the operations of a fabric, or into calls of whoever \
                 has the objects of a simulated host",
    },
    Wall {
        package: "viaduct-rdmacm",
        own: &["viaduct-processes", "viaduct-verbs-abi"],
        external: Some(&["libc", "rustix"]),
        reason: "a face over libibverbs as programs see it: functions come by name, when it is \
                 linked",
    },
    Wall {
        package: "viaduct-rdma-programs",
        own: &[],
        external: Some(&["libc", "rayon", "serde", "toml"]),
        reason: "it runs programs as their users do: what it tests, it knows from outside",
    },
    Wall {
        package: "viaduct-rdma-paths",
        own: &[],
        external: Some(&["libc"]),
        reason: "it is loaded into every process below the launcher: nothing but the C library",
    },
    Wall {
        package: "viaduct-simulated-time",
        own: &["viaduct-turns"],
        external: Some(&["libc"]),
        reason: "it is loaded into every process of a simulation: what is simulated is unknown to \
                 it",
    },
    Wall {
        package: "viaduct-c-programs",
        own: &[],
        external: Some(&[]),
        reason: "compilers and processes for tests: it knows no library",
    },
    Wall {
        package: "viaduct-scenario",
        own: &[
            "viaduct-cluster",
            "viaduct-engine",
            "viaduct-frames",
            "viaduct-hardware",
            "viaduct-lanai",
            "viaduct-network",
            "viaduct-operations",
            "viaduct-programs",
            "viaduct-provider",
            "viaduct-topology",
        ],
        external: None,
        reason: "it reads what a user wrote into a configuration and runs nothing",
    },
    Wall {
        package: "viaduct-fit",
        own: &[
            "viaduct-measure",
            "viaduct-programs",
            "viaduct-provider",
            "viaduct-scenario",
        ],
        external: Some(&["libm", "serde", "serde_json"]),
        reason: "a preset from a measurement: it predicts by the simulation and opens no file",
    },
    Wall {
        package: "viaduct-report",
        own: &[
            "viaduct-cluster",
            "viaduct-engine",
            "viaduct-hardware",
            "viaduct-network",
            "viaduct-operations",
            "viaduct-plot",
            "viaduct-scenario",
            "viaduct-statistics",
            "viaduct-topology",
        ],
        external: None,
        reason: "it shows results and decides none",
    },
    Wall {
        package: "viaduct-sweep",
        own: &["viaduct-cluster", "viaduct-report", "viaduct-scenario"],
        external: Some(&["rayon", "serde", "serde_json"]),
        reason: "which runs are made and what is kept of them, for every face: it shows nothing",
    },
    Wall {
        package: "viaduct-python",
        own: &[
            "viaduct-cli",
            "viaduct-cluster",
            "viaduct-engine",
            "viaduct-operations",
            "viaduct-programs",
            "viaduct-provider",
            "viaduct-rdma",
            "viaduct-report",
            "viaduct-scenario",
            "viaduct-shm",
            "viaduct-sweep",
            "viaduct-topology",
        ],
        external: Some(&["arrow-array", "arrow-schema", "pyo3", "serde_json"]),
        reason: "a face: it translates Python into studies and runs, and decides nothing",
    },
    Wall {
        package: "viaduct-cli",
        own: &[
            "viaduct-am",
            "viaduct-clients",
            "viaduct-cluster",
            "viaduct-engine",
            "viaduct-fit",
            "viaduct-hardware",
            "viaduct-lanai",
            "viaduct-local",
            "viaduct-measure",
            "viaduct-network",
            "viaduct-operations",
            "viaduct-plot",
            "viaduct-processes",
            "viaduct-programs",
            "viaduct-provider",
            "viaduct-rdma",
            "viaduct-report",
            "viaduct-scenario",
            "viaduct-statistics",
            "viaduct-sweep",
            "viaduct-topology",
            "viaduct-turns",
            "viaduct-vi-carrier",
        ],
        external: None,
        reason: "a face: it joins the others",
    },
    Wall {
        package: "viaduct",
        own: &[
            "viaduct-am",
            "viaduct-cluster",
            "viaduct-programs",
            "viaduct-provider",
            "viaduct-scenario",
            "viaduct-shm",
            "viaduct-topology",
            "viaduct-vi-carrier",
        ],
        external: Some(&[]),
        reason: "a face: the front page for programs in Rust, which shows the others",
    },
    Wall {
        package: "viaduct-bench",
        own: &[
            "viaduct-am",
            "viaduct-engine",
            "viaduct-operations",
            "viaduct-processes",
            "viaduct-programs",
            "viaduct-provider",
            "viaduct-rdma",
            "viaduct-scenario",
            "viaduct-shm",
            "viaduct-vi-carrier",
        ],
        external: None,
        reason: "it measures the command from outside, and the engine and graphs alone",
    },
    Wall {
        package: "viaduct-xtask",
        own: &[],
        external: None,
        reason: "a check must build when what it checks does not",
    },
];

/// Packages that nothing may depend on, tests included, but for those named beside them.
const UNUSED: &[(&str, &[&str])] = &[
    // The Python package ships the command.
    ("viaduct-cli", &["viaduct-python"]),
    ("viaduct-python", &[]),
    ("viaduct-bench", &[]),
    ("viaduct-xtask", &[]),
];

/// Libraries with one home, so that they can be replaced there. Formats of Protocol Buffers are
/// read in one place and written in another: `prost` has none.
const HOMES: &[(&str, &str)] = &[
    ("annotate-snippets", "viaduct-scenario"),
    ("arrow-array", "viaduct-python"),
    ("arrow-schema", "viaduct-python"),
    ("clap", "viaduct-cli"),
    ("clap_complete", "viaduct-cli"),
    ("clap_mangen", "viaduct-cli"),
    ("comfy-table", "viaduct-report"),
    ("ctrlc", "viaduct-cli"),
    ("flate2", "viaduct-operations"),
    ("hdrhistogram", "viaduct-statistics"),
    ("indicatif", "viaduct-cli"),
    ("minijinja", "viaduct-report"),
    ("parquet", "viaduct-report"),
    ("pdf-writer", "viaduct-plot"),
    ("pyo3", "viaduct-python"),
    ("quick-xml", "viaduct-topology"),
    ("statrs", "viaduct-statistics"),
    ("tiny-skia", "viaduct-plot"),
    ("ttf-parser", "viaduct-plot"),
];

/// One arrow between a package of ours and what it uses.
#[derive(Clone, Debug)]
struct Arrow {
    from: String,
    to: String,
    test_only: bool,
}

/// The page whose table of crates says what each may use.
pub(crate) const MAP: &str = "ARCHITECTURE.md";

/// Checks the workspace's arrows, the licences of all it links, the reasons in the docs, and the
/// map's table of crates.
pub(crate) fn check(
    metadata: &Metadata,
    dependencies_page: Option<&str>,
    map: Option<&str>,
) -> Vec<Finding> {
    let mut arrows = Vec::new();
    let mut packages = Vec::new();
    let mut folders = BTreeMap::new();
    for package in metadata.members() {
        packages.push(package.name.to_string());
        let folder = package.folder().strip_prefix(&metadata.workspace_root);
        let folder = folder.map(|it| it.display().to_string());
        let folder = folder.unwrap_or_default();
        folders.insert(package.name.to_string(), folder);
        arrows.extend(package.dependencies.iter().map(|dependency| Arrow {
            from: package.name.to_string(),
            to: dependency.name.clone(),
            test_only: dependency.is_for_tests(),
        }));
    }
    let mut findings = check_arrows(&packages, &arrows);
    let licences = metadata.packages.iter().map(|package| {
        (
            package.name.as_str(),
            package.license.as_deref().unwrap_or_default(),
        )
    });
    findings.extend(check_licences(licences));
    findings.extend(check_reasons(
        &arrows,
        dependencies_page.unwrap_or_default(),
    ));
    findings.extend(check_map(&folders, map.unwrap_or_default()));
    findings
}

/// Each package has one row `| `folder` | what it is | what it may use |`, and each row a package.
fn check_map(folders: &BTreeMap<String, String>, page: &str) -> Vec<Finding> {
    let mut rows: BTreeMap<&str, &str> = page.lines().filter_map(reason_row).collect();
    let mut findings = Vec::new();
    for wall in WALLS {
        let Some(folder) = folders.get(wall.package) else {
            continue;
        };
        let names = wall.own.iter().map(|name| {
            let name = name.trim_start_matches("viaduct-");
            format!("`{name}`")
        });
        let uses = match names.collect::<Vec<_>>() {
            none if none.is_empty() => "nothing".to_owned(),
            names => names.join(", "),
        };
        if rows.remove(&**folder) != Some(&uses) {
            let text = format!("the row of `{folder}` ends with `| {uses} |`, by WALLS");
            findings.push(Finding::new(MAP, text));
        }
    }
    let groups: BTreeSet<&str> = folders
        .values()
        .filter_map(|folder| Some(folder.split_once('/')?.0))
        .collect();
    let is_crate = |name: &str| {
        name.split_once('/')
            .is_some_and(|(group, _)| groups.contains(group))
    };
    for folder in rows.keys().filter(|name| is_crate(name)) {
        let text = format!("`{folder}` is no package: delete its row");
        findings.push(Finding::new(MAP, text));
    }
    findings
}

fn is_own(package: &str) -> bool {
    package == "viaduct" || package.starts_with("viaduct-")
}

fn check_arrows(packages: &[String], arrows: &[Arrow]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        if !WALLS.iter().any(|wall| wall.package == package) {
            let text = "has no row in WALLS of xtask/src/walls.rs: say what it may use, and why";
            findings.push(Finding::new(package, text));
        }
    }
    for Arrow {
        from,
        to,
        test_only,
    } in arrows
    {
        if UNUSED
            .iter()
            .any(|(unused, users)| unused == to && !users.contains(&from.as_str()))
        {
            findings.push(Finding::new(
                from,
                format!("uses {to}, which nothing may use"),
            ));
        }
        if *test_only {
            continue;
        }
        if let Some((_, home)) = HOMES
            .iter()
            .find(|(library, home)| library == to && home != from)
        {
            findings.push(Finding::new(
                from,
                format!("uses {to}, whose one home is {home}"),
            ));
        }
        let Some(wall) = WALLS.iter().find(|wall| wall.package == from) else {
            continue;
        };
        let allowed = if is_own(to) {
            wall.own.contains(&to.as_str())
        } else {
            wall.external
                .is_none_or(|external| external.contains(&to.as_str()))
        };
        if !allowed {
            findings.push(Finding::new(
                from,
                format!("may not use {to}: {}", wall.reason),
            ));
        }
    }
    findings
}

fn check_licences<'a>(packages: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Finding> {
    packages
        .filter(|(_, expression)| !licence::is_allowed(expression))
        .map(|(package, expression)| {
            let text = format!(
                "its licence `{expression}` is not among those in xtask/src/licence.rs: find another \
                 library, or argue for the licence there"
            );
            Finding::new(package, text)
        })
        .collect()
}

/// Each library we name in a manifest has a row `| name | reason |`, and each row a library.
fn check_reasons(arrows: &[Arrow], page: &str) -> Vec<Finding> {
    const PAGE: &str = "docs/dependencies.md";
    const REASON_CHARACTERS_MIN: usize = 20;

    let rows: BTreeMap<&str, &str> = page.lines().filter_map(reason_row).collect();
    let used: BTreeSet<&str> = arrows
        .iter()
        .map(|arrow| arrow.to.as_str())
        .filter(|name| !is_own(name))
        .collect();
    let mut findings = Vec::new();
    for name in &used {
        match rows.get(name) {
            None => {
                let text = format!("has no row for `{name}`: say what it is for and why this one");
                findings.push(Finding::new(PAGE, text));
            }
            Some(reason) if reason.len() < REASON_CHARACTERS_MIN => {
                findings.push(Finding::new(
                    PAGE,
                    format!("`{name}` has no reason beside it"),
                ));
            }
            Some(_) => {}
        }
    }
    for name in rows.keys().filter(|name| !used.contains(*name)) {
        findings.push(Finding::new(
            PAGE,
            format!("`{name}` is used nowhere: delete its row"),
        ));
    }
    findings
}

/// The name and the reason of a row whose first cell is a name in backticks.
fn reason_row(line: &str) -> Option<(&str, &str)> {
    let cells = line.strip_prefix("| `")?;
    let (name, rest) = cells.split_once("` |")?;
    Some((name, rest.trim_end_matches('|').rsplit('|').next()?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrow(from: &str, to: &str) -> Arrow {
        Arrow {
            from: from.to_owned(),
            to: to.to_owned(),
            test_only: false,
        }
    }

    fn texts(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrow_through_a_wall_is_found() {
        let found = check_arrows(&[], &[arrow("viaduct-core", "viaduct-engine")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].text.contains("may not use viaduct-engine"));
        assert_eq!(
            check_arrows(&[], &[arrow("viaduct-core", "serde")]).len(),
            1
        );
        assert_eq!(
            check_arrows(&[], &[arrow("viaduct-engine", "statrs")]).len(),
            2
        );
        assert_eq!(
            check_arrows(&[], &[arrow("viaduct-cluster", "viaduct-scenario")]).len(),
            1
        );
    }

    #[test]
    fn arrow_along_the_table_is_fine() {
        let arrows = [
            arrow("viaduct-engine", "rand_core"),
            arrow("viaduct-cluster", "viaduct-core"),
            arrow("viaduct-cli", "clap"),
        ];
        assert_eq!(check_arrows(&["viaduct-core".to_owned()], &arrows), []);
    }

    #[test]
    fn tests_may_use_more_but_not_the_faces() {
        let test = |to: &str| Arrow {
            test_only: true,
            ..arrow("viaduct-core", to)
        };
        assert_eq!(check_arrows(&[], &[test("proptest")]), []);
        assert_eq!(check_arrows(&[], &[test("viaduct-cli")]).len(), 1);
    }

    #[test]
    fn library_outside_its_home_is_found() {
        let found = check_arrows(&[], &[arrow("viaduct-cluster", "parquet")]);
        assert_eq!(
            texts(&found),
            ["viaduct-cluster: uses parquet, whose one home is viaduct-report"]
        );
    }

    #[test]
    fn package_without_a_wall_is_found() {
        assert_eq!(check_arrows(&["viaduct-new".to_owned()], &[]).len(), 1);
    }

    #[test]
    fn licence_outside_the_list_is_found() {
        let packages = [
            ("good", "MIT OR Apache-2.0"),
            ("bad", "GPL-3.0-only"),
            ("none", ""),
        ];
        let found = check_licences(packages.into_iter());
        assert_eq!(
            found
                .iter()
                .map(|each| each.place.as_str())
                .collect::<Vec<_>>(),
            ["bad", "none"]
        );
    }

    #[test]
    fn the_map_says_what_each_crate_may_use() {
        let folders = [("viaduct-core", "core"), ("viaduct-agent", "fabrics/agent")];
        let folders = folders.map(|(name, folder)| (name.to_owned(), folder.to_owned()));
        let folders = BTreeMap::from(folders);
        let core = "| `core` | rules | nothing |\n";
        let agent = "| `fabrics/agent` | operations | `core`, `provider` |\n";
        let both = core.to_owned() + agent;
        assert_eq!(check_map(&folders, &both), []);
        for (page, wrong) in [
            (core.to_owned(), "fabrics/agent"),
            (both.replace("`core`, ", ""), "fabrics/agent"),
            (both.replace("nothing", "`engine`"), "core"),
            (
                both.clone() + "| `fabrics/gone` | x | nothing |\n",
                "fabrics/gone",
            ),
        ] {
            let found = texts(&check_map(&folders, &page));
            assert!(found.len() == 1 && found[0].contains(wrong), "{found:?}");
        }
    }

    #[test]
    fn reason_is_asked_for_each_library_and_no_other() {
        let arrows = [
            arrow("viaduct-cli", "clap"),
            arrow("viaduct-cli", "viaduct-cluster"),
        ];
        let page = "| `clap` | cli | arguments, help and completion in one place |";
        assert_eq!(check_reasons(&arrows, page), []);
        assert_eq!(check_reasons(&arrows, "").len(), 1);
        assert_eq!(check_reasons(&arrows, "| `clap` | cli | yes |").len(), 1);
        assert_eq!(check_reasons(&[], page).len(), 1);
    }
}
