//! A process takes what has come to it, one message after the other.
//!
//! ```text
//!  a completion is written -> its process waits: it hears of it, which takes notice
//!                         `-> its process does something: it finds it when it looks next, at
//!                             its turn on the processor
//!  taken -> answered, if the process answers -> its receive posted again -> the next look
//! ```
//!
//! What notice costs in either case is said by [`Notice`], for programs too, so that one that does
//! the same has its messages at the same times (`sim/programs/tests/integration/listed.rs`).

use viaduct_engine::Time;
use viaduct_hardware::{Mechanism, Notice, Stage};

use crate::cluster::Cluster;
use crate::config::Arrivals;
use crate::event::Event;
use crate::message::MessageId;
use crate::programs::Programs;
use crate::why::Work;

impl<P: Programs> Cluster<P> {
    /// The completion of a message has been written: its process hears of it now, if it waits, or
    /// finds it when its turn on the processor comes.
    #[inline]
    pub(crate) fn be_heard_of(&mut self, id: MessageId) {
        let port = self.messages.get(id).target;
        let process = self.home_port(port);
        // As all that taking a message costs, it is that of the adapter by which it came.
        let notice = self.hardware.of(self.host_of(port)).notice;
        if self.waits(process, notice) {
            return self.take_message(id, notice.alone());
        }
        let is_to_answer = self.processes[process as usize].busy_until == Time::MAX;
        if !is_to_answer && !self.is_behind_kernel() {
            return self.take_message(id, notice.found());
        }
        let line = self.untaken.entry(process).or_default();
        line.push_back(id);
        if line.len() == 1 {
            self.expect_look(process);
        }
    }

    /// Whether processes get the processor when the kernel has done with what has come, and not in
    /// their turn.
    fn is_behind_kernel(&self) -> bool {
        matches!(self.config.host.common().mechanism, Mechanism::Kernel(_))
    }

    /// Whether a process has looked for messages since it did something, and goes round in its loop
    /// or sleeps.
    #[inline]
    fn waits(&self, process: u32, notice: Notice) -> bool {
        let now = self.queue.now();
        let processor = &self.processors[self.processor_of(self.host_of(process), process)];
        let looked_at = match notice {
            _ if processor.is_idle_until(now) => now,
            // Others have the processor, and it does not see them begin: it sleeps.
            Notice::Interrupt { .. } => processor.idle_at,
            Notice::Polling { .. } => return false,
        };
        self.processes[process as usize].busy_until <= looked_at
    }

    /// A process looks for messages when it has done what it does, if it is known when that is.
    fn expect_look(&mut self, process: u32) {
        let busy_until = self.processes[process as usize].busy_until;
        if busy_until < Time::MAX {
            let free = self.processors[self.processor_of(self.host_of(process), process)].free;
            self.queue
                .schedule(busy_until.max(free), Event::Looks(process));
        }
    }

    /// A process behind the kernel, to which messages have come, looks for the first of them.
    pub(crate) fn handle_look(&mut self, process: u32) {
        let free = self.processors[self.processor_of(self.host_of(process), process)].free;
        let busy_until = self.processes[process as usize].busy_until;
        if free > busy_until.max(self.queue.now()) {
            // The kernel has got the processor meanwhile.
            return self.expect_look(process);
        }
        self.take_next(process);
        if self.untaken.contains_key(&process) && !self.answers() {
            self.expect_look(process);
        }
    }

    /// A process takes the first message of those that have come to it.
    fn take_next(&mut self, process: u32) {
        let Some(line) = self.untaken.get_mut(&process) else {
            return;
        };
        let first = line.pop_front();
        if line.is_empty() {
            self.untaken.remove(&process);
        }
        if let Some(id) = first {
            let port = self.messages.get(id).target;
            let notice = self.hardware.of(self.host_of(port)).notice;
            self.take_message(id, notice.found());
        }
    }

    /// The process of a message hears of it in so long, and takes it.
    fn take_message(&mut self, id: MessageId, notice: Time) {
        let now = self.queue.now();
        let port = self.messages.get(id).target;
        let (host, process) = (self.host_of(port), self.home_port(port));
        let hardware = self.hardware.of(host);
        let (reap, of_waiting) = (hardware.processor.reap, hardware.notice.alone());
        let processor = self.processor_of(host, port);
        let processor = &mut self.processors[processor];
        let (begin, noticed) = processor.work(now, notice);
        let (_, reaped) = processor.work(noticed, reap);
        let message = self.messages.get_mut(id);
        // The floor has the notice of a process that waits.
        let spared = of_waiting - notice;
        message.floor = message.floor.saturating_sub(spared);
        message.spend(Stage::ReceiverProcessor, begin);
        message.spend(Stage::Notice, noticed);
        message.spend(Stage::Reap, reaped);
        self.follow_processor(host, id, Work::Take, begin, reaped);
        if self.answers() {
            self.processes[process as usize].busy_until = Time::MAX;
        } else {
            self.post_receive_again(id, host);
        }
        self.after(self.lanes.reaped, reaped, Event::Reaped(id));
    }

    /// Whether processes do what a message asks of them before they post its receive again.
    fn answers(&self) -> bool {
        self.operations.is_some() || matches!(self.config.traffic.arrivals, Arrivals::PingPong)
    }

    /// The processor posts the receive of a message again when it has done all it was given.
    fn post_receive_again(&mut self, id: MessageId, host: u32) {
        let post = self.hardware.of(host).processor.post;
        let port = self.messages.get(id).target;
        let processor = self.processor_of(host, port);
        let processor = &mut self.processors[processor];
        let (begin, end) = processor.work(processor.free, post);
        self.messages.get_mut(id).reposted = end;
        let process = self.home_port(port);
        self.processes[process as usize].busy_until = end;
        self.follow_processor(host, id, Work::Repost, begin, end);
    }

    /// When the process of a message that it has taken has posted the receive again.
    pub(crate) fn posted_again(&mut self, id: MessageId, host: u32) -> Time {
        if self.answers() {
            self.post_receive_again(id, host);
            let process = self.home_port(self.messages.get(id).target);
            match self.is_behind_kernel() {
                true if self.untaken.contains_key(&process) => self.expect_look(process),
                true => {}
                false => self.take_next(process),
            }
        }
        self.messages.get(id).reposted
    }
}
