//! Units and scenarios read back as they were written, and no text makes the reader panic.

use proptest::prelude::*;
use viaduct_engine::Time;
use viaduct_hardware::Rate;
use viaduct_scenario::{
    FREQUENCY_MAX, Override, RATE_BITS_MAX, RATE_BITS_MIN, SIZE_BYTES_MAX, Study, TIME_SECONDS_MAX,
    format_frequency, format_rate, format_ratio, format_size, format_time, parse_frequency,
    parse_preset, parse_rate, parse_ratio, parse_size, parse_study, parse_time,
};

const STUDIES: [&str; 5] = [
    include_str!("../../../../studies/torus-1024.toml"),
    include_str!("../../../../studies/four-hop.toml"),
    include_str!("../../../../studies/prepost-drops.toml"),
    include_str!("../../../../studies/bus-contention.toml"),
    include_str!("../../../../studies/two-hosts.toml"),
];
const PRESET: &str = include_str!("../../../../models/giganet-clan.toml");

/// A positive number of any magnitude within bounds.
fn magnitude(min: f64, max: f64) -> impl Strategy<Value = f64> {
    (min.log10()..max.log10()).prop_map(move |power| 10f64.powf(power).clamp(min, max))
}

/// Pieces of which a slip might consist.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("\"".to_owned()),
        Just("=".to_owned()),
        Just("[".to_owned()),
        Just("]]".to_owned()),
        Just("{ value = ".to_owned()),
        Just("\n[traffic]\n".to_owned()),
        Just("\n[hosts.model.nic]\nrate = 3\n".to_owned()),
        Just("[sweep]\n\"run.seed\" = [1, \"\u{b5}\"]\n".to_owned()),
        Just("'''".to_owned()),
        Just("\u{1f600}\u{301}\t\r\n".to_owned()),
        Just("nan".to_owned()),
        Just("\ninherits = \"ideal\"\n".to_owned()),
        Just("\ninherits = \"x.toml\"\n".to_owned()),
        Just("-1e999".to_owned()),
        Just("99999999999999999999999999 ms".to_owned()),
        "\\PC{0,8}",
    ]
}

proptest! {
    #[test]
    fn times_read_back(picoseconds in 0..=TIME_SECONDS_MAX * 1_000_000_000_000) {
        let time = Time::from_picoseconds(picoseconds);
        prop_assert_eq!(parse_time(&format_time(time)), Ok(time));
    }

    #[test]
    fn sizes_read_back(bytes in 0..=SIZE_BYTES_MAX, shift in 0..40_u32) {
        let bytes = bytes >> shift;
        prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
    }

    #[test]
    fn rates_read_back_to_the_bit(bits in magnitude(RATE_BITS_MIN, RATE_BITS_MAX)) {
        let rate = Rate::from_bits_per_second(bits);
        prop_assert_eq!(parse_rate(&format_rate(rate)), Ok(rate));
    }

    #[test]
    fn frequencies_read_back_to_the_bit(frequency in magnitude(1e-9, FREQUENCY_MAX)) {
        prop_assert_eq!(parse_frequency(&format_frequency(frequency)), Ok(frequency));
    }

    #[test]
    fn shares_read_back_to_the_bit(share in 0.0..=1.0_f64) {
        prop_assert_eq!(parse_ratio(&format_ratio(share)), Ok(share));
    }

    #[test]
    fn bytes_and_bits_of_a_rate_agree(whole in 1..10_000_u32) {
        let bits = parse_rate(&format!("{} Mbit/s", u64::from(whole) * 8));
        prop_assert_eq!(parse_rate(&format!("{whole} MB/s")), bits);
    }

    #[test]
    fn quantities_of_any_text_do_not_panic(text in "\\PC{0,40}") {
        let _ = parse_time(&text);
        let _ = parse_size(&text);
        let _ = parse_rate(&text);
        let _ = parse_frequency(&text);
        let _ = parse_ratio(&text);
    }

    #[test]
    fn quantities_of_near_text_do_not_panic(text in "[0-9.eE+_-]{0,12} ?[kKMGTmnu]?[a-zA-Z/%\u{b5}]{0,6}") {
        let _ = parse_time(&text);
        let _ = parse_size(&text);
        let _ = parse_rate(&text);
        let _ = parse_frequency(&text);
        let _ = parse_ratio(&text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_refused_with_a_message(text in "\\PC{0,200}") {
        if let Err(diagnostics) = parse_study(&text) {
            prop_assert!(diagnostics.has_errors());
            prop_assert!(diagnostics.to_string().starts_with("error: "));
        }
        let _ = parse_preset("x.toml", &text);
    }

    #[test]
    fn bytes_are_refused_with_a_message(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        if let Err(diagnostics) = parse_study(&text) {
            prop_assert!(diagnostics.to_string().starts_with("error: "));
        }
    }

    /// A study with a stretch cut out and another put in: read or refused, never a panic; and what
    /// is read resolves to itself.
    #[test]
    fn mutated_studies_are_read_or_refused(
        study in 0..STUDIES.len(),
        at in 0.0..1.0_f64,
        cut in 0..30_usize,
        insert in piece(),
        second in 0.0..1.0_f64,
    ) {
        let mut characters: Vec<char> = STUDIES[study].chars().collect();
        for (place, cut, insert) in [(at, cut, insert.as_str()), (second, cut / 10, "")] {
            let start = (place * characters.len() as f64) as usize;
            let end = (start + cut).min(characters.len());
            characters.splice(start..end, insert.chars());
        }
        let text: String = characters.into_iter().collect();
        match parse_study(&text) {
            Err(diagnostics) => {
                prop_assert!(diagnostics.render(true).contains("error"));
            }
            Ok(study) => {
                let resolved = study.resolved_toml();
                let again = Study::from_resolved(&resolved);
                let again = again.map_err(|error| TestCaseError::fail(format!("{error}\n{resolved}")))?;
                prop_assert_eq!(again.resolved_toml(), resolved);
            }
        }
    }

    #[test]
    fn mutated_presets_are_read_or_refused(
        at in 0.0..1.0_f64,
        cut in 0..30_usize,
        insert in piece(),
    ) {
        let mut characters: Vec<char> = PRESET.chars().collect();
        let start = (at * characters.len() as f64) as usize;
        let end = (start + cut).min(characters.len());
        characters.splice(start..end, insert.chars());
        let text: String = characters.into_iter().collect();
        if let Err(diagnostics) = parse_preset("x.toml", &text) {
            prop_assert!(diagnostics.to_string().contains("error: "));
        }
    }

    #[test]
    fn any_option_is_taken_or_refused(key in "[a-z._=]{0,20}|traffic.size|run.until|hosts.nic|\\PC{0,5}", value in "\\PC{0,20}") {
        let fixed = Override::fixed(format!("{key}={value}"));
        let swept = Override::swept(format!("{key}={value}"));
        for set in [fixed, swept] {
            if let Err(diagnostics) = Study::load("two-hosts", &[set]) {
                prop_assert!(diagnostics.to_string().contains("error: "));
            }
        }
    }
}

/// A study of random values: what was resolved is read back to the same configuration.
#[derive(Clone, Debug)]
struct Values {
    seed: u64,
    until_ps: u64,
    rate_bits: f64,
    doorbell_ps: u64,
    per_second: f64,
    size: u32,
    processes: u32,
    title: String,
}

fn values() -> impl Strategy<Value = Values> {
    (
        any::<u64>(),
        1..TIME_SECONDS_MAX,
        magnitude(1e3, 1e12),
        0..1_000_000_000_u64,
        magnitude(1e-3, 1e9),
        0..65_535_u32,
        1..1000_u32,
        "\\PC{0,20}|[\"\\\\\n\t\r\u{7f}]{0,5}",
    )
        .prop_map(
            |(seed, until, rate_bits, doorbell_ps, per_second, size, processes, title)| {
                let until_ps = until * 1_000_000 + 1;
                Values {
                    seed,
                    until_ps,
                    rate_bits,
                    doorbell_ps,
                    per_second,
                    size,
                    processes,
                    title,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn resolved_scenarios_read_back_equal(values in values()) {
        let text = |time| format_time(Time::from_picoseconds(time));
        let set = [
            format!("run.seed={}", values.seed),
            format!("run.until={}", text(values.until_ps)),
            format!("links.rate={}", format_rate(Rate::from_bits_per_second(values.rate_bits))),
            format!("nic.doorbell={}", text(values.doorbell_ps)),
            "traffic.arrivals=open".to_owned(),
            format!("traffic.rate={}", format_frequency(values.per_second)),
            format!("traffic.size={}", format_size(u64::from(values.size))),
            format!("hosts.processes={}", values.processes),
        ];
        let set: Vec<Override> = set.into_iter().map(Override::fixed).collect();
        let study = Study::load("two-hosts", &set);
        let mut study = study.map_err(|error| TestCaseError::fail(error.to_string()))?;
        study.title = values.title;
        let resolved = study.resolved_toml();
        let again = Study::from_resolved(&resolved);
        let again = again.map_err(|error| TestCaseError::fail(format!("{error}\n{resolved}")))?;
        prop_assert_eq!(format!("{:?}", again.config), format!("{:?}", study.config));
        prop_assert_eq!(again.config.run.seed, values.seed);
        prop_assert_eq!(again.config.traffic.size.max_bytes(), values.size);
        prop_assert_eq!(again.config.links.rate.bits_per_second(), values.rate_bits);
    }
}

/// Texts made to exhaust something: each is refused in bounded time, without overflow of the stack.
#[test]
fn hostile_texts_are_refused() {
    let keys: String = (0..200_000)
        .map(|index| format!("k{index} = 1\n"))
        .collect();
    let texts = [
        format!("{} = 1", vec!["a"; 100_000].join(".")),
        format!("[{}]\nb = 1", vec!["a"; 100_000].join(".")),
        format!("a = {}", "[".repeat(100_000)),
        format!("a = {}", "{ b = ".repeat(100_000)),
        format!("[sweep]\n{} = [1]", vec!["a"; 100_000].join(".")),
        format!("[run]\n{keys}"),
        format!("[[published]]\n{keys}"),
        keys,
        "= \n".repeat(200_000),
        "=".repeat(1_000_000),
        format!("[run]\nuntil = \"{}\"", "9".repeat(1_000_000)),
        format!("[run]\nuntil = \"0.{}1 s\"", "0".repeat(1_000_000)),
        format!("[run]\nuntil = \"{}\"", "\u{1f600}".repeat(300_000)),
        format!(
            "[network]\ntopology = \"mesh\"\ndimensions = [{}1]",
            "1,".repeat(1_000_000)
        ),
    ];
    for text in texts {
        let start = text.chars().take(40).collect::<String>();
        let diagnostics = parse_study(&text).expect_err(&start);
        assert!(diagnostics.to_string().starts_with("error: "), "{start}");
        assert!(parse_preset("x.toml", &text).is_err(), "{start}");
        let option = Override::swept(text);
        assert!(Study::load("two-hosts", &[option]).is_err(), "{start}");
    }
}
