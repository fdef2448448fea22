//! Frames that links lose or corrupt.

use std::collections::BTreeMap;

use viaduct_engine::{Stream, StreamKey};
use viaduct_topology::LinkId;

/// Purposes of random streams; each link has one of each.
const LOSS: u64 = 0xfa01;
const CORRUPTION: u64 = 0xfa02;

/// What happened to frames on their way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Harm {
    /// Nothing happened to any.
    None,
    /// Bytes of one came to harm.
    Corrupt,
    /// One does not arrive.
    Lost,
}

/// How often links harm the frames that cross them.
#[derive(Debug)]
pub struct Damage {
    loss: Rates,
    corruption: Rates,
}

impl Damage {
    /// None, of so many links. What is drawn hangs on the seed.
    #[must_use]
    pub const fn none(links: u32, seed: u64) -> Self {
        Self {
            loss: Rates::new(links, seed, LOSS),
            corruption: Rates::new(links, seed, CORRUPTION),
        }
    }

    /// A link loses frames at a rate, 0 to 1; rates of one link add up.
    pub fn lose(&mut self, link: u32, rate: f64) {
        self.loss.add(link, rate);
    }

    /// A link corrupts frames at a rate, 0 to 1; rates of one link add up.
    pub fn corrupt(&mut self, link: u32, rate: f64) {
        self.corruption.add(link, rate);
    }

    /// What these links do to so many frames, and how many of them are before the first that comes
    /// to harm.
    pub fn draw(&mut self, links: &[LinkId], frames: u64) -> (Harm, u64) {
        let mut harm = Harm::None;
        // Frames that go on to the next link, and those before a corrupt one.
        let (mut left, mut whole) = (frames, frames);
        for link in links {
            if let Some(lost) = (0..left).find(|_| self.loss.strikes(link.0)) {
                left = lost;

                harm = Harm::Lost;
            }
            if let Some(corrupt) = (0..left).find(|_| self.corruption.strikes(link.0)) {
                whole = whole.min(corrupt);
                if harm == Harm::None {
                    harm = Harm::Corrupt;
                }
            }
        }
        (harm, left.min(whole))
    }

    /// Whether a frame that crosses these links comes to no harm.
    pub fn lets_pass(&mut self, links: &[LinkId]) -> bool {
        self.draw(links, 1).0 == Harm::None
    }
}

/// How often something strikes, by link.
#[derive(Debug)]
struct Rates {
    links: u32,
    seed: u64,
    purpose: u64,
    /// The part that gets through; empty if nothing strikes anywhere.
    passing: Vec<f64>,
    streams: BTreeMap<u32, Stream>,
}

impl Rates {
    const fn new(links: u32, seed: u64, purpose: u64) -> Self {
        Self {
            links,
            seed,
            purpose,
            passing: Vec::new(),
            streams: BTreeMap::new(),
        }
    }

    fn add(&mut self, link: u32, rate: f64) {
        self.passing.resize(self.links as usize, 1.0);
        self.passing[link as usize] *= 1.0 - rate;
    }

    /// Whether it strikes the frame that crosses a link now.
    fn strikes(&mut self, link: u32) -> bool {
        /// As many as there are numbers of 64 bits.
        const ALL: f64 = 18_446_744_073_709_551_616.0;

        let Some(passing) = self.passing.get(link as usize).filter(|part| **part < 1.0) else {
            return false;
        };
        let key = StreamKey {
            seed: self.seed,
            purpose: self.purpose,
            entity: u64::from(link),
        };
        let stream = self.streams.entry(link);
        let drawn = stream.or_insert_with(|| Stream::new(key)).next_u64();
        u128::from(drawn) < ((1.0 - passing) * ALL) as u128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAY: [LinkId; 3] = [LinkId(0), LinkId(1), LinkId(2)];

    #[test]
    fn what_is_lost_first_ends_the_count_of_frames() {
        let mut damage = Damage::none(3, 1);
        assert_eq!(damage.draw(&WAY, 1000), (Harm::None, 1000));
        damage.corrupt(2, 1.0);
        assert_eq!(damage.draw(&WAY, 10), (Harm::Corrupt, 0));
        damage.lose(1, 1.0);
        // What is lost before a link that corrupts does not come to that.
        assert_eq!(damage.draw(&WAY, 10), (Harm::Lost, 0));
        assert_eq!(damage.draw(&WAY[..2], 10), (Harm::Lost, 0));
        assert_eq!(damage.draw(&WAY[..1], 10), (Harm::None, 10));
    }

    #[test]
    fn each_link_strikes_by_itself_and_rates_of_one_add_up() {
        let mut damage = Damage::none(3, 7);
        damage.lose(0, 0.5);
        damage.lose(0, 0.5);
        let lost = (0..10_000).filter(|_| !damage.lets_pass(&WAY[..1])).count();
        assert!((7_350..7_650).contains(&lost), "{lost}");
        assert!(damage.lets_pass(&WAY[1..]));
    }
}
