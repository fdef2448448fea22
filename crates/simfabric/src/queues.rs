//! The message queues of CLAN's VIA, as far as they are counted.
//!
//! Each direction of a connection has two: cookies of posted receives go to the sender, messages of
//! the transfer queue to the receiver. What the sender writes is in its plan (`mechanism`); here is
//! what the receiver writes. It takes no time of its own: the fitted times of posting and of taking
//! a message hold it.

use viaduct_fabric::via::{ViId, ViState};
use viaduct_fabric::{Counts, ViHandle};

use crate::cluster::Cluster;
use crate::config::{Mechanism, QueueDesign, RemoteWriteModel};
use crate::counts;

/// What the other ends of one VI's queues were told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    vi: Option<ViId>,
    /// Receives, counted from the VI's first on.
    receives: u64,
    /// Slots read and not told.
    slots: u32,
}

impl RemoteWriteModel {
    /// Slots of a message of the transfer queue whose bytes go with it.
    pub(crate) fn inline_slots(&self, bytes: u32) -> u32 {
        let more = bytes.saturating_sub(self.inline_first_bytes);
        1 + more.div_ceil(self.inline_next_bytes.max(1))
    }
}

impl Cluster {
    /// The receiver of a connection tells its sender of receives that it has not told of.
    pub(crate) fn tell_receives(&mut self, host: u32, vi: ViHandle) {
        let Mechanism::RemoteWrites(model) = &self.config.host.mechanism else {
            return;
        };
        let state = &mut self.hosts[host as usize];
        let Some((_, vi)) = state.agent.place_of(vi) else {
            return;
        };
        let mut told = state.line(vi).told;
        if told.vi != Some(vi) {
            told = Told {
                vi: Some(vi),
                ..Told::default()
            };
        }
        let nic = state.nic();
        let is_connected = nic.vi_state(vi) == Some(ViState::Connected);
        let (mut cookies, mut indexes) = (0, 0);
        if is_connected {
            let (posted, receives) = nic.receives_posted_since(vi, told.receives);
            if posted == told.receives {
                return;
            }
            let mut receives_told = 0;
            for segments in receives {
                let bytes: u64 = segments
                    .iter()
                    .map(|segment| u64::from(segment.length))
                    .sum();
                receives_told += 1;
                match model.queues {
                    QueueDesign::Indexed => cookies += 1 + segments.len() as u64,
                    // Where a message may be longer than goes inline, and lies in one piece.
                    QueueDesign::Lapped => {
                        let takes_cookie =
                            segments.len() == 1 && bytes > u64::from(model.inline_bytes);
                        cookies += u64::from(takes_cookie);
                    }
                }
            }
            indexes = match model.queues {
                QueueDesign::Indexed => cookies,
                QueueDesign::Lapped => u64::from(receives_told > 0),
            };
            told.receives = posted;
        } else {
            // A new connection begins with new queues.
            told.slots = 0;
        }
        state.line(vi).told = told;
        state.counts.cookies += cookies;
        state.counts.indexes += indexes;
    }

    /// A receiver has read a message of the transfer queue, which took so many slots.
    pub(crate) fn tell_read(&mut self, host: u32, vi: ViId, slots: u32, at_once: bool) {
        let Mechanism::RemoteWrites(model) = &self.config.host.mechanism else {
            return;
        };
        let state = &mut self.hosts[host as usize];
        let line = state.line(vi);
        line.told.slots += slots;
        if at_once || line.told.slots >= model.returned_every {
            line.told.slots = 0;
            state.counts.returns += 1;
        }
    }

    /// What all hosts have counted together.
    pub(crate) fn all_counts(&self) -> counts::Counts {
        let zero = Counts::default();
        let together = self.hosts.iter().fold(zero, |sum, host| sum + host.counts);
        counts::Counts {
            // With those below VIA.
            remote_writes: self.counts.remote_writes + together.remote_writes(),
            dma_requests: self.counts.dma_requests + together.dma_requests(),
            ..self.counts
        }
    }
}
