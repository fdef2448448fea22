//! What links of simulated hosts carried, for tables and documents.

use serde::{Deserialize, Serialize};

/// What one direction of a link carried.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LinkRow {
    /// `host0 -> leaf0`.
    pub link: String,
    /// Packets and answers that crossed it, where there are packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Bytes, with headers.
    pub bytes: u64,
    /// The part of the time in which packets held it; where they share links, its utilisation.
    pub busy_fraction: f64,
    /// Most bytes that were in its queue at once, where frames go one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_max_bytes: Option<u64>,
    /// Frames that found its queue full, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_lost: Option<u64>,
    /// Frames that found it full and were cut to their headers, where any were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_trimmed: Option<u64>,
    /// Frames that its queue marked, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_marked: Option<u64>,
    /// How often it was told to pause, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pauses: Option<u64>,
    /// For how long it paused, picoseconds, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_ps: Option<u64>,
}

/// The busiest of some links, as text: `shown` writes how busy each was, in percent.
pub fn busiest(links: &[LinkRow], shown: impl Fn(f64) -> String) -> String {
    /// So many are told; the document has them all.
    const TOLD_MAX: usize = 5;

    let mut sorted: Vec<&LinkRow> = links.iter().collect();
    sorted.sort_by(|one, other| other.busy_fraction.total_cmp(&one.busy_fraction));
    let told = sorted.iter().take(TOLD_MAX).map(|link| {
        let percent = shown(link.busy_fraction * 100.0);
        format!("{} {percent} %", link.link)
    });
    let told: Vec<String> = told.collect();
    format!("busiest of {} links: {}", links.len(), told.join(", "))
}
