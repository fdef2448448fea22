//! Requests of an Active Message endpoint, in the time of its host.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use viaduct_am::{
    Body, Carrier, Endpoint, HandlerId, Handlers, Key, MTU_BYTES, Options, Reason, WORDS_MAX,
};
use viaduct_statistics::LogHistogram;

use super::{Burst, Elapsed, Requests};
use crate::error::{MeasureError, Result};
use crate::host::Host;
use crate::patience::Patience;

/// A request whose reply has its words.
pub(super) const SMALL: HandlerId = HandlerId::of(0);
/// A bulk request whose reply has its words.
pub(super) const SINK: HandlerId = HandlerId::of(1);
/// A bulk request whose reply has its bytes.
const ECHO: HandlerId = HandlerId::of(2);
/// Every reply.
const ANSWER: HandlerId = HandlerId::of(0);

/// What a client does that takes no reply.
pub(super) const WAITING: &str = "waiting for the reply to a request";

/// Where a server is in the translation table.
pub(super) const SERVER: usize = 0;

/// What the handlers of either side note.
#[derive(Clone, Debug, Default)]
pub struct RequestState {
    /// Replies that came.
    pub replies: u64,
    /// Why a message came back, if one did.
    pub returned: Option<Reason>,
    /// From when on latencies are noted, if they are.
    pub(super) latencies_from_ns: Option<u64>,
    /// When the program last looked at the clock.
    pub(super) now_ns: u64,
    /// From the moment in the first word of a reply until it was taken, nanoseconds.
    pub(super) latencies_ns: LogHistogram,
}

/// The handlers of both sides: an endpoint that polls is a server.
#[must_use]
pub fn request_handlers<C: Carrier>() -> Arc<Handlers<C, RequestState>> {
    // As many words as a request had are not too many: no reply is refused.
    let handlers = Handlers::new(|state: &mut RequestState, returned| {
        state.returned = Some(returned.reason);
    })
    .on_request(SMALL, |_, request| {
        let mut words = [0; WORDS_MAX];
        let count = request.words().len();
        words[..count].copy_from_slice(request.words());
        let _ = request.reply(ANSWER, &words[..count]);
    })
    .on_request(SINK, |_, request| {
        let word = request.words().first().copied().unwrap_or_default();
        let _ = request.reply(ANSWER, &[word, 0]);
    })
    .on_request(ECHO, |_, request| {
        let word = request.words().first().copied().unwrap_or_default();
        let _ = request.echo(ANSWER, &[word, 0]);
    })
    .on_reply(ANSWER, |state, reply| {
        state.replies += 1;
        if state
            .latencies_from_ns
            .is_some_and(|from_ns| state.now_ns >= from_ns)
        {
            let sent_ns = reply.words().first().copied().unwrap_or_default();
            state
                .latencies_ns
                .record(state.now_ns.saturating_sub(sent_ns));
        }
    });
    Arc::new(handlers)
}

/// Options of either side's endpoint: a segment for the longest message.
#[must_use]
pub const fn request_options(key: Key) -> Options {
    let mut options = Options::new(key);
    options.segment_bytes = MTU_BYTES;
    options
}

/// Makes the requests of a measurement, from an endpoint with [`request_handlers`].
pub struct Prober<'host, C: Carrier, H: Host> {
    endpoint: Endpoint<C, RequestState>,
    host: &'host H,
    /// What a look at the clock takes.
    clock_ns: f64,
    payload: Vec<u8>,
    repetitions: Option<u32>,
    limit: Option<Duration>,
}

impl<'host, C: Carrier, H: Host> Prober<'host, C, H> {
    /// From an endpoint whose table leads to a server at index 0. Makes each burst so often, if
    /// that is said.
    pub fn new(
        endpoint: Endpoint<C, RequestState>,
        host: &'host H,
        repetitions: Option<u32>,
    ) -> Self {
        Self {
            endpoint,
            host,
            clock_ns: clock_ns(host),
            payload: vec![0x5a; MTU_BYTES],
            repetitions,
            limit: None,
        }
    }

    /// With so much time for the bursts of a figure: see [`Requests::limit`].
    #[must_use]
    pub const fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The endpoint again.
    #[must_use]
    pub fn into_endpoint(self) -> Endpoint<C, RequestState> {
        self.endpoint
    }

    /// Replies that the last burst had.
    #[must_use]
    pub const fn replies(&self) -> u64 {
        self.endpoint.state().replies
    }

    #[inline]
    fn send(&mut self, burst: Burst) -> Result<()> {
        let bytes = (burst.bytes as usize).min(MTU_BYTES);
        let words = bytes.div_ceil(size_of::<u64>());
        let sent = if words <= WORDS_MAX {
            // A short reply has as many words: it is an echo too.
            let values = [0; WORDS_MAX];
            self.endpoint.request(SERVER, SMALL, &values[..words])
        } else {
            let handler = if burst.is_echoed { ECHO } else { SINK };
            let body = Body::Bulk {
                offset: 0,
                bytes: &self.payload[..bytes],
            };
            self.endpoint.request_with(SERVER, handler, &[0], body)
        };
        sent.map_err(|error| MeasureError::Impossible {
            reason: format!("cannot send a request: {error}"),
        })
    }

    /// Takes replies until no more than so many requests wait for theirs.
    fn drain(&mut self, outstanding: u32) -> Result<()> {
        const LOOKS: u32 = 4096;

        let mut looks = 0_u32;
        let mut patience = Patience::default();
        while self.endpoint.outstanding() > outstanding {
            if self.endpoint.poll() > 0 {
                patience = Patience::default();
                continue;
            }
            self.host.relax();
            looks += 1;
            if !looks.is_multiple_of(LOOKS) {
                continue;
            }
            if let Some(reason) = self.host.stop_reason() {
                return Err(MeasureError::Stopped { reason });
            }
            patience.look(WAITING, self.host.now_ns())?;
        }
        match self.endpoint.state().returned {
            Some(reason) => Err(MeasureError::Returned { reason }),
            None => Ok(()),
        }
    }
}

impl<C: Carrier, H: Host> fmt::Debug for Prober<'_, C, H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Prober")
            .field("endpoint", &self.endpoint)
            .field("clock_ns", &self.clock_ns)
            .finish_non_exhaustive()
    }
}

impl<C: Carrier, H: Host> Requests for Prober<'_, C, H> {
    fn burst(&mut self, burst: Burst) -> Result<Elapsed> {
        if let Some(reason) = self.host.stop_reason() {
            return Err(MeasureError::Stopped { reason });
        }
        self.endpoint.state_mut().replies = 0;
        let credits = self.endpoint.credits();
        let mut computed_ps = 0;
        let start_ps = self.host.now_ps();
        let mut issued_ps = start_ps;
        for left in (0..burst.requests).rev() {
            if self.endpoint.credits() == 0 {
                self.drain(credits - 1)?;
            }
            self.send(burst)?;
            if left == 0 {
                issued_ps = self.host.now_ps();
                break;
            }
            if burst.delay_ns > 0 {
                computed_ps += self.host.compute(burst.delay_ns);
            }
            self.endpoint.poll();
        }
        self.drain(0)?;
        let finished_ps = self.host.now_ps();
        // The clock was read once more for each delay than what was computed contains.
        let delays = if burst.delay_ns > 0 {
            burst.requests
        } else {
            1
        };
        let clock_ns = self.clock_ns * f64::from(delays);
        let without = |end_ps: u64| (end_ps - start_ps - computed_ps) as f64 / 1e3 - clock_ns;
        Ok(Elapsed {
            issued_ns: without(issued_ps),
            finished_ns: without(finished_ps),
        })
    }

    fn repetitions(&self, burst: Burst) -> u32 {
        const REQUESTS: u32 = 20_000;
        let usual = (REQUESTS / burst.requests).clamp(9, 2_001);
        self.repetitions.unwrap_or(usual)
    }

    fn limit(&self) -> Option<Duration> {
        self.limit
    }
}

/// What a look at the clock takes: the median of many.
fn clock_ns(host: &impl Host) -> f64 {
    const LOOKS: u32 = 64;
    let mut times: Vec<u64> = (0..101)
        .map(|_| {
            let start_ns = host.now_ns();
            let mut now_ns = start_ns;
            for _ in 0..LOOKS {
                now_ns = host.now_ns();
            }
            now_ns - start_ns
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2] as f64 / f64::from(LOOKS)
}
