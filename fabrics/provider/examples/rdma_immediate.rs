//! A process writes into the memory of another, and four bytes tell that it has.
//!
//! ```text
//! cargo run --example rdma_immediate server     in one shell
//! cargo run --example rdma_immediate client     in another
//! ```
//!
//! The server tells where its memory lies; the client writes there. Without immediate data the
//! server would see bytes change and no more; with it, one of its receives completes. Either end
//! may be `examples/c/rdma_immediate.c`.

mod common;

use common::{LIMIT, Outcome, Role};
use viaduct_provider::{Access, Buffer, Memory, Nic, RemoteBuffer, Vi};
use viaduct_shm::Shm;

const BYTES: usize = 32_768;
const IMMEDIATE: u32 = 1999;

fn main() -> Outcome {
    let role = common::role("rdma_immediate")?;
    let nic = Nic::open(Shm::global(), "shm")?;
    let mut vi = common::describe(&nic).build()?;
    if role.is_server {
        server(&nic, &mut vi, &role)?;
    } else {
        client(&nic, &mut vi, &role)?;
    }
    println!("rdma_immediate: {BYTES} bytes written, immediate data {IMMEDIATE}, data right");
    Ok(())
}

fn server(nic: &Nic<Shm>, vi: &mut Vi<Shm>, role: &Role) -> Outcome {
    let window = nic.window(BYTES, Access::Write, Memory::Shared)?;
    // No bytes: it is there for the immediate data.
    vi.post_receive(Buffer::empty())?;
    common::connect(nic, vi, role)?;

    let mut told = nic.buffer(RemoteBuffer::BYTES, Memory::Shared)?;
    told.copy_from_slice(&window.remote().to_bytes());
    vi.post_send(told, RemoteBuffer::BYTES)?;
    vi.sent(LIMIT)?;

    let signal = vi.receive(LIMIT)?;
    if !signal.is_remote_write() || signal.immediate != Some(IMMEDIATE) {
        return Err("something else completed the receive".into());
    }
    let mut written = vec![0; BYTES];
    window.read(0, &mut written);
    if written
        .into_iter()
        .enumerate()
        .any(|(index, byte)| byte != byte_at(index))
    {
        return Err("other bytes were written".into());
    }
    // A message of no bytes says so.
    vi.post_send(Buffer::empty(), 0)?;
    vi.sent(LIMIT)?;
    common::wait_for_leave(vi)
}

fn client(nic: &Nic<Shm>, vi: &mut Vi<Shm>, role: &Role) -> Outcome {
    vi.post_receive(nic.buffer(RemoteBuffer::BYTES, Memory::Shared)?)?;
    vi.post_receive(Buffer::empty())?;
    common::connect(nic, vi, role)?;
    let told = vi.receive(LIMIT)?;
    let window = RemoteBuffer::from_bytes(told.data()).ok_or("the server told too little")?;

    let mut data = nic.buffer(BYTES, Memory::Shared)?;
    for (index, byte) in data.iter_mut().enumerate() {
        *byte = byte_at(index);
    }
    vi.post_write_immediate(data, BYTES, window, IMMEDIATE)?;
    vi.sent(LIMIT)?;
    // At reliable delivery a completed write is on its way; the server's word says that it came.
    vi.receive(LIMIT)?;
    Ok(())
}

fn byte_at(index: usize) -> u8 {
    (index * 31 + 7) as u8
}
