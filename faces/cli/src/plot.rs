//! `viaduct plot`: a picture of a run directory, or of measurements, for a paper, and its numbers
//! beside it.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use viaduct_report::{ShownStudy, Subject, draw};

use crate::failure::{Exit, Failure};
use crate::measurements::{Measurements, is_measurement};
use crate::output;
use crate::picture::{PictureFile, try_to_open};
use crate::showing::FormerStudy;

#[derive(Args, Debug)]
pub(crate) struct PlotArguments {
    /// A directory that `viaduct run` left, or files that `viaduct measure --json` wrote: one line
    /// each
    #[arg(value_name = "RUN|MEASURED.json", required = true)]
    sources: Vec<PathBuf>,
    /// What to draw of a run
    #[arg(long, value_name = "WHAT")]
    what: Option<What>,
    /// Where to write it: .svg, .pdf or .png; its numbers go beside it, with the ending .csv
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Of a sweep, only the cell of this number, from 0 [default: all that a picture holds; of
    /// links the first]
    #[arg(long, value_name = "N")]
    cell: Option<usize>,
    /// Of several seeds, only this one
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Share of messages over latency
    Latency,
    /// Share of messages that are slower, by its logarithm
    Tail,
    /// How busy each link is, laid out as the network is
    Links,
    /// What the deepest queues of links held over simulated time
    Queues,
    /// Where the mean latency goes
    Stages,
    /// Mean latency over simulated time
    Time,
}

impl What {
    const fn subject(self) -> Subject {
        match self {
            Self::Latency => Subject::Latency,
            Self::Tail => Subject::Tail,
            Self::Links => Subject::Links,
            Self::Queues => Subject::Queues,
            Self::Stages => Subject::Stages,
            Self::Time => Subject::Time,
        }
    }
}

/// Draws one picture.
pub(crate) fn plot(arguments: &PlotArguments) -> Result<Exit, Failure> {
    let file = PictureFile::at(&arguments.output, "-o")?;
    let numbers = arguments.output.with_extension("csv");
    let refused = |error| {
        let path = numbers.display();
        Failure::plain(format_args!(
            "-o: cannot write the numbers to {path}: {error}"
        ))
    };
    try_to_open(&numbers).map_err(refused)?;
    if arguments.sources.iter().all(|path| is_measurement(path)) {
        if arguments.what.is_some() || arguments.cell.is_some() || arguments.seed.is_some() {
            return Err(Failure::new(
                "`--what`, `--cell` and `--seed` mean nothing for measurements",
                "they choose what is drawn of a run directory",
            ));
        }
        let (chart, csv) = Measurements::read(&arguments.sources)?.chart()?;
        file.draw_chart(&chart)?;
        fs::write(&numbers, &csv).map_err(refused)?;
        return told(arguments, &numbers);
    }
    let ([run], Some(what)) = (&arguments.sources[..], arguments.what) else {
        let title = match arguments.what {
            None => "`--what` is missing: what of the run is to be drawn",
            Some(_) => "a picture is of one run",
        };
        let help = "as in viaduct plot RUN --what latency -o x.svg; several runs: viaduct report \
                    RUN RUN; several measurements: viaduct plot A.json B.json -o x.svg";
        return Err(Failure::new(title, help));
    };
    let former = FormerStudy::read(run)?;
    let mut study = former.shown(None);
    choose(&mut study, arguments)?;
    let Some(drawn) = draw(what.subject(), &study) else {
        let title = format!("`{}` has nothing of the kind to draw", run.display());
        return Err(Failure::new(
            title,
            "no message was measured, or there are no links",
        ));
    };
    file.write(&drawn.picture)?;
    fs::write(&numbers, &drawn.csv).map_err(refused)?;
    told(arguments, &numbers)?;
    if drawn.left_out > 0 {
        output::note(&format!(
            "note: {} more are left out, a picture holds no more; choose with --cell and --seed\n",
            drawn.left_out
        ));
    }
    Ok(Exit::Fine)
}

fn told(arguments: &PlotArguments, numbers: &Path) -> Result<Exit, Failure> {
    output::result(&format!(
        "  picture  {}\n  numbers  {}\n",
        arguments.output.display(),
        numbers.display()
    ))?;
    Ok(Exit::Fine)
}

/// Leaves the cell and the seed that are asked for.
fn choose(study: &mut ShownStudy<'_>, arguments: &PlotArguments) -> Result<(), Failure> {
    if let Some(cell) = arguments.cell {
        let cells = study.cells.len();
        if cell >= cells {
            let title = format!("--cell {cell}: the run has no such cell");
            let help = match cells {
                1 => "it has one cell, 0".to_owned(),
                cells => format!("it has {cells} cells, 0 to {}", cells - 1),
            };
            return Err(Failure::new(title, help));
        }
        study.cells.swap(0, cell);
        study.cells.truncate(1);
    }
    if let Some(seed) = arguments.seed {
        for cell in &mut study.cells {
            let seeds: Vec<String> = cell
                .runs
                .iter()
                .map(|run| run.summary.seed.to_string())
                .collect();
            cell.runs.retain(|run| run.summary.seed == seed);
            if cell.runs.is_empty() {
                let title = format!("--seed {seed}: no run has it");
                return Err(Failure::new(
                    title,
                    format!("there are {}", seeds.join(", ")),
                ));
            }
        }
    }
    Ok(())
}
