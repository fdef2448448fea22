//! What comes in a window, queue by queue.

use super::calendar::Arrival;

/// No arrival.
const NONE: u32 = u32::MAX;

/// Puts what comes in a window in the order of queues, and what comes to one in that of time.
#[derive(Debug)]
pub(super) struct Inboxes {
    /// Of each queue, what comes last of what is known so far.
    last: Vec<u32>,
    /// What comes to the same queue before it, of each.
    before: Vec<u32>,
    /// Queues to which something comes.
    touched: Vec<u32>,
    /// The order, by places among what comes.
    order: Vec<u32>,
}

impl Inboxes {
    /// Of so many queues.
    pub(super) fn of(queues: usize) -> Self {
        Self {
            last: vec![NONE; queues],
            before: Vec::new(),
            touched: Vec::new(),
            order: Vec::new(),
        }
    }

    /// The order of what comes in a window. The caller has it until it gives it back.
    pub(super) fn order(&mut self, arrivals: &[Arrival]) -> Vec<u32> {
        for (place, arrival) in (0..).zip(arrivals) {
            let last = &mut self.last[arrival.link as usize];
            if *last == NONE {
                self.touched.push(arrival.link);
            }
            // What comes from one link is in order before: mostly it is the last.
            let mut behind = NONE;
            let mut at = *last;
            while at != NONE && arrivals[at as usize].key() > arrival.key() {
                behind = at;
                at = self.before[at as usize];
            }
            self.before.push(at);
            match behind {
                NONE => *last = place,
                behind => self.before[behind as usize] = place,
            }
        }
        let mut order = core::mem::take(&mut self.order);
        for link in self.touched.drain(..) {
            let begin = order.len();
            let mut at = core::mem::replace(&mut self.last[link as usize], NONE);
            while at != NONE {
                order.push(at);
                at = self.before[at as usize];
            }
            order[begin..].reverse();
        }
        self.before.clear();
        order
    }

    /// The window is over.
    pub(super) fn give_back(&mut self, mut order: Vec<u32>) {
        order.clear();
        self.order = order;
    }

    pub(super) fn state_bytes(&self) -> usize {
        let lists = [&self.last, &self.before, &self.touched, &self.order];
        lists.map(Vec::capacity).iter().sum::<usize>() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::calendar::Kind;
    use super::*;

    fn arrival(link: u32, time: u64, from: u32, passage: u32) -> Arrival {
        Arrival {
            time,
            sent: 0,
            passage,
            link,
            from,
            route: 0,
            kind: Kind::new(true, true),
        }
    }

    #[test]
    fn what_comes_to_a_queue_is_in_the_order_of_time_and_links() {
        let mut inboxes = Inboxes::of(4);
        let mut number = 0;
        for round in 0..50_u64 {
            let arrivals: Vec<_> = (0..round)
                .map(|place| {
                    number = (number * 7 + 5) % 1_009;
                    arrival(number % 4, number.into(), number % 3, place as u32)
                })
                .collect();
            let order = inboxes.order(&arrivals);
            let first = |link| arrivals.iter().position(|it| it.link == link);
            let mut expected: Vec<u32> = (0..round as u32).collect();
            // What is alike stays in its order.
            expected.sort_by_key(|&place| {
                let it = &arrivals[place as usize];
                (first(it.link), it.key())
            });
            assert_eq!(order, expected, "round {round}");
            inboxes.give_back(order);
        }
    }

    #[test]
    fn what_comes_at_one_time_by_one_link_stays_in_its_order() {
        let arrivals = [(5, 2), (5, 1), (5, 2), (4, 9), (5, 1)];
        let arrivals = arrivals.map(|(time, from)| arrival(0, time, from, 0));
        assert_eq!(Inboxes::of(1).order(&arrivals), [3, 1, 4, 0, 2]);
    }
}
