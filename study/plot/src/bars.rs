//! Bars beside one another: where an amount goes.

use crate::chart::{Axis, Notation, Scale};
use crate::picture::{Format, Picture};
use crate::ruler::Ruler;
use crate::scene::{Anchor, Colour, Scene};
use crate::sheet::{
    AXIS_SIZE, LABEL_GAP, LABEL_SIZE, LINE_HEIGHT, MARGIN, Sample, Sheet, TICK_LENGTH,
};

/// Rows of bars from left to right, in each row one bar for each of a few sets of amounts.
#[derive(Clone, Debug)]
pub struct BarChart {
    /// What is shown; as many lines as it needs.
    pub title: String,
    /// The amounts and their unit.
    pub x: String,
    /// Names of the rows, from top to bottom.
    pub rows: Vec<String>,
    /// The sets, in the order of the legend.
    pub sets: Vec<Bars>,
}

/// One bar a row.
#[derive(Clone, Debug)]
pub struct Bars {
    /// As in the legend; empty for none.
    pub name: String,
    /// How long each row's bar is; one that is no positive number has none.
    pub amounts: Vec<f64>,
    /// What stands at the end of each bar; none where there is no room.
    pub labels: Vec<String>,
}

/// A row with one bar.
const ROW_HEIGHT: f64 = 20.0;
/// Of a bar among several of its row.
const BAR_HEIGHT: f64 = 7.0;
/// More bars a row leave no room for their labels.
const LABELLED_SETS_MAX: usize = 1;
/// Between a bar and its label.
const LABEL_ASIDE: f64 = 5.0;
/// Of the axis' last label beyond its end.
const AXIS_OVERHANG: f64 = 14.0;
/// Of the sheet, for the names of rows.
const NAMES_PART_MAX: f64 = 0.4;

impl BarChart {
    /// Draws it; its height is that of its rows.
    #[must_use]
    pub fn draw(&self, format: Format) -> Picture {
        Picture {
            scene: self.scene(format),
            title: self.title.clone(),
        }
    }

    fn scene(&self, format: Format) -> Scene {
        let mut sheet = Sheet::new(format);
        let title_bottom = sheet.title(&self.title);
        let names = self.sets.iter().enumerate();
        let names = names.map(|(index, set)| (index, Sample::Bar, set.name.as_str()));
        let top = sheet.legend(names, title_bottom) + 6.0;

        let names_width_max = format.width * NAMES_PART_MAX;
        let rows: Vec<String> = self
            .rows
            .iter()
            .map(|row| sheet.font.shortened(row, LABEL_SIZE, names_width_max))
            .collect();
        let names_width = rows.iter().map(|row| sheet.width(row)).fold(0.0, f64::max);
        let left = MARGIN + names_width + 8.0;
        let is_labelled = self.sets.len() <= LABELLED_SETS_MAX;
        let amounts: Vec<f64> = self
            .sets
            .iter()
            .flat_map(|set| &set.amounts)
            .copied()
            .collect();
        let axis = Axis {
            title: self.x.clone(),
            scale: Scale::Linear,
            notation: Notation::Plain,
        };
        let edge = format.width - MARGIN;
        let ruler = |right: f64| {
            Ruler::new(&axis, &amounts, |label| {
                (sheet.width(label) + LABEL_GAP) / (right - left)
            })
        };
        let widest = ruler(edge - AXIS_OVERHANG);
        // As far to the right as each label behind its bar allows: the one of a short bar stands
        // within the frame.
        let labels = self.sets.iter().filter(|_| is_labelled);
        let labels = labels.flat_map(|set| set.amounts.iter().zip(&set.labels));
        let ends = labels.filter_map(|(amount, label)| {
            let part = widest.place(*amount).filter(|part| *part > 0.0)?;
            Some(left + (edge - LABEL_ASIDE - sheet.width(label) - left) / part)
        });
        let right = ends.fold(edge - AXIS_OVERHANG, f64::min).max(left + 40.0);
        let x = ruler(right);
        let row_height = match self.sets.len() {
            0 | 1 => ROW_HEIGHT,
            sets => sets as f64 * BAR_HEIGHT + 8.0,
        };
        let bottom = top + row_height * rows.len() as f64 + 4.0;
        for tick in &x.ticks {
            let at = left + tick.at * (right - left);
            sheet.line(vec![(at, bottom), (at, top)], Colour::Grid, 1.0);
            let base = bottom + TICK_LENGTH + LABEL_SIZE * 0.8;
            sheet.text(tick.label.clone(), (at, base), Anchor::Middle, LABEL_SIZE);
        }
        for (row, name) in rows.into_iter().enumerate() {
            let row_top = top + row_height * row as f64;
            let base = row_top + row_height / 2.0 + LABEL_SIZE * 0.36;
            sheet.text(name, (left - 6.0, base), Anchor::End, LABEL_SIZE);
            for (index, set) in self.sets.iter().enumerate() {
                let amount = set.amounts.get(row).copied().unwrap_or_default();
                let length = x.place(amount).unwrap_or_default().max(0.0) * (right - left);
                let (bar_top, height) = match self.sets.len() {
                    1 => (row_top + 3.0, row_height - 6.0),
                    _ => (row_top + 4.0 + index as f64 * BAR_HEIGHT, BAR_HEIGHT - 1.0),
                };
                if length > 0.0 {
                    sheet.rectangle((left, bar_top), (length, height), Colour::Line(index));
                }
                if let Some(label) = set.labels.get(row).filter(|_| is_labelled) {
                    let at = (left + length + LABEL_ASIDE, base);
                    sheet.text(label.clone(), at, Anchor::Start, LABEL_SIZE);
                }
            }
        }
        sheet.line(vec![(left, top), (left, bottom)], Colour::Ink, 1.2);
        let base = bottom + TICK_LENGTH + LABEL_SIZE * LINE_HEIGHT + AXIS_SIZE;
        let words = sheet
            .font
            .shortened(&self.x, AXIS_SIZE, format.width - 2.0 * MARGIN);
        sheet.text(
            words,
            (f64::midpoint(left, right), base),
            Anchor::Middle,
            AXIS_SIZE,
        );
        sheet.into_scene(base + MARGIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::font::Font;
    use crate::scene::Shape;

    #[test]
    fn bars_with_their_labels_fill_the_width() {
        for (amounts, labels) in [
            ([309.3, 2.5], ["309.3  (70.1 %)", "2.5  (0.6 %)"]),
            (
                [1.0, 0.9],
                ["1  (1 %)", "0.9  (a much longer label of a bar)"],
            ),
        ] {
            let chart = BarChart {
                title: String::new(),
                x: "us".to_owned(),
                rows: vec!["transfer".to_owned(), "post".to_owned()],
                sets: vec![Bars {
                    name: String::new(),
                    amounts: amounts.to_vec(),
                    labels: labels.map(str::to_owned).to_vec(),
                }],
            };
            let scene = chart.scene(Format::SCREEN);
            let font = Font::new();
            let ends = scene.shapes.iter().filter_map(|shape| match shape {
                Shape::Text(text) if labels.contains(&text.words.as_str()) => {
                    Some(text.at.0 + font.width(&text.words, text.size))
                }
                _ => None,
            });
            let end = ends.fold(0.0, f64::max);
            assert!(end <= scene.width && end > 0.9 * scene.width, "{end}");
        }
    }
}
