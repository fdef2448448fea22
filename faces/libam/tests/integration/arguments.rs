//! What the functions do with good and with bad arguments, states and handles.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_void};
use std::ptr::{null, null_mut};

use am::abi::{
    Bundle, Code, Endpoint, EndpointOptions, FOREVER, HandlerTable, Kind, Message, NO_HANDLER,
    NameBytes, Returned, Station, StationOptions, Token,
};
use am::{
    am_allocate, am_bundle_create, am_bundle_free, am_bundle_insert, am_bundle_poll,
    am_bundle_remove, am_bundle_wait, am_close, am_error_detail, am_error_text, am_flush, am_free,
    am_get_credits, am_get_events, am_get_key, am_get_name, am_map, am_name_from_text,
    am_name_to_text, am_open, am_poll, am_reason_text, am_reply, am_reply_bulk, am_reply_medium,
    am_request, am_request_bulk, am_request_medium, am_segment_read, am_segment_write,
    am_try_request, am_try_request_bulk, am_try_request_medium, am_unmap, am_wait,
};

/// Calls with pointers to live variables of the right types, or NULL.
macro_rules! c {
    ($name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: as the macro says.
        unsafe { $name($($argument),*) }
    };
}

const KEY: u64 = 0x5eed;
/// Requests: the answer has the same words; twice; what a handler must not call; nothing; a reply
/// outside the limits first; with a part of the segment.
const ECHO: u32 = 0;
const TWICE: u32 = 1;
const MEDDLE: u32 = 2;
const SILENT: u32 = 3;
const CLUMSY: u32 = 4;
const FETCH: u32 = 5;
const ANSWER: u32 = 0;

/// Words, kind and payload.
type Answer = (Vec<u64>, Kind, Vec<u8>);
/// Reason, index, handler and payload.
type Back = (u32, usize, i32, Vec<u8>);

/// What the handlers of an endpoint saw.
#[derive(Default)]
struct Seen {
    codes: RefCell<Vec<Code>>,
    answers: RefCell<Vec<Answer>>,
    returned: RefCell<Vec<Back>>,
    token: Cell<Option<Token>>,
    endpoint: Cell<usize>,
    bundle: Cell<usize>,
    station: Cell<usize>,
}

fn seen<'a>(context: *mut c_void) -> &'a Seen {
    // SAFETY: every endpoint here has a `Seen` that outlives it.
    unsafe { &*context.cast() }
}

fn bytes(from: *const c_void, count: usize) -> Vec<u8> {
    if count == 0 {
        assert!(from.is_null());
        return Vec::new();
    }
    // SAFETY: the library says that they are there.
    unsafe { std::slice::from_raw_parts(from.cast::<u8>(), count) }.to_vec()
}

unsafe extern "C-unwind" fn on_echo(token: Token, message: *const Message, context: *mut c_void) {
    // SAFETY: the library lends a message for the call.
    let it = unsafe { &*message };
    seen(context).token.set(Some(token));
    assert!(
        it.words[it.word_count as usize..]
            .iter()
            .all(|word| *word == 0)
    );
    let (words, count) = (it.words.as_ptr(), it.word_count as usize);
    let code = match it.kind {
        Kind::Short => c!(am_reply(token, ANSWER, words, count)),
        Kind::Medium => c!(am_reply_medium(
            token,
            ANSWER,
            words,
            count,
            it.payload,
            it.payload_bytes
        )),
        Kind::Bulk => c!(am_reply_bulk(
            token,
            ANSWER,
            words,
            count,
            it.offset,
            it.payload,
            it.payload_bytes
        )),
    };
    assert_eq!(code, Code::Ok);
}

unsafe extern "C-unwind" fn on_twice(token: Token, _: *const Message, context: *mut c_void) {
    let codes = [1, 2, 3].map(|word| c!(am_reply(token, ANSWER, &raw const word, 1)));
    seen(context).codes.borrow_mut().extend(codes);
}

unsafe extern "C-unwind" fn on_meddle(_: Token, _: *const Message, context: *mut c_void) {
    let it = seen(context);
    let endpoint: *mut Endpoint = std::ptr::without_provenance_mut(it.endpoint.get());
    let bundle: *mut Bundle = std::ptr::without_provenance_mut(it.bundle.get());
    let station: *mut Station = std::ptr::without_provenance_mut(it.station.get());
    let mut name = NameBytes { bytes: [0; 32] };
    let codes = [
        c!(am_poll(endpoint, null_mut())),
        c!(am_wait(endpoint, 7, 0, null_mut())),
        c!(am_request(endpoint, 0, ECHO, null(), 0)),
        c!(am_try_request(endpoint, 0, ECHO, null(), 0)),
        c!(am_get_name(endpoint, &raw mut name)),
        c!(am_free(endpoint)),
        c!(am_bundle_poll(bundle, 1, null_mut())),
        c!(am_bundle_free(bundle)),
        c!(am_close(station)),
    ];
    it.codes.borrow_mut().extend(codes);
}

unsafe extern "C-unwind" fn on_silent(_: Token, _: *const Message, _: *mut c_void) {}

unsafe extern "C-unwind" fn on_clumsy(token: Token, _: *const Message, context: *mut c_void) {
    let words = [7; 9];
    let codes = [
        c!(am_reply(token, 64, words.as_ptr(), 1)),
        c!(am_reply(token, ANSWER, words.as_ptr(), 9)),
        c!(am_reply(token, ANSWER, null(), 1)),
        c!(am_reply_medium(
            token,
            ANSWER,
            null(),
            0,
            words.as_ptr().cast(),
            8193
        )),
        c!(am_reply_medium(token, ANSWER, null(), 0, null(), 1)),
        c!(am_reply(Token { bits: 0 }, ANSWER, null(), 0)),
        c!(am_reply(
            Token {
                bits: token.bits + 1
            },
            ANSWER,
            null(),
            0
        )),
        c!(am_reply(token, ANSWER, words.as_ptr(), 8)),
    ];
    seen(context).codes.borrow_mut().extend(codes);
}

unsafe extern "C-unwind" fn on_fetch(token: Token, message: *const Message, _: *mut c_void) {
    // SAFETY: as above.
    let it = unsafe { &*message };
    let part = it.segment.wrapping_add(it.words[0] as usize).cast();
    let code = c!(am_reply_medium(
        token,
        ANSWER,
        null(),
        0,
        part,
        it.words[1] as usize
    ));
    assert_eq!(code, Code::Ok);
}

unsafe extern "C-unwind" fn on_answer(message: *const Message, context: *mut c_void) {
    // SAFETY: as above.
    let it = unsafe { &*message };
    let words = it.words[..it.word_count as usize].to_vec();
    let payload = bytes(it.payload, it.payload_bytes);
    let mut answers = seen(context).answers.borrow_mut();
    answers.push((words, it.kind, payload));
}

unsafe extern "C-unwind" fn on_returned(returned: *const Returned, context: *mut c_void) {
    // SAFETY: as above.
    let it = unsafe { &*returned };
    let payload = bytes(it.payload, it.payload_bytes);
    let mut all = seen(context).returned.borrow_mut();
    all.push((it.reason, it.index, it.handler, payload));
}

fn table() -> HandlerTable {
    let mut table = HandlerTable {
        request: [None; 64],
        reply: [None; 64],
        undeliverable: Some(on_returned),
    };
    table.request[ECHO as usize] = Some(on_echo);
    table.request[TWICE as usize] = Some(on_twice);
    table.request[MEDDLE as usize] = Some(on_meddle);
    table.request[SILENT as usize] = Some(on_silent);
    table.request[CLUMSY as usize] = Some(on_clumsy);
    table.request[FETCH as usize] = Some(on_fetch);
    table.reply[ANSWER as usize] = Some(on_answer);
    table
}

const OPTIONS: EndpointOptions = EndpointOptions {
    key: KEY,
    credits: 0,
    request_entries: 0,
    segment_bytes: 4096,
    context: null_mut(),
    is_shared: 0,
};

/// An endpoint with what its handlers saw.
struct End {
    endpoint: *mut Endpoint,
    seen: Box<Seen>,
}

impl End {
    fn new(station: *mut Station, options: EndpointOptions) -> Self {
        let seen = Box::<Seen>::default();
        let options = EndpointOptions {
            context: (&raw const *seen).cast_mut().cast(),
            ..options
        };
        let mut endpoint = null_mut();
        let (table, place) = (table(), &raw mut endpoint);
        let code = c!(am_allocate(
            station,
            &raw const table,
            &raw const options,
            place
        ));
        assert_eq!(code, Code::Ok, "{}", detail());
        seen.endpoint.set(endpoint.addr());
        seen.station.set(station.addr());
        Self { endpoint, seen }
    }

    fn name(&self) -> NameBytes {
        let mut name = NameBytes { bytes: [0; 32] };
        assert_eq!(c!(am_get_name(self.endpoint, &raw mut name)), Code::Ok);
        name
    }

    fn map(&self, index: usize, other: &Self, key: u64) {
        let name = other.name();
        assert_eq!(
            c!(am_map(self.endpoint, index, &raw const name, key)),
            Code::Ok
        );
    }

    fn poll(&self) -> usize {
        let mut handled = 0;
        assert_eq!(c!(am_poll(self.endpoint, &raw mut handled)), Code::Ok);
        handled
    }

    fn request(&self, index: usize, handler: u32, words: &[u64]) -> Code {
        c!(am_request(
            self.endpoint,
            index,
            handler,
            words.as_ptr(),
            words.len()
        ))
    }

    fn outstanding(&self) -> u32 {
        let mut outstanding = 0;
        let code = c!(am_get_credits(
            self.endpoint,
            null_mut(),
            &raw mut outstanding
        ));
        assert_eq!(code, Code::Ok);
        outstanding
    }

    /// Polls both until no request of this one is open.
    fn settle(&self, other: &Self) {
        for _ in 0..3_000_000 {
            self.poll();
            other.poll();
            if self.outstanding() == 0 {
                return;
            }
            std::thread::yield_now();
        }
        panic!("no answer came");
    }
}

fn open() -> *mut Station {
    let mut station = null_mut();
    let code = c!(am_open(null(), &raw mut station));
    assert_eq!(code, Code::Ok, "{}", detail());
    station
}

/// Two stations with an endpoint each; the first has the second at index 0.
fn pair() -> ([*mut Station; 2], End, End) {
    let stations = [open(), open()];
    let here = End::new(stations[0], OPTIONS);
    let there = End::new(stations[1], OPTIONS);
    here.map(0, &there, KEY);
    (stations, here, there)
}

fn close(stations: [*mut Station; 2], ends: &[&End]) {
    for end in ends {
        assert_eq!(c!(am_free(end.endpoint)), Code::Ok, "{}", detail());
    }
    for station in stations {
        assert_eq!(c!(am_close(station)), Code::Ok, "{}", detail());
    }
}

fn detail() -> String {
    // SAFETY: the text ends with NUL and stays until the next failure of this thread.
    unsafe { CStr::from_ptr(am_error_detail()) }
        .to_str()
        .unwrap()
        .to_owned()
}

fn fails<T>(code: Code, wanted: Code, of: T) -> T {
    assert_eq!(code, wanted, "{}", detail());
    of
}

#[test]
fn every_kind_of_message_arrives_and_is_answered() {
    let (stations, here, there) = pair();
    let payload: Vec<u8> = (0..8192).map(|index| index as u8).collect();
    assert_eq!(here.request(0, ECHO, &[1, 2, 3, 4, 5, 6, 7, 8]), Code::Ok);
    here.settle(&there);
    let (words, from) = ([9], payload.as_ptr().cast());
    let code = c!(am_request_medium(
        here.endpoint,
        0,
        ECHO,
        words.as_ptr(),
        1,
        from,
        8192
    ));
    assert_eq!(code, Code::Ok);
    here.settle(&there);
    let code = c!(am_request_bulk(
        here.endpoint,
        0,
        ECHO,
        null(),
        0,
        96,
        from,
        4000
    ));
    assert_eq!(code, Code::Ok);
    here.settle(&there);
    let answers = here.seen.answers.take();
    let short = (vec![1, 2, 3, 4, 5, 6, 7, 8], Kind::Short, vec![]);
    let medium = (vec![9], Kind::Medium, payload.clone());
    let bulk = (vec![], Kind::Bulk, payload[..4000].to_vec());
    assert!(answers == [short, medium, bulk]);

    // The bulk message stands in both segments.
    for end in [&here, &there] {
        let mut read = vec![0_u8; 4096];
        let into = read.as_mut_ptr().cast();
        assert_eq!(c!(am_segment_read(end.endpoint, 0, into, 4096)), Code::Ok);
        assert!(read[..96].iter().all(|byte| *byte == 0) && read[96..] == payload[..4000]);
    }
    assert_eq!(
        c!(am_segment_write(
            there.endpoint,
            10,
            c"abc".as_ptr().cast(),
            3
        )),
        Code::Ok
    );
    assert_eq!(here.request(0, FETCH, &[9, 5]), Code::Ok);
    here.settle(&there);
    assert_eq!(here.seen.answers.take()[0].2, b"\0abc\0");
    close(stations, &[&here, &there]);
}

#[test]
fn a_second_reply_is_refused_and_changes_nothing() {
    let (stations, here, there) = pair();
    assert_eq!(here.request(0, TWICE, &[]), Code::Ok);
    here.settle(&there);
    let codes = [Code::Ok, Code::Replied, Code::Replied];
    assert_eq!(there.seen.codes.take(), codes);
    assert_eq!(here.seen.answers.take(), [(vec![1], Kind::Short, vec![])]);
    assert!(detail().starts_with("am_reply: this request has been replied to"));
    close(stations, &[&here, &there]);
}

#[test]
fn a_reply_that_is_refused_leaves_the_token_good() {
    let (stations, here, there) = pair();
    assert_eq!(here.request(0, CLUMSY, &[]), Code::Ok);
    here.settle(&there);
    let codes = [
        Code::Limit,
        Code::Limit,
        Code::Null,
        Code::Limit,
        Code::Null,
        Code::Token,
        Code::Token,
        Code::Ok,
    ];
    assert_eq!(there.seen.codes.take(), codes);
    assert_eq!(
        here.seen.answers.take(),
        [(vec![7; 8], Kind::Short, vec![])]
    );
    close(stations, &[&here, &there]);
}

#[test]
fn a_token_is_good_while_its_handler_runs_and_in_its_thread() {
    let (stations, here, there) = pair();
    assert_eq!(here.request(0, ECHO, &[1]), Code::Ok);
    here.settle(&there);
    let token = there.seen.token.get().unwrap();
    fails(c!(am_reply(token, ANSWER, null(), 0)), Code::Token, ());
    let elsewhere = std::thread::spawn(move || c!(am_reply(token, ANSWER, null(), 0)));
    assert_eq!(elsewhere.join().unwrap(), Code::Token);
    // Silence gives the credit back and runs no handler.
    assert_eq!(here.request(0, SILENT, &[]), Code::Ok);
    here.settle(&there);
    assert_eq!(here.seen.answers.take().len(), 1);
    close(stations, &[&here, &there]);
}

#[test]
fn a_handler_may_only_reply() {
    let (stations, here, there) = pair();
    let mut bundle = null_mut();
    assert_eq!(c!(am_bundle_create(stations[1], &raw mut bundle)), Code::Ok);
    there.seen.bundle.set(bundle.addr());
    assert_eq!(here.request(0, MEDDLE, &[]), Code::Ok);
    here.settle(&there);
    assert_eq!(there.seen.codes.take(), [Code::InHandler; 9]);
    assert_eq!(c!(am_bundle_free(bundle)), Code::Ok);
    close(stations, &[&here, &there]);
}

#[test]
fn what_cannot_be_delivered_comes_back_with_its_reason() {
    let (stations, here, there) = pair();
    here.map(1, &there, KEY + 1);
    let payload = [5_u8; 100];
    let from = payload.as_ptr().cast();
    let code = c!(am_request_medium(
        here.endpoint,
        1,
        ECHO,
        null(),
        0,
        from,
        100
    ));
    assert_eq!(code, Code::Ok);
    assert_eq!(here.request(0, 63, &[]), Code::Ok);
    let code = c!(am_request_bulk(
        here.endpoint,
        0,
        ECHO,
        null(),
        0,
        3997,
        from,
        100
    ));
    assert_eq!(code, Code::Ok);
    here.settle(&there);
    let mut returned = here.seen.returned.take();
    returned.sort();
    let all = [
        (1, 1, ECHO as i32, payload.to_vec()),
        (4, 0, 63, vec![]),
        (5, 0, ECHO as i32, payload.to_vec()),
    ];
    assert_eq!(returned, all);
    assert_eq!(c!(am_free(there.endpoint)), Code::Ok);
    assert_eq!(here.request(0, ECHO, &[]), Code::Ok);
    while here.outstanding() > 0 {
        let code = c!(am_wait(here.endpoint, 5, 1000, null_mut()));
        assert!(matches!(code, Code::Ok | Code::TimedOut));
        here.poll();
        // The other station answers when it is called.
        assert!(matches!(
            c!(am_flush(stations[1], 0)),
            Code::Ok | Code::TimedOut
        ));
    }
    let returned = here.seen.returned.take();
    assert_eq!(returned[0].0, 3, "AM_ENDPOINT_FREED");
    assert_ne!(returned[0].2, NO_HANDLER);
    close(stations, &[&here]);
}

#[test]
fn credits_are_taken_and_given_back() {
    let stations = [open(), open()];
    let here = End::new(
        stations[0],
        EndpointOptions {
            credits: 2,
            ..OPTIONS
        },
    );
    let there = End::new(stations[1], OPTIONS);
    here.map(0, &there, KEY);
    for _ in 0..2 {
        assert_eq!(
            c!(am_try_request(here.endpoint, 0, ECHO, null(), 0)),
            Code::Ok
        );
    }
    for code in [
        c!(am_try_request(here.endpoint, 0, ECHO, null(), 0)),
        c!(am_try_request_medium(
            here.endpoint,
            0,
            ECHO,
            null(),
            0,
            null(),
            0
        )),
        c!(am_try_request_bulk(
            here.endpoint,
            0,
            ECHO,
            null(),
            0,
            0,
            null(),
            0
        )),
    ] {
        fails(code, Code::NoCredit, ());
    }
    let (mut left, mut outstanding) = (9, 9);
    let code = c!(am_get_credits(
        here.endpoint,
        &raw mut left,
        &raw mut outstanding
    ));
    assert_eq!((code, left, outstanding), (Code::Ok, 0, 2));
    let mut events = 9;
    assert_eq!(c!(am_get_events(here.endpoint, &raw mut events)), Code::Ok);
    assert_eq!(events & 2, 0, "no space");
    here.settle(&there);
    assert_eq!(
        c!(am_wait(here.endpoint, 2, FOREVER, &raw mut events)),
        Code::Ok
    );
    assert_eq!(events, 2);
    close(stations, &[&here, &there]);
}

#[test]
fn null_where_something_must_be_is_refused() {
    let (stations, here, there) = pair();
    let (it, table) = (here.endpoint, table());
    let (mut endpoint, mut bundle) = (null_mut(), null_mut());
    let mut name = here.name();
    let (name, mut key, mut text) = (&raw mut name, 0, [0; 65]);
    let no_handlers = HandlerTable {
        undeliverable: None,
        ..table
    };
    for (call, code) in [
        c!(am_open(null(), null_mut())),
        c!(am_close(null_mut())),
        c!(am_flush(null_mut(), 0)),
        c!(am_allocate(
            null_mut(),
            &raw const table,
            null(),
            &raw mut endpoint
        )),
        c!(am_allocate(stations[0], null(), null(), &raw mut endpoint)),
        c!(am_allocate(
            stations[0],
            &raw const table,
            null(),
            null_mut()
        )),
        c!(am_allocate(
            stations[0],
            &raw const no_handlers,
            null(),
            &raw mut endpoint
        )),
        c!(am_free(null_mut())),
        c!(am_get_name(it, null_mut())),
        c!(am_get_name(null_mut(), name)),
        c!(am_get_key(it, null_mut())),
        c!(am_get_key(null_mut(), &raw mut key)),
        c!(am_get_credits(null_mut(), null_mut(), null_mut())),
        c!(am_segment_read(it, 0, null_mut(), 1)),
        c!(am_segment_write(it, 0, null(), 1)),
        c!(am_name_to_text(null(), text.as_mut_ptr(), 65)),
        c!(am_name_to_text(name, null_mut(), 65)),
        c!(am_name_from_text(null(), name)),
        c!(am_name_from_text(text.as_ptr(), null_mut())),
        c!(am_map(it, 0, null(), 0)),
        c!(am_map(null_mut(), 0, name, 0)),
        c!(am_unmap(null_mut(), 0)),
        c!(am_request(null_mut(), 0, 0, null(), 0)),
        c!(am_request(it, 0, 0, null(), 1)),
        c!(am_request_medium(it, 0, 0, null(), 0, null(), 1)),
        c!(am_try_request_bulk(it, 0, 0, null(), 0, 0, null(), 1)),
        c!(am_poll(null_mut(), null_mut())),
        c!(am_get_events(it, null_mut())),
        c!(am_wait(null_mut(), 1, 0, null_mut())),
        c!(am_bundle_create(stations[0], null_mut())),
        c!(am_bundle_create(null_mut(), &raw mut bundle)),
        c!(am_bundle_free(null_mut())),
        c!(am_bundle_insert(null_mut(), it)),
        c!(am_bundle_remove(null_mut(), it)),
        c!(am_bundle_poll(null_mut(), 1, null_mut())),
        c!(am_bundle_wait(null_mut(), 0)),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(code, Code::Null, "call {call}");
    }
    assert!(endpoint.is_null() && bundle.is_null());
    close(stations, &[&here, &there]);
}

#[test]
fn what_is_outside_the_limits_is_refused() {
    let (stations, here, there) = pair();
    let it = here.endpoint;
    let words = [0_u64; 9];
    let (words, name) = (words.as_ptr(), here.name());
    let mut place = null_mut();
    let frames = StationOptions {
        frames: 16_385,
        policy: 0,
    };
    let policy = StationOptions {
        frames: 1,
        policy: 3,
    };
    let mut text = [0; 64];
    // Pointers that nothing may be read from, since the lengths are wrong already.
    let nowhere: *const c_void = std::ptr::without_provenance(8);
    for (call, code) in [
        c!(am_open(&raw const frames, &raw mut place)),
        c!(am_open(&raw const policy, &raw mut place)),
        c!(am_request(it, 0, 64, words, 0)),
        c!(am_request(it, 0, u32::MAX, words, 0)),
        c!(am_request(it, 0, ECHO, words, 9)),
        c!(am_request(it, 0, ECHO, nowhere.cast(), usize::MAX)),
        c!(am_request_medium(it, 0, ECHO, words, 0, nowhere, 8193)),
        c!(am_request_bulk(
            it,
            0,
            ECHO,
            words,
            0,
            0,
            nowhere,
            usize::MAX
        )),
        c!(am_map(it, 1 << 20, &raw const name, 0)),
        c!(am_map(it, usize::MAX, &raw const name, 0)),
        c!(am_segment_read(it, 4096, nowhere.cast_mut(), 1)),
        c!(am_segment_read(it, usize::MAX, nowhere.cast_mut(), 2)),
        c!(am_segment_write(it, 1, nowhere, usize::MAX)),
        c!(am_name_to_text(&raw const name, text.as_mut_ptr(), 64)),
        c!(am_wait(it, 0, 0, null_mut())),
        c!(am_wait(it, 8, 0, null_mut())),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(code, Code::Limit, "call {call}: {}", detail());
    }
    for index in [1, 1 << 20, usize::MAX] {
        fails(here.request(index, ECHO, &[]), Code::NotMapped, ());
        fails(c!(am_unmap(it, index)), Code::NotMapped, ());
    }
    fails(c!(am_wait(it, 5, 1000, null_mut())), Code::TimedOut, ());
    let huge = EndpointOptions {
        segment_bytes: usize::MAX,
        ..OPTIONS
    };
    let (table, mut endpoint) = (table(), null_mut());
    let code = c!(am_allocate(
        stations[0],
        &raw const table,
        &raw const huge,
        &raw mut endpoint
    ));
    fails(code, Code::Resource, ());
    // At the limits all is well.
    assert_eq!(c!(am_map(it, (1 << 20) - 1, &raw const name, 0)), Code::Ok);
    assert_eq!(c!(am_segment_read(it, 4096, null_mut(), 0)), Code::Ok);
    assert_eq!(c!(am_unmap(it, 0)), Code::Ok);
    close(stations, &[&here, &there]);
}

#[test]
fn names_and_keys_are_read_back() {
    let (stations, here, there) = pair();
    let (name, mut key, mut text) = (there.name(), 0, [1; 65]);
    assert_eq!(c!(am_get_key(there.endpoint, &raw mut key)), Code::Ok);
    assert_eq!(key, KEY);
    let code = c!(am_name_to_text(&raw const name, text.as_mut_ptr(), 65));
    assert_eq!((code, text[64]), (Code::Ok, 0));
    let mut read = NameBytes { bytes: [0; 32] };
    assert_eq!(
        c!(am_name_from_text(text.as_ptr(), &raw mut read)),
        Code::Ok
    );
    assert_eq!(read, name);
    let digits = "0".repeat(64);
    for wrong in [
        "",
        "12",
        &format!("{digits}\n"),
        &digits.replacen('0', "g", 1),
        &"\u{e9}".repeat(32),
    ] {
        let wrong = CString::new(wrong).unwrap();
        fails(
            c!(am_name_from_text(wrong.as_ptr(), &raw mut read)),
            Code::Name,
            (),
        );
    }
    assert_eq!(read, name, "a refusal writes nothing");
    let zero = NameBytes { bytes: [0; 32] };
    fails(
        c!(am_map(here.endpoint, 0, &raw const zero, 0)),
        Code::Name,
        (),
    );
    close(stations, &[&here, &there]);
}

#[test]
fn handles_of_the_dead_and_of_others_are_refused() {
    let (stations, here, there) = pair();
    let gone = End::new(stations[0], OPTIONS);
    assert_eq!(c!(am_free(gone.endpoint)), Code::Ok);
    let mut bundle = null_mut();
    assert_eq!(c!(am_bundle_create(stations[0], &raw mut bundle)), Code::Ok);
    let variable = 0_u64;
    let others: [*mut Endpoint; 5] = [
        gone.endpoint,
        stations[0].cast(),
        bundle.cast(),
        (&raw const variable).cast_mut().cast(),
        std::ptr::without_provenance_mut(usize::MAX),
    ];
    for other in others {
        fails(c!(am_poll(other, null_mut())), Code::Handle, ());
        fails(c!(am_request(other, 0, ECHO, null(), 0)), Code::Handle, ());
        fails(c!(am_free(other)), Code::Handle, ());
        fails(c!(am_bundle_insert(bundle, other)), Code::Handle, ());
        fails(c!(am_bundle_remove(bundle, other)), Code::Handle, ());
        if other != stations[0].cast() {
            fails(c!(am_close(other.cast())), Code::Handle, ());
        }
        if other != bundle.cast() {
            fails(c!(am_bundle_free(other.cast())), Code::Handle, ());
        }
    }
    assert_eq!(c!(am_bundle_free(bundle)), Code::Ok);
    fails(c!(am_bundle_poll(bundle, 1, null_mut())), Code::Handle, ());
    // The others are as they were.
    assert_eq!(here.request(0, ECHO, &[]), Code::Ok);
    here.settle(&there);
    close(stations, &[&here, &there]);
    fails(c!(am_close(stations[0])), Code::Handle, ());
}

#[test]
fn a_station_with_endpoints_or_bundles_stays_open() {
    let station = open();
    let end = End::new(station, OPTIONS);
    let mut bundle = null_mut();
    fails(c!(am_close(station)), Code::State, ());
    assert_eq!(c!(am_bundle_create(station, &raw mut bundle)), Code::Ok);
    assert_eq!(c!(am_free(end.endpoint)), Code::Ok);
    fails(c!(am_close(station)), Code::State, ());
    assert_eq!(c!(am_bundle_free(bundle)), Code::Ok);
    assert_eq!(c!(am_flush(station, FOREVER)), Code::Ok);
    assert_eq!(c!(am_close(station)), Code::Ok);
}

#[test]
fn a_bundle_polls_its_members_and_lets_them_go() {
    let (stations, here, there) = pair();
    let more: Vec<End> = (0..20).map(|_| End::new(stations[1], OPTIONS)).collect();
    let mut bundle = null_mut();
    assert_eq!(c!(am_bundle_create(stations[1], &raw mut bundle)), Code::Ok);
    for (end, index) in more.iter().zip(1..) {
        assert_eq!(c!(am_bundle_insert(bundle, end.endpoint)), Code::Ok);
        here.map(index, end, KEY);
        assert_eq!(here.request(index, ECHO, &[index as u64]), Code::Ok);
    }
    let shared = End::new(
        stations[1],
        EndpointOptions {
            is_shared: 1,
            ..OPTIONS
        },
    );
    fails(
        c!(am_bundle_insert(bundle, shared.endpoint)),
        Code::State,
        (),
    );
    fails(c!(am_bundle_insert(bundle, here.endpoint)), Code::State, ());
    fails(
        c!(am_bundle_insert(bundle, more[0].endpoint)),
        Code::State,
        (),
    );
    fails(
        c!(am_bundle_remove(bundle, there.endpoint)),
        Code::State,
        (),
    );
    fails(c!(am_free(more[0].endpoint)), Code::State, ());
    let mut all = 0;
    while all < 20 {
        assert_eq!(c!(am_bundle_wait(bundle, FOREVER)), Code::Ok);
        let mut handled = 0;
        assert_eq!(c!(am_bundle_poll(bundle, 3, &raw mut handled)), Code::Ok);
        assert!(handled <= 3);
        all += handled;
    }
    here.settle(&there);
    let mut answers: Vec<u64> = here
        .seen
        .answers
        .take()
        .iter()
        .map(|each| each.0[0])
        .collect();
    answers.sort_unstable();
    assert_eq!(answers, (1..=20).collect::<Vec<_>>());
    fails(c!(am_bundle_wait(bundle, 100)), Code::TimedOut, ());

    // A member is used by its own handle, in the bundle and after it.
    for code in [Code::Ok, Code::Ok] {
        assert_eq!(here.request(1, ECHO, &[]), code);
        here.settle(&more[0]);
        let _ = c!(am_bundle_remove(bundle, more[0].endpoint));
    }
    fails(
        c!(am_bundle_remove(bundle, more[0].endpoint)),
        Code::State,
        (),
    );
    assert_eq!(c!(am_bundle_free(bundle)), Code::Ok);
    assert_eq!(here.request(5, ECHO, &[]), Code::Ok);
    here.settle(&more[4]);
    let ends: Vec<&End> = more.iter().chain([&here, &there, &shared]).collect();
    close(stations, &ends);
}

#[test]
fn an_exclusive_endpoint_refuses_a_second_thread() {
    let (stations, here, there) = pair();
    there.map(0, &here, KEY);
    let it = here.endpoint.addr();
    let waiting = std::thread::spawn(move || {
        let it: *mut Endpoint = std::ptr::without_provenance_mut(it);
        // The other thread may be the one that is inside at first.
        loop {
            match c!(am_wait(it, 1, FOREVER, null_mut())) {
                Code::Busy => std::thread::yield_now(),
                code => return code,
            }
        }
    });
    // Refused as soon as the other thread is inside, and nothing is harmed before.
    while c!(am_poll(here.endpoint, null_mut())) != Code::Busy {
        std::thread::yield_now();
    }
    fails(c!(am_free(here.endpoint)), Code::Busy, ());
    assert_eq!(there.request(0, ECHO, &[]), Code::Ok);
    // Whoever sleeps there wakes, and acknowledges with a later call only.
    while !waiting.is_finished() {
        let code = c!(am_flush(stations[1], 1000));
        assert!(matches!(code, Code::Ok | Code::TimedOut));
    }
    assert_eq!(waiting.join().unwrap(), Code::Ok);
    there.settle(&here);
    close(stations, &[&here, &there]);
}

#[test]
fn texts_are_there_for_any_number() {
    let text = |pointer| {
        // SAFETY: texts end with NUL and stay.
        unsafe { CStr::from_ptr(pointer) }
            .to_str()
            .unwrap()
            .to_owned()
    };
    let mut codes: Vec<String> = (0..17).map(|code| text(am_error_text(code))).collect();
    codes.dedup();
    assert_eq!(codes.len(), 17);
    assert_eq!(text(am_error_text(17)), "not an am_error");
    assert_eq!(text(am_error_text(u32::MAX)), "not an am_error");
    assert_eq!(text(am_reason_text(1)), "wrong key");
    for none in [0, 10, 256, 257, u32::MAX] {
        assert_eq!(text(am_reason_text(none)), "not an am_reason");
    }
}
