//! The devices that libibverbs has, opened once for a process, as programs of librdmacm expect.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::ENODEV;
use viaduct_verbs_abi::{
    IbvContext, IbvDeviceAttr, IbvGid, IbvPd, IbvPortAttr, LINK_LAYER_ETHERNET,
};

use crate::address;
use crate::call::last_errno;
use crate::manager::{Refusal, Result};
use crate::verbs;

/// Connections are made by the first port of a device.
pub(crate) const PORT: u8 = 1;

/// An open device.
#[derive(Debug)]
pub(crate) struct Device {
    verbs: *mut IbvContext,
    pub(crate) attributes: IbvDeviceAttr,
    default_pd: Mutex<DefaultPd>,
}

#[derive(Debug)]
struct DefaultPd {
    pd: *mut IbvPd,
    users: usize,
}

// SAFETY: a device of libibverbs is for all threads, and the protection domain is behind a lock.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// Where an address is on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interface {
    pub(crate) device: &'static Device,
    pub(crate) gid: [u8; 16],
    pub(crate) gid_index: u8,
}

impl Device {
    pub(crate) fn verbs(&self) -> *mut IbvContext {
        self.verbs
    }

    pub(crate) fn port(&self) -> Result<IbvPortAttr> {
        // SAFETY: all of it is numbers.
        let mut port: IbvPortAttr = unsafe { std::mem::zeroed() };
        // SAFETY: the device stays open.
        match unsafe { verbs::ibv_query_port(self.verbs, PORT, &raw mut port) } {
            0 => Ok(port),
            _ => Err(last_errno()),
        }
    }

    pub(crate) fn max_responder_resources(&self) -> u8 {
        self.attributes.max_qp_rd_atom.clamp(0, 255) as u8
    }

    pub(crate) fn max_initiator_depth(&self) -> u8 {
        self.attributes.max_qp_init_rd_atom.clamp(0, 255) as u8
    }

    /// The protection domain that all connections share which name none. It lives as long as one
    /// of them.
    pub(crate) fn take_default_pd(&self) -> Result<*mut IbvPd> {
        let mut default = self.default_pd();
        if default.pd.is_null() {
            // SAFETY: the device stays open.
            default.pd = unsafe { verbs::ibv_alloc_pd(self.verbs) };
            if default.pd.is_null() {
                return Err(last_errno());
            }
        }
        default.users += 1;
        Ok(default.pd)
    }

    pub(crate) fn give_default_pd_back(&self) {
        let mut default = self.default_pd();
        default.users -= 1;
        if default.users == 0 {
            // SAFETY: it was allocated above. One with regions left in it stays, as in the
            // original.
            unsafe { verbs::ibv_dealloc_pd(default.pd) };
            default.pd = std::ptr::null_mut();
        }
    }

    fn default_pd(&self) -> MutexGuard<'_, DefaultPd> {
        self.default_pd
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn gid_index(&self, wanted: &[u8; 16]) -> Option<u8> {
        let count = self.port().map_or(1, |port| port.gid_tbl_len);
        (0..count.clamp(0, 255))
            .find_map(|index| (self.gid(index)? == *wanted).then_some(index as u8))
    }

    fn gid(&self, index: i32) -> Option<[u8; 16]> {
        let mut gid = IbvGid::default();
        // SAFETY: the device stays open.
        let answer = unsafe { verbs::ibv_query_gid(self.verbs, PORT, index, &raw mut gid) };
        (answer == 0).then_some(gid.raw)
    }
}

/// All devices, opened at the first call of a process. In a child its own.
///
/// # Errors
///
/// `ENODEV` when there are none; what libibverbs says.
pub(crate) fn all() -> Result<&'static [Device]> {
    static OPENED: Mutex<(u32, &[Device])> = Mutex::new((0, &[]));
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if opened.0 != process || opened.1.is_empty() {
        *opened = (process, Vec::leak(open_all()?));
    }
    Ok(opened.1)
}

fn open_all() -> Result<Vec<Device>> {
    let mut count = 0;
    // SAFETY: the list is given back below.
    let list = unsafe { verbs::ibv_get_device_list(&raw mut count) };
    if list.is_null() {
        return Err(last_errno());
    }
    let mut devices = Vec::new();
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the list has that many.
        let verbs = unsafe { verbs::ibv_open_device(*list.add(index)) };
        if verbs.is_null() {
            continue;
        }
        // SAFETY: all of it is numbers.
        let mut attributes: IbvDeviceAttr = unsafe { std::mem::zeroed() };
        // SAFETY: it has just been opened.
        if unsafe { verbs::ibv_query_device(verbs, &raw mut attributes) } != 0 {
            continue;
        }
        let default_pd = Mutex::new(DefaultPd {
            pd: std::ptr::null_mut(),
            users: 0,
        });
        devices.push(Device {
            verbs,
            attributes,
            default_pd,
        });
    }
    // SAFETY: it came from there.
    unsafe { verbs::ibv_free_device_list(list) };
    if devices.is_empty() {
        return Err(Refusal(ENODEV));
    }
    Ok(devices)
}

/// Whether there are devices, without opening any.
pub(crate) fn are_there() -> Result<()> {
    match count()? {
        0 => Err(Refusal(ENODEV)),
        _ => Ok(()),
    }
}

/// How many there are.
fn count() -> Result<usize> {
    let mut count = 0;
    // SAFETY: the list is given back at once.
    unsafe {
        let list = verbs::ibv_get_device_list(&raw mut count);
        if list.is_null() {
            return Err(last_errno());
        }
        verbs::ibv_free_device_list(list);
    }
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The addresses that the first GIDs of several devices stand for; one that is alone needs none to
/// be told from others, and is not opened.
pub(crate) fn addresses() -> Vec<Ipv4Addr> {
    if count().is_ok_and(|count| count < 2) {
        return Vec::new();
    }
    let devices = all().unwrap_or_default();
    let gids = devices.iter().filter_map(|device| device.gid(0));
    gids.filter_map(|gid| Ipv6Addr::from(gid).to_ipv4_mapped())
        .collect()
}

/// Where an address of this machine is: on the device whose table of GIDs has it, and any other
/// address at the first GID of the first device.
pub(crate) fn interface_of(source: SocketAddr) -> Result<Interface> {
    let devices = all()?;
    let gid = address::gid(source.ip());
    for device in devices {
        if let Some(gid_index) = device.gid_index(&gid) {
            return Ok(Interface {
                device,
                gid,
                gid_index,
            });
        }
    }
    let device = devices.first().ok_or(Refusal(ENODEV))?;
    Ok(Interface {
        device,
        gid: device.gid(0).unwrap_or(gid),
        gid_index: 0,
    })
}

/// Whether packets go by addresses of IP.
pub(crate) fn is_ethernet(port: &IbvPortAttr) -> bool {
    i32::from(port.link_layer) == i32::from(LINK_LAYER_ETHERNET)
}
