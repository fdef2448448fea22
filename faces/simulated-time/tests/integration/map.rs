//! What the library takes the place of is what its linker script says.

use std::collections::BTreeSet;
use std::path::Path;

/// Names that a source file defines for others: what is not in the script would be hidden, and
/// programs would call the C library's.
fn defined(source: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("#[unsafe(export_name = \"") {
            names.extend(name.split('"').next());
        } else if line == "#[unsafe(no_mangle)]"
            && let Some((_, rest)) = lines.next().and_then(|line| line.split_once(" fn "))
        {
            names.extend(rest.split('(').next());
        } else if let Some((name, _)) = line.split_once(" by find_") {
            names.push(name.trim());
        }
    }
    names
}

#[test]
fn every_function_is_in_the_script_and_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = std::fs::read_to_string(root.join("time.map")).unwrap();
    let named = script
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';'));
    let named: BTreeSet<String> = named
        .filter(|name| !name.contains([' ', '}']))
        .map(str::to_owned)
        .collect();
    let mut found = BTreeSet::new();
    for file in std::fs::read_dir(root.join("src")).unwrap() {
        let source = std::fs::read_to_string(file.unwrap().path()).unwrap();
        found.extend(defined(&source).into_iter().map(str::to_owned));
    }
    assert!(found.len() > 90, "{} functions", found.len());
    assert_eq!(named, found);
}
