//! Disconnecting, dying, and what happens to what was posted: cases 49 to 53.

use std::sync::Arc;

use viaduct_provider::via::{Queue, ViState};
use viaduct_provider::{CompletionQueueHandle, Done, ErrorCode, ReturnCode, Segment};

use super::rdma::{offer, remote_memory};
use crate::case::{Case, Level};
use crate::check::{Outcome, equal, equal_bytes, equal_status, holds, refused};
use crate::environment::Environment;
use crate::errors::Errors;
use crate::memory::{Work, pattern};
use crate::pair::{End, Nic, Options, RR, UD, milliseconds, pair, status};

pub(super) const CASES: &[Case] = &[
    Case::pair(
        49,
        Level::EarlyAdopter,
        "disconnect_flushes_in_order",
        &[flushing_side, idle_peer],
    ),
    Case::pair(
        50,
        Level::Functional,
        "peers_disconnect_is_an_error_here",
        &[leaving_side, left_side],
    ),
    Case {
        kills: true,
        ..Case::pair(
            51,
            Level::Functional,
            "killed_peer_is_noticed",
            &[dying_side, surviving_side],
        )
    },
    Case::pair(
        52,
        Level::EarlyAdopter,
        "posts_in_error_are_flushed_at_once",
        &[leaving_once, posting_in_error],
    ),
    Case::pair(
        53,
        Level::EarlyAdopter,
        "connected_vi_is_not_destroyed",
        &[not_destroyed, answering],
    ),
    Case::alone(
        91,
        Level::Decision,
        "sends_without_connection_are_flushed",
        &[send_unconnected],
    ),
    Case::pair(
        92,
        Level::EarlyAdopter,
        "completed_descriptors_survive_a_disconnect",
        &[surviving_sender, surviving_receiver],
    ),
    Case::pair(
        93,
        Level::EarlyAdopter,
        "waiters_wake_at_a_disconnect",
        &[waking_side, woken_side],
    ),
    Case::pair(
        133,
        Level::Functional,
        "closing_a_nic_ends_what_is_on_it",
        &[closing_side, closed_peer],
    ),
    Case::pair(
        140,
        Level::EarlyAdopter,
        "messages_that_arrived_outlive_a_disconnect",
        &[sender_of_arrived, leaving_receiver],
    ),
    Case::pair(
        141,
        Level::EarlyAdopter,
        "what_was_sent_before_a_disconnect_arrives",
        &[leaving_sender, late_receiver],
    ),
];

const RECEIVE: u32 = 0x0001_0000;
const FLUSHED: u32 = status::DONE | status::FLUSHED;

fn flushing_side(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = End::new(env, &nic, Options::level(level))?;
        let receives = [0; 5].map(|_| end.post_receive(0, 64));
        end.connect()?;
        // The peer has receives for none of these at the unreliable level, and for all of them
        // otherwise: they may be gone before the disconnect, but only in order.
        let sends = [0; 3].map(|_| end.post_send(0, 64));
        env.provider().disconnect(end.vi)?;
        end.is_in(ViState::Idle)?;
        let mut flushed = false;
        for send in sends {
            let now = end.sent(send?)?.control.status;
            let is_flushed = now == FLUSHED;
            holds(
                is_flushed || (now == status::SENT && !flushed),
                format_args!("a send complete, or flushed as all behind it, status {now:#010x}"),
            )?;
            flushed = is_flushed;
        }
        for receive in receives {
            let control = end.received(receive?)?.control;
            equal_status(control.status, RECEIVE | FLUSHED, "a receive")?;
        }
        equal(end.done(Queue::Send)?, Done::Empty, "the send queue")?;
        equal(end.done(Queue::Receive)?, Done::Empty, "the receive queue")?;
        let information = env.provider().query_vi(end.vi)?;
        holds(information.send_queue_empty, "an empty send queue")?;
        holds(information.receive_queue_empty, "an empty receive queue")?;
        // In idle it succeeds and changes nothing.
        env.provider().disconnect(end.vi)?;
        end.is_in(ViState::Idle)?;
        env.meet("flushed")?;
        env.provider().destroy_vi(end.vi)?;
    }
    Ok(())
}

fn idle_peer(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = End::new(env, &nic, Options::level(level))?;
        if level != UD {
            for _ in 0..3 {
                end.post_receive(0, 64)?;
            }
        }
        end.connect()?;
        end.comes_to(ViState::Error)?;
        env.meet("flushed")?;
    }
    Ok(())
}

fn leaving_side(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let errors = Errors::of(env, nic.handle)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        env.meet("posted")?;
        env.provider().disconnect(end.vi)?;
        end.is_in(ViState::Idle)?;
        env.meet("noticed")?;
        equal(
            errors.count(end.vi, ErrorCode::ConnectionLost),
            0,
            "CONN_LOST where it left",
        )?;
        end.connect()?;
        end.fill(0, 40, 50);
        env.meet("posted again")?;
        end.sent_well(end.post_send(0, 40)?)?;
        end.close()?;
    }
    Ok(())
}

fn left_side(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let errors = Errors::of(env, nic.handle)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        let receives = [0; 4].map(|_| end.post_receive(0, 64));
        env.meet("posted")?;
        lost(&end, &errors)?;
        for receive in receives {
            let control = end.received(receive?)?.control;
            equal_status(control.status, RECEIVE | FLUSHED, "a receive")?;
        }
        equal(
            end.done(Queue::Receive)?,
            Done::Empty,
            "the receive queue after it",
        )?;
        let set = env.provider().set_vi_attributes(end.vi, &end.attributes);
        refused(set, ReturnCode::InvalidState, "setting a VI in error")?;
        env.provider().disconnect(end.vi)?;
        end.is_in(ViState::Idle)?;
        env.meet("noticed")?;
        end.connect()?;
        let receive = end.post_receive(0, 64)?;
        env.meet("posted again")?;
        end.received_bytes(receive, 0, &pattern(50, 40))?;
        equal(
            errors.count(end.vi, ErrorCode::ConnectionLost),
            1,
            "CONN_LOST in the end",
        )?;
        end.close()?;
    }
    Ok(())
}

/// Waits until the loss of the connection has been noticed and told, once.
fn lost(end: &End, errors: &Errors) -> Outcome {
    end.comes_to(ViState::Error)?;
    errors.about_vi(&end.env, end.nic.handle, end.vi, ErrorCode::ConnectionLost)?;
    // A second call would come soon.
    end.env.sleep(20);
    equal(
        errors.count(end.vi, ErrorCode::ConnectionLost),
        1,
        "how often CONN_LOST was told",
    )
}

fn dying_side(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        for _ in 0..4 {
            end.post_receive(0, 64)?;
        }
    }
    env.meet("connected at every level")?;
    env.die()
}

fn surviving_side(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let errors = Errors::of(env, nic.handle)?;
    let mut ends = Vec::new();
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        let receives = [0; 4].map(|_| end.post_receive(0, 64));
        ends.push((end, receives));
    }
    env.meet("connected at every level")?;
    for (end, receives) in ends {
        lost(&end, &errors)?;
        for receive in receives {
            let taken = end.received(receive?)?;
            let bits = taken.control.status & status::FLUSHED;
            equal_status(bits, status::FLUSHED, "a receive after the peer's death")?;
        }
        env.provider().disconnect(end.vi)?;
        end.is_in(ViState::Idle)?;
        env.provider().destroy_vi(end.vi)?;
    }
    // The NIC goes on: two VIs of this side connect and talk.
    let level = nic.any_level()?;
    let (client, server) = (
        End::new(env, &nic, Options::level(level))?,
        End::new(env, &nic, Options::level(level))?,
    );
    let receive = server.post_receive(0, 64)?;
    crate::pair::connect_locally(&client, &server, "after the death")?;
    client.fill(0, 8, 51);
    client.sent_well(client.post_send(0, 8)?)?;
    server.received_bytes(receive, 0, &pattern(51, 8)).map(drop)
}

fn leaving_once(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        end.disconnect()?;
        env.meet("posted in error")?;
    }
    Ok(())
}

fn posting_in_error(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        env.meet("disconnected")?;
        end.comes_to(ViState::Error)?;
        for _ in 0..3 {
            let (send, receive) = (end.post_send(0, 8)?, end.post_receive(0, 8)?);
            let done = end.done(Queue::Send)?;
            holds(
                matches!(done, Done::Failed(_)),
                "a send that is complete at once",
            )?;
            let taken = crate::pair::taken(env, done)?;
            equal(taken.address, send.address(), "the send")?;
            equal_status(taken.control.status, FLUSHED, "the send")?;
            let taken = crate::pair::taken(env, end.done(Queue::Receive)?)?;
            equal(taken.address, receive.address(), "the receive")?;
            equal_status(taken.control.status, RECEIVE | FLUSHED, "the receive")?;
        }
        // A VI in error may be destroyed without a disconnect.
        env.provider().destroy_vi(end.vi)?;
        env.meet("posted in error")?;
    }
    Ok(())
}

fn not_destroyed(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    let destroyed = env.provider().destroy_vi(end.vi);
    refused(
        destroyed,
        ReturnCode::InvalidState,
        "destroying a connected VI",
    )?;
    end.is_in(ViState::Connected)?;
    let receive = end.post_receive(0, 64)?;
    env.meet("posted")?;
    end.received_bytes(receive, 0, &pattern(53, 30))?;
    end.close()
}

fn answering(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    end.fill(0, 30, 53);
    env.meet("posted")?;
    end.sent_well(end.post_send(0, 30)?)?;
    end.close()
}

fn send_unconnected(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let send = end.post_send(0, 8)?;
    equal_status(
        end.sent(send)?.control.status,
        FLUSHED,
        "a send without a connection",
    )?;
    end.is_in(ViState::Idle)?;
    let receive = end.post_receive(0, 8)?;
    equal(
        end.done(Queue::Receive)?,
        Done::NotDone,
        "a receive without a connection",
    )?;
    env.provider().disconnect(end.vi)?;
    let control = end.received(receive)?.control;
    equal_status(
        control.status,
        RECEIVE | FLUSHED,
        "that receive after a disconnect",
    )
}

const KEPT: usize = 6;

fn surviving_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        env.meet("posted")?;
        for index in 0..KEPT {
            end.fill(0, 32, index as u64);
            end.sent_well(end.post_send(0, 32)?)?;
        }
        env.meet("arrived")?;
        env.meet("looked")?;
        end.disconnect()?;
    }
    Ok(())
}

/// Receives messages, takes none of them, and finds them all after the connection has ended.
fn surviving_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = pair(env, &nic, Options::level(level))?;
        let receives = [0; KEPT + 2].map(|_| 0_usize);
        let receives: Vec<_> = (0..receives.len())
            .map(|index| end.post_receive(index * 64, 64))
            .collect::<Outcome<_>>()?;
        env.meet("posted")?;
        // The last message is there when its bytes are: nothing is taken to find out.
        env.meet("arrived")?;
        let last = pattern(KEPT as u64 - 1, 32);
        env.until("the last message", || {
            Ok((end.data.read((KEPT - 1) * 64, 32) == last).then_some(()))
        })?;
        env.meet("looked")?;
        env.meet("disconnected")?;
        end.comes_to(ViState::Error)?;
        env.provider().disconnect(end.vi)?;
        for (index, receive) in receives.into_iter().enumerate() {
            if index < KEPT {
                end.received_bytes(receive, index * 64, &pattern(index as u64, 32))?;
            } else {
                let control = end.received(receive)?.control;
                equal_status(
                    control.status,
                    RECEIVE | FLUSHED,
                    "a receive that met no message",
                )?;
            }
        }
        equal(
            end.done(Queue::Receive)?,
            Done::Empty,
            "the receive queue after all",
        )?;
    }
    Ok(())
}

fn waking_side(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    env.meet("waiting")?;
    env.provider().disconnect(end.vi)?;
    env.meet("woken")
}

fn woken_side(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let queue = env.provider().create_completion_queue(nic.handle, 64)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    let receive = end.post_receive(0, 64)?;
    let vi = end.vi;
    let waiter = env.spawn("waiter", move |env| {
        let done = env.provider().receive_wait(vi, None)?;
        crate::pair::taken(env, done)
    })?;
    let limited = env.spawn("limited waiter", move |env| {
        Ok(env
            .provider()
            .completion_wait(queue, milliseconds(100))
            .is_err())
    })?;
    env.sleep(30);
    env.meet("waiting")?;
    let taken = waiter.join()?;
    equal(
        taken.address,
        receive.address(),
        "the descriptor that the wait brought",
    )?;
    equal_status(taken.control.status, RECEIVE | FLUSHED, "the receive")?;
    equal(
        limited.join()?,
        true,
        "whether the wait on an unused queue ended with its time",
    )?;
    env.meet("woken")
}

/// Closes a NIC with connected VIs, posted descriptors, a completion queue and regions on it.
fn closing_side(env: &Arc<Environment>) -> Outcome {
    for _ in 0..3 {
        let nic = Nic::open(env)?;
        let queue = env.provider().create_completion_queue(nic.handle, 8)?;
        for level in nic.levels() {
            let end = pair(env, &nic, Options::level(level).receive_completions(queue))?;
            end.post_receive(0, 64)?;
            end.post_receive(0, 64)?;
        }
        env.close_nic(nic.handle)?;
        let gone = env.provider().completion_done(queue);
        refused(
            gone,
            ReturnCode::InvalidParameter,
            "a look at a queue of the closed NIC",
        )?;
        env.meet("closed")?;
    }
    Ok(())
}

fn closed_peer(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let errors = Errors::of(env, nic.handle)?;
    for _ in 0..3 {
        let mut ends = Vec::new();
        for level in nic.levels() {
            ends.push(pair(env, &nic, Options::level(level))?);
        }
        for end in ends {
            lost(&end, &errors)?;
            env.provider().destroy_vi(end.vi)?;
        }
        env.meet("closed")?;
    }
    Ok(())
}

/// What is sent before a disconnect: how, and where its completions go.
#[derive(Clone, Copy)]
struct Traffic {
    bytes: usize,
    is_queued: bool,
    is_controlled: bool,
}

const TRAFFIC: [Traffic; 5] = [
    traffic(8, false, false),
    traffic(200, true, false),
    traffic(3000, false, true),
    traffic(40_000, false, false),
    traffic(40_000, true, true),
];

const fn traffic(bytes: usize, is_queued: bool, is_controlled: bool) -> Traffic {
    Traffic {
        bytes,
        is_queued,
        is_controlled,
    }
}

/// Messages of each connection; as many receives more are posted.
const ARRIVED: usize = 3;

impl Traffic {
    fn bytes(self, nic: &Nic) -> usize {
        self.bytes.min(nic.transfer_max() as usize)
    }

    /// A connected end for it, and its completion queue.
    fn end(
        self,
        env: &Arc<Environment>,
        nic: &Nic,
        options: Options,
    ) -> Outcome<(End, Option<CompletionQueueHandle>)> {
        let options = options.rdma_write().bytes(2 * ARRIVED * self.bytes(nic));
        let (mut queue, mut bound) = (None, options);
        if self.is_queued && env.side() == 1 {
            let made = env.provider().create_completion_queue(nic.handle, 64)?;
            (queue, bound) = (Some(made), options.receive_completions(made));
        }
        let end = End::new(env, nic, bound)?;
        if self.is_controlled {
            match env.provider().set_flow_control(end.vi, true) {
                Err(error) if error.code() == ReturnCode::NotSupported => {}
                set => set?,
            }
        }
        end.connect()?;
        Ok((end, queue))
    }

    fn post_receives(self, end: &End) -> Outcome<Vec<Work>> {
        let bytes = self.bytes(&end.nic);
        (0..2 * ARRIVED)
            .map(|index| end.post_receive(index * bytes, bytes))
            .collect()
    }

    /// Sends all, and waits until they are reported as sent.
    fn send(self, end: &End) -> Outcome {
        let bytes = self.bytes(&end.nic);
        for index in 0..ARRIVED {
            end.fill(index * bytes, bytes, index as u64);
        }
        let sends = (0..ARRIVED)
            .map(|index| end.post_send(index * bytes, bytes))
            .collect::<Outcome<Vec<_>>>()?;
        for send in sends {
            end.sent_well(send)?;
        }
        Ok(())
    }

    /// Finds them all in the receives of an end whose connection is over.
    fn find(self, end: &End, queue: Option<CompletionQueueHandle>, receives: Vec<Work>) -> Outcome {
        let bytes = self.bytes(&end.nic);
        for (index, receive) in receives.into_iter().enumerate() {
            if let Some(queue) = queue {
                let entry = end.env.provider().completion_done(queue)?;
                let is_ours = entry.is_some_and(|entry| entry.vi == end.vi);
                holds(is_ours, "an entry of the queue for each receive")?;
            }
            if index < ARRIVED {
                end.received_bytes(receive, index * bytes, &pattern(index as u64, bytes))?;
            } else {
                let bits = end.received(receive)?.control.status;
                equal_status(bits, RECEIVE | FLUSHED, "a receive that met no message")?;
            }
        }
        equal(end.done(Queue::Receive)?, Done::Empty, "the receive queue")
    }
}

fn sender_of_arrived(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        for traffic in TRAFFIC {
            let (end, _) = traffic.end(env, &nic, Options::level(level))?;
            let remote = remote_memory(env, None)?;
            traffic.send(&end)?;
            // Behind the messages, to where none of them goes.
            let bytes = traffic.bytes(&nic);
            let to = Segment {
                address: remote.address + (ARRIVED * bytes) as u64,
                ..remote
            };
            let write = end.work(2)?.rdma_write(to, &[end.segment(0, bytes)]);
            let bits = end.sent(end.post(write)?)?.control.status;
            equal_status(bits, status::WRITTEN, "a remote write")?;
            env.meet("reported as sent")?;
            env.meet("found")?;
            end.comes_to(ViState::Error)?;
            equal(end.done(Queue::Send)?, Done::Empty, "the send queue")?;
            end.close()?;
        }
    }
    Ok(())
}

/// Looks at nothing, disconnects, and then takes what had arrived.
fn leaving_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        for traffic in TRAFFIC {
            let (end, queue) = traffic.end(env, &nic, Options::level(level))?;
            let receives = traffic.post_receives(&end)?;
            offer(&end)?;
            env.meet("reported as sent")?;
            // At reliable reception a message that is reported has arrived. At the other levels it
            // has left its sender: the network takes its time.
            if level != RR {
                env.sleep(5);
            }
            env.provider().disconnect(end.vi)?;
            end.is_in(ViState::Idle)?;
            traffic.find(&end, queue, receives)?;
            let bytes = traffic.bytes(&nic);
            let written = end.data.read(ARRIVED * bytes, bytes);
            equal_bytes(&written, &pattern(0, bytes), "what was written remotely")?;
            env.meet("found")?;
            end.close()?;
        }
    }
    Ok(())
}

/// Disconnects as soon as its sends are reported as sent.
fn leaving_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        for traffic in TRAFFIC {
            let (end, _) = traffic.end(env, &nic, Options::level(level))?;
            env.meet("posted")?;
            traffic.send(&end)?;
            env.provider().disconnect(end.vi)?;
            env.meet("found")?;
            end.close()?;
        }
    }
    Ok(())
}

fn late_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        for traffic in TRAFFIC {
            let (end, queue) = traffic.end(env, &nic, Options::level(level))?;
            let receives = traffic.post_receives(&end)?;
            env.meet("posted")?;
            end.comes_to(ViState::Error)?;
            traffic.find(&end, queue, receives)?;
            env.meet("found")?;
            end.close()?;
        }
    }
    Ok(())
}
