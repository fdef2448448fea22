//! Threads that ask the same again and again.

use crate::run::{each_time, once, program};

#[test]
fn a_thread_that_is_told_the_same_each_time_goes_on_as_if_it_had_asked_each_time() {
    let program = program("repeats");
    // Told of something each time, or of nothing; with a clock read between.
    for words in [&[][..], &["clock"], &["nothing"]] {
        assert_eq!(
            each_time(&program, &[words]),
            ["1 on its grid, 1 at once\n"]
        );
        // It would have been 15,000 calls.
        let turns = once(&program, &[words], |_| {}).0.unwrap().turns;
        assert!(turns < 500, "{words:?}: {turns} turns");
    }
}
