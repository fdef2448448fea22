//! The progress bar: simulated time, events a second, time left.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use viaduct_cluster::Progress;
use viaduct_report::{duration, scaled_count};

use crate::output;

/// Steps of the bar that one run takes.
const STEPS: u64 = 1_000;

/// Progress of all runs; shown on a terminal only.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    started: Instant,
    runs: Vec<RunProgress>,
    /// When it was last drawn, milliseconds after `started`.
    drawn_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct RunProgress {
    steps: AtomicU64,
    events: AtomicU64,
}

impl Bar {
    /// A bar for `runs` runs, hidden if `is_quiet` or if stderr is no terminal that can redraw it.
    pub(crate) fn new(runs: usize, is_quiet: bool) -> Self {
        let bar = if is_quiet || !output::is_live() {
            ProgressBar::hidden()
        } else {
            let bar = ProgressBar::with_draw_target(
                Some(runs as u64 * STEPS),
                ProgressDrawTarget::stderr_with_hz(10),
            );
            let style = ProgressStyle::with_template("  run      {bar:40} {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.with_style(style.progress_chars("##-"))
        };
        Self {
            bar,
            started: Instant::now(),
            runs: (0..runs).map(|_| RunProgress::default()).collect(),
            drawn_ms: AtomicU64::new(0),
        }
    }

    /// Takes note of a run's progress and shows it, ten times a second at most.
    pub(crate) fn update(&self, run: usize, progress: &Progress) {
        const BETWEEN_DRAWINGS: Duration = Duration::from_millis(100);
        let Some(entry) = self.runs.get(run).filter(|_| !self.bar.is_hidden()) else {
            return;
        };
        let until = progress.until.picoseconds().max(1) as f64;
        let share = (progress.now.picoseconds() as f64 / until).min(1.0);
        // Relaxed: numbers for people, each on its own.
        entry
            .steps
            .store((share * STEPS as f64) as u64, Ordering::Relaxed);
        entry.events.store(progress.events, Ordering::Relaxed);
        let now_ms = self.started.elapsed().as_millis() as u64;
        let drawn_ms = self.drawn_ms.load(Ordering::Relaxed);
        if now_ms < drawn_ms + BETWEEN_DRAWINGS.as_millis() as u64 {
            return;
        }
        self.drawn_ms.store(now_ms, Ordering::Relaxed);
        let steps = self.steps();
        let total = self.runs.len() as u64 * STEPS;
        let elapsed_s = self.started.elapsed().as_secs_f64();
        let left = match steps {
            0 => String::new(),
            steps => {
                let left_s = elapsed_s * (total - steps.min(total)) as f64 / steps as f64;
                format!("   {} left", duration(left_s))
            }
        };
        self.bar.set_message(format!(
            "{}   {}{left}",
            self.place(progress),
            self.rate(elapsed_s)
        ));
        self.bar.set_position(steps);
    }

    /// Takes note of a run's end.
    pub(crate) fn run_done(&self, run: usize, events: u64) {
        if let Some(entry) = self.runs.get(run) {
            entry.steps.store(STEPS, Ordering::Relaxed);
            entry.events.store(events, Ordering::Relaxed);
        }
    }

    /// Leaves the last state on the screen, with what it took instead of the time left.
    pub(crate) fn finish(&self) {
        let elapsed_s = self.started.elapsed().as_secs_f64();
        let done = self.runs_done();
        let runs = match self.runs.len() {
            1 => String::new(),
            runs => format!("{done}/{runs} runs   "),
        };
        self.bar.set_position(self.steps());
        let text = format!("{runs}{}   {}", self.rate(elapsed_s), duration(elapsed_s));
        self.bar.abandon_with_message(text);
    }

    fn place(&self, progress: &Progress) -> String {
        match self.runs.len() {
            1 => format!("{} of {}", progress.now, progress.until),
            runs => format!("{}/{runs} runs", self.runs_done()),
        }
    }

    fn rate(&self, elapsed_s: f64) -> String {
        let events: u64 = self
            .runs
            .iter()
            .map(|run| run.events.load(Ordering::Relaxed))
            .sum();
        format!(
            "{} events/s",
            scaled_count(events as f64 / elapsed_s.max(1e-9))
        )
    }

    fn steps(&self) -> u64 {
        self.runs
            .iter()
            .map(|run| run.steps.load(Ordering::Relaxed))
            .sum()
    }

    fn runs_done(&self) -> usize {
        self.runs
            .iter()
            .filter(|run| run.steps.load(Ordering::Relaxed) >= STEPS)
            .count()
    }
}
