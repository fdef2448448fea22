//! Hand-made results for tests.

use std::sync::Arc;

use viaduct_cluster::result::{
    ApplicationResult, Drops, Ended, Latency, LinkClassUse, LinkRow, MessageCounts, MessageRow,
    QueueDepth, RankRow, ResourceUse, RunResult, SeriesRow, StageShare, SteadyState, Warning,
};
use viaduct_cluster::workload::MessageOperation;
use viaduct_engine::Time;
use viaduct_network::{QueueCounts, QueueWindow};
use viaduct_operations::Misfits;
use viaduct_statistics::{Estimate, Quantiles};
use viaduct_topology::{LinkClass, Ports, Topology};

use crate::OrderedMap;
use crate::outcome::{CellOutcome, Cost, Figure, FigureRole, Published, RunRecord, StudyOutcome};
use crate::summary::{
    Counts, FrameCounts, LatencySummary, QueueDepthSummary, SteadySummary, Summary, Usage,
    WarningSummary,
};

/// A summary with a number in each field.
pub(crate) fn summary() -> Summary {
    let usage = |count, mean, max| Usage {
        count,
        utilisation_mean: mean,
        utilisation_max: max,
    };
    Summary {
        study: "torus-1024".to_owned(),
        seed: 1,
        version: "0.1.0".to_owned(),
        digest: "0123456789abcdef".to_owned(),
        hosts: 1024,
        switches: 256,
        level: "fluid".to_owned(),
        simulated_s: 10.0,
        warmup_s: 1.5,
        ended: "finished".to_owned(),
        steady_state: SteadySummary {
            state: "steady".to_owned(),
            warmup_needed_s: None,
        },
        messages: Counts {
            posted: 870_412,
            delivered: 870_412,
            dropped: 0,
            in_flight: 0,
        },
        latency_us: LatencySummary {
            count: 870_412,
            mean: Some(381.25),
            ci95: Some(0.41),
            no_interval: None,
            sd: Some(74.3),
            min: Some(331.2),
            p50: Some(352.0),
            p90: Some(490.5),
            p99: Some(655.1),
            p999: Some(802.7),
            max: Some(1_203.9),
            floor: Some(331.1),
        },
        breakdown_us: [
            ("post", 0.4),
            ("doorbell", 0.9),
            ("dma", 2.1),
            ("wire", 306.2),
            ("queued", 71.65),
            ("inline_copy", 0.0),
        ]
        .map(|(stage, mean)| (stage.to_owned(), mean))
        .into_iter()
        .collect(),
        links: OrderedMap::from_iter([
            ("mesh".to_owned(), usage(1024, 0.1225, 0.1301)),
            ("host_up".to_owned(), usage(1024, 0.030_63, 0.035)),
            ("host_down".to_owned(), usage(1024, 0.030_63, 0.036)),
        ]),
        buses: usage(1024, 0.024, 0.027),
        drops: [("no_descriptor".to_owned(), 0)].into(),
        drops_unasked: false,
        frames: Some(FrameCounts {
            lost: 11,
            trimmed: 17,
            marked: 23,
            pauses: 4,
            paused_ps: 5_000_000,
        }),
        queue_depths: vec![QueueDepthSummary {
            queue: "send queue".to_owned(),
            depth_max: 7,
            place: 512,
        }],
        delivered_bytes: 28_521_660_416,
        offered_messages_per_s: Some(102_401.4),
        carried_messages_per_s: Some(102_400.0),
        is_unstable: false,
        events: 17_204_118,
        events_pending_max: 3_012,
        wall_s: 0.91,
        events_per_s: 18_905_624.2,
        messages_per_wall_s: 956_496.703,
        peak_rss_bytes: Some(18_350_080),
        state_bytes: 2_097_152,
        application: None,
        interfaces: None,
        warnings: vec![WarningSummary {
            text: "the deepest send queue held 7 messages".to_owned(),
            help: Some("raise `hosts.send_buffers`".to_owned()),
        }],
        violations: Vec::new(),
    }
}

/// A result with a row in each table.
pub(crate) fn result() -> RunResult {
    let mut quantiles_ps = Quantiles::default();
    for latency_us in 1..=1000 {
        quantiles_ps.record(latency_us * 1_000_000);
    }
    let usage = ResourceUse {
        count: 1,
        utilisation_mean: 0.125,
        utilisation_max: 0.125,
    };
    RunResult {
        around: MessageCounts::default(),
        digest: 0x0123_4567_89ab_cdef,
        simulated: Time::from_milliseconds(10_000),
        ended: Ended::Finished,
        messages: MessageCounts {
            posted: 1003,
            delivered: 1000,
            dropped: 2,
            in_flight: 1,
        },
        latency: Some(Latency {
            count: 1000,
            mean_us: Estimate {
                mean: 500.5,
                ci95: Some(17.9),
            },
            no_interval: None,
            sd_us: 288.675,
            min_us: 1.0,
            max_us: 1000.0,
            quantiles_ps,
            floor_us: 0.9,
        }),
        breakdown: vec![
            StageShare {
                stage: "post",
                mean_us: 0.5,
            },
            StageShare {
                stage: "wire",
                mean_us: 500.0,
            },
        ],
        links: vec![
            LinkClassUse {
                class: LinkClass::HostUp,
                usage,
            },
            LinkClassUse {
                class: LinkClass::TreeUp,
                usage: ResourceUse::default(),
            },
        ],
        topology: Arc::new(Topology::single_switch(4, Ports(4)).expect("a switch")),
        adapters: 1,
        link_rows: vec![LinkRow {
            link: 3,
            class: LinkClass::HostUp,
            wire_bytes: 1.5e6,
            utilisation: 0.125,
            flows_max: 4,
            queue_max_bytes: 6_000,
            frames_lost: 3,
            frames_trimmed: 5,
            frames_marked: 2,
            pauses: 4,
            paused: Time::from_nanoseconds(5_000),
        }],
        buses: usage,
        has_unasked_drops: false,
        drops: vec![
            Drops {
                cause: "no_descriptor",
                host: 3,
                count: 1,
                first: Time::ZERO,
            },
            Drops {
                cause: "no_descriptor",
                host: 5,
                count: 1,
                first: Time::ZERO,
            },
        ],
        depths: vec![QueueDepth {
            queue: "send queue",
            depth_max: 4,
            place: 3,
        }],
        series: vec![
            SeriesRow {
                end: Time::from_milliseconds(5),
                posted: 2,
                delivered: 1,
                in_flight: 1,
                latency_mean_us: 12.5,
                ..SeriesRow::default()
            },
            SeriesRow {
                end: Time::from_milliseconds(10),
                ..SeriesRow::default()
            },
        ],
        queues: vec![QueueWindow {
            end: Time::from_milliseconds(5),
            link: 3,
            bytes_max: 4_500,
            counts: QueueCounts {
                lost: 1,
                trimmed: 2,
                marked: 3,
                pauses: 4,
                paused: Time::from_nanoseconds(5),
            },
        }],
        message_rows: vec![
            MessageRow {
                message: 0,
                source: 1,
                target: u32::MAX,
                bytes: 32_768,
                operation: MessageOperation::Send,
                posted: Time::from_picoseconds(9_999_999_999_999),
                latency: Some(Time::from_picoseconds(381_250_001)),
                queued: Time::ZERO,
            },
            MessageRow {
                message: 1 << 40,
                source: 1,
                target: 2,
                bytes: 64,
                operation: MessageOperation::Read,
                posted: Time::from_milliseconds(1),
                latency: None,
                queued: Time::ZERO,
            },
        ],
        message_stride: 2,
        steady: SteadyState::Transient {
            warmup_needed: Time::from_milliseconds(2_500),
            overloaded: false,
        },
        delivered_bytes: 64_000,
        events: 20_000,
        events_pending_max: 10,
        state_bytes: 4096,
        violations: Vec::new(),
        interfaces: None,
        application: Some(application()),
        warnings: vec![Warning {
            text: "text".to_owned(),
            help: None,
        }],
    }
}

/// Two ranks, one of which waited for nobody.
fn application() -> ApplicationResult {
    let us = |microseconds: u64| Time::from_picoseconds(microseconds * 1_000_000);
    let rank = |rank, longest_wait, waited_for| RankRow {
        rank,
        host: 1 - rank,
        span: us(90),
        computing: us(50),
        messaging: us(10),
        waiting: us(30),
        longest_wait,
        waited_for,
    };
    ApplicationResult {
        makespan: us(90),
        operations: 4,
        ended: 4,
        local_messages: 0,
        is_cut: false,
        stalled: None,
        misfits: Misfits::default(),
        ranks: vec![rank(0, Some((1, us(20))), us(0)), rank(1, None, us(20))],
    }
}

fn outcome(cells: Vec<CellOutcome>) -> StudyOutcome {
    StudyOutcome {
        study: "torus-1024".to_owned(),
        version: "0.1.0".to_owned(),
        cells,
        runs_not_begun: 0,
        cost: Some(Cost {
            wall_s: 1.25,
            peak_rss_bytes: Some(18_350_080),
        }),
    }
}

/// What so many runs left.
pub(crate) fn results(runs: usize) -> Vec<RunResult> {
    vec![result(); runs]
}

fn run(cell: u32, summary: Summary) -> RunRecord {
    RunRecord {
        cell,
        seed: summary.seed,
        made: Ok(Box::new(summary)),
    }
}

impl RunRecord {
    pub(crate) fn summary_mut(&mut self) -> &mut Summary {
        self.made.as_mut().unwrap()
    }
}

fn figure(value: f64, role: FigureRole) -> Figure {
    Figure {
        value,
        role,
        tolerance: 0.05,
        blind: None,
        authors_model: None,
    }
}

/// One run beside published figures.
pub(crate) fn one_run() -> StudyOutcome {
    let published = Published {
        figures: [
            ("links.mesh.utilisation_mean", 0.122),
            ("latency_us.p99", 650.0),
            ("latency_us.min", 331.0),
            ("events", 144_712_326.0),
            ("wall_s", 14_100.0),
        ]
        .map(|(path, value)| (path.to_owned(), figure(value, FigureRole::Result)))
        .into(),
        sources: vec!["a paper, table 3".to_owned(), "its report".to_owned()],
    };
    outcome(vec![CellOutcome {
        number: 0,
        set: Vec::new(),
        published,
        runs: vec![run(0, summary())],
    }])
}

/// Three seeds of one scenario.
pub(crate) fn three_seeds() -> StudyOutcome {
    let runs = [(1, 380.9), (2, 381.5), (3, 381.8)].map(|(seed, mean)| {
        let mut summary = summary();
        summary.seed = seed;
        summary.latency_us.mean = Some(mean);
        run(0, summary)
    });
    let published = Published {
        figures: [(
            "latency_us.mean".to_owned(),
            figure(384.0, FigureRole::Given),
        )]
        .into(),
        sources: Vec::new(),
    };
    outcome(vec![CellOutcome {
        number: 0,
        set: Vec::new(),
        published,
        runs: runs.into(),
    }])
}

/// Two cells, each with a published mean.
pub(crate) fn sweep() -> StudyOutcome {
    let cell = |number, size: &str, mean: f64, published: Figure| {
        let mut summary = summary();
        summary.latency_us.mean = Some(mean);
        summary.latency_us.ci95 = None;
        CellOutcome {
            number,
            set: vec![("traffic.size".to_owned(), size.to_owned())],
            published: Published {
                figures: [("latency_us.mean".to_owned(), published)].into(),
                sources: vec!["a paper, table 3".to_owned()],
            },
            runs: vec![run(number, summary)],
        }
    };
    outcome(vec![
        cell(0, "64 B", 33.4, figure(33.2, FigureRole::Given)),
        cell(1, "1 KiB", 40.9, figure(40.8, FigureRole::Result)),
    ])
}

/// A sweep over two keys: four cells of two seeds; the last but one unstable, the last failed.
pub(crate) fn grid() -> StudyOutcome {
    let record = |cell: u32, seed: u64, load: f64| {
        let mut summary = summary();
        summary.seed = seed;
        summary.latency_us.mean = Some(300.0 + load + seed as f64);
        summary.offered_messages_per_s = Some(1024.0 * load);
        summary.carried_messages_per_s = Some(1024.0 * load.min(250.0));
        summary.is_unstable = load > 250.0;
        let busy = Usage {
            count: 1024,
            utilisation_mean: load / 1000.0,
            utilisation_max: load / 900.0,
        };
        summary.links = OrderedMap::from_iter([("mesh".to_owned(), busy)]);
        match cell {
            3 => RunRecord {
                cell,
                seed,
                made: Err("no preset `giganet-clam`".to_owned()),
            },
            _ => run(cell, summary),
        }
    };
    let cell = |number: u32| {
        let load = f64::from(number + 1) * 100.0;
        CellOutcome {
            number,
            set: vec![
                ("traffic.rate".to_owned(), format!("{load}/s")),
                ("links.model".to_owned(), "fluid".to_owned()),
            ],
            published: Published::default(),
            runs: [1, 2].map(|seed| record(number, seed, load)).to_vec(),
        }
    };
    StudyOutcome {
        cost: None,
        ..outcome((0..4).map(cell).collect())
    }
}
