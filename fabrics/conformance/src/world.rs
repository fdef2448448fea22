//! What a case may ask of the world around it: time, tasks, and the other side.
//!
//! Cases reach neither clock nor thread by themselves, so that they run in virtual time too.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Time and tasks.
pub trait World: Send + Sync {
    /// Time since some origin.
    fn now(&self) -> Duration;
    /// Lets time pass.
    fn sleep(&self, span: Duration);
    /// Called between two looks at something that will change: gives way to others, lets a little
    /// time pass.
    fn relax(&self);
    /// Runs `task` beside the caller.
    ///
    /// # Errors
    ///
    /// Why no task could be started.
    fn spawn(&self, name: &str, task: Box<dyn FnOnce() + Send>) -> Result<(), String>;
}

/// The way to the other side that does not lead over the fabric.
pub trait Link: Send + Sync {
    /// Sends bytes to the other side.
    ///
    /// # Errors
    ///
    /// Why not, for instance because the other side is gone.
    fn send(&self, bytes: &[u8]) -> Result<(), String>;
    /// Waits for bytes of the other side.
    ///
    /// # Errors
    ///
    /// Why not, for instance because `limit` passed.
    fn receive(&self, limit: Duration) -> Result<Vec<u8>, String>;
}

/// The machine's clock and threads.
#[derive(Debug)]
pub struct RealWorld {
    origin: Instant,
}

impl RealWorld {
    /// With an origin at this moment.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

/// A pause of a loop that looks again and again.
const RELAX_SPAN: Duration = Duration::from_micros(10);

impl Default for RealWorld {
    fn default() -> Self {
        Self::new()
    }
}

impl World for RealWorld {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn sleep(&self, span: Duration) {
        std::thread::sleep(span);
    }

    fn relax(&self) {
        // On a simulated host a turn of a loop takes as long, in which much may happen there; a
        // yield takes next to nothing, and a loop of them long to be over.
        std::thread::sleep(RELAX_SPAN);
    }

    fn spawn(&self, name: &str, task: Box<dyn FnOnce() + Send>) -> Result<(), String> {
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(task)
            .map(drop)
            .map_err(|error| format!("no thread could be started: {error}"))
    }
}

/// A link between two threads.
#[derive(Debug)]
pub struct ThreadLink {
    to: Sender<Vec<u8>>,
    from: Mutex<Receiver<Vec<u8>>>,
}

impl ThreadLink {
    /// Both ends of one.
    #[must_use]
    pub fn pair() -> [Self; 2] {
        let (to_second, from_first) = channel();
        let (to_first, from_second) = channel();
        let end = |to, from| Self {
            to,
            from: Mutex::new(from),
        };
        [end(to_second, from_second), end(to_first, from_first)]
    }
}

impl Link for ThreadLink {
    fn send(&self, bytes: &[u8]) -> Result<(), String> {
        self.to
            .send(bytes.to_vec())
            .map_err(|_| "it is gone".to_owned())
    }

    fn receive(&self, limit: Duration) -> Result<Vec<u8>, String> {
        let from = self.from.lock().map_err(|_| "a receive panicked")?;
        from.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("it did not come within {limit:?}"),
            RecvTimeoutError::Disconnected => "it is gone".to_owned(),
        })
    }
}

/// A link between two processes: a length of four bytes, then the bytes.
#[derive(Debug)]
pub struct SocketLink(pub UnixStream);

impl Link for SocketLink {
    fn send(&self, bytes: &[u8]) -> Result<(), String> {
        let length = u32::try_from(bytes.len()).map_err(|_| "more than 4 GiB at once")?;
        let mut frame = length.to_le_bytes().to_vec();
        frame.extend_from_slice(bytes);
        (&self.0)
            .write_all(&frame)
            .map_err(|error| error.to_string())
    }

    fn receive(&self, limit: Duration) -> Result<Vec<u8>, String> {
        let mut length = [0; 4];
        self.0
            .set_read_timeout(Some(limit))
            .and_then(|()| (&self.0).read_exact(&mut length))
            .map_err(|error| format!("within {limit:?}: {error}"))?;
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        (&self.0)
            .read_exact(&mut bytes)
            .map_err(|error| error.to_string())?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(10);

    fn both_ways(ends: [&dyn Link; 2]) {
        ends[0].send(b"to the second").unwrap();
        ends[1].send(b"").unwrap();
        assert_eq!(ends[1].receive(SHORT).unwrap(), b"to the second");
        assert_eq!(ends[0].receive(SHORT).unwrap(), b"");
        assert!(ends[0].receive(SHORT).is_err());
    }

    #[test]
    fn links_carry_whole_messages_both_ways() {
        let [first, second] = ThreadLink::pair();
        both_ways([&first, &second]);
        let (first, second) = UnixStream::pair().unwrap();
        both_ways([&SocketLink(first), &SocketLink(second)]);
    }

    #[test]
    fn an_end_that_is_gone_is_told() {
        let [first, second] = ThreadLink::pair();
        drop(second);
        assert!(first.receive(Duration::from_secs(60)).is_err());
        let (first, second) = UnixStream::pair().unwrap();
        drop(second);
        assert!(SocketLink(first).receive(Duration::from_secs(60)).is_err());
    }
}
