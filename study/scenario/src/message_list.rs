//! Lists of messages as text: `time_us,source,target,bytes`, one message per line, and `operation`
//! if not all of them are sends.
//!
//! All fields are plain numbers and words, so nothing is quoted and a line is split at its commas.

use viaduct_cluster::workload::{ListedMessage, MessageOperation};
use viaduct_engine::Time;

use crate::diagnostics::excerpt;
use crate::schema::MESSAGE_BYTES_MAX;
use crate::section::Word;

/// Names of the column of times, and picoseconds of its unit.
const TIMES: [(&str, f64); 4] = [
    ("time_ns", 1e3),
    ("time_us", 1e6),
    ("time_ms", 1e9),
    ("time_s", 1e12),
];

/// The latest time of a message, 1,125 s: up to here decimal numbers give each picosecond.
pub const LISTED_TIME_MAX: Time = Time::from_picoseconds(1 << 50);

/// The messages of a text, and where each stands.
pub(crate) struct Read {
    pub(crate) messages: Vec<ListedMessage>,
    /// The line of the first message; those behind follow, but for lines without anything.
    lines: Vec<u32>,
}

impl Read {
    /// The line of a message, from 1.
    pub(crate) fn line(&self, message: usize) -> usize {
        self.lines[message] as usize
    }
}

/// What is wrong with a text, and where: line and column from 1.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) problem: String,
}

/// Reads a text.
pub(crate) fn read(text: &str) -> Result<Read, Wrong> {
    let mut lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty());
    let header = "the first line names the columns: `time_us,source,target,bytes`";
    let wrong = |line, column, problem| Wrong {
        line,
        column,
        problem,
    };
    let Some((line, names)) = lines.next() else {
        return Err(wrong(1, 1, header.to_owned()));
    };
    let columns = columns(names.strip_prefix('\u{feff}').unwrap_or(names))
        .map_err(|problem| wrong(line, 1, format!("{problem}; {header}")))?;
    let mut read = Read {
        messages: Vec::new(),
        lines: Vec::new(),
    };
    for (line, row) in lines {
        let message = columns
            .message(row)
            .map_err(|(column, problem)| wrong(line, column, problem))?;
        read.messages.push(message);
        read.lines.push(u32::try_from(line).unwrap_or(u32::MAX));
    }
    Ok(read)
}

/// Where each field stands in a line.
struct Columns {
    time: usize,
    picoseconds: f64,
    source: usize,
    target: usize,
    bytes: usize,
    /// None where all messages are sends.
    operation: Option<usize>,
    count: usize,
}

/// The name of the column that a list may leave out.
const OPERATION: &str = "operation";

/// Most columns.
const COLUMNS: usize = 5;

fn columns(names: &str) -> Result<Columns, String> {
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    let find = |name: &str| names.iter().position(|found| *found == name);
    let missing = |name: &str| format!("there is no column {name}");
    let (time, picoseconds) = TIMES
        .iter()
        .find_map(|&(name, unit)| Some((find(name)?, unit)))
        .ok_or_else(|| missing("`time_us` (or `time_ns`, `time_ms`, `time_s`)"))?;
    let place = |name| find(name).ok_or_else(|| missing(&format!("`{name}`")));
    let columns = Columns {
        time,
        picoseconds,
        source: place("source")?,
        target: place("target")?,
        bytes: place("bytes")?,
        operation: find(OPERATION),
        count: names.len(),
    };
    let known = COLUMNS - usize::from(columns.operation.is_none());
    if names.len() > known {
        return Err(format!("{} columns", names.len()));
    }
    Ok(columns)
}

impl Columns {
    /// The message of a line; an error says at which column of characters.
    fn message(&self, row: &str) -> Result<ListedMessage, (usize, String)> {
        let mut fields = [""; COLUMNS];
        let mut count = 0;
        for field in row.split(',') {
            if let Some(place) = fields.get_mut(count) {
                *place = field.trim();
            }
            count += 1;
        }
        let named = self.count;
        if count != named {
            return Err((1, format!("{count} fields, the first line names {named}")));
        }
        // The fields lie in the row, so their distance is their offset.
        let at = |place: usize| {
            let offset = fields[place].as_ptr() as usize - row.as_ptr() as usize;
            row[..offset].chars().count() + 1
        };
        let whole = |place: usize, name: &str, max: u64| {
            let digits = fields[place];
            let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let number: Option<u64> = digits.parse().ok().filter(|_| is_plain);
            number.filter(|&number| number <= max).ok_or_else(|| {
                let problem = format!(
                    "{name} is a whole number of 0 to {max}, not `{}`",
                    excerpt(digits)
                );
                (at(place), problem)
            })
        };
        let host = |place, name| whole(place, name, u64::from(u32::MAX));
        let bytes = whole(self.bytes, "bytes", MESSAGE_BYTES_MAX)?;
        let operation = match self.operation {
            None => MessageOperation::Send,
            Some(place) => MessageOperation::of_word(fields[place]).ok_or_else(|| {
                let (words, field) = (MessageOperation::WORDS.join(", "), excerpt(fields[place]));
                let problem = format!("{OPERATION} is one of {words}, not `{field}`");
                (at(place), problem)
            })?,
        };
        Ok(ListedMessage {
            time: self
                .time(fields[self.time])
                .map_err(|p| (at(self.time), p))?,
            source: host(self.source, "source")? as u32,
            target: host(self.target, "target")? as u32,
            bytes: bytes as u32,
            operation,
        })
    }

    fn time(&self, field: &str) -> Result<Time, String> {
        let begins_well = field.starts_with(|first: char| first.is_ascii_digit() || first == '.');
        let number = field.parse::<f64>().ok().filter(|_| begins_well);
        let picoseconds = number.map(|number| (number * self.picoseconds).round());
        let max = LISTED_TIME_MAX.picoseconds() as f64;
        match picoseconds {
            Some(picoseconds) if picoseconds <= max => {
                Ok(Time::from_picoseconds(picoseconds as u64))
            }
            _ => Err(format!(
                "the time is a number of 0 to {}, not `{}`",
                max / self.picoseconds,
                excerpt(field)
            )),
        }
    }
}

/// Messages as the text that `traffic.file` names, `time_us,source,target,bytes`, and `operation`
/// if not all are sends; read again, they are the same to the picosecond.
#[must_use]
pub fn message_list_csv(messages: impl Iterator<Item = ListedMessage> + Clone) -> String {
    use core::fmt::Write as _;

    let is_send = |message: ListedMessage| message.operation == MessageOperation::Send;
    let are_sends = messages.clone().all(is_send);
    let mut text = String::from("time_us,source,target,bytes");
    text.push_str(if are_sends { "\n" } else { ",operation\n" });
    for message in messages {
        let ListedMessage {
            time,
            source,
            target,
            bytes,
            operation,
        } = message;
        let picoseconds = time.picoseconds();
        let (whole, rest) = (picoseconds / 1_000_000, picoseconds % 1_000_000);
        // Writing to a text cannot fail.
        let _ = write!(text, "{whole}");
        if rest > 0 {
            let digits = format!("{rest:06}");
            let _ = write!(text, ".{}", digits.trim_end_matches('0'));
        }
        let _ = write!(text, ",{source},{target},{bytes}");
        if !are_sends {
            let _ = write!(text, ",{}", operation.word());
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        let wrong = read(text).err().expect("wrong");
        format!("{}:{}: {}", wrong.line, wrong.column, wrong.problem)
    }

    #[test]
    fn columns_stand_in_any_order_with_any_unit_of_time() {
        let expected = ListedMessage {
            time: Time::from_picoseconds(1_500_000),
            source: 3,
            target: 4,
            bytes: 0,
            operation: MessageOperation::Send,
        };
        for text in [
            "time_us,source,target,bytes\n1.5,3,4,0\n",
            "bytes, target ,source,time_ns\r\n\r\n0, 4,3 ,1500\r\n",
            "\u{feff}time_ms,source,target,bytes\n1.5e-3,3,4,0",
            "source,time_s,target,bytes\n\n3,.0000015,4,0\n\n",
            "operation,time_us,source,target,bytes\n send ,1.5,3,4,0\n",
        ] {
            assert_eq!(read(text).ok().unwrap().messages, [expected], "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again_to_the_picosecond() {
        let message = |picoseconds| ListedMessage {
            time: Time::from_picoseconds(picoseconds),
            source: 0,
            target: 1,
            bytes: 7,
            operation: MessageOperation::Send,
        };
        let most = LISTED_TIME_MAX.picoseconds();
        let given = [0, 1, 999_999, 1_000_000, 1_230_000, most - 1, most].map(message);
        let text = message_list_csv(given.into_iter());
        assert!(text.starts_with("time_us,source,target,bytes\n0,0,1,7\n0.000001,0,1,7\n"));
        assert_eq!(read(&text).ok().unwrap().messages, given);
        let given = MessageOperation::ALL.map(|operation| ListedMessage {
            operation,
            ..message(operation as u64)
        });
        let text = message_list_csv(given.into_iter());
        assert!(text.starts_with("time_us,source,target,bytes,operation\n0,0,1,7,send\n"));
        assert_eq!(read(&text).ok().unwrap().messages, given);
    }

    #[test]
    fn errors_say_line_column_and_what_instead() {
        let header = "; the first line names the columns: `time_us,source,target,bytes`";
        let head = "time_us,source,target,bytes\n";
        for (text, expected) in [
            ("", format!("1:1: {}", &header[2..])),
            (
                "time,source,target,bytes\n",
                format!(
                    "1:1: there is no column `time_us` (or `time_ns`, `time_ms`, `time_s`){header}"
                ),
            ),
            (
                "\ntime_s,source,target,size\n",
                format!("2:1: there is no column `bytes`{header}"),
            ),
            (
                "time_s,source,target,bytes,x\n",
                format!("1:1: 5 columns{header}"),
            ),
            (
                "time_s,source,target,bytes,operation,x\n",
                format!("1:1: 6 columns{header}"),
            ),
        ] {
            assert_eq!(error(text), expected);
        }
        for (row, expected) in [
            ("1,2,3", "2:1: 3 fields, the first line names 4"),
            (
                "1,-2,3,4",
                "2:3: source is a whole number of 0 to 4294967295, not `-2`",
            ),
            (
                "1,2, x,4",
                "2:6: target is a whole number of 0 to 4294967295, not `x`",
            ),
            (
                "nan,2,3,4",
                "2:1: the time is a number of 0 to 1125899906.842624, not `nan`",
            ),
            (
                "1e10,2,3,4",
                "2:1: the time is a number of 0 to 1125899906.842624, not `1e10`",
            ),
        ] {
            assert_eq!(error(&format!("{head}{row}\n")), expected);
        }
        let with_operation = "time_us,source,target,bytes,operation\n";
        for (row, expected) in [
            ("1,2,3,4", "2:1: 4 fields, the first line names 5"),
            (
                "1,2,3,4,reed",
                "2:9: operation is one of send, write, write-with-immediate, read, not `reed`",
            ),
        ] {
            assert_eq!(error(&format!("{with_operation}{row}\n")), expected);
        }
        assert!(error(&format!("{head}1,2,3,\n")).contains("2:7: bytes is a whole number"));
    }
}
