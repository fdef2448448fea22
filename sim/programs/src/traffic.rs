//! The transfers of background traffic: others on the same links and buses, beside the programs.

use viaduct_cluster::background::Sources;
use viaduct_engine::Time;
use viaduct_network::{Moved, Next};

use crate::cluster::Cluster;
use crate::event::Event;

/// What the flows of background traffic are tagged with: no message has this number.
pub(crate) const TAG: u32 = u32::MAX;

/// The background traffic of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Generators {
    sources: Sources,
    /// Events of theirs that are to come: the starts and ends of transfers.
    pub(crate) pending: usize,
}

impl Cluster {
    /// Schedules the first transfer of each source.
    ///
    /// # Panics
    ///
    /// For a source that cannot be.
    pub(crate) fn expect_traffic(&mut self) {
        let config = &self.config;
        let hosts = config.topology.host_count();
        let mut sources = match Sources::new(&config.background, hosts, config.seed) {
            Ok(sources) => sources,
            Err(error) => panic!("{error}"),
        };
        for (place, first) in sources.first() {
            self.expect_transfer(place, first);
        }
        self.generators.sources = sources;
    }

    fn expect_transfer(&mut self, place: u32, time: Time) {
        self.generators.pending += 1;
        self.queue.schedule(time, Event::Transfers(place).into());
    }

    /// A source starts a transfer.
    pub(crate) fn handle_transfer(&mut self, place: u32) {
        let (now, frame) = (self.queue.now(), self.config.links.frame);
        let (transfer, next) = self.generators.sources.draw(place, now, frame, TAG);
        self.network.begin(&mut self.queue, &transfer);
        // The event that has just happened made room for the transfer's end.
        if let Some(next) = next {
            self.expect_transfer(place, next);
        }
    }

    /// A transfer has moved, over its whole way or a hop of it.
    pub(crate) fn transfer_moved(&mut self, moved: &Moved) {
        match moved.next {
            Next::There => {
                self.generators.pending -= 1;
                self.counts.transfers += 1;
            }
            Next::AtSwitch(journey, after) | Next::AtAdapter(journey, after) => {
                self.forward_after(journey, after);
            }
        }
    }

    /// Whether nothing is to come but background traffic.
    pub(crate) fn is_quiet(&self) -> bool {
        self.queue.pending() <= self.generators.pending
    }
}
