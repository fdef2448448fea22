//! Packets between processes of this machine that the system has yet to bring: on a busy machine a
//! thread of the system does that later, and the receiver sleeps meanwhile as if nothing came.

use std::cell::Cell;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

/// How long one packet may take.
const LIMIT: Duration = Duration::from_secs(1);

/// A socket that is connected with itself.
///
/// What one core sends to its own machine is brought in order: when a packet comes that was sent
/// here, all have come that clients have sent before, on the same core
/// ([`crate::pin_to_one_core`]).
#[derive(Debug)]
pub(super) struct Loopback {
    socket: Option<UdpSocket>,
    /// Counts packets.
    sent: Cell<u64>,
}

impl Loopback {
    pub(super) fn new() -> Self {
        let made = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| {
            socket.connect(socket.local_addr()?)?;
            socket.set_read_timeout(Some(LIMIT))?;
            Ok(socket)
        });
        Self {
            // A system without such addresses has none of those packets.
            socket: made.ok(),
            sent: Cell::new(0),
        }
    }

    /// Returns when all packets have come that were sent before.
    pub(super) fn settle(&self) {
        let Some(socket) = &self.socket else { return };
        let number = self.sent.get() + 1;
        self.sent.set(number);
        if socket.send(&number.to_ne_bytes()).is_err() {
            return;
        }
        // One that was given up may come first: what was sent after it may not have come yet.
        let mut got = [0; 8];
        while socket.recv(&mut got).is_ok() && u64::from_ne_bytes(got) != number {}
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

    #[test]
    fn a_packet_that_was_given_up_does_not_stand_for_a_later_one() {
        crate::pin_to_one_core().unwrap();
        let loopback = Loopback::new();
        let socket = loopback.socket.as_ref().unwrap();
        socket.send(&7_u64.to_ne_bytes()).unwrap();
        loopback.settle();
        // It has also taken the packet that it sent itself: the next call finds none.
        socket.set_nonblocking(true).unwrap();
        let left = socket.recv(&mut [0; 8]).unwrap_err();
        assert_eq!(left.kind(), std::io::ErrorKind::WouldBlock);
    }
}
