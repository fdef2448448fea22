//! Queues that do not hold all that comes, against closed forms and cases worked out by hand.
//!
//! Hosts of a chain of two switches send over the link between these, which takes 1 ns for a byte.
//! Links of hosts take next to nothing.

use viaduct_engine::{Stream, StreamKey, Time};
use viaduct_network::fluid::ResourceId;
use viaduct_network::{
    Buffers, CongestionControl, Marking, Network, QueueCounts, SharedMemory, Transfer,
};

use crate::common::{BYTE, carry_or_lose, limited, transfer};

/// Bytes of a frame.
const FRAME: u32 = 1_000;
/// The link from the first switch to the second: those of two hosts, up and down, are before it.
const BETWEEN: ResourceId = ResourceId(4);

fn holds(frames: u64) -> Buffers {
    Buffers {
        bytes_max: Some(frames * u64::from(FRAME)),
        ..Buffers::default()
    }
}

fn marks(low: u64, high: u64, probability: f64) -> Buffers {
    Buffers {
        marking: Some(Marking {
            low_bytes: low * u64::from(FRAME),
            high_bytes: high * u64::from(FRAME),
            probability,
            control: CongestionControl::None,
        }),
        ..Buffers::default()
    }
}

/// Which of some frames of one flow are lost that are sent at these times, bytes.
fn lost(network: &mut Network, times: impl Iterator<Item = u64>) -> Vec<bool> {
    let send = |(tag, at): (usize, u64)| (at * BYTE, transfer((0, 1), FRAME, tag));
    let transfers: Vec<(u64, Transfer)> = times.enumerate().map(send).collect();
    let (_, losses) = carry_or_lose(network, &transfers);
    losses.iter().map(Option::is_some).collect()
}

/// What the queue of the link between the switches did.
fn counts(network: &Network) -> QueueCounts {
    network.queue_counts(BETWEEN, Time::ZERO)
}

#[test]
fn what_finds_a_queue_full_is_lost_and_nothing_else() {
    // A frame takes 1,000 bytes' time, and the queue holds three. The fourth that comes at once is
    // lost, and so is the one that comes just before the first has left; the one just behind that
    // finds a place.
    let mut network = limited(2, holds(3), 1);
    let found = lost(&mut network, [0, 1, 2, 3, 990, 1_010, 9_000].into_iter());
    assert_eq!(found, [false, false, false, true, true, false, false]);
    let counts = counts(&network);
    assert_eq!((counts.lost, counts.marked), (2, 0));
    assert_eq!(network.queue_max_bytes(BETWEEN), 3_000);
    // A queue of no limit holds them all.
    let mut network = limited(2, Buffers::default(), 1);
    let found = lost(&mut network, [0, 1, 2, 3, 990, 1_010, 9_000].into_iter());
    assert_eq!(found, [false; 7]);
    assert_eq!(network.queue_max_bytes(BETWEEN), 5_000);
}

/// The switch in the middle of three sends on to both sides, over links of which these are the
/// queues.
const SIDES: [ResourceId; 2] = [ResourceId(7), ResourceId(8)];

#[test]
fn queues_that_share_a_memory_come_to_their_part_of_what_is_free() {
    const MEMORY: u64 = 1_000;
    for alpha in [0.5, 1.0, 2.0, 8.0] {
        let buffers = Buffers {
            shared: Some(SharedMemory {
                bytes: MEMORY * u64::from(FRAME),
                alpha,
            }),
            ..Buffers::default()
        };
        // n queues that nobody empties come to alpha / (1 + n alpha) of it each. The host of the
        // middle sends much faster than they leave: a thousandth of that is gone meanwhile.
        for queues in [1, 2] {
            let mut network = limited(3, buffers, 1);
            let target = |tag: usize| [0, 2][tag % queues];
            let transfers: Vec<(u64, Transfer)> = (0..4_000)
                .map(|tag| (0, transfer((1, target(tag)), FRAME, tag)))
                .collect();
            carry_or_lose(&mut network, &transfers);
            let part = alpha / (1.0 + queues as f64 * alpha) * MEMORY as f64;
            for side in &SIDES[..queues] {
                let most = (network.queue_max_bytes(*side) / u64::from(FRAME)) as f64;
                assert!(
                    (most - part).abs() <= 1.0,
                    "{alpha} {queues}: {most} {part}"
                );
                let lost = network.queue_counts(*side, Time::ZERO).lost as f64;
                let sent = 4_000.0 / queues as f64;
                assert!((sent - lost - part).abs() < 6.0, "{alpha} {queues}: {lost}");
            }
        }
    }
}

#[test]
fn a_memory_that_is_shared_is_that_of_one_switch() {
    // Of alpha = 1 one queue alone comes to half of the memory, whatever another switch holds.
    let buffers = Buffers {
        shared: Some(SharedMemory {
            bytes: 8 * u64::from(FRAME),
            alpha: 1.0,
        }),
        ..Buffers::default()
    };
    let mut network = limited(3, buffers, 1);
    let transfers: Vec<(u64, Transfer)> = (0..20)
        .map(|tag| (0, transfer([(0, 1), (1, 2)][tag % 2], FRAME, tag)))
        .collect();
    carry_or_lose(&mut network, &transfers);
    for link in [ResourceId(6), SIDES[1]] {
        assert_eq!(network.queue_max_bytes(link), 4 * u64::from(FRAME));
        assert_eq!(network.queue_counts(link, Time::ZERO).lost, 6);
    }
}

#[test]
fn what_comes_behind_others_is_marked_beyond_the_limit() {
    // With low and high alike: frames with more than two before them.
    let mut network = limited(2, marks(2, 2, 1.0), 1);
    assert!(!lost(&mut network, [0, 1, 2, 3, 4, 9_000].into_iter()).contains(&true));
    assert_eq!(counts(&network).marked, 2);
}

#[test]
fn between_the_limits_the_part_that_is_marked_grows_with_the_queue() {
    // Frames come as fast as they leave, behind so many that were there before: with 6 before it,
    // a frame is marked with the probability 0.4 (6 - 2) / (10 - 2).
    let behind = |frames: u64, buffers: Buffers| {
        let mut network = limited(2, buffers, 3);
        let first = (0..frames).chain((0..20_000).map(|it| 500 + 1_000 * it));
        lost(&mut network, first);
        counts(&network).marked
    };
    let marked = behind(6, marks(2, 10, 0.4));
    assert!((3_800..4_200).contains(&marked), "{marked}");
    let marked = behind(4, marks(2, 10, 0.4));
    assert!((1_850..2_150).contains(&marked), "{marked}");
    assert_eq!(behind(2, marks(2, 10, 0.4)), 0);
    assert!(behind(11, marks(2, 10, 0.4)) > 19_990);
}

/// The part of equal frames that is lost which come at random, at a load, to a queue that holds so
/// many with the one that leaves (M/D/1/K), by the queue's states as frames leave it.
fn loss(load: f64, holds: usize) -> f64 {
    // That so many come while one leaves, from none: e to the power of minus the load, and so on.
    let (sum, _) = (1..64).fold((1.0, 1.0), |(sum, term), n| {
        let term = term * load / f64::from(n);
        (sum + term, term)
    });
    let mut comes = vec![1.0 / sum];
    for n in 1..=holds {
        comes.push(comes[n - 1] * load / n as f64);
    }
    let mut states = vec![1.0];
    for left in 0..holds - 1 {
        let before: f64 = (1..=left).map(|it| states[it] * comes[left - it + 1]).sum();
        states.push((states[left] - before - states[0] * comes[left]) / comes[0]);
    }
    let empty = 1.0 / states.iter().sum::<f64>();
    1.0 - 1.0 / (empty + load)
}

#[test]
fn a_finite_queue_loses_what_queueing_theory_says() {
    // With one place that is Erlang's formula, load / (1 + load).
    assert!((loss(0.8, 1) - 0.8 / 1.8).abs() < 1e-12);
    for (load, holds_frames) in [(0.8, 1), (0.8, 3), (0.9, 8), (1.3, 4)] {
        let mut network = limited(2, holds(holds_frames), 1);
        let mut stream = Stream::new(StreamKey {
            seed: 5,
            purpose: 99,
            entity: holds_frames,
        });
        // One comes in each nanosecond with the same small probability.
        let limit = (load / f64::from(FRAME) * 2_f64.powi(64)) as u64;
        let mut now = 0;
        let times = (0..60_000).map(|_| {
            now += 1;
            while stream.next_u64() >= limit {
                now += 1;
            }
            now
        });
        let times: Vec<u64> = times.collect();
        let found = lost(&mut network, times.into_iter());
        let found = found.iter().filter(|is_lost| **is_lost).count() as f64 / 60_000.0;
        let expected = loss(load, holds_frames as usize);
        assert!(
            (found - expected).abs() < 0.03 * expected + 0.001,
            "{found} lost at {load} with room for {holds_frames}, not {expected}"
        );
    }
}
