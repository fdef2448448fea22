//! A VI as the service thread and the connecting functions see it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use viaduct_core::transition::{self, Transition};
use viaduct_core::{ProtectionTag, Queue, ViAttributes, ViError, ViState, outcome};
use viaduct_provider::{ErrorCode, Result};

use super::{Connected, Vi, looking_queue};
use crate::channel::{Direction, SLOTS};
use crate::completion_queue::NewSource;
use crate::connect::{ChannelEnd, CloseReason, Connectable, LocalEnd, RemoteEnd};
use crate::host::{Pace, Progress};
use crate::receive::Incoming;
use crate::send::Outgoing;
use crate::side::dead_vi;

impl Progress for Connected {
    fn progress(&self) -> Pace {
        let vi = self.vi();
        if vi.watched.load(Ordering::SeqCst) != self.vi {
            // Another VI lives here now.
            return Pace::Over;
        }
        // To look takes the lock, and with it the bias of the thread that uses it.
        let activity = vi.activity.load(Ordering::Relaxed);
        if vi.seen_activity.swap(activity, Ordering::Relaxed) != activity {
            return if vi.is_waiting.load(Ordering::Relaxed) {
                Pace::Quick
            } else {
                Pace::Slow
            };
        }
        if vi.is_waiting.load(Ordering::Relaxed) && vi.push_sends(self.vi) {
            vi.kick_peer_if_stuck(self.vi);
            return Pace::Quick;
        }
        if vi.kick_peer_if_stuck(self.vi) {
            return Pace::Slow;
        }
        vi.watched.store(0, Ordering::SeqCst);
        // A send that began to wait meanwhile found the VI watched.
        if vi.is_waiting.load(Ordering::SeqCst)
            && vi.watched.swap(self.vi, Ordering::SeqCst) != self.vi
        {
            return Pace::Quick;
        }
        Pace::Over
    }
}

impl Connected {
    fn vi(&self) -> &'static Vi {
        &self.slot.object
    }
}

impl Connectable for Connected {
    fn local_end(&self) -> LocalEnd {
        let control = self.vi().control();
        let nothing = ViAttributes::unreliable(ProtectionTag::from_bits(0), 0);
        LocalEnd {
            attributes: control.attributes.unwrap_or(nothing),
            nic: control.nic.as_ref().map_or(0, |nic| nic.handle.bits()),
            vi: self.vi,
            regions: control.nic.as_ref().map(|nic| Arc::clone(&nic.regions)),
        }
    }

    fn begin_pending(&self) -> Result<()> {
        let control = self.vi().control();
        if control.handle != self.vi {
            return Err(dead_vi());
        }
        self.vi().follow(Transition::Ask)
    }

    fn cancel_pending(&self) {
        let control = self.vi().control();
        if control.handle == self.vi && self.vi().state() == ViState::ConnectPending {
            let (mut send, mut receive) = (self.vi().send.lock(), self.vi().receive.lock());
            // There was no connection, so that nothing is under way.
            let outcome = outcome::peer_disconnected();
            let _ = self
                .vi()
                .end(&mut send, &mut receive, Transition::Fail, outcome);
        }
    }

    fn connect(&self, end: ChannelEnd, remote: RemoteEnd) -> Result<()> {
        let vi = self.vi();
        let control = vi.control();
        let (Some(nic), Some(attributes)) = (control.nic.clone(), control.attributes) else {
            return Err(dead_vi());
        };
        if control.handle != self.vi {
            return Err(dead_vi());
        }
        let queue = looking_queue(control.completions);
        let source;
        {
            let mut send = vi.send.lock();
            let mut receive = vi.receive.lock();
            // A VI that was disconnected meanwhile stays so.
            if vi.state() != ViState::ConnectPending {
                return Err(ViError::InvalidState { state: vi.state() }.into());
            }
            let connected = transition::next(vi.state(), Transition::Establish)?;
            let side = end.side as u8;
            // SAFETY: the block has the bytes, is aligned, and is mapped as long as the link lives,
            // which both sides keep alive.
            let (outgoing, incoming) = unsafe {
                (
                    Direction::sent_by(side, end.block),
                    Direction::sent_by(1 - side, end.block),
                )
            };
            source = NewSource {
                slot: self.slot,
                vi: self.vi,
                link: Arc::clone(&end.link),
                channel: end.channel,
                connection: end.connection,
                watch: incoming.watch(0),
                direction: incoming,
            };
            vi.credit.store(0, Ordering::Relaxed);
            send.out = Some(Outgoing::new(
                outgoing,
                Arc::clone(&end.link),
                end.channel,
                end.connection,
                remote,
                Arc::clone(&nic.thresholds),
                &attributes,
            ));
            let incoming = Incoming::new(
                incoming,
                end.link,
                end.connection,
                &attributes,
                nic.thresholds.inline_bytes(),
            );
            receive.begin(incoming, &vi.posted);
            vi.set_state(connected);
        }
        drop(control);
        if let Some(queue) = queue {
            let connection = source.connection;
            queue.object.add_source(source);
            // Whoever ended the connection before may have found no source to remove.
            if vi.receive.lock().connection() != Some(connection) {
                queue.object.remove_source(vi, self.vi, connection);
            }
        }
        vi.arm(self.vi);
        Ok(())
    }

    fn peer_closed(&self, connection: u64, reason: CloseReason) {
        let vi = self.vi();
        let completions = vi.control().completions;
        {
            let mut send = vi.send.lock();
            let mut receive = vi.receive.lock();
            if send.side.handle != self.vi
                || send
                    .out
                    .as_ref()
                    .is_none_or(|out| out.connection != connection)
            {
                return;
            }
            // What the peer sent before it left still arrives.
            let _ = receive.take_arrived(&vi.credit);
            let level = send.side.level();
            let outcome = match reason {
                CloseReason::Died => outcome::transport_failed(level),
                _ => outcome::peer_disconnected(),
            };
            if !outcome.breaks {
                return;
            }
            // The peer leaves the channel as well: there is nobody to tell.
            let _ = vi.end(&mut send, &mut receive, Transition::Lose, outcome);
            receive.report_loss(outcome);
        }
        vi.leave(self.vi, Some(connection), completions, None, reason);
    }

    fn kicked(&self) {
        // More than lie there now are none of this kick's.
        Vi::look(self.slot, self.vi, SLOTS);
        self.vi().receive.lock().tell_consumed();
        self.vi().arm(self.vi);
    }

    fn peer_event(&self, code: u8, _operation: u32) {
        // The only event that a peer tells of: a message of its met no receive.
        if code == ErrorCode::ReceiveQueueEmpty as u8 {
            let receive = self.vi().receive.lock();
            if receive.side.handle == self.vi {
                receive
                    .side
                    .report(ErrorCode::ReceiveQueueEmpty, None, Queue::Receive);
            }
        }
    }
}
