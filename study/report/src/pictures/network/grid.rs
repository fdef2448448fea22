//! Chains, meshes and tori.

use viaduct_topology::Topology;

use super::{Busiest, Drawing, Loads, busiest_of_hosts, switch_links, switch_name};

/// Switches along a side that are drawn with a line for each link.
const LINES_SIDE_MAX: u32 = 40;
const LINES_SWITCHES_MAX: u32 = 1_024;
/// Squares along a side.
const CELLS_SIDE_MAX: usize = 96;
/// Planes of a grid of more than two dimensions.
const PLANES_MAX: usize = 1_024;

/// Half of a switch's side, between middles of neighbours at distance 1.
const SWITCH: f64 = 0.36;
/// Of a link beside the line between two middles.
const ASIDE: f64 = 0.1;
/// How far a link that closes a ring is drawn.
const STUB: f64 = 0.55;

pub(super) fn draw(topology: &Topology, sizes: &[u32], loads: &Loads) -> Drawing {
    let is_plane = sizes.len() <= 2 && sizes.iter().all(|size| *size <= LINES_SIDE_MAX);
    if is_plane && topology.switch_count() <= LINES_SWITCHES_MAX {
        lines(topology, sizes, loads)
    } else {
        squares(topology, sizes, loads)
    }
}

/// One line per link, two for each pair of neighbours, and one square per switch.
fn lines(topology: &Topology, sizes: &[u32], loads: &Loads) -> Drawing {
    let width = sizes[0];
    let height = sizes.get(1).copied().unwrap_or(1);
    let mut drawing = Drawing::new(loads);
    // A short chain would fill the sheet.
    let margin = ((6.0 - f64::from(width)) / 2.0).max(0.65);
    drawing.map.size = (
        f64::from(width) - 1.0 + 2.0 * margin,
        f64::from(height) - 1.0 + 1.3,
    );
    drawing.map.stroke_width = 0.11;
    drawing.map.cell_size = (SWITCH, SWITCH);
    let middle = |switch: u32| {
        let (x, y) = (switch % width, switch / width);
        (margin + f64::from(x), 0.65 + f64::from(y))
    };
    for (link, from, to) in switch_links(topology) {
        let ((x1, y1), (x2, y2)) = (middle(from), middle(to));
        let (dx, dy) = (x2 - x1, y2 - y1);
        let length = dx.abs() + dy.abs();
        let closes = length > 1.5;
        let sign = if closes { -1.0 } else { 1.0 };
        let (dx, dy) = (sign * dx / length, sign * dy / length);
        // Traffic keeps to the right.
        let (aside_x, aside_y) = (-dy * ASIDE, dx * ASIDE);
        let at = |x: f64, y: f64, along: f64| (x + dx * along + aside_x, y + dy * along + aside_y);
        let edge = SWITCH / 2.0;
        let name = topology.link_name(link);
        let load = loads.of(link);
        if closes {
            drawing.stroke([at(x1, y1, edge), at(x1, y1, STUB)], name.clone(), load);
            drawing.stroke([at(x2, y2, -STUB), at(x2, y2, -edge)], name, load);
        } else {
            drawing.stroke([at(x1, y1, edge), at(x2, y2, -edge)], name, load);
        }
    }
    for (switch, busiest) in busiest_of_hosts(topology, loads).into_iter().enumerate() {
        let name = switch_name(topology, switch);
        let what = match busiest.value() {
            Some(_) => busiest.what(topology, &format!("hosts of {name}")),
            None => name,
        };
        drawing.square(middle(switch as u32), what, busiest.value());
    }
    let first = switch_name(topology, 0);
    drawing.caption = format!(
        "A line for each directed link between switches, a square for each switch: its busiest link \
         from or to a host. {first} is in the left upper corner; lines that leave the picture come \
         back on the other side."
    );
    if !topology.description().contains("torus") {
        drawing.caption = format!(
            "A line for each directed link between switches, a square for each switch: its busiest \
             link from or to a host. {first} is in the left upper corner."
        );
    }
    drawing
}

/// A square for some neighbouring switches, in planes of the first two dimensions.
fn squares(topology: &Topology, sizes: &[u32], loads: &Loads) -> Drawing {
    let width = sizes[0] as usize;
    let height = sizes.get(1).map_or(1, |size| *size as usize);
    let planes = topology.switch_count() as usize / (width * height);
    let planes_shown = planes.min(PLANES_MAX);
    // As near to a square as planes of this form allow.
    let columns = ((planes_shown * height) as f64 / width as f64)
        .sqrt()
        .ceil() as usize;
    let columns = columns.clamp(1, planes_shown);
    let rows = planes_shown.div_ceil(columns);
    let side = (columns * width).max(rows * height);
    let bin = side.div_ceil(CELLS_SIDE_MAX).max(1);
    let (bins_x, bins_y) = (width.div_ceil(bin), height.div_ceil(bin));
    let place = |switch: usize| {
        let (x, y) = (switch % width, switch / width % height);
        let plane = switch / (width * height) * planes_shown / planes;
        (plane * bins_y + y / bin) * bins_x + x / bin
    };
    let mut bins = vec![Busiest::default(); planes_shown * bins_x * bins_y];
    for (link, from, _) in switch_links(topology) {
        bins[place(from as usize)].offer(link, loads);
    }

    let mut drawing = Drawing::new(loads);
    // A chain is a row of tall squares.
    let tall = if height == 1 {
        (bins_x as f64 / 12.0).max(1.0)
    } else {
        1.0
    };
    let gap = if planes_shown > 1 { 1.0 } else { 0.0 };
    let (step_x, step_y) = (bins_x as f64 + gap, bins_y as f64 * tall + gap);
    drawing.map.size = (columns as f64 * step_x - gap, rows as f64 * step_y - gap);
    drawing.map.cell_size = (1.0, tall);
    for (index, busiest) in bins.into_iter().enumerate() {
        let (plane, rest) = (index / (bins_x * bins_y), index % (bins_x * bins_y));
        let (x, y) = (rest % bins_x, rest / bins_x);
        let at = (
            (plane % columns) as f64 * step_x + x as f64 + 0.5,
            (plane / columns) as f64 * step_y + (y as f64 + 0.5) * tall,
        );
        let place = format!(
            "square {x}-{y}{}",
            match planes {
                1 => String::new(),
                _ => format!(" of plane {plane}"),
            }
        );
        drawing.square(at, busiest.what(topology, &place), busiest.value());
    }
    let first = switch_name(topology, 0);
    let what = match bin {
        1 => "each switch".to_owned(),
        _ if height == 1 => format!("{bin} neighbouring switches"),
        _ => format!("{bin}x{bin} neighbouring switches"),
    };
    let others = match (planes, planes_shown) {
        (1, _) => String::new(),
        (all, shown) if all == shown => {
            " Each block is a plane of the first two dimensions.".to_owned()
        }
        (all, _) => format!(
            " Each block stands for up to {} planes of the first two dimensions.",
            all.div_ceil(planes_shown)
        ),
    };
    drawing.caption = format!(
        "A square for {what}: the busiest link that leaves to a neighbour. {first} is in the left \
         upper corner.{others}"
    );
    drawing
}
