//! What a fit recovers, and what it refuses.

use viaduct_measure::Test;
use viaduct_scenario::{Confidence, list_models, load_preset, parse_preset};

use super::*;

const SIZES: [u32; 10] = [0, 8, 40, 100, 256, 1024, 2000, 4096, 16_384, 60_000];

/// As `viaduct measure TEST --on sim:MODEL --json` would have it.
fn measure(model: &str, test: Test, sizes: &[u32]) -> Measured {
    let half = r#""half_rtt_us":{"median":1.0},"messages_s":1.0"#;
    let rows: Vec<String> = sizes
        .iter()
        .map(|bytes| format!(r#"{{"bytes":{bytes},{half}}}"#))
        .collect();
    let text = format!(
        r#"{{"fabric":"sim:{model}","test":"{}","mode":"poll","level":"rd","rows":[{}]}}"#,
        test.name(),
        rows.join(",")
    );
    let mut measured = Measured::read("m.json", &text).unwrap();
    let preset = load_preset(model).unwrap();
    let times = times(&preset, &measured, Care::Final, &|| false).unwrap();
    for (point, time) in measured[0].points.iter_mut().zip(times) {
        point.microseconds = time;
    }
    measured.remove(0)
}

/// A preset in which every time and rate is off, one by this factor and one by that.
fn edited(model: &str) -> Preset {
    let mut preset = load_preset(model).unwrap();
    for (place, number) in preset.numbers.iter_mut().enumerate() {
        let factor = [2.5, 0.6, 1.7, 0.4][place % 4];
        if let Some(scaled) = number.scaled(factor, 6)
            && !scaled.value.ends_with('B')
        {
            *number = scaled;
        }
    }
    preset
}

fn fitted(base: &Preset, measured: Vec<Measured>) -> Fit {
    fit(base, &base.name, measured, &|| false).unwrap_or_else(|error| panic!("{error}"))
}

fn worst(fit: &Fit) -> f64 {
    let worst = |is_held_out| fit.errors(is_held_out).unwrap().1;
    worst(true).max(worst(false))
}

#[test]
fn times_of_a_model_are_recovered_from_one_with_other_numbers() {
    for model in [
        "clan-pio",
        "giganet-clan-linux",
        "rnic-gen4",
        "m-via",
        "bvia-myrinet",
    ] {
        let measured = measure(model, Test::Latency, &SIZES);
        let fit = fitted(&edited(model), vec![measured]);
        assert_eq!((fit.count(false), fit.count(true)), (7, 3));
        let worst = worst(&fit);
        assert!(worst < 0.02, "{model}: {worst}\n{}", fit.table());
    }
}

#[test]
fn times_of_a_model_are_recovered_from_another_of_its_kind() {
    for (model, base) in [("clan-pio", "clan-dma"), ("rnic-gen5", "rnic-gen3")] {
        let measured = measure(model, Test::Latency, &SIZES);
        let fit = fitted(&load_preset(base).unwrap(), vec![measured]);
        let worst = worst(&fit);
        assert!(
            worst < 0.02,
            "{model} from {base}: {worst}\n{}",
            fit.table()
        );
    }
}

#[test]
fn nothing_that_costs_time_is_left_out() {
    for base in list_models() {
        if base.name == "ideal" || base.has_endpoints() {
            continue;
        }
        let sizes = [0, 8, 300, 5000, 60_000];
        let measured = vec![measure(&base.name, Test::Latency, &sizes)];
        for count_max in [2, 100] {
            let knobs = knobs::joined(knobs::of(&base, &measured), count_max);
            // Thousands of times as quick, and more than that where two knobs move a number.
            let quick = knobs::turned(&base, &knobs, &vec![-7.0; knobs.len()], true);
            let [slow, quick] =
                [&base, &quick].map(|preset| times(preset, &measured, Care::Final, &|| false));
            for (slow, quick) in slow.unwrap().iter().zip(quick.unwrap()) {
                // Of so little the clock's nanosecond is a part.
                assert!(quick < slow / 500.0, "{}: {slow} {quick}", base.name);
            }
        }
    }
}

#[test]
fn of_few_points_the_base_keeps_its_ratios() {
    let measured = measure("giganet-clan-linux", Test::Latency, &[0, 8, 256, 60_000]);
    let fit = fitted(&edited("giganet-clan-linux"), vec![measured]);
    assert_eq!((fit.count(false), fit.count(true)), (3, 1));
    assert!(fit.numbers.iter().any(|it| it.after.key == "page_crossing"));
    let mut whats: Vec<&str> = fit.numbers.iter().map(|it| it.what.as_str()).collect();
    whats.sort_unstable();
    whats.dedup();
    assert_eq!(whats, ["the rate of bytes", "what every message costs"]);
}

#[test]
fn latency_and_bandwidth_are_fitted_together() {
    let sizes = [64, 1024, 4096, 16_384];
    let measured = vec![
        measure("rnic-gen4", Test::Latency, &SIZES),
        measure("rnic-gen4", Test::Bandwidth, &sizes),
    ];
    let fit = fitted(&edited("rnic-gen4"), measured);
    assert_eq!(fit.predicted_us[1].len(), sizes.len());
    assert!(worst(&fit) < 0.02, "{}", fit.table());
}

#[test]
fn a_fit_is_the_same_again() {
    let measured = measure("clan-pio", Test::Latency, &SIZES[..6]);
    let texts = [0, 1].map(|_| {
        let fit = fitted(&edited("clan-pio"), vec![measured.clone()]);
        fit.preset_text("mine", "clan-pio", &["m.json".to_owned()]) + &fit.table()
    });
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn the_preset_loads_and_says_where_its_numbers_are_from() {
    let measured = measure("clan-pio", Test::Latency, &SIZES);
    let base = load_preset("giganet-clan-linux").unwrap();
    let fit = fitted(&base, vec![measured]);
    let text = fit.preset_text("mine", "giganet-clan-linux", &["m.json".to_owned()]);
    let read = parse_preset("mine.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(read.inherits, ["giganet-clan-linux", "giganet-clan"]);
    assert!(!fit.numbers.is_empty());
    for number in &read.numbers {
        let is_it = |it: &&PresetNumber| (it.table, it.key) == (number.table, number.key);
        let meant = fit.preset.numbers.iter().find(is_it).unwrap();
        assert!(
            number.has_value_of(meant),
            "{}.{}",
            number.table,
            number.key
        );
        let is_fitted = fit.numbers.iter().any(|fitted| is_it(&&fitted.after));
        if is_fitted {
            assert_eq!(number.confidence, Confidence::Fitted);
            let words =
                "fitted to m.json: latency of 7 sizes from 0 to 60000 bytes over sim:clan-pio";
            assert!(number.source.contains(words), "{}", number.source);
        }
    }
}

#[test]
fn numbers_that_show_in_no_point_stay_as_they_are() {
    let measured = measure("clan-pio", Test::Latency, &SIZES);
    let fit = fitted(&edited("clan-pio"), vec![measured]);
    for key in [
        "dma_request",
        "dma_setup",
        "dma_interrupt",
        "map",
        "interrupt",
    ] {
        assert!(
            fit.numbers.iter().all(|number| number.after.key != key),
            "{key}"
        );
    }
}

#[test]
fn what_cannot_be_fitted_is_said() {
    let refused = |base: &str, measured: Vec<Measured>| {
        let base = load_preset(base).unwrap();
        let error = fit(&base, &base.name, measured, &|| false).map(|fit| fit.table());
        error.unwrap_err().to_string()
    };
    let few = measure("clan-pio", Test::Latency, &[0, 8, 64]);
    let text = refused("clan-pio", vec![few]);
    assert!(
        text.contains("4 sizes") && text.contains("here are 3"),
        "{text}"
    );

    let long = measure("clan-pio", Test::Latency, &[0, 8, 64, 1 << 17]);
    let text = refused("giganet-clan", vec![long]);
    assert!(
        text.contains("1 more are longer than `giganet-clan`"),
        "{text}"
    );

    let one = measure("clan-pio", Test::Latency, &SIZES);
    let other = measure("clan-dma", Test::Latency, &SIZES);
    let text = refused("clan-pio", vec![one, other]);
    assert!(text.contains("sim:clan-dma and sim:clan-pio"), "{text}");

    let free = measure("clan-pio", Test::Latency, &SIZES);
    let text = refused("ideal", vec![free]);
    assert!(text.contains("costs nothing in `ideal`"), "{text}");

    assert!(refused("clan-pio", Vec::new()).contains("here are 0"));
    let stopped = fit(
        &load_preset("clan-pio").unwrap(),
        "clan-pio",
        vec![measure("clan-pio", Test::Latency, &SIZES)],
        &|| true,
    );
    assert!(matches!(stopped, Err(FitError::Stopped)));
}

#[test]
fn the_size_at_which_a_model_changes_its_way_is_fitted() {
    const DENSE: [u32; 13] = [0, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024];
    let model = "rnic-gen4";
    let mut base = load_preset(model).unwrap();
    let measured = measure(model, Test::Latency, &DENSE);
    // 236 bytes go inline; the base believes that it is 40.
    let is_it = |number: &&mut PresetNumber| number.key == "inline";
    let inline = base.numbers.iter_mut().find(is_it).unwrap();
    *inline = inline.with_bytes(40).unwrap();
    let fit = fitted(&base, vec![measured]);
    let number = fit.numbers.iter().find(|it| it.after.key == "inline");
    let number = number.unwrap_or_else(|| panic!("{}", fit.table()));
    let bytes = viaduct_scenario::parse_size(&number.after.value).unwrap();
    assert!((192..256).contains(&bytes), "{}", fit.table());
    assert!(number.what.contains("another way"), "{}", number.what);
    assert!(worst(&fit) < 0.02, "{}", fit.table());
}
