//! The header and the library agree on every size, offset and value.

use std::mem::{offset_of, size_of};
use std::process::Command;

use am::abi::{
    Code, EndpointOptions, FOREVER, HandlerTable, Kind, Message, NAME_TEXT_BYTES, NO_HANDLER,
    NO_INDEX, NameBytes, RequestHandler, Returned, StationOptions, Token,
};
use viaduct_am::{
    CREDITS_DEFAULT, HANDLERS_MAX, MTU_BYTES, Name, REQUEST_QUEUE_ENTRIES, Reason,
    TABLE_ENTRIES_MAX, WORDS_MAX,
};
use viaduct_c_programs::{abi_numbers, compiler, run};

use crate::support::AM;

/// The header's tables, as the C program prints them.
const CONTRACT: &str = include_str!("../c/abi.expected");

#[test]
fn the_header_is_the_contract_in_c() {
    for standard in ["c89", "c99", "c11", "gnu17"] {
        assert_eq!(AM.printed_abi(false, standard), CONTRACT, "-std={standard}");
    }
}

#[test]
fn the_header_is_the_contract_in_cxx() {
    for standard in ["c++98", "c++11", "c++20"] {
        assert_eq!(AM.printed_abi(true, standard), CONTRACT, "-std={standard}");
    }
}

#[test]
fn words_in_place_compile_without_a_warning() {
    let source = AM.scratch().join("words.c");
    let text = "#include <am.h>\n\
        am_error ask(am_endpoint *endpoint)\n\
        {\n\
            return am_request(endpoint, 0, 1, AM_WORDS(40, 2));\n\
        }\n\
        int count(const uint64_t *words, size_t count);\n\
        int count(const uint64_t *words, size_t count)\n\
        {\n\
            return words[1] == 2 ? (int)count : 0;\n\
        }\n\
        int main(void)\n\
        {\n\
            return count(AM_WORDS(1, 2, 3)) == 3 ? 0 : 1;\n\
        }\n";
    std::fs::write(&source, text).unwrap();
    let program = AM.scratch().join("words");
    let mut command = Command::new(compiler(false));
    command.args([
        "-std=c99",
        "-pedantic-errors",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O1",
    ]);
    command.arg("-I").arg(AM.include()).arg(&source);
    command.arg("-L").arg(AM.folder()).arg("-lam");
    run(command.arg("-o").arg(&program));
    run(Command::new(&program).env("LD_LIBRARY_PATH", AM.folder()));
}

macro_rules! fields {
    ($found:ident, $rust:ty, $name:literal: $($field:ident),+) => {
        $found.push((concat!("sizeof ", $name), size_of::<$rust>()));
        $($found.push((
            concat!($name, ".", stringify!($field)),
            offset_of!($rust, $field),
        ));)+
    };
}

#[test]
fn the_library_lays_out_what_the_header_does() {
    let mut found: Vec<(&str, usize)> = vec![
        ("sizeof am_error", size_of::<Code>()),
        ("sizeof am_reason", size_of::<u32>()),
        ("sizeof am_kind", size_of::<Kind>()),
        ("sizeof am_policy", size_of::<u32>()),
        ("sizeof am_key", size_of::<u64>()),
        ("sizeof am_request_handler", size_of::<RequestHandler>()),
    ];
    fields!(found, NameBytes, "am_name": bytes);
    fields!(found, Token, "am_token": bits);
    fields!(found, Message, "am_message": words, word_count, handler, kind, payload, payload_bytes,
        offset, segment, segment_bytes);
    fields!(found, Returned, "am_returned": reason, is_reply, index, handler, words, word_count,
        kind, payload, payload_bytes, offset);
    fields!(found, HandlerTable, "am_handlers": request, reply, undeliverable);
    fields!(found, EndpointOptions, "am_endpoint_options": key, credits, request_entries,
        segment_bytes, context, is_shared);
    fields!(found, StationOptions, "am_station_options": frames, policy);
    let contract = abi_numbers(CONTRACT);
    for (name, value) in &found {
        assert_eq!(contract.get(name), Some(&(*value as u64)), "{name}");
    }
    let laid_out = contract.keys().filter(|name| !name.starts_with("AM_"));
    assert_eq!(laid_out.count(), found.len(), "all of the header's");
}

#[test]
fn the_library_has_the_values_of_the_header() {
    let contract = abi_numbers(CONTRACT);
    let mut found: Vec<(String, u64)> = [
        ("AM_WORDS_MAX", WORDS_MAX as u64),
        ("AM_PAYLOAD_BYTES_MAX", MTU_BYTES as u64),
        ("AM_HANDLERS_MAX", HANDLERS_MAX as u64),
        ("AM_CREDITS_DEFAULT", CREDITS_DEFAULT.into()),
        ("AM_REQUEST_ENTRIES_DEFAULT", REQUEST_QUEUE_ENTRIES.into()),
        ("AM_TABLE_ENTRIES_MAX", TABLE_ENTRIES_MAX as u64),
        (
            "AM_FRAMES_DEFAULT",
            viaduct_vi_carrier::Options::default().frames.into(),
        ),
        ("AM_NAME_BYTES", Name::BYTES as u64),
        ("AM_NAME_TEXT_BYTES", NAME_TEXT_BYTES as u64),
        ("AM_FOREVER", FOREVER),
        ("AM_NO_INDEX", NO_INDEX as u64),
        ("AM_NO_HANDLER", i64::from(NO_HANDLER) as u64),
        ("AM_SHORT", Kind::Short as u64),
        ("AM_MEDIUM", Kind::Medium as u64),
        ("AM_BULK", Kind::Bulk as u64),
        // What `convert` and `stations` read.
        ("AM_EVENT_MESSAGE", 1),
        ("AM_EVENT_SPACE", 2),
        ("AM_EVENT_RETURNED", 4),
        ("AM_EVENT_ALL", 7),
        ("AM_POLICY_CLOCK", 0),
        ("AM_POLICY_RANDOM", 1),
        ("AM_POLICY_LEAST_RECENTLY_USED", 2),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    for (code, number) in Code::ALL.into_iter().zip(0..) {
        assert_eq!(code as u64, number);
        let name = match code {
            Code::Ok => "AM_OK".to_owned(),
            code => format!("AM_ERROR_{}", in_capitals(&format!("{code:?}"))),
        };
        found.push((name, number));
    }
    for reason in Reason::ALL {
        let name = format!("AM_{}", in_capitals(&format!("{reason:?}")));
        found.push((name, reason.number().into()));
    }
    for (name, value) in &found {
        assert_eq!(contract.get(name.as_str()), Some(value), "{name}");
    }
    let values = contract.keys().filter(|name| name.starts_with("AM_"));
    assert_eq!(values.count(), found.len(), "all of the header's");
}

/// `WrongKey` as `WRONG_KEY`.
fn in_capitals(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.extend(letter.to_uppercase());
    }
    words
}
