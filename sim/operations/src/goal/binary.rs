//! The binary form of a GOAL file, as LogGOPSim maps it into memory.
//!
//! ```text
//! u64 4223, u32 ranks, u8 largest processor, u8 largest adapter
//! of each rank: u64 begin, u64 end of its part, counted from byte 8
//! of each rank, its part:
//!   u32 operations, u32 roots, u32 root...        roots wait for nothing
//!   of each operation, 39 bytes: u32 what it waits for, u8 kind, u32 peer, u64 amount, u32 tag,
//!     u8 processor, u8 adapter, u32 waiters on its end, u32 where their list begins,
//!     u32 waiters on its start, u32 where their list begins
//!   u32 waiter...                                  all lists, by the numbers of operations
//! ```
//!
//! All numbers are little-endian.

use std::io::{self, Read, Seek, SeekFrom, Write};

use super::GoalError;
use crate::graph::{ANY, After, Builder, Graph, Kind, Operation};

const MAGIC: u64 = 4223;
/// What a simulator that saves memory leaves in a file that it has used up.
const MAGIC_SPOILED: u64 = 2342;
const HEAD_BYTES: u64 = 8 + 4 + 1 + 1;
const NODE_BYTES: usize = 39;
/// From where the parts of the ranks are counted.
const BASE: u64 = 8;

/// Whether a file that begins so is a binary GOAL file, whole or spoiled.
#[must_use]
pub fn is_binary(first: &[u8]) -> bool {
    [MAGIC, MAGIC_SPOILED]
        .iter()
        .any(|magic| first.starts_with(&magic.to_le_bytes()))
}

/// What both a file and bytes in memory are.
trait Source: Read + Seek {}
impl<T: Read + Seek> Source for T {}

/// Reads a binary GOAL file, rank by rank.
///
/// # Errors
///
/// [`GoalError`]: the rank and what is wrong.
pub fn read_binary(source: &mut (impl Read + Seek)) -> Result<Graph, GoalError> {
    Reader { source, rank: None }.read()
}

struct Reader<'a> {
    source: &'a mut dyn Source,
    rank: Option<u32>,
}

impl Reader<'_> {
    fn wrong(&self, problem: impl Into<String>) -> GoalError {
        GoalError {
            line: None,
            rank: self.rank,
            problem: problem.into(),
        }
    }

    fn bytes(&mut self, count: u64, what: &str) -> Result<Vec<u8>, GoalError> {
        let mut bytes = Vec::new();
        let read = (&mut *self.source).take(count).read_to_end(&mut bytes);
        match read {
            Err(error) => Err(self.wrong(format!("it cannot be read: {error}"))),
            Ok(found) if (found as u64) < count => Err(self.wrong(format!(
                "the file ends in {what}: {count} bytes are expected, {found} are there"
            ))),
            Ok(_) => Ok(bytes),
        }
    }

    fn read(mut self) -> Result<Graph, GoalError> {
        let head = self.bytes(HEAD_BYTES, "its head")?;
        match u64_at(&head, 0) {
            MAGIC => {}
            MAGIC_SPOILED => {
                return Err(self.wrong(
                    "a simulation that saves memory has used this file up (its first number is \
                     2342): make it anew from its text",
                ));
            }
            other => {
                return Err(self.wrong(format!(
                    "no binary GOAL file: the first number is {other}, and {MAGIC} is expected"
                )));
            }
        }
        let ranks = u32_at(&head, 8);
        if ranks == 0 || ranks == u32::MAX {
            return Err(self.wrong(format!("the number of ranks is {ranks}")));
        }
        let table = self.bytes(u64::from(ranks) * 16, "the table of its ranks")?;
        // Parts that lie over each other would need more memory than the file is long.
        let parts = (0..ranks as usize).map(|rank| {
            let (begin, end) = (u64_at(&table, rank * 16), u64_at(&table, rank * 16 + 8));
            u128::from(end.saturating_sub(begin))
        });
        let parts: u128 = parts.sum();
        let length = self.source.seek(SeekFrom::End(0));
        let length = length.map_err(|error| self.wrong(format!("it cannot be read: {error}")))?;
        if parts > length.into() {
            return Err(self.wrong(format!(
                "the parts of its ranks have {parts} bytes, and the file {length}"
            )));
        }
        let mut builder = Builder::new(ranks);
        for rank in 0..ranks {
            self.rank = Some(rank);
            let place = rank as usize * 16;
            let (begin, end) = (u64_at(&table, place), u64_at(&table, place + 8));
            let length = end.checked_sub(begin).filter(|length| *length >= 8);
            let begin = begin.checked_add(BASE);
            let (Some(begin), Some(length)) = (begin, length) else {
                return Err(self.wrong("its part of the file ends before it begins"));
            };
            let sought = self.source.seek(SeekFrom::Start(begin));
            sought.map_err(|error| self.wrong(format!("it cannot be read: {error}")))?;
            let part = self.bytes(length, "this rank")?;
            add_rank(&part, &mut builder).map_err(|problem| self.wrong(problem))?;
            builder.next_rank();
        }
        Ok(builder.finish())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let part = bytes.get(at..at + 4).and_then(|part| part.try_into().ok());
    part.map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let part = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
    part.map_or(0, u64::from_le_bytes)
}

/// Adds the operations of a rank, and then what waits for what.
fn add_rank(part: &[u8], builder: &mut Builder) -> Result<(), String> {
    let (count, roots) = (u32_at(part, 0) as usize, u32_at(part, 4) as usize);
    let short = || format!("{count} operations and {roots} roots do not fit into its part");
    let after_roots = part
        .get(8..)
        .and_then(|rest| rest.get(roots.checked_mul(4)?..));
    let after_roots = after_roots.ok_or_else(short)?;
    let nodes_bytes = count.checked_mul(NODE_BYTES);
    let nodes = nodes_bytes.and_then(|bytes| after_roots.split_at_checked(bytes));
    let (nodes, lists) = nodes.ok_or_else(short)?;
    let (nodes, []) = nodes.as_chunks::<NODE_BYTES>() else {
        return Err(short());
    };
    for (place, node) in nodes.iter().enumerate() {
        let at = |error: String| format!("operation {place}: {error}");
        let kind = match node[4] {
            1 => Kind::Send,
            2 => Kind::Receive,
            3 => Kind::Compute,
            other => return Err(at(format!("kind {other} is none of 1, 2 and 3"))),
        };
        let is_message = kind != Kind::Compute;
        let operation = Operation {
            amount: u64_at(node, 9),
            peer: if is_message { u32_at(node, 5) } else { 0 },
            tag: if is_message { u32_at(node, 17) } else { 0 },
            kind,
            processor: node[21],
            adapter: if is_message { node[22] } else { 0 },
        };
        builder
            .add(operation)
            .map_err(|error| at(error.to_string()))?;
    }
    let mut waits = vec![0u32; count];
    for (place, node) in (0u32..).zip(nodes) {
        for (after, offset) in [(After::End, 23), (After::Start, 31)] {
            let (length, first) = (u32_at(node, offset), u32_at(node, offset + 4));
            let (length, first) = (length as usize, first as usize);
            let list = lists.get(first.saturating_mul(4)..);
            let list = list.and_then(|list| list.get(..length.checked_mul(4)?));
            let Some(list) = list else {
                return Err(format!(
                    "operation {place}: {length} that wait for it from place {first} on do not \
                     fit into its part"
                ));
            };
            for waiter in list.chunks_exact(4).map(|waiter| u32_at(waiter, 0)) {
                builder
                    .require(waiter, place, after)
                    .map_err(|error| format!("operation {place}: who waits for it: {error}"))?;
                waits[waiter as usize] += 1;
            }
        }
    }
    for ((place, node), waits) in nodes.iter().enumerate().zip(waits) {
        let said = u32_at(node, 0);
        if said != waits {
            return Err(format!(
                "operation {place} waits for {said} others by itself, and for {waits} by theirs"
            ));
        }
    }
    Ok(())
}

/// Writes a graph as a binary GOAL file.
///
/// # Errors
///
/// Those of the file that it is written to.
pub fn write_binary(graph: &Graph, target: &mut dyn Write) -> io::Result<()> {
    let ranks = graph.ranks();
    target.write_all(&MAGIC.to_le_bytes())?;
    target.write_all(&ranks.to_le_bytes())?;
    // Both numbers are below 256: operations have them as bytes.
    target.write_all(&[(graph.processors() - 1) as u8, (graph.adapters() - 1) as u8])?;
    let dependencies = crate::Dependencies::new(graph);
    let mut begin = HEAD_BYTES - BASE + u64::from(ranks) * 16;
    for rank in 0..ranks {
        let all = graph.of_rank(rank);
        let roots = all.clone().filter(|id| dependencies.is_free(*id)).count();
        let waiters: usize = all.clone().map(|id| graph.waiters(id).count()).sum();
        let length = 8 + 4 * (roots + waiters) + NODE_BYTES * all.len();
        let end = begin + length as u64;
        target.write_all(&begin.to_le_bytes())?;
        target.write_all(&end.to_le_bytes())?;
        begin = end;
    }
    let mut part = Vec::new();
    for rank in 0..ranks {
        part.clear();
        write_rank(graph, rank, &mut part);
        target.write_all(&part)?;
    }
    Ok(())
}

fn write_rank(graph: &Graph, rank: u32, part: &mut Vec<u8>) {
    let all = graph.of_rank(rank);
    let mut waits = vec![0u32; all.len()];
    for id in all.clone() {
        for (waiter, _) in graph.waiters(id) {
            waits[(waiter - all.start) as usize] += 1;
        }
    }
    let roots: Vec<u32> = (0u32..)
        .zip(&waits)
        .filter(|(_, waits)| **waits == 0)
        .map(|(place, _)| place)
        .collect();
    let word = |part: &mut Vec<u8>, number: u32| part.extend(number.to_le_bytes());
    word(part, all.len() as u32);
    word(part, roots.len() as u32);
    for root in roots {
        word(part, root);
    }
    let mut lists = Vec::new();
    for (id, waits) in all.clone().zip(&waits) {
        let operation = graph.operation(id);
        word(part, *waits);
        part.push(operation.kind as u8);
        word(part, operation.peer);
        part.extend(operation.amount.to_le_bytes());
        word(part, operation.tag);
        part.extend([operation.processor, operation.adapter]);
        for after in [After::End, After::Start] {
            let first = lists.len() as u32;
            let waiters = graph.waiters(id).filter(|(_, what)| *what == after);
            lists.extend(waiters.map(|(waiter, _)| waiter - all.start));
            word(part, lists.len() as u32 - first);
            word(part, first);
        }
    }
    for waiter in lists {
        word(part, waiter);
    }
}

const _: () = assert!(ANY == u32::MAX, "as a binary file has it");
