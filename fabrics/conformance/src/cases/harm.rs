//! Messages that come to harm, beyond repair: each row of the table of outcomes about it, at each
//! level. Only over fabrics that harm their messages on purpose.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use viaduct_provider::via::outcome::{Damage, Harm};
use viaduct_provider::via::{Queue, ReliabilityLevel, ViState};
use viaduct_provider::{Done, ErrorCode};

use super::levels::broke;
use super::rdma::{offer, remote_memory};
use crate::case::{Case, Level, Side};
use crate::check::{Outcome, equal, equal_status, holds};
use crate::environment::Environment;
use crate::errors::Errors;
use crate::pair::{End, Nic, Options, RD, RR, UD, status};

pub(super) const CASES: &[Case] = &[
    harmed(
        142,
        "corrupt_messages_end_as_their_level_says",
        Harm::Arriving(Damage::Corrupt),
        &[initiates, is_target],
    ),
    harmed(
        143,
        "messages_of_which_a_part_arrives_end_as_their_level_says",
        Harm::Arriving(Damage::CutShort),
        &[initiates, is_target],
    ),
    harmed(
        144,
        "lost_messages_end_as_their_level_says",
        Harm::Lost,
        &[initiates, is_target],
    ),
    harmed(
        145,
        "messages_that_fail_at_their_sender_end_as_their_level_says",
        Harm::Leaving(Damage::Corrupt),
        &[initiates, is_target],
    ),
    harmed(
        146,
        "messages_of_which_a_part_leaves_end_as_their_level_says",
        Harm::Leaving(Damage::CutShort),
        &[initiates, is_target],
    ),
    harmed(
        147,
        "a_lost_message_fails_what_both_ends_have_under_way",
        Harm::Lost,
        &[loses_first, loses_second],
    ),
];

const fn harmed(number: u16, name: &'static str, harm: Harm, sides: &'static [Side; 2]) -> Case {
    Case {
        harm: Some(harm),
        ..Case::pair(number, Level::Decision, name, sides)
    }
}

/// How a message asks for its target's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Send,
    Write,
    WriteWithImmediate,
    Read,
}

/// One message that comes to harm.
#[derive(Clone, Copy, Debug)]
struct Trial {
    harm: Harm,
    level: ReliabilityLevel,
    kind: Kind,
}

impl fmt::Display for Trial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:?}, {:?}, {:?}",
            self.kind, self.level, self.harm
        )
    }
}

/// Bytes of each message.
const BYTES: usize = 100;

impl Trial {
    /// Every message that a NIC can make.
    fn all(env: &Environment, nic: &Nic) -> Vec<Self> {
        let Some(harm) = env.harm() else {
            return Vec::new();
        };
        let kinds = [
            Kind::Send,
            Kind::Write,
            Kind::WriteWithImmediate,
            Kind::Read,
        ];
        let trials = nic
            .levels()
            .into_iter()
            .flat_map(|level| kinds.map(|kind| Self { harm, level, kind }));
        let can = |trial: &Self| {
            trial.kind != Kind::Read || nic.attributes.supports_rdma_read(trial.level)
        };
        trials.filter(can).collect()
    }

    /// The damage that its receiver sees.
    fn arriving(self) -> Option<Damage> {
        match self.harm {
            Harm::Arriving(damage) if self.kind != Kind::Read => Some(damage),
            _ => None,
        }
    }

    /// What the initiator's descriptor says.
    fn sent(self) -> u32 {
        let operation = match self.kind {
            Kind::Send => status::SENT,
            Kind::Write | Kind::WriteWithImmediate => status::WRITTEN,
            Kind::Read => status::READ,
        };
        let error = match (self.level, self.harm) {
            (UD, Harm::Leaving(Damage::CutShort)) => status::PARTIAL_ERROR,
            (_, Harm::Leaving(_)) | (RR, _) => status::TRANSPORT_ERROR,
            _ if self.kind == Kind::Read => status::TRANSPORT_ERROR,
            _ => 0,
        };
        operation | error
    }

    /// What the receive that it takes says, if it takes one.
    fn received(self) -> Option<u32> {
        let operation = match self.kind {
            Kind::Send => status::RECEIVED,
            Kind::WriteWithImmediate => status::WRITTEN_BY_PEER & !status::IMMEDIATE,
            Kind::Write | Kind::Read => return None,
        };
        Some(match self.arriving()? {
            Damage::Corrupt => operation | status::TRANSPORT_ERROR,
            Damage::CutShort => operation | status::PARTIAL_ERROR,
        })
    }

    /// What the target is told beside the loss of the connection.
    fn event(self) -> Option<ErrorCode> {
        match (self.kind, self.arriving()?) {
            (Kind::Write, Damage::Corrupt) => Some(ErrorCode::RdmaWriteData),
            (Kind::Write, Damage::CutShort) => Some(ErrorCode::RdmaWriteAbort),
            _ => None,
        }
    }

    /// A VI for it, not yet connected, and what its NIC is told.
    fn end(self, env: &Arc<Environment>) -> Outcome<(End, Errors)> {
        let nic = Nic::open(env)?;
        let errors = Errors::of(env, nic.handle)?;
        let options = Options::level(self.level).rdma_write();
        let options = match self.kind {
            Kind::Read => options.rdma_read(),
            _ => options,
        };
        Ok((End::new(env, &nic, options)?, errors))
    }

    /// Whether the VI is as its level says, with nothing told but these.
    fn ends(self, end: End, errors: &Errors, events: &[ErrorCode]) -> Outcome {
        let mut told = events.to_vec();
        if self.level == UD {
            end.env.sleep(10);
            end.is_in(ViState::Connected)?;
        } else {
            broke(&end, errors)?;
            told.push(ErrorCode::ConnectionLost);
        }
        errors.only(end.vi, &told)?;
        let nic = end.nic.handle;
        let env = end.env.clone();
        end.close()?;
        env.close_nic(nic)
    }
}

fn initiates(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for trial in Trial::all(env, &nic) {
        let (end, errors) = trial.end(env)?;
        end.connect()?;
        let remote = remote_memory(env, None)?;
        let local = [end.segment(0, BYTES)];
        let work = match trial.kind {
            Kind::Send => end.work(1)?.send(&local),
            Kind::Write => end.work(2)?.rdma_write(remote, &local),
            Kind::WriteWithImmediate => end.work(2)?.rdma_write(remote, &local).immediate(7),
            Kind::Read => end.work(2)?.rdma_read(remote, &local),
        };
        let taken = end.sent(end.post(work)?)?;
        equal_status(taken.control.status, trial.sent(), trial)?;
        let is_remote = trial.kind != Kind::Send;
        let fails_here = is_remote && trial.level != UD && trial.sent() & status::ERROR_MASK != 0;
        let events: &[ErrorCode] = match fails_here {
            true => &[ErrorCode::RdmaTransport],
            false => &[],
        };
        for code in events {
            errors.about_vi(env, end.nic.handle, end.vi, *code)?;
        }
        trial.ends(end, &errors, events)?;
    }
    Ok(())
}

fn is_target(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for trial in Trial::all(env, &nic) {
        let (end, errors) = trial.end(env)?;
        let receives = [
            end.post_receive(1000, BYTES)?,
            end.post_receive(2000, BYTES)?,
        ];
        end.connect()?;
        offer(&end)?;
        let mut rest = &receives[..];
        if let Some(expected) = trial.received() {
            let taken = end.received(receives[0])?;
            equal_status(taken.control.status, expected, trial)?;
            holds(
                taken.control.length as usize <= BYTES,
                "a length of what came",
            )?;
            rest = &receives[1..];
        }
        if trial.level != UD {
            for receive in rest {
                let taken = end.received(*receive)?;
                let flushed = status::RECEIVED | status::FLUSHED;
                equal_status(taken.control.status, flushed, "a receive behind it")?;
            }
        }
        if let Some(code) = trial.event() {
            errors.about_vi(env, end.nic.handle, end.vi, code)?;
        }
        if trial.level == UD {
            end.env.sleep(10);
            equal(
                end.done(Queue::Receive)?,
                Done::NotDone,
                "the receives that are left",
            )?;
        }
        let events: Vec<ErrorCode> = trial.event().into_iter().collect();
        trial.ends(end, &errors, &events)?;
    }
    Ok(())
}

/// A message is lost while the other end has one under way that came later.
fn loses_first(env: &Arc<Environment>) -> Outcome {
    loses(env, Duration::ZERO)
}

fn loses_second(env: &Arc<Environment>) -> Outcome {
    // Less than any transport waits until it gives up, and more than it takes to say so.
    loses(env, Duration::from_micros(300))
}

fn loses(env: &Arc<Environment>, after: Duration) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.reliable_levels() {
        let nic = Nic::open(env)?;
        let errors = Errors::of(env, nic.handle)?;
        let end = End::new(env, &nic, Options::level(level))?;
        end.connect()?;
        let start = env.now();
        while env.now() - start < after {
            env.relax();
        }
        let taken = end.sent(end.post_send(0, BYTES)?)?;
        let error = taken.control.status & status::ERROR_MASK;
        // Whoever comes after the end of the connection has nothing under way any more, and at
        // reliable delivery a send is complete when it has left.
        let allowed = match level {
            RD => &[0, status::FLUSHED, status::TRANSPORT_ERROR][..],
            _ => &[status::FLUSHED, status::TRANSPORT_ERROR][..],
        };
        holds(
            allowed.contains(&error),
            format_args!(
                "a lost send at {level:?} with status {:#010x}",
                taken.control.status
            ),
        )?;
        broke(&end, &errors)?;
        errors.only(end.vi, &[ErrorCode::ConnectionLost])?;
        end.close()?;
    }
    Ok(())
}
