//! NICs, names, handles: cases 1 to 3, 76 to 80.

use std::sync::Arc;
use std::time::Duration;

use viaduct_provider::via::{Address, HostAddress, MemoryAttributes, MemoryHandle, ProtectionTag};
use viaduct_provider::{CompletionQueueHandle, ConnectionHandle, NicHandle, ReturnCode, ViHandle};

use crate::case::{Case, Level};
use crate::check::{Outcome, equal, holds, refused, skip};
use crate::environment::Environment;
use crate::memory::{Block, Work};
use crate::pair::{End, Nic, Options, milliseconds, pair};

pub(super) const CASES: &[Case] = &[
    Case::alone(1, Level::EarlyAdopter, "nic_opens_twice", &[opens_twice]),
    Case::alone(
        2,
        Level::EarlyAdopter,
        "unknown_device_is_refused",
        &[unknown_device],
    ),
    Case::alone(
        3,
        Level::EarlyAdopter,
        "nic_attributes_are_sane",
        &[attributes],
    ),
    Case::pair(
        76,
        Level::EarlyAdopter,
        "own_name_resolves_and_connects",
        &[own_name, own_name],
    ),
    Case::alone(
        77,
        Level::EarlyAdopter,
        "unknown_name_is_refused",
        &[unknown_name],
    ),
    Case::alone(
        78,
        Level::EarlyAdopter,
        "address_resolves_to_name",
        &[name_of_address],
    ),
    Case::alone(
        79,
        Level::Optional,
        "discovery_finds_addresses",
        &[discovery],
    ),
    Case::alone(
        80,
        Level::EarlyAdopter,
        "dead_handles_are_refused",
        &[dead_handles],
    ),
];

const INVALID: ReturnCode = ReturnCode::InvalidParameter;

fn opens_twice(env: &Arc<Environment>) -> Outcome {
    let first = Nic::open(env)?;
    let second = Nic::open(env)?;
    holds(first.handle != second.handle, "two handles that differ")?;
    equal(second.host, first.host, "the address of the second handle")?;
    for nic in [&first, &second] {
        End::new(env, nic, Options::level(nic.any_level()?))?;
    }
    env.close_nic(first.handle)?;
    refused(
        env.provider().query_nic(first.handle),
        INVALID,
        "a query of the closed one",
    )?;
    End::new(env, &second, Options::level(second.any_level()?)).map(drop)
}

fn unknown_device(env: &Arc<Environment>) -> Outcome {
    for name in ["no such device", "", "\u{e4}"] {
        let opened = env.provider().open_nic(name);
        refused(opened, INVALID, format_args!("opening {name:?}"))?;
    }
    Ok(())
}

fn attributes(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let attributes = &nic.attributes;
    holds(!attributes.name.is_empty(), "a NIC with a name")?;
    holds(attributes.name.len() < 64, "a name of less than 64 bytes")?;
    holds(
        !attributes.name.contains('\0'),
        "a name without a zero byte",
    )?;
    holds(
        attributes.max_transfer_bytes >= 32_768,
        "a largest message of 32 KiB or more",
    )?;
    let levels = attributes.reliability_levels.bits();
    holds(
        levels != 0 && levels & !7 == 0,
        format_args!("levels in 1 to 7, were {levels}"),
    )?;
    let reads = attributes.rdma_read_levels.bits();
    holds(
        reads & !levels == 0,
        "remote reads at levels that exist only",
    )?;
    holds(
        attributes.max_discriminator_bytes >= 32,
        "discriminators of 32 bytes or more",
    )?;
    holds(
        attributes.max_descriptors_per_queue >= 1024,
        "1024 descriptors in a queue or more",
    )?;
    holds(
        attributes.max_completion_queue_entries >= 1024,
        "1024 entries in a queue or more",
    )?;
    holds(
        attributes.max_segments_per_descriptor >= 1,
        "a segment in a descriptor or more",
    )?;
    let limits = [
        attributes.max_vis,
        attributes.max_completion_queues,
        attributes.max_protection_tags,
        attributes.max_memory_regions,
    ];
    holds(
        !limits.contains(&0),
        format_args!("room for one of each, was {limits:?}"),
    )?;
    let again = env.provider().query_nic(nic.handle)?;
    equal(&again.0, attributes, "a second query")
}

fn own_name(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let name = env.provider().host_by_address(nic.handle, nic.host)?;
    let host = env.provider().host_by_name(nic.handle, &name, 0)?;
    equal(host, nic.host, "the address of the NIC's own name")?;
    // Connecting uses the address that the name gave.
    let resolved = Nic { host, ..nic };
    pair(env, &resolved, Options::level(resolved.any_level()?)).map(drop)?;
    env.meet("done")
}

fn unknown_name(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let code = ReturnCode::NameService;
    let unknown = env.provider().host_by_name(nic.handle, "no such host", 0);
    refused(unknown, code, "an unknown name")?;
    let name = env.provider().host_by_address(nic.handle, nic.host)?;
    let past = env.provider().host_by_name(nic.handle, &name, u32::MAX);
    refused(past, code, "an index past the last")
}

fn name_of_address(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let name = env.provider().host_by_address(nic.handle, nic.host)?;
    holds(
        !name.is_empty() && !name.contains('\0'),
        "a name of characters",
    )?;
    let nobody = HostAddress::new(0x0000_F00D_F00D_F00D);
    let unknown = env.provider().host_by_address(nic.handle, nobody);
    refused(
        unknown,
        ReturnCode::NameService,
        "an address that nobody has",
    )
}

fn discovery(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    match env.provider().discover(nic.handle, 1) {
        Err(error) if error.code() == ReturnCode::NotSupported => {
            skip("the fabric has no discovery")
        }
        found => holds(
            found?.contains(&nic.host),
            "the NIC's own address among those found",
        ),
    }
}

/// Every operation refuses what is not alive: handles that were, and numbers that never were.
fn dead_handles(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let level = nic.any_level()?;
    let end = End::new(env, &nic, Options::level(level))?;
    let queue = env.provider().create_completion_queue(nic.handle, 8)?;
    let address = nic.address(env, "nobody");
    let attributes = end.attributes;
    let work = end.work(1)?.receive(&[end.segment(0, 8)]);
    env.provider().destroy_vi(end.vi)?;
    env.provider().destroy_completion_queue(queue)?;
    env.close_nic(nic.handle)?;

    let number = 0x00DE_AD00_BEEF;
    let nics = [Some(nic.handle), NicHandle::from_bits(number)];
    let vis = [
        Some(end.vi),
        ViHandle::from_bits(number),
        ViHandle::from_bits(u64::MAX),
    ];
    let queues = [Some(queue), CompletionQueueHandle::from_bits(number)];
    for nic in nics.into_iter().flatten() {
        refuses_nic(env, nic, &address, &attributes, end.data)?;
    }
    for vi in vis.into_iter().flatten() {
        refuses_vi(env, vi, &address, &attributes, work)?;
    }
    for queue in queues.into_iter().flatten() {
        let fabric = env.provider();
        refused(
            fabric.destroy_completion_queue(queue),
            INVALID,
            "destroying a dead queue",
        )?;
        refused(
            fabric.resize_completion_queue(queue, 9),
            INVALID,
            "resizing a dead queue",
        )?;
        refused(
            fabric.completion_done(queue),
            INVALID,
            "a look at a dead queue",
        )?;
        let waited = fabric.completion_wait(queue, milliseconds(50));
        refused(waited, INVALID, "a wait on a dead queue")?;
        let notify = fabric.completion_notify(queue, Box::new(|_, _| {}));
        refused(notify, INVALID, "a notify on a dead queue")?;
    }
    // A live NIC refuses what belonged to another one.
    let nic = Nic::open(env)?;
    let created = env.provider().create_vi(
        nic.handle,
        &Options::attributes(&nic, level),
        Some(queue),
        None,
    );
    refused(created, INVALID, "a VI on a dead queue")?;
    if let Some(connection) = ConnectionHandle::from_bits(number) {
        let end = End::new(env, &nic, Options::level(level))?;
        let accepted = env.provider().connect_accept(connection, end.vi);
        refused(accepted, INVALID, "accepting a request that is none")?;
        let rejected = env.provider().connect_reject(connection);
        refused(rejected, INVALID, "rejecting a request that is none")?;
    }
    Ok(())
}

fn refuses_nic(
    env: &Environment,
    nic: NicHandle,
    address: &Address,
    vi: &viaduct_provider::via::ViAttributes,
    block: Block,
) -> Outcome {
    let fabric = env.provider();
    let tag: ProtectionTag = vi.tag;
    let local = MemoryAttributes::local(tag);
    let handle = MemoryHandle::from_bits(1);
    refused(fabric.close_nic(nic), INVALID, "closing a dead NIC")?;
    refused(fabric.query_nic(nic), INVALID, "a query of a dead NIC")?;
    refused(
        fabric.create_vi(nic, vi, None, None),
        INVALID,
        "a VI of a dead NIC",
    )?;
    let waited = fabric.connect_wait(nic, address, milliseconds(50));
    refused(waited, INVALID, "waiting at a dead NIC")?;
    refused(
        fabric.create_protection_tag(nic),
        INVALID,
        "a tag of a dead NIC",
    )?;
    refused(
        fabric.destroy_protection_tag(nic, tag),
        INVALID,
        "destroying a tag of a dead NIC",
    )?;
    refused(
        block.register(env, nic, &local),
        INVALID,
        "registering at a dead NIC",
    )?;
    let address = block.as_pointer();
    let ended = fabric.deregister_memory(nic, address, handle);
    refused(ended, INVALID, "deregistering at a dead NIC")?;
    refused(
        fabric.query_memory(nic, address, handle),
        INVALID,
        "a region of a dead NIC",
    )?;
    let set = fabric.set_memory_attributes(nic, address, handle, &local);
    refused(set, INVALID, "setting a region of a dead NIC")?;
    refused(
        fabric.create_completion_queue(nic, 8),
        INVALID,
        "a queue of a dead NIC",
    )?;
    refused(
        fabric.set_error_handler(nic, None),
        INVALID,
        "a handler of a dead NIC",
    )?;
    refused(
        fabric.host_by_name(nic, "localhost", 0),
        INVALID,
        "a name at a dead NIC",
    )?;
    let name = fabric.host_by_address(nic, HostAddress::new(1));
    refused(name, INVALID, "an address at a dead NIC")?;
    refused(
        fabric.allocate_shared(nic, 4096),
        INVALID,
        "memory of a dead NIC",
    )
}

fn refuses_vi(
    env: &Environment,
    vi: ViHandle,
    address: &Address,
    attributes: &viaduct_provider::via::ViAttributes,
    work: Work,
) -> Outcome {
    let fabric = env.provider();
    let soon = milliseconds(50);
    refused(fabric.destroy_vi(vi), INVALID, "destroying a dead VI")?;
    refused(fabric.query_vi(vi), INVALID, "a query of a dead VI")?;
    refused(
        fabric.set_vi_attributes(vi, attributes),
        INVALID,
        "setting a dead VI",
    )?;
    let asked = fabric.connect_request(vi, address, address, soon);
    refused(asked, INVALID, "a request of a dead VI")?;
    refused(fabric.disconnect(vi), INVALID, "disconnecting a dead VI")?;
    let asked = fabric.connect_peer_request(vi, address, address, soon);
    refused(asked, INVALID, "a peer request of a dead VI")?;
    refused(
        fabric.connect_peer_done(vi),
        INVALID,
        "a look for the peer of a dead VI",
    )?;
    refused(
        fabric.connect_peer_wait(vi),
        INVALID,
        "a wait for the peer of a dead VI",
    )?;
    refused(work.post_send(env, vi), INVALID, "a send on a dead VI")?;
    refused(
        work.post_receive(env, vi),
        INVALID,
        "a receive on a dead VI",
    )?;
    refused(
        fabric.send_done(vi),
        INVALID,
        "a look at the sends of a dead VI",
    )?;
    refused(
        fabric.receive_done(vi),
        INVALID,
        "a look at the receives of a dead VI",
    )?;
    refused(
        fabric.send_wait(vi, soon),
        INVALID,
        "a wait for the sends of a dead VI",
    )?;
    refused(
        fabric.receive_wait(vi, soon),
        INVALID,
        "a wait for the receives of a dead VI",
    )?;
    let notify = fabric.send_notify(vi, Box::new(|_, _, _| {}));
    refused(notify, INVALID, "a notify on the sends of a dead VI")?;
    let notify = fabric.receive_notify(vi, Box::new(|_, _, _| {}));
    refused(notify, INVALID, "a notify on the receives of a dead VI")?;
    refused(
        fabric.connect_request(vi, address, address, Some(Duration::ZERO)),
        INVALID,
        "no time",
    )
}
