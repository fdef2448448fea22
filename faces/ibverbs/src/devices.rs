//! The list of devices.

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;
use std::sync::OnceLock;

use viaduct_verbs_abi::{IbvDevice, NODE_CA, TRANSPORT_IB};

use crate::call::{self, invalid};
use crate::fabric::{self, Device};
use crate::objects::text;

/// The devices as programs see them. They are there for as long as the process: a program may go on
/// using one after it gave back the list.
struct Devices(Vec<(IbvDevice, Device)>);

// SAFETY: they are written once, before anybody sees them.
unsafe impl Send for Devices {}
// SAFETY: as above.
unsafe impl Sync for Devices {}

fn devices() -> &'static [(IbvDevice, Device)] {
    static DEVICES: OnceLock<Devices> = OnceLock::new();
    let devices = DEVICES.get_or_init(|| {
        let describe = |device: Device| {
            let (name, file) = (device.name(), device.character_device_name());
            let described = IbvDevice {
                ops: [0; 2],
                node_type: NODE_CA,
                transport_type: TRANSPORT_IB,
                name: text(&name),
                dev_name: text(&file),
                dev_path: text(&format!("/sys/class/infiniband_verbs/{file}")),
                ibdev_path: text(&format!("/sys/class/infiniband/{name}")),
            };
            (described, device)
        };
        Devices(fabric::devices().into_iter().map(describe).collect())
    });
    &devices.0
}

/// The device that a program means.
pub(crate) fn device(device: *const IbvDevice) -> viaduct_rdma::Result<Device> {
    devices()
        .iter()
        .find(|(described, _)| std::ptr::eq(described, device))
        .map(|(_, device)| *device)
        .ok_or_else(|| invalid("the device is not one of ibv_get_device_list"))
}

/// `ibv_get_device_list`.
///
/// # Safety
///
/// `count` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut IbvDevice {
    call::pointer("ibv_get_device_list", || {
        let found = devices();
        // SAFETY: room for a pointer each and a null, of zeros.
        let list = unsafe { libc::calloc(found.len() + 1, size_of::<*mut IbvDevice>()) };
        let list = list.cast::<*mut IbvDevice>();
        if list.is_null() {
            return Err(viaduct_rdma::Error::new(
                libc::ENOMEM,
                "no memory for the list",
            ));
        }
        for (index, (device, _)) in found.iter().enumerate() {
            // SAFETY: the list has so many places.
            unsafe { list.add(index).write(std::ptr::from_ref(device).cast_mut()) };
        }
        // SAFETY: the caller says that it is null or can be written.
        if let Some(count) = unsafe { count.as_mut() } {
            *count = found.len() as c_int;
        }
        Ok(list)
    })
}

/// `ibv_free_device_list`.
///
/// # Safety
///
/// `list` is null or was got from [`ibv_get_device_list`], and is given back once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut IbvDevice) {
    // SAFETY: made by `calloc`.
    unsafe { libc::free(list.cast()) };
}

/// `ibv_get_device_name`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_device_name(device: *mut IbvDevice) -> *const c_char {
    let known = devices()
        .iter()
        .find(|(each, _)| std::ptr::eq(each, device));
    known.map_or(null_mut(), |(device, _)| device.name.as_ptr().cast_mut())
}

/// `ibv_get_device_guid`: in network order.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_device_guid(pointer: *mut IbvDevice) -> u64 {
    device(pointer).map_or(0, |device| u64::from_ne_bytes(device.guid()))
}

/// `ibv_get_device_index`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_device_index(pointer: *mut IbvDevice) -> c_int {
    device(pointer).map_or(-1, |device| device.index() as c_int)
}

/// `ibv_fork_init`: there is nothing to do. Memory of this fabric is the process's own and is not
/// kept from being copied when it forks.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// `ibv_is_fork_initialized`: not needed.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> c_int {
    viaduct_verbs_abi::FORK_UNNEEDED
}

/// `ibv_dontfork_range`: nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dontfork_range(_base: *mut u8, _bytes: usize) -> c_int {
    0
}

/// `ibv_dofork_range`: nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dofork_range(_base: *mut u8, _bytes: usize) -> c_int {
    0
}
