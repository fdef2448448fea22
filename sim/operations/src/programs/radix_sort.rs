//! A radix sort as in Split-C: in each pass a rank counts its keys by a digit; counts are added up
//! from rank to rank, a message for each value of the digit, and totals come back the same way;
//! then each key goes to where it is to lie, in a message of its own.
//!
//! From Dusseau, Culler, Schauser, Martin, Fast Parallel Sorting Under LogP, IEEE Transactions on
//! Parallel and Distributed Systems 7(8), 1996. Assumed: keys of 32 bits, as many with each rank
//! and for one after the other in turn; messages of 8 bytes, a count and its place or a key and
//! its place. Operations are a key that is counted or sent.

use super::{Rounds, counted};
use crate::collective::block_bytes;
use crate::trace::Work;

/// Keys that are sorted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Keys {
    /// How many there are, of all ranks; what is left over is with the first ones.
    pub count: u32,
    /// Bits of the digit of a pass.
    pub digit_bits: u32,
}

/// Bits of a key.
const KEY_BITS: u32 = 32;
/// Bytes of a message.
const MESSAGE: u64 = 8;

impl Default for Keys {
    fn default() -> Self {
        Self {
            count: 1 << 16,
            digit_bits: 8,
        }
    }
}

impl Keys {
    pub(super) const fn passes(&self) -> u32 {
        KEY_BITS.div_ceil(self.digit_bits)
    }
}

pub(super) fn rounds(keys: &Keys, (ranks, rank): (u32, u32), passes: u32) -> Rounds {
    let mut rounds = Rounds::default();
    let of_rank = |rank: u32| block_bytes(keys.count.into(), ranks, rank) as u32;
    let own = of_rank(rank);
    let values = 1_u32 << keys.digit_bits;
    let (behind, ahead) = (rank.checked_sub(1), (rank + 1 < ranks).then_some(rank + 1));
    for _ in 0..passes {
        rounds.compute("count keys", own.into());
        pipeline(&mut rounds, "counts", values, (behind, ahead));
        pipeline(&mut rounds, "totals", values, (ahead, behind));
        // Key n of a rank goes to the n-th rank after it, counted on and on; its own stay.
        let received = (1..ranks).flat_map(|step| {
            let from = (rank + ranks - step) % ranks;
            let receive = Work::Receive {
                bytes: MESSAGE,
                from,
                tag: 0,
            };
            let all = of_rank(from);
            let of_step = all / ranks + u32::from(step < all % ranks);
            core::iter::repeat_n(receive, of_step as usize)
        });
        let received: Vec<Work> = received.collect();
        let rows = (0..own).step_by(ranks as usize).flat_map(|first| {
            let row = ranks.min(own - first);
            let sent = (1..row).map(|step| Work::Send {
                bytes: MESSAGE,
                to: (rank + step) % ranks,
                tag: 0,
            });
            let sent: Vec<Work> = sent.collect();
            [vec![counted(row.into())], sent]
        });
        let rows: Vec<Vec<Work>> = rows.collect();
        rounds.add_in_turn("keys", &received, &rows);
    }
    rounds
}

/// One message after the other comes from a rank, if there is one, and goes on to another.
fn pipeline(
    rounds: &mut Rounds,
    name: &str,
    messages: u32,
    (from, to): (Option<u32>, Option<u32>),
) {
    let (bytes, tag) = (MESSAGE, 0);
    for _ in 0..messages {
        if let Some(from) = from {
            rounds.add(name, &[Work::Receive { bytes, from, tag }]);
        }
        if let Some(to) = to {
            rounds.add(name, &[Work::Send { bytes, to, tag }]);
        }
    }
}
