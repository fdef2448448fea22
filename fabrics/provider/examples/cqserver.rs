//! A server with many connections and one completion queue.
//!
//! ```text
//! cargo run --example cqserver server     in one shell
//! cargo run --example cqserver client     in another
//! ```
//!
//! A request is a number, its answer the number's square. Either end may be
//! `examples/c/cqserver.c`.

mod common;

use common::{LIMIT, Outcome};
use viaduct_provider::via::Queue;
use viaduct_provider::{Buffer, CompletionQueue, Memory, Nic, Received, Vi, ViMap};
use viaduct_shm::Shm;

const CONNECTIONS: usize = 4;
/// On each connection.
const REQUESTS: u32 = 100;
const BYTES: usize = 4;

fn main() -> Outcome {
    let role = common::role("cqserver")?;
    let nic = Nic::open(Shm::global(), "shm")?;
    // At most a receive and a send of each connection are complete at once.
    let mut queue = nic.completion_queue(2 * CONNECTIONS as u32)?;
    let mut vis = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut vi = common::describe(&nic);
        if role.is_server {
            vi = vi.send_completions(&queue).receive_completions(&queue);
        }
        let mut vi = vi.build()?;
        vi.post_receive(nic.buffer(BYTES, Memory::Shared)?)?;
        common::connect(&nic, &mut vi, &role)?;
        vis.push(vi);
    }

    if role.is_server {
        serve(&nic, &mut queue, &mut vis)?;
        report();
        for vi in &mut vis {
            common::wait_for_leave(vi)?;
        }
    } else {
        ask(&nic, &mut vis)?;
        report();
    }
    Ok(())
}

fn report() {
    let requests = CONNECTIONS as u32 * REQUESTS;
    println!("cqserver: {CONNECTIONS} connections, {requests} requests, answers right");
}

fn serve(nic: &Nic<Shm>, queue: &mut CompletionQueue<Shm>, vis: &mut [Vi<Shm>]) -> Outcome {
    // An entry of the queue names a VI by its handle.
    let indices = vis.iter().enumerate();
    let index_of: ViMap<usize> = indices.map(|(index, vi)| (vi.handle(), index)).collect();
    // The next request of a client may be seen before its last answer is seen to be sent.
    let mut free = nic.buffers(2 * CONNECTIONS, BYTES, Memory::Shared)?;
    let mut answers_sent = 0;
    while answers_sent < CONNECTIONS as u32 * REQUESTS {
        let entry = queue.wait(LIMIT)?;
        let vi = &mut vis[index_of[&entry.vi]];
        match entry.queue {
            Queue::Receive => {
                let request = match vi.try_receive() {
                    Ok(request) => request.ok_or("an entry with no completion")?,
                    // A client that has its last answer leaves.
                    Err(error) if error.is_flushed() => continue,
                    Err(error) => return Err(error.into()),
                };
                let number = number_in(&request)?;
                let mut answer = free.pop().ok_or("more requests than connections")?;
                answer.copy_from_slice(&(number * number).to_ne_bytes());
                // The client asks again when it has the answer: post first, then answer.
                vi.post_receive(request.buffer)?;
                vi.post_send(answer, BYTES)?;
            }
            Queue::Send => {
                let sent = vi.try_sent()?.ok_or("an entry with no completion")?;
                free.push(sent.buffer);
                answers_sent += 1;
            }
        }
    }
    Ok(())
}

fn ask(nic: &Nic<Shm>, vis: &mut [Vi<Shm>]) -> Outcome {
    let mut free: Vec<Buffer> = nic.buffers(CONNECTIONS, BYTES, Memory::Shared)?;
    for number in 0..REQUESTS {
        for (index, vi) in (0..).zip(&mut *vis) {
            let mut request = free.pop().ok_or("a buffer for each connection")?;
            request.copy_from_slice(&(number + index).to_ne_bytes());
            vi.post_send(request, BYTES)?;
        }
        for (index, vi) in (0..).zip(&mut *vis) {
            free.push(vi.sent(LIMIT)?.buffer);
            let answer = vi.receive(LIMIT)?;
            if number_in(&answer)? != (number + index) * (number + index) {
                return Err("a wrong answer came".into());
            }
            vi.post_receive(answer.buffer)?;
        }
    }
    Ok(())
}

fn number_in(message: &Received) -> Outcome<u32> {
    let bytes = message.data().try_into()?;
    Ok(u32::from_ne_bytes(bytes))
}
