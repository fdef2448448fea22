//! One plan on several fabrics, side by side.

use std::collections::BTreeSet;

use crate::line::Placement;
use crate::plan::Test;
use crate::report::{Report, Row, aligned};

/// What the same plan came to on several fabrics.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    reports: &'a [Report],
    names: Vec<String>,
}

impl<'a> Comparison<'a> {
    /// Of reports of one test; a plan that ended early has rows left out.
    #[must_use]
    pub fn new(reports: &'a [Report]) -> Self {
        let named = reports.iter().enumerate().map(|(index, report)| {
            let is_same = |other: &&Report| other.fabric == report.fabric;
            let machines = reports.iter().filter(is_same);
            let machines = machines.map(|other| other.origin.machine.as_ref());
            let mut machines: Vec<Option<&String>> = machines.collect();
            let count = machines.len();
            machines.sort_unstable();
            machines.dedup();
            let before = reports[..index].iter().filter(is_same).count();
            match (&report.origin.machine, before) {
                (Some(machine), _) if count > 1 && machines.len() == count => {
                    format!("{} on {machine}", report.fabric)
                }
                (_, 0) => report.fabric.clone(),
                (_, before) => format!("{} #{}", report.fabric, before + 1),
            }
        });
        Self {
            names: named.collect(),
            reports,
        }
    }

    /// As [`Comparison::new`], with names of the caller's for each report.
    #[must_use]
    pub const fn named(reports: &'a [Report], names: Vec<String>) -> Self {
        Self { reports, names }
    }

    /// A name for each report: its fabric's, with its machine where that tells equal ones apart, or
    /// a number.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// As one JSON array of what [`Report::to_json`] gives.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Numbers, names and lists: nothing in it can fail to be written.
        serde_json::to_string(self.reports).unwrap_or_default()
    }

    /// What was done, to stand above [`Comparison::table`].
    #[must_use]
    pub fn title(&self) -> String {
        let Some(first) = self.reports.first() else {
            return String::new();
        };
        let names = self.names();
        let title = format!(
            "{} over {}: {}\n  {}\n",
            first.test.name(),
            names.join(" and "),
            first.test.figure(),
            first.test.purpose()
        );
        if self
            .reports
            .iter()
            .all(|report| report.how() == first.how())
        {
            return format!("{title}  {}\n", first.how());
        }
        let hows = names.iter().zip(self.reports);
        let hows = hows.map(|(name, report)| format!("  {name}: {}\n", report.how()));
        title + &hows.collect::<String>()
    }

    /// One column per fabric, one row per size or number of connections.
    #[must_use]
    pub fn table(&self) -> String {
        let Some(first) = self.reports.first() else {
            return String::new();
        };
        let (heads, rows) = self.cells();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        format!(
            "{}\n{}",
            aligned(&heads, &rows),
            self.explanation(first.test)
        )
    }

    /// Heads and cells of [`Comparison::table`].
    #[must_use]
    pub fn cells(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let longest = self.reports.iter().max_by_key(|report| report.rows.len());
        let variant = longest.map_or("", Report::variant).to_owned();
        let heads = std::iter::once(variant).chain(self.names()).collect();
        let rows = self.aligned_rows().into_iter().map(|(variant, rows)| {
            let cells = rows.into_iter().zip(self.reports).map(|(row, report)| {
                row.map_or_else(|| "-".to_owned(), |row| row.figure_cell(report.test))
            });
            std::iter::once(variant.to_string()).chain(cells).collect()
        });
        (heads, rows.collect())
    }

    /// The reports.
    #[must_use]
    pub const fn reports(&self) -> &'a [Report] {
        self.reports
    }

    /// Each size, load or number of connections with the row that each report has of it.
    #[must_use]
    pub fn aligned_rows(&self) -> Vec<(u32, Vec<Option<&'a Row>>)> {
        let Some(longest) = self.reports.iter().max_by_key(|report| report.rows.len()) else {
            return Vec::new();
        };
        // One that ended early has the beginning of what the others have.
        let is_one_plan = self.reports.iter().all(|report| {
            let mut pairs = report.rows.iter().zip(&longest.rows);
            pairs.all(|(row, other)| row.variant() == other.variant())
        });
        if is_one_plan {
            let rows = longest.rows.iter().enumerate().map(|(index, row)| {
                let rows = self.reports.iter().map(|report| report.rows.get(index));
                (row.variant(), rows.collect())
            });
            return rows.collect();
        }
        let all = self.reports.iter().flat_map(|report| &report.rows);
        let variants: BTreeSet<u32> = all.map(Row::variant).collect();
        let rows = variants.into_iter().map(|variant| {
            let of = |report: &'a Report| report.rows.iter().find(|row| row.variant() == variant);
            (variant, self.reports.iter().map(of).collect())
        });
        rows.collect()
    }

    fn explanation(&self, test: Test) -> String {
        let what = match test {
            Test::Latency => "us: the median over batches of round trips.",
            Test::Bandwidth => "MB: 10^6 bytes; the median batch.",
            Test::Rate | Test::Cq => "The median batch.",
        };
        let rows = self.reports.iter().flat_map(|report| &report.rows);
        let mut placements = rows.filter_map(|row| row.noise().placement);
        let first = placements.next();
        let is_one =
            first != Some(Placement::Mixed) && placements.all(|placement| Some(placement) == first);
        let placement = if is_one {
            ""
        } else {
            "  Some rows had their two cores nearer to each other than others and do not compare:\n  \
             `--json` tells each row's placement.\n"
        };
        let named = || self.names().into_iter().zip(self.reports);
        let around = named().filter_map(|(name, report)| Some((name, report.around?)));
        let around: String = around
            .map(|(name, it)| format!("  around, {name}: {it}\n"))
            .collect();
        let happened = named().filter_map(|(name, report)| Some((name, report.faults?)));
        let faults: String = happened
            .map(|(name, it)| format!("  faults, {name}: {it}\n"))
            .collect();
        format!(
            "  {what} Spread and noise: `--json`, or one fabric alone.\n{placement}{around}{faults}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Transfer};
    use crate::report::{LatencyRow, Noise, Spread};

    fn report(fabric: &str, rows: &[(u32, f64, Placement)]) -> Report {
        let row = |(bytes, median, placement): &(u32, f64, Placement)| {
            Row::Latency(LatencyRow {
                bytes: *bytes,
                half_rtt_us: Spread {
                    min: 0.01,
                    median: *median,
                    p99: 99.0,
                },
                round_trips: 1,
                batch: 1,
                stages_us: None,
                noise: Noise {
                    line_ns_before: None,
                    line_ns_after: None,
                    placement: Some(*placement),
                    lost_fraction: 0.0,
                    counts: None,
                },
            })
        };
        let rows = rows.iter().map(row).collect();
        let plan = Plan::usual(Test::Latency);
        Report::new(fabric, &plan, Transfer::Auto, Some([0, 1]), rows)
    }

    #[test]
    fn each_fabric_has_a_column_with_what_it_has() {
        let near = Placement::Near;
        let reports = [
            report("shm", &[(8, 0.25, near), (64, 0.5, near)]),
            report("other", &[(8, 17.0, near)]),
            report("shm", &[(8, 0.125, near), (64, 0.75, near)]),
        ];
        let table = Comparison::new(&reports).table();
        let cells: Vec<Vec<&str>> = table
            .lines()
            .take(3)
            .map(|line| line.split("  ").map(str::trim).collect::<Vec<_>>())
            .map(|cells| cells.into_iter().filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(cells[0], ["bytes", "shm", "other", "shm #2"]);
        assert_eq!(cells[1], ["8", "0.250", "17.0", "0.125"]);
        assert_eq!(cells[2], ["64", "0.500", "-", "0.750"]);
        assert!(!table.contains("placement"), "{table}");
        assert!(table.lines().all(|line| line.len() <= 100), "{table}");
    }

    #[test]
    fn machines_tell_equal_fabrics_apart_and_sizes_are_aligned() {
        let near = Placement::Near;
        let mut reports = [
            report(
                "shm",
                &[(8, 0.25, near), (64, 0.5, near), (4096, 2.0, near)],
            ),
            report("shm", &[(64, 0.75, near), (1024, 1.0, near)]),
        ];
        for (report, machine) in reports.iter_mut().zip(["a", "b"]) {
            report.origin.machine = Some(machine.to_owned());
        }
        let comparison = Comparison::new(&reports);
        assert_eq!(comparison.names(), ["shm on a", "shm on b"]);
        let rows: Vec<(u32, Vec<bool>)> = comparison
            .aligned_rows()
            .into_iter()
            .map(|(variant, rows)| (variant, rows.iter().map(Option::is_some).collect()))
            .collect();
        let wanted = [
            (8, vec![true, false]),
            (64, vec![true, true]),
            (1024, vec![false, true]),
            (4096, vec![true, false]),
        ];
        assert_eq!(rows, wanted);
        reports[1].origin.machine = Some("a".to_owned());
        assert_eq!(Comparison::new(&reports).names(), ["shm", "shm #2"]);
    }

    #[test]
    fn the_title_says_what_is_compared_and_what_differs() {
        let mut reports = [report("shm", &[]), report("other", &[])];
        let title = Comparison::new(&reports).title();
        assert!(
            title.starts_with("latency over shm and other: median us\n  half a round trip"),
            "{title}"
        );
        assert!(title.ends_with(
            "\n  both sides poll, level rd, shared memory, transfer auto, cores 0 and 1\n"
        ));
        reports[1].cores = None;
        let title = Comparison::new(&reports).title();
        assert!(title.contains("\n  shm: both sides poll") && title.contains("cores 0 and 1\n"));
        assert!(
            title.ends_with("\n  other: both sides poll, level rd, shared memory, transfer auto\n")
        );
    }

    #[test]
    fn rows_of_cores_that_moved_are_told() {
        use Placement::{Far, Mixed, Near};

        for (first, second) in [(Near, Far), (Mixed, Mixed)] {
            let reports = [
                report("a", &[(8, 1.0, first)]),
                report("b", &[(8, 1.0, second)]),
            ];
            let table = Comparison::new(&reports).table();
            assert!(table.contains("do not compare"), "{table}");
            assert!(table.lines().all(|line| line.len() <= 100), "{table}");
        }
    }

    #[test]
    fn several_are_one_array() {
        let reports = [report("a", &[]), report("b", &[(8, 1.0, Placement::Near)])];
        let json = Comparison::new(&reports).to_json();
        let one = format!("[{},{}]", reports[0].to_json(), reports[1].to_json());
        assert_eq!(json, one);
    }
}
