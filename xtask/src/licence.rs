//! Licence expressions: which terms the libraries we link may have.

/// Terms that a user of ours can live with without asking anybody.
const ALLOWED: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether an SPDX expression leaves a choice in which every licence is allowed.
///
/// `/` counts as `OR`, as old packages write it. An expression that cannot be read is not allowed.
pub(crate) fn is_allowed(expression: &str) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = Words {
        words: spaced.split_whitespace().collect(),
        next: 0,
    };
    let allowed = words.alternatives();
    words.next == words.words.len() && allowed == Some(true)
}

struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    fn take_if(&mut self, word: &str) -> bool {
        let found = self.words.get(self.next) == Some(&word);
        self.next += usize::from(found);
        found
    }

    fn take(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.next).copied()?;
        self.next += 1;
        Some(word)
    }

    fn alternatives(&mut self) -> Option<bool> {
        let mut allowed = self.conjunction()?;
        while self.take_if("OR") {
            allowed |= self.conjunction()?;
        }
        Some(allowed)
    }

    fn conjunction(&mut self) -> Option<bool> {
        let mut allowed = self.term()?;
        while self.take_if("AND") {
            allowed &= self.term()?;
        }
        Some(allowed)
    }

    fn term(&mut self) -> Option<bool> {
        if self.take_if("(") {
            let allowed = self.alternatives()?;
            return self.take_if(")").then_some(allowed);
        }
        let mut licence = self.take()?.to_owned();
        if self.take_if("WITH") {
            licence = format!("{licence} WITH {}", self.take()?);
        }
        Some(ALLOWED.contains(&licence.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn one_allowed_alternative_is_enough() {
        assert!(is_allowed("MIT"));
        assert!(is_allowed("GPL-3.0 OR MIT"));
        assert!(is_allowed("MIT/Apache-2.0"));
        assert!(is_allowed("Apache-2.0 WITH LLVM-exception OR LGPL-2.1"));
        assert!(!is_allowed("LGPL-2.1-or-later OR MPL-2.0"));
    }

    #[test]
    fn every_part_of_a_conjunction_counts() {
        assert!(is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!is_allowed("(MIT OR Apache-2.0) AND NCSA"));
        assert!(!is_allowed("MIT WITH Classpath-exception-2.0"));
    }

    #[test]
    fn what_cannot_be_read_is_not_allowed() {
        for expression in ["", "(MIT", "MIT MIT", "MIT OR", "MIT)", "OR MIT"] {
            assert!(!is_allowed(expression), "{expression:?}");
        }
    }
}
