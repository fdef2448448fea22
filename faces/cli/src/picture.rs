//! Pictures in files, and a measurement as one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use viaduct_measure::{Comparison, Report, Row, Test};
use viaduct_plot::{Axis, LineChart, Marks, Notation, Picture, Scale, Series};

use crate::failure::Failure;

/// Where a picture goes.
#[derive(Debug)]
pub(crate) struct PictureFile {
    path: PathBuf,
    format: Format,
    /// The flag that names it.
    flag: &'static str,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Format {
    Svg,
    Pdf,
    Png,
}

impl PictureFile {
    /// The file of a name, which can be written: whoever measures for minutes wants to know that
    /// before.
    ///
    /// # Errors
    ///
    /// When its ending is of no format that is drawn here, or when it cannot be written.
    pub(crate) fn at(path: &Path, flag: &'static str) -> Result<Self, Failure> {
        let file = Self {
            path: path.to_owned(),
            format: format(path, flag)?,
            flag,
        };
        try_to_open(path).map_err(|error| file.unable(&error))?;
        Ok(file)
    }

    /// Draws reports of one plan, one line each.
    ///
    /// # Errors
    ///
    /// When the file cannot be written any more.
    pub(crate) fn draw(&self, reports: &[Report]) -> Result<(), Failure> {
        // Stopped at once, there is nothing to draw, and no reason to lose what was drawn before.
        match chart(&Comparison::new(reports)) {
            Some(chart) => self.draw_chart(&chart),
            None => Ok(()),
        }
    }

    /// Draws a chart.
    ///
    /// # Errors
    ///
    /// As [`PictureFile::draw`].
    pub(crate) fn draw_chart(&self, chart: &LineChart) -> Result<(), Failure> {
        self.write(&chart.draw(&Marks::default(), viaduct_plot::Format::PAPER))
    }

    /// Writes a picture.
    ///
    /// # Errors
    ///
    /// As [`PictureFile::draw`].
    pub(crate) fn write(&self, picture: &Picture) -> Result<(), Failure> {
        let bytes = match self.format {
            Format::Svg => picture.to_svg().into_bytes(),
            Format::Pdf => picture.to_pdf(),
            Format::Png => picture.to_png(),
        };
        fs::write(&self.path, bytes).map_err(|error| self.unable(&error))
    }

    fn unable(&self, error: &io::Error) -> Failure {
        Failure::plain(format!(
            "{} {}: cannot write the file: {error}",
            self.flag,
            self.path.display()
        ))
    }
}

fn format(path: &Path, flag: &str) -> Result<Format, Failure> {
    let ending = path.extension().unwrap_or_default();
    if ending.eq_ignore_ascii_case("svg") {
        Ok(Format::Svg)
    } else if ending.eq_ignore_ascii_case("pdf") {
        Ok(Format::Pdf)
    } else if ending.eq_ignore_ascii_case("png") {
        Ok(Format::Png)
    } else {
        Err(Failure::new(
            format!(
                "{flag} {}: the file's ending says no format of a picture",
                path.display()
            ),
            "let it end with .svg, .pdf or .png",
        ))
    }
}

/// Whether a file can be written. Leaves what is there as it is, and nothing where nothing is.
pub(crate) fn try_to_open(path: &Path) -> io::Result<()> {
    match File::create_new(path) {
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            OpenOptions::new().write(true).open(path).map(drop)
        }
        Err(error) => Err(error),
    }
}

/// Names in a row, and what they have in common at their beginning said once: `rnic-gen3, gen4`.
pub(crate) fn compared(names: &[String]) -> String {
    let mut shown: Vec<&str> = names.iter().map(String::as_str).collect();
    // Of the words of a name; the first name stands whole.
    let common = |names: &[&str]| {
        let first = names.first().copied().unwrap_or_default();
        let ends = first.char_indices().filter(|(_, c)| ":-_ ".contains(*c));
        let ends = ends.map(|(at, c)| at + c.len_utf8()).rev();
        let mut ends = ends.filter(|&end| names.iter().all(|name| name.starts_with(&first[..end])));
        ends.next().unwrap_or(0)
    };
    if shown.iter().all(|name| name.starts_with("sim:")) {
        for name in &mut shown {
            *name = &name["sim:".len()..];
        }
    }
    let end = match shown.len() {
        0 | 1 => 0,
        _ => common(&shown),
    };
    let parts = shown.iter().enumerate();
    let parts = parts.map(|(index, name)| if index == 0 { name } else { &name[end..] });
    parts.collect::<Vec<_>>().join(", ")
}

/// The chart of reports of one test, one line each; none where the first has no row.
pub(crate) fn chart(comparison: &Comparison<'_>) -> Option<LineChart> {
    let reports = comparison.reports();
    let first = reports.first().filter(|first| !first.rows.is_empty())?;
    let test = first.test;
    let names = comparison.names();
    let series = names.iter().zip(reports).map(|(name, report)| {
        let rows = report.rows.iter();
        let points = rows.map(|row| (f64::from(row.variant()), row.figure(test)));
        Series {
            name: name.clone(),
            points: points.collect(),
        }
    });
    let has_loads = reports.iter().any(Report::has_loads);
    let (x, x_scale, notation) = match test {
        Test::Latency | Test::Bandwidth | Test::Rate => {
            ("size of a message", Scale::Binary, Notation::Bytes)
        }
        Test::Cq if has_loads => ("offered load, requests/s", Scale::Linear, Notation::Plain),
        Test::Cq => ("connections", Scale::Binary, Notation::Plain),
    };
    // What differs by orders of magnitude from fabric to fabric is seen by its logarithm.
    let (y, scale) = match test {
        Test::Latency => ("half a round trip, us (median)", Scale::Decimal),
        Test::Bandwidth => ("bandwidth, MB/s", Scale::Linear),
        Test::Rate => ("messages/s", Scale::Decimal),
        Test::Cq if has_loads => ("answered, requests/s", Scale::Linear),
        Test::Cq => ("requests/s", Scale::Decimal),
    };
    let settings = [
        format!("level {}", first.level),
        first.mode.name().to_owned(),
    ];
    let connections = first.rows.iter().find_map(|row| match row {
        Row::CompletionQueue(row) if has_loads => Some(format!("{} connections", row.connections)),
        _ => None,
    });
    let settings = settings.into_iter().chain(connections);
    let settings = settings.chain(first.touched.then(|| "touched".to_owned()));
    let settings: Vec<String> = settings
        .chain((first.memory != "shared").then(|| format!("{} memory", first.memory)))
        .collect();
    Some(LineChart {
        title: format!(
            "{}: {} ({})",
            compared(&names),
            test.name(),
            settings.join(", ")
        ),
        x: Axis {
            title: x.to_owned(),
            scale: x_scale,
            notation,
        },
        y: Axis {
            title: y.to_owned(),
            scale,
            notation: Notation::Plain,
        },
        series: series.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_is_said_once() {
        let said =
            |names: &[&str]| compared(&names.iter().map(|&it| it.to_owned()).collect::<Vec<_>>());
        let three = ["sim:rnic-gen3", "sim:rnic-gen4", "sim:rnic-gen5"];
        assert_eq!(said(&three), "rnic-gen3, gen4, gen5");
        assert_eq!(said(&["sim:clan", "sim:clan-pio"]), "clan, clan-pio");
        assert_eq!(said(&["shm", "sim:clan-pio"]), "shm, sim:clan-pio");
        assert_eq!(said(&["shm on a", "shm on b"]), "shm on a, b");
        assert_eq!(said(&["sim:clan-pio"]), "clan-pio");
        assert_eq!(said(&["shm"]), "shm");
    }

    #[test]
    fn the_ending_says_the_format() {
        for (path, wanted) in [
            ("a.svg", Format::Svg),
            ("b.c/A.PNG", Format::Png),
            ("x.svg.png", Format::Png),
            ("p.pdf", Format::Pdf),
        ] {
            assert_eq!(format(Path::new(path), "-o").ok(), Some(wanted), "{path}");
        }
        for wrong in ["a", "svg", ".svg", "a.gif", "a.svg/b", ""] {
            assert!(format(Path::new(wrong), "-o").is_err(), "{wrong}");
        }
    }
}
