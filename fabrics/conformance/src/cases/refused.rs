//! Remote accesses that the target refuses: case 64, and rows of vipl.md table 7.2.

use std::sync::Arc;

use viaduct_provider::via::{MemoryAttributes, Queue, ReliabilityLevel, ViState};
use viaduct_provider::{Done, ErrorCode, Segment};

use super::rdma::{offer, read_levels, remote_memory};
use crate::case::{Case, Level};
use crate::check::{Outcome, equal, equal_bytes, equal_status, holds};
use crate::environment::Environment;
use crate::errors::Errors;
use crate::memory::Block;
use crate::pair::{End, Nic, Options, RD, RR, UD, pair, status};

pub(super) const CASES: &[Case] = &[
    Case::pair(
        64,
        Level::Functional,
        "remote_write_outside_protection_changes_nothing",
        &[refused_writer, refusing_target],
    ),
    Case::pair(
        99,
        Level::Functional,
        "remote_write_with_immediate_outside_protection",
        &[refused_immediate_writer, refusing_immediate_target],
    ),
    Case::pair(
        100,
        Level::EarlyAdopter,
        "remote_write_with_immediate_without_receive",
        &[immediate_without_receive, no_receive_for_immediate],
    ),
    Case::pair(
        101,
        Level::Optional,
        "remote_read_outside_protection_breaks",
        &[refused_reader, refusing_read_target],
    ),
];

/// What a remote access meets at its target.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    RegionNotEnabled,
    ViNotEnabled,
    OtherTag,
    PastTheEnd,
    DeadHandle,
}

const REFUSALS: [Refusal; 5] = [
    Refusal::RegionNotEnabled,
    Refusal::ViNotEnabled,
    Refusal::OtherTag,
    Refusal::PastTheEnd,
    Refusal::DeadHandle,
];

const REFUSED: usize = 64;

impl Refusal {
    /// A connected target, and memory that the peer may not reach.
    fn target(self, env: &Arc<Environment>, nic: &Nic, options: Options) -> Outcome<(End, Block)> {
        let (write, read) = (options.rdma_write, options.rdma_read);
        let options = match self {
            Self::ViNotEnabled => Options {
                rdma_write: false,
                rdma_read: false,
                ..options
            },
            _ => options,
        };
        let end = pair(env, nic, options)?;
        let block = Block::new(env, 2 * REFUSED)?;
        block.fill(0x42);
        let open = MemoryAttributes {
            tag: nic.tag,
            rdma_write: write,
            rdma_read: read,
        };
        let attributes = match self {
            Self::RegionNotEnabled => MemoryAttributes::local(nic.tag),
            Self::OtherTag => {
                let tag = env.provider().create_protection_tag(nic.handle)?;
                MemoryAttributes { tag, ..open }
            }
            _ => open,
        };
        let handle = block.register(env, nic.handle, &attributes)?;
        if matches!(self, Self::DeadHandle) {
            env.provider()
                .deregister_memory(nic.handle, block.as_pointer(), handle)?;
        }
        let offset = match self {
            Self::PastTheEnd => 2 * REFUSED as u64 - REFUSED as u64 + 1,
            _ => 0,
        };
        env.exchange_numbers([block.address() + offset, u64::from(handle.bits())])?;
        Ok((end, block))
    }

    fn remote(env: &Environment) -> Outcome<Segment> {
        remote_memory(env, None)
    }
}

#[track_caller]
fn untouched(block: Block) -> Outcome {
    let bytes = block.read(0, block.length());
    equal_bytes(
        &bytes,
        &vec![0x42; bytes.len()],
        "memory that may not be reached",
    )
}

/// Fails unless the connection broke, at a reliable level, or holds, at the unreliable one.
fn fate(end: &End, errors: &Errors, level: ReliabilityLevel) -> Outcome {
    if level == UD {
        return end.is_in(ViState::Connected);
    }
    end.comes_to(ViState::Error)?;
    errors.about_vi(&end.env, end.nic.handle, end.vi, ErrorCode::ConnectionLost)
}

fn refused_writer(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let errors = Errors::of(env, nic.handle)?;
    for level in nic.levels() {
        for refusal in REFUSALS {
            let end = pair(env, &nic, Options::level(level))?;
            let remote = Refusal::remote(env)?;
            let write = end.work(2)?.rdma_write(remote, &[end.segment(0, REFUSED)]);
            let taken = end.sent(end.post(write)?)?;
            let bits = taken.control.status;
            let what = format!("a remote write refused for {refusal:?} at {level:?}");
            match level {
                UD => equal_status(bits, status::WRITTEN, what)?,
                RR => equal_status(bits, status::WRITTEN | status::RDMA_PROTECTION_ERROR, what)?,
                // It may have completed before the target's answer.
                RD => holds(
                    bits == status::WRITTEN || taken.failed,
                    format_args!("{what}: complete or in error"),
                )?,
            }
            fate(&end, &errors, level)?;
            env.meet("checked")?;
            end.close()?;
        }
    }
    Ok(())
}

fn refusing_target(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let errors = Errors::of(env, nic.handle)?;
    for level in nic.levels() {
        for refusal in REFUSALS {
            let (end, block) = refusal.target(env, &nic, Options::level(level).rdma_write())?;
            errors.about_vi(env, nic.handle, end.vi, ErrorCode::RdmaWriteProtection)?;
            fate(&end, &errors, level)?;
            untouched(block)?;
            env.meet("checked")?;
            untouched(block)?;
            end.close()?;
        }
    }
    Ok(())
}

fn refused_immediate_writer(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let errors = Errors::of(env, nic.handle)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        let remote = Refusal::remote(env)?;
        env.meet("posted")?;
        let write = end
            .work(2)?
            .rdma_write(remote, &[end.segment(0, REFUSED)])
            .immediate(7);
        let taken = end.sent(end.post(write)?)?;
        if level == RR {
            let bits = taken.control.status & status::ERROR_MASK;
            equal_status(
                bits,
                status::RDMA_PROTECTION_ERROR,
                "the error of the remote write",
            )?;
        }
        fate(&end, &errors, level)?;
        env.meet("checked")?;
        end.close()?;
    }
    Ok(())
}

fn refusing_immediate_target(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let errors = Errors::of(env, nic.handle)?;
    for level in nic.levels() {
        let options = Options::level(level).rdma_write();
        let (end, block) = Refusal::RegionNotEnabled.target(env, &nic, options)?;
        let receive = end.post_receive(0, 64)?;
        env.meet("posted")?;
        let bits = end.received(receive)?.control.status & status::ERROR_MASK;
        equal_status(
            bits,
            status::RDMA_PROTECTION_ERROR,
            "the error of the receive",
        )?;
        fate(&end, &errors, level)?;
        untouched(block)?;
        let told = errors.count(end.vi, ErrorCode::RdmaWriteProtection);
        equal(told, 0, "how often RDMAW_PROT was told beside the receive")?;
        env.meet("checked")?;
        end.close()?;
    }
    Ok(())
}

fn immediate_without_receive(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let errors = Errors::of(env, nic.handle)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        let remote = remote_memory(env, None)?;
        let write = end
            .work(2)?
            .rdma_write(remote, &[end.segment(0, 64)])
            .immediate(7);
        let taken = end.sent(end.post(write)?)?;
        match level {
            UD => equal_status(taken.control.status, status::WRITTEN, "the remote write")?,
            RD => {}
            RR => holds(taken.failed, "a remote write that fails")?,
        }
        fate(&end, &errors, level)?;
        env.meet("checked")?;
        end.close()?;
    }
    Ok(())
}

fn no_receive_for_immediate(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let errors = Errors::of(env, nic.handle)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level).rdma_write())?;
        offer(&end)?;
        errors.about_vi(env, nic.handle, end.vi, ErrorCode::ReceiveQueueEmpty)?;
        fate(&end, &errors, level)?;
        equal(end.done(Queue::Receive)?, Done::Empty, "the receive queue")?;
        env.meet("checked")?;
        end.close()?;
    }
    Ok(())
}

fn refused_reader(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let errors = Errors::of(env, nic.handle)?;
    for level in read_levels(&nic)? {
        for refusal in REFUSALS {
            let end = pair(env, &nic, Options::level(level))?;
            let remote = Refusal::remote(env)?;
            end.data.fill(0x11);
            let read = end.work(2)?.rdma_read(remote, &[end.segment(0, REFUSED)]);
            let bits = end.sent(end.post(read)?)?.control.status;
            equal_status(
                bits,
                status::READ | status::RDMA_PROTECTION_ERROR,
                format_args!("a remote read refused for {refusal:?} at {level:?}"),
            )?;
            equal_bytes(
                &end.data.read(0, REFUSED),
                &[0x11; REFUSED],
                "the reader's memory",
            )?;
            fate(&end, &errors, level)?;
            env.meet("checked")?;
            end.close()?;
        }
    }
    Ok(())
}

fn refusing_read_target(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let errors = Errors::of(env, nic.handle)?;
    for level in read_levels(&nic)? {
        for refusal in REFUSALS {
            let (end, _block) = refusal.target(env, &nic, Options::level(level).rdma_read())?;
            errors.about_vi(env, nic.handle, end.vi, ErrorCode::RdmaReadProtection)?;
            fate(&end, &errors, level)?;
            env.meet("checked")?;
            end.close()?;
        }
    }
    Ok(())
}
