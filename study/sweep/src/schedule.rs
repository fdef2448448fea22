//! Which runs are to be made next: a function of those made, not of the order in which they end.

use std::collections::{BTreeMap, BTreeSet};

use viaduct_report::{CellRecord, RunRecord};

use crate::ledger::RunCounts;

/// Runs of a cell before its interval is believed.
pub(crate) const SEEDS_MIN: u32 = 3;

/// A run to be made.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Job {
    /// Number of its cell.
    pub cell: u32,
    /// Place of the seed among the cell's seeds, from 0.
    pub index: u32,
}

/// When a cell has enough seeds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StopRule {
    /// Most seeds of a cell.
    pub(crate) seeds_max: u32,
    /// The half width of the interval over the mean that is small enough.
    pub(crate) width: Option<f64>,
}

/// The runs of some cells.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// The half width of the interval over the mean that is small enough.
    width: Option<f64>,
    cells: BTreeMap<u32, Cell>,
    /// Runs to be made, in the order of cells.
    ready: BTreeSet<Job>,
    /// Runs under way of each cell that has some.
    under_way: BTreeMap<u32, u32>,
}

/// What is known of a cell's runs, by the place of the seed.
#[derive(Debug, Default)]
struct Cell {
    /// Records count where a width is asked for.
    known: BTreeMap<u32, Option<RunRecord>>,
    seeds_max: u32,
    /// Seeds asked for so far, the first ones.
    asked: u32,
    /// Of these, runs not known yet.
    missing: u32,
}

impl Schedule {
    /// The runs of `cells`, of which `known` were made: cell, place of the seed, record.
    pub(crate) fn new(
        rule: StopRule,
        cells: impl Iterator<Item = u32>,
        known: impl Iterator<Item = (Job, RunRecord)>,
    ) -> Self {
        let cells = cells.map(|cell| (cell, rule.seeds_max));
        let mut schedule = Self::empty(rule.width, cells);
        for (job, record) in known {
            if let Some(cell) = schedule.cells.get_mut(&job.cell) {
                cell.known.insert(job.index, Some(record));
            }
        }
        schedule.refill_all();
        schedule
    }

    /// Cells from 0 on, each with a number of runs of its own.
    pub(crate) fn of_seeds(seeds: impl IntoIterator<Item = u32>) -> Self {
        let mut schedule = Self::empty(None, (0..).zip(seeds));
        schedule.refill_all();
        schedule
    }

    fn empty(width: Option<f64>, cells: impl Iterator<Item = (u32, u32)>) -> Self {
        let cell = |(number, seeds_max)| {
            let cell = Cell {
                seeds_max,
                ..Cell::default()
            };
            (number, cell)
        };
        Self {
            width,
            cells: cells.map(cell).collect(),
            ready: BTreeSet::new(),
            under_way: BTreeMap::new(),
        }
    }

    fn refill_all(&mut self) {
        let numbers: Vec<u32> = self.cells.keys().copied().collect();
        for number in numbers {
            self.refill(number);
        }
    }

    /// A run to make now, of the cell `last` if it has one; none if all are under way or done.
    ///
    /// Whoever has made a run of a cell has read the cell: a run of another goes to a cell that
    /// nobody has begun, so that few read the same one.
    pub(crate) fn next(&mut self, last: Option<u32>) -> Option<Job> {
        let of_last = last.and_then(|cell| self.ready.range(first_of(cell)..).next());
        let job = of_last
            .filter(|job| Some(job.cell) == last)
            .or_else(|| self.untouched())
            .or_else(|| self.ready.first())
            .copied()?;
        self.ready.remove(&job);
        *self.under_way.entry(job.cell).or_default() += 1;
        Some(job)
    }

    /// The first run of the first cell of which none is under way.
    fn untouched(&self) -> Option<&Job> {
        let mut from = 0;
        // Cells under way are at most as many as there are workers.
        loop {
            let job = self.ready.range(first_of(from)..).next()?;
            if !self.under_way.contains_key(&job.cell) {
                return Some(job);
            }
            from = job.cell.checked_add(1)?;
        }
    }

    /// A run has ended; its record counts where a width is asked for.
    pub(crate) fn done(&mut self, job: Job, record: Option<RunRecord>) {
        self.let_go(job);
        if let Some(cell) = self.cells.get_mut(&job.cell) {
            let is_new = cell.known.insert(job.index, record).is_none();
            cell.missing -= u32::from(is_new && job.index < cell.asked);
            self.refill(job.cell);
        }
    }

    /// A run that was under way is not made: it is to be made again.
    pub(crate) fn give_back(&mut self, job: Job) {
        if self.let_go(job) {
            self.ready.insert(job);
        }
    }

    /// Whether a run of the cell was under way, which is so no more.
    fn let_go(&mut self, job: Job) -> bool {
        let Some(count) = self.under_way.get_mut(&job.cell) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.under_way.remove(&job.cell);
        }
        true
    }

    /// Whether a run of the cell is under way that may be this one.
    pub(crate) fn is_under_way(&self, job: Job) -> bool {
        let cell = self.cells.get(&job.cell);
        let is_missing =
            |cell: &Cell| job.index < cell.asked && !cell.known.contains_key(&job.index);
        cell.is_some_and(is_missing) && !self.ready.contains(&job)
    }

    /// Runs that could begin now.
    pub(crate) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// Whether nothing is under way that could ask for more.
    pub(crate) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.under_way.is_empty()
    }

    /// Runs that are asked for and not made.
    pub(crate) fn left(&self) -> u64 {
        let cells = self.cells.values();
        cells.map(|cell| u64::from(cell.missing)).sum()
    }

    /// Most runs that may be asked for.
    pub(crate) fn runs_max(&self) -> u64 {
        let cells = self.cells.values();
        cells.map(|cell| u64::from(cell.seeds_max)).sum()
    }

    /// How far it is.
    pub(crate) fn counts(&self) -> RunCounts {
        let asked = self.cells.values().map(|cell| u64::from(cell.asked)).sum();
        RunCounts {
            asked,
            made: asked - self.left(),
        }
    }

    /// Asks for the next seeds of a cell, once all that it was asked for are known.
    fn refill(&mut self, number: u32) {
        let Some(cell) = self.cells.get_mut(&number) else {
            return;
        };
        while cell.missing == 0 {
            let wanted = cell.seeds_wanted(self.width);
            if wanted <= cell.asked {
                return;
            }
            for index in cell.asked..wanted {
                if !cell.known.contains_key(&index) {
                    cell.missing += 1;
                    self.ready.insert(Job {
                        cell: number,
                        index,
                    });
                }
            }
            cell.asked = wanted;
        }
    }
}

/// Where the runs of a cell begin among all.
const fn first_of(cell: u32) -> Job {
    Job { cell, index: 0 }
}

impl Cell {
    /// How many seeds are wanted, when the first `asked` are known.
    fn seeds_wanted(&self, width: Option<f64>) -> u32 {
        let seeds_max = self.seeds_max;
        let Some(width) = width else { return seeds_max };
        if self.asked == 0 {
            return SEEDS_MIN.min(seeds_max);
        }
        let known = self.known.range(..self.asked);
        let cell = CellRecord::new(known.filter_map(|(_, record)| record.as_ref()));
        // More seeds mend neither what fails nor a mean that grows with the length of the run.
        if cell.reason.is_some() || cell.is_unstable() {
            return self.asked;
        }
        let Some(relative) = cell
            .mean_us
            .and_then(|spread| Some(spread.ci95? / spread.mean))
        else {
            return self.asked;
        };
        // The width falls with the root of the number; twice as many at most are asked for at once,
        // since it is itself an estimate.
        let needed = f64::from(self.asked) * (relative / width).powi(2);
        match relative <= width {
            true => self.asked,
            false => (needed.ceil().min(f64::from(self.asked) * 2.0) as u32)
                .max(self.asked + 1)
                .min(seeds_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use viaduct_report::Summary;

    /// A record with a mean latency, as a journal would have it.
    fn record(job: Job, mean_us: f64) -> RunRecord {
        let summary: Summary = serde_json::from_value(serde_json::json!({
            "study": "x", "seed": job.index, "version": "0", "digest": "0", "hosts": 2,
            "switches": 1, "simulated_s": 1.0, "warmup_s": 0.0, "ended": "finished",
            "steady_state": {"state": "steady", "warmup_needed_s": null},
            "messages": {"posted": 1, "delivered": 1, "dropped": 0, "in_flight": 0},
            "latency_us": {"count": 1, "mean": mean_us, "ci95": null, "sd": null, "min": null,
                "p50": null, "p90": null, "p99": null, "p999": null, "max": null, "floor": null},
            "breakdown_us": {}, "links": {},
            "buses": {"count": 0, "utilisation_mean": 0.0, "utilisation_max": 0.0},
            "drops": {}, "queue_depths": [], "delivered_bytes": 1, "events": 1,
            "events_pending_max": 1, "wall_s": 0.0, "events_per_s": 0.0,
            "messages_per_wall_s": 0.0, "peak_rss_bytes": null, "state_bytes": 1,
            "warnings": [], "violations": [],
        }))
        .unwrap();
        RunRecord {
            cell: job.cell,
            seed: u64::from(job.index),
            made: Ok(Box::new(summary)),
        }
    }

    /// Means that scatter by `spread`, the same for a seed in every cell.
    fn mean_us(job: Job, spread: f64) -> f64 {
        100.0 + spread * f64::from(job.index * 7 % 5)
    }

    fn rule(seeds_max: u32, width: Option<f64>) -> StopRule {
        StopRule { seeds_max, width }
    }

    /// Ends runs in an order of its own, and gives all that were made.
    fn all_runs(mut schedule: Schedule, spread: f64, last_first: bool) -> Vec<(u32, u32)> {
        let mut made = Vec::new();
        loop {
            let mut batch: Vec<Job> = std::iter::from_fn(|| schedule.next(None)).collect();
            if batch.is_empty() {
                assert!(schedule.is_idle());
                made.sort_unstable();
                return made;
            }
            if last_first {
                batch.reverse();
            }
            for job in batch {
                made.push((job.cell, job.index));
                schedule.done(job, Some(record(job, mean_us(job, spread))));
            }
        }
    }

    #[test]
    fn without_a_width_each_cell_has_all_seeds() {
        let schedule = Schedule::new(rule(4, None), 0..3, std::iter::empty());
        assert_eq!(schedule.left(), 12);
        assert_eq!(all_runs(schedule, 1.0, false).len(), 12);
    }

    #[test]
    fn cells_may_have_different_numbers_of_runs() {
        let made = all_runs(Schedule::of_seeds([2, 0, 1]), 1.0, false);
        assert_eq!(made, [(0, 0), (0, 1), (2, 0)]);
    }

    #[test]
    fn a_cell_stops_when_its_interval_is_narrow_whatever_the_order() {
        let schedule = || Schedule::new(rule(100, Some(0.01)), 0..2, std::iter::empty());
        let narrow = all_runs(schedule(), 0.01, false);
        assert_eq!(narrow.len(), 6, "{narrow:?}");
        let wide = all_runs(schedule(), 2.0, false);
        assert!(wide.len() > 12 && wide.len() < 200, "{wide:?}");
        assert_eq!(all_runs(schedule(), 2.0, true), wide);
        let never = Schedule::new(rule(7, Some(1e-9)), 0..1, std::iter::empty());
        assert_eq!(all_runs(never, 2.0, false).len(), 7);
    }

    #[test]
    fn what_is_known_is_not_run_again_and_nothing_is_left_out() {
        let whole = Schedule::new(rule(100, Some(0.01)), 0..3, std::iter::empty());
        let whole = all_runs(whole, 2.0, false);
        for cut in 0..=whole.len() {
            // What was made before a kill: any part of it, out of order.
            let (known, rest): (Vec<_>, Vec<_>) =
                (0..whole.len()).partition(|number| (number * 5) % whole.len() < cut);
            let known = known.into_iter().map(|number| {
                let (cell, index) = whole[number];
                let job = Job { cell, index };
                (job, record(job, mean_us(job, 2.0)))
            });
            let schedule = Schedule::new(rule(100, Some(0.01)), 0..3, known);
            let made = all_runs(schedule, 2.0, false);
            let rest: Vec<(u32, u32)> = rest.into_iter().map(|number| whole[number]).collect();
            assert_eq!(made, rest, "{cut}");
        }
    }

    #[test]
    fn runs_of_a_cell_go_to_whoever_has_read_it() {
        let mut schedule = Schedule::new(rule(3, None), 0..3, std::iter::empty());
        let mut next = |last| schedule.next(last).map(|job| (job.cell, job.index));
        assert_eq!(next(None), Some((0, 0)));
        assert_eq!(next(None), Some((1, 0)), "cell 0 is being read by somebody");
        assert_eq!(next(Some(0)), Some((0, 1)));
        assert_eq!(next(Some(1)), Some((1, 1)));
        assert_eq!(next(Some(0)), Some((0, 2)));
        assert_eq!(next(Some(0)), Some((2, 0)));
        // At the end nobody is idle.
        assert_eq!(next(Some(0)), Some((1, 2)));
        assert_eq!(next(Some(0)), Some((2, 1)));
        let job = Job { cell: 1, index: 2 };
        schedule.give_back(job);
        assert_eq!((schedule.ready_count(), schedule.left()), (2, 9));
        assert_eq!(schedule.next(None), Some(job), "no run of cell 2 or 0");
    }

    #[test]
    fn a_cell_that_fails_or_is_unstable_has_no_further_seeds() {
        for is_unstable in [false, true] {
            let mut schedule = Schedule::new(rule(50, Some(0.01)), 0..1, std::iter::empty());
            let mut made = 0;
            while let Some(job) = schedule.next(None) {
                made += 1;
                // Its mean scatters: it is not the width that ends it.
                let mut run = record(job, mean_us(job, 9.0));
                if let Some(numbers) = run.made.as_mut().ok().filter(|_| is_unstable) {
                    numbers.is_unstable = true;
                } else if job.index == 0 {
                    run.made = Err("wrong".to_owned());
                }
                schedule.done(job, Some(run));
            }
            assert_eq!(made, SEEDS_MIN, "unstable: {is_unstable}");
        }
    }
}
