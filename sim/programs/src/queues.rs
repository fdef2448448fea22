//! The message queues of CLAN's VIA, as far as they are counted.
//!
//! Each direction of a connection has two: cookies of posted receives go to the sender, messages of
//! the transfer queue to the receiver. What the sender writes is in its plan (`mechanism`); here is
//! what the receiver writes. It takes no time of its own: the fitted times of posting and of taking
//! a message hold it.

use viaduct_provider::via::{Queue, ViId};
use viaduct_provider::{Counts, ViHandle};

use crate::cluster::{Cluster, Hosted};
use crate::counts;
use crate::host::{DEVICE, Host};
use viaduct_hardware::{Mechanism, QueueDesign};

/// What the other ends of one VI's queues were told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    vi: Option<ViId>,
    /// Receives, counted from the VI's first on.
    receives: u64,
    /// Slots read and not told.
    slots: u32,
    /// By queue: whether it was settled if it needs a tripwire.
    is_arranged: [bool; 2],
}

impl Told {
    /// Notes that it is settled whether a VI's queue needs a tripwire; whether it was.
    #[inline]
    pub(crate) fn note_arranged(&mut self, queue: Queue) -> bool {
        core::mem::replace(&mut self.is_arranged[queue as usize], true)
    }

    /// What the other ends of a VI's queues were told, of which this is the place.
    #[inline]
    pub(crate) fn of(&mut self, vi: ViId) -> &mut Self {
        if self.vi != Some(vi) {
            *self = Self {
                vi: Some(vi),
                ..Self::default()
            };
        }
        self
    }
}

impl Hosted {
    /// The receiver of a connection tells its sender of receives that it has not told of.
    pub(crate) fn tell_receives(cluster: &mut Cluster, host: u32, vi: ViHandle) {
        if let Some((_, vi)) = cluster.programs.host(host).agent.place_of(vi) {
            Self::tell_receives_of(cluster, host, vi);
        }
    }

    /// As [`Hosted::tell_receives`], of a VI that is there.
    pub(crate) fn tell_receives_of(cluster: &mut Cluster, host: u32, vi: ViId) {
        let Mechanism::RemoteWrites(model) = &cluster.config.host.of(host).mechanism else {
            return;
        };
        let state = &mut cluster.programs.hosts[host as usize];
        state.told(vi);
        let Host {
            agent,
            told,
            counts,
            ..
        } = state;
        let told = &mut told[vi.index() as usize];
        let nic = &agent.devices[DEVICE].nic;
        let Some((posted, receives)) = nic.receives_posted_since(vi, told.receives) else {
            // A new connection begins with new queues.
            told.slots = 0;
            return;
        };
        if posted == told.receives {
            return;
        }
        let (mut cookies, mut receives_told) = (0, 0);
        for segments in receives {
            receives_told += 1;
            match model.queues {
                QueueDesign::Indexed => cookies += 1 + segments.len() as u64,
                // Where a message may be longer than goes inline, and lies in one piece.
                QueueDesign::Lapped => {
                    let takes_cookie = matches!(segments, [segment]
                        if segment.length > model.inline_bytes);
                    cookies += u64::from(takes_cookie);
                }
            }
        }
        let indexes = match model.queues {
            QueueDesign::Indexed => cookies,
            QueueDesign::Lapped => u64::from(receives_told > 0),
        };
        told.receives = posted;
        counts.cookies += cookies;
        counts.indexes += indexes;
    }

    /// A receiver has read a message of the transfer queue, which took so many slots.
    pub(crate) fn tell_read(cluster: &mut Cluster, host: u32, vi: ViId, slots: u32, at_once: bool) {
        let Mechanism::RemoteWrites(model) = &cluster.config.host.of(host).mechanism else {
            return;
        };
        let state = &mut cluster.programs.hosts[host as usize];
        let told = state.told(vi);
        told.slots += slots;
        if at_once || told.slots >= model.returned_every {
            told.slots = 0;
            state.counts.returns += 1;
        }
    }

    /// What all hosts have counted together.
    pub(crate) fn all_counts(cluster: &Cluster) -> counts::Counts {
        let zero = Counts::default();
        let hosts = cluster.programs.hosts.iter();
        let together = hosts.fold(zero, |sum, host| sum + host.counts);
        let own = Self::counts(cluster);
        counts::Counts {
            // With those below VIA.
            remote_writes: own.remote_writes + together.remote_writes(),
            dma_requests: own.dma_requests + together.dma_requests(),
            ..own
        }
    }

    /// What was counted of the simulation as a whole.
    pub(crate) fn counts(cluster: &Cluster) -> counts::Counts {
        let carried = cluster.program_counts();
        let own = cluster.programs.counts;
        counts::Counts {
            messages: carried.messages,
            lost: own.lost + carried.lost,
            retransmissions: own.retransmissions + carried.retransmissions,
            corrupted: own.corrupted + carried.corrupted,
            connections_broken: carried.connections_broken,
            transfers: cluster.transfers(),
            ..own
        }
    }
}
