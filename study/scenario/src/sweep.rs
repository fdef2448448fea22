//! The points of a sweep one at a time: a point that cannot be read does not stop the others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::builtin;
use crate::diagnostics::{Diagnostic, Diagnostics, Place};
use crate::files::{self, Files};
use crate::keys;
use crate::overrides::Override;
use crate::schema::Run;
use crate::study::{Input, Opened, Point, Study, SweepAxis, no_study, value_text};

/// A study and the keys that it runs over. A clone shares the network that was made last.
#[derive(Clone, Debug)]
pub struct Sweep {
    opened: Opened,
    source: SweepSource,
}

/// What a sweep was read from: with the files it read, enough to read it again anywhere.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SweepSource {
    /// Name of the study or of the scenario file.
    pub name: String,
    /// The file's name in messages.
    pub file_name: String,
    /// The study's text.
    pub text: String,
    /// The overrides, and of each whether it is swept.
    pub overrides: Vec<(String, bool)>,
    /// The texts of the files that the points name, by the path written there.
    pub files: BTreeMap<String, String>,
}

impl Sweep {
    /// Reads a study, built in or a file, and what is put over it; as [`Study::load`], but no
    /// point is made.
    ///
    /// # Errors
    ///
    /// What is wrong with the text and the overrides, whatever the point.
    pub fn load(name_or_path: &str, overrides: &[Override]) -> Result<Self, Diagnostics> {
        let mut source = SweepSource {
            name: name_or_path.to_owned(),
            file_name: format!("studies/{name_or_path}.toml"),
            overrides: owned(overrides),
            ..SweepSource::default()
        };
        if let Some(text) = builtin::study(name_or_path) {
            source.text = text.to_owned();
            // It names no file itself; a value may, as seen from where the command is.
            return Self::open(source, Files::on_disk(Path::new("")));
        }
        let path = Path::new(name_or_path);
        source.text = files::read_text(path).map_err(|reason| no_study(name_or_path, &reason))?;
        name_or_path.clone_into(&mut source.file_name);
        if let Some(stem) = path.file_stem() {
            source.name = stem.to_string_lossy().into_owned();
        }
        let base = path.parent().unwrap_or(Path::new(""));
        Self::open(source, Files::on_disk(base))
    }

    /// Reads a study's text, as [`parse_study`](crate::parse_study) does; no file is opened:
    /// `files` are the texts, by path, of those that it does not carry itself.
    ///
    /// # Errors
    ///
    /// As [`Sweep::load`].
    pub fn from_text(
        name: &str,
        text: &str,
        overrides: &[Override],
        files: BTreeMap<String, String>,
    ) -> Result<Self, Diagnostics> {
        Self::from_source(SweepSource {
            name: name.to_owned(),
            file_name: "study.toml".to_owned(),
            text: text.to_owned(),
            overrides: owned(overrides),
            files,
        })
    }

    /// Reads what [`Sweep::source`] gave; no file is opened.
    ///
    /// # Errors
    ///
    /// As [`Sweep::load`].
    pub fn from_source(source: SweepSource) -> Result<Self, Diagnostics> {
        let mut files = Files::carried();
        for (path, text) in &source.files {
            files.carry(path, text);
        }
        Self::open(source, files)
    }

    fn open(source: SweepSource, files: Files) -> Result<Self, Diagnostics> {
        let overrides: Vec<Override> = source
            .overrides
            .iter()
            .map(|(text, is_swept)| match is_swept {
                true => Override::swept(text.as_str()),
                false => Override::fixed(text.as_str()),
            })
            .collect();
        let input = Input {
            name: &source.name,
            file_name: &source.file_name,
            text: &source.text,
            overrides: &overrides,
        };
        let opened = input.open(files)?;
        if opened.frame.diagnostics.has_errors() {
            return Err(opened.frame.diagnostics);
        }
        let seed = Run::seed.path();
        if let Some(axis) = opened.axes.iter().find(|axis| axis.path == seed) {
            let mut diagnostics = opened.frame.diagnostics.same_sources();
            let error = Diagnostic::error("each point is run with the same seeds");
            let help = "leave run.seed out, and say how many with --seeds N";
            diagnostics.push(error.at(axis.name_place).help(help));
            return Err(diagnostics);
        }
        Ok(Self { opened, source })
    }

    /// What it was read from, with the files that the points made so far have read.
    #[must_use]
    pub fn source(&self) -> SweepSource {
        let mut source = self.source.clone();
        let known = self.opened.frame.files.known().iter();
        let known = known.map(|(path, text)| (path.clone(), text.to_string()));
        source.files.extend(known);
        source
    }

    /// The keys that it runs over, the first one slowest.
    #[must_use]
    pub fn axes(&self) -> Vec<SweepAxis> {
        let axes = self.opened.axes.iter();
        axes.map(|axis| SweepAxis {
            key: axis.path.clone(),
            values: axis
                .values
                .iter()
                .map(|node| self.text(&axis.path, node))
                .collect(),
        })
        .collect()
    }

    fn text(&self, path: &str, node: &crate::document::Node) -> String {
        value_text(path, node, self.opened.frame.set_source)
    }

    /// Points in all; 1 without a swept key.
    #[must_use]
    pub fn point_count(&self) -> usize {
        self.opened
            .axes
            .iter()
            .map(|axis| axis.values.len())
            .product()
    }

    /// The values of a point as a person writes them, by key; empty beyond the last point.
    #[must_use]
    pub fn values(&self, number: usize) -> Vec<(String, String)> {
        let point = point(&self.opened, number).into_iter().flatten();
        point
            .map(|(axis, node)| (axis.path.clone(), self.text(&axis.path, node)))
            .collect()
    }

    /// The seed of the points: it is not swept.
    ///
    /// # Errors
    ///
    /// When no point can be read: what is wrong with the first.
    pub fn seed(&mut self) -> Result<u64, Diagnostics> {
        let mut wrong = None;
        for number in 0..self.point_count() {
            match self.point(number) {
                Ok(study) => return Ok(study.config.run.seed),
                Err(diagnostics) => wrong = wrong.or(Some(diagnostics)),
            }
        }
        Err(wrong.unwrap_or_default())
    }

    /// Makes points until each file that any of them names was read, so that
    /// [`Sweep::source`] has them all. What is wrong with a point is found again when it is made.
    pub fn gather_files(&mut self) {
        // A number names no file; which files count may hang on several other values.
        let axes = self.opened.axes.iter();
        let axes: Vec<(usize, bool)> = axes
            .map(|axis| (axis.values.len(), axis_unit(&axis.path).is_some()))
            .collect();
        let mut read = BTreeSet::new();
        for number in 0..self.point_count() {
            let mut rest = number;
            let mut words = Vec::new();
            for &(count, is_number) in axes.iter().rev() {
                words.extend((!is_number).then_some(rest % count));
                rest /= count;
            }
            // A point that cannot be made may not have come to its files.
            if !read.contains(&words) && self.point(number).is_ok() {
                read.insert(words);
            }
        }
    }

    /// Makes a point, from 0, the last key fastest.
    ///
    /// # Errors
    ///
    /// What is wrong with this point.
    pub fn point(&mut self, number: usize) -> Result<Study, Diagnostics> {
        let Opened { frame, tree, axes } = &mut self.opened;
        let mut diagnostics = frame.diagnostics.same_sources();
        let axes = &*axes;
        let Some(point) = point_of(axes, number) else {
            diagnostics.push(Diagnostic::error(format!("there is no point {number}")));
            return Err(diagnostics);
        };
        let study = frame.resolve_into(tree, &point, &mut diagnostics);
        match study {
            Some(mut study) if !diagnostics.has_errors() => {
                study.warnings = diagnostics;
                Ok(study)
            }
            _ => Err(diagnostics),
        }
    }
}

fn owned(overrides: &[Override]) -> Vec<(String, bool)> {
    let parts = overrides.iter().map(Override::parts);
    parts
        .map(|(text, is_swept)| (text.to_owned(), is_swept))
        .collect()
}

fn point(opened: &Opened, number: usize) -> Option<Point<'_>> {
    point_of(&opened.axes, number)
}

fn point_of(axes: &[crate::overrides::Setter], mut number: usize) -> Option<Point<'_>> {
    let mut point = Point::new();
    for axis in axes.iter().rev() {
        let count = axis.values.len();
        point.push((axis, axis.values.get(number % count.max(1))?));
        number /= count.max(1);
    }
    point.reverse();
    (number == 0).then_some(point)
}

/// The unit in which [`axis_number`] gives a key's values, as the end of a column's name: `us`,
/// `bytes`, `per_s`; none of a key whose values are no numbers.
#[must_use]
pub fn axis_unit(path: &str) -> Option<&'static str> {
    keys::key_at(path).and_then(|(_, key)| key.kind.number_unit())
}

/// A key's value, as a person writes it, as a number; none where it is a word, a list or without
/// end, or cannot be read.
#[must_use]
pub fn axis_number(path: &str, text: &str) -> Option<f64> {
    let (_, key) = keys::key_at(path)?;
    let nowhere = Place {
        source: 0,
        start: 0,
        end: text.len(),
    };
    let node = crate::overrides::value(key, text, nowhere);
    let value = key.kind.read(&node, true).ok()?;
    value.number().filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(overrides: &[&str]) -> Sweep {
        let overrides: Vec<Override> = overrides
            .iter()
            .map(|&text| Override::listed(text))
            .collect();
        Sweep::load("two-hosts", &overrides).expect("a study that is built in")
    }

    #[test]
    fn points_are_the_product_with_the_last_key_fastest() {
        let mut sweep = sweep(&[
            "traffic.size=64 B,1 KiB",
            "hosts.prepost=1..3:1",
            "run.seed=4",
        ]);
        assert_eq!(sweep.point_count(), 6);
        let all: Vec<String> = (0..6)
            .map(|number| {
                let values = sweep.values(number);
                let values: Vec<&str> = values.iter().map(|(_, value)| value.as_str()).collect();
                values.join(" ")
            })
            .collect();
        let wanted = [
            "64 B 1", "64 B 2", "64 B 3", "1 KiB 1", "1 KiB 2", "1 KiB 3",
        ];
        assert_eq!(all, wanted);
        let study = sweep.point(4).expect("a sound point");
        assert_eq!(study.value("traffic.size").as_deref(), Some("1 KiB"));
        let numbers = sweep.values(4);
        let numbers = numbers.iter().map(|(key, value)| axis_number(key, value));
        assert_eq!(numbers.collect::<Vec<_>>(), [Some(1024.0), Some(2.0)]);
        assert_eq!(study.config.run.seed, 4);
        assert!(sweep.point(6).is_err());
        assert_eq!(axis_unit("traffic.size"), Some("bytes"));
        assert_eq!(axis_unit("hosts.nic"), None);
    }

    #[test]
    fn a_wrong_value_spoils_its_own_points_alone() {
        let mut sweep = sweep(&["hosts.nic=giganet-clan,giganet-clam,ideal"]);
        let sound: Vec<bool> = (0..3).map(|number| sweep.point(number).is_ok()).collect();
        assert_eq!(sound, [true, false, true]);
    }

    #[test]
    fn a_sweep_read_from_its_source_gives_the_same_points() {
        let mut first = sweep(&["traffic.size=64 B,1 KiB"]);
        let resolved = first.point(1).expect("a sound point").resolved_toml();
        let mut again = Sweep::from_source(first.source()).expect("its own source");
        let point = again.point(1).expect("a sound point");
        assert_eq!(point.resolved_toml(), resolved);
    }

    #[test]
    fn seeds_are_not_swept() {
        let seeds = [Override::listed("run.seed=1,2")];
        let error = Sweep::load("two-hosts", &seeds)
            .expect_err("a swept seed")
            .to_string();
        assert!(error.contains("--seeds N"), "{error}");
    }
}
