//! Programs that share the processors of 16 hosts, by the schedulers of these: shapes.

use viaduct_engine::Time;
use viaduct_lanai::{
    Config, ParallelProgram, Pattern, Phases, Scheduler, TimeSharing, Wait, Workload, time_share,
};

const fn us(microseconds: u64) -> Time {
    Time::from_microseconds(microseconds)
}

const SPIN: Wait = Wait::TwoPhase(us(150));

fn scheduler(wait: Wait) -> Scheduler {
    Scheduler {
        quantum: us(10_000),
        switch: us(50),
        wait,
        phases: Phases::Random,
    }
}

/// 50 ms of computing for each process.
fn workload(grain: Time, pattern: Pattern) -> Workload {
    Workload {
        rounds: (50_000_000_000 / grain.picoseconds()) as u32,
        grain,
        imbalance_percent: 0,
        pattern,
        bytes: 16,
    }
}

fn run(scheduler: Scheduler, workload: Workload, programs: &[u16]) -> TimeSharing {
    let config = Config::am_myrinet(16, 8);
    let programs = each(workload, programs);
    time_share(config, scheduler, &programs, || false).expect("nobody stops it")
}

fn each(workload: Workload, numbers: &[u16]) -> Vec<ParallelProgram> {
    let program = |number: &u16| ParallelProgram {
        number: *number,
        workload,
    };
    numbers.iter().map(program).collect()
}

/// Programs together, over one after the other with processes that spin.
fn slowdown(scheduler: Scheduler, workload: Workload, programs: &[u16]) -> f64 {
    let alone = Scheduler {
        wait: Wait::Spin,
        ..scheduler
    };
    let one_by_one: f64 = programs
        .iter()
        .map(|program| run(alone, workload, &[*program]).total.seconds_f64())
        .sum();
    run(scheduler, workload, programs).total.seconds_f64() / one_by_one
}

#[test]
fn a_program_alone_costs_what_it_costs_without_a_scheduler() {
    for pattern in [Pattern::Neighbours, Pattern::All] {
        let workload = workload(us(1_000), pattern);
        // A quantum that never ends, and switches that cost nothing.
        let without = Scheduler {
            quantum: us(3_600_000_000),
            switch: Time::ZERO,
            ..scheduler(Wait::Spin)
        };
        let without = run(without, workload, &[0]);
        for wait in [Wait::Spin, Wait::TwoPhase(us(1_000))] {
            let with = run(scheduler(wait), workload, &[0]);
            assert_eq!(with.programs, without.programs, "{wait:?}, {pattern:?}");
            assert_eq!((with.switches, with.blocks), (0, 0));
        }
        // Per round what is computed, and for each partner four messages of 2.9 us: a request and
        // a reply posted, both taken.
        let partners = if pattern == Pattern::All { 15 } else { 2 };
        let work = us(1_000) + Time::from_nanoseconds(2_900).saturating_mul(4 * partners);
        let least = work.saturating_mul(u64::from(workload.rounds));
        assert!(without.total > least, "{} of {least}", without.total);
        // The interface takes 15.2 us for a request and its reply, out or in: 30 pairs with 15
        // partners.
        let most =
            work.max(us(1_000) + Time::from_nanoseconds(15_200).saturating_mul(2 * partners));
        let most = most + us(100);
        assert!(without.total < most.saturating_mul(u64::from(workload.rounds)));
    }
}

#[test]
fn spinning_waits_for_the_others_turns_and_blocking_does_not() {
    for pattern in [Pattern::Neighbours, Pattern::All] {
        let workload = workload(us(1_000), pattern);
        let spin = slowdown(scheduler(Wait::Spin), workload, &[0, 1]);
        let two_phase = slowdown(scheduler(SPIN), workload, &[0, 1]);
        assert!(spin > 4.0, "{pattern:?}: {spin}");
        assert!((1.0..1.35).contains(&two_phase), "{pattern:?}: {two_phase}");
    }
}

#[test]
fn spinning_is_no_harm_when_all_hosts_turn_together() {
    let workload = workload(us(1_000), Pattern::All);
    let aligned = Scheduler {
        phases: Phases::Aligned,
        ..scheduler(Wait::Spin)
    };
    let aligned = slowdown(aligned, workload, &[0, 1]);
    // A switch of 50 us a quantum of 10 ms; and what is on its way at the end of a turn comes while
    // the other program has its own.
    assert!((0.99..1.02).contains(&aligned), "{aligned}");
}

#[test]
fn a_shorter_quantum_makes_spinning_less_bad() {
    let workload = workload(us(1_000), Pattern::All);
    let with = |quantum| {
        let scheduler = Scheduler {
            quantum,
            ..scheduler(Wait::Spin)
        };
        slowdown(scheduler, workload, &[0, 1])
    };
    let (long, short) = (with(us(10_000)), with(us(1_000)));
    assert!(long > 3.0 * short, "{long}, {short}");
}

#[test]
fn with_imbalance_programs_use_what_others_wait() {
    let workload = Workload {
        imbalance_percent: 50,
        ..workload(us(10_000), Pattern::All)
    };
    let three = slowdown(scheduler(SPIN), workload, &[0, 1, 2]);
    assert!(three < 0.95, "{three}");
    let balanced = Workload {
        imbalance_percent: 0,
        ..workload
    };
    let balanced = slowdown(scheduler(SPIN), balanced, &[0, 1, 2]);
    assert!(balanced > 1.0, "{balanced}");
}

#[test]
fn blocking_at_once_pays_for_every_wait_and_spinning_a_while_for_few() {
    // Grains of a tenth of a millisecond, where waking and switching weigh most.
    let workload = workload(us(100), Pattern::Neighbours);
    let block = run(scheduler(Wait::Block), workload, &[0, 1]);
    let two_phase = run(scheduler(SPIN), workload, &[0, 1]);
    assert!(block.blocks > 10 * two_phase.blocks, "{block:?}");
    assert!(block.shares.kernel > 5.0 * two_phase.shares.kernel);
    assert!(block.total.seconds_f64() > 1.1 * two_phase.total.seconds_f64());
}

#[test]
fn shares_of_the_processors_are_what_was_done() {
    for wait in [Wait::Spin, Wait::Block, SPIN] {
        let it = run(
            scheduler(wait),
            workload(us(1_000), Pattern::All),
            &[0, 1, 2],
        );
        let shares = it.shares;
        let processors_s = 16.0 * it.total.seconds_f64();
        let switching = it.switches as f64 * 50e-6 / processors_s;
        assert!(
            (shares.switching - switching).abs() < 1e-3,
            "{wait:?}: {shares:?}"
        );
        if wait == Wait::Spin {
            assert!(shares.idle < 0.02, "{shares:?}");
        }
        // Each message is taken once and posted once, 2.9 us each.
        let messages = 3.0 * 50.0 * 16.0 * 15.0 * 2.0 * 5.8e-6 / processors_s;
        assert!(
            (shares.messages - messages).abs() < 1e-6,
            "{wait:?}: {shares:?}"
        );
        // What programs compute does not depend on company.
        let computed = shares.computing * it.total.seconds_f64();
        assert!((computed - 0.15).abs() < 1e-6, "{wait:?}: {computed}");
    }
}

#[test]
fn programs_with_fewer_frames_than_endpoints_end_too() {
    let config = Config::am_myrinet(16, 2);
    let workload = workload(us(1_000), Pattern::Neighbours);
    let it = time_share(config, scheduler(SPIN), &each(workload, &[0, 1, 2]), || {
        false
    })
    .unwrap();
    assert!(it.totals.remaps > 100, "{it:?}");
    assert_eq!(it.totals.returned, 0);
}

#[test]
fn equal_seeds_run_equally() {
    let with = |seed| {
        let mut config = Config::am_myrinet(16, 8);
        config.seed = seed;
        let workload = workload(us(1_000), Pattern::Neighbours);
        time_share(config, scheduler(SPIN), &each(workload, &[0, 1]), || false).unwrap()
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1).total, with(2).total);
}

#[test]
fn whoever_asked_for_it_can_stop_it() {
    let config = Config::am_myrinet(16, 8);
    let workload = workload(us(100), Pattern::All);
    let mut looks = 0;
    let programs = each(workload, &[0, 1]);
    let stopped = time_share(config, scheduler(Wait::Spin), &programs, || {
        looks += 1;
        looks == 3
    });
    assert_eq!((stopped, looks), (None, 3));
}

#[test]
fn a_woken_process_takes_the_processor_from_one_that_computes() {
    // One program computes for long, in the other everybody waits for somebody all the time.
    let coarse = ParallelProgram {
        number: 0,
        workload: Workload {
            rounds: 2,
            ..workload(us(100_000), Pattern::Neighbours)
        },
    };
    let fine = ParallelProgram {
        number: 1,
        workload: workload(us(500), Pattern::Neighbours),
    };
    let config = || Config::am_myrinet(16, 8);
    let alone = time_share(config(), scheduler(SPIN), &[fine], || false).unwrap();
    let both = time_share(config(), scheduler(SPIN), &[coarse, fine], || false).unwrap();
    // The coarse one has its processors while nobody is woken.
    let ratio = both.programs[1].seconds_f64() / alone.total.seconds_f64();
    assert!(ratio < 3.0, "{ratio}: {both:?}");
}
