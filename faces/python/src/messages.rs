//! Messages that Python lists, for traffic of its own.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyType;
use viaduct_cluster::workload::{ListedMessage, MessageOperation};
use viaduct_engine::Time;
use viaduct_scenario::{LISTED_TIME_MAX, MESSAGE_BYTES_MAX, message_list_csv};

use crate::arrays::{numbers, reals};
use crate::errors;

/// The file that stands for the messages in scenarios.
pub(crate) const FILE: &str = "messages.csv";

/// What to give.
const HELP: &str = "give arrays or lists of numbers, as many of each; `bytes` may be one number";

/// What makes a list again: times, picoseconds of their unit, sources, targets, bytes, operations.
type Pickled = (
    Vec<f64>,
    f64,
    Vec<u32>,
    Vec<u32>,
    Vec<u32>,
    Vec<&'static str>,
);

/// A list of messages.
#[pyclass(frozen, module = "viaduct._native")]
#[derive(Debug)]
pub(crate) struct Messages {
    messages: Arc<[ListedMessage]>,
}

impl Messages {
    pub(crate) fn list(&self) -> Arc<[ListedMessage]> {
        Arc::clone(&self.messages)
    }
}

/// A number that must lie within 0 to a limit.
fn within(name: &str, index: usize, number: i64, max: u64) -> Result<u32, String> {
    let fits = u32::try_from(number).ok();
    fits.filter(|&number| u64::from(number) <= max)
        .ok_or_else(|| format!("{name}[{index}] = {number}; it must lie within 0 to {max}"))
}

/// One operation for so many messages, or one for each.
fn operations(given: &Bound<'_, PyAny>, messages: usize) -> PyResult<Vec<MessageOperation>> {
    let of_word = |word: &str| {
        let mut all = MessageOperation::ALL.into_iter();
        all.find(|it| it.name() == word).ok_or_else(|| {
            let words = MessageOperation::ALL.map(MessageOperation::name).join(", ");
            let title = format!("`{word}` is no operation");
            errors::scenario_text(title, Some(&format!("there are {words}")))
        })
    };
    if let Ok(word) = given.extract::<String>() {
        return Ok(vec![of_word(&word)?; messages]);
    }
    let words = given.extract::<Vec<String>>().map_err(|_| {
        let title = "operations are words".to_owned();
        errors::scenario_text(
            title,
            Some("give a list of words, or one for all: \"write\""),
        )
    })?;
    words.iter().map(|word| of_word(word)).collect()
}

#[pymethods]
impl Messages {
    /// `unit_ps` are the picoseconds of a unit of `time`.
    #[new]
    fn new(
        py: Python<'_>,
        time: &Bound<'_, PyAny>,
        unit_ps: f64,
        source: &Bound<'_, PyAny>,
        target: &Bound<'_, PyAny>,
        bytes: &Bound<'_, PyAny>,
        operation: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let time = reals(time, "times are numbers", HELP)?;
        let hosts = "sources and targets are whole numbers";
        let (source, target) = (numbers(source, hosts, HELP)?, numbers(target, hosts, HELP)?);
        let bytes = match bytes.extract::<i64>() {
            Ok(bytes) => vec![bytes; time.len()],
            Err(_) => numbers(bytes, "bytes are whole numbers", HELP)?,
        };
        let operation = operations(operation, time.len())?;
        let counts = [source.len(), target.len(), bytes.len()];
        if counts != [time.len(); 3] {
            let [sources, targets, sizes] = counts;
            let times = time.len();
            let title =
                format!("{times} times, {sources} sources, {targets} targets, {sizes} sizes");
            return Err(errors::scenario_text(title, Some(HELP)));
        }
        if operation.len() != time.len() {
            let (operations, times) = (operation.len(), time.len());
            let title = format!("{times} times, {operations} operations");
            let help = "give a list of words, as many as times, or one word for all";
            return Err(errors::scenario_text(title, Some(help)));
        }
        let message = |index: usize| {
            let picoseconds = (time[index] * unit_ps).round();
            let max = LISTED_TIME_MAX.picoseconds() as f64;
            // What is not a number is outside too.
            if !(0.0..=max).contains(&picoseconds) {
                let (time, max) = (time[index], max / unit_ps);
                return Err(format!(
                    "time[{index}] = {time}; it must lie within 0 to {max}"
                ));
            }
            let hosts = u64::from(u32::MAX);
            Ok(ListedMessage {
                time: Time::from_picoseconds(picoseconds as u64),
                source: within("source", index, source[index], hosts)?,
                target: within("target", index, target[index], hosts)?,
                bytes: within("bytes", index, bytes[index], MESSAGE_BYTES_MAX)?,
                operation: operation[index],
            })
        };
        let read = py.detach(|| (0..time.len()).map(message).collect::<Result<Vec<_>, _>>());
        let messages = read.map_err(|title| errors::scenario_text(title, None))?;
        Ok(Self {
            messages: messages.into(),
        })
    }

    fn __len__(&self) -> usize {
        self.messages.len()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, Pickled) {
        let messages = slf.get().messages.iter();
        // Below 2^53 each picosecond is a number of its own.
        let time = messages
            .clone()
            .map(|message| message.time.picoseconds() as f64);
        let source = messages.clone().map(|message| message.source);
        let target = messages.clone().map(|message| message.target);
        let bytes = messages.clone().map(|message| message.bytes);
        let operation = messages.map(|message| message.operation.name());
        let arrays = (source.collect(), target.collect(), bytes.collect());
        let time = time.collect();
        let state = (time, 1.0, arrays.0, arrays.1, arrays.2, operation.collect());
        (slf.get_type(), state)
    }

    /// The text that a study may name as `traffic.file`.
    fn csv(&self, py: Python<'_>) -> String {
        py.detach(|| message_list_csv(self.messages.iter().copied()))
    }
}
