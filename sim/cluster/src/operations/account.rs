//! Where the time of ranks went, and what came out of an application.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use viaduct_engine::Time;

use super::Operations;
use super::busy::Busy;
use crate::cluster::Cluster;
use crate::programs::Programs;
use crate::result::{ApplicationResult, Ended, RankRow, Warning};
use crate::trace::Span;
use crate::workload::LOST;

/// What is kept of a rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Rank {
    /// When the last of its operations ended.
    pub(super) end: Time,
    /// For how long its processors have computed.
    pub(super) computing: Time,
    /// Of that, on the processor that handles messages, or on its own first one.
    pub(super) computing_first: Time,
    /// For how long the processor of its host has worked for its messages.
    messaging: Time,
    /// For how long any of its processors has worked; only where it has several.
    pub(super) several: Option<Busy>,
    /// When its local link has sent all that it was given.
    pub(super) local_free: Time,
    /// For how long its first processor, or all of several, was idle before the operation that
    /// ended last.
    idle: Time,
    /// Of that, by the rank that an operation ended with.
    waits: BTreeMap<u32, Time>,
}

impl Rank {
    pub(super) fn of_processors(count: u32) -> Self {
        Self {
            several: (count > 1).then(Busy::default),
            ..Self::default()
        }
    }

    /// For how long its first processor, or any of several, works for all that it has been given.
    fn busy(&self) -> Time {
        match &self.several {
            Some(busy) => busy.all(),
            None => self.computing_first.saturating_add(self.messaging),
        }
    }

    /// It computes for a span that begins now or later.
    pub(super) fn computes(&mut self, now: Time, (begin, end): (Time, Time), processor: usize) {
        let span = end.saturating_sub(begin);
        self.computing = self.computing.saturating_add(span);
        if processor == 0 {
            self.computing_first = self.computing_first.saturating_add(span);
        }
        if let Some(busy) = &mut self.several {
            busy.add(now, (begin, end));
        }
    }

    pub(super) fn state_bytes(&self) -> usize {
        let spans = self.several.as_ref().map_or(0, Busy::state_bytes);
        size_of::<Self>() + self.waits.len() * size_of::<(u32, Time)>() + spans
    }
}

impl<P: Programs> Cluster<P> {
    /// An operation of a rank ends now: if its first processor, or all of several, was idle
    /// since the end of the one before, that was for the peer of this one.
    pub(super) fn note_idle(&mut self, rank: u32, peer: Option<u32>) {
        let now = self.queue.now();
        let Some(operations) = &mut self.operations else {
            return;
        };
        // What a processor has been given it is charged with at once, and does by and by. One that
        // several ranks share has no such rest of a rank's own.
        let to_do = match self.processes_per_host {
            1 => {
                let port = operations.places.process_of(rank);
                let own = match self.has_several {
                    false => port as usize,
                    true => self.numbering.processor(port, 0),
                };
                self.processors[own].free.saturating_sub(now)
            }
            _ => Time::ZERO,
        };
        let elapsed = now.saturating_sub(self.config.traffic.start);
        operations.note_idle(rank, peer, (now, elapsed, to_do));
    }

    /// The processor of a host has worked for a message of its own, or one that came.
    pub(crate) fn note_messaging(&mut self, process: u32, span: Span) {
        let process = self.home_port(process);
        let Some(operations) = &mut self.operations else {
            return;
        };
        if let Some(rank) = operations.places.rank_of(process) {
            let now = self.queue.now();
            operations.works(rank, now, (span.begin, span.end));
        }
    }

    /// The application's result.
    pub(crate) fn application_result(&self) -> Option<ApplicationResult> {
        let operations = self.operations.as_deref()?;
        let is_over = self.is_application_over();
        Some(operations.result(self.config.traffic.start, is_over))
    }
}

impl Operations {
    /// A rank computes for a span that begins now or later.
    pub fn computes(&mut self, rank: u32, now: Time, span: (Time, Time), processor: usize) {
        self.ranks[rank as usize].computes(now, span, processor);
    }

    /// The processor of its host works for its messages for a span that begins now or later.
    pub fn works(&mut self, rank: u32, now: Time, (begin, end): (Time, Time)) {
        let account = &mut self.ranks[rank as usize];
        if let Some(busy) = &mut account.several {
            busy.add(now, (begin, end));
        }
        let worked = end.saturating_sub(begin);
        account.messaging = account.messaging.saturating_add(worked);
    }

    /// An operation of a rank ends now, so long after the start: if its first processor, or all of
    /// several, was idle since the end of the one before, that was for the peer of this one. What
    /// its processor was given and has still to do is `to_do`.
    pub fn note_idle(
        &mut self,
        rank: u32,
        peer: Option<u32>,
        (now, elapsed, to_do): (Time, Time, Time),
    ) {
        let account = &mut self.ranks[rank as usize];
        let done = match &mut account.several {
            Some(busy) => busy.until(now),
            None => account.busy().saturating_sub(to_do),
        };
        let idle = elapsed.saturating_sub(done);
        let waited = idle.saturating_sub(account.idle);
        if waited > Time::ZERO {
            account.idle = idle;
            if let Some(peer) = peer {
                let wait = account.waits.entry(peer).or_default();
                *wait = wait.saturating_add(waited);
            }
        }
    }

    /// The result of what started at a time; `is_over` where nothing that it waits for can happen
    /// any more.
    pub(crate) fn result(&self, start: Time, is_over: bool) -> ApplicationResult {
        let operations = self;
        let graph = operations.application.graph();
        let left = graph.len() as u64 - operations.ended;
        let row = |(rank, account): (u32, &Rank)| {
            let span = account.end.saturating_sub(start);
            let longest = account.waits.iter();
            let longest = longest.max_by_key(|(peer, wait)| (**wait, Reverse(**peer)));
            RankRow {
                rank,
                host: operations.places.host_of(rank),
                span,
                computing: account.computing,
                messaging: account.messaging,
                waiting: span.saturating_sub(account.busy()),
                longest_wait: longest.map(|(peer, wait)| (*peer, *wait)),
                waited_for: Time::ZERO,
            }
        };
        let mut ranks: Vec<RankRow> = (0..).zip(&operations.ranks).map(row).collect();
        for (peer, wait) in operations.ranks.iter().flat_map(|account| &account.waits) {
            let waited_for = &mut ranks[*peer as usize].waited_for;
            *waited_for = waited_for.saturating_add(*wait);
        }
        ApplicationResult {
            makespan: ranks.iter().map(|row| row.span).max().unwrap_or(Time::ZERO),
            operations: graph.len() as u64,
            ended: operations.ended,
            local_messages: operations.local_messages,
            is_cut: left > 0 && (operations.is_cut || !is_over),
            stalled: self.stalled().filter(|_| is_over),
            misfits: operations.misfits.clone(),
            ranks,
        }
    }
}

impl ApplicationResult {
    /// What of it breaks what a run is for: it came to a stop, or sizes did not fit. So many
    /// messages were lost, and hosts died.
    pub(crate) fn violations(
        &self,
        source: &str,
        lost: u64,
        is_dead: impl Fn(u32) -> bool,
    ) -> impl Iterator<Item = String> {
        let losses = match lost {
            0 => None,
            1 => Some(format!("1 message {LOST}")),
            _ => Some(format!("{lost} messages {LOST}")),
        };
        let stalled = self.stalled.as_ref().map(|it| {
            let mut causes = Vec::new();
            causes.extend(losses.clone());
            let dead = self.ranks.iter().filter(|row| is_dead(row.host));
            let dead: Vec<u32> = dead.map(|row| row.rank).collect();
            match dead[..] {
                [] => {}
                [rank] => causes.push(format!("the host of rank {rank} died")),
                [first, .., last] => causes.push(format!(
                    "the hosts of {} ranks died, from {first} to {last}",
                    dead.len()
                )),
            }
            let causes = match causes.is_empty() {
                true => String::new(),
                false => format!(" ({})", causes.join("; ")),
            };
            format!("{source} came to a stop{causes}: {it}")
        });
        let after = losses.as_ref().map(|losses| format!(" ({losses})"));
        let after = after.unwrap_or_default();
        let misfits =
            (!self.misfits.is_empty()).then(|| format!("{source}{after}: {}", self.misfits));
        stalled.into_iter().chain(misfits)
    }

    /// What the user should know of it, when the run `ended` so.
    pub(crate) fn warnings(&self, ended: Ended) -> Option<Warning> {
        let help = match ended {
            Ended::EventCount => Some("leave `run.events_max` out, or make it larger"),
            Ended::MessageCount => Some("leave `run.messages_max` out, or make it larger"),
            Ended::Finished => Some("leave `run.until` and `traffic.stop` out, or make them later"),
            // The caller knows, or is told of what stands still.
            Ended::Interrupted | Ended::Deadlock | Ended::Stalled => None,
        };
        self.is_cut.then(|| Warning {
            text: format!(
                "the run ended before the application: {} of {} operations have ended",
                self.ended, self.operations
            ),
            help: help.map(Into::into),
        })
    }
}
