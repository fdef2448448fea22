//! The reference has every function, as the headers declare it.

use crate::support;
use std::collections::BTreeMap;

const REFERENCE: &str = include_str!("../../../../docs/vipl.md");

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Each function's prototype, without the words that mean nothing to a compiler.
fn prototypes(header: &str) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(support::include().join(header)).unwrap();
    let mut found = BTreeMap::new();
    for statement in text.split(';') {
        let begin = statement
            .rfind("\nVIP_RETURN Vip")
            .or_else(|| statement.rfind("\nconst VIP_CHAR *Vip"));
        let Some(begin) = begin else { continue };
        let words = statement[begin..].replace("IN OUT ", "");
        let words = words.replace("(IN ", "(").replace("(OUT ", "(");
        let words = squeezed(
            &squeezed(&words)
                .replace(", IN ", ", ")
                .replace(", OUT ", ", "),
        );
        let name = words[..words.find('(').unwrap()].rsplit([' ', '*']).next();
        found.insert(name.unwrap().to_owned(), format!("{words};"));
    }
    found
}

#[test]
fn every_function_stands_in_the_reference_as_in_its_header() {
    let mut all = prototypes("vipl.h");
    assert_eq!(all.len(), 41);
    all.extend(prototypes("viplx.h"));
    let mut documented = 0;
    for section in REFERENCE.split("\n### ").skip(1) {
        let name = section.lines().next().unwrap();
        let Some(prototype) = all.get(name) else {
            assert!(!name.starts_with("Vip"), "{name} is in no header");
            continue;
        };
        let code = section.split("```").nth(1).unwrap();
        assert_eq!(squeezed(code.strip_prefix("c\n").unwrap()), *prototype);
        documented += 1;
    }
    assert_eq!(documented, all.len());
}

#[test]
fn every_variable_of_the_environment_stands_in_the_reference() {
    let mut variables = 0;
    for file in std::fs::read_dir(support::crate_root().join("src")).unwrap() {
        let path = file.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        for (start, _) in text.match_indices("\"VIADUCT_") {
            let name = text[start + 1..].split('"').next().unwrap();
            assert!(REFERENCE.contains(&format!("`{name}=")), "{name}");
            variables += 1;
        }
    }
    assert_eq!(variables, 3);
}
