//! Peers that do not keep the rules: they connect like a station and then lie.
//!
//! The liar is the test: it writes messages byte by byte, with a VI of its own. The victim has an
//! honest peer at the same time, with which everything has to go on, once and in both directions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{ANSWER, Draws, ECHO, KEY, MIRROR, SILENT};
use viaduct_am::{Body, Endpoint, EventMask, Handlers, Key, Name, Phase, Reason};
use viaduct_core::Address;
use viaduct_provider::{Buffer, Fabric, Memory, Nic, Provider, ReturnCode, Vi};
use viaduct_shm::Shm;
use viaduct_threads::InProcess;
use viaduct_vi_carrier::{Identity, Options, Station};

const LIMIT: Option<Duration> = Some(Duration::from_secs(5));
/// Words of the liar's requests begin here; those of honest ones are below.
const LIES: u64 = 1 << 40;
/// Of an endpoint that nobody has told the liar of.
const SECRET: Key = Key(0xdead_beef_0bad_cafe);
const HEADER_BYTES: usize = 32;
const MESSAGE_BYTES_MAX: usize = HEADER_BYTES + 8 * 8 + 8 + 8192;
const DEPTH: u32 = 128;

const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const BACK: u8 = 3;
const READY: u8 = 4;
const ACKNOWLEDGEMENT: u8 = 5;
const BUSY: u8 = 255;

/// What handlers saw, of messages with or without words.
#[derive(Default)]
struct Seen {
    requests: Vec<u64>,
    replies: Vec<u64>,
    returned: Vec<(u64, Reason)>,
}

type End<P> = Endpoint<Station<P>, Seen>;

fn first(words: &[u64]) -> u64 {
    words.first().copied().unwrap_or(LIES)
}

fn handlers<P: Provider>() -> Arc<Handlers<Station<P>, Seen>> {
    let handlers = Handlers::new(|seen: &mut Seen, returned| {
        // A reply that came back has ended no request.
        if returned.phase == Phase::Request {
            seen.returned.push((first(returned.words), returned.reason));
        }
    });
    let handlers = handlers
        .on_request(ECHO, |seen: &mut Seen, request| {
            seen.requests.push(first(request.words()));
            let words: Vec<u64> = request.words().to_vec();
            request.reply(ANSWER, &words).unwrap();
        })
        .on_request(MIRROR, |seen, request| {
            seen.requests.push(first(request.words()));
            let words: Vec<u64> = request.words().to_vec();
            request.echo(ANSWER, &words).unwrap();
        })
        .on_request(SILENT, |seen, request| {
            seen.requests.push(first(request.words()));
        })
        .on_reply(ANSWER, |seen, reply| {
            seen.replies.push(first(reply.words()))
        });
    Arc::new(handlers)
}

fn endpoint<P: Provider>(station: &Station<P>, key: Key) -> End<P> {
    let options = viaduct_am::Options {
        segment_bytes: 16 * 1024,
        ..viaduct_am::Options::new(key)
    };
    Endpoint::new(station, &handlers(), Seen::default(), options).unwrap()
}

/// A message's first bytes; acknowledged, target, source, tag, generation are 4 bytes each.
#[derive(Clone, Copy, Default)]
struct Lie {
    kind: u8,
    handler: u8,
    shape: u8,
    detail: u8,
    acknowledged: u32,
    target: u32,
    source: u32,
    tag: u32,
    generation: u32,
    key: u64,
}

impl Lie {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.kind, self.handler, self.shape, self.detail];
        for word in [
            self.acknowledged,
            self.target,
            self.source,
            self.tag,
            self.generation,
        ] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.key.to_le_bytes());
        bytes
    }

    /// A request with one word to an endpoint's first life.
    fn request(handler: u8, target: u32, tag: u32, word: u64) -> Vec<u8> {
        let header = Self {
            kind: REQUEST,
            handler,
            shape: 1,
            target,
            tag,
            generation: 1,
            key: KEY.0,
            ..Self::default()
        };
        [header.bytes(), word.to_le_bytes().to_vec()].concat()
    }
}

/// A connection of somebody who says what he likes.
struct Liar<P: Provider> {
    vi: Vi<P>,
    nic: Nic<P>,
    spare: Vec<Buffer>,
    in_flight: u32,
    /// Counted messages that came.
    counted: u32,
    received: Vec<Vec<u8>>,
    takes: bool,
}

impl<P: Provider> Liar<P> {
    /// Connects as the station of `number` would to that of `victim`.
    fn connect(fabric: &Fabric<P>, device: &str, number: u128, victim: u128) -> Self {
        let nic = Nic::open(fabric.clone(), device).unwrap();
        nic.set_error_handler(Some(Arc::new(|_| {}))).unwrap();
        let address = |number: u128| {
            let discriminator = [b"am1.".as_slice(), &number.to_be_bytes()].concat();
            Address::new(nic.host(), &discriminator)
        };
        let bytes = MESSAGE_BYTES_MAX;
        loop {
            let vi = nic.vi().max_transfer_bytes(bytes as u32);
            let mut vi = vi.send_depth(DEPTH).receive_depth(DEPTH).build().unwrap();
            for buffer in nic.buffers(DEPTH as usize, bytes, Memory::Private).unwrap() {
                vi.post_receive(buffer).unwrap();
            }
            let handle = vi.handle();
            let asked = fabric.connect_request(handle, &address(number), &address(victim), LIMIT);
            match asked {
                Ok(_) => {
                    let spare = nic.buffers(DEPTH as usize, bytes, Memory::Private).unwrap();
                    return Self {
                        vi,
                        nic,
                        spare,
                        in_flight: 0,
                        counted: 0,
                        received: Vec::new(),
                        takes: true,
                    };
                }
                Err(error) => {
                    let code = error.code();
                    assert!(
                        matches!(code, ReturnCode::NoMatch | ReturnCode::Reject),
                        "{error}"
                    );
                    std::thread::yield_now();
                }
            }
        }
    }

    /// Whether the connection still takes it.
    fn send(&mut self, bytes: &[u8]) -> bool {
        self.look();
        let Some(mut buffer) = self.spare.pop() else {
            return false;
        };
        buffer[..bytes.len()].copy_from_slice(bytes);
        match self.vi.post_send(buffer, bytes.len()) {
            Ok(()) => {
                self.in_flight += 1;
                true
            }
            Err(_) => false,
        }
    }

    /// The tag of the request that came last.
    fn tag_last(&self) -> Option<u32> {
        let request = self.received.iter().rev().find(|each| each[0] == REQUEST)?;
        Some(u32::from_le_bytes(request[16..20].try_into().ok()?))
    }

    fn look(&mut self) {
        while let Ok(Some(sent)) = self.vi.try_sent() {
            self.spare.push(sent.buffer);
        }
        while self.takes
            && let Ok(Some(received)) = self.vi.try_receive()
        {
            let bytes = received.data().to_vec();
            self.counted += u32::from((1..=4).contains(&bytes[0]));
            self.received.push(bytes);
            let _ = self.vi.post_receive(received.buffer);
        }
    }
}

/// Liars take all places that a station has for connections, and never agree to give one back.
#[test]
fn who_never_agrees_to_rest_loses_its_connection_to_others() {
    const BASE: u128 = 0xa0_0000;

    let fabric = Fabric::from(Arc::new(InProcess::new()));
    let open = |number: u128| {
        let options = Options {
            frames: 1,
            ..Options::default()
        };
        Station::start(
            fabric.clone(),
            "inproc0",
            Identity::new(BASE + number),
            options,
        )
        .unwrap()
    };
    let (here, there) = (open(1), open(2));
    let (mut victim, mut honest) = (endpoint(&here, KEY), endpoint(&there, KEY));
    let liars: Vec<_> = (100..102)
        .map(|number| Liar::connect(&fabric, "inproc0", BASE + number, BASE + 1))
        .collect();
    honest.map(0, &victim.name(), KEY).unwrap();
    honest.request(0, ECHO, &[1]).unwrap();
    // Half a minute of patience, where five seconds are taken.
    for _ in 0..1500 {
        victim.poll();
        let _ = honest.wait(EventMask::ALL, Some(Duration::from_millis(10)));
        honest.poll();
        if honest.outstanding() == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(honest.state().replies, [1]);
    assert!(here.statistics().connections <= 2);
    assert_eq!(here.statistics().connections_lost, 1);
    drop(liars);
}

/// What a peer could say, and every fourth time something else.
fn draw_lie(draws: &mut Draws, acknowledged: u32, asked: Option<u32>, word: u64) -> Vec<u8> {
    let mut header = Lie {
        kind: REQUEST,
        handler: 1 + draws.next(3) as u8,
        shape: 1,
        acknowledged,
        tag: draws.next(40) as u32,
        generation: 1,
        key: KEY.0,
        ..Lie::default()
    };
    let mut rest = word.to_le_bytes().to_vec();
    match draws.next(8) {
        // An answer to something that was asked, perhaps; its word is not of a request.
        0 => {
            header.kind = REPLY;
            header.tag = asked.unwrap_or(header.tag);
        }
        1 => {
            header.kind = BACK;
            header.tag = asked.unwrap_or(header.tag);
            header.detail = 1 + draws.next(8) as u8;
        }
        2 => {
            header.kind = READY;
            (header.shape, rest) = (0, Vec::new());
        }
        3 => {
            header.kind = ACKNOWLEDGEMENT;
            header.shape = 0;
            rest = (0..32)
                .map(|_| [0, BUSY, 1, 4][draws.next(4) as usize])
                .collect();
        }
        4 => {
            // A bulk message, whose offset and length may be past the segment's end.
            header.shape = 1 | 2 << 4;
            rest.extend(draws.next(20_000).to_le_bytes());
            rest.extend(vec![7; draws.next(8193) as usize]);
        }
        _ => {}
    }
    match draws.next(12) {
        0 => header.key = draws.next(u64::MAX),
        1 => header.target = [1, 2, 1000, u32::MAX][draws.next(4) as usize],
        2 => header.generation = [0, 2, u32::MAX][draws.next(3) as usize],
        _ => {}
    }
    let mut bytes = [header.bytes(), rest].concat();
    match draws.next(24) {
        0 => {
            // The word says whose message it is.
            let place = draws.next(HEADER_BYTES as u64) as usize;
            bytes[place] = draws.next(256) as u8;
        }
        1 => bytes.truncate(draws.next(bytes.len() as u64 + 1) as usize),
        2 => {
            let length = draws.next(200);
            bytes = (0..length).map(|_| draws.next(256) as u8).collect();
        }
        _ => {}
    }
    bytes
}

/// Lies to a station for so many connections, while it works with an honest one.
fn lie<P: Provider>(fabric: impl Into<Fabric<P>>, device: &str, base: u128, lives: u64) {
    let fabric = fabric.into();
    let open = |number: u128| {
        let identity = Identity::new(base + number);
        Station::start(fabric.clone(), device, identity, Options::default()).unwrap()
    };
    let (here, there) = (open(1), open(2));
    // The liar knows the first, and guesses the number of the second.
    let (mut victim, mut secret) = (endpoint(&here, KEY), endpoint(&here, SECRET));
    let mut honest = endpoint(&there, KEY);
    victim.map(0, &honest.name(), KEY).unwrap();
    honest.map(0, &victim.name(), KEY).unwrap();
    honest.map(1, &secret.name(), SECRET).unwrap();

    let mut draws = Draws(base as u64);
    let (mut sent, mut word, mut deceived) = (0, LIES, 0);
    for life in 0..lives {
        // Some come back under the name that they had.
        let number = base + 100 + u128::from(draws.next(1 + life / 2));
        let mut liar = Liar::connect(&fabric, device, number, base + 1);
        liar.takes = draws.next(4) > 0;
        let name = name_of(&victim.name(), number, draws.next(3) as u8);
        victim.map(1, &name, KEY).unwrap();
        let is_deaf = draws.next(3) == 0;
        for _ in 0..draws.next(120) {
            if draws.next(3) == 0 && victim.credits() > 8 {
                let asked = victim.try_request(1, ECHO, &[LIES], Body::Medium(&[9; 100]));
                deceived += u64::from(asked.is_ok());
            }
            word += 1;
            let counted = if is_deaf { 0 } else { liar.counted };
            let lie = draw_lie(&mut draws, counted, liar.tag_last(), word);
            let is_over = !liar.send(&lie);
            for end in [&mut victim, &mut honest] {
                if end.credits() > 16 {
                    end.try_request(0, MIRROR, &[sent], Body::Short).unwrap();
                }
            }
            if honest.credits() > 0 {
                honest.try_request(1, ECHO, &[sent], Body::Short).unwrap();
            }
            sent += 1;
            for end in [&mut victim, &mut honest, &mut secret] {
                end.poll();
            }
            if is_over {
                break;
            }
        }
        drop(liar);
    }
    for _ in 0..3_000_000 {
        for end in [&mut victim, &mut honest, &mut secret] {
            end.poll();
        }
        if victim.outstanding() == 0 && honest.outstanding() == 0 {
            break;
        }
        std::thread::yield_now();
    }
    // Each request has ended, those to the liar too, and once.
    assert_eq!((victim.outstanding(), honest.outstanding()), (0, 0));
    assert_eq!(honest.state().returned, []);
    let is_honest = |word: &&u64| **word < LIES;
    let ended = |seen: &Seen| {
        let lies = seen.replies.iter().filter(|word| **word >= LIES).count();
        lies + seen.returned.len()
    };
    // A reply without a handler ends a request unseen; to end one twice is a debug assertion.
    let ended = ended(victim.state()) as u64;
    assert!(
        (deceived / 2..=deceived).contains(&ended),
        "{ended} of {deceived}"
    );
    // What the honest ones said to each other came, once and in order.
    let of_honest = |words: &[u64]| words.iter().filter(is_honest).copied().collect::<Vec<_>>();
    for (asker, served) in [(&victim, vec![&honest]), (&honest, vec![&victim, &secret])] {
        let mut replies = of_honest(&asker.state().replies);
        let mut requests: Vec<u64> = served
            .iter()
            .flat_map(|end| of_honest(&end.state().requests))
            .collect();
        replies.sort_unstable();
        requests.sort_unstable();
        assert!(!requests.is_empty());
        assert_eq!(replies, requests);
    }
    // What was not for the honest one did not reach it, nor the one with a key of its own.
    for untouched in [&honest, &secret] {
        assert!(untouched.state().requests.iter().all(|word| *word < LIES));
    }
    let mut once = BTreeSet::new();
    let lies = victim.state().requests.iter().filter(|word| **word > LIES);
    lies.for_each(|word| assert!(once.insert(*word), "{word} was delivered twice"));
    assert!(!once.is_empty(), "some of what the liar says is true");
    assert!(here.statistics().connections_lost > lives / 4);
    assert_eq!(there.statistics().connections_lost, 0);
}

/// A name as `like`, of the station of `number` and its endpoint `index`.
fn name_of(like: &Name, number: u128, index: u8) -> Name {
    let mut bytes = like.to_bytes();
    bytes[8..24].copy_from_slice(&number.to_be_bytes());
    bytes[24] = index;
    Name::from_bytes(bytes)
}

#[test]
fn a_peer_that_lies_harms_its_own_connection_alone() {
    lie(Arc::new(InProcess::new()), "inproc0", 1 << 80, 16);
}

#[test]
fn a_peer_that_lies_over_shared_memory_harms_its_own_connection_alone() {
    // Others on this machine may run the same test.
    let base = u128::from(std::process::id()) << 64;
    lie(Shm::global(), "shm", base, 8);
}

/// Who takes no reply and asks on is put off, so that replies do not fill the memory; once it
/// takes them, it is told to go on.
#[test]
fn a_peer_that_acknowledges_nothing_is_put_off() {
    const ASKED: u32 = 5000;

    let fabric = Fabric::from(Arc::new(InProcess::new()));
    let station = |number| {
        let identity = Identity::new(number);
        Station::start(fabric.clone(), "inproc0", identity, Options::default()).unwrap()
    };
    let (here, there) = (station(1), station(2));
    let (mut victim, mut honest) = (endpoint(&here, KEY), endpoint(&there, KEY));
    honest.map(0, &victim.name(), KEY).unwrap();
    let mut liar = Liar::connect(&fabric, "inproc0", 3, 1);
    for tag in 0..ASKED {
        assert!(liar.send(&Lie::request(1, 0, tag, LIES + u64::from(tag))));
        victim.poll();
    }
    (0..1000).for_each(|_| _ = victim.poll());
    let taken_in = victim.state().requests.len();
    assert!((1024..1100).contains(&taken_in), "{taken_in}");
    assert!(here.statistics().found_full >= u64::from(ASKED) - 1100);
    // Nobody else is.
    honest.request(0, ECHO, &[1]).unwrap();
    for _ in 0..100_000 {
        victim.poll();
        honest.poll();
    }
    assert_eq!(honest.state().replies, [1]);

    // It begins to listen: all replies come, and the word that there is room.
    let mut acknowledged = 0;
    for _ in 0..100_000 {
        liar.look();
        if liar.counted != acknowledged {
            acknowledged = liar.counted;
            let header = Lie {
                kind: ACKNOWLEDGEMENT,
                acknowledged,
                ..Lie::default()
            };
            assert!(liar.send(&header.bytes()));
        }
        victim.poll();
    }
    let of_kind = |kind| liar.received.iter().filter(|each| each[0] == kind).count();
    assert_eq!(of_kind(REPLY), taken_in);
    assert_eq!(of_kind(READY), 1);
    assert!(liar.send(&Lie::request(1, 0, ASKED, LIES)));
    (0..1000).for_each(|_| _ = victim.poll());
    assert_eq!(victim.state().requests.len(), taken_in + 1);
    drop(liar.nic);
}

/// Verdicts and replies that contradict one another end a request once.
#[test]
fn a_request_that_is_refused_and_answered_ends_once() {
    let fabric = Fabric::from(Arc::new(InProcess::new()));
    let identity = Identity::new(1);
    let here = Station::start(fabric.clone(), "inproc0", identity, Options::default()).unwrap();
    let mut victim = endpoint(&here, KEY);
    victim.map(0, &name_of(&victim.name(), 3, 0), KEY).unwrap();
    let reply = |tag: u32, acknowledged: u32| {
        let header = Lie {
            kind: REPLY,
            handler: 1,
            tag,
            acknowledged,
            ..Lie::default()
        };
        header.bytes()
    };
    let verdict = |acknowledged: u32, number: u8| {
        let header = Lie {
            kind: ACKNOWLEDGEMENT,
            acknowledged,
            ..Lie::default()
        };
        [header.bytes(), vec![number; 32]].concat()
    };
    let mut liar = Liar::connect(&fabric, "inproc0", 3, 1);
    let wrong_key = 1;
    // Refused, then answered; answered, then refused; answered twice; busy, and then answered.
    let lies = [
        [verdict(1, wrong_key), reply(0, 1)],
        [reply(1, 1), verdict(2, wrong_key)],
        [reply(2, 2), reply(2, 3)],
        [verdict(4, BUSY), reply(3, 4)],
    ];
    for (word, lie) in (0..).zip(lies) {
        victim.request(0, ECHO, &[word]).unwrap();
        (0..10).for_each(|_| _ = victim.poll());
        for bytes in lie {
            assert!(liar.send(&bytes), "{word}");
        }
        (0..1000).for_each(|_| _ = victim.poll());
        assert_eq!(victim.outstanding(), 0, "{word}");
    }
    // Its own first word is not in a reply without words.
    assert_eq!(victim.state().replies.len(), 3);
    assert_eq!(victim.state().returned, [(0, Reason::WrongKey)]);
    assert_eq!(here.statistics().strays, 2);
}

/// Names that lead nowhere and processes that come and go leave nothing behind.
#[test]
fn names_that_nobody_uses_any_more_are_forgotten() {
    let fabric = Fabric::from(Arc::new(InProcess::new()));
    let open = |number| {
        let identity = Identity::new(number);
        Station::start(fabric.clone(), "inproc0", identity, Options::default()).unwrap()
    };
    let (here, there) = (open(1), open(2));
    let (mut one, mut other) = (endpoint(&here, KEY), endpoint(&there, KEY));
    one.map(0, &other.name(), KEY).unwrap();
    for number in 0..50_000 {
        one.map(1, &name_of(&other.name(), 1000 + number, 0), KEY)
            .unwrap();
        let mut index = 2 + number as usize % 7;
        one.map(index, &name_of(&other.name(), number << 70, 0), KEY)
            .unwrap();
        if number % 3 == 0 {
            index += 1;
            one.unmap(index);
        }
        assert!(here.statistics().peers <= 512, "{number}");
    }
    let mut beside = endpoint(&here, KEY);
    for number in 0..400 {
        beside
            .map(
                number,
                &name_of(&other.name(), 7 << 90 | number as u128, 0),
                KEY,
            )
            .unwrap();
    }
    assert!(here.statistics().peers >= 400);
    drop(beside);
    // Clients that come, ask once and go.
    for number in 0..400_u32 {
        let liar_number = 1 << 100 | u128::from(number);
        let mut liar = Liar::connect(&fabric, "inproc0", liar_number, 1);
        assert!(liar.send(&Lie::request(3, 0, 0, LIES + u64::from(number))));
        (0..4).for_each(|_| _ = one.poll());
        drop(liar);
        (0..4).for_each(|_| _ = one.poll());
    }
    assert!(here.statistics().peers <= 1024, "{:?}", here.statistics());
    assert_eq!(one.state().requests.len(), 400);
    // Those that are used still lead where they led.
    one.request(0, ECHO, &[5]).unwrap();
    for _ in 0..1_000_000 {
        one.poll();
        other.poll();
        if one.outstanding() == 0 {
            break;
        }
    }
    assert_eq!(one.state().replies, [5]);
}

/// A program that computes and calls nothing still lets go of its connections: whoever has more
/// peers than frames reaches the others.
#[test]
fn programs_that_compute_do_not_keep_connections_from_others() {
    let fabric = Fabric::from(Arc::new(InProcess::new()));
    let options = Options {
        frames: 1,
        ..Options::default()
    };
    let open = |number| {
        let identity = Identity::new(number);
        Station::start(fabric.clone(), "inproc0", identity, options).unwrap()
    };
    let stations: Vec<_> = (1..=4).map(open).collect();
    let mut ends: Vec<_> = stations.iter().map(|each| endpoint(each, KEY)).collect();
    let mut asker = ends.remove(0);
    for (index, end) in ends.iter().enumerate() {
        asker.map(index, &end.name(), KEY).unwrap();
    }
    // Two that compute, of which each has a connection, and one that answers.
    let mut awake = ends.pop().unwrap();
    asker.request(0, ECHO, &[0]).unwrap();
    asker.request(1, ECHO, &[1]).unwrap();
    asker.request(2, ECHO, &[2]).unwrap();
    for _ in 0..5000 {
        let _ = asker.wait(EventMask::MESSAGE, Some(Duration::from_millis(1)));
        asker.poll();
        awake.poll();
        if !asker.state().replies.is_empty() {
            break;
        }
    }
    assert_eq!(asker.state().replies, [2]);
    // What they were asked stands in their queues, and was not handled meanwhile.
    assert!(ends.iter().all(|end| end.state().requests.is_empty()));
    for _ in 0..100_000 {
        asker.poll();
        ends.iter_mut().for_each(|end| _ = end.poll());
        if asker.outstanding() == 0 {
            break;
        }
    }
    let mut replies = asker.state().replies.clone();
    replies.sort_unstable();
    assert_eq!(replies, [0, 1, 2]);
}
