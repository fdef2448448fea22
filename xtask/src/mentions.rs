//! Holds what the docs say of the command against the command.
//!
//! A page speaks of commands and keys in its sentences, too, and shows commands that are not run.
//! Words after `viaduct` in code must be commands that there are, with options that these take;
//! `links.rate` and its like must be keys of a scenario file or a preset.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::{Finding, Findings};

/// Tables of keys that no file or Python object shares its name with.
const TABLES: &[&str] = &[
    "run", "network", "switches", "links", "hosts", "traffic", "cpu", "bus", "nic",
];

/// What comes behind a dot in the name of a file that is called as a table is.
const ENDINGS: &[&str] = &["csv", "json", "parquet", "svg", "toml"];

/// Code on a page: the number of its line, and its text.
type Code = (usize, String);

/// Checks all that some pages say.
pub(crate) fn check<'page>(
    root: &Path,
    viaduct: &Path,
    pages: impl Iterator<Item = &'page str>,
) -> Findings {
    let mut helps = Helps::new(viaduct);
    let keys = keys(&printed(viaduct, &["keys"])?);
    let mut findings = Vec::new();
    for page in pages {
        for (line, code) in code(&std::fs::read_to_string(root.join(page))?) {
            let wrong = match code.strip_prefix("viaduct ") {
                Some(words) => helps.wrong(words)?,
                None => wrong_key(&keys, &code),
            };
            findings.extend(wrong.map(|text| Finding::new(format!("{page}:{line}"), text)));
        }
    }
    Ok(findings)
}

/// What the command prints on stdout; it must not fail.
fn printed(viaduct: &Path, arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = Command::new(viaduct).args(arguments).output()?;
    if !output.status.success() {
        return Err(format!("viaduct {} fails", arguments.join(" ")).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// What a page has between backquotes, and its commands behind a `$`.
fn code(page: &str) -> Vec<Code> {
    let mut found = Vec::new();
    let mut is_fenced = false;
    let mut paragraph = String::new();
    let mut begins = 1;
    for (index, line) in page.lines().chain([""]).enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence || line.is_empty() || is_fenced {
            found.extend(spans(&paragraph, begins));
            paragraph.clear();
            begins = index + 2;
        } else {
            paragraph.push_str(line);
            paragraph.push('\n');
        }
        if is_fence {
            is_fenced = !is_fenced;
        } else if is_fenced && let Some(command) = line.strip_prefix("$ ") {
            let command = command.split(" #").next().unwrap_or_default();
            found.push((index + 1, command.trim().to_owned()));
        }
    }
    found
}

/// What a paragraph that begins in some line has between backquotes.
fn spans(paragraph: &str, begins: usize) -> Vec<Code> {
    let mut found = Vec::new();
    let mut line = begins;
    for (index, part) in paragraph.split('`').enumerate() {
        if index % 2 == 1 {
            found.push((line, part.replace('\n', " ")));
        }
        line += part.matches('\n').count();
    }
    found
}

/// The keys of each table, by the table's last name.
fn keys(listing: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut table = String::new();
    for line in listing.lines() {
        if let Some((name, _)) = line.strip_prefix('[').and_then(|it| it.split_once(']')) {
            let last = name.rsplit('.').next().unwrap_or(name);
            last.clone_into(&mut table);
            // A table is a key of the one that it is in.
            if let Some((within, _)) = name.rsplit_once('.') {
                let within = within.rsplit('.').next().unwrap_or(within);
                let keys = tables.entry(within.to_owned()).or_default();
                keys.insert(last.to_owned());
            }
        } else if let Some(key) = line.strip_prefix("  ")
            && !key.starts_with(' ')
        {
            let key = key.split_whitespace().next().unwrap_or_default();
            let keys = tables.entry(table.clone()).or_default();
            keys.insert(key.to_owned());
        }
    }
    tables
}

/// What is wrong with code that names a key.
fn wrong_key(keys: &BTreeMap<String, BTreeSet<String>>, code: &str) -> Option<String> {
    let is_part = |letter: char| letter.is_ascii_lowercase() || matches!(letter, '_' | '.');
    let name: String = code.chars().take_while(|&letter| is_part(letter)).collect();
    let rest = code[name.len()..].trim_start();
    let (table, below) = name.split_once('.')?;
    if !TABLES.contains(&table) || !(rest.is_empty() || rest.starts_with('=')) {
        return None;
    }
    if ENDINGS.contains(&below) {
        return None;
    }
    let mut table = table;
    for part in below.split('.') {
        if !keys.get(table).is_some_and(|keys| keys.contains(part)) {
            let text = format!("`{name}` is no key that `viaduct keys` lists");
            return Some(text);
        }
        table = part;
    }
    None
}

/// The help of commands that somebody asked for.
struct Helps<'path> {
    viaduct: &'path Path,
    texts: BTreeMap<Vec<String>, String>,
}

impl<'path> Helps<'path> {
    fn new(viaduct: &'path Path) -> Self {
        let texts = BTreeMap::new();
        Self { viaduct, texts }
    }

    /// What is wrong with the words after `viaduct`.
    fn wrong(&mut self, words: &str) -> Result<Option<String>, Box<dyn Error>> {
        let words = words.split(" -- ").next().unwrap_or_default();
        // What is quoted is for somebody else, as are options of a batch system.
        let words: String = words.split('"').step_by(2).collect();
        let words: Vec<&str> = words.split_whitespace().collect();
        let Some(first) = words.first() else {
            return Ok(None);
        };
        // One of several: what follows holds for each.
        for name in first.split('|') {
            if is_placeholder(name) {
                continue;
            }
            let mut path = Vec::new();
            if !name.starts_with('-') {
                if !has_command(self.text(&path)?, name) {
                    return Ok(Some(format!("there is no command `viaduct {name}`")));
                }
                path.push(name.to_owned());
            }
            for name in words.get(1).into_iter().flat_map(|word| word.split('|')) {
                let mut path = path.clone();
                if has_command(self.text(&path)?, name) {
                    path.push(name.to_owned());
                }
                if let Some(wrong) = self.wrong_option(&path, &words)? {
                    return Ok(Some(wrong));
                }
            }
        }
        Ok(None)
    }

    /// Of words with some command, the option that it has not.
    fn wrong_option(
        &mut self,
        path: &[String],
        words: &[&str],
    ) -> Result<Option<String>, io::Error> {
        for word in words {
            let word = word.trim_matches(['[', ']', '"']);
            let option = word.split('=').next().unwrap_or_default();
            if !option.starts_with("--") || option.len() == 2 {
                continue;
            }
            let has = self
                .text(path)?
                .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
            if !has.into_iter().any(|each| each == option) {
                let command = path.join(" ");
                return Ok(Some(format!("`viaduct {command}` takes no {option}")));
            }
        }
        Ok(None)
    }

    fn text(&mut self, path: &[String]) -> Result<&str, io::Error> {
        if !self.texts.contains_key(path) {
            let output = Command::new(self.viaduct)
                .args(path)
                .arg("--help")
                .output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            self.texts.insert(path.to_vec(), text);
        }
        Ok(&self.texts[path])
    }
}

/// Whether a word stands for one that the reader chooses.
fn is_placeholder(word: &str) -> bool {
    let letters = |letter: char| letter.is_ascii_uppercase() || letter == '.';
    word.chars().all(letters)
}

/// Whether a help text lists a command.
fn has_command(help: &str, name: &str) -> bool {
    let mut lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = lines.by_ref().take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    let is_it = |each: &str| each == name;
    names.into_iter().any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_a_page_has_its_line() {
        let page = "Say `one` and\n`two\nthree`.\n\n```console\n$ viaduct run x # not run: long\nout `no`\n```\n`four`\n";
        let expected = [
            (1, "one"),
            (2, "two three"),
            (6, "viaduct run x"),
            (9, "four"),
        ];
        let expected = expected.map(|(line, text)| (line, text.to_owned()));
        assert_eq!(code(page), expected);
    }

    #[test]
    fn a_key_is_found_in_its_table_and_below() {
        let listing = "[links]  rate\n  rate  the rate\n          text\n  model  how\n[hosts]\n  nic  x\n[hosts.model.cpu]\n  post  y\n[hosts.model]\n";
        let keys = keys(listing);
        for right in [
            "links.rate",
            "links.model = \"fluid\"",
            "cpu.post",
            "hosts.model.cpu.post",
            "hosts.csv",
            "result.links",
            "links.rate and more",
        ] {
            assert_eq!(wrong_key(&keys, right), None, "{right}");
        }
        for wrong in [
            "links.rates",
            "links.text",
            "hosts.model.cpu.reap",
            "links.full = 1",
        ] {
            assert!(wrong_key(&keys, wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn commands_are_those_that_the_help_lists() {
        let help = "Does it\n\nCommands:\n  run    Run a study\n         or two\n  keys   List\n\nOptions:\n  set\n";
        assert!(has_command(help, "run") && has_command(help, "keys"));
        assert!(!has_command(help, "presets") && !has_command(help, "set"));
        assert!(is_placeholder("STUDY") && is_placeholder("...") && !is_placeholder("Run"));
    }
}
