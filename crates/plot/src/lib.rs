//! Line charts as SVG and PNG: the same lines, letters and marks in both.
//!
//! A [`LineChart`] is a title, two axes and lines with names; what they mean is the caller's. It is
//! made for a page: 520 units wide, to be read from 8 cm on. Lines differ by colour, which readers
//! who see fewer colours can tell apart, and by marker. Equal charts are equal bytes.
//!
//! ```
//! use viaduct_plot::{Axis, LineChart, Notation, Scale, Series};
//!
//! let chart = LineChart {
//!     title: "ping-pong over two roads".to_owned(),
//!     x: Axis {
//!         title: "message".to_owned(),
//!         scale: Scale::Binary,
//!         notation: Notation::Bytes,
//!     },
//!     y: Axis {
//!         title: "half a round trip, us".to_owned(),
//!         scale: Scale::Decimal,
//!         notation: Notation::Plain,
//!     },
//!     series: vec![Series {
//!         name: "the short road".to_owned(),
//!         points: vec![(8.0, 0.3), (1024.0, 0.5), (65_536.0, 4.1)],
//!     }],
//! };
//! assert!(chart.to_svg().contains("the short road"));
//! assert!(chart.to_png().starts_with(b"\x89PNG"));
//! ```

mod chart;
mod font;
mod layout;
mod png;
mod ruler;
mod scene;
mod style;
mod svg;

pub use chart::{Axis, LineChart, Notation, Scale, Series};
