//! Rules of the tree that can be read off its text.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use crate::Finding;

/// One file of the tree: its path from the root, with `/`, and its text.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    path: String,
    text: String,
}

/// Lines without tests past which a file is about more than one thing.
const LINES_MAX: usize = 900;
/// Columns of a line of comment or prose in a source file.
const COLUMNS_MAX: usize = 100;
/// Crates whose result must be the same everywhere: each has the same `clippy.toml`.
const DETERMINISTIC: &[&str] = &[
    "core",
    "sim/engine",
    "sim/topology",
    "sim/statistics",
    "sim/network",
    "sim/hardware",
    "sim/cluster",
    "sim/programs",
    "sim/frames",
    "sim/operations",
    "sim/lanai",
    "endpoints/am",
];
/// Words for work that is not done. Written in halves, so that this file keeps the rule too.
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("dbg", "!("),
];
/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &[
    concat!("/", "work/"),
    concat!("/", "root/"),
    concat!("/", "home/"),
    concat!("/", "Users/"),
    concat!(":\\", "Users"),
];

/// Reads every text file that git knows or would add.
///
/// # Errors
///
/// When git is missing or this is no checkout, and when a file cannot be read.
pub(crate) fn read_tree(root: &Path) -> Result<Vec<SourceFile>, Box<dyn Error>> {
    let listing = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git, which lists the files to check, does not run: {error}"))?;
    if !listing.status.success() {
        return Err("git lists no files here: tidy reads a checkout".into());
    }
    let mut files = Vec::new();
    for path in String::from_utf8(listing.stdout)?.split_terminator('\0') {
        let on_disk = root.join(path);
        // Listed but deleted, or a link to a folder.
        if !on_disk.is_file() {
            continue;
        }
        if let Ok(text) = String::from_utf8(std::fs::read(on_disk)?) {
            files.push(SourceFile {
                path: path.to_owned(),
                text,
            });
        }
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(files)
}

/// The text of one file.
pub(crate) fn find<'a>(files: &'a [SourceFile], path: &str) -> Option<&'a str> {
    files
        .iter()
        .find(|file| file.path == path)
        .map(|file| file.text.as_str())
}

/// Every rule over every file.
pub(crate) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_written_by_hand(&file.path)) {
        findings.extend(check_lines(file));
        findings.extend(check_length(file));
        findings.extend(check_macro_bodies(file));
    }
    findings.extend(check_no_std(files));
    findings.extend(check_bans(files));
    findings.extend(check_lints(files));
    findings.extend(check_modules(files));
    findings.extend(check_mentions(files));
    findings.extend(check_variables(files));
    findings
}

/// Snapshots and seed inputs hold what a program printed or what a user might hand in.
fn is_written_by_hand(path: &str) -> bool {
    let extension = path.rsplit('.').next().unwrap_or_default();
    let written = ["rs", "toml", "md", "cpp", "hpp", "h", "py", "sh", "yml"].contains(&extension)
        || path == "Makefile"
        || path.ends_with("/Makefile")
        || path == ".ci/run";
    written && !path.contains("/seeds/") && !path.contains("/fixtures/")
}

fn at(file: &SourceFile, line: usize, text: impl Into<String>) -> Finding {
    Finding::new(format!("{}:{}", file.path, line + 1), text)
}

fn check_lines(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        if let Some(character) = line.chars().find(|character| !character.is_ascii()) {
            let escape = character.escape_unicode();
            let text =
                format!("`{escape}` is not ASCII: write it in words, or escaped in a string");
            findings.push(at(file, number, text));
        }
        if line != line.trim_end() {
            findings.push(at(
                file,
                number,
                "blanks at the end of the line: delete them",
            ));
        }
        for word in UNFINISHED.iter().filter(|word| contains_word(line, word)) {
            let text = format!("`{word}`: finish it, or say in docs/ what is left out");
            findings.push(at(file, number, text));
        }
        for path in MACHINE_PATHS
            .iter()
            .filter(|path| contains_path(line, path))
        {
            let text = format!("`{path}` exists on one machine only: use a path from the root");
            findings.push(at(file, number, text));
        }
        let is_comment = line.trim_start().starts_with("//");
        if file.path.ends_with(".rs") && is_comment && line.chars().count() > COLUMNS_MAX {
            findings.push(at(
                file,
                number,
                format!("a comment past column {COLUMNS_MAX}"),
            ));
        }
    }
    if file.text.contains('\r') {
        findings.push(Finding::new(
            &file.path,
            "carriage returns: end lines with a line feed alone",
        ));
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(Finding::new(&file.path, "the last line does not end"));
    }
    findings
}

fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        let is_part = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
        !is_part(before) && (word.ends_with('(') || !is_part(after))
    })
}

/// Whether an absolute path begins here, rather than a relative one going on.
fn contains_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(start, _)| {
        path.starts_with(':')
            || !line[..start]
                .chars()
                .next_back()
                .is_some_and(|before| before.is_alphanumeric() || "_-.~})/*".contains(before))
    })
}

/// Lines before the tests; a file of tests has none.
fn lines_without_tests(file: &SourceFile) -> usize {
    if file.path.contains("/tests/") || file.path.ends_with("tests.rs") {
        return 0;
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let tests = lines.windows(2).position(|pair| {
        pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    });
    tests.unwrap_or(lines.len())
}

fn check_length(file: &SourceFile) -> Vec<Finding> {
    let lines = lines_without_tests(file);
    if !file.path.ends_with(".rs") || lines < LINES_MAX {
        return Vec::new();
    }
    let text = format!("{lines} lines without tests: look for the second thing it is about");
    vec![Finding::new(&file.path, text)]
}

/// Macros in whose bodies rustfmt changes nothing.
const UNFORMATTED: [&str; 2] = ["section! {", "words! {"];

/// What rustfmt would mend in the bodies of macros that it leaves alone: indentation, blanks,
/// width.
fn check_macro_bodies(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !file.path.ends_with(".rs") {
        return findings;
    }
    let mut is_inside = false;
    for (number, line) in file.text.lines().enumerate() {
        if UNFORMATTED.contains(&line) {
            is_inside = true;
            continue;
        }
        is_inside &= line != "}";
        if !is_inside || line.trim().is_empty() {
            continue;
        }
        let code = line.trim_start();
        let parts: Vec<&str> = code.split('"').step_by(2).collect();
        let outside_strings = parts.join("\"");
        let problem = if (line.len() - code.len()) % 4 != 0 {
            "indentation is not a multiple of four"
        } else if line.starts_with('\t') || !line.starts_with("    ") {
            "a body is indented by four blanks at least"
        } else if outside_strings.contains("  ") {
            "two blanks in a row"
        } else if outside_strings.contains(" ;") || outside_strings.contains(" ,") {
            "a blank before a mark"
        } else if line.chars().count() > COLUMNS_MAX && !code.contains('"') {
            "past column 100"
        } else {
            continue;
        };
        let text = format!("{problem}: rustfmt does not look into this macro");
        findings.push(at(file, number, text));
    }
    findings
}

/// `viaduct-core` builds without the standard library and without unsafe code.
fn check_no_std(files: &[SourceFile]) -> Vec<Finding> {
    const PATH: &str = "core/src/lib.rs";
    let text = find(files, PATH).unwrap_or_default();
    let has = |attribute: &str| text.lines().any(|line| line.trim_end() == attribute);
    let mut findings = Vec::new();
    for attribute in ["#![no_std]", "#![forbid(unsafe_code)]"] {
        if !has(attribute) {
            findings.push(Finding::new(PATH, format!("`{attribute}` is missing")));
        }
    }
    for file in files
        .iter()
        .filter(|file| file.path.starts_with("core/src/"))
    {
        let lines: Vec<&str> = file.text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let for_tests = number > 0 && lines[number - 1].trim() == "#[cfg(test)]";
            if line.trim_start().starts_with("extern crate std") && !for_tests {
                findings.push(at(file, number, "`std` may come in for tests only"));
            }
        }
    }
    findings
}

/// The nearest clippy.toml replaces the root's, so the deterministic crates hold equal copies.
fn check_bans(files: &[SourceFile]) -> Vec<Finding> {
    const BANNED: &[&str] = &[
        "std::time::Instant",
        "std::time::SystemTime",
        "std::collections::HashMap",
        "std::collections::HashSet",
        "std::thread::spawn",
        "std::env::var",
    ];
    let path = |name: &str| format!("{name}/clippy.toml");
    let first = find(files, &path(DETERMINISTIC[0])).unwrap_or_default();
    let mut findings = Vec::new();
    for name in BANNED
        .iter()
        .filter(|name| !first.contains(&format!("\"{name}\"")))
    {
        findings.push(Finding::new(
            path(DETERMINISTIC[0]),
            format!("`{name}` is not banned"),
        ));
    }
    for name in &DETERMINISTIC[1..] {
        if find(files, &path(name)) != Some(first) {
            let text = format!("differs from {}: copy it", path(DETERMINISTIC[0]));
            findings.push(Finding::new(path(name), text));
        }
    }
    findings
}

/// Every package takes the workspace's lints.
fn check_lints(files: &[SourceFile]) -> Vec<Finding> {
    files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml") && !file.path.starts_with("fuzz/"))
        .filter(|file| !file.text.contains("[lints]\nworkspace = true\n"))
        .map(|file| Finding::new(&file.path, "`[lints] workspace = true` is missing"))
        .collect()
}

/// A source file that no `mod` names is compiled by nobody.
fn check_modules(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let Some((package, within)) = file.path.split_once("/src/") else {
            continue;
        };
        if within.starts_with("bin/") {
            continue;
        }
        let mut parts = within.trim_end_matches(".rs").rsplit('/');
        let module = match parts.next() {
            Some("mod") => parts.next().unwrap_or_default(),
            Some("lib" | "main") | None => continue,
            Some(module) => module,
        };
        let prefix = format!("{package}/src/");
        let declared = files
            .iter()
            .filter(|other| other.path.starts_with(&prefix))
            .any(|other| {
                other.text.lines().any(|line| {
                    line.trim()
                        .trim_start_matches("pub(crate) ")
                        .trim_start_matches("pub ")
                        == format!("mod {module};")
                })
            });
        if !declared {
            let text = format!("no `mod {module};` in {package}: nothing compiles it");
            findings.push(Finding::new(&file.path, text));
        }
    }
    findings
}

/// A study or preset that ships is named in the docs, where a user can find it.
fn check_mentions(files: &[SourceFile]) -> Vec<Finding> {
    let is_page =
        |path: &str| path == "README.md" || (path.starts_with("docs/") && path.ends_with(".md"));
    let mut findings = Vec::new();
    for file in files {
        let Some((folder @ ("studies" | "models"), name)) = file.path.split_once('/') else {
            continue;
        };
        let Some(stem) = name.strip_suffix(".toml") else {
            continue;
        };
        // Some lie in a folder of their own.
        let stem = stem.rsplit('/').next().unwrap_or(stem);
        let is_name = |character: char| character.is_alphanumeric() || character == '-';
        let mentioned = files.iter().filter(|page| is_page(&page.path)).any(|page| {
            page.text
                .split(|character| !is_name(character))
                .any(|word| word == stem)
        });
        if !mentioned {
            let text = format!("neither README.md nor docs/ mentions `{stem}` of {folder}");
            findings.push(Finding::new(&file.path, text));
        }
    }
    findings
}

/// A variable of the environment that the fabric between processes reads is described.
fn check_variables(files: &[SourceFile]) -> Vec<Finding> {
    let page = find(files, VARIABLES_PAGE).unwrap_or_default();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| {
        file.path.starts_with("fabrics/shm/src/")
            && !TESTS.iter().any(|tests| file.path.contains(tests))
    }) {
        for (number, line) in file.text.lines().enumerate() {
            let names = line.split('"').skip(1).step_by(2);
            for name in names.filter(|text| text.starts_with("VIADUCT_")) {
                let is_name = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
                if name.bytes().all(is_name) && !page.contains(&format!("`{name}=")) {
                    let text = format!("{VARIABLES_PAGE} does not describe `{name}`");
                    findings.push(at(file, number, text));
                }
            }
        }
    }
    findings
}

/// Code of tests, which tell each other things.
const TESTS: &[&str] = &["/tests", "/chaos"];
const VARIABLES_PAGE: &str = "docs/shm.md";

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn line_findings(text: &str) -> usize {
        check_lines(&file("sim/x/src/lib.rs", text)).len()
    }

    #[test]
    fn clean_line_passes() {
        assert_eq!(
            line_findings("let network = \"net/work/home/list\"; // fine\n"),
            0
        );
    }

    #[test]
    fn each_rule_of_a_line_fires() {
        assert_eq!(line_findings("let micro = \"\u{b5}s\";\n"), 1);
        assert_eq!(line_findings("let a = 1; \n"), 1);
        assert_eq!(line_findings("let a = 1;\r\n"), 1);
        assert_eq!(line_findings(&format!("// {}: later\n", UNFINISHED[0])), 1);
        assert_eq!(line_findings(&format!("let a = {}b);\n", UNFINISHED[3])), 1);
        assert_eq!(line_findings("let a = 1;"), 1);
        assert_eq!(
            line_findings(&format!("// {}\n", "a ".repeat(50).trim_end())),
            1
        );
        for path in MACHINE_PATHS {
            assert_eq!(line_findings(&format!("open(\"{path}x\")\n")), 1, "{path}");
        }
    }

    #[test]
    fn bodies_that_rustfmt_leaves_alone_are_indented_and_spaced() {
        let findings = |line: &str| {
            let text =
                format!("section! {{\n    A \"a\": \"it  is\" {{\n{line}\n    }}\n}}\n   x\n");
            check_macro_bodies(&file("sim/x/src/lib.rs", &text)).len()
        };
        assert_eq!(
            findings("        rate: Setting<u32> = count(\"a ; of  b\");"),
            0
        );
        for wrong in [
            "       rate: Setting<u32> = count(\"a\");",
            "rate: Setting<u32> = count(\"a\");",
            "        rate:  Setting<u32> = count(\"a\");",
            "        rate: Setting<u32> = count(\"a\") ;",
        ] {
            assert_eq!(findings(wrong), 1, "{wrong}");
        }
        assert_eq!(findings(&format!("        {}", "a.b".repeat(31))), 1);
    }

    #[test]
    fn words_are_whole() {
        let longer = format!("{}NT", UNFINISHED[0]);
        assert_eq!(line_findings(&format!("let x = {longer};\n")), 0);
    }

    #[test]
    fn only_lines_before_the_tests_count() {
        let code = "fn f() {}\n".repeat(LINES_MAX - 1);
        let tests = "#[cfg(test)]\nmod tests {\n}\n".to_owned() + &"// t\n".repeat(500);
        assert_eq!(check_length(&file("a.rs", &(code.clone() + &tests))), []);
        assert_eq!(
            check_length(&file("a.rs", &(code.clone() + "fn g() {}\n"))).len(),
            1
        );
        assert_eq!(check_length(&file("a/tests/b.rs", &code.repeat(2))), []);
    }

    #[test]
    fn via_must_forbid_what_it_must_not_have() {
        let path = "core/src/lib.rs";
        let good = "//! Doc.\n#![no_std]\n#![forbid(unsafe_code)]\n";
        assert_eq!(check_no_std(&[file(path, good)]), []);
        assert_eq!(check_no_std(&[file(path, "#![no_std]\n")]).len(), 1);
        assert_eq!(check_no_std(&[]).len(), 2);
        let with_std = good.to_owned() + "extern crate std;\n";
        assert_eq!(check_no_std(&[file(path, &with_std)]).len(), 1);
        let for_tests = good.to_owned() + "#[cfg(test)]\nextern crate std;\n";
        assert_eq!(check_no_std(&[file(path, &for_tests)]), []);
    }

    #[test]
    fn bans_must_be_there_and_equal() {
        let bans = include_str!("../../core/clippy.toml");
        let copies = |text: &str| -> Vec<SourceFile> {
            let path = |name| format!("{name}/clippy.toml");
            DETERMINISTIC
                .iter()
                .map(|name| file(&path(name), text))
                .collect()
        };
        let mut files = copies(bans);
        assert_eq!(check_bans(&files), []);
        files[2].text.push('\n');
        assert_eq!(check_bans(&files).len(), 1);
        assert_eq!(check_bans(&files[..files.len() - 1]).len(), 2);
        let without = bans.replace("\"std::time::Instant\"", "\"std::time::Duration\"");
        assert_eq!(check_bans(&copies(&without)).len(), 1);
    }

    #[test]
    fn lints_are_inherited() {
        assert_eq!(
            check_lints(&[file("sim/x/Cargo.toml", "[package]\n")]).len(),
            1
        );
        let good = "[package]\n[lints]\nworkspace = true\n";
        assert_eq!(check_lints(&[file("sim/x/Cargo.toml", good)]), []);
    }

    #[test]
    fn file_that_no_module_names_is_found() {
        let lib = file("sim/x/src/lib.rs", "mod used;\npub(crate) mod folder;\n");
        let used = file("sim/x/src/used.rs", "");
        let folder = file("sim/x/src/folder/mod.rs", "");
        let dead = file("sim/x/src/dead.rs", "");
        assert_eq!(check_modules(&[lib.clone(), used, folder]), []);
        assert_eq!(check_modules(&[lib, dead]).len(), 1);
    }

    #[test]
    fn study_that_no_page_names_is_found() {
        let study = file("studies/four-hop.toml", "");
        let page = file("README.md", "run `four-hop` first\n");
        let other = file("README.md", "run `four-hop-long` first\n");
        assert_eq!(check_mentions(&[study.clone(), page]), []);
        assert_eq!(check_mentions(&[study.clone(), other]).len(), 1);
        assert_eq!(check_mentions(&[study]).len(), 1);
    }
    #[test]
    fn variable_that_no_page_describes_is_found() {
        let page = file(VARIABLES_PAGE, "| `VIADUCT_SPIN_US=N` | 20 |\n");
        let code = |name| {
            file(
                "fabrics/shm/src/wait.rs",
                &format!("let set = var(\"{name}\");\n"),
            )
        };
        assert_eq!(
            check_variables(&[page.clone(), code("VIADUCT_SPIN_US")]),
            []
        );
        assert_eq!(check_variables(&[page, code("VIADUCT_SPIN")]).len(), 1);
    }
}
