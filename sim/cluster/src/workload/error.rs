//! What can be wrong with a workload.

use thiserror::Error;
use viaduct_engine::Time;

/// Why a distribution does not exist; each message says which parameter, its value, and what it
/// must be.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum DistributionError {
    /// A mean is too small (zero, negative), too large or not a number.
    #[error("the mean is {value}; it must lie within {min} to {max}")]
    Mean {
        /// What was given, in picoseconds or bytes.
        value: f64,
        /// The smallest that is taken.
        min: f64,
        /// The largest that is taken.
        max: f64,
    },
    /// A range is empty, negative, not a number or too large.
    #[error("the range is {min} to {max}; it must not fall, and lie within {floor} to {limit}")]
    Range {
        /// The lower end given.
        min: f64,
        /// The upper end given.
        max: f64,
        /// The smallest lower end that is taken.
        floor: f64,
        /// The largest upper end that is taken.
        limit: f64,
    },
    /// A Pareto distribution of this shape does not exist, or has no mean.
    #[error("the Pareto shape is {value}; it must be above {above} and at most {max}")]
    Shape {
        /// What was given.
        value: f64,
        /// Shapes up to this have no mean (1), or don't exist (0).
        above: f64,
        /// The largest that is taken.
        max: f64,
    },
    /// A coefficient of variation is zero, negative, not a number or too large.
    #[error("the coefficient of variation is {value}; it must be above 0 and at most {max}")]
    Variation {
        /// What was given.
        value: f64,
        /// The largest that is taken.
        max: f64,
    },
    /// A table has too few or too many points.
    #[error("the table has {count} points; it must have 2 to {max}")]
    TableLength {
        /// Points given.
        count: usize,
        /// The most that are taken.
        max: usize,
    },
    /// A value of a table is negative, not a number, too large or below the value before.
    #[error(
        "value {value} in point {point} of the table (counted from 1) must lie within 0 to {max} \
         and not be below the value before"
    )]
    TableValue {
        /// The point, from 1.
        point: usize,
        /// What was given.
        value: f64,
        /// The largest that is taken.
        max: f64,
    },
    /// A cumulative probability of a table is outside 0 to 1 or below the one before, or the last
    /// is not 1.
    #[error(
        "cumulative probability {value} in point {point} of the table (counted from 1) must lie \
         within 0 to 1, not be below the one before, and be 1 in the last point"
    )]
    TableProbability {
        /// The point, from 1.
        point: usize,
        /// What was given.
        value: f64,
    },
}

/// Where and why a flow-size table is refused.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct CdfError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: CdfProblem,
}

/// What is wrong with a flow-size table.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum CdfProblem {
    /// A line does not hold two fields.
    #[error("expected `size_bytes cumulative_percent`, two numbers, found {fields}")]
    Fields {
        /// Fields found.
        fields: usize,
    },
    /// A field is no number.
    #[error("`{text}` is not a number without sign, such as 1460 or 97.5")]
    Number {
        /// The field, shortened.
        text: String,
    },
    /// A size is larger than a message can be.
    #[error("size {value} is larger than the largest message, {max} bytes")]
    Size {
        /// The size.
        value: f64,
        /// The largest, bytes.
        max: u32,
    },
    /// A size is smaller than the one before.
    #[error("size {value} is below the size before, {previous}; sizes must rise")]
    SizeFalls {
        /// The size.
        value: f64,
        /// The one before.
        previous: f64,
    },
    /// A percentage is above 100.
    #[error("{value} percent is more than 100")]
    Percent {
        /// The percentage.
        value: f64,
    },
    /// A percentage is smaller than the one before.
    #[error("{value} percent is below the percentage before, {previous}; it is cumulative")]
    PercentFalls {
        /// The percentage.
        value: f64,
        /// The one before.
        previous: f64,
    },
    /// The first point leaves out the smallest sizes.
    #[error("the first cumulative percentage is {value}; it must be 0, as in `0 0`")]
    First {
        /// The percentage.
        value: f64,
    },
    /// The last point leaves out the largest sizes.
    #[error("the last cumulative percentage is {value}; it must be 100")]
    Last {
        /// The percentage.
        value: f64,
    },
    /// Fewer than two points.
    #[error("{points} points; a table needs at least two, the last at 100 percent")]
    TooShort {
        /// Points found.
        points: usize,
    },
    /// More points than are taken.
    #[error("more than {max} points")]
    TooLong {
        /// The most that are taken.
        max: usize,
    },
    /// The table as a whole is no distribution.
    #[error(transparent)]
    Table(DistributionError),
}

/// Why a pattern does not fit a network.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PatternError {
    /// Sending needs someone else to receive.
    #[error("a pattern needs at least 2 hosts; the network has {hosts}")]
    TooFewHosts {
        /// Hosts of the network.
        hosts: u32,
    },
    /// The network has no straight lines and no neighbouring switches by direction.
    #[error(
        "pattern `{pattern}` needs a chain, mesh or torus; this topology has no directions: use \
         `uniform` or `random-permutation`"
    )]
    NoDirections {
        /// The pattern asked for.
        pattern: &'static str,
    },
    /// Adapters of a host may be at several switches, so that it has no place to go on from.
    #[error(
        "pattern `{pattern}` goes from switch to switch, and hosts of {adapters} adapters may be at \
         several: each switch has {at_switch} places; use a multiple of {adapters}, or `uniform`"
    )]
    AdaptersApart {
        /// The pattern asked for.
        pattern: &'static str,
        /// Adapters of each host.
        adapters: u32,
        /// Places of each switch, 0 if they are not all alike.
        at_switch: u32,
    },
    /// A straight line of no hops ends where it began.
    #[error("pattern `straight-line` has hops = 0, which ends at its own switch; use 1 or more")]
    NoHops,
    /// The straight line ends at its own host in a direction of the torus.
    #[error(
        "pattern `straight-line` with hops = {hops}: a line from host {host} in direction \
         {direction} goes once around the torus and ends where it began; use fewer hops"
    )]
    ReturnsToSource {
        /// Hops asked for.
        hops: u32,
        /// A host for which it is so.
        host: u32,
        /// The direction.
        direction: u32,
    },
    /// Transposition needs a square.
    #[error("pattern `transpose` needs a square number of hosts, not {hosts}: {below} or {above}")]
    NotSquare {
        /// Hosts of the network.
        hosts: u32,
        /// Largest square below.
        below: u64,
        /// Smallest square above.
        above: u64,
    },
    /// Bit reversal needs a power of two.
    #[error(
        "pattern `bit-reversal` needs a power of two of hosts, not {hosts}: {below} or {above}"
    )]
    NotPowerOfTwo {
        /// Hosts of the network.
        hosts: u32,
        /// Largest power of two below.
        below: u64,
        /// Smallest power of two above.
        above: u64,
    },
    /// A host that does not exist.
    #[error("host {host} does not exist; the network has hosts 0 to {last}")]
    NoSuchHost {
        /// The host named.
        host: u32,
        /// The largest host number.
        last: u32,
    },
    /// A host would send to itself.
    #[error("pair {pair} (counted from 1) sends from host {host} to itself")]
    ToItself {
        /// The pair, from 1.
        pair: usize,
        /// The host.
        host: u32,
    },
    /// A fraction outside 0 to 1.
    #[error("the hot spot's fraction is {fraction}; it must lie within 0 to 1")]
    Fraction {
        /// What was given.
        fraction: f64,
    },
    /// More pairs than are taken.
    #[error("{pairs} pairs; at most {max} are taken")]
    TooManyPairs {
        /// Pairs given.
        pairs: usize,
        /// The most that are taken.
        max: usize,
    },
    /// Every straight line of so many hops leads out of the network.
    #[error(
        "pattern `straight-line` with hops = {hops} leads out of the network from every host; use \
         fewer hops, below the switches of the longest dimension"
    )]
    LeadsOutside {
        /// Hops asked for.
        hops: u32,
    },
    /// No host has a target.
    #[error(
        "no host of this network has a target under pattern `{pattern}`: nothing would be sent"
    )]
    NobodySends {
        /// The pattern asked for.
        pattern: &'static str,
    },
}

/// Why a list of messages is refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MessageListError {
    /// Which message, from 0; none if it is the list as a whole.
    pub message: Option<usize>,
    /// What is wrong.
    pub problem: MessageListProblem,
}

impl core::fmt::Display for MessageListError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if let Some(message) = self.message {
            write!(f, "message {} (counted from 1): ", message + 1)?;
        }
        write!(f, "{}", self.problem)
    }
}

impl core::error::Error for MessageListError {}

/// What is wrong with a list of messages.
#[derive(Clone, Debug, Eq, PartialEq, Error)]
#[non_exhaustive]
pub enum MessageListProblem {
    /// Nothing would be sent.
    #[error("the list has no message")]
    Empty,
    /// Messages are counted by 32 bits.
    #[error("{messages} messages; a list takes fewer than 2^32 - 1")]
    TooMany {
        /// Messages given.
        messages: usize,
    },
    /// Processes are numbered by 32 bits, and there is one.
    #[error("hosts times processes must lie within 1 to 2^32 - 1")]
    Processes,
    /// An end that does not exist.
    #[error("{end} {process} does not exist; there are 0 to {last}")]
    NoSuchProcess {
        /// `source` or `target`.
        end: &'static str,
        /// The process named.
        process: u32,
        /// The last that exists.
        last: u32,
    },
    /// Both ends are one process or on one host.
    #[error("{}", to_itself(*process, *target))]
    ToItself {
        /// The sender.
        process: u32,
        /// The receiver.
        target: u32,
    },
    /// A message is posted later than any can be.
    #[error("its time is {time}; the latest is {last}")]
    TooLate {
        /// Its time.
        time: Time,
        /// The latest there is.
        last: Time,
    },
}

fn to_itself(process: u32, target: u32) -> String {
    if process == target {
        return format!("{process} sends to itself");
    }
    format!("processes {process} and {target} are on one host; messages go to another")
}
