//! What a shared object that has the state of a process shows to others in it.

use core::ffi::{c_char, c_void};

/// Counts changes of [`Table`].
pub(crate) const VERSION: u32 = 4;

/// A function that takes bytes of an answer.
pub(crate) type Sink = unsafe extern "C" fn(context: *mut c_void, bytes: *const u8, length: usize);

/// Functions over the state of this process. They may be called by any thread, at any time.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Table {
    pub(crate) version: u32,
    pub(crate) host: extern "C" fn() -> u32,
    pub(crate) now: extern "C" fn() -> u64,
    pub(crate) quiet_until: extern "C" fn() -> u64,
    pub(crate) charge: extern "C" fn(picoseconds: u64),
    pub(crate) synchronise: extern "C" fn(),
    pub(crate) sleep_until: extern "C" fn(time: u64),
    /// Room for a message is [`crate::MESSAGE_BYTES_MAX`]; true: there is an answer.
    pub(crate) call: unsafe extern "C" fn(
        what: *const c_char,
        request: *const u8,
        length: usize,
        sink: Sink,
        context: *mut c_void,
    ) -> bool,
    pub(crate) post: unsafe extern "C" fn(request: *const u8, length: usize),
    /// Gives the turn, for the first time or `again`; true: try, false: it is `deadline`. `waited`
    /// is what `Waited::to_bytes` makes.
    pub(crate) foreign_wait: unsafe extern "C" fn(
        what: *const c_char,
        deadline: u64,
        again: bool,
        waited: *const u8,
        length: usize,
    ) -> bool,
    /// The last try was not in vain.
    pub(crate) foreign_end: extern "C" fn(),
    /// A function of a library begins, and ends: what it does is no computing of the program's.
    pub(crate) enter: extern "C" fn(),
    pub(crate) leave: extern "C" fn(),
}

/// The symbol by which a shared object shows its table: `extern "C" fn() -> *const Table`, null
/// when the process is no client. It is defined where the state is:
///
/// ```ignore
/// #[unsafe(no_mangle)]
/// pub extern "C" fn viaduct_turns_1() -> *const viaduct_turns::Table {
///     viaduct_turns::symbol()
/// }
/// ```
pub(crate) const SYMBOL: &core::ffi::CStr = c"viaduct_turns_1";

/// The table of the state that lies in this shared object; null: it has none ([`crate::start`]).
#[must_use]
pub fn symbol() -> *const Table {
    crate::own::table().map_or(core::ptr::null(), core::ptr::from_ref)
}
