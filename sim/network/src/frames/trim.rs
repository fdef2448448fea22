//! Frames that a switch trims: their headers go on, and their receivers ask for them again.
//!
//! A frame that finds no room is cut to its header. That goes on at priority, and tells the
//! receiver which frame is missing. The receiver asks the sender's adapter for it, which sends it
//! before what it has not sent yet of the same flow. So nothing is lost, but frames of a flow come
//! in another order than they were sent in ([`super::overtaking`]).

use super::Frames;
use super::calendar::Kind;
use super::nscc::Heard;

impl Frames {
    /// The header of a frame is all there, at the frame's receiver, which asks for it again.
    pub(super) fn ask_again(&mut self, id: u32, kind: Kind, time: u64) {
        self.tell_sender(id, time);
        self.reply(id, kind, time, Heard::Missing);
    }

    /// An adapter hears that it is asked for a frame: its message stands in front of its flow, if
    /// all of it had been sent.
    pub(super) fn is_wanted(&mut self, host: u32, id: u32, kind: Kind, now: u64) {
        let passage = &mut self.passages[id as usize];
        passage.parts.asked.add(kind);
        if passage.parts.is_lined {
            return;
        }
        passage.parts.is_lined = true;
        let flow = passage.parts.flow;
        let slowed_until = self.may_send_from(flow);
        let passage = &mut self.passages[id as usize];
        passage.next_start = now.max(passage.next_start).max(slowed_until);
        let out = &mut self.adapters[host].out;
        out.return_to(&mut self.passages, id, flow, now);
    }
}

#[cfg(test)]
mod tests {
    use crate::adapter::Adapter;
    use crate::frames::parts::Passages;
    use crate::passage::NOBODY;
    use crate::queues::FlowKey;

    use super::*;

    #[test]
    fn a_message_that_returns_alone_has_nothing_behind_it() {
        let mut passages = Passages::new();
        let (first, second) = (passages.take(), passages.take());
        let key = Some(FlowKey::new(((0, 1), 0), 0, 0));
        let mut out = Adapter::<Kind>::new().out;
        out.join(&mut passages, first, key, 0);
        out.join(&mut passages, second, key, 0);
        // Nothing is left of either: they leave.
        out.rotate(&passages, 0);
        assert_eq!(out.first_of(key), Some(second));
        out.rotate(&passages, 0);
        assert_eq!(out.first_of(key), None);
        out.return_to(&mut passages, first, key, 0);
        assert_eq!(passages[first as usize].behind, NOBODY);
        // In front of another of its flow it stands with that behind it.
        out.return_to(&mut passages, second, key, 0);
        assert_eq!(out.first_of(key), Some(second));
        assert_eq!(passages[second as usize].behind, first);
    }
}
