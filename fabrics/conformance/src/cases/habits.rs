//! What programs do that no text allows: the habits of vipl.md section 17 that no other case has.
//!
//! | habit | case |
//! | --- | --- |
//! | 1 all receives posted while idle | 23 |
//! | 2 a loop on "no match" with no pause | 119 |
//! | 3 posting again with the status still set, or the control segment made anew | 33, 120 |
//! | 4 private lists in `next` | 34, 120 |
//! | 5 descriptors without segments as signals | 121 |
//! | 6 handles and pointers compared | 54, and every case |
//! | 7 spinning on Done for long | 122 |
//! | 8 draining after a disconnect, or not at all | 49, 123 |
//! | 9 memory handle 0 is failure, handles travel as numbers | 61, 124 |
//! | 10 one NIC opened twice, for a server and for clients | 125 |
//! | 11 memory polled with no call at all | 63 |
//! | 12 one thread blocked for ever, others at work | 126 |

use std::sync::Arc;

use viaduct_provider::via::{Address, HostAddress, MemoryAttributes, Queue, ViState};
use viaduct_provider::{ControlSegment, Done, ReturnCode};

use crate::case::{Case, Level};
use crate::check::{Outcome, equal, equal_status, holds};
use crate::environment::{Environment, LIMIT};
use crate::memory::{Block, pattern};
use crate::pair::{End, Nic, Options, accept, connect_locally, pair, status};

pub(super) const CASES: &[Case] = &[
    Case::pair(
        119,
        Level::EarlyAdopter,
        "habit_no_match_in_a_tight_loop",
        &[impatient_client, late_server],
    ),
    Case::pair(
        120,
        Level::EarlyAdopter,
        "habit_descriptors_from_a_private_list",
        &[list_sender, list_receiver],
    ),
    Case::pair(
        121,
        Level::EarlyAdopter,
        "habit_signals_without_segments",
        &[signals, signals],
    ),
    Case::pair(
        122,
        Level::EarlyAdopter,
        "habit_spinning_on_done_is_progress",
        &[slow_sender, spinning_receiver],
    ),
    Case::pair(
        123,
        Level::EarlyAdopter,
        "habit_leaving_without_draining",
        &[undrained, undrained],
    ),
    Case::alone(
        124,
        Level::EarlyAdopter,
        "habit_memory_handles_are_never_zero",
        &[handles_not_zero],
    ),
    Case::alone(
        125,
        Level::EarlyAdopter,
        "habit_server_and_clients_on_two_handles",
        &[two_handles],
    ),
    Case::pair(
        126,
        Level::EarlyAdopter,
        "habit_one_thread_blocks_for_ever",
        &[one_blocked_peer, one_blocked],
    ),
];

fn impatient_client(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let [host] = env.exchange_numbers([nic.host.get()])?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let receive = end.post_receive(0, 64)?;
    let (local, remote) = (
        nic.address(env, "client"),
        Address::new(HostAddress::new(host), &env.discriminator("late")),
    );
    let mut tries = 0_u32;
    let start = env.now();
    loop {
        match env
            .provider()
            .connect_request(end.vi, &local, &remote, Some(LIMIT))
        {
            Ok(_) => break,
            Err(error) if error.code() == ReturnCode::NoMatch => tries += 1,
            Err(error) => return Err(error.into()),
        }
        holds(env.now() - start < LIMIT, "a server that comes in the end")?;
    }
    holds(tries > 0, "requests before the server came")?;
    end.received_bytes(receive, 0, &pattern(119, 9))?;
    end.close()
}

fn late_server(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    env.exchange_numbers([nic.host.get()])?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    env.sleep(150);
    accept(env, &nic, end.vi, &nic.address(env, "late"))?;
    end.fill(0, 9, 119);
    end.sent_well(end.post_send(0, 9)?)?;
    end.close()
}

const LISTED: usize = 200;

fn list_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    let send = end.work(1)?;
    for index in 0..LISTED {
        env.meet("posted")?;
        let length = index % 50;
        end.fill(0, length, index as u64);
        // All of the control segment anew, status included.
        send.set_control(ControlSegment::default());
        end.sent_well(end.post(send.send(&[end.segment(0, length)]))?)?;
    }
    end.close()
}

/// A free list through `next`, which the fabric overwrites at each post: the list is mended when
/// the descriptor is back.
fn list_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    let works = (0..4).map(|_| end.work(1)).collect::<Outcome<Vec<_>>>()?;
    let link = |index: usize, next: u64| {
        works[index].set_control(ControlSegment {
            next,
            ..works[index].control()
        });
    };
    for index in 0..4 {
        works[index].receive(&[end.segment(index * 64, 64)]);
        link(index, works.get(index + 1).map_or(0, |work| work.address()));
    }
    let mut free = works[0].address();
    for index in 0..LISTED {
        let which = works.iter().position(|work| work.address() == free);
        let which = which.ok_or_else(|| crate::check::Stop::failed("the list leads astray"))?;
        let work = works[which];
        let rest = work.control().next;
        end.post_to_receive(work)?;
        env.meet("posted")?;
        let length = index % 50;
        end.received_bytes(work, which * 64, &pattern(index as u64, length))?;
        // Back to the list's end.
        link(which, 0);
        let mut last = rest;
        while let Some(next) = works.iter().position(|work| work.address() == last) {
            match works[next].control().next {
                0 => {
                    link(next, work.address());
                    break;
                }
                further => last = further,
            }
        }
        free = rest;
    }
    end.close()
}

/// Both sides signal each other by turns.
fn signals(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let end = End::new(env, &nic, Options::level(level))?;
        let receive = end.post_to_receive(end.work(0)?.receive(&[]))?;
        let send = end.work(0)?.send(&[]);
        end.connect()?;
        for round in 0..200 {
            let turn = round % 2 == env.side();
            if turn {
                // Every other signal carries four bytes.
                let signal = if round % 4 < 2 {
                    send.send(&[])
                } else {
                    send.send(&[]).immediate(7)
                };
                end.sent_well(end.post(signal)?)?;
            } else {
                let control = end.received(receive)?.control;
                let expected = if round % 4 < 2 {
                    status::RECEIVED
                } else {
                    status::RECEIVED_IMMEDIATE
                };
                equal_status(control.status, expected, "a signal")?;
                equal(control.length, 0, "bytes of a signal")?;
                end.post_to_receive(receive)?;
            }
        }
        end.close()?;
    }
    Ok(())
}

/// Bytes of message `index` of five: none, up to some that take a while.
fn slow_bytes(nic: &Nic, index: usize) -> usize {
    (100_000 * index).min(nic.transfer_max() as usize)
}

fn slow_sender(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?).bytes(1 << 20))?;
    env.meet("posted")?;
    for index in 0..5 {
        env.sleep(60);
        let length = slow_bytes(&nic, index);
        end.fill(0, length, index as u64);
        let send = end.post_send(0, length)?;
        // Never looked at before the other side has it: nothing may depend on that.
        env.meet("received")?;
        end.sent_well(send)?;
    }
    end.close()
}

fn spinning_receiver(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?).bytes(1 << 20))?;
    let receives = [0; 5].map(|_| end.post_receive(0, 1 << 20));
    env.meet("posted")?;
    for (index, receive) in receives.into_iter().enumerate() {
        let bytes = pattern(index as u64, slow_bytes(&nic, index));
        end.received_bytes(receive?, 0, &bytes)?;
        env.meet("received")?;
    }
    end.close()
}

/// Leaves with descriptors posted, completed and flushed on both queues, takes none of them.
fn undrained(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for level in nic.levels() {
        let queue = env.provider().create_completion_queue(nic.handle, 64)?;
        let end = pair(env, &nic, Options::level(level).completions(queue))?;
        for _ in 0..6 {
            end.post_receive(0, 64)?;
        }
        env.meet("posted")?;
        for _ in 0..3 {
            end.post_send(0, 8)?;
        }
        env.meet("sent")?;
        env.provider().disconnect(end.vi)?;
        env.provider().destroy_vi(end.vi)?;
        env.provider().destroy_completion_queue(queue)?;
        let start = end.data.as_pointer();
        env.provider()
            .deregister_memory(nic.handle, start, end.handle)?;
        env.meet("gone")?;
    }
    Ok(())
}

fn handles_not_zero(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let block = Block::new(env, 4096)?;
    let local = MemoryAttributes::local(nic.tag);
    let mut handles = Vec::new();
    for _ in 0..300 {
        let handle = block.register(env, nic.handle, &local)?;
        holds(handle.bits() != 0, "a memory handle other than 0")?;
        handles.push(handle.bits());
    }
    handles.sort_unstable();
    handles.dedup();
    equal(handles.len(), 300, "handles that differ")?;
    for bits in handles {
        let handle = viaduct_provider::via::MemoryHandle::from_bits(bits);
        env.provider()
            .deregister_memory(nic.handle, block.as_pointer(), handle)?;
    }
    Ok(())
}

fn two_handles(env: &Arc<Environment>) -> Outcome {
    let (server_nic, client_nic) = (Nic::open(env)?, Nic::open(env)?);
    for level in server_nic.levels() {
        let server = End::new(env, &server_nic, Options::level(level))?;
        let client = End::new(env, &client_nic, Options::level(level))?;
        let receive = server.post_receive(0, 8192)?;
        let answer = client.post_receive(0, 8192)?;
        connect_locally(&client, &server, "one process")?;
        client.fill(16_384, 5000, 125);
        client.sent_well(client.post_send(16_384, 5000)?)?;
        server.received_bytes(receive, 0, &pattern(125, 5000))?;
        server.sent_well(server.post_send(0, 5000)?)?;
        client.received_bytes(answer, 0, &pattern(125, 5000))?;
        // Memory of one handle is not known to the other.
        let foreign = server_nic.handle;
        let query = env
            .provider()
            .query_memory(foreign, client.data.as_pointer(), client.handle);
        holds(
            query.is_err(),
            "a refusal to query the other handle's region",
        )?;
        env.provider().disconnect(client.vi)?;
        server.comes_to(ViState::Error)?;
        for end in [client, server] {
            env.provider().disconnect(end.vi)?;
            env.provider().destroy_vi(end.vi)?;
        }
    }
    Ok(())
}

fn one_blocked_peer(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let level = nic.any_level()?;
    let (quiet, busy) = (
        pair(env, &nic, Options::level(level))?,
        pair(env, &nic, Options::level(level))?,
    );
    let receive = busy.post_receive(0, 64)?;
    env.meet("posted")?;
    for _ in 0..100 {
        busy.received(receive)?;
        busy.post_to_receive(receive)?;
        busy.sent_well(busy.post_send(1024, 8)?)?;
    }
    env.meet("worked")?;
    quiet.sent_well(quiet.post_send(0, 8)?)?;
    env.meet("woken")
}

fn one_blocked(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let level = nic.any_level()?;
    let queue = env.provider().create_completion_queue(nic.handle, 64)?;
    let quiet = pair(env, &nic, Options::level(level).completions(queue))?;
    let busy = pair(env, &nic, Options::level(level))?;
    quiet.post_receive(0, 64)?;
    let receive = busy.post_receive(0, 64)?;
    let waiter = env.spawn("blocked", move |env| {
        Ok(env.provider().completion_wait(queue, None)?)
    })?;
    env.meet("posted")?;
    for _ in 0..100 {
        busy.sent_well(busy.post_send(1024, 8)?)?;
        busy.received(receive)?;
        busy.post_to_receive(receive)?;
    }
    // Opening, making and destroying work beside it too.
    let second = Nic::open(env)?;
    let other = End::new(env, &second, Options::level(level))?;
    env.provider().destroy_vi(other.vi)?;
    env.close_nic(second.handle)?;
    holds(!waiter.is_over(), "a wait that still waits")?;
    equal(
        quiet.done(Queue::Receive)?,
        Done::NotDone,
        "the queue that is waited for",
    )?;
    env.meet("worked")?;
    equal(waiter.join()?.vi, quiet.vi, "the VI of the entry")?;
    env.meet("woken")
}
