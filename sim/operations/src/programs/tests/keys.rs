use super::*;

fn sort(count: u32, digit_bits: u32, ranks: u32) -> Request {
    Request {
        keys: Keys { count, digit_bits },
        ..Request::usual(Program::RadixSort, ranks)
    }
}

#[test]
fn each_key_goes_in_a_message_of_its_own_and_counts_from_rank_to_rank() {
    for (count, ranks) in [(800_u32, 8_u32), (60, 8), (193, 3), (5, 1)] {
        let graph = made(&sort(count, 5, ranks));
        for rank in 0..ranks {
            // Seven passes of five bits; of a rank's keys one in so many stays where it is.
            let own = (rank..count).step_by(ranks as usize).count() as u32;
            let away = u64::from(own - own.div_ceil(ranks));
            let neighbours = u64::from(rank > 0) + u64::from(rank + 1 < ranks);
            let messages = 7 * (away + 32 * neighbours);
            assert_eq!(sent(&graph, rank), (messages, 8 * messages), "{rank}");
        }
        assert_eq!(check(&graph), []);
        let counted = operations(&sort(count, 5, ranks));
        assert_eq!(counted, f64::from(7 * 2 * count));
    }
}

#[test]
fn counts_go_through_the_ranks_as_through_a_pipeline() {
    // However many messages there are: counts go forth, totals back.
    for ranks in [1, 2, 5, 8] {
        let request = Request {
            iterations: Some(1),
            ..sort(ranks, 6, ranks)
        };
        let ways = 2 * u64::from(ranks - 1);
        assert_eq!(latencies(&made(&request)), ways, "{ranks}");
    }
}

#[test]
fn keys_are_sent_while_others_are_still_counted() {
    let request = Request {
        iterations: Some(1),
        ..sort(512, 1, 8)
    };
    let made = trace(&request).unwrap();
    let steps = &made.ranks[0];
    let of_keys = (0..steps.len() as u32).filter(|place| steps.name(*place).1 == "keys");
    let kinds: String = of_keys
        .map(|place| match steps.work(place) {
            Work::Receive { .. } => 'r',
            Work::Send { .. } => 's',
            _ => 'c',
        })
        .collect();
    assert_eq!(kinds, "r".repeat(56) + &"csssssss".repeat(8));
}
