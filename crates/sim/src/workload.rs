//! What applications send: sizes, intervals and targets.

/// Time between two messages of a process.
#[derive(Clone, Debug)]
pub enum Interval {}

/// Bytes of a message.
#[derive(Clone, Debug)]
pub enum SizeDistribution {}

/// To whom a process sends.
#[derive(Clone, Debug)]
pub enum Pattern {}
