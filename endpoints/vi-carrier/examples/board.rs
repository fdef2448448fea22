//! A board that processes write on: each client adds numbers and pins a note, the server shows
//! both.
//!
//! ```text
//! cargo run -p viaduct-vi-carrier --example board server board.name     in one shell
//! cargo run -p viaduct-vi-carrier --example board client board.name     in another, or in several
//! ```
//!
//! The name of the server's endpoint goes from one to the other in a file; any other means is as
//! good. The server ends after the first client has taken leave.

use std::sync::Arc;
use std::time::Duration;
use std::{env, error::Error, fs, process, thread};

use viaduct_am::{Body, Endpoint, EventMask, HandlerId, Handlers, Key, Options};
use viaduct_shm::Shm;
use viaduct_vi_carrier::{Identity, Station};

const KEY: Key = Key(0xb0a2d);
/// Requests: add a word, pin a note, take leave.
const ADD: HandlerId = HandlerId::of(0);
const PIN: HandlerId = HandlerId::of(1);
const LEAVE: HandlerId = HandlerId::of(2);
/// The reply to all of them: the sum so far.
const SUM: HandlerId = HandlerId::of(0);
/// Where notes are pinned.
const BOARD_BYTES: usize = 4096;

type Outcome = Result<(), Box<dyn Error>>;

/// What the handlers of either side work on.
#[derive(Default)]
struct State {
    sum: u64,
    has_left: bool,
    answers: u32,
    lost: Option<String>,
}

fn handlers() -> Arc<Handlers<Station<Shm>, State>> {
    let handlers = Handlers::new(|state: &mut State, returned| {
        state.lost = Some(returned.reason.to_string());
    });
    let handlers = handlers
        .on_request(ADD, |state, request| {
            state.sum += request.words()[0];
            // One word is not too many.
            let _ = request.reply(SUM, &[state.sum]);
        })
        .on_request(PIN, |state, request| {
            // The note stands in the segment already.
            println!("pinned: {}", String::from_utf8_lossy(request.payload()));
            let _ = request.reply(SUM, &[state.sum]);
        })
        .on_request(LEAVE, |state, request| {
            state.has_left = true;
            let _ = request.reply(SUM, &[state.sum]);
        })
        .on_reply(SUM, |state, reply| {
            state.sum = reply.words()[0];
            state.answers += 1;
        });
    Arc::new(handlers)
}

fn main() -> Outcome {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let station = Station::start(
        Shm::global(),
        "shm",
        Identity::random()?,
        Default::default(),
    )?;
    let options = Options {
        segment_bytes: BOARD_BYTES,
        ..Options::new(KEY)
    };
    let mut endpoint = Endpoint::new(&station, &handlers(), State::default(), options)?;
    match arguments.as_slice() {
        [role, file] if role == "server" => {
            // Complete, or not there.
            let fresh = format!("{file}.new");
            fs::write(&fresh, endpoint.name().to_string())?;
            fs::rename(&fresh, file)?;
            while !endpoint.state().has_left {
                endpoint.wait(EventMask::MESSAGE, None)?;
                endpoint.poll();
            }
            println!("sum: {}", endpoint.state().sum);
        }
        [role, file] if role == "client" => {
            let name = loop {
                match fs::read_to_string(file) {
                    Ok(name) => break name.trim().parse()?,
                    Err(_) => thread::sleep(Duration::from_millis(10)),
                }
            };
            endpoint.map(0, &name, KEY)?;
            for word in 1..=100 {
                endpoint.request(0, ADD, &[word])?;
            }
            let note = format!("process {} was here", process::id());
            let body = Body::Bulk {
                offset: 64,
                bytes: note.as_bytes(),
            };
            endpoint.request_with(0, PIN, &[], body)?;
            endpoint.request(0, LEAVE, &[])?;
            while endpoint.outstanding() > 0 {
                endpoint.wait(EventMask::MESSAGE | EventMask::RETURNED, None)?;
                endpoint.poll();
            }
            if let Some(reason) = &endpoint.state().lost {
                return Err(format!("a request came back: {reason}").into());
            }
            println!(
                "{} answers, sum: {}",
                endpoint.state().answers,
                endpoint.state().sum
            );
        }
        _ => return Err("usage: board server FILE | board client FILE".into()),
    }
    Ok(())
}
