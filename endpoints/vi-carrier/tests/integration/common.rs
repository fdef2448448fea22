//! What the tests of stations share: fabrics, handlers, endpoints.

use std::sync::Arc;

use viaduct_am::{Endpoint, HandlerId, Handlers, Key, Options, Reason};
use viaduct_provider::Provider;
use viaduct_vi_carrier::Station;

pub(crate) const KEY: Key = Key(0x5eed);

/// Replies with the request's words.
pub(crate) const ECHO: HandlerId = HandlerId::of(1);
/// Replies with words and body of the request.
pub(crate) const MIRROR: HandlerId = HandlerId::of(2);
/// Gives the credit back.
pub(crate) const SILENT: HandlerId = HandlerId::of(3);
/// Nobody has it.
pub(crate) const NOBODY: HandlerId = HandlerId::of(60);
/// Of replies.
pub(crate) const ANSWER: HandlerId = HandlerId::of(1);

/// What handlers saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// First words of requests, in order.
    pub(crate) requests: Vec<u64>,
    /// First words of replies, in order.
    pub(crate) replies: Vec<u64>,
    /// First words of what came back, and why.
    pub(crate) returned: Vec<(Option<u64>, Reason)>,
    /// Sums of the bytes of payloads.
    pub(crate) payload_sum: u64,
}

pub(crate) type End<P> = Endpoint<Station<P>, Seen>;

pub(crate) fn handlers<P: Provider>() -> Arc<Handlers<Station<P>, Seen>> {
    let handlers = Handlers::new(|seen: &mut Seen, returned| {
        seen.returned
            .push((returned.words.first().copied(), returned.reason));
        seen.payload_sum += sum(returned.payload);
    });
    let handlers = handlers
        .on_request(ECHO, |seen: &mut Seen, request| {
            seen.requests.push(request.words()[0]);
            seen.payload_sum += sum(request.payload());
            let words: Vec<u64> = request.words().to_vec();
            request.reply(ANSWER, &words).unwrap();
        })
        .on_request(MIRROR, |seen, request| {
            seen.requests.push(request.words()[0]);
            seen.payload_sum += sum(request.payload());
            let words: Vec<u64> = request.words().to_vec();
            request.echo(ANSWER, &words).unwrap();
        })
        .on_request(SILENT, |seen, request| {
            seen.requests.push(request.words()[0]);
        })
        .on_reply(ANSWER, |seen, reply| {
            seen.replies.push(reply.words()[0]);
            seen.payload_sum += sum(reply.payload());
        });
    Arc::new(handlers)
}

pub(crate) fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

pub(crate) fn endpoint<P: Provider>(station: &Station<P>) -> End<P> {
    let options = Options {
        segment_bytes: 16 * 1024,
        ..Options::new(KEY)
    };
    Endpoint::new(station, &handlers(), Seen::default(), options).unwrap()
}

/// Polls both until `is_done`, or for too many looks.
pub(crate) fn poll_until<P: Provider>(
    ends: &mut [&mut End<P>],
    is_done: impl Fn(&[&mut End<P>]) -> bool,
) {
    for _ in 0..3_000_000 {
        if is_done(ends) {
            return;
        }
        for end in ends.iter_mut() {
            end.poll();
        }
        std::thread::yield_now();
    }
    for end in ends {
        eprintln!("{:?}, {} outstanding", end.state(), end.outstanding());
    }
    panic!("it did not come about");
}

/// splitmix64.
pub(crate) struct Draws(pub u64);

impl Draws {
    pub(crate) fn next(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}
