//! A sweep as a job array of Slurm: a script, and a list with the cells of each element.
//!
//! Each element runs `viaduct sweep --resume DIR --cells FROM..TO` and leaves a journal of its own
//! in the directory, so that no two nodes write into one file.

use std::path::{Path, absolute};

use super::Begun;
use crate::failure::Failure;
use crate::run::file_name;

const SCRIPT_FILE: &str = "array.sh";
const LIST_FILE: &str = "array.txt";

/// Writes script and list, and says what comes next.
pub(super) fn write(begun: &Begun, options: &str, elements_max: u32) -> Result<String, Failure> {
    if options.contains(['\n', '\r']) {
        return Err(Failure::new(
            "--slurm: options stand on one line",
            "for example --slurm \"--partition=short --time=01:00:00\"",
        ));
    }
    let place = |path: &Path| {
        absolute(path).map_err(|error| {
            Failure::plain(format_args!("cannot find `{}`: {error}", path.display()))
        })
    };
    let directory = place(&begun.path)?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::plain(format_args!("cannot find this program: {error}")))?;
    let cells = begun.campaign.plan().cells();
    let elements = elements_max.min(cells);
    let first = |element: u32| u64::from(element) * u64::from(cells) / u64::from(elements);
    let list: String = (0..elements)
        .map(|element| format!("{}..{}\n", first(element), first(element + 1)))
        .collect();
    let (directory, program) = (quoted(&directory)?, quoted(&program)?);
    let name = file_name(begun.campaign.plan().study());
    let options = match options.trim() {
        "" => String::new(),
        options => format!("#SBATCH {options}\n"),
    };
    let script = format!(
        "#!/bin/sh\n\
         #SBATCH --job-name=viaduct-{name}\n\
         #SBATCH --array=0-{last}\n\
         {options}\
         # {cells} cells; line N + 1 of {LIST_FILE} has the cells of element N. An element that is\n\
         # run again goes on where it was.\n\
         directory={directory}\n\
         cells=$(sed -n \"$((SLURM_ARRAY_TASK_ID + 1))p\" \"$directory/{LIST_FILE}\") || exit 1\n\
         exec {program} sweep --resume \"$directory\" --cells \"$cells\" \\\n    \
         --threads \"${{SLURM_CPUS_PER_TASK:-1}}\"\n",
        last = elements - 1
    );
    begun.campaign.replace(LIST_FILE, list.as_bytes())?;
    begun.campaign.replace(SCRIPT_FILE, script.as_bytes())?;
    let path = begun.path.display();
    Ok(format!(
        "{cells} cells in {elements} elements of a job array\n  \
         next     sbatch {path}/{SCRIPT_FILE}\n  \
         then     viaduct sweep --resume {path}   (table and curves; runs what is missing)\n"
    ))
}

/// A path as the shell reads it.
fn quoted(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|text| !text.contains(['\n', '\r']));
    let text = text.ok_or_else(|| {
        Failure::new(
            format!("`{}` cannot stand in a script", path.display()),
            "choose another place with `--out DIR`",
        )
    })?;
    Ok(format!("'{}'", text.replace('\'', "'\\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_the_shell() {
        assert_eq!(
            quoted(Path::new("/a b/it's")).ok(),
            Some("'/a b/it'\\''s'".to_owned())
        );
        assert!(quoted(Path::new("a\nb")).is_err());
    }
}
