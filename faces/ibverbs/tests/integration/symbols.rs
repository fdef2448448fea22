//! What the libraries export and ask for.

use crate::support;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use viaduct_c_programs::run;

/// Names that a file defines (`-D --defined-only`) or asks for (`-u`), with their versions.
fn names(file: &Path, which: &str) -> BTreeSet<String> {
    let mut command = Command::new("nm");
    command
        .args(["-D", "--with-symbol-versions", which])
        .arg(file);
    let printed = run(&mut command);
    let name = |line: &str| {
        line.split_whitespace()
            .last()
            .map(|name| name.replace("@@", "@"))
    };
    printed
        .lines()
        .filter_map(name)
        .filter(|name| name.contains('@'))
        .collect()
}

fn exported() -> BTreeSet<String> {
    let folder = support::libraries();
    let libraries = [
        "libibverbs.so.1",
        "libmlx5.so.1",
        "libefa.so.1",
        "libhns.so.1",
        "libmana.so.1",
    ];
    let all = libraries
        .iter()
        .flat_map(|name| names(&folder.join(name), "--defined-only"));
    all.collect()
}

/// Whether a name with its version is of these libraries.
fn is_of_verbs(name: &str) -> bool {
    let version = name.split('@').nth(1).unwrap_or_default();
    ["IBVERBS_", "MLX5_", "EFA_", "HNS_", "MANA_"]
        .iter()
        .any(|of| version.starts_with(of))
}

#[test]
fn programs_of_three_debians_find_what_they_ask_for() {
    let exported = exported();
    let listed = include_str!("../imports.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let missing: Vec<_> = listed.filter(|name| !exported.contains(*name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// Those that are installed: `.ci/run` installs them, and there some must be.
#[test]
fn programs_of_this_machine_find_what_they_ask_for() {
    let exported = exported();
    let programs = [
        "/usr/bin",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu/ucx",
    ];
    let is_one = |path: &PathBuf| {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let starts = [
            "ib_",
            "ibv_",
            "raw_ethernet_",
            "rping",
            "ucmatose",
            "udaddy",
            "rdma_",
        ];
        let libraries = [
            "libfabric.so",
            "libuct_ib",
            "librdmacm.so",
            "libmlx5.so",
            "libefa.so",
        ];
        starts
            .iter()
            .chain(&libraries)
            .any(|start| name.starts_with(start))
    };
    let mut count = 0;
    for folder in programs {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if !is_one(&path) || !is_elf(&path) {
                continue;
            }
            for name in names(&path, "-u")
                .into_iter()
                .filter(|name| is_of_verbs(name))
            {
                assert!(
                    exported.contains(&name),
                    "{} asks for {name}",
                    path.display()
                );
                count += 1;
            }
        }
    }
    assert!(
        count > 50,
        "{count} names were looked at: install ibverbs-utils and perftest"
    );
}

fn is_elf(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"))
}

#[test]
fn each_public_name_has_its_version_and_each_private_one_all_of_them() {
    let exported = exported();
    let has = |name: &str| exported.contains(name);
    assert!(has("ibv_open_device@IBVERBS_1.1") && has("ibv_create_comp_channel@IBVERBS_1.0"));
    assert!(has("ibv_reg_mr_iova2@IBVERBS_1.8") && has("ibv_create_comp_cntr@IBVERBS_1.18"));
    for version in [25, 33, 34, 57, 59, 64, 65] {
        let of_version: Vec<_> = exported
            .iter()
            .filter(|name| name.ends_with(&format!("@IBVERBS_PRIVATE_{version}")))
            .collect();
        assert_eq!(of_version.len(), 95, "{version}");
        let register = format!("verbs_register_driver_{version}@IBVERBS_PRIVATE_{version}");
        assert!(has(&register), "{register}");
    }
    let public = exported.iter().filter(|name| name.contains("@IBVERBS_1."));
    assert_eq!(public.count(), 95);
    for (of, count) in [("@MLX5_", 143), ("@EFA_", 13), ("@HNS_", 3), ("@MANA_", 2)] {
        assert_eq!(
            exported.iter().filter(|name| name.contains(of)).count(),
            count,
            "{of}"
        );
    }
}

#[test]
fn nothing_newer_than_glibc_2_28_is_asked_for() {
    let folder = support::libraries();
    for library in ["libibverbs.so.1", "libmlx5.so.1", "libefa.so.1"] {
        let mut asked = 0;
        for name in names(&folder.join(library), "-u") {
            if let Some((_, version)) = name.split_once("@GLIBC_2.") {
                let minor: u32 = version.split('.').next().unwrap().parse().unwrap();
                assert!(minor <= 28, "{library} asks for {name}");
                asked += 1;
            }
        }
        assert!(asked > 0, "{library}");
    }
}
