//! Handlers of programs: what they are given, and the token that replies once.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use viaduct_am::{Body, HandlerId, Handlers, Phase, Reply, Request, View, WORDS_MAX};

use crate::abi::{
    Code, HandlerTable, Kind, Message, NO_HANDLER, NO_INDEX, ReplyHandler, RequestHandler,
    Returned, Token, UndeliverableHandler,
};
use crate::call::{InHandler, Refused, Result};
use crate::objects::{Carrier, State, Table};

/// What a program wants its handlers to be given. It crosses threads as the number that it is: what
/// it points to is the program's.
#[derive(Clone, Copy)]
pub(crate) struct Context(usize);

impl Context {
    pub(crate) fn new(context: *mut c_void) -> Self {
        Self(context.expose_provenance())
    }

    fn get(self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.0)
    }
}

/// The handlers of a table.
pub(crate) fn handlers(table: &HandlerTable) -> Result<Table> {
    let Some(undeliverable) = table.undeliverable else {
        let text = "undeliverable is NULL: give a handler for what comes back, if only to count it";
        return Err(Refused::new(Code::Null, text));
    };
    let returned = move |state: &mut State, returned: viaduct_am::Returned<'_>| {
        run_undeliverable(undeliverable, state, &returned);
    };
    let mut all = Handlers::new(returned);
    for number in (0..).map_while(HandlerId::new) {
        let index = usize::from(number.number());
        if let Some(handler) = table.request[index] {
            all = all.on_request(number, move |state: &mut State, request| {
                run_request(handler, number, state, request);
            });
        }
        if let Some(handler) = table.reply[index] {
            all = all.on_reply(number, move |state: &mut State, mut reply| {
                run_reply(handler, number, state, &mut reply);
            });
        }
    }
    Ok(all)
}

/// The request that a handler of this thread may reply to.
#[derive(Clone, Copy)]
struct Running {
    token: u64,
    /// Empty once it has been replied to. Valid as long as this is in its place.
    request: *mut Option<Request<'static, Carrier>>,
}

const NOBODY: Running = Running {
    token: 0,
    request: null_mut(),
};

thread_local! {
    static RUNNING: Cell<Running> = const { Cell::new(NOBODY) };
    /// The token that was given last; its upper bits are the thread's.
    static TOKEN_LAST: Cell<u64> = Cell::new(next_thread() << SERIAL_BITS);
}

/// Bits of a token that count a thread's runs: a million a second for 12 days, then they repeat.
const SERIAL_BITS: u32 = 40;

fn next_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn next_token() -> u64 {
    TOKEN_LAST.with(|last| {
        let serial = (last.get() + 1) & ((1 << SERIAL_BITS) - 1);
        let token = last.get() >> SERIAL_BITS << SERIAL_BITS | serial;
        last.set(token);
        token
    })
}

/// While it lives, a token of this thread leads to a request.
struct Replying(());

impl Replying {
    fn to(request: &mut Option<Request<'_, Carrier>>) -> (Self, Token) {
        let token = next_token();
        RUNNING.with(|running| {
            running.set(Running {
                token,
                // Its lifetimes are kept by `Drop`: nobody finds it afterwards.
                request: ptr::from_mut(request).cast(),
            });
        });
        (Self(()), Token { bits: token })
    }
}

impl Drop for Replying {
    fn drop(&mut self) {
        RUNNING.with(|running| running.set(NOBODY));
    }
}

fn run_request(
    handler: RequestHandler,
    number: HandlerId,
    state: &mut State,
    mut request: Request<'_, Carrier>,
) {
    let segment = request.segment();
    let segment = (segment.as_mut_ptr(), segment.len());
    let message = message(number, request.words(), &request.body(), segment);
    let mut request = Some(request);
    let _running = InHandler::enter();
    let (_replying, token) = Replying::to(&mut request);
    // SAFETY: the program gave a function of this type; the message lives through the call.
    unsafe { handler(token, &raw const message, state.context.get()) };
}

fn run_reply(handler: ReplyHandler, number: HandlerId, state: &mut State, reply: &mut Reply<'_>) {
    let segment = reply.segment();
    let segment = (segment.as_mut_ptr(), segment.len());
    let message = message(number, reply.words(), reply.body(), segment);
    let _running = InHandler::enter();
    // SAFETY: as for a request.
    unsafe { handler(&raw const message, state.context.get()) };
}

fn run_undeliverable(
    handler: UndeliverableHandler,
    state: &mut State,
    returned: &viaduct_am::Returned<'_>,
) {
    let told = Returned {
        reason: u32::from(returned.reason.number()),
        is_reply: (returned.phase == Phase::Reply).into(),
        index: returned.destination.unwrap_or(NO_INDEX),
        handler: match returned.handler {
            Some(handler) => handler.number().into(),
            None => NO_HANDLER,
        },
        words: padded(returned.words),
        word_count: returned.words.len() as u32,
        kind: match (returned.offset, returned.payload) {
            (Some(_), _) => Kind::Bulk,
            (None, []) => Kind::Short,
            (None, _) => Kind::Medium,
        },
        payload: start(returned.payload),
        payload_bytes: returned.payload.len(),
        offset: returned.offset.unwrap_or(0) as usize,
    };
    let _running = InHandler::enter();
    // SAFETY: as for a request.
    unsafe { handler(&raw const told, state.context.get()) };
}

#[inline]
fn message(
    handler: HandlerId,
    words: &[u64],
    body: &View<'_>,
    (segment, segment_bytes): (*mut u8, usize),
) -> Message {
    let (kind, payload, payload_bytes, offset) = match body {
        View::Short => (Kind::Short, null(), 0, 0),
        View::Medium(bytes) => (Kind::Medium, start(bytes), bytes.len(), 0),
        View::Bulk(range) => {
            // The carrier let in only what fits.
            let is_inside = !range.is_empty() && range.end <= segment_bytes;
            let payload: *const c_void = match is_inside {
                true => segment.wrapping_add(range.start).cast(),
                false => null(),
            };
            let bytes = if is_inside { range.len() } else { 0 };
            (Kind::Bulk, payload, bytes, range.start)
        }
    };
    Message {
        words: padded(words),
        word_count: words.len() as u32,
        handler: handler.number().into(),
        kind,
        payload,
        payload_bytes,
        offset,
        segment: if segment_bytes == 0 {
            null_mut()
        } else {
            segment
        },
        segment_bytes,
    }
}

fn padded(words: &[u64]) -> [u64; WORDS_MAX] {
    let mut all = [0; WORDS_MAX];
    for (word, given) in all.iter_mut().zip(words) {
        *word = *given;
    }
    all
}

/// Where bytes begin; NULL if there are none.
fn start(bytes: &[u8]) -> *const c_void {
    if bytes.is_empty() {
        null()
    } else {
        bytes.as_ptr().cast()
    }
}

/// Replies to the request of a token. A message that does not keep the limits leaves the token.
#[inline]
pub(crate) fn reply(token: Token, handler: HandlerId, words: &[u64], body: Body<'_>) -> Result<()> {
    let running = RUNNING.with(Cell::get);
    if token.bits == 0 || running.token != token.bits {
        let text = "the token is not of a handler that runs in this thread: reply inside the \
                    handler that got it";
        return Err(Refused::new(Code::Token, text));
    }
    let invalid = |error: viaduct_am::Invalid| Refused::limit(error.to_string());
    viaduct_am::Message::new(handler, words, body).map_err(invalid)?;
    // SAFETY: the handler of this token runs, in this thread, below this call: what it points to is
    // a variable of `run_request`, which nothing else uses until the handler returns.
    let request = unsafe { (*running.request).take() };
    let Some(request) = request else {
        let text = "this request has been replied to: a handler replies once";
        return Err(Refused::new(Code::Replied, text));
    };
    request.reply_with(handler, words, body).map_err(invalid)
}
