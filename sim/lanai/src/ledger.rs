//! What became of every request, while things go wrong: an observer's book.
//!
//! What holds of each request, and is checked whenever something is written down: a server takes it
//! at most once, in all its lives together; it ends once for its client, with a reply, or by its
//! return with a reason; what returned as never delivered is never taken; what was replied to was
//! taken before. Requests of a host that rebooted are forgotten with it.

use std::collections::BTreeMap;

use viaduct_frames::transport::ReturnReason;

/// Violations that are told in full.
const TOLD_MAX: usize = 10;

/// The number of a request that only asks whether its server lives.
pub(crate) const ENQUIRY: u32 = u32::MAX;

/// How requests ended, counted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ends {
    /// Requests that were made.
    pub requests: u64,
    /// Replied to.
    pub replied: u64,
    /// Returned: the server's interface refused them for good.
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
    /// Replies that came after their request had returned, or a second time: dropped.
    pub late_replies: u64,
    /// What must not be: the first of them. None of these is a run in which nothing was delivered
    /// twice and nothing was lost in silence.
    pub violations: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Replied,
    Returned { may_have_arrived: bool },
    Forgotten,
}

/// A request without an end.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The key that it was posted with.
    key: u8,
    /// It was acknowledged: only a reply is missing.
    is_delivered: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Record {
    is_taken: bool,
    end: Option<End>,
}

/// The book of a cluster: requests of each host, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    records: Vec<Vec<Record>>,
    open: Vec<BTreeMap<u32, Open>>,
    /// Requests whose replies came back to their servers and were dropped.
    dropped: Vec<Vec<u32>>,
    ends: Ends,
}

impl Ledger {
    /// A host more makes requests.
    pub(crate) fn add_host(&mut self) {
        self.records.push(Vec::new());
        self.open.push(BTreeMap::new());
        self.dropped.push(Vec::new());
    }

    /// A new request of a host; returns its number.
    pub(crate) fn post(&mut self, host: u32, key: u8) -> u32 {
        let records = &mut self.records[host as usize];
        let number = records.len() as u32;
        records.push(Record::default());
        let open = Open {
            key,
            is_delivered: false,
        };
        self.open[host as usize].insert(number, open);
        self.ends.requests += 1;
        number
    }

    /// The key of the oldest request without an end.
    pub(crate) fn oldest(&self, host: u32) -> Option<u8> {
        let open = self.open[host as usize].first_key_value();
        open.map(|(_, it)| it.key)
    }

    /// A request was acknowledged.
    pub(crate) fn deliver(&mut self, host: u32, number: u32) {
        if let Some(open) = self.open[host as usize].get_mut(&number) {
            open.is_delivered = true;
        }
    }

    /// A server takes a request.
    pub(crate) fn take(&mut self, host: u32, number: u32) {
        let Some(record) = self.records[host as usize].get_mut(number as usize) else {
            return;
        };
        let wrong = match record.end {
            _ if record.is_taken => Some("is taken twice"),
            Some(End::Returned {
                may_have_arrived: false,
            }) => Some("is taken after it returned as never delivered"),
            Some(End::Replied) => Some("is taken after its reply"),
            _ => None,
        };
        record.is_taken = true;
        if let Some(wrong) = wrong {
            self.violate(host, number, wrong);
        }
    }

    /// A client takes a reply; returns whether it waited for it.
    pub(crate) fn reply(&mut self, host: u32, number: u32) -> bool {
        if !self.end(host, number, End::Replied) {
            self.ends.late_replies += 1;
            return false;
        }
        self.ends.replied += 1;
        if !self.records[host as usize][number as usize].is_taken {
            self.violate(host, number, "has a reply, and nobody took it");
        }
        true
    }

    /// A request returned to its client; returns whether this is its end.
    pub(crate) fn give_back(
        &mut self,
        host: u32,
        number: u32,
        reason: ReturnReason,
        may_have_arrived: bool,
    ) -> bool {
        if !self.end(host, number, End::Returned { may_have_arrived }) {
            return false;
        }
        *match reason {
            ReturnReason::Refused(_) => &mut self.ends.refused,
            ReturnReason::Unreachable => &mut self.ends.unreachable,
            ReturnReason::Rebooted => &mut self.ends.rebooted,
        } += 1;
        self.ends.in_doubt += u64::from(may_have_arrived);
        let is_taken = self.records[host as usize][number as usize].is_taken;
        if is_taken && !may_have_arrived {
            self.violate(
                host,
                number,
                "returns as never delivered after it was taken",
            );
        }
        true
    }

    /// The endpoint with this key is gone: what was delivered to it will not be answered. Returns
    /// how many requests ended by that.
    pub(crate) fn give_up(&mut self, host: u32, key: u8) -> u32 {
        let open = &self.open[host as usize];
        let lost = open
            .iter()
            .filter(|(_, it)| it.key == key && it.is_delivered);
        let lost: Vec<u32> = lost.map(|(number, _)| *number).collect();
        let may_have_arrived = true;
        for number in &lost {
            self.end(host, *number, End::Returned { may_have_arrived });
        }
        self.ends.unanswered += lost.len() as u64;
        self.ends.in_doubt += lost.len() as u64;
        lost.len() as u32
    }

    /// A server drops a reply that could not be delivered to this host.
    pub(crate) fn drop_reply(&mut self, host: u32, number: u32) {
        if self.open[host as usize].contains_key(&number) {
            self.dropped[host as usize].push(number);
        }
    }

    /// A host hears which replies to it were dropped; returns how many requests ended by that.
    pub(crate) fn hear_of_dropped(&mut self, host: u32) -> u32 {
        let mut ended = 0;
        let may_have_arrived = true;
        for number in core::mem::take(&mut self.dropped[host as usize]) {
            ended += u32::from(self.end(host, number, End::Returned { may_have_arrived }));
        }
        self.ends.unanswered += u64::from(ended);
        self.ends.in_doubt += u64::from(ended);
        ended
    }

    /// A host is gone, and what it waited for.
    pub(crate) fn forget(&mut self, host: u32) {
        let numbers: Vec<u32> = self.open[host as usize].keys().copied().collect();
        for number in &numbers {
            self.end(host, *number, End::Forgotten);
        }
        self.ends.forgotten += numbers.len() as u64;
    }

    /// How requests have ended so far.
    pub(crate) fn ends(&self) -> Ends {
        let open = self.open.iter().map(|open| open.len() as u64);
        Ends {
            open: open.sum(),
            ..self.ends.clone()
        }
    }

    fn end(&mut self, host: u32, number: u32, end: End) -> bool {
        if self.open[host as usize].remove(&number).is_none() {
            return false;
        }
        self.records[host as usize][number as usize].end = Some(end);
        true
    }

    fn violate(&mut self, host: u32, number: u32, wrong: &str) {
        if self.ends.violations.len() < TOLD_MAX {
            let text = format!("request {number} of host {host} {wrong}");
            self.ends.violations.push(text);
        }
    }
}
