//! What must be known of a fit before it is used.

use viaduct_measure::Test;

use crate::fit::Fit;

/// Mean error from which on a fit is told to be a poor one.
const ERROR_MAX: f64 = 0.05;

/// Part by which a quantity that was not measured may be off without a word.
const UNTOLD_MAX: f64 = 0.1;

impl Fit {
    /// Each warning with what to do about it.
    #[must_use]
    pub fn warnings(&self) -> Vec<(String, String)> {
        let mut warnings = Vec::new();
        let mut warn = |title: String, help: String| warnings.push((title, help));
        let base = &self.base;
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        if let Some((mean, worst)) = self.errors(false).filter(|(mean, _)| *mean > ERROR_MAX) {
            let (mean, worst) = (percent(mean), percent(worst));
            warn(
                format!(
                    "`{base}` does not fit: its times are {mean} off on average, {worst} at worst"
                ),
                "take a base of another kind: viaduct models lists them".to_owned(),
            );
        }
        if let Some((mean, worst)) = self.errors(true).filter(|(mean, _)| *mean > ERROR_MAX) {
            let (mean, worst) = (percent(mean), percent(worst));
            warn(
                format!(
                    "sizes that the fit did not see are {mean} off on average, {worst} at worst"
                ),
                "other sizes will be as far off; measure more sizes, or take another base"
                    .to_owned(),
            );
        }
        for each in self.measured.iter().filter(|each| !each.is_simulated) {
            if let Some(core) = each.shared_core {
                warn(
                    format!(
                        "both processes of `{}` shared core {core}",
                        each.test.name()
                    ),
                    "its times are those of taking turns on a core: measure again with two, as in \
                     --cores 0,1"
                        .to_owned(),
                );
            }
        }
        let untold: Vec<String> = self
            .untold
            .iter()
            .filter(|untold| untold.part > UNTOLD_MAX)
            .map(|untold| {
                let what = match untold.test {
                    Test::Latency => "latency",
                    Test::Bandwidth => "bandwidth",
                    Test::Rate | Test::Cq => "rate",
                };
                format!(
                    "{what} of {} bytes by {}",
                    untold.bytes,
                    percent(untold.part)
                )
            })
            .collect();
        if let Some(worst) = self.untold.first().filter(|_| !untold.is_empty()) {
            let fabric = self.measured.first().map_or("shm", |each| &each.fabric);
            let test = worst.test.name();
            warn(
                format!(
                    "what was measured does not tell all numbers apart, and these keep the ratios of \
                     `{base}`: where those are wrong by a factor of two, a prediction may be wrong, {}",
                    untold.join(", ")
                ),
                format!(
                    "measure that too, and fit both: viaduct measure {test} --on {fabric} --json > \
                     {test}.json"
                ),
            );
        }
        warnings
    }
}
