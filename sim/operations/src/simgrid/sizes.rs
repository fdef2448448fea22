//! How many bytes receives take: at most as many as they say, as in MPI, or whatever comes.
//!
//! Where it is known which send a receive takes, it gets that one's size.

use std::collections::{BTreeMap, VecDeque};

use super::actions::{Rank, Step};
use crate::graph::ANY;
use crate::trace::{LISTED_TAG, Work};

/// A send: its bytes and its line.
type Sent = (u64, u32);

/// Sends to a rank, in order, by source and tag.
type Sends = BTreeMap<(u32, u32), VecDeque<Sent>>;

/// Gives receives the sizes of what they take; or says the rank, the line and what is wrong.
pub(super) fn fill_in(ranks: &mut [Rank]) -> Result<(), (u32, u32, String)> {
    let mut sent: Vec<Sends> = ranks.iter().map(|_| Sends::new()).collect();
    for (rank, steps) in (0..).zip(&*ranks) {
        for step in &steps.steps {
            if let Work::Send { bytes, to, tag } = step.work {
                let sends = sent[to as usize].entry((rank, tag)).or_default();
                sends.push_back((bytes, step.line));
            }
        }
    }
    for ((rank, steps), mut sends) in (0..).zip(ranks).zip(sent) {
        let is_wild = |step: &Step| matches!(step.work, Work::Receive { from, tag, .. } if from == ANY || tag == ANY);
        let known = !steps.steps.iter().any(is_wild);
        let mut ranges = BTreeMap::new();
        for step in &mut steps.steps {
            let Work::Receive { bytes, from, tag } = &mut step.work else {
                continue;
            };
            // The n-th of a source and tag takes the n-th send. Where a receive of any may come
            // between, it is one of those that fit.
            let next = match known || *tag == LISTED_TAG {
                true => {
                    let next = sends.get_mut(&(*from, *tag));
                    next.and_then(VecDeque::pop_front).map(|it| (it, it.0))
                }
                false => *ranges
                    .entry((*from, *tag))
                    .or_insert_with(|| range(&sends, (*from, *tag))),
            };
            let problem = match next {
                Some((least, most)) if step.takes_all => {
                    *bytes = least.0.max(most);
                    continue;
                }
                None if step.takes_all => {
                    let source = match *from {
                        ANY => "any rank".to_owned(),
                        from => format!("rank {from}"),
                    };
                    let tag = match *tag {
                        ANY => "any tag".to_owned(),
                        tag => format!("tag {tag}"),
                    };
                    format!(
                        "it takes what comes, and no send of {source} with {tag} is left for it"
                    )
                }
                Some(((sent, line), _)) if *tag == LISTED_TAG && sent != *bytes => format!(
                    "it takes {bytes} B of rank {from}, whose line {line} sends it {sent} B"
                ),
                Some((least, most)) if least.0 == most && most < *bytes => {
                    *bytes = most;
                    continue;
                }
                _ => continue,
            };
            return Err((rank, step.line, format!("`{}`: {problem}", step.name)));
        }
    }
    Ok(())
}

/// The smallest of the sends that fit a source and tag, and the size of the largest.
fn range(sends: &Sends, (from, tag): (u32, u32)) -> Option<(Sent, u64)> {
    let fitting = sends.iter().filter(|(key, _)| {
        (from == ANY || from == key.0) && (tag == key.1 || tag == ANY && key.1 != LISTED_TAG)
    });
    let mut all = fitting.flat_map(|(_, sends)| sends).copied();
    let first = all.next()?;
    Some(all.fold((first, first.0), |(least, most), sent| {
        (least.min(sent), most.max(sent.0))
    }))
}
