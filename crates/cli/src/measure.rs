//! `viaduct measure`: two processes of this machine exchange messages over a fabric.
//!
//! This process is one side; it starts the other from its own program with the hidden command
//! `measure-peer`, and sees to it that neither outlives the other.

use std::fmt;
use std::io::{self, IsTerminal};
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use viaduct_fabric::Memory;
use viaduct_fabric::via::ReliabilityLevel;
use viaduct_measure::{
    Machine, MeasureError, Meeting, Mode, Plan, Report, Row, Test, Transfer, allowed_cores,
    pin_to_core,
};

use crate::fabrics::Fabric;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output;
use crate::peer::Peer;

/// What to measure, and how.
#[derive(Args, Debug)]
pub(crate) struct MeasureArguments {
    /// latency: half a round trip; bandwidth: messages one way; rate: small messages one way;
    /// cq: many connections into one completion queue
    #[arg(value_name = "TEST")]
    test: TestName,
    /// The fabric, as in `--on shm`
    #[arg(long = "on", value_name = "FABRIC")]
    fabric: String,
    /// Bytes of a message, a row each, as in `--sizes 8,4KiB,1MiB` [default: depends on the test]
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    sizes: Vec<Size>,
    /// Connections, a row each, for `cq` [default: 1,16,64,256,1024]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    connections: Vec<u32>,
    /// How both sides wait: look again and again, or sleep
    #[arg(long, value_enum, default_value_t = ModeName::Poll)]
    mode: ModeName,
    /// The connections' reliability level: unreliable delivery, reliable delivery, or reliable
    /// reception
    #[arg(long, value_enum, default_value_t = LevelName::Rd)]
    level: LevelName,
    /// How the fabric moves bytes [default: as it sees fit for each message]
    #[arg(long, value_enum)]
    transfer: Option<TransferName>,
    /// Write and read every byte, as an application does
    #[arg(long)]
    touch: bool,
    /// Messages in ordinary memory instead of memory that the fabric shares
    #[arg(long)]
    private: bool,
    /// Round trips or messages a row [default: as many as fill a third of a second]
    #[arg(long, value_name = "N")]
    iterations: Option<NonZeroU64>,
    /// The cores of the two sides [default: the first two that this process may use]
    #[arg(long, value_name = "A,B")]
    cores: Option<Cores>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TestName {
    Latency,
    Bandwidth,
    Rate,
    Cq,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeName {
    Poll,
    Block,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LevelName {
    Ud,
    Rd,
    Rr,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TransferName {
    Auto,
    Inline,
    Pool,
    Direct,
    Copy,
}

impl LevelName {
    pub(crate) const fn level(self) -> ReliabilityLevel {
        match self {
            Self::Ud => ReliabilityLevel::Unreliable,
            Self::Rd => ReliabilityLevel::ReliableDelivery,
            Self::Rr => ReliabilityLevel::ReliableReception,
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Ud => "ud",
            Self::Rd => "rd",
            Self::Rr => "rr",
        }
    }
}

impl TransferName {
    const fn transfer(self) -> Transfer {
        match self {
            Self::Auto => Transfer::Auto,
            Self::Inline => Transfer::Inline,
            Self::Pool => Transfer::Pool,
            Self::Direct => Transfer::Direct,
            Self::Copy => Transfer::Copy,
        }
    }
}

/// A number of bytes: `8`, `4KiB`, `1 MiB`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Size(u32);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let split = text
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let factor: u64 = match unit.trim() {
            "" | "B" => 1,
            "KiB" | "K" | "k" => 1 << 10,
            "MiB" | "M" => 1 << 20,
            "GiB" | "G" => 1 << 30,
            unit => {
                return Err(format!("`{unit}` is no unit of bytes: B, KiB, MiB or GiB"));
            }
        };
        let bytes = digits.parse::<u64>().ok();
        bytes
            .and_then(|bytes| bytes.checked_mul(factor))
            .and_then(|bytes| u32::try_from(bytes).ok())
            .map(Self)
            .ok_or_else(|| "a number of bytes below 4 GiB is wanted, as in 8 or 4KiB".to_owned())
    }
}

/// Two cores.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Cores([usize; 2]);

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once(',')
            .and_then(|(first, second)| {
                Some(Self([
                    first.trim().parse().ok()?,
                    second.trim().parse().ok()?,
                ]))
            })
            .ok_or_else(|| "two numbers of cores are wanted, as in 0,1".to_owned())
    }
}

/// Measures.
pub(crate) fn measure(arguments: &MeasureArguments) -> Result<Exit, Failure> {
    let fabric = Fabric::named(&arguments.fabric)?;
    let plan = plan(arguments)?;
    let transfer = arguments.transfer.map(TransferName::transfer);
    let transfer = transfer.unwrap_or_else(|| fabric.usual_transfer());
    fabric.tune(transfer)?;
    let cores = cores(arguments)?;
    let meeting = Meeting {
        device: fabric.device().to_owned(),
        host: None,
        discriminator: meeting_place().into_bytes(),
    };
    pin_to_core(cores[0]).map_err(|error| no_core(cores[0], &error))?;

    let interrupt = Interrupt::listen();
    let machine = Machine::new((cores[0] != cores[1]).then_some(cores[1]));
    let peer = Peer::start(fabric, &meeting, arguments.level, cores[1], &machine)?;
    let mut rows: Vec<Row> = Vec::new();
    let variants = plan.sizes.len().max(plan.connections.len());
    let shows_progress = !arguments.json && io::stderr().is_terminal();
    let outcome = fabric.initiate(&meeting, &plan, &machine, &mut |row| {
        rows.push(row.clone());
        if shows_progress {
            output::note(&format!("\r  {} of {variants} rows", rows.len()));
        }
        if interrupt.is_asked() {
            machine.stop("stopped by Ctrl-C");
        }
    });
    if shows_progress {
        output::note("\r                    \r");
    }
    let peer_end = peer.finish();

    let report = Report::new(fabric.name(), &plan, transfer, Some(cores), rows);
    let show = |report: &Report| {
        output::result(&if arguments.json {
            report.to_json() + "\n"
        } else {
            format!("{}\n{}", report.title(), report.table())
        })
    };
    match outcome {
        Ok(_) => {
            show(&report)?;
            Ok(Exit::Fine)
        }
        Err(_) if interrupt.is_asked() && peer_end.failure.is_none() => {
            show(&report)?;
            Ok(Exit::Interrupted)
        }
        Err(error) => {
            if !arguments.json && !report.rows.is_empty() {
                show(&report)?;
            }
            Err(unfinished(&error, peer_end.summary()))
        }
    }
}

/// What went wrong between the two sides, and what is known of the other.
fn unfinished(error: &MeasureError, peer: Option<String>) -> Failure {
    match error {
        MeasureError::Impossible { reason } => Failure::plain(reason),
        error => Failure::Broken {
            title: error.to_string(),
            help: peer,
        },
    }
}

fn plan(arguments: &MeasureArguments) -> Result<Plan, Failure> {
    let test = match arguments.test {
        TestName::Latency => Test::Latency,
        TestName::Bandwidth => Test::Bandwidth,
        TestName::Rate => Test::Rate,
        TestName::Cq => Test::Cq,
    };
    if test == Test::Cq && !arguments.sizes.is_empty() {
        return Err(Failure::new(
            "`--sizes` means nothing for `cq`",
            "its requests have 32 bytes; `--connections 1,16,1024` says how many connections",
        ));
    }
    if test != Test::Cq && !arguments.connections.is_empty() {
        return Err(Failure::new(
            format!("`--connections` means nothing for `{}`", test.name()),
            "it uses one connection; `viaduct measure cq` uses many",
        ));
    }
    let mut plan = Plan::usual(test);
    if !arguments.sizes.is_empty() {
        plan.sizes = arguments.sizes.iter().map(|size| size.0).collect();
    }
    if !arguments.connections.is_empty() {
        plan.connections.clone_from(&arguments.connections);
    }
    plan.mode = match arguments.mode {
        ModeName::Poll => Mode::Poll,
        ModeName::Block => Mode::Block,
    };
    plan.level = arguments.level.level();
    plan.is_touched = arguments.touch;
    plan.memory = if arguments.private {
        Memory::Private
    } else {
        Memory::Shared
    };
    plan.iterations = arguments.iterations.map(NonZeroU64::get);
    Ok(plan)
}

fn cores(arguments: &MeasureArguments) -> Result<[usize; 2], Failure> {
    let allowed = allowed_cores()
        .map_err(|error| Failure::plain(format!("cannot ask for this process's cores: {error}")))?;
    if let Some(Cores(cores)) = arguments.cores {
        if let Some(core) = cores.into_iter().find(|core| !allowed.contains(core)) {
            return Err(no_core(core, &"there is none, or not for this process"));
        }
        return Ok(cores);
    }
    match allowed[..] {
        [first, second, ..] => Ok([first, second]),
        [only] => {
            let help = "expect times of the scheduler, not of the fabric; try --mode block";
            output::message("warning", "both sides share the only core", Some(help));
            Ok([only, only])
        }
        [] => Err(Failure::plain("this process may run on no core")),
    }
}

fn no_core(core: usize, error: &dyn fmt::Display) -> Failure {
    let allowed = allowed_cores().unwrap_or_default();
    let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    Failure::new(
        format!("cannot run on core {core}: {error}"),
        format!("this process may use the cores {}", allowed.join(", ")),
    )
}

/// A name that no other measurement meets at.
fn meeting_place() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = now.map(|time| time.subsec_nanos()).unwrap_or_default();
    format!("measure-{:x}-{nanoseconds:x}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!("8".parse(), Ok(Size(8)));
        assert_eq!("4KiB".parse(), Ok(Size(4096)));
        assert_eq!("1 MiB".parse(), Ok(Size(1 << 20)));
        assert_eq!("4294967295".parse(), Ok(Size(u32::MAX)));
        for wrong in ["4GiB", "", "KiB", "-1", "4KB", "99999999999999999999"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn cores_are_two() {
        assert_eq!("0,1".parse(), Ok(Cores([0, 1])));
        for wrong in ["0", "0,1,2", "a,b", ""] {
            assert!(wrong.parse::<Cores>().is_err(), "{wrong}");
        }
    }
}
