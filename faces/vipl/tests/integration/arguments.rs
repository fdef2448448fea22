//! Bad arguments are refused by every function, and good ones mean what the header says.

use std::ffi::{CStr, c_uint};
use std::ptr::null_mut;

use vipl::abi::{
    VIP_SMI_AUTODISCOVERY, VipAutodiscoveryList, VipBoolean, VipDescriptor, VipErrorDescriptor,
    VipMemAttributes, VipNetAddress, VipNicAttributes, VipPvoid, VipReturn, VipUlong,
    VipViAttributes,
};
use vipl::*;

/// A call with variables of the test.
macro_rules! c {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: pointers are NULL or of live variables of the right types.
        unsafe { $function($($argument),*) }
    };
}

macro_rules! ok {
    ($($call:tt)*) => {
        assert_eq!(c!($($call)*), VipReturn::Success, stringify!($($call)*))
    };
}

macro_rules! bad {
    ($($call:tt)*) => {
        assert_eq!(c!($($call)*), VipReturn::InvalidParameter, stringify!($($call)*))
    };
}

unsafe extern "C" fn on_error(_: VipPvoid, _: *mut VipErrorDescriptor) {}
unsafe extern "C" fn on_descriptor(_: VipPvoid, _: VipPvoid, _: VipPvoid, _: *mut VipDescriptor) {}
unsafe extern "C" fn on_entry(_: VipPvoid, _: VipPvoid, _: VipPvoid, _: VipBoolean) {}

/// Variables for every kind of argument.
struct Variables {
    handle: VipPvoid,
    memory: u32,
    flag: VipBoolean,
    flags: VipBoolean,
    state: c_uint,
    length: VipUlong,
    vi: VipViAttributes,
    region: VipMemAttributes,
    nic: std::mem::MaybeUninit<VipNicAttributes>,
    descriptor: *mut VipDescriptor,
    address: [u64; 64],
    list: VipAutodiscoveryList,
    name: [std::ffi::c_char; 64],
}

impl Variables {
    fn new() -> Self {
        let mut address = [0; 64];
        address[0] = 6;
        Self {
            handle: null_mut(),
            memory: 0,
            flag: 0,
            flags: 0,
            state: 0,
            length: 64,
            vi: VipViAttributes {
                ReliabilityLevel: 2,
                MaxTransferSize: 4096,
                QoS: null_mut(),
                Ptag: null_mut(),
                EnableRdmaWrite: 0,
                EnableRdmaRead: 0,
            },
            region: VipMemAttributes {
                Ptag: null_mut(),
                EnableRdmaWrite: 0,
                EnableRdmaRead: 0,
            },
            nic: std::mem::MaybeUninit::uninit(),
            descriptor: null_mut(),
            address,
            list: VipAutodiscoveryList {
                NumberOfHops: 1,
                ADAddrArray: null_mut(),
                NumAdAddrs: 0,
            },
            name: [0; 64],
        }
    }

    fn address(&mut self) -> *mut VipNetAddress {
        (&raw mut self.address).cast()
    }
}

fn open() -> VipPvoid {
    let mut nic = null_mut();
    ok!(VipOpenNic(c"VINIC".as_ptr(), &raw mut nic));
    nic
}

/// A NIC, and a tag on it.
fn open_with_tag() -> (VipPvoid, VipPvoid) {
    let (nic, mut tag) = (open(), null_mut());
    ok!(VipCreatePtag(nic, &raw mut tag));
    (nic, tag)
}

#[test]
fn a_handle_of_another_kind_is_refused() {
    let (nic, tag) = open_with_tag();
    let mut v = Variables::new();
    v.vi.Ptag = tag;
    let (mut vi, mut queue) = (null_mut(), null_mut());
    ok!(VipCreateVi(
        nic,
        &raw mut v.vi,
        null_mut(),
        null_mut(),
        &raw mut vi
    ));
    ok!(VipCreateCQ(nic, 1, &raw mut queue));
    for other in [vi, queue, tag] {
        bad!(VipQueryNic(other, v.nic.as_mut_ptr()));
        bad!(VipCloseNic(other));
    }
    for other in [nic, queue, tag] {
        bad!(VipRecvDone(other, &raw mut v.descriptor));
        bad!(VipDisconnect(other));
        bad!(VipDestroyVi(other));
    }
    for other in [nic, vi, tag] {
        bad!(VipCQDone(other, &raw mut v.handle, &raw mut v.flag));
        bad!(VipDestroyCQ(other));
        bad!(VipCreateVi(
            nic,
            &raw mut v.vi,
            null_mut(),
            other,
            &raw mut v.handle
        ));
    }
    for other in [nic, vi, queue] {
        assert_eq!(c!(VipDestroyPtag(nic, other)), VipReturn::InvalidPtag);
        bad!(VipConnectAccept(other, vi));
        bad!(VipConnectReject(other));
    }
    ok!(VipDestroyVi(vi));
    ok!(VipDestroyCQ(queue));
    ok!(VipDestroyPtag(nic, tag));
    ok!(VipCloseNic(nic));
}

#[test]
fn a_handle_that_names_nothing_is_refused_everywhere() {
    let mut destroyed = open();
    ok!(VipCloseNic(destroyed));
    let mut v = Variables::new();
    let mut descriptor = VipDescriptor::default();
    let mut byte = [0_u8; 64];
    let here: VipPvoid = byte.as_mut_ptr().cast();
    let random = [0, 1, 0xDEAD_BEEF, 0x7FFF_FFFF_FFFF_FFFF, usize::MAX];
    let handles: Vec<VipPvoid> = random
        .map(|bits| bits as VipPvoid)
        .into_iter()
        .chain([std::mem::replace(&mut destroyed, null_mut())])
        .collect();
    for h in handles {
        bad!(VipCloseNic(h));
        bad!(VipQueryNic(h, v.nic.as_mut_ptr()));
        bad!(VipCreateVi(
            h,
            &raw mut v.vi,
            null_mut(),
            null_mut(),
            &raw mut v.handle
        ));
        bad!(VipDestroyVi(h));
        bad!(VipQueryVi(
            h,
            &raw mut v.state,
            &raw mut v.vi,
            &raw mut v.flag,
            &raw mut v.flags
        ));
        v.vi.ReliabilityLevel = 2;
        bad!(VipSetViAttributes(h, &raw mut v.vi));
        let (local, remote) = (v.address(), v.address());
        bad!(VipConnectWait(
            h,
            local,
            1,
            remote,
            &raw mut v.vi,
            &raw mut v.handle
        ));
        bad!(VipConnectAccept(h, h));
        bad!(VipConnectReject(h));
        bad!(VipConnectRequest(h, local, remote, 1, &raw mut v.vi));
        bad!(VipDisconnect(h));
        bad!(VipConnectPeerRequest(h, local, remote, 1));
        bad!(VipConnectPeerDone(h, &raw mut v.vi));
        bad!(VipConnectPeerWait(h, &raw mut v.vi));
        bad!(VipCreatePtag(h, &raw mut v.handle));
        bad!(VipDestroyPtag(h, 1 as VipPvoid));
        bad!(VipRegisterMem(h, here, 64, null_mut(), &raw mut v.memory));
        bad!(VipRegisterMem(
            h,
            here,
            64,
            &raw mut v.region,
            &raw mut v.memory
        ));
        bad!(VipDeregisterMem(h, here, 1));
        bad!(VipQueryMem(h, here, 1, &raw mut v.region));
        bad!(VipSetMemAttributes(h, here, 1, &raw mut v.region));
        bad!(VipPostSend(h, &raw mut descriptor, 1));
        bad!(VipSendDone(h, &raw mut v.descriptor));
        bad!(VipSendWait(h, 1, &raw mut v.descriptor));
        bad!(VipSendNotify(h, null_mut(), Some(on_descriptor)));
        bad!(VipPostRecv(h, &raw mut descriptor, 1));
        bad!(VipRecvDone(h, &raw mut v.descriptor));
        bad!(VipRecvWait(h, 1, &raw mut v.descriptor));
        bad!(VipRecvNotify(h, null_mut(), Some(on_descriptor)));
        bad!(VipCreateCQ(h, 8, &raw mut v.handle));
        bad!(VipDestroyCQ(h));
        bad!(VipResizeCQ(h, 8));
        bad!(VipCQDone(h, &raw mut v.handle, &raw mut v.flag));
        bad!(VipCQWait(h, 1, &raw mut v.handle, &raw mut v.flag));
        bad!(VipCQNotify(h, null_mut(), Some(on_entry)));
        bad!(VipErrorCallback(h, null_mut(), Some(on_error)));
        let list = (&raw mut v.list).cast();
        bad!(VipQuerySystemManagementInfo(h, VIP_SMI_AUTODISCOVERY, list));
        bad!(VipNSInit(h, null_mut()));
        bad!(VipNSGetHostByName(h, v.name.as_mut_ptr(), local, 0));
        bad!(VipNSGetHostByAddr(
            h,
            local,
            v.name.as_mut_ptr(),
            &raw mut v.length
        ));
        bad!(VipNSShutdown(h));
        bad!(VipxAllocateShared(h, 64, &raw mut v.handle));
        bad!(VipxFreeShared(h, here));
        bad!(VipxSetFlowControl(h, 1));
        bad!(VipxSetRequestSplitting(h, 1));
    }
}

#[test]
fn a_null_pointer_is_refused_everywhere() {
    let (nic, tag) = open_with_tag();
    let mut v = Variables::new();
    v.vi.Ptag = tag;
    let (mut cq, mut vi) = (null_mut(), null_mut());
    ok!(VipCreateCQ(nic, 8, &raw mut cq));
    ok!(VipCreateVi(
        nic,
        &raw mut v.vi,
        null_mut(),
        null_mut(),
        &raw mut vi
    ));
    let address = v.address();
    bad!(VipOpenNic(std::ptr::null(), &raw mut v.handle));
    bad!(VipOpenNic(c"VINIC".as_ptr(), null_mut()));
    bad!(VipOpenNic(c"no such NIC".as_ptr(), &raw mut v.handle));
    bad!(VipOpenNic(c"\xFF".as_ptr(), &raw mut v.handle));
    bad!(VipOpenNic(c"".as_ptr(), &raw mut v.handle));
    bad!(VipQueryNic(nic, null_mut()));
    bad!(VipCreateVi(
        nic,
        null_mut(),
        null_mut(),
        null_mut(),
        &raw mut v.handle
    ));
    bad!(VipCreateVi(
        nic,
        &raw mut v.vi,
        null_mut(),
        null_mut(),
        null_mut()
    ));
    let (state, attributes) = (&raw mut v.state, &raw mut v.vi);
    let (flag, flags) = (&raw mut v.flag, &raw mut v.flags);
    bad!(VipQueryVi(vi, null_mut(), attributes, flag, flags));
    bad!(VipQueryVi(vi, state, null_mut(), flag, flags));
    bad!(VipQueryVi(vi, state, attributes, null_mut(), flags));
    bad!(VipQueryVi(vi, state, attributes, flag, null_mut()));
    bad!(VipSetViAttributes(vi, null_mut()));
    let handle = &raw mut v.handle;
    bad!(VipConnectWait(
        nic,
        null_mut(),
        1,
        address,
        attributes,
        handle
    ));
    bad!(VipConnectWait(
        nic,
        address,
        1,
        null_mut(),
        attributes,
        handle
    ));
    bad!(VipConnectWait(nic, address, 1, address, null_mut(), handle));
    bad!(VipConnectWait(
        nic,
        address,
        1,
        address,
        attributes,
        null_mut()
    ));
    bad!(VipConnectRequest(vi, null_mut(), address, 1, attributes));
    bad!(VipConnectRequest(vi, address, null_mut(), 1, attributes));
    bad!(VipConnectRequest(vi, address, address, 1, null_mut()));
    bad!(VipConnectPeerRequest(vi, null_mut(), address, 1));
    bad!(VipConnectPeerRequest(vi, address, null_mut(), 1));
    bad!(VipConnectPeerDone(vi, null_mut()));
    bad!(VipConnectPeerWait(vi, null_mut()));
    bad!(VipCreatePtag(nic, null_mut()));
    bad!(VipRegisterMem(
        nic,
        null_mut(),
        64,
        null_mut(),
        &raw mut v.memory
    ));
    bad!(VipRegisterMem(
        nic,
        address.cast(),
        64,
        null_mut(),
        null_mut()
    ));
    bad!(VipRegisterMem(
        nic,
        address.cast(),
        0,
        null_mut(),
        &raw mut v.memory
    ));
    bad!(VipQueryMem(nic, address.cast(), 1, null_mut()));
    bad!(VipSetMemAttributes(nic, address.cast(), 1, null_mut()));
    bad!(VipPostSend(vi, null_mut(), 1));
    bad!(VipPostRecv(vi, null_mut(), 1));
    bad!(VipSendDone(vi, null_mut()));
    bad!(VipRecvDone(vi, null_mut()));
    bad!(VipSendWait(vi, 1, null_mut()));
    bad!(VipRecvWait(vi, 1, null_mut()));
    bad!(VipSendNotify(vi, null_mut(), None));
    bad!(VipRecvNotify(vi, null_mut(), None));
    bad!(VipCreateCQ(nic, 8, null_mut()));
    bad!(VipCQDone(cq, null_mut(), flag));
    bad!(VipCQDone(cq, handle, null_mut()));
    bad!(VipCQWait(cq, 1, null_mut(), flag));
    bad!(VipCQWait(cq, 1, handle, null_mut()));
    bad!(VipCQNotify(cq, null_mut(), None));
    bad!(VipQuerySystemManagementInfo(
        nic,
        VIP_SMI_AUTODISCOVERY,
        null_mut()
    ));
    bad!(VipQuerySystemManagementInfo(
        nic,
        2,
        (&raw mut v.list).cast()
    ));
    bad!(VipNSGetHostByName(nic, null_mut(), address, 0));
    bad!(VipNSGetHostByName(nic, v.name.as_mut_ptr(), null_mut(), 0));
    bad!(VipNSGetHostByAddr(
        nic,
        null_mut(),
        v.name.as_mut_ptr(),
        &raw mut v.length
    ));
    bad!(VipNSGetHostByAddr(
        nic,
        address,
        v.name.as_mut_ptr(),
        null_mut()
    ));
    bad!(VipxAllocateShared(nic, 64, null_mut()));
    bad!(VipxFreeShared(nic, null_mut()));
    ok!(VipCloseNic(nic));
}

#[test]
fn host_addresses_of_another_length_are_refused() {
    let (nic, tag) = open_with_tag();
    let mut v = Variables::new();
    v.vi.Ptag = tag;
    let mut vi = null_mut();
    ok!(VipCreateVi(
        nic,
        &raw mut v.vi,
        null_mut(),
        null_mut(),
        &raw mut vi
    ));
    let mut good = [6_u64; 64];
    let good: *mut VipNetAddress = (&raw mut good).cast();
    for length in [0, 4, 5, 7, 8] {
        v.address[0] = length;
        let address = v.address();
        bad!(VipConnectWait(
            nic,
            address,
            1,
            good,
            &raw mut v.vi,
            &raw mut v.handle
        ));
        bad!(VipConnectRequest(vi, address, good, 1, &raw mut v.vi));
        bad!(VipConnectRequest(vi, good, address, 1, &raw mut v.vi));
        bad!(VipConnectPeerRequest(vi, address, good, 1));
        bad!(VipConnectPeerRequest(vi, good, address, 1));
    }
    ok!(VipCloseNic(nic));
}

#[test]
fn attributes_that_no_vi_can_have_are_refused_with_their_own_code() {
    let (nic, tag) = open_with_tag();
    let mut v = Variables::new();
    v.vi.Ptag = tag;
    let mut vi = null_mut();
    ok!(VipCreateVi(
        nic,
        &raw mut v.vi,
        null_mut(),
        null_mut(),
        &raw mut vi
    ));
    let mut refused = |attributes: &mut VipViAttributes, code: VipReturn| {
        let (attributes, made) = (&raw mut *attributes, &raw mut v.handle);
        let none = null_mut();
        assert_eq!(c!(VipCreateVi(nic, attributes, none, none, made)), code);
        assert_eq!(c!(VipSetViAttributes(vi, attributes)), code);
    };
    let good = v.vi;
    for level in [0, 3, 5, 6, 7, 8, 0x102, u16::MAX] {
        let mut bad = good;
        bad.ReliabilityLevel = level;
        refused(&mut bad, VipReturn::InvalidReliabilityLevel);
    }
    for size in [1 << 32, VipUlong::MAX] {
        let mut bad = good;
        bad.MaxTransferSize = size;
        refused(&mut bad, VipReturn::InvalidMtu);
    }
    for quality in [1_usize, 0x1_0000, usize::MAX] {
        let mut bad = good;
        bad.QoS = quality as VipPvoid;
        refused(&mut bad, VipReturn::InvalidQos);
    }
    for tag in [0_usize, 0xDEAD_BEEF, usize::MAX] {
        let mut bad = good;
        bad.Ptag = tag as VipPvoid;
        refused(&mut bad, VipReturn::InvalidPtag);
    }
    ok!(VipCloseNic(nic));
}

#[test]
fn a_failed_registration_leaves_handle_0() {
    let nic = open();
    let mut byte = [0_u8; 64];
    let mut asked = VipMemAttributes {
        Ptag: 0x1234_5678_9ABC as VipPvoid,
        EnableRdmaWrite: 0,
        EnableRdmaRead: 0,
    };
    let mut handle = 7;
    let code = c!(VipRegisterMem(
        nic,
        byte.as_mut_ptr().cast(),
        64,
        &raw mut asked,
        &raw mut handle
    ));
    assert_eq!((code, handle), (VipReturn::InvalidPtag, 0));
    ok!(VipCloseNic(nic));
}

#[test]
fn memory_registered_without_attributes_has_the_default_tag() {
    let (nic, mut tag) = open_with_tag();
    let mut bytes = [0_u8; 64];
    let here: VipPvoid = bytes.as_mut_ptr().cast();
    let (mut first, mut second) = (0, 0);
    ok!(VipRegisterMem(nic, here, 64, null_mut(), &raw mut first));
    ok!(VipRegisterMem(nic, here, 32, null_mut(), &raw mut second));
    assert!(first != 0 && second != 0 && first != second);
    let mut v = Variables::new();
    let mut told = Variables::new().region;
    ok!(VipQueryMem(nic, here, first, &raw mut v.region));
    ok!(VipQueryMem(nic, here, second, &raw mut told));
    assert_eq!(v.region.Ptag, told.Ptag);
    assert!(!told.Ptag.is_null() && told.Ptag != tag, "a tag of its own");
    assert_eq!((told.EnableRdmaWrite, told.EnableRdmaRead), (0, 0));
    // A VI may be given it; nobody may destroy it.
    v.vi.Ptag = told.Ptag;
    ok!(VipCreateVi(
        nic,
        &raw mut v.vi,
        null_mut(),
        null_mut(),
        &raw mut v.handle
    ));
    bad!(VipDestroyPtag(nic, told.Ptag));
    ok!(VipDestroyPtag(nic, tag));
    // Tag 0 is none, strictly.
    v.vi.Ptag = null_mut();
    let code = c!(VipCreateVi(
        nic,
        &raw mut v.vi,
        null_mut(),
        null_mut(),
        &raw mut tag
    ));
    assert_eq!(code, VipReturn::InvalidPtag);
    ok!(VipCloseNic(nic));
}

#[test]
fn the_nic_tells_its_name_and_its_address() {
    let (nic, other) = (open(), open());
    assert_ne!(nic, other, "each opening has a handle of its own");
    let mut v = Variables::new();
    ok!(VipQueryNic(nic, v.nic.as_mut_ptr()));
    // SAFETY: the call succeeded and has written all of it.
    let told = unsafe { v.nic.assume_init() };
    // SAFETY: the name ends with NUL, the address has as many bytes as are told.
    let (name, address) = unsafe {
        (
            CStr::from_ptr(told.Name.as_ptr()),
            std::slice::from_raw_parts(told.LocalNicAddress, told.NicAddressLen.into()),
        )
    };
    assert!(!name.is_empty());
    assert_eq!((told.NicAddressLen, told.ThreadSafe), (6, 1));
    assert!(told.MaxDiscriminatorLen >= 32 && told.MaxTransferSize >= 32_768);
    assert!(told.MaxSegmentsPerDesc >= 252 && told.MaxDescriptorsPerQueue >= 1024);
    assert!(told.MaxCQEntries >= 1024 && told.MaxVI >= 1024);
    assert!(matches!(told.ReliabilityLevelSupport, 1..=7));
    // The name service finds this host, and its name again.
    let mut host = [0_u8; 256];
    let length = host_name(&mut host);
    ok!(VipNSInit(nic, null_mut()));
    v.address.fill(u64::MAX);
    let place = v.address();
    ok!(VipNSGetHostByName(nic, host.as_mut_ptr().cast(), place, 0));
    let bytes: Vec<u8> = v
        .address
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    assert_eq!(bytes[..4], [6, 0, 0, 0], "lengths");
    assert_eq!(&bytes[4..10], address);
    let place = v.address();
    let code = c!(VipNSGetHostByName(
        nic,
        host.as_mut_ptr().cast(),
        place,
        1000
    ));
    assert_eq!(code, VipReturn::ErrorNameService);
    let (mut name, mut needed) = ([1; 256], 1);
    let place = v.address();
    let code = c!(VipNSGetHostByAddr(
        nic,
        place,
        name.as_mut_ptr(),
        &raw mut needed
    ));
    assert_eq!((code, name[0]), (VipReturn::ErrorResource, 1));
    assert_eq!(needed, length as VipUlong + 1);
    ok!(VipNSGetHostByAddr(
        nic,
        place,
        name.as_mut_ptr(),
        &raw mut needed
    ));
    // SAFETY: the call succeeded and has written a string.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    assert_eq!(name.to_bytes(), &host[..length]);
    ok!(VipNSShutdown(nic));
    // One handle goes, the other stays.
    ok!(VipCloseNic(other));
    ok!(VipQueryNic(nic, v.nic.as_mut_ptr()));
    ok!(VipCloseNic(nic));
}

unsafe extern "C" {
    fn gethostname(name: *mut u8, length: usize) -> std::ffi::c_int;
}

/// This machine's name with its NUL, and how long it is without.
fn host_name(place: &mut [u8; 256]) -> usize {
    // SAFETY: there is room for 255 bytes, and a NUL stays behind them.
    assert_eq!(unsafe { gethostname(place.as_mut_ptr(), 255) }, 0);
    place.iter().position(|byte| *byte == 0).unwrap()
}

#[test]
fn discovery_counts_then_fills() {
    let nic = open();
    let mut v = Variables::new();
    let list = (&raw mut v.list).cast();
    let code = c!(VipQuerySystemManagementInfo(
        nic,
        VIP_SMI_AUTODISCOVERY,
        list
    ));
    assert_eq!(code, VipReturn::ErrorResource);
    assert!(v.list.NumAdAddrs >= 1, "at least this host");
    let mut places = vec![[u64::MAX; 2]; v.list.NumAdAddrs as usize];
    let mut pointers: Vec<*mut VipNetAddress> = places
        .iter_mut()
        .map(|place| (&raw mut *place).cast())
        .collect();
    v.list.ADAddrArray = pointers.as_mut_ptr();
    ok!(VipQuerySystemManagementInfo(
        nic,
        VIP_SMI_AUTODISCOVERY,
        (&raw mut v.list).cast()
    ));
    assert!(
        places
            .iter()
            .all(|place| place[0].to_ne_bytes()[..4] == [6, 0, 0, 0])
    );
    ok!(VipCloseNic(nic));
}

#[test]
fn return_codes_have_names() {
    for code in VipReturn::ALL {
        // SAFETY: the name is a string that lives as long as the program.
        let name = unsafe { CStr::from_ptr(VipxReturnName(code as u32)) };
        assert_eq!(name, code.name());
    }
    // SAFETY: as above.
    let none = unsafe { CStr::from_ptr(VipxReturnName(17)) };
    assert_eq!(none, c"(no VIP_RETURN)");
}
