//! Registering memory keeps the processor busy, where a preset says so.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_programs::Simulation;
use viaduct_provider::{Access, Memory, Nic};
use viaduct_scenario::load_programs;

/// How much longer a window of so many bytes takes than one of 4 KiB, and what that takes.
fn windows(model: &str, bytes: usize) -> (Duration, Duration) {
    let mut simulation = Simulation::new(load_programs(model, None, 2).unwrap());
    let took: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let seen = took.clone();
    simulation.spawn(0, move |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        for bytes in [4096, bytes] {
            let began = process.now();
            let window = nic.window(bytes, Access::ReadWrite, Memory::Private);
            seen.lock().unwrap().push(process.now() - began);
            drop(window);
        }
    });
    simulation.run().unwrap();
    let took = took.lock().unwrap();
    (took[0], took[1] - took[0])
}

#[test]
fn a_registration_costs_its_fixed_part_and_its_bytes() {
    for model in ["rnic-gen3", "rnic-gen4", "rnic-gen5"] {
        let (small, more) = windows(model, 4096 + 1_000_000);
        // 16 us, 4,096 bytes at 0.06 ns, and a call.
        assert!((16_245..16_400).contains(&small.as_nanos()), "{small:?}");
        assert!((59_999..=60_001).contains(&more.as_nanos()), "{more:?}");
    }
    for model in ["clan", "giganet-clan", "m-via", "kvia-myrinet", "ideal"] {
        let (small, more) = windows(model, 4096 + 1_000_000);
        assert!(small < Duration::from_nanos(100), "{model}: {small:?}");
        assert_eq!(more, Duration::ZERO, "{model}");
    }
}
