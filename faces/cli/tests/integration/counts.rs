//! The two faces agree: one program counts the same remote writes, copies and wake-ups on the real
//! shared-memory fabric and on the model of CLAN, all costs but one set to zero.
//!
//! The model is the one of `docs/models.md`: CLAN with queues that are made as the real ones. CLAN
//! as it was in 2001 is held to what does not depend on how its queues are made.
//!
//! The real fabric reads its way to move bytes from the environment, so each way is a process of
//! its own: this very test, started again.

mod program;
mod simulated;

use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

use viaduct_provider::via::ReliabilityLevel;
use viaduct_provider::{Counts, Memory};
use viaduct_shm::Shm;

use self::program::{Case, Meeting, Pattern, Wait, side};
use self::simulated::{Design, Mover, simulated};

/// How a process of the real fabric is told to move bytes, and what that is in the model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// Short messages in slots, long ones straight into shared memory.
    Auto,
    /// All straight into shared memory: CLAN's PIO.
    Direct,
    /// All by the kernel, between private memories: CLAN's DMA.
    Copy,
}

impl Way {
    const ALL: [Self; 3] = [Self::Auto, Self::Direct, Self::Copy];

    const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Direct => "direct",
            Self::Copy => "copy",
        }
    }

    const fn memory(self) -> Memory {
        match self {
            Self::Auto | Self::Direct => Memory::Shared,
            Self::Copy => Memory::Private,
        }
    }

    const fn mover(self) -> Mover {
        match self {
            Self::Auto => Mover::ProcessorAndSlots,
            Self::Direct => Mover::Processor,
            Self::Copy => Mover::Engine,
        }
    }
}

/// In the environment of the process that does one way's cases.
const WAY: &str = "VIADUCT_TEST_COUNTS_WAY";

fn start(way: Way) {
    // Two threads poll in each way: side by side they would only hold each other up.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let outcome = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "counts::both_faces", "--ignored", "--nocapture"])
        .env(WAY, way.name())
        .env("VIADUCT_TRANSFER", way.name())
        // A receiver that is to sleep does so at once.
        .env("VIADUCT_SPIN_US", "0")
        .env_remove("VIADUCT_THRESHOLDS")
        .env_remove("VIADUCT_PROTECTED")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&outcome.stdout);
    let errors = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.success(), "{text}\n{errors}");
    assert!(text.contains("1 passed"), "{text}\n{errors}");
}

#[test]
fn inline_and_direct_messages_count_alike_on_both_faces() {
    start(Way::Auto);
}

#[test]
fn direct_messages_count_alike_on_both_faces() {
    start(Way::Direct);
}

#[test]
fn copied_messages_count_alike_on_both_faces() {
    start(Way::Copy);
}

fn cases(way: Way) -> Vec<Case> {
    let mut cases = Vec::new();
    // 48 bytes fill a slot, and 240 are the most that goes in slots.
    for bytes in [0, 4, 48, 64, 240, 1 << 10, 16 << 10] {
        for segments in [1, 3] {
            for wait in [Wait::Poll, Wait::Block] {
                for is_queued in [false, true] {
                    for level in [
                        ReliabilityLevel::Unreliable,
                        ReliabilityLevel::ReliableDelivery,
                        ReliabilityLevel::ReliableReception,
                    ] {
                        for flow_control in [false, true] {
                            for pattern in [Pattern::PingPong, Pattern::Stream] {
                                // What goes in slots may be received in several segments; the rest
                                // would go through the pool, which CLAN does not have.
                                let is_short = way == Way::Auto && bytes <= 240;
                                cases.push(Case {
                                    bytes,
                                    segments,
                                    receive_segments: if is_short { segments } else { 1 },
                                    wait,
                                    is_queued,
                                    level,
                                    flow_control,
                                    pattern,
                                    memory: way.memory(),
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    cases
}

/// What the two sides counted on the real fabric: in one run that no pause disturbed, or else in
/// several that pauses did disturb.
///
/// After some milliseconds without news one end asks the other how far it has read. On a busy
/// machine that can happen in every run, and shows in `answers`.
fn real(case: Case) -> Vec<[Counts; 2]> {
    const ATTEMPTS: usize = 20;

    let mut disturbed = Vec::with_capacity(ATTEMPTS);
    while disturbed.len() < ATTEMPTS {
        let meeting = &Meeting::new();
        let counts = thread::scope(|scope| {
            let sides = [0, 1].map(|number| {
                scope.spawn(move || {
                    let pause = thread::yield_now;
                    side(Shm::global(), "shm", number, case, meeting, &pause)
                })
            });
            sides.map(|side| side.join().unwrap())
        });
        if counts.iter().all(|counts| counts.answers == 0) {
            return vec![counts];
        }
        disturbed.push(counts);
    }
    disturbed
}

/// What the real side would have counted had nobody asked it how far it had read.
///
/// An answer tells what a later return would have told, so it replaces one return at most.
fn unasked(real: &Counts, model: &Counts) -> Counts {
    let is_explained =
        real.returns <= model.returns && model.returns <= real.returns + real.answers;
    Counts {
        answers: 0,
        returns: if is_explained {
            model.returns
        } else {
            real.returns
        },
        ..*real
    }
}

/// The counts that mean the same whatever the queues are like.
const fn of_any_queues(counts: &Counts) -> Counts {
    Counts {
        cookies: 0,
        indexes: 0,
        returns: 0,
        ..of_equal_queues(counts)
    }
}

/// The counts that mean the same on both faces: all but the system calls of the real one, and the
/// requests by which an engine that works beside the processor keeps data and index in order.
const fn of_equal_queues(counts: &Counts) -> Counts {
    Counts {
        kicks: 0,
        index_requests: 0,
        ..*counts
    }
}

fn shown(counts: &Counts) -> String {
    let named = counts.named().into_iter().filter(|(_, count)| *count > 0);
    named
        .map(|(name, count)| format!(" {name}={count}"))
        .collect()
}

#[test]
#[ignore = "started by the others, in an environment of its own"]
fn both_faces() {
    let name = std::env::var(WAY).unwrap();
    let way = Way::ALL.into_iter().find(|way| way.name() == name).unwrap();
    let mut differences = Vec::new();
    for (number, case) in cases(way).into_iter().enumerate() {
        let runs = real(case);
        let mut compare = |design, part: fn(&Counts) -> Counts| {
            let model = simulated(case, design, way.mover(), number);
            let compared = |real: &[Counts; 2]| {
                [0, 1].map(|side| {
                    (
                        part(&unasked(&real[side], &model[side])),
                        part(&model[side]),
                    )
                })
            };
            let agrees = |real| compared(real).iter().all(|(real, model)| real == model);
            if runs.iter().any(agrees) {
                return;
            }
            for (side, (real, model)) in compared(&runs[0]).iter().enumerate() {
                if real != model {
                    differences.push(format!(
                        "{case:?}, {design:?}, side {side}:\n  real:     {}\n  simulated:{}",
                        shown(real),
                        shown(model)
                    ));
                }
            }
        };
        compare(Design::LikeShm, of_equal_queues);
        if way != Way::Auto {
            compare(Design::Clan, of_any_queues);
        }
    }
    let count = differences.len();
    differences.truncate(8);
    assert!(
        count == 0,
        "{count} differences:\n{}",
        differences.join("\n")
    );
}
