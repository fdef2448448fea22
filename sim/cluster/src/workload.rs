//! What applications send: how often, how many bytes, to whom.
//!
//! [`Interval`] and [`SizeDistribution`] are given by their mean and sampled from a stream of the
//! caller's; [`Pattern`] names targets and is compiled for one network into [`Targets`]. A
//! [`MessageList`] gives all of it, message by message. An [`Application`] is a graph of
//! operations: what it sends, and when, follows from what it has received.
//!
//! Logarithms, exponentials and powers come from the `libm` crate, called by name. The system's
//! differ in the last bit from one machine to the next, and `rand_distr` falls back to them as
//! soon as any crate of the build turns on `num-traits/std`, which `hdrhistogram` and `parquet`
//! do. With `libm`, a sample is the same on every machine.

mod application;
mod error;
mod exponential;
mod interval;
mod message_list;
mod normal;
mod operation;
mod pattern;
mod piecewise;
mod size;
mod size_cdf;
mod targets;
#[cfg(test)]
mod test_support;

pub use application::{
    APPLICATION_OPERATIONS_MAX, Application, ApplicationError, Handling, LocalLink,
    OPERATION_BYTES_MAX, Placement, Protocol, help_of_application,
};
pub(crate) use application::{LOST, Places};
pub use error::{
    CdfError, CdfProblem, DistributionError, MessageListError, MessageListProblem, PatternError,
};
pub use interval::{INTERVAL_PICOSECONDS_MAX, Interval};
pub use message_list::{ListedMessage, MessageList};
pub use operation::MessageOperation;
pub use pattern::Pattern;
pub use piecewise::{Piecewise, TABLE_POINTS_MAX};
pub use size::SizeDistribution;
pub use size_cdf::parse_size_cdf;
pub use targets::{PAIRS_MAX, Targets};
