//! Programs that measure a fabric: latency, bandwidth, message rate, many connections.
//!
//! The programs know no fabric: they use [`Provider`](viaduct_provider::Provider) and nothing else,
//! with raw descriptors, so that what is timed is what a program in C would pay. Time and the
//! machine come from a [`Host`], which a simulated host can be as well.
//!
//! One side calls [`initiate`] with a [`Plan`], the other [`respond`]; the responder learns what to
//! do from the address that each connection is asked from, so it needs no plan.
//!
//! ```text
//!   initiate                               respond
//!   probe the line between the cores       wait for a request
//!   post receives, connect  -- order -->   post receives, accept
//!   warm up, measure in batches  <---->    echo or acknowledge
//!   stop  ------------------------------>  farewell, wait for the end
//!   probe the line again, next row         wait for a request
//! ```
//!
//! # Words
//!
//! - burst: requests one after the other, with a delay between; who makes them: `Burst`, `Requests`
//!   (`requests.rs`, `requests/prober.rs`)

mod comparison;
mod cq;
mod error;
mod host;
mod lane;
mod latency;
mod line;
mod links;
mod machine;
mod order;
mod origin;
mod pacer;
mod patience;
mod plan;
mod report;
mod requests;
mod run;
mod samples;
mod session;
mod stream;
mod touch;

pub use comparison::Comparison;
pub use error::MeasureError;
pub use host::{Host, Stoppable};
pub use line::Placement;
pub use links::{LinkRow, busiest};
pub use machine::{Machine, allowed_cores, pin_to_core};
pub use origin::Origin;
pub use plan::{Asker, Mode, Plan, Test, Transfer, Tuning};
pub use report::{
    Around, CompletionQueueRow, Happened, LatencyRow, Noise, Report, Row, RowCounts, Spread,
    Stages, StreamRow,
};
pub use requests::{
    Bulk, BulkRow, Burst, BurstPoint, ClientCounts, ContentionReport, ContentionRow, Elapsed,
    LatencyMode, LatencySummary, LogP, PatternKind, Prober, ProcessorShares, RequestEnds,
    RequestReport, RequestState, RequestTest, Requests, RoundTripFit, SMALL_BYTES, ServerKind,
    TimesharingReport, TimesharingRow, WaitKind, bulk, contend, logp, request_handlers,
    request_options,
};
pub use run::{Meeting, initiate, respond};
