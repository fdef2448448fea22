//! What a text is that is not TOML, where it can be told: files of other kinds are handed over by
//! mistake, and a hundred errors of syntax would not say which mistake it was.

use std::ops::Range;

/// Lines looked at: what a file is shows at its beginning.
const LINES_MAX: usize = 20;

/// So many lines without any table or key are no mistake of one line: one error says it for all.
const PROSE_LINES_MIN: usize = 4;

/// What the text is, and what to do with it; none where it reads like TOML with mistakes.
#[derive(Debug)]
pub(crate) struct Foreign {
    /// In a few words, with an article.
    pub(crate) noun: &'static str,
    pub(crate) help: &'static str,
    /// The first line that says something, in bytes of the text.
    pub(crate) line: Range<usize>,
}

const GRAPH_HELP: &str = "a study names it in [network]: topology = \"graph\" and file = \"FILE\"";
const TABLE_HELP: &str = "links are written one per line, as in `n0 s0 rate=\"10 Gbit/s\"`, \
    and named by [network] file; messages have the columns time_us,source,target,bytes";
const TOML_HELP: &str = "write a table as [run] on a line of its own and a key as \
    until = \"10 ms\"; all keys: viaduct keys";

/// Looks at the first lines that say something.
pub(crate) fn recognise(whole: &str) -> Option<Foreign> {
    let text = whole.trim_start_matches('\u{feff}');
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.split_once('#').map_or(line, |(before, _)| before))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(LINES_MAX)
        .collect();
    let first = *lines.first()?;
    let start = whole.find(first)?;
    let line = start..start + first.len();
    let of = |noun, help| Some(Foreign { noun, help, line });
    if first.starts_with('<') {
        return match text.contains("<graphml") {
            true => of("GraphML", GRAPH_HELP),
            false => of("XML", TOML_HELP),
        };
    }
    if first.starts_with('{') || ["[", "[{"].contains(&first) {
        return match ["\"links\"", "\"edges\""]
            .iter()
            .any(|key| text.contains(key))
        {
            true => of("a graph in JSON", GRAPH_HELP),
            false => of("JSON", TOML_HELP),
        };
    }
    if lines.iter().any(|line| is_toml(line)) {
        return None;
    }
    let names: Vec<&str> = first.split(',').map(str::trim).collect();
    if names.contains(&"source") && names.contains(&"target") {
        let help = "a study names it in [traffic]: arrivals = \"list\" and file = \"FILE\"";
        return of("a list of messages", help);
    }
    if lines.iter().all(|line| is_yaml(line)) {
        return of("YAML", TOML_HELP);
    }
    if lines.iter().all(|line| is_edge(line)) {
        return of("a list of links", GRAPH_HELP);
    }
    if has_columns(&lines) {
        return of("a table with commas between its columns", TABLE_HELP);
    }
    if lines.len() >= PROSE_LINES_MIN {
        return of("text without a table or a key", TOML_HELP);
    }
    None
}

/// Several lines, each with the same number of commas, and no two words between them: prose has
/// commas, too.
fn has_columns(lines: &[&str]) -> bool {
    let columns = |line: &str| {
        let mut fields = line.split(',');
        let are_single = fields.all(|field| field.split_whitespace().count() <= 1);
        are_single.then(|| line.matches(',').count())
    };
    let first = lines.first().and_then(|line| columns(line));
    lines.len() > 1 && first > Some(0) && lines.iter().all(|line| columns(line) == first)
}

/// A heading, or a key with its equals sign.
fn is_toml(line: &str) -> bool {
    let is_heading = line.starts_with('[') && line.ends_with(']');
    let key = line.split_once('=').map(|(key, _)| key.trim());
    is_heading || key.is_some_and(|key| !key.contains(char::is_whitespace))
}

/// `key:`, `key: value`, `- item` or `---`.
fn is_yaml(line: &str) -> bool {
    let is_item = line == "-" || line.starts_with("- ") || line == "---";
    is_item || line.ends_with(':') || line.contains(": ")
}

/// Two names, with attributes perhaps, or a line of words that only such lists have.
fn is_edge(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    let Some(second) = words.next() else {
        return ["directed", "multigraph"].contains(&first);
    };
    let has_prose =
        |mut words: std::str::SplitWhitespace<'_>| words.any(|word| !word.contains('='));
    ["hosts", "ports"].contains(&first)
        || !second.contains('=') && (line.contains('"') || !has_prose(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_kinds_of_files_are_recognised() {
        for (text, noun) in [
            (
                "hosts n*\nn0 s0\ns0 s1 rate=\"856 Mbit/s\" latency=\"0.5 us\"\n",
                "a list of links",
            ),
            ("n0 s0\n# the middle\ns0 s1\n", "a list of links"),
            ("\u{feff}<?xml version=\"1.0\"?>\n<graphml>", "GraphML"),
            ("<html>", "XML"),
            ("{\"nodes\": [], \"links\": []}", "a graph in JSON"),
            ("{\n  \"run\": {}\n}", "JSON"),
            (
                "time_us,source,target,bytes\n0,0,1,64\n",
                "a list of messages",
            ),
            (
                "s0,s1,10\ns1,s2,10\n",
                "a table with commas between its columns",
            ),
            (
                "s0 s1 10 Gbit/s\ns1 s2 10 Gbit/s\ns2 s3 1 Gbit/s\ns3 s4 1 Gbit/s\n",
                "text without a table or a key",
            ),
            ("run:\n  until: 10 ms\n", "YAML"),
            ("---\nstudy: a = b\n", "YAML"),
        ] {
            let found = recognise(text).map(|foreign| foreign.noun);
            assert_eq!(found, Some(noun), "{text}");
        }
    }

    #[test]
    fn toml_with_mistakes_and_prose_stay_what_they_are() {
        for text in [
            "",
            "[run]\nuntil = 10 ms\n",
            "until = \n",
            "[run\nuntil = \"1 s\"",
            "study: one\n[run]\n",
            "These are words of a person who writes no study.\n",
        ] {
            assert!(recognise(text).is_none(), "{text}");
        }
    }
}
