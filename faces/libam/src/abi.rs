//! The types of `am.h`, field by field; the header is the contract, and a test compares the two.

use std::ffi::{c_int, c_uint, c_void};

use viaduct_am::{HANDLERS_MAX, Name, WORDS_MAX};

/// `AM_FOREVER`.
pub const FOREVER: u64 = u64::MAX;
/// `AM_NO_INDEX`.
pub const NO_INDEX: usize = usize::MAX;
/// `AM_NO_HANDLER`.
pub const NO_HANDLER: c_int = -1;
/// `AM_NAME_TEXT_BYTES`.
pub const NAME_TEXT_BYTES: usize = 2 * Name::BYTES + 1;

/// `am_error`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub enum Code {
    /// `AM_OK`.
    Ok,
    /// `AM_ERROR_NULL`.
    Null,
    /// `AM_ERROR_HANDLE`.
    Handle,
    /// `AM_ERROR_BUSY`.
    Busy,
    /// `AM_ERROR_IN_HANDLER`.
    InHandler,
    /// `AM_ERROR_LIMIT`.
    Limit,
    /// `AM_ERROR_NAME`.
    Name,
    /// `AM_ERROR_NOT_MAPPED`.
    NotMapped,
    /// `AM_ERROR_NO_CREDIT`.
    NoCredit,
    /// `AM_ERROR_FULL`.
    Full,
    /// `AM_ERROR_TOKEN`.
    Token,
    /// `AM_ERROR_REPLIED`.
    Replied,
    /// `AM_ERROR_TIMED_OUT`.
    TimedOut,
    /// `AM_ERROR_STATE`.
    State,
    /// `AM_ERROR_RESOURCE`.
    Resource,
    /// `AM_ERROR_FORKED`.
    Forked,
    /// `AM_ERROR_INTERNAL`.
    Internal,
}

impl Code {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::Ok,
        Self::Null,
        Self::Handle,
        Self::Busy,
        Self::InHandler,
        Self::Limit,
        Self::Name,
        Self::NotMapped,
        Self::NoCredit,
        Self::Full,
        Self::Token,
        Self::Replied,
        Self::TimedOut,
        Self::State,
        Self::Resource,
        Self::Forked,
        Self::Internal,
    ];
}

/// `am_kind`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub enum Kind {
    /// `AM_SHORT`.
    Short,
    /// `AM_MEDIUM`.
    Medium,
    /// `AM_BULK`.
    Bulk,
}

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident)+) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            #[repr(C)]
            pub struct $name {
                _opaque: [u8; 0],
            }
        )+
    };
}

opaque! {
    /// `am_station`: never behind its pointer, which is a number.
    Station
    /// `am_endpoint`, likewise.
    Endpoint
    /// `am_bundle`, likewise.
    Bundle
}

/// `am_name`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct NameBytes {
    /// The bytes of a [`Name`].
    pub bytes: [u8; Name::BYTES],
}

/// `am_token`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Token {
    /// A number of the thread and one of the handler's run; 0 is none.
    pub bits: u64,
}

/// `am_message`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header describes the fields")]
pub struct Message {
    pub words: [u64; WORDS_MAX],
    pub word_count: u32,
    pub handler: u32,
    pub kind: Kind,
    pub payload: *const c_void,
    pub payload_bytes: usize,
    pub offset: usize,
    pub segment: *mut u8,
    pub segment_bytes: usize,
}

/// `am_returned`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header describes the fields")]
pub struct Returned {
    /// The number of a [`viaduct_am::Reason`].
    pub reason: c_uint,
    pub is_reply: c_int,
    pub index: usize,
    pub handler: c_int,
    pub words: [u64; WORDS_MAX],
    pub word_count: u32,
    pub kind: Kind,
    pub payload: *const c_void,
    pub payload_bytes: usize,
    pub offset: usize,
}

/// `am_request_handler`. An exception that leaves one is told from a return, and ends the program.
pub type RequestHandler = unsafe extern "C-unwind" fn(Token, *const Message, *mut c_void);
/// `am_reply_handler`.
pub type ReplyHandler = unsafe extern "C-unwind" fn(*const Message, *mut c_void);
/// `am_undeliverable_handler`.
pub type UndeliverableHandler = unsafe extern "C-unwind" fn(*const Returned, *mut c_void);

/// `am_handlers`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header describes the fields")]
pub struct HandlerTable {
    pub request: [Option<RequestHandler>; HANDLERS_MAX],
    pub reply: [Option<ReplyHandler>; HANDLERS_MAX],
    pub undeliverable: Option<UndeliverableHandler>,
}

/// `am_endpoint_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header describes the fields")]
pub struct EndpointOptions {
    pub key: u64,
    pub credits: u32,
    pub request_entries: u32,
    pub segment_bytes: usize,
    pub context: *mut c_void,
    pub is_shared: c_int,
}

/// `am_station_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header describes the fields")]
pub struct StationOptions {
    pub frames: u32,
    /// A number of `am_policy`.
    pub policy: c_uint,
}
