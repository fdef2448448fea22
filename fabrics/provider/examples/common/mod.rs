//! What the examples share: who this program is, and connecting.

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use viaduct_provider::{Nic, ReturnCode, Vi};
use viaduct_shm::Shm;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// How long to wait for the other program.
pub(crate) const LIMIT: Option<Duration> = Some(Duration::from_secs(30));

/// Bytes of the longest message; equal at both ends.
const TRANSFER_MAX: u32 = 32_768;

/// Which end this program is, and where the two meet.
pub(crate) struct Role {
    pub(crate) is_server: bool,
    pub(crate) port: String,
}

/// From the arguments: `server` or `client`, and perhaps a port.
pub(crate) fn role(program: &str) -> Outcome<Role> {
    let mut arguments = std::env::args().skip(1);
    let is_server = match arguments.next().as_deref() {
        Some("server") => true,
        Some("client") => false,
        _ => return Err(format!("usage: {program} server|client [port]").into()),
    };
    let port = arguments.next().unwrap_or_else(|| program.to_owned());
    Ok(Role { is_server, port })
}

/// A VI as the examples in C make it, so that either end may be in either language.
pub(crate) fn describe(nic: &Nic<Shm>) -> viaduct_provider::ViBuilder<Shm> {
    nic.vi().max_transfer_bytes(TRANSFER_MAX).rdma_write(true)
}

/// Connects: the server waits, the client asks until it does.
pub(crate) fn connect(nic: &Nic<Shm>, vi: &mut Vi<Shm>, role: &Role) -> Outcome {
    let listener = nic.listen(role.port.as_bytes());
    if role.is_server {
        listener.accept(vi, LIMIT)?;
        return Ok(());
    }
    let start = Instant::now();
    loop {
        match vi.connect(listener.address(), LIMIT) {
            Ok(_) => return Ok(()),
            // Nobody waits there, yet.
            Err(error)
                if error.code() == ReturnCode::NoMatch
                    && LIMIT.is_some_and(|limit| start.elapsed() < limit) =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until the client has disconnected, so that nothing it still waits for is lost.
pub(crate) fn wait_for_leave(vi: &mut Vi<Shm>) -> Outcome {
    use viaduct_provider::via::ViState;

    let start = Instant::now();
    while vi.query()?.state == ViState::Connected
        && LIMIT.is_some_and(|limit| start.elapsed() < limit)
    {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
