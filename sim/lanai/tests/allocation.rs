//! Goal: in steady state a message costs no allocation, whatever it passes. Method: count those of
//! a run and of a longer one.

use allocation_counter::measure;
use viaduct_engine::Time;
use viaduct_lanai::{Config, Server, contention};

#[test]
fn a_longer_run_allocates_no_more() {
    let run = |milliseconds| {
        let mut requests = 0.0;
        let allocations = measure(|| {
            let (warm_up, window) = (Time::ZERO, Time::from_milliseconds(milliseconds));
            // Nine clients and eight frames: remaps and refusals are part of it.
            let config = Config::am_myrinet(10, 8);
            let result = contention(config, Server::MultiThread, 9, 16, warm_up, window);
            assert!(result.window.remaps > 0 && result.window.refusals > 0);
            requests = result.messages_s * window.seconds_f64();
        });
        (allocations.count_total, requests)
    };
    let (short, longer) = (run(200), run(600));
    let messages = longer.1 - short.1;
    assert!(messages > 20_000.0);
    // Queues that grow once to a new depth may still come.
    let more = longer.0.saturating_sub(short.0);
    assert!(more < 100, "{more} allocations for {messages} messages");
}
