//! Which way a message goes, and that the adaptive adapter takes the quickest.

use viaduct_engine::Time;
use viaduct_hardware::{Mechanism, Ways};
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{breakdown, way, ways};
use viaduct_scenario::load_programs;

/// KVIA's adapter with one way only, in its own words, or with all.
fn kvia(only: Option<&str>) -> SimulationConfig {
    let mut config = load_programs("kvia-myrinet", None, 2).unwrap();
    if let (Mechanism::Firmware(model), Some(only)) =
        (&mut config.host.common_mut().mechanism, only)
    {
        model.ways = Ways {
            written: only == "written",
            staged: only == "staged",
            streamed: only == "streamed",
        };
    }
    config
}

fn takes(config: &SimulationConfig, bytes: u32) -> Time {
    let stages = breakdown(config, bytes);
    let times = stages.into_iter().map(|(_, time)| time);
    times.fold(Time::ZERO, |sum, time| sum + time)
}

#[test]
fn the_adaptive_adapter_is_as_quick_as_its_best_way_at_every_size() {
    let adaptive = kvia(None);
    let single = ["written", "staged", "streamed"].map(|only| kvia(Some(only)));
    for bytes in (0..4096).chain((4096..=65_536).step_by(256)) {
        let quickest = single.iter().map(|config| takes(config, bytes)).min();
        let own = takes(&adaptive, bytes);
        assert!(quickest.unwrap() >= own, "{bytes}: {own:?}");
    }
}

#[test]
fn ways_change_where_they_are_said_to() {
    for (model, expected) in [
        ("clan", vec![(0, "PIO"), (2048, "DMA")]),
        ("clan-pio", vec![(0, "PIO")]),
        ("clan-dma", vec![(0, "queued PIO"), (129, "DMA")]),
        ("rnic-gen3", vec![(0, "inline"), (237, "fetched")]),
        ("bvia-myrinet", vec![(0, "staged")]),
    ] {
        let config = load_programs(model, None, 2).unwrap();
        assert_eq!(ways(&config, 4096), expected, "{model}");
    }
    let config = kvia(None);
    let found = ways(&config, 65_536);
    assert!(found.len() > 1, "{found:?}");
    for pair in found.windows(2) {
        let [(_, before), (from, after)] = pair else {
            panic!("two of them")
        };
        assert_eq!(
            (way(&config, from - 1), way(&config, *from)),
            (*before, *after)
        );
        // One way is quicker up to there, the other from there on.
        let (one, other) = (kvia(Some(*before)), kvia(Some(*after)));
        assert!(takes(&one, from - 1) <= takes(&other, from - 1));
        assert!(takes(&one, *from) >= takes(&other, *from));
    }
}
