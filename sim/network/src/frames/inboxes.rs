//! What comes in a window, queue by queue.

use super::calendar::Arrival;

/// Puts what comes to one queue in a window in the order of time.
///
/// Mostly nothing else comes to a queue in a window, so that nothing is put in order but what
/// shares its queue.
#[derive(Debug)]
pub(super) struct Inboxes {
    /// Of each queue, in which window something came to it last: the window's mark, or the next
    /// one if more than one came.
    marks: Vec<u32>,
    /// The mark of this window. Those of two windows are two apart.
    mark: u32,
    /// What shares its queue, as it is sorted: the queue, [`Arrival::key`] and the place.
    shared: Vec<(u32, (u64, u32), u32)>,
    /// The order, by places among what comes.
    order: Vec<u32>,
}

impl Inboxes {
    /// Of so many queues.
    pub(super) fn of(queues: usize) -> Self {
        Self {
            marks: vec![0; queues],
            mark: 0,
            shared: Vec::new(),
            order: Vec::new(),
        }
    }

    /// The order of what comes in a window; none if any will do. The caller has it until it gives
    /// it back.
    pub(super) fn order(&mut self, arrivals: &[Arrival]) -> Option<Vec<u32>> {
        if self.mark >= u32::MAX - 3 {
            self.marks.fill(0);
            self.mark = 0;
        }
        self.mark += 2;
        let mut is_any_shared = false;
        for arrival in arrivals {
            let mark = &mut self.marks[arrival.link as usize];
            let is_shared = *mark >= self.mark;
            is_any_shared |= is_shared;
            *mark = self.mark + u32::from(is_shared);
        }
        is_any_shared.then(|| self.sort(arrivals))
    }

    /// What comes alone first, as it stands, and then what shares its queue.
    fn sort(&mut self, arrivals: &[Arrival]) -> Vec<u32> {
        let mut order = core::mem::take(&mut self.order);
        for (place, arrival) in (0..).zip(arrivals) {
            if self.marks[arrival.link as usize] == self.mark {
                order.push(place);
            } else {
                self.shared.push((arrival.link, arrival.key(), place));
            }
        }
        self.shared.sort_unstable();
        order.extend(self.shared.drain(..).map(|(.., place)| place));
        order
    }

    /// The window is over.
    pub(super) fn give_back(&mut self, mut order: Vec<u32>) {
        order.clear();
        self.order = order;
    }

    pub(super) fn state_bytes(&self) -> usize {
        let numbers = self.marks.capacity() + self.order.capacity();
        numbers * size_of::<u32>() + self.shared.capacity() * size_of::<(u32, (u64, u32), u32)>()
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
            let places = order.unwrap_or_else(|| (0..round as u32).collect());
            let mut all = places.clone();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..round as u32), "round {round}");
            for link in 0..4 {
                let comes_here = |place: &u32| arrivals[*place as usize].link == link;
                let mut expected: Vec<u32> = (0..round as u32).filter(comes_here).collect();
                // What is alike stays in its order.
                expected.sort_by_key(|&place| arrivals[place as usize].key());
                let found = places.iter().copied().filter(comes_here);
                assert!(found.eq(expected), "round {round}, queue {link}");
            }
            inboxes.give_back(places);
        }
    }

    #[test]
    fn what_comes_at_one_time_by_one_link_stays_in_its_order() {
        let arrivals = [(5, 2), (5, 1), (5, 2), (4, 9), (5, 1)];
        let arrivals = arrivals.map(|(time, from)| arrival(0, time, from, 0));
        let order = Inboxes::of(1).order(&arrivals);
        assert_eq!(order.as_deref(), Some(&[3, 1, 4, 0, 2][..]));
    }

    #[test]
    fn what_is_alone_needs_no_order() {
        let mut inboxes = Inboxes::of(2);
        let arrivals = [arrival(1, 5, 0, 0), arrival(0, 4, 0, 1)];
        assert_eq!(inboxes.order(&arrivals), None);
        // Nor after very many windows.
        inboxes.mark = u32::MAX - 4;
        assert_eq!(inboxes.order(&arrivals), None);
        assert_eq!(inboxes.order(&arrivals), None);
        assert_eq!(inboxes.order(&[arrivals[0]; 2]), Some(vec![0, 1]));
    }
}
