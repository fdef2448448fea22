//! From what was typed to a plan of runs.

use viaduct_report::{Figure, FigureRole, Published, RunIdentity, Source};
use viaduct_scenario::{Override, Role, Study};
use viaduct_sweep::last_seed;

use crate::arguments::{ScenarioArguments, SeedArguments};
use crate::failure::Failure;
use crate::jobs::{Plan, PlannedCell};
use crate::output;

/// A study that was read, with its runs.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// What is to be run.
    pub(crate) plan: Plan,
    /// The resolved scenario of each cell.
    pub(crate) scenarios: Vec<String>,
    /// The study as it was read; of a rerun the first cell.
    pub(crate) study: Study,
    /// The seeds of each cell, one after the other.
    pub(crate) seeds: Vec<u64>,
}

impl Prepared {
    /// Reads a study or a scenario file.
    pub(crate) fn new(
        scenario: &ScenarioArguments,
        seeds: &SeedArguments,
    ) -> Result<Self, Failure> {
        Self::with(scenario, seeds, None)
    }

    /// The same, with something set beside what was typed.
    pub(crate) fn with(
        scenario: &ScenarioArguments,
        seeds: &SeedArguments,
        beside: Option<Override>,
    ) -> Result<Self, Failure> {
        let fixed = scenario.overrides.iter();
        let fixed = fixed.map(|text| Override::fixed(text.as_str()));
        Self::of_study(&scenario.scenario, seeds, fixed.chain(beside))
    }

    /// Reads a study or a scenario file, with these values, some of which may be lists.
    pub(crate) fn of_study(
        name: &str,
        seeds: &SeedArguments,
        overrides: impl Iterator<Item = Override>,
    ) -> Result<Self, Failure> {
        let overrides = overrides.chain(seeds.seed.map(Override::seed));
        let study = Study::load(name, &overrides.collect::<Vec<_>>())?;
        let cells = if study.sweep.is_empty() {
            vec![study.clone()]
        } else {
            study.cells()
        };
        let mut plan = Plan {
            study: study.name.clone(),
            cells: Vec::new(),
        };
        for cell in &cells {
            let first = cell.config.run.seed;
            let last = last_seed(first, seeds.seeds)?;
            plan.cells
                .push(planned(cell, cell.point.clone(), first..=last));
        }
        Ok(Self::of(plan, study, &cells))
    }

    /// Reads the resolved scenarios of a run directory: of each cell its text, the values that
    /// tell it from the others, and its seeds.
    pub(crate) fn again(cells: Vec<FormerCell>) -> Result<Self, Failure> {
        let mut studies = Vec::new();
        let mut plan = Plan {
            study: String::new(),
            cells: Vec::new(),
        };
        for cell in cells {
            let study = Study::from_resolved(&cell.scenario_toml)?;
            plan.cells
                .push(planned(&study, cell.set, cell.seeds.into_iter()));
            studies.push(study);
        }
        let first = studies
            .first()
            .cloned()
            .ok_or_else(|| Failure::plain("there is no run"))?;
        plan.study = first.name.clone();
        Ok(Self::of(plan, first, &studies))
    }

    fn of(plan: Plan, study: Study, cells: &[Study]) -> Self {
        let seeds = plan.configs().map(|config| config.run.seed).collect();
        let scenarios = cells.iter().map(Study::resolved_toml).collect();
        Self {
            plan,
            scenarios,
            study,
            seeds,
        }
    }

    /// What tells its runs from others.
    pub(crate) fn identity(&self) -> RunIdentity<'_> {
        RunIdentity {
            study: &self.plan.study,
            source: self.source(),
            seeds: &self.seeds,
        }
    }

    /// What its runs are made from.
    pub(crate) fn source(&self) -> Source<'_> {
        Source::Scenarios(&self.scenarios)
    }

    /// Shows the warnings of the study on stderr.
    pub(crate) fn print_warnings(&self) {
        if !self.study.warnings.is_empty() {
            output::note(&self.study.warnings.render(output::is_coloured()));
        }
    }
}

/// One cell of a run directory.
#[derive(Debug)]
pub(crate) struct FormerCell {
    /// Its resolved scenario.
    pub(crate) scenario_toml: String,
    /// The values that tell it from the others.
    pub(crate) set: Vec<(String, String)>,
    /// The seeds it was run with.
    pub(crate) seeds: Vec<u64>,
}

fn planned(
    study: &Study,
    set: Vec<(String, String)>,
    seeds: impl Iterator<Item = u64>,
) -> PlannedCell {
    let config = |seed| {
        let mut config = study.config.clone();
        config.run.seed = seed;
        config
    };
    PlannedCell {
        set,
        published: published(study),
        configs: seeds.map(config).collect(),
    }
}

/// What a figure is for, as results say it.
pub(crate) fn role(role: Role) -> FigureRole {
    match role {
        Role::Given => FigureRole::Given,
        Role::Result => FigureRole::Result,
        Role::Predicted => FigureRole::Predicted,
        Role::Context => FigureRole::Context,
    }
}

/// The published figures of a study, or of this point of its sweep, in the units of the summary;
/// those that a setting made meaningless are left out.
#[must_use]
pub fn published(study: &Study) -> Published {
    let mut published = Published::default();
    for figure in study.published_here() {
        let in_units = |value: f64| {
            if figure.unit == "%" {
                value / 100.0
            } else {
                value
            }
        };
        let shown = Figure {
            value: in_units(figure.value),
            role: role(figure.role),
            tolerance: figure.tolerance,
            blind: figure
                .blind
                .as_ref()
                .map(|(value, version)| (in_units(*value), version.clone())),
            authors_model: figure.authors_model.map(in_units),
        };
        published.figures.insert(figure.quantity.clone(), shown);
        if !published.sources.contains(&figure.source) {
            published.sources.push(figure.source.clone());
        }
    }
    published
}
