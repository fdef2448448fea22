//! What a NIC says that it has at most, it has at most.

use std::fmt;

use viaduct_core::ViAttributes;
use viaduct_provider::{Provider, Result, ReturnCode};
use viaduct_shm::Shm;

/// Makes as many as may be, is refused one more, and makes one again when one is gone.
fn has_at_most<T: fmt::Debug>(
    limit: u32,
    make: impl Fn() -> Result<T>,
    destroy: impl Fn(T) -> Result<()>,
) {
    let mut made: Vec<T> = (0..limit).map(|_| make().unwrap()).collect();
    let refused = make().unwrap_err();
    assert_eq!(refused.code(), ReturnCode::Resource, "{refused}");
    assert!(
        refused.to_string().contains(&limit.to_string()),
        "{refused}"
    );
    destroy(made.swap_remove(0)).unwrap();
    made.push(make().unwrap());
    assert_eq!(make().unwrap_err().code(), ReturnCode::Resource);
    for object in made {
        destroy(object).unwrap();
    }
}

#[test]
fn a_nic_has_as_many_vis_and_completion_queues_as_it_says() {
    let shm = Shm::global();
    let (nic, other) = (shm.open_nic("shm").unwrap(), shm.open_nic("shm").unwrap());
    let (limits, _) = shm.query_nic(nic).unwrap();
    let tag = shm.create_protection_tag(nic).unwrap();
    let attributes = ViAttributes::unreliable(tag, 4096);
    has_at_most(
        limits.max_vis,
        || shm.create_vi(nic, &attributes, None, None),
        |vi| shm.destroy_vi(vi),
    );
    has_at_most(
        limits.max_completion_queues,
        || shm.create_completion_queue(nic, 1),
        |queue| shm.destroy_completion_queue(queue),
    );

    // A VI that was refused for another reason counts nowhere, and each handle has its own.
    let foreign = shm.create_protection_tag(other).unwrap();
    for _ in 0..limits.max_vis {
        let refused = shm.create_vi(nic, &ViAttributes::unreliable(foreign, 4096), None, None);
        assert_eq!(refused.unwrap_err().code(), ReturnCode::InvalidPtag);
    }
    for nic_and_tag in [(nic, tag), (other, foreign)] {
        let attributes = ViAttributes::unreliable(nic_and_tag.1, 4096);
        shm.create_vi(nic_and_tag.0, &attributes, None, None)
            .unwrap();
    }
    shm.close_nic(nic).unwrap();
    shm.close_nic(other).unwrap();
}
