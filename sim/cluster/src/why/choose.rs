//! Which message is meant: what the account of deliveries keeps for it.

use viaduct_engine::Time;

use super::{Choice, MessageName};
use crate::accounting::AROUND;
use crate::message::Message;
use crate::programs::OF_PROGRAM;
use crate::record::Sample;
use viaduct_hardware::STAGES;

/// One delivered message.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) message: MessageName,
    pub(crate) posted: Time,
    pub(crate) latency: Time,
    pub(crate) floor: Time,
    pub(crate) stages: [u64; STAGES],
}

/// What tells a message from the others in a distribution, and what is needed to follow it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Candidate {
    pub(crate) latency: Time,
    pub(crate) message: MessageName,
    pub(crate) posted: Time,
}

/// Listens to deliveries for the message that is meant.
#[derive(Debug)]
pub(crate) struct Chooser {
    choice: Choice,
    /// Processes of each host.
    pub(crate) processes: u32,
    measured: u64,
    /// All measured messages for a quantile, the slowest so far, or the one of the number.
    candidates: Vec<Candidate>,
    /// The one of the number.
    record: Option<Record>,
    dropped: Option<(MessageName, Time, &'static str, Time)>,
    /// What [`crate::record`] listens for.
    pub(crate) sample: Option<Sample>,
}

impl Message {
    /// Its name where hosts have so many processes.
    pub(crate) fn name(&self, processes: u32) -> MessageName {
        // A program has no number among these: its host has.
        let own = match self.connection & OF_PROGRAM {
            0 => 1,
            _ => processes,
        };
        let (source, target) = self.ends_as_posted();
        MessageName {
            number: self.number & !AROUND,
            is_around: self.number & AROUND != 0,
            source: source * own,
            target: target * own,
            bytes: self.bytes,
            operation: self.operation,
        }
    }

    /// That it was delivered, where hosts have so many processes.
    pub(crate) fn record(&self, latency: Time, stages: [u64; STAGES], processes: u32) -> Record {
        Record {
            message: self.name(processes),
            posted: self.posted,
            latency,
            floor: self.floor,
            stages,
        }
    }
}

impl Chooser {
    pub(crate) fn new(choice: Choice, processes: u32) -> Self {
        Self {
            choice,
            processes,
            measured: 0,
            candidates: Vec::new(),
            record: None,
            dropped: None,
            sample: None,
        }
    }

    /// Messages delivered of those posted after the warm-up.
    pub(crate) fn measured(&self) -> u64 {
        self.measured
    }

    /// A message was delivered, and is measured or not.
    pub(crate) fn delivered(&mut self, record: &Record, is_measured: bool) {
        self.measured += u64::from(is_measured);
        if let Some(sample) = &mut self.sample {
            let ended = record.posted + record.latency;
            let message = (record.message, record.posted);
            sample.ended(message, ended, Some(record.stages), None);
            return;
        }
        let candidate = Candidate {
            latency: record.latency,
            message: record.message,
            posted: record.posted,
        };
        let name = record.message;
        match self.choice {
            Choice::Message(number) if name.number == number && !name.is_around => {
                self.candidates.push(candidate);
                self.record = Some(record.clone());
            }
            Choice::Slowest if is_measured => {
                let is_slower = self.candidates.last().is_none_or(|slowest| {
                    let later = slowest.message.number > name.number;
                    let latency = record.latency;
                    latency > slowest.latency || latency == slowest.latency && later
                });
                if is_slower {
                    self.candidates.clear();
                    self.candidates.push(candidate);
                }
            }
            Choice::Quantile(_) if is_measured => self.candidates.push(candidate),
            _ => {}
        }
    }

    /// A message was lost that had been posted at a time.
    pub(crate) fn dropped(
        &mut self,
        (message, posted): (MessageName, Time),
        cause: &'static str,
        now: Time,
    ) {
        if let Some(sample) = &mut self.sample {
            sample.ended((message, posted), now, None, Some(cause));
        }
        if !message.is_around && self.choice == Choice::Message(message.number) {
            self.dropped = Some((message, posted, cause, now));
        }
    }

    /// The message that is meant, if it was delivered.
    pub(crate) fn choose(&mut self) -> Option<Candidate> {
        let Choice::Quantile(quantile) = self.choice else {
            return self.candidates.last().copied();
        };
        let count = self.candidates.len();
        let rank = ((quantile * count as f64).ceil() as u64).clamp(1, count.max(1) as u64);
        if self.candidates.is_empty() {
            return None;
        }
        let (_, chosen, _) = self.candidates.select_nth_unstable(rank as usize - 1);
        Some(*chosen)
    }

    /// The message of the number that was asked for, if it was dropped: when it was posted, the
    /// cause, and when.
    pub(crate) fn dropped_message(&self) -> Option<(MessageName, Time, &'static str, Time)> {
        self.dropped
    }

    pub(crate) fn into_record(self) -> Option<Record> {
        self.record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_is_as_small_as_is_said() {
        assert_eq!(size_of::<Candidate>(), 40);
    }
}
