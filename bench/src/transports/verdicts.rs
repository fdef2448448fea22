//! Ours beside the floor and the best peer of the same run, and against the goals.

use crate::protocol::Test;
use crate::table::{Row, Samples, Target};
use crate::transports::cell::Cell;
use crate::transports::contestants::{Contestant, Role};
use crate::transports::placement::Placement;
use crate::transports::sheet::Sheet;

/// A message of 8 bytes costs this many times what the bare ring takes, at most.
const OVER_RING_MAX: f64 = 1.35;
/// A blocked receiver costs this many times a bare futex, at most.
const OVER_FUTEX_MAX: f64 = 1.2;

const SMALL: Cell = Cell::new(Test::Latency, 8, false);

/// What ours should reach with near and with far cores, on the machine of the goals, where a line
/// takes 0.05 us and 0.2 us.
const GOALS: &[(Cell, [f64; 2])] = &[
    (SMALL, [0.080, 0.260]),
    (Cell::new(Test::Latency, 1024, false), [0.15, 0.45]),
    (Cell::new(Test::Latency, 4096, false), [0.20, 0.50]),
    (Cell::new(Test::Latency, 65_536, false), [2.0, 2.2]),
    (Cell::new(Test::Latency, 65_536, true), [11.0, 10.0]),
    (Cell::new(Test::Bandwidth, 1 << 20, false), [35.0, 35.0]),
    (Cell::new(Test::Bandwidth, 1 << 20, true), [12.0, 11.0]),
    (Cell::new(Test::Rate, 8, false), [40.0, 15.0]),
];

/// How many times the best peer's value ours should be with near and with far cores, where that is
/// not 1: a time at most, a rate at least.
const BESIDE_PEERS: &[(Cell, [f64; 2])] = &[
    (SMALL, [1.1, 1.0]),
    (Cell::new(Test::Rate, 8, false), [1.0, 1.5]),
];

/// Ours, by the memory in which messages lie.
const OURS: [(Role, &str); 2] = [
    (Role::Ours, "ours"),
    (Role::OursLibrary, "ours, library memory"),
];

/// The lines under the tables: for each placement that was met, ours against goals, ring, peers and
/// futex; without ours the best peer against the ring.
pub(crate) fn verdicts(sheet: &Sheet, contestants: &[Contestant], cells: &[Cell]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, placement) in Placement::ALL.into_iter().enumerate() {
        let at = At {
            sheet,
            contestants,
            placement,
        };
        for (cell, goals) in GOALS.iter().filter(|(cell, _)| cells.contains(cell)) {
            for (role, who) in OURS {
                if let Some(ours) = at.median(role, *cell) {
                    let target = at_least_as_good(*cell, goals[index]);
                    let quantity = format!("{who}: {}", cell.label());
                    rows.push(at.row(&quantity, cell.unit(), target, ours));
                }
            }
        }
        rows.extend(at.over(Role::Ours, Role::Ring, "bare ring", OVER_RING_MAX));
        for cell in cells {
            let limit = BESIDE_PEERS
                .iter()
                .find(|(other, _)| other == cell)
                .map_or(1.0, |(_, limits)| limits[index]);
            rows.extend(at.beside_the_best_peer(*cell, limit));
        }
        rows.extend(at.over(Role::OursBlocked, Role::Futex, "bare futex", OVER_FUTEX_MAX));
    }
    rows
}

fn at_least_as_good(cell: Cell, limit: f64) -> Target {
    match cell.is_time() {
        true => Target::AtMost(limit),
        false => Target::AtLeast(limit),
    }
}

/// The values of one placement.
#[derive(Clone, Copy, Debug)]
struct At<'a> {
    sheet: &'a Sheet,
    contestants: &'a [Contestant],
    placement: Placement,
}

impl At<'_> {
    fn row(&self, quantity: &str, unit: &'static str, target: Target, value: f64) -> Row {
        let mut samples = Samples::default();
        samples.add(value);
        Row::new(
            format!("{}: {quantity}", self.placement.word()),
            unit,
            target,
            &samples,
        )
    }

    /// The median of the one contestant of a role.
    fn median(&self, role: Role, cell: Cell) -> Option<f64> {
        let place = self.contestants.iter().position(|each| each.role == role)?;
        self.sheet.median(place, cell, self.placement)
    }

    /// The best of the peers whose receiver takes each message, and its value.
    fn best_peer(&self, cell: Cell) -> Option<(usize, f64)> {
        let peers = self.contestants.iter().enumerate();
        peers
            .filter(|(_, each)| each.is_two_sided(cell))
            .filter_map(|(place, _)| {
                let value = self.sheet.median(place, cell, self.placement)?;
                Some((place, value))
            })
            .min_by(|(_, left), (_, right)| match cell.is_time() {
                true => left.total_cmp(right),
                false => right.total_cmp(left),
            })
    }

    /// How many times another's 8 bytes those of `role` take.
    fn over(&self, role: Role, other: Role, name: &str, limit: f64) -> Option<Row> {
        let ratio = self.median(role, SMALL)? / self.median(other, SMALL)?;
        let who = if role == Role::Ours {
            "ours"
        } else {
            "ours, blocked"
        };
        let quantity = format!("{who} / {name}: {}", SMALL.label());
        Some(self.row(&quantity, "times", Target::AtMost(limit), ratio))
    }

    /// Ours against the best peer; without ours the best peer against the ring, with no target.
    fn beside_the_best_peer(&self, cell: Cell, limit: f64) -> Vec<Row> {
        let Some((place, best)) = self.best_peer(cell) else {
            return Vec::new();
        };
        let name = self.sheet.name(self.contestants, place);
        let row = |who: &str, target, value| {
            let quantity = format!("{who} / {name}: {}", cell.label());
            self.row(&quantity, "times", target, value)
        };
        let ours: Vec<Row> = OURS
            .into_iter()
            .filter_map(|(role, who)| {
                let ours = self.median(role, cell)?;
                Some(row(who, at_least_as_good(cell, limit), ours / best))
            })
            .collect();
        if !ours.is_empty() {
            return ours;
        }
        let over_ring = self.median(Role::Ring, cell).map(|ring| {
            let quantity = format!("{name} / bare ring: {}", cell.label());
            self.row(&quantity, "times", Target::None, best / ring)
        });
        over_ring.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transports::cell::Figures;
    use crate::transports::placement::Sample;

    const LARGE: Cell = Cell::new(Test::Latency, 4096, false);

    /// A sheet with values of the given roles in one placement.
    fn shown(values: &[(&str, Role, Cell, f64)]) -> Vec<String> {
        let mut sheet = Sheet::default();
        let mut contestants = Vec::new();
        for (place, (name, role, cell, value)) in values.iter().enumerate() {
            contestants.push(Contestant::program(
                "ucx",
                name,
                *role,
                &["program"],
                "kind",
            ));
            let figures = Figures {
                value: *value,
                ..Figures::default()
            };
            let sample = Sample {
                figures,
                line_before_us: 0.2,
                line_after_us: 0.2,
                placement: Placement::Far,
            };
            sheet.add(place, *cell, sample);
        }
        let rows = verdicts(&sheet, &contestants, &[SMALL, LARGE]);
        let squeeze = |row: &Row| row.shown().split_whitespace().collect::<Vec<_>>().join(" ");
        rows.iter().map(squeeze).collect()
    }

    #[test]
    fn ours_is_held_against_goal_ring_and_the_best_two_sided_peer() {
        let lines = shown(&[
            ("ours", Role::Ours, SMALL, 0.27),
            ("ring", Role::Ring, SMALL, 0.2),
            ("slow", Role::TwoSided, SMALL, 0.5),
            ("fast", Role::TwoSided, SMALL, 0.3),
            ("put", Role::OneSided, SMALL, 0.1),
            ("library", Role::OursLibrary, SMALL, 0.36),
            ("asleep", Role::OursBlocked, SMALL, 25.0),
            ("futex", Role::Futex, SMALL, 20.0),
        ]);
        assert_eq!(
            lines,
            [
                "far: ours: 8 B latency, us <= 0.26 0.27 0.27 - 0.27 MISSED",
                "far: ours, library memory: 8 B latency, us <= 0.26 0.36 0.36 - 0.36 MISSED",
                "far: ours / bare ring: 8 B latency, times <= 1.35 1.35 1.35 - 1.35 met",
                "far: ours / fast: 8 B latency, times <= 1 0.9 0.9 - 0.9 met",
                "far: ours, library memory / fast: 8 B latency, times <= 1 1.2 1.2 - 1.2 MISSED",
                "far: ours, blocked / bare futex: 8 B latency, times <= 1.2 1.25 1.25 - 1.25 \
                 MISSED",
            ]
        );
    }

    #[test]
    fn pointer_that_is_handed_over_is_no_peer_of_an_untouched_message() {
        let lines = shown(&[
            ("ours", Role::Ours, LARGE, 0.4),
            ("pointer", Role::ZeroCopy, LARGE, 0.3),
            ("copied", Role::TwoSided, LARGE, 0.8),
        ]);
        assert_eq!(
            lines,
            [
                "far: ours: 4 KiB latency, us <= 0.5 0.4 0.4 - 0.4 met",
                "far: ours / copied: 4 KiB latency, times <= 1 0.5 0.5 - 0.5 met",
            ]
        );
    }

    #[test]
    fn without_ours_the_best_peer_stands_beside_the_ring() {
        let lines = shown(&[
            ("ring", Role::Ring, SMALL, 0.2),
            ("peer", Role::TwoSided, SMALL, 0.3),
        ]);
        let line = "far: peer / bare ring: 8 B latency, times 1.5 1.5 - 1.5";
        assert_eq!(lines, [line]);
    }
}
