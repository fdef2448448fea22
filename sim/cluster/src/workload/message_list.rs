//! Traffic that is given message by message: who sends how many bytes to whom, how, and when.

use viaduct_engine::Time;

use super::MessageOperation;
use super::error::{MessageListError, MessageListProblem};

/// One message of a [`MessageList`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ListedMessage {
    /// When it is posted, from the start of the traffic.
    pub time: Time,
    /// The sending process: host times processes a host, plus its number on the host, from 0.
    pub source: u32,
    /// The receiving process, on another host.
    pub target: u32,
    /// Payload; 0 is a message of a descriptor alone.
    pub bytes: u32,
    /// What it is: a send, or an access to the target's memory.
    pub operation: MessageOperation,
}

/// Messages by their sending process, each process's by time; those of one process at one time
/// stay in the order given.
///
/// Memory is 16 bytes a message and 4 bytes a process.
///
/// ```
/// use viaduct_engine::Time;
/// use viaduct_cluster::workload::{ListedMessage, MessageList, MessageOperation};
///
/// let message = |nanoseconds: u64, source, target| ListedMessage {
///     time: Time::from_nanoseconds(nanoseconds),
///     source,
///     target,
///     bytes: 64,
///     operation: MessageOperation::Send,
/// };
/// let list = MessageList::new(&[message(2, 0, 1), message(1, 0, 3)], 4, 1)?;
/// assert_eq!(list.messages().next().map(|first| first.target), Some(3));
/// # Ok::<(), viaduct_cluster::workload::MessageListError>(())
/// ```
#[derive(Debug, PartialEq)]
pub struct MessageList {
    hosts: u32,
    processes_per_host: u32,
    /// Those of process p are `entries[first[p]..first[p + 1]]`.
    first: Vec<u32>,
    entries: Vec<Entry>,
    min_bytes: u32,
    max_bytes: u32,
    mean_bytes: f64,
    /// Which operations there are, by their numbers.
    has: [bool; MessageOperation::ALL.len()],
}

/// A message, without its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Entry {
    /// Picoseconds, and in the lowest bits the number of the operation: a list may have millions.
    when_and_what: u64,
    target: u32,
    bytes: u32,
}

/// Bits of an operation's number.
const OPERATION_BITS: u32 = 2;

/// No message of a list is later.
const TIME_MAX: Time = Time::from_picoseconds(u64::MAX >> OPERATION_BITS);

impl Entry {
    const fn new(message: &ListedMessage) -> Self {
        let time = message.time.picoseconds();
        Self {
            when_and_what: time << OPERATION_BITS | message.operation as u64,
            target: message.target,
            bytes: message.bytes,
        }
    }

    const fn time(self) -> Time {
        Time::from_picoseconds(self.when_and_what >> OPERATION_BITS)
    }

    const fn message(self, source: u32) -> ListedMessage {
        let number = self.when_and_what as usize % MessageOperation::ALL.len();
        ListedMessage {
            time: self.time(),
            source,
            target: self.target,
            bytes: self.bytes,
            operation: MessageOperation::ALL[number],
        }
    }
}

impl MessageList {
    /// Puts messages, in any order, in order, for so many hosts of so many processes each.
    ///
    /// # Errors
    ///
    /// The first message that has an end outside the network or both on one host; no message at
    /// all, or 2^32 and more; 2^32 processes and more; a time of 2^62 ps, 53 days, or more.
    pub fn new(
        messages: &[ListedMessage],
        hosts: u32,
        processes_per_host: u32,
    ) -> Result<Self, MessageListError> {
        let whole = |problem| MessageListError {
            message: None,
            problem,
        };
        if messages.is_empty() {
            return Err(whole(MessageListProblem::Empty));
        }
        if messages.len() >= u32::MAX as usize {
            return Err(whole(MessageListProblem::TooMany {
                messages: messages.len(),
            }));
        }
        let processes = hosts
            .checked_mul(processes_per_host)
            .filter(|&processes| processes > 0)
            .ok_or_else(|| whole(MessageListProblem::Processes))?;
        let mut first = vec![0_u32; processes as usize + 1];
        for (index, message) in messages.iter().enumerate() {
            check(message, processes, processes_per_host).map_err(|problem| MessageListError {
                message: Some(index),
                problem,
            })?;
            first[message.source as usize + 1] += 1;
        }
        for process in 0..processes as usize {
            first[process + 1] += first[process];
        }
        let mut entries = vec![Entry::default(); messages.len()];
        let mut has = [false; MessageOperation::ALL.len()];
        let mut next = first.clone();
        for message in messages {
            let place = &mut next[message.source as usize];
            entries[*place as usize] = Entry::new(message);
            has[message.operation as usize] = true;
            *place += 1;
        }
        drop(next);
        for ends in first.windows(2) {
            // Stable: what is posted at one time stays in the order given.
            entries[ends[0] as usize..ends[1] as usize].sort_by_key(|entry| entry.time());
        }
        let bytes = || messages.iter().map(|message| message.bytes);
        let sum: u64 = bytes().map(u64::from).sum();
        Ok(Self {
            hosts,
            processes_per_host,
            first,
            entries,
            min_bytes: bytes().min().unwrap_or_default(),
            max_bytes: bytes().max().unwrap_or_default(),
            mean_bytes: sum as f64 / messages.len() as f64,
            has,
        })
    }

    /// Hosts that it is for, and processes on each.
    #[must_use]
    pub fn made_for(&self) -> (u32, u32) {
        (self.hosts, self.processes_per_host)
    }

    /// How many messages there are, at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no list is empty")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many messages are posted earlier than `time` after the start of the traffic.
    #[must_use]
    pub fn count_before(&self, time: Time) -> usize {
        let of_process = |ends: &[u32]| {
            self.entries[ends[0] as usize..ends[1] as usize]
                .partition_point(|entry| entry.time() < time)
        };
        self.first.windows(2).map(of_process).sum()
    }

    /// All messages: processes in order, each one's by time.
    pub fn messages(&self) -> impl Iterator<Item = ListedMessage> + Clone + '_ {
        self.first
            .windows(2)
            .enumerate()
            .flat_map(|(source, ends)| {
                let entries = &self.entries[ends[0] as usize..ends[1] as usize];
                entries
                    .iter()
                    .map(move |entry| entry.message(source as u32))
            })
    }

    /// The place of a process's first message.
    pub(crate) fn first_of(&self, process: u32) -> u32 {
        self.first[process as usize]
    }

    /// Whether it has messages of an operation.
    #[must_use]
    pub const fn has(&self, operation: MessageOperation) -> bool {
        self.has[operation as usize]
    }

    /// A process's message at `place`, if there is one.
    pub(crate) fn of_process(&self, process: u32, place: u32) -> Option<ListedMessage> {
        let is_there = place < self.first[process as usize + 1];
        is_there.then(|| self.entries[place as usize].message(process))
    }

    /// Sending and receiving hosts, no pair twice, in order.
    #[must_use]
    pub fn host_pairs(&self) -> Vec<(u32, u32)> {
        let each = self.processes_per_host;
        let mut pairs = Vec::new();
        let mut targets = Vec::new();
        for host in 0..self.hosts {
            let first = self.first[(host * each) as usize] as usize;
            let end = self.first[((host + 1) * each) as usize] as usize;
            targets.clear();
            targets.extend(self.entries[first..end].iter().map(|e| e.target / each));
            targets.sort_unstable();
            targets.dedup();
            pairs.extend(targets.iter().map(|&target| (host, target)));
        }
        pairs
    }

    /// The bytes of the message at a place; see [`Self::messages`].
    pub(crate) fn bytes(&self, place: usize) -> u32 {
        self.entries[place].bytes
    }

    /// Smallest, largest and mean payload, bytes.
    pub(crate) fn bytes_range(&self) -> (u32, u32, f64) {
        (self.min_bytes, self.max_bytes, self.mean_bytes)
    }
}

fn check(
    message: &ListedMessage,
    processes: u32,
    processes_per_host: u32,
) -> Result<(), MessageListProblem> {
    let (source, target) = (message.source, message.target);
    for (end, process) in [("source", source), ("target", target)] {
        if process >= processes {
            return Err(MessageListProblem::NoSuchProcess {
                end,
                process,
                last: processes - 1,
            });
        }
    }
    if source / processes_per_host == target / processes_per_host {
        return Err(MessageListProblem::ToItself {
            process: source,
            target,
        });
    }
    if message.time > TIME_MAX {
        return Err(MessageListProblem::TooLate {
            time: message.time,
            last: TIME_MAX,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(time: u64, source: u32, target: u32, bytes: u32) -> ListedMessage {
        ListedMessage {
            time: Time::from_picoseconds(time),
            source,
            target,
            bytes,
            // Each of them, whatever else there is.
            operation: MessageOperation::ALL[bytes as usize % 4],
        }
    }

    #[test]
    fn messages_are_in_order_of_process_time_and_entry() {
        let given = [
            message(9, 2, 0, 1),
            message(5, 0, 1, 2),
            message(5, 0, 3, 3),
            message(1, 0, 2, 4),
            message(5, 0, 1, 5),
        ];
        let list = MessageList::new(&given, 4, 1).unwrap();
        let order: Vec<_> = list.messages().collect();
        assert_eq!(order, [given[3], given[1], given[2], given[4], given[0]]);
        assert_eq!(list.host_pairs(), [(0, 1), (0, 2), (0, 3), (2, 0)]);
        assert_eq!(list.bytes_range(), (1, 5, 3.0));
        let before =
            [0, 1, 2, 5, 6, 9, 10].map(|time| list.count_before(Time::from_picoseconds(time)));
        assert_eq!(before, [0, 0, 1, 1, 4, 4, 5]);
        assert_eq!(list.of_process(0, 3).unwrap().bytes, 5);
        assert_eq!(list.of_process(0, 4), None);
        assert_eq!(list.of_process(1, list.first_of(1)), None);
        assert_eq!(size_of::<Entry>(), 16);
        assert_eq!(MessageOperation::ALL.map(|it| list.has(it)), [true; 4]);
        let list = MessageList::new(&given[1..3], 4, 1).unwrap();
        let has = [false, false, true, true];
        assert_eq!(MessageOperation::ALL.map(|it| list.has(it)), has);
    }

    #[test]
    fn processes_of_a_host_are_apart_and_its_pairs_together() {
        let given = [message(1, 3, 0, 1), message(1, 2, 1, 1)];
        let list = MessageList::new(&given, 2, 2).unwrap();
        assert_eq!(list.messages().next(), Some(given[1]));
        assert_eq!(list.host_pairs(), [(1, 0)]);
    }

    #[test]
    fn errors_name_the_message() {
        let error = |messages: &[ListedMessage], hosts, processes| {
            MessageList::new(messages, hosts, processes)
                .unwrap_err()
                .to_string()
        };
        let good = message(0, 0, 1, 1);
        assert_eq!(error(&[], 2, 1), "the list has no message");
        assert_eq!(
            error(&[good, message(0, 1, 1, 1)], 2, 1),
            "message 2 (counted from 1): 1 sends to itself"
        );
        assert_eq!(
            error(&[good, message(0, 2, 0, 1)], 2, 1),
            "message 2 (counted from 1): source 2 does not exist; there are 0 to 1"
        );
        assert_eq!(
            error(&[message(0, 0, 7, 1)], 2, 1),
            "message 1 (counted from 1): target 7 does not exist; there are 0 to 1"
        );
        assert_eq!(
            error(&[good], 2, 2),
            "message 1 (counted from 1): processes 0 and 1 are on one host; messages go to another"
        );
        assert!(error(&[good], 1 << 31, 2).contains("2^32"));
        let last = message(u64::MAX >> 2, 0, 1, 3);
        let list = MessageList::new(&[last], 2, 1).unwrap();
        assert_eq!(list.messages().next(), Some(last));
        let late = message((u64::MAX >> 2) + 1, 0, 1, 3);
        assert!(error(&[late], 2, 1).contains("message 1 (counted from 1): its time"));
    }
}
