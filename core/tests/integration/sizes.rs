//! Memory: a simulator holds a million NICs, each with a few VIs and receives.

use viaduct_core::*;

#[test]
fn what_exists_a_million_times_is_small() {
    assert!(
        size_of::<Nic>() <= 256,
        "an unused NIC: {}",
        size_of::<Nic>()
    );
    assert!(
        size_of::<DataSegment>() == 16,
        "a data segment: {}",
        size_of::<DataSegment>()
    );
    assert!(
        size_of::<Descriptor>() <= 56,
        "a descriptor: {}",
        size_of::<Descriptor>()
    );
    assert!(size_of::<Event>() <= 64, "an event: {}", size_of::<Event>());
    assert!(
        size_of::<MessageHeader>() <= 20,
        "a header: {}",
        size_of::<MessageHeader>()
    );
}
