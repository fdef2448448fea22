//! Names by number, in one piece of memory.

/// Names of hosts or of switches, by number: some bytes each, no allocation of its own.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Names {
    text: String,
    /// Where each name ends in `text`.
    ends: Vec<u32>,
}

impl Names {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, number: u32) -> &str {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[number] as usize]
    }

    /// Adds a name. All names of one kind have fewer than 2^32 bytes: a million of 255.
    pub(crate) fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len() as u32);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len() as u32).map(|number| self.get(number))
    }

    /// Bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.text.len() + size_of_val(&*self.ends)) as u64
    }
}

impl<T: AsRef<str>> FromIterator<T> for Names {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        let mut all = Self::default();
        for name in names {
            all.push(name.as_ref());
        }
        all.text.shrink_to_fit();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_by_number() {
        let names: Names = ["s0", "", "a longer one"].iter().collect();
        assert_eq!(names.len(), 3);
        assert_eq!(names.iter().collect::<Vec<_>>(), ["s0", "", "a longer one"]);
        assert_eq!((names.get(0), names.get(2)), ("s0", "a longer one"));
        assert_eq!(names.memory_bytes(), 14 + 12);
    }
}
