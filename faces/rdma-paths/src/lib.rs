//! A library for `LD_PRELOAD`: it shows programs the device files and the folders of sysfs that
//! RDMA adapters have, where the system has none.
//!
//! A path that begins with one of `PREFIXES` is looked for below the folder that the environment
//! variable `VIADUCT_RDMA_SYS` names; without the variable nothing changes, and all other paths go
//! to the C library as they are. Each function here takes the place of one of the C library and
//! calls it.
//!
//! # Decisions
//!
//! - The library is loaded into every process below the launcher, whatever it is: it does nothing
//!   when it is loaded, starts no thread, allocates nothing, and calls one function of the C
//!   library beside the one whose place it takes.
//! - A function of C with a variable argument is defined with that argument: on x86-64 both are
//!   passed alike, and what a caller did not pass is handed on unread.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
compile_error!("the paths of RDMA adapters are shown to programs for glibc on x86-64 only");

/// The folder in which the launcher has put what programs look for.
const FOLDER_VARIABLE: &CStr = c"VIADUCT_RDMA_SYS";

/// What stands in that folder. A path goes on with `/`, or with the rest of a name such as
/// `infiniband_verbs`.
const PREFIXES: [&[u8]; 3] = [
    b"/dev/infiniband",
    b"/sys/class/infiniband",
    b"/sys/class/misc/rdma_cm",
];

/// Room for a path in that folder.
const PATH_BYTES: usize = 1024;

/// A path as a program gave it, or as it is to be looked for.
struct Redirected {
    path: *const c_char,
    room: [u8; PATH_BYTES],
}

impl Redirected {
    /// # Safety
    ///
    /// `path` is null or a string of C.
    #[inline]
    unsafe fn of(path: *const c_char) -> Self {
        let mut it = Self {
            path,
            room: [0; PATH_BYTES],
        };
        if path.is_null() {
            return it;
        }
        // SAFETY: the caller passes a string.
        let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
        if !PREFIXES.iter().any(|prefix| bytes.starts_with(prefix)) {
            return it;
        }
        // SAFETY: the name is a string; what comes back is null or one.
        let folder = unsafe { libc::getenv(FOLDER_VARIABLE.as_ptr()) };
        if folder.is_null() {
            return it;
        }
        // SAFETY: as above; it is copied at once.
        let folder = unsafe { CStr::from_ptr(folder) }.to_bytes();
        if let Some(length) = join(&mut it.room, folder, bytes) {
            it.room[length] = 0;
            it.path = core::ptr::null();
        }
        it
    }

    /// What to call the C library with, for as long as `self` lives.
    #[inline]
    fn as_ptr(&self) -> *const c_char {
        if self.path.is_null() && self.room[0] != 0 {
            self.room.as_ptr().cast()
        } else {
            self.path
        }
    }
}

/// Writes the one behind the other and says how long they are, if they and a zero have room.
fn join(room: &mut [u8], folder: &[u8], path: &[u8]) -> Option<usize> {
    let length = folder.len() + path.len();
    if length >= room.len() || folder.is_empty() {
        return None;
    }
    room[..folder.len()].copy_from_slice(folder);
    room[folder.len()..length].copy_from_slice(path);
    Some(length)
}

/// The function of this name in the libraries behind this one, once it was looked for.
fn next(cache: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = cache.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name is a string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    cache.store(found, Ordering::Relaxed);
    found
}

/// Says that the C library has no such function, which a program that calls it would have been told
/// when it was loaded.
#[cold]
fn missing() {
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
}

/// Functions that take the place of those of the C library. `path` is the argument that is looked
/// at; `else` is what comes back if the C library has none.
macro_rules! in_place {
    ($(fn $name:ident($($before:ident: $before_type:ty,)* @path $(, $after:ident: $after_type:ty)*)
        -> $result:ty, else $none:expr;)+) => {$(
        /// In place of the function of that name of the C library.
        ///
        /// # Safety
        ///
        /// As for that function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($before: $before_type,)* path: *const c_char $(, $after: $after_type)*
        ) -> $result {
            static NEXT: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            type Function = unsafe extern "C" fn(
                $($before_type,)* *const c_char $(, $after_type)*
            ) -> $result;
            // SAFETY: the string is the caller's.
            let redirected = unsafe { Redirected::of(path) };
            let name = concat!(stringify!($name), "\0");
            // SAFETY: it ends with its only zero.
            let name = unsafe { CStr::from_bytes_with_nul_unchecked(name.as_bytes()) };
            let function = next(&NEXT, name);
            if function.is_null() {
                missing();
                return $none;
            }
            // SAFETY: the C library's function of this name has this type.
            let function: Function = unsafe { core::mem::transmute(function) };
            // SAFETY: the arguments are the caller's; the path lives until the call has returned.
            unsafe { function($($before,)* redirected.as_ptr() $(, $after)*) }
        }
    )+};
}

in_place! {
    fn open(@path, flags: c_int, mode: c_uint) -> c_int, else -1;
    fn open64(@path, flags: c_int, mode: c_uint) -> c_int, else -1;
    fn __open_2(@path, flags: c_int) -> c_int, else -1;
    fn __open64_2(@path, flags: c_int) -> c_int, else -1;
    fn openat(folder: c_int, @path, flags: c_int, mode: c_uint) -> c_int, else -1;
    fn openat64(folder: c_int, @path, flags: c_int, mode: c_uint) -> c_int, else -1;
    fn __openat_2(folder: c_int, @path, flags: c_int) -> c_int, else -1;
    fn __openat64_2(folder: c_int, @path, flags: c_int) -> c_int, else -1;
    fn stat(@path, found: *mut c_void) -> c_int, else -1;
    fn stat64(@path, found: *mut c_void) -> c_int, else -1;
    fn lstat(@path, found: *mut c_void) -> c_int, else -1;
    fn lstat64(@path, found: *mut c_void) -> c_int, else -1;
    fn fstatat(folder: c_int, @path, found: *mut c_void, flags: c_int) -> c_int, else -1;
    fn fstatat64(folder: c_int, @path, found: *mut c_void, flags: c_int) -> c_int, else -1;
    fn __xstat(version: c_int, @path, found: *mut c_void) -> c_int, else -1;
    fn __xstat64(version: c_int, @path, found: *mut c_void) -> c_int, else -1;
    fn __lxstat(version: c_int, @path, found: *mut c_void) -> c_int, else -1;
    fn __lxstat64(version: c_int, @path, found: *mut c_void) -> c_int, else -1;
    fn __fxstatat(version: c_int, folder: c_int, @path, found: *mut c_void, flags: c_int)
        -> c_int, else -1;
    fn __fxstatat64(version: c_int, folder: c_int, @path, found: *mut c_void, flags: c_int)
        -> c_int, else -1;
    fn statx(folder: c_int, @path, flags: c_int, mask: c_uint, found: *mut c_void)
        -> c_int, else -1;
    fn access(@path, mode: c_int) -> c_int, else -1;
    fn eaccess(@path, mode: c_int) -> c_int, else -1;
    fn euidaccess(@path, mode: c_int) -> c_int, else -1;
    fn faccessat(folder: c_int, @path, mode: c_int, flags: c_int) -> c_int, else -1;
    fn readlink(@path, text: *mut c_char, bytes: usize) -> isize, else -1;
    fn readlinkat(folder: c_int, @path, text: *mut c_char, bytes: usize) -> isize, else -1;
    fn __readlink_chk(@path, text: *mut c_char, bytes: usize, room: usize) -> isize, else -1;
    fn __readlinkat_chk(folder: c_int, @path, text: *mut c_char, bytes: usize, room: usize)
        -> isize, else -1;
    fn chdir(@path) -> c_int, else -1;
    fn opendir(@path) -> *mut c_void, else core::ptr::null_mut();
    fn scandir(@path, list: *mut c_void, filter: *mut c_void, order: *mut c_void)
        -> c_int, else -1;
    fn scandir64(@path, list: *mut c_void, filter: *mut c_void, order: *mut c_void)
        -> c_int, else -1;
    fn scandirat(
        folder: c_int, @path, list: *mut c_void, filter: *mut c_void, order: *mut c_void
    ) -> c_int, else -1;
    fn scandirat64(
        folder: c_int, @path, list: *mut c_void, filter: *mut c_void, order: *mut c_void
    ) -> c_int, else -1;
    fn realpath(@path, found: *mut c_char) -> *mut c_char, else core::ptr::null_mut();
    fn __realpath_chk(@path, found: *mut c_char, room: usize)
        -> *mut c_char, else core::ptr::null_mut();
    fn canonicalize_file_name(@path) -> *mut c_char, else core::ptr::null_mut();
    fn fopen(@path, mode: *const c_char) -> *mut c_void, else core::ptr::null_mut();
    fn fopen64(@path, mode: *const c_char) -> *mut c_void, else core::ptr::null_mut();
    fn freopen(@path, mode: *const c_char, stream: *mut c_void)
        -> *mut c_void, else core::ptr::null_mut();
    fn freopen64(@path, mode: *const c_char, stream: *mut c_void)
        -> *mut c_void, else core::ptr::null_mut();
    fn glob(@path, flags: c_int, error: *mut c_void, found: *mut c_void) -> c_int, else 3;
    fn glob64(@path, flags: c_int, error: *mut c_void, found: *mut c_void) -> c_int, else 3;
    fn nftw(@path, function: *mut c_void, depth: c_int, flags: c_int) -> c_int, else -1;
    fn nftw64(@path, function: *mut c_void, depth: c_int, flags: c_int) -> c_int, else -1;
}
