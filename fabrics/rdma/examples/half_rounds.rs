//! Two queue pairs of one process and one thread that send each other small messages in turn: what
//! a message costs without the way between processors.
//!
//! ```text
//! cargo build --release -p viaduct-rdma --example half_rounds
//! half_rounds 1000000                                         tells nanoseconds
//! valgrind --tool=callgrind --toggle-collect='*half_rounds*run*' half_rounds 1000
//!                                                             instructions, and where they are
//! ```

use std::time::Instant;

use viaduct_rdma::verbs::flags::{access, send};
use viaduct_rdma::verbs::{
    Capabilities, Completion, CompletionStatus, QueuePairAttributes, QueuePairType,
    ScatterGatherElement, SendOpcode,
};
use viaduct_rdma::{
    CompletionQueue, CompletionQueueOptions, Error, QueuePair, QueuePairOptions, ReceiveRequest,
    SendRequest, devices,
};

const BYTES: u32 = 8;

fn main() -> Result<(), Error> {
    let rounds = std::env::args().nth(1);
    let rounds: u32 = rounds.and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let context = devices()[0].open()?;
    let domain = context.allocate_protection_domain()?;
    let memory = [0_u8; 64];
    let start = memory.as_ptr() as u64;
    // SAFETY: the memory lives as long as the program.
    let region = unsafe { domain.register_memory(start, 64, start, access::LOCAL_WRITE) }?;
    let element = ScatterGatherElement {
        address: start,
        length: BYTES,
        local_key: region.memory_key(),
    };
    let mut sides = Vec::new();
    for _ in 0..2 {
        let entries = CompletionQueueOptions {
            entries: 16,
            ..CompletionQueueOptions::default()
        };
        let [send_queue, receive_queue] = [
            context.create_completion_queue(&entries)?,
            context.create_completion_queue(&entries)?,
        ];
        let pair = domain.create_queue_pair(&QueuePairOptions {
            kind: QueuePairType::Rc,
            capabilities: Capabilities {
                max_send_requests: 4,
                max_receive_requests: 4,
                max_send_elements: 1,
                max_receive_elements: 1,
                max_inline_bytes: 64,
            },
            send_queue,
            receive_queue,
            shared_receive_queue: None,
            is_every_send_signaled: false,
            cookie: 0,
        })?;
        sides.push((pair, send_queue, receive_queue));
    }
    let numbers = [sides[0].0.number(), sides[1].0.number()];
    for ((pair, ..), peer) in sides.iter().zip([numbers[1], numbers[0]]) {
        pair.raise(&QueuePairAttributes::connection(peer))?;
        receive(pair, element)?;
    }
    post(&sides[0], element)?;
    half_round(&sides[1], element)?;
    let begin = Instant::now();
    run(&sides, element, rounds)?;
    let nanoseconds = begin.elapsed().as_nanos() as f64 / f64::from(2 * rounds);
    println!("{nanoseconds:.1} ns a half round of {rounds} rounds");
    Ok(())
}

type Side = (QueuePair, CompletionQueue, CompletionQueue);

/// What is counted: each side learns that its last message has come, and takes the next.
#[inline(never)]
fn run(sides: &[Side], element: ScatterGatherElement, rounds: u32) -> Result<(), Error> {
    for _ in 0..rounds {
        for side in sides {
            wait(&side.1)?;
            half_round(side, element)?;
        }
    }
    Ok(())
}

/// A side takes the other's message, as `ib_send_lat` does, and answers.
fn half_round(side: &Side, element: ScatterGatherElement) -> Result<(), Error> {
    wait(&side.2)?;
    receive(&side.0, element)?;
    post(side, element)
}

fn post(side: &Side, element: ScatterGatherElement) -> Result<(), Error> {
    let request = SendRequest::new(1, SendOpcode::Send)
        .with_elements(std::slice::from_ref(&element))
        .with_flags(send::INLINE | send::SIGNALED);
    // SAFETY: the element's bytes live as long as the program.
    unsafe { side.0.post_send(&request) }
}

fn receive(pair: &QueuePair, element: ScatterGatherElement) -> Result<(), Error> {
    pair.post_receive(&ReceiveRequest {
        request: 2,
        elements: &[element],
    })
}

fn wait(queue: &CompletionQueue) -> Result<(), Error> {
    let mut done = [Completion::default()];
    while queue.poll(&mut done)? == 0 {}
    assert_eq!(done[0].status, CompletionStatus::Success);
    Ok(())
}
