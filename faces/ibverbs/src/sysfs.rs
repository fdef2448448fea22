//! What lies beside the devices: files of sysfs that programs read through this library, and the
//! file in which others see what this process sent.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::call::{self, invalid};
use crate::objects::given;

/// The folder in which the launcher has put what programs look for in sysfs.
const FOLDER_VARIABLE: &str = "VIADUCT_RDMA_SYS";

/// The folder in which processes say what they sent.
const COUNTERS_VARIABLE: &str = "VIADUCT_RDMA_STATS";

/// `ibv_get_sysfs_path`: the launcher's folder, without a launcher the system's.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    static PATH: OnceLock<CString> = OnceLock::new();
    let path = PATH.get_or_init(|| {
        let folder = std::env::var_os(FOLDER_VARIABLE).map(|folder| Path::new(&folder).join("sys"));
        let folder = folder.unwrap_or_else(|| PathBuf::from("/sys"));
        CString::new(folder.as_os_str().as_bytes()).unwrap_or_default()
    });
    path.as_ptr()
}

/// `ibv_read_sysfs_file`: the file's text without the end of its line, and its length. Without a
/// launcher there are no files: what `ibv_devinfo` asks for is answered then too.
///
/// # Safety
///
/// Both names are strings, and so many bytes can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_sysfs_file(
    folder: *const c_char,
    file: *const c_char,
    text: *mut c_char,
    bytes: usize,
) -> c_int {
    call::or_minus("ibv_read_sysfs_file", || {
        // SAFETY: the caller says so.
        unsafe {
            given(folder, "no folder")?;
            given(file, "no file")?;
            given(text, "no place for the text")?;
        }
        // SAFETY: the caller says so.
        let (folder, file) = unsafe { (CStr::from_ptr(folder), CStr::from_ptr(file)) };
        let path = Path::new(OsStr::from_bytes(folder.to_bytes()))
            .join(OsStr::from_bytes(file.to_bytes()));
        let read = match std::fs::read(&path) {
            Ok(read) => read,
            Err(error) => match (folder.to_bytes(), file.to_bytes()) {
                (folder, b"fw_ver") if is_ours(folder) => env!("CARGO_PKG_VERSION").into(),
                (folder, b"board_id" | b"hca_type") if is_ours(folder) => b"viaduct".into(),
                _ => return Err(viaduct_rdma::of_system(error)),
            },
        };
        let read = read.strip_suffix(b"\n").unwrap_or(&read);
        let length = read.len().min(bytes);
        if length == 0 && bytes == 0 {
            return Err(invalid("no room for the text"));
        }
        // SAFETY: so many bytes can be written.
        unsafe {
            std::ptr::copy_nonoverlapping(read.as_ptr().cast(), text, length);
            if length < bytes {
                text.add(length).write(0);
            }
        }
        Ok(length as c_int)
    })
}

fn is_ours(folder: &[u8]) -> bool {
    folder.starts_with(b"/sys/class/infiniband/viaduct")
}

/// The number of the interface whose address a GID stands for, 0 if there is none.
pub(crate) fn interface_of(gid: [u8; 16]) -> u32 {
    let wanted = std::net::Ipv6Addr::from(gid).to_ipv4_mapped();
    let Some(wanted) = wanted else {
        return 0;
    };
    let mut list = std::ptr::null_mut();
    // SAFETY: a place for the head of a list.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return 0;
    }
    let mut number = 0;
    let mut next = list;
    while !next.is_null() && number == 0 {
        // SAFETY: an entry of the list, which is freed below; an address is null or has its family.
        unsafe {
            let entry = &*next;
            next = entry.ifa_next;
            if entry.ifa_addr.is_null() || c_int::from((*entry.ifa_addr).sa_family) != libc::AF_INET
            {
                continue;
            }
            let address = &*entry.ifa_addr.cast::<libc::sockaddr_in>();
            if u32::from_be(address.sin_addr.s_addr) == wanted.to_bits() {
                number = libc::if_nametoindex(entry.ifa_name);
            }
        }
    }
    // SAFETY: made by `getifaddrs`, and freed once.
    unsafe { libc::freeifaddrs(list) };
    number
}

/// Lets others see what this process sends, where the launcher asked for it. Called before each
/// opening of a device: a forked child has a file of its own.
pub(crate) fn publish_counters() {
    let Some(folder) = std::env::var_os(COUNTERS_VARIABLE).filter(|folder| !folder.is_empty())
    else {
        return;
    };
    let file = Path::new(&folder).join(std::process::id().to_string());
    if file.exists() {
        return;
    }
    if let Err(error) = viaduct_rdma::Counters::publish(&file) {
        call::log(format_args!(
            "what crosses is not counted in {}: {error}",
            file.display()
        ));
    }
}
