//! `viaduct measure contention`: one server, more and more clients, in several set-ups.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rayon::prelude::*;
use viaduct_engine::Time;
use viaduct_lanai::{Fault, Server as LanaiServer, contention as simulate};
use viaduct_measure::{
    ContentionReport, ContentionRow, LatencySummary, LinkRow, RequestEnds, RequestTest,
    SMALL_BYTES, ServerKind,
};
use viaduct_plot::{Axis, LineChart, Notation, Scale, Series};

use super::{
    Interface, Subject, adapters, check, check_disturbances, crowd, disturb, faults, meaningless,
};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::measure::{MeasureArguments, Size};
use crate::output;
use crate::picture::PictureFile;
use crate::simulated::Simulated;

/// What only `contention` is told.
#[derive(Args, Debug)]
pub(crate) struct ContentionArguments {
    /// Clients of `contention`, one row each, as in `1..24` or `1,8,9` [default:
    /// 1,2,3,4,6,8,9,10,12,16,20,24]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    clients: Vec<Range>,
    /// The server of `contention`: one endpoint for all clients, or one per client, served by a
    /// single thread or by one thread each [default: one,st,mt]
    #[arg(long = "server", value_name = "KIND", value_delimiter = ',')]
    servers: Vec<ServerName>,
    /// Frames of the server's interface in `contention`, for endpoints of their own [default:
    /// 8,96], of every interface in `timesharing` [default: 8]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    frames: Vec<u16>,
    /// Bytes of a request in `contention` and `timesharing` [default: 16]
    #[arg(long, value_name = "BYTES")]
    bytes: Option<Size>,
    /// Seconds measured in each row of `contention`, after a warm-up of a tenth; or seconds that
    /// each process of `timesharing` computes [default: 1]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// On simulated hosts, tell how busy each link was, of `contention` in each row
    #[arg(long)]
    links: bool,
}

impl ContentionArguments {
    /// Whether links are to be told of.
    pub(crate) const fn shows_links(&self) -> bool {
        self.links
    }

    /// The first that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        self.given_but_for(&[])
    }

    /// The first that was given and is none of these.
    pub(crate) fn given_but_for(&self, but_for: &[&str]) -> Option<&'static str> {
        let given = [
            ("--clients", !self.clients.is_empty()),
            ("--server", !self.servers.is_empty()),
            ("--frames", !self.frames.is_empty()),
            ("--bytes", self.bytes.is_some()),
            ("--seconds", self.seconds.is_some()),
            ("--links", self.links),
        ];
        let mut given = given.into_iter().filter(|(_, is_given)| *is_given);
        given.find_map(|(option, _)| (!but_for.contains(&option)).then_some(option))
    }

    pub(super) fn frames(&self) -> &[u16] {
        &self.frames
    }

    /// Bytes of a request.
    pub(super) fn bytes_or(&self, usual: u32) -> Result<u32, Failure> {
        let bytes = self.bytes.map_or(usual, |size| size.0);
        if !(1..=8192).contains(&bytes) {
            return Err(Failure::new(
                format!("`--bytes {bytes}`: a message of an endpoint has 1 to 8192 bytes"),
                "the published sizes are 16 and 8192",
            ));
        }
        Ok(bytes)
    }

    /// Seconds of a row.
    pub(super) fn seconds_or(&self, usual: f64) -> Result<f64, Failure> {
        let seconds = self.seconds.unwrap_or(usual);
        if !(0.001..=3600.0).contains(&seconds) {
            return Err(Failure::new(
                format!("`--seconds {seconds}`: a row takes from 0.001 to 3600 s"),
                "20 are what was published",
            ));
        }
        Ok(seconds)
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ServerName {
    One,
    St,
    Mt,
}

/// Numbers of clients or programs: `8`, `1..24` with both ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Range(u16, u16);

impl Range {
    pub(super) fn numbers(self) -> impl Iterator<Item = u16> {
        self.0..=self.1
    }
}

/// Clients, at most: as many endpoints as a simulated server has.
const CLIENTS_MAX: u16 = 64;

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let last = last.strip_prefix('=').unwrap_or(last);
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if 1 <= first && first <= last && last <= CLIENTS_MAX => {
                Ok(Self(first, last))
            }
            _ => Err(format!(
                "numbers from 1 to {CLIENTS_MAX} are wanted, as in 8 or 1..24"
            )),
        }
    }
}

/// One row that is to be measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) server: ServerKind,
    pub(super) frames: u16,
    pub(super) bytes: u32,
    pub(super) clients: u16,
    pub(super) window: Duration,
}

impl Point {
    pub(super) fn warm_up(&self) -> Duration {
        self.window / 10
    }
}

/// Measures contention.
pub(crate) fn contention(arguments: &MeasureArguments) -> Result<Exit, Failure> {
    let test = RequestTest::Contention.name();
    check(arguments, test)?;
    if !arguments.sizes.is_empty() {
        return Err(meaningless(
            "--sizes",
            test,
            "its requests have one size: --bytes 8192",
        ));
    }
    if arguments.iterations.is_some() {
        return Err(meaningless(
            "--iterations",
            test,
            "`--seconds` says how long a row takes",
        ));
    }
    let points = points(&arguments.contention)?;
    let subjects: Vec<Subject> = arguments
        .fabrics
        .iter()
        .map(|name| Subject::named(name, test))
        .collect::<Result<_, _>>()?;
    let is_of_vis = |subject: &Subject| matches!(subject, Subject::Adapters(_));
    if !subjects.iter().all(is_of_vis) {
        check_disturbances(arguments, test)?;
    }
    let of_one_endpoint = |subject: &&Subject| match subject {
        Subject::Shm | Subject::Adapters(_) => false,
        Subject::Simulated(interface) => !interface.has_virtual_networks(),
    };
    if let Some(subject) = subjects.iter().find(of_one_endpoint) {
        return Err(Failure::new(
            format!(
                "`{}` has one endpoint, and nothing that refuses a message",
                subject.name()
            ),
            "contention is for virtual networks: --on shm, sim:am-myrinet",
        ));
    }
    let asks_for_threads = |server: &ServerName| matches!(server, ServerName::Mt);
    if let Some(subject) = subjects.iter().find(|subject| is_of_vis(subject))
        && arguments.contention.servers.iter().any(asks_for_threads)
    {
        return Err(Failure::new(
            format!("`--server mt` cannot be measured on `{}`", subject.name()),
            "programs of one simulated host are not switched between while they have work, so one \
             thread would have all of its processor: --server one,st",
        ));
    }
    let most = points.iter().map(|point| point.clients).max().unwrap_or(1);
    for subject in &subjects {
        match subject {
            Subject::Shm => {}
            Subject::Simulated(interface) => interface.check_hosts(hosts(interface, most))?,
            Subject::Adapters(pair) => drop(many(pair, most, arguments)?),
        }
    }
    let faults = match (&arguments.faults[..], &subjects[..]) {
        ([], _) => Vec::new(),
        (_, subjects) if subjects.iter().all(is_of_vis) => Vec::new(),
        (lines, [Subject::Simulated(interface)]) => {
            let clients = points.iter().map(|point| point.clients).min().unwrap_or(1);
            faults::read(lines, &interface.config(hosts(interface, clients)))?
        }
        _ => {
            return Err(Failure::new(
                "`--fault` means nothing for processes of this machine",
                "faults strike simulated hosts: --on sim:am-myrinet, or sim:clan-pio, alone",
            ));
        }
    };
    let is_real = |subject: &Subject| matches!(subject, Subject::Shm);
    if arguments.seed.is_some() && subjects.iter().any(is_real) {
        return Err(Failure::new(
            "`--seed` means nothing for processes of this machine",
            "simulated hosts draw random numbers: --on sim:am-myrinet alone",
        ));
    }
    if arguments.contention.links && subjects.iter().any(is_real) {
        return Err(Failure::new(
            "`--links` means nothing for processes of this machine",
            "links are simulated: --on sim:am-myrinet alone",
        ));
    }
    let picture = arguments.plot.as_deref();
    let picture = picture
        .map(|path| PictureFile::at(path, "--plot"))
        .transpose()?;
    let with = With {
        faults: &faults,
        seed: arguments.seed,
        links: arguments.contention.links,
    };
    let interrupt = Interrupt::listen();
    let mut reports = Vec::new();
    for subject in &subjects {
        let origin = subject.origin();
        let rows = match subject {
            // Simulated time is the same whatever runs beside it.
            Subject::Simulated(interface) => simulate_all(interface, &points, with, &interrupt),
            Subject::Adapters(pair) => all(&of_one_thread(&points), &interrupt, |point| {
                let hosts = many(pair, point.clients, arguments)?;
                adapters::crowd::measure(&hosts, point, arguments.contention.links, &interrupt)
            }),
            Subject::Shm => points
                .iter()
                .map(|point| {
                    let row = (!interrupt.is_asked()).then(|| crowd::measure(point, &interrupt));
                    row.filter(|_| !interrupt.is_asked())
                })
                .collect(),
        };
        reports.push(ContentionReport {
            fabric: subject.name(),
            test: RequestTest::Contention,
            origin,
            seconds: points[0].window.as_secs_f64(),
            rows: rows.into_iter().flatten().collect::<Result<_, _>>()?,
        });
        if interrupt.is_asked() {
            break;
        }
    }
    let text = match (arguments.json, &reports[..], subjects.len()) {
        (true, [report], 1) => report.to_json() + "\n",
        (true, reports, _) => {
            let objects: Vec<String> = reports.iter().map(ContentionReport::to_json).collect();
            format!("[{}]\n", objects.join(","))
        }
        (false, reports, _) => {
            let tables: Vec<String> = reports.iter().map(ContentionReport::table).collect();
            tables.join("\n")
        }
    };
    output::result(&text)?;
    let has_rows = reports.iter().any(|report| !report.rows.is_empty());
    if let Some(picture) = picture.filter(|_| has_rows) {
        picture.draw_chart(&chart(&reports))?;
    }
    Ok(if interrupt.is_asked() {
        Exit::Interrupted
    } else {
        Exit::Fine
    })
}

/// The rows: each server with each number of frames, a shared endpoint with the first.
fn points(arguments: &ContentionArguments) -> Result<Vec<Point>, Failure> {
    let mut clients: Vec<u16> = arguments
        .clients
        .iter()
        .flat_map(|it| it.numbers())
        .collect();
    if clients.is_empty() {
        clients = vec![1, 2, 3, 4, 6, 8, 9, 10, 12, 16, 20, 24];
    }
    let mut servers = arguments.servers.clone();
    if servers.is_empty() {
        servers = vec![ServerName::One, ServerName::St, ServerName::Mt];
    }
    let mut frames = arguments.frames.clone();
    if frames.is_empty() {
        frames = vec![8, 96];
    }
    let bytes = arguments.bytes_or(SMALL_BYTES)?;
    let seconds = arguments.seconds_or(1.0)?;
    let mut points = Vec::new();
    for server in servers {
        let server = match server {
            ServerName::One => ServerKind::One,
            ServerName::St => ServerKind::St,
            ServerName::Mt => ServerKind::Mt,
        };
        let needed = if server == ServerKind::One {
            1
        } else {
            frames.len()
        };
        for &frames in &frames[..needed] {
            points.extend(clients.iter().map(|&clients| Point {
                server,
                frames,
                bytes,
                clients,
                window: Duration::from_secs_f64(seconds),
            }));
        }
    }
    Ok(points)
}

/// What rows of simulated hosts have in common.
#[derive(Clone, Copy, Debug)]
struct With<'a> {
    faults: &'a [Fault],
    seed: Option<u64>,
    /// Whether it is told what links carry.
    links: bool,
}

/// Simulates the rows beside each other; none for those that Ctrl-C came before.
///
/// Frames beyond the server's endpoints stay empty and change nothing, so rows that differ in
/// nothing else are one simulation.
fn simulate_all(
    interface: &Interface,
    points: &[Point],
    with: With<'_>,
    interrupt: &Interrupt,
) -> Vec<Option<Result<ContentionRow, Failure>>> {
    let mut distinct: Vec<Point> = Vec::new();
    let numbers: Vec<usize> = points
        .iter()
        .map(|point| {
            let endpoints = match point.server {
                ServerKind::One => 1,
                ServerKind::St | ServerKind::Mt => point.clients,
            };
            let mut point = *point;
            point.frames = point.frames.min(endpoints);
            let known = distinct.iter().position(|it| *it == point);
            known.unwrap_or_else(|| {
                distinct.push(point);
                distinct.len() - 1
            })
        })
        .collect();
    let rows = all(&distinct, interrupt, |point| {
        simulated(interface, point, with)
    });
    let row = |(point, number): (&Point, &usize)| {
        let row = rows[*number].clone()?;
        let frames = u32::from(point.frames);
        let broken = |title| Failure::Broken {
            title,
            help: Some("this is an error of the simulator: please report it".to_owned()),
        };
        Some(
            row.map(|row| ContentionRow { frames, ..row })
                .map_err(broken),
        )
    };
    points.iter().zip(&numbers).map(row).collect()
}

/// The rows whose server is one thread.
fn of_one_thread(points: &[Point]) -> Vec<Point> {
    let mut points = points.to_vec();
    points.retain(|point| point.server != ServerKind::Mt);
    points
}

/// Measures rows beside each other; none for those that Ctrl-C came before or at.
fn all<T: Send>(
    points: &[Point],
    interrupt: &Interrupt,
    row: impl Fn(&Point) -> T + Sync,
) -> Vec<Option<T>> {
    // Rows take about as long as each other: dealt out one by one, the processors end together.
    let row = |point| (!interrupt.is_asked()).then(|| row(point));
    let rows = points.par_iter().with_max_len(1).map(row);
    rows.map(|row| row.filter(|_| !interrupt.is_asked()))
        .collect()
}

/// Hosts like these, so many of which ask, with what is to happen around them.
fn many(
    hosts: &Simulated,
    clients: u16,
    arguments: &MeasureArguments,
) -> Result<Simulated, Failure> {
    let mut hosts = hosts.with_clients(clients.into())?;
    disturb(&mut hosts, arguments)?;
    Ok(hosts)
}

/// Hosts of a cluster: those of the published one that take part, or more.
fn hosts(interface: &Interface, clients: u16) -> u32 {
    const PUBLISHED: u32 = 25;

    let there = interface.hosts_max();
    there
        .map_or(PUBLISHED, |hosts| hosts.min(PUBLISHED))
        .max(u32::from(clients) + 1)
}

/// A row, or what the observer's book says is wrong.
fn simulated(
    interface: &Interface,
    point: &Point,
    with: With<'_>,
) -> Result<ContentionRow, String> {
    let mut config = interface.config(hosts(interface, point.clients));
    config.frames = point.frames;
    config.faults.extend_from_slice(with.faults);
    config.seed = with.seed.unwrap_or(config.seed);
    config.watches_links = with.links;
    let server = match point.server {
        ServerKind::One => LanaiServer::One,
        ServerKind::St => LanaiServer::SingleThread,
        ServerKind::Mt => LanaiServer::MultiThread,
    };
    let time = |span: Duration| Time::from_seconds_f64(span.as_secs_f64());
    let (warm_up, window) = (time(point.warm_up()), time(point.window));
    let result = simulate(config, server, point.clients, point.bytes, warm_up, window);
    let each = || result.clients.iter().map(|client| client.messages_s);
    let seconds = window.seconds_f64();
    if let Some(wrong) = result
        .ends
        .as_ref()
        .and_then(|ends| ends.violations.first())
    {
        return Err(format!("with {} clients {wrong}", point.clients));
    }
    Ok(ContentionRow {
        server: point.server,
        frames: u32::from(point.frames),
        bytes: point.bytes,
        clients: u32::from(point.clients),
        messages_s: result.messages_s,
        mbyte_s: result.mbyte_s,
        client_min_s: each().fold(f64::INFINITY, f64::min),
        client_max_s: each().fold(0.0, f64::max),
        remaps_s: result.window.remaps as f64 / seconds,
        nacks_s: result.window.refusals as f64 / seconds,
        latency_us: LatencySummary::of_ns(&result.round_trips_ns),
        links: result
            .links
            .into_iter()
            .map(|its| LinkRow {
                link: its.link,
                packets: Some(its.packets),
                bytes: its.bytes,
                busy_fraction: its.busy.seconds_f64() / seconds,
                queue_max_bytes: None,
                frames_lost: None,
                frames_trimmed: None,
                frames_marked: None,
                pauses: None,
                paused_ps: None,
            })
            .collect(),
        ends: result.ends.map(|ends| RequestEnds {
            requests: ends.requests,
            replied: ends.replied,
            refused: ends.refused,
            unreachable: ends.unreachable,
            rebooted: ends.rebooted,
            unanswered: ends.unanswered,
            in_doubt: ends.in_doubt,
            forgotten: ends.forgotten,
            open: ends.open,
            late_replies: ends.late_replies,
        }),
    })
}

/// One line per set-up and fabric.
fn chart(reports: &[ContentionReport]) -> LineChart {
    let bytes = reports
        .iter()
        .find_map(|report| report.rows.first())
        .map_or(0, |row| row.bytes);
    let is_bulk = bytes > 64;
    let mut series: Vec<Series> = Vec::new();
    for report in reports {
        for row in &report.rows {
            let frames = match row.server {
                ServerKind::One => String::new(),
                ServerKind::St | ServerKind::Mt => format!(", {} frames", row.frames),
            };
            let fabric = if reports.len() > 1 {
                format!("{}: ", report.fabric)
            } else {
                String::new()
            };
            let name = format!("{fabric}{}{frames}", row.server.name());
            let value = if is_bulk { row.mbyte_s } else { row.messages_s };
            let point = (f64::from(row.clients), value);
            match series.iter_mut().find(|it| it.name == name) {
                Some(line) => line.points.push(point),
                None => series.push(Series {
                    name,
                    points: vec![point],
                }),
            }
        }
    }
    let fabrics: Vec<&str> = reports
        .iter()
        .map(|report| report.fabric.as_str())
        .collect();
    LineChart {
        title: format!(
            "contention over {}: requests of {bytes} bytes to one server",
            fabrics.join(" and ")
        ),
        x: Axis {
            title: "clients".to_owned(),
            scale: Scale::Linear,
            notation: Notation::Plain,
        },
        y: Axis {
            title: if is_bulk {
                "bandwidth, MB/s"
            } else {
                "requests answered/s"
            }
            .to_owned(),
            scale: Scale::Linear,
            notation: Notation::Plain,
        },
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_numbers_or_ranges_with_both_ends() {
        assert_eq!("1..24".parse(), Ok(Range(1, 24)));
        assert_eq!("1..=24".parse(), Ok(Range(1, 24)));
        assert_eq!("9".parse(), Ok(Range(9, 9)));
        for wrong in ["", "0", "0..4", "4..1", "1..65", "a", "1..", "..4"] {
            assert!(wrong.parse::<Range>().is_err(), "{wrong}");
        }
    }
}
