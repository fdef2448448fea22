//! Until when nothing comes to a host's queue pairs: a program that looks before then finds nothing
//! that it would not find now, and nobody has to be asked.

use viaduct_core::verbs::Answer;
use viaduct_engine::Time;
use viaduct_hardware::Mechanism;

use super::Programs;
use super::pairs::OF_PAIR;
use crate::cluster::Cluster;
use crate::message::MessageId;

/// A packet or an answer that has begun to move to a queue pair of a host.
#[derive(Debug)]
pub(crate) struct Coming {
    id: MessageId,
    /// When its first byte is there; zero where that is not known.
    head: Time,
    /// The place of the queue pair whose sends it acknowledges, if that is all it does.
    acknowledged: Option<u32>,
}

impl<P: Programs> Cluster<P> {
    /// A packet or an answer of a queue pair has begun to move.
    pub(crate) fn expect_at_pair(&mut self, id: MessageId, head: Option<Time>) {
        let message = self.messages.get(id);
        let target = message.target;
        let pair = message.connection & !(super::OF_PROGRAM | OF_PAIR);
        let is_acknowledged = matches!(self.answer_of(id), Some(Answer::Acknowledged { .. }));
        self.guests.coming[target as usize].push(Coming {
            id,
            head: head.unwrap_or(Time::ZERO),
            acknowledged: is_acknowledged.then_some(pair),
        });
    }

    /// All of it is there.
    pub(super) fn come_to_pair(&mut self, id: MessageId) {
        let target = self.messages.get(id).target;
        let coming = &mut self.guests.coming[target as usize];
        if let Some(place) = coming.iter().position(|coming| coming.id == id) {
            coming.swap_remove(place);
        }
    }

    /// Before when nothing comes to the queue pairs of a place that their programs are told of, of
    /// what is under way and of what anybody begins with from now on; none: it is not known, as
    /// where something may fail. It does not know of timers, nor of what ends where it began.
    #[must_use]
    pub fn quiet_until(&self, place: u32) -> Option<Time> {
        if self.failures.is_some() || !self.network.is_cut_through() {
            return None;
        }
        let is_told = |coming: &&Coming| {
            let pair = coming.acknowledged;
            pair.is_none_or(|pair| self.programs.tells_of_acknowledgements(place, pair))
        };
        let coming = self.guests.coming[place as usize].iter().filter(is_told);
        let from_now = self.queue.now() + self.guests.lead;
        Some(coming.map(|coming| coming.head).fold(from_now, Time::min))
    }
}

/// How long whatever begins to move is on its way at least: the latency that adapters have alone.
pub(super) fn least_lead<'a>(mechanisms: impl Iterator<Item = &'a Mechanism>) -> Time {
    let lead = |mechanism: &Mechanism| match mechanism {
        Mechanism::Rdma(model) => model.adapters,
        _ => Time::ZERO,
    };
    mechanisms.map(lead).min().unwrap_or(Time::ZERO)
}
