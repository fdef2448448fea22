//! Connecting: who asks, who accepts, and what is told if it does not come about.

use std::thread;
use std::time::{Duration, Instant};

use viaduct_programs::Process;
use viaduct_provider::via::Address;
use viaduct_provider::{Error, Listener, Provider, Result, ReturnCode, Vi, ViHandle};

/// The first pause of whoever finds nobody listening, and the longest: they double.
const PAUSE_MIN: Duration = Duration::from_micros(10);
const PAUSE_MAX: Duration = Duration::from_millis(1);

/// Time, as it passes where an end waits.
pub(crate) trait Clock {
    /// How long to ask where nobody listens, if nobody says.
    const PATIENCE: Duration;

    /// The time since some beginning.
    fn now(&self) -> Duration;

    /// Lets so much of it pass.
    fn sleep(&self, span: Duration);

    /// How long it is worth to look again and again before sleeping.
    fn spin_time() -> Duration;
}

impl Clock for Process {
    const PATIENCE: Duration = Duration::from_secs(1);

    fn now(&self) -> Duration {
        self.now()
    }

    fn sleep(&self, span: Duration) {
        self.sleep(span);
    }

    fn spin_time() -> Duration {
        Duration::ZERO
    }
}

/// Since an instant, between processes of this machine.
impl Clock for Instant {
    const PATIENCE: Duration = Duration::from_secs(10);

    fn now(&self) -> Duration {
        self.elapsed()
    }

    fn sleep(&self, span: Duration) {
        thread::sleep(span);
    }

    fn spin_time() -> Duration {
        viaduct_shm::spin_time()
    }
}

/// Who asks, as the discriminator of its address: its rank, and the VI, since no two ask from one
/// address.
pub(crate) fn asking(rank: usize, vi: ViHandle) -> Vec<u8> {
    let mut bytes = (rank as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&vi.bits().to_le_bytes());
    bytes
}

/// The rank of whoever asks from an address; a process that is none of the run's may say anything.
pub(crate) fn rank_of(remote: &Address) -> Option<usize> {
    let rank = remote.discriminator.as_bytes().first_chunk()?;
    Some(u32::from_le_bytes(*rank) as usize)
}

/// The result of a meeting: the rank of whoever asked, of one that was accepted.
pub(crate) type Met = Result<Option<usize>>;

/// How a VI meets its peer.
pub(crate) enum Meeting<P: Provider> {
    /// The host of this rank asks there.
    Connect { rank: usize, remote: Address },
    /// Somebody is waited for.
    Accept(Listener<P>),
}

impl<P: Provider> Meeting<P> {
    /// Blocks until the VI is connected, for so long at most.
    pub(crate) fn meet(&self, clock: &impl Clock, vi: &mut Vi<P>, limit: Option<Duration>) -> Met {
        match self {
            Self::Connect { rank, remote } => ask(clock, vi, *rank, remote, limit),
            Self::Accept(listener) => accept(listener, vi, limit),
        }
    }
}

/// Asks until somebody listens.
fn ask<P: Provider, C: Clock>(
    clock: &C,
    vi: &mut Vi<P>,
    rank: usize,
    remote: &Address,
    limit: Option<Duration>,
) -> Met {
    let own = asking(rank, vi.handle());
    let until = clock.now() + limit.unwrap_or(C::PATIENCE);
    let mut pause = PAUSE_MIN;
    loop {
        let left = limit.map(|_| until.saturating_sub(clock.now()));
        match vi.connect_as(&own, remote, left) {
            Ok(_) => return Ok(None),
            Err(error) if error.code() == ReturnCode::NoMatch && clock.now() + pause < until => {
                clock.sleep(pause);
                pause = PAUSE_MAX.min(pause * 2);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Waits for a request and accepts it; who asked.
pub(crate) fn accept<P: Provider>(
    listener: &Listener<P>,
    vi: &mut Vi<P>,
    limit: Option<Duration>,
) -> Met {
    let mut request = listener.request(limit)?;
    request.accept(vi)?;
    Ok(rank_of(request.remote()))
}

/// What a person should know of a connection that did not come about.
pub(crate) fn explained(error: &Error, name: Option<&str>) -> String {
    match (error.code(), name) {
        (ReturnCode::NoMatch, Some(name)) => format!(
            "{error}: {name} accepts no connection at this port; it has to wait in accept() \
             while others connect"
        ),
        _ => error.to_string(),
    }
}
