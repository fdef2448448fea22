//! A picture that can be written in several formats.

use crate::scene::Scene;
use crate::{pdf, png, svg};

/// How large a picture is, in units; a printed page is some 500 wide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    /// Of the sheet.
    pub width: f64,
    /// Between the title with the legend and the bottom edge: their height comes on top.
    pub body_height: f64,
}

impl Format {
    /// For a page: to be read from 8 cm on.
    pub const PAPER: Self = Self {
        width: 520.0,
        body_height: 320.0,
    };
    /// For a screen, where a picture stands alone and there is room for it.
    pub const WIDE: Self = Self {
        width: 940.0,
        body_height: 320.0,
    };
    /// For a screen: letters of a telephone's width are still to be read.
    pub const SCREEN: Self = Self {
        width: 440.0,
        body_height: 270.0,
    };
}

/// Something drawn: shapes and letters at their places.
#[derive(Clone, Debug)]
pub struct Picture {
    pub(crate) scene: Scene,
    pub(crate) title: String,
}

impl Picture {
    /// As an SVG document. Its text stays text: a viewer without the font takes a similar one.
    #[must_use]
    pub fn to_svg(&self) -> String {
        svg::document(&self.scene, &self.title)
    }

    /// As an element of an HTML page with the style sheet [`page_style`](crate::page_style), as
    /// wide as the page has room; `words` say what it shows to whoever does not see it.
    #[must_use]
    pub fn to_element(&self, words: &str) -> String {
        svg::element(&self.scene, words)
    }

    /// As a PNG file, three pixels a unit.
    #[must_use]
    pub fn to_png(&self) -> Vec<u8> {
        png::file(&self.scene)
    }

    /// As a PDF file of one page, one point per unit. Its text stays text, with the font inside.
    #[must_use]
    pub fn to_pdf(&self) -> Vec<u8> {
        pdf::file(&self.scene, &self.title)
    }
}
