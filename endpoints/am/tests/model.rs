//! Endpoints against an obvious reference: random operations on endpoints over a carrier that keeps
//! everything in two maps, delays, and refuses at random; what handlers saw is compared with what
//! the reference says had to happen.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use viaduct_am::{
    Admission, Arrival, Body, Bundle, Carrier, CarrierError, Content, ContentBody, Endpoint,
    EventMask, Group, HandlerId, Handlers, Key, Message, Name, Options, Phase, Readiness, Reason,
    Refusal, RequestError, Slot, Taken, TimedOut, Watch, Words,
};

/// splitmix64.
struct Draws(u64);

impl Draws {
    fn next(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// The way back of a request: whose, and which of theirs.
#[derive(Debug)]
struct Path {
    sender: u32,
    life: u64,
    context: u32,
}

struct Mailbox {
    life: u64,
    admission: Admission,
    requests: VecDeque<(Path, Content<Vec<u8>>)>,
    answers: VecDeque<Arrival<Vec<u8>, Path>>,
    group: Option<(u32, u32)>,
}

#[derive(Default)]
struct World {
    boxes: BTreeMap<u32, Mailbox>,
    lives: u64,
    /// Offers are refused while it is set.
    is_full: bool,
}

#[derive(Clone, Default)]
struct Maps(Rc<RefCell<World>>);

fn content(message: &Message<'_>) -> Content<Vec<u8>> {
    Content {
        handler: message.handler(),
        words: Words::new(message.words()),
        body: match message.body() {
            Body::Short => ContentBody::Short,
            Body::Medium(bytes) => ContentBody::Medium(bytes.to_vec()),
            Body::Bulk { offset, bytes } => ContentBody::Bulk {
                offset,
                bytes: bytes.to_vec(),
            },
        },
    }
}

impl World {
    fn judge(&self, route: (u32, u64), key: Key, message: &Message<'_>) -> Option<Reason> {
        let Some(target) = self.boxes.get(&route.0) else {
            return Some(Reason::EndpointFreed);
        };
        let end = match message.body() {
            Body::Bulk { offset, bytes } => offset.saturating_add(bytes.len() as u64),
            Body::Short | Body::Medium(_) => 0,
        };
        let admission = &target.admission;
        if target.life != route.1 {
            Some(Reason::EndpointFreed)
        } else if admission.key != key {
            Some(Reason::WrongKey)
        } else if !admission.request_handlers.contains(message.handler()) {
            Some(Reason::NoSuchHandler)
        } else if end > admission.segment_bytes {
            Some(Reason::OutsideSegment)
        } else {
            None
        }
    }
}

impl Carrier for Maps {
    type Payload = Vec<u8>;
    type ReturnPath = Path;
    type Route = (u32, u64);

    fn create(&self, admission: Admission) -> Result<(Slot, Name), CarrierError> {
        let mut world = self.0.borrow_mut();
        world.lives += 1;
        let life = world.lives;
        let free = (0..).find(|slot| !world.boxes.contains_key(slot));
        let slot = free.expect("a number");
        let made = Mailbox {
            life,
            admission,
            requests: VecDeque::new(),
            answers: VecDeque::new(),
            group: None,
        };
        world.boxes.insert(slot, made);
        let mut name = [0; Name::BYTES];
        name[..8].copy_from_slice(&life.to_le_bytes());
        name[8..12].copy_from_slice(&slot.to_le_bytes());
        Ok((Slot(slot), Name::from_bytes(name)))
    }

    fn destroy(&self, slot: Slot) {
        let mut world = self.0.borrow_mut();
        let left = world.boxes.remove(&slot.0).expect("it lives");
        for (path, content) in left.requests {
            let sender = world.boxes.get_mut(&path.sender);
            if let Some(sender) = sender.filter(|sender| sender.life == path.life) {
                sender.answers.push_back(Arrival::Returned {
                    context: path.context,
                    phase: Phase::Request,
                    reason: Reason::EndpointFreed,
                    content: Some(content),
                });
            }
        }
    }

    fn resolve(&self, name: &Name) -> Result<(u32, u64), CarrierError> {
        let bytes = name.to_bytes();
        let life = u64::from_le_bytes(std::array::from_fn(|index| bytes[index]));
        let slot = u32::from_le_bytes(std::array::from_fn(|index| bytes[8 + index]));
        Ok((slot, life))
    }

    fn offer(
        &self,
        slot: Slot,
        route: (u32, u64),
        key: Key,
        context: u32,
        message: &Message<'_>,
    ) -> Result<(), Refusal> {
        let mut world = self.0.borrow_mut();
        let reason = world.judge(route, key, message);
        let has_room =
            |target: &Mailbox| target.requests.len() < target.admission.request_entries as usize;
        let is_full = reason.is_none() && !world.boxes.get(&route.0).is_some_and(has_room);
        if world.is_full || is_full {
            return Err(Refusal::Full);
        }
        let life = world.boxes[&slot.0].life;
        let boxes = &mut world.boxes;
        match reason {
            Some(reason) => {
                let sender = boxes.get_mut(&slot.0).expect("it lives");
                sender.answers.push_back(Arrival::Returned {
                    context,
                    phase: Phase::Request,
                    reason,
                    content: Some(content(message)),
                });
            }
            None => {
                let path = Path {
                    sender: slot.0,
                    life,
                    context,
                };
                let target = boxes.get_mut(&route.0).expect("it was judged");
                target.requests.push_back((path, content(message)));
            }
        }
        Ok(())
    }

    fn reply(&self, _: Slot, path: Path, message: Option<&Message<'_>>) {
        let mut world = self.0.borrow_mut();
        let sender = world.boxes.get_mut(&path.sender);
        if let Some(sender) = sender.filter(|sender| sender.life == path.life) {
            sender.answers.push_back(Arrival::Reply {
                context: path.context,
                content: message.map(content),
            });
        }
    }

    fn take(&self, slot: Slot) -> Option<Taken<Self>> {
        let mut world = self.0.borrow_mut();
        let its = world.boxes.get_mut(&slot.0)?;
        let arrival = match its.answers.pop_front() {
            Some(answer) => answer,
            None => {
                let (path, content) = its.requests.pop_front()?;
                Arrival::Request { path, content }
            }
        };
        Some(Taken {
            member: 0,
            arrival,
            has_more: !(its.answers.is_empty() && its.requests.is_empty()),
        })
    }

    fn look(&self, slot: Slot) -> Readiness {
        let world = self.0.borrow();
        let its = &world.boxes[&slot.0];
        let is_returned = |each: &Arrival<Vec<u8>, Path>| matches!(each, Arrival::Returned { .. });
        Readiness {
            request: !its.requests.is_empty(),
            reply: its.answers.iter().any(|each| !is_returned(each)),
            returned: its.answers.iter().any(is_returned),
            room: !world.is_full,
        }
    }

    fn create_group(&self) -> Group {
        Group(0)
    }

    fn destroy_group(&self, _: Group) {}

    fn join(&self, slot: Slot, group: Group, member: u32) {
        let mut world = self.0.borrow_mut();
        let its = world.boxes.get_mut(&slot.0).expect("it lives");
        its.group = Some((group.0, member));
    }

    fn leave(&self, slot: Slot) {
        if let Some(its) = self.0.borrow_mut().boxes.get_mut(&slot.0) {
            its.group = None;
        }
    }

    fn take_any(&self, group: Group) -> Option<Taken<Self>> {
        let ready = self.0.borrow().boxes.iter().find_map(|(slot, its)| {
            let (_, member) = its.group.filter(|(number, _)| *number == group.0)?;
            let is_empty = its.requests.is_empty() && its.answers.is_empty();
            (!is_empty).then_some((*slot, member))
        });
        let (slot, member) = ready?;
        let taken = self.take(Slot(slot))?;
        Some(Taken {
            member,
            has_more: true,
            ..taken
        })
    }

    fn wait(
        &self,
        watch: Watch,
        is_over: &dyn Fn(Readiness) -> bool,
        _: Option<Duration>,
    ) -> Result<(), TimedOut> {
        let Watch::Endpoint(slot) = watch else {
            return Err(TimedOut);
        };
        is_over(self.look(slot)).then_some(()).ok_or(TimedOut)
    }

    fn poll_wait(
        &self,
        watch: Watch,
        is_over: &dyn Fn(Readiness) -> bool,
        _: &mut Context<'_>,
    ) -> Poll<()> {
        match self.wait(watch, is_over, None) {
            Ok(()) => Poll::Ready(()),
            Err(TimedOut) => Poll::Pending,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    fn relax(&self) {}
}

/// What the handlers of one endpoint saw, in order.
#[derive(Debug, Default, Eq, PartialEq)]
struct Seen {
    requests: Vec<u64>,
    replies: Vec<u64>,
    returned: Vec<(u64, Reason, Option<usize>)>,
}

/// Replies with the word of the request; with none to odd ones if it is silent.
const ECHO: HandlerId = HandlerId::of(1);
const SILENT: HandlerId = HandlerId::of(2);
const ANSWER: HandlerId = HandlerId::of(1);
const NOBODY: HandlerId = HandlerId::of(40);
const SEGMENT_BYTES: usize = 64;

fn handlers() -> Arc<Handlers<Maps, Seen>> {
    let handlers = Handlers::new(|seen: &mut Seen, returned| {
        let word = returned.words[0];
        seen.returned
            .push((word, returned.reason, returned.destination));
    });
    let handlers = handlers
        .on_request(ECHO, |seen: &mut Seen, request| {
            let word = request.words()[0];
            seen.requests.push(word);
            if !request.payload().is_empty() {
                assert_eq!(request.payload(), word.to_le_bytes());
            }
            request.reply(ANSWER, &[word]).expect("one word");
        })
        .on_request(SILENT, |seen, request| {
            seen.requests.push(request.words()[0])
        })
        .on_reply(ANSWER, |seen, reply| seen.replies.push(reply.words()[0]));
    Arc::new(handlers)
}

/// What the reference knows of an endpoint.
#[derive(Default)]
struct Expected {
    /// The key, or none: it is freed.
    key: Option<u64>,
    /// Where its indices lead: which endpoint ever made, and with what key.
    table: BTreeMap<usize, (usize, u64)>,
    credits: u32,
    /// Words of requests that wait here: sender, word, whether it is answered.
    queue: VecDeque<(usize, u64, bool)>,
    /// What waits here for a poll: whether a message, or why it came back and from which index.
    answers: VecDeque<(u64, Answer)>,
    seen: Seen,
}

#[derive(Clone, Copy)]
enum Answer {
    Message,
    Credit,
    Returned(Reason, usize),
}

const CREDITS: u32 = 4;
const ENTRIES: u32 = 6;

fn run(seed: u64) {
    let mut draws = Draws(seed);
    let carrier = Maps::default();
    let handlers = handlers();
    let mut endpoints: Vec<Option<Endpoint<Maps, Seen>>> = Vec::new();
    let mut names = Vec::new();
    let mut expected: Vec<Expected> = Vec::new();
    let mut word = 0;
    for _ in 0..400 {
        match draws.next(20) {
            0 => {
                let key = draws.next(3);
                let options = Options {
                    credits: CREDITS,
                    request_entries: ENTRIES,
                    segment_bytes: SEGMENT_BYTES,
                    ..Options::new(Key(key))
                };
                let made = Endpoint::new(&carrier, &handlers, Seen::default(), options);
                let made = made.expect("there is room");
                names.push(made.name());
                endpoints.push(Some(made));
                expected.push(Expected {
                    key: Some(key),
                    credits: CREDITS,
                    ..Expected::default()
                });
            }
            _ if endpoints.is_empty() => {}
            1 if draws.next(4) == 0 => {
                let freed = draws.next(endpoints.len() as u64) as usize;
                if let Some(endpoint) = endpoints[freed].take() {
                    assert_eq!(endpoint.state(), &expected[freed].seen, "seed {seed}");
                    drop(endpoint);
                    expected[freed].key = None;
                    for (sender, word, _) in std::mem::take(&mut expected[freed].queue) {
                        let index = index_of(word);
                        let back = Answer::Returned(Reason::EndpointFreed, index);
                        expected[sender].answers.push_back((word, back));
                    }
                }
            }
            2..=5 => {
                let from = draws.next(endpoints.len() as u64) as usize;
                let to = draws.next(endpoints.len() as u64) as usize;
                let index = draws.next(4) as usize;
                let key = match draws.next(4) {
                    0 => 99,
                    _ => expected[to].key.unwrap_or(0),
                };
                if let Some(endpoint) = &mut endpoints[from] {
                    endpoint
                        .map(index, &names[to], Key(key))
                        .expect("a name and an index");
                    expected[from].table.insert(index, (to, key));
                }
            }
            6 => carrier.0.borrow_mut().is_full ^= true,
            7..=14 => {
                let from = draws.next(endpoints.len() as u64) as usize;
                let Some(endpoint) = &mut endpoints[from] else {
                    continue;
                };
                let index = draws.next(5) as usize;
                // The index is kept in the word, to tell where it was sent.
                word += 8;
                let word = word + index as u64;
                let bytes = word.to_le_bytes();
                let handler = [ECHO, ECHO, SILENT, NOBODY][draws.next(4) as usize];
                let offset = draws.next(SEGMENT_BYTES as u64 + 1);
                let body = match draws.next(3) {
                    0 => Body::Short,
                    1 => Body::Medium(&bytes),
                    _ => Body::Bulk {
                        offset,
                        bytes: &bytes,
                    },
                };
                let is_outside =
                    matches!(body, Body::Bulk { .. }) && offset + 8 > SEGMENT_BYTES as u64;
                let outcome = endpoint.try_request(index, handler, &[word], body);
                let its = &mut expected[from];
                let Some(&(to, key)) = its.table.get(&index) else {
                    assert_eq!(outcome, Err(RequestError::NotMapped { index }));
                    continue;
                };
                if its.credits == 0 {
                    let credits = CREDITS;
                    assert_eq!(outcome, Err(RequestError::NoCredit { credits }));
                    continue;
                }
                let target = &expected[to];
                let reason = match target.key {
                    None => Some(Reason::EndpointFreed),
                    Some(its) if its != key => Some(Reason::WrongKey),
                    Some(_) if handler == NOBODY => Some(Reason::NoSuchHandler),
                    Some(_) if is_outside => Some(Reason::OutsideSegment),
                    Some(_) => None,
                };
                let is_full = reason.is_none() && target.queue.len() as u32 == ENTRIES;
                if carrier.0.borrow().is_full || is_full {
                    assert_eq!(outcome, Err(RequestError::Full), "seed {seed}");
                    continue;
                }
                assert_eq!(outcome, Ok(()), "seed {seed}");
                expected[from].credits -= 1;
                match reason {
                    Some(reason) => {
                        let back = Answer::Returned(reason, index);
                        expected[from].answers.push_back((word, back));
                    }
                    None => expected[to].queue.push_back((from, word, handler == ECHO)),
                }
            }
            _ => {
                let which = draws.next(endpoints.len() as u64) as usize;
                let Some(endpoint) = &mut endpoints[which] else {
                    continue;
                };
                check_events(seed, endpoint, &expected[which]);
                assert_eq!(endpoint.credits(), expected[which].credits, "seed {seed}");
                let limit = draws.next(8) as usize;
                let handled = endpoint.poll_at_most(limit);
                let has = |its: &Expected| !(its.answers.is_empty() && its.queue.is_empty());
                let mut count = 0;
                while count < limit && has(&expected[which]) {
                    count += 1;
                    if !poll_expected(&mut expected, which) {
                        break;
                    }
                }
                assert_eq!(handled, count, "seed {seed}");
                assert_eq!(endpoint.state(), &expected[which].seen, "seed {seed}");
            }
        }
    }
}

/// Where a word was sent to.
const fn index_of(word: u64) -> usize {
    (word % 8) as usize
}

fn check_events(seed: u64, endpoint: &Endpoint<Maps, Seen>, its: &Expected) {
    let is_returned = |each: &(u64, Answer)| matches!(each.1, Answer::Returned(..));
    let has_message = !its.queue.is_empty() || !its.answers.iter().all(is_returned);
    let has_returned = its.answers.iter().any(is_returned);
    let events = endpoint.events();
    assert_eq!(
        events.intersects(EventMask::MESSAGE),
        has_message,
        "seed {seed}"
    );
    assert_eq!(
        events.intersects(EventMask::RETURNED),
        has_returned,
        "seed {seed}"
    );
    if its.credits == 0 && its.answers.is_empty() {
        assert!(!events.intersects(EventMask::SPACE), "seed {seed}");
    }
}

/// Handles the next; whether more waited when it was taken, without what it led to.
fn poll_expected(expected: &mut [Expected], which: usize) -> bool {
    let has_more = expected[which].answers.len() + expected[which].queue.len() > 1;
    if let Some((word, answer)) = expected[which].answers.pop_front() {
        expected[which].credits += 1;
        let seen = &mut expected[which].seen;
        match answer {
            Answer::Message => seen.replies.push(word),
            Answer::Credit => {}
            Answer::Returned(reason, index) => seen.returned.push((word, reason, Some(index))),
        }
        return has_more;
    }
    let Some((sender, word, is_answered)) = expected[which].queue.pop_front() else {
        return false;
    };
    expected[which].seen.requests.push(word);
    let answer = match is_answered {
        true => Answer::Message,
        false => Answer::Credit,
    };
    if expected[sender].key.is_some() {
        expected[sender].answers.push_back((word, answer));
    }
    has_more
}

/// Each seed is a history of 400 operations; `AM_SEED=N` runs one alone.
#[test]
fn endpoints_do_what_the_reference_says() {
    #[expect(
        clippy::disallowed_methods,
        reason = "a failure is replayed by its seed"
    )]
    let asked = std::env::var("AM_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seeds = match asked {
        Some(seed) => seed..seed + 1,
        None => 0..1500,
    };
    for seed in seeds {
        run(seed);
    }
}

#[test]
fn a_bundle_handles_what_its_members_have() {
    let carrier = Maps::default();
    let handlers = handlers();
    let make = || {
        let made = Endpoint::new(&carrier, &handlers, Seen::default(), Options::new(Key(1)));
        made.expect("there is room")
    };
    let mut sender = make();
    let mut bundle = Bundle::new(&carrier);
    for index in 0..10 {
        let member = make();
        sender.map(index, &member.name(), Key(1)).expect("a name");
        assert_eq!(bundle.insert(member), index);
    }
    for index in [3, 7, 3] {
        sender.request(index, ECHO, &[index as u64]).expect("room");
    }
    let out = bundle.remove(7).expect("a member");
    assert_eq!(bundle.poll(100), 2);
    assert_eq!(bundle.member(3).expect("a member").state().requests, [3, 3]);
    assert_eq!(bundle.insert(out), 7);
    assert_eq!(bundle.poll(100), 1);
    assert_eq!(sender.poll(), 3);
    assert_eq!(sender.credits(), 32);
}

#[test]
fn an_empty_mask_is_no_wait_without_end() {
    let carrier = Maps::default();
    let made = Endpoint::new(&carrier, &handlers(), Seen::default(), Options::new(Key(1)));
    let mut endpoint = made.expect("there is room");
    assert!(endpoint.wait(EventMask::NONE, None).is_err());
    assert_eq!(endpoint.wait(EventMask::ALL, None), Ok(EventMask::SPACE));
}
