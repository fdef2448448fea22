//! The switch for programs that mix protection tags: alone in its process, because it is the
//! process's.

use std::ptr::null_mut;

use vipl::abi::{VipDescriptor, VipMemAttributes, VipReturn, VipViAttributes};
use vipl::*;

macro_rules! ok {
    ($function:ident($($argument:expr),* $(,)?)) => {
        assert_eq!(
            // SAFETY: pointers are NULL or of live variables of the right types.
            unsafe { $function($($argument),*) },
            VipReturn::Success,
            stringify!($function)
        )
    };
}

#[test]
fn while_on_a_vi_may_have_tag_0() {
    let (mut nic, mut tag, mut vi) = (null_mut(), null_mut(), null_mut());
    let mut attributes = VipViAttributes {
        ReliabilityLevel: 1,
        MaxTransferSize: 4096,
        QoS: null_mut(),
        Ptag: null_mut(),
        EnableRdmaWrite: 0,
        EnableRdmaRead: 0,
    };
    // A NIC that is open already and one that comes later.
    ok!(VipOpenNic(c"nic0".as_ptr(), &raw mut nic));
    ok!(VipxAcceptTagZero(1));
    for later in [false, true] {
        if later {
            ok!(VipCloseNic(nic));
            ok!(VipOpenNic(c"nic0".as_ptr(), &raw mut nic));
        }
        ok!(VipCreatePtag(nic, &raw mut tag));
        ok!(VipCreateVi(
            nic,
            &raw mut attributes,
            null_mut(),
            null_mut(),
            &raw mut vi
        ));
        ok!(VipSetViAttributes(vi, &raw mut attributes));

        // Its descriptors may lie in memory of any tag.
        let mut descriptors = [VipDescriptor::default(); 3];
        let odd = descriptors.as_ptr().cast::<u8>().align_offset(64);
        let first = (&raw mut descriptors[0]).cast::<u8>().wrapping_add(odd);
        let mut region = VipMemAttributes {
            Ptag: tag,
            EnableRdmaWrite: 1,
            EnableRdmaRead: 0,
        };
        let (mut tagged, mut untagged) = (0, 0);
        ok!(VipRegisterMem(
            nic,
            first.cast(),
            128,
            &raw mut region,
            &raw mut tagged
        ));
        region.Ptag = null_mut();
        ok!(VipRegisterMem(
            nic,
            first.cast(),
            128,
            &raw mut region,
            &raw mut untagged
        ));
        ok!(VipQueryMem(nic, first.cast(), untagged, &raw mut region));
        assert!(
            !region.Ptag.is_null() && region.Ptag != tag,
            "the default tag"
        );
        ok!(VipPostRecv(vi, first.cast(), tagged));
        ok!(VipPostRecv(vi, first.wrapping_add(64).cast(), untagged));
        ok!(VipDestroyVi(vi));
    }
    ok!(VipxAcceptTagZero(0));
    // SAFETY: the pointers are of live variables.
    let strict = unsafe {
        VipCreateVi(
            nic,
            &raw mut attributes,
            null_mut(),
            null_mut(),
            &raw mut vi,
        )
    };
    assert_eq!(strict, VipReturn::InvalidPtag);
    ok!(VipCloseNic(nic));
}
