//! What each action is as steps of its rank.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Line, Notes, sizes};
use crate::collective::Collective;
use crate::graph::ANY;
use crate::texts::one_line;
use crate::trace::{Group, LISTED_TAG as TAG, MESSAGES, Steps, Together, Trace, Work};

/// Bytes of an element, by SimGrid's number of its type.
const TYPE_BYTES: [u64; 30] = [
    8, 4, 1, 2, 8, 4, 1, 8, 1, 1, 2, 4, 8, 8, 16, 4, 1, 1, 2, 4, 8, 1, 2, 4, 8, 8, 16, 32, 8, 8,
];

/// A step in the making.
pub(super) struct Step {
    pub(super) work: Work,
    pub(super) line: u32,
    pub(super) name: &'static str,
    needs: Vec<u32>,
    /// Its bytes are those of the send that it takes.
    pub(super) takes_all: bool,
}

/// One rank's steps so far.
pub(super) struct Rank {
    pub(super) steps: Vec<Step>,
    /// What the next step waits for.
    needs: Vec<u32>,
    /// What was begun and not waited for, by source, target and tag, the oldest first; -1 is any.
    open: BTreeMap<[i64; 3], VecDeque<u32>>,
    /// Bytes of an element where no type is said.
    element_bytes: u64,
}

/// All of them.
pub(super) struct Ranks {
    all: Vec<Rank>,
    notes: Notes,
}

/// What follows an action in its line.
struct Words<'a> {
    all: Vec<&'a str>,
    next: usize,
    usage: &'static str,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<&'a str, String> {
        let word = self.all.get(self.next).copied();
        self.next += 1;
        word.ok_or_else(|| {
            let (found, usage) = (self.all.len(), self.usage);
            format!("{found} words follow, and {usage} are expected")
        })
    }

    fn is_at_end(&self) -> bool {
        self.next >= self.all.len()
    }

    /// A number such as `1e6`, which may be negative.
    fn number(&mut self) -> Result<f64, String> {
        let word = self.next()?;
        let number = word.parse().ok().filter(|it: &f64| it.is_finite());
        number.ok_or_else(|| format!("`{}` is no number", one_line(word)))
    }

    /// A count of elements, operations or seconds, which must not be negative.
    fn amount(&mut self) -> Result<f64, String> {
        let number = self.number()?;
        match (0.0..1e18).contains(&number) {
            true => Ok(number),
            false => Err(format!("{number} is out of range: 0 to 1e18 are read")),
        }
    }

    fn whole(&mut self) -> Result<i64, String> {
        let word = self.next()?;
        let whole = word.parse().ok();
        whole.ok_or_else(|| format!("`{}` is no whole number", one_line(word)))
    }

    fn rank(&mut self, ranks: u32) -> Result<u32, String> {
        let given = self.whole()?;
        let rank = u32::try_from(given).ok().filter(|rank| *rank < ranks);
        rank.ok_or_else(|| format!("there is no rank {given}: ranks are 0 to {}", ranks - 1))
    }

    /// A rank that may be left out.
    fn root(&mut self, ranks: u32) -> Result<u32, String> {
        match self.is_at_end() {
            true => Ok(0),
            false => self.rank(ranks),
        }
    }

    /// Bytes of an element of the type that comes next, if one does.
    fn element(&mut self, usual: u64) -> Result<u64, String> {
        if self.is_at_end() {
            return Ok(usual);
        }
        let number = self.whole()?;
        let bytes = usize::try_from(number).ok();
        let bytes = bytes.and_then(|place| TYPE_BYTES.get(place).copied());
        bytes.ok_or_else(|| {
            let last = TYPE_BYTES.len() - 1;
            format!("type {number} is not known: 0 (double) to {last} are, 6 is a byte")
        })
    }

    /// A rank, or any if it is negative, as MPI's wildcard is.
    fn source(&mut self, ranks: u32) -> Result<u32, String> {
        let is_any = self.all.get(self.next).is_some_and(|word| {
            let given = word.parse().ok();
            given.is_some_and(|given: i64| given < 0)
        });
        match is_any {
            true => self.next().map(|_| ANY),
            false => self.rank(ranks),
        }
    }

    /// A tag; a negative one is any, where that may be.
    fn tag(&mut self, may_be_any: bool) -> Result<u32, String> {
        let given = self.whole()?;
        if may_be_any && given < 0 {
            return Ok(ANY);
        }
        let tag = u32::try_from(given).ok().filter(|tag| *tag < TAG);
        tag.ok_or_else(|| format!("the tag is {given}: 0 to {} are read", TAG - 1))
    }

    fn amounts(&mut self, ranks: u32) -> Result<Vec<f64>, String> {
        (0..ranks).map(|_| self.amount()).collect()
    }

    fn end(&self) -> Result<(), String> {
        match self.all.len() > self.next {
            true => Err(format!(
                "{} words follow, and {} are expected",
                self.all.len(),
                self.usage
            )),
            false => Ok(()),
        }
    }
}

fn bytes(elements: f64, each: u64) -> u64 {
    (elements * each as f64).round() as u64
}

/// Bytes of a message, of which a receive may say none.
fn limit(elements: f64, each: u64) -> u64 {
    bytes(elements.clamp(0.0, 1e18), each)
}

/// Actions, and what follows each.
const ACTIONS: [(&str, &str); 31] = [
    ("init", "nothing or a 1"),
    ("finalize", "none"),
    ("compute", "a number of operations"),
    ("sleep", "a number of seconds"),
    ("location", "a file and a line"),
    ("comm_size", "a number"),
    ("comm_split", "what it took"),
    ("comm_dup", "what it took"),
    ("send", "the target, a tag, a size and perhaps a type"),
    ("isend", "the target, a tag, a size and perhaps a type"),
    ("recv", "the source, a tag, a size and perhaps a type"),
    ("irecv", "the source, a tag, a size and perhaps a type"),
    (
        "sendrecv",
        "a size, the target, a size, the source and perhaps two types",
    ),
    ("wait", "the source, the target and the tag"),
    ("test", "the source, the target and the tag"),
    ("waitall", "none"),
    ("barrier", "none"),
    ("bcast", "a size and perhaps a root and a type"),
    (
        "reduce",
        "a size, a number of operations and perhaps a root and a type",
    ),
    (
        "allreduce",
        "a size, a number of operations and perhaps a type",
    ),
    ("alltoall", "two sizes and perhaps two types"),
    ("allgather", "two sizes and perhaps two types"),
    ("gather", "two sizes and perhaps a root and two types"),
    ("scatter", "two sizes and perhaps a root and two types"),
    (
        "alltoallv",
        "twice a size and one size for each rank, and perhaps two types",
    ),
    (
        "allgatherv",
        "a size, one size for each rank and perhaps a type",
    ),
    (
        "gatherv",
        "a size, one size for each rank and perhaps a root and two types",
    ),
    (
        "scatterv",
        "one size for each rank, a size and perhaps a root and two types",
    ),
    (
        "reducescatter",
        "one size for each rank, a number of operations and perhaps a type",
    ),
    ("scan", "a size, a number of operations and perhaps a type"),
    (
        "exscan",
        "a size, a number of operations and perhaps a type",
    ),
];

impl Rank {
    /// Adds a step that those after it do not wait for.
    fn begin(&mut self, line: u32, name: &'static str, work: Work) -> u32 {
        let needs = self.needs.clone();
        let place = self.steps.len() as u32;
        self.steps.push(Step {
            work,
            line,
            name,
            needs,
            takes_all: false,
        });
        place
    }

    /// Adds a step that those after it wait for.
    fn then(&mut self, line: u32, name: &'static str, work: Work) -> u32 {
        let place = self.begin(line, name, work);
        self.needs = vec![place];
        place
    }

    /// Adds steps that begin together; those after them wait for all.
    fn then_all(&mut self, line: u32, name: &'static str, works: impl Iterator<Item = Work>) {
        let begun: Vec<u32> = works.map(|work| self.begin(line, name, work)).collect();
        if !begun.is_empty() {
            self.needs = begun;
        }
    }

    /// What a wait waits for: the oldest that was begun with the same source, target and tag, or
    /// else a receive of any that these fit.
    fn close(&mut self, key: [i64; 3]) -> Option<u32> {
        let [source, target, tag] = key;
        let known = [
            key,
            [-1, target, tag],
            [source, target, -1],
            [-1, target, -1],
        ];
        let mut open = known.into_iter();
        open.find_map(|key| self.open.get_mut(&key)?.pop_front())
    }

    fn compute(&mut self, line: u32, name: &'static str, operations: f64) {
        if operations > 0.0 {
            let work = Work::Count {
                operations: operations.round() as u64,
                processor: MESSAGES,
            };
            self.then(line, name, work);
        }
    }

    /// Ends when some that were begun have ended.
    fn wait(&mut self, line: u32, name: &'static str, begun: impl IntoIterator<Item = u32>) {
        self.needs.extend(begun);
        let nothing = Work::Compute {
            nanoseconds: 0,
            processor: MESSAGES,
        };
        self.then(line, name, nothing);
    }
}

impl Ranks {
    pub(super) fn new(ranks: u32) -> Self {
        let rank = |_| Rank {
            steps: Vec::new(),
            needs: Vec::new(),
            open: BTreeMap::new(),
            element_bytes: 1,
        };
        Self {
            all: (0..ranks).map(rank).collect(),
            notes: Notes::default(),
        }
    }

    pub(super) fn add(&mut self, line: &Line<'_>) -> Result<(), String> {
        let small = line.action.to_ascii_lowercase();
        let known = ACTIONS.iter().find(|(action, _)| *action == small);
        let Some((name, usage)) = known.copied() else {
            let names = ACTIONS.map(|(action, _)| action).join(", ");
            return Err(format!("no such action: there are {names}"));
        };
        let mut words = Words {
            all: line.rest.split_whitespace().collect(),
            next: 0,
            usage,
        };
        let at = (line.rank, line.number, name);
        match name {
            "init" => {
                let is_double = !words.is_at_end();
                words.next += usize::from(is_double);
                self.all[line.rank as usize].element_bytes = if is_double { 8 } else { 1 };
                words.end()
            }
            "finalize" | "waitall" | "barrier" => {
                words.end()?;
                self.without_words(at);
                Ok(())
            }
            "location" | "comm_size" | "test" => Ok(()),
            "comm_split" | "comm_dup" => {
                self.notes.communicators += 1;
                Ok(())
            }
            "compute" | "sleep" => {
                let amount = words.amount()?;
                words.end()?;
                let rank = &mut self.all[line.rank as usize];
                if name == "compute" {
                    rank.compute(line.number, name, amount);
                    return Ok(());
                }
                let work = Work::Compute {
                    nanoseconds: (amount * 1e9).round() as u64,
                    processor: MESSAGES,
                };
                rank.then(line.number, name, work);
                Ok(())
            }
            "send" | "isend" | "recv" | "irecv" => self.message(at, &mut words),
            "sendrecv" => self.exchange(at, &mut words),
            "wait" => {
                let key = [words.whole()?, words.whole()?, words.whole()?];
                words.end()?;
                let rank = &mut self.all[line.rank as usize];
                match rank.close(key.map(|part| part.max(-1))) {
                    Some(begun) => rank.wait(line.number, name, [begun]),
                    None => self.notes.idle_waits += 1,
                }
                Ok(())
            }
            "alltoallv" | "gatherv" | "scatterv" | "scan" | "exscan" => {
                self.by_messages(at, &mut words)
            }
            _ => self.together(at, &mut words),
        }
    }

    fn without_words(&mut self, (rank, line, name): At) {
        let rank = &mut self.all[rank as usize];
        match name {
            "waitall" => {
                let open = core::mem::take(&mut rank.open);
                let begun: Vec<u32> = open.into_values().flatten().collect();
                if !begun.is_empty() {
                    rank.wait(line, name, begun);
                }
            }
            "barrier" => {
                rank.then(line, name, of_all(Collective::Barrier, 0, 0));
            }
            _ => {}
        }
    }

    fn message(&mut self, (me, line, name): At, words: &mut Words<'_>) -> Result<(), String> {
        let ranks = self.all.len() as u32;
        let rank = &mut self.all[me as usize];
        let is_send = name.ends_with("send");
        let partner = match is_send {
            true => words.rank(ranks)?,
            false => words.source(ranks)?,
        };
        let tag = words.tag(!is_send)?;
        let elements = match is_send {
            true => words.amount()?,
            false => words.number()?,
        };
        let bytes = limit(elements, words.element(rank.element_bytes)?);
        words.end()?;
        let work = match is_send {
            true => Work::Send {
                bytes,
                to: partner,
                tag,
            },
            false => Work::Receive {
                bytes,
                from: partner,
                tag,
            },
        };
        let place = match name {
            "send" | "recv" => rank.then(line, name, work),
            _ => rank.begin(line, name, work),
        };
        rank.steps[place as usize].takes_all = !is_send && elements <= 0.0;
        if name.starts_with('i') {
            let key = match is_send {
                true => [me, partner, tag],
                false => [partner, me, tag],
            };
            let key = key.map(|part| if part == ANY { -1 } else { part.into() });
            rank.open.entry(key).or_default().push_back(place);
        }
        Ok(())
    }

    /// A message to one rank and one from another, of which a trace does not say the tags.
    fn exchange(&mut self, (me, line, name): At, words: &mut Words<'_>) -> Result<(), String> {
        let ranks = self.all.len() as u32;
        let rank = &mut self.all[me as usize];
        let (sent, to) = (words.amount()?, words.rank(ranks)?);
        let (taken, from) = (words.number()?, words.source(ranks)?);
        let usual = rank.element_bytes;
        let (first, second) = (words.element(usual)?, words.element(usual)?);
        words.end()?;
        let tag = 0;
        let send = Work::Send {
            bytes: limit(sent, first),
            to,
            tag,
        };
        let receive = Work::Receive {
            bytes: limit(taken, second),
            from,
            tag,
        };
        rank.then_all(line, name, [send, receive].into_iter());
        let last = rank.steps.len() - 1;
        rank.steps[last].takes_all = taken <= 0.0;
        Ok(())
    }

    fn together(&mut self, (me, line, name): At, words: &mut Words<'_>) -> Result<(), String> {
        let ranks = self.all.len() as u32;
        let rank = &mut self.all[me as usize];
        let usual = rank.element_bytes;
        let each = f64::from(ranks);
        let (collective, elements, root) = match name {
            "bcast" => (Collective::Broadcast, words.amount()?, words.root(ranks)?),
            "reduce" | "allreduce" => {
                let (elements, operations) = (words.amount()?, words.amount()?);
                let (collective, root) = match name {
                    "reduce" => (Collective::Reduce, words.root(ranks)?),
                    _ => (Collective::AllReduce, 0),
                };
                let size = bytes(elements, words.element(usual)?);
                words.end()?;
                rank.then(line, name, of_all(collective, size, root));
                rank.compute(line, name, operations);
                return Ok(());
            }
            "reducescatter" => {
                let shares = words.amounts(ranks)?;
                let operations = words.amount()?;
                let size = bytes(shares.iter().sum(), words.element(usual)?);
                words.end()?;
                self.notes.unequal += u64::from(are_unequal(&shares));
                rank.then(line, name, of_all(Collective::ReduceScatter, size, 0));
                rank.compute(line, name, operations);
                return Ok(());
            }
            "allgatherv" => {
                let _own = words.amount()?;
                let shares = words.amounts(ranks)?;
                // A type may stand before displacements, or these alone.
                let rest = words.all.len() - words.next;
                let has_type = rest == 1 || rest == ranks as usize + 1;
                let element = if has_type {
                    words.element(usual)?
                } else {
                    usual
                };
                if rest > ranks as usize + 2 {
                    return words.end();
                }
                self.notes.unequal += u64::from(are_unequal(&shares));
                let size = bytes(shares.iter().sum(), element);
                rank.then(line, name, of_all(Collective::AllGather, size, 0));
                return Ok(());
            }
            _ => {
                let (sent, received) = (words.amount()?, words.amount()?);
                let root = match name {
                    "gather" | "scatter" => words.root(ranks)?,
                    _ => 0,
                };
                let (first, second) = (words.element(usual)?, words.element(usual)?);
                words.end()?;
                let (collective, size) = match name {
                    "alltoall" => (Collective::AllToAll, bytes(sent * each, first)),
                    "allgather" => (Collective::AllGather, bytes(sent * each, first)),
                    "gather" => (Collective::Gather, bytes(sent * each, first)),
                    _ => (Collective::Scatter, bytes(received * each, second)),
                };
                rank.then(line, name, of_all(collective, size, root));
                return Ok(());
            }
        };
        let size = bytes(elements, words.element(usual)?);
        words.end()?;
        rank.then(line, name, of_all(collective, size, root));
        Ok(())
    }

    /// Collectives whose messages the line says one by one, or that have no algorithm here.
    fn by_messages(&mut self, (me, line, name): At, words: &mut Words<'_>) -> Result<(), String> {
        let ranks = self.all.len() as u32;
        let rank = &mut self.all[me as usize];
        let usual = rank.element_bytes;
        let send = |bytes, to| Work::Send {
            bytes,
            to,
            tag: TAG,
        };
        let receive = |bytes, from| Work::Receive {
            bytes,
            from,
            tag: TAG,
        };
        match name {
            "alltoallv" => {
                let _all = words.amount()?;
                let sent = words.amounts(ranks)?;
                let _all = words.amount()?;
                let received = words.amounts(ranks)?;
                let (first, second) = (words.element(usual)?, words.element(usual)?);
                words.end()?;
                for distance in 1..ranks {
                    let to = (me + distance) % ranks;
                    let from = (me + ranks - distance) % ranks;
                    let sent = bytes(sent[to as usize], first);
                    let received = bytes(received[from as usize], second);
                    let both = [
                        (sent > 0).then(|| send(sent, to)),
                        (received > 0).then(|| receive(received, from)),
                    ];
                    rank.then_all(line, name, both.into_iter().flatten());
                }
            }
            "gatherv" | "scatterv" => {
                let is_gather = name == "gatherv";
                let own = if is_gather { words.amount()? } else { 0.0 };
                let shares = words.amounts(ranks)?;
                let own = if is_gather { own } else { words.amount()? };
                let root = words.root(ranks)?;
                let (first, second) = (words.element(usual)?, words.element(usual)?);
                words.end()?;
                let (own_each, root_each) = match is_gather {
                    true => (first, second),
                    false => (second, first),
                };
                let message = |is_send: bool, bytes: u64, peer: u32| match is_send {
                    true => send(bytes, peer),
                    false => receive(bytes, peer),
                };
                let shares = (0..ranks).zip(&shares);
                let shares = shares.map(|(peer, share)| (peer, bytes(*share, root_each)));
                let others = shares.filter(|(peer, bytes)| *peer != root && *bytes > 0);
                let own = bytes(own, own_each);
                match me == root {
                    true => {
                        let all = others.map(|(peer, bytes)| message(!is_gather, bytes, peer));
                        rank.then_all(line, name, all);
                    }
                    false => {
                        let own = (own > 0).then(|| message(is_gather, own, root));
                        rank.then_all(line, name, own.into_iter());
                    }
                }
            }
            _ => {
                let (elements, operations) = (words.amount()?, words.amount()?);
                let size = bytes(elements, words.element(usual)?);
                words.end()?;
                if me > 0 {
                    rank.then(line, name, receive(size, me - 1));
                }
                rank.compute(line, name, operations);
                if me + 1 < ranks {
                    rank.then(line, name, send(size, me + 1));
                }
            }
        }
        Ok(())
    }

    /// The trace; or the rank, the line and what is wrong.
    pub(super) fn finish(mut self) -> Result<(Trace, Notes), (u32, u32, String)> {
        sizes::fill_in(&mut self.all)?;
        let ranks = self.all.len() as u32;
        let steps = self.all.into_iter().map(|rank| {
            let mut steps = Steps::default();
            for step in rank.steps {
                steps.add(step.work, step.line.into(), step.name, step.needs);
            }
            Arc::new(steps)
        });
        let trace = Trace {
            ranks: steps.collect(),
            groups: vec![Group {
                name: "all ranks".to_owned(),
                members: (0..ranks).collect(),
            }],
            step_word: "line",
            receives_are_limits: true,
        };
        Ok((trace, self.notes))
    }
}

/// The rank, the line and the name of an action.
type At = (u32, u32, &'static str);

fn of_all(collective: Collective, bytes: u64, root: u32) -> Work {
    Work::Together(Together {
        collective,
        bytes,
        group: 0,
        root,
    })
}

fn are_unequal(shares: &[f64]) -> bool {
    shares.iter().any(|share| *share != shares[0])
}
