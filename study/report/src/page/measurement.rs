//! The page of measurements: which machines, and each test as a picture and a table.

use viaduct_plot::{Format, LineChart, Marks};

use super::{Block, Column, Page, Section, Table};

/// A test that was measured on several fabrics or machines.
#[derive(Clone, Debug)]
pub struct ShownTest {
    /// For links to its section.
    pub id: &'static str,
    /// What stands above it.
    pub title: &'static str,
    /// One line per measurement.
    pub chart: LineChart,
    /// Of the table: what differs from row to row, then a name each.
    pub heads: Vec<String>,
    /// The rows, all numbers.
    pub rows: Vec<Vec<String>>,
    /// What is measured.
    pub note: String,
}

pub(super) fn page(
    title: &str,
    (heads, rows): (Vec<String>, Vec<Vec<String>>),
    tests: &[ShownTest],
) -> Page {
    let columns = heads.into_iter().map(|head| Column::new(head, false));
    let machines = Table {
        columns: columns.collect(),
        rows,
    };
    let tests = tests.iter().filter_map(|test| {
        let element = test.chart.draw(&Marks::default(), Format::SCREEN);
        let element = element.to_element(test.title);
        let columns = test.heads.iter().map(|head| Column::new(head, true));
        let blocks = vec![Block::Figures {
            figures: vec![Block::figure("", element, &test.note)],
            beside: Some(Table {
                columns: columns.collect(),
                rows: test.rows.clone(),
            }),
        }];
        Section::new(test.id, test.title, blocks)
    });
    let sections = tests.chain(Section::new(
        "machines",
        "Where and when",
        vec![Block::Table(machines)],
    ));
    Page {
        title: title.to_owned(),
        lead: Vec::new(),
        sections: sections.collect(),
        foot: "Compare only rows whose two cores are equally far apart.".to_owned(),
    }
}
