//! One message goes to and fro between two processes of this machine.
//!
//! ```text
//! cargo run --example pingpong server     in one shell
//! cargo run --example pingpong client     in another
//! ```
//!
//! Either end may be `examples/c/pingpong.c`.

mod common;

use common::{LIMIT, Outcome};
use viaduct_provider::{Memory, Nic};
use viaduct_shm::Shm;

const ROUNDS: u32 = 1000;
const BYTES: usize = 64;

fn main() -> Outcome {
    let role = common::role("pingpong")?;
    let nic = Nic::open(Shm::global(), "shm")?;
    let mut vi = common::describe(&nic).build()?;
    // The first receive is there before anybody can send.
    vi.post_receive(nic.buffer(BYTES, Memory::Shared)?)?;
    let mut outgoing = nic.buffer(BYTES, Memory::Shared)?;
    common::connect(&nic, &mut vi, &role)?;

    for round in 0..ROUNDS {
        if !role.is_server {
            outgoing.fill(round as u8);
            vi.post_send(outgoing, BYTES)?;
            outgoing = vi.sent(LIMIT)?.buffer;
        }
        // `try_receive` is the same without waiting, `receive_async` without a thread.
        let received = vi.receive(LIMIT)?;
        if received.data() != [round as u8; BYTES] {
            return Err("a message with other bytes came".into());
        }
        // The other side sends only after it has ours: there is time to post.
        vi.post_receive(received.buffer)?;
        if role.is_server {
            outgoing.fill(round as u8);
            vi.post_send(outgoing, BYTES)?;
            outgoing = vi.sent(LIMIT)?.buffer;
        }
    }
    println!("pingpong: {ROUNDS} round trips of {BYTES} bytes, data right");
    if role.is_server {
        common::wait_for_leave(&mut vi)?;
    }
    Ok(())
}
