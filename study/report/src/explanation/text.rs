//! The text of `viaduct why`: the message, its stages, and for whom it waited.
//!
//! Times are in microseconds with all six decimals: what is added up here adds up to the
//! picosecond.

use comfy_table::{CellAlignment, Table};
use viaduct_cluster::why::{
    Account, Choice, Fate, MessageName, Overlap, PlaceUse, Wait, WayUse, Work,
};
use viaduct_cluster::workload::MessageOperation;
use viaduct_engine::Time;
use viaduct_hardware::Stage;
use viaduct_network::{PlaceWait, Sharing};
use viaduct_scenario::format_size;

use super::{Explained, ends, host_name};
use crate::figure::count;

use crate::screen::{indented, plain_table};
use crate::summary::tidy;

/// How many of those who shared a link or a bus longest are shown.
const SHOWN_A_PLACE: usize = 3;

/// Characters of a bar that stands for the whole.
const BAR_WIDTH: u64 = 20;

/// The explanation for a terminal. Ends with a line feed.
#[must_use]
pub fn explanation_text(explained: &Explained<'_>) -> String {
    let explanation = explained.explanation;
    let mut text = head(explained);
    match &explanation.fate {
        Fate::Delivered(account) => text += &account_text(explained, account),
        Fate::Dropped { cause, at } => {
            let (_, host) = explanation.message.hosts(explained.config.hosts.processes);
            let why = match *cause {
                "no_descriptor" => format!(
                    "no receive descriptor was posted (`hosts.prepost` is {})",
                    explained.config.hosts.prepost
                ),
                cause => cause.replace('_', " "),
            };
            text += &format!(
                "  dropped  at host {} after {} us, at {} s: {why}\n",
                host_name(explained.config, host),
                exact_us((*at - explanation.posted).picoseconds()),
                exact_s(at.picoseconds()),
            );
        }
        Fate::UnderWay {
            until,
            has_no_buffer,
        } => {
            let place = if *has_no_buffer {
                "it still waited for a send buffer"
            } else {
                "it was under way"
            };
            text += &format!(
                "  not delivered: {place} when the run ended, {} us later, at {} s\n",
                exact_us((*until - explanation.posted).picoseconds()),
                exact_s(until.picoseconds()),
            );
        }
    }
    text
}

fn head(explained: &Explained<'_>) -> String {
    let explanation = explained.explanation;
    let message = explanation.message;
    let measured = count(explanation.messages_measured);
    let choice = match explained.choice {
        Choice::Message(_) if explanation.is_measured => String::new(),
        Choice::Message(_) => ", posted during the warm-up".to_owned(),
        Choice::Slowest => format!(", the slowest of {measured} measured"),
        Choice::Quantile(quantile) => {
            format!(", at {} % of {measured} measured", tidy(quantile * 100.0))
        }
    };
    let operation = match message.operation {
        MessageOperation::Send => "",
        MessageOperation::Write => ", a remote write",
        MessageOperation::WriteWithImmediate => ", a remote write with immediate data",
        MessageOperation::Read => ", a remote read",
    };
    format!(
        "  message  {} of {} (numbered from 0){choice}\n  way      {}, {}{operation}, posted at {} s\n",
        message.number,
        count(explanation.messages_posted),
        ends(explained.config, message),
        format_size(u64::from(message.bytes)),
        exact_s(explanation.posted.picoseconds()),
    )
}

fn account_text(explained: &Explained<'_>, account: &Account) -> String {
    let (latency, floor) = (account.latency.picoseconds(), account.floor.picoseconds());
    let excess = latency.saturating_sub(floor);
    let because = match excess {
        0 => "as with nobody else there".to_owned(),
        excess => format!(
            "{} with nobody else there, {} because of others",
            exact_us(floor),
            exact_us(excess)
        ),
    };
    let mut text = format!("  latency  {} us: {because}\n\n", exact_us(latency));
    text += &stage_table(account);
    for wait in account
        .waits
        .iter()
        .filter(|wait| wait.stage < Stage::Queued)
    {
        text += &wait_text(explained, wait);
    }
    if account.way.queued.picoseconds() > 0 {
        text += &way_text(explained, &account.way);
    }
    for wait in account
        .waits
        .iter()
        .filter(|wait| wait.stage > Stage::Queued)
    {
        text += &wait_text(explained, wait);
    }
    text + &held_up_text(explained, account)
}

fn stage_table(account: &Account) -> String {
    let latency = account.latency.picoseconds();
    let header = ["stage", "time, us", "share", "", "alone, us", "others, us"];
    let mut table = plain_table(header.map(str::to_owned).to_vec());
    let difference = |time: u64, alone: u64| signed_us(time as i64 - alone as i64);
    for stage in &account.stages {
        let (time, alone) = (stage.time.picoseconds(), stage.alone.picoseconds());
        if time == 0 && alone == 0 {
            continue;
        }
        let share = time as f64 / latency.max(1) as f64;
        table.add_row(vec![
            stage.stage.name().replace('_', " "),
            exact_us(time),
            format!("{:.1} %", share * 100.0),
            bar(share),
            exact_us(alone),
            difference(time, alone),
        ]);
    }
    let floor = account.floor.picoseconds();
    table.add_row(vec![
        "latency".to_owned(),
        exact_us(latency),
        "100.0 %".to_owned(),
        String::new(),
        exact_us(floor),
        difference(latency, floor),
    ]);
    aligned(table, &[1, 2, 4, 5])
}

fn wait_text(explained: &Explained<'_>, wait: &Wait) -> String {
    let others = counted(wait.messages, "other message");
    let what = match wait.stage {
        Stage::Buffer => format!(
            "for one of the {} of its host, which {others} held",
            counted(
                u64::from(explained.config.hosts.send_buffers),
                "send buffer"
            ),
        ),
        Stage::SendQueue => format!("behind {others} of its host"),
        _ => format!("while the processor worked for {others}"),
    };
    let mut table = plain_table(OTHER_COLUMNS.map(str::to_owned).to_vec());
    for overlap in &wait.longest {
        table.add_row(explained.other(overlap));
    }
    let mut text = format!(
        "\n  {}: {} us {what}\n",
        wait.stage.name().replace('_', " "),
        exact_us(wait.time.picoseconds())
    );
    text += &aligned(table, &[1, 4]);
    if wait.messages > wait.longest.len() as u64 {
        text += "  (the longest)\n";
    }
    text
}

const OTHER_COLUMNS: [&str; 5] = ["for", "message", "way", "size", "us"];

fn way_text(explained: &Explained<'_>, way: &WayUse) -> String {
    let sharing = explained.config.links.sharing;
    let is_fluid = sharing == Sharing::Fluid;
    let mut text = format!(
        "\n  queued: its bytes moved for {} us, {} of them because others shared the way\n",
        exact_us(way.moving.picoseconds()),
        exact_us(way.queued.picoseconds()),
    );
    let columns = Columns::of(sharing, way);
    let mut table = plain_table(columns.header());
    for place in &way.places {
        table.add_row(columns.row(
            explained.place_name(place.place),
            [others(place), exact_us(place.shared.picoseconds())],
            place.lost.map(|lost| exact_us(lost.picoseconds())),
            place.queue.as_ref(),
        ));
        for overlap in place.longest.iter().take(SHOWN_A_PLACE) {
            let who = overlap.message.map_or_else(
                || "other devices".to_owned(),
                |message| explained.message(message),
            );
            let time = exact_us(overlap.time.picoseconds());
            table.add_row(columns.row(format!("  {who}"), [String::new(), time], None, None));
        }
    }
    let mut add = |what: &str, time: String| {
        let none = [String::new(), String::new()];
        table.add_row(columns.row(what.to_owned(), none, Some(time), None));
    };
    if let Some(beside) = &way.beside {
        let beside_places = [
            ("queues between switches", beside.elsewhere),
            ("held back by congestion control", beside.held_back),
            ("trimmed frames, until sent again", beside.sent_again),
            ("until messages before it had come", beside.in_order),
        ];
        for (what, time) in beside_places
            .into_iter()
            .filter(|(_, time)| *time > Time::ZERO)
        {
            add(what, exact_us(time.picoseconds()));
        }
    }
    if let Some(rest) = way.rest_picoseconds {
        if rest != 0 {
            let mut models = explained.config.host.values();
            let has_buses = models.any(|host| !host.bus.is_free());
            let name = match (is_fluid, has_buses) {
                (true, true) => "short transactions on the buses, rounding",
                (true, false) => "rounding",
                (false, _) if sharing == Sharing::Credits => {
                    "its own packets took less on that path"
                }
                (false, _) => "its own frames took less on that path",
            };
            add(name, signed_us(rest));
        }
        add("queued", exact_us(way.queued.picoseconds()));
    }
    text += &aligned(table, &[1, 2, 3, 4, 5, 6]);
    text += match sharing {
        Sharing::Fluid => {
            "  lost: while no place gave it less, the first of several; indented: those that shared \
             it longest\n"
        }
        Sharing::MaxMin => {
            "  indented: those that shared it longest; with this rule no place alone is to blame\n"
        }
        Sharing::Queues => {
            "  waited: what it took beyond what the places before it had taken; indented: those that \
             shared it longest\n"
        }
        Sharing::Packets | Sharing::Credits => {
            "  waited: how long its last byte was held up there; indented: those that shared it \
             longest\n"
        }
    };
    if explained.config.topology.spreads_frames() {
        text += "  between switches each of its frames took a way of its own\n";
    }
    text
}

/// The columns of the places on a way: those about frames only where they say something.
struct Columns {
    time: Option<&'static str>,
    paused: &'static str,
    has_pauses: bool,
    has_marked: bool,
    has_trimmed: bool,
}

impl Columns {
    fn of(sharing: Sharing, way: &WayUse) -> Self {
        let any = |says: fn(&PlaceWait) -> bool| {
            let mut queues = way.places.iter().filter_map(|place| place.queue.as_ref());
            queues.any(says)
        };
        Self {
            time: match (sharing, way.rest_picoseconds) {
                (Sharing::Fluid, _) => Some("lost, us"),
                (_, Some(_)) => Some("waited, us"),
                (_, None) => None,
            },
            paused: match sharing {
                Sharing::Credits => "no credits, us",
                _ => "paused, us",
            },
            has_pauses: any(|queue| queue.paused > Time::ZERO),
            has_marked: any(|queue| queue.marked > 0),
            has_trimmed: any(|queue| queue.trimmed > 0),
        }
    }

    fn header(&self) -> Vec<String> {
        let columns = [
            Some("where"),
            Some("others"),
            Some("shared, us"),
            self.time,
            self.has_pauses.then_some(self.paused),
            self.has_marked.then_some("marked"),
            self.has_trimmed.then_some("trimmed"),
        ];
        columns.into_iter().flatten().map(str::to_owned).collect()
    }

    fn row(
        &self,
        name: String,
        [others, shared]: [String; 2],
        time: Option<String>,
        queue: Option<&PlaceWait>,
    ) -> Vec<String> {
        let of_queue = |text: fn(&PlaceWait) -> String| queue.map(text).unwrap_or_default();
        let columns = [
            Some(name),
            Some(others),
            Some(shared),
            self.time.map(|_| time.unwrap_or_default()),
            self.has_pauses
                .then(|| of_queue(|it| exact_us(it.paused.picoseconds()))),
            self.has_marked
                .then(|| of_queue(|it| format!("{} of {}", it.marked, it.frames))),
            self.has_trimmed
                .then(|| of_queue(|it| format!("{} of {}", it.trimmed, it.frames))),
        ];
        columns.into_iter().flatten().collect()
    }
}

/// How many messages shared a place, and whether devices did.
fn others(place: &PlaceUse) -> String {
    match (place.messages, place.device_transfers) {
        (messages, 0) => count(messages),
        (0, transfers) => counted(transfers, "transfer"),
        (messages, transfers) => {
            format!("{} + {}", count(messages), counted(transfers, "transfer"))
        }
    }
}

/// Stages that are no waits and took longer than alone.
fn held_up_text(explained: &Explained<'_>, account: &Account) -> String {
    let waits = [
        Stage::Buffer,
        Stage::SenderProcessor,
        Stage::SendQueue,
        Stage::Queued,
        Stage::ReceiverProcessor,
    ];
    let held_up: Vec<Stage> = account
        .stages
        .iter()
        .filter(|stage| stage.time > stage.alone && !waits.contains(&stage.stage))
        .map(|stage| stage.stage)
        .collect();
    if held_up.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = held_up.iter().map(|stage| stage.name()).collect();
    let ahead = if held_up.contains(&Stage::Receive) {
        ", or was ahead at the receiving adapter"
    } else {
        ""
    };
    let gap = if names.len() > 2 { "\n  " } else { " " };
    let because = match explained.config.interfaces {
        None => format!("since somebody used the bus then{ahead}"),
        Some(_) => {
            "since a processor was slow, an interface or link busy, or it was sent again".to_owned()
        }
    };
    format!(
        "\n  {}: longer than alone,{gap}{because}\n",
        names.join(", ")
    )
}

impl Explained<'_> {
    fn message(&self, message: MessageName) -> String {
        format!(
            "{}: {}, {}",
            number_of(message),
            ends(self.config, message),
            format_size(u64::from(message.bytes))
        )
    }

    /// A row of those ahead.
    fn other(&self, overlap: &Overlap) -> Vec<String> {
        let work = match overlap.work {
            Work::Buffer => "holding a buffer",
            Work::Post => "posting",
            Work::Take => "taking what arrived",
            Work::Repost => "posting a receive again",
            Work::Descriptor => "reading a descriptor",
            Work::Move => "moving data of the same VI",
            Work::Acknowledge => "acknowledging",
        };
        let time = exact_us(overlap.time.picoseconds());
        let [number, ends, size] = overlap.message.map_or_else(
            || [String::new(), "other devices".to_owned(), String::new()],
            |message| {
                [
                    number_of(message),
                    ends(self.config, message),
                    format_size(u64::from(message.bytes)),
                ]
            },
        );
        vec![work.to_owned(), number, ends, size, time]
    }
}

/// A message's number; around programs the study's own are told apart from theirs.
pub(super) fn number_of(message: MessageName) -> String {
    match message.is_around {
        true => format!("study's {}", message.number),
        false => message.number.to_string(),
    }
}

pub(super) fn aligned(mut table: Table, numbers: &[usize]) -> String {
    for &column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    indented(&table)
}

pub(super) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A share of the whole, 0 to 1, as a bar.
pub(super) fn bar(share: f64) -> String {
    "#".repeat((share * BAR_WIDTH as f64 + 0.5) as usize)
}

/// Picoseconds as microseconds, to the last digit.
pub(super) fn exact_us(picoseconds: u64) -> String {
    format!(
        "{}.{:06}",
        count(picoseconds / 1_000_000),
        picoseconds % 1_000_000
    )
}

fn signed_us(picoseconds: i64) -> String {
    let sign = if picoseconds < 0 { "-" } else { "" };
    format!("{sign}{}", exact_us(picoseconds.unsigned_abs()))
}

/// Picoseconds as seconds, to the last digit that is not 0.
pub(super) fn exact_s(picoseconds: u64) -> String {
    let second = 1_000_000_000_000;
    let text = format!("{}.{:012}", picoseconds / second, picoseconds % second);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
