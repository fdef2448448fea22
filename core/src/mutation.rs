//! Rules that are broken on purpose, so that tests can show that they would notice.
//!
//! Only builds with debug assertions have this module: a release build holds none of it. There a
//! rule's function says what it says; here it asks first whether a test has broken it.
//!
//! [`mutants`] reads the rules from their own source: every public function of [`check`],
//! [`connection`], [`matching`], [`outcome`], [`protection`] and [`transition`], so that a new one
//! is on the list as soon as it is written. Those of [`verbs`](crate::verbs) are called
//! `verbs::check`, `verbs::requester`, ... A mutant is a rule and one way in which it is wrong.
//!
//! [`check`]: crate::check
//! [`connection`]: crate::connection
//! [`matching`]: crate::matching
//! [`outcome`]: crate::outcome
//! [`protection`]: crate::protection
//! [`transition`]: crate::transition

mod verbs;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::connection::RequestPhase;
use crate::memory::MemoryError;
use crate::protection::AccessError;
use crate::via::ConnectFailure;
use crate::via::ErrorCode;
use crate::via::Status;
use crate::via::ViState;
use crate::via::outcome::{CompletesWhen, Outcome};
use crate::via::{ConnectError, ViError};

/// The variable of the environment with which programs of tests are told what to break. Nothing in
/// here reads it.
pub const VARIABLE: &str = "VIADUCT_BROKEN_RULE";

/// The modules whose public functions are rules.
const SOURCES: [(&str, &str); 10] = [
    ("check", include_str!("via/check.rs")),
    ("connection", include_str!("connection.rs")),
    ("matching", include_str!("via/matching.rs")),
    ("outcome", include_str!("via/outcome.rs")),
    ("protection", include_str!("protection.rs")),
    ("transition", include_str!("via/transition.rs")),
    ("verbs::check", include_str!("verbs/check.rs")),
    ("verbs::requester", include_str!("verbs/requester.rs")),
    ("verbs::responder", include_str!("verbs/responder.rs")),
    ("verbs::transition", include_str!("verbs/transition.rs")),
];

/// The fingerprint of the rule that is broken; 0: none is.
static BROKEN: AtomicU64 = AtomicU64::new(0);
/// In which of its ways.
static WAY: AtomicUsize = AtomicUsize::new(0);
/// Whether somebody has asked the broken rule.
static ASKED: AtomicBool = AtomicBool::new(false);

/// A rule, and a way in which it is broken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mutant {
    /// Module and function, and of a rule about transitions which: `transition::next(Ask)`.
    pub rule: String,
    /// What is wrong with what it says.
    pub way: &'static str,
    number: usize,
}

impl fmt::Display for Mutant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.rule, self.way)
    }
}

/// Every rule in each of its ways, in the order of the source.
///
/// # Panics
/// For a rule that says something of a type that nobody has said how to break.
#[must_use]
pub fn mutants() -> Vec<Mutant> {
    let mut all = Vec::new();
    for (module, source) in SOURCES {
        let source = source.split("#[cfg(test)]").next().unwrap_or(source);
        for function in source.split("pub fn ").skip(1) {
            let name = function.split(['(', '<']).next().unwrap_or_default();
            let signature = function.split('{').next().unwrap_or_default();
            let says = signature.rsplit("-> ").next().unwrap_or_default().trim();
            let ways = ways(says).unwrap_or_else(|| {
                panic!("{module}::{name} says {says}: core/src/mutation.rs must break it")
            });
            let parts = match says {
                "Result<ViState, ViError>" => variants(source, "pub enum Transition {"),
                "Option<RequestPhase>" => variants(source, "pub enum RequestStep {"),
                _ => [""].into(),
            };
            for part in parts {
                let part = if part.is_empty() {
                    String::new()
                } else {
                    format!("({part})")
                };
                all.extend(ways.iter().enumerate().map(|(number, way)| Mutant {
                    rule: format!("{module}::{name}{part}"),
                    way,
                    number,
                }));
            }
        }
    }
    all
}

/// Breaks a rule for all threads of this process, by the name that its [`Mutant`] displays. False,
/// and without effect, if there is none of this name.
pub fn break_rule(name: &str) -> bool {
    let found = mutants()
        .into_iter()
        .find(|mutant| mutant.to_string() == name);
    if let Some(mutant) = &found {
        WAY.store(mutant.number, Ordering::Relaxed);
        BROKEN.store(fingerprint([mutant.rule.as_str()]), Ordering::Release);
    }
    found.is_some()
}

/// Whether the rule that is broken was asked in this process.
#[must_use]
pub fn was_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// What the rule at `place`, a path that ends in a function inside the rule's own, says where it
/// should say `right`.
#[inline]
pub(crate) fn ask<T: Breakable>(place: &str, part: impl fmt::Debug, right: T) -> T {
    match BROKEN.load(Ordering::Acquire) {
        0 => right,
        broken => ask_broken(broken, place, &format!("({part:?})"), right),
    }
}

#[cold]
fn ask_broken<T: Breakable>(broken: u64, place: &str, part: &str, right: T) -> T {
    let mut modules = place
        .split("::")
        .skip(1)
        .skip_while(|module| *module == "via");
    let first = modules.next().unwrap_or_default();
    let inner = match first {
        "verbs" => ["::", modules.next().unwrap_or_default()],
        _ => [""; 2],
    };
    let function = place.rsplit("::").nth(1).unwrap_or_default();
    let part = if part == "(())" { "" } else { part };
    let [colons, module] = inner;
    if fingerprint([first, colons, module, "::", function, part]) != broken {
        return right;
    }
    ASKED.store(true, Ordering::Relaxed);
    right.broken(WAY.load(Ordering::Relaxed))
}

/// FNV-1a.
fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    let bytes = parts.into_iter().flat_map(str::bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The names of an enumeration's values.
fn variants<'a>(source: &'a str, head: &str) -> Vec<&'a str> {
    let body = source.split(head).nth(1).unwrap_or_default();
    let body = body.split('}').next().unwrap_or_default();
    let lines = body.lines().map(str::trim);
    let names = lines.filter_map(|line| line.strip_suffix(','));
    names.filter(|name| !name.starts_with('/')).collect()
}

/// Something that a rule says.
pub(crate) trait Breakable: Sized {
    /// What can be wrong with it.
    const WAYS: &'static [&'static str];

    /// The same, wrong in one of these ways.
    fn broken(self, way: usize) -> Self;
}

fn ways(says: &str) -> Option<&'static [&'static str]> {
    Some(match says {
        "bool" => bool::WAYS,
        "u64" => u64::WAYS,
        "Outcome" => Outcome::WAYS,
        "Status" => Status::WAYS,
        "CompletesWhen" => CompletesWhen::WAYS,
        "Result<u64, E>" | "Result<u64, AccessError>" => <Result<u64, AccessError>>::WAYS,
        "Result<(), AccessError>" => <Result<(), AccessError>>::WAYS,
        "Result<(), ConnectError>" => <Result<(), ConnectError>>::WAYS,
        "Result<(), MemoryError>" => <Result<(), MemoryError>>::WAYS,
        "Result<(), ViError>" => <Result<(), ViError>>::WAYS,
        "Result<ViState, ViError>" => <Result<ViState, ViError>>::WAYS,
        "Option<RequestPhase>" => <Option<RequestPhase>>::WAYS,
        "Option<ConnectFailure>" => <Option<ConnectFailure>>::WAYS,
        _ => return verbs::ways(says),
    })
}

impl Breakable for bool {
    const WAYS: &'static [&'static str] = &["true", "false"];

    fn broken(self, way: usize) -> Self {
        way == 0
    }
}

impl Breakable for u64 {
    const WAYS: &'static [&'static str] = &["none", "unlimited"];

    fn broken(self, way: usize) -> Self {
        [0, Self::MAX][way]
    }
}

impl<E> Breakable for Result<u64, E> {
    const WAYS: &'static [&'static str] = &["none", "unlimited", "accepts"];

    fn broken(self, way: usize) -> Self {
        match (way, self) {
            (0 | 1, Ok(number)) => Ok(number.broken(way)),
            (2, Err(_)) => Ok(u64::MAX),
            (_, right) => right,
        }
    }
}

impl Breakable for Status {
    const WAYS: &'static [&'static str] = &["nothing", "other-error"];

    fn broken(self, way: usize) -> Self {
        [Self::PENDING, Self::LENGTH_ERROR][way]
    }
}

impl Breakable for CompletesWhen {
    const WAYS: &'static [&'static str] = &["handed-over", "placed"];

    fn broken(self, way: usize) -> Self {
        [Self::HandedOver, Self::Placed][way]
    }
}

/// Each field by itself.
impl Breakable for Outcome {
    const WAYS: &'static [&'static str] = &["receive", "event", "breaks", "sender"];

    fn broken(mut self, way: usize) -> Self {
        match way {
            0 => {
                self.receive = match self.receive {
                    Some(_) => None,
                    None => Some(Status::LENGTH_ERROR),
                }
            }
            1 => {
                self.event = match self.event {
                    Some(_) => None,
                    None => Some(ErrorCode::RdmaWriteAbort),
                }
            }
            2 => self.breaks = !self.breaks,
            _ => {
                self.sender = if self.sender.is_error() {
                    Status::PENDING
                } else {
                    Status::LENGTH_ERROR
                }
            }
        }
        self
    }
}

/// An error, and another one.
trait Errors: Sized + PartialEq {
    const TWO: [Self; 2];
}

impl Errors for ConnectError {
    const TWO: [Self; 2] = [Self::UnknownVi, Self::UnknownRequest];
}

impl Errors for MemoryError {
    const TWO: [Self; 2] = [Self::InvalidTag, Self::InvalidRdmaRead];
}

impl Errors for ViError {
    const TWO: [Self; 2] = [Self::InvalidTag, Self::InvalidRdmaRead];
}

impl<E: Errors> Breakable for Result<(), E> {
    const WAYS: &'static [&'static str] = &["accepts", "refuses", "other-error"];

    fn broken(self, way: usize) -> Self {
        let [one, other] = E::TWO;
        match (way, self) {
            (0, _) => Ok(()),
            (1, Ok(())) => Err(one),
            (2, Err(error)) => Err(if error == one { other } else { one }),
            (_, right) => right,
        }
    }
}

/// Why an access is refused is told to nobody: every reason completes alike.
impl Breakable for Result<(), AccessError> {
    const WAYS: &'static [&'static str] = &["accepts", "refuses"];

    fn broken(self, way: usize) -> Self {
        [Ok(()), Err(AccessError::UnknownHandle)][way]
    }
}

impl Breakable for Result<ViState, ViError> {
    const WAYS: &'static [&'static str] = &["refuses", "accepts", "elsewhere"];

    fn broken(self, way: usize) -> Self {
        match (way, self) {
            (0, Ok(state)) => Err(ViError::InvalidState { state }),
            (1, Err(ViError::InvalidState { state })) => Ok(state),
            (2, Ok(ViState::Idle)) => Ok(ViState::Error),
            (2, Ok(_)) => Ok(ViState::Idle),
            (_, right) => right,
        }
    }
}

/// A step that there is not is asked for by nobody but a peer that breaks the protocol.
impl Breakable for Option<RequestPhase> {
    const WAYS: &'static [&'static str] = &["refuses", "elsewhere"];

    fn broken(self, way: usize) -> Self {
        match (way, self) {
            (1, Some(RequestPhase::Withdrawn)) => Some(RequestPhase::Connected),
            (1, Some(_)) => Some(RequestPhase::Withdrawn),
            _ => None,
        }
    }
}

impl Breakable for Option<ConnectFailure> {
    const WAYS: &'static [&'static str] = &["nothing", "other-failure"];

    fn broken(self, way: usize) -> Self {
        match (way, self) {
            (1, Some(ConnectFailure::NoMatch)) => Some(ConnectFailure::Rejected),
            (1, Some(_)) => Some(ConnectFailure::NoMatch),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;
    use crate::protection::Region;
    use crate::via::ReliabilityLevel;
    use crate::via::outcome;
    use crate::via::transition::{Transition, next};
    use crate::{MemoryAttributes, ProtectionTag};

    #[test]
    fn every_rule_is_on_the_list_once_in_each_way() {
        let names: Vec<String> = mutants().iter().map(ToString::to_string).collect();
        for name in [
            "check::send_is_well_formed=false",
            "outcome::receive_queue_empty=breaks",
            "outcome::completes_when=placed",
            "protection::covers=true",
            "protection::reach=unlimited",
            "matching::are_peers=true",
            "connection::request_after(LoseServer)=elsewhere",
            "transition::next(Lose)=elsewhere",
            "transition::may_be_changed=true",
            "verbs::check::lets_through=true",
            "verbs::requester::begin=later",
            "verbs::responder::failure=sender",
            "verbs::transition::next=elsewhere",
        ] {
            assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
        }
        let different: BTreeSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
    }

    /// A function that does not ask would make a mutant that nobody can notice.
    #[test]
    fn every_rule_asks_whether_it_is_broken() {
        for (module, source) in SOURCES {
            let source = source.split("#[cfg(test)]").next().unwrap();
            for function in source.split("pub fn ").skip(1) {
                let body = function.split("\n}").next().unwrap();
                let name = function.split(['(', '<']).next().unwrap();
                assert!(body.contains("rule!("), "{module}::{name} has no rule!");
                assert!(
                    !source.contains("pub const fn"),
                    "{module}: a rule is not const"
                );
            }
        }
    }

    // One test: what is broken is broken for the whole process, and tests run side by side. The
    // rules that it breaks are asked by no other test.
    #[test]
    fn a_broken_rule_is_wrong_in_the_way_that_was_asked_for() {
        let level = ReliabilityLevel::Unreliable;
        let right = outcome::message_damaged(level, outcome::Damage::Corrupt);
        assert!(!break_rule("outcome::no_such_rule=event") && !was_asked());
        assert!(break_rule("outcome::message_damaged=event"));
        let wrong = outcome::message_damaged(level, outcome::Damage::Corrupt);
        assert_eq!(right.event, None);
        assert_eq!(wrong.event, Some(ErrorCode::RdmaWriteAbort));
        assert!(was_asked());
        assert!(break_rule("protection::room_from=unlimited"));
        let tag = ProtectionTag::from_bits(1);
        let region = Region {
            address: 8,
            length: 8,
            attributes: MemoryAttributes::local(tag),
        };
        assert_eq!(region.room_from(tag, 8), Ok(u64::MAX));
        assert!(break_rule("transition::next(Fail)=accepts"));
        let idle = ViState::Idle;
        assert_eq!(next(idle, Transition::Fail), Ok(idle));
        assert!(next(idle, Transition::Lose).is_err());
        assert!(break_rule("verbs::check::is_atomic_address=true"));
        assert!(crate::verbs::check::is_atomic_address(4));
        BROKEN.store(0, Ordering::Release);
    }
}
