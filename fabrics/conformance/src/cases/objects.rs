//! VIs, protection tags and memory regions: cases 5 to 12.

use std::sync::Arc;

use viaduct_provider::via::{
    MemoryAttributes, MemoryHandle, ReliabilityLevel, ViAttributes, ViState,
};
use viaduct_provider::{ErrorCode, ReturnCode, Segment};

use crate::case::{Case, Level};
use crate::check::{Outcome, equal, equal_bytes, equal_status, holds, refused, skip};
use crate::environment::Environment;
use crate::errors::Errors;
use crate::memory::Block;
use crate::pair::{End, Nic, Options, RD, RR, UD, connect_locally, pair, status};

pub(super) const CASES: &[Case] = &[
    Case::alone(
        5,
        Level::EarlyAdopter,
        "vi_is_made_as_asked",
        &[vi_as_asked],
    ),
    Case::alone(
        6,
        Level::EarlyAdopter,
        "unsupported_level_is_refused",
        &[unsupported_level],
    ),
    Case::alone(
        7,
        Level::EarlyAdopter,
        "transfer_limit_above_the_nics_is_refused",
        &[transfer_limit],
    ),
    Case::alone(
        8,
        Level::Functional,
        "dead_or_foreign_tag_is_refused",
        &[bad_tag],
    ),
    Case::alone(
        9,
        Level::Optional,
        "remote_read_where_it_lacks_is_refused",
        &[no_remote_read],
    ),
    Case::alone(
        10,
        Level::EarlyAdopter,
        "deregistering_needs_the_start",
        &[deregister_elsewhere],
    ),
    Case::pair(
        11,
        Level::EarlyAdopter,
        "two_registrations_keep_their_own_rights",
        &[two_rights_writer, two_rights_target],
    ),
    Case::alone(
        12,
        Level::Functional,
        "tag_in_use_is_not_destroyed",
        &[tag_in_use],
    ),
    Case::alone(
        81,
        Level::Decision,
        "attributes_of_vis_and_regions_change",
        &[set_attributes],
    ),
    Case::alone(
        131,
        Level::EarlyAdopter,
        "unknown_quality_of_service_is_refused",
        &[unknown_quality],
    ),
];

fn unknown_quality(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let count = nic.attributes.qualities_of_service;
    let good = Options::attributes(&nic, nic.any_level()?);
    let unknown = ViAttributes {
        quality_of_service: count,
        ..good
    };
    let made = env.provider().create_vi(nic.handle, &unknown, None, None);
    refused(
        made,
        ReturnCode::InvalidQos,
        "a VI of a quality that the NIC lacks",
    )?;
    let vi = env.provider().create_vi(nic.handle, &good, None, None)?;
    let set = env.provider().set_vi_attributes(vi, &unknown);
    refused(
        set,
        ReturnCode::InvalidQos,
        "setting a VI to a quality that the NIC lacks",
    )
}

fn vi_as_asked(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        for rdma_write in [false, true] {
            let attributes = ViAttributes {
                rdma_write,
                max_transfer_bytes: 4096,
                ..Options::attributes(&nic, level)
            };
            let vi = env
                .provider()
                .create_vi(nic.handle, &attributes, None, None)?;
            let information = env.provider().query_vi(vi)?;
            equal(information.state, ViState::Idle, "the state of a new VI")?;
            equal(
                information.attributes,
                attributes,
                "the attributes of a new VI",
            )?;
            holds(information.send_queue_empty, "an empty send queue")?;
            holds(information.receive_queue_empty, "an empty receive queue")?;
            env.provider().destroy_vi(vi)?;
            refused(
                env.provider().query_vi(vi),
                ReturnCode::InvalidParameter,
                "the VI after it",
            )?;
        }
    }
    Ok(())
}

fn unsupported_level(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let levels = nic.levels();
    let others: Vec<ReliabilityLevel> = [UD, RD, RR]
        .into_iter()
        .filter(|level| !levels.contains(level))
        .collect();
    if others.is_empty() {
        return skip("all three levels are supported; numbers that are none have no Rust value");
    }
    for level in others {
        let attributes = Options::attributes(&nic, level);
        let made = env
            .provider()
            .create_vi(nic.handle, &attributes, None, None);
        refused(
            made,
            ReturnCode::InvalidReliabilityLevel,
            format_args!("a VI of {level:?}"),
        )?;
    }
    Ok(())
}

fn transfer_limit(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let limit = nic.attributes.max_transfer_bytes;
    let fits = ViAttributes {
        max_transfer_bytes: limit,
        ..Options::attributes(&nic, nic.any_level()?)
    };
    let vi = env.provider().create_vi(nic.handle, &fits, None, None)?;
    let Some(above) = limit.checked_add(1) else {
        return skip("no number is above the NIC's limit");
    };
    let too_much = ViAttributes {
        max_transfer_bytes: above,
        ..fits
    };
    let made = env.provider().create_vi(nic.handle, &too_much, None, None);
    refused(made, ReturnCode::InvalidMtu, "a VI above the limit")?;
    let set = env.provider().set_vi_attributes(vi, &too_much);
    refused(set, ReturnCode::InvalidMtu, "setting a VI above the limit")
}

fn bad_tag(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let other = Nic::open(env)?;
    let dead = env.provider().create_protection_tag(nic.handle)?;
    env.provider().destroy_protection_tag(nic.handle, dead)?;
    let good = Options::attributes(&nic, nic.any_level()?);
    let block = Block::new(env, 64)?;
    for (tag, what) in [
        (dead, "a destroyed tag"),
        (other.tag, "the tag of another NIC handle"),
    ] {
        let attributes = ViAttributes { tag, ..good };
        let made = env
            .provider()
            .create_vi(nic.handle, &attributes, None, None);
        refused(
            made,
            ReturnCode::InvalidPtag,
            format_args!("a VI with {what}"),
        )?;
        let registered = block.register(env, nic.handle, &MemoryAttributes::local(tag));
        refused(
            registered,
            ReturnCode::InvalidPtag,
            format_args!("a region with {what}"),
        )?;
    }
    Ok(())
}

fn no_remote_read(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let mut tried = false;
    for level in nic.levels() {
        if nic.attributes.rdma_read_levels.contains(level) {
            continue;
        }
        tried = true;
        let attributes = ViAttributes {
            rdma_read: true,
            ..Options::attributes(&nic, level)
        };
        let made = env
            .provider()
            .create_vi(nic.handle, &attributes, None, None);
        refused(
            made,
            ReturnCode::InvalidRdmaRead,
            format_args!("remote reads at {level:?}"),
        )?;
    }
    if nic.attributes.rdma_read_levels.bits() == 0 {
        let attributes = MemoryAttributes {
            rdma_read: true,
            ..MemoryAttributes::local(nic.tag)
        };
        let registered = Block::new(env, 64)?.register(env, nic.handle, &attributes);
        refused(
            registered,
            ReturnCode::InvalidRdmaRead,
            "a region for remote reads",
        )?;
    }
    if tried {
        Ok(())
    } else {
        skip("remote reads work at every level")
    }
}

fn deregister_elsewhere(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let level = nic.any_level()?;
    let (client, server) = (
        End::new(env, &nic, Options::level(level))?,
        End::new(env, &nic, Options::level(level))?,
    );
    let inside = client.data.as_pointer().wrapping_add(64);
    for (address, what) in [(inside, "inside"), (std::ptr::null_mut(), "at 0")] {
        let ended = env
            .provider()
            .deregister_memory(nic.handle, address, client.handle);
        refused(
            ended,
            ReturnCode::InvalidParameter,
            format_args!("the end of a region {what}"),
        )?;
    }
    let start = client.data.as_pointer();
    let other = env
        .provider()
        .deregister_memory(nic.handle, start, MemoryHandle::from_bits(0));
    refused(other, ReturnCode::InvalidParameter, "the end of handle 0")?;

    let receive = server.post_receive(0, 64)?;
    connect_locally(&client, &server, "still works")?;
    let bytes = client.fill(0, 64, 10);
    let send = client.post_send(0, 64)?;
    client.sent_well(send)?;
    server.received_bytes(receive, 0, &bytes)?;

    env.provider()
        .deregister_memory(nic.handle, start, client.handle)?;
    let again = env
        .provider()
        .deregister_memory(nic.handle, start, client.handle);
    refused(
        again,
        ReturnCode::InvalidParameter,
        "the end of a region that ended",
    )?;
    let query = env
        .provider()
        .query_memory(nic.handle, start, client.handle);
    refused(
        query,
        ReturnCode::InvalidParameter,
        "a query of a region that ended",
    )
}

/// Writes into the same bytes under two handles: one allows it, one does not.
fn two_rights_writer(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    let end = pair(env, &nic, Options::level(UD).rdma_write())?;
    let [address, writable, closed] = env.exchange_numbers([0; 3])?;
    let bytes = end.fill(0, 64, 11);
    for handle in [closed, writable] {
        let remote = Segment {
            address,
            handle: handle as u32,
            length: 0,
        };
        let write = end.post(
            end.work(2)?
                .rdma_write(remote, &[end.segment(0, bytes.len())]),
        )?;
        let taken = end.sent(write)?;
        equal_status(taken.control.status, status::WRITTEN, "a remote write")?;
        env.meet("written")?;
        env.meet("looked")?;
    }
    end.close()
}

fn two_rights_target(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    let errors = Errors::of(env, nic.handle)?;
    let end = End::new(env, &nic, Options::level(UD).rdma_write())?;
    let closed = end
        .data
        .register(env, nic.handle, &MemoryAttributes::local(nic.tag))?;
    holds(
        closed.bits() != 0 && end.handle.bits() != 0,
        "handles other than 0",
    )?;
    holds(closed != end.handle, "two handles that differ")?;
    let start = end.data.as_pointer();
    let rights = |handle| env.provider().query_memory(nic.handle, start, handle);
    equal(
        rights(closed)?.rdma_write,
        false,
        "the right to write under the second handle",
    )?;
    equal(
        rights(end.handle)?.rdma_write,
        true,
        "the right to write under the first handle",
    )?;
    end.connect()?;
    env.exchange_numbers([
        end.data.address(),
        u64::from(end.handle.bits()),
        u64::from(closed.bits()),
    ])?;
    env.meet("written")?;
    errors.about_vi(env, nic.handle, end.vi, ErrorCode::RdmaWriteProtection)?;
    equal_bytes(
        &end.data.read(0, 64),
        &[0; 64],
        "memory under the closed handle",
    )?;
    env.meet("looked")?;
    env.meet("written")?;
    let expected = crate::memory::pattern(11, 64);
    env.until("the bytes of the allowed write", || {
        Ok((end.data.read(0, 64) == expected).then_some(()))
    })?;
    env.meet("looked")?;
    end.close()
}

fn tag_in_use(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let fabric = env.provider();
    let tag = fabric.create_protection_tag(nic.handle)?;
    let block = Block::new(env, 64)?;
    let handle = block.register(env, nic.handle, &MemoryAttributes::local(tag))?;
    let destroyed = fabric.destroy_protection_tag(nic.handle, tag);
    refused(
        destroyed,
        ReturnCode::Resource,
        "the end of a tag that a region uses",
    )?;
    fabric.deregister_memory(nic.handle, block.as_pointer(), handle)?;
    let attributes = ViAttributes {
        tag,
        ..Options::attributes(&nic, nic.any_level()?)
    };
    let vi = fabric.create_vi(nic.handle, &attributes, None, None)?;
    let destroyed = fabric.destroy_protection_tag(nic.handle, tag);
    refused(
        destroyed,
        ReturnCode::Resource,
        "the end of a tag that a VI uses",
    )?;
    fabric.destroy_vi(vi)?;
    fabric.destroy_protection_tag(nic.handle, tag)?;
    let again = fabric.destroy_protection_tag(nic.handle, tag);
    holds(again.is_err(), "a refusal to destroy a tag twice")
}

fn set_attributes(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let fabric = env.provider();
    let tag = fabric.create_protection_tag(nic.handle)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let changed = ViAttributes {
        max_transfer_bytes: 1024,
        tag,
        rdma_write: true,
        ..end.attributes
    };
    fabric.set_vi_attributes(end.vi, &changed)?;
    equal(
        fabric.query_vi(end.vi)?.attributes,
        changed,
        "the attributes that were set",
    )?;
    let start = end.data.as_pointer();
    let rights = MemoryAttributes {
        tag,
        rdma_write: true,
        rdma_read: false,
    };
    fabric.set_memory_attributes(nic.handle, start, end.handle, &rights)?;
    let now = fabric.query_memory(nic.handle, start, end.handle)?;
    equal(now, rights, "the rights that were set")?;
    let destroyed = fabric.destroy_protection_tag(nic.handle, tag);
    refused(
        destroyed,
        ReturnCode::Resource,
        "the end of the tag that both use now",
    )?;
    let past = start.wrapping_add(1);
    let elsewhere = fabric.set_memory_attributes(nic.handle, past, end.handle, &rights);
    refused(
        elsewhere,
        ReturnCode::InvalidParameter,
        "setting a region by another address",
    )?;
    let empty = Block::new(env, 0)?.register(env, nic.handle, &rights);
    refused(empty, ReturnCode::InvalidParameter, "a region of no bytes")
}
