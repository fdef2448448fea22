//! `viaduct report`: run directories, or measurements, beside one another, as a page.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use viaduct_report::{ShownStudy, comparison_page, run_page};

use crate::failure::{Exit, Failure};
use crate::measurements::{Measurements, is_measurement};
use crate::output;
use crate::picture::try_to_open;
use crate::showing::FormerStudy;

/// More would not fit beside one another.
const RUNS_MAX: usize = 12;

#[derive(Args, Debug)]
pub(crate) struct ReportArguments {
    /// Directories that `viaduct run` left; of one alone its page is written again. Or files that
    /// `viaduct measure --json` wrote, of several machines perhaps
    #[arg(value_name = "RUN|MEASURED.json", required = true)]
    runs: Vec<PathBuf>,
    /// Where to write the page
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
}

/// Writes the page.
pub(crate) fn report(arguments: &ReportArguments) -> Result<Exit, Failure> {
    if arguments.runs.len() > RUNS_MAX {
        let title = format!("{} runs are more than a page shows", arguments.runs.len());
        return Err(Failure::new(title, format!("give up to {RUNS_MAX}")));
    }
    let path = &arguments.output;
    let refused = |error| {
        Failure::plain(format_args!(
            "-o {}: cannot write the file: {error}",
            path.display()
        ))
    };
    try_to_open(path).map_err(refused)?;
    if arguments.runs.iter().all(|path| is_measurement(path)) {
        let page = Measurements::read(&arguments.runs)?.page()?;
        fs::write(path, page).map_err(refused)?;
        output::result(&format!("  report   {}\n", path.display()))?;
        return Ok(Exit::Fine);
    }
    if let Some(file) = arguments.runs.iter().find(|path| is_measurement(path)) {
        return Err(Failure::new(
            format!("`{}` is a measurement, and others are runs", file.display()),
            "a page has the ones or the others",
        ));
    }
    let runs = arguments.runs.iter().map(|run| FormerStudy::read(run));
    let runs: Vec<FormerStudy> = runs.collect::<Result<_, Failure>>()?;
    let page = match runs.as_slice() {
        [only] => run_page(&only.shown(None)),
        _ => {
            let names = names(&arguments.runs);
            let shown = runs
                .iter()
                .zip(names)
                .map(|(run, name)| run.shown(Some(name)));
            comparison_page(&shown.collect::<Vec<ShownStudy<'_>>>())
        }
    };
    fs::write(path, page).map_err(refused)?;
    output::result(&format!("  report   {}\n", path.display()))?;
    Ok(Exit::Fine)
}

/// The last part of each path, or the whole of it where two have the same last part.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let short = |path: &Path| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let shorts: Vec<String> = paths.iter().map(|path| short(path)).collect();
    let is_alone = |name: &String| shorts.iter().filter(|other| *other == name).count() == 1;
    let names = paths.iter().zip(&shorts);
    names
        .map(|(path, name)| match is_alone(name) {
            true => name.clone(),
            false => path.display().to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_named_by_their_directories() {
        let of = |paths: &[&str]| names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(of(&["runs/a", "runs/b/"]), ["a", "b"]);
        assert_eq!(of(&["x/a", "y/a", "b"]), ["x/a", "y/a", "b"]);
        assert_eq!(of(&["..", "b"]), ["..", "b"]);
    }
}
