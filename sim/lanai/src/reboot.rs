//! Hosts that stop and come back, and what programs do about what returned to them.
//!
//! The key of an endpoint is the number of the boot that made it: a name of an earlier life reaches
//! nobody. Clients learn the present key by other means than messages, whenever something of theirs
//! comes back. A client that has had no reply for [`ENQUIRE_AFTER`] enquires after its server,
//! since a request may have been delivered to one that is gone; what an enquiry that returns says
//! of the endpoint holds for all requests to it. A server drops a reply that returned to it, and
//! remembers which: its answer to an enquiry names the replies that were dropped.

use viaduct_engine::Time;
use viaduct_frames::transport::{Reason, ReturnReason};

use crate::cluster::{Cluster, EndpointState, Entry, Event, Message, node};
use crate::faults::Fault;
use crate::ledger::ENQUIRY;
use crate::load::Links;
use crate::program::Program;

/// Without any reply for so long, a client enquires.
const ENQUIRE_AFTER: Time = Time::from_milliseconds(250);

/// Longer than what was under way inside a host when it stopped takes to be over.
const SETTLE: Time = Time::from_milliseconds(1);

impl<N: Links> Cluster<N> {
    /// Has hosts stop when they are to, and clients enquire.
    pub(crate) fn schedule_faults(&mut self) {
        for (number, fault) in self.config.faults.iter().enumerate() {
            if let Fault::Reboot { at, .. } | Fault::InterfaceDies { at, .. } = *fault {
                self.queue.schedule(at, Event::Stops(number as u32));
            }
        }
    }

    /// A client enquires from time to time.
    pub(crate) fn schedule_enquiry(&mut self, host: u32, now: Time) {
        self.queue
            .schedule(now + ENQUIRE_AFTER, Event::Enquires(host));
    }

    /// A host or its interface stops, as a fault says.
    pub(crate) fn stop(&mut self, fault: u32, now: Time) {
        match self.config.faults.get(fault as usize) {
            Some(Fault::Reboot { .. }) => self.stop_host(fault, now),
            Some(Fault::InterfaceDies { host, .. }) => {
                if let Some(place) = self.place_of(*host) {
                    self.silence(place, now);
                }
            }
            _ => {}
        }
    }

    /// An interface dies. Its host takes what is in its memory, and gets back what it has under
    /// way: the driver finds that nothing answers.
    fn silence(&mut self, host: u32, now: Time) {
        let node = &mut self.nodes[host as usize];
        if node.is_down || core::mem::replace(&mut node.is_mute, true) {
            return;
        }
        node.incoming.clear();
        let mut sent = Vec::new();
        let mut unsent = core::mem::take(&mut node.blocked);
        for endpoint in &mut node.endpoints {
            sent.append(&mut endpoint.outstanding);
            unsent.extend(endpoint.send_queue.drain(..));
        }
        node.full = 0;
        self.cut_off(host, now, Time::MAX);
        for index in sent {
            self.give_back(host, index, true, now);
        }
        for index in unsent {
            self.give_back(host, index, false, now);
        }
        self.schedule_host(host, now);
    }

    /// A message comes back to its program, since its interface is dead.
    #[cold]
    pub(crate) fn give_back(&mut self, host: u32, index: u32, may_have_arrived: bool, now: Time) {
        let message = self.messages[index];
        if may_have_arrived {
            // A copy that is under way has to find what it carries.
            self.in_doubt += 1;
        } else {
            self.messages.free(index);
        }
        let reason = ReturnReason::Unreachable;
        self.message_returned(host, message, reason, may_have_arrived, now);
    }

    /// A host hears and says nothing more until some time, and what waits for it is gone.
    fn cut_off(&mut self, host: u32, now: Time, until: Time) {
        self.links.cut_off(host, now, until);
        let mut arrivals = core::mem::take(&mut self.arrivals);
        self.links.reset(host, now, &mut arrivals);
        self.all_arrive(&mut arrivals);
        self.arrivals = arrivals;
    }

    /// A host stops: all that it and its interface knew is gone.
    fn stop_host(&mut self, fault: u32, now: Time) {
        let Some(Fault::Reboot { host, down_for, .. }) = self.config.faults.get(fault as usize)
        else {
            return;
        };
        // One without endpoints has nothing to lose.
        let Some(host) = self.place_of(*host) else {
            return;
        };
        let down_for = *down_for;
        let index = host as usize;
        if self.nodes[index].is_down {
            // It has not come back from the fault before.
            return;
        }
        let of = (self.nodes[index].number, host);
        let fresh = node(&self.config, of, self.nodes[index].boot + 1);
        let old = core::mem::replace(&mut self.nodes[index], fresh);
        self.past.count(&old);
        let settled = old.busy_until.max(old.host_busy_until).max(old.bus_free_at) + SETTLE;
        // Messages of the past may still be under way: their records stay as they are.
        let queued = |it: &EndpointState| it.outstanding.len() + it.send_queue.len();
        self.in_doubt += old.endpoints.iter().map(queued).sum::<usize>();
        self.in_doubt += old.posting.len() + old.blocked.len();
        let new = &mut self.nodes[index];
        new.is_down = true;
        new.setup = old.setup;
        new.program = match old.program {
            // What it measured stays; the program itself begins anew.
            Program::Client(client) => Program::Client(client),
            _ => Program::Nothing,
        };
        let until = match down_for {
            Some(span) => (now + span).max(settled),
            None => Time::MAX,
        };
        self.cut_off(host, now, until);
        if let Some(ledger) = &mut self.ledger {
            ledger.forget(host);
        }
        if until < Time::MAX {
            self.queue.schedule(until, Event::Boots(host));
        }
    }

    /// A host is there again.
    pub(crate) fn boot_host(&mut self, host: u32, now: Time) {
        let node = &mut self.nodes[host as usize];
        node.is_down = false;
        // A packet may have begun its way while the host was down that leaves memory, and arrives,
        // when it is there again. A wake of before would be one that nobody heard.
        debug_assert!(node.wake_at >= now && !node.has_host_event);
        let Some(setup) = node.setup else { return };
        self.begin_program(host, setup, now);
    }

    /// A client that has had no reply for long asks whether its server lives.
    pub(crate) fn enquire(&mut self, host: u32, now: Time) {
        self.schedule_enquiry(host, now);
        let Some(ledger) = &self.ledger else { return };
        let node = &mut self.nodes[host as usize];
        let Program::Client(client) = &mut node.program else {
            return;
        };
        let is_silent = !core::mem::take(&mut client.has_heard);
        let Some(to_key) = ledger.oldest(host).filter(|_| is_silent && !node.is_down) else {
            return;
        };
        let message = Message {
            entry: Entry {
                from: host,
                from_endpoint: client.endpoint,
                bytes: 16,
                is_reply: false,
                key: node.boot,
                number: ENQUIRY,
                request: 0,
                posted_at: now,
            },
            to: client.server.0,
            to_endpoint: client.server.1,
            to_key,
            name: None,
            place: 0,
        };
        let index = self.messages.add(message);
        self.nodes[host as usize].posting.push_back(index);
        self.schedule_host(host, now);
    }

    /// A message came back to a program, while there are faults.
    pub(crate) fn answer_return(
        &mut self,
        host: u32,
        message: Message,
        reason: ReturnReason,
        may_have_arrived: bool,
        now: Time,
    ) {
        let entry = message.entry;
        if entry.is_reply {
            if let Some(ledger) = &mut self.ledger {
                ledger.drop_reply(message.to, entry.number);
            }
            return;
        }
        let Some(ledger) = &mut self.ledger else {
            return;
        };
        let is_enquiry = entry.number == ENQUIRY;
        let mut ended = 0;
        if !is_enquiry {
            let has_ended = ledger.give_back(host, entry.number, reason, may_have_arrived);
            ended += u32::from(has_ended);
        }
        let is_gone = match reason {
            ReturnReason::Refused(reason) => {
                matches!(reason, Reason::NoSuchEndpoint | Reason::WrongKey)
            }
            ReturnReason::Rebooted => true,
            ReturnReason::Unreachable => is_enquiry,
        };
        if is_gone {
            ended += ledger.give_up(host, message.to_key);
        }
        let key = self.nodes[message.to as usize].boot;
        if let Program::Client(client) = &mut self.nodes[host as usize].program {
            client.credits += ended;
            client.server_key = key;
        }
        self.schedule_host(host, now);
    }
}
