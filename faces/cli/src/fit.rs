//! `viaduct fit`: a preset from measurements of this machine.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use viaduct_fit::{Fit, FitError, Measured};
use viaduct_scenario::{ProgramsError, load_preset, read_text};

use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output;
use crate::picture::try_to_open;

#[derive(Args, Debug)]
pub(crate) struct FitArguments {
    /// What `viaduct measure latency --on shm --json` wrote, or `bandwidth`, or `rate`; several
    /// are fitted together, those of a second machine are held against the fit
    #[arg(value_name = "MEASURED.json", required = true)]
    pub(crate) measured: Vec<PathBuf>,
    /// The preset whose numbers are fitted: its name or file
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) base: String,
    /// The file for the new preset, as in `-o my-host.toml`
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

/// Fits, writes the preset, and shows how well it predicts what the fit did not see.
pub(crate) fn fit(arguments: &FitArguments) -> Result<Exit, Failure> {
    let base = load_preset(&arguments.base)?;
    let target = Target::of(&arguments.out, &arguments.base)?;
    let mut measured = Vec::new();
    let mut files = Vec::new();
    for file in &arguments.measured {
        let shown = file.display().to_string();
        let text = read_text(file).map_err(|problem| {
            Failure::new(
                format!("cannot read `{shown}`: {problem}"),
                "it is what `viaduct measure latency --on shm --json > measured.json` writes",
            )
        })?;
        measured.extend(Measured::read(&shown, &text).map_err(failure)?);
        // Not its folder: the preset may go to somebody who has none of that name.
        let name = file.file_name().unwrap_or(file.as_os_str());
        files.push(name.to_string_lossy().into_owned());
    }

    let interrupt = Interrupt::listen();
    let asked = move || interrupt.is_asked();
    let fit = match viaduct_fit::fit(&base, &arguments.base, measured, &asked) {
        Ok(fit) => fit,
        Err(FitError::Stopped) => return Ok(Exit::Interrupted),
        Err(error) => return Err(failure(error)),
    };
    target.write(&fit, &files)?;
    let path = arguments.out.display();
    output::result(&format!(
        "{}\nwritten: {path}; viaduct measure latency --on sim:{path} predicts with it\n",
        fit.table()
    ))?;
    for (title, help) in fit.warnings() {
        output::message("warning", &title, Some(&help));
    }
    Ok(Exit::Fine)
}

/// Where the preset goes, and how it names its base from there.
#[derive(Debug)]
struct Target {
    path: PathBuf,
    name: String,
    inherits: String,
}

impl Target {
    /// A file that can be written: a fit takes its time.
    fn of(path: &Path, base: &str) -> Result<Self, Failure> {
        let shown = path.display();
        let (name, ending) = (path.file_stem(), path.extension());
        let Some((name, _)) = name
            .and_then(|name| name.to_str())
            .zip(ending.filter(|ending| *ending == "toml"))
        else {
            return Err(Failure::new(
                format!("-o {shown}: the file of a preset ends in .toml"),
                "for instance -o my-host.toml",
            ));
        };
        try_to_open(path).map_err(|error| unable(path, &error))?;
        let inherits = if base.ends_with(".toml") {
            let folder = match path.parent() {
                Some(folder) if folder != Path::new("") => folder,
                _ => Path::new("."),
            };
            let folder = fs::canonicalize(folder).map_err(|error| unable(path, &error))?;
            let base_path = fs::canonicalize(base).map_err(|error| unable(path, &error))?;
            if fs::canonicalize(path).is_ok_and(|path| path == base_path) {
                return Err(Failure::new(
                    format!("-o {shown} is the base, which the new preset inherits"),
                    "give the new preset a file of its own",
                ));
            }
            relative(&base_path, &folder)
        } else {
            Some(base.to_owned())
        };
        let Some(inherits) = inherits else {
            return Err(Failure::new(
                format!("-o {shown}: the base `{base}` has a path that is no text"),
                "copy the base beside the new preset",
            ));
        };
        Ok(Self {
            path: path.to_owned(),
            name: name.to_owned(),
            inherits,
        })
    }

    fn write(&self, fit: &Fit, files: &[String]) -> Result<(), Failure> {
        let text = fit.preset_text(&self.name, &self.inherits, files);
        fs::write(&self.path, text).map_err(|error| unable(&self.path, &error))?;
        load_preset(&self.path.to_string_lossy())?;
        Ok(())
    }
}

fn unable(path: &Path, error: &io::Error) -> Failure {
    Failure::plain(format!(
        "-o {}: cannot write the file: {error}",
        path.display()
    ))
}

fn failure(error: FitError) -> Failure {
    match error {
        FitError::Unusable { problem, help } => Failure::new(problem, help),
        FitError::Base(ProgramsError::Wrong(diagnostics)) => Failure::from(diagnostics),
        FitError::Base(ProgramsError::NoLink { model }) => Failure::new(
            format!("the base {model} has no [link]: two hosts cannot be joined"),
            "take another, or give it the table in a preset of your own: viaduct keys preset.link",
        ),
        FitError::Broken { .. } => Failure::Broken {
            title: error.to_string(),
            help: None,
        },
        other => Failure::plain(other),
    }
}

/// The way from a folder to a file, both without links and `..`; `None` where there is none, or
/// none that is text.
fn relative(file: &Path, folder: &Path) -> Option<String> {
    let (file, folder): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (file.components().collect(), folder.components().collect());
    let pairs = file.iter().zip(&folder);
    let common = pairs.take_while(|(a, b)| a == b).count();
    if common == 0 {
        return None;
    }
    let up = folder[common..].iter().map(|_| Some(".."));
    let down = file[common..].iter().map(|part| part.as_os_str().to_str());
    let parts: Vec<&str> = up.chain(down).collect::<Option<_>>()?;
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_named_from_where_the_preset_stands() {
        let way = |file, folder| relative(Path::new(file), Path::new(folder));
        assert_eq!(way("/a/base.toml", "/a"), Some("base.toml".to_owned()));
        assert_eq!(
            way("/a/b/base.toml", "/a/c/d"),
            Some("../../b/base.toml".to_owned())
        );
        assert_eq!(way("base.toml", "/a"), None);
    }
}
