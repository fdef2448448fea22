//! What a program between two processes is asked, how it measures, and the line that it answers.
//!
//! ```text
//! PROGRAM KIND TEST BYTES untouched|touched MILLISECONDS CORE,CORE
//! ```
//!
//! TEST is `latency` (half a round trip), `rate` (windows of [`WINDOW`] messages, each window
//! answered) or `bandwidth` ([`DEPTH`] messages on their way, each from a buffer of its own). The
//! first process pins itself to the first core and prints one JSON line; the second answers on the
//! other core. `peers/common/peer.h` is the same in C, step by step: programs on different
//! transports differ in nothing but the six operations of [`End`].

use std::time::{Duration, Instant};

/// Messages of a window of the rate test.
pub(crate) const WINDOW: usize = 64;
/// Messages on their way at once in the bandwidth test.
pub(crate) const DEPTH: usize = 4;
/// The slot of the message that answers a window or a batch: the last, of `ANSWER + 1` in all.
pub(crate) const ANSWER: usize = WINDOW;
/// Bytes of the messages that steer a measurement.
pub(crate) const STEERING_BYTES: usize = 8;

/// Batches of a measurement: each gives one sample, and the median of them is the value.
const BATCHES: usize = 61;
/// Messages before the clock starts: enough to fault in every page and settle every path.
const WARM_UP_MESSAGES_MAX: usize = 1000;
const WARM_UP_MESSAGES_MIN: usize = 10;
const WARM_UP_BYTES: usize = 4 << 20;
/// A batch is a power of two of messages, so that its exponent fits the byte of a steering message.
const EXPONENT_MAX: u32 = 24;
/// A batch of the rate test is whole windows.
const RATE_EXPONENT_MIN: u32 = 6;
/// A batch of the bandwidth test is long beside its first message and its answer.
const BANDWIDTH_EXPONENT_MIN: u32 = 4;
/// What an eight-byte word of a message full of ones is.
const ONES: u64 = 0x0101_0101_0101_0101;

/// What is measured.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Test {
    /// Half a round trip.
    Latency,
    /// Messages a second in windows.
    Rate,
    /// Bytes a second with a few messages on their way.
    Bandwidth,
}

impl Test {
    /// Its word on a command line and in a result.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Rate => "rate",
            Self::Bandwidth => "bandwidth",
        }
    }
}

/// One value to measure.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The way that the program sends, where it knows several.
    pub(crate) kind: String,
    /// What is measured.
    pub(crate) test: Test,
    /// Bytes of a message: a multiple of 8.
    pub(crate) bytes: usize,
    /// The sender writes the whole message before each send and the receiver reads all of it.
    pub(crate) touched: bool,
    /// How long to measure.
    pub(crate) duration: Duration,
    /// The core of the first process and of the second.
    pub(crate) cores: [usize; 2],
}

impl Plan {
    /// Reads the arguments of a program.
    ///
    /// # Errors
    ///
    /// One line that names the argument which is wrong.
    pub(crate) fn read(arguments: &[String]) -> Result<Self, String> {
        let [kind, test, bytes, touched, milliseconds, cores] = arguments else {
            return Err(
                "wants KIND TEST BYTES untouched|touched MILLISECONDS CORE,CORE".to_owned(),
            );
        };
        let test = [Test::Latency, Test::Rate, Test::Bandwidth]
            .into_iter()
            .find(|known| known.word() == test)
            .ok_or(format!("TEST is latency, rate or bandwidth, not `{test}`"))?;
        let whole = |name: &str, text: &str| {
            text.parse::<usize>()
                .map_err(|_| format!("{name} is a number, not `{text}`"))
        };
        let bytes = whole("BYTES", bytes)?;
        if bytes == 0 || !bytes.is_multiple_of(8) {
            return Err(format!("BYTES is a multiple of 8 from 8, not {bytes}"));
        }
        let (first, second) = cores
            .split_once(',')
            .ok_or(format!("two cores with a comma, not `{cores}`"))?;
        Ok(Self {
            kind: kind.clone(),
            test,
            bytes,
            touched: touched == "touched",
            duration: Duration::from_millis(whole("MILLISECONDS", milliseconds)? as u64),
            cores: [whole("CORE", first)?, whole("CORE", second)?],
        })
    }

    /// The arguments that [`Plan::read`] reads.
    pub(crate) fn arguments(&self) -> [String; 6] {
        let touched = if self.touched { "touched" } else { "untouched" };
        [
            self.kind.clone(),
            self.test.word().to_owned(),
            self.bytes.to_string(),
            touched.to_owned(),
            self.duration.as_millis().to_string(),
            format!("{},{}", self.cores[0], self.cores[1]),
        ]
    }

    fn exponent_min(&self) -> u32 {
        match self.test {
            Test::Latency => 0,
            Test::Rate => RATE_EXPONENT_MIN,
            Test::Bandwidth => BANDWIDTH_EXPONENT_MIN,
        }
    }

    fn warm_up_messages(&self) -> usize {
        (WARM_UP_BYTES / self.bytes).clamp(WARM_UP_MESSAGES_MIN, WARM_UP_MESSAGES_MAX)
    }
}

/// One end of a transport, as the measurement drives it. Both sides go through the slots in the
/// same order. A message on `slot` is a multiple of 8 bytes.
pub(crate) trait End {
    /// Writes `value` into every byte of what `slot` sends next.
    fn fill(&mut self, slot: usize, bytes: usize, value: u8);

    /// Sends from `slot`.
    fn post(&mut self, slot: usize, bytes: usize);

    /// Waits until the buffer that `slot` sends from may be written again.
    fn settle(&mut self, slot: usize);

    /// Readies `slot` for a message, where the transport is told of it in advance.
    fn expect(&mut self, slot: usize, bytes: usize);

    /// Waits until the message is there.
    fn receive(&mut self, slot: usize, bytes: usize);

    /// Reads all of the message that came: the sum of its eight-byte words, modulo 2^64.
    fn sum(&mut self, slot: usize, bytes: usize) -> u64;

    /// Gives the message back to the transport, where it lies in memory of the transport.
    fn release(&mut self, slot: usize);
}

/// What the batches of a measurement said, in order of size.
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    seconds_a_message: Vec<f64>,
}

impl Batches {
    /// The smallest, the middle and the 99th percentile, in seconds a message.
    pub(crate) fn min_median_p99(&self) -> [f64; 3] {
        let last = self.seconds_a_message.len() - 1;
        [0, last / 2, (last * 99).div_ceil(100)].map(|place| self.seconds_a_message[place])
    }
}

/// Measures as the first process, which takes the time.
///
/// # Errors
///
/// When a message that came does not hold what was written into it.
pub(crate) fn measure(end: &mut impl End, plan: &Plan) -> Result<Batches, String> {
    let mut turn = Turn { end, plan };
    let warm_up = plan.warm_up_messages();
    turn.first(warm_up / 2, true)?;
    let begin = Instant::now();
    turn.first(warm_up - warm_up / 2, plan.touched)?;
    let message_s = begin.elapsed().as_secs_f64() / (warm_up - warm_up / 2) as f64;

    let wanted = plan.duration.as_secs_f64() / BATCHES as f64 / message_s.max(1e-9);
    let exponent = (wanted.max(1.0).log2() as u32).clamp(plan.exponent_min(), EXPONENT_MAX);
    turn.steer(exponent as u8)?;
    let messages = 1_usize << exponent;
    let mut seconds_a_message = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let begin = Instant::now();
        turn.first(messages, plan.touched)?;
        seconds_a_message.push(begin.elapsed().as_secs_f64() / messages as f64);
    }
    seconds_a_message.sort_by(f64::total_cmp);
    Ok(Batches { seconds_a_message })
}

/// Answers as the second process until the first has measured.
///
/// # Errors
///
/// When a message that came does not hold what was written into it.
pub(crate) fn answer(end: &mut impl End, plan: &Plan) -> Result<(), String> {
    let mut turn = Turn { end, plan };
    let warm_up = plan.warm_up_messages();
    turn.second(warm_up / 2, true)?;
    turn.second(warm_up - warm_up / 2, plan.touched)?;
    let exponent = u32::from(turn.steered()?).min(EXPONENT_MAX);
    for _ in 0..BATCHES {
        turn.second(1 << exponent, plan.touched)?;
    }
    Ok(())
}

/// The line that a program prints.
pub(crate) fn line(plan: &Plan, version: &str, batches: &Batches) -> String {
    let [min, median, p99] = batches.min_median_p99();
    let figures = match plan.test {
        Test::Latency => {
            let half_us = |seconds: f64| seconds * 1e6 / 2.0;
            format!(
                r#""half_rtt_us":{{"min":{:.5},"median":{:.5},"p99":{:.5}}}"#,
                half_us(min),
                half_us(median),
                half_us(p99)
            )
        }
        Test::Rate | Test::Bandwidth => format!(
            r#""messages_s":{:.1},"mbyte_s":{:.3}"#,
            1.0 / median,
            plan.bytes as f64 / median / 1e6
        ),
    };
    format!(
        r#"{{"test":"{}","version":"{version}","rows":[{{"bytes":{},{figures}}}]}}"#,
        plan.test.word(),
        plan.bytes
    )
}

/// The steps of both sides, in one place: they must agree.
struct Turn<'a, E> {
    end: &'a mut E,
    plan: &'a Plan,
}

impl<E: End> Turn<'_, E> {
    /// One batch as the first process.
    fn first(&mut self, messages: usize, touched: bool) -> Result<(), String> {
        match self.plan.test {
            Test::Latency => self.ping(messages, touched),
            Test::Rate => {
                let mut left = messages;
                while left > 0 {
                    let window = left.min(WINDOW);
                    self.send_window(window, touched)?;
                    left -= window;
                }
                Ok(())
            }
            Test::Bandwidth => self.stream(messages, touched),
        }
    }

    /// One batch as the second process.
    fn second(&mut self, messages: usize, touched: bool) -> Result<(), String> {
        match self.plan.test {
            Test::Latency => self.pong(messages, touched),
            Test::Rate => {
                let mut left = messages;
                self.expect_window(left.min(WINDOW));
                while left > 0 {
                    let window = left.min(WINDOW);
                    left -= window;
                    self.receive_window(window, left.min(WINDOW), touched)?;
                }
                Ok(())
            }
            Test::Bandwidth => self.sink(messages, touched),
        }
    }

    fn ping(&mut self, messages: usize, touched: bool) -> Result<(), String> {
        let bytes = self.plan.bytes;
        for index in 0..messages {
            self.end.expect(0, bytes);
            self.send(0, bytes, touched.then_some(index + 1));
            self.take(0, bytes, touched.then_some(index + 1))?;
            self.end.settle(0);
        }
        Ok(())
    }

    fn pong(&mut self, messages: usize, touched: bool) -> Result<(), String> {
        let bytes = self.plan.bytes;
        self.end.expect(0, bytes);
        for index in 0..messages {
            self.take(0, bytes, touched.then_some(index + 1))?;
            if index + 1 < messages {
                self.end.expect(0, bytes);
            }
            self.send(0, bytes, touched.then_some(index + 1));
            self.end.settle(0);
        }
        Ok(())
    }

    fn send_window(&mut self, window: usize, touched: bool) -> Result<(), String> {
        self.end.expect(ANSWER, STEERING_BYTES);
        for slot in 0..window {
            self.send(slot, self.plan.bytes, touched.then_some(slot + 1));
        }
        for slot in 0..window {
            self.end.settle(slot);
        }
        self.take(ANSWER, STEERING_BYTES, None)
    }

    fn expect_window(&mut self, window: usize) {
        for slot in 0..window {
            self.end.expect(slot, self.plan.bytes);
        }
    }

    fn receive_window(&mut self, window: usize, next: usize, touched: bool) -> Result<(), String> {
        for slot in 0..window {
            self.take(slot, self.plan.bytes, touched.then_some(slot + 1))?;
        }
        self.expect_window(next);
        self.send(ANSWER, STEERING_BYTES, None);
        self.end.settle(ANSWER);
        Ok(())
    }

    fn stream(&mut self, messages: usize, touched: bool) -> Result<(), String> {
        self.end.expect(ANSWER, STEERING_BYTES);
        for index in 0..messages {
            if index >= DEPTH {
                self.end.settle(index % DEPTH);
            }
            self.send(index % DEPTH, self.plan.bytes, touched.then_some(index + 1));
        }
        for index in messages.saturating_sub(DEPTH)..messages {
            self.end.settle(index % DEPTH);
        }
        self.take(ANSWER, STEERING_BYTES, None)
    }

    fn sink(&mut self, messages: usize, touched: bool) -> Result<(), String> {
        self.expect_window(messages.min(DEPTH));
        for index in 0..messages {
            self.take(index % DEPTH, self.plan.bytes, touched.then_some(index + 1))?;
            if index + DEPTH < messages {
                self.end.expect(index % DEPTH, self.plan.bytes);
            }
        }
        self.send(ANSWER, STEERING_BYTES, None);
        self.end.settle(ANSWER);
        Ok(())
    }

    /// Sends; with an `index`, from 1, after writing the whole message.
    #[inline]
    fn send(&mut self, slot: usize, bytes: usize, index: Option<usize>) {
        if let Some(index) = index {
            self.end.fill(slot, bytes, index as u8);
        }
        self.end.post(slot, bytes);
    }

    /// Waits for a message; with an `index` reads all of it and checks it.
    #[inline]
    fn take(&mut self, slot: usize, bytes: usize, index: Option<usize>) -> Result<(), String> {
        self.end.receive(slot, bytes);
        if let Some(index) = index {
            let sum = self.end.sum(slot, bytes);
            let expected = sum_of(index as u8, bytes);
            if sum != expected {
                return Err(format!(
                    "message {index} of {bytes} bytes came with the sum {sum:#x}, not {expected:#x}"
                ));
            }
        }
        self.end.release(slot);
        Ok(())
    }

    /// Tells the second process a number, and waits until it has it.
    fn steer(&mut self, number: u8) -> Result<(), String> {
        self.end.expect(0, STEERING_BYTES);
        self.send(0, STEERING_BYTES, Some(usize::from(number)));
        self.end.settle(0);
        self.take(0, STEERING_BYTES, Some(usize::from(number)))
    }

    fn steered(&mut self) -> Result<u8, String> {
        self.end.expect(0, STEERING_BYTES);
        self.end.receive(0, STEERING_BYTES);
        let number = (self.end.sum(0, STEERING_BYTES) / ONES) as u8;
        self.end.release(0);
        self.send(0, STEERING_BYTES, Some(usize::from(number)));
        self.end.settle(0);
        Ok(number)
    }
}

/// The sum of the words of a message full of `value`.
fn sum_of(value: u8, bytes: usize) -> u64 {
    (ONES * u64::from(value)).wrapping_mul(bytes as u64 / 8)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// An end over channels that may spoil what it carries.
    struct Channel {
        outgoing: Sender<Vec<u8>>,
        incoming: Receiver<Vec<u8>>,
        sending: Vec<Vec<u8>>,
        came: Vec<Vec<u8>>,
        spoils: bool,
    }

    impl End for Channel {
        fn fill(&mut self, slot: usize, bytes: usize, value: u8) {
            self.sending[slot] = vec![value; bytes];
        }

        fn post(&mut self, slot: usize, bytes: usize) {
            let mut message = self.sending[slot].clone();
            message.resize(bytes, 0);
            if self.spoils && bytes > STEERING_BYTES {
                message[bytes - 1] ^= 1;
            }
            // The other side is gone when it found a wrong message: then nobody listens.
            let _ = self.outgoing.send(message);
        }

        fn settle(&mut self, _slot: usize) {}

        fn expect(&mut self, _slot: usize, _bytes: usize) {}

        fn receive(&mut self, slot: usize, bytes: usize) {
            let message = self.incoming.recv().unwrap_or_default();
            assert!(message.is_empty() || message.len() == bytes);
            self.came[slot] = message;
        }

        fn sum(&mut self, slot: usize, _bytes: usize) -> u64 {
            let words = self.came[slot].chunks_exact(8);
            words.fold(0, |sum, word| {
                sum.wrapping_add(u64::from_le_bytes(word.try_into().expect("8 bytes")))
            })
        }

        fn release(&mut self, _slot: usize) {}
    }

    fn pair(spoils: bool) -> [Channel; 2] {
        let (to_second, from_first) = channel();
        let (to_first, from_second) = channel();
        let end = |outgoing, incoming| Channel {
            outgoing,
            incoming,
            sending: vec![Vec::new(); ANSWER + 1],
            came: vec![Vec::new(); ANSWER + 1],
            spoils,
        };
        [end(to_second, from_second), end(to_first, from_first)]
    }

    fn plan(test: Test, touched: bool) -> Plan {
        Plan {
            kind: "channel".to_owned(),
            test,
            bytes: 4096,
            touched,
            duration: Duration::from_millis(2),
            cores: [0, 1],
        }
    }

    fn run(plan: &Plan, spoils: bool) -> (Result<Batches, String>, Result<(), String>) {
        let [mut first, mut second] = pair(spoils);
        let for_second = plan.clone();
        let other = std::thread::spawn(move || answer(&mut second, &for_second));
        let measured = measure(&mut first, plan);
        drop(first);
        (measured, other.join().expect("the second side returns"))
    }

    #[test]
    fn both_sides_go_through_every_test_and_end_together() {
        for test in [Test::Latency, Test::Rate, Test::Bandwidth] {
            for touched in [false, true] {
                let plan = plan(test, touched);
                let (measured, answered) = run(&plan, false);
                assert_eq!(answered, Ok(()), "{test:?} {touched}");
                let [min, median, p99] = measured.expect("measured").min_median_p99();
                assert!(0.0 < min && min <= median && median <= p99);
            }
        }
    }

    #[test]
    fn message_that_came_wrong_is_found() {
        let (measured, answered) = run(&plan(Test::Latency, true), true);
        assert!(measured.is_err(), "the other side is gone");
        let error = answered.unwrap_err();
        assert!(error.starts_with("message 1 of 4096 bytes came with the sum"));
    }

    #[test]
    fn arguments_are_read_back() {
        let plan = plan(Test::Rate, true);
        let again = Plan::read(&plan.arguments()).expect("read");
        assert_eq!(again.arguments(), plan.arguments());
        let mut odd = plan.arguments();
        odd[2] = "12".to_owned();
        assert_eq!(
            Plan::read(&odd).unwrap_err(),
            "BYTES is a multiple of 8 from 8, not 12"
        );
    }

    #[test]
    fn line_is_half_the_round_trip() {
        let batches = Batches {
            seconds_a_message: vec![1e-6, 2e-6, 4e-6],
        };
        let text = line(&plan(Test::Latency, false), "1", &batches);
        assert_eq!(
            text,
            r#"{"test":"latency","version":"1","rows":[{"bytes":4096,"half_rtt_us":{"min":0.50000,"median":1.00000,"p99":2.00000}}]}"#
        );
        let text = line(&plan(Test::Bandwidth, false), "1", &batches);
        assert!(text.contains(r#""messages_s":500000.0,"mbyte_s":2048.000"#));
    }
}
