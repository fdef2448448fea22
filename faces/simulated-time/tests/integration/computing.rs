//! What computing takes: nothing, or what was measured. Bounds below are strict, those above are
//! generous: a busy machine computes for longer.

use crate::run::{once, program};

const MS: f64 = 1e6;

/// What a host prints, which counts each nanosecond of computing as so many picoseconds: a number
/// behind each word.
fn numbers(role: &[&str], ps_per_ns: u64) -> Vec<f64> {
    let (result, ended) = once(&program("computing"), &[role], |coordinator| {
        coordinator.count_computing(ps_per_ns);
    });
    assert!(ended[0].0, "{result:?} {ended:?}");
    assert_eq!(result.unwrap().notices, Vec::<String>::new());
    let words: Vec<&str> = ended[0].1.split_whitespace().collect();
    let numbers = words.chunks(2).map(|pair| pair[1].parse().unwrap());
    numbers.collect()
}

#[test]
fn computing_is_free_unless_it_is_counted() {
    // Each piece ends with a reading of the clock, which takes 25 ns.
    assert_eq!(numbers(&["pieces", "1", "20000000"], 0)[0], 50.0);
}

#[test]
fn what_was_computed_is_charged_times_the_scale() {
    // One piece; one of so long that a thread in free time would be taken to wait; many.
    for pieces in [["1", "20000000"], ["1", "600000000"], ["1000", "20000"]] {
        for scale in [1.0, 2.5] {
            let numbers = numbers(&["pieces", pieces[0], pieces[1]], (scale * 1000.0) as u64);
            let (clock, computed) = (numbers[0], numbers[1]);
            assert!(computed >= 20.0 * MS);
            assert!(
                clock >= scale * computed,
                "{pieces:?} {scale}: {clock} {computed}"
            );
            assert!(
                clock <= scale * (2.0 * computed + 5.0 * MS),
                "{pieces:?} {scale}: {clock} {computed}"
            );
        }
    }
}

#[test]
fn what_it_takes_to_read_the_counter_in_a_simulation_is_no_computing() {
    // Ten nanoseconds each, and what faults took above the least that one takes, which a busy
    // machine makes longer: less than a tenth of what is computed on one that rests. With faults
    // counted it is more than two thirds.
    let numbers = numbers(&["counter"], 1000);
    let (clock, computed) = (numbers[0], numbers[1]);
    assert!(
        clock >= 100.0 * 10.0 && clock < computed / 2.0,
        "{clock} {computed}"
    );
}

#[test]
fn a_loop_that_waits_for_memory_does_not_compute() {
    // It is found by a look each 25 ms of the processor, which would count.
    let clock = numbers(&["waits"], 1000)[0];
    assert!((20.0 * 15_000.0..20.0 * MS).contains(&clock), "{clock}");
}

#[test]
fn a_loop_that_waits_and_counts_computes_while_others_go_on() {
    let clock = numbers(&["counts"], 1000)[0];
    assert!((0.1 * MS..10_000.0 * MS).contains(&clock), "{clock}");
}
