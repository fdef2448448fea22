//! Packets between processes of this machine that the system has yet to bring: on a busy machine a
//! thread of the system does that later, and the receiver sleeps meanwhile as if nothing came.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

/// How long one packet may take.
const LIMIT: Duration = Duration::from_millis(100);

/// A socket that is connected with itself.
///
/// What one core sends to its own machine is brought in order: when a packet comes that was sent
/// here, all have come that clients have sent before, on the same core
/// ([`crate::pin_to_one_core`]).
#[derive(Debug)]
pub(super) struct Loopback(Option<UdpSocket>);

impl Loopback {
    pub(super) fn new() -> Self {
        let made = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| {
            socket.connect(socket.local_addr()?)?;
            socket.set_read_timeout(Some(LIMIT))?;
            Ok(socket)
        });
        // A system without such addresses has none of those packets.
        Self(made.ok())
    }

    /// Returns when all packets have come that were sent before.
    pub(super) fn settle(&self) {
        let Some(socket) = &self.0 else { return };
        // One that took too long may come instead: it was sent before, too.
        if socket.send(&[0]).is_ok() {
            let _ = socket.recv(&mut [0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_before_has_come() {
        crate::pin_to_one_core().unwrap();
        let loopback = Loopback::new();
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        receiver.set_nonblocking(true).unwrap();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for number in 0..100 {
            let to = receiver.local_addr().unwrap();
            sender.send_to(&[number], to).unwrap();
            loopback.settle();
            let mut got = [0];
            assert_eq!(receiver.recv(&mut got).unwrap(), 1);
            assert_eq!(got, [number]);
        }
    }
}
