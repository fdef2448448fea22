use super::remote::RemoteRegionTable;
use super::*;
use viaduct_provider::via::{ReliabilityLevel, ReliabilityLevels, protection};

fn limits() -> NicAttributes {
    NicAttributes {
        max_protection_tags: 2,
        max_memory_regions: 3,
        max_region_bytes: 1000,
        max_registered_bytes: 1500,
        rdma_read_levels: ReliabilityLevels::NONE.with(ReliabilityLevel::ReliableDelivery),
        ..NicAttributes::default()
    }
}

fn table_with(nic: NicAttributes) -> RegionTable {
    RegionTable::new(Arc::new(nic), Arc::new(SharedAllocations::new())).unwrap()
}

fn table() -> RegionTable {
    table_with(limits())
}

/// Handle, address, length, tag.
type Range = (MemoryHandle, u64, u64, ProtectionTag);

fn check(table: &RegionTable, (handle, address, length, tag): Range) -> Check<Placement> {
    table.check(handle.bits(), address, length, tag.bits())
}

fn cached(
    table: &RegionTable,
    cache: &mut RegionCache,
    (handle, address, length, tag): Range,
) -> Check<Placement> {
    table.check_cached(cache, handle.bits(), address, length, tag.bits())
}

/// A VI that its peer may write and read through.
fn open_vi(tag: ProtectionTag) -> ViAttributes {
    ViAttributes {
        rdma_write: true,
        rdma_read: true,
        ..ViAttributes::unreliable(tag, 0)
    }
}

fn for_peer(
    table: &RegionTable,
    (handle, address, length, tag): Range,
    access: RemoteAccess,
) -> Check<Placement> {
    table.check_remote(handle.bits(), address, length, &open_vi(tag), access)
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> ReturnCode {
    result.unwrap_err().code()
}

#[test]
fn what_a_cache_covers_is_what_the_rule_says() {
    let tag = ProtectionTag::from_bits(1);
    let near = |base: u64| (0..=10).map(move |offset| base.wrapping_add(offset));
    // Where numbers begin, where they end, and where half of them lies behind.
    for base in [0, u64::MAX / 2 - 5, u64::MAX - 10] {
        for (start, length) in near(base).flat_map(|start| (1..=10).map(move |n| (start, n))) {
            if start.checked_add(length - 1).is_none() {
                continue;
            }
            let cache = RegionCache::new((start, length), 7, 0, 0, Placement::PRIVATE);
            let region = protection::Region {
                address: start,
                length,
                attributes: MemoryAttributes::local(tag),
            };
            let lengths = (0..=11).chain([u64::MAX - 1, u64::MAX]);
            for (address, bytes) in lengths.flat_map(|n| near(base).map(move |at| (at, n))) {
                assert_eq!(
                    cache.covers(0, 7, address, bytes),
                    region.covers(address, bytes),
                    "{bytes} bytes at {address:#x} of {length} at {start:#x}"
                );
            }
        }
    }
}

#[test]
fn a_cache_covers_the_descriptors_that_the_rule_does() {
    let tag = ProtectionTag::from_bits(1);
    let bytes = size_of::<Descriptor>() as u64;
    for base in [0, u64::MAX / 2 - 99, u64::MAX - 399] {
        for start in (0..130).map(|offset| base + offset) {
            for length in [1, 63, 64, 65, 127, 128, 129, 200, u64::MAX - start] {
                if length == 0 || start.checked_add(length - 1).is_none() {
                    continue;
                }
                let cache = RegionCache::new((start, length), 7, 0, 3, Placement::PRIVATE);
                let region = protection::Region {
                    address: start,
                    length,
                    attributes: MemoryAttributes::local(tag),
                };
                for address in (0..400).map(|offset| base.wrapping_add(offset)) {
                    let is_covered = address > 0
                        && address.is_multiple_of(DESCRIPTOR_ALIGNMENT as u64)
                        && region.covers(address, bytes);
                    assert_eq!(
                        cache.covers_descriptor(3, 7, address),
                        is_covered,
                        "a descriptor at {address:#x} of {length} at {start:#x}"
                    );
                    assert!(!cache.covers_descriptor(2, 7, address), "another epoch");
                    assert!(!cache.covers_descriptor(3, 8, address), "another handle");
                }
            }
        }
    }
    assert!(!RegionCache::EMPTY.covers_descriptor(0, 0, 0));
}

#[test]
fn protection_is_checked_to_the_byte() {
    // Conformance case 38, with and without a cache.
    let table = table();
    let tag = table.create_tag().unwrap();
    let other = table.create_tag().unwrap();
    let local = MemoryAttributes::local(tag);
    let handle = table.register(1001, 100, &local).unwrap();
    let mut cache = RegionCache::EMPTY;
    let mut verdict_of = |handle, address, length, tag| {
        let wanted = (handle, address, length, tag);
        let verdict = check(&table, wanted);
        for _ in 0..2 {
            assert_eq!(cached(&table, &mut cache, wanted), verdict);
        }
        verdict.map(|placement| assert_eq!(placement.segment, None))
    };
    assert_eq!(verdict_of(handle, 1001, 100, tag), Ok(()));
    assert_eq!(verdict_of(handle, 1001, 1, tag), Ok(()));
    assert_eq!(verdict_of(handle, 1100, 1, tag), Ok(()));
    let outside = Err(ProtectionError::OutsideRegion);
    assert_eq!(verdict_of(handle, 1000, 1, tag), outside, "one byte before");
    assert_eq!(verdict_of(handle, 1001, 101, tag), outside, "one byte past");
    assert_eq!(verdict_of(handle, 1101, 1, tag), outside, "the byte past");
    assert_eq!(verdict_of(handle, u64::MAX, 2, tag), outside, "wraps");
    assert_eq!(verdict_of(handle, 1002, u64::MAX, tag), outside, "wraps");
    let wrong_tag = Err(ProtectionError::WrongTag);
    assert_eq!(verdict_of(handle, 1001, 1, other), wrong_tag);
    let none = ProtectionTag::from_bits(0);
    assert_eq!(verdict_of(handle, 1001, 1, none), wrong_tag);
    for dead in [0, 1, handle.bits() + 1, handle.bits() ^ (1 << 20), u32::MAX] {
        let verdict = verdict_of(MemoryHandle::from_bits(dead), 1001, 1, tag);
        assert_eq!(verdict, Err(ProtectionError::UnknownHandle), "{dead:#x}");
        let nothing = verdict_of(MemoryHandle::from_bits(dead), 0, 0, tag);
        assert_eq!(nothing, Ok(()), "no byte is touched");
    }
}

#[test]
fn a_region_may_end_at_the_last_address() {
    let table = table();
    let tag = table.default_tag();
    let local = MemoryAttributes::local(tag);
    let start = u64::MAX - 9;
    let handle = table.register(start, 10, &local).unwrap();
    assert!(check(&table, (handle, start, 10, tag)).is_ok());
    assert!(check(&table, (handle, start + 1, 10, tag)).is_err());
    let refused = ReturnCode::InvalidParameter;
    assert_eq!(code(table.register(start, 11, &local)), refused);
    assert_eq!(code(table.register(start, 0, &local)), refused);
}

#[test]
fn deregistering_needs_the_start_address() {
    // Conformance case 10.
    let table = table();
    let tag = table.create_tag().unwrap();
    let local = MemoryAttributes::local(tag);
    let handle = table.register(64, 64, &local).unwrap();
    let mut cache = RegionCache::EMPTY;
    let inside = (handle, 64, 64, tag);
    let refused = ReturnCode::InvalidParameter;
    assert_eq!(code(table.deregister(65, handle)), refused);
    assert!(cached(&table, &mut cache, inside).is_ok());
    table.deregister(64, handle).unwrap();
    let dead = Err(ProtectionError::UnknownHandle);
    assert_eq!(check(&table, inside), dead);
    assert_eq!(cached(&table, &mut cache, inside), dead, "no stale hit");
    assert_eq!(code(table.deregister(64, handle)), refused);
    assert_eq!(code(table.query(64, handle)), refused);
    let again = table.register(64, 64, &local).unwrap();
    assert_ne!(again, handle);
    assert_eq!(cached(&table, &mut cache, inside), dead);
}

#[test]
fn a_region_does_not_end_while_bytes_are_copied_for_a_peer() {
    let table = table();
    let tag = table.create_tag().unwrap();
    let handle = table
        .register(64, 64, &MemoryAttributes::local(tag))
        .unwrap();
    let has_ended = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let copying = table.begin_remote_copy();
        scope.spawn(|| {
            table.deregister(64, handle).unwrap();
            has_ended.store(1, Ordering::Release);
        });
        // What begins now finds no region; what began before is waited for.
        while check(&table, (handle, 64, 64, tag)).is_ok() {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(has_ended.load(Ordering::Acquire), 0);
        drop(copying);
    });
    assert_eq!(has_ended.load(Ordering::Acquire), 1);
}

#[test]
fn the_same_bytes_registered_twice_have_two_handles() {
    // Conformance case 11.
    let table = table();
    let tag = table.create_tag().unwrap();
    let local = MemoryAttributes::local(tag);
    let written = MemoryAttributes {
        rdma_write: true,
        ..local
    };
    let first = table.register(0, 10, &local).unwrap();
    let second = table.register(0, 10, &written).unwrap();
    assert_ne!(first, second);
    assert!(first.bits() != 0 && second.bits() != 0);
    assert_eq!(table.query(0, first), Ok(local));
    assert_eq!(table.query(0, second), Ok(written));
    let write = |handle| {
        let wanted = (handle, 0, 10, tag);
        for_peer(&table, wanted, RemoteAccess::Write)
    };
    assert_eq!(write(first), Err(ProtectionError::NotEnabled));
    assert_eq!(write(second), Ok(Placement::PRIVATE));
    table.deregister(0, first).unwrap();
    assert!(write(second).is_ok());
}

#[test]
fn a_tag_in_use_is_not_destroyed() {
    // Conformance cases 8 and 12.
    let table = table();
    let tag = table.create_tag().unwrap();
    let local = MemoryAttributes::local(tag);
    let handle = table.register(0, 1, &local).unwrap();
    table.retain_tag(tag).unwrap();
    assert_eq!(code(table.destroy_tag(tag)), ReturnCode::Resource);
    table.deregister(0, handle).unwrap();
    assert_eq!(code(table.destroy_tag(tag)), ReturnCode::Resource);
    table.release_tag(tag);
    table.destroy_tag(tag).unwrap();
    assert_eq!(code(table.destroy_tag(tag)), ReturnCode::InvalidParameter);
    assert_eq!(code(table.retain_tag(tag)), ReturnCode::InvalidPtag);
    assert_eq!(code(table.register(0, 1, &local)), ReturnCode::InvalidPtag);
    let default = table.destroy_tag(table.default_tag());
    assert_eq!(code(default), ReturnCode::InvalidParameter);
}

#[test]
fn a_region_can_be_moved_to_another_tag() {
    let table = table();
    let tag = table.create_tag().unwrap();
    let other = table.create_tag().unwrap();
    let local = MemoryAttributes::local(tag);
    let handle = table.register(0, 8, &local).unwrap();
    let mut cache = RegionCache::EMPTY;
    let old = (handle, 0, 8, tag);
    assert!(cached(&table, &mut cache, old).is_ok());
    let moved = MemoryAttributes::local(other);
    table.set_attributes(0, handle, &moved).unwrap();
    assert_eq!(table.query(0, handle), Ok(moved));
    let refused = Err(ProtectionError::WrongTag);
    assert_eq!(cached(&table, &mut cache, old), refused);
    let new = (handle, 0, 8, other);
    assert!(cached(&table, &mut cache, new).is_ok());
    table.destroy_tag(tag).unwrap();
    let dead = table.set_attributes(0, handle, &local);
    assert_eq!(code(dead), ReturnCode::InvalidPtag);
    assert_eq!(table.query(0, handle), Ok(moved), "nothing was changed");
    let elsewhere = table.set_attributes(1, handle, &moved);
    assert_eq!(code(elsewhere), ReturnCode::InvalidParameter);
}

#[test]
fn every_limit_holds_and_one_past_it_is_refused() {
    let table = table();
    let local = MemoryAttributes::local(table.default_tag());
    let full = ReturnCode::Resource;
    assert_eq!(code(table.register(0, 1001, &local)), full);
    let first = table.register(0, 1000, &local).unwrap();
    assert_eq!(code(table.register(0, 501, &local)), full);
    table.register(0, 499, &local).unwrap();
    table.register(0, 1, &local).unwrap();
    table.deregister(0, first).unwrap();
    table.register(0, 1, &local).unwrap();
    assert_eq!(code(table.register(0, 1, &local)), full, "three regions");
    assert_eq!(table.count(), 3);
    table.create_tag().unwrap();
    table.create_tag().unwrap();
    assert_eq!(code(table.create_tag()), full);
}

#[test]
fn remote_reads_need_a_nic_that_has_them() {
    // Conformance case 9, the part of memory.
    let with = table();
    let readable = MemoryAttributes {
        rdma_read: true,
        ..MemoryAttributes::local(with.default_tag())
    };
    let handle = with.register(0, 8, &readable).unwrap();
    let wanted = (handle, 0, 8, with.default_tag());
    assert!(for_peer(&with, wanted, RemoteAccess::Read).is_ok());
    let write = for_peer(&with, wanted, RemoteAccess::Write);
    assert_eq!(write, Err(ProtectionError::NotEnabled));
    let without = table_with(NicAttributes {
        rdma_read_levels: ReliabilityLevels::NONE,
        ..limits()
    });
    let refused = without.register(0, 8, &readable);
    assert_eq!(code(refused), ReturnCode::InvalidRdmaRead);
    let local = MemoryAttributes::local(without.default_tag());
    let handle = without.register(0, 8, &local).unwrap();
    let refused = without.set_attributes(0, handle, &readable);
    assert_eq!(code(refused), ReturnCode::InvalidRdmaRead);
}

#[test]
fn tag_0_matches_any_region_when_asked_for() {
    let table = table();
    let none = ProtectionTag::from_bits(0);
    let tag = table.create_tag().unwrap();
    let handle = table.register(0, 8, &MemoryAttributes::local(tag)).unwrap();
    let untagged = MemoryAttributes::local(none);
    let mut cache = RegionCache::EMPTY;
    let wanted = (handle, 0, 8, none);
    assert!(cached(&table, &mut cache, wanted).is_err());
    assert_eq!(code(table.retain_tag(none)), ReturnCode::InvalidPtag);
    assert_eq!(
        code(table.register(0, 8, &untagged)),
        ReturnCode::InvalidPtag
    );
    table.set_any_tag(true);
    assert!(cached(&table, &mut cache, wanted).is_ok());
    table.retain_tag(none).unwrap();
    table.release_tag(none);
    let given = table.register(0, 8, &untagged).unwrap();
    let attributes = table.query(0, given).unwrap();
    assert_eq!(attributes.tag, table.default_tag());
    table.set_any_tag(false);
    assert!(cached(&table, &mut cache, wanted).is_err(), "no stale hit");
}

#[test]
fn shared_memory_is_told_with_its_place() {
    let shared = Arc::new(SharedAllocations::new());
    let nic = NicAttributes::default();
    let table = RegionTable::new(Arc::new(nic), shared.clone()).unwrap();
    let memory = shared.allocate(10_000).unwrap();
    let address = memory.as_ptr() as u64;
    let tag = table.default_tag();
    let local = MemoryAttributes::local(tag);
    let handle = table.register(address + 5, 5000, &local).unwrap();
    let mut cache = RegionCache::EMPTY;
    let wanted = (handle, address + 7, 9, tag);
    let location = shared.find(address + 7, 9).unwrap();
    for _ in 0..2 {
        let placement = cached(&table, &mut cache, wanted).unwrap();
        assert_eq!(placement.segment, Some(location.segment));
        assert_eq!(placement.offset, location.offset);
        assert_eq!(check(&table, wanted), Ok(placement));
    }
    // SAFETY: nobody uses the memory.
    let free = || unsafe { shared.free(memory) };
    assert!(free().is_err(), "still registered");
    drop(table);
    assert_eq!(free(), Ok(()));
}

#[test]
fn a_peer_sees_the_table_as_it_is() {
    // Conformance case 64, the part of memory.
    let table = table();
    let tag = table.create_tag().unwrap();
    let other = table.create_tag().unwrap();
    let descriptor = table.fd().try_clone_to_owned().unwrap();
    let remote = RemoteRegionTable::map(descriptor).unwrap();
    let written = MemoryAttributes {
        rdma_write: true,
        ..MemoryAttributes::local(tag)
    };
    let handle = table.register(100, 10, &written).unwrap();
    let check = |address, length, tag: ProtectionTag, access| {
        remote.check_remote(handle.bits(), address, length, &open_vi(tag), access)
    };
    use ProtectionError::{NotEnabled, OutsideRegion, UnknownHandle, WrongTag};
    use RemoteAccess::{Read, Write};
    assert_eq!(check(100, 10, tag, Write), Ok(Placement::PRIVATE));
    assert_eq!(check(100, 10, tag, Read), Err(NotEnabled));
    assert_eq!(check(100, 11, tag, Write), Err(OutsideRegion));
    assert_eq!(check(100, 10, other, Write), Err(WrongTag));
    let epoch = table.epoch();
    table.deregister(100, handle).unwrap();
    assert_ne!(table.epoch(), epoch);
    assert_eq!(check(100, 10, tag, Write), Err(UnknownHandle));
}

#[test]
fn what_is_no_table_is_refused() {
    let segment = Segment::create("viaduct-test", 4096).unwrap();
    let descriptor = segment.fd().try_clone_to_owned().unwrap();
    let error = RemoteRegionTable::map(descriptor).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    let (pipe, _) = rustix::pipe::pipe().unwrap();
    assert!(RemoteRegionTable::map(pipe).is_err());
}
