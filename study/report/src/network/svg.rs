//! A network as an SVG document.

use std::fmt::Write as _;

use viaduct_topology::{HostId, Node, SwitchId, Topology};

use super::escaped;
use super::layout::{Layout, Point};

/// Most nodes of an SVG document: beyond, viewers take seconds for it.
pub const NETWORK_SVG_NODES_MAX: usize = 5_000;

/// Units of the document a unit of the layout.
const SCALE: f64 = 60.0;

/// Of the words below that say what the marks are.
const LEGEND_HEIGHT: f64 = 24.0;
const LEGEND_WIDTH: f64 = 330.0;

/// Most switches whose names are written.
const NAMED_MAX: usize = 150;

/// The colours of light and dark pages.
const STYLE: &str = "\
svg{background:#fff;font-family:sans-serif;max-width:100%;height:auto}\
.l{stroke:#8a8f98;stroke-width:2;fill:none}.u{stroke:#b9bec7;stroke-width:1;fill:none}\
.s{fill:#0072b2}.h{fill:#d55e00}text{fill:#222;font-size:11px;text-anchor:middle}.t{text-anchor:start}\
@media(prefers-color-scheme:dark){svg{background:#16181d}.l{stroke:#767c87}.u{stroke:#4a4f59}\
.s{fill:#56b4e9}.h{fill:#e69f00}text{fill:#ddd}}";

/// The picture; names show when the pointer rests on a node.
#[must_use]
pub fn network_svg(topology: &Topology, layout: &Layout, title: &str) -> String {
    let ((x0, y0), (x1, y1)) = layout.bounds();
    let at = |(x, y): Point| ((x - x0) * SCALE, (y - y0) * SCALE + 24.0);
    let (width, height) = ((x1 - x0) * SCALE, (y1 - y0) * SCALE + 24.0 + LEGEND_HEIGHT);
    // Letters of 11 pixels are about 6 wide, and hardly one is wider than 7.
    let width = width.max(title.chars().count() as f64 * 6.6 + 16.0);
    let width = width.max(LEGEND_WIDTH);
    let title = escaped(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n<text class=\"t\" x=\"8\" y=\"16\">{title}</text>\n"
    );
    let mut line = |class: &str, from: Point, to: Point| {
        let ((x0, y0), (x1, y1)) = (at(from), at(to));
        let points = format!("x1=\"{x0:.1}\" y1=\"{y0:.1}\" x2=\"{x1:.1}\" y2=\"{y1:.1}\"");
        // Writing into a string cannot fail.
        let _ = writeln!(svg, "<line class=\"{class}\" {points}/>");
    };
    for &link in &layout.links {
        for (from, to) in layout.parts(link) {
            line("l", from, to);
        }
    }
    for (&host, &switch) in layout.hosts.iter().zip(&layout.switch_of) {
        line("u", host, layout.switches[switch as usize]);
    }
    for (number, &host) in layout.hosts.iter().enumerate() {
        let (x, y) = at(host);
        let name = topology.node_name(Node::Host(HostId(number as u32)));
        let _ = writeln!(
            svg,
            "<circle class=\"h\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{}</title></circle>",
            escaped(&name)
        );
    }
    for (number, &switch) in layout.switches.iter().enumerate() {
        let (x, y) = at(switch);
        let name = escaped(&topology.node_name(Node::Switch(SwitchId(number as u32))));
        let _ = writeln!(
            svg,
            "<rect class=\"s\" x=\"{:.1}\" y=\"{:.1}\" width=\"14\" height=\"14\" rx=\"2\">\
             <title>{name}</title></rect>",
            x - 7.0,
            y - 7.0
        );
        if layout.switches.len() <= NAMED_MAX {
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\">{name}</text>",
                y - 11.0
            );
        }
    }
    svg + &legend(height - 8.0) + "</svg>\n"
}

/// What the marks are, in a row.
fn legend(base: f64) -> String {
    let middle = base - 4.0;
    format!(
        "<g><rect class=\"s\" x=\"8\" y=\"{:.1}\" width=\"14\" height=\"14\" rx=\"2\"/>\
         <text class=\"t\" x=\"27\" y=\"{base:.1}\">switch</text>\
         <circle class=\"h\" cx=\"80\" cy=\"{middle:.1}\" r=\"4\"/>\
         <text class=\"t\" x=\"89\" y=\"{base:.1}\">host</text>\
         <line class=\"l\" x1=\"126\" y1=\"{middle:.1}\" x2=\"150\" y2=\"{middle:.1}\"/>\
         <text class=\"t\" x=\"155\" y=\"{base:.1}\">link, both ways</text>\
         <line class=\"u\" x1=\"244\" y1=\"{middle:.1}\" x2=\"268\" y2=\"{middle:.1}\"/>\
         <text class=\"t\" x=\"273\" y=\"{base:.1}\">of a host</text></g>\n",
        middle - 7.0
    )
}
