//! Time sharing: parallel programs whose processes share the processors of the same hosts, each
//! program with a virtual network of its own, under schedulers that do not know each other.

use std::collections::VecDeque;

use viaduct_engine::{Stream, StreamKey, Time};
use viaduct_frames::residency::Stall;

use crate::cluster::{Cluster, Totals, entity};
use crate::config::{Config, LinkModel};
use crate::load::{FairLinks, HeldLinks, Links};
use crate::process::{Grain, Partner, Process, Rounds};
use crate::processor::{Processor, Spent};
use crate::program::Program;

/// Purposes of random streams.
const GRAIN: u64 = 0x71_0001;
const PHASE: u64 = 0x71_0002;

/// What a process does while it waits for messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wait {
    /// It looks, until its quantum is over and after.
    Spin,
    /// It blocks at once.
    Block,
    /// It looks for so long, then blocks.
    TwoPhase(Time),
    /// It leaves the processor to others, and takes it again, at no cost: that works for messages
    /// alone.
    Leave,
}

/// When the schedulers of the hosts begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phases {
    /// Each on its own: in any order of the processes, anywhere in the first one's quantum.
    Random,
    /// All in the same order, and their turns end at the same times: co-scheduling by
    /// construction, as long as nobody blocks.
    Aligned,
}

/// The scheduler of every host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scheduler {
    /// Processor's time that a process gets in a turn.
    pub quantum: Time,
    /// What a switch from one process to another takes, caches included.
    pub switch: Time,
    /// What processes do that wait.
    pub wait: Wait,
    /// When schedulers begin.
    pub phases: Phases,
}

/// With whom a process exchanges requests in each round.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pattern {
    /// The two beside it, on a ring.
    Neighbours,
    /// All others of its program.
    All,
}

/// A bulk-synchronous program: in each round every process computes, then sends each of its
/// partners a request. It goes on when it has all the replies, and has answered the requests of
/// this round of all its partners. It looks for messages only when it does not compute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// How often.
    pub rounds: u32,
    /// Mean of what a process computes in a round.
    pub grain: Time,
    /// Each draws evenly between `grain` less and more so much of it, percent, at most 100.
    pub imbalance_percent: u32,
    /// With whom.
    pub pattern: Pattern,
    /// Payload of a request; a reply has 16.
    pub bytes: u32,
}

/// A program, with a process on every host of the cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParallelProgram {
    /// Names its random draws.
    pub number: u16,
    /// What it does.
    pub workload: Workload,
}

/// Where the time of all processors went, as parts of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Programs' own work.
    pub computing: f64,
    /// Taking and posting messages.
    pub messages: f64,
    /// Waiting and looking.
    pub spinning: f64,
    /// Traps, interrupts and the driver.
    pub kernel: f64,
    /// From process to process.
    pub switching: f64,
    /// Nobody had anything to do.
    pub idle: f64,
}

/// The results of programs that ran together.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeSharing {
    /// Until the last process of each has ended.
    pub programs: Vec<Time>,
    /// Until the last of all.
    pub total: Time,
    /// Of all processors, until then.
    pub shares: Shares,
    /// From one process to another, on all hosts.
    pub switches: u64,
    /// How often processes blocked.
    pub blocks: u64,
    /// What happened on interfaces.
    pub totals: Totals,
}

/// Runs programs together until all have ended. A program computes what it does in any other
/// company: its draws depend on the seed, its number and the process. None if `stops` says so,
/// which is asked now and then.
///
/// With one frame and two programs this may never end: every host uploads one endpoint while its
/// partners have the other, all in the same time.
///
/// # Panics
///
/// If the cluster has one host or no transport, if threads wait for remaps in it, if it has
/// faults, for no program or more than 64, or a quantum that a switch uses up.
#[must_use]
pub fn time_share(
    config: Config,
    scheduler: Scheduler,
    programs: &[ParallelProgram],
    stops: impl FnMut() -> bool,
) -> Option<TimeSharing> {
    assert!(
        config.stall == Stall::Nobody && config.transport.is_some() && config.faults.is_empty(),
        "time sharing is for virtual networks whose threads do not wait for remaps, without faults"
    );
    assert!(config.hosts >= 2, "one host");
    assert!(
        (1..=64).contains(&programs.len()) && scheduler.quantum > scheduler.switch,
        "{} programs, a quantum of {}, a switch of {}",
        programs.len(),
        scheduler.quantum,
        scheduler.switch
    );
    match config.model {
        LinkModel::Wormhole => share_on::<HeldLinks>(config, scheduler, programs, stops),
        LinkModel::Shared(..) => share_on::<FairLinks>(config, scheduler, programs, stops),
    }
}

fn share_on<N: Links>(
    config: Config,
    scheduler: Scheduler,
    programs: &[ParallelProgram],
    mut stops: impl FnMut() -> bool,
) -> Option<TimeSharing> {
    const EVENTS_BETWEEN_LOOKS: u64 = 1 << 16;

    let hosts = config.hosts;
    let mut cluster = match Cluster::<N>::new(config) {
        Ok(cluster) => cluster,
        Err(error) => panic!("{error}"),
    };
    for host in 0..hosts {
        cluster.join(host);
    }
    start(&mut cluster, scheduler, programs);
    let mut looked_at = 0;
    while !cluster.processors().all(|it| it.over == programs.len()) {
        assert!(cluster.step(), "programs wait for each other for ever");
        if cluster.queue.fired() - looked_at >= EVENTS_BETWEEN_LOOKS {
            looked_at = cluster.queue.fired();
            if stops() {
                return None;
            }
        }
    }
    let of_program = |index: usize| {
        let ends = cluster.processors().map(|it| it.ended_at[index]);
        ends.max().unwrap_or_default()
    };
    let ended: Vec<Time> = (0..programs.len()).map(of_program).collect();
    let total = ended.iter().copied().max().unwrap_or_default();
    let of = |what: fn(&Spent) -> Time| {
        let spent: u64 = cluster
            .processors()
            .map(|it| what(&it.spent).picoseconds())
            .sum();
        spent as f64 / (total.picoseconds() as f64 * f64::from(hosts))
    };
    let mut shares = Shares {
        computing: of(|it| it.computing),
        messages: of(|it| it.messages),
        spinning: of(|it| it.spinning),
        kernel: of(|it| it.kernel),
        switching: of(|it| it.switching),
        idle: 0.0,
    };
    let busy = shares.computing + shares.messages + shares.spinning;
    shares.idle = (1.0 - busy - shares.kernel - shares.switching).max(0.0);
    Some(TimeSharing {
        programs: ended,
        total,
        shares,
        switches: cluster.processors().map(|it| it.spent.switches).sum(),
        blocks: cluster.processors().map(|it| it.spent.blocks).sum(),
        totals: cluster.totals(),
    })
}

/// Makes endpoints and processes, and lets every host begin.
fn start<N: Links>(cluster: &mut Cluster<N>, scheduler: Scheduler, programs: &[ParallelProgram]) {
    let hosts = cluster.config.hosts;
    let seed = cluster.config.seed;
    // Every host makes the endpoints of the programs in the same order.
    let endpoints: Vec<Vec<_>> = (0..hosts)
        .map(|host| {
            let each = programs.iter().map(|_| {
                let endpoint = cluster.create_endpoint(host);
                // What is measured begins when the endpoints are in frames, as many as there are.
                if endpoint.index() < usize::from(cluster.config.frames) {
                    cluster.settle_endpoint(host, endpoint);
                }
                endpoint
            });
            each.collect()
        })
        .collect();
    for host in 0..hosts {
        let mut processes = Vec::with_capacity(programs.len());
        for (index, program) in programs.iter().enumerate() {
            let ParallelProgram { number, workload } = *program;
            let grain = workload.grain.picoseconds();
            let swing = grain / 100 * u64::from(workload.imbalance_percent.min(100));
            let partners: Vec<u32> = match workload.pattern {
                // On a ring of two both neighbours are the same.
                Pattern::Neighbours if hosts == 2 => vec![1 - host],
                Pattern::Neighbours => vec![(host + 1) % hosts, (host + hosts - 1) % hosts],
                Pattern::All => (1..hosts).map(|step| (host + step) % hosts).collect(),
            };
            let partners = partners.into_iter().map(|partner| Partner {
                host: partner,
                endpoint: endpoints[partner as usize][index],
                taken: 0,
            });
            let grain = Grain {
                least: Time::from_picoseconds(grain - swing),
                spread: Time::from_picoseconds(2 * swing),
                random: Stream::new(StreamKey {
                    seed,
                    purpose: GRAIN,
                    entity: entity(host, number),
                }),
            };
            let endpoint = endpoints[host as usize][index];
            processes.push(Process::Rounds(Rounds::new(
                endpoint,
                partners.collect(),
                grain,
                workload.bytes,
                workload.rounds,
            )));
        }
        cluster.share_processor(host, scheduler, processes);
    }
    for host in 0..hosts {
        cluster.look(host, Time::ZERO);
    }
}

impl<N: Links> Cluster<N> {
    /// Has processes share the processor of a host; none does anything before it looks.
    pub(crate) fn share_processor(
        &mut self,
        host: u32,
        scheduler: Scheduler,
        processes: Vec<Process>,
    ) {
        let mut line: VecDeque<usize> = (0..processes.len()).collect();
        let mut first_quantum = scheduler.quantum;
        if scheduler.phases == Phases::Random {
            let mut random = Stream::new(StreamKey {
                seed: self.config.seed,
                purpose: PHASE,
                entity: u64::from(host),
            });
            for place in (1..line.len()).rev() {
                line.swap(place, random.below(place as u64 + 1) as usize);
            }
            let gone = random.below(scheduler.quantum.picoseconds());
            first_quantum -= Time::from_picoseconds(gone);
        }
        let processor = Processor::new(scheduler, processes, line, first_quantum);
        self.nodes[host as usize].program = Program::Processes(Box::new(processor));
    }

    pub(crate) fn processors(&self) -> impl Iterator<Item = &Processor> {
        let nodes = self.nodes.iter();
        nodes.filter_map(|node| match &node.program {
            Program::Processes(processor) => Some(&**processor),
            _ => None,
        })
    }
}
