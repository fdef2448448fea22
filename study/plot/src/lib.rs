//! Line charts, bars and maps of heat as SVG, PDF and PNG: the same lines, letters and marks in
//! all.
//!
//! A [`LineChart`] is a title, two axes and lines with names; what they mean is the caller's. It is
//! made for a page: 520 units wide, to be read from 8 cm on. Lines differ by colour, which readers
//! who see fewer colours can tell apart, and by marker. Equal charts are equal bytes.
//!
//! A [`BarChart`] has rows of bars, a [`HeatMap`] lines and squares at places of its own, coloured
//! by a value. Each is drawn in a [`Format`], which gives a [`Picture`]: a file, or an element of
//! an HTML page that is light or dark as its reader prefers, with the page's style sheet in
//! [`page_style`].
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

mod bars;
mod chart;
mod font;
mod layout;
mod map;
mod pdf;
mod picture;
mod png;
mod ruler;
mod scene;
mod sheet;
mod style;
mod svg;

pub use bars::{BarChart, Bars};
pub use chart::{Axis, Band, Interval, LineChart, Look, Marks, Notation, Rule, Scale, Series};
pub use map::{HeatCell, HeatLabel, HeatMap, HeatStroke};
pub use picture::{Format, Picture};
pub use style::page_style;
