//! Trees and graphs: hosts below, switches by their distance from the nearest host.

use viaduct_topology::{HostId, LinkId, Topology};

use super::{Busiest, Drawing, Loads, busiest_of_hosts, switch_links, switch_name};

/// Links that are drawn as one line each, and nodes beside one another.
const LINES_MAX: usize = 1_200;
const LEVEL_MAX: usize = 160;
/// Switches round a circle.
const CIRCLE_MAX: u32 = 96;
/// Squares beside one another, and rows of them.
const COLUMNS_MAX: usize = 96;
const ROWS_MAX: usize = 40;

/// Of a map by levels.
const WIDTH: f64 = 100.0;
const LEVEL_HEIGHT: f64 = 24.0;
/// Of its nodes: the names of the levels stand beside them.
const ACROSS: f64 = 87.0;

/// The level of each switch: how many links it is from the nearest host.
struct Levels {
    of_switch: Vec<u32>,
    /// Place of each switch within its level.
    place: Vec<u32>,
    /// Switches of each level; level 0 has the hosts.
    sizes: Vec<u32>,
}

impl Levels {
    fn new(topology: &Topology) -> Self {
        const UNKNOWN: u32 = u32::MAX;

        let switches = topology.switch_count() as usize;
        let mut of_switch = vec![UNKNOWN; switches];
        for host in (0..topology.host_count()).map(HostId) {
            of_switch[topology.host_switch(host).0 as usize] = 1;
        }
        // Level by level over all links: there are few levels.
        let mut level = 1;
        loop {
            let mut has_grown = false;
            for (_, from, to) in switch_links(topology) {
                if of_switch[from as usize] == level && of_switch[to as usize] == UNKNOWN {
                    of_switch[to as usize] = level + 1;
                    has_grown = true;
                }
            }
            // A long line of switches without hosts would take for ever.
            if !has_grown || level as usize >= ROWS_MAX {
                break;
            }
            level += 1;
        }
        let highest = of_switch
            .iter()
            .copied()
            .filter(|level| *level != UNKNOWN)
            .max();
        let beyond = highest.unwrap_or(0) + 1;
        let mut sizes = vec![topology.host_count()];
        let mut place = Vec::with_capacity(switches);
        for level in &mut of_switch {
            *level = (*level).min(beyond);
            let index = *level as usize;
            if sizes.len() <= index {
                sizes.resize(index + 1, 0);
            }
            place.push(sizes[index]);
            sizes[index] += 1;
        }
        Self {
            of_switch,
            place,
            sizes,
        }
    }

    fn level(&self, switch: u32) -> usize {
        self.of_switch[switch as usize] as usize
    }
}

pub(super) fn draw(topology: &Topology, loads: &Loads) -> Drawing {
    let levels = Levels::new(topology);
    let links = topology.link_count() as usize;
    let widest = levels.sizes.iter().copied().max().unwrap_or_default() as usize;
    let has_links_within =
        switch_links(topology).any(|(_, from, to)| levels.level(from) == levels.level(to));
    if !has_links_within && links <= LINES_MAX && widest <= LEVEL_MAX {
        lines(topology, &levels, loads)
    } else if has_links_within && topology.switch_count() <= CIRCLE_MAX && links <= 4 * LINES_MAX {
        circle(topology, loads)
    } else {
        rows(topology, &levels, loads)
    }
}

/// One line per link, two for each pair of neighbours, from level to level.
fn lines(topology: &Topology, levels: &Levels, loads: &Loads) -> Drawing {
    let mut drawing = Drawing::new(loads);
    let top = levels.sizes.len() - 1;
    let widest = levels.sizes.iter().copied().max().unwrap_or(1).max(1);
    let pitch = ACROSS / f64::from(widest);
    let node = (pitch * 0.5).clamp(0.4, 3.0);
    drawing.map.size = (WIDTH, LEVEL_HEIGHT * top as f64 + 8.0);
    drawing.map.cell_size = (node, node);
    drawing.map.stroke_width = (pitch * 0.12).clamp(0.25, 0.8);
    let aside = drawing.map.stroke_width * 0.75;
    let middle = |level: usize, place: u32| {
        let pitch = ACROSS / f64::from(levels.sizes[level].max(1));
        let x = WIDTH - ACROSS + pitch * (f64::from(place) + 0.5);
        (x, 4.0 + LEVEL_HEIGHT * (top - level) as f64)
    };
    let mut line = |link: LinkId, from: (f64, f64), to: (f64, f64)| {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy).max(1e-9);
        // Traffic keeps to the right.
        let (aside_x, aside_y) = (-dy / length * aside, dx / length * aside);
        let ends = [from, to].map(|(x, y)| (x + aside_x, y + aside_y));
        drawing.stroke(ends, topology.link_name(link), loads.of(link));
    };
    let switch = |switch: u32| middle(levels.level(switch), levels.place[switch as usize]);
    for host in (0..topology.host_count()).map(HostId) {
        let (below, above) = (middle(0, host.0), switch(topology.host_switch(host).0));
        line(topology.host_up(host), below, above);
        line(topology.host_down(host), above, below);
    }
    for (link, from, to) in switch_links(topology) {
        line(link, switch(from), switch(to));
    }
    for number in 0..topology.switch_count() {
        let name = switch_name(topology, number as usize);
        drawing.square(switch(number), name, None);
    }
    for host in (0..topology.host_count()).map(HostId) {
        let name = topology.node_name(viaduct_topology::Node::Host(host));
        drawing.square(middle(0, host.0), name, None);
    }
    for level in 0..=top {
        let base = middle(level, 0).1 + 0.9;
        drawing.label((0.0, base), level_name(level), false);
    }
    drawing.caption =
        "Hosts are below, switches above them by their distance from the nearest host; a line for \
         each directed link, and messages keep to the right."
            .to_owned();
    drawing
}

/// Switches round a circle, with a line for each directed link between them.
fn circle(topology: &Topology, loads: &Loads) -> Drawing {
    let mut drawing = Drawing::new(loads);
    let switches = topology.switch_count();
    drawing.map.size = (WIDTH, WIDTH);
    let node = (120.0 / f64::from(switches)).clamp(1.5, 6.0);
    drawing.map.cell_size = (node, node);
    drawing.map.stroke_width = (40.0 / f64::from(switches)).clamp(0.3, 1.2);
    let aside = drawing.map.stroke_width * 0.75;
    let middle = |switch: u32| {
        let turn = f64::from(switch) / f64::from(switches) * std::f64::consts::TAU;
        (50.0 + 45.0 * turn.sin(), 50.0 - 45.0 * turn.cos())
    };
    for (link, from, to) in switch_links(topology) {
        let (from, to) = (middle(from), middle(to));
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy).max(1e-9);
        let (aside_x, aside_y) = (-dy / length * aside, dx / length * aside);
        let ends = [from, to].map(|(x, y)| (x + aside_x, y + aside_y));
        drawing.stroke(ends, topology.link_name(link), loads.of(link));
    }
    for (switch, busiest) in busiest_of_hosts(topology, loads).into_iter().enumerate() {
        let name = switch_name(topology, switch);
        let what = match busiest.value() {
            Some(_) => busiest.what(topology, &format!("hosts of {name}")),
            None => name,
        };
        drawing.square(middle(switch as u32), what, busiest.value());
    }
    drawing.caption = format!(
        "A square for each switch, from {} at the top clockwise by number: its busiest link from or \
         to a host. A line for each directed link between them, and messages keep to the right.",
        switch_name(topology, 0)
    );
    drawing
}

/// How a level is called on maps.
fn level_name(level: usize) -> String {
    match level {
        0 => "hosts".to_owned(),
        level => format!("level {level}"),
    }
}

/// What links of one row have in common.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Row {
    /// The lower level.
    level: usize,
    /// How far up the other end is.
    rise: usize,
    is_up: bool,
}

/// A row of squares for the links between two levels, in each direction.
fn rows(topology: &Topology, levels: &Levels, loads: &Loads) -> Drawing {
    let columns = levels.sizes.iter().copied().max().unwrap_or(1) as usize;
    let columns = columns.clamp(1, COLUMNS_MAX);
    let mut bins: std::collections::BTreeMap<Row, Vec<Busiest>> = std::collections::BTreeMap::new();
    let mut offer = |row: Row, place: u32, link: LinkId| {
        let size = u64::from(levels.sizes[row.level].max(1));
        // Fewer places than columns stand evenly apart.
        let column = u64::from(place) * columns as u64 / size;
        let bins = bins
            .entry(row)
            .or_insert_with(|| vec![Busiest::default(); columns]);
        bins[(column as usize).min(columns - 1)].offer(link, loads);
    };
    for host in (0..topology.host_count()).map(HostId) {
        for (is_up, link) in [
            (true, topology.host_up(host)),
            (false, topology.host_down(host)),
        ] {
            let row = Row {
                level: 0,
                rise: 1,
                is_up,
            };
            offer(row, host.0, link);
        }
    }
    for (link, from, to) in switch_links(topology) {
        let (start, end) = (levels.level(from), levels.level(to));
        let (lower, is_up) = if start <= end {
            (from, true)
        } else {
            (to, false)
        };
        let row = Row {
            level: start.min(end),
            rise: start.abs_diff(end),
            is_up,
        };
        offer(row, levels.place[lower as usize], link);
    }

    const ROW_HEIGHT: f64 = 9.0;
    let mut drawing = Drawing::new(loads);
    let left_out = bins.len().saturating_sub(ROWS_MAX);
    let shown = bins.len() - left_out;
    let width = WIDTH / columns as f64;
    drawing.map.size = (WIDTH, ROW_HEIGHT * shown as f64);
    drawing.map.cell_size = (width, 4.0);
    // The highest level above, as in a picture of the network.
    for (index, (row, bins)) in bins.into_iter().rev().skip(left_out).enumerate() {
        let (low, high) = (level_name(row.level), level_name(row.level + row.rise));
        let name = match (row.rise, row.is_up) {
            (0, _) => format!("within {low}"),
            (_, true) => format!("{low} to {high}"),
            (_, false) => format!("{high} to {low}"),
        };
        let top = ROW_HEIGHT * index as f64;
        drawing.label((0.0, top + 3.2), name.clone(), false);
        for (column, busiest) in bins.into_iter().enumerate() {
            if let Some(value) = busiest.value() {
                let at = (width * (column as f64 + 0.5), top + 6.2);
                let place = format!("{name}, place {column}");
                drawing.square(at, busiest.what(topology, &place), Some(value));
            }
        }
    }
    drawing.caption = format!(
        "A row of squares for the links between two levels in one direction; the level of a switch \
         is its distance from the nearest host. From left to right by number, up to {columns} \
         places: each shows the busiest link of its part."
    );
    if left_out > 0 {
        drawing.caption += &format!(" {left_out} rows are left out.");
    }
    drawing
}
