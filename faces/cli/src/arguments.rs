//! What can be typed after `viaduct`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::chakra::ChakraArguments;
use crate::collective::CollectiveArguments;
use crate::compare::CompareArguments;
use crate::fit::FitArguments;
use crate::goal::GoalArguments;
use crate::measure::MeasureArguments;
use crate::peer::PeerArguments;
use crate::plot::PlotArguments;
use crate::rdma::RdmaArguments;
use crate::report::ReportArguments;
use crate::reproduce::ReproduceArguments;
use crate::show::ShowArguments;
use crate::simgrid::SimgridArguments;
use crate::sweep::SweepArguments;
use crate::trace::TraceArguments;
use crate::virtual_networks::{ClientArguments, ServerArguments};
use crate::why::WhyArguments;

/// Simulates clusters on user-level networks: hosts, NICs, buses, links and switches.
#[derive(Debug, Parser)]
#[command(name = "viaduct", version, max_term_width = HELP_COLUMNS, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Width of help, also where no terminal says its own: what is read through a pager fits.
const HELP_COLUMNS: usize = 80;

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 wrong input, 2 a model assumption broke, \
    3 a target was missed, 130 stopped by Ctrl-C";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a study or a scenario file and show its results
    #[command(after_help = "Examples:\n  viaduct run torus-1024\n  \
        viaduct run four-hop --set traffic.size=\"64 B\"\n  \
        viaduct run torus-1024 --seeds 5 --json > result.json")]
    Run(RunArguments),
    /// Run the scenario of a run directory again and compare the digests
    Rerun(RerunArguments),
    /// Compare run directories, or measurements, on a page for a browser
    #[command(after_help = "Example:\n  viaduct run two-hosts --out first\n  \
        viaduct run two-hosts --set traffic.size=\"4 KiB\" --out second\n  \
        viaduct report first second -o both.html\n  \
        viaduct report machine-a.json machine-b.json -o machines.html")]
    Report(ReportArguments),
    /// Draw a picture of a run directory, or of measurements, for a paper, with its numbers beside
    /// it
    #[command(
        after_help = "Examples:\n  viaduct plot runs/torus-1024-baf87a9d --what latency -o latency.pdf\n  \
        viaduct plot runs/torus-1024-baf87a9d --what links -o links.svg\n  \
        viaduct plot machine-a.json machine-b.json -o machines.svg"
    )]
    Plot(PlotArguments),
    /// Run what has published figures, and show them beside ours
    #[command(
        after_help = "Examples:\n  viaduct reproduce\n  viaduct reproduce four-hop\n  \
        viaduct reproduce --markdown"
    )]
    Reproduce(ReproduceArguments),
    /// Run a study and say where the time of one message went, and for whom it waited; or what an
    /// application waited for
    #[command(after_help = "Examples:\n  viaduct why torus-1024 --slowest\n  \
        viaduct why torus-1024 --quantile 0.99\n  \
        viaduct why bus-contention --message 1000 --json\n  \
        viaduct why all-reduce.toml --critical-path")]
    Why(WhyArguments),
    /// Run a study over values of its keys: each combination, with several seeds
    #[command(after_help = "Examples:\n  \
        viaduct sweep torus-1024 --set traffic.rate=100,400,800 --seeds 5\n  \
        viaduct sweep four-hop --set traffic.size=\"64 B\",\"1 KiB\"\n  \
        viaduct sweep prepost-drops --set hosts.prepost=1..16:5\n  \
        viaduct sweep torus-1024 --seeds 50 --until-width 1%\n  \
        viaduct sweep --resume runs/torus-1024-sweep-1f0c9a62")]
    Sweep(SweepArguments),
    /// Run a study at several levels of its network, or several studies, or one at several values
    /// of its keys, and say how far they differ
    #[command(
        after_help = "Examples:\n  viaduct compare torus-1024 --levels queues,fluid\n  \
        viaduct compare torus-1024 --set traffic.rate=400/s --set run.until=\"2 s\"\n  \
        viaduct compare torus.toml clos.toml --set traffic.placement=linear,random\n  \
        viaduct compare torus.toml --set traffic.algorithm=ring,double-tree"
    )]
    Compare(CompareArguments),
    /// Run a study and write some of its messages as a time line for Perfetto's viewer
    #[command(
        after_help = "Examples:\n  viaduct trace four-hop -o four-hop.perfetto-trace \
        --set traffic.size=\"1 KiB\"\n  \
        viaduct trace torus-1024 --messages 500 --from \"2 s\" -o torus.perfetto-trace"
    )]
    Trace(TraceArguments),
    /// Draw the network of a study, or of a file
    #[command(after_help = "Examples:\n  viaduct show four-hop -o four-hop.svg\n  \
        viaduct show torus-1024 -o torus.html\n  viaduct show mine.graphml -o mine.html")]
    Show(ShowArguments),
    /// Read a study or a scenario file; say what it would cost and what can go wrong
    Check(CheckArguments),
    /// Check, convert or replay GOAL files: applications as graphs of operations
    #[command(after_help = "Examples:\n  viaduct goal check program.goal\n  \
        viaduct goal to-binary program.goal program.bin\n  \
        viaduct goal replay program.goal --latency \"2500 ns\"")]
    Goal(GoalArguments),
    /// Describe Chakra execution traces of training steps, or write them as GOAL files
    #[command(
        after_help = "Examples:\n  viaduct chakra info step.0.et --ranks 64\n  \
        viaduct chakra info step --groups groups.json\n  \
        viaduct chakra to-goal step step.goal --all-reduce double-tree"
    )]
    Chakra(ChakraArguments),
    /// Describe SimGrid's time-independent traces of MPI programs, or write them as GOAL files
    #[command(after_help = "Examples:\n  viaduct simgrid info trace.txt\n  \
        viaduct simgrid to-goal trace.txt trace.goal --operations-per-second 2e9")]
    Simgrid(SimgridArguments),
    /// Say how long a collective operation takes without a network, or write its GOAL file
    #[command(after_help = "Examples:\n  \
        viaduct collective all-reduce --algorithm ring --ranks 1024 --bytes \"16 MiB\"\n  \
        viaduct collective barrier --ranks 65536\n  \
        viaduct collective all-to-all --ranks 64 --bytes \"1 MiB\" --goal exchange.goal")]
    Collective(CollectiveArguments),
    /// List the studies that come with the program
    Studies,
    /// List the NIC, bus and host presets, or show where each number of one comes from
    #[command(after_help = "Examples:\n  viaduct models giganet-clan\n  \
        viaduct models diff giganet-clan mine.toml\n  \
        viaduct models ranges am-myrinet interface.timer")]
    Models(ModelsArguments),
    /// List the keys of a scenario file
    Keys {
        /// Only the keys of this table
        table: Option<String>,
    },
    /// Measure a fabric: two processes of this machine exchange messages
    #[command(after_help = "Examples:\n  viaduct measure latency --on shm\n  \
        viaduct measure bandwidth --on shm --sizes 4KiB,1MiB --touch --plot b.svg\n  \
        viaduct measure cq --on shm --connections 1024 --mode block --json\n  \
        viaduct measure latency --on sim:clan-pio,sim:my-host.toml\n  \
        viaduct measure cq --on sim:clan-pio@four-hop --load auto --plot load.svg\n  \
        viaduct measure logp --on shm,sim:am-myrinet,sim:gam-myrinet")]
    Measure(Box<MeasureArguments>),
    /// Make a preset from a measurement, by fitting the numbers of another preset
    #[command(after_help = "Example:\n  \
        viaduct measure latency --on shm --json > measured.json\n  \
        viaduct fit measured.json --base rnic-gen4 -o my-host.toml\n  \
        viaduct measure latency --on sim:my-host.toml")]
    Fit(FitArguments),
    /// Run an RDMA program (verbs, rdma_cm) without RDMA hardware, or one of VIA on simulated hosts
    #[command(after_help = "Examples:\n  \
        viaduct rdma -- ib_send_lat -d viaduct0\n  \
        viaduct rdma -- ib_send_lat -d viaduct0 127.0.0.1\n  \
        viaduct rdma --require-rdma -- mpiexec -n 2 ./program\n  \
        viaduct rdma --devices 2 --link ib -- ibv_devinfo\n  \
        viaduct rdma --on sim:giganet-clan -- ./server : ./client host0\n  \
        eval \"$(viaduct rdma env)\"")]
    Rdma(RdmaArguments),
    /// Print the completion script of a shell
    #[command(after_help = "Example:\n  \
        viaduct completions bash > ~/.local/share/bash-completion/completions/viaduct")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages of this command: viaduct.1, and one page for each word
    #[command(hide = true)]
    Manual {
        /// A folder
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// The other side of `measure`
    #[command(hide = true)]
    MeasurePeer(PeerArguments),
    /// A client of `measure contention`
    #[command(hide = true)]
    RequestClient(ClientArguments),
    /// Who answers the requests of `measure logp` and `measure bulk`
    #[command(hide = true)]
    RequestServer(ServerArguments),
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct ModelsArguments {
    #[command(subcommand)]
    pub(crate) command: Option<ModelsCommand>,
    /// A preset's name or file
    #[arg(value_name = "NAME|FILE")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Show the numbers in which two presets differ, with the sources of both
    Diff {
        /// A preset's name or file
        #[arg(value_name = "A")]
        first: String,
        /// Another
        #[arg(value_name = "B")]
        second: String,
    },
    /// Show what comes out of am-myrinet or gam-myrinet over the ranges of its numbers (takes a
    /// minute)
    Ranges {
        /// A preset's name or file
        #[arg(value_name = "NAME|FILE")]
        name: String,
        /// These numbers alone, as interface.timer [default: all that have a range]
        #[arg(value_name = "KEY")]
        keys: Vec<String>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArguments,
    #[command(flatten)]
    pub(crate) seeds: SeedArguments,
    /// Where to leave the run directory [default: runs/STUDY-HASH]
    #[arg(long, value_name = "DIR", conflicts_with = "no_out")]
    pub(crate) out: Option<PathBuf>,
    /// Replace whatever run is at the place of `--out`: of another study, or with other settings
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
    /// Leave no run directory
    #[arg(long)]
    pub(crate) no_out: bool,
    #[command(flatten)]
    pub(crate) display: DisplayArguments,
}

#[derive(Args, Debug)]
pub(crate) struct RerunArguments {
    /// A directory that `viaduct run`, or `viaduct rdma --on ... --out`, left
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Where to leave the new run's directory [default: nowhere]
    #[arg(long, value_name = "NEW_DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) display: DisplayArguments,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArguments,
    #[command(flatten)]
    pub(crate) seeds: SeedArguments,
}

/// Which scenario.
#[derive(Args, Debug)]
pub(crate) struct ScenarioArguments {
    /// A study's name (see `viaduct studies`) or a scenario file
    #[arg(value_name = "STUDY|FILE")]
    pub(crate) scenario: String,
    /// Set a key, as in `--set traffic.rate=400/s` (see `viaduct keys`); may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
}

/// How often, with which random numbers.
#[derive(Args, Debug)]
pub(crate) struct SeedArguments {
    /// Seed of all random streams [default: the scenario's]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Independent runs, with this many seeds in a row
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) seeds: u32,
}

/// How to run and what to show.
#[derive(Args, Debug)]
pub(crate) struct DisplayArguments {
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress and no warnings
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Runs at a time; the results are the same for any number [default: one per core]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn help_fits_on_80_columns() {
        let mut all = Arguments::command();
        all.build();
        let own = std::iter::once(all.clone());
        for mut command in own.chain(all.get_subcommands().cloned()) {
            let help = command.render_long_help().to_string();
            // What is typed is not wrapped.
            for line in help.lines().filter(|line| !line.starts_with("Usage:")) {
                let name = command.get_name();
                assert!(line.len() <= HELP_COLUMNS, "{name}: {line}");
            }
            // An example that is wrapped is none that can be copied.
            let examples = command.get_after_help().map(ToString::to_string);
            let examples = examples.iter().flat_map(|text| text.lines());
            for example in examples.filter(|line| line.starts_with("  viaduct")) {
                assert!(help.lines().any(|line| line == example), "{example}");
            }
        }
    }
}
