//! Which collectives of ranks belong together: the n-th of a group on each of its members.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::expand::step_name;
use super::{TOGETHER_MAX, Together, Trace, TraceError, Work};
use crate::collective::Collective;

/// What a collective of a group is, and who said so.
struct Agreed {
    together: Together,
    rank: u32,
    place: u32,
    /// Of an all-to-all, by rank: what each has.
    bytes: Vec<(u32, u64)>,
}

impl Agreed {
    /// Whether another rank does the same: to an all-to-all each may bring as much as it has.
    fn is_same(&self, other: Together) -> bool {
        let bytes = match self.together.collective {
            Collective::AllToAll => self.together.bytes,
            _ => other.bytes,
        };
        self.together == Together { bytes, ..other }
    }
}

/// Numbers of collectives, one for all members.
pub(super) struct Pairing {
    /// Of the first one of each group.
    first: Vec<u32>,
    /// What each rank brings, of those to which not all bring as much.
    unequal: BTreeMap<u32, Vec<(u32, u64)>>,
}

impl Pairing {
    /// The number of a group's collective, counted from 0.
    pub(super) fn number(&self, group: u32, place: u32) -> u32 {
        self.first[group as usize] + place
    }

    /// Whether not all bring as much.
    pub(super) fn is_unequal(&self, number: u32) -> bool {
        self.unequal.contains_key(&number)
    }

    /// What a rank brings, if not all bring as much.
    pub(super) fn bytes_of(&self, number: u32, rank: u32) -> Option<u64> {
        let bytes = self.unequal.get(&number)?;
        let place = bytes.binary_search_by_key(&rank, |(rank, _)| *rank).ok()?;
        Some(bytes[place].1)
    }

    /// Those of a trace, whose members must do the same in the same order.
    pub(super) fn of(trace: &Trace, orders: &[Arc<Vec<u32>>]) -> Result<Self, TraceError> {
        let mut agreed: Vec<Vec<Agreed>> = trace.groups.iter().map(|_| Vec::new()).collect();
        let mut counts: Vec<Vec<(u32, u32)>> = trace.groups.iter().map(|_| Vec::new()).collect();
        let mut done = vec![0_u32; trace.groups.len()];
        for (rank, (steps, order)) in (0..).zip(trace.ranks.iter().zip(orders)) {
            done.fill(0);
            for place in order.iter().copied() {
                let Work::Together(together) = steps.work(place) else {
                    continue;
                };
                let group = together.group as usize;
                let (known, count) = (&mut agreed[group], &mut done[group]);
                let brings =
                    (together.collective == Collective::AllToAll).then_some((rank, together.bytes));
                match known.get_mut(*count as usize) {
                    None => known.push(Agreed {
                        together,
                        rank,
                        place,
                        bytes: brings.into_iter().collect(),
                    }),
                    Some(first) if first.is_same(together) => first.bytes.extend(brings),
                    Some(first) => {
                        return Err(TraceError::Differs {
                            group: trace.groups[group].name.clone(),
                            place: *count + 1,
                            first: Box::new((
                                step_name(trace, first.rank, first.place),
                                described(first.together),
                            )),
                            second: Box::new((step_name(trace, rank, place), described(together))),
                        });
                    }
                }
                *count += 1;
            }
            for (counts, done) in counts.iter_mut().zip(&done) {
                if *done > 0 {
                    counts.push((rank, *done));
                }
            }
        }
        let (mut first, mut unequal) = (Vec::new(), BTreeMap::new());
        let mut next = 0_u32;
        for ((group, agreed), counts) in trace.groups.iter().zip(&mut agreed).zip(&counts) {
            for rank in group.members.iter().filter(|_| !agreed.is_empty()) {
                let of_rank = counts.binary_search_by_key(rank, |(rank, _)| *rank);
                let count = of_rank.map_or(0, |at| counts[at].1);
                if let Some(extra) = agreed.get(count as usize) {
                    return Err(TraceError::Missing {
                        group: group.name.clone(),
                        rank: *rank,
                        count,
                        extra: step_name(trace, extra.rank, extra.place),
                    });
                }
            }
            first.push(next);
            for (number, agreed) in (next..).zip(agreed.iter_mut()) {
                let usual = agreed.together.bytes;
                if agreed.bytes.iter().any(|(_, bytes)| *bytes != usual) {
                    unequal.insert(number, core::mem::take(&mut agreed.bytes));
                }
            }
            next = next.saturating_add(agreed.len() as u32);
        }
        match next > TOGETHER_MAX {
            true => Err(TraceError::TooMany),
            false => Ok(Self { first, unequal }),
        }
    }
}

fn described(together: Together) -> String {
    let Together {
        collective,
        bytes,
        root,
        ..
    } = together;
    match root {
        0 => format!("{collective} of {bytes} B"),
        root => format!("{collective} of {bytes} B, root {root} of the group"),
    }
}
