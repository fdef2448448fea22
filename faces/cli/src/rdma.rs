//! `viaduct rdma`: runs RDMA programs where there is no RDMA hardware, on libraries that take the
//! place of libibverbs and librdmacm. On simulated hosts it runs programs of libvipl, too.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, Subcommand, ValueEnum};
use viaduct_processes::{held, signals};

use crate::arguments::RerunArguments;
use crate::failure::{Exit, Failure};
use crate::output;

mod commands;
mod environment;
mod executable;
mod files;
mod places;
mod record;
mod simulated;
mod stats;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct RdmaArguments {
    #[command(subcommand)]
    command: Option<RdmaCommand>,
    #[command(flatten)]
    simulated: simulated::SimulatedArguments,
    #[command(flatten)]
    adapters: AdapterArguments,
    /// Say on stderr what crossed when the command has ended
    #[arg(long)]
    stats: bool,
    /// Fail with exit code 3 if nothing crossed: the command ended well over another transport
    #[arg(long)]
    require_rdma: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    program: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
enum RdmaCommand {
    /// Print what the launcher would set, for a shell to evaluate: eval "$(viaduct rdma env)"
    Env(AdapterArguments),
    /// Show the adapters that a program would see
    Devices(AdapterArguments),
    /// Show what the running programs have sent and received, and by which operations
    Stats(StatsArguments),
    /// Write the files that programs look for, of the adapters that the environment names
    #[command(hide = true)]
    Files {
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

#[derive(Args, Debug)]
struct StatsArguments {
    /// As one object
    #[arg(long)]
    json: bool,
}

/// Which adapters programs see.
#[derive(Args, Clone, Debug, Default)]
struct AdapterArguments {
    /// How many: viaduct0, viaduct1, ... [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=64))]
    devices: Option<u32>,
    /// What their ports are connected to [default: roce]
    #[arg(long, value_enum)]
    link: Option<Link>,
    /// Bytes of a packet, which are the most of a datagram [default: 4096]
    #[arg(long, value_enum)]
    mtu: Option<PacketBytes>,
    /// IP addresses whose GIDs the ports have, with commas between them [default: the machine's]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    gids: Vec<std::net::IpAddr>,
    /// What shall go wrong; several are given one by one: loss=0.001,seed=7, rnr=0.01,seed=7,
    /// slow=50us, port-down=2s..3s, qp-error=after:1000
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<String>,
    /// Have reliable queue pairs that only wait for a peer fail when its process ends, which
    /// hardware does not tell them
    #[arg(long)]
    report_dead_peers: bool,
    /// Share the pages of registered memory with peers, whose writes, reads and atomics are then
    /// plain copies; needs userfaultfd
    #[arg(long)]
    share_memory: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Link {
    /// Ethernet, RoCE version 2: peers are named by GIDs
    Roce,
    /// InfiniBand: peers have LIDs
    Ib,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PacketBytes {
    #[value(name = "256")]
    B256,
    #[value(name = "512")]
    B512,
    #[value(name = "1024")]
    B1024,
    #[value(name = "2048")]
    B2048,
    #[value(name = "4096")]
    B4096,
}

impl AdapterArguments {
    /// As variables of the environment, which the libraries read.
    fn variables(&self) -> Vec<(&'static str, String)> {
        let name = |value: Option<clap::builder::PossibleValue>| {
            value
                .map(|value| value.get_name().to_owned())
                .unwrap_or_default()
        };
        let mut variables = Vec::new();
        if let Some(devices) = self.devices {
            variables.push(("VIADUCT_RDMA_DEVICES", devices.to_string()));
        }
        if let Some(link) = self.link {
            variables.push(("VIADUCT_RDMA_LINK", name(link.to_possible_value())));
        }
        if let Some(mtu) = self.mtu {
            variables.push(("VIADUCT_RDMA_MTU", name(mtu.to_possible_value())));
        }
        if !self.gids.is_empty() {
            let gids: Vec<_> = self.gids.iter().map(ToString::to_string).collect();
            variables.push(("VIADUCT_RDMA_GIDS", gids.join(",")));
        }
        if !self.faults.is_empty() {
            variables.push(("VIADUCT_RDMA_FAULTS", self.faults.join(";")));
        }
        if self.report_dead_peers {
            variables.push(("VIADUCT_RDMA_REPORT_DEAD_PEERS", "1".to_owned()));
        }
        if self.share_memory {
            variables.push(("VIADUCT_RDMA_SHARE_MEMORY", "1".to_owned()));
        }
        variables
    }

    /// Checks what its types do not.
    fn check(&self) -> Result<(), Failure> {
        if self.share_memory {
            held::check().map_err(|error| {
                Failure::new(
                    format!("--share-memory: {error}"),
                    "without the option each write of a peer is a call of the kernel",
                )
            })?;
        }
        match viaduct_rdma::parse_faults(&self.faults.join(";")) {
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::new(
                format!("--fault {}: {}", error.fault, error.wrong),
                error.instead,
            )),
        }
    }
}

/// Does what follows `viaduct rdma`.
pub(crate) fn rdma(arguments: &RdmaArguments) -> Result<Exit, Failure> {
    match &arguments.command {
        None => match &arguments.simulated.on {
            Some(name) => simulated::run(name, arguments),
            None => run(arguments),
        },
        Some(RdmaCommand::Env(adapters)) => {
            adapters.check()?;
            // The shell that evaluates it.
            let shell = std::os::unix::process::parent_id();
            let environment = environment::of(adapters, shell)?;
            output::result(&environment.as_shell()?)?;
            Ok(Exit::Fine)
        }
        Some(RdmaCommand::Devices(adapters)) => {
            adapters.check()?;
            output::result(&files::listing(adapters)?)?;
            Ok(Exit::Fine)
        }
        Some(RdmaCommand::Stats(arguments)) => {
            output::result(&stats::of_all(arguments.json)?)?;
            Ok(Exit::Fine)
        }
        Some(RdmaCommand::Files { folder }) => {
            files::write(folder)?;
            Ok(Exit::Fine)
        }
    }
}

pub(crate) use self::record::{Order, subject};

/// Runs commands of a run directory again.
///
/// # Errors
///
/// When they cannot run.
pub(crate) fn rerun(order: &Order, arguments: &RerunArguments) -> Result<Exit, Failure> {
    simulated::rerun(order, arguments)
}

/// Runs a command. Where nothing is to be said at its end, it takes the place of this process.
fn run(arguments: &RdmaArguments) -> Result<Exit, Failure> {
    let Some((program, rest)) = arguments.program.split_first() else {
        return Err(Failure::plain("no command"));
    };
    if let Some(option) = arguments.simulated.given() {
        return Err(Failure::new(
            format!("`{option}` means nothing without `--on`"),
            "messages are looked at on simulated hosts: --on sim:rnic-gen5",
        ));
    }
    arguments.adapters.check()?;
    let found = executable::find(program)?;
    let environment = environment::of(&arguments.adapters, std::process::id())?;
    let mut command = Command::new(program);
    command.args(rest);
    environment.apply(&mut command, &found);
    if !arguments.stats && !arguments.require_rdma {
        let error = command.exec();
        return Err(cannot_start(program, &error));
    }
    // The command decides what a signal means, and this program waits for it.
    signals::hold()
        .map_err(|error| Failure::plain(format!("cannot listen to signals: {error}")))?;
    let mut child = command
        .spawn()
        .map_err(|error| cannot_start(program, &error))?;
    signals::pass_to(Some(child.id()));
    let status = child.wait();
    signals::pass_to(None);
    let status = status.map_err(|error| cannot_start(program, &error))?;
    let crossed = environment.crossed();
    let unreadable = environment.unreadable();
    if unreadable > 0 {
        output::message(
            "warning",
            &format!(
                "{unreadable} of the command's processes count in a way that this viaduct cannot \
                 read: the libraries for RDMA programs are of another version"
            ),
            Some("install the command and the libraries together; from source both: make rdma"),
        );
    }
    if arguments.stats {
        output::note(&stats::summary(&crossed));
    }
    if arguments.require_rdma && crossed.iter().all(|process| process.counters.is_nothing()) {
        if unreadable == 0 {
            output::message(
                "error",
                "nothing crossed an RDMA adapter",
                Some(
                    "the command may have taken another transport (UCX: UCX_TLS=rc_v,self; Open \
                     MPI: --mca pml ucx; libfabric: -p verbs), or its processes run outside of \
                     this command",
                ),
            );
        } else {
            let title = "it is not known whether anything crossed an RDMA adapter";
            output::message("error", title, None);
        }
        if status.success() {
            return Ok(Exit::TargetMissed);
        }
    }
    // As a shell says it: of a signal 128 and its number.
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    if code == 0 {
        Ok(Exit::Fine)
    } else {
        std::process::exit(code)
    }
}

fn cannot_start(program: &std::ffi::OsStr, error: &std::io::Error) -> Failure {
    Failure::plain(format!("cannot start {}: {error}", program.display()))
}
