//! A preset from a measurement: the numbers of a model, fitted to what a machine did.
//!
//! ```text
//! measured   the JSON of `viaduct measure` to points, every third of them held out
//! knobs      which numbers of a preset move together, by the kind of its adapter
//! thresholds from which size on a model moves messages another way
//! predict    what simulated hosts of such a preset measure: the simulation itself runs
//! pair       the programs of `viaduct measure` between two simulated hosts, for whoever asks
//! search     the factors that make both agree: Levenberg and Marquardt, in logarithms
//! told       how far off a prediction of what was not measured may be
//! fit        joins them        written   the preset as text        shown   its results
//! warnings   what must be known before it is used
//! ```
//!
//! # Words
//!
//! - knob: numbers of a preset that a fit moves together; point: a size and its time, fitted or
//!   held out: `Knob`; `Measured`, `Point` (`knobs.rs`, `measured.rs`)

mod error;
mod fit;
mod knobs;
mod measured;
mod pair;
mod predict;
mod search;
mod shown;
mod thresholds;
mod told;
mod warnings;
mod written;

pub use error::FitError;
pub use fit::{Fit, FittedNumber, fit};
pub use measured::{Measured, POINTS_MIN, Point};
pub use pair::{Broken, Simulated, SimulatedHost, measure_in, measure_simulated};
pub use told::Untold;
