//! Many clients of one server.

use crate::links::{LinkRow, busiest};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use viaduct_am::{Body, Carrier, Endpoint, MTU_BYTES, WORDS_MAX};
use viaduct_statistics::LogHistogram;

use super::prober::{SERVER, SINK, SMALL, WAITING};
use super::{RequestState, RequestTest};
use crate::error::{MeasureError, Result};
use crate::host::Host;
use crate::origin::Origin;
use crate::patience::Patience;
use crate::report::{aligned, grouped, significant};

/// How a server's endpoints are made and served.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerKind {
    /// One endpoint that all clients share.
    One,
    /// An endpoint a client, served by one thread.
    St,
    /// An endpoint a client, each served by a thread.
    Mt,
}

impl ServerKind {
    /// Its name, as on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::St => "st",
            Self::Mt => "mt",
        }
    }
}

/// The results with one number of clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContentionRow {
    /// How the server is made.
    pub server: ServerKind,
    /// Frames of its interface; over shared memory, connections that stay.
    pub frames: u32,
    /// Bytes of a request.
    pub bytes: u32,
    /// Clients, with 32 requests outstanding each.
    pub clients: u32,
    /// Replies a second, of all clients.
    pub messages_s: f64,
    /// Bytes of their requests, 10^6 a second.
    pub mbyte_s: f64,
    /// Replies a second of the client that got fewest.
    pub client_min_s: f64,
    /// Replies a second of the client that got most.
    pub client_max_s: f64,
    /// Endpoints uploaded a second, on all interfaces; over shared memory, connections that the
    /// server's station made.
    pub remaps_s: f64,
    /// Requests refused for the time being, a second: their queue was full, or their endpoint in no
    /// frame.
    pub nacks_s: f64,
    /// From posting a request to having its reply, microseconds.
    pub latency_us: LatencySummary,
    /// How requests ended from the beginning on, if there were faults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<RequestEnds>,
    /// What the links of simulated hosts carried in the window, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkRow>,
}

impl ContentionRow {
    /// The busiest links, as text.
    fn busiest(&self) -> String {
        format!(
            "  {}, {} frames, {} clients: {}\n",
            self.server.name(),
            self.frames,
            self.clients,
            busiest(&self.links, significant)
        )
    }
}

/// How requests ended, while things went wrong.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct RequestEnds {
    /// Requests that were made.
    pub requests: u64,
    /// With a reply.
    pub replied: u64,
    /// Returned: refused for good.
    pub refused: u64,
    /// Returned: the server's interface was silent for long.
    pub unreachable: u64,
    /// Returned: the server's host rebooted before it acknowledged them.
    pub rebooted: u64,
    /// Returned: delivered, to a server that is gone or whose reply could not be delivered.
    pub unanswered: u64,
    /// Of those returned, how many may have been delivered.
    pub in_doubt: u64,
    /// Gone with their own host.
    pub forgotten: u64,
    /// Not ended yet.
    pub open: u64,
    /// Replies that were dropped, since their request had returned.
    pub late_replies: u64,
}

impl RequestEnds {
    fn line(&self, row: &ContentionRow) -> String {
        let returned = self.refused + self.unreachable + self.rebooted + self.unanswered;
        format!(
            "  {}, {} clients: {} requests: {} replied to, {returned} returned ({} refused, {} \
             unreachable, {} rebooted, {} unanswered; {} may have been delivered), {} gone with \
             their host, {} open; {} late replies\n",
            row.server.name(),
            row.clients,
            self.requests,
            self.replied,
            self.refused,
            self.unreachable,
            self.rebooted,
            self.unanswered,
            self.in_doubt,
            self.forgotten,
            self.open,
            self.late_replies
        )
    }
}

/// A distribution of latencies, microseconds, right to 6 %.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencySummary {
    /// The mean.
    pub mean: Option<f64>,
    /// The least.
    pub min: Option<f64>,
    /// Half are not above it.
    pub median: Option<f64>,
    /// 99 of 100 are not above it.
    pub p99: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
    /// Around which values most lie, least first.
    pub modes: Vec<LatencyMode>,
}

/// A mode of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyMode {
    /// Where, microseconds.
    pub us: f64,
    /// Of all requests.
    pub share: f64,
}

impl LatencySummary {
    /// Of nanoseconds.
    #[must_use]
    pub fn of_ns(histogram: &LogHistogram) -> Self {
        let at = |quantile| histogram.value_at(quantile).map(|ns| ns / 1e3);
        let modes = histogram.modes().into_iter().map(|mode| LatencyMode {
            us: mode.value / 1e3,
            share: mode.share,
        });
        Self {
            mean: histogram.mean().map(|ns| ns / 1e3),
            min: at(0.0),
            median: at(0.5),
            p99: at(0.99),
            max: at(1.0),
            modes: modes.collect(),
        }
    }
}

/// What one client of a contention measurement had.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ClientCounts {
    /// Replies in the window.
    pub replies: u64,
    /// The window, nanoseconds.
    pub window_ns: u64,
    /// Latencies in nanoseconds: bins of a [`LogHistogram`] and their counts.
    pub latency_bins: Vec<(usize, u64)>,
}

impl ClientCounts {
    /// Replies a second.
    #[must_use]
    pub fn messages_s(&self) -> f64 {
        self.replies as f64 / (self.window_ns.max(1) as f64 / 1e9)
    }
}

/// Keeps as many requests outstanding as there are credits; counts `window` after `warm_up`. Looks
/// `looks` times in vain before it sleeps.
///
/// # Errors
///
/// When a request came back, or nothing comes for 10 s.
pub fn contend<C: Carrier>(
    endpoint: &mut Endpoint<C, RequestState>,
    host: &impl Host,
    bytes: u32,
    warm_up: Duration,
    window: Duration,
    looks: u32,
) -> Result<ClientCounts> {
    const NAP: Duration = Duration::from_millis(5);

    let payload = [0x5a; MTU_BYTES];
    let bytes = (bytes as usize).min(MTU_BYTES);
    let words = bytes.div_ceil(size_of::<u64>()).max(1);
    let start_ns = host.now_ns();
    let from_ns = start_ns + warm_up.as_nanos() as u64;
    let end_ns = from_ns + window.as_nanos() as u64;
    endpoint.state_mut().latencies_from_ns = Some(from_ns);
    let mut before = None;
    let mut patience = Patience::default();
    let mut looked = 0;
    let now_ns = loop {
        let now_ns = host.now_ns();
        endpoint.state_mut().now_ns = now_ns;
        if before.is_none() && now_ns >= from_ns {
            before = Some((now_ns, endpoint.state().replies));
        }
        if now_ns >= end_ns {
            break now_ns;
        }
        let mut has_sent = false;
        while endpoint.credits() > 0 {
            let mut values = [0; WORDS_MAX];
            values[0] = now_ns;
            let sent = if words <= WORDS_MAX {
                endpoint.try_request(SERVER, SMALL, &values[..words], Body::Short)
            } else {
                let body = Body::Bulk {
                    offset: 0,
                    bytes: &payload[..bytes],
                };
                endpoint.try_request(SERVER, SINK, &values[..1], body)
            };
            match sent {
                Ok(()) => has_sent = true,
                Err(error) if error.is_back_pressure() => break,
                Err(error) => {
                    return Err(MeasureError::Impossible {
                        reason: format!("cannot send a request: {error}"),
                    });
                }
            }
        }
        endpoint.state_mut().now_ns = host.now_ns();
        if endpoint.poll() > 0 || has_sent {
            patience = Patience::default();
            looked = 0;
        } else if looked < looks {
            looked += 1;
            host.relax();
        } else {
            // It ends with news, or for the next look at the clock.
            let _ = endpoint.wait(viaduct_am::EventMask::ALL, Some(NAP));
        }
        if let Some(reason) = endpoint.state().returned {
            return Err(MeasureError::Returned { reason });
        }
        if let Some(reason) = host.stop_reason() {
            return Err(MeasureError::Stopped { reason });
        }
        patience.look(WAITING, now_ns)?;
    };
    let (since_ns, replies) = before.unwrap_or((start_ns, 0));
    let state = endpoint.state();
    Ok(ClientCounts {
        replies: state.replies - replies,
        window_ns: now_ns - since_ns,
        latency_bins: state.latencies_ns.bins().collect(),
    })
}

/// The results of contention on one fabric.
#[derive(Clone, Debug, Serialize)]
pub struct ContentionReport {
    /// The fabric's name.
    pub fabric: String,
    /// The program.
    pub test: RequestTest,
    /// Where and when it was measured, and by what.
    #[serde(flatten)]
    pub origin: Origin,
    /// Of each row, measured after a tenth of it: simulated seconds, or this machine's.
    pub seconds: f64,
    /// One row per set-up and number of clients.
    pub rows: Vec<ContentionRow>,
}

impl ContentionReport {
    /// As one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Numbers, names and lists: nothing in it can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The rows for a person.
    #[must_use]
    pub fn table(&self) -> String {
        let heads = [
            "server",
            "frames",
            "clients",
            "messages/s",
            "MB/s",
            "client min/s",
            "max/s",
            "remaps/s",
            "nacks/s",
            "median us",
            "p99 us",
            "modes us (share)",
        ];
        let rows = self.rows.iter().map(|row| {
            let us = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), significant);
            let modes = shown_modes(&row.latency_us.modes);
            vec![
                row.server.name().to_owned(),
                row.frames.to_string(),
                row.clients.to_string(),
                grouped(row.messages_s),
                significant(row.mbyte_s),
                grouped(row.client_min_s),
                grouped(row.client_max_s),
                grouped(row.remaps_s),
                grouped(row.nacks_s),
                us(row.latency_us.median),
                us(row.latency_us.p99),
                modes,
            ]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let bytes = self.rows.first().map_or(0, |row| row.bytes);
        let ends = self.rows.iter();
        let ends: String = ends.filter_map(|row| Some(row.ends?.line(row))).collect();
        let links = self.rows.iter().filter(|row| !row.links.is_empty());
        let links: String = links.map(ContentionRow::busiest).collect();
        let below = [ends, links].map(|lines| {
            if lines.is_empty() {
                lines
            } else {
                format!("\n{lines}")
            }
        });
        format!(
            "contention over {}: requests of {bytes} bytes from many clients to one server, {} s a \
             row\n\n{}{}",
            self.fabric,
            self.seconds,
            aligned(&heads, &rows),
            below.concat()
        )
    }
}
/// The largest modes from a hundredth of all on, in the order of their times, and how many others.
fn shown_modes(modes: &[LatencyMode]) -> String {
    const SHOWN: usize = 5;

    let mut modes: Vec<&LatencyMode> = modes.iter().filter(|mode| mode.share >= 0.01).collect();
    modes.sort_by(|one, other| other.share.total_cmp(&one.share));
    let others = modes.len().saturating_sub(SHOWN);
    modes.truncate(SHOWN);
    modes.sort_by(|one, other| one.us.total_cmp(&other.us));
    let mut shown: Vec<String> = modes
        .iter()
        .map(|mode| format!("{} ({:.0} %)", significant(mode.us), mode.share * 100.0))
        .collect();
    if others > 0 {
        shown.push(format!("{others} more"));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_modes_the_largest_are_shown() {
        let mode = |(us, percent): (f64, u32)| LatencyMode {
            us,
            share: f64::from(percent) / 100.0,
        };
        let many = [
            (10.0, 3),
            (20.0, 40),
            (30.0, 2),
            (40.0, 20),
            (50.0, 15),
            (60.0, 10),
            (70.0, 9),
        ];
        assert_eq!(
            shown_modes(&many.map(mode)),
            "20.0 (40 %), 40.0 (20 %), 50.0 (15 %), 60.0 (10 %), 70.0 (9 %), 2 more"
        );
        assert_eq!(shown_modes(&[mode((258.0, 100))]), "258 (100 %)");
    }
}
