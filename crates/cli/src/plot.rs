//! `viaduct plot`: a picture of a run directory for a paper, and its numbers beside it.

use std::fs;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use viaduct_report::{ShownStudy, Subject, draw};

use crate::failure::{Exit, Failure};
use crate::output;
use crate::picture::{PictureFile, try_to_open};
use crate::showing::FormerStudy;

#[derive(Args, Debug)]
pub(crate) struct PlotArguments {
    /// A directory that `viaduct run` left
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// What to draw
    #[arg(long, value_name = "WHAT")]
    what: What,
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
    let former = FormerStudy::read(&arguments.run)?;
    let mut study = former.shown(None);
    choose(&mut study, arguments)?;
    let Some(drawn) = draw(arguments.what.subject(), &study) else {
        let title = format!(
            "`{}` has nothing of the kind to draw",
            arguments.run.display()
        );
        return Err(Failure::new(
            title,
            "no message was measured, or there are no links",
        ));
    };
    file.write(&drawn.picture)?;
    fs::write(&numbers, &drawn.csv).map_err(refused)?;
    output::result(&format!(
        "  picture  {}\n  numbers  {}\n",
        arguments.output.display(),
        numbers.display()
    ))?;
    if drawn.left_out > 0 {
        output::note(&format!(
            "note: {} more are left out, a picture holds no more; choose with --cell and --seed\n",
            drawn.left_out
        ));
    }
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
