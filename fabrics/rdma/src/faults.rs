//! Faults on request, carried out in this process. A process without faults calls nothing here.

use std::sync::atomic::{AtomicBool, Ordering};

use viaduct_core::verbs::carrier::Carrier as _;
use viaduct_core::verbs::faults::{Faults, Trial};
use viaduct_core::verbs::requester::{self, Again};
use viaduct_core::verbs::{AsyncEventType, Phase, QueuePairType};

use crate::carrier::now;
use crate::context::AsyncElement;
use crate::counters::live;
use crate::engine::{Engine, Key};
use crate::packet::{ATOMIC, DATAGRAM, MESSAGE, READ};
use crate::ring::Header;
use crate::state::{Pair, Send};

mod text;

pub use text::{FaultError, parse_faults};

/// What the environment names them by.
const VARIABLE: &str = "VIADUCT_RDMA_FAULTS";

/// Whether the port of this process's devices is down.
static IS_PORT_DOWN: AtomicBool = AtomicBool::new(false);

/// Forgets what the parent of a forked child had.
pub(crate) fn begin_child() {
    IS_PORT_DOWN.store(false, Ordering::Relaxed);
}

/// Whether a fault holds the port of this process's devices down.
pub(crate) fn is_port_down() -> bool {
    IS_PORT_DOWN.load(Ordering::Relaxed)
}

/// How often a send was struck.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Struck {
    /// Its number on its queue pair, from 1; 0: it has not come to its turn.
    number: u32,
    /// How often it was lost.
    losses: u32,
}

/// Faults, and what they count.
#[derive(Debug)]
pub(crate) struct Strikes {
    plan: Faults,
    /// Sends of this process that have begun.
    begun: u64,
    /// When the first device was opened.
    opened_at: u64,
}

impl Strikes {
    /// What the environment asks for; none if it asks for nothing.
    pub(crate) fn from_environment() -> Option<Box<Self>> {
        let text = std::env::var(VARIABLE).ok()?;
        let plan = parse_faults(&text)
            .inspect_err(|error| eprintln!("viaduct: {VARIABLE} is ignored: {error}"))
            .ok()?;
        IS_PORT_DOWN.store(plan.is_port_down(0), Ordering::Relaxed);
        (!plan.is_none()).then(|| {
            Box::new(Self {
                plan,
                begun: 0,
                opened_at: now(),
            })
        })
    }
}

impl Engine {
    /// Does to the send that is to be begun what faults ask for. None: it goes on; otherwise
    /// whether the next one may follow.
    #[cold]
    pub(crate) fn strike_send(&mut self, pair: &mut Pair) -> Option<bool> {
        let (strikes, send) = (self.faults.as_mut()?, pair.sends.next_mut()?);
        // It has begun already.
        if send.offset > 0 || send.own.is_placed {
            return None;
        }
        if send.own.struck.number == 0 {
            pair.own.begun_count = pair.own.begun_count.wrapping_add(1).max(1);
            send.own.struck.number = pair.own.begun_count;
            let is_break = strikes.plan.breakage;
            let is_break = is_break.is_some_and(|breakage| breakage.strikes(strikes.begun));
            strikes.begun += 1;
            if is_break {
                live().broken_queue_pairs.add(1);
                let kind = AsyncEventType::QueuePairFatal;
                self.objects.notices.tell_pair(pair, kind);
                self.objects.fail(pair);
                return Some(false);
            }
            if let Some(delay) = strikes.plan.delay_nanoseconds {
                live().delayed.add(1);
                pair.wait_until = now() + delay;
                return Some(false);
            }
        }
        if is_port_down() {
            live().lost.add(1);
            return Some(self.lose(pair));
        }
        // The receiver sees that one is missing, and says so.
        if pair.own.has_gap {
            let is_lost = |phase| matches!(phase, Phase::Sent | Phase::Asked);
            pair.own.has_gap = false;
            let is_first = |send: &Send| is_lost(send.phase) && send.own.end == 0;
            let first = pair.sends.begun().position(is_first);
            if let Some(first) = first {
                self.send_again(pair, first);
                return Some(true);
            }
        }
        let Struck { number, losses } = pair.sends.next()?.own.struck;
        let chance = self.faults.as_ref()?.plan.loss?;
        if !chance.strikes(Trial::Loss, pair.key.index(), number, losses) {
            return None;
        }
        live().lost.add(1);
        pair.sends.next_mut()?.own.struck.losses += 1;
        pair.own.has_gap = pair.options.kind == QueuePairType::Rc;
        Some(self.lose(pair))
    }

    /// Sends again from the lost one on, unless it was lost too often.
    fn send_again(&mut self, pair: &mut Pair, at: usize) {
        let Some(send) = pair.sends.get_mut(at) else {
            return;
        };
        let times = send.own.struck.losses.saturating_sub(1);
        match requester::after_silence(times, pair.attributes.retry_count) {
            Again::After(_) => {
                live().retries.add(1);
                self.objects.rewind(pair, at);
            }
            Again::Fails(status) => {
                pair.sends.end(at, status);
                self.objects.retire(pair);
            }
        }
    }

    /// Whether a packet is lost since the port is down. Answers still come.
    #[cold]
    pub(crate) fn strike_packet(&mut self, pair: &mut Pair, header: &Header) -> bool {
        let is_request = matches!(header.kind, MESSAGE | DATAGRAM | READ | ATOMIC);
        if !is_request || !is_port_down() {
            return false;
        }
        live().lost.add(1);
        // The rest of its message is of no use.
        if let Some(receive) = pair
            .own
            .incoming
            .take()
            .and_then(|incoming| incoming.receive)
        {
            self.objects.give_back(pair, receive);
        }
        true
    }

    /// Whether a receiver that has a receive says that it has none. Only those that have one are
    /// counted: how often a sender comes too early differs from run to run.
    #[cold]
    pub(crate) fn strike_receive(&mut self, pair: &mut Pair) -> bool {
        let chance = self
            .faults
            .as_ref()
            .and_then(|faults| faults.plan.not_ready);
        let Some(chance) = chance.filter(|_| pair.options.kind == QueuePairType::Rc) else {
            return false;
        };
        if !self.objects.has_receive(pair) {
            return false;
        }
        pair.own.heard_count = pair.own.heard_count.wrapping_add(1);
        let strikes = chance.strikes(Trial::NotReady, pair.key.index(), pair.own.heard_count, 0);
        live().not_ready.add(u64::from(strikes));
        strikes
    }

    /// Lets the port go down or come up when it is time for that. Tells in how many nanoseconds it
    /// is time again.
    pub(crate) fn follow_port(&mut self) -> Option<u64> {
        let strikes = self.faults.as_ref()?;
        let time = now() - strikes.opened_at;
        let is_down = strikes.plan.is_port_down(time);
        let next = strikes.plan.next_port_change(time);
        if IS_PORT_DOWN.swap(is_down, Ordering::Relaxed) != is_down {
            let kind = if is_down {
                live().port_downs.add(1);
                AsyncEventType::PortError
            } else {
                AsyncEventType::PortActive
            };
            // Peers write and read this process's memory no longer, or again.
            for (_, pair) in self.objects.pairs.iter() {
                if let Some(pair) = pair {
                    self.objects.notices.carrier.shows_pair(pair);
                }
            }
            let contexts: Vec<Key> = self
                .objects
                .notices
                .contexts
                .iter()
                .map(|(key, _)| key)
                .collect();
            for context in contexts {
                let element = AsyncElement::Port(1);
                self.objects.notices.tell(context, kind, element, None);
            }
        }
        next.map(|next| next - time)
    }
}
