//! Options, and what two adapters tell each other of themselves.

use std::ffi::{c_int, c_void};

use libc::{EINVAL, ENOSYS};
use viaduct_verbs_abi::IbvEce;

use crate::abi::{PATH_DATA_BYTES, RdmaCmId};
use crate::call::call;
use crate::manager::{Ece, Manager, Refusal};
use crate::object::Id;

/// `RDMA_OPTION_ID` with its options, and `RDMA_OPTION_IB` with its one.
const OF_ID: c_int = 0;
const TRAFFIC_CLASS: c_int = 0;
const REUSE_ADDRESS: c_int = 1;
const ONE_FAMILY: c_int = 2;
const ACKNOWLEDGE_TIMEOUT: c_int = 3;
const OF_INFINIBAND: c_int = 1;
const PATH: c_int = 1;

/// `rdma_set_option(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_set_option(
    id: *mut RdmaCmId,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    bytes: usize,
) -> c_int {
    call("rdma_set_option", || {
        // SAFETY: as the program says, here and below.
        let object = unsafe { Id::of(id) }?;
        if value.is_null() {
            return Err(Refusal(EINVAL));
        }
        let byte = || match bytes {
            // SAFETY: there is as much, as the program says.
            1 => Ok(unsafe { value.cast::<u8>().read() }),
            _ => Err(Refusal(EINVAL)),
        };
        let number = || match bytes {
            // SAFETY: as above.
            4 => Ok(unsafe { value.cast::<c_int>().read_unaligned() }),
            _ => Err(Refusal(EINVAL)),
        };
        let manager = Manager::of_process()?;
        match (level, name) {
            (OF_ID, TRAFFIC_CLASS) => object.traffic_class = byte()?,
            (OF_ID, REUSE_ADDRESS) => manager.reuse_port(object.number, number()? != 0)?,
            (OF_ID, ONE_FAMILY) => manager.hear_one_family(object.number, number()? != 0)?,
            (OF_ID, ACKNOWLEDGE_TIMEOUT) => match byte()? {
                // A number of five bits.
                timeout @ 0..=31 => object.acknowledge_timeout = Some(timeout),
                _ => return Err(Refusal(EINVAL)),
            },
            // There is one way only: any path that a program has found is that.
            (OF_INFINIBAND, PATH) if bytes > 0 && bytes.is_multiple_of(PATH_DATA_BYTES) => {
                manager.resolve_route(object.number)?;
            }
            (OF_INFINIBAND, PATH) => return Err(Refusal(EINVAL)),
            _ => return Err(Refusal(ENOSYS)),
        }
        Ok(())
    })
}

/// `rdma_set_local_ece(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_set_local_ece(id: *mut RdmaCmId, ece: *mut IbvEce) -> c_int {
    call("rdma_set_local_ece", || {
        // SAFETY: as the program says.
        let (object, ece) = unsafe { (Id::of(id)?, ece.as_ref().ok_or(Refusal(EINVAL))?) };
        if !object.public.qp.is_null() || ece.comp_mask != 0 || ece.vendor_id == 0 {
            return Err(Refusal(EINVAL));
        }
        object.local_ece = Ece {
            vendor: ece.vendor_id,
            options: ece.options,
        };
        Ok(())
    })
}

/// `rdma_get_remote_ece(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_remote_ece(id: *mut RdmaCmId, ece: *mut IbvEce) -> c_int {
    call("rdma_get_remote_ece", || {
        // SAFETY: as the program says.
        let (object, ece) = unsafe { (Id::of(id)?, ece.as_mut().ok_or(Refusal(EINVAL))?) };
        if !object.public.qp.is_null() {
            return Err(Refusal(EINVAL));
        }
        ece.vendor_id = object.remote_ece.vendor;
        ece.options = object.remote_ece.options;
        ece.comp_mask = 0;
        Ok(())
    })
}
